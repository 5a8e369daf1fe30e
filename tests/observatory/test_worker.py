"""Episodes asked for over HTTP are played by the worker, and what they leave can be had."""

from __future__ import annotations

import errno
import json
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
import sqlalchemy as sa
from support.formats import LATER, files, with_added_fields
from support.logs import logged
from support.misfit_kit import leftovers
from support.observatory import inside, new_services, until_committed
from support.observatory_kit import (
    MISFITS,
    QUICK,
    Account,
    Platform,
    World,
    add_policy,
    open_platform,
    roster,
    seed,
    until_over,
)
from support.waiting import until

from coworld_core.episode.record import EpisodeRecord
from coworld_core.episode.verdict import party_of
from coworld_runner.backends.process.process_backend import ProcessBackend
from coworld_runner.episode.single import EpisodeOptions, run_episode
from coworld_runner.package.plan import EpisodePlan
from observatory.episodes.access import player_faults
from observatory.services import Services
from observatory.settings import Settings
from observatory.store.columns import now
from observatory.store.models import Artifact, EpisodeRequest, EpisodeScore, Image, Participant, User
from observatory.work import disk_space
from observatory.work.admission import Admission, OwnPackages
from observatory.work.queue import MAX_ATTEMPTS, Outcome, Queue
from observatory.work.worker import Worker, WorkerOptions

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


async def play(
    platform: Platform, owner: Account, world: World, *policies: str, count: int = 1, **config: Any
) -> dict[str, Any]:
    """Ask for episodes, and wait until they are over."""
    async with platform.client(owner) as client:
        body = {
            "coworld_id": world.id,
            "roster": roster(*policies),
            "num_episodes": count,
            "game_config_overrides": config,
        }
        made = await client.post("/v2/experience-requests", json=body)
        assert made.status_code == 200, made.text
        assert made.json()["pending_count"] == count
        return await until_over(client, made.json()["id"])


async def test_request_is_played_to_results_replay_and_logs(
    tmp_path: Path, database: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float] = []

    async def noting(plan: EpisodePlan, *, options: EpisodeOptions, **rest: Any) -> EpisodeRecord:
        limits.append(options.timeout_seconds)
        return await run_episode(plan, options=options, **rest)

    monkeypatch.setattr("observatory.work.worker.run_episode", noting)
    async with open_platform(tmp_path, database=database) as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id, episode_timeout_minutes=7)
        await platform.policy(ann, "left", secrets={"QUICK_SECRET": "the left one's"})
        await platform.policy(ann, "right")
        over = await play(platform, ann, world, "left", "right:v1", count=3)
        assert (over["status"], over["completed_count"], over["failed_count"]) == ("completed", 3, 0), over
        seeds = [episode["seed"] for episode in over["episodes"]]
        assert len(set(seeds)) == 3
        assert limits == [7 * 60] * 3
        # Two share the processor, as --parallel says, and the third waits for one of them
        spans = [(episode["started_at"], episode["completed_at"]) for episode in over["episodes"]]
        assert max(sum(begun <= moment < ended for begun, ended in spans) for moment, _ in spans) <= 2
        for index, episode in enumerate(over["episodes"]):
            names = [player["name"] for player in episode["game_config"]["players"]]
            # From episode to episode they change places
            assert names == (["left:v1", "right:v1"] if index % 2 == 0 else ["right:v1", "left:v1"])
            assert [score["score"] for score in episode["scores"]] == [seeds[index], seeds[index] + 1]
            row = await platform.episode(episode["id"])
            assert {(item.kind, item.position) for item in row.artifacts} >= {
                ("results", -1),
                ("replay", -1),
                ("game_logs", -1),
                ("player_logs", 0),
                ("player_logs", 1),
            }
            replay = next(item for item in row.artifacts if item.kind == "replay")
            packed = await platform.services.artifacts.get(replay.key)
            assert zlib.decompress(packed) == f"quick replay of seed {seeds[index]}\n".encode()
            # A secret is for its own seat, and for nobody and nothing else
            logs = {
                names[item.position]: (await platform.services.artifacts.get(item.key)).decode()
                for item in row.artifacts
                if item.kind == "player_logs"
            }
            assert logs == {"left:v1": "secret: the left one's\n", "right:v1": "secret: none\n"}
            assert "the left one's" not in json.dumps(row.record) + json.dumps(episode)
        assert not list((platform.settings.data / "work").iterdir())


