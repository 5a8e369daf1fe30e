"""`run`: plays one episode beside its game, and uploads its outputs, whether it succeeds or fails."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import logging
import math
import signal
from collections.abc import Mapping, MutableMapping
from contextlib import AsyncExitStack
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from coworld_core import time_limits
from coworld_core.episode.events import BaseEvent, FaultSeen, LeakFound, Notice, PhaseStarted, ProbeFinished, UnitExited
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.record import EpisodeRecord, read_record
from coworld_core.episode.verdict import Verdict, VerdictPolicy, judge, judge_error
from coworld_core.errors import BackendUnavailable, CoworldError, ManifestError, UsageError

from ..backends.kubernetes._cluster import Cluster, ClusterRefused
from ..backends.kubernetes._cluster_login import import_library
from ..episode.single import EpisodeOptions, run_episode
from ..package.plan import EpisodePlan
from ..package.transfers import Transfers, read_document
from ..runs._task_groups import nursery
from ..runs.scratch import open_scratch
from .delivery import Delivery
from .episode_setup import STATE, read_plan, read_tokens
from .health_port import health_port
from .player_pods import uses_bedrock
from .worker_backend import JobBackend
from .worker_evidence import Stopwatch
from .worker_settings import Settings, read_outputs, read_secrets, read_settings

__all__ = ["run_worker"]

_log = logging.getLogger("coworld.worker")

_UPLOAD_SECONDS = 300.0
"""Time for uploads when the Job's deadline is unknown."""
_MARGIN_SHARE, _LEAST_MARGIN, _MOST_MARGIN = 0.15, 15.0, 120.0
"""The part of the Job's time that is reserved for collecting and uploading."""
_LAST_SECONDS = 2.0
"""How long before the Job's deadline, or before the end of the grace after TERM, the worker finishes."""
_STOPPING_SHARE = 0.25
"""The share of the grace after TERM that players have for their own shutdown."""
_READY_SHARE, _LEAST_READY = 0.5, 180.0
_STOP_GRACE = 5.0
_SECRETS_LIMIT = 4 << 20


async def run_worker(environ: MutableMapping[str, str]) -> Verdict:
    """Play the episode that the environment describes, and upload its outputs.

    TERM ends the episode; the outputs so far are uploaded within the pod's grace.

    Args:
        environ: The environment (docs/worker.md). `POLICY_SECRETS_URI` is removed from it.

    Returns:
        Whether the episode counts, which requires that all its outputs were uploaded; if it does not, the reason, as
        uploaded to `ERROR_INFO_URI`.
    """
    return await _Worker(environ).run()


