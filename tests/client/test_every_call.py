"""Every call of the client, through every fault: what may be repeated is, and nothing is done twice."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from support.fake_platform import EPISODE, FakePlatform, canned_platform, uid
from support.fake_server import site_in_thread
from support.flaky_transport import Fault, FlakyTransport

from coworld_client import ApiConnectionError, ApiShapeError, ApiStatusError, Backoff, CoworldClient, SyncClient
from coworld_core.api import EpisodeRequest, LobbySeatBody

AT_ONCE = Backoff(base=0.0, cap=0.0)
EREQ, XREQ, COW = f"ereq_{uid(11)}", f"xreq_{uid(15)}", f"cow_{uid(12)}"
LOBBY = f"lby_{uid(18)}"
PLAYED = EpisodeRequest.model_validate({**EPISODE, "replay_url": "https://example.org/r"})
ROLE_RUN, REPORTER = f"role_{uid(22)}", f"rptr_{uid(23)}"
LEAGUE, DIVISION, ROUND = f"league_{uid(2)}", f"div_{uid(3)}", f"round_{uid(7)}"
ROSTER = {"coworld_id": COW, "roster": [{"player": {"random": True}}], "num_episodes": 1}

Call = Callable[[CoworldClient], Awaitable[Any]]

READING: dict[str, Call] = {
    "whoami": lambda api: api.whoami(),
    "games.list": lambda api: api.games.list(),
    "leagues.list": lambda api: api.leagues.list(),
    "leagues.get": lambda api: api.leagues.get(LEAGUE),
    "leagues.game_of_week": lambda api: api.leagues.game_of_week(),
    "leagues.ladder": lambda api: api.leagues.ladder(LEAGUE),
    "leagues.seasons": lambda api: api.leagues.seasons(LEAGUE),
    "leagues.season": lambda api: api.leagues.season(LEAGUE, 2),
    "divisions.list": lambda api: api.divisions.list(league=LEAGUE),
    "divisions.get": lambda api: api.divisions.get(DIVISION),
    "divisions.leaderboard": lambda api: api.divisions.leaderboard(DIVISION),
    "divisions.leaderboards": lambda api: api.divisions.leaderboards(DIVISION),
    "rounds.list": lambda api: api.rounds.list(division=DIVISION),
    "rounds.get": lambda api: api.rounds.get(ROUND),
    "events.list": lambda api: api.events.list(round=ROUND),
    "memberships.list": lambda api: api.memberships.list(mine=True),
    "submissions.list": lambda api: api.submissions.list(mine=True),
    "policies.list": lambda api: api.policies.list(),
    "policies.lookup": lambda api: api.policies.lookup("painter:v3"),
    "episodes.list": lambda api: api.episodes.list(mine=True),
    "episodes.progress": lambda api: api.episodes.progress([EREQ], status="completed"),
    "episodes.annotations": lambda api: api.episodes.annotations(EREQ, uid(4)),
    "downloads.list": lambda api: api.downloads.list(XREQ, include=["replay"], positions=[0]),
    "leagues.guide": lambda api: api.leagues.guide(LEAGUE),
    "episodes.get": lambda api: api.episodes.get(EREQ),
    "episodes.stats": lambda api: api.episodes.stats(EREQ),
    "episodes.results": lambda api: api.episodes.results(EREQ),
    "episodes.artifact": lambda api: api.episodes.artifact(EREQ, "game-config"),
    "episodes.game_log": lambda api: api.episodes.game_log(EREQ),
    "episodes.agent_logs": lambda api: api.episodes.agent_logs(EREQ),
    "episodes.agent_log": lambda api: api.episodes.agent_log(EREQ, 0),
    "experience.list": lambda api: api.experience.list(mine=True),
    "experience.get": lambda api: api.experience.get(XREQ),
    "experience.episodes": lambda api: api.experience.episodes(XREQ),
    "experience.wait": lambda api: api.experience.wait(XREQ),
    "coworlds.list": lambda api: api.coworlds.list(),
    "coworlds.get": lambda api: api.coworlds.get(COW),
    "coworlds.find": lambda api: api.coworlds.find("paint_arena"),
    "coworlds.certification": lambda api: api.coworlds.certification(COW),
    "images.list": lambda api: api.images.list(),
    "images.get": lambda api: api.images.get(f"img_{uid(16)}"),
    "secrets.list": lambda api: api.secrets.list("paint-arena"),
    "league_seeds.list": lambda api: api.league_seeds.list(),
    "lobbies.get": lambda api: api.lobbies.get(LOBBY),
    "role_runs.list": lambda api: api.role_runs.list(EREQ),
    "role_runs.get": lambda api: api.role_runs.get(ROLE_RUN),
    "reporters.list": lambda api: api.reporters.list(text="summary", types=["json"], mode="hosted"),
    "reporters.get": lambda api: api.reporters.get(REPORTER),
    "reporters.outputs": lambda api: api.reporters.outputs(REPORTER),
    "players.list": lambda api: api.players.list(),
    "tokens.list": lambda api: api.tokens.list(),
}

WRITING: dict[str, Call] = {
    "memberships.retire": lambda api: api.memberships.retire(f"lpm_{uid(9)}", reason="tired"),
    "memberships.nominate": lambda api: api.memberships.nominate(f"lpm_{uid(9)}"),
    "submissions.create": lambda api: api.submissions.create(LEAGUE, "painter"),
    "experience.create": lambda api: api.experience.create(ROSTER),
    "experience.create_each": lambda api: api.experience.create_each(ROSTER),
    "experience.cancel": lambda api: api.experience.cancel(XREQ),
    "hosted.create": lambda api: api.hosted.create(COW),
    "hosted.join": lambda api: api.hosted.join("cps_1"),
    "hosted.replay_session": lambda api: api.hosted.replay_session(PLAYED),
    "lobbies.create": lambda api: api.lobbies.create(LEAGUE, seats=[LobbySeatBody(position=1, kind="random")]),
    "lobbies.claim": lambda api: api.lobbies.claim(LOBBY, 1),
    "lobbies.leave": lambda api: api.lobbies.leave(LOBBY),
    "lobbies.start": lambda api: api.lobbies.start(LOBBY, revision=1),
    "lobbies.cancel": lambda api: api.lobbies.cancel(LOBBY),
    "lobbies.end": lambda api: api.lobbies.end(LOBBY),
    "role_runs.create": lambda api: api.role_runs.create(EREQ, "diagnoser", position=0),
    "league_seeds.create": lambda api: api.league_seeds.create("paint-arena"),
    "players.create": lambda api: api.players.create("Ada"),
    "tokens.create": lambda api: api.tokens.create("ci", days=7),
    "players.login": lambda api: api.players.login(f"ply_{uid(6)}"),
}

AS_THEY_ARE = ("episodes.artifact", "episodes.game_log", "leagues.guide")
"""Calls whose answer may be anything."""

FAULTS = {
    "refused": lambda: Fault("refused"),
    "lost": lambda: Fault("lost"),
    "truncated": lambda: Fault("truncated"),
    "garbled": lambda: Fault("garbled"),
    "503": lambda: Fault("status", status=503),
    "502": lambda: Fault("status", status=502, body=b"<html>bad gateway</html>"),
    "429": lambda: Fault("status", status=429, headers={"Retry-After": "0"}),
}


@pytest.mark.parametrize("name", READING)
async def test_reading_survives_every_fault(name: str) -> None:
    async with canned_platform() as platform:
        async with CoworldClient(platform.url, backoff=AT_ONCE, transport=FlakyTransport()) as api:
            wanted = await READING[name](api)
        for fault in FAULTS.values():
            transport = FlakyTransport(fault())
            async with CoworldClient(platform.url, transport=transport, backoff=AT_ONCE) as api:
                assert await READING[name](api) == wanted
            assert transport.faults[0].times == 0, "the fault was not met"


@pytest.mark.parametrize("name", {**READING, **WRITING})
def test_every_call_can_be_made_without_async(name: str) -> None:
    call: Callable[[Any], Any] = {**READING, **WRITING}[name]

    async def awaited(url: str) -> Any:
        async with CoworldClient(url) as api:
            return await call(api)

    with site_in_thread(FakePlatform(canned=True)) as platform, SyncClient(platform.url) as api:
        wanted = anyio.run(awaited, platform.url)
        found = call(api)
        assert (list(found) if isinstance(wanted, list) else found) == wanted


@pytest.mark.parametrize("name", WRITING)
async def test_writes_happen_once_despite_faults(name: str) -> None:
    for kind, fault in FAULTS.items():
        async with canned_platform() as platform:
            broken = fault()
            broken.method = "POST"
            transport = FlakyTransport(broken)
            async with CoworldClient(platform.url, transport=transport, backoff=AT_ONCE) as api:
                await WRITING[name](api)
            posts = [asked for asked in transport.asked if asked.method == "POST"]
            assert len(posts) == 2
            assert len({asked.headers["idempotency-key"] for asked in posts}) == 1
            assert len({asked.body for asked in posts}) == 1
            assert len(platform.done) == 1, f"{kind}: {platform.done}"


async def followed(api: CoworldClient) -> None:
    """What waiting does, without its patience."""
    async with api.watch(XREQ, retry_timeout=0) as changes:
        async for _ in changes:
            pass


@pytest.mark.parametrize("name", READING)
async def test_reading_gives_up_with_a_typed_error(name: str) -> None:
    async with canned_platform() as platform:
        for fault, error in (
            (Fault("refused", times=100), ApiConnectionError),
            (Fault("truncated", times=100), ApiConnectionError),
            (Fault("status", times=100, status=500), ApiStatusError),
            (Fault("status", times=100, status=200, body=b"<html>"), ApiShapeError),
        ):
            async with CoworldClient(platform.url, transport=FlakyTransport(fault), backoff=AT_ONCE) as api:
                if name == "experience.wait":
                    with pytest.raises(error):
                        await followed(api)
                elif fault.status == 200 and name in AS_THEY_ARE:
                    assert await READING[name](api)
                else:
                    with pytest.raises(error):
                        await READING[name](api)


@pytest.mark.parametrize("name", ["leagues.get", "episodes.list", "episodes.results"])
async def test_an_answer_that_never_comes_is_asked_for_again(name: str) -> None:
    transport = FlakyTransport(Fault("stuck"))
    # Many attempts, for a machine that is busy
    options: dict[str, Any] = {"transport": transport, "backoff": AT_ONCE, "timeout": 0.3, "max_retries": 50}
    async with canned_platform() as platform, CoworldClient(platform.url, **options) as api:
        assert await READING[name](api)
    assert transport.faults[0].times == 0


async def test_each_call_has_its_own_idempotency_key() -> None:
    transport = FlakyTransport()
    async with canned_platform() as platform:
        async with CoworldClient(platform.url, transport=transport) as api:
            await api.experience.create(ROSTER)
            await api.experience.create(ROSTER)
            await api.experience.create(ROSTER, idempotency_key="mine")
        assert len(platform.done) == 3
    keys = [asked.headers["idempotency-key"] for asked in transport.asked]
    assert len(set(keys)) == 3
    assert keys[2] == "mine"


async def test_the_seats_of_a_lobby_are_changed_again_when_the_reply_is_lost() -> None:
    async with canned_platform() as platform:
        transport = FlakyTransport(Fault("lost", method="PUT"), Fault("lost", method="DELETE"))
        async with CoworldClient(platform.url, transport=transport, backoff=AT_ONCE) as api:
            lobby = await api.lobbies.seat(LOBBY, 1, "league_player", player="ply_1", revision=1)
            assert (lobby.seats[0].claimant_label, lobby.permissions.can_start) == ("Ada", True)
            assert lobby.odd == ()
            await api.lobbies.remove(LOBBY, 0)
            # Without a revision, it is that of the present
            await api.lobbies.seat(LOBBY, 1, "random")
            await api.lobbies.start(LOBBY)
        methods = [asked.method for asked in transport.asked]
        assert methods == ["PUT", "PUT", "DELETE", "DELETE", "GET", "PUT", "GET", "POST"]
        bodies = [json.loads(asked.body) for asked in transport.asked if asked.method == "PUT"]
        change = {"kind": "league_player", "player_id": "ply_1", "expected_revision": 1}
        assert bodies == [change, change, {"kind": "random", "expected_revision": 1}]


async def test_secrets_are_put_and_deleted_again_when_the_reply_is_lost() -> None:
    async with canned_platform() as platform:
        transport = FlakyTransport(Fault("lost"), Fault("lost", method="DELETE"))
        async with CoworldClient(platform.url, transport=transport, backoff=AT_ONCE) as api:
            assert (await api.secrets.put("paint-arena", "a/b", b"\0secret")).secret_name == "KEY"
            assert (await api.secrets.delete("paint-arena", "a/b")).size_bytes == 3
            assert (await api.hosted.end("cps_1")).session_id == "cps_1"
        assert [asked.method for asked in transport.asked] == ["PUT", "PUT", *["DELETE"] * 3]
        assert transport.asked[0].url.endswith("/observatory/v2/coworlds/secrets/paint-arena/a%2Fb")
        assert transport.asked[0].body == b"\0secret"
