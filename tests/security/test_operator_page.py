"""The operator's page and its buttons, asked for by everybody there is: for all but operators there is no such page."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from support.observatory import Inside, inside
from support.uploads import upload_policy

from observatory.identity.auth import SESSION_COOKIE
from observatory.store.audit import audit_lines
from observatory.store.models import PolicyVersion, User

pytestmark = pytest.mark.slow

LISTS = ("", *(f"/{what}" for what in ("accounts", "leagues", "policies", "episodes", "storage", "audit")))
OURS = {"Sec-Fetch-Site": "same-origin"}


async def cookie_of(platform: Inside, token: str) -> str:
    """The session that a browser gets for a token."""
    platform.http.cookies.clear()
    answer = await platform.http.post("/sign-in", data={"token": token}, headers=OURS)
    assert answer.status_code == 303
    platform.http.cookies.clear()
    return f"{SESSION_COOKIE}={answer.cookies[SESSION_COOKIE]}"


async def test_operator_page_is_for_team_members_only(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann, eve = await platform.add_user("ann"), await platform.add_user("eve")
        boss = await platform.add_user("boss", team=True)
        version = (await upload_policy(platform, ann))["id"]
        sessions: list[str] = []
        for name, token in (("one", eve), ("two", boss)):
            player = await platform.post("/players", token, {"name": name})
            sessions.append((await platform.post(f"/players/{player['id']}/login", token))["token"])
        strangers = [None, *[await cookie_of(platform, token) for token in (eve, ann, *sessions)]]
        operator = await cookie_of(platform, boss)

        async def page(cookie: str | None) -> int:
            statuses: set[int] = set()
            for what in LISTS:
                answer = await platform.http.get(f"/operator{what}", headers={"Cookie": cookie} if cookie else {})
                if answer.status_code != 200:
                    assert "Audit log" not in answer.text
                statuses.add(answer.status_code)
            [status] = statuses
            return status

        async def press(cookie: str | None, button: str, name: str, **headers: str) -> int:
            shown = {"Cookie": cookie, **headers} if cookie else headers
            form = {"name": name, "reason": "It is loud."}
            return (await platform.http.post(f"/operator/{button}", data=form, headers=shown)).status_code

        async def closed() -> tuple[bool, bool]:
            async with platform.services.database.reading() as session:
                user = await session.scalar(sa.select(User.disabled_at).where(User.name == "ann"))
                policy = await session.scalar(sa.select(PolicyVersion.disabled_at).where(PolicyVersion.id == version))
                return user is not None, policy is not None

        assert [await page(cookie) for cookie in strangers] == [404] * 5
        assert await page(operator) == 200
        buttons = (("user/disable", "ann"), ("policy/disable", version))
        for button, name in (*buttons, ("user/invite", "new"), ("league/create", "new")):
            assert [await press(cookie, button, name, **OURS) for cookie in strangers] == [404] * 5
            # Nor does another site press it in the operator's name
            assert await press(operator, button, name, **{"Sec-Fetch-Site": "cross-site"}) == 403
            assert await press(operator, button, name, Origin="https://evil.example") == 403
        assert await closed() == (False, False)
        async with platform.services.database.reading() as session:
            assert await session.scalar(sa.select(User.id).where(User.name == "new")) is None
        for button, name in buttons:
            assert await press(operator, button, name, **OURS) == 303
        assert await closed() == (True, True)
        # Who is closed is told so by a page, once, and is signed out
        told = await platform.http.get("/", headers={"Cookie": strangers[2]})
        assert (told.status_code, "It is loud." in told.text) == (403, True)
        assert f'{SESSION_COOKIE}=""' in told.headers["Set-Cookie"]
        platform.http.cookies.clear()
        for button, name in (("user/enable", "ann"), ("policy/enable", version)):
            assert await press(operator, button, name, **OURS) == 303
        assert await closed() == (False, False)
        async with platform.services.database.reading() as session:
            me = await session.scalar(sa.select(User.id).where(User.name == "boss"))
            lines = [line for line in await audit_lines(session, user="boss") if "abled" in line["action"]]
        assert [(line["by"], line["action"], line["user"]) for line in lines] == [
            ("boss", f"{what}.{how}", "ann") for how in ("disabled", "enabled") for what in ("account", "policy")
        ]
        for button, name, status in (
            ("user/disable", str(me), 409),
            ("user/disable", "nobody", 404),
            ("policy/disable", "", 404),
            ("league/disable", "x", 404),
        ):
            assert await press(operator, button, name, **OURS) == status


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", '"><img src=x>'])
async def test_operator_page_escapes_names(tmp_path: Path, name: str) -> None:
    async with inside(tmp_path) as platform:
        boss = await platform.add_user("boss", team=True)
        await platform.add_user(name)
        cookie = await cookie_of(platform, boss)
        for what in LISTS:
            answer = await platform.http.get(f"/operator{what}", params={"q": name}, headers={"Cookie": cookie})
            assert answer.status_code == 200
            assert name not in answer.text
        form = {"name": name, "coworld": name, "email": name, "minutes": name}
        for button in ("user/invite", "league/create"):
            answer = await platform.http.post(f"/operator/{button}", data=form, headers={"Cookie": cookie, **OURS})
            assert answer.status_code in (409, 422)
            assert name not in answer.text
