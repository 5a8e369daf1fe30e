"""Episodes of images that a cluster plays from a store: each in one pod, with game and players as its containers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from support.cluster_workers import prepared
from support.kube import on_cluster
from support.misfit_kit import PACKAGE, PLACEHOLDER, ensure_image, misfit_plan
from support.restricted_namespace import restricted
from support.waiting import until
from support.worker_image import ensure_worker_image

from coworld_core.episode.events import BaseEvent, Notice
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.record import EpisodeRow, read_record, read_rows
from coworld_core.errors import EnvironmentFault
from coworld_core.ids import new_run_id
from coworld_runner.backends import ClusterOptions
from coworld_runner.backends.kubernetes._cluster import Cluster
from coworld_runner.episode.episode_options import EpisodeOptions
from coworld_runner.episode.venue import VenueRun, Wanted
from coworld_runner.errors import unwrapped
from coworld_runner.evaluation import scrimmage
from coworld_runner.jobs import Detached, JobPods, JobVenue, attend_run, stop_jobs
from coworld_runner.package.plan import plan_episode
from coworld_runner.package.resolver import Package, resolve_package

pytestmark = [pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.timeout(600)]

_LITTLE: Mapping[str, Any] = {
    "spec": {"containers": [{"name": "program", "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}}}]}
}


@pytest.fixture
async def misfits(tmp_path: Path) -> Package:
    """The package of misfits, built."""
    text = (PACKAGE / "coworld_manifest_template.json").read_text().replace(PLACEHOLDER, ensure_image())
    manifest = json.loads(text)
    manifest["game"]["version"] = "1.0.0"
    first = manifest["player"][0]
    manifest["player"] += [
        {**first, "id": name, "name": name, "run": [*first["run"][:-1], name]} for name in ("tells", "steals")
    ]
    (tmp_path / "coworld_manifest.json").write_text(json.dumps(manifest))
    return await resolve_package(tmp_path / "coworld_manifest.json")


@pytest.fixture(autouse=True)
def reached(store: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is reached from here."""
    for name, value in store.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def pods(namespace: str) -> JobPods:
    prepared(namespace)
    where = ClusterOptions(namespace=namespace, pods=dict.fromkeys(("game", "player", "worker"), _LITTLE))
    return JobPods(image=ensure_worker_image(), count=2, cluster=where)


def episodes(*plans: tuple[str, ...]) -> list[Wanted]:
    """Episodes of a game with players, by their behaviours."""
    found = []
    for index, (game, *players) in enumerate(plans, start=1):
        plan = misfit_plan(game, *players, image=ensure_image(), play_seconds=0.5)
        plan = dataclasses.replace(plan, config_changes={}, variant="misfit")
        found.append(Wanted(index=index, key=f"e{index}", plan=plan))
    return found


def terms(workspace: Path, **more: Any) -> VenueRun:
    workspace.mkdir(exist_ok=True)
    return VenueRun(
        run_id=new_run_id(),
        workspace=workspace,
        publish=lambda event: None,
        parallel=None,
        options=EpisodeOptions(player_exit_timeout_seconds=1.0, ready_timeout_seconds=40.0),
        hooks=(),
        episode_listeners=None,
        **more,
    )


async def play(venue: JobVenue, run: VenueRun, wanted: Iterable[Wanted]) -> dict[str, EpisodeRow]:
    rows: dict[str, EpisodeRow] = {}

    def take(some: Iterable[EpisodeRow]) -> bool:
        rows.update({row.key: row for row in some})
        return False

    with unwrapped():
        await venue.play(run, iter(wanted), take)
    return rows


async def left(cluster: Cluster) -> list[str]:
    found = [await cluster.list(kind, "coworld.run") for kind in ("jobs", "pods", "secrets")]
    return [item["metadata"]["name"] for one in found for item in one["items"]]


async def test_whose_fault_it_was(misfits: Package, pods: JobPods, namespace: str, tmp_path: Path) -> None:
    wanted = episodes(
        ("well", "tells", "steals"),
        ("well", "well", "exits-3"),
        ("well", "ignores-term", "well"),
        ("exits-5", "well", "well"),
        ("exits-7-before-healthy", "well", "well"),
    )
    run = terms(tmp_path / "run")
    async with JobVenue(misfits, "s3://arena/faults", pods=pods) as venue:
        rows = await play(venue, run, wanted)
    assert {key: (row.status, row.party, row.fault_slot) for key, row in rows.items()} == {
        "e1": ("completed", None, None),
        "e2": ("failed", "player", 1),
        "e3": ("completed", "player", 0),
        "e4": ("failed", "game", None),
        "e5": ("failed", "game", None),
    }
    assert "status 7" in (rows["e5"].message or "")
    # As each program was told, and as the record says
    layout = EpisodeLayout(run.workspace / rows["e1"].workspace)
    record = read_record(layout.record)
    assert record.run_id == rows["e1"].run_id
    assert record.backend == "kubernetes-pod"
    # The node alone knows which images they were
    assert record.game is not None
    digests = {record.game.image.digest, *(slot.image.digest for slot in record.slots)}
    assert digests == {slot.digest for key in ("e1", "e2") for slot in rows[key].slots}
    assert [digest[:7] for digest in digests] == ["sha256:"]
    # No player finds another's token, the store's credentials, or an account of the cluster
    said = [layout.player_log(slot).read_text() for slot in (0, 1)]
    assert "COWORLD_PLAYER_WS_URL" in said[0]
    assert not [word for word in ("AWS_", "COWORLD_TOKENS") if word in said[0]]
    assert said[1].splitlines()[1:] == ["LOOKED"]
    await until(lambda: _nothing_left(namespace), seconds=60, what="nothing left on the cluster")


