"""Two servers with one database, bucket and key: requests go to either, whatever the other has."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
import sqlalchemy as sa
from support.fake_server import Site, serve_site
from support.observatory import Inside, Observatory, running_observatory
from support.observatory_kit import QUICK, Platform, open_platform, seed
from support.uploads import upload_image
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from coworld_core.errors import EnvironmentFault
from observatory.operations.webhooks import deliver_due
from observatory.services import open_services
from observatory.settings import server_id
from observatory.store.event_log import record_event
from observatory.store.models import ServerRow, User

pytestmark = [pytest.mark.slow, pytest.mark.postgresql, pytest.mark.timeout(300)]


@asynccontextmanager
async def two_servers(
    tmp_path: Path, database: str, bucket: str, *, backend: str = "none"
) -> AsyncGenerator[tuple[Platform, Platform, Inside, Inside]]:
    """Two servers, and what asks them."""
    shared = {"database": database, "artifacts": f"{bucket}/{tmp_path.name}", "key": tmp_path / "key", "parallel": 0}
    async with AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(
                open_platform(tmp_path / name, backend=backend, private_webhooks=True, **shared)
            )
            for name in ("a", "b")
        ]
        asking = [
            await stack.enter_async_context(httpx2.AsyncClient(base_url=server.url, timeout=60)) for server in servers
        ]
        yield (
            *servers,
            *(Inside(server.services, http) for server, http in zip(servers, asking, strict=True)),
        )  # type: ignore[misc]


async def test_what_one_server_has_the_other_has(tmp_path: Path, empty_postgres: str, bucket: str) -> None:
    site = Site()
    site.on("POST", "/hook", {})
    async with two_servers(tmp_path, empty_postgres, bucket) as (a, b, at_a, at_b), serve_site(site):
        ann = await at_a.add_user("ann", team=True)
        # A secret
        kept = await at_a.post("/stats/policy-secret-envs", ann, {"policy_secret_env": {"HUSH": "hush"}})
        async with b.services.database.reading() as session:
            assert await b.services.vault.policy_env(session, kept["id"]) == {"HUSH": "hush"}
        # A link
        expires, signature = a.services.runtime.links.url("one", "x").url.partition("?expires=")[2].split("&signature=")
        assert b.services.runtime.links.is_good("one", expires, signature)
        # An image, of which each server received a part
        image = await upload_image(at_a, ann, "own")
        place = f"/v2/{image['image_uri'].partition('/')[2].rpartition(':')[0]}"
        shown = {"Authorization": f"Bearer {ann}"}
        manifest = (await at_b.http.get(f"{place}/manifests/v1", headers=shown)).raise_for_status()
        for part in (manifest.json()["config"], *manifest.json()["layers"]):
            pulled = (await at_b.http.get(f"{place}/blobs/{part['digest']}", headers=shown)).raise_for_status()
            assert f"sha256:{hashlib.sha256(pulled.content).hexdigest()}" == part["digest"]
        begun = await at_a.post("/v2/container_images/upload", ann, {"name": "two", "client_hash": "sha256:two"})
        grant, content = begun["pre_signed_info"], os.urandom(300_000)
        pushing = {"Authorization": f"Basic {grant['authorization_token']}"}
        place = f"/v2/{grant['repository']}/blobs"
        upload = (await at_a.http.post(f"{place}/uploads/", headers=pushing)).headers["location"]
        await at_a.http.patch(upload, headers=pushing, content=content[:100_000])
        await at_b.http.patch(upload, headers=pushing, content=content[100_000:200_000])
        assert (await at_b.http.get(upload, headers=pushing)).headers["range"] == "0-199999"
        digest = {"digest": f"sha256:{hashlib.sha256(content).hexdigest()}"}
        done = await at_b.http.put(upload, headers=pushing, params=digest, content=content[200_000:])
        assert done.status_code == 201, done.text
        assert (await at_b.http.get(f"{place}/{digest['digest']}", headers=pushing)).content == content
        # A webhook
        made = await at_a.post("/v2/webhooks", ann, {"url": f"{site.url}/hook"})
        async with b.services.database.writing() as session:
            event = await record_event(session, "submission_rejected", "No", audience="owner")
            event.user_id = await session.scalar(sa.select(User.id))
        await deliver_due(b.services)
        [told] = site.asked
        signed = ".".join((told.headers["webhook-id"], told.headers["webhook-timestamp"], told.body.decode()))
        key = base64.b64decode(made["key"].removeprefix("whsec_"))
        right = base64.b64encode(hmac.digest(key, signed.encode(), hashlib.sha256)).decode()
        assert told.headers["webhook-signature"] == f"v1,{right}"
        # Failures to sign in, and strangers who say that a server has sent them
        strangers = [at_a.http, at_b.http, at_a.http, at_b.http, at_a.http]
        forged = {"Observatory-Forwarded": "10.0.0.1 9999999999-00"}
        failed = [await http.post("/sign-in", data={"token": "obs_x"}, headers=forged) for http in strangers]
        assert {answer.status_code for answer in failed} == {403}
        for http in (at_a.http, at_b.http):
            assert (await http.post("/sign-in", data={"token": ann}, headers=forged)).status_code == 429
        # What is no server of this installation
        with pytest.raises(EnvironmentFault) as refused:
            async with open_services(replace(b.settings, key=tmp_path / "another")):
                pass
        assert refused.value.code == "key_missing"
        (tmp_path / "another").write_text("x" * 32)
        with pytest.raises(EnvironmentFault, match="is not the key of this installation") as refused:
            async with open_services(replace(b.settings, key=tmp_path / "another")):
                pass
        assert refused.value.code == "key_wrong"


async def test_game_at_one_server_is_played_through_the_other(tmp_path: Path, empty_postgres: str, bucket: str) -> None:
    async with two_servers(tmp_path, empty_postgres, bucket, backend="process") as (a, b, at_a, at_b):
        ann, bob = await a.account("ann"), await a.account("bob")
        world = await seed(a.services, ann.id)
        started = await at_a.post("/v2/coworlds/play/session", ann.token, {"coworld_id": world.id})
        game = f"/v2/coworlds/play/session/{started['session_id']}"
        assert (await at_b.get(game, ann.token))["status"] == "running"
        joined = await at_b.post(f"{game}/join", bob.token)
        page = (await at_b.http.get(f"/sessions/{started['session_id']}/client/global")).raise_for_status()
        assert page.headers["content-security-policy"].startswith("sandbox ")
        assert "bob" in (await at_b.http.get(f"/play/{started['session_id']}")).text
        async with connect(f"ws{b.url[4:]}/sessions/{started['session_id']}/global") as watching:
            seat = urlsplit(joined["player_url"].replace("/client/player", "/player"))
            async with connect(f"ws{b.url[4:]}{seat.path}?{seat.query}"):
                assert await watching.recv()
        # Whoever asks B is who counts at A
        visits = a.services.requests
        taken = visits._due  # pyright: ignore[reportPrivateUsage]
        assert "127.0.0.1" in taken
        ended = await at_b.ask("DELETE", game, ann.token)
        assert ended.json()["status"] == "ended"
        assert (await at_b.get(game, ann.token))["status"] == "ended"


async def test_requests_go_to_either_and_games_stay_where_they_run(tmp_path: Path, empty_postgres: str) -> None:
    async def server(stack: AsyncExitStack, name: str, admin: str | None) -> Observatory:
        place = tmp_path / name
        place.mkdir(exist_ok=True)
        more = ("--package", str(QUICK.directory), "--parallel", "0")
        opened = running_observatory(
            place, backend="process", arguments=more, database=empty_postgres, admin=admin, key=tmp_path / "key"
        )
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

        assert (await other.get(game)).raise_for_status().json()["status"] == "running"
        # Where nobody has said where the first one answers, the second says who has it
        async with second.services() as services, services.database.writing() as session:
            address, wrong = (urlsplit(one.server).netloc for one in (first, second))
            await session.execute(sa.update(ServerRow).where(ServerRow.address == address).values(address=wrong))
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
        assert closed.value.response.status_code in (403, 421)
        async with connect(f"ws{first.server[4:]}/sessions/{started['session_id']}/global"):
            pass
        async with second.services() as services, services.database.writing() as session:
            of = ServerRow.id == server_id(first.settings.owner("server"))
            await session.execute(sa.update(ServerRow).where(of).values(address=address))

        # Killed, it takes its own back when it starts again
        first.process.send_signal(signal.SIGKILL)
        await first.process.wait()
        lost = await other.get(game)
        assert (lost.status_code, lost.json()["type"], lost.headers["Retry-After"]) == (503, "elsewhere", "10")
        again = await server(stack, "first", None)
        assert (await (await client(again)).get(game)).json()["status"] == "failed"
        assert (await other.post(f"{game}/join")).status_code == 404
