"""Which episodes count, and whose fault it is that one does not."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from coworld_core.artifacts import EpisodeLayout
from coworld_core.episode import EpisodeRecord
from coworld_core.outcome import Fault
from observatory.worker_outcome import Verdict, judge

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def fault(party: str, error_type: str, slot: int | None = None) -> Fault:
    return Fault(fault=party, error_type=error_type, slot=slot, message="It happened.", time=NOW)  # type: ignore[arg-type]


PLAYER = fault("player", "player_error", 1)


def judged(tmp_path: Path, *faults: Fault, results: bool = True, replay: bool = True) -> Verdict:
    """The verdict on a run with these faults, in the order they were seen."""
    values: dict[str, Any] = {"results": {"scores": [1, 2]}, "scores": (1.0, 2.0)} if results else {}
    record = EpisodeRecord(
        run_id="r",
        coworld="c",
        version="1",
        backend="process",
        variant="v",
        started_at=NOW,
        ended_at=NOW,
        seconds=1,
        status="completed" if results else "failed",
        faults=faults,
        **values,
    )
    if replay:
        (tmp_path / "replay").write_bytes(b"x")
    return judge(record, EpisodeLayout(tmp_path))


def test_results_and_a_replay_count_whatever_players_did(tmp_path: Path) -> None:
    assert judged(tmp_path).ok
    assert judged(tmp_path, PLAYER, fault("player", "player_timeout", 0)).ok


@pytest.mark.parametrize(
    ("faults", "results", "replay", "error_type", "slot"),
    [
        ((fault("game", "game_contract_violation"),), True, True, "game_contract_violation", None),
        ((PLAYER, fault("game", "game_contract_violation")), True, True, "game_contract_violation", None),
        # the game ended by itself, and it is the game's to live with players that fail
        ((PLAYER, fault("game", "results_missing")), False, True, "results_missing", None),
        ((PLAYER, fault("game", "game_unhealthy")), False, False, "game_unhealthy", None),
        ((PLAYER,), True, False, "replay_missing", None),
        # it waited in vain for a player that had failed
        ((PLAYER, fault("game", "episode_timeout")), False, False, "player_error", 1),
        ((fault("game", "episode_timeout"),), False, False, "episode_timeout", None),
        ((fault("player", "player_never_started", 0),), False, False, "player_never_started", 0),
        ((fault("operator", "config_error"),), False, False, "config_error", None),
        ((), False, False, "results_missing", None),
        ((), True, False, "replay_missing", None),
    ],
)
def test_what_does_not_count(
    faults: tuple[Fault, ...], results: bool, replay: bool, error_type: str, slot: int | None, tmp_path: Path
) -> None:
    verdict = judged(tmp_path, *faults, results=results, replay=replay)
    assert (verdict.ok, verdict.error_type, verdict.slot, verdict.platform) == (False, error_type, slot, False)


def test_what_the_machine_did_is_nobodys_and_worth_another_attempt(tmp_path: Path) -> None:
    verdict = judged(tmp_path, fault("platform", "platform_error"), fault("game", "game_unhealthy"), results=False)
    assert (verdict.ok, verdict.error_type, verdict.platform) == (False, "platform_error", True)
