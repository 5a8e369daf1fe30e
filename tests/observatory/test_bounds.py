"""One account, or somebody without any, never takes the whole platform."""

from __future__ import annotations

import datetime as dt
import json
import os
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
import sqlalchemy as sa
from starlette.requests import HTTPConnection
from support.misfit_kit import leftovers
from support.observatory import inside
from support.observatory_kit import MISFITS, open_platform, roster, seed
from support.uploads import Blob, image_parts, manifest_for, upload_image

from observatory import server
from observatory.errors import Refusal
from observatory.hosted import sessions as hosted_sessions
from observatory.identity.accounts import keep_quotas
from observatory.identity.limits import ConnectionLimit, RateLimit, sender_of
from observatory.quotas import Quotas
from observatory.store.audit import audit_lines
from observatory.store.columns import now
from observatory.store.models import EpisodeRequest, ExperienceRequest, GameConfig, Label, Participant, User
from observatory.store.usage import stored_bytes
from observatory.work.cancellation import cancel_waiting
from observatory.work.housekeeping import tidy
from observatory.work.queue import Queue

pytestmark = pytest.mark.timeout(1200)


def talk(url: str, said: bytes) -> bytes:
    """What a server answers to some bytes until it hangs up."""
    with closing(socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=300)) as connection:
        connection.sendall(said)
        heard = b""
        while piece := connection.recv(65536):
            heard += piece
        return heard


async def test_accounts_take_turns(tmp_path: Path, database: str | None) -> None:
    """Who asked first for many is served first, and then whoever waits."""
    async with open_platform(tmp_path, backend="none", database=database) as platform:
        ann, bob, eve = [await platform.account(name) for name in ("ann", "bob", "eve")]
        world = await seed(platform.services, ann.id)
        for account, many in ((ann, 4), (bob, 2), (eve, 1)):
            await platform.policy(account, "a")
            async with platform.client(account) as client:
                body = {"coworld_id": world.id, "roster": roster("a", "a"), "num_episodes": many}
                assert (await client.post("/v2/experience-requests", json=body)).status_code == 200
        queue = Queue(platform.services.database, owner="one")
        names = {account.id: account.name for account in (ann, bob, eve)}
        served: list[str] = []
        while (claim := await queue.claim()) is not None:
            async with platform.services.database.reading() as session:
                served.append(names[(await session.get_one(EpisodeRequest, claim.episode_id)).user_id])
        assert served == ["ann", "bob", "eve", "ann", "bob", "ann", "ann"]


async def test_waiting_episodes_count_against_the_quota(tmp_path: Path, database: str | None) -> None:
    quotas = Quotas(episodes=3)
    async with open_platform(tmp_path, backend="none", database=database, quotas=quotas) as platform:
        ann, team = await platform.account("ann"), await platform.account("team", team=True)
        world = await seed(platform.services, ann.id)
        body = {"coworld_id": world.id, "roster": roster("a", "a")}
        place = "/v2/experience-requests"
        for account in (ann, team):
            await platform.policy(account, "a")
        async with platform.client(ann) as client, platform.client(team) as boss:
            made = (await client.post(place, json=body | {"num_episodes": 2})).json()
            refused = await client.post(place, json=body | {"num_episodes": 2})
            assert (refused.status_code, refused.json()["type"]) == (429, "quota_exceeded")
            assert "2 of 3 are pending or running" in refused.json()["detail"]
            assert refused.headers["Retry-After"] == "60"
            assert (await client.post("/v2/episode-requests", json=body)).status_code == 200
            assert (await client.post("/v2/episode-requests", json=body)).status_code == 429
            # What is over makes room
            assert (await client.post(f"{place}/{made['id']}/cancel")).status_code == 200
            assert (await client.post(place, json=body | {"num_episodes": 2})).status_code == 200
            # An account may have more, and the team has as much as it likes
            async with platform.services.database.writing() as session:
                await keep_quotas(session, "ann", ["episodes=4"])
            assert (await client.post("/v2/episode-requests", json=body)).status_code == 200
            assert (await client.post("/v2/episode-requests", json=body)).status_code == 429
            assert (await boss.post(place, json=body | {"num_episodes": 100})).status_code == 200


