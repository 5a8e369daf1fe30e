"""The history of a folder of bots: what was gated, what was accepted, and how strong each version is.

A gate measures a version of a bot against its last accepted version and its opponents. The history is append-only: a
line when a gate begins, which settles its seed, and a line when it ends. Everything else follows from it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ..documents.records import OpenEnum, Record, SchemaVersion, read_as, read_lines
from .comparison import NEW, OLD, ComparisonReport
from .elo import EloDifference
from .ratings import Rating, rate
from .report_contents import ShownReport

__all__ = [
    "GATE_HISTORY",
    "GateHistory",
    "GateMeasurement",
    "GateRecord",
    "GateResults",
    "GateRole",
    "GateStatus",
    "GatedPlayer",
    "gate_measurement",
    "read_gate_history",
]

GATE_HISTORY = "history.jsonl"
"""File name of the history."""

GateStatus = Annotated[Literal["begun", "accepted", "rejected"], OpenEnum]
"""`begun`: it goes on, or was interrupted; `accepted`: this version is the bot's best; `rejected`: the one before
stays."""

GateRole = Literal["first", "accepted", "opponent", "earlier"]


class GatedPlayer(Record):
    """A player that takes part in a gate."""

    name: str = Field(description="Name of its file or directory, or how else it was named.")
    digest: str = Field(default="", description="Digest of its files; empty if it has none, as the game's own players.")

    @property
    def identity(self) -> str:
        """What makes it the same player: its content, or else its name."""
        return self.digest or self.name

    @property
    def version(self) -> str:
        """The beginning of its digest; empty if there is none."""
        return self.digest.partition(":")[2][:8]

    def __str__(self) -> str:
        return f"{self.name} {self.version}".rstrip()


class GateResults(Record):
    """Wins and losses against one player."""

    won: int = Field(default=0, ge=0, description="Blocks, or episodes, that were won.")
    lost: int = Field(default=0, ge=0, description="Those that were lost.")
    drawn: int = Field(default=0, ge=0, description="Those that were drawn.")
    elo: EloDifference | None = Field(default=None, description="The Elo difference; null if nothing was counted.")

    @property
    def share(self) -> float | None:
        """Share of what was played that was won, draws by half; null if nothing was."""
        count = self.won + self.lost + self.drawn
        return (self.won + 0.5 * self.drawn) / count if count else None

    @property
    def reversed(self) -> GateResults:
        """The same for the other player."""
        elo = self.elo
        if elo is not None:
            value, low, high = (None if one is None else -one for one in (elo.value, elo.high, elo.low))
            elo = EloDifference(value=value, low=low, high=high, share=1 - elo.share)
        return GateResults(won=self.lost, lost=self.won, drawn=self.drawn, elo=elo)

    def __str__(self) -> str:
        return f"{self.won} won, {self.lost} lost, {self.drawn} drawn"


class GateMeasurement(Record):
    """What a gate has measured against one player."""

    role: Annotated[GateRole, OpenEnum] = Field(
        description="Against the accepted version, an opponent, or a version that was accepted earlier; first: with "
        "itself, as there is no accepted version."
    )
    player: GatedPlayer = Field(description="That player.")
    directory: str = Field(description="The measurement's directory, in that of the gate.")
    verdict: str = Field(
        default="",
        description="As compare says: of the version against the accepted one, or of how both do against the opponent; "
        "empty: nothing was compared.",
    )
    stopped: str = Field(default="", description="Why it ended.")
    blocks: int = Field(default=0, ge=0, description="Blocks that counted.")
    results: GateResults = Field(default=GateResults(), description="The version against that player.")
    before: GateResults | None = Field(
        default=None, description="The accepted version against that opponent; null if it did not play it here."
    )
    forfeits: int = Field(default=0, ge=0, description="Episodes that the version forfeited by failing in them.")
    failure: str = Field(default="", description="The first of these failures.")
    more_blocks: int | None = Field(default=None, description="Blocks that a verdict may still need; null: unknown.")


class GateRecord(Record):
    """A gate, when it begins and when it ends: a line of the history."""

    schema_version: SchemaVersion = Field(default=1, description="Version of this line's shape.")
    gate: str = Field(description="Its id, and its directory among the gates.")
    time: dt.datetime = Field(description="When the line was written (UTC).")
    status: GateStatus = Field(description="What became of it.")
    reason: str = Field(default="", description="Why, as a code.")
    message: str = Field(default="", description="Why, in a sentence.")
    bot: GatedPlayer = Field(description="The version: the bot's name, and the digest of its content.")
    accepted: GatedPlayer | None = Field(default=None, description="The accepted version before; null: there was none.")
    opponents: tuple[GatedPlayer, ...] = Field(default=(), description="The opponents.")
    earlier: tuple[GatedPlayer, ...] = Field(
        default=(),
        description="Versions accepted before that one, which are opponents, too; the last one first.",
    )
    coworld: str = Field(description="Name of the Coworld.")
    version: str = Field(default="", description="Version of the Coworld.")
    variant: str = Field(default="", description="Variant that was played.")
    terms: str = Field(default="", description="Digest of what was played, and of what counts.")
    seed: int = Field(default=0, description="Base seed of everything that it played.")
    measurements: tuple[GateMeasurement, ...] = Field(default=(), description="What was measured, in order.")

    def same_measurement(self, other: GateRecord) -> bool:
        """Whether two gates measure the same players on the same terms, perhaps on other seeds."""
        played = [
            (
                one.bot,
                one.accepted and one.accepted.digest,
                *([each.identity for each in met] for met in (one.opponents, one.earlier)),
                one.terms,
            )
            for one in (self, other)
        ]
        return played[0] == played[1]


@dataclass(frozen=True, kw_only=True)
class GateHistory:
    """The gates of a folder: a pure function of the lines of its history."""

    gates: tuple[GateRecord, ...]
    """The last line of each gate, in the order in which the gates began."""
    accepted: tuple[GateRecord, ...]
    """Those that were accepted, in the order in which they ended."""

    @classmethod
    def of(cls, lines: Iterable[GateRecord]) -> GateHistory:
        """The history after these lines; what a later version has written besides is left out."""
        known: dict[str, GateRecord] = {}
        ended: dict[str, GateRecord] = {}
        for line in lines:
            if line.status in ("begun", "accepted", "rejected"):
                known[line.gate] = line
                ended.pop(line.gate, None)
                if line.status == "accepted":
                    ended[line.gate] = line
        return cls(gates=tuple(known.values()), accepted=tuple(ended.values()))

    @property
    def bots(self) -> tuple[str, ...]:
        """The names of the bots, in the order of their first gate."""
        return tuple(dict.fromkeys(gate.bot.name for gate in self.gates))

    def of_bot(self, name: str) -> tuple[GateRecord, ...]:
        """The gates of a bot."""
        return tuple(gate for gate in self.gates if gate.bot.name == name)

    def accepted_of(self, name: str) -> GateRecord | None:
        """The gate that accepted the version of a bot that is its best now; None: there is none."""
        return next((gate for gate in reversed(self.accepted) if gate.bot.name == name), None)

    def versions_of(self, name: str) -> tuple[GatedPlayer, ...]:
        """The accepted versions of a bot, each content once, the one that was accepted last first."""
        versions = (gate.bot for gate in reversed(self.accepted) if gate.bot.name == name)
        return tuple({version.digest: version for version in versions}.values())

    def number_of(self, bot: GatedPlayer, *, without: str = "") -> int | None:
        """Which accepted version of its bot a player was first, from 1; None: none of them.

        Args:
            bot: The player.
            without: A gate that does not count.
        """
        gates = [gate for gate in self.accepted if gate.bot.name == bot.name]
        numbers = (number for number, gate in enumerate(gates, 1) if gate.bot == bot and gate.gate != without)
        return next(numbers, None)

    def tried(self, record: GateRecord) -> int:
        """How many other versions of a bot were rejected against the version that a gate has measured against."""
        return len(
            {
                gate.bot.digest
                for gate in self.of_bot(record.bot.name)
                if gate.status == "rejected" and gate.accepted == record.accepted and gate.bot != record.bot
            }
        )

    def uses_of_seed(self, record: GateRecord) -> int:
        """How many other versions of a bot were gated on the same seed, in this game."""
        return len(
            {
                gate.bot.digest
                for gate in self.of_bot(record.bot.name)
                if (gate.seed, gate.coworld) == (record.seed, record.coworld) and gate.bot != record.bot
            }
        )

    def ratings(self) -> dict[str, Rating]:
        """The rating of everybody that was measured, by identity, from the results of all gates.

        Wins, losses and draws are those of blocks between two versions, and of episodes against opponents.
        """
        return {rating.label: rating for rating in rate(self._blocks())}

    def _blocks(self) -> Iterator[dict[str, float]]:
        for gate in self.gates:
            for one in gate.measurements:
                if one.role == "first":
                    continue
                yield from _pair_blocks(gate.bot.identity, one.player.identity, one.results)
                if one.before is not None and gate.accepted is not None:
                    yield from _pair_blocks(gate.accepted.identity, one.player.identity, one.before)


def _pair_blocks(first: str, second: str, results: GateResults) -> Iterator[dict[str, float]]:
    if first != second:
        for count, score in ((results.won, 1.0), (results.lost, 0.0), (results.drawn, 0.5)):
            yield from ({first: score, second: 1 - score} for _ in range(count))


def read_gate_history(source: Path | bytes) -> GateHistory:
    """Read the history of a folder, without a last line that is not complete.

    Args:
        source: The history or the directory that holds it, or its content.

    Raises:
        UsageError: The file does not exist (`record_not_found`) or cannot be read (`record_unreadable`).
        RecordError: A line is not of a history.
    """
    documents = read_lines(source, what="history", name=GATE_HISTORY)
    return GateHistory.of(read_as(GateRecord, document, what="line of a history of gates") for document in documents)


def gate_measurement(
    report: ShownReport,
    player: GatedPlayer,
    *,
    role: GateRole,
    directory: str,
    measured: Sequence[str] = (NEW,),
) -> GateMeasurement:
    """What a gate keeps of a report.

    Args:
        report: The report of a comparison, or of a scrimmage.
        player: The player that the version has met.
        role: What this player is.
        directory: The measurement's directory, in that of the gate.
        measured: Labels that stand for the version in the report.
    """
    own = [entrant for entrant in report.entrants if entrant.label in measured]
    first = next((entrant.first_forfeit for entrant in own if entrant.first_forfeit is not None), None)
    found = GateMeasurement(
        role=role,
        player=player,
        directory=directory,
        stopped=report.stopped,
        blocks=report.blocks,
        forfeits=sum(entrant.forfeits for entrant in own),
        failure=str(first) if first is not None else "",
    )
    if not isinstance(report, ComparisonReport):
        return found
    results = GateResults(won=report.won, lost=report.lost, drawn=report.drawn, elo=report.elo)
    before: GateResults | None = None
    if report.plan.opponent is not None:
        met = {
            one.label: GateResults(won=one.won, lost=one.lost, drawn=one.drawn, elo=one.elo) for one in report.meetings
        }
        results, before = met.get(NEW, GateResults()), met.get(OLD)
    return found.model_copy(
        update={"verdict": report.verdict, "results": results, "before": before, "more_blocks": report.more_blocks}
    )
