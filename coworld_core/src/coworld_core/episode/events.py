"""The events of a run, as typed and numbered values.

Events are data, not display: a progress bar, a table, an NDJSON log and a notebook all read the same stream. `seq`
counts from 1 within a run without gaps, so a reader that was disconnected resumes from the last number it saw.

Each event has a `kind`. `read_events` reads a log and `parse_event` one line, written by any version. Unknown
kinds become `UnknownEvent`, which keeps all fields.
"""

# No annotations from __future__: pydantic would compile each of them, which takes time whenever a game starts

import contextlib
import datetime as dt
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

from pydantic import Field

from ..documents.records import OpenEnum, Record, parse_record, read_as, read_lines
from ..errors import RecordError
from ..files.regular import regular_lines
from ..issues import HintCode, Hinted, HintValues
from .outcome import EpisodeStatus, Exit, Fault
from .role_summary import Role

if TYPE_CHECKING:
    from ..documents.json_text import JsonDocument

__all__ = [
    "ArtifactCollected",
    "BaseEvent",
    "BatchProgressed",
    "EvaluationProgressed",
    "Event",
    "FaultSeen",
    "GameProgressed",
    "ImageProgressed",
    "ImageReady",
    "LeakFound",
    "LogTruncated",
    "Notice",
    "PhaseFinished",
    "PhaseStarted",
    "ProbeFinished",
    "RoleFinished",
    "RoleProgressed",
    "RoleStarted",
    "RunFinished",
    "RunStarted",
    "StepFinished",
    "StepStarted",
    "UnitCreated",
    "UnitExited",
    "UnitReady",
    "UnitStarted",
    "UnknownEvent",
    "parse_event",
    "read_events",
    "read_starts",
]

_STARTED = b'"kind":"run_started"'
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class BaseEvent(Record):
    """The fields of all events; the bus fills them in when an event is published."""

    seq: int = Field(default=0, ge=0, description="Number of the event within its run, from 1, without gaps.")
    time: dt.datetime = Field(default=_EPOCH, description="When it was published (UTC).")
    run_id: str = Field(default="", description="The run it belongs to.")


class _UnitEvent(BaseEvent):
    unit: str = Field(description="Name of the unit: game, player-0, replay, ...")
    component: str = Field(
        default="", description="Its role in the run: game, player, replay, ...; empty in older logs."
    )
    slot: int | None = Field(default=None, description="The slot, for a player.")


class RunStarted(BaseEvent):
    """A run began."""

    kind: Literal["run_started"] = "run_started"
    what: Annotated[
        Literal["episode", "play", "replay", "certification", "batch", "build", "improvement"], OpenEnum
    ] = Field(description="Kind of run.")
    coworld: str = Field(default="", description="Name of the Coworld.")
    version: str = Field(default="", description="Version of the Coworld.")
    backend: str = Field(default="", description="Name of the backend.")
    variant: str = Field(default="", description="Variant id, or certification, or episode-request.")
    players: tuple[str, ...] = Field(default=(), description="Names of the players, by slot.")
    player_ids: tuple[str | None, ...] = Field(
        default=(), description="Ids of the bundled players, by slot; null for other players."
    )
    workspace: str = Field(default="", description="The directory for the run's files.")
    pid: int | None = Field(
        default=None, description="Number of the process that plays it, in its own container; null in older logs."
    )
    process_start: float | None = Field(
        default=None,
        description="Seconds from the start of the machine to that of this process, by which another one with its "
        "number is told from it; null: unknown.",
    )


class PhaseStarted(BaseEvent):
    """A phase of an episode began."""

    kind: Literal["phase_started"] = "phase_started"
    phase: str = Field(description="prepare, start_game, ready, start_players, play, finish, collect, ...")


class PhaseFinished(BaseEvent):
    """A phase of an episode ended."""

    kind: Literal["phase_finished"] = "phase_finished"
    phase: str = Field(description="The phase.")
    seconds: float = Field(ge=0, description="How long it took.")


class ImageProgressed(BaseEvent):
    """An image is being fetched or built."""

    kind: Literal["image_progressed"] = "image_progressed"
    image: str = Field(description="The image.")
    status: str = Field(description="The engine's own words.")
    done: int | None = Field(default=None, description="Bytes so far, if known.")
    total: int | None = Field(default=None, description="Bytes in total, if known.")


class ImageReady(BaseEvent):
    """An image is present."""

    kind: Literal["image_ready"] = "image_ready"
    image: str = Field(description="The image as requested.")
    digest: str = Field(default="", description="Its content id.")
    platform: str = Field(default="", description="os/architecture.")


class UnitCreated(_UnitEvent):
    """A unit was created but does not run yet."""

    kind: Literal["unit_created"] = "unit_created"


class UnitStarted(_UnitEvent):
    """A unit was started."""

    kind: Literal["unit_started"] = "unit_started"


