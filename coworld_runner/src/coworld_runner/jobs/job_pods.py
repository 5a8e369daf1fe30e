"""The pods that play a run: a Job of a cluster, whose pods take the next chunk until there is none; another can drive.

The Job is a work queue as Kubernetes knows it: so many pods at a time, as long as none has ended well. The cluster's
queue, if it has one, admits them by the labels of their template. Each pod has two containers: the courier has the
store's credentials, and the player, in which the code of players runs, has nothing but the files of a chunk.

Where game and players are images, each chunk is one episode, and has a Job of its own (`episode_job`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from coworld_core import time_limits
from coworld_core.episode.events import Notice
from coworld_core.errors import EnvironmentFault, UsageError
from coworld_core.hints import Hint

from ..backend import Publish
from ..backends.engine import RUN, UNIT
from ..backends.kubernetes._cluster import Cluster, ClusterRefused
from ..backends.kubernetes._object_parts import (
    UNDISTURBED,
    concealed_variable,
    concealing,
    container,
    default_worker_image,
    field_variables,
    literal,
    pod_spec,
    secret,
    thing,
    token_mount,
    token_volume,
)
from ..backends.kubernetes._pod_objects import MANAGED, label, object_name, owner_reference, run_selector
from ..backends.kubernetes._pod_state import is_over, start_trouble, unschedulable
from ..backends.kubernetes.pod_overlay import PodOverlay
from ..backends.registry import ClusterOptions
from ..episode.episode_options import EpisodeOptions
from ..episode.parallelism import Parallel
from ..package.plan import EpisodePlan
from .courier import ATTEMPTS
from .episode_job import episode_containers, episode_mounts, episode_secrets, episode_volumes
from .job_store import JobStore, store_environment
from .own_pod import TOKENS

__all__ = ["STORE", "JobPods", "make_driver", "make_episode_job", "make_job"]

STORE = "coworld.store"
"""The annotation of a Job that says from which store it plays."""
_PLAYS, _DRIVES = "plays", "drives"
"""What the Jobs of a run do, in their labels."""
_PROGRAM = ("python", "-m", "coworld_runner.jobs")
_FOLDER = "/coworld"
_USER = 65534
_RETRIES = 50
"""Pods that may fail before the Job does: evicted ones count, too."""
_FAILURES = 3
"""Pods that may fail before anything is played: what ails all of them does not go away by itself."""
_COURIER = {"cpu": "50m", "memory": "128Mi"}
_MOUNTS = ({"name": "shared", "mountPath": _FOLDER}, {"name": "tmp", "mountPath": "/tmp"})  # noqa: S108 - its own
_VOLUMES: tuple[dict[str, Any], ...] = ({"name": "shared", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}})
_TOKEN = "coworld-token"  # noqa: S105 - the name of a volume
_TOLD = "COWORLD_JOB_PODS"
"""The variable that tells a driver on the cluster what pods to make."""
_NEVER_MADE = re.compile(r"serviceaccount .*not found|violates PodSecurity")
"""What no waiting helps against, in the words of the cluster."""
_PREPARED = (
    "docs/kubernetes/client.yaml has the accounts that pods need; the section worker of a pods file names users."
)
_CHUNK = "coworld.chunk"
"""The label of a Job of its own for a chunk."""
_AROUND_SECONDS = 900
"""Seconds that a pod may take for images, evidence and the like, beside the episode."""


@dataclass(kw_only=True)
class JobPods:
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
    _connection: Cluster | None = field(default=None, init=False, repr=False)
    _run_id: str = field(default="", init=False)
    _programs: bool = field(default=False, init=False)
    _told: str = field(default="", init=False)
    _is_driver: bool = field(default=False, init=False)
    """Whether this process is in a pod of the Job that drives."""

    @classmethod
    def of(cls, *, image: str | None, count: Parallel | None, cluster: ClusterOptions) -> JobPods:
        """Pods with these options; None, and `auto`, stand for the usual ones."""
        usual = cls(cluster=cluster)
        return replace(usual, image=image or usual.image, count=count if isinstance(count, int) else usual.count)

    @classmethod
    def told(cls, environ: Mapping[str, str]) -> JobPods | None:
        """The pods that a driver on the cluster was told to make; None: it makes none.

        Raises:
            UsageError: Its environment is not as it was made.
        """
        if (text := environ.get(_TOLD)) is None:
            return None
        try:
            said: dict[str, Any] = json.loads(text)
            where: dict[str, Any] = {**said.pop("cluster"), "namespace": environ["POD_NAMESPACE"]}
            where["pull_secrets"] = tuple(where["pull_secrets"])
            pods = cls(**said, cluster=ClusterOptions(**where))
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{_TOLD} does not say what pods to make: {error}", code="environment_invalid") from error
        pods._is_driver = True
        return pods

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
            "pods": self.overlay.templates or None,
            "allow_privileged": where.allow_privileged,
        }
        return json.dumps({**said, "cluster": cluster})

    async def start(self, run_id: str, store: JobStore, *, programs: bool = False) -> None:
        """Create the Job that plays, unless that of this run still runs.

        Args:
            run_id: The label of the run.
            store: Its store.
            programs: Whether each episode has a Job of its own (`play_episode`) instead.

        Raises:
            BackendUnavailable: The cluster cannot be used.
        """
        self._run_id, self._programs = run_id, programs
        await self._connect()
        if programs:
            return
        await self._create(_PLAYS, lambda name, handed: make_job(self, name, run_id, store.url, handed))

    async def drive(self, run_id: str, store: JobStore) -> None:
        """Create the Job that drives, unless that of this run still runs, which has been started.

        Raises:
            BackendUnavailable: The cluster cannot be used.
        """
        programs = self._programs
        await self._create(
            _DRIVES, lambda name, handed: make_driver(self, name, run_id, store.url, handed, programs=programs)
        )

    async def play_episode(self, store: JobStore, chunk: int, plan: EpisodePlan, options: EpisodeOptions) -> None:
        """Create the Job that plays the only episode of a chunk, unless one still runs.

        Args:
            store: The store of the run.
            chunk: The number of the chunk.
            plan: The episode.
            options: How it is played.

        Raises:
            BackendUnavailable: The cluster cannot be used.
            EnvironmentFault: So many Jobs have ended without it that it is given up (`pods_died`).
        """
        run_id = self._run_id
        jobs = await self._jobs(_PLAYS, chunk)
        if any(not _ended(job) for job in jobs):
            return
        if len(jobs) >= ATTEMPTS:
            why = await self._last_words(chunk)
            raise EnvironmentFault(
                f"The pods of episode {chunk} of {run_id} ended {len(jobs)} times without it: {why}",
                code="pods_died",
                hint=_check_image(self.image),
            )
        tokens = plan.new_tokens()
        await self._make(
            object_name(run_id, "episode", str(chunk), str(len(jobs) + 1)),
            lambda name, handed: make_episode_job(self, name, run_id, store.url, chunk, plan, options, handed),
            episode_secrets(plan, tokens),
        )

    async def clear_episode(self, chunk: int) -> None:
        """Remove the Jobs of a chunk that has been played, and whatever of them still runs."""
        assert self._connection is not None
        for job in await self._jobs(_PLAYS, chunk):
            await self._connection.delete("jobs", job["metadata"]["name"])

    async def _create(self, what: str, make: Callable[[str, Sequence[str]], Mapping[str, Any]]) -> None:
        jobs = await self._jobs(what)
        if any(not _ended(job) for job in jobs):
            return
        await self._make(object_name(self._run_id, what, str(len(jobs) + 1)), make)

    async def _connect(self) -> None:
        if self._connection is None:
            where = self.cluster
            self._connection = await Cluster.connect(
                context=where.context, namespace=where.namespace, kubeconfig=where.kubeconfig
            )

    async def _make(
        self,
        name: str,
        make: Callable[[str, Sequence[str]], Mapping[str, Any]],
        more: Mapping[str, bytes] | None = None,
    ) -> None:
        """Create a Job, and the Secret of its name with what its pods alone may know."""
        assert self._connection is not None
        handed = store_environment(os.environ) if self.store_secret is None else {}
        job = await self._connection.create("jobs", make(name, tuple(handed)))
        if handed or more:
            metadata = {"name": name, "labels": _labels(self._run_id), "ownerReferences": [owner_reference(job)]}
            await self._connection.create("secrets", secret(metadata, {**concealing(handed.values()), **(more or {})}))

    async def _jobs(self, what: str = "", chunk: int | None = None) -> Sequence[Mapping[str, Any]]:
        """The Jobs of the run: those that play, or drive, or all; or those of one chunk alone."""
        assert self._connection is not None
        selector = run_selector(self._run_id) + (f",{UNIT}={what}" if what else "")
        selector += f",{_CHUNK}={chunk}" if chunk is not None else ""
        return (await self._connection.list("jobs", selector))["items"]

    async def trouble(self, publish: Publish, *, played: bool) -> str:
        """Why pods do not play, in the cluster's words; empty if they do.

        Args:
            publish: Publishes what is new.
            played: Whether pods of the run have played anything.

        Raises:
            EnvironmentFault: The Job has failed, or no pod of it can start.
        """
        assert self._connection is not None
        playing = f"{run_selector(self._run_id)},{UNIT}={_PLAYS}"
        pods = (await self._connection.list("pods", playing))["items"]
        living = [pod for pod in pods if not is_over(pod)]
        lasting = [found for pod in living if (found := start_trouble(pod, _program_of(pod))) is not None]
        if lasting and len(lasting) == len(living):
            raise EnvironmentFault(
                f"The pods of {self._run_id} do not start: {lasting[0].message}",
                code=lasting[0].code,
                hint=_check_image(self.image),
            )
        jobs = await self._jobs(_PLAYS)
        if not self._programs and all(_ended(job) for job in jobs):
            why = next((_why_failed(job) for job in jobs if _why_failed(job)), "it is not there any more")
            raise EnvironmentFault(
                f"The Job of {self._run_id} has ended: {why}.",
                code="job_ended",
                hint="Run the same command again to go on.",
            )
        failed = [pod for pod in pods if pod["status"].get("phase") == "Failed"]
        why = _why_ended(failed[-1]) if failed else ""
        if failed and not played and len(failed) >= _FAILURES:
            raise EnvironmentFault(
                f"The pods of {self._run_id} end before they have played anything: {why}",
                code="pods_died",
                hint=_check_image(self.image),
            )
        held = next((why for pod in pods if (why := unschedulable(pod))), "")
        if not pods and jobs and (refused := await self._refused(jobs[-1])):
            if _NEVER_MADE.search(refused):
                raise EnvironmentFault(
                    f"The cluster makes no pods of {self._run_id}: {refused}", code="pods_refused", hint=_PREPARED
                )
            held = refused
        news = f"Pods wait for room on the cluster: {held}" if held else f"A pod has ended: {why}" if why else ""
        if news and news != self._told:
            publish(Notice(level="warning", message=news))
        self._told = news
        return news

    async def _last_words(self, chunk: int) -> str:
        """Why the last pod of a chunk ended, as far as it is known."""
        assert self._connection is not None
        selector = f"{run_selector(self._run_id)},{_CHUNK}={chunk}"
        pods = (await self._connection.list("pods", selector))["items"]
        return _why_ended(pods[-1]) if pods else "there are no pods"

    async def _refused(self, job: Mapping[str, Any]) -> str:
        """Why the cluster makes no pods of a Job, such as a quota, as far as its events may be read."""
        assert self._connection is not None
        query = {"fieldSelector": f"involvedObject.uid={job['metadata']['uid']},type=Warning"}
        try:
            found = await self._connection.call("GET", self._connection.path("events"), query=query)
        except ClusterRefused:
            return ""
        return str(found["items"][-1].get("message") or "") if found.get("items") else ""

    async def close(self, *, remove: bool) -> None:
        """Leave the cluster.

        Args:
            remove: Whether to remove the Job and its pods, too.
        """
        if self._connection is None:
            return
        try:
            if remove:
                # Our own Job ends by itself, once the report is in the store
                for job in await self._jobs(_PLAYS if self._is_driver else ""):
                    await self._connection.delete("jobs", job["metadata"]["name"])
        finally:
            await self._connection.close()
            self._connection = None


def _check_image(image: str) -> Hint:
    return Hint(
        "check_worker_image", "Check the image {image!r}, what pulls it, and whether pods reach the store.", image=image
    )


def make_job(pods: JobPods, name: str, run_id: str, url: str, handed: Sequence[str] = ()) -> dict[str, Any]:
    """The Job that plays, as JSON.

    Args:
        pods: Its pods.
        name: Its name, which is also that of the Secret with the variables that are handed.
        run_id: The run's label.
        url: The store.
        handed: Names of the variables that reach the store.
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
    spec = {"parallelism": pods.count, "backoffLimit": _RETRIES}
    return _job(pods, name, run_id, url, _PLAYS, spec, courier, player)


