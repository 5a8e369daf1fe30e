"""A directory that plays, and a training run, of which a checkpoint plays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coworld_core.errors import UsageError
from coworld_core.rules import load_player
from coworld_core.rules.player_directories import checkpoint_numbered, checkpoint_of

PLAYS = (
    "import json, pathlib\n"
    "WEIGHTS = json.loads((pathlib.Path(__file__).parent / 'weights.json').read_text())\n"
    "def act(observation, legal, rng):\n    return WEIGHTS\n"
)


def run_of(place: Path, *names: str) -> Path:
    """A training run with checkpoints of these names, whose weights are their names."""
    for name in names:
        (place / name).mkdir(parents=True)
        (place / name / "main.py").write_text(PLAYS)
        (place / name / "weights.json").write_text(json.dumps(name))
    return place


def played(word: str) -> str:
    return load_player(word)(None, None, None)  # type: ignore[arg-type]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run/events").mkdir(parents=True)
    (tmp_path / "run/log-9000.txt").write_text("")
    return run_of(tmp_path / "run", "step-500", "step-1000", "best", ".step-2000")


def test_a_run_is_its_newest_checkpoint(run: Path) -> None:
    assert [
        played(word) for word in ("./run", "./run/", "run@latest", "./run@latest", "./run@best", "./run/step-500")
    ] == (["step-1000"] * 4 + ["best", "step-500"])
    found = checkpoint_of("run@step-500")
    assert found is not None
    assert (found.name, found.path) == ("run@step-500", Path("run/step-500"))


def test_a_run_says_itself_what_its_latest_is(run: Path) -> None:
    (run / "latest").write_text("step-500\n")
    assert [played(word) for word in ("./run", "./run@latest", "./run@step-1000")] == [
        "step-500",
        "step-500",
        "step-1000",
    ]
    (run / "latest").unlink()
    (run / "latest").symlink_to("best")
    (run / "good").write_text("step-500")
    assert [played(word) for word in ("./run", "./run@latest", "./run@good")] == ["best", "best", "step-500"]
    found = checkpoint_of(str(run))
    assert found is not None
    assert found.name == "run@best"


def test_checkpoints_may_have_a_directory_of_their_own(tmp_path: Path) -> None:
    run_of(tmp_path / "run/checkpoints", "000500", "001000")
    assert played(f"{tmp_path}/run") == "001000"
    assert played(f"{tmp_path}/run@000500") == "000500"
    assert checkpoint_numbered(f"{tmp_path}/run", 500) == tmp_path / "run/checkpoints/000500"
    assert checkpoint_numbered(f"{tmp_path}/run", 501) is None


def test_what_plays_itself_and_what_is_not_numbered_is_no_run(tmp_path: Path) -> None:
    run_of(tmp_path, "bot", "bot/v1", "bots/alice1", "bots/bob2")
    assert played(f"{tmp_path}/bot") == "bot"
    with pytest.raises(UsageError) as refused:
        load_player(f"{tmp_path}/bots")
    assert refused.value.hint == "Name a directory in it that has one: alice1 or bob2."


@pytest.mark.parametrize(
    ("word", "said"),
    [
        (
            "./run@step-50",
            "run has no checkpoint 'step-50'. Did you mean run@step-500? It has step-1000, step-500 and best.",
        ),
        ("./run@../run", "run has no checkpoint '../run'. It has step-1000, step-500 and best."),
        ("./run@events", "run/events has no file that plays, as if it had not been written whole. It has step-1000"),
        ("./run@old", "run/old names 'step-1', but run has no checkpoint 'step-1'."),
        (
            "./empty@latest",
            "empty has no checkpoint with a number in its name, and nothing named 'latest'. A checkpoint is",
        ),
    ],
)
def test_missing_checkpoint_is_refused_with_those_there_are(run: Path, word: str, said: str) -> None:
    (run / "old").write_text("step-1")
    (run.parent / "empty").mkdir()
    with pytest.raises(UsageError) as refused:
        load_player(word)
    assert refused.value.code == "no_checkpoint"
    assert f"{refused.value.message} {refused.value.hint}".startswith(said)


def test_half_written_newest_checkpoint_is_refused_rather_than_an_older_one_played(run: Path) -> None:
    (run / "step-1500").mkdir()
    (run / "step-1500/weights.json").write_text("[")
    with pytest.raises(UsageError, match=r"run/step-1500 has no file that plays") as refused:
        load_player("./run")
    assert refused.value.hint == "It has step-1000, step-500 and best."
    assert played("./run@step-1000") == "step-1000"
