"""The contract of controllers, over both ends: episodes of this machine, and of a platform."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest
from support.cli_kit import Started
from support.observatory_kit import QUICK, open_platform, roster, seed
from support.waiting import until

from coworld_client import CoworldClient, HostedController
from coworld_core.api import ExperienceBody
from coworld_core.controller import EpisodeChange, EpisodeController, EpisodeEvent, EpisodeHandle, EpisodeSpec
from coworld_core.errors import CoworldError
from coworld_runner.control.local_controller import LocalController
from coworld_runner.doctor import leftovers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

LONG = {"linger": 300}
"""A config for an episode that goes on until it is stopped."""
T = TypeVar("T")


@dataclass(frozen=True)
class End:
    """One end of the contract."""

    mine: EpisodeController
    theirs: EpisodeController
    """Another controller of the same place, which has started nothing."""
    coworld: str
    players: tuple[str, ...]
    api: CoworldClient | None = None

    def spec(self, **how: Any) -> EpisodeSpec:
        return EpisodeSpec(coworld=self.coworld, players=self.players, **how)


@asynccontextmanager
async def local_end(tmp_path: Path) -> AsyncGenerator[End]:
    results = tmp_path / "results"
    results.mkdir()
    how: dict[str, Any] = {"backend": "process", "results": results, "index": tmp_path / "index.sqlite3"}
    async with LocalController(results, **how) as mine, LocalController(results, **how) as theirs:
        yield End(mine, theirs, str(QUICK.directory), ("guest", "guest"))


@asynccontextmanager
async def hosted_end(tmp_path: Path) -> AsyncGenerator[End]:
    async with open_platform(tmp_path, parallel=1) as platform:
        ann = await platform.account("ann")
        await seed(platform.services, ann.id)
        for name in ("guest", "visitor"):
            await platform.policy(ann, name)
        async with CoworldClient(platform.url, token=ann.token) as api:
            yield End(HostedController(api), HostedController(api), "quick", ("guest", "visitor"), api)


@pytest.fixture(params=[local_end, hosted_end], ids=["local", "hosted"])
def end(request: pytest.FixtureRequest, tmp_path: Path) -> AbstractAsyncContextManager[End]:
    opened: Callable[[Path], AbstractAsyncContextManager[End]] = request.param
    return opened(tmp_path)


async def first(stream: AsyncIterator[T], fits: Callable[[T], object] = lambda _: True) -> T:
    """The first item that fits."""
    with anyio.fail_after(120):
        async for item in stream:
            if fits(item):
                return item
    raise AssertionError("the stream has ended")


async def test_an_episode_is_started_followed_and_known_afterwards(end: AbstractAsyncContextManager[End]) -> None:
    async with end as one:
        assert isinstance(one.mine, EpisodeController)
        episode = await one.mine.start(one.spec(seed=5), idempotency_key="once")
        assert isinstance(episode, EpisodeHandle)
        seen = [event async for event in episode.events()]
        assert seen[-1].state == "completed"
        assert len({event.cursor for event in seen}) == len(seen)
        info = await episode.result()
        assert info == await episode.info() == await (await one.theirs.episode(episode.id)).info()
        assert (info.id, info.state, info.kind, info.coworld) == (episode.id, "completed", "episode", "quick")
        assert (info.scores, info.error, len(info.players)) == ((5.0, 6.0), None, 2)
        assert info.created_at is not None
        assert (info.party, info.player_faults) == (None, ())
        assert ((await episode.results()) or {})["scores"] == [5.0, 6.0]
        # Nobody starts it twice
        assert (await one.theirs.start(one.spec(seed=5), idempotency_key="once")).id == episode.id
        seats = await episode.seats()
        assert [(seat.slot, seat.name, seat.score) for seat in seats] == [
            (slot, name, 5.0 + slot) for slot, name in enumerate(info.players)
        ]
        with pytest.raises(CoworldError) as caught:
            await episode.terminate()
        assert caught.value.code == "already_ended"
        versions = await one.mine.versions()
        assert versions["coworld-core"]


async def test_events_go_on_after_a_cut_none_is_lost_or_repeated(end: AbstractAsyncContextManager[End]) -> None:
    async with end as one:
        episode = await one.mine.start(one.spec())
        seen: list[EpisodeEvent] = [await first(episode.events())]
        # Somebody else goes on where that reader was cut
        async for event in (await one.theirs.episode(episode.id)).events(after=seen[0].cursor):
            seen.append(event)
        whole = [event async for event in episode.events()]
        assert [event.state for event in seen] in (
            [event.state for event in whole],
            ["pending", *(event.state for event in whole)],
            ["pending", "running", *(event.state for event in whole)],
        )
        assert seen[-1].state == "completed"
        # From its end, nothing follows
        assert [event async for event in episode.events(after=seen[-1].cursor)] == []
        with pytest.raises(CoworldError) as caught:
            await first(episode.events(after="nonsense"))
        assert caught.value.code == "bad_cursor"


async def test_whoever_watches_sees_episodes_of_others_come_and_go(end: AbstractAsyncContextManager[End]) -> None:
    async with end as one:
        changes: list[EpisodeChange] = []
        ended: list[EpisodeChange] = []
        started: list[EpisodeHandle] = []

        async def watch(into: list[EpisodeChange], **how: Any) -> None:
            stream = one.theirs.watch(**how)
            async for change in stream:
                into.append(change)

        before = await one.mine.start(one.spec())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch, changes)
            tasks.start_soon(lambda: watch(ended, states=("completed", "failed"), full=True))
            # What goes on when a watch begins is told first
            await until(lambda: before.id in {change.id for change in changes})
            started.append(await one.mine.start(one.spec(seed=3)))
            await until(lambda: started[0].id in {change.id for change in ended})
            await until(lambda: (started[0].id, "completed") in {(change.id, change.state) for change in changes})
            tasks.cancel_scope.cancel()
        (episode,) = started
        states = [change.state for change in changes if change.id == episode.id]
        assert len(set(states)) == len(states)
        assert all(change.info is None for change in changes)
        (last,) = [change for change in ended if change.id == episode.id]
        assert last.info is not None
        assert (last.state, last.info.id, last.info.scores) == ("completed", episode.id, (3.0, 4.0))
        with pytest.raises(CoworldError) as caught:
            await first(one.theirs.watch(states=("complete",)))  # type: ignore[arg-type]
        assert caught.value.code == "no_such_state"
        assert "'completed'" in caught.value.message


async def test_what_does_not_exist_or_cannot_be_played_is_said(end: AbstractAsyncContextManager[End]) -> None:
    async with end as one:
        for unknown in ("0123456789abcdef", "ereq_00000000-0000-4000-8000-000000000000"):
            with pytest.raises(CoworldError):
                await one.mine.episode(unknown)
        for wrong in (
            one.spec(variant="nope"),
            one.spec(config={"liner": 1}),
            one.spec().model_copy(update={"players": ("nobody-of-that-name",) * 2}),
            one.spec().model_copy(update={"coworld": "no-such-world"}),
        ):
            with pytest.raises(CoworldError):
                await one.mine.start(wrong)
        with pytest.raises(CoworldError) as caught:
            await one.mine.start(one.spec(labels={"no label": "x"}))
        assert caught.value.code == "bad_label"


async def test_whoever_stops_waiting_stops_nothing_else(end: AbstractAsyncContextManager[End]) -> None:
    async with end as one:
        episode = await one.mine.start(one.spec(config={"linger": 1}))
        for wait in (episode.result, lambda: first(episode.events(), lambda event: event.state == "failed")):
            with anyio.move_on_after(0.05) as scope:
                await wait()
            assert scope.cancelled_caught
        with anyio.move_on_after(0.2):
            await first(one.theirs.watch(states=("lost",)))
        assert (await episode.result()).state == "completed"


# --- this machine alone ---------------------------------------------------------------------------------------------


@asynccontextmanager
async def another_process(tmp_path: Path, *more: str | Path) -> AsyncGenerator[tuple[Started, Path]]:
    """An episode of another process, that goes on until it is stopped."""
    place = tmp_path / "results" / "theirs"
    words = ("run", QUICK.directory, "--backend", "process", "--set", f"linger={LONG['linger']}", "-o", place, *more)
    started = Started(words, None, None)
    try:
        await anyio.to_thread.run_sync(started.until_printed, "playing")
        yield started, place
    finally:
        await anyio.to_thread.run_sync(started.close)


@pytest.mark.parametrize("hard", [False, True])
async def test_an_episode_of_ones_own_is_stopped_and_its_record_says_so(tmp_path: Path, hard: bool) -> None:
    async with local_end(tmp_path) as one:
        episode = await one.mine.start(one.spec(config=LONG, labels={"exp": "a", "who": "me"}), labels={"exp": "b"})
        assert (await episode.info()).state == "running"
        change = await first(one.theirs.watch(labels={"exp": "b*"}, full=True))
        assert change.info is not None
        assert (change.id, change.info.labels) == (episode.id, {"exp": "b", "who": "me"})
        # Another controller of the same process must not signal it
        with pytest.raises(CoworldError) as caught:
            await (await one.theirs.episode(episode.id)).terminate()
        assert caught.value.code == "own_run"
        await episode.terminate(hard=hard)
        info = await episode.result()
        assert (info.state, info.error_type, info.scores) == ("interrupted", "interrupted", ())
        assert [event.state async for event in episode.events()][-1] == "interrupted"


async def test_leaving_a_controller_stops_what_it_has_started(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    how: dict[str, Any] = {"backend": "process", "results": results, "index": tmp_path / "index.sqlite3"}
    spec = EpisodeSpec(coworld=str(QUICK.directory), players=("guest",), config=LONG)
    async with LocalController(results, **how) as controller:
        mine = await controller.start(spec)
        with anyio.move_on_after(0) as scope:
            await controller.start(spec)
        assert scope.cancelled_caught
        assert [info.id for info in await controller.recent(states=("running",))] == [mine.id]
    async with LocalController(results, **how) as later:
        assert {info.state for info in await later.recent()} == {"interrupted"}


async def test_an_episode_of_another_process_is_asked_to_stop_as_by_ctrl_c(tmp_path: Path) -> None:
    async with local_end(tmp_path) as one, another_process(tmp_path) as (process, place):
        change = await first(one.mine.watch(states=("running",)))
        episode = await one.mine.episode(change.id)
        assert episode.id == (await one.mine.episode(str(place))).id
        await episode.terminate()
        assert (await episode.result()).state == "interrupted"
        assert "Interrupted: stopping the game and 2 players." in (await anyio.to_thread.run_sync(process.end)).stderr


async def test_an_episode_of_another_process_is_killed_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    async with local_end(tmp_path) as one, another_process(tmp_path) as (process, place):
        episode = await one.mine.episode(str(place))
        await episode.terminate(hard=True)
        assert (await episode.result()).state == "lost"
        assert (await anyio.to_thread.run_sync(process.end)).status == -signal.SIGKILL
        with pytest.raises(CoworldError) as caught:
            await episode.terminate(hard=True)
        assert caught.value.code == "already_ended"


async def test_a_run_whose_process_was_killed_is_seen_to_be_lost(tmp_path: Path) -> None:
    async with local_end(tmp_path) as one, another_process(tmp_path) as (process, place):
        episode = await one.mine.episode(str(place))
        changes: list[EpisodeChange] = []

        async def watch() -> None:
            async for change in one.mine.watch(full=True):
                changes.append(change)
                if change.state == "lost":
                    return

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await until(lambda: changes)
            process.send(signal.SIGKILL)
        assert [change.state for change in changes] == ["running", "lost"]
        assert [event.state async for event in episode.events()][-1] == "running"
        assert (await episode.result()).ended_at is None
        assert (await leftovers(backends=["process"], run_id=episode.id, apply=True)).ok


# --- platforms alone ------------------------------------------------------------------------------------------------


async def test_a_platform_cancels_what_waits_and_says_what_it_cannot_do(tmp_path: Path) -> None:
    async with hosted_end(tmp_path) as one:
        begun = await one.mine.start(one.spec(config=LONG))
        await first(begun.events(), lambda event: event.state == "running")
        waits = await one.mine.start(one.spec(seed=1))
        assert (await waits.info()).state == "pending"
        for episode, hard in ((begun, False), (begun, True), (waits, True)):
            with pytest.raises(CoworldError) as caught:
                await episode.terminate(hard=hard)
            assert caught.value.code == "not_offered"
        await waits.terminate()
        info = await waits.result()
        assert (info.state, info.started_at, info.scores) == ("interrupted", None, ())
        assert [event.state async for event in waits.events()] == ["interrupted"]
        with pytest.raises(CoworldError) as caught:
            await waits.terminate()
        assert caught.value.code == "already_ended"
        with pytest.raises(CoworldError) as caught:
            await one.mine.start(one.spec().model_copy(update={"players": ("guest",) * 3}))
        assert caught.value.code == "wrong_player_count"


async def test_a_game_for_people_is_followed_and_ended(tmp_path: Path) -> None:
    async with hosted_end(tmp_path) as one:
        assert one.api is not None
        world = await one.api.coworlds.find("quick")
        made = await one.api.hosted.create(world.id, labels={"exp": "a"})
        game = await one.mine.episode(made.session_id)
        assert isinstance(game, EpisodeHandle)
        assert (await first(game.events())).state == "running"
        await one.api.hosted.join(game.id)
        info = await game.info()
        assert (info.id, info.state, info.coworld, info.labels) == (game.id, "running", "quick", {"exp": "a"})
        assert (info.players, info.scores, info.ended_at) == (("ann",), (), None)
        assert [(seat.slot, seat.name, seat.score) for seat in await game.seats()] == [(0, "ann", None)]
        rest: list[EpisodeEvent] = []

        async def follow() -> None:
            async for event in game.events(after="running"):
                rest.append(event)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            await game.terminate()
        assert [event.state for event in rest] == ["interrupted"]
        ended = await game.result()
        assert ended == await game.info()
        assert (ended.state, ended.error, ended.players) == ("interrupted", None, ("ann",))
        assert ended.ended_at is not None
        with pytest.raises(CoworldError) as caught:
            await game.terminate()
        assert caught.value.code == "already_ended"
        with pytest.raises(CoworldError) as caught:
            await first(game.events(after="nonsense"))
        assert caught.value.code == "bad_cursor"
        with pytest.raises(CoworldError):
            await one.mine.episode("cps_none")


async def test_episodes_of_a_request_for_several_are_not_cancelled_one_by_one(tmp_path: Path) -> None:
    async with hosted_end(tmp_path) as one:
        assert one.api is not None
        busy = await one.mine.start(one.spec(config=LONG))
        await first(busy.events(), lambda event: event.state == "running")
        world = await one.api.coworlds.find("quick")
        body = {"coworld_id": world.id, "roster": roster("guest", "visitor"), "num_episodes": 2}
        request = await one.api.experience.create(body)
        with pytest.raises(CoworldError) as caught:
            await one.mine.episode(request.id)
        assert caught.value.code == "several_episodes"
        with pytest.raises(CoworldError) as caught:
            await (await one.mine.episode(request.episodes[0].id)).terminate()
        assert caught.value.code == "part_of_a_request"


async def test_labels_are_kept_by_a_platform_or_refused(tmp_path: Path) -> None:
    async with hosted_end(tmp_path) as one:
        labelled = one.spec(labels={"exp": "a"})
        if "tags" not in ExperienceBody.model_fields:
            with pytest.raises(CoworldError):
                await one.mine.start(labelled)
            await one.mine.start(one.spec())
            with pytest.raises(CoworldError) as caught:
                await first(one.theirs.watch(labels={"exp": "*"}))
            assert caught.value.code == "no_labels"
            return
        await one.mine.start(one.spec())
        episode = await one.mine.start(labelled)
        change = await first(one.theirs.watch(labels={"exp": "a*"}, full=True))
        assert change.info is not None
        assert (change.id, change.info.labels) == (episode.id, {"exp": "a"})
