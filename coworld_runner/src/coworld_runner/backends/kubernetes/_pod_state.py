"""Reads a pod's status: why it does not start, whether it runs, how it ended."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coworld_core.episode.outcome import Exit, ExitReason

from ..start_causes import StartCause, cause_of
from ._pod_objects import COLLECTOR, MAIN

__all__ = [
    "Trouble",
    "collector_end",
    "container_status",
    "exit_of",
    "has_started",
    "image_digest",
    "is_over",
    "is_running",
    "lacks_room",
    "pod_address",
    "silent_node",
    "start_trouble",
    "unschedulable",
]

_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"})
_WAITING = frozenset(
    {
        *_IMAGE,
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        "PreCreateHookError",
        "PreStartHookError",
        "PostStartHookError",
        "CrashLoopBackOff",
        "RegistryUnavailable",
    }
)
"""Reasons for waiting that do not go away by themselves, or only with the kubelet's next attempt."""
_BUSY = re.compile(r"failed to sync (secret|configmap) cache|context deadline exceeded")
"""Messages, on making a container, of a node that is only busy and tries again."""
_NOT_RUN = frozenset({"ContainerCannotRun", "StartError", "CreateContainerError"})
"""Reasons for the end of a container whose program never ran."""

_EVICTED = frozenset({"Evicted", "Preempting", "Preempted", "PreemptionByScheduler", "EvictionByEvictionAPI"})
_LOST = frozenset(
    {
        "NodeLost",
        "NodeShutdown",
        "Shutdown",
        "Terminated",
        "DeletionByTaintManager",
        "DeletionByPodGC",
        "TerminationByKubelet",
        "NodeAffinity",
        "UnexpectedAdmissionError",
        "OutOfcpu",
        "OutOfmemory",
        "OutOfpods",
        "OutOfephemeral-storage",
    }
)

_UNKNOWN = frozenset({"ContainerStatusUnknown", "Unknown"})
"""Reasons that a node gives for a container that it has lost track of."""
_FOUND_DEAD = 255
"""The exit code that engines give to containers that they find dead after a restart of the machine."""


@dataclass(frozen=True)
class Trouble:
    """Why a container does not start."""

    cause: StartCause
    """The line of the table of causes."""
    message: str
    """The cluster's own message."""
    container: str = MAIN
    main: str = MAIN
    """The pod's container that is the unit."""

    @property
    def code(self) -> str:
        """The error's code; images and commands of our own helper are no author's."""
        if self.container == self.main:
            return self.cause.code
        return {"image_absent": "image_unreachable", "command_failed": "start_failed"}.get(
            self.cause.code, self.cause.code
        )


