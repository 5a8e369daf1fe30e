"""Records of an episode (`episode.json`) and of a batch: what ran, how it went and whose fault any failure was.

Records are written strictly and read leniently (`records`), by `read_record`, `read_rows` and `read_summary`.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, overload

from pydantic import BaseModel, Field, PrivateAttr

from ..documents.records import OpenEnum, Record, SchemaVersion, is_empty, open_record, read_as, read_lines
from ..documents.seals import ED25519, Signature, Signer, seal_digest, sealed_bytes
from ..errors import EpisodeError, UsageError
from ..text.tables import Tabular, html_table, one_line
from .hook_record import HookRecord
from .layout import EpisodeLayout
from .model_use import ModelUse
from .outcome import EpisodeStatus, Exit, Fault, decisive
from .role_summary import RoleSummary
from .seat_behaviour import SeatBehaviour

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..documents.json_text import Source
    from ..text.tables import TableRow

__all__ = [
    "ROWS_NAME",
    "SEALED_RECORD",
    "SUMMARY_NAME",
    "ArtifactRecord",
    "BatchSummary",
    "EpisodeRecord",
    "EpisodeRow",
    "ImageRecord",
    "LeakRecord",
    "PhaseTiming",
    "PlayerFault",
    "PlayerSummary",
    "RecordingRecord",
    "SeatedPlayer",
    "SlotRecord",
    "SlotRow",
    "StarvationRecord",
    "UnitRecord",
    "WorkspaceRecord",
    "read_record",
    "read_rows",
    "read_summary",
]


_COLUMNS = ("coworld", "version", "backend", "run_id", "variant", "seed", "status", "ok", "seconds")
"""What `to_records` tells of an episode as a whole, besides its deciding fault."""
_LOG_END = 200
"""Characters of a log's last line that rows keep."""

SEALED_RECORD = "episode record"
"""What signatures of records begin with, as a kind of document."""
SUMMARY_NAME = "summary.json"
"""File name of a `BatchSummary`."""
_MOST_SUMMARY = 1 << 30
"""Bytes of a summary, which has a row for each episode."""
ROWS_NAME = "episodes.jsonl"
"""Name of the file that holds the `EpisodeRow` lines of a batch."""


class ImageRecord(Record):
    """The image a unit ran from."""

    image: str = Field(description="The reference as in the manifest.")
    digest: str = Field(
        default="",
        description="Content id of the image or file that ran; empty for a package's local processes.",
    )
    platform: str = Field(default="", description="os/architecture of the image.")
    emulated: bool = Field(default=False, description="Whether the platform differs from the machine's own.")


class UnitRecord(Record):
    """One program that ran."""

    image: ImageRecord = Field(description="The image it ran from.")
    run: tuple[str, ...] = Field(default=(), description="The command; empty for the image's own.")
    exit: Exit | None = Field(default=None, description="How it ended; null when it never ran.")
    started_seconds: float | None = Field(default=None, description="Seconds into the episode when started.")
    ended_seconds: float | None = Field(default=None, description="Seconds into the episode when it ended.")
    logs: tuple[str, ...] = Field(default=(), description="Its logs, relative to the workspace.")
    log_truncated: bool = Field(default=False, description="Whether a log reached its limit and was cut.")
    model_use: ModelUse | None = Field(
        default=None,
        exclude_if=is_empty,
        description="What it asked language models, and what that cost; left out: nothing that is known.",
    )


class SlotRecord(UnitRecord):
    """One seat and the player in it."""

    slot: int = Field(ge=0, description="The seat, from 0.")
    name: str = Field(default="", description="Display name.")
    player_id: str | None = Field(default=None, description="The bundled player's id, if it was one.")
    human: bool = Field(default=False, description="Whether the seat was left to a person in a browser.")
    controller: str = Field(
        default="",
        description="What played in it: human, bundled, image, file, random, llm or recording; empty: not recorded.",
    )
    connected: bool | None = Field(
        default=None, description="Whether it was seen to connect to the game; null: that could not be seen."
    )
    player_version: str = Field(
        default="",
        exclude_if=is_empty,
        description="Its version in a registry of players, such as bot:v3; left out if it is of none.",
    )
    source: str = Field(
        default="",
        exclude_if=is_empty,
        description="Its file on the machine that played the episode; left out if it is not a file.",
    )
    artifact: str | None = Field(default=None, description="The zip that the player left, relative to the workspace.")
    secret_env: tuple[str, ...] = Field(default=(), description="Names, never values, of the secrets it was given.")