def make_driver(
    pods: JobPods, name: str, run_id: str, url: str, handed: Sequence[str] = (), *, programs: bool = False
) -> dict[str, Any]:
    """The Job that drives a run, as JSON; the arguments are as for `make_job`.

    Where each episode has a Job of its own (`programs`), it has an account that makes them.
    """
    words = ("drive", url, "--folder", _FOLDER, "--at-once", str(pods.count))
    mounts = (*_MOUNTS, token_mount(_TOKEN)) if programs else _MOUNTS
    driver = _reaching(pods, name, handed, "driver", words, mounts=mounts)
    if programs:
        told = {"name": _TOLD, "value": literal(pods.telling())}
        driver["env"] += [*field_variables(POD_NAMESPACE="metadata.namespace"), told]
    return _job(
        pods,
        name,
        run_id,
        url,
        _DRIVES,
        {"completions": 1, "backoffLimit": _RETRIES},
        driver,
        volumes=(*_VOLUMES, token_volume(_TOKEN)) if programs else _VOLUMES,
        account=pods.driver_account if programs else None,
    )


def make_episode_job(
    pods: JobPods,
    name: str,
    run_id: str,
    url: str,
    chunk: int,
    plan: EpisodePlan,
    options: EpisodeOptions,
    handed: Sequence[str] = (),
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
    """
    overlay = pods.overlay
    worker = _reaching(pods, name, handed, "worker", ("episode", url, str(chunk)), mounts=episode_mounts(plan))
    worker["env"] += [
        *field_variables(POD_NAMESPACE="metadata.namespace", POD_UID="metadata.uid"),
        {"name": "JOB_NAME", "value": name},
        concealed_variable(TOKENS, name, "tokens"),
    ]
    users = (overlay.user("game"), overlay.user("player"))
    containers = episode_containers(plan, worker, episode=name, secret=name, options=options, user=users)
    spec = {"backoffLimit": 0, "activeDeadlineSeconds": int(options.timeout_seconds) + _AROUND_SECONDS}
    job = _job(
        pods,
        name,
        run_id,
        url,
        _PLAYS,
        spec,
        *containers,
        volumes=episode_volumes(plan, name),
        security={"fsGroup": _USER},
        grace=5,
        account=pods.account,
        labels={_CHUNK: str(chunk)},
    )
    template = job["spec"]["template"]
    for container_of in containers:
        if (program := container_of["name"]) != "worker":
            section = "game" if program == "game" else "player"
            template = overlay.applied(section, template, program=program)
    return {**job, "spec": {**job["spec"], "template": template}}


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
    pods: JobPods,
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
    pods: JobPods,
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
    found = {**_labels(run_id), UNIT: what, **(labels or {})}
    pod = pod_spec(
        *containers,
        grace=grace,
        security=security or {"runAsNonRoot": True, "runAsUser": _USER, "fsGroup": _USER},
        volumes=list(volumes),
        serviceAccountName=account,
        imagePullSecrets=[{"name": one} for one in pods.cluster.pull_secrets],
    )
    made = {"metadata": {"labels": found, "annotations": dict(UNDISTURBED)}, "spec": pod}
    template = pods.overlay.applied("worker", made, program=_program_of(made))
    # A queue such as Kueue looks at the labels of the Job
    metadata = {"name": name, "labels": template["metadata"]["labels"], "annotations": {RUN: run_id, STORE: url}}
    return thing("Job", metadata, spec={**spec, "ttlSecondsAfterFinished": time_limits.JOB_KEPT, "template": template})


def _program_of(pod: Mapping[str, Any]) -> str:
    """The container of a pod by which it is judged: our own."""
    names = [one["name"] for one in pod["spec"]["containers"]]
    return next((name for name in ("worker", "driver") if name in names), "player")


def _labels(run_id: str) -> dict[str, str]:
    return {**MANAGED, RUN: label(run_id)}


def _conditions(job: Mapping[str, Any]) -> dict[str, str]:
    status: Mapping[str, Any] = job.get("status") or {}
    found: Sequence[Mapping[str, Any]] = status.get("conditions") or ()
    return {str(one["type"]): str(one.get("message") or "") for one in found if one.get("status") == "True"}


def _why_ended(pod: Mapping[str, Any]) -> str:
    """Which container of a pod has failed first, and its last words."""
    status: Mapping[str, Any] = pod["status"]
    entries: Sequence[Mapping[str, Any]] = status.get("containerStatuses") or ()
    ends = [(entry["name"], entry["state"]["terminated"]) for entry in entries if "terminated" in entry["state"]]
    failed = sorted((end for end in ends if end[1].get("exitCode")), key=lambda end: str(end[1].get("finishedAt")))
    if not failed:
        return f"{status.get('reason') or 'Failed'} {status.get('message') or ''}".strip()
    name, end = failed[0]
    said = str(end.get("message") or "").strip().splitlines()
    return f"its {name} with {end.get('reason')}, status {end['exitCode']}{f': {said[-1][:300]}' if said else ''}"


def _ended(job: Mapping[str, Any]) -> bool:
    return bool(job["metadata"].get("deletionTimestamp")) or not {"Complete", "Failed"}.isdisjoint(_conditions(job))


def _why_failed(job: Mapping[str, Any]) -> str:
    return _conditions(job).get("Failed", "")
