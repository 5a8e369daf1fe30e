"""Whole packages, laid out as games are: each is read, is right for the strict reader, and is played on processes.

The rows of `test_process_layout` say what a Dockerfile comes to; here its game and players run.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.manifests import lost

from coworld_core import dump_manifest, load_manifest
from coworld_runner import certify, run_episode

SUPPORT = Path(__file__).parents[1] / "support"
QUICK = SUPPORT / "quick"
TEMPLATE = "coworld_manifest_template.json"
SEED = 4
SCORES = (4.0, 5.0)
"""Of the quick game with that seed."""


def lay(
    root: Path,
    files: Mapping[str, str],
    *,
    game: list[str],
    player: list[str],
    images: tuple[str, str] = ("{{QUICK_IMAGE}}", "{{QUICK_IMAGE}}"),
    **more: Any,
) -> Path:
    """Write a package whose game is the quick one.

    Args:
        root: Where.
        files: What each file holds, beside the manifest; `game.py` and `player.py` stand for those of the game.
        game: The game's command.
        player: The players' command.
        images: The images of game and players.
        more: Fields of the manifest's `game`.
    """
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((QUICK / text).read_text() if text in ("game.py", "player.py") else text)
    document: dict[str, Any] = json.loads((QUICK / TEMPLATE).read_text())
    # What builds writes the version
    del document["game"]["version"]
    document["game"]["runnable"] |= {"image": images[0], "run": game}
    document["game"] |= more
    for entry in document["player"]:
        entry |= {"image": images[1], "run": player}
    (root / TEMPLATE).write_text(json.dumps(document, indent=2))
    return root


def with_inline_dockerfile(root: Path) -> Path:
    """Compose names one Dockerfile and holds the other; the game is a package below src/."""
    compose = """services:
  arena:
    build: {context: ., dockerfile: docker/arena.Dockerfile, target: run}
  bots:
    build:
      context: bots
      dockerfile_inline: |
        FROM python:3.12-slim
        WORKDIR /bots
        COPY player.py ./
        CMD ["python", "player.py"]
"""
    dockerfile = """FROM python:3.12-slim AS run
ENV PYTHONPATH=/app/src
WORKDIR /app
COPY src ./src
CMD ["python", "-m", "arena.server"]
FROM run AS checked
RUN python -m unittest
"""
    return lay(
        root,
        {
            "compose.yaml": compose,
            "docker/arena.Dockerfile": dockerfile,
            "src/arena/__init__.py": '"""The game."""\n',
            "src/arena/server.py": "game.py",
            "bots/player.py": "player.py",
        },
        images=("{{ARENA_IMAGE}}", "{{BOTS_IMAGE}}"),
        game=["python", "-m", "arena.server"],
        player=["python", "player.py"],
    )


def without_compose(root: Path) -> Path:
    """One Dockerfile, modules at the root of the repository, and a command that names a place in the image."""
    return lay(
        root,
        {
            "Dockerfile": "FROM python:3.12-slim\nWORKDIR /app\nCOPY . .\n",
            "server.py": "game.py",
            "bots/player.py": "player.py",
        },
        game=["python", "server.py"],
        player=["python", "/app/bots/player.py"],
    )


def with_a_dockerfile_for_each(root: Path) -> Path:
    """No compose file: a directory for the game and one for the player, the latter built from the directory above."""
    return lay(
        root,
        {
            "game/Dockerfile": "FROM python:3.12-slim\nWORKDIR /app\nCOPY server.py .\n",
            "player/Dockerfile": "FROM python:3.12-slim\nWORKDIR /bots\nCOPY player/bot.py .\n",
            "game/server.py": "game.py",
            "player/bot.py": "player.py",
        },
        images=("{{GAME_IMAGE}}", "{{PLAYER_IMAGE}}"),
        game=["python", "/app/server.py"],
        player=["python", "/bots/bot.py"],
    )


def with_a_native_player(root: Path) -> Path:
    """A program of machine code, which a build step leaves and the image copies; here it is Node's."""
    dockerfile = """FROM rust:1 AS build
WORKDIR /src
COPY . .
RUN cargo build --release
FROM python:3.12-slim
WORKDIR /game
COPY game.py .
COPY model /usr/local/share/native-bot/
COPY --from=build /src/target/release/native-bot /usr/local/bin/native-bot
"""
    program = shutil.which("node")
    assert program is not None, "node is not on PATH"
    (root / "target" / "release").mkdir(parents=True)
    try:
        os.link(program, root / "target" / "release" / "native-bot")
    except OSError:
        # On another file system, or another user's
        shutil.copy(program, root / "target" / "release" / "native-bot")
    model = root / "model"
    shutil.copytree(SUPPORT / "packages" / "node" / "lib", model / "lib")
    shutil.copytree(SUPPORT / "packages" / "node" / "bots", model / "bots")
    return lay(
        root,
        {"Dockerfile": dockerfile, "game.py": "game.py"},
        game=["python", "game.py"],
        player=["/usr/local/bin/native-bot", "/usr/local/share/native-bot/bots/teller.mjs", "1"],
    )


