"""`grade`, `report-episode` and `diagnose-episode`."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli_kit import coworld

pytestmark = [pytest.mark.slow, pytest.mark.more]

NIM = Path(__file__).parents[2] / "examples" / "nim"
CLOSE = """
def grade(episode):
    return {"score": max(episode.scores), "scale": "points", "ticks": episode.results["ticks"]}
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three games of nim."""
    out = tmp_path_factory.mktemp("many") / "run"
    done = coworld("run", NIM, "--backend", "process", "--episodes", "3", "--seed", "1", "-o", out)
    assert done.status == 0, done.stderr
    return out


def test_run_of_many_gives_a_table_that_is_continued(many: Path, tmp_path: Path) -> None:
    grader = tmp_path / "close.py"
    grader.write_text(CLOSE)
    assert coworld("grade", many / "2", "--json").json["grader"] == "nim-grader"
    one = coworld("grade", many / "2", "--grader", grader, "--json")
    assert (one.status, one.json["mean_score"], one.json["episodes"][0]["kept"]) == (0, 1.0, False)
    table = coworld("grade", many, "--grader", grader)
    assert table.status == 0, table.stderr
    lines = table.stdout.splitlines()
    assert lines[0].split() == ["Episode", "Grade", "ticks"]
    assert [line.split()[1] for line in lines[1:4]] == ["1", "1", "1"]
    assert lines[4:] == ["Scale: points.", "Mean of 3 grades by close: 1"]
    again = coworld("grade", many, "--grader", grader, "--json")
    assert [row["kept"] for row in again.json["episodes"]] == [True, True, True]


def test_report_is_shown_and_its_place_is_said(many: Path, tmp_path: Path) -> None:
    reporter = tmp_path / "short.py"
    reporter.write_text("def report(episodes):\n    return f'# {len(episodes)} of nim\\n'\n")
    shown = coworld("report-episode", many / "1", many / "2", "--reporter", reporter, cwd=tmp_path)
    assert shown.status == 0, shown.stderr
    assert shown.stdout.startswith("# 2 of nim\n")
    assert shown.stdout.rstrip().endswith("files/report.md")


def test_roles_look_at_each_episode_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "close.py").write_text(CLOSE)
    (tmp_path / "broken.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "short.py").write_text("def report(episodes):\n    return '# A game of nim\\n'\n")
    words = ["run", NIM, "--backend", "process", "--seed", "1", "--grader", "./close.py", "-o"]
    one = coworld(*words, "one", "--reporter", "./short.py", cwd=tmp_path)
    assert one.status == 0, one.stderr
    assert "\n# A game of nim\n" in one.stdout
    assert "\nGrader close: 1 (" in one.stdout
    assert "(2 of 2)\n" in one.stderr
    # A role that fails is told by the exit status, and not by the episode's outcome
    both = coworld(*words, "two", "--grader", "./broken.py", "-n", "2", "--json", cwd=tmp_path)
    assert (both.status, both.json["ok"]) == (1, True)
    assert [(row["id"], row["status"]) for row in both.json["roles"]] == [
        ("close", "completed"),
        ("broken", "failed"),
    ] * 2
    again = coworld(*words, "two", "-n", "2", "--resume", cwd=tmp_path)
    assert again.status == 0, again.stderr
    assert again.stderr.count("grader close: 1, there already") == 2
    assert "Mean of 2 grades by close: 1" in again.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--report"], "nim declares no reporter"),
        (["--diagnoser", "d.py"], "--diagnoser needs --diagnose"),
        (["--diagnoser", "d.py", "--diagnose", "Nobody"], "No player of nim is 'Nobody'"),
    ],
)
def test_roles_that_could_not_run_are_refused_before_the_episode(words: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "d.py").write_text("def diagnose(episode, player):\n    return ''\n")
    refused = coworld("run", NIM, "--backend", "process", "-o", "out", *words, cwd=tmp_path)
    assert (refused.status, said in refused.stderr, (tmp_path / "out").exists()) == (2, True, False), refused.stderr


def test_page_that_would_run_a_script_is_refused(many: Path, tmp_path: Path) -> None:
    reporter = tmp_path / "sly.py"
    reporter.write_text("def report(episodes):\n    return {'p.html': '<p>ok</p><script>alert(1)</script>'}\n")
    refused = coworld("report-episode", many / "1", "--reporter", reporter)
    assert refused.status == 1
    assert "What the reporter wrote to report.zip is not valid" in refused.stdout
    assert "p.html" in refused.stdout


def test_failure_shows_the_authors_lines_alone(many: Path, tmp_path: Path) -> None:
    grader = tmp_path / "broken.py"
    grader.write_text("def grade(episode):\n    return {}['score']\n")
    failed = coworld("grade", many / "1", "--grader", grader)
    assert failed.status == 1
    assert "KeyError: 'score'" in failed.stdout
    assert "role_host" not in failed.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["report-episode"], "nim declares no reporter"),
        (["grade", "--grader", "none.py"], "There is no grader at"),
        (["diagnose-episode", "--player", "7", "--diagnoser", "d.py"], "No player of"),
        (["grade", "--grader", "g.py", "--timeout-seconds", "0"], "--timeout-seconds"),
    ],
)
def test_what_is_not_there_is_named(words: list[str], said: str, many: Path, tmp_path: Path) -> None:
    (tmp_path / "d.py").write_text("def diagnose(episode, player):\n    return ''\n")
    (tmp_path / "g.py").write_text(CLOSE)
    refused = coworld(words[0], many / "1", *words[1:], cwd=tmp_path)
    assert (refused.status, said in refused.stderr) == (2, True), refused.stderr
