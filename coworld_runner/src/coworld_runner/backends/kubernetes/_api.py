"""The Kubernetes API: which cluster, calls to it, streams from it, and connections to ports of pods.

``kubernetes_asyncio`` signs in and carries it all, connections, TLS, proxies and credentials; objects stay plain JSON,
as the server speaks it. Here is what it has not: calls that are made again, streams that tell when they break, and
port-forwarding. It is imported only when a cluster is connected to.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import anyio

from coworld_core.errors import BackendError, BackendUnavailable
from coworld_core.retrying import Backoff, Tries, retry_after, says_later

from ._forward import ForwardedStream
from ._login import sign_in

__all__ = ["Cluster", "ClusterGone", "ClusterRefused", "Kind"]

_CALL_SECONDS = 30.0
_BACKOFF = Backoff(base=0.15, cap=4.0)
_ERROR_BYTES = 64 * 1024
_CREDENTIALS = ["BearerToken"]
"""What the library calls them, whatever they are."""

Kind = Literal["pods", "secrets", "services", "jobs", "networkpolicies", "configmaps", "events", "resourcequotas"]
_GROUPS: dict[str, str] = {"jobs": "/apis/batch/v1", "networkpolicies": "/apis/networking.k8s.io/v1"}


class ClusterRefused(BackendError):
    """The API server answered a call with an error.

    Attributes:
        status: The HTTP status: 403 forbidden or over quota, 404 no such thing, 409 there is one already, ...
        reason: The server's own word for it: ``Forbidden``, ``AlreadyExists``, ...
        words: What the server said.
        retry_after: Seconds it asks to wait, if it does.
    """

    default_code = "cluster_refused"

    def __init__(self, call: str, status: int, reason: str, words: str, *, retry_after: float | None = None) -> None:
        super().__init__(f"The cluster refused: {words}", context={"call": call, "status": status})
        self.status = status
        self.reason = reason
        self.words = words
        self.retry_after = retry_after

    @property
    def over_quota(self) -> bool:
        """Whether there is no room left in the namespace's quota, so that it may be asked again later."""
        return self.status == 403 and "exceeded quota" in self.words


class ClusterGone(BackendError):
    """The API server did not answer, or stopped answering."""

    default_code = "cluster_lost"

    def __init__(self, call: str, server: str, reason: str) -> None:
        super().__init__(
            f"The cluster's API server {server} does not answer ({call}: {reason}).",
            hint="See whether it can be reached: kubectl version. Or name another context with --context.",
            context={"call": call, "server": server},
        )
        self.words = reason


def _broken() -> tuple[type[Exception], ...]:
    import aiohttp

    return (aiohttp.ClientError, OSError, TimeoutError)


