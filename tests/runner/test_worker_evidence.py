"""What an episode comes to for the platform, and what is handed over in which order."""

from __future__ import annotations

import datetime as dt
import json
import zipfile
import zlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.put_server import PutServer, put_server

from coworld_core.artifacts import EpisodeLayout
from coworld_core.episode import EpisodeRecord
from coworld_core.errors import UsageError
from coworld_core.events import BaseEvent, PhaseFinished, ProbeFinished, UnitStarted
from coworld_core.outcome import Fault
from coworld_core.retrying import Backoff
from coworld_runner.worker import transfer
from coworld_runner.worker.delivery import Delivery
from coworld_runner.worker.evidence import (
    Failure,
    Stopwatch,
    failure_of,
    failure_of_error,
    pack_debug,
    pack_replay,
)
from coworld_runner.worker.inputs import Outputs
from coworld_runner.worker.transfer import Transfers

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
PUBLISHED = {
    "player_error",
    "game_unhealthy",
    "game_contract_violation",
    "results_missing",
    "results_malformed",
    "replay_missing",
    "replay_unloadable",
    "episode_timeout",
    "crash",
}


def record(*faults: Fault, status: Any = "completed") -> EpisodeRecord:
    return EpisodeRecord(
        run_id="r",
        coworld="c",
        version="1",
        backend="kubernetes-job",
        variant="v",
        started_at=NOW,
        ended_at=NOW,
        seconds=1,
        status=status,
        faults=faults,
    )


def fault(error_type: Any, party: Any = "game", **more: Any) -> Fault:
    return Fault(fault=party, error_type=error_type, message="It happened.", time=NOW, **more)


def judged(*faults: Fault, status: str = "completed", replay: bool = True, wanted: bool = True) -> Failure | None:
    return failure_of(record(*faults, status=status), replay_present=replay, replay_wanted=wanted)


# --- the verdict ----------------------------------------------------------------------------------------------------


def test_what_counts() -> None:
    assert judged() is None
    assert judged(replay=False, wanted=False) is None
    # results that are there count, whatever players did on the way: they say how each of them did
    assert judged(fault("player_timeout", "player", slot=1)) is None
    assert judged(fault("platform_error", "platform")) is None


def test_results_of_a_game_that_was_cut_short_do_not_count() -> None:
    """A game may keep its results up to date while it plays; a player's failure ends it in the middle."""
    played = record(fault("player_error", "player", slot=1, seconds=4.0)).model_copy(update={"over_seconds": 5.0})
    found = failure_of(played, replay_present=True, replay_wanted=True)
    assert found is not None
    assert (found.error_type, found.slot) == ("player_error", 1)
    # where the game goes on without the player, its results are those of a whole game
    assert failure_of(played, replay_present=True, replay_wanted=True, players_stop_it=False) is None
    # and a player that failed when the game was over has not cut anything short
    later = record(fault("player_error", "player", slot=1, seconds=6.0)).model_copy(update={"over_seconds": 5.0})
    assert failure_of(later, replay_present=True, replay_wanted=True) is None


def test_what_does_not_count() -> None:
    missing = judged(replay=False)
    assert missing is not None
    assert missing.error_type == "replay_missing"
    # a game that ends badly may have been cut off in its replay
    unhealthy = judged(fault("game_unhealthy", hint="Read its log."))
    assert unhealthy == Failure(error_type="game_unhealthy", message="It happened. Read its log.")
    player = judged(fault("player_error", "player", slot=1), fault("results_missing"), status="failed")
    assert player == Failure(error_type="player_error", message="It happened.", slot=1)
    # the game's own fault decides, where the episode was completed
    both = judged(fault("player_error", "player", slot=1), fault("game_contract_violation"))
    assert both is not None
    assert (both.error_type, both.slot) == ("game_contract_violation", None)


@pytest.mark.parametrize("error_type", Fault.model_fields["error_type"].annotation.__args__)  # type: ignore[union-attr]
def test_the_platform_is_told_in_words_it_knows(error_type: str) -> None:
    found = judged(fault(error_type), status="failed")
    assert found is not None
    assert found.error_type in PUBLISHED
    # and nothing is lost by it
    assert found.error_type == error_type or found.message.startswith(f"{error_type}: ")


def test_a_player_whose_image_is_not_to_be_had() -> None:
    found = judged(fault("image_unreachable", "player", slot=0), status="failed")
    assert found is not None
    assert (found.error_type, found.slot) == ("player_error", 0)


def test_errors_of_the_worker_itself() -> None:
    known = failure_of_error(UsageError("Nothing there.", code="state_missing", hint="Look."))
    assert known == Failure(error_type="crash", message="state_missing: Nothing there. Look.")
    assert "ZeroDivisionError" in failure_of_error(ZeroDivisionError("x")).message


def test_the_document_is_the_published_one() -> None:
    document = json.loads(Failure(error_type="crash", message="ü" * 5000, slot=3).to_json())
    assert list(document) == ["error_type", "message", "failed_policy_index"]
    assert len(document["message"]) == 2000
    assert document["failed_policy_index"] == 3
    assert json.loads(Failure(error_type="crash", message="m").to_json())["failed_policy_index"] is None


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
    monkeypatch.setattr(transfer, "_BACKOFF", Backoff(base=0.01, cap=0.05))


@pytest.fixture
async def server() -> AsyncGenerator[PutServer]:
    async with put_server() as opened:
        yield opened


async def hand_over(
    server: PutServer, layout: EpisodeLayout, failure: Failure | None = None, *, seconds: float = 30
) -> Failure | None:
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
        return await delivery.hand_over(failure, Stopwatch(NOW))


async def test_results_come_when_everything_else_is_there(server: PutServer, layout: EpisodeLayout) -> None:
    server.faults |= {path: [503, "reset"] for path in ("/replay", "/debug", "/log0", "/record", "/results")}
    assert await hand_over(server, layout) is None
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
    failure = await hand_over(server, layout)
    assert failure is not None
    assert failure.error_type == "crash"
    kept = server.kept()
    assert json.loads(kept["/error"]) == json.loads(failure.to_json())
    assert "/results" not in kept
    assert "/timings" not in kept


async def test_there_is_time_left_to_say_so(server: PutServer, layout: EpisodeLayout) -> None:
    server.faults["/debug"] = [503] * 100_000
    failure = await hand_over(server, layout, seconds=2)
    assert failure is not None
    assert "/error" in server.kept()


async def test_lost_timings_change_nothing(server: PutServer, layout: EpisodeLayout) -> None:
    server.faults["/timings"] = [403]
    assert await hand_over(server, layout) is None
    assert "/error" not in server.kept()


async def test_of_a_failed_episode_everything_goes_its_own_way(server: PutServer, layout: EpisodeLayout) -> None:
    failure = Failure(error_type="player_error", message="m", slot=1)
    server.faults["/debug"] = [403]
    assert await hand_over(server, layout, failure) == failure
    assert set(server.order()) == {"/error", "/log0", "/record"}
    server.puts.clear()
    # the error itself cannot be told: the rest is handed over all the same
    server.faults["/error"] = [403]
    assert await hand_over(server, layout, failure) == failure
    assert set(server.order()) == {"/debug", "/log0", "/record"}
