"""What an episode comes to for the platform, and what is handed over in which order."""

from __future__ import annotations

import datetime as dt
import json
import zipfile
import zlib
from collections.abc import Generator
from pathlib import Path

import anyio
import pytest
from support.fake_server import site_in_thread
from support.put_server import PutServer

from coworld_core.episode.events import BaseEvent, PhaseFinished, ProbeFinished, UnitStarted
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.verdict import Verdict
from coworld_core.retries import Backoff
from coworld_runner.package import transfers
from coworld_runner.package.transfers import Transfers
from coworld_runner.worker.delivery import Delivery
from coworld_runner.worker.worker_evidence import (
    Stopwatch,
    pack_debug,
    pack_replay,
)
from coworld_runner.worker.worker_settings import Outputs

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
GOOD = Verdict(counts=True)


# --- times ----------------------------------------------------------------------------------------------------------


def at(seconds: float, event: BaseEvent) -> BaseEvent:
    return event.model_copy(update={"time": NOW + dt.timedelta(seconds=seconds)})


def test_times() -> None:
    watch = Stopwatch(NOW)
    for event in (
        at(2, PhaseFinished(phase="ready", seconds=1)),
        at(3, UnitStarted(unit="player-1", slot=1)),
        at(5, UnitStarted(unit="player-0", slot=0)),
        at(5.5, ProbeFinished(probe="global_message", ok=True)),
        at(10, PhaseFinished(phase="play", seconds=4)),
        at(30, PhaseFinished(phase="finish", seconds=20)),
    ):
        watch(event)
    assert watch.timings(1.25) == {
        "game_boot_s": 2.0,
        "player_launch_s": 3.0,
        "first_step_s": 0.5,
        "gameplay_s": 4.5,
        "artifact_upload_s": 1.25,
    }


def test_times_of_a_game_that_was_over_before_it_was_looked_at() -> None:
    watch = Stopwatch(NOW)
    for event in (
        at(2, PhaseFinished(phase="ready", seconds=1)),
        at(3, PhaseFinished(phase="play", seconds=4)),
        at(4, ProbeFinished(probe="global_message", ok=True)),
    ):
        watch(event)
    found = watch.timings(0)
    assert sum(found.values()) == 3.0
    assert min(found.values()) >= 0


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def layout(tmp_path: Path) -> EpisodeLayout:
    made = EpisodeLayout(tmp_path / "episode")
    made.logs.mkdir(parents=True)
    made.results.write_bytes(b'{"scores": [1, 2]}')
    made.replay.write_bytes(b"tick\n" * 100_000)
    made.record.write_text("{}")
    made.game_stdout.write_bytes(b"game\n")
    made.player_log(0).write_bytes(b"player 0\n")
    return made


def test_packing(layout: EpisodeLayout, tmp_path: Path) -> None:
    pack_replay(layout, tmp_path / "replay.z")
    assert zlib.decompress((tmp_path / "replay.z").read_bytes()) == layout.replay.read_bytes()
    assert pack_debug(layout, tmp_path / "debug.zip")
    with zipfile.ZipFile(tmp_path / "debug.zip") as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["game.stdout.log", "policy_agent_0.log", "episode.json"]
    assert not pack_debug(EpisodeLayout(tmp_path / "nothing"), tmp_path / "none.zip")
    assert not (tmp_path / "none.zip").exists()


# --- the order ------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "_BACKOFF", Backoff(base=0.01, cap=0.05))


@pytest.fixture
def server() -> Generator[PutServer]:
    with site_in_thread(PutServer()) as opened:
        yield opened


async def hand_over(
    server: PutServer, layout: EpisodeLayout, verdict: Verdict = GOOD, *, seconds: float = 30
) -> Verdict:
    outputs = Outputs(
        results=f"{server.url}/results",
        replay=f"{server.url}/replay",
        debug=f"{server.url}/debug",
        error_info=f"{server.url}/error",
        timings=f"{server.url}/timings",
        record=f"{server.url}/record",
        policy_logs={slot: f"{server.url}/log{slot}" for slot in range(2)},
    )
    until = anyio.current_time() + seconds
    async with Transfers() as transfers:
        delivery = Delivery(outputs, layout, layout.workspace.parent, transfers, until=lambda: until)
        return await delivery.hand_over(verdict, Stopwatch(NOW))


async def test_results_come_when_everything_else_is_there(server: PutServer, layout: EpisodeLayout) -> None:
    server.faults |= {path: [503, "reset"] for path in ("/replay", "/debug", "/log0", "/record", "/results")}
    assert await hand_over(server, layout) == GOOD
    order = server.order()
    assert set(order[:-2]) == {"/replay", "/debug", "/log0", "/record"}
    assert order[-2:] == ["/results", "/timings"]
    kept = server.kept()
    assert kept["/results"] == layout.results.read_bytes()
    assert zlib.decompress(kept["/replay"]) == layout.replay.read_bytes()
    assert list(json.loads(kept["/timings"]))[-1] == "artifact_upload_s"


@pytest.mark.parametrize("lost", ["/replay", "/debug", "/log0", "/record", "/results"])
async def test_results_are_withheld_when_something_is_lost(server: PutServer, layout: EpisodeLayout, lost: str) -> None:
    server.faults[lost] = [403]
    verdict = await hand_over(server, layout)
    assert (verdict.counts, verdict.published_type) == (False, "crash")
    kept = server.kept()
    assert json.loads(kept["/error"]) == json.loads(verdict.error_info)
    assert "/results" not in kept
    assert "/timings" not in kept


async def test_upload_deadline_leaves_time_for_the_error_report(server: PutServer, layout: EpisodeLayout) -> None:
    server.faults["/debug"] = [503] * 100_000
    verdict = await hand_over(server, layout, seconds=2)
    assert not verdict.counts
    assert "/error" in server.kept()


async def test_lost_timings_change_nothing(server: PutServer, layout: EpisodeLayout) -> None:
    server.faults["/timings"] = [403]
    assert await hand_over(server, layout) == GOOD
    assert "/error" not in server.kept()


async def test_failed_episode_uploads_independently(server: PutServer, layout: EpisodeLayout) -> None:
    verdict = Verdict(counts=False, error_type="player_error", message="m", slot=1)
    server.faults["/debug"] = [403]
    assert await hand_over(server, layout, verdict) == verdict
    assert set(server.order()) == {"/error", "/log0", "/record"}
    server.puts.clear()
    # The error itself cannot be told: the rest is handed over all the same
    server.faults["/error"] = [403]
    assert await hand_over(server, layout, verdict) == verdict
    assert set(server.order()) == {"/debug", "/log0", "/record"}
