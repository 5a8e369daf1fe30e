"""`improve`: what it shows, what it leaves, and how it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli_kit import coworld

pytestmark = [pytest.mark.slow, pytest.mark.more]

NIM = Path(__file__).parents[2] / "examples" / "nim"
WEAK = (NIM / "players" / "random_taker.py").read_text()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "bot.py").write_text(WEAK)
    return tmp_path


def test_step_without_a_change_is_lost_and_the_same_command_goes_on(place: Path) -> None:
    words = ("improve", NIM, "./bot.py", "--with", "true", "--evidence", "1", "--backend", "process", "-o", "out")
    done = coworld(*words, "--budget", "1", cwd=place)
    assert done.status == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "No change made bot better, after 1 step."
    assert lines[3].split()[:2] == ["1", "lost"]
    assert "out/best/bot.py" in done.stdout
    assert "[lost] step 1: The player is the same as before." in done.stderr
    more = coworld(*words, "--budget", "2", "--json", cwd=place)
    assert (more.status, more.json["ended"], more.json["ok"]) == (1, "steps", False)
    assert [step["reason"] for step in more.json["steps"]] == ["player_unchanged"] * 2
    assert more.json["spent"]["episodes"] == 1
    assert Path(more.json["best_player"]).read_text() == WEAK
    (place / "bot.py").write_text("def act(observation, legal, rng):\n    return legal[0]\n")
    other = coworld(*words, cwd=place)
    assert (other.status, "bot.py has changed since its improvement" in other.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["./bot.py", "--with", "no-such-thing --go"], "There is no program 'no-such-thing'"),
        (["counter", "--with", "true"], "only files can be improved"),
        (["./bot.py", "--with", "true", "--budget", "much"], "'much' is not a budget"),
        (["./bot.py", "--with", "true", "--grader", "./none.py"], "There is no grader at"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_played(words: list[str], said: str, place: Path) -> None:
    refused = coworld("optimize", NIM, *words, cwd=place)
    assert (refused.status, said in refused.stderr) == (2, True), refused.stderr
    assert [path.name for path in place.iterdir()] == ["bot.py"]
