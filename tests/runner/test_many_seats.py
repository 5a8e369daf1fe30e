"""Measuring in a game of more than two seats, where all players move at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from runner.test_worker_venue import summary_of
from support.cli_kit import coworld
from support.kit_packages import FIRST, LOWEST, MOST, claims_game

from coworld_core.episode.record import read_rows
from coworld_core.rules import read_replay
from coworld_runner.evaluation import EvaluationRules, compare
from coworld_runner.evaluation.gate import gate_player
from coworld_runner.evaluation.gate.worst_games import worst_games

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def game(tmp_path: Path) -> Path:
    bots = tmp_path / "bots"
    bots.mkdir()
    for name, source in (("most", MOST), ("lowest", LOWEST)):
        (bots / f"{name}.py").write_text(source)
    return claims_game(tmp_path / "claims")


@pytest.mark.slow
async def test_simultaneous_moves_come_out_as_those_of_programs(game: Path, tmp_path: Path) -> None:
    bots = [str(tmp_path / f"bots/{name}.py") for name in ("most", "lowest")]
    rules = EvaluationRules(seed=0, max_blocks=2, count_starved=True)
    for workspace, more in (("here", {}), ("there", {"backend": "process"})):
        await compare(game, *bots, rules=rules, workspace=tmp_path / workspace, **more)
    here, there = (sorted(read_rows(tmp_path / at), key=lambda row: row.key) for at in ("here", "there"))
    assert [summary_of(row) for row in here] == [summary_of(row) for row in there]
    assert all(row.ok and len(row.scores) == 4 for row in here)


async def test_lost_blocks_open_where_the_two_differed(game: Path, tmp_path: Path) -> None:
    bots = [str(tmp_path / f"bots/{name}.py") for name in ("lowest", "most")]
    report = await compare(game, *bots, rules=EvaluationRules(seed=0, max_blocks=8), workspace=tmp_path / "run")
    assert report.lost > 3 == len(report.lost_blocks)
    rows = {row.key: row for row in read_rows(tmp_path / "run")}
    for lost in report.lost_blocks:
        first = lost.first_difference
        assert first is not None, lost.note
        for line, name in ((first.new, "lowest"), (first.old, "most")):
            row = rows[line.episode]
            assert row.slots[first.slot].image.startswith(name)
            assert row.scores[first.slot] == line.score
            worth = first.observation["worth"]
            assert worth[line.action] == (min if name == "lowest" else max)(worth)
            replay = read_replay((tmp_path / "run" / line.episode / "replay").read_bytes())
            assert replay.ticks[first.tick + 1].actions[first.slot] == line.action


@pytest.mark.slow
async def test_worst_games_are_those_in_which_the_other_did_better_in_the_same_seat(game: Path, tmp_path: Path) -> None:
    bot = tmp_path / "bots/bot.py"
    bot.write_text(FIRST)
    done = await gate_player(game, bot, rules=EvaluationRules(max_blocks=12))
    assert (done.accepted, [one.player.name for one in done.record.measurements]) == (
        True,
        ["bot.py", "lowest.py", "most.py"],
    )
    worst = worst_games(done.folder, done.record)
    assert "most.py" in {one.against.name for one in worst}
    for one in worst:
        rows = {row.key: row for row in read_rows(one.directory)}
        row, twin = rows[one.key], rows[one.key.removesuffix("1") + "2"]
        assert twin.slots[one.slot].image.startswith(one.against.name)
        assert (one.score, one.other, one.apart) == (row.scores[one.slot], twin.scores[one.slot], True)
        assert one.lost_by > 0
    shown = coworld("bots", tmp_path / "bots", "--html", tmp_path / "bots.html")
    assert shown.status == 0, shown.stderr
    assert "the same seat on the same seed" in (tmp_path / "bots.html").read_text()
    replayed = coworld("replay", worst[0].directory / worst[0].key, "--html", tmp_path / "game.html")
    assert replayed.status == 0, replayed.stderr
