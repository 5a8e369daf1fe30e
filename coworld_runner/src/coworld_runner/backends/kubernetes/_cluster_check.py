"""Checks whether a cluster can be used, point by point and without changing anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio

from coworld_core.errors import BackendError
from coworld_core.hints import Hint
from coworld_core.issues import Issue
from coworld_core.quantities import parse_quantity

from ._cluster import Cluster, ClusterRefused
from ._cordoned_nodes import cordoned_nodes, describe_cordoned, uncordon
from ._node_images import image_on_nodes
from ._pod_objects import PodOptions
from ._run_job import SWEEP_CLUSTER

__all__ = ["NEEDED", "check_cluster", "enforces_policies"]

NEEDED: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("", "pods", ("create", "get", "list", "watch", "delete")),
    ("", "pods/log", ("get",)),
    ("", "pods/portforward", ("get", "create")),
    ("", "secrets", ("create", "get", "list", "delete", "deletecollection")),
    ("", "services", ("create", "get", "list", "delete")),
    ("", "resourcequotas", ("list",)),
    ("", "events", ("list",)),
    ("batch", "jobs", ("create", "get", "list", "patch", "delete")),
    ("networking.k8s.io", "networkpolicies", ("create", "get", "list", "delete", "deletecollection")),
)
"""Permissions needed in the namespace: group, resource, verbs."""

_ENFORCERS = {
    "crd.projectcalico.org": "Calico",
    "projectcalico.org": "Calico",
    "cilium.io": "Cilium",
    "crd.antrea.io": "Antrea",
    "controlplane.antrea.io": "Antrea",
    "k8s.ovn.org": "OVN-Kubernetes",
    "kubeovn.io": "Kube-OVN",
}
"""API groups of network plugins that enforce policies."""
_AGENTS = ("calico-node", "canal", "cilium", "antrea-agent", "weave-net", "kube-router", "anetd", "ovnkube-node")
"""Daemons of such plugins."""


async def enforces_policies(cluster: Cluster) -> str:
    """Find an installed network plugin that is known to enforce network policies; empty if none is found."""
    try:
        groups = await cluster.call("GET", "/apis", retry_timeout=10)
    except BackendError:
        return ""
    for entry in groups.get("groups") or ():
        if entry.get("name") in _ENFORCERS:
            return _ENFORCERS[entry["name"]]
    try:
        found = await cluster.call(
            "GET", "/apis/apps/v1/namespaces/kube-system/daemonsets", query={"limit": 200}, retry_timeout=0
        )
    except BackendError:
        return ""
    names = [str(item["metadata"]["name"]) for item in found.get("items") or ()]
    return next((agent for agent in _AGENTS if agent in names), "")


async def check_cluster(cluster: Cluster, options: PodOptions, *, policies: bool | None) -> tuple[Issue, ...]:
    """Report problems, each with a hint; passed checks are reported as information."""
    issues = [
        Issue(
            code="kubernetes_version",
            severity="info",
            message=f"Kubernetes {cluster.version} at {cluster.server}, namespace {cluster.namespace}.",
            hint="kubectl version says more.",
        )
    ]
    checks = (
        _permissions(cluster),
        _name_service(cluster),
        _quota(cluster),
        _room(cluster),
        _policies(cluster, policies),
        _finished_jobs(cluster),
        _collector_image(cluster, options),
    )
    for check in checks:
        issues.extend(await check)
    return tuple(issues)


async def _permissions(cluster: Cluster) -> list[Issue]:
    """Ask for every right, so that one look at the list is enough to have them granted."""
    denied: set[tuple[str, str]] = set()

    async def ask(group: str, resource: str, verb: str) -> None:
        kind, _, below = resource.partition("/")
        if not await cluster.review(verb, kind, group=group, subresource=below):
            denied.add((resource, verb))

    async with anyio.create_task_group() as tasks:
        for group, resource, verbs in NEEDED:
            for verb in verbs:
                tasks.start_soon(ask, group, resource, verb)
    issues: list[Issue] = []
    for group, resource, verbs in NEEDED:
        if missing := ", ".join(verb for verb in verbs if (resource, verb) in denied):
            rule = f'- {{apiGroups: ["{group}"], resources: [{resource}], verbs: [{missing}]}}'
            issues.append(
                Issue(
                    code="cluster_forbidden",
                    message=f"Not permitted in namespace {cluster.namespace}: {missing} {resource}.",
                    hint=f"Ask for the Role in docs/kubernetes.md, or for this line in yours: {rule}",
                )
            )
    return issues or [
        Issue(
            code="permissions",
            severity="info",
            message="All needed permissions are granted.",
            hint="kubectl auth can-i --list shows all permissions.",
        )
    ]


async def _name_service(cluster: Cluster) -> list[Issue]:
    """Check the cluster's DNS. Episodes work without it, as players get addresses; games that look up names do not."""
    try:
        service = await cluster.call(
            "GET", cluster.path("services", "kube-dns", namespace="kube-system"), retry_timeout=5
        )
        ends = await cluster.call("GET", "/api/v1/namespaces/kube-system/endpoints/kube-dns", retry_timeout=5)
    except ClusterRefused as error:
        if error.status == 403:
            return []
        return [
            Issue(
                code="dns_missing",
                severity="warning",
                message="There is no service kube-dns in kube-system: the cluster may have no DNS.",
                hint="Episodes work without it; a game that looks up names does not. Install CoreDNS.",
            )
        ]
    ready = any(subset.get("addresses") for subset in ends.get("subsets") or ())
    if ready:
        address = service["spec"].get("clusterIP")
        return [
            Issue(
                code="dns",
                severity="info",
                message=f"The cluster's DNS is at {address}.",
                hint="kubectl get service -n kube-system kube-dns",
            )
        ]
    return [
        Issue(
            code="dns_down",
            severity="warning",
            message="The cluster's DNS service kube-dns has no pod that answers.",
            hint="See its pods: kubectl get pods -n kube-system -l k8s-app=kube-dns",
        )
    ]


