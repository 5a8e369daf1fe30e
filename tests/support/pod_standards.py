"""The standards for pods that a namespace can enforce, as the cluster's documentation has them, for pods as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["baseline_problems", "restricted_problems"]

_BASELINE = frozenset(
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID "  # noqa: SIM905
    "SYS_CHROOT".split()
)
_VOLUMES = frozenset(
    {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
)


def _containers(pod: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    spec = pod["spec"]
    every = [*spec.get("initContainers", ()), *spec["containers"]]
    return [(each, each.get("securityContext", {})) for each in every]


def baseline_problems(pod: Mapping[str, Any]) -> Iterator[str]:
    """What the *baseline* standard forbids."""
    spec = pod["spec"]
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(name):
            yield name
    yield from (f"volume {each['name']}" for each in spec.get("volumes", ()) if "hostPath" in each)
    if spec.get("securityContext", {}).get("sysctls"):
        yield "sysctls"
    for part, context in _containers(pod):
        if context.get("privileged") or context.get("procMount", "Default") != "Default":
            yield f"privileged {part['name']}"
        if not set(context.get("capabilities", {}).get("add", ())) <= _BASELINE:
            yield f"capabilities of {part['name']}"
        if any(port.get("hostPort") for port in part.get("ports", ())):
            yield f"hostPort of {part['name']}"


def restricted_problems(pod: Mapping[str, Any]) -> Iterator[str]:
    """What the *restricted* standard forbids."""
    yield from baseline_problems(pod)
    spec = pod["spec"]
    shared = spec.get("securityContext", {})
    for volume in spec.get("volumes", ()):
        if not set(volume) - {"name"} <= _VOLUMES:
            yield f"volume {volume['name']}"
    for part, context in _containers(pod):
        both = {**shared, **context}
        if context.get("allowPrivilegeEscalation") is not False:
            yield f"allowPrivilegeEscalation of {part['name']}"
        capabilities = context.get("capabilities", {})
        if "ALL" not in capabilities.get("drop", ()) or set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}:
            yield f"capabilities of {part['name']}"
        if both.get("runAsNonRoot") is not True or both.get("runAsUser") == 0:
            yield f"runAsNonRoot of {part['name']}"
        if both.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
            yield f"seccompProfile of {part['name']}"
