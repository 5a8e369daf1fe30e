"""The Jobs of a run as plain values: the one that plays, the one that drives, and those of episodes of images."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from coworld_core import time_limits

from ..backends.engine import RUN, UNIT, helper_image
from ..backends.kubernetes._object_parts import (
    UNDISTURBED,
    concealed_variable,
    container,
    default_worker_image,
    field_variables,
    literal,
    pod_spec,
    thing,
    token_mount,
    token_volume,
)
from ..backends.kubernetes._pod_objects import MANAGED, QUEUE, label
from ..backends.kubernetes.pod_overlay import PodOverlay
from ..backends.registry import ClusterOptions
from ..episode.episode_options import EpisodeOptions
from ..package.plan import EpisodePlan
from .episode_job import episode_containers, episode_mounts, episode_volumes
from .own_pod import SECRETS, TOKENS

__all__ = [
    "CHUNK",
    "DRIVES",
    "HOPELESS",
    "PLAYS",
    "STORE",
    "TOLD",
    "JobPodSettings",
    "make_driver",
    "make_episode_job",
    "make_job",
    "program_of",
    "run_labels_of",
]

STORE = "coworld.store"
"""The annotation of a Job that says from which store it plays."""
PLAYS, DRIVES = "plays", "drives"
"""What the Jobs of a run do, in their labels."""
_PROGRAM = ("python", "-m", "coworld_runner.jobs")
_FOLDER = "/coworld"
_USER = 65534
_RETRIES = 50
"""Pods that may fail before the Job does: evicted ones count, too, where the cluster cannot tell them from others."""
HOPELESS = 2
"""The exit status of `python -m coworld_runner.jobs` if the same again will end in the same way."""
_COURIER = {"cpu": "50m", "memory": "128Mi"}
_MOUNTS = ({"name": "shared", "mountPath": _FOLDER}, {"name": "tmp", "mountPath": "/tmp"})  # noqa: S108 - its own
_VOLUMES: tuple[dict[str, Any], ...] = ({"name": "shared", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}})
_TOKEN = "coworld-token"  # noqa: S105 - the name of a volume
TOLD = "COWORLD_JOB_PODS"
"""The variable that tells a driver on the cluster what pods to make."""
CHUNK = "coworld.chunk"
"""The label of a Job of its own for a chunk."""
_UID = "metadata.labels['controller-uid']"
"""The field of a pod with the uid of its Job."""
_GRACE_SECONDS = 5
"""How long the pod of an episode may take to end: what it has made goes with its Job."""
_AROUND_SECONDS = 900
"""Seconds that a pod may take for images, evidence and the like, beside the episode."""


@dataclass(kw_only=True)
class JobPodSettings:
    """Which pods play a run.

    Attributes:
        image: An image with `coworld-runner[jobs]` and whatever rules and players import.
        count: How many pods play at a time.
        cpu: Processors of each: as many worker processes play in it.
        memory: Memory of each.
        cluster: Which cluster, with which Secrets images are pulled, and what else is to be said of pods (`worker`).
        store_secret: A Secret of the namespace with the variables that reach the store; None: those that are set here.
        account: The account of pods that play images: it may watch pods and read their logs, and only our own container
            has its token.
        driver_account: The account of a pod that drives a run of images: it makes the Jobs of the episodes.
    """

    image: str = field(default_factory=default_worker_image)
    count: int = 4
    cpu: str = "1"
    memory: str = "1Gi"
    cluster: ClusterOptions = field(default_factory=ClusterOptions)
    store_secret: str | None = None
    account: str = "coworld-episode"
    driver_account: str = "coworld-client"

    @cached_property
    def overlay(self) -> PodOverlay:
        """What else is to be said of the pods.

        Raises:
            DocumentError: The pods file says something that cannot be said or is not allowed.
        """
        return PodOverlay.read(self.cluster.pods, allow_privileged=self.cluster.allow_privileged)

    def telling(self) -> str:
        """What `told` reads."""
        where = self.cluster
        said = {name: getattr(self, name) for name in ("image", "count", "cpu", "memory", "store_secret", "account")}
        cluster = {
            "pull_secrets": where.pull_secrets,
            "collector_image": where.collector_image or helper_image(),
            "network_policy": where.network_policy,
            "pods": self.overlay.templates or None,
            "allow_privileged": where.allow_privileged,
        }
        return json.dumps({**said, "cluster": cluster})


def make_job(
    pods: JobPodSettings, name: str, run_id: str, url: str, handed: Sequence[str] = (), *, judges: bool = False
) -> dict[str, Any]:
    """The Job that plays, as JSON.

    Args:
        pods: Its pods.
        name: Its name, which is also that of the Secret with the variables that are handed.
        run_id: The run's label.
        url: The store.
        handed: Names of the variables that reach the store.
        judges: Whether the cluster knows of policies for failed pods, as from Kubernetes 1.26 on.
    """
    resources = {"cpu": pods.cpu, "memory": pods.memory}
    player = container(
        "player",
        pods.image,
        argv=(*_PROGRAM, "play", "--folder", _FOLDER),
        requests=resources,
        limits=resources,
        **_settled(_MOUNTS),
    )
    courier = _reaching(pods, name, handed, "courier", ("carry", url, "--folder", _FOLDER), mounts=_MOUNTS[:1])
    spec = {"parallelism": pods.count, **_retried("courier", judges)}
    return _job(pods, name, run_id, url, PLAYS, spec, courier, player)


def make_driver(
    pods: JobPodSettings,
    name: str,
    run_id: str,
    url: str,
    handed: Sequence[str] = (),
    *,
    programs: bool = False,
    judges: bool = False,
) -> dict[str, Any]:
    """The Job that drives a run, as JSON; the arguments are as for `make_job`.

    Where each episode has a Job of its own (`programs`), it has an account that makes them.
    """
    words = ("drive", url, "--folder", _FOLDER, "--at-once", str(pods.count))
    mounts = (*_MOUNTS, token_mount(_TOKEN)) if programs else _MOUNTS
    driver = _reaching(pods, name, handed, "driver", words, mounts=mounts)
    if programs:
        driver["env"] += [*field_variables(POD_NAMESPACE="metadata.namespace"), _told(pods)]
    return _job(
        pods,
        name,
        run_id,
        url,
        DRIVES,
        {"completions": 1, **_retried("driver", judges)},
        driver,
        volumes=(*_VOLUMES, token_volume(_TOKEN)) if programs else _VOLUMES,
        account=pods.driver_account if programs else None,
    )


def make_episode_job(
    pods: JobPodSettings,
    name: str,
    run_id: str,
    url: str,
    chunk: int,
    plan: EpisodePlan,
    options: EpisodeOptions,
    handed: Sequence[str] = (),
    *,
    isolated: bool = False,
) -> dict[str, Any]:
    """The Job that plays an episode with images, as JSON.

    Args:
        pods: Its pods.
        name: Its name, which is also that of its Secret.
        run_id: The run's label.
        url: The store.
        chunk: The number of the chunk with the episode.
        plan: The episode.
        options: How it is played.
        handed: Names of the variables that reach the store.
        isolated: Whether game and players have pods of their own, which its only container makes.
    """
    overlay = pods.overlay
    mounts = (*_MOUNTS[1:], token_mount(_TOKEN)) if isolated else episode_mounts(plan)
    worker = _reaching(pods, name, handed, "worker", ("episode", url, str(chunk)), mounts=mounts)
    fields = {"POD_NAMESPACE": "metadata.namespace", "POD_UID": "metadata.uid", "JOB_UID": _UID}
    worker["env"] += [
        *field_variables(**fields),
        {"name": "JOB_NAME", "value": name},
        concealed_variable(TOKENS, name, "tokens"),
    ]
    within = int(options.timeout_seconds) + _AROUND_SECONDS
    if isolated:
        worker["env"] += [_told(pods), concealed_variable(SECRETS, name, "secrets")]
        return _unqueued(
            _job(
                pods,
                name,
                run_id,
                url,
                PLAYS,
                {"backoffLimit": 0, "activeDeadlineSeconds": within},
                worker,
                volumes=(*_VOLUMES[1:], token_volume(_TOKEN)),
                grace=_GRACE_SECONDS,
                account=pods.driver_account,
                labels={CHUNK: str(chunk)},
            )
        )
    users = (overlay.user("game"), overlay.user("player"))
    containers = episode_containers(plan, worker, episode=name, secret=name, options=options, user=users)
    spec = {"backoffLimit": 0, "activeDeadlineSeconds": within}
    job = _job(
        pods,
        name,
        run_id,
        url,
        PLAYS,
        spec,
        *containers,
        volumes=episode_volumes(plan, name),
        security={"fsGroup": _USER},
        grace=_GRACE_SECONDS,
        account=pods.account,
        labels={CHUNK: str(chunk)},
    )
    template = job["spec"]["template"]
    for container_of in containers:
        if (program := container_of["name"]) != "worker":
            section = "game" if program == "game" else "player"
            template = overlay.applied(section, template, program=program)
    return {**job, "spec": {**job["spec"], "template": template}}


def _retried(ours: str, judges: bool) -> dict[str, Any]:
    """How often pods may fail, by what has ended them.

    Args:
        ours: The container whose status tells that no further pod will do better.
        judges: Whether the cluster can tell.
    """
    ended = {"containerName": ours, "operator": "In", "values": [HOPELESS]}
    rules = [
        {"action": "FailJob", "onExitCodes": ended},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]
    return {"backoffLimit": _RETRIES, **({"podFailurePolicy": {"rules": rules}} if judges else {})}


def _settled(mounts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all containers of ours have in common."""
    return {
        "user": _USER,
        "security": {"readOnlyRootFilesystem": True},
        # Why it has ended is in the pod's status then
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": list(mounts),
    }


