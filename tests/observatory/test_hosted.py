"""Games for people: replays shown by the game, seats to take, and the way through the server to them."""

from __future__ import annotations

import contextlib
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import httpx2
import pytest
import sqlalchemy as sa
from support.misfit_kit import leftovers
from support.observatory import until_committed
from support.observatory_kit import Account, Platform, World, open_platform, roster, seed, until_over
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from coworld_client import CoworldClient, HostedController
from observatory.hosted import sessions as hosted_sessions
from observatory.quotas import Quotas
from observatory.store.models import HostedSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take its time to start a game."""
    monkeypatch.setattr(hosted_sessions, "START_SECONDS", 300)


async def played(platform: Platform, ann: Account, world: World) -> dict[str, str]:
    """One episode that is over."""
    async with platform.client(ann) as client:
        body = {"coworld_id": world.id, "roster": roster("a", "a")}
        made = (await client.post("/v2/experience-requests", json=body)).json()
        return (await until_over(client, made["id"]))["episodes"][0]


async def runs(platform: Platform) -> list[str]:
    """Labels of the sessions' runs."""
    async with platform.services.database.reading() as session:
        return [run or "" for run in await session.scalars(sa.select(HostedSession.run_id))]


async def test_a_replay_is_shown_through_the_server(tmp_path: Path) -> None:
    async with open_platform(tmp_path) as platform:
        ann, eve = await platform.account("ann"), await platform.account("eve")
        world = await seed(platform.services, ann.id)
        await platform.policy(ann, "a")
        episode = await played(platform, ann, world)
        body = {"coworld_id": world.id, "episode_id": episode["episode_id"], "replay_uri": episode["replay_url"]}
        place = "/v2/coworlds/replays/session"
        async with platform.client(eve) as stranger, platform.client(ann) as client:
            assert (await stranger.post(place, json=body)).status_code == 404
            answer = await client.post(place, json=body)
            assert (answer.status_code, answer.json()["ready"]) == (200, True), answer.text
            url = answer.json()["viewer_url"]
            # Named by its replay alone it is the same, and the same game shows it
            again = await client.post(place, json={"coworld_id": world.id, "replay_uri": episode["replay_url"]})
            assert again.json()["viewer_url"] == url
            for change, status in (
                ({"episode_id": "none"}, 404),
                ({"coworld_id": "cow_none"}, 404),
                ({"episode_id": None, "replay_uri": "http://127.0.0.1:1/replay"}, 404),
                ({"episode_id": None, "replay_uri": None}, 422),
            ):
                assert (await client.post(place, json=body | change)).status_code == status, change
        async with httpx2.AsyncClient(headers={"Cookie": "observatory_session=secret"}, timeout=300) as browser:
            page = await browser.get(url)
            assert (page.status_code, "quick.js" in page.text) == (200, True)
            # Nobody's code may pass for a page of this server
            assert page.headers["content-security-policy"].startswith("sandbox allow-scripts")
            assert "set-cookie" not in page.headers
            script = await browser.get(url.replace("/client/replay", "/client/quick.js"))
            assert script.headers["content-type"] == "text/javascript"
            base = url.partition("/client/")[0]
            for path in ("/client/admin", "/admin", "/%2e%2e/secret", "/nothing"):
                assert (await browser.get(base + path)).status_code == 404
            assert (await browser.get(f"{platform.url}/sessions/cps_none/client/replay")).status_code == 404
        async with connect(base.replace("http", "ws") + "/replay", open_timeout=300) as socket:
            assert await socket.recv() == '{"type":"state","game":"quick"}'
        with pytest.raises(InvalidStatus):
            await connect(base.replace("http", "ws") + "/admin", open_timeout=300)
        labels = await runs(platform)
        assert len(labels) == 1
    assert leftovers(run_ids=labels) == []
    assert not (tmp_path / "observatory" / "sessions").exists() or not list(
        (tmp_path / "observatory" / "sessions").iterdir()
    )