async def test_cancelled_requests_are_forgotten_unless_something_began(tmp_path: Path, database: str | None) -> None:
    async with open_platform(tmp_path, backend="none", database=database) as platform:
        ann, services = await platform.account("ann"), platform.services
        world = await seed(services, ann.id)
        await platform.policy(ann, "a")
        one = {"coworld_id": world.id, "roster": roster("a", "a"), "tags": {"for": "nothing"}}
        place, many = "/v2/experience-requests", one | {"num_episodes": 3}
        async with platform.client(ann) as client:
            # One of each stays: begun, waiting, and cancelled just now
            gone, begun, waiting, new = [(await client.post(place, json=many)).json() for _ in range(4)]
            alone = (await client.post("/v2/episode-requests", json=one)).json()
            async with services.database.writing() as session:
                await session.execute(
                    sa.update(EpisodeRequest)
                    .where(EpisodeRequest.id == begun["episodes"][0]["id"])
                    .values(status="completed", started_at=now(), completed_at=now())
                )
                await cancel_waiting(session, EpisodeRequest.id == alone["id"], "It is in the way.")
            for request in (gone, begun):
                assert (await client.post(f"{place}/{request['id']}/cancel")).status_code == 200
            long_ago = now() - dt.timedelta(days=2)
            async with services.database.writing() as session:
                for column in (EpisodeRequest.completed_at, ExperienceRequest.cancelled_at):
                    await session.execute(
                        sa.update(column.class_).where(column.is_not(None)).values({column: long_ago})
                    )
            assert (await client.post(f"{place}/{new['id']}/cancel")).status_code == 200
            await tidy(services)
            left = (await client.get(place)).json()["entries"]
            assert {row["id"] for row in left} == {begun["id"], waiting["id"], new["id"]}
            assert (await client.get(f"/v2/episode-requests/{alone['id']}")).status_code == 404
        async with services.database.reading() as session:
            tables = (ExperienceRequest, EpisodeRequest, Participant, Label, GameConfig)
            counts = [await session.scalar(sa.select(sa.func.count()).select_from(table)) for table in tables]
        assert counts == [3, 9, 18, 3, 3]


async def test_shared_config_of_a_request_is_stored_once(tmp_path: Path, database: str | None) -> None:
    async with open_platform(tmp_path, backend="none", database=database) as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id, subject=MISFITS)
        await platform.policy(ann, "a", subject=MISFITS)
        body = {
            "coworld_id": world.id,
            "roster": roster("a", "a"),
            "num_episodes": 20,
            "game_config_overrides": {"behaviour": "x" * 1_000_000},
        }
        async with platform.client(ann) as client:
            made = (await client.post("/v2/experience-requests", json=body)).json()
            assert made["episode_count"] == 20
            # Nor is it sent with each: twenty times would be more than anybody may send here
            assert [episode["game_config"] for episode in made["episodes"]] == [None] * 20
            place = f"/v2/episode-requests/{made['episodes'][7]['id']}"
            whole = (await client.get(place)).json()["game_config"]
            assert whole["behaviour"] == "x" * 1_000_000
            assert [player["name"] for player in whole["players"]] == ["a:v1", "a:v1 (2)"]
            assert (await client.get(f"{place}/artifacts/game-config")).json() == whole
        async with platform.services.database.reading() as session:
            rows = await session.scalars(sa.select(EpisodeRequest.own_config))
            assert sum(len(json.dumps(config)) for config in rows) < 10_000
            (shared,) = await session.scalars(sa.select(GameConfig))
            assert shared.size > 1_000_000


