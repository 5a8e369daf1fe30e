"""Every command of each published client that works with an Observatory, run against one with local processes.

A command is in the table below with its words, or with the reason why it asks no platform for anything. What commands
answer is tested in `test_published_client` and `test_published_newer`; here, that none of them meets a missing path, an
answer that it cannot read, or advice to try again what is never offered.
"""

from __future__ import annotations

import datetime as dt
import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import sqlalchemy as sa
from anyio.from_thread import start_blocking_portal
from support.images import untag
from support.observatory_kit import Platform, World, open_platform, roster, seed
from support.paintarena_image import paintarena_image
from support.published_client import Published, install, published

from observatory.store.columns import now
from observatory.store.models import Image, WorkerRow

pytestmark = [pytest.mark.slow, pytest.mark.more, pytest.mark.timeout(900)]

RELEASES = ("0.1.26", "0.1.47", "0.1.64")
HERE = "runs on the user's machine alone, or asks the platform what `download` asks"
ELSEWHERE = "asks GitHub or a package index, not the platform"
DOCKER = "needs images of Docker's: below, or in `test_published_client`"

TREE = """
import click, json
from typer.main import get_command
from coworld.cli import app
def commands(found, path=()):
    for name, one in getattr(found, "commands", {}).items():
        yield from commands(one, (*path, name))
    if path and not hasattr(found, "commands"):
        yield " ".join(path)
print(json.dumps(sorted(commands(get_command(app)))))
"""

COMMANDS: dict[str, str | list[str]] = {
    **dict.fromkeys(("certify", "play", "replay", "run-episode", "scrimmage", "docs", "init player"), HERE),
    **dict.fromkeys(("manifest-schema check", "stats extract-paintarena", "stats schema", "stats validate"), HERE),
    **dict.fromkeys(("build", "deploy-audit", "optimize"), ELSEWHERE),
    **dict.fromkeys(
        ("download", "patch-commissioner", "resolve-and-upload", "upload-coworld", "upload-policy"), DOCKER
    ),
    "leagues": ["$league"],
    "divisions": ["-l", "$league"],
    "results": ["$division"],
    "rounds": ["-l", "$league"],
    "memberships": ["--mine"],
    "submissions": ["--mine"],
    "events": ["-l", "$league"],
    "submit": ["one", "-l", "$league", "--no-open-browser"],
    "retire-membership": ["$membership"],
    "episodes": ["$episode"],
    "episode-stats": ["$episode"],
    "episode-results": ["$episode"],
    "episode-logs": ["$episode"],
    "replays": ["-r", "$round"],
    "replay-open": ["$episode", "--hosted", "--no-open-browser"],
    "list": [],
    "show": ["$coworld"],
    "status": ["$coworld"],
    "next-version": ["quick"],
    "images": [],
    "visibility": ["quick", "public"],
    "retry-certification": ["$coworld"],
    "xp-request create": ["request.json"],
    "xp-request list": [],
    "xp-request get": ["$request"],
    "xp-request episodes": ["$request"],
    "xp-request watch": ["$request"],
    "xp-request download": ["$request", "--include", "results", "-d", "evidence"],
    "secret put": ["quick", "key", "request.json"],
    "secret list": ["quick"],
    "secret delete": ["quick", "key"],
    "hosted-game create": ["$coworld"],
    "hosted-game join": ["$session"],
    "player list": [],
    "player create": ["Ada"],
    "player use": ["$player"],
    "player unset": [],
    "league create": ["quick", "key", "Quick"],
    "league list": [],
    "lobby create": ["$league"],
    "lobby get": ["$lobby"],
    "lobby seat": ["$lobby", "1:closed"],
    "lobby claim": ["$lobby", "0"],
    "lobby leave": ["$lobby"],
    "lobby cancel": ["$lobby"],
    "feed hat": ["sensei", "--coworld", "quick"],
    "feed instructions": ["sensei"],
    "reporters list": [],
    "reporters search": ["board"],
}
"""What works, and what it says goes to standard output."""