class UnitReady(_UnitEvent):
    """A unit answers its readiness probe."""

    kind: Literal["unit_ready"] = "unit_ready"
    seconds: float = Field(ge=0, description="Seconds since it was started.")


class UnitExited(_UnitEvent):
    """A unit ended."""

    kind: Literal["unit_exited"] = "unit_exited"
    exit: Exit = Field(description="How it ended.")


class LogTruncated(_UnitEvent):
    """A unit wrote more than its log may hold; the rest is dropped."""

    kind: Literal["log_truncated"] = "log_truncated"
    limit_bytes: int = Field(description="Maximum size of the log in bytes.")


class ProbeFinished(BaseEvent):
    """One check of the runtime contract was made."""

    kind: Literal["probe_finished"] = "probe_finished"
    probe: str = Field(description="Identifier of the check.")
    ok: bool = Field(description="Whether it passed.")
    detail: str = Field(default="", description="What was observed.")
    counts: bool = Field(
        default=True,
        description="Whether it says something about the game; false if the game was over before the check.",
    )


class GameProgressed(BaseEvent):
    """The game's progress, from its public viewer stream."""

    kind: Literal["game_progressed"] = "game_progressed"
    tick: int | None = Field(default=None, description="Ticks played.")
    max_ticks: int | None = Field(default=None, description="Ticks in total.")
    scores: tuple[float, ...] = Field(default=(), description="Scores by slot, if the stream has them.")
    starts_in: float | None = Field(
        default=None, description="Seconds until the first tick, while the game counts down for people."
    )


class ArtifactCollected(BaseEvent):
    """A file was copied into the workspace."""

    kind: Literal["artifact_collected"] = "artifact_collected"
    name: str = Field(description="Path relative to the workspace.")
    size: int = Field(ge=0, description="Size in bytes.")


class FaultSeen(BaseEvent):
    """A fault was detected."""

    kind: Literal["fault_seen"] = "fault_seen"
    fault: Fault = Field(description="The fault.")


class Notice(BaseEvent, Hinted):
    """A message for people that is not a fault."""

    kind: Literal["notice"] = "notice"
    level: Annotated[Literal["info", "warning"], OpenEnum] = Field(default="info", description="Severity.")
    message: str = Field(description="The message.")
    hint: str | None = Field(default=None, description="What to do about it.")
    hint_code: HintCode = None
    hint_values: HintValues = None


class StepStarted(BaseEvent):
    """A step of a certification or an improvement began."""

    kind: Literal["step_started"] = "step_started"
    step: str = Field(description="Id of the step.")
    checks: str = Field(description="What the step checks or does.")


class StepFinished(BaseEvent):
    """A step of a certification or an improvement ended."""

    kind: Literal["step_finished"] = "step_finished"
    step: str = Field(description="Id of the step.")
    status: Annotated[Literal["pass", "fail", "skip", "kept", "dropped", "lost"], OpenEnum] = Field(
        description="Its result."
    )
    detail: str = Field(default="", description="The evidence, in a sentence.")
    seconds: float = Field(default=0.0, ge=0, description="How long it took.")


class BatchProgressed(BaseEvent):
    """One of several episodes ended."""

    kind: Literal["batch_progressed"] = "batch_progressed"
    index: int = Field(ge=1, description="Number of the episode, from 1.")
    key: str = Field(default="", description="Key that identifies it among the others; empty in older logs.")
    done: int = Field(ge=0, description="Number of episodes that have ended.")
    total: int | None = Field(default=None, ge=1, description="Number of episodes, if known.")
    status: EpisodeStatus = Field(description="How this episode ended.")
    ok: bool = Field(description="Whether it ended without a fault.")
    scores: tuple[float, ...] = Field(default=(), description="Its scores by slot.")


class EvaluationProgressed(BaseEvent):
    """A block of an evaluation was judged."""

    kind: Literal["evaluation_progressed"] = "evaluation_progressed"
    blocks: int = Field(ge=0, description="Number of blocks judged so far.")
    max_blocks: int = Field(ge=1, description="Maximum number of blocks.")
    expected: int | None = Field(
        default=None, ge=0, description="In a tournament: the expected number of blocks; null if unknown."
    )
    counted: int = Field(ge=0, description="Number of blocks that counted.")
    won: int | None = Field(default=None, ge=0, description="In a comparison: blocks that the new player won.")
    lost: int | None = Field(default=None, ge=0, description="In a comparison: blocks that it lost.")
    evidence: float | None = Field(default=None, ge=0, description="In a comparison: the evidence for a difference.")
    decides: float | None = Field(
        default=None, ge=0, description="In a comparison: the evidence needed for a decision."
    )
    stopped: str = Field(default="", description="Why no more blocks are needed; empty while more are.")


