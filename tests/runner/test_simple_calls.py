"""One call for those who only say what: the package is found, a backend opened, a directory made."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.small_world import MANIFEST, World, fast, world

from coworld_core.episode.events import RunStarted
from coworld_core.episode.record import read_record, read_rows, read_summary
from coworld_core.errors import UsageError
from coworld_runner import (
    EpisodeOptions,
    Listener,
    certify,
    compare,
    plan_episode,
    resolve_package,
    run_batch,
    run_episode,
    run_many,
)
from coworld_runner.certification import read_certification
from coworld_runner.evaluation.tournament import play_tournament


@pytest.fixture
async def small() -> AsyncGenerator[World, None]:
    async with world() as made:
        yield made


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "coworld_manifest.json").write_text(json.dumps(MANIFEST), encoding="utf-8")
    return tmp_path


async def test_an_episode_of_a_directory(small: World, directory: Path) -> None:
    seen: list[str] = []

    def listen(event: object) -> None:
        if isinstance(event, RunStarted):
            seen.extend(event.players)

    listener: Listener = listen
    record = await run_episode(
        str(directory), players=["second", "first"], backend=small.backend, listeners=(listener,)
    )
    assert record.ok, record
    assert seen == ["Second", "First"]
    assert read_record(directory / "results" / "latest") == record
    assert record.workspace is not None
    assert record.workspace.resolve() == (directory / "results" / "latest").resolve()
    assert record.replay.read_bytes()


async def test_players_that_leave_because_all_is_stopped_do_not_excuse_a_game_that_is_never_over(
    tmp_path: Path,
) -> None:
    leaving = ("first:leaves_when_stopped", "second:leaves_when_stopped")
    # The stopped game's last frames reach them first, which on a real backend is a race
    async with world(game_vices=("never_over",), player_vices=leaving) as endless:
        record = await run_episode(
            endless.package,
            backend=endless.backend,
            workspace=tmp_path / "out",
            options=EpisodeOptions(timeout_seconds=3, linger_seconds=1000),
        )
    assert [seat.exit.reason for seat in record.slots if seat.exit is not None] == ["exited", "exited"]
    assert [(fault.party, fault.error_type) for fault in record.faults] == [("game", "episode_timeout")]


async def test_additional_files_of_a_game_are_kept(directory: Path) -> None:
    async with world(game_vices=("writes_more",)) as made:
        record = await run_episode(str(directory), backend=made.backend)
    assert record.ok, record
    place = directory / "results" / "latest"
    names = {"events.json", "player_failure.json", "trajectory.jsonl", "heat map.bin", "logs/game/moves.log"}
    kept = {artifact.path for artifact in record.artifacts}
    assert names <= kept
    # Neither a secret's file, nor one that would pass for ours
    assert not {".unfinished", "episode.json"} & kept
    assert read_record(place) == record
    assert ["'episode.json'" in words for words in record.warnings] == [True]
    told = json.loads((place / "events.json").read_text())
    assert (told["COWORLD_EPISODE_ID"], told["COWORLD_GAME_NAME"]) == (record.run_id, record.coworld)
    assert told["COWORLD_GAME_VERSION"] == record.version
    assert told["COWORLD_SOURCE_REVISION"] == record.game.image.image if record.game is not None else ""


async def test_uncollectable_files_are_warnings(directory: Path) -> None:
    async with world(game_vices=("writes_elsewhere",)) as made:
        record = await run_episode(str(directory), backend=made.backend)
    assert record.ok, record
    assert len([words for words in record.warnings if "cannot be kept" in words]) == 3
    assert not {"events.json", "trajectory.jsonl"} & {artifact.path for artifact in record.artifacts}


async def test_episodes_of_a_package(small: World, directory: Path) -> None:
    package = await resolve_package(directory)
    summary = await run_batch(package, episodes=2, variant="default", backend=small.backend)
    assert (len(summary), summary.ok) == (2, True)
    assert read_summary(directory / "results" / "latest") == summary
    with pytest.raises(UsageError, match="directory must be named") as refused:
        await run_batch(package, episodes=2, backend=small.backend, resume=True)
    assert refused.value.code == "nothing_to_resume"


@pytest.mark.slow
async def test_a_certification_of_a_directory(small: World, directory: Path) -> None:
    found = await certify(directory, backend=small.backend, options=fast())
    assert found.ok
    latest = directory / "results" / "certification" / "latest"
    assert read_certification(latest) == found
    (directory / "coworld_manifest.json").write_text("{}", encoding="utf-8")
    refused = await certify(directory, backend=small.backend)
    assert [step.id for step in refused.failed] == ["matriculate"]
    assert read_certification(latest) == refused


async def test_plan_excludes_further_arguments(small: World, tmp_path: Path) -> None:
    plan = plan_episode(small.package)
    with pytest.raises(UsageError) as twice:
        await run_episode(plan, seed=3, backend=small.backend, workspace=tmp_path / "w")
    assert twice.value.code == "plan_excludes_options"
    with pytest.raises(UsageError, match="open_backend") as closed:
        await run_episode(plan, workspace=tmp_path / "w")
    assert closed.value.code == "backend_not_open"
    assert not (tmp_path / "w").exists()


UNTAKEN: tuple[tuple[str, Callable[..., Awaitable[object]]], ...] = (
    ("parallel", run_episode),
    ("paralel", run_batch),
    ("parallel", certify),
    ("resume", compare),
    ("workspace", play_tournament),
)


@pytest.mark.parametrize(("name", "call"), UNTAKEN)
async def test_unknown_keyword_is_refused(name: str, call: Callable[..., Awaitable[object]], directory: Path) -> None:
    given: dict[str, Any] = {"episodes": 2} if call is run_batch else {}
    players = ("first", "second") if call is compare else ()
    with pytest.raises(TypeError, match=f"keyword argument '{name}'"):
        await call(directory, *players, **given, **{name: 2})
    assert [entry.name for entry in os.scandir(directory)] == ["coworld_manifest.json"]


async def test_plans_alone_leave_their_evidence_in_the_current_directory(
    small: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    await run_many([("one", plan_episode(small.package))], backend=small.backend)
    [workspace] = os.scandir("results")
    assert [row.key for row in read_rows(Path(workspace))] == ["one"]


async def test_a_package_in_a_notebook(small: World) -> None:
    hostile = "<script>alert(1)</script>\x1b[2J"
    package = replace(small.package, report=small.package.report.model_copy(update={"source": hostile}))
    assert str(package) == r"counting 1.2.3 from <script>alert(1)</script>\x1b[2J"
    page = package._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert "<script" not in page
    assert "Variants: default, long" in page
    keys = ["coworld", "version", "role", "id", "name", "description", "image", "run", "context"]
    rows = package.to_records()
    assert all(list(row) == keys for row in rows)
    assert [(row["role"], row["id"], row["run"]) for row in rows] == [
        ("game", "counting", "game"),
        ("player", "first", "first"),
        ("player", "second", "second"),
    ]