def _status(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    return pod.get("status") or {}


def container_status(pod: Mapping[str, Any], name: str = MAIN) -> Mapping[str, Any]:
    """The status of one container."""
    entries: Sequence[Mapping[str, Any]] = _status(pod).get("containerStatuses") or ()
    nothing: Mapping[str, Any] = {}
    return next((entry for entry in entries if entry.get("name") == name), nothing)


def image_digest(pod: Mapping[str, Any], name: str = MAIN) -> str:
    """The digest of a container's image, `sha256:…`, as its node names it; empty while it does not."""
    found = re.search(r"sha256:[0-9a-f]{64}", str(container_status(pod, name).get("imageID") or ""))
    return found[0] if found else ""


def _state(pod: Mapping[str, Any], name: str, kind: str) -> Mapping[str, Any] | None:
    state: Mapping[str, Any] = container_status(pod, name).get("state") or {}
    return state.get(kind)


def pod_address(pod: Mapping[str, Any]) -> str:
    """The pod's address as written in `host:port`; empty while it has none."""
    address = str(_status(pod).get("podIP") or "")
    return f"[{address}]" if ":" in address else address


def is_running(pod: Mapping[str, Any], name: str = MAIN) -> bool:
    """Whether a container runs."""
    return _state(pod, name, "running") is not None


def has_started(pod: Mapping[str, Any], name: str = MAIN) -> bool:
    """Whether a container's program runs, or has run."""
    if is_running(pod, name):
        return True
    ended = _state(pod, name, "terminated")
    return ended is not None and ended.get("reason") not in _NOT_RUN


def is_over(pod: Mapping[str, Any]) -> bool:
    """Whether the pod has ended for good."""
    return _status(pod).get("phase") in ("Succeeded", "Failed")


_GATED = "SchedulingGated"
"""The scheduler's reason for a pod that a queue such as Kueue holds back until there is room."""


def unschedulable(pod: Mapping[str, Any]) -> str:
    """Why no node takes the pod, in the scheduler's words; empty if one does, or if it was not scheduled yet."""
    for condition in _status(pod).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            message = str(condition.get("message") or "")
            if condition.get("reason") == _GATED:
                return _reason_text(_GATED, message)
            if condition.get("reason") == "Unschedulable":
                return message or "no node takes it"
    return ""


def lacks_room(message: str) -> bool:
    """Whether a pod is unschedulable only because other pods take up the room, and may fit once they end."""
    if message.startswith(_GATED):
        return True
    reasons = re.sub(r"^\d+/\d+ nodes are available: ", "", message)
    short = re.findall(r"Insufficient [\w./-]+|Too many pods", reasons)
    return bool(short) and "preemption is not helpful" not in reasons.lower().replace("no preemption victims", "")


def silent_node(pod: Mapping[str, Any]) -> str:
    """The pod's node if its status shows that the node has stopped reporting; otherwise empty.

    A kubelet that finds a container unready marks the container too. If only the pod is marked unready, the control
    plane did it because the node stopped reporting.
    """
    conditions = _status(pod).get("conditions") or ()
    unready = any(entry.get("type") == "Ready" and entry.get("status") != "True" for entry in conditions)
    containers = _status(pod).get("containerStatuses") or ()
    if is_over(pod) or not unready or not containers or not all(entry.get("ready") for entry in containers):
        return ""
    spec: Mapping[str, Any] = pod.get("spec") or {}
    return str(spec.get("nodeName") or "")


def collector_end(pod: Mapping[str, Any]) -> str:
    """How the collector ended before its unit; empty while it runs, or if the unit has ended or the pod is deleted."""
    ended = _state(pod, COLLECTOR, "terminated")
    if ended is None or _state(pod, MAIN, "terminated") is not None or pod["metadata"].get("deletionTimestamp"):
        return ""
    return _reason_text(
        str(ended.get("reason") or "ended"), str(ended.get("message") or f"status {ended.get('exitCode')}")
    )


def start_trouble(pod: Mapping[str, Any], main: str = MAIN) -> Trouble | None:
    """Why a container does not start, or None. `unschedulable` covers pods that no node takes."""

    def trouble(reason: str, message: str, name: str, otherwise: str) -> Trouble:
        words = _reason_text(reason, message)
        return Trouble(cause_of(words, otherwise=otherwise), words, name, main)

    for name in (COLLECTOR, main):
        waiting = _state(pod, name, "waiting")
        reason, message = (str((waiting or {}).get(key) or "") for key in ("reason", "message"))
        if reason in _IMAGE:
            return trouble(reason, message, name, "image_unreachable")
        if reason in _WAITING and not _BUSY.search(message):
            return trouble(reason, message, name, "start_failed")
        ended = _state(pod, name, "terminated")
        if ended is not None and ended.get("reason") in _NOT_RUN:
            return trouble(str(ended["reason"]), str(ended.get("message") or ""), name, "command_failed")
        if ended is not None and name == COLLECTOR and not has_started(pod, main):
            return trouble(str(ended.get("reason")), f"status {ended.get('exitCode')}", name, "start_failed")
    if _status(pod).get("phase") == "Failed" and not has_started(pod, main):
        status = _status(pod)
        reason = str(status.get("reason") or status.get("phase") or "")
        return trouble(reason, str(status.get("message") or ""), main, "start_failed")
    return None


def _reason_text(reason: str, message: str) -> str:
    text = re.sub(r"\s+", " ", message).strip()
    return f"{reason}: {text}" if text else reason


def _pod_text(pod: Mapping[str, Any]) -> str:
    status = _status(pod)
    return _reason_text(str(status.get("reason") or status.get("phase") or ""), str(status.get("message") or ""))


def _disruption(pod: Mapping[str, Any]) -> tuple[str, str]:
    """Reason and message of the disruption that ended the pod, where newer clusters report it."""
    for condition in _status(pod).get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return str(condition.get("reason") or ""), str(condition.get("message") or "")
    return "", ""


def exit_of(pod: Mapping[str, Any], name: str = MAIN, *, ours: ExitReason | None = None) -> Exit | None:
    """How a container ended, or None while it has not.

    Args:
        pod: The pod.
        name: The container.
        ours: Why the runner ended it, if it did.
    """
    ended = _state(pod, name, "terminated")
    over = is_over(pod)
    if ended is None and not over:
        return None
    code = int((ended or {}).get("exitCode") or 0)
    number = (ended or {}).get("signal") or (code - 128 if 128 < code <= 128 + 64 else None)
    fields: dict[str, Any] = {"code": None if number or ended is None else code, "signal": number}
    if ours is not None:
        return Exit(reason=ours, detail="", **fields)
    taken = _taken_away(pod)
    # A container that ended with 0 before the pod was taken away keeps its own end
    if taken is not None and (ended is None or code != 0):
        return Exit(reason=taken[0], detail=taken[1], **fields)
    if ended is None or ended.get("reason") in _UNKNOWN:
        return Exit(reason="lost", detail=_pod_text(pod) or "its node does not know how it ended")
    if code == _FOUND_DEAD and (_state(pod, COLLECTOR, "terminated") or {}).get("exitCode") == _FOUND_DEAD:
        return Exit(reason="lost", detail="its node was restarted: it found all containers of the pod dead")
    if ended.get("reason") == "OOMKilled":
        return Exit(reason="oom", detail=str(ended.get("message") or ""), **fields)
    return Exit(reason="exited" if number is None else "signal", detail="", **fields)


def _taken_away(pod: Mapping[str, Any]) -> tuple[ExitReason, str] | None:
    """Why the platform ended the pod, if it did."""
    status = _status(pod)
    reason, words = str(status.get("reason") or ""), _pod_text(pod)
    if reason == "DeadlineExceeded":
        return "timeout", words
    if reason == "Evicted" and re.search(r"ephemeral|emptydir|exceeds the limit", words, re.IGNORECASE):
        return ("disk", words) if "node was low" not in words.lower() else ("evicted", words)
    disrupted, message = _disruption(pod)
    for found, said in ((reason, words), (disrupted, _reason_text(disrupted, message))):
        if found in _EVICTED:
            return "evicted", said
        if found in _LOST:
            return "lost", said
    metadata: Mapping[str, Any] = pod.get("metadata") or {}
    if metadata.get("deletionTimestamp"):
        return "lost", f"pod {metadata.get('name')} was deleted by somebody else"
    return None