def with_a_static_viewer(root: Path) -> Path:
    """What shows the replay is a page, which a hook makes beside the images."""
    hook = '#!/bin/sh\nset -e\nrm -rf "$1"\nmkdir -p "$1"\ncp viewer/page.html "$1/index.html"\n'
    lay(
        root,
        {
            "Dockerfile": "FROM python:3.12-slim\nWORKDIR /app\nCOPY . .\n",
            "game.py": "game.py",
            "player.py": "player.py",
            "viewer/page.html": "<!doctype html><title>Quick</title>",
            "tools/build_replay_viewer.sh": hook,
        },
        game=["python3", "game.py"],
        player=["python3", "player.py"],
        replay_viewer={"bundle": "dist/viewer", "replay_compression": "gzip"},
    )
    (root / "tools" / "build_replay_viewer.sh").chmod(0o755)
    return root


def of_today(root: Path) -> Path:
    """The fields of the newest generation that are of no use to a runner, all of them, and its apiVersion."""
    without_compose(root)
    document = json.loads((root / TEMPLATE).read_text())
    document |= {"apiVersion": "coworld.softmax.com/v1", "tags": ["a", "b", "c"], "episode_timeout_minutes": 30}
    document["game"] |= {
        "promo": {"video_url": "https://example.org/quick.mp4"},
        "player_runtime": "platform-hosted",
        "task_environments": {},
        "achievements": [{"id": "first", "name": "First", "description": "Comes first.", "points": 5}],
        "log": {"objective": "Be there.", "panels": [{"title": "Moves", "kinds": ["move"]}]},
    }
    document["game"]["runnable"]["resources"] = {"limits": {"cpu": "1", "memory": "1Gi"}}
    (root / TEMPLATE).write_text(json.dumps(document, indent=2))
    return root


LAYOUTS: list[Callable[[Path], Path]] = [
    with_inline_dockerfile,
    without_compose,
    with_a_dockerfile_for_each,
    with_a_static_viewer,
    of_today,
]


@pytest.mark.parametrize(
    "write",
    [
        *(pytest.param(write, id=write.__name__) for write in LAYOUTS),
        pytest.param(with_a_native_player, id="with_a_native_player", marks=pytest.mark.node),
    ],
)
async def test_a_layout_is_right_and_plays(write: Callable[[Path], Path], tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    root = write(tmp_path / "package")
    is_whole(root)
    laid = sources(root)
    record = await run_episode(root, seed=SEED, backend="process", workspace=tmp_path / "out")
    assert (record.faults, record.scores) == ((), SCORES)
    assert sources(root) == laid


def sources(root: Path) -> dict[str, tuple[int, int]]:
    """Size and time of each of a package's files, without what Python leaves beside them."""
    files = (path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(root)): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def is_whole(root: Path) -> None:
    """See that both readers take a package's manifest, and lose nothing of it."""
    text = (root / TEMPLATE).read_bytes()
    for mode in ("strict", "lenient"):
        loaded = load_manifest(text, mode=mode, template=True)
        written = dump_manifest(loaded.manifest, mode=mode, template=True)
        assert lost(json.loads(text), json.loads(written)) == set()
        assert load_manifest(written.encode(), mode=mode, template=True).manifest == loaded.manifest


def test_a_game_that_hosts_its_players_is_right() -> None:
    """It is played and certified in `test_file_players`."""
    is_whole(SUPPORT / "packages" / "hosted")


@pytest.mark.node
async def test_a_game_for_node_certifies(tmp_path: Path) -> None:
    root = SUPPORT / "packages" / "node"
    is_whole(root)
    found = await certify(root, backend="process", workspace=tmp_path / "out")
    assert found.verdict == "Executable", [step for step in found.steps if step.status == "fail"]
    # ENV of its Dockerfile, which is all that there is beside the manifest
    assert (tmp_path / "out/episode/logs/game.stdout.log").read_text() == "higher: ready, in first\n"