async def test_unwatched_replay_session_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosted_sessions, "IDLE_SECONDS", 0.2)
    async with open_platform(tmp_path) as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id)
        await platform.policy(ann, "a")
        episode = await played(platform, ann, world)
        body = {"coworld_id": world.id, "episode_id": episode["id"]}
        async with platform.client(ann) as client:
            assert (await client.post("/v2/coworlds/replays/session", json=body)).status_code == 200

            async def ended() -> HostedSession | None:
                async with platform.services.database.reading() as session:
                    (row,) = await session.scalars(sa.select(HostedSession))
                return row if row.ended_at is not None else None

            row = await until_committed(ended)
            assert row.status == "over"
            assert leftovers(run_ids=[row.run_id or ""]) == []
            # Who asks again gets it again
            assert (await client.post("/v2/coworlds/replays/session", json=body)).status_code == 200


def socket_of(viewer_url: str) -> str:
    """The address of a replay's socket."""
    return viewer_url.partition("/client/")[0].replace("http", "ws") + "/replay"


async def rounds(platform: Platform, ann: Account, world: World, many: int) -> list[str]:
    """Episodes of a public league that are over."""
    versions = [await platform.policy(ann, name) for name in ("a", "b")]
    ids = [await platform.play_round(world, *versions) for _ in range(many)]
    for each in ids:
        assert (await platform.until_played(each)).status == "completed"
    return ids


async def test_strangers_do_not_keep_accounts_from_replays_and_games(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosted_sessions, "MOST", 2)
    async with open_platform(tmp_path, quotas=Quotas(replays=2)) as platform, AsyncExitStack() as stack:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id)
        episodes = await rounds(platform, ann, world, 3)
        stranger, other, client = [
            await stack.enter_async_context(each)
            for each in (
                platform.client(),
                platform.client(None, **{"X-Forwarded-For": "203.0.113.9"}),
                platform.client(ann),
            )
        ]

        async def ask(who: httpx2.AsyncClient, episode: str) -> httpx2.Response:
            body = {"coworld_id": world.id, "episode_id": episode}
            return await who.post("/v2/coworlds/replays/session", json=body)

        held = [
            await stack.enter_async_context(connect(socket_of((await ask(stranger, each)).json()["viewer_url"])))
            for each in episodes[:2]
        ]
        refused = await ask(stranger, episodes[2])
        assert (refused.status_code, refused.json()["type"]) == (429, "quota_exceeded")
        refused = await ask(other, episodes[2])
        assert (refused.status_code, refused.json()["type"]) == (503, "too_many_sessions")
        # An account comes before those without one, and games have places of their own
        shown = await ask(client, episodes[2])
        assert shown.status_code == 200, shown.text
        await held[0].wait_closed()
        made = await client.post("/v2/coworlds/play/session", json={"coworld_id": world.id})
        assert made.status_code == 200, made.text
        # Nobody keeps a place for long while others wait
        await stack.enter_async_context(connect(socket_of(shown.json()["viewer_url"])))
        assert (await ask(other, episodes[0])).status_code == 503
        monkeypatch.setattr(hosted_sessions, "SHARE_SECONDS", 0)
        assert (await ask(other, episodes[0])).status_code == 200
        await held[1].wait_closed()
        labels = await runs(platform)
    assert leftovers(run_ids=labels) == []


async def test_replay_ends_however_many_watch_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosted_sessions, "REPLAY_SECONDS", 3)
    async with open_platform(tmp_path) as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id)
        (episode,) = await rounds(platform, ann, world, 1)
        async with platform.client() as client:
            body = {"coworld_id": world.id, "episode_id": episode}
            shown = (await client.post("/v2/coworlds/replays/session", json=body)).json()
        async with connect(socket_of(shown["viewer_url"]), open_timeout=300) as socket:
            with anyio.fail_after(300):
                await socket.wait_closed()
        labels = await runs(platform)
    assert leftovers(run_ids=labels) == []


