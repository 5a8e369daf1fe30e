"""Teams: several people own an entry, which counts as one owner's; and the people who run a league."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from support.observatory import Inside, inside
from support.uploads import upload_coworld, upload_image

from observatory.api.leagues import create_league
from observatory.errors import Refusal
from observatory.identity.accounts import new_token
from observatory.identity.auth import new_code
from observatory.store.audit import audit_lines
from observatory.store.models import Membership, Token, User

SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}
RED = {"X-Team": "red"}


async def _league(platform: Inside, token: str, **options: Any) -> str:
    await upload_coworld(platform, token)
    async with platform.services.database.writing() as session:
        return (await create_league(session, "open", coworld="paint-arena", **options)).id


async def _invitation(platform: Inside, token: str, team: str = "red") -> str:
    return str((await platform.post(f"/v2/teams/{team}/invitations", token, {}))["link"])


async def _team_of(platform: Inside, *tokens: str) -> None:
    await platform.post("/v2/teams", tokens[0], {"name": "red"})
    for token in tokens[1:]:
        await platform.post("/v2/teams/join", token, {"code": await _invitation(platform, tokens[0])})


async def _policy(platform: Inside, token: str, image: str, *, team: bool = True) -> str:
    """Upload a version of a policy, for the team or not, by an image that is there."""
    body = {"name": "bot", "container_image_id": image}
    headers = RED if team else {}
    done = await platform.ask("POST", "/stats/policies/docker-img/complete", token, json=body, headers=headers)
    return str(done.json()["id"])


async def _team_image(platform: Inside, token: str) -> str:
    """Upload an image for the team, by the token of its member."""
    asked = platform.ask

    async def for_team(*words: Any, headers: Any = None, **more: Any) -> Any:
        return await asked(*words, headers={**RED, **(headers or {})}, **more)

    platform.ask = for_team  # type: ignore[method-assign]
    try:
        return str((await upload_image(platform, token, "bot"))["id"])
    finally:
        platform.ask = asked  # type: ignore[method-assign]


async def _submit(platform: Inside, token: str, league: str, version: str, *, expect: int = 200) -> dict[str, Any]:
    body = {"league_id": league, "policy_version_id": version}
    return dict((await platform.ask("POST", "/v2/league-submissions", token, json=body, expect=expect)).json())


async def test_members_share_what_the_team_has(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        ann, bob, eve = [await platform.add_user(name) for name in ("ann", "bob", "eve")]
        league = await _league(platform, eve)
        await _team_of(platform, ann, bob)
        version = await _policy(platform, ann, await _team_image(platform, ann))
        # The other member submits, nominates and retires without saying for whom; a stranger does not
        assert (await _submit(platform, eve, league, version, expect=404))["type"] == "not_found"
        entry = await _submit(platform, bob, league, version)
        place = f"/v2/league-policy-memberships/{entry['league_policy_membership_id']}"
        assert entry["player"]["name"] == "red"
        await platform.post(f"{place}/champion", ann)
        await platform.ask("POST", f"{place}/retire", eve, json={}, expect=403)
        retired = await platform.post(f"{place}/retire", ann, {"reason": "over"})
        assert (retired["status"], retired["reason"]) == ("retired", "over")
        rows = await platform.get("/v2/league-policy-memberships", bob, mine="true")
        assert [(row["player"]["name"], row["reason"]) for row in rows] == [("red", "over")]
        # Who did it is in the audit log, and whom it concerns
        async with platform.services.database.reading() as session:
            [line] = [one for one in await audit_lines(session, user="red") if one["action"] == "policy.uploaded"]
        assert (line["by"], line["user"]) == ("ann", "red")


async def test_nobody_signs_in_as_a_team(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann, eve = await platform.add_user("ann"), await platform.add_user("eve")
        await _team_of(platform, ann)
        for token, headers in ((eve, RED), (ann, {"X-Team": "blue"})):
            refused = await platform.ask("GET", "/stats/policy-versions", token, headers=headers, expect=403)
            assert refused.json()["type"] == "not_member"
        body = {"name": "laptop"}
        refused = await platform.ask("POST", "/credentials/tokens", ann, json=body, headers=RED, expect=403)
        assert refused.json()["type"] == "is_team"
        async with platform.services.database.writing() as session:
            with pytest.raises(Refusal, match="red is a team"):
                await new_token(session, platform.services.tokens, "red")
        # The code of an invitation signs nobody in
        code = (await _invitation(platform, ann)).rpartition("/")[2]
        await platform.ask("POST", "/credentials/auth-codes/exchange", json={"code": code}, expect=400)
        assert (await platform.http.post(f"/invitations/{code}", headers=SAME_ORIGIN)).status_code == 410
        # Nor does a code of signing in let anybody into a team
        async with platform.services.database.writing() as session:
            user = await session.scalar(sa.select(User.id).where(User.name == "ann"))
            own = await new_code(session, user or "")
        await platform.ask("POST", "/v2/teams/join", eve, json={"code": own}, expect=410)
        # A player of somebody acts for no team
        player = await platform.post("/players", ann, {"name": "ann-1"})
        session_token = (await platform.post(f"/players/{player['id']}/login", ann))["token"]
        await platform.ask("GET", "/stats/policy-versions", session_token, headers=RED, expect=403)
        await platform.ask("GET", "/v2/teams", session_token, expect=403)


async def test_one_person_plays_in_one_name(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        ann, bob, eve = [await platform.add_user(name) for name in ("ann", "bob", "eve")]
        league = await _league(platform, eve)
        await _team_of(platform, ann)
        version = await _policy(platform, ann, await _team_image(platform, ann))
        own = {
            token: await _policy(platform, token, (await upload_image(platform, token, "bot"))["id"], team=False)
            for token in (ann, bob)
        }
        await _submit(platform, ann, league, version)
        assert (await _submit(platform, ann, league, own[ann], expect=409))["type"] == "plays_already"
        # Whoever joins has to leave first what would be a second entry, and the invitation is not used up
        mine = await _submit(platform, bob, league, own[bob])
        body = {"code": await _invitation(platform, ann)}
        refused = await platform.ask("POST", "/v2/teams/join", bob, json=body, expect=409)
        assert refused.json()["type"] == "plays_already"
        await platform.post(f"/v2/league-policy-memberships/{mine['league_policy_membership_id']}/retire", bob, {})
        await platform.post("/v2/teams/join", bob, body)
        await platform.ask("POST", "/v2/teams/join", eve, json=body, expect=410)
        # A team of somebody who is in the first one is no way around it
        await platform.post("/v2/teams", bob, {"name": "blue"})
        refused = await platform.ask("GET", "/v2/teams", bob)
        assert [team["name"] for team in refused.json()] == ["blue", "red"]
        async with platform.services.database.writing() as session:
            blue = await session.scalar(sa.select(User.id).where(User.name == "blue"))
            await session.execute(
                sa.text("UPDATE policy_versions SET user_id = :blue WHERE id = :id"), {"blue": blue, "id": own[bob]}
            )
        assert (await _submit(platform, bob, league, own[bob], expect=409))["type"] == "plays_already"
        # Only so many teams
        await platform.post("/v2/teams", bob, {"name": "green"})
        refused = await platform.ask("POST", "/v2/teams", bob, json={"name": "grey"}, expect=409)
        assert refused.json()["type"] == "quota_exceeded"
        for name in ("red", "r\u0435d", "Ann"):
            assert (await platform.ask("POST", "/v2/teams", eve, json={"name": name}, expect=None)).status_code >= 400


async def test_who_leaves_keeps_nothing(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        ann, bob, eve = [await platform.add_user(name) for name in ("ann", "bob", "eve")]
        league = await _league(platform, eve)
        await _team_of(platform, ann, bob)
        version = await _policy(platform, bob, await _team_image(platform, bob))
        await _submit(platform, bob, league, version)
        player = (await platform.ask("POST", "/players", bob, json={"name": "red-1"}, headers=RED)).json()
        shown = await platform.ask("POST", f"/players/{player['id']}/login", bob, headers=RED)
        invitation = await _invitation(platform, bob)
        await platform.ask("DELETE", "/v2/teams/red/members/ann", bob, expect=403)
        await platform.ask("DELETE", "/v2/teams/red/members/eve", ann, expect=404)
        await platform.ask("DELETE", "/v2/teams/red/members/bob", ann)
        await platform.ask("GET", "/stats/policy-versions", bob, headers=RED, expect=403)
        await _submit(platform, bob, league, version, expect=404)
        assert (await platform.get("/whoami", shown.json()["token"]))["subject_type"] == "anonymous"
        await platform.ask("POST", "/v2/teams/join", eve, json={"code": invitation}, expect=410)
        # The last one says what becomes of the entries
        refused = await platform.ask("DELETE", "/v2/teams/red/members/me", ann, expect=409)
        assert (refused.json()["type"], "1 membership" in refused.text) == ("last_member", True)
        left = await platform.ask("DELETE", "/v2/teams/red/members/me", ann, params={"entries": "retire"})
        assert left.json() == {"team": "red", "member": "ann", "entries_ended": 1}
        async with platform.services.database.reading() as session:
            assert (await session.scalars(sa.select(Membership.status))).unique().all() == ["retired"]
            team = await session.scalar(sa.select(User).where(User.name == "red"))
            assert team is not None
            assert team.disabled_at is not None
            live = sa.select(Token.id).where(Token.user_id == team.id, Token.revoked_at.is_(None))
            assert (await session.scalars(live)).all() == []


async def test_team_is_made_and_joined_in_the_browser(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        cookies: dict[str, dict[str, str]] = {}
        for name in ("ann", "bob"):
            entered = await platform.http.post(
                "/sign-in", data={"token": await platform.add_user(name)}, headers=SAME_ORIGIN
            )
            cookies[name] = {**SAME_ORIGIN, "Cookie": entered.headers["set-cookie"].partition(";")[0]}
            platform.http.cookies.clear()

        async def send(who: str, **form: str) -> str:
            answer = await platform.http.post("/account/teams", data=form, headers=cookies[who])
            return answer.text if answer.status_code != 303 else await account(who)

        async def account(who: str) -> str:
            return (await platform.http.get("/account", headers=cookies[who])).text

        crossing = await platform.http.post(
            "/account/teams",
            data={"do": "make", "name": "red"},
            headers={**cookies["ann"], "Sec-Fetch-Site": "cross-site"},
        )
        assert crossing.status_code == 403
        assert "red" in await send("ann", do="make", name="red")
        assert "U+202E" in await send("ann", do="make", name="a\u202eb")
        [link] = re.findall(r"/teams/join/[\w-]+", await send("ann", do="invite", team="red"))
        assert (await platform.http.get(link)).headers["location"] == f"/sign-in?next={link}"
        assert "the team <b>red</b>" in (await platform.http.get(link, headers=cookies["bob"])).text
        await platform.http.post(link, headers=cookies["bob"])
        assert "ann, bob" in await account("bob")
        assert (await platform.http.post(link, headers=cookies["bob"])).status_code == 410
        # The captain takes another out, and nobody else does
        assert "Remove ann" not in await account("bob")
        async with platform.services.database.reading() as session:
            ids = {user.name: user.id for user in await session.scalars(sa.select(User))}
        assert "Only the captain" in await send("bob", do="leave", team="red", member=ids["ann"])
        assert "There is no such action." in await send("bob", do="go", team="red")
        assert "Remove bob from red" in await account("ann")
        assert "ann, bob" not in await send("ann", do="leave", team="red", member=ids["bob"])
        assert "Leave red" not in await account("bob")
        [link] = re.findall(r"/teams/join/[\w-]+", await send("ann", do="invite", team="red"))
        await platform.http.post(link, headers=cookies["bob"])
        assert "Leave red" not in await send("bob", do="leave", team="red")
        assert "ann, bob" not in await account("ann")


async def test_organisers_and_assistants_see_their_league_and_no_other(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        admin = await platform.add_user("admin", team=True)
        ann, org, aid, eve = [await platform.add_user(name) for name in ("ann", "org", "aid", "eve")]
        league = await _league(platform, eve)
        image = (await upload_image(platform, ann, "bot"))["id"]
        entry = await _submit(platform, ann, league, await _policy(platform, ann, image, team=False))
        place = f"/v2/league-policy-memberships/{entry['league_policy_membership_id']}"
        officers = f"/v2/leagues/{league}/officers"
        body = {"user": "org", "role": "organiser"}
        for token in (admin, org):  # An operator has to ask for the team's rights
            await platform.ask("PUT", officers, token, json=body, expect=403)
        await platform.ask("PUT", officers, admin, json=body, headers={"X-Use-Elevated-Privileges": "true"})
        await platform.ask("PUT", officers, org, json={"user": "eve", "role": "organiser"}, expect=403)
        await platform.ask("PUT", officers, org, json={"user": "org", "role": "none"}, expect=403)
        await platform.ask("PUT", officers, org, json={"user": "nobody", "role": "assistant"}, expect=404)
        await platform.ask("PUT", officers, org, json={"user": "aid", "role": "assistant"})
        rows = await platform.get(officers, eve)
        assert [(row["name"], row["role"]) for row in rows] == [("org", "organiser"), ("aid", "assistant")]
        await platform.ask("PUT", officers, aid, json={"user": "eve", "role": "assistant"}, expect=403)
        for token in (aid, eve):
            await platform.ask("POST", f"{place}/retire", token, json={}, expect=403)
        await platform.post(f"{place}/retire", org, {"reason": "twice the same"})
        seen = [
            [row.get("reason") for row in await platform.get("/v2/league-policy-memberships", token, league_id=league)]
            for token in (ann, org, aid, eve)
        ]
        assert seen == [["twice the same"], ["twice the same"], ["twice the same"], [None]]


async def test_officers_are_appointed_and_dismissed_in_the_browser(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        tokens = {name: await platform.add_user(name, team=name == "admin") for name in ("admin", "org", "aid", "eve")}
        league = await _league(platform, tokens["eve"], public=False)
        cookies: dict[str, dict[str, str]] = {}
        for name, token in tokens.items():
            entered = await platform.http.post("/sign-in", data={"token": token}, headers=SAME_ORIGIN)
            cookies[name] = {**SAME_ORIGIN, "Cookie": entered.headers["set-cookie"].partition(";")[0]}
            platform.http.cookies.clear()
        place = f"/leagues/{league}"

        async def send(by: str, user: str, role: str, **headers: str) -> int:
            form = {"user": user, "role": role}
            return (
                await platform.http.post(f"{place}/officers", data=form, headers={**cookies[by], **headers})
            ).status_code

        async def shown(to: str) -> tuple[list[str], set[str]]:
            """Who is named, and what the forms do."""
            text = (await platform.http.get(place, headers=cookies[to])).text
            named = re.findall(r'<td class="name">(\w+) <span class="soft">(?:organiser|assistant)', text)
            return named, set(re.findall(r"<option>(\w+)|Dismiss (\w+)\"", text))  # type: ignore[arg-type]

        assert await shown("admin") == ([], {("organiser", ""), ("assistant", "")})
        assert await shown("eve") == ([], set())
        for by, role in (("org", "organiser"), ("eve", "assistant")):
            assert await send(by, "org", role) == 403
        assert await send("admin", "org", "organiser", **{"Sec-Fetch-Site": "cross-site"}) == 403
        unknown = await platform.http.post(f"{place}/officers", data={}, headers=SAME_ORIGIN)
        assert unknown.headers["location"] == f"/sign-in?next={place}"
        assert await send("admin", "org", "organiser") == 303
        assert [await send("admin", "nobody", "assistant"), await send("admin", "org", "king")] == [404, 404]
        assert await send("org", "aid", "assistant") == 303
        # An organiser names assistants only, and dismisses no organiser
        assert await shown("org") == (["org", "aid"], {("assistant", ""), ("", "aid")})
        assert await shown("aid") == await shown("eve") == (["org", "aid"], set())
        assert [await send("org", "eve", "organiser"), await send("org", "org", "none")] == [403, 403]
        assert [await send("aid", "eve", "assistant"), await send("aid", "aid", "none")] == [403, 403]
        assert await send("org", "aid", "none") == 303
        assert await send("admin", "org", "none") == 303
        assert (await shown("eve"))[0] == []
        async with platform.services.database.reading() as session:
            lines = [line for line in await audit_lines(session) if line["action"] == "league.appointed"]
        assert [(line["by"], line["user"], line["detail"]["role"]) for line in lines] == [
            ("admin", "org", "organiser"),
            ("org", "aid", "assistant"),
            ("org", "aid", "none"),
            ("admin", "org", "none"),
        ]
