"""Registries of players: a directory and a platform behave the same, and say what they cannot do."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.fake_platform import canned_platform, uid
from support.fake_server import Say, json_say
from support.observatory_kit import open_platform

from coworld_client import Backoff, CoworldClient, NotFound, NotOffered
from coworld_client.transfers.files import TransferRefused
from coworld_core.api import PlayerFiles
from coworld_core.errors import UsageError
from coworld_core.player_registry import PlayerRegistry, PlayerVersion
from coworld_runner import LocalRegistry
from coworld_runner.package.own_players.named_player import read_own_player
from coworld_runner.package.own_players.player_wire import to_wire

pytestmark = pytest.mark.slow

BOT = "def act(observation, legal, rng):\n    return legal[0]\n"
AT_ONCE = Backoff(base=0.0, cap=0.0)


@asynccontextmanager
async def opened(kind: str, directory: Path) -> AsyncGenerator[PlayerRegistry]:
    if kind == "directory":
        yield LocalRegistry(directory / "registry")
        return
    async with open_platform(directory, backend="none") as platform:
        ann = await platform.account("ann")
        async with CoworldClient(platform.url, token=ann.token, backoff=AT_ONCE) as api:
            yield api.registry


def player(directory: Path, *, more: str = "") -> PlayerFiles:
    """A player of two files, with what it says besides."""
    directory.mkdir(exist_ok=True)
    (directory / "helper.py").write_text("FIRST = 0\n")
    (directory / "bot.py").write_text("import helper\n" + BOT + more)
    return to_wire(read_own_player(str(directory / "bot.py")))


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def text(path: Path) -> str:
    return path.read_text()


BOTH = pytest.mark.parametrize("kind", ["directory", "platform"])


@BOTH
async def test_versions_are_published_found_and_fetched(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as registry:
        assert await registry.names() == ()
        first = await registry.publish("bot", player(tmp_path / "one"), metadata={"steps": "5"})
        second = await registry.publish("bot", player(tmp_path / "one", more="# better\n"))
        await registry.publish("other", player(tmp_path / "one", more="# better\n"))
        assert (first.label, first.kind, first.source, first.metadata) == ("bot:v1", "files", "bot.py", {"steps": "5"})
        assert second.version == 2
        assert first.digest.startswith("sha256:")
        assert first.digest != second.digest
        assert (await registry.get("other")).digest == second.digest

        assert await registry.names() == ("bot", "other")
        assert await registry.versions("bot") == (second, first)
        for ref, version in (("bot", second), ("bot:latest", second), ("bot:1", first), ("bot:v1", first)):
            assert await registry.get(ref) == version
        for ref, code in (("bt", "unknown_player"), ("bot:v3", "unknown_version"), ("bot:champion", "unknown_version")):
            with pytest.raises(UsageError) as refused:
                await registry.get(ref)
            assert refused.value.code == code
        with pytest.raises(UsageError, match="Did you mean 'bot'"):
            await registry.versions("bt")

        copy = await registry.fetch("bot:v1", tmp_path / "copy")
        assert copy == tmp_path / "copy" / "bot.py"
        assert text(copy) == "import helper\n" + BOT
        assert text(copy.with_name("helper.py")) == "FIRST = 0\n"
        with pytest.raises(UsageError) as refused:
            await registry.fetch(second, tmp_path / "copy")
        assert refused.value.code == "file_exists"
        assert names(copy.parent) == ["bot.py", "helper.py"]


@BOTH
async def test_a_directory_comes_back_as_one(kind: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    (mine / "weights").mkdir(parents=True)
    (mine / "main.py").write_text(BOT)
    (mine / "weights" / "w.bin").write_bytes(bytes(range(256)))
    async with opened(kind, tmp_path) as registry:
        await registry.publish("net", to_wire(read_own_player(str(mine))))
        copy = await registry.fetch("net", tmp_path / "copy")
    assert copy == tmp_path / "copy" / "mine"
    assert read_own_player(str(copy)).digest == read_own_player(str(mine)).digest


@BOTH
async def test_updates(kind: str, tmp_path: Path) -> None:
    async def first(updates: AsyncIterator[PlayerVersion], count: int) -> list[int]:
        with anyio.fail_after(60):
            return [(await anext(updates)).version for _ in range(count)]

    async with opened(kind, tmp_path) as registry:
        await registry.publish("bot", player(tmp_path / "one"))
        await registry.publish("bot", player(tmp_path / "one", more="# 2\n"))
        assert await first(registry.updates("bot", after=0), 2) == [1, 2]
        updates, found = registry.updates("bot", after=1), list[int]()
        assert await first(updates, 1) == [2]

        async def follow() -> None:
            found.extend(await first(updates, 1))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            await registry.publish("bot", player(tmp_path / "one", more="# 3\n"))
        assert found == [3]
        with anyio.move_on_after(0.5) as scope:
            await anext(registry.updates("bot"))
        assert scope.cancelled_caught


async def test_a_platform_has_no_tags(tmp_path: Path) -> None:
    async with opened("platform", tmp_path) as registry:
        for ask in (
            lambda: registry.publish("bot", player(tmp_path / "one"), tags=["champion"]),
            lambda: registry.tag("bot", 1, "champion"),
        ):
            with pytest.raises(UsageError) as refused:
                await ask()
            assert refused.value.code == "tags_unsupported"
        assert await registry.names() == ()


async def test_files_are_their_owner_s_alone(tmp_path: Path) -> None:
    """Not another account's, not a member of the team's, and of an image there are none."""
    async with open_platform(tmp_path, backend="none") as platform:
        ann, ben = await platform.account("ann"), await platform.account("ben", team=True)
        image = await platform.policy(ann, "walker")
        async with CoworldClient(platform.url, token=ann.token, backoff=AT_ONCE) as api:
            made = await api.policies.upload(player(tmp_path / "one"), name="bot")
            row = await api.policies.lookup("bot")
            assert (row.kind, row.source, row.created_at is not None) == ("files", "bot.py", True)
            assert (await api.policies.lookup("walker")).kind == "image"
            with pytest.raises(UsageError) as refused:
                await api.policies.download("walker:v1", tmp_path / "none")
            assert refused.value.code == "version_without_files"
            path = f"/stats/policy-versions/{image}/files"
            with pytest.raises(Exception, match="is an image") as conflict:
                await api.connection.call("GET", path)
            assert getattr(conflict.value, "status", None) == 409
            with pytest.raises(NotFound, match="You have no policy"):
                await api.policies.download("nobody", tmp_path / "none")
            # In parts, and only as the listed content
            assert (await api.policies.download("bot", tmp_path / "copy")).name == "bot.py"
            wrong = row.model_copy(update={"digest": f"sha256:{'0' * 64}"})
            with pytest.raises(TransferRefused):
                await api.policies.download(wrong, tmp_path / "none")
        path = f"/stats/policy-versions/{made.id}/files"
        for elevated in (False, True):
            async with CoworldClient(platform.url, token=ben.token, backoff=AT_ONCE, elevated=elevated) as api:
                with pytest.raises(NotFound):
                    await api.connection.call("GET", path)
    assert not (tmp_path / "none").exists()


async def test_platforms_that_give_no_files_out(tmp_path: Path) -> None:
    """As the published one, which has no such route; and what a hostile one sends is not put in place."""
    row: dict[str, Any] = {"id": uid(4), "name": "bot", "version": 3}
    path = f"/stats/policy-versions/{uid(4)}/files"
    escaping = PlayerFiles.of_bytes({"bot.py": b"x"}, file="bot.py", command=("python", "{}/bot.py")).model_dump_json()
    async with canned_platform() as platform, CoworldClient(platform.url, backoff=AT_ONCE) as api:
        platform.on("GET", "/stats/policy-versions", {"entries": [row], "total_count": 1})
        version = await api.registry.get("bot:v3")
        assert (version.kind, version.digest, version.source, version.created) == ("unknown", "", "", None)
        for status in (404, 405):
            platform.on("GET", path, json_say({"detail": "Not Found"}, status))
            with pytest.raises(NotOffered, match="does not give out the files") as refused:
                await api.registry.fetch("bot", tmp_path / "none")
            assert refused.value.status == status
        for content in (b"no json", escaping.replace("bot.py", "../bot.py").encode()):
            platform.on("GET", path, Say(body=content))
            with pytest.raises(TransferRefused, match="is not a player's files"):
                await api.registry.fetch("bot", tmp_path / "none")
        platform.on(
            "GET",
            "/stats/policy-versions",
            {
                "entries": [{**row, "digest": f"sha256:{hashlib.sha256(b'other').hexdigest()}", "kind": "files"}],
                "total_count": 1,
            },
        )
        platform.on("GET", path, Say(body=escaping.encode()))
        with pytest.raises(TransferRefused):
            await api.registry.fetch("bot", tmp_path / "none")
    assert names(tmp_path) == []
