"""Tokens, identities, and what they open."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
import sqlalchemy as sa
from support.observatory import Inside, inside

from observatory.identity import auth
from observatory.identity.accounts import new_token
from observatory.operations.moderation import disable_user
from observatory.store.audit import audit_lines
from observatory.store.columns import now
from observatory.store.models import Token, User


async def _players(platform: Inside, token: str) -> tuple[str, str]:
    """A player of the token's owner, and a session as it."""
    player = await platform.post("/players", token, {"name": "sprinter"})
    session = await platform.post(f"/players/{player['id']}/login", token)
    return player["id"], session["token"]


async def test_whoami_identifies_users_players_and_anonymous(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        ann, bob = await platform.add_user("ann", email="ann@example.org"), await platform.add_user("bob")
        player_id, session = await _players(platform, ann)
        assert session.startswith("ply_")
        me = await platform.get("/whoami", session)
        assert (me["subject_type"], me["subject_id"], me["name"]) == ("player", player_id, "sprinter")
        assert me["owner_user_id"] == (await platform.get("/whoami", ann))["subject_id"]
        assert [row["is_default"] for row in await platform.get("/players", ann)] == [True]
        assert await platform.get("/players", bob) == []
        # A player manages no players, and nobody logs in as somebody else's
        refused = await platform.ask("GET", "/players", session, expect=403)
        assert refused.json()["type"] == "user_token_needed"
        await platform.ask("POST", f"/players/{player_id}/login", bob, expect=404)
        await platform.ask("POST", "/players", ann, json={"name": "sprinter"}, expect=409)


async def test_token_is_accepted_in_headers_and_cookies(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann = await platform.add_user("ann")
        for headers in ({"Authorization": f"Bearer {ann}"}, {"authorization": f"bearer {ann}"}, {"X-Auth-Token": ann}):
            answer = await platform.ask("GET", "/whoami", headers=headers)
            assert answer.json()["name"] == "ann"
        for text in ("", "Bearer", f"Basic {ann}", f"Bearer {ann[:-1]}x", f"Bearer {ann}\x7f", f"Bearer x{ann}"):
            headers = {"Authorization": text}
            assert (await platform.ask("GET", "/whoami", headers=headers)).json()["subject_type"] == "anonymous"
            assert (await platform.ask("GET", "/players", headers=headers, expect=401)).headers["WWW-Authenticate"]


async def test_token_secret_is_not_stored(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann = await platform.add_user("ann")
        _, _, secret = ann.split("_", 2)
        kept = _everything(tmp_path)
        assert secret.encode() not in kept
        assert b"$argon2id$" in kept


async def test_token_with_right_id_and_wrong_secret_is_refused(tmp_path: Path) -> None:
    """Also right after the true token was verified, and remembered."""
    async with inside(tmp_path) as platform:
        ann = await platform.add_user("ann")
        await platform.get("/players", ann)
        kind, public, secret = ann.split("_", 2)
        await platform.ask("GET", "/players", f"{kind}_{public}_{secret[::-1]}", expect=401)


async def test_revoked_or_expired_token_is_refused_at_once(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        tokens = platform.services.tokens
        ann = await platform.add_user("ann")
        _, session = await _players(platform, ann)
        async with platform.services.database.writing() as db:
            await db.execute(
                sa.update(Token).where(Token.kind == "player").values(expires_at=now() - dt.timedelta(seconds=1))
            )
        await platform.ask("GET", "/v2/container_images", session, expect=401)
        assert await platform.get("/v2/container_images", ann) == []
        async with platform.services.database.writing() as db:
            fresh = await new_token(db, tokens, "ann", revoke=True)
        await platform.ask("GET", "/players", ann, expect=401)
        assert len(await platform.get("/players", fresh.text)) == 1
        async with platform.services.database.writing() as db:
            await disable_user(db, "ann")
        await platform.ask("GET", "/players", fresh.text, expect=403)


async def test_team_rights_must_be_requested(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        admin, ann = await platform.add_user("admin", team=True), await platform.add_user("ann")
        _, session = await _players(platform, admin)
        elevated = {"X-Use-Elevated-Privileges": "true"}
        await platform.ask("GET", "/whoami", admin, headers=elevated)
        for token, status in ((ann, 403), (session, 403), (None, 401)):
            await platform.ask("GET", "/whoami", token, headers=elevated, expect=status)
        await platform.ask("GET", "/v2/coworld-league-seeds", ann, expect=403)
        await platform.ask("GET", "/v2/coworld-league-seeds", None, expect=401)
        assert await platform.get("/v2/coworld-league-seeds", admin) == []


async def test_cookie_authenticates_reads_only(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        await platform.add_user("ann")
        async with platform.services.database.writing() as db:
            user_id = await db.scalar(sa.select(sa.text("id")).select_from(sa.text("users")))
            web = await platform.services.tokens.mint(db, "web", user_id)
        cookie = {"Cookie": f"{auth.SESSION_COOKIE}={web.text}"}
        assert (await platform.ask("GET", "/players", headers=cookie)).json() == []
        await platform.ask("POST", "/players", headers=cookie, json={"name": "x"}, expect=401)
        # And it is nothing but a cookie
        await platform.ask("GET", "/players", web.text, expect=401)


async def test_sign_in_code_is_exchanged_once(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        ann = await platform.add_user("ann")
        page = await platform.http.get("/cli-auth", params={"callback": "http://127.0.0.1:4711/callback?state=s"})
        assert page.status_code == 200
        assert "form" in page.text
        form = {"callback": "http://127.0.0.1:4711/callback?state=s", "token": ann}
        sent = await platform.http.post("/cli-auth", data=form)
        assert sent.status_code == 303
        target = sent.headers["location"]
        assert target.startswith("http://127.0.0.1:4711/callback?state=s&code=")
        code = target.rpartition("code=")[2]
        made = await platform.post("/credentials/auth-codes/exchange", None, {"code": code})
        assert (await platform.get("/whoami", made["token"]))["name"] == "ann"
        assert made["token"] != ann
        await platform.ask("POST", "/credentials/auth-codes/exchange", json={"code": code}, expect=410)
        await platform.ask("POST", "/credentials/auth-codes/exchange", json={"code": "x"}, expect=400)


async def test_sign_in_code_never_begins_with_a_dash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is typed after a command's name, and chance may want it to begin with a dash."""
    monkeypatch.setattr(auth.secrets, "token_urlsafe", lambda _: "-" * 43)
    async with inside(tmp_path) as platform:
        await platform.add_user("ann")
        async with platform.services.database.writing() as session:
            user_id = await session.scalar(sa.select(User.id))
            assert user_id is not None
            code = await auth.new_code(session, user_id)
        assert code[0].isalnum()
        monkeypatch.undo()
        made = await platform.post("/credentials/auth-codes/exchange", None, {"code": code})
        assert made["token"].startswith("obs_")


@pytest.mark.parametrize(
    "callback", ["https://127.0.0.1:1/x", "http://evil.example:1/", "http://127.0.0.1@evil.example:1/", "javascript:1"]
)
async def test_sign_in_code_is_sent_to_loopback_only(tmp_path: Path, callback: str) -> None:
    async with inside(tmp_path) as platform:
        ann = await platform.add_user("ann")
        assert (await platform.http.get("/cli-auth", params={"callback": callback})).status_code == 400
        sent = await platform.http.post("/cli-auth", data={"callback": callback, "token": ann})
        assert sent.status_code == 400
        wrong = await platform.http.post("/cli-auth", data={"callback": "", "token": "obs_x"})
        assert wrong.status_code == 403


@pytest.mark.parametrize("way", ["/sign-in", "/cli-auth", "/observatory/credentials/auth-codes/exchange"])
async def test_failed_sign_ins_are_limited_and_noted(tmp_path: Path, way: str) -> None:
    async with inside(tmp_path) as platform:
        ann, http = await platform.add_user("ann"), platform.http
        body = {"json": {"code": "obc_x"}} if way.endswith("exchange") else {"data": {"token": f"{ann[:-1]}x"}}
        # What succeeds does not count
        for _ in range(6):
            assert (await http.post("/sign-in", data={"token": ann})).status_code == 303
        answers = [await http.post(way, **body) for _ in range(5)]
        assert 429 not in {answer.status_code for answer in answers}
        # Nobody's writing is waited for, nor kept from others
        async with platform.services.database.writing():
            answers.append(await http.post(way, **body))
        assert answers[-1].status_code == 429
        assert int(answers[-1].headers["Retry-After"]) >= 1
        # Nor with the right token, from there
        assert (await http.post("/sign-in", data={"token": ann})).status_code == 429
        async with platform.services.database.reading() as session:
            failed = [line for line in await audit_lines(session) if line["action"] == "sign_in.failed"]
        assert [(line["origin"], line["subject"]) for line in failed] == [("127.0.0.1", way)] * 5


def _everything(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


async def test_sign_out_is_logged_as_the_visitors(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann = await platform.add_user("ann")
        origin = {"Origin": platform.services.settings.url, "Sec-Fetch-Site": "same-origin"}
        signed = await platform.http.post("/sign-in", data={"token": ann}, headers=origin)
        assert signed.status_code == 303
        # The cookie is a secure one if the address is, whatever carries it here
        cookie = {"Cookie": signed.headers["set-cookie"].partition(";")[0]}
        assert (await platform.http.post("/sign-out", headers={**origin, **cookie})).status_code == 303
        async with platform.services.database.reading() as session:
            [closed] = [line for line in await audit_lines(session) if line["action"] == "session.closed"]
        assert (closed["actor"], closed["by"]) == ("user", "ann")


async def test_own_tokens_are_listed_named_and_revoked(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        made = await platform.post("/credentials/tokens", ann, {"name": "laptop", "days": 7})
        assert (await platform.get("/whoami", made["token"]))["name"] == "ann"
        rows = {row["name"]: row for row in await platform.get("/credentials/tokens", ann)}
        assert {name: (row["kind"], row["is_current"]) for name, row in rows.items()} == {
            "laptop": ("user", False),
            "first": ("user", True),
        }
        assert "token" not in rows["laptop"]
        lasts = dt.datetime.fromisoformat(rows["laptop"]["expires_at"]) - now()
        assert dt.timedelta(days=6) < lasts <= dt.timedelta(days=7)
        assert rows["first"]["expires_at"] is None
        for days in (None, 300):  # What it makes ends when it does
            inner = await platform.post("/credentials/tokens", made["token"], {"name": "inner", "days": days})
            assert inner["expires_at"] == made["expires_at"]
            await platform.ask("DELETE", f"/credentials/tokens/{inner['id']}", ann)
        target = f"/credentials/tokens/{made['id']}"
        await platform.ask("DELETE", target, bob, expect=404)
        for _ in range(2):  # Whose reply is lost may ask again
            await platform.ask("DELETE", target, ann)
        await platform.ask("GET", "/players", made["token"], expect=401)
        assert [row["name"] for row in await platform.get("/credentials/tokens", ann)] == ["first"]
        async with platform.services.database.reading() as session:
            revoked = [line for line in await audit_lines(session) if line["action"] == "token.revoked"]
        assert [(line["by"], line["detail"]["label"]) for line in revoked if line["subject"] == made["id"]] == [
            ("ann", "laptop")
        ]


async def test_account_page_shows_tokens_and_revokes_them(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        made = await platform.post("/credentials/tokens", ann, {"name": "laptop"})
        assert (await platform.http.get("/account")).headers["location"] == "/sign-in?next=/account"
        origin = {"Origin": platform.services.settings.url, "Sec-Fetch-Site": "same-origin"}

        async def signed_in(token: str) -> dict[str, str]:
            signed = await platform.http.post("/sign-in", data={"token": token}, headers=origin)
            platform.http.cookies.clear()
            return {"Cookie": signed.headers["set-cookie"].partition(";")[0], **origin}

        as_ann, as_bob = await signed_in(ann), await signed_in(bob)
        page = await platform.http.get("/account", headers=as_ann)
        assert (page.status_code, "laptop" in page.text, "browser" in page.text) == (200, True, True)
        form = {"token_id": made["id"]}
        assert (await platform.http.post("/account/tokens", data=form, headers=as_bob)).status_code == 404
        elsewhere = {**as_ann, "Sec-Fetch-Site": "cross-site"}
        assert (await platform.http.post("/account/tokens", data=form, headers=elsewhere)).status_code == 403
        await platform.get("/players", made["token"])
        assert (await platform.http.post("/account/tokens", data=form, headers=as_ann)).status_code == 303
        await platform.ask("GET", "/players", made["token"], expect=401)
        assert "laptop" not in (await platform.http.get("/account", headers=as_ann)).text
