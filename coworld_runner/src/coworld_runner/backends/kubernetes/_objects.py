"""Objects of a cluster as plain values: what holds for every pod, container and Secret that we have it make."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = [
    "UNDISTURBED",
    "concealing",
    "container",
    "literal",
    "nodes_for",
    "pod_spec",
    "secret",
    "thing",
]

UNDISTURBED = {"karpenter.sh/do-not-disrupt": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
"""Annotations: evicted or moved, an episode is lost."""

_GROUPS = {"Job": "batch/v1", "NetworkPolicy": "networking.k8s.io/v1"}


def literal(text: str) -> str:
    """A text in a place where the cluster would replace ``$(NAME)``, and ``$$`` by ``$``."""
    return text.replace("$", "$$")


def _said(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is not said: None, and what has nothing in it."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {}, ())}


def thing(kind: str, metadata: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """An object of a kind."""
    return {"apiVersion": _GROUPS.get(kind, "v1"), "kind": kind, "metadata": dict(metadata), **fields}


def secret(metadata: Mapping[str, Any], data: Mapping[str, bytes]) -> dict[str, Any]:
    """A Secret with these contents by key."""
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return thing("Secret", metadata, type="Opaque", data=encoded)


def concealing(values: Iterable[str]) -> dict[str, bytes]:
    """Values of variables as contents of a Secret, in the order in which ``container`` is given their names."""
    return {f"env.{index}": value.encode() for index, value in enumerate(values)}


def container(
    name: str,
    image: str,
    *,
    argv: Sequence[str] = (),
    plain: Mapping[str, str] | None = None,
    concealed: Iterable[str] = (),
    secret: str = "",
    env: Sequence[Mapping[str, Any]] = (),
    requests: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    capabilities: Sequence[str] = (),
    user: int | None = None,
    security: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A container that gets no new privileges, and no capabilities but those that are named.

    Args:
        name: Its name.
        image: What it runs.
        argv: Program and arguments, which reach it as they are; empty: the image's own.
        plain: Variables that anybody may see.
        concealed: Names of variables whose values are in a Secret, as ``concealing`` puts them there.
        secret: The Secret's name.
        env: Further variables, as the cluster takes them.
        requests: What the scheduler keeps free for it.
        limits: What it may not exceed.
        capabilities: What it may do beyond what everybody may.
        user: The id of the user that it runs as; None: its image's, or its pod's.
        security: Further parts of its security context.
        more: Further fields, as the cluster takes them.
    """
    words = [literal(word) for word in argv]
    variables: list[Mapping[str, Any]] = [
        *({"name": key, "value": literal(value)} for key, value in (plain or {}).items()),
        *(
            {"name": key, "valueFrom": {"secretKeyRef": {"name": secret, "key": f"env.{index}"}}}
            for index, key in enumerate(concealed)
        ),
        *env,
    ]
    context: dict[str, Any] = {
        "allowPrivilegeEscalation": False,
        "capabilities": _said({"drop": ["ALL"], "add": list(capabilities)}),
        **(security or {}),
    }
    if user is not None:
        context |= {"runAsUser": user, "runAsNonRoot": user != 0}
    fields = {
        "name": name,
        "image": image,
        "command": words[:1],
        "args": words[1:],
        "env": variables,
        "resources": _said({"requests": dict(requests or {}), "limits": dict(limits or {})}),
        "securityContext": context,
        **more,
    }
    return _said(fields)


def pod_spec(
    *containers: Mapping[str, Any],
    seconds: float | None = None,
    grace: int = 0,
    security: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A pod that runs once, under the runtime's seccomp profile, with no service account's token.

    Args:
        containers: What runs in it.
        seconds: After which the cluster ends it by itself; None: never.
        grace: Seconds between TERM and KILL when the cluster ends it.
        security: Further parts of its security context.
        more: Further fields, as the cluster takes them.
    """
    fields = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": None if seconds is None else max(1, int(seconds)),
        "terminationGracePeriodSeconds": grace,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}, **(security or {})},
        "containers": list(containers),
        **more,
    }
    return _said(fields)


def nodes_for(workload: str | None, capacity: str | None = None) -> dict[str, Any]:
    """Which nodes a pod goes to, as part of its spec; a capacity type counts beside a workload's type only."""
    if not workload:
        return {}
    selector = {"workload-type": workload, "karpenter.sh/capacity-type": capacity}
    taint = {"key": "workload-type", "operator": "Equal", "value": workload, "effect": "NoSchedule"}
    return {"nodeSelector": _said(selector), "tolerations": [taint]}
