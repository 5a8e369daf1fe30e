"""Measuring by pods that share a store: the same verdict as here, each key once whoever dies, and strangers' rows."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from support.misfit_kit import misfit_plan
from support.waiting import until

from coworld_core.episode.events import BaseEvent, Notice
from coworld_core.episode.record import EpisodeRow, read_rows
from coworld_core.errors import CapabilityError, CoworldError, EnvironmentFault, RecordError, UsageError
from coworld_core.evaluation.evaluation_files import read_plan
from coworld_runner import EpisodeOptions
from coworld_runner.backend import Limits
from coworld_runner.backends import ClusterOptions
from coworld_runner.errors import unwrapped
from coworld_runner.evaluation import EvaluationRules, compare, play_row_again, scrimmage
from coworld_runner.evaluation.tournament import add_entrant, create_tournament, play_tournament
from coworld_runner.jobs import Detached, JobPods, JobVenue, StoredRuns, attend_run, pull_run, stop_jobs
from coworld_runner.jobs.driver_seat import DriverSeat
from coworld_runner.jobs.episode_job import episode_secrets, refuse_programs
from coworld_runner.jobs.job_objects import make_driver, make_episode_job, make_job
from coworld_runner.jobs.job_store import JobStore
from coworld_runner.jobs.pulled_run import bring_evidence
from coworld_runner.jobs.shared_folder import Signs
from coworld_runner.jobs.stopped_run import jobs_named
from coworld_runner.jobs.taking_part import take_part
from coworld_runner.package.resolver import Package, resolve_package
from coworld_runner.runs.scratch import find_scratch, reap_scratch

ROOT = Path(__file__).parents[2]
NIM = ROOT / "examples" / "nim"
SLOW = """
import time
def act(observation, legal, rng):
    time.sleep(0.02)
    return rng.choice(legal)
