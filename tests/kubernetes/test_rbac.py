"""The manifests in docs/kubernetes: what they permit is what the worker does, and nothing else."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from support.kube import backend_for, kubeconfig_of

pytestmark = pytest.mark.kubernetes

ALLOWED = {
    ("create", "pods"),
    ("get", "pods"),
    ("list", "pods"),
    ("watch", "pods"),
    ("delete", "pods"),
    ("get", "pods/log"),
    ("create", "services"),
    ("get", "services"),
    ("delete", "services"),
    ("create", "secrets"),
    ("delete", "secrets"),
    ("get", "jobs.batch"),
}
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
RESOURCES = (
    "pods",
    "pods/log",
    "pods/exec",
    "pods/attach",
    "pods/portforward",
    "pods/ephemeralcontainers",
    "services",
    "secrets",
    "configmaps",
    "serviceaccounts",
    "serviceaccounts/token",
    "persistentvolumeclaims",
    "jobs.batch",
    "deployments.apps",
    "roles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "networkpolicies.networking.k8s.io",
)
CLUSTER_WIDE = ("nodes", "namespaces", "persistentvolumes", "clusterroles.rbac.authorization.k8s.io")


def rights(account: str, namespace: str, where: str) -> set[tuple[str, str]]:
    """What an account of a namespace may do in another, of all that is asked about here."""
    asked = [(verb, resource) for resource in RESOURCES for verb in VERBS]
    words = subprocess.run(
        ["kubectl", "auth", "can-i", "--list", f"--as=system:serviceaccount:{namespace}:{account}", "-n", where],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    found: set[tuple[str, str]] = set()
    for line in words.splitlines()[1:]:
        resource = line.split()[0]
        verbs = line[line.rindex("[") + 1 : line.rindex("]")].split()
        found |= {(verb, resource) for verb in verbs if (verb, resource) in asked}
        assert "*" not in verbs
        assert resource != "*.*"
    return found


def can(verb: str, resource: str, account: str, namespace: str, *more: str) -> bool:
    """Whether an account may do one thing, as the server decides it."""
    done = subprocess.run(
        ["kubectl", "auth", "can-i", verb, resource, f"--as=system:serviceaccount:{namespace}:{account}", *more],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.stdout.strip() == "yes"


def test_worker_role_is_minimal(operated: str) -> None:
    assert rights("coworld-worker", operated, operated) == ALLOWED
    # And the server says so when it is asked for each
    assert can("create", "secrets", "coworld-worker", operated, "-n", operated)
    assert not can("get", "secrets", "coworld-worker", operated, "-n", operated)
    assert not can("create", "pods", "coworld-worker", operated, "-n", operated, "--subresource=exec")
    assert can("get", "pods", "coworld-worker", operated, "-n", operated, "--subresource=log")


def test_worker_has_no_rights_in_other_namespaces(operated: str) -> None:
    assert rights("coworld-worker", operated, "default") == set()
    assert not any(can("list", resource, "coworld-worker", operated) for resource in CLUSTER_WIDE)


def test_player_pods_have_no_rights(operated: str) -> None:
    assert rights("episode-runner", operated, operated) == set()


def _grant(namespace: str, account: str, *rules: dict[str, list[str]]) -> None:
    """Make an account with a Role of its own."""
    metadata = {"name": account, "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account}
    items = (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": list(rules)},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": role,
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        },
    )
    listing = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    subprocess.run(["kubectl", "apply", "-f", "-"], input=listing, text=True, check=True, timeout=60)


async def test_doctor_lists_every_right_that_an_account_lacks(namespace: str, tmp_path: Path) -> None:
    """Of an account that may not even list pods, too."""
    pods = {"apiGroups": [""], "resources": ["pods", "pods/portforward"], "verbs": ["get", "create", "delete"]}
    jobs = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get", "list", "patch", "delete"]}
    _grant(namespace, "little", pods, jobs)
    found = await backend_for(namespace, kubeconfig=kubeconfig_of("little", namespace, tmp_path)).check()
    denied = [issue for issue in found if issue.code == "cluster_forbidden"]
    assert [issue.message for issue in denied] == [
        f"Not permitted in namespace {namespace}: {what}."
        for what in (
            "list, watch pods",
            "get pods/log",
            "create, get, list, delete, deletecollection secrets",
            "create, get, list, delete services",
            "list resourcequotas",
            "list events",
            "create, get, list, delete, deletecollection networkpolicies",
        )
    ]
    assert "permissions" not in {issue.code for issue in found}
    # The lines are rules of a Role as they stand: with them nothing is lacking
    lines = [str(issue.hint).partition(": - ")[2] for issue in denied]
    _grant(namespace, "little", pods, jobs, *(yaml.safe_load(line) for line in lines))
    found = await backend_for(namespace, kubeconfig=tmp_path / "kubeconfig").check()
    assert "permissions" in {issue.code for issue in found}, found