async def test_failed_episodes_store_error_and_artifacts(tmp_path: Path) -> None:
    async with open_platform(tmp_path) as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id, subject=MISFITS)
        await platform.policy(ann, "good", "well", subject=MISFITS)
        await platform.policy(ann, "bad", "exits-3-midway", subject=MISFITS)
        expected = [
            (("good", "good"), {"behaviour": "exits-5"}, "game_unhealthy"),
            (("good", "good"), {"behaviour": "wrong-schema"}, "results_malformed"),
            (("good", "good"), {"behaviour": "no-replay"}, "replay_missing"),
            # Good results of a game that does not keep the contract are worth nothing
            (("good", "good"), {"behaviour": "accepts-any-token", "play_seconds": 60}, "game_contract_violation"),
            (("good", "good"), {"behaviour": "results-then-exits-5"}, "game_unhealthy"),
            # A game has to live with players that fail
            (("good", "bad"), {"behaviour": "bails-out"}, "results_missing"),
        ]
        for policies, config, error_type in expected:
            over = await play(platform, ann, world, *policies, **{"play_seconds": 0.1, **config})
            (episode,) = over["episodes"]
            assert (over["status"], episode["status"], episode["error_type"]) == ("failed", "failed", error_type)
            assert episode["scores"] == []
            row = await platform.episode(episode["id"])
            info = next(item for item in row.artifacts if item.kind == "error_info")
            said = json.loads(await platform.services.artifacts.get(info.key))
            assert said["error_type"] == error_type
            assert said["message"] == episode["error"]
            assert any(item.kind == "game_logs" for item in row.artifacts)
        # What a player does wrong is the game's to score
        over = await play(platform, ann, world, "good", "bad", play_seconds=1.0)
        assert over["status"] == "completed", over
        (episode,) = over["episodes"]
        assert (episode["error_type"], episode["failed_policy_index"]) == (None, None)
        assert len(episode["scores"]) == 2
        (fault,) = episode["player_faults"]
        assert (fault["position"], fault["error_type"]) == (1, "player_error")
        assert "status 3" in fault["message"]
        assert (await platform.episode(episode["id"])).record is not None


async def test_an_image_that_no_trusted_package_builds_is_refused(tmp_path: Path) -> None:
    async with open_platform(tmp_path, packages=(QUICK.directory,)) as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id, subject=MISFITS)
        await platform.policy(ann, "good", "well", subject=MISFITS)
        over = await play(platform, ann, world, "good", "good")
        (episode,) = over["episodes"]
        assert party_of(episode["error_type"], episode["failed_policy_index"]) == "platform"
        assert "names a package of this machine" in episode["error"]


async def test_a_policy_that_cannot_run_here_is_named_and_not_blamed(tmp_path: Path) -> None:
    async with open_platform(tmp_path, packages=(QUICK.directory,)) as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id)
        await platform.policy(ann, "good")
        await platform.policy(ann, "image", subject=MISFITS)
        over = await play(platform, ann, world, "good", "image")
        (episode,) = over["episodes"]
        assert party_of(episode["error_type"], episode["failed_policy_index"]) == "platform"
        assert (episode["failed_policy_index"], episode["failed_agent_index"]) == (None, 1)
        assert episode["error"].startswith("not_declared: The player 'coworld-misfits'")
        assert (await platform.episode(episode["id"])).attempts == 1
        # Whose image is not complete is no fault of the game either.
        async with platform.services.database.writing() as session:
            await session.execute(sa.update(Image).where(Image.name == MISFITS.image).values(status="pending"))
        (episode,) = (await play(platform, ann, world, "image", "good"))["episodes"]
        assert party_of(episode["error_type"], episode["failed_policy_index"]) == "platform"
        assert episode["failed_agent_index"] == 0


# --- without a server


