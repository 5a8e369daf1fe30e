"""Webhooks: who is told of what, once, signed; and what becomes of an address that does not take it."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
from pathlib import Path
from typing import Any

import anyio
import pytest
import sqlalchemy as sa
from support.fake_server import Say, Site, serve_site
from support.observatory import Inside, inside
from support.statements import noted
from support.uploads import upload_coworld, upload_image

from observatory.api.leagues import create_league
from observatory.operations.webhooks import deliver_due
from observatory.store.columns import now
from observatory.store.event_log import record_event
from observatory.store.models import Event, League, PolicyVersion, Webhook
from observatory.work.seasons import close_season


async def _league_of(platform: Inside, token: str) -> tuple[str, str]:
    """A league with an entry of somebody; returns it and the version."""
    await upload_coworld(platform, token)
    image = (await upload_image(platform, token, "bot"))["id"]
    body = {"name": "bot", "container_image_id": image}
    version = (await platform.post("/stats/policies/docker-img/complete", token, body))["id"]
    async with platform.services.database.writing() as session:
        league = (await create_league(session, "open", coworld="paint-arena", every=60)).id
    await platform.post("/v2/league-submissions", token, {"league_id": league, "policy_version_id": version})
    return league, version


async def _reject(platform: Inside, version: str) -> None:
    async with platform.services.database.writing() as session:
        row = await session.get_one(PolicyVersion, version)
        await record_event(session, "submission_rejected", "Not placed", audience="owner", policy_version=row)


async def _shown(platform: Inside, token: str) -> dict[str, Any]:
    [row] = await platform.get("/v2/webhooks", token)
    return dict(row)


async def _due(platform: Inside, *, failures: int | None = None) -> None:
    """Let everything be tried again at once."""
    async with platform.services.database.writing() as session:
        await session.execute(sa.update(Webhook).values(next_at=now()))
        if failures is not None:
            await session.execute(sa.update(Webhook).values(failures=failures))


async def test_those_whom_it_concerns_are_told_once(tmp_path: Path, database: str | None) -> None:
    site = Site()
    for path in ("/ann", "/bob"):
        site.on("POST", path, {})
    async with inside(tmp_path, database=database, private_webhooks=True) as platform, serve_site(site):
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        made = await platform.post("/v2/webhooks", ann, {"url": f"{site.url}/ann"})
        await platform.post("/v2/webhooks", bob, {"url": f"{site.url}/bob"})
        league, version = await _league_of(platform, ann)
        await _reject(platform, version)
        async with platform.services.database.writing() as session:
            await close_season(session, await session.get_one(League, league))
        # Two servers at the same time
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(deliver_due, platform.services)
            tasks.start_soon(deliver_due, platform.services)
        await deliver_due(platform.services)
        assert [(one.path, one.json["type"]) for one in site.asked] == [
            ("/ann", "submission_rejected"),
            ("/ann", "season_ended"),
        ]
        rejected, over = site.asked
        assert rejected.json["data"]["policy"] == "bot:v1"
        assert (over.json["data"]["league"], over.json["data"]["season"]) == ("open", 1)
        for one in site.asked:
            signed = ".".join((one.headers["webhook-id"], one.headers["webhook-timestamp"], one.body.decode()))
            key = base64.b64decode(made["key"].removeprefix("whsec_"))
            right = base64.b64encode(hmac.digest(key, signed.encode(), hashlib.sha256)).decode()
            assert one.headers["webhook-signature"] == f"v1,{right}"
        shown = await _shown(platform, ann)
        assert shown["delivered_at"] is not None
        assert "key" not in shown
        assert (await _shown(platform, bob))["delivered_at"] is None


async def test_what_was_not_taken_is_told_again(tmp_path: Path) -> None:
    site = Site()
    answers = [Say(500), Say(302, headers={"location": "http://127.0.0.1:1/"}), Say(204), Say(410)]
    site.on("POST", "/hook", lambda _: answers.pop(0))  # pyright: ignore[reportUnknownLambdaType]
    async with inside(tmp_path, private_webhooks=True) as platform, serve_site(site):
        ann = await platform.add_user("ann")
        await platform.post("/v2/webhooks", ann, {"url": f"{site.url}/hook"})
        _, version = await _league_of(platform, ann)
        await _reject(platform, version)
        await deliver_due(platform.services)
        assert (await _shown(platform, ann))["error"] == "It answers 500."
        # Not yet again
        await deliver_due(platform.services)
        assert len(site.asked) == 1
        await _due(platform)
        await deliver_due(platform.services)
        assert (await _shown(platform, ann))["error"] == "It answers 302."
        await _due(platform)
        await deliver_due(platform.services)
        assert (await _shown(platform, ann))["error"] is None
        assert len({one.headers["webhook-id"] for one in site.asked}) == 1
        await _reject(platform, version)
        await deliver_due(platform.services)
        gone = await _shown(platform, ann)
        assert gone["ended_at"] is not None
        assert "wants no more" in gone["error"]


async def test_an_address_that_never_answers_is_given_up(tmp_path: Path) -> None:
    async with inside(tmp_path, private_webhooks=True) as platform:
        ann = await platform.add_user("ann")
        await platform.post("/v2/webhooks", ann, {"url": "http://127.0.0.1:1/hook"})
        _, version = await _league_of(platform, ann)
        await _reject(platform, version)
        await deliver_due(platform.services)
        assert (await _shown(platform, ann))["ended_at"] is None
        await _due(platform, failures=11)
        await deliver_due(platform.services)
        shown = await _shown(platform, ann)
        assert "cannot be reached" in shown["error"]
        assert dt.datetime.fromisoformat(shown["ended_at"]) <= now()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "10.0.0.1", "169.254.169.254", "0.0.0.0"])
async def test_no_request_goes_into_the_operators_networks(tmp_path: Path, host: str) -> None:
    site = Site()
    async with inside(tmp_path) as platform, serve_site(site):
        ann = await platform.add_user("ann")
        port = site.url.rpartition(":")[2]
        await platform.post("/v2/webhooks", ann, {"url": f"http://{host}:{port}/hook"})
        _, version = await _league_of(platform, ann)
        await _reject(platform, version)
        await deliver_due(platform.services)
        assert "no public address" in (await _shown(platform, ann))["error"]
        assert not site.asked


@pytest.mark.parametrize("url", ["ftp://a/b", "https://", "hook", "http://u:p@a/", "http://a:99999/", "http://[/"])
async def test_addresses_that_are_none(tmp_path: Path, url: str) -> None:
    async with inside(tmp_path) as platform:
        ann = await platform.add_user("ann")
        await platform.ask("POST", "/v2/webhooks", ann, json={"url": url}, expect=422)


async def test_an_account_has_few_and_only_its_own(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        made = [await platform.post("/v2/webhooks", ann, {"url": "https://example.org/"}) for _ in range(5)]
        refused = await platform.ask("POST", "/v2/webhooks", ann, json={"url": "https://example.org/"}, expect=409)
        assert refused.json()["type"] == "quota_exceeded"
        await platform.ask("DELETE", f"/v2/webhooks/{made[0]['id']}", bob, expect=404)
        await platform.ask("DELETE", f"/v2/webhooks/{made[0]['id']}", ann)
        assert len(await platform.get("/v2/webhooks", ann)) == 4


async def test_what_concerns_others_is_read_once_and_delays_nobody(tmp_path: Path) -> None:
    site = Site()
    site.on("POST", "/ann", {})
    async with inside(tmp_path, private_webhooks=True) as platform, serve_site(site):
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        await platform.post("/v2/webhooks", bob, {"url": f"{site.url}/bob"})
        _, version = await _league_of(platform, ann)
        for _ in range(3):
            await _reject(platform, version)
        term = now() - dt.timedelta(days=70)
        async with platform.services.database.writing() as session:
            await session.execute(sa.update(Event).values(created_at=now() - dt.timedelta(days=1)))
            bobs = (await session.scalars(sa.select(Webhook))).one()
            # More than are told at a time, made at the beginning of a term, and never told
            session.add_all(Webhook(user_id=bobs.user_id, url=bobs.url, next_at=term) for _ in range(110))
            await session.flush()
            await session.execute(sa.update(Webhook).values(after=term))
        await platform.post("/v2/webhooks", ann, {"url": f"{site.url}/ann"})
        await deliver_due(platform.services)
        with noted(platform.services.database.engine) as asked:
            await deliver_due(platform.services)
        [newest] = [statement for statement, _ in asked if "competition_events" in statement]
        assert "max(" in newest
        async with platform.services.database.engine.connect() as connection:
            [given] = [parameters for statement, parameters in asked if statement == newest]
            plan = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {newest}", given)
            assert all("ix_competition_events_kind" in row.detail for row in plan if row.detail.startswith("SEARCH"))
        await _reject(platform, version)
        await deliver_due(platform.services)
        assert [one.path for one in site.asked] == ["/ann"]
