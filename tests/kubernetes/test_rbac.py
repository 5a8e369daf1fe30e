"""The manifests in docs/kubernetes: what they permit is what the worker does, and nothing else."""

from __future__ import annotations

import subprocess

import pytest

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
    # and the server says so when it is asked for each
    assert can("create", "secrets", "coworld-worker", operated, "-n", operated)
    assert not can("get", "secrets", "coworld-worker", operated, "-n", operated)
    assert not can("create", "pods", "coworld-worker", operated, "-n", operated, "--subresource=exec")
    assert can("get", "pods", "coworld-worker", operated, "-n", operated, "--subresource=log")


def test_worker_has_no_rights_in_other_namespaces(operated: str) -> None:
    assert rights("coworld-worker", operated, "default") == set()
    assert not any(can("list", resource, "coworld-worker", operated) for resource in CLUSTER_WIDE)


def test_player_pods_have_no_rights(operated: str) -> None:
    assert rights("episode-runner", operated, operated) == set()