class Cluster:
    """A cluster that is spoken to. Made by ``Cluster.connect``; any number of calls may be made at once."""

    def __init__(self, *, context: str | None, namespace: str | None, kubeconfig: Path | None) -> None:
        self._wanted = (context, namespace, kubeconfig)
        self._client: Any = None
        self.context = context or ""
        self.namespace = namespace or "default"
        self.server = ""
        self.version = ""
        """The server's version, e.g. ``v1.31.2``."""
        self.calls = 0
        """Requests made so far."""
        self._silent_since: float | None = None

    # --- connecting

    @classmethod
    async def connect(
        cls, *, context: str | None = None, namespace: str | None = None, kubeconfig: Path | None = None
    ) -> Cluster:
        """Find the cluster the way ``kubectl`` does, sign in, and see whether it answers.

        Args:
            context: A context of the kubeconfig; None: the current one.
            namespace: Where everything is made; None: the context's own, else ``default``.
            kubeconfig: The file; None: ``KUBECONFIG``, ``~/.kube/config``, or the pod's own service account.

        Raises:
            BackendUnavailable: The message says why: not installed, no kubeconfig, no such context, no answer, not
                permitted, or no such namespace.
        """
        cluster = cls(context=context, namespace=namespace, kubeconfig=kubeconfig)
        await cluster._sign_in()
        try:
            await cluster._greet()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await cluster.close()
            raise
        return cluster

    async def close(self) -> None:
        """Close all connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _sign_in(self) -> None:
        login = await sign_in(*self._wanted)
        previous, self._client = self._client, login.client
        self.server, self.context, self.namespace = login.server, login.context, login.namespace
        if previous is not None:
            await previous.close()

    async def _greet(self) -> None:
        try:
            found = await self.call("GET", "/version", patience=0)
            self.version = str(found.get("gitVersion") or "")
            await self.call("GET", self.path("pods"), query={"limit": 1}, patience=0)
        except ClusterGone as error:
            raise BackendUnavailable(error.message, code="cluster_unreachable", hint=error.hint) from error
        except ClusterRefused as error:
            raise _unusable(self, error) from error
        if not await self._has_namespace():
            raise BackendUnavailable(
                f"There is no namespace {self.namespace!r} on the cluster {self.server}.",
                code="namespace_missing",
                hint=f"Make it with: kubectl create namespace {self.namespace}. Or name another with --namespace.",
                context={"namespace": self.namespace},
            )

    async def _has_namespace(self) -> bool:
        try:
            await self.call("GET", f"/api/v1/namespaces/{quote(self.namespace)}", patience=0)
        except ClusterRefused as error:
            # who may not look at namespaces may well use one
            return error.status != 404
        return True

    def is_at_least(self, major: int, minor: int) -> bool:
        """Whether the server's version is that or a later one; True when it does not say."""
        match = re.match(r"v?(\d+)\.(\d+)", self.version)
        return match is None or (int(match[1]), int(match[2])) >= (major, minor)

    # --- whether it answers

    @property
    def silent_since(self) -> float | None:
        """Since when the server has not answered, on the event loop's clock; None while it does."""
        return self._silent_since

    @contextmanager
    def _reaching(self, call: str, seconds: float | None, *, counts: bool = True) -> Generator[None]:
        """Wait for the server, and take note of whether it answers.

        Args:
            call: What is asked, in words.
            seconds: How long it may take; None: for ever.
            counts: Whether silence is the server's own, and nobody's whom it asks.

        Raises:
            ClusterGone: It does not answer.
        """
        try:
            with anyio.fail_after(seconds):
                yield
        except ClusterRefused:
            self._silent_since = None
            raise
        except _broken() as error:
            if counts and self._silent_since is None:
                self._silent_since = anyio.current_time()
            late = isinstance(error, TimeoutError) and seconds is not None
            why = f"no answer within {seconds:g} s" if late else str(error) or type(error).__name__
            raise ClusterGone(call, self.server, why) from error
        self._silent_since = None

    # --- paths

    def path(self, kind: Kind, name: str = "", *more: str, namespace: str | None = None) -> str:
        """The path of a kind of object in the namespace, or of one object, or of something below it."""
        base = f"{_GROUPS.get(kind, '/api/v1')}/namespaces/{quote(namespace or self.namespace)}/{kind}"
        return "/".join((base, *(quote(part) for part in (name, *more) if part)))

    # --- calls

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        patience: float = 60.0,
        timeout: float = _CALL_SECONDS,
    ) -> Any:
        """Make a call and wait for its answer, again and again while the server is busy, restarting or not there.

        Args:
            method: The HTTP method.
            path: Path on the server.
            query: Parameters; None values are left out.
            body: What to send, as JSON.
            content_type: What kind of JSON it is.
            patience: Seconds in which a call that failed for the server's own reasons is made again.
            timeout: Seconds for one try.

        Returns:
            The answer's JSON; text when it is none.

        Raises:
            ClusterRefused: The server answered with an error.
            ClusterGone: It did not answer.
        """
        tries = Tries(_BACKOFF, patience=patience)
        renewed = False
        while True:
            try:
                return await self._once(method, path, query, body, content_type, timeout)
            except ClusterRefused as error:
                if error.status == 401 and not renewed:
                    # a token of a sign-in program has run out
                    renewed = True
                    await self._sign_in()
                    continue
                pause = tries.again(error.retry_after) if says_later(error.status) else None
                if pause is None:
                    raise
            except ClusterGone:
                pause = tries.again()
                if pause is None:
                    raise
            await anyio.sleep(pause)

    async def _once(
        self, method: str, path: str, query: Mapping[str, Any] | None, body: Any, content_type: str, timeout: float
    ) -> Any:
        with self._reaching(f"{method} {path}", timeout):
            response = await self._send(method, path, query, body, content_type)
            data: bytes = await response.read()
        try:
            return json.loads(data)
        except ValueError:
            return data.decode("utf-8", "replace")

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> Any:
        """Send a request; returns the answer of a server that accepted it, to be read or closed."""
        call = f"{method} {path}"
        client = self._connected(call)
        response = await client.call_api(
            path,
            method,
            query_params=[(key, value) for key, value in (query or {}).items() if value is not None],
            header_params={"Accept": "application/json", "Content-Type": content_type},
            body=body,
            auth_settings=_CREDENTIALS,
            _preload_content=False,
        )
        if response.status >= 400:
            async with response:
                raw: bytes = await response.content.read(_ERROR_BYTES)
            raise _refusal(call, response.status, raw, retry_after(response.headers))
        return response

    def _connected(self, call: str) -> Any:
        if self._client is None:
            raise ClusterGone(call, self.server, "the connection was closed")
        self.calls += 1
        return self._client

    async def create(self, kind: Kind, body: Mapping[str, Any], *, patience: float = 60.0) -> Any:
        """Create an object; one that is there already under its unique name is taken for the one that was asked for.

        A call that was cut off may have been carried out, so that the next try finds the object there.
        """
        try:
            return await self.call("POST", self.path(kind), body=body, patience=patience)
        except ClusterRefused as error:
            if error.status != 409 or error.reason != "AlreadyExists":
                raise
        return await self.call("GET", self.path(kind, body["metadata"]["name"]), patience=patience)

    async def get(self, kind: Kind, name: str, *, patience: float = 60.0) -> Any | None:
        """An object, or None when there is none of that name."""
        try:
            return await self.call("GET", self.path(kind, name), patience=patience)
        except ClusterRefused as error:
            if error.status == 404:
                return None
            raise

    async def list(
        self, kind: Kind, selector: str = "", *, namespace: str | None = None, patience: float = 60.0
    ) -> Mapping[str, Any]:
        """All objects of a kind that carry these labels; ``items`` and ``metadata.resourceVersion``."""
        items: list[Any] = []
        more: str | None = None
        while True:
            page = await self.call(
                "GET",
                self.path(kind, namespace=namespace),
                query={"labelSelector": selector or None, "limit": 500, "continue": more},
                patience=patience,
            )
            items += page.get("items") or ()
            more = page["metadata"].get("continue")
            if not more:
                return {"items": items, "metadata": page["metadata"]}

    async def delete(
        self, kind: Kind, name: str, *, grace: int | None = None, uid: str | None = None, patience: float = 60.0
    ) -> bool:
        """Delete an object and what it owns.

        Args:
            kind: Its kind.
            name: Its name.
            grace: Seconds a pod has for its end; 0: forget it at once. None: its own.
            uid: Only the object with this id, not another that was made later under its name.
            patience: Seconds in which the call is made again.

        Returns:
            Whether it was there.
        """
        body: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        try:
            await self.call("DELETE", self.path(kind, name), body=body, patience=patience)
        except ClusterRefused as error:
            if error.status in (404, 409):
                return False
            raise
        return True

    async def delete_all(self, kind: Kind, selector: str, *, patience: float = 60.0) -> None:
        """Delete all objects of a kind that carry these labels."""
        await self.call("DELETE", self.path(kind), query={"labelSelector": selector}, patience=patience)

    async def review(self, verb: str, kind: str, *, group: str = "", subresource: str = "") -> bool:
        """Whether we may do that in the namespace."""
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
            patience=5,
        )
        return bool(answer.get("status", {}).get("allowed"))

    # --- streams

    @asynccontextmanager
    async def stream(
        self, path: str, query: Mapping[str, Any] | None = None, *, silence: float | None = None
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Hand out an answer's bytes as they come.

        Args:
            path: Path on the server.
            query: Parameters.
            silence: Seconds without a byte after which the stream counts as broken; None: it may be silent.

        Raises:
            ClusterRefused: The server answered with an error.
            ClusterGone: It did not answer, or the stream broke; a stream that ends in order just ends.
        """
        call = f"GET {path}"
        with self._reaching(call, _CALL_SECONDS):
            response = await self._send("GET", path, query)

        async def chunks() -> AsyncGenerator[bytes]:
            while True:
                with self._reaching(call, silence, counts=False):
                    data: bytes = await response.content.readany()
                if not data:
                    return
                yield data

        try:
            async with contextlib.aclosing(chunks()) as pieces:
                yield pieces
        finally:
            # not read to its end: a followed log may have none. And TLS would say farewell and wait for an answer
            connection = response.connection
            if connection is not None and connection.transport is not None:
                connection.transport.abort()
            response.close()

    async def forward(self, pod: str, port: int, *, timeout: float = _CALL_SECONDS) -> ForwardedStream:
        """Connect to a port of a pod, through the API server and the pod's node.

        Raises:
            ClusterRefused: There is no such pod, or it is not permitted.
            ClusterGone: The API server did not answer.
        """
        import aiohttp

        call = f"connect to port {port} of pod {pod}"
        client = self._connected(call)
        headers: dict[str, str] = {}
        await client.update_params_for_auth(headers, [], _CREDENTIALS)
        # not with the library's own client for websockets, which knows neither proxies nor names of servers
        way = client.rest_client
        with self._reaching(call, timeout, counts=False):
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


# --- errors -----------------------------------------------------------------------------------------------------


def _refusal(call: str, status: int, data: bytes, after: float | None) -> ClusterRefused:
    try:
        answer = json.loads(data)
        reason, words = str(answer.get("reason") or ""), str(answer.get("message") or status)
    except (ValueError, AttributeError):
        reason, words = "", data.decode("utf-8", "replace").strip()[:1000] or f"HTTP {status}"
    return ClusterRefused(call, status, reason, words, retry_after=after)


def _unusable(cluster: Cluster, error: ClusterRefused) -> BackendUnavailable:
    """Why a cluster that answers cannot be used."""
    if error.status == 401:
        return BackendUnavailable(
            f"The cluster {cluster.server} does not know who we are: {error.words}.",
            code="cluster_unauthorised",
            hint="The credentials have expired or are wrong; sign in again.",
        )
    if error.status == 403:
        return BackendUnavailable(
            f"The cluster {cluster.server} does not permit it: {error.words}.",
            code="cluster_forbidden",
            hint=f"Ask for the rights that docs/kubernetes.md lists, in the namespace {cluster.namespace!r}.",
        )
    return BackendUnavailable(error.message, code=error.code, hint=error.hint)
