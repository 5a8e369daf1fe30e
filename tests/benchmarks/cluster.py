"""Measurements that a cluster plays from a store, through all that may happen to one; and what they cost this machine.

::

    python tests/benchmarks/cluster.py [--blocks 2000] [--images 200] [--kills 5] [--away 60] [--parallel 2]

Plays blocks of nim, and episodes of Paint Arena whose game and players are images. Meanwhile the command that drives
them is killed again and again and started anew; the kubelet is killed and started; a pod is evicted; the store is away;
and a full quota admits no pod. In the end every episode has counted once, and this machine makes the same report of the
same rows, byte for byte; otherwise this fails. `--blocks 0` and `--images 0` leave one of them out. The figures are
those of the driving command, all its lives together.

It needs `KUBECONFIG`, a Docker engine, and the command that starts what has ended of the cluster in `CLUSTER_UP`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).parents[1]))

import boto3
import psutil
from support.cluster_workers import node_address, prepared
from support.kube import cluster_process, namespace_for_tests, on_cluster
from support.paintarena_image import paintarena_image
from support.waiting import wait_until
from support.worker_image import ensure_worker_image

from coworld_core.episode.record import read_rows
from coworld_runner.backends.kubernetes._cluster import Cluster

ROOT = Path(__file__).parents[2]
BOT = "import time\ndef act(observation, legal, rng):\n    time.sleep(0.1)\n    return rng.choice(legal)\n"
"""Slow enough for something to happen while it plays."""
LOOK = 0.5
"""Seconds between two looks at the driver's connections and memory."""


