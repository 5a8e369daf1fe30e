"""The Kubernetes API: which cluster, calls to it, streams from it, and connections to ports of pods.

``kubernetes_asyncio`` reads kubeconfigs and signs in; objects stay the plain JSON that the server speaks. It is
imported only when a cluster is connected to.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import weakref
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlencode

import anyio
import anyio.lowlevel

from coworld_core.errors import BackendError, BackendUnavailable
from coworld_core.retrying import Backoff, Tries, retry_after, says_later

from ._kube_forward import ForwardedStream
from ._kube_login import sign_in

__all__ = ["Cluster", "ClusterGone", "ClusterRefused", "Kind"]

_CALL_SECONDS = 30.0
_BACKOFF = Backoff(base=0.15, cap=4.0)
_CLOSE_SECONDS = 1.0
_ERROR_BYTES = 64 * 1024

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
        self._configuration: Any = None
        self._session: Any = None
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
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
        if self._session is None:
            return
        session, self._session = self._session, None
        await session.close()
        # TLS says farewell and waits for an answer; nobody here does
        for left in list(self._sockets):
            with contextlib.suppress(OSError):
                left.shutdown(socket.SHUT_RDWR)
        with anyio.move_on_after(_CLOSE_SECONDS):
            while any(left.fileno() >= 0 for left in list(self._sockets)):
                await anyio.lowlevel.checkpoint()

    async def _sign_in(self) -> None:
        import aiohttp

        login = await sign_in(*self._wanted)
        # followed logs and watches each hold a connection, so their number must not be what is scarce
        connector = aiohttp.TCPConnector(limit=0, ssl=login.tls, socket_factory=self._open_socket)
        previous, self._session = self._session, aiohttp.ClientSession(connector=connector, read_bufsize=1 << 21)
        self._configuration = login.configuration
        self.server, self.context, self.namespace = login.server, login.context, login.namespace
        if previous is not None:
            await previous.close()

    def _open_socket(self, address: Any) -> socket.socket:
        family, kind, protocol, _, _ = address
        made = socket.socket(family, kind, protocol)
        made.setblocking(False)
        self._sockets.add(made)
        return made

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

    def _heard(self) -> None:
        self._silent_since = None

    def _unheard(self) -> None:
        if self._silent_since is None:
            self._silent_since = anyio.current_time()

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
        try:
            with anyio.fail_after(timeout):
                async with self._request(method, path, query, body, content_type) as response:
                    data: bytes = await response.read()
        except TimeoutError as error:
            self._unheard()
            raise ClusterGone(f"{method} {path}", self.server, f"no answer within {timeout:g} s") from error
        except _broken() as error:
            self._unheard()
            raise ClusterGone(f"{method} {path}", self.server, str(error) or type(error).__name__) from error
        self._heard()
        try:
            return json.loads(data)
        except ValueError:
            return data.decode("utf-8", "replace")

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> AsyncGenerator[Any]:
        """Send a request and hand out the answer of a server that accepted it."""
        import aiohttp

        if self._session is None:
            raise ClusterGone(f"{method} {path}", self.server, "the connection was closed")
        headers = {"Accept": "application/json", **await self._headers()}
        data: bytes | None = None
        if body is not None:
            headers["Content-Type"] = content_type
            data = json.dumps(body).encode()
        self.calls += 1
        async with self._session.request(
            method, self._url(path, query), data=data, headers=headers, timeout=aiohttp.ClientTimeout(), **self._route()
        ) as response:
            if response.status >= 400:
                raw: bytes = await response.content.read(_ERROR_BYTES)
                self._heard()
                raise _refusal(f"{method} {path}", response.status, raw, retry_after(response.headers))
            yield response

    def _url(self, path: str, query: Mapping[str, Any] | None) -> Any:
        import yarl

        text = urlencode([(key, _worded(value)) for key, value in (query or {}).items() if value is not None])
        return yarl.URL(f"{self.server}{path}{'?' + text if text else ''}", encoded=True)

    def _route(self) -> dict[str, Any]:
        given = (("proxy", self._configuration.proxy), ("server_hostname", self._configuration.tls_server_name))
        return {name: value for name, value in given if value}

    async def _headers(self) -> dict[str, str]:
        headers = {"User-Agent": "coworld"}
        for setting in (await self._configuration.auth_settings()).values():
            if setting.get("in") == "header":
                headers[setting["key"]] = setting["value"]
        return headers

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
    ) -> AsyncGenerator[Chunks]:
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
        manager = self._request("GET", path, query)
        try:
            with anyio.fail_after(_CALL_SECONDS):
                response = await manager.__aenter__()
        except TimeoutError as error:
            self._unheard()
            raise ClusterGone(call, self.server, f"no answer within {_CALL_SECONDS:g} s") from error
        except _broken() as error:
            self._unheard()
            raise ClusterGone(call, self.server, str(error) or type(error).__name__) from error
        self._heard()
        try:
            yield Chunks(self, call, response, silence)
        finally:
            # not read to its end: a followed log may have none
            response.close()
            with contextlib.suppress(*_broken()):
                await manager.__aexit__(None, None, None)

    async def forward(self, pod: str, port: int, *, timeout: float = _CALL_SECONDS) -> ForwardedStream:
        """Connect to a port of a pod, through the API server and the pod's node.

        Raises:
            ClusterRefused: There is no such pod, or it is not permitted.
            ClusterGone: The API server did not answer.
        """
        import aiohttp

        path = self.path("pods", pod, "portforward")
        call = f"connect to port {port} of pod {pod}"
        if self._session is None:
            raise ClusterGone(call, self.server, "the connection was closed")
        headers = await self._headers()
        self.calls += 1
        try:
            with anyio.fail_after(timeout):
                carrier = await self._session.ws_connect(
                    self._url(path, {"ports": port}),
                    protocols=("v4.channel.k8s.io",),
                    headers=headers,
                    max_msg_size=0,
                    timeout=aiohttp.ClientWSTimeout(ws_close=0.5),  # pyright: ignore[reportCallIssue]
                    **self._route(),
                )
        except aiohttp.WSServerHandshakeError as error:
            self._heard()
            raise ClusterRefused(call, error.status, "", f"{call}: HTTP {error.status} {error.message}") from error
        except TimeoutError as error:
            raise ClusterGone(call, self.server, f"no answer within {timeout:g} s") from error
        except _broken() as error:
            self._unheard()
            raise ClusterGone(call, self.server, str(error) or type(error).__name__) from error
        self._heard()
        return ForwardedStream(carrier)


class Chunks:
    """An answer's bytes as they come; iterate over it."""

    def __init__(self, cluster: Cluster, call: str, response: Any, silence: float | None) -> None:
        self._cluster = cluster
        self._call = call
        self._response = response
        self._silence = silence

    def __aiter__(self) -> Chunks:
        return self

    async def __anext__(self) -> bytes:
        try:
            with anyio.fail_after(self._silence):
                data: bytes = await self._response.content.readany()
        except TimeoutError as error:
            raise ClusterGone(self._call, self._cluster.server, f"nothing for {self._silence:g} s") from error
        except _broken() as error:
            raise ClusterGone(self._call, self._cluster.server, str(error) or type(error).__name__) from error
        if not data:
            raise StopAsyncIteration
        return data


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


def _worded(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
