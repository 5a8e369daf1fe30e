"""Roles that were just begun, played by their host in this process; and answers that no role may give."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.nim_episode import NIM, nim_bundle

from coworld_core.errors import CoworldError, UsageError
from coworld_core.manifest.manifest_file import load_manifest
from coworld_core.roles.bundle_file import extract_bundle
from coworld_core.roles.grade import read_grade
from coworld_core.roles.report_check import read_diagnosis, read_report
from coworld_core.roles.report_request import ArtifactRef, ReportArtifacts, ReportEpisode, ReportRequest
from coworld_core.scopes import load_file
from coworld_runner.kit.roles.role_host import play_role
from coworld_runner.kit.server.scaffolds import new_role

Play = Callable[[str, Path], Awaitable[Path]]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return nim_bundle(tmp_path_factory.mktemp("nim") / "episode.zip")


@pytest.fixture
def play(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Let a file play a role on the episode; returns what it has left."""
    for name in ("path", "argv"):
        monkeypatch.setattr(sys, name, list(getattr(sys, name)))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))

    async def played(role: str, file: Path) -> Path:
        left = tmp_path / "left"
        if role == "reporter":
            found = extract_bundle(bundle, tmp_path / "files")
            refs = {
                part: ArtifactRef(uri=(tmp_path / "files" / name).as_uri(), media_type="application/json")
                for part, name in (("results", "results.json"), ("replay", "replay"))
            }
            episode = ReportEpisode(
                episode_request_id=found.episode_id,
                status="success",
                manifest={"ereq_id": found.episode_id, "status": "success", "include": [], "files": {}},  # type: ignore[arg-type]
                artifacts=ReportArtifacts(**refs),
            )
            asked = ReportRequest(request_id="r", report_uri=left.as_uri(), episodes=(episode,))
            monkeypatch.setenv("COGAME_REPORT_REQUEST", asked.to_json().decode())
        else:
            monkeypatch.setenv("COGAME_EPISODE_BUNDLE_URI", bundle.as_uri())
            monkeypatch.setenv("COGAME_TARGET_SLOT", "0")
            monkeypatch.setenv("COGAME_GRADE_URI" if role == "grader" else "COGAME_DIAGNOSIS_URI", left.as_uri())
        await play_role(str(file))
        return left

    return played


async def test_each_role_that_was_just_begun_works(play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = load_manifest(NIM / "coworld_manifest_template.json", template=True).manifest
    for role in ("grader", "reporter", "diagnoser", "optimizer"):
        new_role(role, tmp_path / f"{role}.py", manifest=manifest)
        assert "#   for tick in replay.ticks:" in (tmp_path / f"{role}.py").read_text()
    grade = read_grade(await play("grader", tmp_path / "grader.py"))
    assert (grade.score, grade.grader_id, grade.model_dump()["winner"]) == (1, "grader", "Bob")
    monkeypatch.delenv("COGAME_GRADE_URI")
    manifest, findings = read_diagnosis(await play("diagnoser", tmp_path / "diagnoser.py"))
    assert (manifest.render, findings.score) == ("diagnosis.md", 0)
    assert findings.recommendations[1] == "Its log complains: Error: no book of openings"
    monkeypatch.delenv("COGAME_DIAGNOSIS_URI")
    assert read_report(await play("reporter", tmp_path / "reporter.py")).render == "report.md"

    optimize = load_file(tmp_path / "optimizer.py").optimize
    (tmp_path / "bot.py").write_text("def act(observation, legal, rng):\n    return rng.choice(legal)\n")
    episodes = [SimpleNamespace(outcome="lost")]
    task = SimpleNamespace(episodes=episodes, findings=[{"recommendations": ["Think."]}], history=[])
    assert optimize(task, None) == ["Think.", "It lost 1 of 1 episodes."]
    (change,) = optimize(task, tmp_path / "bot.py")
    assert "return legal[-1]" in (tmp_path / "bot.py").read_text()
    task.history = [SimpleNamespace(note=change)]
    assert optimize(task, tmp_path / "bot.py") == ["legal[-1] became legal[0]"]


def test_a_new_role_is_a_file_in_python_that_was_not_there(tmp_path: Path) -> None:
    new_role("grader", tmp_path / "mine.py")
    with pytest.raises(UsageError, match="already exists"):
        new_role("grader", tmp_path / "mine.py")
    with pytest.raises(UsageError, match="is not a Python file") as refused:
        new_role("reporter", tmp_path / "mine.mjs")
    assert str(refused.value.hint).startswith(f"Write {tmp_path / 'mine.py'}, or a program in another language")


BAD = {
    "grade-text": ("grader", "'good'", "grade has returned what is no grade: score:"),
    "grade-set": ("grader", "{'score': 1, 'seats': {1, 2}}", "what is no grade"),
    "report-nothing": ("reporter", "None", "report has returned nothing, not a page"),
    "report-number": ("reporter", "3", "report has returned int, not a page"),
    "report-nan": ("reporter", "{'a.json': {'x': float('nan')}}", "a.json that cannot be written"),
    "report-name": ("reporter", "{1: 'page'}", "a file that is called 1"),
    "report-manifest": ("reporter", "{'manifest.json': {}}", "a file that is called 'manifest.json'"),
    "diagnose-list": ("diagnoser", "{'findings.json': [1]}", "findings.json that is not valid"),
    "diagnose-nothing": ("diagnoser", "''", "diagnose has returned nothing"),
}


@pytest.mark.parametrize("case", BAD)
async def test_bad_answer_names_the_file_and_the_line(case: str, play: Play, tmp_path: Path) -> None:
    role, answer, said = BAD[case]
    function = {"grader": "grade", "reporter": "report", "diagnoser": "diagnose"}[role]
    (tmp_path / "mine.py").write_text(f"ID = 'mine'\n\n\ndef {function}(*given):\n    return {answer}\n")
    with pytest.raises(CoworldError) as refused:
        await play(role, tmp_path / "mine.py")
    assert refused.value.message.startswith(f"mine.py:4: {function} has returned ")
    assert said in refused.value.message
    assert not (tmp_path / "left").exists()
