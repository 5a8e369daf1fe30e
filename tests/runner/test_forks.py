"""Games that are continued another way, and how likely each seat was to win as a game went on."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from support.framed_games import lucky_game, painted
from support.kit_packages import write_game
from support.nim_episode import NIM
from support.played_runs import Lines, leave_run, reseal, rewrite_replay

from coworld_core.episode.record import EpisodeRecord, read_record, read_rows
from coworld_core.errors import CapabilityError, UsageError
from coworld_core.rules import read_replay
from coworld_runner.certification.verification import verify_run
from coworld_runner.evaluation import fork_run, played_game, run_chances

DICE = '''"""The rules of Dice."""

from coworld_core import Rules
from coworld_core.rules import TalkLimits


class Dice(Rules):
    """Each may throw a die or keep what it has, eight times; throws above four are lost, and words are heard."""

    Action = bool
    talk = TalkLimits()
    score_range = (0, 32)

    def start(self):
        self.points, self.round, self.heard = [0, 0], 0, []

    def to_act(self):
        return [0, 1] if self.round < 8 else []

    def observe(self, seat):
        return {"points": self.points, "round": self.round}

    def step(self, actions):
        for seat, throws in actions.items():
            thrown = self.rng.randint(1, 6)
            self.points[seat] += thrown if throws and thrown <= 4 else 0
        self.round += 1

    def scores(self):
        return [float(points) for points in self.points]

    def draw(self):
        return f"{self.points}"
'''
RECALLS = '''
class Player:
    """Throws as often as it was asked with an even number of points, and says so."""
    def __init__(self):
        self.seen = []

    def act(self, observation, legal, rng, talk):
        self.seen.append(observation["points"][0])
        talk.say(f"{len(self.seen)}: {rng.random():.3f}")
        return (sum(self.seen) + len(self.seen) + rng.randint(0, 1)) % 2 == 0
'''
ODD = "import os\n\ndef act(observation, legal, rng):\n    return bool(os.urandom(1)[0] & 1)\n"
KEEPS = "def act(observation, legal, rng):\n    return False\n"


@pytest.fixture
async def dice(tmp_path: Path) -> Path:
    """A run of a game with chance, talk, and players with memory."""
    game = write_game(tmp_path / "dice", "dice", DICE)
    (tmp_path / "recalls.py").write_text(RECALLS)
    return await leave_run(game, tmp_path / "run", players=(str(tmp_path / "recalls.py"),))


def lines(run: Path) -> Lines:
    replay = read_replay((run / "replay").read_bytes())
    return [tick.model_dump() for tick in replay.ticks]


# --- going on as before ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tick", [0, 3, 7])
async def test_the_same_players_end_a_game_as_before(dice: Path, tmp_path: Path, tick: int) -> None:
    report = await fork_run(dice, at=tick, workspace=tmp_path / "again")
    assert (report.same, report.completed, report.new_chance) == (True, 1, False)
    assert [seat.score for seat in report.slots] == [seat.recorded for seat in report.slots]
    # What was said belongs to it, too, and players knew what they would know
    assert lines(tmp_path / "again" / f"tick-{tick}.1") == lines(dice)


async def test_a_player_with_chance_of_its_own_is_told(dice: Path, tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(ODD)
    run = await leave_run(tmp_path / "dice", tmp_path / "odd", players=(str(tmp_path / "odd.py"),))
    ended = [(await fork_run(run, at=0)).same for _ in range(4)]
    assert False in ended


# --- going on another way --------------------------------------------------------------------------------------------


async def test_another_player_acts_from_the_tick_on(dice: Path, tmp_path: Path) -> None:
    (tmp_path / "keeps.py").write_text(KEEPS)
    report = await fork_run(dice, at=5, players={1: str(tmp_path / "keeps.py")}, workspace=tmp_path / "other")
    assert ([seat.original for seat in report.slots], report.same) == ([True, False], None)
    other, before = lines(tmp_path / "other" / "tick-5.1"), lines(dice)
    assert other[:6] == before[:6]
    assert [tick["actions"][1] for tick in other[6:]] == [False] * 3
    assert [tick["actions"][0] for tick in other[6:]] != []
    assert report.slots[1].name == "keeps"
    assert (await verify_run(tmp_path / "other" / "tick-5.1")).verdict == "same"


async def test_several_continuations_have_chance_of_their_own(dice: Path, tmp_path: Path) -> None:
    report = await fork_run(dice, at=4, times=30, workspace=tmp_path / "many")
    assert (report.times, report.completed, report.new_chance, report.same) == (30, 30, True, None)
    assert {row.scores for row in read_rows(tmp_path / "many")} > {read_record(dice).scores}
    for seat in report.slots:
        assert seat.share is not None
        assert seat.interval is not None
        assert seat.interval.low <= seat.share <= seat.interval.high
    assert sum(seat.share or 0 for seat in report.slots) == pytest.approx(1)
    kept = tmp_path / "many" / "tick-4.2"
    assert lines(kept)[:5] == lines(dice)[:5]
    # Their replays say from where other chance was drawn, and so play again
    assert (await verify_run(kept)).verdict == "same"
    again = await fork_run(dice, at=4, times=30)
    assert [seat.share for seat in again.slots] == [seat.share for seat in report.slots]
    assert await fork_run(dice, at=4, times=30, seed=1) != again


async def test_a_continuation_is_continued(dice: Path, tmp_path: Path) -> None:
    await fork_run(dice, at=2, times=2, workspace=tmp_path / "first")
    run = tmp_path / "first" / "tick-2.1"
    assert (await fork_run(run, at=6, workspace=tmp_path / "second")).same
    assert lines(tmp_path / "second" / "tick-6.1") == lines(run)
    await fork_run(run, at=6, times=2, workspace=tmp_path / "third")
    third = tmp_path / "third" / "tick-6.2"
    assert lines(third)[:7] == lines(run)[:7]
    assert (await verify_run(third)).verdict == "same"


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"at": 8}, "no_such_tick"),
        ({"at": 0, "players": {2: "random"}}, "no_such_seat"),
        ({"at": 0, "times": 0}, "bad_count"),
        ({"at": 0, "players": {0: "nobody"}}, "unknown_player"),
    ],
)
async def test_what_there_is_not(dice: Path, asked: dict[str, Any], code: str) -> None:
    with pytest.raises(UsageError) as refused:
        await fork_run(dice, **asked)
    assert refused.value.code == code


def _forged(record: EpisodeRecord, **changes: Any) -> dict[str, Any]:
    return {"slots": (record.slots[0].model_copy(update=changes), *record.slots[1:])}


async def test_players_that_are_not_there_any_more(dice: Path, tmp_path: Path) -> None:
    (tmp_path / "recalls.py").write_text(KEEPS)
    for change, code in (
        ({}, "player_changed"),
        ({"source": str(tmp_path / "gone.py")}, "player_unknown"),
        ({"source": ""}, "player_unknown"),
        ({"controller": "human", "human": True, "source": ""}, "player_unknown"),
    ):
        reseal(dice, **_forged(read_record(dice), **change))
        with pytest.raises(UsageError) as refused:
            await fork_run(dice, at=1)
        assert refused.value.code == code
    assert (await fork_run(dice, at=1, players={0: "random", 1: "random"})).completed == 1


async def test_nothing_that_comes_with_a_run_is_executed(dice: Path, tmp_path: Path) -> None:
    brought, executed = write_game(dice / "game", "dice", DICE), tmp_path / "executed"
    (brought / "dice.py").write_text(f"from pathlib import Path\nPath({str(executed)!r}).touch()\n{DICE}")
    reseal(dice, manifest=str(brought / "coworld_manifest_template.json"))
    with pytest.raises(UsageError) as refused:
        await fork_run(dice, at=1)
    assert (refused.value.code, executed.exists()) == ("game_brought", False)
    player = dice / "player.py"
    player.write_text(KEEPS)
    record = read_record(dice)
    reseal(dice, manifest=str(tmp_path / "dice" / "coworld_manifest_template.json"))
    reseal(dice, **_forged(record, source=str(player)))
    with pytest.raises(UsageError) as refused:
        await fork_run(dice, at=1)
    assert refused.value.code == "player_brought"


async def test_a_replay_that_the_rules_do_not_play(dice: Path, tmp_path: Path) -> None:
    def forge(lines: Lines) -> None:
        lines[3]["drawing"] = "[9, 9]"

    rewrite_replay(dice, forge)
    reseal(dice)
    with pytest.raises(UsageError) as refused:
        await fork_run(dice, at=5)
    assert (refused.value.code, "at tick 2" in refused.value.message) == ("replay_differs", True)
    (tmp_path / "dice" / "dice.py").write_text(DICE.replace("<= 4", "<= 3"))
    with pytest.raises(UsageError) as refused:
        await fork_run(dice, at=5)
    assert refused.value.code == "replay_differs"


async def test_a_run_without_a_replay_and_one_of_other_kinds(dice: Path, tmp_path: Path) -> None:
    (dice / "replay").unlink()
    for place, code in ((dice, "no_replay"), (tmp_path / "dice", "not_an_episode"), (tmp_path / "no", "path_missing")):
        with pytest.raises(UsageError) as refused:
            await fork_run(place, at=1)
        assert refused.value.code == code


# --- chances ---------------------------------------------------------------------------------------------------------


async def test_the_move_that_cost_most_is_found(tmp_path: Path) -> None:
    run = await leave_run(NIM, tmp_path / "run")
    told: list[int] = []
    report = await run_chances(run, seconds=60, tell=told.append)
    assert told == sorted(told)
    ticks = [point.tick for point in report.curve]
    assert ticks == list(range(len(read_replay((run / "replay").read_bytes()).ticks)))
    assert [seat.share for seat in report.curve[-1].slots] == [1.0 if score else 0.0 for score in report_scores(run)]
    for point in report.curve:
        assert sum(seat.share for seat in point.slots) == pytest.approx(1)
    # Whoever leaves a multiple of four sticks wins against everybody who plays on well; random ones lose some of it
    assert report.moves
    assert not report.flat
    costs = [move.cost for move in report.moves if move.slot == 0]
    assert costs == sorted(costs, reverse=True)
    before, after = (
        next(p for p in report.curve if p.tick == at) for at in (report.moves[0].tick, report.moves[0].until)
    )
    assert report.moves[0].cost == pytest.approx(
        before.slots[report.moves[0].slot].share - after.slots[report.moves[0].slot].share
    )


async def test_players_without_chance_have_a_flat_curve(tmp_path: Path) -> None:
    run = await leave_run(NIM, tmp_path / "run", players=("counter",))
    report = await run_chances(run, seconds=60)
    assert (report.flat, report.moves) == (True, ())


async def test_no_time_is_no_curve_and_little_time_a_coarse_one(dice: Path) -> None:
    with pytest.raises(UsageError):
        await run_chances(dice, seconds=0)
    report = await run_chances(dice, seconds=1e-9)
    assert [point.tick for point in report.curve] == [8]


# --- games that are not of the kit -----------------------------------------------------------------------------------

LEFT = """
async def play(seat):
    seen = 0
    async for told in seat:
        seen += 1
        if told["type"] == "observation":
            print(told["tick"], seen)
            await seat.send({"move": "left"})