class SeatedPlayer(Record):
    """The player in a seat. `str()` gives the name, with the id in brackets if it differs: `Ada (ada-7)`."""

    name: str = Field(default="", description="Display name.")
    player_id: str | None = Field(default=None, description="The bundled player's id, if it is one.")

    def __str__(self) -> str:
        return f"{self.name} ({self.player_id})" if self.player_id not in (None, self.name) else self.name


class PhaseTiming(Record):
    """How long a phase took."""

    phase: str = Field(description="Name of the phase.")
    seconds: float = Field(ge=0, description="Wall time in seconds.")


class ArtifactRecord(Record):
    """One file of the workspace."""

    path: str = Field(description="Path relative to the workspace.")
    size: int = Field(ge=0, description="Size in bytes.")
    sha256: str = Field(description="Hex digest of the content.")


class LeakRecord(Record):
    """Something that could not be removed when the episode ended."""

    what: str = Field(description="Its kind and name.")
    reason: str = Field(description="Why it could not be removed.")


class RecordingRecord(Record):
    """What was recorded of the episode while it was played, and whether all of it is there."""

    kind: Annotated[Literal["samples", "frames"], OpenEnum] = Field(description="samples or frames.")
    path: str | None = Field(default=None, description="The file, relative to the workspace; null: there is none.")
    count: int = Field(default=0, ge=0, description="Number of samples or frames in it.")
    complete: bool = Field(default=False, description="Whether everything up to the end of the game is in it.")
    last_tick: int | None = Field(default=None, description="The newest tick in it; null: none is known.")
    reason: str = Field(default="", description="Why it is not complete; empty if it is.")
    out_of_sync: tuple[int, ...] = Field(
        default=(), description="Seats whose ticks do not match those of the others, as far as the file goes."
    )


class StarvationRecord(Record):
    """Whether the units got the processor time they needed, soon enough for the game."""

    starved: bool = Field(description="Whether units waited for a processor for longer than the threshold.")
    waited_share: float = Field(
        ge=0,
        description="Share of the time to spare in one tick that a player and the game waited for a processor, at its "
        "largest. Without a tick: share of the play during which any process on the machine waited.",
    )
    threshold: float = Field(ge=0, description="The share from which an episode counts as starved.")
    starved_by: tuple[int, ...] = Field(
        default=(), description="Slots of the players that ran on more than one processor at that time."
    )
    source: str = Field(description="Source of the figures, e.g. the kernel's pressure or scheduler statistics.")
    unit: str | None = Field(default=None, description="The player that waited for that share; null: none, or unknown.")
    tick_seconds: float | None = Field(
        default=None, gt=0, description="Seconds within which the game is assumed to need its players' answers."
    )

    @property
    def description(self) -> str:
        """Which units waited and for how long, as the start of a sentence."""
        share = f"{self.waited_share:.0%}"
        if self.tick_seconds is None:
            return f"The machine was short of processors for {share} of the time of play"
        who = f"{self.unit} and the game" if self.unit is not None else "The units"
        return (
            f"The machine was short of processors: {who} waited for one for {share} of the time they had to spare in "
            f"{self.tick_seconds:g} s"
        )


class WorkspaceRecord(Record):
    """A record that knows the directory of its files.

    The directory is not written, and records are equal wherever they were read.
    """

    _workspace: Path | None = PrivateAttr(default=None)

    def in_workspace(self, directory: Path | None) -> Self:
        """A copy that finds its files in a directory; None: that has none."""
        found = self.model_copy()
        found._workspace = directory.absolute() if directory is not None else None
        return found

    def read_from(self, source: Source) -> Self:
        """A copy that finds its files beside itself, if it was read from a path."""
        if isinstance(source, Mapping | bytes):
            return self
        path = Path(source)
        return self.in_workspace(path if path.is_dir() else path.parent)

    @property
    def workspace(self) -> Path | None:
        """The directory of its files; None if it was not read from a path."""
        return self._workspace

    @property
    def layout(self) -> EpisodeLayout:
        """The paths of its files, of which some may not exist.

        Raises:
            UsageError: Code `workspace_unknown` if the record does not know its workspace.
        """
        if self._workspace is None:
            raise UsageError(
                "This record was not read from a file, so the files beside it are unknown.",
                code="workspace_unknown",
                hint="Read it from its directory.",
            )
        return EpisodeLayout(self._workspace)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WorkspaceRecord):
            return NotImplemented
        return BaseModel.__eq__(self.in_workspace(None), other.in_workspace(None))


