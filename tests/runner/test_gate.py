"""Gates of bots: what is accepted, what is kept, and what is noticed."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from support.kit_packages import write_game

from coworld_core.errors import UsageError, WorkspaceError
from coworld_core.evaluation.elo import elo_difference
from coworld_core.evaluation.gate_decision import gate_notes, judge_gate
from coworld_core.evaluation.gate_history import (
    GatedPlayer,
    GateHistory,
    GateMeasurement,
    GateRecord,
    GateResults,
    read_gate_history,
)
from coworld_core.evaluation.gate_report import bots_report
from coworld_runner import Package, resolve_package
from coworld_runner.evaluation import EvaluationRules
from coworld_runner.evaluation.gate import (
    GateFolder,
    GateOutcome,
    accept_player,
    begin_gate,
    folder_page,
    gate_player,
    play_gate,
    watch_player,
)
from coworld_runner.evaluation.gate.gate_settings import read_gate_settings
from coworld_runner.evaluation.gate.gate_watch import GateLook

NIM = Path(__file__).parents[2] / "examples" / "nim"
WEAK = "def act(observation, legal, rng):\n    return rng.choice(legal)\n"
STRONG = """
def act(observation, legal, rng):
    spare = observation["left"] % 4
    return {"take": spare} if spare else rng.choice(legal)
