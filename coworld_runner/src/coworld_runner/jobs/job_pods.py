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
from typing import Any

from coworld_core.episode.events import Notice
from coworld_core.errors import EnvironmentFault, UsageError
from coworld_core.hints import Hint

from ..backend import Publish
from ..backends.engine import UNIT
from ..backends.kubernetes._admission import is_restricted
from ..backends.kubernetes._cluster import Cluster, ClusterRefused
from ..backends.kubernetes._object_parts import (
    concealing,
    secret,
    thing,
)
from ..backends.kubernetes._pod_objects import object_name, owner_reference, run_selector
from ..backends.kubernetes._pod_state import is_over, start_trouble, unschedulable
from ..backends.kubernetes.pod_overlay import RESTRICTED_USER, allows_no_root, as_user
from ..backends.registry import ClusterOptions
from ..episode.episode_options import EpisodeOptions
from ..episode.parallelism import Parallel
from ..package.plan import EpisodePlan
from .courier import ATTEMPTS
from .episode_job import episode_secrets
from .job_objects import (
    CHUNK,
    DRIVES,
    PLAYS,
    TOLD,
    JobPodSettings,
    make_driver,
    make_episode_job,
    make_job,
    program_of,
    run_labels_of,
)
from .job_store import JobStore, store_environment

__all__ = ["JobPods"]

_FAILURES = 3
"""Pods that may fail before anything is played: what ails all of them does not go away by itself."""
_NEVER_MADE = re.compile(r"serviceaccount .*not found|violates PodSecurity")
"""What no waiting helps against, in the words of the cluster."""
_PREPARED = "docs/kubernetes/client has the accounts that pods need; the section worker of a pods file names users."


