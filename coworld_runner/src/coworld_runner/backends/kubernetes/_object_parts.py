"""Builds Kubernetes objects as plain values, with the settings common to all our pods, containers and Secrets."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = [
    "UNDISTURBED",
    "concealed_variable",
    "concealing",
    "container",
    "default_worker_image",
    "field_variables",
    "literal",
    "nodes_for",
    "pod_spec",
    "secret",
    "thing",
    "token_mount",
    "token_volume",
    "without_empty",
]

UNDISTURBED = {"karpenter.sh/do-not-disrupt": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
"""Annotations that keep autoscalers from evicting or moving a pod, which would lose its episode."""

_GROUPS = {"Job": "batch/v1", "NetworkPolicy": "networking.k8s.io/v1"}


def default_worker_image() -> str:
    """The worker image of this version, as docs/worker.md builds it."""
    from ..._version import __version__

    return f"coworld-worker:{__version__}"


def literal(text: str) -> str:
    """Escape a text for a field in which the cluster replaces `$(NAME)` by a variable, and `$$` by `$`."""
    return text.replace("$", "$$")


def without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Drop fields that are None or empty; 0 and False are kept."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {}, ())}


def thing(kind: str, metadata: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """Build an object of a kind."""
    return {"apiVersion": _GROUPS.get(kind, "v1"), "kind": kind, "metadata": dict(metadata), **fields}


def secret(metadata: Mapping[str, Any], data: Mapping[str, bytes]) -> dict[str, Any]:
    """Build a Secret from its contents by key."""
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return thing("Secret", metadata, type="Opaque", data=encoded)


def concealing(values: Iterable[str]) -> dict[str, bytes]:
    """Build a Secret's contents from values of variables, in the order in which `container` gets their names."""
    return {f"env.{index}": value.encode() for index, value in enumerate(values)}


def concealed_variable(name: str, secret: str, key: str) -> dict[str, Any]:
    """Build a variable whose value is that of a key of a Secret."""
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def field_variables(**paths: str) -> list[dict[str, Any]]:
    """Build variables whose values are fields of their pod, such as `metadata.name`."""
    return [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in paths.items()]


def token_volume(name: str) -> dict[str, Any]:
    """Build the volume with the token of a pod's account, for those of its containers alone that mount it."""
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    return {"name": name, "projected": {"sources": sources}}


def token_mount(name: str) -> dict[str, Any]:
    """Build the mount of that volume, where clients of the cluster look for it."""
    return {"name": name, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}


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
    """Build a container with no new privileges, and only the capabilities that are named.

    Args:
        name: Its name.
        image: The image that it runs.
        argv: Program and arguments, passed literally; empty: the image's own.
        plain: Variables whose values appear in the pod's spec.
        concealed: Names of variables whose values are in a Secret, in the order given to `concealing`.
        secret: The name of that Secret.
        env: Further variables, in the cluster's format.
        requests: Resources that the scheduler reserves for it.
        limits: Resources that it may not exceed.
        capabilities: Linux capabilities to add.
        user: The user id that it runs under; None: its pod's, else its image's.
        security: Further fields of its security context.
        more: Further fields of the container, in the cluster's format.
    """
    words = [literal(word) for word in argv]
    variables: list[Mapping[str, Any]] = [
        *({"name": key, "value": literal(value)} for key, value in (plain or {}).items()),
        *(concealed_variable(key, secret, f"env.{index}") for index, key in enumerate(concealed)),
        *env,
    ]
    context: dict[str, Any] = {
        "allowPrivilegeEscalation": False,
        "capabilities": without_empty({"drop": ["ALL"], "add": list(capabilities)}),
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
        "resources": without_empty({"requests": dict(requests or {}), "limits": dict(limits or {})}),
        "securityContext": context,
        **more,
    }
    return without_empty(fields)


def pod_spec(
    *containers: Mapping[str, Any],
    seconds: float | None = None,
    grace: int = 0,
    security: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Build the spec of a pod that runs once, under the runtime's seccomp profile and without a service account token.

    Args:
        containers: Its containers.
        seconds: Seconds after which the cluster ends it, at least 1; None: never.
        grace: Seconds between TERM and KILL when the cluster ends it.
        security: Further fields of its security context.
        more: Further fields of the spec, in the cluster's format.
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
    return without_empty(fields)


def nodes_for(workload: str | None, capacity: str | None = None) -> dict[str, Any]:
    """The fields of a pod's spec that select nodes by workload type, and by capacity type; empty without a workload."""
    if not workload:
        return {}
    selector = {"workload-type": workload, "karpenter.sh/capacity-type": capacity}
    taint = {"key": "workload-type", "operator": "Equal", "value": workload, "effect": "NoSchedule"}
    return {"nodeSelector": without_empty(selector), "tolerations": [taint]}