"""
RULES = EvaluationRules(seed=7, max_blocks=60)


@pytest.fixture
async def nim() -> Package:
    return await resolve_package(NIM)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text((NIM / "players" / "counter.py").read_text())
    return path


@asynccontextmanager
async def workers(store: str | os.PathLike[str], count: int = 1) -> AsyncGenerator[None]:
    """Who takes part in playing a run, as soon as there is one."""

    async def work(number: int) -> None:
        there = JobStore(store)
        await until(lambda: there.get("run.json"), what="a run")
        await take_part(os.fspath(store), name=f"worker {number}")

    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(work, number)
        yield
        tasks.cancel_scope.cancel()


def worker_process(store: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "coworld_runner.jobs", "play", str(store)])


def told(row: EpisodeRow) -> dict[str, Any]:
    """What of a row does not depend on where and when it was played."""
    return row.model_dump(exclude={"seconds", "run_id", "conduct", "workspace"})


async def test_pods_come_to_the_verdict_of_this_machine(nim: Package, mine: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    async with workers(store, 2), JobVenue(nim, store, at_once=2) as venue:
        await compare(nim, mine, "random-taker", rules=RULES, workspace=tmp_path / "pods", venue=venue)
    await compare(nim, mine, "random-taker", rules=RULES, workspace=tmp_path / "here")
    pods, here = tmp_path / "pods", tmp_path / "here"
    assert (pods / "report.json").read_bytes() == (here / "report.json").read_bytes()
    assert [told(row) for row in read_rows(pods)] == [told(row) for row in read_rows(here)]
    kept = {row.workspace for row in read_rows(here) if row.workspace}
    assert kept <= {path.name for path in pods.iterdir()}
    assert (pods / "block-0001.1-1" / "replay").read_bytes() == (here / "block-0001.1-1" / "replay").read_bytes()
    # Any other is exact again from its row, as here
    again = await play_row_again(pods, "block-0006.1-2")
    assert again.played
    assert again.same
    assert await pull_run(store, tmp_path / "pulled") == await pull_run(store, tmp_path / "pulled")
    pulled = {row.key: told(row) for row in read_rows(tmp_path / "pulled")}
    assert [told(row) for row in read_rows(here)] == [pulled[row.key] for row in read_rows(here)]
    assert (tmp_path / "pulled" / "block-0001.1-1" / "replay").is_file()
    # With more blocks in the same store, what was played is not played again
    more = EvaluationRules(seed=7, max_blocks=61)
    claims = {one.name for one in await JobStore(store).list("claims")}
    async with JobVenue(nim, store) as venue:
        await compare(nim, mine, "random-taker", rules=more, workspace=tmp_path / "pods", venue=venue)
    assert {one.name for one in await JobStore(store).list("claims")} == claims


async def test_two_players_may_have_the_same_content(nim: Package, mine: Path, tmp_path: Path) -> None:
    shutil.copy(mine, tmp_path / "other.py")
    rules = EvaluationRules(seed=7, max_blocks=2)
    async with workers(tmp_path / "store"), JobVenue(nim, tmp_path / "store") as venue:
        await compare(nim, mine, tmp_path / "other.py", rules=rules, workspace=tmp_path / "pods", venue=venue)
    assert [row.status for row in read_rows(tmp_path / "pods")] == ["completed"] * 4


@pytest.mark.slow
async def test_what_a_dead_worker_had_is_played_by_another(nim: Package, tmp_path: Path) -> None:
    store, slow = tmp_path / "store", tmp_path / "slow.py"
    slow.write_text(SLOW)

    async def kill_one() -> None:
        await until(lambda: (store / "run.json").exists(), what="a run")
        first = worker_process(store)
        await until(lambda: (store / "claims" / "000001.1").exists(), what="a claim")
        first.send_signal(signal.SIGKILL)
        await anyio.to_thread.run_sync(first.wait)
        second = worker_process(store)
        await until(lambda: (store / "closed").exists(), what="the end", seconds=120)
        assert await anyio.to_thread.run_sync(second.wait) == 0

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(kill_one)
        async with JobVenue(nim, store, lease=3) as venue:
            await scrimmage(nim, slow, episodes=70, workspace=tmp_path / "out", venue=venue)
    keys = [row.key for row in read_rows(tmp_path / "out")]
    assert len(keys) == len(set(keys)) == 70
    assert (store / "claims" / "000001.2").exists()
    assert all(item.removed for item in reap_scratch(find_scratch()))


DRIVER = """
import sys, anyio
from coworld_runner import resolve_package
from coworld_runner.backends import ClusterOptions
from coworld_runner.evaluation import EvaluationRules, compare
from coworld_runner.jobs import JobVenue
async def main(game, player, store, out):
    package, rules = await resolve_package(game), EvaluationRules(seed=3, max_blocks=60)
    async with JobVenue(package, store, lease=3) as venue:
        await compare(package, player, "random-taker", rules=rules, workspace=out, venue=venue)