async def test_stored_bytes_are_counted_and_freed(tmp_path: Path, database: str | None) -> None:
    big = image_parts(os.urandom(20_000))
    async with inside(tmp_path, database=database, quotas=Quotas(stored=60_000)) as platform:
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        image = await upload_image(platform, ann, "one", big)
        # The same layers under another name are stored once
        await upload_image(platform, ann, "two", (*big[:2], Blob(big[2].content + b" ")))

        async def room() -> int:
            async with platform.services.database.reading() as session:
                [user_id] = await session.scalars(sa.select(User.id).where(User.name == "ann"))
                return 60_000 - await stored_bytes(session, user_id)

        assert 38_000 < await room() < 40_000
        manifest = manifest_for(image["id"], name="large")
        manifest["game"]["description"] = "x" * 40_000
        refused = await platform.ask("POST", "/v2/coworlds/upload", ann, json={"manifest": manifest}, expect=413)
        assert refused.json()["type"] == "quota_exceeded"
        assert refused.headers["RateLimit-Policy"] == '"requests";q=5000;w=10, "stored";q=60000;qu="content-bytes"'
        assert refused.headers["RateLimit"].endswith(', "stored";r=0')
        made = await platform.post("/v2/coworlds/upload", ann, {"manifest": manifest_for(image["id"])})
        # A secret fits, and makes room again when it is deleted
        large = b"x" * (await room() * 2 // 3)
        place = f"/v2/coworlds/secrets/{made['name']}"
        await platform.ask("PUT", f"{place}/a", ann, content=large)
        await platform.ask("PUT", f"{place}/b", ann, content=large, expect=413)
        await platform.ask("DELETE", f"{place}/a", ann)
        await platform.ask("PUT", f"{place}/b", ann, content=large)
        # Layers are refused on their way, also one after the other
        begun = await platform.post("/v2/container_images/upload", ann, {"name": "three", "client_hash": "sha256:3"})
        grant = begun["pre_signed_info"]
        shown = {"Authorization": f"Basic {grant['authorization_token']}"}
        chunk = b"x" * (await room() // 2)
        answers: list[httpx2.Response] = []
        for _ in range(3):
            upload = await platform.http.post(f"/v2/{grant['repository']}/blobs/uploads/", headers=shown)
            answers.append(await platform.http.patch(upload.headers["Location"], content=chunk, headers=shown))
        assert [answer.status_code for answer in answers] == [202, 202, 413]
        assert "your quota is 60000" in answers[-1].json()["errors"][0]["message"]
        # What others have is not hers, and an operator may give her more
        await upload_image(platform, bob, "one", big)
        async with platform.services.database.writing() as session:
            await keep_quotas(session, "ann", ["stored=90K"])
        await upload_image(platform, ann, "four")
        # Who is full may ask for no episodes, which would leave more
        async with platform.services.database.writing() as session:
            await keep_quotas(session, "ann", ["stored=10K"])
        body = {"coworld_id": made["id"], "roster": roster("x")}
        refused = await platform.ask("POST", "/v2/experience-requests", ann, json=body, expect=429)
        assert (refused.json()["type"], refused.headers["Retry-After"]) == ("quota_exceeded", "3600")
        async with platform.services.database.reading() as session:
            actions = [line["action"] for line in await audit_lines(session, user="ann")]
        assert actions.count("quota.refused") == 1


def test_request_rate_limit_allows_bursts() -> None:
    limit = RateLimit("requests", 10.0, most_callers=2)
    answers = [limit.take("ann", 10) for _ in range(10)]
    assert answers[0] == {"RateLimit-Policy": '"requests";q=10;w=10', "RateLimit": '"requests";r=9'}
    with pytest.raises(Refusal) as refused:
        limit.take("ann", 10)
    assert (refused.value.status, refused.value.headers["Retry-After"]) == (429, "1")
    assert limit.take("bob", 10)
    assert limit.take("ann", None) == {}
    # What was taken, and did not count, is given back; what is known afterwards may be too much
    limit.add("bob", 10, -1)
    assert limit.take("bob", 10) == answers[0]
    limit.add("bob", 10, 20)
    with pytest.raises(Refusal):
        limit.take("bob", 10, many=0)
    # Who is forgotten begins anew; there is room for two
    limit.take("eve", 10)
    assert limit.take("ann", 10) == answers[0]


def test_connections_are_counted_while_they_are_open() -> None:
    limit = ConnectionLimit()
    for _ in range(2):
        here, there, other = ("replay", "192.0.2.1"), ("replay", "192.0.2.2"), ("play", "192.0.2.1")
        with limit.held(*here, 1), limit.held(*there, 1), limit.held(*other, 1):
            with pytest.raises(Refusal) as refused, limit.held(*here, 1):
                raise AssertionError("one too many")
            assert (refused.value.status, refused.value.code) == (429, "too_many_connections")


@pytest.mark.parametrize(
    ("address", "sender"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1:2:3:4", "2001:db8::/64"),
        ("::1", "::/64"),
        ("unknown", "unknown"),
    ],
)
def test_sender_is_an_address_or_a_line(address: str, sender: str) -> None:
    assert sender_of(HTTPConnection({"type": "http", "client": (address, 0), "headers": []})) == sender
    assert sender_of(HTTPConnection({"type": "http", "client": None, "headers": []})) == ""


async def test_rate_limited_request_is_answered_with_429(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none", quotas=Quotas(requests=1)) as platform:
        ann = await platform.account("ann")
        async with platform.client(ann) as client, platform.client() as nobody:
            statuses = [(await client.get("/v2/leagues")).status_code for _ in range(12)]
            assert (statuses[0], statuses[-1]) == (200, 429)
            refused = await client.get("/v2/leagues")
            assert refused.json()["type"] == "too_many_requests"
            assert int(refused.headers["Retry-After"]) >= 1
            assert refused.headers["RateLimit-Policy"] == '"requests";q=10;w=10'
            # Trying tokens counts for the address that tries them
            guess = {"Authorization": "Bearer obs_nonsense"}
            answers = [await nobody.get("/players", headers=guess) for _ in range(12)]
            assert (answers[0].status_code, answers[-1].status_code) == (401, 429)
            assert (await nobody.get("/v2/leagues")).status_code == 429
            assert (await nobody.get("/v2/leagues")).headers["Retry-After"]


async def test_requests_to_whatever_route_are_limited(tmp_path: Path) -> None:
    async with inside(tmp_path, quotas=Quotas(requests=1)) as platform:
        ann, http = await platform.add_user("ann"), platform.http
        for _ in range(10):
            assert (await http.get("/v2/", headers={"Authorization": "Basic bm9ib2R5OnNlY3JldA=="})).status_code == 401
        page = {"Accept": "text/html"}
        # The registry, pages, files of pages, forms, and what there is not; each refusal in its reader's form
        for path in ("/v2/", "/v2/token", "/v2/a/b/manifests/c", "/", "/healthz", "/docs", "/assets/x.css", "/nothing"):
            refused = await http.get(path, headers=page)
            assert (refused.status_code, int(refused.headers["Retry-After"]) >= 1) == (429, True), path
            assert ("TOOMANYREQUESTS" in refused.text) == path.startswith("/v2/")
            assert ("<html" in refused.text) == (not path.startswith("/v2/"))
        for path in ("/sign-in", "/cli-auth"):
            assert (await http.post(path, data={"token": ann})).status_code == 429
        # Whoever has an account counts alone, whichever way the token comes, also if it is new to this server
        platform.services.tokens._matched.clear()
        assert (await platform.get("/whoami", ann))["name"] == "ann"
        assert (await http.get("/v2/", auth=("ann", ann))).status_code == 200
        # Who has no account uses up nobody's, not with a token's public half either
        for _ in range(12):
            await http.get("/v2/", auth=("ann", ann[:-1]))
        assert (await platform.get("/whoami", ann))["name"] == "ann"


async def test_rows_are_limited_by_day(tmp_path: Path, database: str | None) -> None:
    async with open_platform(tmp_path, backend="none", database=database, quotas=Quotas(rows=1000)) as platform:
        ann, bob = await platform.account("ann"), await platform.account("bob")
        world = await seed(platform.services, ann.id)
        await platform.policy(ann, "a")
        body = {"coworld_id": world.id, "roster": roster("a", "a"), "num_episodes": 100, "tags": {"a": "b"}}
        place = "/v2/experience-requests"
        async with platform.client(ann) as client, platform.client(bob) as other:
            # A request, a hundred episodes with two seats, a label, a config: what is cancelled counts as well
            for number in range(4):
                made = await client.post(place, json=body, headers={"Idempotency-Key": f"key-{number}"})
                assert made.status_code == 200, made.text
                cancelled = await client.post(f"{place}/{made.json()['id']}/cancel")
            assert cancelled.status_code == 429
            refused = await client.post(f"/v2/coworlds/{world.id}/tags")
            assert (refused.json()["type"], int(refused.headers["Retry-After"]) > 60) == ("quota_exceeded", True)
            # Reading and deleting go on, and so do others
            assert (await client.get(place)).json()["total_count"] == 4
            assert (await client.delete("/v2/coworlds/secrets/x/y")).status_code == 404
            assert (await other.post("/players", json={"name": "bobby"})).status_code == 200
        async with platform.services.database.reading() as session:
            lines = await audit_lines(session, user="ann")
        assert [line["detail"]["code"] for line in lines if line["action"] == "quota.refused"] == ["quota_exceeded"]


async def test_idle_connection_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_SECONDS", 0.1)
    half = b"GET /observatory/whoami HTTP/1.1\r\nHost: x\r\n"

    async with open_platform(tmp_path, backend="none") as platform:
        for said, answers in ((b"", 0), (half, 0), (half + b"\r\n" + half, 1)):
            heard = await anyio.to_thread.run_sync(talk, platform.url, said)
            assert heard.count(b"HTTP/1.1 200") == answers, said


@pytest.mark.slow
async def test_client_that_does_not_read_is_disconnected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "READER_SECONDS", 0.2)
    ended = anyio.Event()
    connection = server._Connection
    lost = connection.connection_lost

    def note(self: Any, reason: Exception | None) -> None:
        lost(self, reason)
        ended.set()

    monkeypatch.setattr(connection, "connection_lost", note)
    many, all_of_it = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n", b"Connection: close\r\n\r\n"
    async with open_platform(tmp_path, backend="none") as platform:
        host, port = platform.url.removeprefix("http://").split(":")
        async with await anyio.connect_tcp(host, int(port)) as silent:
            # More than the system keeps for a connection
            await silent.send(many * 60)
            with anyio.fail_after(60):
                await ended.wait()
        # Whoever reads gets all of it, however often the deadline passes. It is longer here, because a busy machine may
        # keep the reader from reading for a moment.
        monkeypatch.setattr(server, "READER_SECONDS", 1.0)
        async with await anyio.connect_tcp(host, int(port)) as reader:
            await reader.send(many * 239 + many.removesuffix(b"\r\n") + all_of_it)
            heard = b"".join([piece async for piece in reader])
            assert heard.count(b"HTTP/1.1 200 OK") == 240


async def test_unfinished_request_body_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("observatory.api.routing.BODY_SECONDS", 0.1)

    async with open_platform(tmp_path, backend="none") as platform:
        ann = await platform.account("ann")
        said = f"POST /observatory/players HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ann.token}\r\n"
        heard = await anyio.to_thread.run_sync(talk, platform.url, said.encode() + b"Content-Length: 99\r\n\r\n{")
        assert heard.startswith(b"HTTP/1.1 408")
        assert b'"type":"too_slow"' in heard


async def test_request_with_two_lengths_is_refused(tmp_path: Path) -> None:
    lengths = b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
    hidden = b"0\r\n\r\nGET /observatory/whoami HTTP/1.1\r\nHost: x\r\n\r\n"
    async with open_platform(tmp_path, backend="none") as platform:
        said = b"POST /observatory/players HTTP/1.1\r\nHost: x\r\n" + lengths + hidden
        heard = await anyio.to_thread.run_sync(talk, platform.url, said)
        assert heard.startswith(b"HTTP/1.1 400")
        assert b'"type":"two_lengths"' in heard
        assert heard.count(b"HTTP/1.1") == 1


async def test_play_sessions_are_limited_and_end_when_idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosted_sessions, "START_SECONDS", 300)
    async with open_platform(tmp_path, quotas=Quotas(sessions=1)) as platform:
        ann, bob = await platform.account("ann"), await platform.account("bob")
        world = await seed(platform.services, ann.id)
        place, body = "/v2/coworlds/play/session", {"coworld_id": world.id}
        sessions = platform.services.runtime.sessions
        assert sessions is not None
        async with platform.client(ann) as one, platform.client(bob) as two:
            made = (await one.post(place, json=body)).json()["session_id"]
            refused = await one.post(place, json=body)
            assert (refused.status_code, refused.json()["type"]) == (429, "quota_exceeded")
            assert (await two.delete(f"{place}/{made}")).status_code == 404
            for _ in range(2):
                assert (await one.delete(f"{place}/{made}")).status_code == 200
            ended = sessions.get(made)
            assert ended is not None
            assert leftovers(run_ids=[ended.run_id]) == []
            # There is room again; and nobody comes
            monkeypatch.setattr(hosted_sessions, "IDLE_SECONDS", 0.2)
            lonely = sessions.get((await one.post(place, json=body)).json()["session_id"])
            assert lonely is not None
            with anyio.fail_after(300):
                await lonely.ended.wait()
            assert lonely.error == "The game was stopped because nobody was connected any more."
            assert leftovers(run_ids=[lonely.run_id]) == []
