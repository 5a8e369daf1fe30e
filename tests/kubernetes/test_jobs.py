"""Measurements that pods of a real cluster play, from a store that speaks S3."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
from support.cluster_workers import prepared
from support.kube import on_cluster
from support.paintarena_image import paintarena_image
from support.waiting import wait_until
from support.worker_image import ensure_worker_image

from coworld_core.episode.record import read_rows
from coworld_runner.backends.kubernetes._cluster import Cluster
from coworld_runner.evaluation import EvaluationRules, compare
from coworld_runner.runs.scratch import find_scratch, reap_scratch

ROOT = Path(__file__).parents[2]
NIM = ROOT / "examples" / "nim"
PAGE = ROOT / "docs" / "thousands-of-episodes.md"
SUITE = f"""
game = "{NIM}"
seed = 7
episodes = 60

[[entry]]
name = "plain"
variants = ["default"]
lineups = [["{{player}}", "random-taker"], ["{{player}}", "counter"]]
"""
SLOW = """
import time
def act(observation, legal, rng):
    time.sleep(0.02)
    return rng.choice(legal)
"""
READS = """
import os
from pathlib import Path
def act(observation, legal, rng):
    seen = [name for name in os.environ if name.startswith(("AWS", "KUBERNETES"))]
    seen += [place for place in ("/var/run/secrets", "/coworld/chunk/chunk.json") if Path(place).exists()]
    assert not seen, seen
    return legal[0]