@pytest.mark.parametrize("trusted", [True, False])
async def test_connections_are_limited_by_address(tmp_path: Path, trusted: bool) -> None:
    proxies = ("127.0.0.0/8",) if trusted else ()
    async with open_platform(tmp_path, connections=2, trusted_proxies=proxies) as platform, AsyncExitStack() as stack:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id)
        (episode,) = await rounds(platform, ann, world, 1)
        async with platform.client(ann) as client:
            body = {"coworld_id": world.id, "episode_id": episode}
            viewer = (await client.post("/v2/coworlds/replays/session", json=body)).json()["viewer_url"]
            game = (await client.post("/v2/coworlds/play/session", json={"coworld_id": world.id})).json()

        async def open_from(address: str, url: str) -> int:
            try:
                await stack.enter_async_context(
                    connect(url, additional_headers={"X-Forwarded-For": address}, open_timeout=300)
                )
            except InvalidStatus as refused:
                return refused.response.status_code
            return 101

        # Of IPv6 a whole line has one; what a client itself adds before the proxy does not count
        lines = ("2001:db8:0:1::7", "::7, 2001:db8:0:1:ffff::8", "2001:db8:0:1::9", "2001:db8:0:2::7", "192.0.2.1")
        answers = [await open_from(line, socket_of(viewer)) for line in lines]
        assert answers == ([101, 101, 403, 101, 101] if trusted else [101, 101, 403, 403, 403])
        async with httpx2.AsyncClient(headers={"X-Forwarded-For": lines[0]}, timeout=300) as browser:
            page = await browser.get(viewer)
            assert (page.status_code, page.headers["retry-after"]) == (429, "10")
            # A game for people is another matter
            assert (await browser.get(game["global_url"])).status_code == 200
        watched = game["global_url"].replace("http", "ws").replace("/client/", "/")
        assert await open_from(lines[0], watched) == 101