class _Worker:
    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self._environ = environ
        self._outputs = read_outputs(environ)
        self._stopwatch = Stopwatch(dt.datetime.now(dt.UTC))
        self._begun = anyio.current_time()
        self._play_scope = anyio.CancelScope()
        self._backend: JobBackend | None = None
        self._stop_requested = False
        self._grace = 30.0
        """Seconds between TERM and KILL."""
        self._over_at = math.inf
        """When the platform ends this worker, on the event loop's clock."""
        self._delivery_until = math.inf

    async def run(self) -> Verdict:
        async with open_scratch() as scratch:
            layout = EpisodeLayout(scratch.path / "episode")
            async with nursery() as tasks, AsyncExitStack() as stack, Transfers() as transfers:
                tasks.start_soon(self._watch_signals, tasks)
                # Imports while the first documents are read over the network
                tasks.start_soon(anyio.to_thread.run_sync, _import_library)
                verdict = await self._played(stack, layout)
                if not verdict.counts:
                    _log.error("the episode does not count: %s: %s", verdict.error_type, verdict.message)
                self._delivery_until = min(self._over_at, anyio.current_time() + _UPLOAD_SECONDS)
                delivery = Delivery(self._outputs, layout, scratch.path, transfers, until=lambda: self._delivery_until)
                verdict = await delivery.hand_over(verdict, self._stopwatch)
        return verdict

    async def _watch_signals(self, tasks: TaskGroup) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for _ in signals:
                if self._stop_requested:
                    if self._backend is not None:
                        self._backend.end_waits()
                    continue
                _log.warning("told to stop: collecting the outputs so far")
                self._stop_requested = True
                self._over_at = min(self._over_at, anyio.current_time() + self._grace - _LAST_SECONDS)
                self._delivery_until = min(self._delivery_until, self._over_at)
                self._play_scope.cancel()
                tasks.start_soon(self._end_waits_later)

    async def _end_waits_later(self) -> None:
        """Kill players that are still ending when uploads need the rest of the grace."""
        await anyio.sleep(self._grace * _STOPPING_SHARE)
        if self._backend is not None:
            self._backend.end_waits()

    # --- the episode

    async def _played(self, stack: AsyncExitStack, layout: EpisodeLayout) -> Verdict:
        """Play the episode; any error becomes a verdict."""
        settings: Settings | None = None
        trouble: BaseException | None = None
        try:
            settings = read_settings(self._environ)
            await stack.enter_async_context(health_port(settings.health_port))
            with self._play_scope:
                plan = await self._plan(settings)
                await self._play(settings, plan, layout)
        except Exception as error:  # noqa: BLE001 - any error is reported to the platform
            _log.debug("the episode ended with an error", exc_info=True)
            trouble = error
        record = _read_record(layout)
        policy = VerdictPolicy(
            replay=self._outputs.replay is not None,
            players_end_it=settings is None or settings.on_player_failure == "stop",
        )
        if record is not None and (record.faults or trouble is None):
            verdict = judge(record, policy)
            if not verdict.counts or trouble is None:
                return verdict
        if trouble is not None:
            return judge_error(trouble)
        return Verdict(counts=False, party="operator", error_type="interrupted", message="The worker was told to stop.")

    async def _plan(self, settings: Settings) -> EpisodePlan:
        try:
            plan = await read_plan(settings.spec_uri)
        except ManifestError as error:
            raise UsageError(
                f"The job spec has errors: {error.message}", code="spec_invalid", hint=error.hint
            ) from error
        tokens = await anyio.to_thread.run_sync(read_tokens, settings.state_dir / STATE, len(plan.seats))
        plan = dataclasses.replace(plan, tokens=tokens)
        if settings.secrets_uri is None:
            return plan
        data = await read_document(settings.secrets_uri, what="policy secrets", limit=_SECRETS_LIMIT)
        secrets = read_secrets(data, len(plan.seats))
        if settings.players.bedrock_region is None and any(uses_bedrock(values) for values in secrets.values()):
            raise UsageError(
                "A policy's secrets ask for Bedrock, and COWORLD_BEDROCK_REGION is not set.",
                code="environment_incomplete",
                context={"missing": ["COWORLD_BEDROCK_REGION"]},
            )
        seats = tuple(
            dataclasses.replace(seat, secret_env=secrets.get(slot, {})) for slot, seat in enumerate(plan.seats)
        )
        return dataclasses.replace(plan, seats=seats)

    async def _play(self, settings: Settings, plan: EpisodePlan, layout: EpisodeLayout) -> None:
        async with JobBackend(settings) as backend:
            self._backend = backend
            try:
                seconds = await self._time_to_play(backend.cluster, settings)
                backend.until = anyio.current_time() + seconds + settings.artifact_window + _STOP_GRACE
                await run_episode(
                    plan,
                    backend=backend,
                    workspace=layout.workspace,
                    options=self._options(settings, seconds),
                    listeners=(self._stopwatch, _narrate),
                )
            finally:
                self._backend = None

    def _options(self, settings: Settings, seconds: float) -> EpisodeOptions:
        return EpisodeOptions(
            timeout_seconds=seconds,
            ready_timeout_seconds=max(_LEAST_READY, seconds * _READY_SHARE),
            player_exit_timeout_seconds=settings.artifact_window,
            linger_seconds=settings.linger,
            replay_timeout_seconds=time_limits.REPLAY if self._outputs.replay is not None else settings.linger,
            on_player_failure=settings.on_player_failure,
            stop_grace_seconds=_STOP_GRACE,
            # The platform sets the game's limits, and the players' pods have theirs
            usual_limits=False,
            player_network="open",
        )

    async def _time_to_play(self, cluster: Cluster, settings: Settings) -> float:
        """Seconds for the episode: as configured, or up to the Job's deadline, less a margin for uploads."""
        pod = await cluster.get("pods", settings.pod_name)
        if pod is None or pod["metadata"]["uid"] != settings.pod_uid:
            raise UsageError(
                f"There is no pod {settings.pod_name} with the uid {settings.pod_uid} in {settings.namespace}.",
                code="environment_invalid",
                hint="Take POD_NAME, POD_UID and JOB_NAMESPACE from the downward API.",
            )
        labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
        if labels.get("job-id") != settings.job_id or labels.get("coworld-component") != "game":
            raise UsageError(
                f"The pod {settings.pod_name} does not carry the labels job-id={settings.job_id} and "
                "coworld-component=game, by which players find the game.",
                code="environment_invalid",
                hint="Put them into the Job's pod template.",
            )
        self._grace = float(pod["spec"].get("terminationGracePeriodSeconds") or self._grace)
        ends = [_end(pod)]
        if job := settings.job_name or _job_of(pod):
            try:
                found = await cluster.get("jobs", job)
            except ClusterRefused as error:
                _log.info("the Job's deadline is not known: %s", error.server_message)
            else:
                ends.append(_end(found or {}))
        now, clock = dt.datetime.now(dt.UTC), anyio.current_time()
        left = min((end - now).total_seconds() for end in ends if end is not None) if any(ends) else math.inf
        self._over_at = min(self._over_at, clock + left - _LAST_SECONDS)
        margin = min(_MOST_MARGIN, max(_LEAST_MARGIN, left * _MARGIN_SHARE)) if left < math.inf else 0.0
        seconds = min(settings.timeout - (clock - self._begun), left - margin)
        if seconds < settings.timeout - (clock - self._begun):
            _log.info("%.0f s to play: the Job ends in %.0f s", seconds, left)
        return max(seconds, 0.1)


