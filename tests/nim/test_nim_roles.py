"""What nim's roles say: a mistake is what the rules themselves say it is, and each is named."""

from __future__ import annotations

import io
import json
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support.nim_episode import NIM, nim_bundle

from coworld_core.roles import FinishedEpisode
from coworld_core.roles.bundle_file import read_bundle
from coworld_core.scopes import load_file
from coworld_runner.kit.roles import TargetPlayer


@cache
def wins(left: int) -> bool:
    """Whether whoever is to move wins with good play, by trying every move."""
    return any(not wins(left - take) for take in range(1, min(3, left) + 1))


def load(name: str) -> Any:
    return load_file(NIM / "roles" / f"{name}.py")


def episode(path: Path, **how: Any) -> FinishedEpisode:
    return FinishedEpisode.of(read_bundle(nim_bundle(path / "episode.zip", **how)))


def test_a_mistake_is_a_move_from_a_won_position_to_one_that_the_other_wins() -> None:
    move = load("moves").Move
    for left in range(1, 60):
        for taken in range(1, min(3, left) + 1):
            made = move(1, 0, left, taken, missed=False)
            assert made.gave_away == (wins(left) and wins(left - taken))
            assert bool(made.best) == wins(left)


def test_grader_and_diagnoser_name_what_was_given_away(tmp_path: Path) -> None:
    played = episode(tmp_path)
    moves = load("moves").read_moves(played)
    assert sum(move.taken for move in moves) == 21
    wrong = [move for move in moves if move.gave_away]
    grade = load("grader").grade(played)
    assert (grade["given_away"], len(wrong) > 2, 0 < grade["score"] < 1) == (len(wrong), True, True)
    found = [load("diagnoser").diagnose(played, TargetPlayer(slot=slot, name="", source="", uri="")) for slot in (0, 1)]
    named = [number for each in found for number in each["findings.json"]["gave_away"]]
    assert sorted(named) == [move.number for move in wrong]
    first = next(move for move in wrong if move.seat == 0)
    advice = found[0]["findings.json"]["recommendations"][0]
    assert advice.startswith(f"Move {first.number}: with {first.left} sticks left it took {first.taken}; taking ")
    assert found[0]["diagnosis.md"].startswith("# Ann, seat 0: lost\n")
    page = load("summarizer").report([played])
    assert page["summary.md"].count("gave the game away") == len(wrong)
    assert len(json.dumps(page["moves.json"])) > 100
    table = load("parquet_moves").report([played])["moves.parquet"]
    rows: list[dict[str, Any]] = import_module("pyarrow.parquet").read_table(io.BytesIO(table)).to_pylist()
    assert [row["ts"] for row in rows if (row["key"], row["value"]) == ("gave_away", "true")] == sorted(named)


def test_players_without_a_mistake_have_the_best_grade(tmp_path: Path) -> None:
    played = episode(tmp_path, player="counter")
    assert load("grader").grade(played) == {
        "score": 1.0,
        "scale": "0 to 1: the share of winning positions that were kept",
        "given_away": 0,
        "last_mistake_by": "nobody",
    }
    told = load("diagnoser").diagnose(played, TargetPlayer(slot=1, name="Bob", source="", uri=""))
    assert told["findings.json"]["recommendations"] == ["It gave nothing away."]


def test_episode_that_has_failed_is_not_judged() -> None:
    failed = FinishedEpisode(id="ereq_1", status="failed", parts={})
    with pytest.raises(ValueError, match="ereq_1 has failed"):
        load("grader").grade(failed)