class EpisodeRecord(WorkspaceRecord, Tabular):
    """The record of an episode: what ran, how it went and whose fault any failure was. It is always written.

    A record that `run_episode` returned, or that was read from a file, knows its `workspace`, and so the episode's
    logs and replay. The workspace is not written, and records are equal wherever they were read.
    """

    schema_version: SchemaVersion = Field(default=1, description="Version of this record's shape.")
    run_id: str = Field(description="The run's label, which everything it created carries.")
    coworld: str = Field(description="Name of the Coworld.")
    version: str = Field(description="Version of the Coworld.")
    manifest: str = Field(default="", description="The source of the manifest.")
    manifest_sha256: str = Field(default="", description="Digest of the manifest in canonical form.")
    backend: str = Field(description="Name of the backend.")
    variant: str = Field(description="Variant id, or certification, or episode-request.")
    seed: int | None = Field(default=None, description="Integer seed in the game config, if it has one.")
    player_secret: str = Field(
        default="",
        exclude_if=is_empty,
        repr=False,
        description="Secret from which, with the seed, the players' seeds were derived; left out: from the seed alone.",
    )
    game_config: dict[str, Any] = Field(default_factory=dict, description="The config that ran, without tokens.")
    episode_tags: dict[str, str] = Field(
        default_factory=dict, description="Its labels when it began, those of the request among them."
    )
    hooks: tuple[HookRecord, ...] = Field(
        default=(), exclude_if=is_empty, description="The hooks that its plan went through, in order."
    )
    started_at: dt.datetime = Field(description="When it began (UTC).")
    ended_at: dt.datetime = Field(description="When it ended (UTC).")
    seconds: float = Field(ge=0, description="Wall time from beginning to end.")
    status: EpisodeStatus = Field(description="completed, failed or interrupted.")
    scores: tuple[float, ...] = Field(default=(), description="Scores by slot, when there are valid results.")
    results: dict[str, Any] | None = Field(default=None, description="The game's results, when valid.")
    faults: tuple[Fault, ...] = Field(default=(), description="What went wrong, in the order it was detected.")
    warnings: tuple[str, ...] = Field(default=(), description="Remarks for readers that are not faults.")
    game: UnitRecord | None = Field(default=None, description="The game.")
    slots: tuple[SlotRecord, ...] = Field(default=(), description="The seats, by slot.")
    phases: tuple[PhaseTiming, ...] = Field(default=(), description="How long each phase took.")
    artifacts: tuple[ArtifactRecord, ...] = Field(default=(), description="The files of this run, with digests.")
    starvation: StarvationRecord | None = Field(
        default=None, description="Whether the machine was short of processors; null: unknown."
    )
    recording: RecordingRecord | None = Field(
        default=None, description="What was recorded while it was played; null: nothing was asked for."
    )
    over_seconds: float | None = Field(
        default=None, description="Seconds into the episode when the game was over; null if it never was."
    )
    leaks: tuple[LeakRecord, ...] = Field(default=(), description="What could not be removed.")
    versions: dict[str, str] = Field(default_factory=dict, description="Versions of coworld, Python and the engine.")
    roles: tuple[RoleSummary, ...] = Field(
        default=(), description="What the roles said that were asked for with it; none of it changes its outcome."
    )
    digest: str = Field(
        default="",
        exclude_if=is_empty,
        description="sha256:… over all fields but this one and `signature`, in canonical JSON; empty in older ones.",
    )
    signature: Signature | None = Field(default=None, exclude_if=is_empty, description="Left out: it is not signed.")

    def sealed(self) -> Self:
        """The record with its digest; a signature stays only if it is what was signed."""
        digest = seal_digest(json.loads(super().to_document()), "digest")
        return self if digest == self.digest else self.model_copy(update={"digest": digest, "signature": None})

    def to_document(self) -> bytes:
        """The content of its file, with its digest."""
        return Record.to_document(self.sealed())

    def signed_by(self, signer: Signer) -> Self:
        """A copy with its digest and a signature."""
        value: dict[str, Any] = json.loads(self.to_document())
        signature = Signature(
            algorithm=ED25519,
            public_key=signer.public_key.hex(),
            value=signer.sign(sealed_bytes(SEALED_RECORD, value, "digest")).hex(),
        )
        return self.model_copy(update={"digest": value["digest"], "signature": signature})

    def player_faults(self, *, acted: Collection[int] = ()) -> tuple[PlayerFault, ...]:
        """How players failed, by slot: the first fault of each.

        Args:
            acted: Slots whose players have acted: a connection may be too short to be seen, but these were there.
        """
        first: dict[int, Fault] = {}
        for fault in self.faults:
            if fault.party == "player" and fault.slot is not None:
                first.setdefault(fault.slot, fault)
        connected: dict[int, bool | None] = {slot.slot: slot.connected for slot in self.slots}
        connected |= dict.fromkeys(acted, True)
        return tuple(PlayerFault.of(fault, slot=slot, connected=connected.get(slot)) for slot, fault in first.items())

    @property
    def replay(self) -> Path:
        """The replay.

        Raises:
            UsageError: Code `workspace_unknown`, or `file_not_found` if there is none.
        """
        return _existing(self.layout.replay)

    @property
    def game_log(self) -> str:
        """What the game wrote to its standard output, and then to its standard error.

        Raises:
            UsageError: Code `workspace_unknown`, or `file_not_found` if there is no log.
        """
        return _text(self.layout.game_stdout) + _text(self.layout.game_stderr)

    def player_log(self, slot: int) -> str:
        """What the player in a slot wrote to its standard output and error.

        Raises:
            UsageError: Code `workspace_unknown`, or `file_not_found` if there is no log, as for a person.
        """
        return _text(self.layout.player_log(slot))

    @property
    def ok(self) -> bool:
        """Whether the episode completed without a fault."""
        return self.status == "completed" and not self.faults

    @property
    def about(self) -> tuple[str, ...]:
        """What was played and where, in a few words that displays show beside the scores."""
        seed = f"seed {self.seed}" if self.seed is not None else ""
        return tuple(filter(None, (self.variant, seed, self.backend)))

    @property
    def model_use(self) -> ModelUse | None:
        """What the game and all seats asked language models; None: nothing that is known."""
        used = [unit.model_use for unit in (self.game, *self.slots) if unit is not None and unit.model_use is not None]
        return functools.reduce(ModelUse.plus, used) if used else None

    @property
    def fault(self) -> Fault | None:
        """The deciding fault, or None. Usually the first; see `decisive` for the order."""
        return decisive(self.faults)

    def raise_for_fault(self) -> EpisodeRecord:
        """Return the record if it is `ok`.

        Raises:
            EpisodeError: It is not; the error has the message and, as its code, the type of the deciding fault.
        """
        if self.ok:
            return self
        fault = self.fault
        if fault is None:
            raise EpisodeError(f"The episode was {self.status}.", context={"run_id": self.run_id})
        raise EpisodeError(
            fault.message,
            code=fault.error_type,
            hint=fault.hint,
            context={"run_id": self.run_id, "party": fault.party, "slot": fault.slot},
        )

    def to_records(self) -> list[TableRow]:
        """The episode as flat rows, one per seat, for a data frame.

        Returns:
            Rows with the keys `coworld`, `version`, `backend`, `run_id`, `variant`, `seed`, `status`,
            `ok`, `seconds`; `error_type`, `party`, `fault_slot` and `message` of the
            deciding fault, or None; `slot`, `player` (its name), `player_id`, `image`, `digest` and
            `score`. An episode without seats has one row, in which the last six are None.
        """
        fault = self.fault
        common: TableRow = {
            **{name: getattr(self, name) for name in _COLUMNS},
            "error_type": fault.error_type if fault else None,
            "party": fault.party if fault else None,
            "fault_slot": fault.slot if fault else None,
            "message": fault.message if fault else None,
        }
        seats = [
            SlotRow(name=seat.name, player_id=seat.player_id, image=seat.image.image, digest=seat.image.digest)
            for seat in self.slots
        ]
        return _by_slot(common, seats, self.scores)

    def __str__(self) -> str:
        blame = f", {self.fault}" if self.fault else ""
        return one_line(f"{self.coworld} {self.variant!r}: {self.status} [{_figures(self.scores)}]{blame}")

    def __repr__(self) -> str:
        return f"<EpisodeRecord {self}>"

    def _repr_html_(self) -> str:
        rows: list[TableRow] = [
            {
                "slot": seat.slot,
                "player": seat.name,
                "score": self.scores[slot] if slot < len(self.scores) else None,
                "ended": str(seat.exit) if seat.exit else None,
            }
            for slot, seat in enumerate(self.slots)
        ]
        return html_table(str(self), rows, notes=[" · ".join(self.about), *map(str, self.faults), *self.warnings])


