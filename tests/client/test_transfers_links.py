"""Links that run out: asked for again once, gone on with where the old one broke off, and said to be over."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.fake_platform import EPISODE
from support.fake_server import Ask, FakeServer, Say, json_say, serve, serve_file
from support.observatory_kit import open_platform, seed

from coworld_client import Backoff, CoworldClient, LinkExpired
from coworld_client.errors import ApiStatusError, Forbidden, NotFound
from coworld_client.transfers.files import download
from observatory.store.columns import new_id, now
from observatory.store.models import Artifact, EpisodeRequest

EREQ = str(EPISODE["id"])
CONTENT = random.Random(5).randbytes(700_001)
TOKEN = "s3cret-token-of-the-client"
XML = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>"


class Platform:
    """An API whose links lead to storage elsewhere, where each is good until ``good`` names a later one."""

    def __init__(self, *, good: int = 1, status: int = 403, cuts: list[int] | None = None, route: Say | None = None):
        self.good = good
        self.status = status
        self.route = route or json_say({"detail": "no route"}, 404)
        self.given = 0
        self.file = serve_file(CONTENT, cuts=cuts)
        self.storage = ""
        self.after_cut: int | None = None
        """Which link is good once a body has been broken off."""

    async def stored(self, ask: Ask) -> Say:
        assert "authorization" not in ask.headers
        if int(ask.query["X-Amz-Signature"].removeprefix("s3cret")) < self.good:
            return Say(self.status, XML, {"Content-Type": "application/xml"})
        say = await self.file(ask)
        if say.cut is not None and self.after_cut is not None:
            self.good = self.after_cut
        return say

    def link(self) -> str:
        self.given += 1
        return f"{self.storage}/bucket/replay?X-Amz-Signature=s3cret{self.given}"

    async def answer(self, ask: Ask) -> Say:
        assert ask.headers["authorization"] == f"Bearer {TOKEN}"
        if ask.path.endswith("/download-manifest"):
            entry = {
                "episode_request_id": EREQ,
                "category": "replay",
                "artifact_id": "a1",
                "filename": "replay.z",
                "state": "ready",
                "encoding": "identity",
                "size": len(CONTENT),
                "url": self.link(),
            }
            return json_say({"entries": [entry], "unavailable_ids": [], "next_cursor": None})
        if ask.path.endswith("/artifacts/replay") and "/v2/" in ask.path:
            return self.route
        if ask.path.endswith(EREQ):
            return json_say({**EPISODE, "replay_url": self.link()})
        return json_say({"detail": "team only"}, 403)


@asynccontextmanager
async def running(platform: Platform) -> AsyncGenerator[tuple[CoworldClient, FakeServer]]:
    async with serve(platform.stored) as storage, serve(platform.answer) as server:
        platform.storage = storage.url
        backoff = Backoff(base=0.001, cap=0.002)
        async with CoworldClient(server.url, token=TOKEN, timeout=20, backoff=backoff) as api:
            yield api, storage


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("status", [400, 401, 403, 410])
async def test_a_fresh_link_is_asked_for(tmp_path: Path, status: int) -> None:
    platform = Platform(good=2, status=status)
    async with running(platform) as (api, storage):
        await api.episodes.download_replay(EREQ, tmp_path / "replay")
    assert (tmp_path / "replay").read_bytes() == CONTENT
    assert names(tmp_path) == ["replay"]
    assert (platform.given, len(storage.asked)) == (2, 2)


async def test_long_expired_link_is_renewed(tmp_path: Path) -> None:
    platform = Platform()
    async with running(platform) as (api, _):
        row = await api.episodes.get(EREQ)
        platform.good = 2
        await api.episodes.download_replay(row, tmp_path / "replay")
    assert (tmp_path / "replay").read_bytes() == CONTENT
    assert platform.given == 2


async def test_link_expiring_during_download_is_renewed(tmp_path: Path) -> None:
    platform = Platform(cuts=[300_000])
    platform.after_cut = 2
    async with running(platform) as (api, storage):
        got = await api.episodes.download_replay(EREQ, tmp_path / "replay")
    assert (tmp_path / "replay").read_bytes() == CONTENT
    # begun, broken off, refused, and gone on with from where it was
    ranges = [ask.headers.get("range") for ask in storage.asked]
    # of what was sent the end may be lost with the connection
    kept = len(CONTENT) - got.received
    assert 0 < kept <= 300_000
    assert ranges == [None, f"bytes={kept}-", f"bytes={kept}-"]
    assert got.resumed
    assert platform.given == 2


@pytest.mark.parametrize("status", [400, 401, 403, 410])
async def test_refused_fresh_link_is_link_expired(tmp_path: Path, status: int) -> None:
    platform = Platform(good=99, status=status)
    async with running(platform) as (api, storage):
        with pytest.raises(LinkExpired) as caught:
            await api.episodes.download_replay(EREQ, tmp_path / "replay")
    assert caught.value.code == "link_expired"
    assert caught.value.status == status
    assert "has expired: storage answered" in caught.value.message
    assert "fresh one" in caught.value.message
    assert "s3cret" not in str(caught.value.to_dict())
    assert names(tmp_path) == []
    # asked again once, not for ever
    assert (platform.given, len(storage.asked)) == (2, 2)


async def test_episode_route_is_the_fallback(tmp_path: Path) -> None:
    platform = Platform(good=99, route=Say(200, b"by the route", {"ETag": '"r"'}))
    async with running(platform) as (api, _):
        await api.episodes.download_replay(EREQ, tmp_path / "replay")
    assert (tmp_path / "replay").read_bytes() == b"by the route"
    assert names(tmp_path) == ["replay"]


async def test_missing_file_is_not_an_expired_link(tmp_path: Path) -> None:
    platform = Platform(good=99, status=404)
    async with running(platform) as (api, _):
        with pytest.raises(NotFound, match="no route"):
            await api.episodes.download_replay(EREQ, tmp_path / "replay")
    assert names(tmp_path) == []


async def test_expired_link_in_a_batch_is_renewed(tmp_path: Path) -> None:
    platform = Platform(cuts=[300_000])
    platform.after_cut = 2
    async with running(platform) as (api, storage):
        (entry,) = await api.downloads.list(EREQ)
        got = await api.downloads.fetch(entry, tmp_path / "replay")
    assert (tmp_path / "replay").read_bytes() == CONTENT
    assert got.resumed
    assert (platform.given, len(storage.asked)) == (2, 3)


@pytest.mark.parametrize(("status", "wanted"), [(403, LinkExpired), (400, LinkExpired), (404, NotFound)])
async def test_refused_fresh_link_in_a_batch_is_reported(tmp_path: Path, status: int, wanted: type[Exception]) -> None:
    platform = Platform(good=99, status=status)
    async with running(platform) as (api, storage):
        (entry,) = await api.downloads.list(EREQ)
        with pytest.raises(wanted) as caught:
            await api.downloads.fetch(entry, tmp_path / "replay")
    assert isinstance(caught.value, ApiStatusError)
    assert caught.value.status == status
    assert names(tmp_path) == []
    assert (platform.given, len(storage.asked)) == (2, 2)


async def test_expired_observatory_link_is_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id)
        stored = await platform.services.artifacts.put("episodes/replay.z", CONTENT)
        async with platform.services.database.writing() as session:
            episode = EpisodeRequest(
                id=new_id("ereq"),
                user_id=ann.id,
                coworld_id=world.id,
                game_config={},
                seed=1,
                status="completed",
                completed_at=now(),
            )
            session.add(episode)
            await session.flush()
            artifact = Artifact(
                id=new_id("art"),
                episode_request_id=episode.id,
                kind="replay",
                key=stored.key,
                media_type="application/octet-stream",
                size=stored.size,
                sha256=stored.sha256,
            )
            session.add(artifact)
        with monkeypatch.context() as clock:
            clock.setattr("observatory.episodes.signed_links.time", SimpleNamespace(time=lambda: 1_700_000_000.0))
            old = platform.services.runtime.links.url(artifact.id, "replay.z").url
        async with CoworldClient(platform.url, token=ann.token) as api:
            with pytest.raises(Forbidden, match="expired"):
                await download(api.connection, old, tmp_path / "replay")
            row = await api.episodes.get(episode.id)
            assert row.replay_url is not None
            assert "expires=" in row.replay_url
            await api.episodes.download_replay(row.model_copy(update={"replay_url": old}), tmp_path / "replay")
    assert (tmp_path / "replay").read_bytes() == CONTENT
