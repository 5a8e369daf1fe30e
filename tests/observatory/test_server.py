"""The server as a process: it starts, answers, refuses, and stops."""

from __future__ import annotations

import datetime as dt
import socket
from pathlib import Path

import httpx2
import pytest
import sqlalchemy as sa
from support.observatory import inside, running_observatory

from observatory import server
from observatory.store.columns import now
from observatory.store.models import Idempotent, Token
from observatory.work.housekeeping import tidy


@pytest.mark.slow
async def test_server_starts_authenticates_and_stops(tmp_path: Path) -> None:
    async with running_observatory(tmp_path) as platform:
        ann = await platform.add_user("ann")
        async with httpx2.AsyncClient(base_url=platform.server) as http:
            nobody = await http.get("/observatory/whoami")
            assert nobody.json()["subject_type"] == "anonymous"
            stale = await http.get("/observatory/whoami", headers={"Authorization": "Bearer obs_nonsense"})
            assert stale.json()["subject_type"] == "anonymous"
            me = (await http.get("/observatory/whoami", headers={"Authorization": f"Bearer {ann}"})).json()
            assert (me["subject_type"], me["name"], me["is_softmax_team_member"]) == ("user", "ann", False)
            admin = {"X-Auth-Token": platform.admin_token}
            assert (await http.get("/observatory/whoami", headers=admin)).json()["is_softmax_team_member"] is True
            refused = await http.get("/observatory/players", headers={"Authorization": "Bearer obs_nonsense"})
            assert refused.status_code == 401
            assert refused.json()["type"] == "not_authenticated"
            assert refused.headers["X-Request-Id"]
    assert platform.process.returncode == 0


def test_response_in_two_parts_is_not_delayed() -> None:
    with server.bind("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_expired_rows_are_removed(tmp_path: Path) -> None:
    """What is long over goes, what may still be asked for stays."""
    async with inside(tmp_path) as platform:
        ann = await platform.add_user("ann")
        key = {"Idempotency-Key": "one"}
        first = await platform.ask("POST", "/players", ann, json={"name": "x"}, headers=key)
        await platform.post(f"/players/{first.json()['id']}/login", ann)
        await tidy(platform.services)
        assert (await platform.ask("POST", "/players", ann, json={"name": "x"}, headers=key)).json() == first.json()
        long_ago = now() - dt.timedelta(days=30)
        async with platform.services.database.writing() as db:
            await db.execute(sa.update(Idempotent).values(created_at=long_ago))
            await db.execute(sa.update(Token).where(Token.kind == "player").values(expires_at=long_ago))
        await tidy(platform.services)
        await platform.ask("POST", "/players", ann, json={"name": "x"}, headers=key, expect=409)
        async with platform.services.database.reading() as db:
            assert list(await db.scalars(sa.select(Token.kind))) == ["user"]


async def test_every_response_has_the_common_headers(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann = await platform.add_user("ann")
        for path, status in (("/v2/leagues", 200), ("/v2/leagues/x", 404), ("/nothing", 404), ("/players", 401)):
            answer = await platform.ask("GET", path, expect=status, headers={"X-Request-Id": "mine-1"})
            assert answer.headers["X-Request-Id"] == "mine-1"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            if status >= 400:
                assert set(answer.json()) == {"detail", "type"}
        strange = await platform.ask("GET", "/v2/leagues", headers={"X-Request-Id": "a\tb" * 99})
        assert strange.headers["X-Request-Id"].isalnum()
        wrong = await platform.ask("DELETE", "/v2/leagues", ann, expect=405)
        assert set(wrong.headers["Allow"].split(", ")) == {"GET", "HEAD"}
        wrong = await platform.ask("DELETE", "/players", ann, expect=405)
        assert set(wrong.headers["Allow"].split(", ")) == {"GET", "HEAD", "POST"}
        assert (await platform.ask("HEAD", "/v2/leagues")).content == b""
        long = await platform.ask("POST", "/players", ann, content=b"x" * (8 * 1024 * 1024 + 1), expect=413)
        assert long.json()["type"] == "too_large"
        for body in (
            b"",
            b"{",
            b"[]",
            b'{"name": "\\ud800"}',
            b'{"name": "x", "more": 1}',
            b"[" * 9999,
            b"\xff",
        ):
            refused = await platform.ask("POST", "/players", ann, content=body, expect=422)
            assert refused.json()["detail"][0]["loc"][0] == "body"
            assert {"type", "loc", "msg"} == refused.json()["detail"][0].keys()
            # Who calls comes first
            await platform.ask("POST", "/players", content=body, expect=401)
        refused = await platform.ask("POST", "/players", ann, content=b'{"name": "\\u0000"}', expect=422)
        assert refused.json()["type"] == "bad_name"
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        await platform.ask("POST", "/players", ann, content=b'{"name": "runner"}', headers=form)


async def test_internal_error_is_identified_by_request_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault of ours says nothing of its inside, and how to find it in the log."""
    async with inside(tmp_path) as platform:
        monkeypatch.setattr(platform.services.database, "reading", None)
        answer = await platform.ask("GET", "/v2/leagues", expect=500)
        assert answer.json()["type"] == "internal"
        request_id = answer.headers["X-Request-Id"]
        assert request_id in answer.json()["detail"]
        assert "NoneType" not in answer.text
        assert request_id in caplog.text
