"""Deletion of an account: what stays is under a neutral name, and the old one stands nowhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import anyio
import sqlalchemy as sa
from support.observatory import Inside, inside
from support.uploads import upload_coworld, upload_image

from observatory.api.leagues import create_league
from observatory.store.audit import audit_lines
from observatory.store.columns import Base
from observatory.store.models import Token, Webhook

NAME, MAIL, PLAYER = "zoe-quark", "zoe@example.org", "quarkling"
SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}


async def _found(platform: Inside, *words: str) -> list[str]:
    """Where words stand, in all tables but the audit log, which only grows."""
    found: list[str] = []
    async with platform.services.database.reading() as session:
        for name, table in Base.metadata.tables.items():
            if name == "audit_entries":
                continue
            for row in (await session.execute(sa.select(table))).mappings().all():
                shown = [f"{name}.{one}: {value}" for one, value in row.items()]
                found += [one for one in shown for word in words if word.casefold() in one.casefold()]
    return found


async def test_the_old_name_stands_nowhere(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        zoe, bob = await platform.add_user(NAME, email=MAIL), await platform.add_user("bob")
        await upload_coworld(platform, bob)
        async with platform.services.database.writing() as session:
            league = (await create_league(session, "open", coworld="paint-arena")).id
        envs = await platform.post("/stats/policy-secret-envs", zoe, {"policy_secret_env": {"KEY": "secret"}})
        player = await platform.post("/players", zoe, {"name": PLAYER})
        session_token = (await platform.post(f"/players/{player['id']}/login", zoe))["token"]
        image = (await upload_image(platform, zoe, "bot"))["id"]
        other = (await upload_image(platform, bob, "bot"))["id"]
        versions: dict[str, str] = {}
        for key, token, name, of in (
            ("played", session_token, f"{NAME}-bot", image),
            ("unused", zoe, "spare", image),
            ("bob's", bob, "bot", other),
        ):
            body: dict[str, Any] = {"name": name, "container_image_id": of}
            if key == "played":
                body["policy_secret_env_id"] = envs["id"]
            versions[key] = (await platform.post("/stats/policies/docker-img/complete", token, body))["id"]
        for key, token in (("played", session_token), ("bob's", bob)):
            body = {"league_id": league, "policy_version_id": versions[key]}
            # What is said to bob names zoe's
            assert (await platform.post("/v2/league-submissions", token, body))["status"] == "placed"
        await platform.post(
            "/v2/experience-requests",
            zoe,
            {
                "target": {"league_id": league},
                "roster": [{"player": {"policy_ref": "bot"}}, {"player": {"policy_ref": f"{NAME}-bot"}}],
                "num_episodes": 1,
                "title": f"{NAME} tries",
            },
        )
        await platform.post("/v2/teams", zoe, {"name": "red"})
        hook = await platform.post("/v2/webhooks", zoe, {"url": f"https://{NAME}.example.org/"})
        assert await _found(platform, NAME, MAIL, PLAYER) != []
        planned = await platform.get("/account/deletion", zoe)
        refused = await platform.ask("DELETE", "/account", zoe, params={"name": "bob"}, expect=409)
        assert refused.json()["type"] == "not_confirmed"
        await platform.ask("DELETE", "/account", session_token, params={"name": NAME}, expect=403)
        done = (await platform.ask("DELETE", "/account", zoe, params={"name": NAME})).json()
        assert done == planned
        assert (done["name"], done["memberships"], done["unused"], done["requests"] > 0) == (NAME, 1, 1, True)
        assert await _found(platform, NAME, MAIL, PLAYER) == []
        async with platform.services.database.reading() as session:
            assert await session.get(Webhook, hook["id"]) is None
        for token in (zoe, session_token):
            assert (await platform.get("/whoami", token))["subject_type"] == "anonymous"
        rows = await platform.get("/v2/league-policy-memberships", league_id=league)
        assert {row["player"]["name"] for row in rows} == {"bob", f"{done['neutral_name']}-1"}
        async with platform.services.database.reading() as session:
            assert (await session.scalars(sa.select(Token.id).where(Token.kind == "player"))).all() == []
            [line] = [one for one in await audit_lines(session) if one["action"] == "account.deleted"]
        assert (line["user"], line["by"]) == (done["neutral_name"], done["neutral_name"])
        assert not [place async for place in anyio.Path(tmp_path).rglob(f"*{envs['id']}*")]
        # The name is free again, and nothing comes back with it
        again = await platform.add_user(NAME)
        assert (await platform.get("/stats/policy-versions", again))["entries"] == []


async def test_the_last_member_of_a_team_with_entries_says_first_what_becomes_of_them(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        zoe = await platform.add_user(NAME)
        await platform.post("/v2/teams", zoe, {"name": "red"})
        team = {"X-Team": "red"}
        refused = await platform.ask("DELETE", "/account", zoe, params={"name": "red"}, headers=team, expect=409)
        assert refused.json()["type"] == "is_team"
        await platform.ask("DELETE", "/account", zoe, params={"name": NAME})


async def test_an_account_is_deleted_in_the_browser(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        token = await platform.add_user(NAME)
        entered = await platform.http.post("/sign-in", data={"token": token}, headers=SAME_ORIGIN)
        cookie = {**SAME_ORIGIN, "Cookie": entered.headers["set-cookie"].partition(";")[0]}
        platform.http.cookies.clear()
        shown = await platform.http.get("/account/delete", headers=cookie)
        assert re.search(r"deleted-[0-9a-f]{10}", shown.text)
        for name, status in (("bob", 409), (NAME, 200)):
            answer = await platform.http.post("/account/delete", data={"name": name}, headers=cookie)
            assert answer.status_code == status
        assert "is deleted" in answer.text
        crossing = await platform.http.post(
            "/account/delete", data={"name": NAME}, headers={**cookie, "Sec-Fetch-Site": "cross-site"}
        )
        assert crossing.status_code == 403
        assert await _found(platform, NAME) == []