class BatchSummary(Record, Tabular):
    """Several episodes of one Coworld (`summary.json`)."""

    schema_version: SchemaVersion = Field(default=1, description="Version of this summary's shape.")
    coworld: str = Field(description="Name of the Coworld.")
    version: str = Field(description="Version of the Coworld.")
    backend: str = Field(description="Name of the backend.")
    variant: str = Field(description="Variant id, or certification, or episode-request; of several, their ids.")
    config_changes: dict[str, Any] = Field(
        default_factory=dict, exclude_if=is_empty, description="Changes to the game config of the variant."
    )
    status: EpisodeStatus = Field(description="completed: every episode completed; interrupted: cut short.")
    planned: int = Field(ge=1, description="Number of episodes requested.")
    completed: int = Field(ge=0, description="Number of episodes with valid results.")
    faulted: int = Field(ge=0, description="Number of episodes with a fault.")
    seconds: float = Field(ge=0, description="Wall time of the whole batch.")
    mean_scores: tuple[float, ...] = Field(default=(), description="Mean score by slot over completed episodes.")
    players: tuple[PlayerSummary, ...] = Field(
        default=(), description="One row per player, over all its seats, in the order of their first seats."
    )
    episodes: tuple[EpisodeRow, ...] = Field(default=(), description="One row per episode, by index.")

    @property
    def ok(self) -> bool:
        """Whether every planned episode completed without a fault."""
        return self.completed == self.planned and self.faulted == 0

    def __len__(self) -> int:
        return len(self.episodes)

    def __bool__(self) -> bool:
        return True  # Even when it has no episodes

    @overload
    def __getitem__(self, index: int) -> EpisodeRow: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[EpisodeRow, ...]: ...
    def __getitem__(self, index: int | slice) -> EpisodeRow | tuple[EpisodeRow, ...]:
        return self.episodes[index]

    # Iterate over the episodes, to match len() and indexing, rather than over (field, value) pairs
    def __iter__(self) -> Iterator[EpisodeRow]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return iter(self.episodes)

    def to_records(self) -> list[TableRow]:
        """The episodes as flat rows, one per seat of each episode, for a data frame.

        Returns:
            Rows with the keys `coworld`, `version` and `backend`, and those of `EpisodeRow.to_records`.
        """
        common: TableRow = {"coworld": self.coworld, "version": self.version, "backend": self.backend}
        return [{**common, **row} for episode in self.episodes for row in episode.to_records()]

    def __str__(self) -> str:
        faults = f", {self.faulted} with faults" if self.faulted else ""
        return one_line(
            f"{self.coworld} {self.variant!r}: {self.status}, {self.completed} of {self.planned} episodes{faults} "
            f"[{_figures(self.mean_scores)}]"
        )

    def __repr__(self) -> str:
        return f"<BatchSummary {self}>"

    def _repr_html_(self) -> str:
        rows: list[TableRow] = [
            {
                "episode": row.index,
                "status": row.status,
                "scores": _figures(row.scores),
                "seconds": row.seconds,
                "message": row.message,
            }
            for row in self.episodes
        ]
        return html_table(str(self), rows)


