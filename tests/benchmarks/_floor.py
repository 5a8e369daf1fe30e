"""The floor: an episode without a runner, as a person would script it. Started by the benchmarks, with a spec as JSON.

It starts the game with `docker run` or as a process, checks its health every 20 ms, then starts all players at once
and waits for all to end: no checks, no isolation, no limits, no evidence. Any program that starts the players only
after the game is healthy has at least this cost.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def docker(unit: dict[str, Any], env: dict[str, str], *options: str) -> subprocess.Popen[bytes]:
    variables = [word for name in env for word in ("-e", f"{name}={env[name]}")]
    program, *arguments = unit["run"]
    command = ["docker", "run", "--rm", *options, *variables, "--entrypoint", program, unit["image"], *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def process(unit: dict[str, Any], env: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable if word in ("python", "python3") else word for word in unit["run"]]
    return subprocess.Popen(
        command, cwd=unit["context"], env={**os.environ, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def main(spec: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        tokens = [f"token-{slot}" for slot in range(len(spec["players"]))]
        Path(directory, "config.json").write_text(json.dumps({**spec["config"], "tokens": tokens}))
        Path(directory).chmod(0o777)
        port = free_port()
        # Several floors may run at once on one network.
        alias = f"game-{os.getpid()}"
        where, there = (
            ("/coworld", f"{alias}:8080") if spec["backend"] == "docker" else (directory, f"127.0.0.1:{port}")
        )
        env = {
            "COGAME_HOST": "0.0.0.0" if spec["backend"] == "docker" else "127.0.0.1",
            "COGAME_PORT": "8080" if spec["backend"] == "docker" else str(port),
            "COGAME_CONFIG_URI": f"file://{where}/config.json",
            "COGAME_RESULTS_URI": f"file://{where}/results.json",
            "COGAME_SAVE_REPLAY_URI": f"file://{where}/replay",
        }
        if spec["backend"] == "docker":
            options = ("--network", spec["network"], "--network-alias", alias, "-p", f"127.0.0.1:{port}:8080")
            game = docker(spec["game"], env, *options, "-v", f"{directory}:/coworld")
        else:
            game = process(spec["game"], env)
        while not healthy(port):
            if game.poll() is not None:
                raise SystemExit(f"the game ended with status {game.returncode}")
            time.sleep(0.02)
        players: list[subprocess.Popen[bytes]] = []
        for slot, player in enumerate(spec["players"]):
            env = {"COWORLD_PLAYER_WS_URL": f"ws://{there}/player?slot={slot}&token={tokens[slot]}"}
            if spec["backend"] == "docker":
                players.append(docker(player, env, "--network", spec["network"]))
            else:
                players.append(process(player, env))
        ended = [unit.wait() for unit in (game, *players)]
        scores = json.loads(Path(directory, "results.json").read_bytes())["scores"]
        print(json.dumps({"ended": ended, "scores": scores}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
