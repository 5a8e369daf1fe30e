"""Measuring in worker processes: the same rows as of real programs, players kept apart, and rows played again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coworld_core.episode.outcome import Exit
from coworld_core.episode.record import EpisodeRow, read_record, read_rows
from coworld_core.errors import UsageError
from coworld_core.rules import read_replay
from coworld_runner.evaluation import EvaluationRules, compare, play_row_again, read_evaluation, scrimmage
from coworld_runner.evaluation.worker_venue import WorkerVenue
from coworld_runner.kit.rollout.kept_games import EACH, KeptGames
from coworld_runner.kit.server.scaffolds import new_game
from coworld_runner.package.resolver import resolve_package

NIM = Path(__file__).parents[2] / "examples" / "nim"

PLAYERS = {
    "raises": """
def act(observation, legal, rng):
    if observation["left"] < 9:
        raise ValueError("I am losing")
    return rng.choice(legal)
""",
    "illegal every other time": """
asked = []
def act(observation, legal, rng):
    asked.append(observation)
    return {"take": 7} if len(asked) % 2 else rng.choice(legal)
""",
    "late once": """
import time
def act(observation, legal, rng):
    if observation["left"] > 19:
        time.sleep(1.8)
    return legal[-1]
""",
    "exits": """
import os
def act(observation, legal, rng):
    if observation["left"] < 9:
        os._exit(3)
    return legal[0]
""",
    "leaves": """
import sys
class Player:
    def start(self, hello):
        self.seat, self.seats = hello["seat"], hello["seats"]
    def act(self, observation, legal, rng):
        if observation["left"] < 9:
            sys.exit(0)
        return rng.choice(legal)
""",
    "fails at the end": """
class Player:
    async def act(self, observation, legal, rng):
        return dict(legal[0])
    def over(self, over):
        raise RuntimeError(over["reason"])