class PlayerSummary(SeatedPlayer):
    """How one player did in several episodes, in all its seats."""

    image: str = Field(default="", description="The image it runs from; empty for a person.")
    slots: tuple[int, ...] = Field(default=(), description="The slots it played in.")
    episodes: int = Field(ge=0, description="Number of episodes with valid results that it played.")
    mean_score: float | None = Field(
        default=None, description="Mean score over those episodes and its seats in them; null if there are none."
    )


class SlotRow(SeatedPlayer):
    """The player in a seat, and the image it ran from."""

    image: str = Field(default="", description="The image; empty for a person.")
    digest: str = Field(default="", description="Content id of what ran; empty for people and local processes.")
    player_version: str = Field(
        default="",
        exclude_if=is_empty,
        description="Its version in a registry of players, such as bot:v3; left out if it is of none.",
    )
    follows: str = Field(
        default="",
        exclude_if=is_empty,
        description="What was named, if each episode plays the newest version: bot:latest; left out otherwise.",
    )
    model_use: ModelUse | None = Field(
        default=None, exclude_if=is_empty, description="What its language model was asked; left out: it has none."
    )


class PlayerFault(Record):
    """How a player failed in an episode."""

    slot: int = Field(ge=0, description="Its slot.")
    error_type: str = Field(default="player_error", description="Type of its first fault.")
    message: str = Field(default="", description="That fault in a sentence.")
    connected: bool | None = Field(default=None, description="Whether it had ever connected; null: unknown.")
    log: str = Field(default="", description="Its log, relative to the episode's directory; empty: unknown.")
    log_end: str = Field(default="", description="The last line of that log, shortened: its exception, for example.")

    @classmethod
    def of(cls, fault: Fault, *, slot: int, connected: bool | None) -> PlayerFault:
        """The first fault of a slot, as rows have it."""
        lines = fault.log_tail.split("\n")
        return cls(
            slot=slot,
            error_type=fault.error_type,
            message=fault.message,
            connected=connected,
            log=fault.log or "",
            log_end=next((line.strip()[:_LOG_END] for line in reversed(lines) if line.strip()), ""),
        )

    @property
    def away(self) -> bool:
        """Whether it is known never to have connected."""
        return self.error_type == "player_never_started" or self.connected is False


