"""An Observatory in the test's own process on a real socket, with a Coworld, policies and a league.

Uploads are written to the database directly, because these tests are about what happens after an upload.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
import sqlalchemy as sa

from observatory import server
from observatory.identity.accounts import add_user
from observatory.names import name_key
from observatory.operations.traces import PlatformTraces
from observatory.quotas import Quotas
from observatory.services import Services
from observatory.settings import Settings
from observatory.store.columns import new_id
from observatory.store.models import (
    Coworld,
    CoworldName,
    Division,
    EpisodeRequest,
    Game,
    Image,
    League,
    Membership,
    Participant,
    Policy,
    PolicySecretEnv,
    PolicyVersion,
    Round,
    User,
)

from .observatory import lay_tables, until_committed

__all__ = [
    "MISFITS",
    "QUICK",
    "Account",
    "Platform",
    "Subject",
    "World",
    "add_member",
    "add_policy",
    "checked",
    "declaring",
    "open_platform",
    "roster",
    "seed",
    "until_over",
]


@dataclass(frozen=True)
class Subject:
    """A package to play."""

    directory: Path
    placeholder: str
    image: str
    player: tuple[str, ...]
    """The command of its player."""


QUICK = Subject(
    Path(__file__).parent / "quick", "{{QUICK_IMAGE}}", "coworld-quick", ("python3", "-S", "-E", "player.py")
)
"""A game that ends at once: 0.2 s per episode."""
MISFITS = Subject(Path(__file__).parent / "misfits", "{{MISFITS_IMAGE}}", "coworld-misfits", ("python3", "player.py"))
"""A game that misbehaves on request."""


@dataclass(frozen=True)
class Account:
    """An account with a token."""

    id: str
    name: str
    token: str = field(repr=False)


@dataclass(frozen=True)
class World:
    """An uploaded Coworld and its league."""

    id: str
    name: str
    league: str
    division: str


@dataclass
class Platform:
    """A running Observatory."""

    services: Services
    settings: Settings

    @property
    def url(self) -> str:
        """The server's URL."""
        return self.settings.url

    def client(self, account: Account | None = None, **headers: str) -> httpx2.AsyncClient:
        """An HTTP client for an account, or without a token; paths are below `/observatory`."""
        if account is not None:
            headers["Authorization"] = f"Bearer {account.token}"
        return httpx2.AsyncClient(base_url=f"{self.url}/observatory", headers=headers, timeout=300)

    async def fill_pool(self) -> None:
        """Open all connections of the pool, each of which has a thread.

        For a platform that several tests share: a connection first opened during a test would look like a leak.
        """
        engine = self.services.database.engine
        async with AsyncExitStack() as stack:
            for _ in range(8):
                await stack.enter_async_context(engine.connect())

    async def account(self, name: str, *, team: bool = False) -> Account:
        """Create an account."""
        async with self.services.database.writing() as session:
            user, token = await add_user(session, self.services.tokens, name, team=team)
            return Account(user.id, user.name, token.text)

    async def policy(
        self,
        owner: Account,
        name: str,
        *argv: str,
        subject: Subject = QUICK,
        secrets: Mapping[str, str] | None = None,
    ) -> str:
        """Create a version of a policy that runs the subject's player with these arguments; returns its id."""
        return await add_policy(self.services, owner.id, name, argv, subject=subject, secrets=secrets)

    async def join(self, world: World, version: str, *, champion: bool = True) -> None:
        """Make a policy version a member of the league."""
        await add_member(self.services, world, version, champion=champion)

    async def play_round(self, world: World, *versions: str, config: Mapping[str, Any] | None = None) -> str:
        """Schedule a league round of one episode for some policy versions; returns the episode's id."""
        async with self.services.database.writing() as session:
            last = await session.scalar(
                sa.select(sa.func.max(Round.round_number)).where(Round.division_id == world.division)
            )
            this = Round(
                round_number=(last or 0) + 1,
                commissioner_key="static",
                execution_backend="any",
                round_config={},
                status="running",
                division_id=world.division,
            )
            session.add(this)
            await session.flush()
            coworld = await session.get_one(Coworld, world.id)
            row = EpisodeRequest(
                user_id=coworld.user_id,
                source="round",
                round_id=this.id,
                league_id=world.league,
                division_id=world.division,
                coworld_id=world.id,
                game_config=dict(config or {}),
            )
            session.add(row)
            await session.flush()
            for position, version in enumerate(versions):
                seated = await session.get_one(PolicyVersion, version)
                policy = await session.get_one(Policy, seated.policy_id)
                session.add(
                    Participant(
                        episode_request_id=row.id,
                        position=position,
                        policy_version_id=version,
                        policy_id=policy.id,
                        policy_name=policy.name,
                        version=seated.version,
                        user_id=seated.user_id,
                        player_id=seated.player_id,
                    )
                )
            return row.id

    async def until_played(self, episode_id: str, *, seconds: float = 400) -> EpisodeRequest:
        """Wait for an episode to end, and return its row."""

        async def played() -> EpisodeRequest | None:
            row = await self.episode(episode_id)
            return row if row.status not in ("pending", "running") else None

        return await until_committed(played, seconds=seconds)

    async def episode(self, episode_id: str) -> EpisodeRequest:
        """An episode's row."""
        async with self.services.database.reading() as session:
            return await session.get_one(EpisodeRequest, episode_id)


