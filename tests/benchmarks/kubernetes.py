"""What an episode on a cluster costs beside the floor: the same pods applied bare, and waited for by watch.

::

    python tests/benchmarks/kubernetes.py [--rounds N] [--parallel N] [--namespace NAME]

Episode and floor take turns in one run, so that both have the same machine. The floor is three pods of the subject's
image, the "game" first and two "players" when it runs, each as long at work as in the episode.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.kube import backend_for, namespace_for_tests
from support.misfit_kit import ensure_image, misfit_plan

from coworld_core.ids import new_run_id
from coworld_runner.backends._kube_api import Cluster
from coworld_runner.backends._kube_state import exit_of, is_running
from coworld_runner.backends._kube_watch import follow
from coworld_runner.batch import run_batch
from coworld_runner.episode import EpisodeOptions, run_episode

PLAY_SECONDS = 1.0


def bare(name: str, image: str, run: str, seconds: float) -> dict[str, Any]:
    """A pod that does nothing for a while."""
    program = ["python3", "-c", f"import time; time.sleep({seconds})"]
    container = {"name": "main", "image": image, "imagePullPolicy": "IfNotPresent", "command": program}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"floor": run}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "enableServiceLinks": False,
            "containers": [container],
        },
    }


async def floor(cluster: Cluster, image: str) -> float:
    """Seconds for the bare pods: game runs, players run, all have ended."""
    run = new_run_id()
    begun = time.monotonic()
    running: set[str] = set()
    ended: set[str] = set()
    changed = anyio.Event()

    def seen(pod: Any) -> None:
        nonlocal changed
        name = pod["metadata"]["name"]
        if is_running(pod):
            running.add(name)
        if exit_of(pod) is not None:
            running.add(name)
            ended.add(name)
        changed.set()
        changed = anyio.Event()

    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            await follow(cluster, "pods", f"floor={run}", on_object=seen, on_gone=lambda *_: None)

        tasks.start_soon(watch)
        await cluster.create("pods", bare(f"{run}-game", image, run, PLAY_SECONDS + 2.0))
        while not running:
            await changed.wait()
        for index in range(2):
            tasks.start_soon(cluster.create, "pods", bare(f"{run}-player-{index}", image, run, PLAY_SECONDS))
        while len(ended) < 3:
            await changed.wait()
        seconds = time.monotonic() - begun
        tasks.cancel_scope.cancel()
    for name in (f"{run}-game", f"{run}-player-0", f"{run}-player-1"):
        await cluster.delete("pods", name, grace=0)
    return seconds


async def main(rounds: int, parallel: int, namespace: str) -> None:
    """Measure, and print a line for each thing."""
    image = ensure_image()
    plan = misfit_plan("well", "well", "well", image=image, play_seconds=PLAY_SECONDS)
    cluster = await Cluster.connect(namespace=namespace)
    floors: list[float] = []
    episodes: list[float] = []
    calls: list[int] = []
    with tempfile.TemporaryDirectory() as directory:
        async with backend_for(namespace) as backend:
            for number in range(rounds):
                floors.append(await floor(cluster, image))
                before = backend._entered().calls
                begun = time.monotonic()
                record = await run_episode(
                    plan, backend=backend, workspace=Path(directory) / str(number), options=EpisodeOptions(timeout=300)
                )
                episodes.append(time.monotonic() - begun)
                calls.append(backend._entered().calls - before)
                assert record.ok, record.faults
            print(f"floor        {statistics.median(floors):6.2f} s  {[round(value, 2) for value in floors]}")
            print(f"episode      {statistics.median(episodes):6.2f} s  {[round(value, 2) for value in episodes]}")
            print(f"ratio        {statistics.median(episodes) / statistics.median(floors):6.2f}")
            print(f"API requests {statistics.median(calls):6.0f} an episode")
            if parallel:
                begun = time.monotonic()
                summary = await run_batch(
                    plan,
                    episodes=parallel,
                    parallel=parallel,
                    backend=backend,
                    workspace=Path(directory) / "batch",
                    options=EpisodeOptions(timeout=900),
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