"""


def moves(run: Path, slot: int) -> list[str]:
    """Where a seat was after each tick, from 1 on."""
    frames: list[dict[str, Any]] = json.loads((run / "replay").read_bytes())["frames"]
    return [str(frame["positions"][slot]) for frame in frames]


async def test_any_game_goes_on_from_its_frames(tmp_path: Path) -> None:
    run = await painted(tmp_path / "run")
    report = await fork_run(run, at=3)
    assert (report.same, report.last, report.completed) == (True, 8, 1)
    (tmp_path / "left.py").write_text(LEFT)
    report = await fork_run(run, at=4, players={1: str(tmp_path / "left.py")}, workspace=tmp_path / "on")
    other = tmp_path / "on" / "tick-4.1"
    assert ([seat.original for seat in report.slots], report.completed) == ([True, False], 1)
    assert moves(other, 0)[:4] == moves(run, 0)[:4]
    assert moves(other, 1)[:4] == moves(run, 1)[:4]
    assert moves(other, 1)[4:] != moves(run, 1)[4:]
    # It was told all from the beginning
    assert (other / "logs" / "policy_agent_1.log").read_text().startswith("0 1\n")


async def test_what_cannot_go_on_from_frames(tmp_path: Path) -> None:
    run = await painted(tmp_path / "run")
    with pytest.raises(UsageError) as refused:
        await fork_run(run, at=9)
    assert refused.value.code == "no_such_tick"
    (tmp_path / "fails.py").write_text("async def play(seat):\n    raise SystemExit(3)\n")
    report = await fork_run(run, at=2, players={0: str(tmp_path / "fails.py")})
    assert (report.completed, "exited with status" in report.problems[0]) == (0, True)
    for ask in (run_chances(run), played_game(run)):
        with pytest.raises(UsageError) as refused:
            await ask
        assert refused.value.code == "not_replayable"
    reseal(run, backend="docker")
    with pytest.raises(CapabilityError):
        await fork_run(run, at=2)
    (run / "frames.ndjson").unlink()
    with pytest.raises(UsageError) as refused:
        await fork_run(run, at=2)
    assert refused.value.code == "not_replayable"


async def test_a_game_that_does_not_repeat_itself_is_refused(tmp_path: Path) -> None:
    run = await painted(tmp_path / "run", game=lucky_game(tmp_path / "game"))

    async def fork_often() -> None:
        # From wherever they begin, both may have painted as much as before
        for _ in range(6):
            await fork_run(run, at=2)

    with pytest.raises(UsageError) as refused:
        await fork_often()
    assert refused.value.code == "unsteady"


# --- in a notebook ---------------------------------------------------------------------------------------------------


async def test_a_game_is_looked_into(dice: Path) -> None:
    game = await played_game(read_record(dice))
    before = lines(dice)
    assert [vars(game.state(tick))["round"] for tick in (0, 5, 8)] == [0, 5, 8]
    assert game.state(5) is not game.state(5)
    assert game.view(1, 5).observation == {"points": json.loads(before[5]["drawing"]), "round": 5}
    assert "&lt;" in dataclasses.replace(game.view("all", 2), drawing="<b>")._repr_html_()
    assert (await game.fork(5)).same
    assert len(game.trajectory().to_records()) == 2 * 8
    for tick in (-1, 9):
        with pytest.raises(UsageError):
            game.state(tick)
    with pytest.raises(UsageError):
        await played_game(EpisodeRecord.model_validate_json((dice / "episode.json").read_bytes()))


def report_scores(run: Path) -> list[float]:
    scores: list[float] = json.loads((run / "results.json").read_text())["scores"]
    return scores
