"""Nodes that take no pods because somebody has cordoned them, and what to do about a pod that no node takes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from coworld_core.errors import BackendError

from ._cluster import Cluster

__all__ = ["cordoned_nodes", "describe_cordoned", "uncordon", "without_node"]

_CORDONED = re.compile(r"node\(s\) were unschedulable|node\.kubernetes\.io/unschedulable")
"""What the scheduler says of cordoned nodes."""
_NAMED = 3
"""How many nodes a message names."""


async def cordoned_nodes(cluster: Cluster, selector: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Names of the nodes with these labels that take no pods until they are uncordoned; none if nodes are hidden."""
    try:
        nodes = await cluster.call("GET", "/api/v1/nodes", query={"limit": 500}, retry_timeout=5)
    except BackendError:
        return ()
    return tuple(
        node["metadata"]["name"]
        for node in nodes["items"]
        if node["spec"].get("unschedulable") and _has(node, selector or {})
    )


def _has(node: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    has: Mapping[str, str] = node["metadata"].get("labels") or {}
    return labels.items() <= has.items()


async def without_node(cluster: Cluster, pod: Mapping[str, Any], message: str) -> tuple[str, str]:
    """Say why no node takes a pod, and what to do about it.

    Args:
        cluster: The cluster.
        pod: The pod.
        message: The scheduler's own words.
    """
    message = message.rstrip(". ")
    if _CORDONED.search(message) is None:
        return message, "Lower its resource requests, or add a node that fits it."
    nodes = await cordoned_nodes(cluster, pod["spec"].get("nodeSelector"))
    return f"{message}{describe_cordoned(nodes)}", uncordon(nodes)


def describe_cordoned(nodes: Sequence[str]) -> str:
    """Name cordoned nodes as the end of a sentence; empty if there are none."""
    if not nodes:
        return ""
    more = f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else ""
    return f": {', '.join(nodes[:_NAMED])}{more} {'is' if len(nodes) == 1 else 'are'} cordoned"


def uncordon(nodes: Sequence[str]) -> str:
    """Say how cordoned nodes take pods again, whether their names are known or not."""
    if not nodes:
        return "kubectl get nodes shows which are cordoned (SchedulingDisabled); then: kubectl uncordon NODE"
    return f"kubectl uncordon {' '.join(nodes[:_NAMED])}"
