"""The contract of stores, over both ends: episodes of this machine, and of a platform."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import pytest
from support.nim_episode import NIM
from support.observatory_kit import QUICK, Subject, open_platform, roster, seed

from coworld_client import CoworldClient, HostedStore
from coworld_core import EpisodeStore, RunFilter, iter_samples
from coworld_core.errors import CoworldError, NotReadyError, UsageError
from coworld_runner import EpisodeOptions, LocalStore, run_episode

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

GAME = Subject(NIM, "{{NIM_IMAGE}}", "nim", ("python", "-m", "coworld_client.seat", "players/counter.py"))


@dataclass(frozen=True)
class End:
    """One end of the contract."""

    store: EpisodeStore
    play: Callable[[str], Awaitable[object]]
    """Has an episode of nim played, labelled `exp` with this value; what it leaves comes into the store."""
    quick: Callable[[], Awaitable[object]]
    """Has an episode played of a game that is not of the kit, labelled `exp=quick`."""
    hosted: bool


@asynccontextmanager
async def local_end(tmp_path: Path) -> AsyncGenerator[End]:
    results = tmp_path / "results"
    results.mkdir()

    async def play(package: Path, exp: str) -> None:
        await run_episode(package, backend="process", workspace=results / exp, labels={"exp": exp})

    async def nim(exp: str) -> None:
        await play(NIM, exp)

    async def quick() -> None:
        await play(QUICK.directory, "quick")

    yield End(LocalStore(results, index=tmp_path / "index.sqlite3"), nim, quick, hosted=False)


@asynccontextmanager
async def hosted_end(tmp_path: Path) -> AsyncGenerator[End]:
    async with open_platform(tmp_path, packages=(NIM, QUICK.directory)) as platform:
        ann = await platform.account("ann")
        worlds = {subject: await seed(platform.services, ann.id, subject=subject) for subject in (GAME, QUICK)}
        for name, subject in (("counter", GAME), ("guest", QUICK)):
            await platform.policy(ann, name, subject=subject)
        async with CoworldClient(platform.url, token=ann.token) as api:

            async def play(subject: Subject, policy: str, exp: str) -> None:
                body = {"coworld_id": worlds[subject].id, "roster": roster(policy, policy)}
                await api.experience.create(body, labels={"exp": exp})

            async def nim(exp: str) -> None:
                await play(GAME, "counter", exp)

            async def quick() -> None:
                await play(QUICK, "guest", "quick")

            yield End(HostedStore(api), nim, quick, hosted=True)


@pytest.fixture(params=[local_end, hosted_end], ids=["local", "hosted"])
def end(request: pytest.FixtureRequest, tmp_path: Path) -> AbstractAsyncContextManager[End]:
    opened: Callable[[Path], AbstractAsyncContextManager[End]] = request.param
    return opened(tmp_path)


async def names(store: EpisodeStore, asked: RunFilter | None = None, **how: object) -> list[str]:
    """The values of `exp` of what is found."""
    found = await store.episodes(asked, **how)  # type: ignore[arg-type]
    return [episode.labels["exp"] for episode in found]


async def test_episodes_are_waited_for_found_and_read(end: AbstractAsyncContextManager[End]) -> None:
    async with end as one:
        store = one.store
        assert isinstance(store, EpisodeStore)
        assert list(await store.episodes()) == []
        with pytest.raises(NotReadyError) as none:
            await store.wait_for(1, timeout=0.01)
        assert (none.value.code, none.value.context["count"]) == ("too_few_episodes", 0)
        first = both = await store.episodes()
        begun = dt.datetime.now(dt.UTC)
        async with anyio.create_task_group() as group:

            async def play_both() -> None:
                await one.play("a")
                await one.play("ab")

            group.start_soon(play_both)
            first = await store.wait_for(1, labels={"exp": "a"}, timeout=300)
            both = await store.wait_for(2, RunFilter(labels={"exp": "a*"}), timeout=300)
        (episode,) = first
        assert episode.ok, episode.message
        assert (episode.coworld, episode.status, episode.labels["exp"]) == ("nim", "completed", "a")
        assert [seat.slot for seat in episode.seats] == [0, 1]
        assert sorted(score for score in episode.scores if score is not None) == [0.0, 1.0]
        assert len(both) == 2
        assert both.to_records()[0]["id"] == both[0].id
        assert len(both.to_records()) == 4

        # Found by whatever is known of them
        player = episode.seats[0].name
        assert await names(store) == ["ab", "a"]
        assert await names(store, limit=1) == ["ab"]
        assert await names(store, labels={"exp": "a"}) == ["a"]
        assert await names(store, RunFilter(labels={"exp": "*b"}), labels={"exp": "a*"}) == ["ab", "a"]
        assert sorted(await names(store, RunFilter(game="n?m", player=player))) == ["a", "ab"]
        assert sorted(await names(store, RunFilter(since=begun, status="completed"))) == ["a", "ab"]
        for nothing in (
            RunFilter(game="chess"),
            RunFilter(variant="none"),
            RunFilter(player="nobody"),
            RunFilter(fault="*"),
            RunFilter(min_score=2),
            RunFilter(since=begun + dt.timedelta(days=1)),
            RunFilter(until=begun - dt.timedelta(days=1)),
            RunFilter(status="failed"),
            RunFilter(labels={"other": "*"}),
        ):
            assert await names(store, nothing) == [], nothing

        # Read turn by turn, by the row or its id
        turns = [turn async for turn in store.iter_samples(episode)]
        assert turns == [turn async for turn in store.iter_samples(episode.id)]
        assert {turn.seat for turn in turns} == {0, 1}
        assert {turn.episode for turn in turns} == {episode.id}
        # A replay does not tell what seats saw
        assert {(turn.time, turn.observation, turn.legal) for turn in turns} == {(None, None, None)}
        assert all(turn.acted == (turn.action is not None) for turn in turns)
        assert [turn.done for turn in turns].count(True) == 2
        assert sum(turn.reward or 0 for turn in turns) == 1


async def test_what_was_recorded_is_read_before_the_replay(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    how = EpisodeOptions(record="samples")
    record = await run_episode(NIM, backend="process", workspace=results / "one", options=how)
    store = LocalStore(results, index=tmp_path / "index.sqlite3")
    (episode,) = await store.episodes()
    recorded = [turn async for turn in store.iter_samples(episode)]
    assert recorded == [replace(turn, episode=episode.id) for turn in iter_samples(record)]
    assert all(turn.action in turn.legal for turn in recorded if turn.legal is not None)
    assert all(turn.observation is not None and turn.time is not None for turn in recorded)
    # One that was cut short tells less than the replay
    file = record.layout.samples
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:2]))
    replayed = [turn async for turn in store.iter_samples(episode)]
    assert [(turn.tick, turn.seat, turn.action, turn.score, turn.reward, turn.done) for turn in replayed] == [
        (turn.tick, turn.seat, turn.action, turn.score, turn.reward, turn.done) for turn in recorded
    ]
    assert {turn.observation for turn in replayed} == {None}
    record.layout.replay.unlink()
    assert len([turn async for turn in store.iter_samples(episode)]) == 1


async def test_what_has_no_samples_says_so(end: AbstractAsyncContextManager[End]) -> None:
    async with end as one:
        await one.quick()
        (episode,) = await one.store.wait_for(1, labels={"exp": "quick"}, timeout=300)
        for what in (episode, episode.id):
            with pytest.raises(UsageError) as caught:
                _ = [turn async for turn in one.store.iter_samples(what)]
            assert caught.value.code == "no_samples"
            assert episode.id in caught.value.message
        with pytest.raises(CoworldError):
            _ = [turn async for turn in one.store.iter_samples("ereq_00000000-0000-4000-8000-000000000000")]


async def test_episodes_are_deleted_or_it_is_said_that_they_are_not(end: AbstractAsyncContextManager[End]) -> None:
    async with end as one:
        await one.quick()
        (episode,) = await one.store.wait_for(1, timeout=300)
        if one.hosted:
            with pytest.raises(UsageError, match="deletes no episodes") as caught:
                await one.store.delete(episode)
            assert caught.value.code == "cannot_delete"
            assert list(await one.store.episodes()) == [episode]
            for asked in (RunFilter(kind="batch"), RunFilter(digest="abc"), RunFilter(status="running")):
                with pytest.raises(UsageError) as refused:
                    await one.store.episodes(asked)
                assert refused.value.code == "cannot_filter"
        else:
            await one.store.delete(episode)
            assert not await anyio.Path(episode.id).exists()
            assert list(await one.store.episodes()) == []
            with pytest.raises(UsageError):
                await one.store.delete(episode.id)