class EpisodeRow(Record, Tabular):
    """One of many episodes: a line of `episodes.jsonl`, and a row of a summary."""

    index: int = Field(ge=1, description="Number of the episode, from 1, in the order requested.")
    key: str = Field(default="", description="Key that identifies it among the others; empty in older summaries.")
    earlier: int = Field(
        default=0,
        ge=0,
        exclude_if=is_empty,
        description="How many attempts at it were lost before, each with a row of its own; the last row counts.",
    )
    run_id: str = Field(description="Its run label.")
    workspace: str = Field(
        description="Its directory, relative to the batch's directory; empty if only this row is kept of it."
    )
    variant: str = Field(default="", description="Variant id, or certification, or episode-request.")
    config_changes: dict[str, Any] = Field(
        default_factory=dict, exclude_if=is_empty, description="Changes to the game config of that variant."
    )
    seed: int | None = Field(default=None, description="Its seed, if the config has an integer one.")
    episode_tags: dict[str, str] = Field(
        default_factory=dict,
        exclude_if=is_empty,
        description="Its labels when it began; left out if there are none.",
    )
    hooks: tuple[HookRecord, ...] = Field(
        default=(), exclude_if=is_empty, description="The hooks that its plan went through, in order."
    )
    planned: str = Field(
        default="", exclude_if=is_empty, description="Digest of what was planned before hooks changed it."
    )
    status: EpisodeStatus = Field(description="How it ended.")
    ok: bool = Field(description="Whether it ended without a fault.")
    slots: tuple[SlotRow, ...] = Field(default=(), description="The players, by slot.")
    scores: tuple[float, ...] = Field(default=(), description="Scores by slot.")
    seconds: float = Field(ge=0, description="How long it took.")
    phases: tuple[PhaseTiming, ...] = Field(default=(), description="How long each phase took.")
    starved: bool | None = Field(
        default=None, description="Whether the machine was short of processors; null: unknown."
    )
    starved_by: tuple[int, ...] = Field(
        default=(), description="Slots of the players whose own processes took the processors, if any did."
    )
    error_type: str | None = Field(default=None, description="Type of the deciding fault, if any.")
    party: str | None = Field(default=None, description="Whose fault it was, if any.")
    fault_slot: int | None = Field(default=None, description="Slot of the player at fault, if it was a player.")
    message: str | None = Field(default=None, description="The deciding fault in a sentence.")
    player_faults: tuple[PlayerFault, ...] = Field(
        default=(), description="Every player at fault, with its first fault; empty in older rows."
    )
    replay_sha256: str = Field(default="", description="SHA-256 of its replay, in hex; empty if there is none.")
    conduct: tuple[SeatBehaviour, ...] = Field(
        default=(), description="What each seat did, by slot, if the game's events tell."
    )

    results: dict[str, Any] | None = Field(
        default=None, description="The game's results, if the row is all that is kept of the episode."
    )

    @property
    def failed_players(self) -> tuple[PlayerFault, ...]:
        """Every player at fault; in older rows, the one whose fault decides."""
        if self.player_faults or self.party != "player" or self.fault_slot is None:
            return self.player_faults
        error_type, message = self.error_type or "player_error", self.message or ""
        return (PlayerFault(slot=self.fault_slot, error_type=error_type, message=message),)

    def to_records(self) -> list[TableRow]:
        """The episode as flat rows, one per seat, for a data frame.

        Returns:
            Rows with the keys `index`, `key`, `workspace`, `run_id`, `variant`, `seed`, `status`, `ok`,
            `seconds`, `error_type`, `party`, `fault_slot`, `message`, `slot`, `player`, `player_id`,
            `image`, `digest` and `score`; all but the first three as in `EpisodeRecord.to_records`.
        """
        common: TableRow = {
            "index": self.index,
            "key": self.key,
            "workspace": self.workspace,
            "run_id": self.run_id,
            "variant": self.variant,
            "seed": self.seed,
            "status": self.status,
            "ok": self.ok,
            "seconds": self.seconds,
            "error_type": self.error_type,
            "party": self.party,
            "fault_slot": self.fault_slot,
            "message": self.message,
        }
        return _by_slot(common, self.slots, self.scores)