"""

pytestmark = [pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.timeout(600)]


@pytest.fixture
def small(tmp_path: Path) -> tuple[str, ...]:
    """Options for one pod that asks little of a small node."""
    pods = tmp_path / "small.yaml"
    little = "{spec: {containers: [{name: program, resources: {requests: {cpu: 10m, memory: 32Mi}}}]}}"
    pods.write_text("".join(f"{section}: {little}\n" for section in ("worker", "game", "player")))
    return ("--worker-image", ensure_worker_image(), "--parallel", "1", "--pods", str(pods))


def command(*words: str, store: Mapping[str, str], cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "coworld_cli", *words],
        cwd=cwd,
        env={**os.environ, **store},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def done(*words: str, store: Mapping[str, str], cwd: Path) -> str:
    process = command(*words, store=store, cwd=cwd)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return output


def page_lines(known: Mapping[str, str]) -> list[list[str]]:
    """The commands of the page, without the program's name, and with these words in place of the page's."""
    fences = re.findall(r"^```kubectl\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [[known.get(word, word) for word in shlex.split(line)[1:]] for line in "".join(fences).splitlines()]


def stored(store: Mapping[str, str], prefix: str) -> list[str]:
    """The names of objects right below a prefix."""
    import boto3

    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
    client = boto3.client("s3", endpoint_url=store["AWS_ENDPOINT_URL"], region_name="us-east-1", **keys)
    found = client.list_objects_v2(Bucket="arena", Prefix=prefix, Delimiter="/").get("Contents", ())
    return [entry["Key"].removeprefix(prefix) for entry in found]


def left(namespace: str) -> list[str]:
    """The Jobs and Secrets of runs in the namespace."""

    async def look(cluster: Cluster) -> list[str]:
        found = [await cluster.list(kind, "coworld.run") for kind in ("jobs", "secrets")]
        return [item["metadata"]["name"] for one in found for item in one["items"]]

    return on_cluster(look, namespace=namespace)


def test_the_page(namespace: str, store: Mapping[str, str], small: tuple[str, ...], tmp_path: Path) -> None:
    page = PAGE.read_text()
    known = {"examples/nim": str(NIM), "examples/paintarena": str(_built_arena(tmp_path)), "arena": namespace}
    measured, pulled, with_images, apart, detached, attached, listed, queried, stopped, *_ = page_lines(known)
    output = done(*measured, *small, "--seed", "7", "-o", "out", store=store, cwd=tmp_path)
    assert "Pods of a cluster play: 1 of" in output
    assert "counter is better than" in output.lower()
    done(*pulled, store=store, cwd=tmp_path)
    assert {row.key for row in read_rows(tmp_path / "out")} <= {row.key for row in read_rows(tmp_path / "first")}
    wait_until(lambda: not left(namespace), what="nothing left on the cluster")
    prepared(namespace)
    output = done(*with_images, *small, "-o", "images", store=store, cwd=tmp_path)
    assert [row.status for row in read_rows(tmp_path / "images")] == ["completed"] * 4
    done(*apart, *small, "-o", "apart", store=store, cwd=tmp_path)
    assert {row.status for row in read_rows(tmp_path / "apart")} == {"completed"}
    wait_until(lambda: not left(namespace), what="nothing left on the cluster")
    told = done(*detached, *small, "--seed", "7", "-o", "begun", store=store, cwd=tmp_path)
    assert "attach s3://arena/night" in told
    # Nobody here drives it: the report is there before anybody attaches
    wait_until(lambda: "report.json" in stored(store, "night/"), seconds=120, what="a report in the store")
    assert "counter is better than" in done(*attached, store=store, cwd=tmp_path).lower()
    report = (tmp_path / "out" / "report.json").read_bytes()
    assert (tmp_path / "night" / "report.json").read_bytes() == report
    assert "counter is better than" in done(*listed, store=store, cwd=tmp_path).lower()
    done(*queried, store=store, cwd=tmp_path)
    # What is left is found by its store, and removed by the command that was named
    assert left(namespace)
    (ends,) = re.findall(r"^End it:.*?(stop .*)$", told, re.MULTILINE)
    assert ends.split() == stopped
    assert "Removed: coworld-" in done(*stopped, store=store, cwd=tmp_path)
    wait_until(lambda: not left(namespace), what="nothing left on the cluster")
    # The same in Python
    (program,) = re.findall(r"^```py\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    where = f"cluster=ClusterOptions(namespace={namespace!r})"
    chosen = f"JobPods(count=1, cpu='500m', memory='256Mi', image={small[1]!r}, {where})"
    program = program.replace("examples/nim", str(NIM)).replace("JobPods(count=16)", chosen)
    body = textwrap.indent(program, "    ")
    imports = "import anyio\nfrom coworld_runner.backends import ClusterOptions"
    script = f"{imports}\nasync def main():\n{body}    print(report)\nanyio.run(main)\n"
    ran = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, **store},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    assert "is better than" in ran.stdout


def _built_arena(place: Path) -> Path:
    """Paint Arena as `coworld build` leaves it."""
    text = (ROOT / "examples/paintarena/coworld_manifest_template.json").read_text()
    manifest = json.loads(text.replace("{{PAINTARENA_IMAGE}}", paintarena_image()))
    manifest["game"]["version"] = "1.0.0"
    (place / "arena").mkdir()
    (place / "arena" / "coworld_manifest.json").write_text(json.dumps(manifest))
    return place / "arena"


def test_a_suite_is_interrupted_ended_and_goes_on(
    namespace: str, store: Mapping[str, str], small: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "suite.toml").write_text(SUITE)
    (tmp_path / "slow.py").write_text(SLOW)
    played, listed, pulled = page_lines({"counter": "slow.py", "arena": namespace})[9:]
    played = [*played, *small, "-o", "out"]
    first, second = (f"suite/plain.default.{number}" for number in (1, 2))
    run = command(*played, store=store, cwd=tmp_path)
    wait_until(lambda: stored(store, f"{second}/claims/"), seconds=200, what="a claim in the second")
    run.send_signal(signal.SIGINT)
    output, _ = run.communicate(timeout=100)
    assert run.returncode == 130, output
    (ends,) = re.findall(r"(stop s3://arena/suite .*?) ends them", output)
    shown = done(*listed, store=store, cwd=tmp_path)
    assert "completed" in shown
    assert "interrupted" in shown
    assert left(namespace)
    assert "Removed: coworld-" in done(*ends.split(), store=store, cwd=tmp_path)
    wait_until(lambda: not left(namespace), what="nothing left on the cluster")
    rows = stored(store, f"{first}/rows/")
    done(*played, store=store, cwd=tmp_path)
    assert stored(store, f"{first}/rows/") == rows
    wait_until(lambda: not left(namespace), what="nothing left on the cluster")
    done(*pulled, store=store, cwd=tmp_path)
    done("suite", "run", "suite.toml", "--player", "slow.py", "-o", "here", store=store, cwd=tmp_path)
    results = [json.loads((tmp_path / where / "suite.json").read_text()) for where in ("out", "suite", "here")]
    assert results[0] == results[1] == results[2]


def test_a_suite_of_images(namespace: str, store: Mapping[str, str], small: tuple[str, ...], tmp_path: Path) -> None:
    game = _built_arena(tmp_path)
    lineups = '[["{player}"], ["{player}", "frontier-painter"]]'
    entry = f'[[entry]]\nname = "quick"\nvariants = ["quick"]\nlineups = {lineups}\n'
    (tmp_path / "suite.toml").write_text(f'game = "{game}"\nepisodes = 2\n{entry}')
    prepared(namespace)
    where = ("--store", "s3://arena/images", "--namespace", namespace, *small)
    words = ("suite", "run", "suite.toml", "--player", "sweep-painter", "-o", "out", *where)
    done(*words, store=store, cwd=tmp_path)
    for number in (1, 2):
        rows = list(read_rows(tmp_path / "out" / f"quick.quick.{number}"))
        assert [row.status for row in rows] == ["completed"] * 2
    wait_until(lambda: not left(namespace), what="nothing left on the cluster")
    # A bot is files, and pods have nothing to build an image of it with
    (tmp_path / "bot.py").write_text(SLOW)
    run = command("gate", "bot.py", "-m", str(game), *where, store=store, cwd=tmp_path)
    output, _ = run.communicate(timeout=100)
    assert run.returncode == 2, output
    assert "it is no image" in output


async def test_a_killed_command_and_a_lost_pod_cost_nothing(
    namespace: str, store: Mapping[str, str], small: tuple[str, ...], tmp_path: Path
) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text(SLOW)
    where = ("--store", "s3://arena/killed", "--namespace", namespace, *small, "-o", "out", "--seed", "3")
    words = ("compare", "-m", str(NIM), str(slow), "random-taker", "--max-blocks", "60", *where)
    rows = tmp_path / "out" / "episodes.jsonl"
    for kill_pod in (True, False):
        run = command(*words, store=store, cwd=tmp_path)
        wait_until(partial(_grown, rows, rows.stat().st_size if rows.exists() else 0), seconds=120, what="rows")
        run.send_signal(signal.SIGKILL)
        run.wait()
        assert run.stdout is not None
        run.stdout.close()
        if kill_pod:
            on_cluster(_delete_pods, namespace=namespace)
    done(*words, store=store, cwd=tmp_path)
    keys = [row.key for row in read_rows(tmp_path / "out")]
    assert len(keys) == len(set(keys)) == 120
    rules = EvaluationRules(seed=3, max_blocks=60)
    await compare(NIM, slow, "random-taker", rules=rules, workspace=tmp_path / "here")
    assert (tmp_path / "out" / "report.json").read_bytes() == (tmp_path / "here" / "report.json").read_bytes()
    wait_until(lambda: not left(namespace), what="nothing left on the cluster")
    assert all(item.removed for item in reap_scratch(find_scratch()))


def _grown(path: Path, size: int) -> bool:
    return path.exists() and path.stat().st_size > size


async def _delete_pods(cluster: Cluster) -> None:
    for pod in (await cluster.list("pods", "coworld.run"))["items"]:
        await cluster.delete("pods", pod["metadata"]["name"], grace=0)


def test_a_player_finds_no_credentials(
    namespace: str, store: Mapping[str, str], small: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "reads.py").write_text(READS)
    where = ("--store", "s3://arena/reads", "--namespace", namespace, *small)
    done("run", str(NIM), "reads.py", "-n", "40", "-o", "out", *where, store=store, cwd=tmp_path)
    rows = list(read_rows(tmp_path / "out"))
    assert len(rows) == 40
    assert all(row.ok for row in rows)


def test_pods_that_cannot_start_say_why(
    namespace: str, store: Mapping[str, str], small: tuple[str, ...], tmp_path: Path
) -> None:
    where = (
        "--store",
        "s3://arena/never",
        "--namespace",
        namespace,
        *small,
        "--worker-image",
        "coworld-nobody/there:1",
    )
    run = command("scrimmage", "-m", str(NIM), "counter", "-n", "4", "-o", "out", *where, store=store, cwd=tmp_path)
    output, _ = run.communicate(timeout=120)
    assert run.returncode == 3, output
    assert "coworld-nobody/there:1" in output
    assert "--worker-image" in output
    wait_until(lambda: not left(namespace), what="nothing left on the cluster")
