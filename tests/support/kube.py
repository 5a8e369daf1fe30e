"""For tests on a real cluster: access to the cluster without the backend, and a separate namespace."""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import secrets
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

import anyio
import anyio.abc
import anyio.to_thread
import psutil
import pytest

from coworld_runner.backend import UnitSpec
from coworld_runner.backends.engine import RUN
from coworld_runner.backends.kubernetes._cluster import Cluster, ClusterRefused
from coworld_runner.backends.kubernetes._pod_objects import object_name
from coworld_runner.backends.kubernetes.kubernetes_backend import KubernetesBackend, PodOptions, Requests

from .elsewhere import in_thread
from .images import docker_client
from .needs import BASE_IMAGE
from .waiting import until, wait_until

__all__ = [
    "Way",
    "backend_for",
    "blockable_way",
    "cluster_process",
    "kill_container",
    "kubeconfig_of",
    "kubeconfig_with",
    "labelled",
    "namespace_for_tests",
    "on_cluster",
    "orphaning",
    "pod_directory",
    "small_pods",
    "until_empty",
]

_T = TypeVar("_T")

KINDS = ("pods", "services", "secrets", "networkpolicies", "jobs")


def on_cluster(work: Callable[[Cluster], Awaitable[_T]], *, namespace: str = "default") -> _T:
    """Call a function with a direct connection to the cluster, without the backend."""

    async def connected() -> _T:
        cluster = await Cluster.connect(namespace=namespace)
        try:
            return await work(cluster)
        finally:
            await cluster.close()

    return in_thread(connected)


