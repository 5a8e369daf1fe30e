"""Two servers with one database: requests go to either, and a game stays where it runs."""

from __future__ import annotations

import signal
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
import pytest
from support.observatory import Observatory, running_observatory
from support.observatory_kit import QUICK, seed
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from observatory.store.models import User

pytestmark = [pytest.mark.slow, pytest.mark.postgresql, pytest.mark.timeout(300)]


async def test_requests_go_to_either_and_games_stay_where_they_run(tmp_path: Path, empty_postgres: str) -> None:
    async def server(stack: AsyncExitStack, name: str, admin: str | None) -> Observatory:
        place = tmp_path / name
        place.mkdir(exist_ok=True)
        more = ("--package", str(QUICK.directory), "--parallel", "0")
        opened = running_observatory(place, backend="process", arguments=more, database=empty_postgres, admin=admin)
        return await stack.enter_async_context(opened)

    async with AsyncExitStack() as stack:
        first = await server(stack, "first", "admin")
        async with first.services() as services, services.database.writing() as session:
            ann = User(name="ann")
            session.add(ann)
            await session.flush()
            owner = ann.id
        async with first.services() as services:
            world = await seed(services, owner)
        shown = {"Authorization": f"Bearer {first.admin_token}"}

        async def client(of: Observatory) -> httpx2.AsyncClient:
            made = httpx2.AsyncClient(base_url=f"{of.server}/observatory", headers=shown, timeout=60)
            return await stack.enter_async_context(made)

        one = await client(first)
        started = (await one.post("/v2/coworlds/play/session", json={"coworld_id": world.id})).raise_for_status().json()
        game = f"/v2/coworlds/play/session/{started['session_id']}"

        # The second one's start does not end it
        second = await server(stack, "second", None)
        other = await client(second)
        assert (await one.post(f"{game}/join")).raise_for_status().json()["slot"] == 0

        # What one is told, the other says at once
        for number in range(6):
            asked, told = (one, other)[number % 2], (other, one)[number % 2]
            made = (await asked.post("/players", json={"name": f"player {number}"})).raise_for_status().json()
            assert made["id"] in {player["id"] for player in (await told.get("/players")).json()}

        for refused in (
            await other.get(game),
            await other.post(f"{game}/join"),
            await other.delete(game),
            await other.get(f"{second.server}/sessions/{started['session_id']}/client/global"),
            await other.get(f"{second.server}/play/{started['session_id']}"),
        ):
            assert refused.status_code == 421, refused.text
            assert "another server" in refused.text
        with pytest.raises(InvalidStatus) as closed:
            async with connect(f"ws{second.server[4:]}/sessions/{started['session_id']}/global"):
                pass
        assert closed.value.response.status_code == 421
        async with connect(f"ws{first.server[4:]}/sessions/{started['session_id']}/global"):
            pass

        # Killed, it takes its own back when it starts again
        first.process.send_signal(signal.SIGKILL)
        await first.process.wait()
        assert (await other.get(game)).status_code == 421
        again = await server(stack, "first", None)
        assert (await (await client(again)).get(game)).json()["status"] == "failed"
        assert (await other.post(f"{game}/join")).status_code == 404