"""
BROKEN = "def act(observation, legal, rng):\n    raise ValueError('lost my head')\n"
FEW = EvaluationRules(max_blocks=20)


@pytest.fixture(scope="module")
def nim() -> Package:
    return anyio.run(resolve_package, NIM)


@pytest.fixture
def bots(tmp_path: Path) -> Path:
    (tmp_path / "bots").mkdir()
    (tmp_path / "bots" / "bot.py").write_text(WEAK)
    return tmp_path / "bots"


@pytest.mark.slow
async def test_life_of_a_bot(nim: Package, bots: Path) -> None:
    """A first version, a better one, the same again, a worse one, one as good, and what is then known of it."""
    bot = bots / "bot.py"
    (bots / "rival.py").write_text(WEAK + "# of another hand\n")
    first = await gate_player(nim, bot, rules=FEW)
    assert (first.accepted, first.record.reason) == (True, "first")
    assert [(one.role, one.player.name) for one in first.record.measurements] == [
        ("first", "bot.py"),
        ("opponent", "rival.py"),
    ]

    bot.write_text(STRONG)
    better = await gate_player(nim, bot, rules=FEW)
    assert (better.accepted, better.record.reason) == (True, "better")
    assert better.record.accepted == first.record.bot
    against = better.record.measurements[1]
    assert against.before is not None
    assert against.results.won > against.before.won
    assert (await gate_player(nim, bot, rules=FEW)).unchanged

    for content, reason in ((WEAK + "# again\n", "worse"), (STRONG + "# same\n", "undecided")):
        bot.write_text(content)
        other = await gate_player(nim, bot, rules=FEW)
        assert (other.accepted, other.record.reason) == (False, reason)
        assert len(other.record.measurements) == 1, "the opponents are not asked about a version that is rejected"

    seeds = [gate.seed for gate in GateFolder(bots).history().gates]
    assert len(set(seeds)) == len(seeds) == 4
    # Another bot of the folder meets the accepted version, whatever the file has now
    bot.write_text("not a player")
    (bots / "rival.py").write_text(WEAK)
    rival = begin_gate(nim, bots / "rival.py", rules=FEW)
    assert rival.record.opponents == (better.record.bot,)

    report = bots_report(GateFolder(bots).history())
    assert [one.name for one in report.bots] == ["bot.py", "rival.py"]
    versions = report.bots[0].versions
    assert [one.player.digest for one in versions] == [first.record.bot.digest, better.record.bot.digest]
    assert versions[0].rating is not None
    assert versions[1].rating is not None
    assert versions[0].rating < versions[1].rating
    against = {one.player.name: one.results.share for one in report.bots[0].against}
    assert set(against) == {"rival.py"}
    page = folder_page(GateFolder(bots), beside=bots.parent)
    assert "Rating of each accepted version" in page
    assert page.count('class="accepted">accepted') == 2


@pytest.mark.slow
async def test_same_gate_goes_on_with_the_same_seed(nim: Package, bots: Path) -> None:
    """The same files are one measurement: repeated it says the same, with more blocks it goes on."""
    bot = bots / "bot.py"
    accept_player(nim, bot)
    bot.write_text(WEAK + "# the same player\n")
    begun = begin_gate(nim, bot, rules=FEW)
    assert begin_gate(nim, bot, rules=FEW).record == begun.record
    once = await gate_player(nim, bot, rules=FEW)
    again = await gate_player(nim, bot, rules=FEW)
    assert (once.record.gate, again.repeated) == (begun.record.gate, True)
    lines = GateFolder(bots).log.read_text().splitlines()
    assert [json.loads(line)["status"] for line in lines] == ["accepted", "begun", "rejected"]
    more = await gate_player(nim, bot, rules=EvaluationRules(max_blocks=30))
    assert (more.record.seed, more.record.measurements[0].blocks) == (once.record.seed, 30)
    # With a margin it is another question, and a player that is as good passes
    equal = await gate_player(nim, bot, rules=FEW, margin=2.0)
    assert (equal.accepted, equal.record.reason) == (True, "equal")


def test_version_that_loses_ground_to_an_opponent_is_rejected() -> None:
    """A version that beats the accepted one because it knows its habits, and plays worse against all others."""
    measured = [
        GateMeasurement(
            role="accepted",
            player=GatedPlayer(name="bot.py", digest="sha256:1"),
            directory="accepted",
            verdict="better",
        ),
        GateMeasurement(
            role="opponent",
            player=GatedPlayer(name="rival.py"),
            directory="opponent-1",
            verdict="worse",
            results=GateResults(won=3, lost=37),
            before=GateResults(won=30, lost=10),
        ),
    ]
    found = judge_gate(measured)
    assert (found.status, found.reason) == ("rejected", "lost_ground")
    assert "3 won, 37 lost, 0 drawn; before 30 won" in found.message
    undecided = measured[1].model_copy(update={"verdict": "undecided"})
    assert judge_gate([measured[0], undecided]).status == "accepted"


PATIENCE = '''"""The rules of a game for one."""

from typing import Literal

from coworld_core import Rules


class Patience(Rules):
    """Guess a side, once."""

    Action = Literal["left", "right"]
    seats = 1
    score_range = (0, 1)
    version = "1"

    def start(self):
        self.shown = None

    def to_act(self):
        return [0] if self.shown is None else []

    def legal(self, seat):
        return ["left", "right"]

    def observe(self, seat):
        return {}

    def step(self, actions):
        self.shown = actions[0]

    def scores(self):
        return [float(self.shown == "left")]
'''


@pytest.mark.slow
async def test_in_a_game_of_one_seat_nobody_else_is_met(tmp_path: Path) -> None:
    game = write_game(tmp_path / "patience", "patience", PATIENCE, seats=1)
    bots = tmp_path / "bots"
    bots.mkdir()
    for name, side in (("bot", "right"), ("other", "left")):
        (bots / f"{name}.py").write_text(f"def act(observation, legal, rng):\n    return {side!r}\n")
    package = await resolve_package(game)
    accept_player(package, bots / "bot.py")
    (bots / "bot.py").write_text(WEAK)
    accept_player(package, bots / "bot.py")
    (bots / "bot.py").write_text("def act(observation, legal, rng):\n    return 'left'\n# better\n")
    better = await gate_player(package, bots / "bot.py")
    assert (better.record.reason, len(better.record.measurements)) == ("better", 1)


MORRA = '''"""The rules of Morra."""

from typing import Literal

from coworld_core import Rules


class Morra(Rules):
    """Rock, paper, scissors, once."""

    Action = Literal["rock", "paper", "scissors"]
    score_range = (0, 1)
    version = "1"

    def start(self):
        self.shown = None

    def to_act(self):
        return [0, 1] if self.shown is None else []

    def legal(self, seat):
        return ["rock", "paper", "scissors"]

    def observe(self, seat):
        return {}

    def step(self, actions):
        self.shown = [self.legal(seat).index(actions[seat] or "rock") for seat in (0, 1)]

    def scores(self):
        return [(0.5, 1.0, 0.0)[(self.shown[seat] - self.shown[1 - seat]) % 3] for seat in (0, 1)]
'''


def shows(hand: str, *, once: str = "") -> str:
    """A bot that always shows the same, except in one of four games."""
    return f"def act(observation, legal, rng):\n    return {once or hand!r} if rng.random() < 0.25 else {hand!r}\n"


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_version_that_beats_the_accepted_one_and_loses_ground_is_rejected(tmp_path: Path) -> None:
    """Paper beats rock, wins more against another rock, and loses to the scissors that rock beat."""
    game = write_game(tmp_path / "morra", "morra", MORRA)
    bots = tmp_path / "bots"
    bots.mkdir()
    bot = bots / "bot.py"
    for name, source in (
        ("bot", shows("rock")),
        ("rocky", shows("rock", once="paper")),
        ("scissors", shows("scissors")),
    ):
        (bots / f"{name}.py").write_text(source)
    first = await gate_player(game, bot)
    assert (first.accepted, first.record.reason) == (True, "first")

    bot.write_text(shows("paper"))
    lost = await gate_player(game, bot)
    assert (lost.accepted, lost.record.reason) == (False, "lost_ground")
    accepted, rocky, scissors = lost.record.measurements
    assert (accepted.role, accepted.verdict, accepted.results.lost) == ("accepted", "better", 0)
    assert [(one.player.name, one.verdict) for one in (rocky, scissors)] == [
        ("rocky.py", "better"),
        ("scissors.py", "worse"),
    ]
    assert rocky.before is not None
    assert rocky.results.won > rocky.before.won
    assert scissors.before is not None
    assert (scissors.results.won, scissors.before.lost) == (0, 0)
    assert lost.record.message == (
        f"It does worse than the accepted version against {scissors.player} "
        f"({scissors.results}; before {scissors.before})."
    )
    history = GateFolder(bots).history()
    assert [gate.status for gate in history.gates] == ["accepted", "rejected"]
    assert history.gates[1] == lost.record
    present = history.accepted_of("bot.py")
    assert present is not None
    assert present.bot == first.record.bot
    # The page says against whom the version that was tried lost, and the accepted one is what it was
    assert "does worse than the accepted version against scissors.py" in folder_page(GateFolder(bots), beside=tmp_path)
    (one,) = bots_report(history).bots
    assert [version.player for version in one.versions] == [first.record.bot]


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_circle_is_no_progress(tmp_path: Path) -> None:
    """Rock, paper, scissors, rock: each beats the one before, and none but paper is better than all before it."""
    game = write_game(tmp_path / "morra", "morra", MORRA)
    bots = tmp_path / "bots"
    bots.mkdir()
    bot = bots / "bot.py"
    seen: list[GateOutcome] = []
    for hand in ("rock", "paper", "scissors", "rock"):
        bot.write_text(shows(hand))
        seen.append(await gate_player(game, bot))
    rock, paper, scissors, again = seen
    assert [one.record.reason for one in seen] == ["first", "better", "circle", "worse"]
    assert scissors.record.earlier == (rock.record.bot,)
    assert [(one.role, one.verdict) for one in scissors.record.measurements] == [
        ("accepted", "better"),
        ("earlier", "worse"),
    ]
    assert f"but loses to an earlier one, which is a circle: {rock.record.bot} (" in scissors.record.message
    assert again.record.accepted == paper.record.bot
    assert again.notes == ("This is version 1 of bot.py again.",)
    assert begin_gate(await resolve_package(game), bot).plan == (
        f"{rock.record.bot} meets the accepted version {paper.record.bot}."
    )

    (one,) = bots_report(GateFolder(bots).history()).bots
    assert {version.digest for version in one.circle} == {each.record.bot.digest for each in (rock, paper, scissors)}
    last = f"{scissors.record.bot.version} (rejected)"
    assert one.circle_sentence == (
        f"Its versions go in a circle: {last} beats version 2 ({paper.record.bot.version}), which beats "
        f"version 1 ({rock.record.bot.version}), which beats {last}."
    )
    assert "go in a circle" in folder_page(GateFolder(bots), beside=tmp_path)

    # A person may know better, and is told
    forced = accept_player(await resolve_package(game), bot)
    assert forced.message.endswith("This is version 1 of bot.py again.")


def against(role: str, digest: str, won: int, lost: int, verdict: str, *, before: int | None = None) -> GateMeasurement:
    """A measurement of twenty blocks or more, whose results leave no doubt."""
    return GateMeasurement.model_validate(
        {
            "role": role,
            "player": {"name": "bot.py", "digest": digest},
            "directory": role,
            "verdict": verdict,
            "results": {"won": won, "lost": lost, "elo": elo_difference([1.0] * won + [0.0] * lost)},
            "before": None if before is None else {"won": before, "lost": won + lost - before},
        }
    )


def test_circle_in_an_old_history_is_shown_and_an_earlier_version_need_only_be_beaten() -> None:
    """A version was chosen for how it beats the one before it, so the next one may win less often against that."""
    accepted = against("accepted", "sha256:2", 18, 2, "better")
    less = judge_gate([accepted, against("earlier", "sha256:1", 14, 6, "worse", before=19)])
    assert (less.reason, less.message.endswith(", and closes no circle with 1 earlier version.")) == ("better", True)
    lost = judge_gate([accepted, against("earlier", "sha256:1", 2, 18, "worse", before=19)])
    assert (lost.status, lost.reason) == ("rejected", "circle")

    won = [
        record(number, status="accepted", accepted=f"sha256:{before}").model_copy(
            update={"measurements": (against("accepted", f"sha256:{before}", 18, 2, "better"),)}
        )
        for number, before in ((2, 1), (3, 2), (1, 3))
    ]
    history = GateHistory.of(won)
    (one,) = bots_report(history).bots
    assert [version.digest for version in one.circle] == ["sha256:3", "sha256:2", "sha256:1"]
    assert bots_report(GateHistory.of(won[:2])).bots[0].circle == ()
    assert [version.digest for version in history.versions_of("bot.py")] == ["sha256:1", "sha256:3", "sha256:2"]


def test_last_three_earlier_versions_are_opponents(nim: Package, bots: Path) -> None:
    """Each content once, though it was accepted many times; one whose files are gone is named."""
    bot, folder = bots / "bot.py", GateFolder(bots)
    numbers = [0, 1, 2, 3, *[4, 5] * 6]
    for number in numbers:
        bot.write_text(f"{WEAK}# {number}\n")
        accept_player(nim, bot)
    bot.write_text(STRONG)
    begun = begin_gate(nim, bot)
    met = [folder.version(version).read_text()[-2] for version in begun.record.earlier]
    assert met == ["4", "3", "2"]
    assert [one.role for one in begun.opponents] == ["earlier"] * 3
    assert begun.plan.count("(earlier)") == 3
    folder.version(begun.record.earlier[1]).unlink()
    fewer = begin_gate(nim, bot)
    assert len(fewer.record.earlier) == 2
    assert "its files are gone" in fewer.left_out[0]


def record(number: int, *, seed: int = 0, status: str = "rejected", accepted: str = "sha256:a") -> GateRecord:
    return GateRecord.model_validate(
        {
            "gate": f"gate-{number}",
            "time": "2026-11-26T10:00:00Z",
            "status": status,
            "bot": {"name": "bot.py", "digest": f"sha256:{number}"},
            "accepted": {"name": "bot.py", "digest": accepted},
            "coworld": "nim",
            "seed": seed,
        }
    )


def test_seeds_that_are_used_again_and_many_tries_are_said() -> None:
    fresh = GateHistory.of([record(number, seed=number) for number in range(3)])
    assert gate_notes(fresh, record(9, seed=9)) == []
    used = gate_notes(fresh, record(9, seed=2))
    assert len(used) == 1
    assert used[0].startswith("Seed 2 was used for 1 other version of bot.py")
    many = gate_notes(GateHistory.of([record(number, seed=number) for number in range(13)]), record(13, seed=13))
    assert "13 other versions of bot.py were rejected" in many[0]
    assert "51 of 100" in many[0]
    again = gate_notes(fresh, record(1, seed=77).model_copy(update={"gate": "another"}))
    assert again[0].startswith("This version was gated before, on 1 other seed")


def test_history_with_a_torn_line_and_of_a_later_version(bots: Path) -> None:
    folder = GateFolder(bots)
    folder.enter(lambda _: record(1, status="accepted"))
    later = {**json.loads(record(2).to_line()), "schema_version": 7, "status": "shelved", "mood": "bold"}
    with folder.log.open("ab") as log:
        log.write(json.dumps(later).encode() + b"\n" + record(3).to_line()[:40])
    history = read_gate_history(folder.log)
    assert [gate.gate for gate in history.gates] == ["gate-1"]
    before = folder.log.read_bytes()
    folder.enter(lambda _: record(4))
    after = folder.log.read_bytes()
    assert after == before[: before.rindex(b"\n") + 1] + record(4).to_line()


def test_a_folder_that_cannot_be_written_to_is_refused(bots: Path) -> None:
    folder = GateFolder(bots)
    folder.log.mkdir(parents=True)  # Nor may root write to that
    with pytest.raises(WorkspaceError, match="cannot be written to") as error:
        folder.enter(lambda _: record(1))
    assert error.value.code == "workspace_unwritable"


def test_what_is_kept_is_bounded(nim: Package, bots: Path) -> None:
    """Old versions and measurements are removed; the history, and what the bot is now, never."""
    folder = GateFolder(bots)
    notes = folder.gate("notes")
    notes.mkdir(parents=True)
    for number in range(40):
        (bots / "bot.py").write_text(f"{WEAK}# {number}\n")
        gate = accept_player(nim, bots / "bot.py")
        folder.gate(gate.gate).mkdir(parents=True)
    assert len(folder.history().accepted) == 40
    assert len(list((folder.place / "gates").iterdir())) <= 31
    assert notes.is_dir(), "what no gate has made stays"
    assert len(list((folder.place / "versions").iterdir())) <= 31
    last = folder.history().accepted_of("bot.py")
    assert last is not None
    assert folder.version(last.bot).read_text().endswith("# 39\n")


async def test_another_game_and_a_version_that_is_gone_are_refused(nim: Package, bots: Path) -> None:
    folder = GateFolder(bots)
    accept_player(nim, bots / "bot.py")
    (bots / "bot.py").write_text(STRONG)
    last = folder.history().accepted_of("bot.py")
    assert last is not None
    folder.version(last.bot).unlink()
    with pytest.raises(UsageError, match="is gone") as gone:
        begin_gate(nim, bots / "bot.py")
    assert gone.value.code == "version_missing"
    folder.enter(lambda _: record(1).model_copy(update={"coworld": "chess"}))
    with pytest.raises(UsageError, match="has bots of chess, and this is nim"):
        accept_player(nim, bots / "bot.py")


async def test_overtaken_by_another_program(nim: Package, bots: Path) -> None:
    """Two programs at once: what was measured against a version that is no longer the accepted one is not accepted."""
    bot = bots / "bot.py"
    bot.write_text(BROKEN)
    accept_player(nim, bot)
    bot.write_text(WEAK)
    begun = begin_gate(nim, bot, rules=FEW)
    bot.write_text(STRONG)
    accept_player(nim, bot)
    ended = await play_gate(begun)
    assert (ended.accepted, ended.record.reason) == (False, "overtaken")


@pytest.mark.slow
async def test_watching_compares_each_save_and_enters_nothing(nim: Package, bots: Path) -> None:
    bot = bots / "bot.py"
    accept_player(nim, bot)
    looks: list[GateLook] = []
    saves = iter([STRONG, "def act(:\n"])

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:

            def say(look: GateLook) -> None:
                looks.append(look)
                content = next(saves, None)
                if content is None:
                    tasks.cancel_scope.cancel()
                else:
                    bot.write_text(content)

            async def watch() -> None:
                await watch_player(nim, bot, say=say, rules=FEW)

            tasks.start_soon(watch)
    assert [bool(look.problem) for look in looks] == [True, False, True]
    assert looks[1].report is not None
    assert looks[1].report.blocks >= 15
    assert "bot.py:1" in looks[2].problem
    assert len(GateFolder(bots).history().gates) == 1


def test_what_is_given_comes_before_the_settings(tmp_path: Path) -> None:
    (tmp_path / "gate.toml").write_text('variant = "long"\nopponents = ["counter"]\nmargin = 2\ncount_starved = true\n')
    settings = read_gate_settings(tmp_path)
    assert settings.but(variant=None, opponents=(), margin=None, count_starved=False, metric="") == settings
    given = settings.but(variant="short", opponents=("taker",), margin=0.0)
    assert (given.variant, given.opponents, given.margin, given.count_starved) == ("short", ("taker",), 0.0, True)