async def waiting(services: Services, count: int = 1, **config: Any) -> list[str]:
    """Episodes that wait in the queue."""
    async with services.database.writing() as session:
        user = User(name=f"user-{now().timestamp()}")
        session.add(user)
        await session.flush()
    world = await seed(services, user.id, league=False)
    version = await add_policy(services, user.id, "one")
    ids: list[str] = []
    async with services.database.writing() as session:
        for index in range(count):
            row = EpisodeRequest(
                user_id=user.id, coworld_id=world.id, index=index, game_config=dict(config), seed=index
            )
            session.add(row)
            await session.flush()
            ids.append(row.id)
            for position in range(2):
                session.add(
                    Participant(
                        episode_request_id=row.id,
                        position=position,
                        policy_version_id=version,
                        policy_name="one",
                        user_id=user.id,
                    )
                )
    return ids


async def rows(services: Services) -> list[EpisodeRequest]:
    async with services.database.reading() as session:
        return list(await session.scalars(sa.select(EpisodeRequest).order_by(EpisodeRequest.index)))


async def test_each_episode_is_claimed_once_in_order(tmp_path: Path, database: str | None) -> None:
    async with new_services(Settings(data=tmp_path / "o", database=database)) as services:
        ids = await waiting(services, 12)
        claimed: list[str] = []

        async def take(owner: str) -> None:
            queue = Queue(services.database, owner=owner)
            while (claim := await queue.claim()) is not None:
                claimed.append(claim.episode_id)

        async with anyio.create_task_group() as group:
            for owner in ("a", "b", "c"):
                group.start_soon(take, owner)
        assert sorted(claimed) == sorted(ids)
        assert {row.status for row in await rows(services)} == {"running"}
        assert len({row.revision for row in await rows(services)}) == len(ids)


async def test_worker_without_the_lease_changes_nothing(tmp_path: Path, database: str | None) -> None:
    async with new_services(Settings(data=tmp_path / "o", database=database)) as services:
        await waiting(services)
        slow, quick = (Queue(services.database, owner=name, lease=0) for name in ("slow", "quick"))
        first = await slow.claim()
        assert first is not None
        (gone,) = await quick.expire()
        assert (gone.prefix, gone.run_id) == (first.prefix, first.run_id)
        second = await quick.claim()
        assert second is not None
        assert (second.episode_id, second.attempt) == (first.episode_id, 2)
        assert await slow.renew([first.token]) == set()
        assert not await slow.watchable(first, "http://127.0.0.1:1/client/global")
        assert not await slow.release(first, counts=True)
        assert not await slow.finish(first, Outcome(status="completed", scores=(9, 9)))
        assert await quick.finish(second, Outcome(status="completed", scores=(1, 2)))
        # The word of it may have been lost: said once more, it is true and nothing is written twice
        assert await quick.finish(second, Outcome(status="completed", scores=(1, 2)))
        assert not await slow.finish(first, Outcome(status="completed", scores=(9, 9)))
        (row,) = await rows(services)
        assert (row.status, [score.score for score in row.scores]) == ("completed", [1, 2])


async def test_episode_that_kills_its_workers_finally_fails(tmp_path: Path, database: str | None) -> None:
    async with new_services(Settings(data=tmp_path / "o", database=database)) as services:
        await waiting(services)
        queue = Queue(services.database, owner="doomed", lease=0)
        for attempt in range(1, MAX_ATTEMPTS + 1):
            claim = await queue.claim()
            assert claim is not None
            assert claim.attempt == attempt
            assert len(await queue.expire()) == 1
        assert await queue.claim() is None
        (row,) = await rows(services)
        assert (row.status, row.error_type) == ("failed", "crash")
        assert row.completed_at is not None


def worker(services: Services, **options: Any) -> Worker:
    packages = OwnPackages((QUICK.directory,))
    return Worker(
        services,
        ProcessBackend(contexts=packages),
        Admission(registry=None, packages=packages),
        owner="tested",
        options=WorkerOptions(idle=0.05, **options),
    )


async def until_status(services: Services, status: str) -> EpisodeRequest:
    """The only episode, once it has a status."""

    async def has_it() -> EpisodeRequest | None:
        (row,) = await rows(services)
        return row if row.status == status else None

    return await until_committed(has_it)


async def test_stopping_worker_returns_unfinished_episodes(tmp_path: Path) -> None:
    async with new_services(Settings(data=tmp_path / "o")) as services:
        await waiting(services, linger=600)
        async with worker(services, grace=0).running():
            row = await until_status(services, "running")
            run_id = row.run_id
        (row,) = await rows(services)
        assert (row.status, row.attempts, row.lease_token) == ("pending", 0, None)
        assert run_id is not None
        assert leftovers(run_ids=[run_id]) == []