@dataclass
class Cost:
    """What the lives of a command cost."""

    seconds: float = 0.0
    processor: float = 0.0
    connections: int = 0
    mebibytes: list[float] = field(default_factory=list[float])
    """At each look."""

    def figures(self, episodes: int) -> dict[str, Any]:
        """The figures, with those of a single episode."""
        tenth = max(1, len(self.mebibytes) // 10)
        return {
            "episodes": episodes,
            "seconds": round(self.seconds, 1),
            "processor_seconds_an_episode": round(self.processor / episodes, 4),
            "most_connections": self.connections,
            "mebibytes_first_and_last_tenth": [max(self.mebibytes[:tenth]), max(self.mebibytes[-tenth:])],
        }


class Driver:
    """The command that drives a run, and its next lives after it was killed."""

    def __init__(self, words: list[str], env: dict[str, str], cwd: Path, *, resume: Sequence[str] = ()) -> None:
        self._words = [sys.executable, "-m", "coworld_cli", *words]
        self._resume = list(resume)
        self._env, self._cwd = env, cwd
        self.cost = Cost()
        self.rows = cwd / "out" / "episodes.jsonl"
        self._begun = time.monotonic()
        self._ended = False
        self._start()

    def _start(self) -> None:
        log = (self._cwd / "driver.log").open("a")
        self._process = psutil.Popen(self._words, cwd=self._cwd, env=self._env, stdout=log, stderr=log)
        log.close()

    @property
    def done(self) -> int:
        """How many rows there are."""
        return self.rows.read_bytes().count(b"\n") if self.rows.exists() else 0

    def look(self) -> int | None:
        """Note what it has at the moment; returns its status once it has ended."""
        with contextlib.suppress(psutil.Error):
            with self._process.oneshot():
                times = self._process.cpu_times()
                self._now = times.user + times.system
                self.cost.mebibytes.append(round(self._process.memory_info().rss / 2**20, 1))
            states = Counter(one.status for one in self._process.net_connections("tcp"))
            self.cost.connections = max(self.cost.connections, states["ESTABLISHED"])
        return self._process.poll()

    def until(self, condition: Callable[[], object]) -> bool:
        """Look at it until the condition holds, or until it has ended; returns whether it is still there."""
        while not condition():
            if self._ended:
                return False
            if (status := self.look()) is not None:
                self._ended = True
                self.cost.processor += self._now
                if status:
                    raise SystemExit(
                        f"The driver ended with {status}:\n{(self._cwd / 'driver.log').read_text()[-3000:]}"
                    )
                self.cost.seconds = time.monotonic() - self._begun
                return False
            time.sleep(LOOK)
        return True

    def again(self) -> None:
        """Kill it, and start it once more."""
        self.look()
        self.cost.processor += self._now
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._words += self._resume
        self._resume.clear()
        self._start()


def storm(driver: Driver, namespace: str, store: psutil.Popen, *, episodes: int, kills: int, away: float) -> list[str]:
    """Let everything happen while episodes are played, each at its share of them; returns what has happened."""

    def restart_kubelet() -> None:
        cluster_process("kubelet").kill()
        subprocess.run(shlex.split(os.environ["CLUSTER_UP"]), check=True, capture_output=True, timeout=300)

    def evict() -> None:
        async def now(cluster: Cluster) -> None:
            for pod in (await cluster.list("pods", "coworld.run"))["items"][:1]:
                name = pod["metadata"]["name"]
                body = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": name}}
                await cluster.call("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body=body)

        on_cluster(now, namespace=namespace)

    def store_away() -> None:
        store.suspend()
        until = time.monotonic() + away
        driver.until(lambda: time.monotonic() > until)
        store.resume()

    def fill_quota() -> None:
        path = f"/api/v1/namespaces/{namespace}/resourcequotas"
        body = {"metadata": {"name": "full"}, "spec": {"hard": {"pods": "0"}}}
        on_cluster(lambda cluster: cluster.call("POST", path, body=body), namespace=namespace)
        evict()
        until = time.monotonic() + away / 2
        driver.until(lambda: time.monotonic() > until)
        on_cluster(lambda cluster: cluster.call("DELETE", f"{path}/full"), namespace=namespace)

    happenings: list[Callable[[], None]] = [restart_kubelet, evict, store_away, fill_quota]
    for number in range(kills):
        happenings.insert(1 + 2 * number, driver.again)
    happened: list[str] = []
    for number, happening in enumerate(happenings, start=1):
        # Something has been played since the last one, so that what drives has reached the store
        share = max(driver.done + 1, episodes * number // (len(happenings) + 1))
        if not driver.until(lambda share=share: driver.done >= share):
            raise SystemExit(f"Everything was played before {happening.__name__} could happen: play more.")
        happening()
        happened.append(f"{happening.__name__} at {driver.done}")
        print(f"  {happened[-1]} of {episodes}", flush=True)
    driver.until(lambda: False)
    return happened


@contextlib.contextmanager
def open_store(directory: Path) -> Generator[tuple[psutil.Popen, dict[str, str]]]:
    """A server that speaks S3, in a process that can be stopped; with the variables that reach it."""
    log = (directory / "store.log").open("w")
    host, port = node_address(), "5599"
    server = psutil.Popen([sys.executable, "-m", "moto.server", "-H", host, "-p", port], stdout=log, stderr=log)
    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
    # Its types are those of services that it looks up
    connect = cast("Any", boto3.client)
    client = connect("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1", **keys)
    try:
        wait_until(lambda: "Running on" in (directory / "store.log").read_text(), what="the store")
        client.create_bucket(Bucket="arena")
        address = {"AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": f"http://{host}:{port}"}
        yield server, {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", **address}
    finally:
        server.resume()
        server.terminate()
        server.wait()
        log.close()


def main() -> None:
    """Play through everything, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--blocks", type=int, default=2000)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--away", type=float, default=60.0)
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="coworld-cluster-"))
    found: dict[str, Any] = {"machine": {"processors": os.cpu_count()}}
    with namespace_for_tests() as namespace, open_store(place) as (server, variables):
        prepared(namespace)
        env = {**os.environ, **variables}
        little = "{spec: {containers: [{name: program, resources: {requests: {cpu: 10m, memory: 32Mi}}}]}}"
        (place / "small.yaml").write_text("".join(f"{one}: {little}\n" for one in ("worker", "game", "player")))
        where = ["--namespace", namespace, "--worker-image", ensure_worker_image(), "--pods", str(place / "small.yaml")]
        where += ["--parallel", str(chosen.parallel), "-o", "out"]
        for name in ("one", "two"):
            (place / f"{name}.py").write_text(BOT)
        text = (ROOT / "examples/paintarena/coworld_manifest_template.json").read_text()
        manifest = json.loads(text.replace("{{PAINTARENA_IMAGE}}", paintarena_image()))
        manifest["game"]["version"] = "1.0.0"
        (place / "coworld_manifest.json").write_text(json.dumps(manifest))
        blocks, bots = str(chosen.blocks), [str(place / "one.py"), str(place / "two.py")]
        nim = [
            "compare",
            "-m",
            str(ROOT / "examples/nim"),
            *bots,
            "--max-blocks",
            blocks,
            "--seed",
            "5",
            "--margin",
            "0.001",
        ]
        images = ["run", str(place), "--variant", "quick", "-n", str(chosen.images)]
        # A comparison goes on by itself
        for name, words, episodes, resume in (
            ("nim", nim, 2 * chosen.blocks, ()),
            ("images", images, chosen.images, ("--resume",)),
        ):
            if not episodes:
                continue
            print(f"{name}: {episodes} episodes", flush=True)
            (place / name).mkdir()
            driver = Driver([*words, *where, "--store", f"s3://arena/{name}"], env, place / name, resume=resume)
            happened = storm(driver, namespace, server, episodes=episodes, kills=chosen.kills, away=chosen.away)
            keys = Counter(row.key for row in read_rows(place / name / "out"))
            assert set(keys.values()) == {1}, [key for key, times in keys.items() if times > 1]
            found[name] = {**driver.cost.figures(len(keys)), "happened": happened}
        if chosen.blocks:
            # The same rows, and nothing is played: what this machine makes of them
            for words in (["pull", "s3://arena/nim", "here"], [*nim, "-o", "here"]):
                words = [sys.executable, "-m", "coworld_cli", *words]
                subprocess.run(words, check=True, cwd=place / "nim", env=env, capture_output=True)
            reports = [(place / "nim" / name / "report.json").read_bytes() for name in ("out", "here")]
            assert reports[0] == reports[1]
            assert len(list(read_rows(place / "nim" / "here"))) == 2 * chosen.blocks
            found["verdict"] = json.loads(reports[0])["verdict"]
        left = on_cluster(_left, namespace=namespace)
        assert not left, left
    print("\n" + json.dumps(found, indent=None if chosen.json else 2))


async def _left(cluster: Cluster) -> list[str]:
    found = [await cluster.list(kind, "coworld.run") for kind in ("jobs", "secrets")]
    return [item["metadata"]["name"] for one in found for item in one["items"]]


if __name__ == "__main__":
    main()