anyio.run(main, *sys.argv[1:])
"""


@pytest.mark.slow
async def test_a_driver_that_was_killed_goes_on_where_it_was(nim: Package, tmp_path: Path) -> None:
    store, slow, out = tmp_path / "store", tmp_path / "slow.py", tmp_path / "out"
    slow.write_text(SLOW)
    rules = EvaluationRules(seed=3, max_blocks=60)
    async with workers(store, 2):
        arguments = [sys.executable, "-c", DRIVER, *map(str, (NIM, slow, store, out))]
        driver = await anyio.to_thread.run_sync(subprocess.Popen, arguments)
        await until(lambda: (store / "rows").is_dir() and any((store / "rows").iterdir()), what="rows", seconds=60)
        driver.send_signal(signal.SIGKILL)
        await anyio.to_thread.run_sync(driver.wait)
        async with JobVenue(nim, store, lease=3) as venue:
            await compare(nim, slow, "random-taker", rules=rules, workspace=out, venue=venue)
    keys = [row.key for row in read_rows(out)]
    assert len(keys) == len(set(keys)) == 120
    chunks = [json.loads(path.read_bytes()) for path in (store / "chunks").iterdir()]
    sent = [one["key"] for chunk in chunks for one in chunk["episodes"]]
    assert len(sent) == len(set(sent)) == 120
    await compare(nim, slow, "random-taker", rules=rules, workspace=tmp_path / "here")
    assert (out / "report.json").read_bytes() == (tmp_path / "here" / "report.json").read_bytes()
    assert all(item.removed for item in reap_scratch(find_scratch()))


async def refused(store: Path, out: Path, package: Package, *players: Any, **more: Any) -> CoworldError:
    with pytest.raises(CoworldError) as error, unwrapped():
        async with JobVenue(package, store, lease=3) as venue:
            await scrimmage(package, *players, episodes=4, workspace=out, venue=venue, **more)
    return error.value


async def test_one_drives_and_others_follow(nim: Package, tmp_path: Path) -> None:
    """The second takes the rows that the first has played, and goes on when that is gone."""
    store, slow = tmp_path / "store", tmp_path / "slow.py"
    slow.write_text(SLOW)
    rules = EvaluationRules(seed=3, max_blocks=40)
    heard: list[str] = []

    def listen(event: BaseEvent) -> None:
        if isinstance(event, Notice):
            heard.append(event.message)

    async def measure(out: str, **more: Any) -> None:
        async with JobVenue(nim, store, lease=3) as venue:
            await compare(nim, slow, "random-taker", rules=rules, workspace=tmp_path / out, venue=venue, **more)

    async def first(scope: anyio.CancelScope) -> None:
        with scope:
            await measure("first")

    scope = anyio.CancelScope()
    async with workers(store, 1):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first, scope)
            await until(lambda: (store / "drivers" / "000001").exists(), what="a driver")
            tasks.start_soon(lambda: measure("second", listeners=(listen,)))
            await until(lambda: heard, what="a word of the first")
            await until(lambda: (store / "chunks" / "000001.json").exists(), what="a chunk")
            scope.cancel()
        assert f"{socket.gethostname()}:{os.getpid()} drives this run" in heard[0]
        assert (store / "closed").exists()
        # A third finds everything played, and the verdict is the same
        await measure("third")
    reports = [(tmp_path / out / "report.json").read_bytes() for out in ("second", "third")]
    assert reports[0] == reports[1]
    assert len([*read_rows(tmp_path / "second")]) == 80
    chunks = [json.loads(path.read_bytes()) for path in (store / "chunks").iterdir()]
    sent = [one["key"] for chunk in chunks for one in chunk["episodes"]]
    assert len(sent) == len(set(sent)) == 80
    other = await refused(store, tmp_path / "four", nim.with_environment({"LEVEL": "2"}), "counter", rules=rules)
    assert other.code == "store_of_another_run"


async def test_a_run_is_ended_from_elsewhere_and_goes_on(nim: Package, tmp_path: Path) -> None:
    """Whoever drives it ends, and whoever plays; nothing is asked of a cluster where there is none."""
    store, slow = tmp_path / "store", tmp_path / "slow.py"
    slow.write_text(SLOW)
    nowhere = ClusterOptions(kubeconfig=tmp_path / "none")
    words: list[str] = []

    async def measure() -> None:
        with pytest.raises(EnvironmentFault) as error, unwrapped():
            async with JobVenue(nim, store, lease=3) as venue:
                await scrimmage(nim, slow, episodes=70, workspace=tmp_path / "out", venue=venue)
        words.append(error.value.code)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(measure)
        await until(lambda: (store / "chunks" / "000001.json").exists(), what="a chunk")
        tasks.start_soon(take_part, str(store))
        ended = await stop_jobs(store, cluster=nowhere)
    assert words == ["stopped"]
    assert ended.store == str(store)
    assert not ended.jobs
    assert "none" in ended.unreached
    with StoredRuns(store) as runs:
        assert runs.find(ended.run_id[:8]).run.status == "interrupted"

    async def play_again() -> None:
        await until(lambda: not (store / "closed").exists(), what="another driver")
        await take_part(str(store))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(play_again)
        async with JobVenue(nim, store, lease=3) as venue:
            await scrimmage(nim, slow, episodes=70, workspace=tmp_path / "out", venue=venue)
    assert len({row.key for row in read_rows(tmp_path / "out")}) == 70
    with pytest.raises(UsageError, match="There is no run at"):
        await stop_jobs("file://" + str(tmp_path / "out"), cluster=nowhere)


def test_jobs_are_found_by_label_or_name() -> None:
    pods = JobPods(image="worker:1")
    jobs = [make_job(pods, f"coworld-{run}-1", run, f"s3://arena/{run}") for run in ("abcd1", "abcd2")]
    driver = make_driver(pods, "coworld-abcd1-2", "abcd1", "s3://arena/abcd1")
    other = {"metadata": {"name": "abcd1", "annotations": {"coworld.run": "abcd1"}}}
    everything = [*jobs, driver, other, {"metadata": {"name": "theirs"}}]
    for word in ("abcd1", "coworld-abcd1-2"):
        assert jobs_named(word, everything) == [jobs[0], driver]
    assert not jobs_named("abc", everything)
    with pytest.raises(UsageError, match="2 runs are meant"):
        jobs_named("abcd", everything)


async def test_the_seat_of_the_driver(tmp_path: Path) -> None:
    """Whoever was replaced steps back, and takes over again once the other has left."""
    store = JobStore(tmp_path)
    heard: list[Any] = []
    one, two = (DriverSeat(store, 60, heard.append) for _ in range(2))
    assert await one.look()
    assert not await two.look()
    assert [event.message.partition(" ")[2] for event in heard] == ["drives this run, which is followed here."]
    assert not await one.look()
    assert one.held
    await store.create("drivers/000002", b'{"by": "elsewhere:1:x"}\n')
    assert not await one.look()
    assert not one.held
    await store.put("drivers/000002", b'{"by": "elsewhere:1:x", "ended": true}\n')
    assert await two.look()
    await two.leave()
    assert await one.look()
    # One of this machine that is no more does not have to be waited for
    await store.create("drivers/000005", f'{{"by": "{socket.gethostname()}:999999999:x"}}\n'.encode())
    assert await two.look()


async def test_a_detached_run_is_driven_from_its_store_alone(nim: Package, mine: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    rules = EvaluationRules(seed=7, max_blocks=60, config={"sticks": 9})
    pods = StoredPods()
    with pytest.raises(Detached):
        async with JobVenue(nim, store, pods=pods, detach=(mine, "random-taker")) as venue:
            await compare(nim, mine, "random-taker", rules=rules, workspace=tmp_path / "begun", venue=venue)
    assert pods.done == ["start", "drive", "close False"]
    async with workers(store, 2), anyio.create_task_group() as tasks:
        for place in ("driver", "follower"):
            tasks.start_soon(attend_run, store, tmp_path / place)
    await compare(nim, mine, "random-taker", rules=rules, workspace=tmp_path / "here")
    report = (tmp_path / "here" / "report.json").read_bytes()
    for place in (tmp_path / "driver", tmp_path / "follower", store):
        assert (place / "report.json").read_bytes() == report
    # Again, everything is there; elsewhere, nothing else may be
    assert (await attend_run(store, tmp_path / "driver")).model_dump_json() == json.dumps(
        json.loads(report), separators=(",", ":")
    )
    for place in (mine.parent, tmp_path / "follower"):
        (tmp_path / "follower" / "plan.json").write_text("{}")
        with pytest.raises(UsageError) as error:
            await attend_run(store, place)
        assert error.value.code == "not_fresh"
    async with workers(tmp_path / "plain"), JobVenue(nim, tmp_path / "plain") as venue:
        await scrimmage(nim, "counter", episodes=2, workspace=tmp_path / "out", venue=venue)
    with pytest.raises(UsageError) as error:
        await attend_run(tmp_path / "plain", tmp_path / "other")
    assert error.value.code == "not_detached"


class StoredPods(JobPods):
    """Pods of no cluster: what would be asked of one is noted, and workers are started by the test."""

    def __init__(self) -> None:
        super().__init__(image="none")
        self.done: list[str] = []

    async def start(self, run_id: str, store: JobStore, *, programs: bool = False) -> None:
        self.done.append("start")

    async def drive(self, run_id: str, store: JobStore) -> None:
        self.done.append("drive")

    async def close(self, *, remove: bool) -> None:
        self.done.append(f"close {remove}")


def test_life_is_told_by_signs_and_by_no_clock_of_others() -> None:
    now = [0.0]
    signs = Signs(10, clock=lambda: now[0])
    assert not signs.is_gone("a", "1")
    now[0] = 9.0
    assert not signs.is_gone("a", "2")
    now[0] = 18.0
    assert not signs.is_gone("a", "2")
    assert not signs.is_gone("b", "2")
    now[0] = 19.5
    assert signs.is_gone("a", "2")
    assert not signs.is_gone("a", "3")


def changed(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def spoil(rows: Path) -> None:
        head, *lines = rows.read_text().splitlines()
        row = json.loads(lines[0])
        change(row)
        rows.write_text("\n".join((head, json.dumps(row), *lines[1:], "")))

    return spoil


def huge(rows: Path) -> None:
    with rows.open("r+b") as file:
        file.truncate(1 << 30)


def short(rows: Path) -> None:
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:-1]))


async def played(nim: Package, place: Path) -> Path:
    """The store of a run that was played, of which there is one for all tests of a process."""
    store = place / "played"
    if not store.exists():
        async with workers(store), JobVenue(nim, store) as venue:
            rules = EvaluationRules(seed=3)
            await scrimmage(nim, "counter", episodes=4, rules=rules, workspace=place / "of-played", venue=venue)
    return store


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (changed(lambda row: row.update(scores=[float("nan"), 1.0])), "NaN"),
        (changed(lambda row: row.update(seed=5)), "another episode"),
        (changed(lambda row: row["slots"][0].update(image="elsewhere:1")), "another episode"),
        (changed(lambda row: row.update(key="block-0009.1-1", workspace="")), "one row of each episode"),
        (changed(lambda row: row.update(workspace="../../out")), "directory of a row"),
        (short, "one row of each episode"),
        (huge, "1 GiB"),
        (lambda rows: rows.write_text("nothing\n"), "A value is expected"),
    ],
    ids=["nan", "seed", "player", "key", "outside", "short", "huge", "no-json"],
)
async def test_rows_of_strangers_are_no_rows(
    nim: Package, tmp_path: Path, spoil: Callable[[Path], object], words: str
) -> None:
    store, rules = tmp_path / "store", EvaluationRules(seed=3)
    await anyio.to_thread.run_sync(shutil.copytree, await played(nim, tmp_path.parent), store)
    spoil(store / "rows" / "000001.jsonl")
    error = await refused(store, tmp_path / "two", nim, "counter", rules=rules)
    assert isinstance(error, RecordError)
    assert words in error.message
    assert not (tmp_path / "out").exists()


async def test_a_run_that_pods_cannot_play_says_why(nim: Package, tmp_path: Path) -> None:
    image = await refused(tmp_path / "1", tmp_path / "o1", nim, "players/mine:1")
    assert image.code == "player_not_portable"
    recorded = await refused(tmp_path / "2", tmp_path / "o2", nim, "counter", options=EpisodeOptions(record="samples"))
    assert isinstance(recorded, CapabilityError)
    # What a pod has is what was sent
    package = tmp_path / "package"
    (package / "players").mkdir(parents=True)
    for name in ("coworld_manifest_template.json", "compose.yaml", "Dockerfile", "nim.py", "players/counter.py"):
        (package / name).write_bytes((NIM / name).read_bytes())
    (package / ".dockerignore").write_text("levels.py\n")
    (package / "levels.py").write_text("")
    (package / "nim.py").write_text("import levels\n" + (NIM / "nim.py").read_text())
    async with workers(tmp_path / "3"):
        missing = await refused(
            tmp_path / "3", tmp_path / "o3", await resolve_package(package), package / "players/counter.py"
        )
    assert "levels" in missing.message
    assert missing.code == "not_portable"


async def test_a_chunk_whose_workers_die_is_given_up(nim: Package, tmp_path: Path) -> None:
    store = tmp_path / "store"

    async def die() -> None:
        await until(lambda: (store / "chunks" / "000001.json").exists(), what="a chunk")
        for attempt in (1, 2, 3):
            await JobStore(store).put(f"claims/000001.{attempt}", b"{}")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(die)
        error = await refused(store, tmp_path / "out", nim, "counter")
    assert error.code == "pods_died"
    assert not list((store / "claims").iterdir())
    # The same command goes on, with whoever plays now
    async with workers(store), JobVenue(nim, store, lease=3) as venue:
        rules = EvaluationRules(seed=read_plan(tmp_path / "out").seed)
        await scrimmage(nim, "counter", episodes=4, rules=rules, workspace=tmp_path / "out", venue=venue)
    assert len(list(read_rows(tmp_path / "out"))) == 4


async def test_a_run_that_nobody_plays_says_so(nim: Package, tmp_path: Path) -> None:
    heard: list[str] = []

    def listen(event: BaseEvent) -> None:
        if isinstance(event, Notice):
            heard.append(event.message)

    async def measure() -> None:
        async with JobVenue(nim, tmp_path / "store", lease=0.5) as venue:
            await scrimmage(nim, "counter", episodes=4, workspace=tmp_path / "out", venue=venue, listeners=(listen,))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(measure)
        await until(lambda: heard, what="a notice")
        tasks.start_soon(take_part, str(tmp_path / "store"))
    assert heard[0].startswith("Nobody plays: no pod has taken an episode")


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Generator[Any]:
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    client = boto3.client("s3", region_name="us-east-1")
    client.create_bucket(Bucket="arena")
    yield client
    server.stop()


@pytest.mark.slow
async def test_s3_is_a_store(nim: Package, mine: Path, tmp_path: Path, bucket: Any) -> None:
    url = "s3://arena/runs/one"
    async with workers(url), JobVenue(nim, url) as venue:
        await compare(nim, mine, "random-taker", rules=RULES, workspace=tmp_path / "pods", venue=venue)
    await compare(nim, mine, "random-taker", rules=RULES, workspace=tmp_path / "here")
    assert (tmp_path / "pods" / "report.json").read_bytes() == (tmp_path / "here" / "report.json").read_bytes()
    names = {entry["Key"] for entry in bucket.list_objects_v2(Bucket="arena")["Contents"]}
    assert all(name.startswith("runs/one/") for name in names)
    with StoredRuns("s3://arena/runs") as runs:
        assert [(run.path, run.status) for run in runs.runs()] == [(Path("one"), "completed")]
        episode = runs.find("one/1").episode
        assert episode is not None
        assert "replay" in runs.evidence(episode)
    store = JobStore(url)
    assert not await store.create("run.json", b"{}")
    for name in ("../../../evil", "a\\b", "x/../../../evil", "\x07"):
        bucket.put_object(Bucket="arena", Key=f"runs/one/episodes/000009.1/there/{name}", Body=b"x")
        with pytest.raises(RecordError, match="leads"), unwrapped():
            await bring_evidence(store, "episodes/000009.1/there", tmp_path / "evidence" / "there")
        bucket.delete_object(Bucket="arena", Key=f"runs/one/episodes/000009.1/there/{name}")
    assert not await anyio.to_thread.run_sync(lambda: list(tmp_path.rglob("evil")))


async def test_a_store_that_never_answers_is_not_waited_for(
    nim: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("coworld_runner.jobs.job_files._FIRST_SECONDS", 0.3)
    for asked in (
        lambda: pull_run("s3://arena/r", tmp_path / "pulled"),
        lambda: attend_run("s3://arena/r", tmp_path / "followed"),
        lambda: scrimmage(nim, "counter", workspace=tmp_path / "out", venue=venue),
    ):
        async with JobVenue(nim, "s3://arena/r", lease=0.1) as venue:
            with pytest.raises(EnvironmentFault, match=r"does not answer within 0\.3 s") as error:
                await asked()
        assert error.value.code == "store_unreachable"


def test_the_player_of_a_pod_gets_no_credentials() -> None:
    queue = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "arena"}}}
    little = {"spec": {"containers": [{"name": "program", "resources": {"requests": {"cpu": "10m"}}}]}}
    pods = JobPods(image="worker:1", count=3, cluster=ClusterOptions(pods={"all": queue, "worker": little}))
    job = make_job(pods, "coworld-r-1", "r", "s3://arena/r", ("AWS_SECRET_ACCESS_KEY",))
    assert job["spec"]["parallelism"] == 3
    assert "completions" not in job["spec"]
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "arena"
    template = job["spec"]["template"]
    courier, player = template["spec"]["containers"]
    assert player["resources"] == {"requests": {"cpu": "10m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    assert [entry["name"] for entry in courier["env"]] == ["AWS_SECRET_ACCESS_KEY", "POD_NAME"]
    assert courier["env"][0]["valueFrom"] == {"secretKeyRef": {"name": "coworld-r-1", "key": "env.0"}}
    assert "env" not in player
    assert "s3://arena/r" not in str(player)
    assert template["spec"]["automountServiceAccountToken"] is False
    # What a namespace with the standard `restricted` asks for
    assert template["spec"]["securityContext"]["runAsNonRoot"] is True
    for container in (courier, player):
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["allowPrivilegeEscalation"] is False


def test_the_pod_of_an_episode_of_images() -> None:
    """Each program is handed its own, and starts in its turn."""
    named = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "arena"}}}
    little = {"spec": {"containers": [{"name": "program", "resources": {"requests": {"cpu": "10m"}}}]}}
    where = ClusterOptions(pods={"all": named, "player": little}, pull_secrets=("ours",))
    pods = JobPods(image="worker:1", cluster=where)
    plan = misfit_plan("well", "well", "tells", image="misfits:1", secret_env={"KEY": "secret-of-players"})
    tokens = ("token-of-0", "token-of-1")
    handed = ("AWS_SECRET_ACCESS_KEY",)
    options = EpisodeOptions(timeout_seconds=60)
    job = make_episode_job(pods, "coworld-r-e", "r", "s3://arena/r", 7, plan, options, handed)
    # A lost pod is a new attempt at its chunk, which whoever drives begins
    assert job["spec"]["backoffLimit"] == 0
    assert job["spec"]["activeDeadlineSeconds"] == 960
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "arena"
    spec = job["spec"]["template"]["spec"]
    assert spec["imagePullSecrets"] == [{"name": "ours"}]
    assert spec["automountServiceAccountToken"] is False
    _, worker, *players = spec["containers"]
    assert [one["name"] for one in spec["containers"]] == ["game", "worker", "player-0", "player-1"]
    assert worker["args"][-3:] == ["episode", "s3://arena/r", "7"]
    assert "postStart" in worker["lifecycle"]
    assert all(one["resources"]["requests"]["cpu"] == "10m" for one in players)
    # What only one container may know is in a Secret, which is the same for all, under keys of its own
    secrets = episode_secrets(plan, tokens)
    assert json.loads(secrets["config.json"])["tokens"] == list(tokens)
    known = {one["name"]: _known(one, secrets) for one in spec["containers"]}
    assert known["worker"] == {"COWORLD_TOKENS": b'["token-of-0", "token-of-1"]', "AWS_SECRET_ACCESS_KEY": None}
    assert known["game"] == {}
    url = b"ws://127.0.0.1:8080/player?slot=1&token=token-of-1"
    addresses = {"COWORLD_PLAYER_WS_URL": url, "COGAMES_ENGINE_WS_URL": url}
    assert known["player-1"] == {**addresses, "KEY": b"secret-of-players"}
    assert not [word for word in (*tokens, "secret-of-players") if word in str(job)]
    mounted = {one["name"]: {each["name"] for each in one["volumeMounts"]} for one in spec["containers"]}
    assert [name for name, volumes in mounted.items() if "coworld-token" in volumes] == ["worker"]
    assert [name for name, volumes in mounted.items() if "coworld-config" in volumes] == ["game"]
    assert mounted["player-1"] == {"coworld-artifacts-1"}
    for container in spec["containers"]:
        assert container["securityContext"]["allowPrivilegeEscalation"] is False


def _known(container: Mapping[str, Any], secrets: Mapping[str, bytes]) -> dict[str, bytes | None]:
    keys = {one["name"]: one["valueFrom"].get("secretKeyRef") for one in container["env"] if "valueFrom" in one}
    return {name: secrets.get(key["key"]) for name, key in keys.items() if key is not None}


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (EpisodeOptions(player_https=("api.example.org",)), "network_isolation"),
        (EpisodeOptions(player_network="game-only"), "network_isolation"),
        (EpisodeOptions(player_limits=Limits(pids=5)), "pids_limit"),
        (EpisodeOptions(record="frames"), "recorder"),
    ],
)
def test_one_pod_cannot_keep_its_containers_apart(options: EpisodeOptions, word: str) -> None:
    with pytest.raises(CapabilityError, match=word):
        refuse_programs(options)


@pytest.fixture
async def arena(tmp_path: Path) -> Package:
    """Paint Arena, which is no game of the kit, as it is once its images are built."""
    text = (ROOT / "examples/paintarena/coworld_manifest_template.json").read_text()
    built = json.loads(text.replace("{{PAINTARENA_IMAGE}}", "paintarena:1"))
    built["game"]["version"] = "1.0.0"
    (tmp_path / "coworld_manifest.json").write_text(json.dumps(built))
    return await resolve_package(tmp_path / "coworld_manifest.json")


async def test_what_cannot_play_in_a_pod_of_images(arena: Package, tmp_path: Path) -> None:
    template = await resolve_package(ROOT / "examples" / "paintarena" / "coworld_manifest_template.json")
    bot = tmp_path / "bot.py"
    bot.write_text("print('I play by myself')\n")
    for package, player, code in (
        (template, "sweep-painter", "images_not_built"),
        (arena, bot, "player_not_portable"),
    ):
        with pytest.raises(UsageError) as error, unwrapped():
            async with JobVenue(package, tmp_path / code, pods=StoredPods()) as venue:
                await scrimmage(package, player, episodes=4, workspace=tmp_path / "out" / code, venue=venue)
        assert error.value.code == code


def test_a_driver_on_the_cluster_is_told_what_pods_to_make() -> None:
    little = {"spec": {"containers": [{"name": "program", "resources": {"requests": {"cpu": "10m"}}}]}}
    where = ClusterOptions(
        namespace="arena",
        pods={"game": little},
        pull_secrets=("ours",),
        collector_image="helper:1",
        network_policy=True,
    )
    pods = JobPods(image="worker:1", count=7, cluster=where, store_secret="there")
    job = make_driver(pods, "coworld-r-d", "r", "s3://arena/r", programs=True)
    spec = job["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == "coworld-client"
    told = {one["name"]: one["value"] for one in spec["containers"][0]["env"] if "value" in one}
    environ = {name: value.replace("$$", "$") for name, value in told.items()} | {"POD_NAMESPACE": "arena"}
    again = JobPods.told(environ)
    assert again is not None
    assert (again.image, again.count, again.store_secret, again.cluster) == ("worker:1", 7, "there", where)
    # One that drives games of the kit makes nothing, and so has no account
    plain = make_driver(pods, "coworld-r-d", "r", "s3://arena/r")["spec"]["template"]["spec"]
    assert "serviceAccountName" not in plain
    assert JobPods.told({}) is None
    with pytest.raises(UsageError, match="what pods to make"):
        JobPods.told({**environ, "COWORLD_JOB_PODS": "{}"})


async def test_who_cannot_make_pods_says_that_nobody_drives(arena: Package, tmp_path: Path) -> None:
    """A run of images that was detached, and whose driver is gone for good."""
    with pytest.raises(EnvironmentFault, match="Nobody drives") as caught, unwrapped():
        async with JobVenue(arena, tmp_path / "store", lease=0.5) as venue:
            await scrimmage(arena, "sweep-painter", episodes=2, workspace=tmp_path / "out", venue=venue)
    assert caught.value.code == "no_driver"


@pytest.mark.slow
async def test_a_tournament_is_played_by_pods_too(nim: Package, mine: Path, tmp_path: Path) -> None:
    """Each round goes into the same store, and the standings are those of a tournament here."""
    reports: list[str] = []
    for name in ("here", "there"):
        place = tmp_path / name
        await create_tournament(place, str(NIM), rounds=6, seed=1)
        for player in (str(mine), "counter", "random-taker"):
            await add_entrant(place, player)
        if name == "here":
            report = await play_tournament(place, package=nim)
        else:
            async with workers(tmp_path / "store"), JobVenue(nim, tmp_path / "store", lease=3) as venue:
                report = await play_tournament(place, package=nim, venue=venue)
        reports.append(report.model_dump_json(include={"standings"}))
    assert reports[0] == reports[1]
    chunks = [json.loads(path.read_bytes()) for path in (tmp_path / "store" / "chunks").iterdir()]
    keys = [one["key"] for chunk in chunks for one in chunk["episodes"]]
    assert len(keys) == len(set(keys)) > 0
