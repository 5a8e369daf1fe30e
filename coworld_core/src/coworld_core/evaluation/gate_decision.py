"""Whether a version of a bot is accepted: a pure function of what a gate has measured.

A version is accepted if it is better than the last accepted one, or equal to it within a margin that was given, and if
it does not do worse than that one against any opponent. Versions that were accepted earlier are opponents, too: a new
one that does worse than the accepted version against one of them, and loses to it, closes a circle. The first version
is accepted if it plays without failing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..text.phrases import listed, plural
from .gate_history import GatedPlayer, GateHistory, GateMeasurement, GateRecord
from .report_base import UNMEASURED

__all__ = ["GateDecision", "again_note", "gate_notes", "judge_gate", "passes_accepted"]

_MANY = 5
"""Versions that were tried since the last accepted one, from which on it is said."""
_ALPHA = 0.05


@dataclass(frozen=True, kw_only=True)
class GateDecision:
    """Whether a version is accepted, and why."""

    status: Literal["accepted", "rejected"]
    reason: str
    """As a code."""
    message: str


def passes_accepted(measurement: GateMeasurement) -> bool:
    """Whether what was measured against the accepted version, or of the first one alone, lets a version go on."""
    if measurement.role == "first":
        return measurement.stopped not in UNMEASURED and not measurement.forfeits
    return measurement.verdict in ("better", "equal")


def judge_gate(measurements: Sequence[GateMeasurement]) -> GateDecision:
    """Decide about a version.

    Args:
        measurements: What was measured: first against the accepted version, or with itself if there is none, then
            against the opponents and the earlier versions.
    """
    first, *others = measurements
    if not passes_accepted(first):
        return _rejected(first)
    worse = [one for one in others if one.before is not None and one.verdict == "worse"]
    if lost := [one for one in worse if one.role != "earlier"]:
        message = f"It does worse than the accepted version against {_describe_losses(lost)}."
        return GateDecision(status="rejected", reason="lost_ground", message=message)
    than = "better than" if first.verdict == "better" else "as good as"
    # A version is chosen for how it beats the one before, so that the next one may win less often against that
    if circle := [one for one in worse if one.results.share is None or one.results.share < 0.5]:
        losses = _describe_losses(circle)
        message = f"It is {than} the accepted version, but loses to an earlier one, which is a circle: {losses}."
        return GateDecision(status="rejected", reason="circle", message=message)
    opponents = [one for one in others if one.role != "earlier"]
    said = [f"has lost no ground to {plural(len(opponents), 'opponent')}"] if opponents else []
    if earlier := len(others) - len(opponents):
        said.append(f"closes no circle with {plural(earlier, 'earlier version')}")
    ground = f", and {' and '.join(said)}" if said else ""
    if first.role == "first":
        played = plural(first.blocks, "episode")
        message = f"It is the first version, and has played {played} with itself without failing."
        return GateDecision(status="accepted", reason="first", message=message)
    return GateDecision(
        status="accepted",
        reason=first.verdict,
        message=f"It is {than} the accepted version ({first.results}){ground}.",
    )


def _describe_losses(measurements: Sequence[GateMeasurement]) -> str:
    return listed((f"{one.player} ({one.results}; before {one.before})" for one in measurements), limit=3)


def _rejected(first: GateMeasurement) -> GateDecision:
    failed = f" The first failure: {first.failure}." if first.failure else ""
    if first.stopped in ("game_faults", "spoiled"):
        reason, message = "unmeasured", "Nothing could be measured, as the game or the machine failed in every block."
    elif first.stopped in UNMEASURED or (first.role == "first" and first.forfeits):
        reason = "failed"
        message = f"It fails: it forfeited {plural(first.forfeits, 'episode')}.{failed}"
    elif first.verdict == "worse":
        reason = "worse"
        forfeits = f", of which it forfeited {plural(first.forfeits, 'episode')}" if first.forfeits else ""
        message = f"It is worse than the accepted version ({first.results}{forfeits}).{failed}"
    else:
        reason = "undecided"
        more = f" About {plural(first.more_blocks, 'more block')} may decide." if first.more_blocks else ""
        message = (
            f"There is not enough evidence that it is better than the accepted version, after "
            f"{plural(first.blocks, 'block')} ({first.results}).{more}"
        )
    return GateDecision(status="rejected", reason=reason, message=message)


def again_note(history: GateHistory, bot: GatedPlayer, *, without: str = "") -> str:
    """Say which accepted version of its bot a player is again; empty if it is none of them.

    Args:
        history: The history.
        bot: The player.
        without: A gate that does not count: its own.
    """
    number = history.number_of(bot, without=without)
    return f"This is version {number} of {bot.name} again." if number is not None else ""


def gate_notes(history: GateHistory, record: GateRecord) -> list[str]:
    """What a reader must know before trusting a gate: old versions, seeds that were used before, and many tries.

    Args:
        history: The history, with or without this gate.
        record: The gate.
    """
    again = again_note(history, record.bot, without=record.gate)
    notes = [again] if again else []
    if uses := history.uses_of_seed(record):
        notes.append(
            f"Seed {record.seed} was used for {plural(uses, 'other version')} of {record.bot.name}: a bot that is "
            "tuned on the seeds it is gated with looks better than it is. Without a seed, each version gets fresh ones."
        )
    if record.accepted is not None and (tried := history.tried(record)) >= _MANY:
        lucky = 100 * (1 - (1 - _ALPHA) ** (tried + 1))
        notes.append(
            f"{plural(tried, 'other version')} of {record.bot.name} were rejected against the accepted one. Were all "
            f"as good as it is, one of {tried + 1} would pass by luck in up to {lucky:.0f} of 100 cases."
        )
    repeats = [
        gate
        for gate in history.of_bot(record.bot.name)
        if gate.gate != record.gate and gate.seed != record.seed and gate.same_measurement(record)
    ]
    if repeats:
        notes.append(
            f"This version was gated before, on {plural(len(repeats), 'other seed')}: to try until it passes is luck. "
            "More blocks on the same seed are evidence."
        )
    if any(one.stopped in UNMEASURED for one in record.measurements[1:]):
        names = listed(str(one.player) for one in record.measurements[1:] if one.stopped in UNMEASURED)
        notes.append(f"Against {names} nothing could be measured, so this says nothing about it.")
    return notes