async def test_people_take_seats_and_play(tmp_path: Path, database: str | None) -> None:
    async with open_platform(tmp_path, database=database) as platform:
        ann, bob, eve = [await platform.account(name) for name in ("ann", "bob", "eve")]
        world = await seed(platform.services, ann.id)
        async with platform.client(ann) as one, platform.client(bob) as two, platform.client(eve) as three:
            start = "/v2/coworlds/play/session"
            assert (await one.post(start, json={"coworld_id": world.id, "variant_id": "none"})).status_code == 404
            assert (await one.post(start, json={"coworld_id": "cow_none"})).status_code == 404
            asked = {"coworld_id": world.id, "allow_spectators": True, "tags": {"exp": "people"}}
            made = (await one.post(start, json=asked)).json()
            assert made["tags"] == {"exp": "people"}
            assert made["player_count"] == 2
            join = f"{start}/{made['session_id']}/join"
            first = (await one.post(join)).json()
            assert (await one.post(join)).json()["player_url"] == first["player_url"]
            second = (await two.post(join)).json()
            assert (first["slot"], second["slot"], second["player"]["label"]) == (0, 1, "bob")
            assert (await three.post(join)).status_code == 409
            assert (await three.post(f"{start}/cps_none/join")).status_code == 404
            # Told to those who take part in it
            place = f"{start}/{made['session_id']}"
            assert [(await who.get(place)).status_code for who in (one, two, three)] == [200, 200, 404]
            told = (await two.get(place)).json()
            assert (told["status"], told["ended_at"], told["episode_request_id"]) == ("running", None, None)
            assert [(seat["slot"], seat["label"]) for seat in told["players"]] == [(0, "ann"), (1, "bob")]
            async with httpx2.AsyncClient(timeout=300) as browser:
                assert (await browser.get(made["global_url"])).status_code == 200
                assert (await browser.get(first["player_url"])).status_code == 200
            sockets = [url["player_url"].replace("http", "ws").replace("/client/", "/") for url in (first, second)]
            with pytest.raises(InvalidStatus):
                await connect(sockets[0].replace("token=", "token=0"), open_timeout=300)
            async with connect(sockets[0], open_timeout=300) as left:
                assert await left.recv()
                async with connect(sockets[1], open_timeout=300) as right:
                    assert await right.recv()
                    # Both are there, so the quick game is over, and hangs up
                    await right.wait_closed()
                await left.wait_closed()
            sessions = platform.services.runtime.sessions
            assert sessions is not None
            session = sessions.get(made["session_id"])
            assert session is not None
            with anyio.fail_after(300):
                await session.ended.wait()
            assert (session.scores, session.error) == ((0, 1), "")
            assert (await three.post(join)).status_code == 409
            # It is an episode from now on: of who started it, and of everybody who played
            for client in (one, two):
                (episode,) = (await client.get("/v2/episode-requests?tags=exp=p*")).json()["entries"]
                assert episode["tags"] == {"exp": "people"}
                assert (episode["status"], episode["source"], episode["participants"]) == ("completed", "play", [])
                assert [(seat["position"], seat["name"], seat["score"]) for seat in episode["people"]] == [
                    (0, "ann", 0),
                    (1, "bob", 1),
                ]
                replay = await client.get(f"/v2/episode-requests/{episode['id']}/artifacts/replay")
                assert replay.text == "quick replay of seed 0\n"
                assert (await client.get(episode["replay_url"])).status_code == 200
                assert (await client.get(f"/v2/episode-requests/{episode['id']}/policy-artifacts")).json() == []
                stats = (await client.get(f"/v2/episode-requests/{episode['id']}/episode-stats")).json()
                assert [seat["policy_name"] for seat in stats["policy_stats"]] == ["ann", "bob"]
                assert "token" not in str(episode["game_config"])
            assert (await three.get("/v2/episode-requests")).json()["entries"] == []
            shown = await two.post(
                "/v2/coworlds/replays/session", json={"coworld_id": world.id, "episode_id": episode["id"]}
            )
            assert shown.status_code == 200, shown.text
            async with platform.services.database.reading() as db:
                assert (await db.get_one(HostedSession, session.id)).episode_request_id == episode["id"]
            # The same for a controller, also after the server has forgotten it
            for forgotten in (False, True):
                if forgotten:
                    sessions._sessions.clear()
                async with CoworldClient(platform.url, token=bob.token) as api:
                    handle = await HostedController(api).episode(session.id)
                    info = await handle.result()
                    seats = [(seat.slot, seat.name, seat.score) for seat in await handle.seats()]
                    assert [event.state async for event in handle.events()] == ["completed"]
                assert (info.id, info.state, info.scores) == (session.id, "completed", (0, 1))
                assert (info.coworld, info.players, info.labels) == ("quick", ("ann", "bob"), {"exp": "people"})
                assert seats == [(0, "ann", 0), (1, "bob", 1)]
                told = (await one.get(place)).json()
                assert (told["status"], told["player_count"], told["tags"]) == ("completed", 2, {"exp": "people"})
                assert (told["episode_request_id"], len(told["players"])) == (episode["id"], 2)
                assert (await three.get(place)).status_code == 404
        labels = await runs(platform)
    assert leftovers(run_ids=labels) == []


async def test_session_without_players_can_be_changed(tmp_path: Path) -> None:
    async with open_platform(tmp_path) as platform:
        ann, bob = await platform.account("ann"), await platform.account("bob")
        world = await seed(platform.services, ann.id)
        async with platform.client(ann) as one, platform.client(bob) as two:
            start = "/v2/coworlds/play/session"
            made = (await one.post(start, json={"coworld_id": world.id, "allow_spectators": True})).json()
            place = f"{start}/{made['session_id']}"
            assert (made["player_count"], made["global_url"] is None) == (2, False)
            variant = {"kind": "variant", "variant_id": "four"}
            assert (await two.put(f"{place}/config", json=variant)).status_code == 404
            changed = (await one.put(f"{place}/config", json=variant)).json()
            assert (changed["session_id"], changed["player_count"]) == (made["session_id"], 4)
            closed = (await one.put(f"{place}/config", json={"kind": "spectators", "allow_spectators": False})).json()
            assert closed["global_url"] is None
            async with httpx2.AsyncClient(timeout=300) as browser:
                assert (await browser.get(changed["global_url"])).status_code == 404
            assert (await two.post(f"{place}/join")).json()["slot"] == 0
            refused = await one.put(f"{place}/config", json=variant)
            assert (refused.status_code, refused.json()["type"]) == (409, "game_begun")
            assert (await one.delete(place)).status_code == 200
        labels = await runs(platform)
    assert leftovers(run_ids=labels) == []


