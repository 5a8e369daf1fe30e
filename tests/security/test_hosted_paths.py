"""However a closed path of a game is written, the server does not pass it on."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
from support.observatory_kit import open_platform, seed
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from observatory.hosted import sessions as hosted_sessions

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CLOSED = (
    "/admin",
    "//admin",
    "/admin/",
    "/admin//",
    "/Admin",
    "/admin/settings",
    "/client//admin",
    "/client///admin//x",
    "/client/%2e/admin",
    "/client/x/%2e%2e/admin",
    "/client%2fadmin",
    "/client%5cadmin",
    "/%61dmin",
    "/%2561dmin",
    "/admin;x=1",
    "/admin%3bx",
    "/clients//admin?token=x",
)
WATCHES = ("/client/global", "//client//global", "/client/./global", "/client/Global", "/global")


async def test_blocked_paths_are_blocked_in_every_spelling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosted_sessions, "START_SECONDS", 300)
    async with open_platform(tmp_path) as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id)
        async with platform.client(ann) as client:
            body = {"coworld_id": world.id, "allow_spectators": False}
            made = (await client.post("/v2/coworlds/play/session", json=body)).json()
        base = f"{platform.url}/sessions/{made['session_id']}"
        async with httpx2.AsyncClient(timeout=300) as browser:
            for path in (*CLOSED, *WATCHES):
                answer = await browser.get(base + path)
                # said by us, not by the game
                assert (answer.status_code, answer.text[:21]) == (404, "There is no such game"), path
            # what is open is there, in other spellings too
            for path in ("/client/quick.js", "//client//quick.js"):
                assert "javascript" in (await browser.get(base + path)).headers["content-type"], path
        for path in ("//admin", "/client//admin", "//global"):
            with pytest.raises(InvalidStatus):
                await connect(base.replace("http", "ws") + path, open_timeout=300)
