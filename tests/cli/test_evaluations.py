"""`compare` for real, and what rankings look like: verdicts, exit statuses, going on, and what is refused."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from support.cli_kit import QUICK, Started, coworld
from support.launcher import Done
from support.simulated import comparison_plan, pair_rows, ranking_plan

from coworld_cli.commands.comparisons import passes
from coworld_cli.render.evaluation_text import evaluation_result
from coworld_cli.render.text import command_line, shown_path
from coworld_core.episode.record import SlotRow, read_rows
from coworld_core.evaluation import compare_rows, rank_rows
from coworld_core.evaluation.comparison import Comparison
from coworld_core.evaluation.designs import episode_key
from coworld_core.evaluation.lost_blocks import FirstDifference, LineOfPlay, LossNote, LossNotes

NIM = Path(__file__).parents[2] / "examples" / "nim"


@dataclass(frozen=True)
class Interrupted:
    """A comparison that Ctrl-C ended after its first block."""

    command: tuple[str | Path, ...]
    out: Path
    done: Done


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Generator[Interrupted]:
    place = tmp_path_factory.mktemp("evaluations")
    game, out = shutil.copytree(QUICK, place / "game"), place / "out"
    template = game / "coworld_manifest_template.json"
    manifest = json.loads(template.read_text())
    # Games without seeds are told from others; and the second block is to be under way when the first is seen
    del manifest["game"]["config_schema"]["properties"]["seed"]
    manifest["variants"] = manifest["variants"][:1]
    manifest["variants"][0]["game_config"]["linger"] = 0.5
    template.write_text(json.dumps(manifest))
    command = ("compare", "guest", "confidant", "-m", game, "--variant", "duel", "--backend", "process")
    command = (*command, "--count-starved", "-o", out)
    run = Started(command, None, None)
    try:
        run.until_printed("block 1 of at most 200 · 0 won, 0 lost, 1 drawn · evidence 1 of 20 · at most ")
        run.send(signal.SIGINT)
        yield Interrupted(command, out, run.end())
    finally:
        run.close()


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_played(interrupted: Interrupted) -> None:
    out, done = interrupted.out, interrupted.done
    assert done.status == 130
    assert f"What was done so far is in {out}.\n  hint: Run the same command again to resume.\n" in done.stderr
    assert len(list(read_rows(out))) >= 2
    assert {"plan.json", "report.json", "report.md"} <= {path.name for path in out.iterdir()}


def test_same_command_resumes(interrupted: Interrupted) -> None:
    out = interrupted.out
    rows = list(read_rows(out))
    done = coworld(*interrupted.command, "--max-blocks", "1", "--json")
    assert done.status == 0, done.stderr
    report = done.json
    assert list(read_rows(out)) == rows
    assert (report["ok"], report["verdict"], report["stopped"], report["blocks"]) == (
        True,
        "undecided",
        "max_blocks",
        1,
    )
    assert report["paths"]["episodes"] == str(out / "episodes.jsonl")
    assert [remark["code"] for remark in report["remarks"]] == ["no_seed", "no_interval"]


def test_comparison_text_for_people(interrupted: Interrupted) -> None:
    done = coworld(*interrupted.command, "--max-blocks", "1", "--quiet")
    assert done.stdout.startswith(
        "quick 1.0.0 duel · no seeds\n"
        "There is not enough evidence to tell Guest from Confidant, after 1 block.\n\n"
        "  player     mean  95 % interval\n"
    )
    said = "  Blocks:      0 won, 0 lost, 1 drawn\n  Elo:         +0 (-∞ to +∞)\n  Evidence:    none: 1 (20 decides)\n"
    assert said in done.stdout


def test_require_better_and_markdown_output(interrupted: Interrupted) -> None:
    out = interrupted.out
    done = coworld(*interrupted.command, "--max-blocks", "1", "--require", "better", "--markdown")
    assert done.status == 1
    assert done.stdout.startswith("### There is not enough evidence")
    assert done.stdout == (out / "report.md").read_text()


def test_another_comparison_is_refused(interrupted: Interrupted) -> None:
    out = interrupted.out
    done = coworld(*interrupted.command, "--seed", "7")
    assert done.status == 2
    assert done.stderr.endswith(
        f"error: {out} has an evaluation that differs from this one in: seed.\n"
        "  hint: Repeat the command that began it, or name another directory with -o.\n"
    )


def test_report_shows_a_finished_evaluation(interrupted: Interrupted, tmp_path: Path) -> None:
    out = interrupted.out
    assert coworld("evaluation", "report", out, "--markdown").stdout == (out / "report.md").read_text()
    page = tmp_path / "page.html"
    done = coworld("evaluation", "report", out, out, "--html", page, "--json")
    assert done.status == 0, done.stderr
    assert (done.json["html"], done.json["different_games"]) == (str(page), None)
    assert [run["workspace"] for run in done.json["runs"]] == [str(out)] * 2
    assert page.read_text().startswith("<!doctype html>")
    again = coworld("evaluation", "report", out, "--html", page)
    assert again.status == 2
    assert "add --overwrite" in again.stderr
    assert coworld("evaluation", "report", tmp_path).status == 2


def test_several_seeds_of_one_player(tmp_path: Path) -> None:
    out = tmp_path / "out"
    where = ("--variant", "duel", "--backend", "process", "--count-starved", "-o", out)
    done = coworld("scrimmage", "guest", "-m", QUICK, "-n", "2", "--parallel", "2", *where, "--json")
    assert done.status == 0, done.stderr
    assert (done.json["plan"]["kind"], done.json["blocks"]) == ("scrimmage", 2)
    other = coworld("mix", "-m", QUICK, "--player", "guest", *where)
    assert other.status == 2
    assert "differs from this one in: kind." in other.stderr


@pytest.mark.slow
def test_diagnose_reports_findings(tmp_path: Path) -> None:
    bot = "n = []\ndef act(observation, legal, rng):\n    n.append(0)\n    return legal[0] if n[1:] else {'take': 9}\n"
    (tmp_path / "bot.py").write_text(bot)
    asked = (
        "evaluation",
        "diagnose",
        "./bot.py",
        "-m",
        NIM,
        "--variant",
        "default",
        "--backend",
        "process",
        "--max-blocks",
        "1",
    )
    done = coworld(*asked, "--parallel", "2", "--count-starved", "-o", "out", "--json", cwd=tmp_path)
    assert done.status == 0, done.stderr
    assert (done.json["plan"]["kind"], done.json["blocks"], len(done.json["variants"])) == ("diagnose", 1, 1)
    found = done.json["variants"][0]
    assert found["conduct"]["refused"] >= found["conduct"]["episodes"] == 3
    assert found["conduct"]["acted"] > 10
    assert 0 < found["conduct"]["median_seconds"] <= found["conduct"]["slow_seconds"]
    assert (found["repeated"], found["other_scores"], found["other_replays"]) == (1, 0, 0)
    again = coworld(*asked, "--count-starved", "-o", "out", "--compare", tmp_path / "out", cwd=tmp_path)
    assert again.status == 0, again.stderr
    assert "1 thing about bot is worth looking at, after 1 block. First: " in again.stdout
    elsewhere = coworld(*asked, "-o", "other", "--compare", tmp_path, cwd=tmp_path)
    assert (elsewhere.status, "has no evaluation" in elsewhere.stderr) == (2, True)


def test_plan_of_a_comparison_plays_nothing(tmp_path: Path) -> None:
    asked = ("compare", "counter", "random-taker", "-m", NIM, "--plan")
    said = coworld(*asked, cwd=tmp_path).stdout
    assert said.startswith(
        "Counter against Random Taker: at most 200 blocks of 2 episodes. A verdict needs at least 15 blocks.\n"
    )
    done = coworld(*asked, "--elo1", "5", "--json", cwd=tmp_path)
    assert done.status == 0, done.stderr
    assert (done.json["plan"]["elo0"], done.json["plan"]["elo1"]) == (0.0, 5.0)
    assert done.json["plan"]["max_blocks"] > 10_000
    assert len(done.json["rows"]) == 5
    assert list(tmp_path.iterdir()) == []


def test_invalid_measurement_is_a_usage_error(tmp_path: Path) -> None:
    refused = {
        "empty_pool": ("pickup", "guest", "-m", QUICK),
        "candidate_in_pool": ("pickup", "guest", "-m", QUICK, "--pool", "guest"),
        "bad_share": ("mix", "-m", QUICK, "--player", "guest", "--player", "confidant,proportion=9"),
    }
    for code, words in refused.items():
        done = coworld(*words, "--backend", "process", "-o", tmp_path / "out", "--json")
        assert (done.status, done.json["error"]["code"]) == (2, code)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("verdict", "stopped", "passes_anyway", "is_better"),
    [
        ("better", "evidence", True, True),
        ("worse", "evidence", False, False),
        ("equal", "margin", True, False),
        ("not_better", "evidence", False, False),
        ("undecided", "max_blocks", True, False),
        ("undecided", "never_started", False, False),
        ("undecided", "game_faults", False, False),
        ("undecided", "spoiled", False, False),
    ],
)
def test_require_sets_the_exit_status(verdict: str, stopped: str, passes_anyway: bool, is_better: bool) -> None:
    report = compare_rows(comparison_plan(), []).model_copy(update={"verdict": verdict, "stopped": stopped})
    assert passes(report, must_win=False) is passes_anyway
    assert passes(report, must_win=True) is is_better


def test_files_are_compared_from_anywhere_and_known_by_what_they_hold(tmp_path: Path) -> None:
    for name in ("new", "old"):
        (tmp_path / f"{name}.py").write_text("def act(observation, legal, rng):\n    return legal[0]\n")
    asked = ("compare", "./new.py", "./old.py", "-m", NIM, "--backend", "process", "--max-blocks", "1")
    asked = (*asked, "--count-starved", "--parallel", "2", "-o", "out")
    done = coworld(*asked, cwd=tmp_path)
    assert done.status == 0, done.stderr
    assert "new and old are the same program: you compare a player with itself." in done.stdout
    rows = list(read_rows(tmp_path / "out"))
    assert {seat.name for row in rows for seat in row.slots} == {"new", "old"}
    assert len({seat.digest for row in rows for seat in row.slots}) == 1
    (tmp_path / "old.py").write_text("def act(observation, legal, rng):\n    return legal[-1]\n")
    done = coworld(*asked, "--json", cwd=tmp_path)
    assert done.status == 2
    assert done.json["error"]["code"] == "player_changed"
    assert done.json["error"]["message"].startswith("old.py has changed since the evaluation began: its digest was ")


def test_a_comparison_ends_with_the_blocks_that_were_lost(tmp_path: Path) -> None:
    comparison = Comparison(comparison_plan(max_blocks=1))
    for row in pair_rows(1, -1.0):
        comparison.add(row)
    first, second = episode_key(1, 1, 1), episode_key(1, 1, 2)
    difference = FirstDifference(
        tick=4,
        slot=0,
        text="left\n\x1b[31mnine",
        new=LineOfPlay(episode=first, action={"take": 1}, score=9.0),
        old=LineOfPlay(episode=second, action="pass", score=10.0),
    )
    comparison.worst.notes = LossNotes(blocks=(LossNote(block=1, first_difference=difference),))
    (tmp_path / first).mkdir()
    (tmp_path / first / "replay").touch()
    *_, title, heading, left, nine, new, old = (
        line for line in click.unstyle(evaluation_result(comparison.report(), tmp_path)).splitlines() if line
    )
    assert (title, heading) == ("Blocks that were lost", "  Block 1, by 1: seat 0 at tick 4")
    assert (left.strip(), nine.strip()) == ("left", "nine")
    assert new.split("  ")[2] == "New: take 1; scored 9"
    assert new.endswith(command_line("replay", shown_path(tmp_path / first), "--at", "4"))
    # Of the other one there is no replay
    assert old.endswith(command_line("evaluation", "replay", shown_path(tmp_path), second))


def test_how_a_ranking_is_shown(tmp_path: Path) -> None:
    plan = ranking_plan(entrants=(SlotRow(name="Ada"), SlotRow(name="Bob \x1b[1m")), max_blocks=2)
    rows = [row for block in (1, 2) for row in pair_rows(block, 1.0)]
    said = click.unstyle(evaluation_result(rank_rows(plan, rows), tmp_path))
    assert said.splitlines()[:3] == ["game 1 default · base seed 0", "0 of 1 pairs are told apart, after 2 blocks.", ""]
    table = [line.split() for line in said.splitlines()[3:6]]
    assert table[0] == ["player", "rating", "95", "%", "interval", "mean"]
    assert [line[:2] for line in table[1:]] == [["1", "Ada"], ["1", "Bob"]]
    assert "  Not told apart:  Ada from Bob\n" in said