async def test_session_without_players_leaves_no_episode(tmp_path: Path) -> None:
    async with open_platform(tmp_path) as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id)
        async with platform.client(ann) as client:
            start = "/v2/coworlds/play/session"
            made = (await client.post(start, json={"coworld_id": world.id})).json()
            seat = (await client.post(f"{start}/{made['session_id']}/join")).json()
            # Who only watches, or is not let in, does not play
            watched = made["global_url"].replace("http", "ws").replace("/client/", "/")
            async with connect(watched, open_timeout=300) as socket:
                assert await socket.recv()
            forged = seat["player_url"].replace("http", "ws").replace("/client/", "/").replace("token=", "token=0")
            with pytest.raises(InvalidStatus):
                await connect(forged, open_timeout=300)
            sessions = platform.services.runtime.sessions
            assert sessions is not None
            await sessions.end()
            assert (await client.get("/v2/episode-requests")).json()["entries"] == []
    assert not list((tmp_path / "observatory" / "artifacts").rglob("*.json"))


async def test_failed_play_session_is_kept_as_an_episode(tmp_path: Path) -> None:
    async with open_platform(tmp_path) as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id)
        async with platform.client(ann) as client:
            start = "/v2/coworlds/play/session"
            made = (await client.post(start, json={"coworld_id": world.id})).json()
            seat = (await client.post(f"{start}/{made['session_id']}/join")).json()
            sessions, executor = platform.services.runtime.sessions, platform.services.runtime.executor
            assert sessions is not None
            assert executor is not None
            session = sessions.get(made["session_id"])
            assert session is not None
            there = seat["player_url"].replace("http", "ws").replace("/client/", "/")
            async with connect(there, open_timeout=300) as socket:
                assert await socket.recv()
                # Nobody takes the other seat, and the game dies
                for found in await executor.backend.find(session.run_id):
                    if found.kind == "process":
                        # The end of one may be the end of the next
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(int(found.id), signal.SIGKILL)
                await socket.wait_closed()
            with anyio.fail_after(300):
                await session.ended.wait()
            (episode,) = (await client.get("/v2/episode-requests")).json()["entries"]
            # Whether its keeper died before it had said so is chance
            assert episode["status"] == "failed"
            assert episode["error_type"] in ("game_unhealthy", "crash")
            assert [seat["name"] for seat in episode["people"]] == ["ann"]
            log = await client.get(f"/v2/episode-requests/{episode['id']}/artifacts/logs")
            assert log.text == "quick: ready\n"
            lobby = await client.get(f"{platform.url}/play/{made['session_id']}")
            assert f"/episodes/{episode['id']}" in lobby.text


async def test_running_episode_can_be_watched_but_not_joined(tmp_path: Path) -> None:
    async with open_platform(tmp_path) as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id)
        await platform.policy(ann, "a")
        async with platform.client(ann) as client:
            body = {"coworld_id": world.id, "roster": roster("a", "a"), "game_config_overrides": {"linger": 3}}
            made = (await client.post("/v2/experience-requests", json=body)).json()
            place = f"/v2/episode-requests/{made['episodes'][0]['id']}"

            async def live_url() -> str | None:
                return (await client.get(place)).json()["live_url"]

            url = await until_committed(live_url)
            base = url.partition("/client/")[0]
            async with httpx2.AsyncClient(timeout=300) as browser:
                for path in ("/client/player", "/player", "/client/admin"):
                    assert (await browser.get(base + path)).status_code == 404
                forged = base[:-1] + ("0" if base[-1] != "0" else "1")
                assert (await browser.get(f"{forged}/client/global")).status_code == 404
            await until_over(client, made["id"])
            assert (await client.get(place)).json()["live_url"] is None
            async with httpx2.AsyncClient(timeout=300) as browser:
                assert (await browser.get(url)).status_code == 404


async def test_server_without_a_backend_refuses_sessions(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id)
        async with platform.client(ann) as client:
            answer = await client.post("/v2/coworlds/play/session", json={"coworld_id": world.id})
            assert (answer.status_code, answer.json()["type"]) == (503, "no_backend")