""",
}


def nim(directory: Path, seconds_per_move: float) -> Path:
    """The game with little time for a move."""
    shutil.copytree(NIM, directory)
    manifest = directory / "coworld_manifest_template.json"
    document = json.loads(manifest.read_text())
    document["certification"]["game_config"]["seconds_per_move"] = seconds_per_move
    manifest.write_text(json.dumps(document))
    return directory


async def played(game: Path, new: str, old: str, workspace: Path, blocks: int = 1, **more: Any) -> list[EpisodeRow]:
    rules = EvaluationRules(seed=0, max_blocks=blocks, count_starved=True)
    await compare(game, new, old, rules=rules, workspace=workspace, **more)
    return sorted(read_rows(workspace), key=lambda row: row.key)


def summary_of(row: EpisodeRow) -> dict[str, Any]:
    """What a row tells, but for times and labels."""
    conduct = [(seat.acted, seat.idle, seat.refused) for seat in row.conduct]
    same = {"key", "variant", "seed", "status", "ok", "slots", "scores", "error_type", "party", "fault_slot", "message"}
    return {**row.model_dump(include=same), "conduct": conduct, "faults": row.player_faults}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAYERS)
async def test_rows_are_those_of_programs(tmp_path: Path, name: str) -> None:
    game = nim(tmp_path / "nim", 1.5 if name == "late once" else 10)
    bot = tmp_path / "bot.py"
    bot.write_text(PLAYERS[name])
    rows = await played(game, str(bot), "random-taker", tmp_path / "here")
    programs = await played(game, str(bot), "random-taker", tmp_path / "there", backend="process", parallel=2)
    assert [summary_of(row) for row in rows] == [summary_of(row) for row in programs]
    if name == "leaves":
        for place in ("here", "there"):
            first = read_evaluation(tmp_path / place).report.entrants[0]
            assert (first.forfeits, first.first_forfeit and first.first_forfeit.error_type) == (2, "player_left_early")
    for row, program in zip(rows, programs, strict=True):
        here, there = (
            read_record(tmp_path / "here" / row.workspace),
            read_record(tmp_path / "there" / program.workspace),
        )
        assert (here.backend, there.backend) == ("in-process", "process")
        for one, other in zip(here.slots, there.slots, strict=True):
            assert (one.image.digest, one.logs) == (other.image.digest, other.logs)
            # A player that failed has ended alike; any other ended with its game
            assert one.exit is not None
            assert one.exit == other.exit or one.exit.reason == "unknown"


@pytest.mark.slow
async def test_another_game_and_the_random_player_come_out_alike(tmp_path: Path) -> None:
    new_game("adding", directory=tmp_path / "adding")
    bot = tmp_path / "bot.py"
    bot.write_text("def act(observation, legal, rng):\n    return legal[observation['total'] % len(legal)]\n")
    rows = await played(tmp_path / "adding", str(bot), "random", tmp_path / "here", 2)
    programs = await played(tmp_path / "adding", str(bot), "random", tmp_path / "there", 2, backend="process")
    assert [summary_of(row) for row in rows] == [summary_of(row) for row in programs]
    for row in rows:
        here, there = (read_replay((tmp_path / at / row.workspace / "replay").read_bytes()) for at in ("here", "there"))
        assert here == there


async def test_players_share_nothing_and_begin_anew(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "helper.py").write_text(f"NAME, seen = {name!r}, []\n")
        (tmp_path / name / "bot.py").write_text(
            "import helper\nmine = []\n"
            "def act(observation, legal, rng):\n"
            "    mine.append(1)\n    helper.seen.append(1)\n"
            f"    assert helper.NAME == {name!r} and len(mine) == len(helper.seen) <= 11\n"
            "    return legal[0]\n"
        )
    rows = await played(NIM, str(tmp_path / "first/bot.py"), str(tmp_path / "second/bot.py"), tmp_path / "run", 3)
    assert [row.ok for row in rows] == [True] * 6
    record = read_record(tmp_path / "run" / rows[0].workspace)
    assert record.game is not None
    # Nobody saw the end of processes that play on
    assert {str(unit.exit) for unit in (record.game, *record.slots)} == {str(Exit(reason="unknown"))}
    assert [phase.phase for phase in record.phases] == ["play"]
    assert record.slots[1].ended_seconds == record.seconds
    assert [unit.logs for unit in record.slots] == [("logs/policy_agent_0.log",), ("logs/policy_agent_1.log",)]


@pytest.mark.slow
async def test_rows_do_not_depend_on_workers_and_can_be_played_again(tmp_path: Path) -> None:
    bot = tmp_path / "bot.py"
    bot.write_text(
        "count = 0\ndef act(observation, legal, rng):\n    global count\n    count += 1\n"
        "    return legal[0] if count % 3 else rng.choice(legal)\n"
    )
    rules = EvaluationRules(max_blocks=40)
    whole = await compare(NIM, str(bot), "random-taker", rules=rules, workspace=tmp_path / "two")
    rows = [summary_of(row) for row in read_rows(tmp_path / "two")]
    rules = replace(rules, seed=whole.plan.seed)
    await compare(NIM, str(bot), "random-taker", rules=rules, workspace=tmp_path / "three", parallel=3)
    assert [summary_of(row) for row in read_rows(tmp_path / "three")] == rows
    # It goes on where it ended
    kept = (tmp_path / "two/episodes.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "three/episodes.jsonl").write_bytes(b"".join(kept[:7]))
    assert await compare(NIM, str(bot), "random-taker", rules=rules, workspace=tmp_path / "three") == whole
    assert [summary_of(row) for row in read_rows(tmp_path / "three")] == rows
    bare = next(row for row in read_rows(tmp_path / "two") if not row.workspace)
    again = await play_row_again(tmp_path / "two", bare.key)
    assert (again.played, again.same, again.record.scores) == (True, True, bare.scores)
    assert read_replay((again.directory / "replay").read_bytes()).results == again.record.results
    assert (await play_row_again(tmp_path / "two", bare.key)).played is False
    with pytest.raises(UsageError, match=r"has no episode 'block-9999\.1-1'"):
        await play_row_again(tmp_path / "two", "block-9999.1-1")
    other = [row for row in read_rows(tmp_path / "two") if not row.workspace][1]
    bot.write_text("def act(observation, legal, rng):\n    return legal[0]\n")
    with pytest.raises(UsageError, match="bot has changed"):
        await play_row_again(tmp_path / "two", other.key)


@pytest.mark.slow
async def test_one_venue_measures_again(tmp_path: Path) -> None:
    (tmp_path / "first.py").write_text("def act(observation, legal, rng):\n    return legal[0]\n")
    package, rules = await resolve_package(NIM), EvaluationRules(max_blocks=3)
    async with WorkerVenue(package, workers=2) as venue:
        for run, player in enumerate((str(tmp_path / "first.py"), "counter")):
            report = await compare(package, player, "random", rules=rules, venue=venue, workspace=tmp_path / str(run))
            assert report.blocks == 3
        assert len(venue.workers) == 2


async def test_lost_blocks_say_where_the_two_first_differed(tmp_path: Path) -> None:
    bot = tmp_path / "bot.py"
    bot.write_text("def act(observation, legal, rng):\n    return legal[0 if observation['left'] != 9 else -1]\n")
    rules = EvaluationRules(max_blocks=6)
    report = await compare(NIM, str(bot), "counter", rules=rules, workspace=tmp_path / "run")
    assert report.lost > 3 == len(report.lost_blocks)
    lost = report.lost_blocks[0]
    first = lost.first_difference
    assert first is not None, lost.note
    assert first.observation == {"left": 21 - first.tick}
    assert first.text.count("|") == 21 - first.tick
    assert first.new.action != first.old.action
    rows = {row.key: row for row in read_rows(tmp_path / "run")}
    for line, name in ((first.new, "bot"), (first.old, "counter")):
        row = rows[line.episode]
        assert line.score == row.scores[first.slot]
        assert row.slots[first.slot].image.startswith(name) or row.slots[first.slot].player_id == name
        replay = read_replay((tmp_path / "run" / line.episode / "replay").read_bytes())
        assert replay.ticks[first.tick + 1].actions[first.slot] == line.action
    assert read_evaluation(tmp_path / "run").report == report
    assert f"tick {first.tick})" in (tmp_path / "run/report.md").read_text()
    # Of games that were not kept there is a replay nevertheless
    shutil.rmtree(tmp_path / "run" / first.new.episode)
    (tmp_path / "run/lost-blocks.json").unlink()
    assert await compare(NIM, str(bot), "counter", rules=rules, workspace=tmp_path / "run") == report
    assert (tmp_path / "run" / first.new.episode / "replay").is_file()


async def test_metrics_come_from_rows(tmp_path: Path) -> None:
    rules = EvaluationRules(metric="/scores")
    report = await scrimmage(NIM, "counter", episodes=20, rules=rules, workspace=tmp_path / "run")
    assert report.blocks == 20
    assert any(row.results for row in read_rows(tmp_path / "run"))


def test_a_bounded_number_of_games_is_kept() -> None:
    games = KeptGames()
    kinds = [games.choose((0.0, 1.0), asked=False, failed=False, focus=(0,)) for _ in range(2 * EACH)]
    assert kinds == ["lost"] * EACH + [""] * EACH
    assert games.choose((9.0, 1.0), asked=False, failed=False, focus=(0,)) == "unusual"
    assert games.choose(None, asked=False, failed=True, focus=(0,)) == "failed"
    assert games.choose((0.0, 1.0), asked=True, failed=False, focus=(0,)) == "asked"


@pytest.mark.slow
async def test_measurement_of_a_changed_config_in_several_variants(tmp_path: Path) -> None:
    rules = EvaluationRules(variant="*", config={"sticks": 5}, max_blocks=2)
    report = await compare(NIM, "counter", "random-taker", rules=rules, workspace=tmp_path / "run")
    rows = list(read_rows(tmp_path / "run"))
    assert sorted(row.variant for row in rows) == ["default", "default", "long", "long"]
    assert [row.config_changes for row in rows] == [{"sticks": 5}] * 4
    assert (report.plan.variant, report.plan.played) == ("default, long", "default, long with sticks=5")
    again = await play_row_again(tmp_path / "run", rows[0].key)
    assert (again.same, again.record.game_config["sticks"]) == (True, 5)
    for other in (EvaluationRules(variant="*", config={"sticks": 6}), EvaluationRules(config={"sticks": 5})):
        with pytest.raises(UsageError, match="differs from this one in") as refused:
            await compare(NIM, "counter", "random-taker", rules=other, workspace=tmp_path / "run")
        assert refused.value.code == "another_evaluation"
    with pytest.raises(UsageError) as refused:
        EvaluationRules(config={"seed": 1})
    assert refused.value.code == "seed_of_blocks"