@dataclass(kw_only=True)
class JobPods(JobPodSettings):
    """The pods that play a run; the attributes are those of `JobPodSettings`."""

    _connection: Cluster | None = field(default=None, init=False, repr=False)
    _run_id: str = field(default="", init=False)
    _programs: bool = field(default=False, init=False)
    _told: str = field(default="", init=False)
    _is_driver: bool = field(default=False, init=False)
    """Whether this process is in a pod of the Job that drives."""
    _tried: bool = field(default=False, init=False)
    """Whether the namespace was asked if it takes pods of images' own users."""
    _whole: set[str] = field(default_factory=set[str], init=False)
    """The names of Jobs whose Secrets are known to be there."""

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
        if (text := environ.get(TOLD)) is None:
            return None
        try:
            said: dict[str, Any] = json.loads(text)
            where: dict[str, Any] = {**said.pop("cluster"), "namespace": environ["POD_NAMESPACE"]}
            where["pull_secrets"] = tuple(where["pull_secrets"])
            pods = cls(**said, cluster=ClusterOptions(**where))
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{TOLD} does not say what pods to make: {error}", code="environment_invalid") from error
        pods._is_driver = True
        return pods

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
        await self._create(
            PLAYS, lambda name, handed: make_job(self, name, run_id, store.url, handed, judges=self._judges)
        )

    async def drive(self, run_id: str, store: JobStore) -> None:
        """Create the Job that drives, unless that of this run still runs, which has been started.

        Raises:
            BackendUnavailable: The cluster cannot be used.
        """
        programs = self._programs
        await self._create(
            DRIVES,
            lambda name, handed: make_driver(
                self, name, run_id, store.url, handed, programs=programs, judges=self._judges
            ),
        )

    @property
    def _judges(self) -> bool:
        """Whether the cluster tells one end of a pod from another."""
        assert self._connection is not None
        return self._connection.is_at_least(1, 26)

    async def play_episode(
        self,
        store: JobStore,
        chunk: int,
        plan: EpisodePlan,
        options: EpisodeOptions,
        publish: Publish,
        *,
        isolated: bool = False,
    ) -> None:
        """Create the Job that plays the only episode of a chunk, unless one still runs.

        Args:
            store: The store of the run.
            chunk: The number of the chunk.
            plan: The episode.
            options: How it is played.
            publish: Says that the programs run as another user than their images', since the namespace allows no root.
            isolated: Whether game and players have pods of their own.

        Raises:
            BackendUnavailable: The cluster cannot be used.
            EnvironmentFault: So many Jobs have ended without it that it is given up (`pods_died`).
        """
        assert self._connection is not None
        run_id = self._run_id
        jobs = await self._whole_jobs(PLAYS, chunk)
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

        def make(name: str, handed: Sequence[str]) -> dict[str, Any]:
            return make_episode_job(self, name, run_id, store.url, chunk, plan, options, handed, isolated=isolated)

        if isolated:
            for job in jobs:
                # What a lost pod has made would go only with its Job
                await self._connection.delete("jobs", object_name(job["metadata"]["name"]))
        name = object_name(run_id, "episode", str(chunk), str(len(jobs) + 1))
        await self._meet_standard(make(name, ()), publish)
        await self._make(name, make, episode_secrets(plan, tokens))

    async def _meet_standard(self, job: Mapping[str, Any], publish: Publish) -> None:
        """Have programs run as a user of ours if the namespace refuses those of their images; nothing is made."""
        assert self._connection is not None
        if self._tried:
            return
        # The Job's controller makes the pods, and would be refused again and again
        template = job["spec"]["template"]
        pod = thing("Pod", {**template["metadata"], "name": job["metadata"]["name"]}, spec=template["spec"])
        try:
            await self._connection.call("POST", self._connection.path("pods"), query={"dryRun": "All"}, body=pod)
        except ClusterRefused as error:
            if is_restricted(error):
                self.overlay = self.overlay.over(as_user(RESTRICTED_USER))
                publish(Notice(message=allows_no_root(self._connection.namespace)))
        self._tried = True

    async def clear_episode(self, chunk: int) -> None:
        """Remove the Jobs of a chunk that has been played, and whatever of them still runs."""
        assert self._connection is not None
        for job in await self._jobs(PLAYS, chunk):
            await self._connection.delete("jobs", job["metadata"]["name"])

    async def _create(self, what: str, make: Callable[[str, Sequence[str]], Mapping[str, Any]]) -> None:
        jobs = await self._whole_jobs(what)
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
        """Create a Job, and the Secret of its name, which goes with it, with what its pods alone may know."""
        assert self._connection is not None
        handed = store_environment(os.environ) if self.store_secret is None else {}
        job = await self._connection.create("jobs", make(name, tuple(handed)))
        if handed or more:
            metadata = {"name": name, "labels": run_labels_of(self._run_id), "ownerReferences": [owner_reference(job)]}
            await self._connection.create("secrets", secret(metadata, {**concealing(handed.values()), **(more or {})}))
        self._whole.add(name)

    async def _jobs(self, what: str = "", chunk: int | None = None) -> Sequence[Mapping[str, Any]]:
        """The Jobs of the run: those that play, or drive, or all; or those of one chunk alone."""
        assert self._connection is not None
        selector = run_selector(self._run_id) + (f",{UNIT}={what}" if what else "")
        selector += f",{CHUNK}={chunk}" if chunk is not None else ""
        return (await self._connection.list("jobs", selector))["items"]

    async def _whole_jobs(self, what: str, chunk: int | None = None) -> Sequence[Mapping[str, Any]]:
        """The same, less those whose driver ended before it made their Secrets: they never start, and are removed."""
        assert self._connection is not None
        found: list[Mapping[str, Any]] = []
        for job in await self._jobs(what, chunk):
            name: str = job["metadata"]["name"]
            needs = not _ended(job) and name not in self._whole and _knows_secret(job, name)
            if needs and await self._connection.get("secrets", name) is None:
                await self._connection.delete("jobs", name, uid=job["metadata"]["uid"])
                continue
            self._whole.add(name)
            found.append(job)
        return found

    async def trouble(self, publish: Publish, *, played: bool) -> str:
        """Why pods do not play, in the cluster's words; empty if they do.

        Args:
            publish: Publishes what is new.
            played: Whether pods of the run have played anything.

        Raises:
            EnvironmentFault: The Job has failed, or no pod of it can start.
        """
        assert self._connection is not None
        playing = f"{run_selector(self._run_id)},{UNIT}={PLAYS}"
        pods = (await self._connection.list("pods", playing))["items"]
        living = [pod for pod in pods if not is_over(pod)]
        lasting = [found for pod in living if (found := start_trouble(pod, program_of(pod))) is not None]
        if lasting and len(lasting) == len(living):
            raise EnvironmentFault(
                f"The pods of {self._run_id} do not start: {lasting[0].message}",
                code=lasting[0].code,
                hint=_check_image(self.image),
            )
        jobs = await self._jobs(PLAYS)
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
        held = held or next((why for job in jobs if (why := _conditions(job).get("Suspended"))), "")
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
        selector = f"{run_selector(self._run_id)},{CHUNK}={chunk}"
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
                for job in await self._jobs(PLAYS if self._is_driver else ""):
                    await self._connection.delete("jobs", job["metadata"]["name"])
        finally:
            await self._connection.close()
            self._connection = None


def _check_image(image: str) -> Hint:
    return Hint(
        "check_worker_image", "Check the image {image!r}, what pulls it, and whether pods reach the store.", image=image
    )


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


def _knows_secret(job: Mapping[str, Any], name: str) -> bool:
    """Whether containers of a Job have variables from a Secret."""
    containers: Sequence[Mapping[str, Any]] = job["spec"]["template"]["spec"]["containers"]
    sources = [one.get("valueFrom", {}) for container in containers for one in container.get("env") or ()]
    return any(source.get("secretKeyRef", {}).get("name") == name for source in sources)


def _ended(job: Mapping[str, Any]) -> bool:
    return bool(job["metadata"].get("deletionTimestamp")) or not {"Complete", "Failed"}.isdisjoint(_conditions(job))


def _why_failed(job: Mapping[str, Any]) -> str:
    return _conditions(job).get("Failed", "")
