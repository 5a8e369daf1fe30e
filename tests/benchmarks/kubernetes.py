"""The cost of an episode on a cluster compared with the floor: the same bare pods, created and watched until they end.

::

    python tests/benchmarks/kubernetes.py [--rounds N] [--parallel N] [--namespace NAME]

Episode and floor take turns in one run, so that both have the same conditions. The floor consists of the same three
programs with the same config: the game's pod with a readiness probe, and the players' pods once it is ready; then it
waits for all of them to end. It does not inspect, isolate, limit, check, collect or record anything.

Each pod of an episode has a second container, the collector, from which complete files are fetched. A second floor,
whose pods have an idle second container, shows how long a node takes to create those.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.images import BASE_IMAGE
from support.kube import backend_for, namespace_for_tests
from support.misfit_kit import ensure_image, misfit_plan

from coworld_core.episode.outcome import Exit
from coworld_core.ids import new_run_id
from coworld_runner.backends.kubernetes._api import Cluster
from coworld_runner.backends.kubernetes._state import exit_of
from coworld_runner.backends.kubernetes._watch import follow
from coworld_runner.batch import run_batch
from coworld_runner.episode.running import EpisodeOptions, run_episode

PLAY_SECONDS = 1.0
IDLE = {
    "name": "idle",
    "image": BASE_IMAGE,
    "imagePullPolicy": "IfNotPresent",
    "command": ["python3", "-c", "import signal; signal.pause()"],
}
"""An idle second container."""


def bare(name: str, image: str, run: str, command: list[str], **more: Any) -> dict[str, Any]:
    """A pod with one program."""
    container = {"name": "main", "image": image, "imagePullPolicy": "IfNotPresent", "command": command, **more}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"floor": run}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "enableServiceLinks": False,
            "containers": [container],
            "volumes": [
                {"name": "config", "secret": {"secretName": run}},
                {"name": "written", "emptyDir": {}},
            ],
        },
    }


def env(**values: str) -> list[dict[str, str]]:
    """Environment variables of a container."""
    return [{"name": name, "value": value} for name, value in values.items()]


def bare_game(run: str, image: str) -> dict[str, Any]:
    """The game's pod."""
    return bare(
        f"{run}-game",
        image,
        run,
        ["python3", "game.py"],
        env=env(
            COGAME_HOST="0.0.0.0",
            COGAME_PORT="8080",
            COGAME_CONFIG_URI="file:///config/config.json",
            COGAME_RESULTS_URI="file:///written/results.json",
            COGAME_SAVE_REPLAY_URI="file:///written/replay",
        ),
        readinessProbe={"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 1},
        volumeMounts=[{"name": "config", "mountPath": "/config"}, {"name": "written", "mountPath": "/written"}],
    )


def bare_player(run: str, image: str, slot: int, host: str) -> dict[str, Any]:
    """A player's pod."""
    url = f"ws://{host}:8080/player?slot={slot}&token=t{slot}"
    return bare(
        f"{run}-player-{slot}", image, run, ["python3", "player.py", "well"], env=env(COWORLD_PLAYER_WS_URL=url)
    )


def is_ready(pod: Any) -> bool:
    """Whether a pod's readiness probe has succeeded."""
    conditions = pod["status"].get("conditions") or ()
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)


async def floor(cluster: Cluster, image: str, config: Mapping[str, Any], *beside: dict[str, Any]) -> float:
    """Seconds until all bare pods have ended; each also has the containers ``beside``."""
    run = new_run_id()
    begun = time.monotonic()
    ready: list[str] = []
    ended: dict[str, Exit] = {}
    changed = anyio.Event()

    def seen(pod: Any) -> None:
        nonlocal changed
        if is_ready(pod) and pod["metadata"]["name"].endswith("-game"):
            ready.append(pod["status"]["podIP"])
        ending = exit_of(pod)
        if ending is not None:
            ended[pod["metadata"]["name"]] = ending
        changed.set()
        changed = anyio.Event()

    async def create(pod: dict[str, Any]) -> None:
        pod["spec"]["containers"][:0] = beside
        await cluster.create("pods", pod)

    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            await follow(cluster, "pods", f"floor={run}", on_object=seen, on_gone=lambda *_: None)

        tasks.start_soon(watch)
        content = json.dumps({**config, "tokens": ["t0", "t1"]})
        await cluster.create("secrets", {"metadata": {"name": run}, "stringData": {"config.json": content}})
        await create(bare_game(run, image))
        while not ready:
            await changed.wait()
        for slot in range(2):
            tasks.start_soon(create, bare_player(run, image, slot, ready[0]))
        while len(ended) < 3:
            await changed.wait()
        seconds = time.monotonic() - begun
        tasks.cancel_scope.cancel()
    assert all(exit.ok for exit in ended.values()), ended
    for name in ended:
        await cluster.delete("pods", name, grace=0)
    await cluster.delete("secrets", run)
    return seconds


async def main(rounds: int, parallel: int, namespace: str) -> None:
    """Measure, and print one line per figure."""
    image = ensure_image()
    plan = misfit_plan("well", "well", "well", image=image, play_seconds=PLAY_SECONDS)
    cluster = await Cluster.connect(namespace=namespace)
    floors: list[float] = []
    doubles: list[float] = []
    episodes: list[float] = []
    calls: list[int] = []
    with tempfile.TemporaryDirectory() as directory:
        async with backend_for(namespace) as backend:
            for number in range(rounds):
                floors.append(await floor(cluster, image, plan.game_config))
                doubles.append(await floor(cluster, image, plan.game_config, IDLE))
                before = backend._entered().calls
                begun = time.monotonic()
                record = await run_episode(
                    plan,
                    backend=backend,
                    workspace=Path(directory) / str(number),
                    options=EpisodeOptions(timeout_seconds=300),
                )
                episodes.append(time.monotonic() - begun)
                calls.append(backend._entered().calls - before)
                assert record.ok, record.faults
            for what, seconds in (("floor", floors), ("with a second container", doubles), ("episode", episodes)):
                print(f"{what:24}{statistics.median(seconds):6.2f} s  {[round(value, 2) for value in seconds]}")
            for what, seconds in (("episode : floor", floors), ("episode : the same containers", doubles)):
                print(f"{what:30}{statistics.median(episodes) / statistics.median(seconds):6.2f}")
            print(f"requests to the API server an episode {statistics.median(calls):4.0f}")
            if parallel:
                begun = time.monotonic()
                summary = await run_batch(
                    plan,
                    episodes=parallel,
                    parallel=parallel,
                    backend=backend,
                    workspace=Path(directory) / "batch",
                    options=EpisodeOptions(timeout_seconds=900),
                )
                print(f"{parallel} at once   {time.monotonic() - begun:6.2f} s, {summary.faulted} with a fault")
    await cluster.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--parallel", type=int, default=0, help="also play that many at once")
    parser.add_argument("--namespace", help="one that exists; by default one is made, and removed")
    given = parser.parse_args()
    if given.namespace:
        anyio.run(main, given.rounds, given.parallel, given.namespace)
    else:
        with namespace_for_tests() as made:
            anyio.run(main, given.rounds, given.parallel, made)