def _import_library() -> None:
    # If it is missing, its first use fails and is reported to the platform
    with contextlib.suppress(BackendUnavailable):
        import_library()


def _end(thing: Mapping[str, Any]) -> dt.datetime | None:
    """When the platform ends a pod or a Job, if it has a deadline and has begun."""
    spec: Mapping[str, Any] = thing.get("spec") or {}
    status: Mapping[str, Any] = thing.get("status") or {}
    if not spec.get("activeDeadlineSeconds") or not status.get("startTime"):
        return None
    return dt.datetime.fromisoformat(status["startTime"]) + dt.timedelta(seconds=spec["activeDeadlineSeconds"])


def _job_of(pod: Mapping[str, Any]) -> str | None:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(owner["name"]) for owner in owners if owner.get("kind") == "Job"), None)


def _read_record(layout: EpisodeLayout) -> EpisodeRecord | None:
    with contextlib.suppress(CoworldError):
        return read_record(layout.record)
    return None


def _narrate(event: BaseEvent) -> None:
    match event:
        case PhaseStarted(phase=phase):
            _log.info("phase %s", phase)
        case UnitExited(unit=unit, exit=ended):
            _log.info("%s %s", unit, ended)
        case ProbeFinished(ok=False, counts=True, probe=probe, detail=detail):
            _log.warning("check %s failed: %s", probe, detail)
        case FaultSeen(fault=fault):
            _log.error("%s", fault)
        case LeakFound(what=what, reason=reason):
            _log.error("%s is still there: %s", what, reason)
        case Notice(level="warning", message=message):
            _log.warning("%s", message)
        case _:
            pass