REFUSED: dict[str, list[str]] = {
    "episode-annotations": ["$episode", "$version", "-o", "annotations.jsonl"],
    "lobby remove": ["$lobby", "1"],
    "lobby start": ["$lobby"],
    "lobby end": ["$lobby"],
    "reporters show": ["rptr_x"],
    "credits": [],
    "power-analysis": ["$division"],
    "counterfactual create": ["one:v1", "two:v1", "-l", "$league"],
    "counterfactual get": ["cfeval_x"],
    "campaign board": ["$league"],
    "campaign conversation": ["$league", "--player", "$player"],
    "campaign full-prompt": ["$league", "--player", "$player"],
    "campaign history": ["$league", "--player", "$player"],
    "campaign perks": ["$league"],
    "campaign prompt": ["$league", "--player", "$player"],
    "campaign set-perks": ["$league", "--clear", "--player", "$player"],
    "campaign set-prompt": ["$league", "--file", "request.json", "--player", "$player"],
    "feed post": ["request.json", "--coworld", "quick", "--hat", "sensei"],
    "league game-of-week": ["quick"],
    "league rebind": ["request.json", "--commit"],
    "league setup": ["$league"],
    "league update": ["lseed_x", "--set", "a=1"],
}
"""What a platform without it refuses, in its own words."""


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing is counted after each test: the server of them all opens connections, each with a thread, as it needs."""


@dataclass
class Played:
    """A platform with a league in which an episode was played."""

    server: str
    token: str
    names: dict[str, str]
    have_image: Callable[[str], None]
    """Let the platform have an image of a digest that was uploaded before."""


@pytest.fixture
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    async def have_image(platform: Platform, owner: str, digest: str) -> None:
        async with platform.services.database.writing() as session:
            if await session.scalar(sa.select(Image.id).where(Image.client_hash == digest)):
                return
            words = {"repository": "ann/pushed", "tag": "v1", "digest": digest, "status": "ready"}
            session.add(Image(user_id=owner, name="pushed", version=1, client_hash=digest, **words))

    async def prepare(platform: Platform) -> Played:
        await platform.fill_pool()
        ann = await platform.account("ann", team=True)
        world: World = await seed(platform.services, ann.id)
        versions = [await platform.policy(ann, name) for name in ("one", "two")]
        await platform.join(world, versions[1])
        episode = await platform.play_round(world, *versions)
        row = await platform.until_played(episode)
        # Other workers of the platform have containers, so images may be uploaded
        async with platform.services.database.writing() as session:
            seen_at = now() + dt.timedelta(hours=1)
            session.add(WorkerRow(name="other", backend="docker", parallel=1, seen_at=seen_at))
        names = {
            "league": world.league,
            "division": world.division,
            "coworld": world.id,
            "episode": episode,
            "round": row.round_id or "",
            "version": versions[0],
        }
        return Played(platform.url, ann.token, names, lambda digest: portal.call(have_image, platform, ann.id, digest))

    opened = open_platform(tmp_path_factory.mktemp("commands"))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(opened) as platform:
        yield portal.call(prepare, platform)


@pytest.fixture(params=RELEASES)
def client(
    request: pytest.FixtureRequest, played: Played, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Published, set[str]]]:
    """Each release in turn, with its commands."""
    directory = tmp_path_factory.mktemp("published")
    python = install(directory / "venv", request.param)
    listed = subprocess.run([python, "-c", TREE], capture_output=True, text=True, check=True, timeout=100)
    with published(python, directory / "home", played.server) as signed_in:
        signed_in.sign_in(played.token)
        yield signed_in, set(json.loads(listed.stdout))


def test_every_published_command_is_answered(client: tuple[Published, set[str]], played: Played) -> None:
    user, commands = client
    assert commands <= COMMANDS.keys() | REFUSED.keys(), "a command that nobody has tried"
    body = {"coworld_id": played.names["coworld"], "roster": roster("one", "two")}
    (user.home / "request.json").write_text(json.dumps(body))
    names = {"player": "ply_x", **played.names}
    table = {**COMMANDS, **REFUSED}

    def made(kind: str, *words: str) -> None:
        names[kind] = _id_of(user.ask(*words), kind)

    made("request", "xp-request", "create", "request.json")
    made("session", "hosted-game", "create", names["coworld"])
    if "lobby create" in commands:
        made("lobby", "lobby", "create", names["league"], "--seat", "1:human_open")
    if "player create" in commands:
        made("player", "player", "create", "Bea")
    else:
        table["player use"] = HERE
    user.run("submit", "one", "-l", names["league"], "--no-open-browser")
    rows = user.ask("memberships", "--mine", "-l", names["league"], "--champions-only")
    names["membership"] = (rows["entries"] if isinstance(rows, dict) else rows)[0]["id"]
    if "league rebind" not in commands:
        table["league create"] = ["quick"]
    trouble: dict[str, str] = {}
    for name, given in table.items():
        if name not in commands or isinstance(given, str):
            continue
        words = [names[word[1:]] if word.startswith("$") else word for word in given]
        done = user.run(*name.split(), *words, status=None)
        said = done.stdout + done.stderr
        wanted = (done.status == 0) == (name in COMMANDS)
        if not wanted or "There is no such path" in said or "retry with backoff" in said:
            trouble[name] = f"{done.status}: {said[-1500:]}"
    assert not trouble, "\n".join(f"{name}: {text}" for name, text in trouble.items())


def _id_of(answer: dict[str, str], kind: str) -> str:
    return answer["session_id" if kind == "session" else "id"]


@pytest.mark.docker
def test_every_client_uploads_a_policy(client: tuple[Published, set[str]], played: Played) -> None:
    """Newer clients name an image by its id; pushing one is tested with 0.1.26, which every engine can do."""
    user, commands = client
    image = paintarena_image()
    if "league rebind" in commands:
        asked = ["docker", "image", "inspect", "--format", "{{.Id}}", image]
        played.have_image(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
    try:
        said = user.run("upload-policy", image, "--name", "sweeper", "--run", "python").stdout
        assert "Upload complete: sweeper:v" in said
    finally:
        untag(lambda name: name.startswith(user.server.removeprefix("http://")))
