"""Checks whether a game comes of its rules, seed and recorded actions as it was recorded."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from ..errors import UsageError, first_mistake
from .forbidden_calls import FORBIDDEN, watched
from .game import Rules
from .plain_values import to_json
from .replay import ReplayDiffers, RulesReplay, play_again, source_digest
from .rules_errors import RulesError

__all__ = ["ReplayedGame", "check_replay"]


@dataclass(frozen=True, kw_only=True)
class ReplayedGame:
    """A game that was played again.

    Attributes:
        results: Its results now; None if it is not over, or differs.
        ticks: Number of ticks played again.
        tick: The first tick that differs; None: none does.
        what: What differs first.
        recorded: What was recorded there.
        now: What came out.
        unsteady: Why a difference says nothing about the record: the rules do not play the same game again.
        source: Digests of the rules' file, of the replay and here; empty where they are not known.
    """

    results: dict[str, Any] | None = field(default=None, repr=False)
    ticks: int = 0
    tick: int | None = None
    what: str = ""
    recorded: str = ""
    now: str = ""
    unsteady: str = ""
    source: tuple[str, str] = ("", "")


def check_replay(rules: type[Rules], replay: RulesReplay, *, watch: bool = False) -> ReplayedGame:
    """Play the actions of a replay again and compare every tick and the end.

    If the game differs, it is played once more under observation: rules that read a clock, or that give a third game,
    cannot be held against the replay.

    Args:
        rules: The game.
        replay: The replay.
        watch: Whether to observe the rules in any case: rules that read what is not theirs to know may know that they
            are checked. It takes several times as long.

    Raises:
        ReplayFormatError: The replay is of other rules, or of another version of these (`replay_of_others`).
    """
    source = (replay.header.source_sha256, source_digest(rules))
    found = _played(rules, replay, watch=watch)
    if found.tick is not None and not found.unsteady:
        again = _played(rules, replay, watch=True)
        if not again.unsteady and (again.tick, again.now) != (found.tick, found.now):
            again = replace(again, unsteady="the same seed and actions gave another game each time")
        found = replace(found, unsteady=again.unsteady)
    return replace(found, source=source)


def _played(rules: type[Rules], replay: RulesReplay, *, watch: bool) -> ReplayedGame:
    called: list[str] = []

    def note(code: str, function: str, path: str, line: int) -> None:
        called.append(f"{FORBIDDEN[code]} by the rules ({function} in {path}:{line})")

    with watched(note) if watch else nullcontext():
        found = _compared(rules, replay)
    return replace(found, unsteady=called[0] if called else "")


def _compared(rules: type[Rules], replay: RulesReplay) -> ReplayedGame:
    last = max(len(replay.ticks) - 1, 0)
    try:
        play = play_again(rules, replay, exactly=bool(replay.header.source_sha256))
        results = play.results() if play.over else None
    except ReplayDiffers as error:
        return ReplayedGame(tick=error.tick, what=error.what, recorded=error.recorded, now=error.now)
    except (ValidationError, UsageError) as error:
        problem = error.message if isinstance(error, UsageError) else ": ".join(first_mistake(error))
        return ReplayedGame(tick=0, what="the config", recorded="valid", now=f"refused: {problem}")
    except RulesError as error:
        if replay.reason == "failed" and error.tick >= last:
            return ReplayedGame(ticks=last)
        return ReplayedGame(tick=error.tick, what="the tick", recorded="played", now=f"a failure: {error.message}")
    if replay.reason == "over" and results is None:
        return ReplayedGame(tick=last, what="the game", recorded="over", now="not over")
    if replay.reason != "over" and results is not None:
        return ReplayedGame(tick=last, what="the game", recorded=replay.reason or "cut short", now="over")
    if results is not None and (was := to_json(replay.results)) != (now := to_json(results)):
        return ReplayedGame(tick=last, what="the results", recorded=was, now=now)
    return ReplayedGame(results=results, ticks=last)