async def test_a_lost_pod_and_a_driver_that_comes_back(
    misfits: Package, pods: JobPods, namespace: str, tmp_path: Path
) -> None:
    wanted = episodes(*[("well", "well", "well")] * 4)
    place = "s3://arena/again"
    first: list[EpisodeRow] = []
    with anyio.CancelScope() as scope:

        def take_one(rows: Iterable[EpisodeRow]) -> bool:
            first.extend(rows)
            scope.cancel()
            return False

        async with JobVenue(misfits, place, pods=pods, lease=6) as venue:
            await venue.play(terms(tmp_path / "run"), iter(wanted), take_one)
    assert scope.cancelled_caught
    on_cluster(_delete_pods, namespace=namespace)
    async with JobVenue(misfits, place, pods=dataclasses.replace(pods), lease=6) as venue:
        rows = await play(venue, terms(tmp_path / "run"), wanted)
    assert {key: row.status for key, row in rows.items()} == dict.fromkeys(("e1", "e2", "e3", "e4"), "completed")
    # What was played before is not played again
    assert [row.run_id for row in first] == [rows[row.key].run_id for row in first]
    await until(lambda: _nothing_left(namespace), seconds=60, what="nothing left on the cluster")


async def test_a_detached_run_of_images(misfits: Package, pods: JobPods, namespace: str, tmp_path: Path) -> None:
    """The cluster drives it, with an account that makes the episodes' Jobs; whoever attaches only follows."""
    place = "s3://arena/detached"
    with pytest.raises(Detached):
        async with JobVenue(misfits, place, pods=pods, detach=("well",)) as venue:
            await scrimmage(misfits, "well", episodes=3, workspace=tmp_path / "begun", venue=venue)
    report = await attend_run(place, tmp_path / "followed")
    assert report.plan.kind == "scrimmage"
    rows = list(read_rows(tmp_path / "followed"))
    assert [row.status for row in rows] == ["completed"] * 3
    assert all(EpisodeLayout(tmp_path / "followed" / row.workspace).replay.exists() for row in rows)
    await until(lambda: on_cluster(_only_a_driver, namespace=namespace), seconds=60, what="no pods of episodes left")
    on_cluster(_delete_jobs, namespace=namespace)
    await until(lambda: _nothing_left(namespace), seconds=60, what="nothing left on the cluster")


async def test_isolated_programs_have_pods_of_their_own(
    misfits: Package, pods: JobPods, namespace: str, tmp_path: Path
) -> None:
    run = terms(tmp_path / "run")
    # Pods know of a plan what a store may know, and the secrets of players
    wanted = [
        Wanted(
            index=index,
            key=f"e{index}",
            plan=plan_episode(misfits, players=players, variant="default", secret_env={"KEY": "told"}),
        )
        for index, players in enumerate((["tells", "steals"], ["well", "exits-3"]), start=1)
    ]
    async with JobVenue(misfits, "s3://arena/apart", pods=pods, isolated=True) as venue:
        venue.check(run)
        rows = await play(venue, run, wanted)
    assert {key: (row.status, row.party, row.fault_slot) for key, row in rows.items()} == {
        "e1": ("completed", None, None),
        "e2": ("failed", "player", 1),
    }
    layout = EpisodeLayout(run.workspace / rows["e1"].workspace)
    assert read_record(layout.record).backend == "kubernetes"
    said = [layout.player_log(slot).read_text() for slot in (0, 1)]
    assert "KEY" in said[0]
    assert not [word for word in ("AWS_", "COWORLD_TOKENS") if word in said[0]]
    assert said[1].splitlines()[1:] == ["LOOKED"]
    await until(lambda: _nothing_left(namespace), seconds=90, what="nothing left on the cluster")