@asynccontextmanager
async def open_platform(
    tmp_path: Path,
    *,
    backend: str = "process",
    packages: Sequence[Path] = (QUICK.directory, MISFITS.directory),
    parallel: int = 2,
    lease: float = 30.0,
    database: str | None = None,
    artifacts: str | None = None,
    quotas: Quotas | None = None,
    traces: PlatformTraces | None = None,
    **more: Any,
) -> AsyncGenerator[Platform]:
    """Serve an Observatory with its worker while the context is open; `more` are further fields of its settings."""
    settings = Settings(
        data=tmp_path / "observatory",
        database=database,
        artifacts=artifacts,
        backend=backend,  # type: ignore[arg-type]
        packages=tuple(packages) if backend == "process" else (),
        parallel=parallel,
        lease=lease,
        quotas=quotas or Quotas(),
        # A busy machine may take its time.
        connect_timeout=more.pop("connect_timeout", 180.0),
        **more,
    )
    listener = server.bind("127.0.0.1", 0)
    settings = server.with_url(settings, listener, None)
    await lay_tables(settings)
    async with server.serve(settings, listener, traces=traces) as services:
        yield Platform(services, settings)


async def seed(
    services: Services, owner: str, *, subject: Subject = QUICK, league: bool = True, **fields: object
) -> World:
    """Add a package as uploaded by a user, with further manifest fields and a league of one division."""
    text = (subject.directory / "coworld_manifest_template.json").read_text()
    async with services.database.writing() as session:
        row = await _image(session, owner, subject.image)
        manifest = json.loads(text.replace(subject.placeholder, row.id))
        manifest["game"]["version"] = "1.0.0"
        manifest |= fields
        name = str(manifest["game"]["name"])
        session.add(CoworldName(key=name_key(name), name=name, user_id=owner))
        await session.flush()
        coworld = Coworld(
            id=new_id("cow"),
            name_key=name_key(name),
            name=name,
            version="1.0.0",
            manifest=manifest,
            manifest_hash=f"sha256:{'0' * 64}",
            size_bytes=len(text),
            canonical=True,
            user_id=owner,
        )
        session.add(coworld)
        await session.flush()
        game = Game(id=new_id("game"), name=name, slug=name, name_key=name_key(name), coworld_id=coworld.id)
        session.add(game)
        await session.flush()
        if not league:
            return World(coworld.id, name, "", "")
        arena = League(id=new_id("league"), name=f"{name.title()} League", slug=f"{name}-league", game_id=game.id)
        session.add(arena)
        await session.flush()
        division = Division(id=new_id("div"), name="Main", level=1, league_id=arena.id)
        session.add(division)
        await session.flush()
        return World(coworld.id, name, arena.id, division.id)


