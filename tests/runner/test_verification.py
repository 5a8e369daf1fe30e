"""Replays that are checked after the episode, and what the records say then."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from support.misfit_kit import PACKAGE, PLACEHOLDER, misfit_plan

from coworld_core.episode.events import BaseEvent
from coworld_core.episode.record import EpisodeRecord, read_record, read_summary
from coworld_core.manifest.features import ReplayViewer
from coworld_runner.backends import ProcessBackend
from coworld_runner.batch import run_batch
from coworld_runner.episode.running import run_episode
from coworld_runner.plan import EpisodePlan
from coworld_runner.replay.showing import ReplayOptions
from coworld_runner.replay.verification import verify_batch_replays, verify_episode_replay

pytestmark = pytest.mark.slow

QUICK = ReplayOptions(ready_timeout=30, message_timeout=30)


def backend() -> ProcessBackend:
    return ProcessBackend(contexts={PLACEHOLDER: PACKAGE})


def unshowing(plan: EpisodePlan) -> EpisodePlan:
    """The same plan with a game that cannot show a replay."""
    manifest = misfit_plan(run=("python3", "-c", "raise SystemExit('cannot show it')")).manifest
    return dataclasses.replace(plan, manifest=manifest)


def written(workspace: Path) -> EpisodeRecord:
    return read_record(workspace)


async def test_a_good_replay(tmp_path: Path) -> None:
    plan = misfit_plan()
    events: list[BaseEvent] = []
    async with backend() as opened:
        record = await run_episode(plan, backend=opened, workspace=tmp_path / "w")
        verified = await verify_episode_replay(
            plan, record, workspace=tmp_path / "w", backend=opened, options=QUICK, listeners=(events.append,)
        )
    assert verified.ok
    assert written(tmp_path / "w") == verified
    assert {"logs/replay.stdout.log", "logs/replay.stderr.log"} <= {artifact.path for artifact in verified.artifacts}
    assert all(event.run_id == record.run_id for event in events)


@pytest.mark.parametrize(("game", "error_type"), [("no-replay", "replay_missing"), ("well", "replay_unloadable")])
async def test_a_bad_replay_is_the_game_s_fault(game: str, error_type: str, tmp_path: Path) -> None:
    plan = misfit_plan(game)
    seen: list[str] = []
    async with backend() as opened:
        record = await run_episode(plan, backend=opened, workspace=tmp_path / "w")
        assert record.ok
        verified = await verify_episode_replay(
            unshowing(plan),
            record,
            workspace=tmp_path / "w",
            backend=opened,
            options=QUICK,
            listeners=(lambda event: seen.append(getattr(event, "kind", "")),),
        )
    (fault,) = verified.faults
    assert (fault.party, fault.error_type, fault.phase) == ("game", error_type, "verify_replay")
    assert "fault_seen" in seen
    assert written(tmp_path / "w") == verified
    assert verified.scores == record.scores
    assert verified.status == "completed"
    if error_type == "replay_unloadable":
        assert "cannot show it" in fault.log_tail
        assert fault.log == "logs/replay.stderr.log"


FETCHES = '<!doctype html><script>fetch(new URLSearchParams(location.hash.slice(1)).get("replay"))</script>'


@pytest.mark.parametrize(("page", "complaint"), [(FETCHES, None), ("", "has an empty index.html")])
async def test_a_static_viewer_shows_it_in_place_of_the_game(page: str, complaint: str | None, tmp_path: Path) -> None:
    (tmp_path / "viewer").mkdir()
    (tmp_path / "viewer" / "index.html").write_text(page)
    played = misfit_plan()
    manifest = unshowing(played).manifest
    game = manifest.game.model_copy(update={"replay_viewer": ReplayViewer(bundle="viewer")})
    plan = dataclasses.replace(played, manifest=manifest.model_copy(update={"game": game}), directory=tmp_path)
    async with backend() as opened:
        record = await run_episode(played, backend=opened, workspace=tmp_path / "w")
        verified = await verify_episode_replay(plan, record, workspace=tmp_path / "w", backend=opened, options=QUICK)
    assert verified.ok is (complaint is None), verified.faults
    for fault in verified.faults:
        assert (fault.error_type, fault.log) == ("replay_unloadable", None)
        assert str(complaint) in fault.message


async def test_a_failed_episode_is_left_as_it_is(tmp_path: Path) -> None:
    plan = misfit_plan("exits-5")
    async with backend() as opened:
        record = await run_episode(plan, backend=opened, workspace=tmp_path / "w")
        assert await verify_episode_replay(plan, record, workspace=tmp_path / "w", backend=opened) is record


async def test_a_batch(tmp_path: Path) -> None:
    plan = misfit_plan()
    async with backend() as opened:
        summary = await run_batch(plan, episodes=2, parallel=2, backend=opened, workspace=tmp_path / "b")
        good = await verify_batch_replays(plan, summary, workspace=tmp_path / "b", backend=opened, options=QUICK)
        assert good.ok
        bad = await verify_batch_replays(
            unshowing(plan), summary, workspace=tmp_path / "b", backend=opened, options=QUICK
        )
    assert [row.error_type for row in bad.episodes] == ["replay_unloadable"] * 2
    assert (bad.completed, bad.faulted, bad.ok) == (2, 2, False)
    assert read_summary(tmp_path / "b") == bad
    assert written(tmp_path / "b" / "episode-0002").faults[0].error_type == "replay_unloadable"
