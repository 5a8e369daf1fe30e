"""Versions of the user's registry as players: fixed, newest for each episode, frozen while something is measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from coworld_core import read_record
from coworld_core.episode.record import EpisodeRow, read_rows
from coworld_core.errors import EnvironmentFault, ImageError, UsageError
from coworld_runner import (
    Listener,
    LocalRegistry,
    Package,
    plan_episode,
    resolve_package,
    run_batch,
    run_episode,
    scrimmage,
)
from coworld_runner.evaluation import EvaluationRules
from coworld_runner.evaluation.gate import accept_player, gate_player
from coworld_runner.package.newest_players import with_newest_players
from coworld_runner.package.own_players.named_player import read_own_player
from coworld_runner.package.player_names import describe_registered, read_players

NIM = Path(__file__).parents[2] / "examples" / "nim"
FIRST = "def act(observation, legal, rng):\n    return legal[0]\n"
LAST = "def act(observation, legal, rng):\n    return legal[-1]\n"


@pytest.fixture(scope="module")
def nim() -> Package:
    return anyio.run(resolve_package, NIM)


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalRegistry:
    """The user's registry."""
    monkeypatch.setenv("COWORLD_REGISTRY", str(tmp_path / "registry"))
    return LocalRegistry()


@pytest.fixture
def publish(registry: LocalRegistry, tmp_path: Path) -> Callable[[str, str], None]:
    def publish(name: str, text: str) -> None:
        (tmp_path / "bot.py").write_text(text)
        registry.folder.publish(name, read_own_player(str(tmp_path / "bot.py")))

    return publish


Publish = Callable[[str, str], None]


async def test_a_version_plays_and_is_in_the_record(nim: Package, publish: Publish, tmp_path: Path) -> None:
    publish("bot", FIRST)
    publish("bot", LAST)
    players = ["bot:v1", "registry:bot"]
    record = await run_episode(nim, players=players, backend="process", workspace=tmp_path / "one")
    assert record.ok
    assert [(seat.name, seat.player_version) for seat in record.slots] == [("bot:v1", "bot:v1"), ("bot:v2", "bot:v2")]
    assert [seat.controller for seat in record.slots] == ["file", "file"]
    assert record.slots[0].image.digest != record.slots[1].image.digest
    # A version is left out where there is none
    assert "player_version" not in (await run_episode(nim, backend="process")).slots[0].model_dump(mode="json")


@pytest.mark.slow
async def test_latest_is_the_newest_of_each_episode(nim: Package, publish: Publish, tmp_path: Path) -> None:
    """What is published during a run plays from the next episode on; each row says which version it was."""
    publish("bot", FIRST)

    def publishing(key: str) -> tuple[Listener, ...]:
        """Publish the next version when the second episode has its players."""
        if key == "episode-0002":
            publish("bot", LAST)
        return ()

    def rows(name: str) -> list[EpisodeRow]:
        return list(read_rows(tmp_path / name))

    summary = await run_batch(
        nim,
        episodes=4,
        players=["bot:latest", "random"],
        backend="process",
        parallel=1,
        workspace=tmp_path / "many",
        episode_listeners=publishing,
    )
    assert summary.ok
    assert [row.slots[0].player_version for row in rows("many")] == ["bot:v1", "bot:v1", "bot:v2", "bot:v2"]
    assert {(row.slots[0].name, row.slots[0].follows) for row in rows("many")} == {("bot:latest", "bot:latest")}
    assert summary.players[0].name == summary.players[0].image == "bot:latest"
    assert summary.players[0].episodes == 4
    assert read_record(tmp_path / "many" / "episode-0003").slots[0].player_version == "bot:v2"
    # It goes on with what is the newest by then
    publish("bot", FIRST + "# third\n")
    await run_batch(
        nim,
        episodes=5,
        players=["bot:latest", "random"],
        backend="process",
        workspace=tmp_path / "many",
        resume=True,
    )
    assert [row.slots[0].player_version for row in rows("many")][3:] == ["bot:v2", "bot:v3"]


@pytest.mark.slow
async def test_what_is_measured_does_not_change(nim: Package, publish: Publish, tmp_path: Path) -> None:
    publish("bot", FIRST)
    rules = EvaluationRules(max_blocks=1)
    report = await scrimmage(nim, "bot:latest", episodes=1, rules=rules, backend="process", workspace=tmp_path / "own")
    publish("bot", LAST)
    again = await scrimmage(nim, "bot:latest", episodes=1, rules=rules, backend="process", workspace=tmp_path / "next")
    for found, version in ((report, "bot:v1"), (again, "bot:v2")):
        assert found.plan.players()["player"].player_version == version


