"""What the audit of a game's rules in a certification must reject: a new game of the kit with one thing wrong."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from coworld_core.manifest.models import Manifest
from coworld_core.rules import Play, ReplayHeader, ReplayWriter, load_rules, read_replay
from coworld_runner.certification.rules_audit import audit_served_rules, own_steps
from coworld_runner.certification.step_answers import StepAnswer
from coworld_runner.episode.backend_choice import make_backend
from coworld_runner.kit.server.scaffolds import new_game
from coworld_runner.package.kit_programs import rules_served
from coworld_runner.package.resolver import Package, resolve_package


async def package(directory: Path, *changes: tuple[str, str]) -> Package:
    """A new game with changes to its rules."""
    new_game("adding", directory=directory)
    path = directory / "adding.py"
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return await resolve_package(directory)


async def audit(found: Package, directory: Path, *, replay: Path | None = None, timeout: float = 120.0) -> StepAnswer:
    async with make_backend("process", found) as backend:
        return await audit_served_rules(
            found.manifest,
            replay=replay,
            backend=backend,
            platform=None,
            directory=directory,
            timeout=timeout,
        )


def recorded(directory: Path, *, drawing: str | None = None) -> Path:
    """The replay of a game, perhaps with another drawing at its end."""
    rules = load_rules("adding:Adding", directory=directory)
    play = Play(rules, seed=3)
    header = ReplayHeader(rules="Adding", version="1", config={"target": 10}, seed=3, seats=2, names=["A", "B"])
    writer = ReplayWriter(header)
    writer.add(play.frame())
    while not play.over:
        seat = play.to_act[0]
        done = play.step({seat: play.read(seat, {"add": 2})})
        frame = play.frame()
        writer.add(dataclasses.replace(frame, drawing=drawing) if drawing and play.over else frame, done)
    path = directory / "recorded"
    path.write_bytes(writer.finish(reason="over", results=play.results()))
    assert read_replay(path.read_bytes()).reason == "over"
    return path


STEP = "action = actions[self.turn]\n"
OBSERVE = 'return {"total": self.total, "target": self.config.target}'
DRAW = "def draw(self)"

BROKEN = {
    # What one process finds alone is tested where it is found (core's `test_rules_audit`)
    "hash of a text": (OBSERVE, 'return {"total": hash("total")}', "rules_differ_between"),
    "a reward by a hash": (
        DRAW,
        f"def rewards(self):\n        return {{0: hash('total')}}\n\n    {DRAW}",
        "rules_differ_between",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new", "code"), BROKEN.values(), ids=BROKEN)
async def test_broken_rules_fail_the_audit(tmp_path: Path, old: str, new: str, code: str) -> None:
    answer = await audit(await package(tmp_path / "adding", (old, new)), tmp_path / "audit")
    assert answer.status == "fail"
    broken = [item for item in answer.evidence if item.broken]
    assert any(item.code.startswith(code) for item in broken), broken
    assert all(item.hint for item in broken)
    assert answer.failure_reason == broken[0].code
    assert {path.name for path in (tmp_path / "audit").iterdir()} == {
        "rules-audit.json",
        "rules-audit.stdout.log",
        "rules-audit.stderr.log",
    }


@pytest.mark.slow
async def test_sound_rules_pass_and_their_replay_is_the_same_game(tmp_path: Path) -> None:
    sound = await package(tmp_path / "adding")
    answer = await audit(sound, tmp_path / "audit", replay=recorded(tmp_path / "adding"))
    assert (answer.status, {item.code for item in answer.evidence}) == (
        "pass",
        {"rules_same_in_other_processes", "replay_plays_again", "secrets_not_named"},
    )


@pytest.mark.slow
async def test_a_replay_that_is_another_game_fails(tmp_path: Path) -> None:
    sound = await package(tmp_path / "adding")
    answer = await audit(sound, tmp_path / "audit", replay=recorded(tmp_path / "adding", drawing="11 of 10"))
    assert answer.failure_reason == "replay_plays_differently"
    assert 'tick 5: drawing was "11 of 10", and is ' in answer.detail
    assert ">+2</text>" in answer.detail


@pytest.mark.slow
async def test_rules_that_never_return_are_shown_where_they_are(tmp_path: Path) -> None:
    found = await package(tmp_path / "adding", (STEP, f"{STEP}        while self.total == 7: pass\n"))
    answer = await audit(found, tmp_path / "audit", timeout=8.0)
    assert answer.failure_reason == "rules_audit_failed"
    (item,) = answer.evidence
    assert "in step" in item.log_tail
    assert "adding.py" in item.log_tail
    assert "where the rules were" in str(answer.hint)


@pytest.mark.slow
async def test_an_image_that_cannot_audit_is_skipped(tmp_path: Path) -> None:
    found = await package(tmp_path / "adding")
    old = tmp_path / "adding" / "coworld_runner" / "kit" / "server"
    old.mkdir(parents=True)
    for directory in (old, old.parent, old.parent.parent):
        (directory / "__init__.py").touch()
    answer = await audit(found, tmp_path / "audit")
    assert (answer.status, answer.skip_reason) == ("skip", "not_applicable")
    assert "Build it again" in str(answer.hint)


@pytest.mark.slow
async def test_a_game_that_writes_no_report_fails(tmp_path: Path) -> None:
    found = await package(tmp_path / "adding", ("from pydantic", f"{ENDS}\nfrom pydantic"))
    answer = await audit(found, tmp_path / "audit")
    assert answer.failure_reason == "rules_audit_failed"
    assert "not a report" in answer.detail


ENDS = """import os, urllib.parse
if "COWORLD_AUDIT_SECONDS" in os.environ:
    path = urllib.parse.unquote(urllib.parse.urlsplit(os.environ["COGAME_RESULTS_URI"]).path)
    with open(path, "w") as file:
        file.write("all is well")
    os._exit(0)
"""


async def test_a_certification_audits_a_game_of_the_kit_and_no_other(tmp_path: Path) -> None:
    found = await package(tmp_path / "adding")
    assert rules_served(found.manifest) == (("python",), "adding:Adding")
    assert own_steps(found.manifest, "0.1.26") == ()
    assert [step.id for step in own_steps(found.manifest, None, browser=False)] == [
        "clients-handled",
        "seed-repeats",
        "rules-audit",
    ]
    document = found.manifest.model_dump(mode="json", by_alias=True, exclude_none=True)
    document["game"]["runnable"]["run"] = ["python", "game.py", "-m", "coworld_runner.kit.server"]
    assert [step.id for step in own_steps(Manifest.model_validate(document), None)] == [
        "clients-handled",
        "seed-repeats",
        "pages-drawn",
    ]