@contextlib.contextmanager
def namespace_for_tests() -> Generator[str]:
    """Create a namespace for the duration of the context, and name it in `COWORLD_NAMESPACE`."""
    name = f"coworld-test-{secrets.token_hex(4)}"

    async def make(cluster: Cluster) -> None:
        await cluster.call("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
        # Pods are refused until their service account exists.
        await until(lambda: _has_account(cluster, name), seconds=180, what="a service account", every=0.1)

    async def remove(cluster: Cluster) -> None:
        await cluster.call("DELETE", f"/api/v1/namespaces/{name}")

    on_cluster(make)
    before = os.environ.get("COWORLD_NAMESPACE")
    os.environ["COWORLD_NAMESPACE"] = name
    try:
        yield name
    finally:
        os.environ.pop("COWORLD_NAMESPACE")
        if before is not None:
            os.environ["COWORLD_NAMESPACE"] = before
        on_cluster(remove)


async def _has_account(cluster: Cluster, namespace: str) -> bool:
    try:
        await cluster.call("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/default", retry_timeout=0)
    except ClusterRefused:
        return False
    return True


def backend_for(namespace: str, **more: Any) -> KubernetesBackend:
    """A backend in a namespace, with small requests so that many pods fit on a small machine."""
    return KubernetesBackend(namespace=namespace, pods=more.pop("pods", None) or small_pods(), **more)


def small_pods(**more: Any) -> PodOptions:
    """Options for pods with small resource requests."""
    little = Requests(cpu="10m", memory="16Mi")
    requests = dict.fromkeys(PodOptions(collector_image="none").requests, little)
    return PodOptions(collector_image=BASE_IMAGE, requests=requests, **more)


def labelled(namespace: str, run_id: str | None = None) -> list[str]:
    """Descriptions of all objects that our backend has left in a namespace, or those of one run."""

    async def look(cluster: Cluster) -> list[str]:
        found: list[str] = []
        for kind in KINDS:
            listing = await cluster.list(kind, RUN)  # type: ignore[arg-type]
            found += [
                f"{kind[:-1]} {item['metadata']['name']}"
                for item in listing["items"]
                if run_id is None or run_id in item["metadata"]["name"]
            ]
        return found

    return on_cluster(look, namespace=namespace)


def until_empty(namespace: str) -> None:
    """Wait until none of our objects is left in a namespace; the backend does not wait for a lost pod to end."""
    wait_until(lambda: not labelled(namespace), seconds=240, what="an empty namespace")


def kill_container(pod: Mapping[str, Any], name: str) -> None:
    """Kill a container of a pod on the node, which shares this machine's engine."""
    (status,) = (item for item in pod["status"]["containerStatuses"] if item["name"] == name)
    client = docker_client()
    try:
        client.containers.get(status["containerID"].removeprefix("docker://")).kill()
    finally:
        client.close()


@contextlib.asynccontextmanager
async def orphaning(backend: KubernetesBackend, spec: UnitSpec) -> AsyncGenerator[None]:
    """Run a unit in a separate runner that is killed at the end; the caller must clean up after both."""
    with subprocess.Popen(  # noqa: ASYNC220 - killed below
        [sys.executable, "-m", "coworld_runner.testing.orphan_runner"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as runner:
        assert runner.stdin is not None
        assert runner.stdout is not None
        try:
            runner.stdin.write(pickle.dumps((backend, spec)))
            runner.stdin.close()
            assert await anyio.to_thread.run_sync(runner.stdout.readline) == b"up\n"
            yield
        finally:
            runner.kill()


def cluster_process(name: str) -> psutil.Process:
    """Find a process of the cluster, whose only node must be this machine."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if words and Path(words[0]).name == name:
                return process
    pytest.fail(f"{name} is no process of this machine, and these checks need a cluster whose node it is")


@functools.cache
def _kubelet_directory() -> Path:
    """The root directory of this machine's kubelet, which contains the pods' volumes."""
    words = cluster_process("kubelet").cmdline()
    given = [word.partition("=")[2] for word in words if word.startswith("--root-dir=")]
    return Path(given[0] if given else "/var/lib/kubelet")


def pod_directory(run_id: str, name: str) -> Path:
    """The directory of a unit on the node, which is this machine; without a pod, a path that does not exist."""
    pod = object_name(run_id, name)
    pods = _kubelet_directory() / "pods"
    for hosts in pods.glob("*/etc-hosts"):
        with contextlib.suppress(OSError):
            if pod in hosts.read_text().split():
                return hosts.parent / "volumes" / "kubernetes.io~empty-dir" / "unit"
    return pods / "none"


class Way:
    """A connection to the API server that can be blocked: a TCP proxy on loopback."""

    def __init__(self, target: tuple[str, int], listener: anyio.abc.Listener[anyio.abc.SocketStream]) -> None:
        self._target = target
        self._listener = listener
        self._open: set[anyio.CancelScope] = set()
        self.blocked = False
        self.connections = 0

    def block(self) -> None:
        """Break all connections and refuse new ones."""
        self.blocked = True
        for scope in tuple(self._open):
            scope.cancel()

    def unblock(self) -> None:
        """Let connections through again."""
        self.blocked = False

    async def serve(self) -> None:
        """Forward connections until cancelled."""
        async with self._listener:
            await self._listener.serve(self._carry)

    async def _carry(self, near: anyio.abc.SocketStream) -> None:
        broken = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
        async with near:
            if self.blocked:
                return
            self.connections += 1
            with anyio.CancelScope() as scope:
                self._open.add(scope)
                try:
                    async with await anyio.connect_tcp(*self._target) as far, anyio.create_task_group() as tasks:

                        async def copy(source: anyio.abc.ByteStream, sink: anyio.abc.ByteStream) -> None:
                            with contextlib.suppress(*broken):
                                while True:
                                    await sink.send(await source.receive())
                            scope.cancel()

                        tasks.start_soon(copy, near, far)
                        tasks.start_soon(copy, far, near)
                finally:
                    self._open.discard(scope)


def kubeconfig_with(directory: Path, change: Callable[[Any], object], *, like: Path | None = None) -> Path:
    """Write a copy of the cluster's kubeconfig, or of another one, changed by `change`."""
    import yaml

    content = yaml.safe_load((like or Path(os.environ["KUBECONFIG"])).read_text())
    change(content)
    path = directory / "kubeconfig"
    path.write_text(yaml.safe_dump(content))
    return path


def kubeconfig_of(account: str, namespace: str, directory: Path) -> Path:
    """Write a kubeconfig with a service account's token alone; its contexts name no namespace."""

    async def token(cluster: Cluster) -> str:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        return str((await cluster.call("POST", path, body=body))["status"]["token"])

    def only(content: Any) -> None:
        content["users"] = [{"name": account, "user": {"token": on_cluster(token)}}]
        for context in content["contexts"]:
            context["context"]["user"] = account
            context["context"].pop("namespace", None)

    return kubeconfig_with(directory, only)


@contextlib.asynccontextmanager
async def blockable_way(directory: Path) -> AsyncGenerator[tuple[Way, Path]]:
    """A blockable connection to the cluster, and a kubeconfig that uses it."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    servers: list[SplitResult] = []

    def lead(content: Any) -> None:
        entry: dict[str, Any] = content["clusters"][0]["cluster"]
        servers.append(urlsplit(str(entry["server"])))
        entry |= {"server": f"https://127.0.0.1:{port}", "tls-server-name": servers[0].hostname}

    path = kubeconfig_with(directory, lead)
    (server,) = servers
    assert server.hostname is not None
    way = Way((server.hostname, server.port or 443), listener)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(way.serve)
        yield way, path
        tasks.cancel_scope.cancel()