def _reaching(
    pods: JobPodSettings,
    secret_name: str,
    handed: Sequence[str],
    name: str,
    words: Sequence[str],
    *,
    mounts: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """A container that reaches the store."""
    return container(
        name,
        pods.image,
        argv=(*_PROGRAM, *words),
        concealed=handed,
        secret=secret_name,
        env=field_variables(POD_NAME="metadata.name"),
        requests=_COURIER,
        limits={"memory": "512Mi"},
        envFrom=[{"secretRef": {"name": pods.store_secret}}] if pods.store_secret else None,
        **_settled(mounts),
    )


def _job(
    pods: JobPodSettings,
    name: str,
    run_id: str,
    url: str,
    what: str,
    spec: Mapping[str, Any],
    *containers: Mapping[str, Any],
    volumes: Sequence[Mapping[str, Any]] = _VOLUMES,
    security: Mapping[str, Any] | None = None,
    grace: int = 10,
    account: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    found = {**run_labels_of(run_id), UNIT: what, **(labels or {})}
    pod = pod_spec(
        *containers,
        grace=grace,
        security=security or {"runAsNonRoot": True, "runAsUser": _USER, "fsGroup": _USER},
        volumes=list(volumes),
        serviceAccountName=account,
        imagePullSecrets=[{"name": one} for one in pods.cluster.pull_secrets],
    )
    made = {"metadata": {"labels": found, "annotations": dict(UNDISTURBED)}, "spec": pod}
    template = pods.overlay.applied("worker", made, program=program_of(made))
    # A queue such as Kueue looks at the labels of the Job
    metadata = {"name": name, "labels": template["metadata"]["labels"], "annotations": {RUN: run_id, STORE: url}}
    return thing("Job", metadata, spec={**spec, "ttlSecondsAfterFinished": time_limits.JOB_KEPT, "template": template})


def _told(pods: JobPodSettings) -> dict[str, Any]:
    return {"name": TOLD, "value": literal(pods.telling())}


def _unqueued(job: Mapping[str, Any]) -> dict[str, Any]:
    """A Job that no queue holds back: it would take the room that the pods that it makes wait for."""
    template = job["spec"]["template"]
    labels = {key: value for key, value in template["metadata"]["labels"].items() if key != QUEUE}
    template = {**template, "metadata": {**template["metadata"], "labels": labels}}
    return {**job, "metadata": {**job["metadata"], "labels": labels}, "spec": {**job["spec"], "template": template}}


def program_of(pod: Mapping[str, Any]) -> str:
    """The container of a pod by which it is judged: our own."""
    names = [one["name"] for one in pod["spec"]["containers"]]
    return next((name for name in ("worker", "driver") if name in names), "player")


def run_labels_of(run_id: str) -> dict[str, str]:
    """Labels of everything of a run."""
    return {**MANAGED, RUN: label(run_id)}
