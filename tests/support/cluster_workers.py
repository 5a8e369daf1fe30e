"""Runs workers on a real cluster: creates Jobs, follows their state, and receives their outputs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import anyio

from coworld_core.episode.request import JobSpec
from coworld_core.ids import new_run_id
from coworld_runner.backends.kubernetes._cluster import Cluster
from coworld_runner.worker.worker_job import JobOptions, make_worker_job, output_addresses

from .fake_server import site_in_thread
from .kube import on_cluster
from .misfit_kit import ensure_image, misfit_plan
from .put_server import PutServer
from .waiting import until
from .worker_image import ensure_worker_image

__all__ = [
    "MANIFESTS",
    "WorkerJobs",
    "accounts_have_tokens",
    "apply_manifests",
    "misfit_request",
    "open_worker_jobs",
    "prepared",
    "published_job",
]

MANIFESTS = Path(__file__).parents[2] / "docs" / "kubernetes"
T = TypeVar("T")
_PATIENCE = 200.0
"""Time limit in seconds for any wait on a cluster under load."""


def apply_manifests(namespace: str) -> None:
    """Apply the manifests of the documentation in a namespace."""
    subprocess.run(
        ["kubectl", "apply", "-n", namespace, "-k", str(MANIFESTS)], check=True, capture_output=True, timeout=_PATIENCE
    )
    on_cluster(accounts_have_tokens, namespace=namespace)


def prepared(namespace: str) -> None:
    """Apply what a person needs in a namespace, as `docs/kubernetes.md` says."""
    line = ["kubectl", "apply", "-n", namespace, "-k", str(MANIFESTS / "client")]
    subprocess.run(line, check=True, capture_output=True, timeout=_PATIENCE)
    on_cluster(accounts_have_tokens, namespace=namespace)


async def accounts_have_tokens(cluster: Cluster) -> None:
    """Wait until service accounts have tokens; before that, older clusters refuse pods that name them."""

    async def have() -> bool:
        found = await cluster.call("GET", f"/api/v1/namespaces/{cluster.namespace}/serviceaccounts")
        return all(entry.get("secrets") for entry in found["items"])

    await until(have, seconds=_PATIENCE, what="service accounts with tokens", every=0.1)


def node_address() -> str:
    """An address of the node, which is this machine, that is reachable from pods."""

    async def look(cluster: Cluster) -> str:
        node = (await cluster.call("GET", "/api/v1/nodes"))["items"][0]
        return next(entry["address"] for entry in node["status"]["addresses"] if entry["type"] == "InternalIP")

    return on_cluster(look)


def misfit_request(game: str, *players: Any, **config: Any) -> JobSpec:
    """A job spec with a misbehaving game or players."""
    plan = misfit_plan(game, *players, image=ensure_image(), **config)
    runnables = [seat.runnable for seat in plan.seats if seat.runnable is not None]
    return JobSpec(manifest=plan.manifest, game_config=dict(plan.game_config), players=tuple(runnables))


@dataclass
class WorkerJobs:
    """A namespace of a cluster, and a server that receives the outputs of workers there."""

    cluster: Cluster
    server: PutServer
    jobs: list[str] = field(default_factory=list[str])

    def options(self, slots: int, **more: Any) -> JobOptions:
        """Options of a Job that uploads all outputs to this server, below `/JOB`."""
        job_id = f"t{new_run_id()}"
        settings: dict[str, Any] = {
            "worker_image": ensure_worker_image(),
            "job_id": job_id,
            "deadline": 180,
            "outputs": output_addresses(f"{self.server.url}/{job_id}", slots),
            "pull_policy": "IfNotPresent",
            "player_cpu": "10m",
            "player_memory": "32Mi",
        }
        return JobOptions(**{**settings, **more})

    async def submit(self, request: JobSpec, options: JobOptions, *, grace: int | None = None, **variables: str) -> str:
        """Create a Job; returns its id.

        `variables` are the worker's; `grace` is the number of seconds between SIGTERM and SIGKILL.
        """
        job = small(make_worker_job(request, options), **variables)
        if grace is not None:
            job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = grace
        return await self.apply(job)

    async def apply(self, job: Mapping[str, Any]) -> str:
        """Create a Job without changes; returns its id."""
        await self.cluster.create("jobs", job)
        self.jobs.append(job["metadata"]["labels"]["job-id"])
        return self.jobs[-1]

    async def until(self, condition: Callable[[], Awaitable[T | None]]) -> T:
        """Wait until a condition returns a true value, and return it; fails after a generous time limit."""
        return await until(condition, seconds=_PATIENCE, every=0.1)

    async def pod(self, job_id: str) -> Mapping[str, Any]:
        """Wait for the Job's pod and return it."""

        async def look() -> Sequence[Mapping[str, Any]]:
            return (await self.cluster.list("pods", f"job-id={job_id}"))["items"]

        return (await self.until(look))[0]

    async def status(self, job_id: str, container: str = "worker") -> int:
        """Wait for a container of the Job's pod to end, and return its status."""

        async def look() -> tuple[int] | None:
            pod = await self.pod(job_id)
            if (ended := self._ended(pod, container)) is not None:
                return (ended,)
            status: dict[str, list[dict[str, Any]]] = pod.get("status") or {}
            for entry in status.get("initContainerStatuses") or ():
                ended = entry["state"].get("terminated")
                assert not ended or ended["exitCode"] == 0, await self.log(job_id, entry["name"])
            return None

        (status,) = await self.until(look)
        return status

    async def players(self, job_id: str, *, count: int, phase: str | None = None) -> Sequence[Mapping[str, Any]]:
        """Wait until `count` player pods exist, all in `phase`; fails at once if the worker has ended."""

        async def look() -> tuple[Sequence[Mapping[str, Any]]] | None:
            items = await self._players(job_id)
            if len(items) == count and all(phase in (None, item["status"].get("phase")) for item in items):
                return (items,)
            assert self._ended(await self.pod(job_id), "worker") is None, await self.describe_job(job_id)
            return None

        (items,) = await self.until(look)
        return items

    async def _players(self, job_id: str) -> Sequence[Mapping[str, Any]]:
        return (await self.cluster.list("pods", f"coworld-job-id={job_id},coworld-component=player"))["items"]

    @staticmethod
    def _ended(pod: Mapping[str, Any], container: str) -> int | None:
        """The exit status of a container of a pod; None if it has not ended."""
        status: dict[str, list[dict[str, Any]]] = pod.get("status") or {}
        for entry in status.get("containerStatuses") or ():
            if entry["name"] == container and "terminated" in entry["state"]:
                return int(entry["state"]["terminated"]["exitCode"])
        return None

    async def describe_job(self, job_id: str) -> str:
        """Logs, states and outputs of a Job, for the message of a failed test."""
        parts = [f"worker:\n{await self.log(job_id)}"]
        for pod in await self._players(job_id):
            parts.append(f"{pod['metadata']['name']}: {json.dumps(pod['status'])}")
        for name, body in sorted(self.kept(job_id).items()):
            if name.endswith((".log", ".json")):
                parts.append(f"{name}:\n{body.decode(errors='replace')}")
        return "\n".join(parts)

    async def log(self, job_id: str, container: str = "worker") -> str:
        """The log of a container of the Job's pod."""
        pod = (await self.pod(job_id))["metadata"]["name"]
        return str(
            await self.cluster.call("GET", self.cluster.path("pods", pod, "log"), query={"container": container})
        )

    async def left(self, job_id: str) -> list[str]:
        """Descriptions of the objects that the worker has not removed."""
        found: list[str] = []
        for kind in ("pods", "services", "secrets"):
            listing = await self.cluster.list(kind, f"coworld-job-id={job_id}")  # type: ignore[arg-type]
            found += [
                f"{kind[:-1]} {item['metadata']['name']}"
                for item in listing["items"]
                # Already being deleted: the object is gone once its program has ended.
                if not item["metadata"].get("deletionTimestamp")
            ]
        return found

    def kept(self, job_id: str) -> dict[str, bytes]:
        """The uploaded outputs of a Job, by name."""
        prefix = f"/{job_id}/"
        return {path.removeprefix(prefix): body for path, body in self.server.kept().items() if path.startswith(prefix)}

    def error_info(self, job_id: str) -> dict[str, Any]:
        """The error that a Job reports."""
        return json.loads(self.kept(job_id)["error_info.json"])