def _by_slot(common: TableRow, seats: Sequence[SlotRow], scores: Sequence[float]) -> list[TableRow]:
    """One row per seat: the common columns, then those of the seat."""
    nobody: TableRow = dict.fromkeys(("slot", "player", "player_id", "image", "digest", "score"))
    return [
        {
            **common,
            "slot": slot,
            "player": seats[slot].name if slot < len(seats) else None,
            "player_id": seats[slot].player_id if slot < len(seats) else None,
            "image": seats[slot].image if slot < len(seats) else None,
            "digest": seats[slot].digest if slot < len(seats) else None,
            "score": scores[slot] if slot < len(scores) else None,
        }
        # Rows of older versions do not list the seats
        for slot in range(max(len(seats), len(scores)))
    ] or [{**common, **nobody}]


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise UsageError(f"There is no file {path}.", code="file_not_found")
    return path


def _text(path: Path) -> str:
    return _existing(path).read_text(encoding="utf-8", errors="replace")


def _figures(scores: Sequence[float]) -> str:
    return ", ".join(f"{score:g}" for score in scores)


def read_record(source: Source) -> EpisodeRecord:
    """Read the record of an episode, written by any version.

    Args:
        source: The path of an `episode.json` or of the directory that holds it, its content as bytes, or the JSON as
            a Python value.

    Returns:
        The record. It keeps fields that only another version knows, and writes them back unchanged. If it was read from
        a path, it knows the episode's other files too.

    Raises:
        RecordError: It is not such a record, or lacks a required field.
        UsageError: The file does not exist or cannot be read.
    """
    what = "episode record"
    record = read_as(EpisodeRecord, open_record(source, what=what, name="episode.json"), what=what)
    return record.read_from(source)


def last_attempts(rows: Iterable[EpisodeRow]) -> list[EpisodeRow]:
    """Return the row that counts of each episode, by their numbers: the last."""
    return sorted({row.key or row.run_id: row for row in rows}.values(), key=lambda row: row.index)


def read_rows(source: Path | str | bytes) -> Iterator[EpisodeRow]:
    """Read the rows of many episodes one by one, written by any version.

    Skips an incomplete last line, which a run leaves when it is killed or still going.

    Args:
        source: The path of an `episodes.jsonl` or of the directory that holds it, or its content as bytes.

    Raises:
        RecordError: A line is not a row, or lacks a required field; the error has its number.
        UsageError: The file does not exist or cannot be read.
    """
    for document in read_lines(source, what="rows", name=ROWS_NAME):
        yield read_as(EpisodeRow, document, what="episode row")


def read_summary(source: Source) -> BatchSummary:
    """Read the summary of several episodes, as `read_record` reads the record of one.

    Args:
        source: The path of a `summary.json` or of the directory that holds it, its content as bytes, or the JSON as a
            Python value.

    Raises:
        RecordError: It is not such a record, or lacks a required field.
        UsageError: The file does not exist or cannot be read.
    """
    what = "batch summary"
    return read_as(BatchSummary, open_record(source, what=what, name=SUMMARY_NAME, most=_MOST_SUMMARY), what=what)
