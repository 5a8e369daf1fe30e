"""The Kubernetes API: the cluster, its objects, and connections to ports of pods.

`kubernetes_asyncio` signs in and handles connections, TLS, proxies and credentials; objects stay plain JSON, as the
server sends them. This module adds what the library lacks: retried calls, streams that report when they break, and
port-forwarding. The library is imported only when a cluster is connected to.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import anyio

from coworld_core.errors import BackendUnavailable
from coworld_core.hints import Hint

from ._api_server import CALL_SECONDS, CREDENTIALS, ApiServer, ClusterGone, ClusterRefused
from ._port_forward import ForwardedStream

__all__ = ["Cluster", "ClusterGone", "ClusterRefused", "Kind"]

Kind = Literal["pods", "secrets", "services", "jobs", "networkpolicies", "configmaps", "events", "resourcequotas"]
_GROUPS: dict[str, str] = {"jobs": "/apis/batch/v1", "networkpolicies": "/apis/networking.k8s.io/v1"}


class Cluster(ApiServer):
    """A cluster whose API server answers, and one namespace of it. Made by `Cluster.connect`."""

    @classmethod
    async def connect(
        cls,
        *,
        context: str | None = None,
        namespace: str | None = None,
        kubeconfig: Path | None = None,
        permitted: bool = True,
    ) -> Cluster:
        """Find the cluster the way `kubectl` does, sign in, and check that it answers.

        Args:
            context: A context of the kubeconfig; None: the current one.
            namespace: The namespace of all objects; None: the context's own, else `default`.
            kubeconfig: The file; None: `KUBECONFIG`, `~/.kube/config`, or the pod's own service account.
            permitted: Refuse whoever may not list the namespace's pods; False for a check that says all that is denied.

        Raises:
            BackendUnavailable: The message says why: not installed, no kubeconfig, no such context, no answer, not
                permitted, or no such namespace.
        """
        cluster = cls(context=context, namespace=namespace, kubeconfig=kubeconfig)
        await cluster.sign_in()
        try:
            await cluster._greet(permitted)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await cluster.close()
            raise
        return cluster

    async def _greet(self, permitted: bool) -> None:
        try:
            found = await self.call("GET", "/version", retry_timeout=0)
            self.version = str(found.get("gitVersion") or "")
            await self.call("GET", self.path("pods"), query={"limit": 1}, retry_timeout=0)
        except ClusterGone as error:
            raise BackendUnavailable(error.message, code="cluster_unreachable", hint=error.hint) from error
        except ClusterRefused as error:
            if permitted or error.status != 403:
                raise _unusable(self, error) from error
        if not await self._has_namespace():
            raise BackendUnavailable(
                f"There is no namespace {self.namespace!r} on the cluster {self.server}.",
                code="namespace_missing",
                hint=Hint(
                    "make_namespace",
                    "Make it with: kubectl create namespace {namespace}. Or pass another as namespace.",
                    namespace=self.namespace,
                ),
                context={"namespace": self.namespace},
            )

    async def _has_namespace(self) -> bool:
        try:
            await self.call("GET", f"/api/v1/namespaces/{quote(self.namespace)}", retry_timeout=0)
        except ClusterRefused as error:
            # A user who may not read the namespace object may still be allowed to use the namespace
            return error.status != 404
        return True

    # --- objects

    def path(self, kind: Kind, name: str = "", *more: str, namespace: str | None = None) -> str:
        """The path of a kind of objects in the namespace, of one object, or of one of its subresources."""
        base = f"{_GROUPS.get(kind, '/api/v1')}/namespaces/{quote(namespace or self.namespace)}/{kind}"
        return "/".join((base, *(quote(part) for part in (name, *more) if part)))

    async def create(self, kind: Kind, body: Mapping[str, Any], *, retry_timeout: float = 60.0) -> Any:
        """Create an object. If one with its unique name exists already, return that one.

        A call that was cut off may have succeeded, so a retry may find the object there.
        """
        try:
            return await self.call("POST", self.path(kind), body=body, retry_timeout=retry_timeout)
        except ClusterRefused as error:
            if error.status != 409 or error.reason != "AlreadyExists":
                raise
        return await self.call("GET", self.path(kind, body["metadata"]["name"]), retry_timeout=retry_timeout)

    async def get(self, kind: Kind, name: str, *, retry_timeout: float = 60.0) -> Any | None:
        """An object, or None if there is none of that name."""
        try:
            return await self.call("GET", self.path(kind, name), retry_timeout=retry_timeout)
        except ClusterRefused as error:
            if error.status == 404:
                return None
            raise

    async def list(
        self, kind: Kind, selector: str = "", *, namespace: str | None = None, retry_timeout: float = 60.0
    ) -> Mapping[str, Any]:
        """All objects of a kind with these labels; `items` and `metadata.resourceVersion`."""
        items: list[Any] = []
        more: str | None = None
        while True:
            page = await self.call(
                "GET",
                self.path(kind, namespace=namespace),
                query={"labelSelector": selector or None, "limit": 500, "continue": more},
                retry_timeout=retry_timeout,
            )
            items += page.get("items") or ()
            more = page["metadata"].get("continue")
            if not more:
                return {"items": items, "metadata": page["metadata"]}

    async def delete(
        self, kind: Kind, name: str, *, grace: int | None = None, uid: str | None = None, retry_timeout: float = 60.0
    ) -> bool:
        """Delete an object and what it owns.

        Args:
            kind: Its kind.
            name: Its name.
            grace: Seconds that a pod has to end; 0 removes it at once. None: the pod's own.
            uid: Delete only the object with this id, not a later one of the same name.
            retry_timeout: Seconds in which the call is retried.

        Returns:
            Whether it existed.
        """
        body: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        try:
            await self.call("DELETE", self.path(kind, name), body=body, retry_timeout=retry_timeout)
        except ClusterRefused as error:
            if error.status in (404, 409):
                return False
            raise
        return True

    async def delete_all(self, kind: Kind, selector: str, *, retry_timeout: float = 60.0) -> None:
        """Delete all objects of a kind with these labels."""
        await self.call("DELETE", self.path(kind), query={"labelSelector": selector}, retry_timeout=retry_timeout)

    async def review(self, verb: str, kind: str, *, group: str = "", subresource: str = "") -> bool:
        """Whether we have that permission in the namespace."""
        attributes = {
            "namespace": self.namespace,
            "verb": verb,
            "group": group,
            "resource": kind,
            **({"subresource": subresource} if subresource else {}),
        }
        answer = await self.call(
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            body={
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": attributes},
            },
            retry_timeout=5,
        )
        return bool(answer.get("status", {}).get("allowed"))

    async def forward(self, pod: str, port: int, *, timeout: float = CALL_SECONDS) -> ForwardedStream:
        """Connect to a port of a pod, through the API server and the pod's node.

        Raises:
            ClusterRefused: There is no such pod, or forwarding is not permitted.
            ClusterGone: The API server did not answer.
        """
        import aiohttp

        call = f"connect to port {port} of pod {pod}"
        client = self.connected(call)
        headers: dict[str, str] = {}
        await client.update_params_for_auth(headers, [], CREDENTIALS)
        # Not the library's own websocket client, which supports neither proxies nor TLS server names
        way = client.rest_client
        with self.reaching(call, timeout, counts=False):
            try:
                carrier = await way.pool_manager.ws_connect(
                    f"{self.server}{self.path('pods', pod, 'portforward')}?ports={port}",
                    protocols=("v4.channel.k8s.io",),
                    headers=headers,
                    max_msg_size=0,
                    timeout=aiohttp.ClientWSTimeout(ws_close=0.5),  # pyright: ignore[reportCallIssue]
                    proxy=way.proxy,
                    proxy_headers=way.proxy_headers,
                    server_hostname=way.server_hostname,
                )
            except aiohttp.WSServerHandshakeError as error:
                raise ClusterRefused(call, error.status, "", f"{call}: HTTP {error.status} {error.message}") from error
        return ForwardedStream(carrier)


def _unusable(cluster: Cluster, error: ClusterRefused) -> BackendUnavailable:
    """The error for a cluster that answers but cannot be used."""
    if error.status == 401:
        return BackendUnavailable(
            f"The cluster {cluster.server} does not accept the credentials: {error.server_message}.",
            code="cluster_unauthorised",
            hint="The credentials have expired or are wrong; sign in again.",
        )
    if error.status == 403:
        return BackendUnavailable(
            f"The cluster {cluster.server} denies access: {error.server_message}.",
            code="cluster_forbidden",
            hint=f"Ask for the rights that docs/kubernetes.md lists, in the namespace {cluster.namespace!r}.",
        )
    return BackendUnavailable(error.message, code=error.code, hint=error.hint)