async def add_member(services: Services, world: World, version: str, *, champion: bool = True) -> None:
    """Make a policy version a member of the league."""
    async with services.database.writing() as session:
        row = await session.get_one(PolicyVersion, version)
        session.add(
            Membership(
                league_id=world.league,
                division_id=world.division,
                policy_version_id=version,
                user_id=row.user_id,
                is_champion=champion,
            )
        )


async def add_policy(
    services: Services,
    owner: str,
    name: str,
    argv: Sequence[str] = (),
    *,
    subject: Subject = QUICK,
    secrets: Mapping[str, str] | None = None,
) -> str:
    """Create a version of a policy as uploaded by a user; returns its id."""
    async with services.database.writing() as session:
        row = await session.scalar(sa.select(Policy).where(Policy.user_id == owner, Policy.name == name))
        if row is None:
            row = Policy(id=new_id(), user_id=owner, name=name)
            session.add(row)
            await session.flush()
        newest = await session.scalar(
            sa.select(sa.func.max(PolicyVersion.version)).where(PolicyVersion.policy_id == row.id)
        )
        secret_env = None
        if secrets:
            sealed = services.vault.seal(json.dumps(dict(secrets)).encode())
            secret_env = PolicySecretEnv(id=new_id(), user_id=owner, names=list(secrets), sealed=sealed)
            session.add(secret_env)
            await session.flush()
        version = PolicyVersion(
            id=new_id(),
            policy_id=row.id,
            version=(newest or 0) + 1,
            user_id=owner,
            image_id=(await _image(session, owner, subject.image)).id,
            run=[*subject.player, *argv],
            secret_env_id=secret_env.id if secret_env else None,
        )
        session.add(version)
        await session.flush()
        return version.id


async def _image(session: Any, owner: str, name: str) -> Image:
    found = await session.scalar(sa.select(Image).where(Image.user_id == owner, Image.name == name))
    if found is None:
        found = Image(
            id=new_id("img"),
            user_id=owner,
            name=name,
            version=1,
            client_hash=f"sha256:{new_id()}",
            status="ready",
            repository=f"tests/{name}",
            tag="1",
            digest=f"sha256:{'0' * 64}",
            public=True,
        )
        session.add(found)
        await session.flush()
    assert await session.get(User, owner) is not None
    return found


def declaring(
    directory: Path,
    *,
    game: Mapping[str, Any] | None = None,
    player: Mapping[str, Any] | None = None,
    subject: Subject = QUICK,
) -> Path:
    """Copy a package and change fields of its game's program or its first player in the manifest."""
    package = directory / f"{subject.image}-package"
    shutil.copytree(subject.directory, package)
    template = package / "coworld_manifest_template.json"
    manifest = json.loads(template.read_text())
    manifest["game"]["runnable"] |= game or {}
    manifest["player"][0] |= player or {}
    template.write_text(json.dumps(manifest))
    return package


def roster(*references: str) -> list[dict[str, Any]]:
    """A roster of policies, one for each seat."""
    return [{"player": {"policy_ref": reference}} for reference in references]


async def checked(client: httpx2.AsyncClient, coworld_id: str) -> dict[str, Any]:
    """Wait for the check of an uploaded Coworld to end; returns how it did. The server is of the test's own process."""

    async def over() -> dict[str, Any] | None:
        answer = await client.get(f"/v2/coworlds/{coworld_id}/certification")
        assert answer.status_code == 200, answer.text
        state: dict[str, Any] = answer.json()
        return state if state["state"] not in ("queued", "certifying") else None

    return await until_committed(over)


async def until_over(client: httpx2.AsyncClient, request_id: str, *, seconds: float = 400) -> dict[str, Any]:
    """Wait for an experience request to end, using the change feed; returns its details."""
    cursor: dict[str, str] = {}
    with anyio.fail_after(seconds):
        while True:
            query = {"ids": request_id, "wait_seconds": "20", **cursor}
            answer = await client.get("/v2/episode-requests/changes", params=query)
            assert answer.status_code == 200, answer.text
            page = answer.json()
            cursor = {"cursor": page["next_cursor"]}
            if page["batches"][0]["status"] in ("completed", "failed", "cancelled"):
                detail = (await client.get(f"/v2/experience-requests/{request_id}")).json()
                if not detail["pending_count"] + detail["running_count"]:
                    return detail