async def _quota(cluster: Cluster) -> list[Issue]:
    try:
        listing = await cluster.list("resourcequotas", retry_timeout=5)
    except ClusterRefused:
        return []
    issues: list[Issue] = []
    for item in listing["items"]:
        status: Mapping[str, Any] = item.get("status") or {}
        hard: Mapping[str, str] = status.get("hard") or {}
        used: Mapping[str, str] = status.get("used") or {}
        full = [
            f"{name}: {used.get(name, '0')} of {limit}"
            for name, limit in hard.items()
            if parse_quantity(used.get(name, "0")) >= parse_quantity(limit)
        ]
        name = item["metadata"]["name"]
        issues.append(
            Issue(
                code="quota_full" if full else "quota",
                severity="warning" if full else "info",
                message=f"The quota {name!r} is used up: {', '.join(full)}."
                if full
                else f"The quota {name!r} has room.",
                hint="Episodes wait for room; have it raised, or run fewer at a time.",
            )
        )
    return issues


async def _room(cluster: Cluster) -> list[Issue]:
    """Check that a node takes pods."""
    try:
        listing = await cluster.call("GET", "/api/v1/nodes", query={"limit": 500}, retry_timeout=5)
    except ClusterRefused:
        return []
    ready = 0
    for node in listing.get("items") or ():
        conditions = {entry["type"]: entry["status"] for entry in node["status"].get("conditions") or ()}
        if conditions.get("Ready") == "True" and not node["spec"].get("unschedulable"):
            ready += 1
    if ready:
        return []
    cordoned = await cordoned_nodes(cluster)
    return [
        Issue(
            code="no_node",
            severity="warning",
            message=f"No node of the cluster is ready to take pods{describe_cordoned(cordoned)}.",
            hint=uncordon(cordoned)
            if cordoned
            else "kubectl get nodes; a cluster that adds nodes when they are needed will do so.",
        )
    ]


async def _policies(cluster: Cluster, enforced: bool | None) -> list[Issue]:
    plugin = "as you say" if enforced else await enforces_policies(cluster) if enforced is None else ""
    if plugin:
        return [
            Issue(
                code="network_policy",
                severity="info",
                message=f"Network policies are enforced ({plugin}): players can reach only their game.",
                hint=Hint("open_player_network", 'player_network="open" lifts this restriction.'),
            )
        ]
    return [
        Issue(
            code="network_policy_unenforced",
            severity="warning",
            message="No network plugin that enforces network policies was found: players can reach each other, "
            "and everything that the cluster's pods can reach.",
            hint=Hint(
                "install_policies", "Install Calico or Cilium; if yours does enforce them, pass network_policy=True."
            ),
        )
    ]


async def _finished_jobs(cluster: Cluster) -> list[Issue]:
    """Check, with a dry run, whether the server supports `ttlSecondsAfterFinished`."""
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "coworld-check"},
        "spec": {
            "ttlSecondsAfterFinished": 0,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "nothing", "image": "none"}]}},
        },
    }
    try:
        job = await cluster.call("POST", cluster.path("jobs"), query={"dryRun": "All"}, body=body, retry_timeout=5)
    except ClusterRefused:
        return []
    if job["spec"].get("ttlSecondsAfterFinished") is not None:
        return []
    return [
        Issue(
            code="finished_jobs_stay",
            severity="warning",
            message="This cluster does not remove finished Jobs: leftovers of a killed run stay until removed.",
            hint=SWEEP_CLUSTER,
        )
    ]


async def _collector_image(cluster: Cluster, options: PodOptions) -> list[Issue]:
    """Check whether a node has the helper's image; whether others can pull it is not checked."""
    image = options.collector_image
    if await image_on_nodes(cluster, image) is not None:
        return [
            Issue(
                code="collector_image",
                severity="info",
                message=f"A node has the image {image} for the helper in each pod.",
                hint=Hint("other_collector_image", "collector_image names another."),
            )
        ]
    return [
        Issue(
            code="collector_image_absent",
            severity="warning",
            message=f"No node is known to have the image {image} for the helper in each pod yet.",
            hint=Hint(
                "reachable_collector_image",
                "It is pulled with the first episode; where that is not possible, pass another image with Python as "
                "collector_image.",
            ),
        )
    ]