class _RoleEvent(BaseEvent):
    role: Annotated[Role, OpenEnum] = Field(description="The role.")
    id: str = Field(description="The program: its id in the manifest, or the name of its file or image.")
    episodes: tuple[str, ...] = Field(default=(), description="Ids of the episodes that it looks at.")
    slot: int | None = Field(default=None, description="The slot of the player that is diagnosed.")
    total: int | None = Field(default=None, ge=1, description="How many programs are run together, if several are.")


class RoleStarted(_RoleEvent):
    """A supporting role began to look at episodes that have ended."""

    kind: Literal["role_started"] = "role_started"


class RoleProgressed(_RoleEvent):
    """A role tells how far it is, as reporters do on their socket."""

    kind: Literal["role_progressed"] = "role_progressed"
    stage: str = Field(description="What it is doing, in its own words.")
    completed: int = Field(default=0, ge=0, description="How much of it is done.")
    of: int = Field(default=0, ge=0, description="How much there is; 0: unknown.")


class RoleFinished(_RoleEvent):
    """A role ended, in whatever way."""

    kind: Literal["role_finished"] = "role_finished"
    ok: bool = Field(description="Whether what it left is valid.")
    done: int | None = Field(default=None, ge=1, description="How many of several have ended.")
    kept: bool = Field(default=False, description="Whether its answer was there already, so that nothing was run.")
    score: float | None = Field(default=None, description="The grade, on the grader's own scale.")
    seconds: float = Field(default=0.0, ge=0, description="How long it took.")
    message: str = Field(default="", description="What went wrong, if anything did.")


class LeakFound(BaseEvent):
    """Something could not be removed; a sweep finds it by its label."""

    kind: Literal["leak_found"] = "leak_found"
    what: str = Field(description="Its kind and name.")
    reason: str = Field(description="Why it could not be removed.")


class RunFinished(BaseEvent):
    """A run ended, in whatever way."""

    kind: Literal["run_finished"] = "run_finished"
    status: EpisodeStatus = Field(description="How it ended.")
    ok: bool = Field(description="Whether it ended without a fault.")
    scores: tuple[float, ...] = Field(default=(), description="Scores by slot, if there are any.")
    seconds: float = Field(ge=0, description="How long it took.")


Event = Annotated[
    RunStarted
    | PhaseStarted
    | PhaseFinished
    | ImageProgressed
    | ImageReady
    | UnitCreated
    | UnitStarted
    | UnitReady
    | UnitExited
    | LogTruncated
    | ProbeFinished
    | GameProgressed
    | ArtifactCollected
    | FaultSeen
    | Notice
    | StepStarted
    | StepFinished
    | BatchProgressed
    | EvaluationProgressed
    | RoleStarted
    | RoleProgressed
    | RoleFinished
    | LeakFound
    | RunFinished,
    Field(discriminator="kind"),
]
"""Any event that this version publishes."""


class UnknownEvent(BaseEvent):
    """An event of a kind that only another version knows; all its fields are kept."""

    kind: str = Field(description="The kind.")


@cache
def _kinds() -> dict[str, type[BaseEvent]]:
    models: tuple[type[BaseEvent], ...] = get_args(get_args(Event)[0])
    return {model.model_fields["kind"].default: model for model in models}


def parse_event(line: str | bytes, *, source: str = "event") -> Event | UnknownEvent:
    """Read one line of an NDJSON run log, written by any version.

    Args:
        line: One JSON object.
        source: The name of its source, for messages.

    Returns:
        The event.

    Raises:
        RecordError: The line is not an event, or lacks a required field of its kind.
    """
    return _event(parse_record(line, source=source))


def _event(document: "JsonDocument") -> Event | UnknownEvent:
    given: object = document.value
    kind = cast("dict[str, Any]", given).get("kind") if isinstance(given, dict) else None
    model = _kinds().get(kind, UnknownEvent) if isinstance(kind, str) else UnknownEvent
    return cast("Event | UnknownEvent", read_as(model, document, what="event"))


def read_events(source: Path | str | bytes) -> tuple[Event | UnknownEvent, ...]:
    """Read an NDJSON run log, written by any version.

    Skips an incomplete last line, which a run leaves when it is killed or still going.

    Args:
        source: The path of an `events.ndjson` or of the directory that holds it, or its content as bytes.

    Returns:
        The events, in order.

    Raises:
        RecordError: A line is not an event, or lacks a required field of its kind; the error has its number.
        UsageError: The file does not exist or cannot be read.
    """
    return tuple(_event(document) for document in read_lines(source, what="events", name="events.ndjson"))


def read_starts(log: Path) -> Iterator[RunStarted]:
    """Read from a log how its run began, and again for each time that it was resumed; what is no such event is skipped.

    Args:
        log: The file; one that is missing or cannot be read has none.
    """
    with contextlib.suppress(OSError):
        for line in regular_lines(log):
            with contextlib.suppress(RecordError):
                if _STARTED in line and isinstance(event := parse_event(line), RunStarted):
                    yield event
