"""The image under runners that keep the game's files to root, and under those that open them to everybody."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from support.images import docker_client
from support.paintarena_image import paintarena_image

from coworld_runner.backends.engine import GAME_CAPABILITIES

pytestmark = pytest.mark.docker

TOKENS = ("first-seats-token", "second-seats-token")
GAME = {
    "COGAME_CONFIG_URI": "file:///coworld/config.json",
    "COGAME_RESULTS_URI": "file:///coworld/results.json",
    "COGAME_SAVE_REPLAY_URI": "file:///coworld/replay",
    "COGAME_HOST": "0.0.0.0",
    "COGAME_PORT": "8080",
}
# what shows that it is up: its own answer to the runner's question
WAITS = """
import time, urllib.request
for _ in range(600):
    try:
        urllib.request.urlopen("http://127.0.0.1:8080/healthz", timeout=1)
        break
    except OSError:
        time.sleep(0.05)
"""


@pytest.fixture
def run() -> Generator[Any]:
    """Starts containers of the image, and removes them in the end."""
    client = docker_client()
    image = paintarena_image()
    with contextlib.ExitStack() as stack:

        def start(command: list[str], **more: Any) -> Any:
            container = client.containers.run(image, command, detach=True, **more)
            stack.callback(container.remove, force=True)
            return container

        yield start
    client.close()


def ended(container: Any) -> str:
    status = container.wait(timeout=60)["StatusCode"]
    log = container.logs().decode()
    assert status == 0, log
    return log


def test_image_plays_for_any_file_owner(run: Any, tmp_path: Path) -> None:
    size = {"width": 6, "height": 5, "max_ticks": 8, "tick_rate": 20}
    config = {**size, "tokens": TOKENS, "players": [{"name": "one"}, {"name": "two"}]}

    # as the published runner does: one directory for all, the config its maker's alone, no limits on privileges
    workspace = tmp_path / "published"
    workspace.mkdir(mode=0o755)
    (workspace / "config.json").write_text(json.dumps(config))
    (workspace / "config.json").chmod(0o600)
    game = run(["python", "-m", "paintarena.server"], environment=GAME, volumes=[f"{workspace}:/coworld:rw"])
    beside = {"network_mode": f"container:{game.id}", "volumes": [f"{workspace}:/coworld-artifact:rw"]}
    ended(run(["python", "-c", WAITS], **beside))
    players = [
        run(
            ["python", "-m", "paintarena.players.frontier"],
            environment={
                "COWORLD_PLAYER_WS_URL": f"ws://127.0.0.1:8080/player?slot={slot}&token={token}",
                "COWORLD_PLAYER_ARTIFACT_UPLOAD_URL": f"file:///coworld-artifact/policy_artifact_{slot}.zip",
            },
            **beside,
        )
        for slot, token in enumerate(TOKENS)
    ]
    for container in (game, *players):
        ended(container)
    assert len(json.loads((workspace / "results.json").read_text())["scores"]) == 2
    assert (workspace / "replay").stat().st_size > 0

    # as ours does: a directory that is open to everybody, and the capabilities of a start script
    workspace = tmp_path / "ours"
    workspace.mkdir()
    workspace.chmod(0o777)
    (workspace / "config.json").write_text(json.dumps(config))
    (workspace / "config.json").chmod(0o644)
    held = {"cap_drop": ["ALL"], "cap_add": list(GAME_CAPABILITIES), "security_opt": ["no-new-privileges:true"]}
    game = run(["python", "-m", "paintarena.server"], environment=GAME, volumes=[f"{workspace}:/coworld:rw"], **held)
    ended(run(["python", "-c", WAITS], network_mode=f"container:{game.id}"))
    shown = game.top(ps_args="-eo pid,uid,args")
    assert [uid for _, uid, arguments in shown["Processes"] if "paintarena.server" in arguments] == ["65534"]
