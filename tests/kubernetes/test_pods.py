"""Pods with what an operator says of them, and in a namespace that allows no root."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from support.arena import Arena
from support.certificates import Authority
from support.cluster_workers import WorkerJobs, misfit_request
from support.fake_server import Ask, Say, json_say, serve
from support.kube import backend_for, labelled, on_cluster, small_pods
from support.misfit_kit import ensure_image
from support.pod_standards import restricted_problems
from support.waiting import until

from coworld_core.episode.events import BaseEvent, Notice
from coworld_runner.backends.kubernetes._cluster import Cluster, ClusterRefused
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


@asynccontextmanager
async def restricted(namespace: str, directory: Path) -> AsyncGenerator[list[str]]:
    """Have a namespace enforce the restricted standard, and yield the names of the pods that it has refused.

    The label does so on servers from 1.23 on. For older ones, a webhook of ours refuses what breaks the same rules, in
    the same words.
    """
    refused: list[str] = []

    async def review(ask: Ask) -> Say:
        await ask.read()
        request = ask.json["request"]
        pod, answer = request["object"], {"uid": request["uid"], "allowed": True}
        if problems := list(restricted_problems(pod)):
            refused.append(pod["metadata"]["name"])
            words = (
                f'pods "{refused[-1]}" is forbidden: violates PodSecurity "restricted:latest": {", ".join(problems)}'
            )
            answer |= {"allowed": False, "status": {"code": 403, "reason": "Forbidden", "message": words}}
        return json_say({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer})

    authority = Authority(directory)
    labels = {"pod-security.kubernetes.io/enforce": "restricted", "coworld-test": namespace}
    hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    async with serve(review, tls=authority.server("127.0.0.1")) as server:
        hook = {
            "name": "restricted.coworld.test",
            "clientConfig": {
                "url": f"{server.url}/",
                "caBundle": base64.b64encode(authority.file.read_bytes()).decode(),
            },
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "namespaceSelector": {"matchLabels": {"coworld-test": namespace}},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Ignore",
        }

        async def add(cluster: Cluster) -> None:
            await cluster.call("POST", hooks, body={"metadata": {"name": namespace}, "webhooks": [hook]})
            await label(cluster, labels)

        async def remove(cluster: Cluster) -> None:
            await cluster.call("DELETE", f"{hooks}/{namespace}")
            await label(cluster, dict.fromkeys(labels))

        async def label(cluster: Cluster, labels: Mapping[str, str | None]) -> None:
            await cluster.call(
                "PATCH",
                f"/api/v1/namespaces/{namespace}",
                body={"metadata": {"labels": labels}},
                content_type="application/merge-patch+json",
            )

        async def refuses() -> bool:
            pod = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "probe", "image": "none"}]}}

            async def ask(cluster: Cluster) -> None:
                with contextlib.suppress(ClusterRefused):
                    await cluster.call("POST", cluster.path("pods"), query={"dryRun": "All"}, body=pod)

            await anyio.to_thread.run_sync(partial(on_cluster, ask, namespace=namespace))
            return bool(refused)

        await anyio.to_thread.run_sync(on_cluster, add)
        try:
            # The server learns of a webhook a moment after it was made
            await until(refuses, what="a namespace that refuses root")
            refused.clear()
            yield refused
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(on_cluster, remove)


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