def test_whoever_is_gone(nim: Package, registry: LocalRegistry, publish: Publish) -> None:
    """A followed name that was removed, became an image, or whose files were changed, fails that episode alone."""
    publish("bot", FIRST)
    plan = plan_episode(nim, players=["bot:latest"])
    assert with_newest_players(plan) == plan
    registry.folder.publish("bot", f"example/bot@sha256:{'5' * 64}")
    with pytest.raises(UsageError) as refused:
        with_newest_players(plan)
    assert refused.value.code == "version_kind_changed"
    assert "bot:v2 now (image)" in refused.value.message
    publish("bot", LAST)
    assert with_newest_players(plan).seats[0].player_version == "bot:v3"
    registry.folder.path(registry.folder.get("bot")).write_text("changed")
    with pytest.raises(EnvironmentFault) as damaged:
        with_newest_players(plan)
    assert damaged.value.code == "version_damaged"
    registry.folder.remove("bot")
    with pytest.raises(UsageError) as refused:
        with_newest_players(plan)
    assert refused.value.code == "unknown_player"


def test_what_a_word_means(
    nim: Package, registry: LocalRegistry, publish: Publish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package's own players first, then files, then the registry, then images; a prefix leaves no doubt."""
    monkeypatch.chdir(tmp_path)
    [bundled] = [entry.id for entry in nim.manifest.player][:1]
    publish("bot", FIRST)
    publish(bundled, LAST)

    def kind(word: str) -> tuple[str, str]:
        [player] = read_players([word], nim)
        return player.kind, player.registered.version.label if player.registered else ""

    assert kind(bundled) == ("bundled", "")
    assert kind(f"registry:{bundled}") == ("own", f"{bundled}:v1")
    assert kind("bot:v1") == ("own", "bot:v1")
    assert kind("docker.io/library/bot:v1") == ("image", "")
    assert kind("other:v1") == ("image", "")
    assert [str(player.registered) for player in read_players(["bot:v1@3"], nim)] != []
    assert len(read_players(["bot:v1@3"], nim)) == 3
    with pytest.raises(UsageError) as refused:
        read_players(["bot:v7"], nim)
    assert refused.value.code == "unknown_version"
    assert "docker.io/library/bot:v7" in str(refused.value.hint)
    with pytest.raises(UsageError, match="Did you mean 'bot'"):
        read_players(["registry:bt"], nim)
    with pytest.raises(UsageError, match="'bot' of your registry"):
        read_players(["bott"], nim)
    (tmp_path / "bot").mkdir()
    (tmp_path / "bot" / "main.py").write_text(LAST)
    assert kind("bot") == ("own", "")

    words = describe_registered(player.registered for player in read_players(["bot:v1", "registry:bot", bundled], nim))
    assert words == (
        f"bot:v1 is from the registry {registry.directory}, not an image: version 1 of 'bot'.",
        f"bot:v1 is from the registry {registry.directory}.",
    )
    [follows] = read_players(["bot:latest"], nim)
    assert describe_registered([follows.registered])[0].endswith(": bot:v1 now, and in each episode the newest.")
    assert "bot:v1 in every episode" in describe_registered([follows.registered], frozen=True)[0]


def test_images_of_the_registry(nim: Package, registry: LocalRegistry) -> None:
    """They play with the command they were published with, unless another is given."""
    image = f"example/bot@sha256:{'5' * 64}"
    registry.folder.publish("bot", image, run=["python", "-m", "bot"])
    seat = plan_episode(nim, players=["bot:v1"]).seats[0]
    assert seat.runnable is not None
    assert (seat.runnable.image, tuple(seat.runnable.run)) == (image, ("python", "-m", "bot"))
    assert (seat.name, seat.controller, seat.player_version) == ("bot:v1", "image", "bot:v1")
    other = plan_episode(nim, players=["bot:v1"], run=["bot"]).seats[0]
    assert other.runnable is not None
    assert tuple(other.runnable.run) == ("bot",)


@pytest.mark.parametrize(("typed", "meant"), [("bto:v1", "'bot:v1'"), ("bto:v7", "'bot:v1'"), ("other:v1", None)])
async def test_a_mistyped_name_is_no_image_but_one_of_the_registry(
    nim: Package, publish: Publish, tmp_path: Path, typed: str, meant: str | None
) -> None:
    publish("bot", FIRST)
    with pytest.raises(ImageError) as refused:
        await run_episode(nim, players=[typed, "random"], backend="process", workspace=tmp_path / "run")
    assert (f"Did you mean {meant} of your registry?" == refused.value.hint) == (meant is not None)
    assert refused.value.hint


async def test_a_version_is_no_bot_of_a_folder(
    nim: Package, publish: Publish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish("bot", FIRST)
    monkeypatch.chdir(tmp_path)
    for word in ("registry:bot:v1", "bot:v1", "bot"):
        with pytest.raises(UsageError) as refused:
            await gate_player(nim, word)
        assert refused.value.code == "not_in_folder", word
        with pytest.raises(UsageError) as refused:
            accept_player(nim, word)
        assert refused.value.code == "not_in_folder", word
    assert not await anyio.Path(tmp_path / ".history").exists()