def published_job(
    job_id: str, image: str, urls: Mapping[str, str], namespace: str, *, claim: str | None = None
) -> dict[str, Any]:
    """A Job as the published platform writes it: the worker's module by name, inputs and outputs in its environment.

    If `claim` names a persistent volume claim, it is mounted at `/claim` for the worker.
    """
    worker = ensure_worker_image()
    module = ["python", "-m", "coworld.runner.kubernetes_runner"]
    mounts = [{"name": "coworld-workdir", "mountPath": "/coworld"}]
    volumes: list[dict[str, Any]] = [{"name": "coworld-workdir", "emptyDir": {}}]
    claimed: list[dict[str, Any]] = []
    if claim is not None:
        claimed = [{"name": "claim", "mountPath": "/claim"}]
        volumes.append({"name": "claim", "persistentVolumeClaim": {"claimName": claim}})

    def env(**values: str) -> list[dict[str, Any]]:
        return [{"name": name, "value": value} for name, value in values.items()]

    labels = {"job-id": job_id, "coworld-component": "game"}
    fields = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in (("POD_NAME", "metadata.name"), ("POD_UID", "metadata.uid"))
    ]
    small = {"requests": {"cpu": "10m", "memory": "32Mi"}}
    init = {
        "name": "coworld-init-config",
        "image": worker,
        "command": module,
        "args": ["init-config"],
        "env": env(
            JOB_SPEC_URI=urls["JOB_SPEC_URI"],
            COWORLD_WORKDIR="/coworld",
            COGAME_CONFIG_URI="file:///coworld/config.json",
        ),
        "volumeMounts": [*mounts, *claimed],
        "resources": small,
    }
    game = {
        "name": "game",
        "image": image,
        "command": ["python3"],
        "args": ["game.py"],
        "env": env(
            COGAME_HOST="0.0.0.0",
            COGAME_PORT="8080",
            COGAME_CONFIG_URI="file:///coworld/config.json",
            COGAME_RESULTS_URI="file:///coworld/results.json",
            COGAME_SAVE_REPLAY_URI="file:///coworld/replay",
        ),
        "ports": [{"containerPort": 8080}],
        "livenessProbe": {"tcpSocket": {"port": 9090}, "periodSeconds": 5, "initialDelaySeconds": 10},
        "volumeMounts": mounts,
        "resources": small,
    }
    run = {
        "name": "worker",
        "image": worker,
        "command": module,
        "args": ["run"],
        "env": [
            *env(
                COWORLD_WORKDIR="/coworld",
                COGAME_PORT="8080",
                COWORLD_WORKER_HEALTH_PORT="9090",
                JOB_ID=job_id,
                JOB_NAME=f"coworld-{job_id}",
                JOB_NAMESPACE=namespace,
                COWORLD_SERVICE_NAME=f"coworld-{job_id}",
                COWORLD_TIMEOUT_SECONDS="1200",
                COWORLD_PLAYER_CPU_REQUEST="10m",
                COWORLD_PLAYER_MEMORY_REQUEST="32Mi",
                COWORLD_PLAYER_IMAGE_PULL_POLICY="IfNotPresent",
                BEDROCK_REQUEST_METADATA='{"team": "red"}',
                **urls,
            ),
            *fields,
        ],
        "volumeMounts": [*mounts, *claimed],
        "resources": small,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"coworld-{job_id}", "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": 180,
            "ttlSecondsAfterFinished": 600,
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "restartPolicy": "Never",
                    "serviceAccountName": "coworld-worker",
                    "automountServiceAccountToken": True,
                    "initContainers": [init],
                    "containers": [game, run],
                    "volumes": volumes,
                },
            },
        },
    }


def small(job: Mapping[str, Any], **variables: str) -> dict[str, Any]:
    """A copy of a Job with requests that fit a small machine, and with further variables for the worker."""
    made = json.loads(json.dumps(job))
    pod = made["spec"]["template"]["spec"]
    for container in (*pod["initContainers"], *pod["containers"]):
        container["resources"]["requests"] = {"cpu": "10m", "memory": "32Mi"}
        if container["name"] == "worker":
            names = set(variables)
            container["env"] = [entry for entry in container["env"] if entry["name"] not in names]
            container["env"] += [{"name": name, "value": value} for name, value in variables.items()]
    return made


@asynccontextmanager
async def open_worker_jobs(namespace: str) -> AsyncGenerator[WorkerJobs]:
    """Run Jobs in a namespace; its Jobs are removed at the end."""
    with site_in_thread(PutServer(), host=await anyio.to_thread.run_sync(node_address)) as server:
        cluster = await Cluster.connect(namespace=namespace)
        worker_jobs = WorkerJobs(cluster, server)
        try:
            yield worker_jobs
        finally:
            with anyio.CancelScope(shield=True):
                for job in worker_jobs.jobs:
                    await cluster.delete("jobs", f"coworld-{job}")
                await cluster.close()
