"""Pods with what an operator says of them, and in a namespace that allows no root."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from support.arena import Arena
from support.cluster_workers import WorkerJobs, misfit_request
from support.kube import backend_for, labelled, on_cluster, small_pods
from support.misfit_kit import ensure_image
from support.restricted_namespace import restricted
from support.waiting import until

from coworld_core.episode.events import BaseEvent, Notice
from coworld_runner.backends.kubernetes._cluster import Cluster
from coworld_runner.backends.kubernetes.pod_overlay import PodOverlay
from coworld_runner.episode.single import EpisodeOptions

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]

PODS: dict[str, Any] = {
    "all": {
        "metadata": {"labels": {"team": "arena"}},
        "spec": {
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [{"key": "games", "operator": "Exists"}],
            "containers": [{"name": "program", "resources": {"requests": {"cpu": "12m"}}}],
        },
    },
    "player": {
        "metadata": {"annotations": {"example.org/cost-center": "42"}},
        "spec": {
            "volumes": [{"name": "cache", "emptyDir": {"sizeLimit": "1Mi"}}],
            "containers": [{"name": "program", "volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}],
        },
    },
}


async def pods_of(namespace: str, selector: str) -> Sequence[Mapping[str, Any]]:
    async def look(cluster: Cluster) -> Sequence[Mapping[str, Any]]:
        return (await cluster.list("pods", selector))["items"]

    return await anyio.to_thread.run_sync(partial(on_cluster, look, namespace=namespace))


def assert_overlaid(pod: Mapping[str, Any], program: str, *, player: bool) -> None:
    """Check that a pod is as the server keeps one with what `PODS` says."""
    metadata, spec = pod["metadata"], pod["spec"]
    assert metadata["labels"]["team"] == "arena"
    assert spec["nodeSelector"]["kubernetes.io/os"] == "linux"
    assert [entry["operator"] for entry in spec["tolerations"] if entry.get("key") == "games"] == ["Exists"]
    (main,) = (entry for entry in spec["containers"] if entry["name"] == program)
    assert main["resources"]["requests"]["cpu"] == "12m"
    assert (metadata["annotations"].get("example.org/cost-center") == "42") is player
    assert ("/cache" in [mount["mountPath"] for mount in main.get("volumeMounts", ())]) is player


async def test_pods_of_an_episode_carry_what_the_file_says(namespace: str, tmp_path: Path) -> None:
    pods = small_pods(overlay=PodOverlay.read(PODS))
    async with backend_for(namespace, pods=pods) as backend, anyio.create_task_group() as tasks:
        arena = Arena(backend, ensure_image(), tmp_path)

        async def play() -> None:
            found = await arena.play(arena.plan(play_seconds=15))
            assert found.record.ok, found.record.faults

        tasks.start_soon(play)
        made: Sequence[Mapping[str, Any]] = ()

        async def all_there() -> bool:
            nonlocal made
            made = await pods_of(namespace, "coworld.component in (game,player)")
            return len(made) == 3

        await until(all_there, seconds=120, what="a game and two players", every=0.2)
        for pod in made:
            assert_overlaid(pod, "main", player=pod["metadata"]["labels"]["coworld.component"] == "player")
    assert labelled(namespace) == []


async def test_a_queue_is_shown_all_pods_of_an_episode_before_any_starts(namespace: str, tmp_path: Path) -> None:
    """It admits them together, and no run has a part of what it needs; there is no queue here to hold them back."""
    queue = {"all": {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "arena"}}}}
    pods = small_pods(overlay=PodOverlay.read(queue))
    made: dict[str, Mapping[str, Any]] = {}
    async with backend_for(namespace, pods=pods) as backend, anyio.create_task_group() as tasks:
        arena = Arena(backend, ensure_image(), tmp_path)

        async def play() -> None:
            found = await arena.play(arena.plan(play_seconds=10), EpisodeOptions(timeout_seconds=200))
            assert found.record.ok, found.record.faults

        async def all_run() -> bool:
            listed = await pods_of(namespace, "coworld.component in (game,player)")
            made.update({pod["metadata"]["labels"]["coworld.unit"]: pod for pod in listed})
            return len(made) == 3 and all(pod["status"]["phase"] == "Running" for pod in made.values())

        tasks.start_soon(play)
        await until(all_run, seconds=120, what="a game and two players that run", every=0.2)
        assert {pod["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] for pod in made.values()} == {
            made["game"]["metadata"]["name"]
        }
        for pod in made.values():
            annotations = pod["metadata"]["annotations"]
            assert annotations["kueue.x-k8s.io/pod-group-total-count"] == "3"
            assert annotations["kueue.x-k8s.io/retriable-in-group"] == "false"
        ran = {
            (name, part["name"]): part["state"]["running"]["startedAt"]
            for name, pod in made.items()
            for part in pod["status"]["containerStatuses"]
        }
        game = ran.pop(("game", "main"))
        for name in made.keys() - {"game"}:
            assert made[name]["metadata"]["creationTimestamp"] <= game <= ran[name, "main"], ran
    assert labelled(namespace) == []


@pytest.mark.parametrize(
    "plan", [{"game": "exits-7-before-healthy"}, {"run": ("no-such-program",)}], ids=["ends", "none"]
)
async def test_a_group_whose_game_fails_leaves_nothing(namespace: str, tmp_path: Path, plan: dict[str, Any]) -> None:
    queue = {"all": {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "arena"}}}}
    async with backend_for(namespace, pods=small_pods(overlay=PodOverlay.read(queue))) as backend:
        arena = Arena(backend, ensure_image(), tmp_path)
        found = await arena.play(arena.plan(**plan), EpisodeOptions(timeout_seconds=120))
        assert [fault.party for fault in found.record.faults] == ["game"], found.record.faults
    assert labelled(namespace) == []


async def test_episode_in_a_namespace_that_allows_no_root(namespace: str, tmp_path: Path) -> None:
    told: list[BaseEvent] = []
    async with restricted(namespace, tmp_path) as refused, backend_for(namespace) as backend:
        arena = Arena(backend, ensure_image(), tmp_path)
        found = await arena.play(arena.plan(), EpisodeOptions(timeout_seconds=120), listeners=(told.append,))
        assert found.record.ok, found.record.faults
        assert refused, "the first pod is tried as its image wants it"
        notices = [event.message for event in told if isinstance(event, Notice) and "allows no root" in event.message]
        assert notices == [f"Namespace {namespace} allows no root: programs run as user 10001."]
    assert labelled(namespace) == []


@pytest.mark.docker
async def test_players_of_a_worker_carry_what_the_job_says_where_no_root_is_allowed(
    worker_jobs: WorkerJobs, tmp_path: Path
) -> None:
    async with restricted(worker_jobs.cluster.namespace, tmp_path) as refused:
        options = worker_jobs.options(2, pods=PODS, run_as_user=10001)
        job_id = await worker_jobs.submit(misfit_request("well", play_seconds=15), options)
        for pod in await worker_jobs.players(job_id, count=2):
            assert_overlaid(pod, "player", player=True)
            assert pod["spec"]["securityContext"]["runAsUser"] == 10001
        pod = await worker_jobs.pod(job_id)
        assert pod["metadata"]["labels"]["team"] == "arena"
        assert pod["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
        status = await worker_jobs.status(job_id)
        assert status == 0, await worker_jobs.log(job_id)
        assert all("player" in name for name in refused), refused