async def test_stopping_worker_finishes_episodes_that_are_nearly_over(tmp_path: Path) -> None:
    async with new_services(Settings(data=tmp_path / "o")) as services:
        await waiting(services, linger=0.5)
        async with worker(services, grace=60).running():
            await until_status(services, "running")
        (row,) = await rows(services)
        assert (row.status, row.attempts) == ("completed", 1)


async def test_run_with_a_lost_lease_is_stopped(tmp_path: Path) -> None:
    async with new_services(Settings(data=tmp_path / "o")) as services:
        await waiting(services, linger=600)
        async with worker(services, lease=1.0, grace=0).running() as tested:
            row = await until_status(services, "running")
            async with services.database.writing() as session:
                # Another has taken it, and has it still
                await session.execute(sa.update(EpisodeRequest).values(lease_token="another", lease_owner="b"))
                await session.execute(
                    sa.update(EpisodeRequest).values(lease_expires_at=now().replace(year=now().year + 1))
                )
            # Lanes come and go: nothing announces the last
            await until(lambda: not tested.busy, seconds=300, what="an idle worker")
            assert tested.finished == 0
        (after,) = await rows(services)
        assert (after.status, after.lease_token) == ("running", "another")
        assert leftovers(run_ids=[row.run_id or ""]) == []


def failing(monkeypatch: pytest.MonkeyPatch, services: Services, *errors: OSError) -> None:
    """Let the first artifacts that are stored fail with these errors."""
    left, put = iter(errors), services.artifacts.put

    async def store(key: str, content: bytes | Path) -> Any:
        if (error := next(left, None)) is not None:
            raise error
        return await put(key, content)

    monkeypatch.setattr(services.artifacts, "put", store)


async def test_worker_continues_after_a_store_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with new_services(Settings(data=tmp_path / "o")) as services:
        await waiting(services)
        failing(monkeypatch, services, OSError("no room"), OSError("no room"))
        async with worker(services).running():
            row = await until_status(services, "completed")
        assert row.attempts == 3
        async with services.database.reading() as session:
            assert await session.scalar(sa.select(sa.func.count()).select_from(EpisodeScore)) == 2
            assert len((await session.scalars(sa.select(Artifact).where(Artifact.kind == "results"))).all()) == 1


async def test_full_disk_pauses_the_worker_without_using_an_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    free = 0

    def usage(directory: Path) -> SimpleNamespace:
        return SimpleNamespace(free=free)

    monkeypatch.setattr(disk_space, "shutil", SimpleNamespace(disk_usage=usage))
    async with new_services(Settings(data=tmp_path / "o")) as services:
        await waiting(services)
        failing(monkeypatch, services, *[OSError(errno.ENOSPC, "No space left on device")] * MAX_ATTEMPTS)
        async with logged("0 MiB are free") as told, worker(services, retreat=0.02).running() as tested:
            with anyio.fail_after(300):
                await told.wait()
            assert tested.disk.trouble is not None
            (row,) = await rows(services)
            assert (row.status, row.attempts) == ("pending", 0)
            free = 1 << 40
            row = await until_status(services, "completed")
        assert row.attempts == 1
        assert tested.disk.trouble is None
    assert "0 MiB are free" in caplog.text


def test_player_faults_are_read_from_records_of_any_version() -> None:
    (path,) = files("player-fault/episode.json")
    written = json.loads(path.read_bytes())
    later = with_added_fields(written)
    later["faults"][0]["error_type"], later["faults"][1]["party"] = LATER, LATER
    types = [[fault["error_type"] for fault in player_faults(EpisodeRequest(record=each))] for each in (written, later)]
    assert types == [["player_error", "player_error"], [LATER]]
    assert player_faults(EpisodeRequest(record=None)) == []


async def test_worker_removes_only_directories_named_after_runs(tmp_path: Path) -> None:
    async with inside(tmp_path) as there:
        work = there.services.settings.data / "work"
    for name in ("0123456789abcdef", "thesis"):
        (work / name).mkdir(parents=True)
        (work / name / "chapter.txt").write_text("mine")
    async with open_platform(tmp_path, parallel=1):
        assert [path.name for path in work.iterdir()] == ["thesis"]
        assert (work / "thesis" / "chapter.txt").read_text() == "mine"
