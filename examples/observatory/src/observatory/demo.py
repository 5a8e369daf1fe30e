"""A complete demo platform: the sample world, a league with two house bots, and an account."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core.manifest import Manifest, load_manifest
from coworld_runner.images import find_compose, load_compose
from coworld_runner.kit.server import new_sample

from .data_directory import prepare_directory, write_secret
from .services import Services
from .store.models import Division, Image, League, Membership, Player, Policy, PolicyVersion

__all__ = ["Demo", "open_league", "prepare_world"]

_WORLD = "paintarena"
_LEAGUE = "demo"
_VARIANT = "quick"
_EVERY_SECONDS = 10.0
_ACCOUNT = "you"


@dataclass(frozen=True, kw_only=True)
class Demo:
    """The information for taking part."""

    league: str
    page: str
    """The address of the league's page."""
    token: str
    """The file with the account's token."""
    commands: tuple[str, ...]
    """The commands to run, in order."""

    def to_dict(self) -> dict[str, Any]:
        """The demo as JSON."""
        return asdict(self)


def prepare_world(data: Path) -> Path:
    """Copy the sample world and a starter bot into a data directory, unless they exist.

    Returns:
        The world's directory.

    Raises:
        UsageError: The directory cannot be used.
    """
    world = prepare_directory(data) / _WORLD
    if not (world / "coworld_manifest_template.json").is_file():
        new_sample(files("coworld_cli") / "sample", world, known_as="examples/paintarena")
    bot = data / "bot.py"
    if not bot.exists():
        bot.write_text((files("observatory") / "demo_bot.py").read_text(encoding="utf-8"), encoding="utf-8")
    return world


async def open_league(services: Services) -> Demo:
    """Create the league with its bots, and the account, unless they exist."""
    from .identity.accounts import add_user
    from .identity.auth import Caller

    data, token_file = services.settings.data, services.settings.data / "token"
    async with services.database.writing() as session:
        league = await session.scalar(sa.select(League).where(League.name == _LEAGUE))
        if league is None:
            house, _ = await add_user(session, services.tokens, "house")
            league = await _begin(services, session, Caller("user", user=house))
            _, token = await add_user(session, services.tokens, _ACCOUNT)
            write_secret(token_file, f"{token.text}\n".encode())
        page = f"{services.settings.url}/leagues/{league.id}"
    server = ["--server", services.settings.url]
    return Demo(
        league=_LEAGUE,
        page=page,
        token=str(token_file),
        commands=(
            f"{shlex.join(['coworld', 'set-token', *server])} < {shlex.quote(str(token_file))}",
            shlex.join(["coworld", "upload-policy", str(data / "bot.py"), "--league", _LEAGUE, *server]),
            shlex.join(["coworld", "results", _LEAGUE, *server]),
        ),
    )


async def _begin(services: Services, session: AsyncSession, house: Any) -> League:
    from .api.catalogue import add_coworld
    from .api.leagues import create_league
    from .identity.accounts import add_user

    world = services.settings.packages[0]
    manifest = await _uploaded(services, session, house.user_id, world)
    coworld = await add_coworld(session, house, manifest)
    league = await create_league(session, _LEAGUE, coworld=coworld.name, variant_id=_VARIANT, every=_EVERY_SECONDS)
    [division] = await session.scalars(sa.select(Division).where(Division.league_id == league.id))
    for bundled in manifest.player:
        # Players of one account would not meet
        owner, _ = await add_user(session, services.tokens, bundled.id)
        player = Player(user_id=owner.id, name=bundled.name)
        policy = Policy(user_id=owner.id, name=bundled.id)
        session.add_all([player, policy])
        await session.flush()
        version = PolicyVersion(
            policy_id=policy.id,
            version=1,
            user_id=owner.id,
            player_id=player.id,
            image_id=bundled.image,
            run=list(bundled.run),
        )
        session.add(version)
        await session.flush()
        session.add(
            Membership(
                league_id=league.id,
                division_id=division.id,
                policy_version_id=version.id,
                user_id=owner.id,
                player_id=player.id,
                is_champion=True,
                substatus="champion",
            )
        )
    await session.flush()
    return league


async def _uploaded(services: Services, session: AsyncSession, owner: str, world: Path) -> Manifest:
    """The world's manifest as if uploaded, with image ids."""
    template = (world / "coworld_manifest_template.json").read_text(encoding="utf-8")
    compose = find_compose(world)
    for service in load_compose(compose).services if compose is not None else ():
        # The images are never pulled: local processes run the programs in the directory.
        digest = await services.blobs.put(template.encode())
        name = service.image.partition(":")[0]
        image = Image(
            user_id=owner,
            name=name,
            version=1,
            client_hash=digest,
            status="ready",
            repository=f"{_LEAGUE}/{name}",
            tag="v1",
            digest=digest,
        )
        session.add(image)
        await session.flush()
        template = template.replace(service.placeholder, image.id)
    document = json.loads(template)
    document["game"]["version"] = "1.0.0"
    return load_manifest(document).manifest
