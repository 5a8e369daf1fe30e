"""Calls to a Kubernetes API server that is busy: against one of our own, which answers as it is told."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.clock import skipping
from support.fake_server import Ask, Say, Site, serve_site

from coworld_core.retrying import Backoff
from coworld_runner.backends.kubernetes import _server as _kube_server
from coworld_runner.backends.kubernetes import _watch as _kube_watch
from coworld_runner.backends.kubernetes._api import Cluster, ClusterGone, ClusterRefused
from coworld_runner.backends.kubernetes._watch import follow


class ApiServer(Site):
    """What it answers: watches are refused, and calls too as long as there are ``refusals``."""

    def __init__(self) -> None:
        super().__init__()
        self.refusals: list[tuple[int, dict[str, str]]] = []
        self.watched = anyio.Event()
        self.watching = 500
        self.listings: list[list[dict[str, Any]]] = []
        """What is there, one look after another; the last is there for good."""

    def otherwise(self, ask: Ask) -> Any:
        if ask.path == "/breaks":
            return Say(200, b"x", {"Content-Length": "2"}, cut=0)
        if "watch" in ask.query:
            if sum("watch" in other.query for other in self.asked) == 5:
                self.watched.set()
            return Say(self.watching)
        if self.refusals:
            status, headers = self.refusals.pop(0)
            return Say(status, b'{"message": "busy"}', headers)
        items = self.listings.pop(0) if len(self.listings) > 1 else [item for there in self.listings for item in there]
        return {"gitVersion": "v1.31.0", "items": items, "metadata": {"resourceVersion": "7"}}


@asynccontextmanager
async def connected(directory: Path) -> AsyncGenerator[tuple[ApiServer, Cluster]]:
    async with serve_site(ApiServer()) as server:
        config = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server.url}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        }
        path = directory / "kubeconfig"
        path.write_text(json.dumps(config))
        cluster = await Cluster.connect(kubeconfig=path)
        try:
            server.asked.clear()
            yield server, cluster
        finally:
            await cluster.close()


async def test_retry_after_of_a_busy_server_is_obeyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kube_server, "_BACKOFF", Backoff(base=0.0, longest_wait=5.0))
    async with connected(tmp_path) as (server, cluster):
        server.refusals = [(status, {"Retry-After": "0"}) for status in (408, 425, 429, 500, 502, 503, 504)]
        assert (await cluster.call("GET", "/version"))["gitVersion"] == "v1.31.0"
        assert len(server.asked) == 8
        server.asked.clear()
        server.refusals = [(429, {"Retry-After": "6"})]
        with pytest.raises(ClusterRefused) as caught:
            await cluster.call("GET", "/version")
        assert (caught.value.status, caught.value.retry_after) == (429, 6.0)
        assert len(server.asked) == 1


async def test_a_call_is_given_up_when_its_patience_ends(tmp_path: Path) -> None:
    async with connected(tmp_path) as (server, cluster):
        server.refusals = [(503, {})] * 1000
        began = anyio.current_time()
        with skipping(), pytest.raises(ClusterRefused):
            await cluster.call("GET", "/version", patience=90)
        # by the clock that is slept by: this took no minute and a half
        assert 90 <= anyio.current_time() - began < 100
        assert len(server.asked) > 10


async def test_call_is_sent_with_kubeconfig_credentials_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the credentials of the kubeconfig, and none of those that stand in the environment for others."""
    (tmp_path / "netrc").write_text("default login somebody password s3cret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    query = {"sinceTime": "2026-11-21T16:00:01+02:00", "labelSelector": "a=b,c in (d,e)", "continue": None, "limit": 5}
    async with connected(tmp_path) as (server, cluster):
        await cluster.call("PATCH", "/x", query=query, body={"a": [1]}, content_type="application/merge-patch+json")
        (asked,) = server.asked
        assert asked.query == {name: str(value) for name, value in query.items() if value is not None}
        assert asked.json == {"a": [1]}
        assert asked.headers["content-type"] == "application/merge-patch+json"
        assert asked.headers["authorization"] == "Bearer t"


async def test_broken_stream_is_reported(tmp_path: Path) -> None:
    async with connected(tmp_path) as (_, cluster):

        async def read() -> None:
            async with cluster.stream("/breaks") as chunks:
                async for _ in chunks:
                    pass

        with pytest.raises(ClusterGone):
            await read()


async def test_pauses_grow_while_a_watch_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = 0

    class Counting(Backoff):
        def pauses(self) -> Iterator[float]:
            nonlocal begun
            begun += 1
            return Backoff(base=0.0).pauses()

    monkeypatch.setattr(_kube_watch, "_BACKOFF", Counting())
    async with connected(tmp_path) as (server, cluster), anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: follow(cluster, "pods", "", on_object=print, on_gone=print))
        with anyio.fail_after(30):
            await server.watched.wait()
        tasks.cancel_scope.cancel()
    assert begun == 1


async def test_pods_are_polled_where_watching_is_forbidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was made anew under the same name is another, and the one before is told to be gone first."""
    monkeypatch.setattr(_kube_watch, "_BACKOFF", Backoff(base=0.0))
    told: list[tuple[str, str]] = []
    refusals: list[int] = []
    changed = anyio.Event()

    def seen(pod: Mapping[str, Any]) -> None:
        told.append(("seen", pod["metadata"]["uid"]))

    def gone(pod: Mapping[str, Any]) -> None:
        told.append(("gone", pod["metadata"]["uid"]))
        if pod["metadata"]["uid"] == "2":
            changed.set()

    async with connected(tmp_path) as (server, cluster), anyio.create_task_group() as tasks:
        server.watching = 403
        server.listings = [[{"metadata": {"name": "one", "uid": uid}}] for uid in ("1", "2")] + [[]]
        tasks.start_soon(
            lambda: follow(
                cluster,
                "pods",
                "",
                on_object=seen,
                on_gone=gone,
                on_error=lambda error: refusals.append(error.status),
            )
        )
        with anyio.fail_after(30):
            await changed.wait()
        tasks.cancel_scope.cancel()
    assert told == [("seen", "1"), ("gone", "1"), ("seen", "2"), ("gone", "2")]
    assert refusals == [403, 403]
