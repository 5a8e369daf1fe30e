"""Servers and workers that are killed: no request is lost, and none has two results."""

from __future__ import annotations

import contextlib
from pathlib import Path

import httpx2
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import undefer
from support.full import FULL
from support.observatory import add_account, kill_while_playing, run_server
from support.observatory_kit import QUICK, World, add_member, add_policy, roster, seed
from support.waiting import until

from observatory.services import Services, open_services
from observatory.settings import Settings
from observatory.store.models import (
    Artifact,
    EpisodeRequest,
    EpisodeScore,
    ExperienceRequest,
    League,
    Round,
    User,
)
from observatory.work.seasons import CONTINUOUS

EPISODES = 200 if FULL else 24
KILLS = 20 if FULL else 2
MEMBERS, BLOCKS = (5, 50) if FULL else (3, 4)
DATABASES = ("sqlite", *([pytest.param("postgresql", marks=pytest.mark.postgresql)] if FULL else ()))


@pytest.fixture(scope="session", params=DATABASES)
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of database in turn; of the session, so that a server that starts is no leak of a test."""
    if request.param == "postgresql":
        request.getfixturevalue("postgres")
    return str(request.param)


@pytest.fixture
def url(request: pytest.FixtureRequest, kind: str) -> str | None:
    """Of a database of its own; None for SQLite in the data directory."""
    return request.getfixturevalue("empty_postgres") if kind == "postgresql" else None


async def counts(services: Services) -> dict[str, int]:
    async with services.database.reading() as session:
        found = await session.execute(sa.select(EpisodeRequest.status, sa.func.count()).group_by(EpisodeRequest.status))
        return {row[0]: row[1] for row in found}


async def ask(url: str, token: str, world: World) -> None:
    """Ask for all the episodes, in two requests."""
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(base_url=f"{url}/observatory", headers=headers, timeout=60) as client:
        for _ in range(2):
            body = {"coworld_id": world.id, "roster": roster("left", "right"), "num_episodes": EPISODES // 2}
            answer = await client.post("/v2/experience-requests", json=body)
            assert answer.status_code == 200, answer.text


async def reach(services: Services, completed: int) -> None:
    """Wait until so many episodes are completed."""
    found: dict[str, int] = {}

    async def reached() -> bool:
        found.clear()
        found.update(await counts(services))
        assert not found.get("failed"), found
        return found.get("completed", 0) >= completed

    await until(reached, seconds=900, what=lambda: f"{completed} of {found} completed", every=0.1)


@pytest.mark.slow
@pytest.mark.timeout(1200)
async def test_episodes_survive_killed_workers(tmp_path: Path, url: str | None) -> None:
    settings = Settings(data=tmp_path / "observatory", database=url)
    token = await add_account(settings, "ann")
    where, log = ["--data", str(settings.data), "--json"], tmp_path / "log"
    where += ["--database", url] if url is not None else []
    plays = ["--backend", "process", "--package", str(QUICK.directory), "--parallel", "2", "--lease", "6"]
    async with open_services(settings) as services:
        async with services.database.reading() as session:
            owner = (await session.scalars(sa.select(User.id))).one()
        world = await seed(services, owner)
        for name in ("left", "right"):
            await add_policy(services, owner, name)
        # In turn a server with the worker in it is killed, and a server and a worker beside it
        for number in range(KILLS):
            over = EPISODES * (number + 1) // (KILLS + 1)
            if number % 2 == 0:
                async with run_server(["serve", "--port", "0", *where, *plays], log=log) as (server, said):
                    if number == 0:
                        await ask(said["url"], token, world)
                    await reach(services, over)
                    await kill_while_playing(services, server, owner="server@")
            else:
                async with (
                    run_server(["serve", "--port", "0", *where, "--backend", "none"], log=log) as (server, _),
                    run_server(["worker", *where, *plays], log=log) as (worker, _),
                ):
                    await reach(services, over)
                    await kill_while_playing(services, server, worker, owner=f":{worker.pid}:")
        async with run_server(["serve", "--port", "0", *where, *plays], log=log):
            await reach(services, EPISODES)
        assert await counts(services) == {"completed": EPISODES}
        async with services.database.reading() as session:
            rows = (await session.scalars(sa.select(EpisodeRequest))).all()
            requests = (await session.scalars(sa.select(ExperienceRequest.status))).all()
            made = {
                kind: await session.scalar(sa.select(sa.func.count()).where(Artifact.kind == kind))
                for kind in ("results", "replay")
            }
            scores = await session.scalar(sa.select(sa.func.count()).select_from(EpisodeScore))
    assert requests == ["completed"] * 2
    assert len(rows) == len({row.episode_id for row in rows}) == EPISODES
    assert made == {"results": EPISODES, "replay": EPISODES}
    assert scores == 2 * EPISODES
    # A score is made of the episode's own seed: no result was written to another's row
    for row in rows:
        assert [score.score for score in row.scores] == [row.seed, (row.seed or 0) + 1]
    assert {row.attempts for row in rows} > {1}, "nothing was being played when they were killed"
    assert all(row.lease_token is None for row in rows)
    # What the killed attempts had stored is gone, too
    kept = sorted(path.parent.parent.name for path in (settings.data / "artifacts").rglob("results.json"))
    assert kept == sorted(row.id for row in rows)
    assert list((settings.data / "work").iterdir()) == []


@pytest.mark.slow
@pytest.mark.timeout(2400)
async def test_round_completes_when_two_of_four_workers_are_killed(tmp_path: Path, url: str | None) -> None:
    settings = Settings(data=tmp_path / "observatory", database=url)
    where, log = ["--data", str(settings.data), "--json"], tmp_path / "log"
    where += ["--database", url] if url is not None else []
    plays = ["--backend", "process", "--package", str(QUICK.directory), "--parallel", "1", "--lease", "6"]
    names = [f"member-{number}" for number in range(MEMBERS)]
    for name in names:
        await add_account(settings, name)
    # Every two members meet in so many blocks of two episodes.
    episodes = MEMBERS * (MEMBERS - 1) * BLOCKS
    async with open_services(settings) as services, contextlib.AsyncExitStack() as stack:
        async with services.database.reading() as session:
            owners = {user.name: user.id for user in await session.scalars(sa.select(User))}
        world = await seed(services, owners[names[0]])
        for name in names:
            await add_member(services, world, await add_policy(services, owners[name], name))
        async with services.database.writing() as session:
            league = await session.get_one(League, world.league)
            league.commissioner_key = CONTINUOUS
            league.commissioner_config = {"pairing": "round-robin", "blocks": BLOCKS, "every_seconds": 86_400}
        await stack.enter_async_context(run_server(["serve", "--port", "0", *where, "--backend", "none"], log=log))
        workers = [
            (await stack.enter_async_context(run_server(["worker", *where, *plays], log=log)))[0] for _ in range(4)
        ]
        for worker, share in zip(workers[:2], (0.25, 0.5), strict=True):
            await reach(services, round(episodes * share))
            await kill_while_playing(services, worker, owner=f":{worker.pid}:")
        await reach(services, episodes)

        async def ended() -> list[Round] | None:
            found = await rounds(services)
            return found if found[0].status != "running" else None

        played = await until(ended, what="the end of the round")
        # What the killed workers left is removed by the others.
        await until(lambda: not [*(settings.data / "work").iterdir()], what="an empty directory of workspaces")
        async with services.database.reading() as session:
            rows = (await session.scalars(sa.select(EpisodeRequest))).all()
    [this] = played
    assert (this.status, this.error) == ("completed", None)
    assert this.report is not None
    assert sum(pair["won"] + pair["lost"] + pair["drawn"] for pair in this.report["pairs"]) == episodes // 2
    assert len(rows) == len({row.episode_id for row in rows}) == episodes
    assert {(row.status, row.round_id) for row in rows} == {("completed", this.id)}
    # Each killed worker was playing one; on a busy machine a lease may be lost, too.
    assert sum(row.attempts - 1 for row in rows) >= 2
    assert len({row.lease_owner for row in rows if row.lease_owner}) == 0


async def rounds(services: Services) -> list[Round]:
    async with services.database.reading() as session:
        return list((await session.scalars(sa.select(Round).options(undefer(Round.report)))).unique())