async def test_isolated_pods_go_with_the_run_that_is_stopped(
    misfits: Package, pods: JobPods, namespace: str, tmp_path: Path
) -> None:
    place = "s3://arena/stopped"
    plan = misfit_plan("well", "well", "well", image=ensure_image(), play_seconds=300)
    plan = dataclasses.replace(plan, config_changes={}, variant="misfit")

    async def plays() -> bool:
        return len(on_cluster(_programs, namespace=namespace)) == 3

    with anyio.CancelScope() as scope:
        async with (
            JobVenue(misfits, place, pods=pods, isolated=True, lease=6) as venue,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(play, venue, terms(tmp_path / "run"), [Wanted(index=1, key="e1", plan=plan)])
            await until(plays, seconds=120, what="a game and two players")
            scope.cancel()
    stopped = await stop_jobs(place, cluster=pods.cluster)
    assert len(stopped.jobs) == 1
    await until(lambda: _nothing_left(namespace), seconds=120, what="nothing left on the cluster")


async def test_a_namespace_that_allows_no_root(misfits: Package, pods: JobPods, namespace: str, tmp_path: Path) -> None:
    run, told = terms(tmp_path / "run"), list[BaseEvent]()
    run = dataclasses.replace(run, publish=told.append)
    async with (
        restricted(namespace, tmp_path) as refused,
        JobVenue(misfits, "s3://arena/rootless", pods=pods) as venue,
    ):
        venue.check(run)
        rows = await play(venue, run, episodes(*[("well", "well", "well")] * 2))
    assert {row.status for row in rows.values()} == {"completed"}
    assert len(refused) == 1, "the cluster is asked once, and makes no pod that is refused"
    said = [event.message for event in told if isinstance(event, Notice)]
    assert said == [f"Namespace {namespace} allows no root: programs run as user 10001."]
    await until(lambda: _nothing_left(namespace), seconds=60, what="nothing left on the cluster")


async def test_a_driver_that_ends_between_a_job_and_its_secret(
    misfits: Package, pods: JobPods, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = Cluster.create

    async def ends(cluster: Cluster, kind: Any, body: Mapping[str, Any], **more: Any) -> Any:
        if kind == "secrets":
            raise KeyboardInterrupt
        return await create(cluster, kind, body, **more)

    place, wanted = "s3://arena/halves", episodes(("well", "well", "well"))
    with monkeypatch.context() as patched:
        patched.setattr(Cluster, "create", ends)
        # A killed process removes nothing
        patched.setattr(JobPods, "close", lambda *_, **__: anyio.lowlevel.checkpoint())
        with pytest.raises(KeyboardInterrupt), unwrapped():
            async with JobVenue(misfits, place, pods=pods, lease=2) as venue:
                await venue.play(terms(tmp_path / "run"), iter(wanted), lambda rows: False)
    assert pods._connection is not None
    await pods._connection.close()
    assert len(on_cluster(_jobs, namespace=namespace)) == 1
    async with JobVenue(misfits, place, pods=dataclasses.replace(pods), lease=2) as venue:
        rows = await play(venue, terms(tmp_path / "run"), wanted)
    assert [row.status for row in rows.values()] == ["completed"]
    await until(lambda: _nothing_left(namespace), seconds=60, what="nothing left on the cluster")


async def test_pods_without_their_account_say_so(
    misfits: Package, pods: JobPods, namespace: str, tmp_path: Path
) -> None:
    pods = dataclasses.replace(pods, account="nobody")
    async with JobVenue(misfits, "s3://arena/nobody", pods=pods, lease=2) as venue:
        with pytest.raises(EnvironmentFault, match=r"makes no pods .*nobody") as caught:
            await play(venue, terms(tmp_path / "run"), episodes(("well", "well", "well")))
    assert "docs/kubernetes/client" in str(caught.value.hint)
    await until(lambda: _nothing_left(namespace), seconds=60, what="nothing left on the cluster")


async def _delete_pods(cluster: Cluster) -> None:
    for pod in (await cluster.list("pods", "coworld.run"))["items"]:
        await cluster.delete("pods", pod["metadata"]["name"], grace=0)


async def _delete_jobs(cluster: Cluster) -> None:
    for job in (await cluster.list("jobs", "coworld.run"))["items"]:
        await cluster.delete("jobs", job["metadata"]["name"])


async def _programs(cluster: Cluster) -> list[str]:
    pods = (await cluster.list("pods", "coworld.component in (game,player)"))["items"]
    return [pod["metadata"]["name"] for pod in pods]


async def _jobs(cluster: Cluster) -> list[str]:
    return [job["metadata"]["name"] for job in (await cluster.list("jobs", "coworld.run"))["items"]]


async def _only_a_driver(cluster: Cluster) -> bool:
    jobs = (await cluster.list("jobs", "coworld.run"))["items"]
    return [job["metadata"]["labels"]["coworld.unit"] for job in jobs] == ["drives"]


async def _nothing_left(namespace: str) -> bool:
    return not on_cluster(left, namespace=namespace)
