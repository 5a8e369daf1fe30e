"""The bots of a folder: how strong each accepted version is, against whom the present one loses, and what was tried."""

from __future__ import annotations

import datetime as dt
from collections import deque

from pydantic import Field

from ..documents.records import Record, SchemaVersion
from .gate_history import GatedPlayer, GateHistory, GateRecord, GateResults

__all__ = ["BotAgainst", "BotReport", "BotVersion", "BotsReport", "bots_report"]


class BotVersion(Record):
    """An accepted version of a bot."""

    player: GatedPlayer = Field(description="The version.")
    gate: str = Field(description="The gate that accepted it.")
    time: dt.datetime = Field(description="When that was (UTC).")
    reason: str = Field(description="Why, as a code.")
    rating: float | None = Field(default=None, description="Elo rating: 0 is the mean of all; null: not measured.")
    low: float | None = Field(default=None, description="Lower end of its 95 % interval.")
    high: float | None = Field(default=None, description="Upper end.")


class BotAgainst(Record):
    """How the present version of a bot does against an opponent, when they last met."""

    player: GatedPlayer = Field(description="The opponent.")
    results: GateResults = Field(description="The version's wins and losses.")
    gate: str = Field(description="The gate in which they met.")
    directory: str = Field(description="The measurement's directory, in that of the gate.")


class BotReport(Record):
    """A bot of the folder."""

    name: str = Field(description="Name of its file or directory.")
    versions: tuple[BotVersion, ...] = Field(default=(), description="The accepted versions, the first one first.")
    against: tuple[BotAgainst, ...] = Field(
        default=(), description="Opponents of the present version, whom it loses to most first."
    )
    gates: tuple[GateRecord, ...] = Field(default=(), description="Its gates, the newest first.")
    circle: tuple[GatedPlayer, ...] = Field(
        default=(),
        description="Versions, accepted or not, each of which beats the next, and the last the first; empty: none.",
    )

    @property
    def present(self) -> BotVersion | None:
        """The version that is accepted now."""
        return self.versions[-1] if self.versions else None

    @property
    def circle_sentence(self) -> str:
        """The circle as a sentence; empty if there is none."""
        accepted = [version.player for version in self.versions]
        names = [
            f"version {accepted.index(one) + 1} ({one.version})" if one in accepted else f"{one.version} (rejected)"
            for one in self.circle
        ]
        beaten = ", which beats ".join((*names[1:], *names[:1]))
        return f"Its versions go in a circle: {names[0]} beats {beaten}." if names else ""


class BotsReport(Record):
    """All bots of a folder."""

    schema_version: SchemaVersion = Field(default=1, description="Version of this shape.")
    coworld: str = Field(default="", description="The game of the last gate.")
    version: str = Field(default="", description="Its version.")
    variant: str = Field(default="", description="The variant that was played.")
    bots: tuple[BotReport, ...] = Field(default=(), description="The bots, the strongest first.")


def bots_report(history: GateHistory) -> BotsReport:
    """What a history says about the bots of its folder."""
    if not history.gates:
        return BotsReport()
    ratings = history.ratings()

    def rated(gate: GateRecord) -> BotVersion:
        rating = ratings.get(gate.bot.identity)
        return BotVersion(
            player=gate.bot,
            gate=gate.gate,
            time=gate.time,
            reason=gate.reason,
            rating=round(rating.points, 1) if rating is not None else None,
            low=round(rating.low, 1) if rating is not None else None,
            high=round(rating.high, 1) if rating is not None else None,
        )

    bots = [
        BotReport(
            name=name,
            versions=tuple(rated(gate) for gate in history.accepted if gate.bot.name == name),
            against=_against(history, name),
            gates=tuple(reversed(history.of_bot(name))),
            circle=_circle(history, name),
        )
        for name in history.bots
    ]
    last = history.gates[-1]
    return BotsReport(
        coworld=last.coworld,
        version=last.version,
        variant=last.variant,
        bots=tuple(sorted(bots, key=_strength, reverse=True)),
    )


def _strength(bot: BotReport) -> float:
    present = bot.present
    return present.rating if present is not None and present.rating is not None else -1e9


def _against(history: GateHistory, name: str) -> tuple[BotAgainst, ...]:
    present = history.accepted_of(name)
    if present is None:
        return ()
    met: dict[str, BotAgainst] = {}
    for gate in history.gates:
        for one in gate.measurements:
            if one.role in ("opponent", "earlier"):
                # As the version that was gated, the one before it, or the opponent of another bot
                sides = [(gate.bot, one.player, one.results)]
                if one.before is not None and gate.accepted is not None:
                    sides.append((gate.accepted, one.player, one.before))
                sides += [(other, own, results.reversed) for own, other, results in sides if gate.status == "accepted"]
                for own, other, results in sides:
                    if own == present.bot and results.share is not None:
                        # Of another bot the last version counts, of this one each
                        met[other.identity if other.name == name else other.name] = BotAgainst(
                            player=other, results=results, gate=gate.gate, directory=one.directory
                        )
    return tuple(sorted(met.values(), key=lambda one: one.results.share or 0.0))


def _circle(history: GateHistory, name: str) -> tuple[GatedPlayer, ...]:
    """The shortest circle among the versions of a bot, by their last meetings that left no doubt."""
    players: dict[str, GatedPlayer] = {}
    beats: dict[str, dict[str, bool]] = {}
    for gate in history.of_bot(name):
        for one in gate.measurements:
            for player, results in ((gate.bot, one.results), (gate.accepted, one.before)):
                if player is None or results is None or one.player.name != name or one.role == "first":
                    continue
                for own, other, found in ((player, one.player, results), (one.player, player, results.reversed)):
                    players[own.digest] = own
                    sure = found.elo is not None and found.elo.low is not None and found.elo.low > 0
                    beats.setdefault(own.digest, {})[other.digest] = sure
    circles = (_shortest(beats, digest) for digest in reversed(players))
    return tuple(players[digest] for digest in min(filter(None, circles), key=len, default=()))


def _shortest(beats: dict[str, dict[str, bool]], start: str) -> tuple[str, ...]:
    """The shortest way from a version over those that it beats back to itself; empty if there is none."""
    ways: deque[tuple[str, ...]] = deque([(start,)])
    seen = {start}
    while ways:
        way = ways.popleft()
        for beaten in (digest for digest, sure in beats[way[-1]].items() if sure):
            if beaten == start:
                return way
            if beaten not in seen:
                seen.add(beaten)
                ways.append((*way, beaten))
    return ()
