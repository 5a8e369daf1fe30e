"""Servers and workers that are killed: no request is lost, and none has two results."""

from __future__ import annotations

from pathlib import Path

import anyio
import httpx2
import pytest
import sqlalchemy as sa
from support.full import FULL
from support.observatory import ServerProcess, add_account, run_server
from support.observatory_kit import QUICK, World, add_policy, roster, seed

from observatory.services import Services, open_services
from observatory.settings import Settings
from observatory.store.models import Artifact, EpisodeRequest, EpisodeScore, ExperienceRequest, User

EPISODES = 200 if FULL else 24
KILLS = 20 if FULL else 2
DATABASES = ("sqlite", "postgresql") if FULL else ("sqlite",)


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
    with anyio.fail_after(900):
        while (await counts(services)).get("completed", 0) < completed:  # noqa: ASYNC110 - in another process
            await anyio.sleep(0.1)


async def kill(*processes: ServerProcess) -> None:
    """SIGKILL, all at once."""
    for process in processes:
        process.kill()
    for process in processes:
        await process.wait()


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("quick_platforms")
async def test_kills_in_many_episodes(tmp_path: Path, url: str | None) -> None:
    settings = Settings(data=tmp_path / "observatory", database=url)
    token = await add_account(settings, "ann")
    where, log = ["--data", str(settings.data), "--json"], tmp_path / "log"
    where += ["--database", url] if url is not None else []
    plays = ["--backend", "process", "--package", str(QUICK.directory), "--parallel", "2", "--lease", "3"]
    async with open_services(settings) as services:
        async with services.database.reading() as session:
            owner = (await session.scalars(sa.select(User.id))).one()
        world = await seed(services, owner)
        for name in ("left", "right"):
            await add_policy(services, owner, name)
        # in turn a server with the worker in it is killed, and a server and a worker beside it
        for number in range(KILLS):
            over = EPISODES * (number + 1) // (KILLS + 1)
            if number % 2 == 0:
                async with run_server(["serve", "--port", "0", *where, *plays], log=log) as (server, said):
                    if number == 0:
                        await ask(said["url"], token, world)
                    await reach(services, over)
                    await kill(server)
            else:
                async with (
                    run_server(["serve", "--port", "0", *where, "--backend", "none"], log=log) as (server, _),
                    run_server(["worker", *where, *plays], log=log) as (worker, _),
                ):
                    await reach(services, over)
                    await kill(server, worker)
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
    # a score is made of the episode's own seed: no result was written to another's row
    for row in rows:
        assert [score.score for score in row.scores] == [row.seed, (row.seed or 0) + 1]
    assert {row.attempts for row in rows} > {1}, "nothing was being played when they were killed"
    assert all(row.lease_token is None for row in rows)
    # what the killed attempts had stored is gone, too
    kept = sorted(path.parent.parent.name for path in (settings.data / "artifacts").rglob("results.json"))
    assert kept == sorted(row.id for row in rows)
    assert list((settings.data / "work").iterdir()) == []
