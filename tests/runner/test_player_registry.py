"""Players by name and version in a directory: what is published, found, moved, removed, and what survives."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from coworld_core.errors import EnvironmentFault, RecordError, UsageError
from coworld_core.player_registry import PlayerRegistry, PlayerVersion, TagConflict, VersionRef
from coworld_runner import LocalRegistry

BOT = "def act(observation, legal, rng):\n    return legal[0]\n"
IMAGE = f"example/bot@sha256:{'5' * 64}"


@pytest.fixture
def bot(tmp_path: Path) -> Path:
    (tmp_path / "bot.py").write_text(BOT)
    return tmp_path / "bot.py"


@pytest.fixture
def registry(tmp_path: Path) -> LocalRegistry:
    return LocalRegistry(tmp_path / "registry")


def save(bot: Path, text: str) -> None:
    bot.write_text(text)


async def test_versions_are_numbered_found_and_kept(registry: LocalRegistry, bot: Path, tmp_path: Path) -> None:
    assert await registry.names() == ()
    first = await registry.publish("bot", bot, metadata={"steps": "100"}, tags=["champion"])
    save(bot, BOT + "# better\n")
    second = await registry.publish("bot", bot)
    assert [first.label, second.label] == ["bot:v1", "bot:v2"]
    assert first.digest != second.digest

    other = LocalRegistry(registry.directory)
    assert await other.names() == ("bot",)
    assert [one.version for one in await other.versions("bot")] == [2, 1]
    for ref, version in (("bot", second), ("bot:latest", second), ("bot:1", first), ("bot:champion", first)):
        assert await other.get(ref) == version
    assert (await other.get("bot:v1")).metadata == {"steps": "100"}
    # What is published does not follow its file
    copy = await other.fetch("bot:v1", tmp_path / "copy")
    assert (copy.name, copy.read_text()) == ("bot.py", BOT)
    with pytest.raises(UsageError) as refused:
        await other.fetch("bot:v2", tmp_path / "copy")
    assert refused.value.code == "file_exists"
    assert copy.read_text() == BOT


async def test_players_of_several_files(registry: LocalRegistry, tmp_path: Path) -> None:
    """A file brings the modules that it imports; a directory all that is in it; the same content is kept once."""
    (tmp_path / "helper.py").write_text("FIRST = 0\n")
    (tmp_path / "bot.py").write_text("import helper\n" + BOT)
    (tmp_path / "other.py").write_text("unrelated = 1\n")
    version = await registry.publish("file", tmp_path / "bot.py")
    copy = await registry.fetch(version, tmp_path / "file")
    assert sorted(path.name for path in copy.parent.iterdir()) == ["bot.py", "helper.py"]

    (tmp_path / "mine" / "weights").mkdir(parents=True)
    (tmp_path / "mine" / "main.py").write_text(BOT)
    (tmp_path / "mine" / "weights" / "w.bin").write_bytes(b"\0\1")
    version = await registry.publish("directory", tmp_path / "mine")
    copy = await registry.fetch("directory", tmp_path / "there")
    assert (copy.name, (copy / "weights" / "w.bin").read_bytes()) == ("mine", b"\0\1")
    again = await registry.publish("same", tmp_path / "mine")
    assert again.digest == version.digest
    assert len(list((registry.directory / "versions").iterdir())) == 2


async def test_images_are_named_by_digest(registry: LocalRegistry, tmp_path: Path) -> None:
    version = await registry.publish("bot", IMAGE, run=["python", "-m", "bot"])
    found = await registry.get("bot")
    assert (found.kind, found.source, found.run) == ("image", IMAGE, ("python", "-m", "bot"))
    assert found == version
    with pytest.raises(UsageError, match="may change") as refused:
        await registry.publish("bot", "example/bot:latest")
    assert refused.value.code == "image_unpinned"
    with pytest.raises(UsageError) as refused:
        await registry.fetch("bot", tmp_path)
    assert refused.value.code == "version_without_files"


@pytest.mark.parametrize(
    ("ref", "code", "words"),
    [
        ("bt", "unknown_player", "Did you mean 'bot'"),
        ("bot:v9", "unknown_version", "It has v1"),
        ("bot:campion", "unknown_version", "Did you mean bot:champion"),
        ("bot:", "bad_version", "NAME:v3"),
        ("bot:v0", "bad_version", "versions begin with 1"),
        ("a/b:v1", "bad_version", "NAME:v3"),
    ],
)
async def test_names_that_are_not_there(registry: LocalRegistry, bot: Path, ref: str, code: str, words: str) -> None:
    await registry.publish("bot", bot, tags=["champion"])
    with pytest.raises(UsageError) as refused:
        await registry.get(ref)
    assert refused.value.code == code
    assert words in str(refused.value)


@pytest.mark.parametrize("name", ["", ".hidden", "../bot", "a/b", "bot:v1", "ä", "x" * 101])
async def test_names_that_cannot_be(registry: LocalRegistry, bot: Path, name: str) -> None:
    with pytest.raises(UsageError) as refused:
        await registry.publish(name, bot)
    assert refused.value.code == "bad_player_name"
    assert not registry.directory.exists()


@pytest.mark.parametrize("tag", ["latest", "v3", "3", "", "a b", "a/b"])
async def test_tags_that_cannot_be(registry: LocalRegistry, bot: Path, tag: str) -> None:
    await registry.publish("bot", bot)
    with pytest.raises(UsageError) as refused:
        await registry.tag("bot", 1, tag)
    assert refused.value.code == "bad_tag"


async def test_a_tag_that_was_moved_meanwhile(registry: LocalRegistry, bot: Path) -> None:
    """Whoever says from where it moves a tag is told that somebody else was faster, and by whom it stands now."""
    for _ in range(3):
        await registry.publish("bot", bot)
    await registry.tag("bot", 1, "champion", expected=None)
    await registry.tag("bot", 2, "champion", expected=1)
    with pytest.raises(TagConflict) as moved:
        await registry.tag("bot", 3, "champion", expected=1)
    assert moved.value.context == {"name": "bot", "tag": "champion", "expected": 1, "version": 2}
    assert "bot:v2 now, not for bot:v1" in moved.value.message
    assert (await registry.get("bot:champion")).version == 2
    tagged = await registry.tag("bot", 3, "champion")
    assert tagged is not None
    assert tagged.tags == ("champion",)
    assert await registry.tag("bot", None, "champion", expected=3) is None
    with pytest.raises(UsageError):
        await registry.get("bot:champion")


async def test_removed_versions(registry: LocalRegistry, bot: Path) -> None:
    """Their numbers are not given again, and files go with the last version that has them."""
    await registry.publish("bot", bot, tags=["champion"])
    await registry.publish("copy", bot)
    save(bot, BOT + "# other\n")
    await registry.publish("bot", bot)
    with pytest.raises(UsageError) as refused:
        await registry.remove("bot:v1")
    assert refused.value.code == "version_tagged"
    with pytest.raises(UsageError) as refused:
        await registry.remove("bot:latest")
    assert "bot:v2" in str(refused.value.hint)
    kept = registry.directory / "versions"
    assert [one.label for one in await registry.remove("bot:v2")] == ["bot:v2"]
    assert len(list(kept.iterdir())) == 1
    assert (await registry.get("bot")).version == 1
    assert (await registry.publish("bot", bot)).version == 3
    await registry.remove("bot")
    assert await registry.names() == ("copy",)
    registry.folder.read(await registry.get("copy"))


async def test_damaged_files_are_told_and_mended(registry: LocalRegistry, bot: Path, tmp_path: Path) -> None:
    version = await registry.publish("bot", bot)
    kept = registry.folder.path(version)
    kept.write_text(BOT + "# changed behind its back\n")
    with pytest.raises(EnvironmentFault) as damaged:
        await registry.fetch(version, tmp_path / "copy")
    assert damaged.value.code == "version_damaged"
    kept.unlink()
    with pytest.raises(EnvironmentFault, match="not what they were"):
        registry.folder.read(version)
    await registry.publish("bot", bot)
    assert registry.folder.read(version).digest == version.digest


async def test_logs_of_others(registry: LocalRegistry, bot: Path) -> None:
    """A line that was not finished does not count, a later version's is passed over, and any other is told."""
    await registry.publish("bot", bot)
    log = registry.folder.log("bot")
    whole = log.read_bytes()
    later = json.dumps({"schema_version": 2, "event": "blessed", "time": "2030-01-01T00:00:00Z", "version": 1, "x": 1})
    log.write_bytes(whole + later.encode() + b"\n" + whole[: len(whole) // 2])
    assert [one.version for one in await registry.versions("bot")] == [1]
    assert (await registry.publish("bot", bot)).version == 2
    assert log.read_bytes().startswith(whole + later.encode() + b"\n")
    log.write_bytes(whole + b'{"event": "published"}\n')
    with pytest.raises(RecordError, match=f"{log}:2"):
        await registry.versions("bot")


async def test_a_damaged_log_costs_its_own_name(registry: LocalRegistry, bot: Path) -> None:
    for name in ("bot", "copy", "torn"):
        save(bot, f"{BOT}# {name}\n")
        await registry.publish(name, bot)
    logs, kept = registry.folder.log("bot").parent, registry.directory / "versions"
    registry.folder.log("torn").write_bytes(b"torn\n")
    os.mkfifo(logs / "pipe.jsonl")
    (logs / "._bot.jsonl").write_bytes(b"\0\5\x16\7")
    (kept / ".git").mkdir()
    assert await registry.names() == ("bot", "copy")
    assert [*await registry.damaged()] == ["torn"]
    assert registry.folder.knows("bot")
    with pytest.raises(UsageError) as unknown:
        await registry.get("bit")
    assert unknown.value.hint == "Did you mean 'bot'?"
    for use in (registry.get, registry.versions, registry.remove):
        with pytest.raises(RecordError, match="torn"):
            await use("torn")
    # Which files the damaged name needs is not known
    await registry.remove("copy")
    assert len(list(kept.iterdir())) == 4
    registry.folder.log("torn").unlink()
    await registry.remove("bot")
    assert [place.name for place in kept.iterdir()] == [".git"]


async def test_updates_give_each_version_once(registry: LocalRegistry, bot: Path) -> None:
    """From the beginning, from where a reader was, or from now on; and they end with their scope."""
    await registry.publish("bot", bot)
    await registry.publish("bot", bot)

    async def first(updates: AsyncIterator[PlayerVersion], count: int) -> list[int]:
        with anyio.fail_after(30):
            return [(await anext(updates)).version for _ in range(count)]

    assert await first(registry.updates("bot", after=0), 2) == [1, 2]
    resumed = registry.updates("bot", after=1)
    assert await first(resumed, 1) == [2]
    fresh, unknown = registry.updates("bot"), registry.updates("other")
    found: dict[str, list[int]] = {}

    async def follow(name: str, updates: AsyncIterator[PlayerVersion]) -> None:
        found[name] = await first(updates, 1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow, "resumed", resumed)
        tasks.start_soon(follow, "other", unknown)
        with anyio.move_on_after(1) as scope:
            await anext(fresh)
        assert scope.cancelled_caught
        await registry.publish("bot", bot)
        await registry.publish("other", bot)
    assert found == {"resumed": [3], "other": [1]}


PUBLISH = """
import sys
from pathlib import Path
from coworld_runner.package.player_registry.registry_folder import RegistryFolder
from coworld_runner.package.own_players.named_player import read_own_player
folder, own = RegistryFolder(sys.argv[1]), read_own_player(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[3])):
    print(folder.publish("bot", own).version, flush=True)
"""


def publisher(registry: LocalRegistry, bot: Path, count: int) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", PUBLISH, str(registry.directory), str(bot), str(count)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.slow
async def test_programs_that_publish_at_once(registry: LocalRegistry, bot: Path) -> None:
    """Every version gets a number of its own."""
    programs = [publisher(registry, bot, 15) for _ in range(4)]
    for program in programs:
        assert program.stdin is not None
        program.stdin.write("\n")
        program.stdin.flush()
    given = [line for program in programs for line in program.communicate(timeout=60)[0].split()]
    assert sorted(map(int, given)) == list(range(1, 61))
    assert len(await registry.versions("bot")) == 60


@pytest.mark.slow
async def test_killed_while_publishing(registry: LocalRegistry, tmp_path: Path) -> None:
    """What was published is there, complete, after a kill at any moment; and the next one goes on."""
    for turn in range(8):
        mine = tmp_path / f"mine{turn}"
        mine.mkdir()
        (mine / "main.py").write_text(BOT + f"# {turn}\n")
        for number in range(40):
            (mine / f"data{number}.bin").write_bytes(os.urandom(2000))
        program = publisher(registry, mine, 10_000)
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write("\n")
        program.stdin.flush()
        told = [int(program.stdout.readline()) for _ in range(turn % 3)]
        program.send_signal(signal.SIGKILL)
        told += list(map(int, program.communicate(timeout=30)[0].split()))
        versions = await registry.versions("bot") if told or await registry.names() else ()
        assert set(told) <= {one.version for one in versions}
        for version in versions:
            registry.folder.read(version)
    assert (await registry.publish("bot", tmp_path / "mine0")).version > 0


def test_it_is_a_registry() -> None:
    """The types of the protocol fit; pyright reads this."""
    registry: PlayerRegistry = LocalRegistry()
    assert registry is not None
    assert str(VersionRef.parse("bot:3")) == "bot:v3"
