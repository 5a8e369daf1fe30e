"""Lobbies: drafts with seats for people and policies, and the games that they become."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
import sqlalchemy as sa
from support.misfit_kit import leftovers
from support.observatory import until_committed
from support.observatory_kit import Account, Platform, World, open_platform, seed
from websockets.asyncio.client import connect

from observatory.hosted import sessions as hosted_sessions
from observatory.operations.moderation import disable_policy
from observatory.store.columns import now
from observatory.store.models import (
    AuditEntry,
    Coworld,
    EpisodeScore,
    HostedSession,
    League,
    Lobby,
    PolicyVersion,
    Tally,
)
from observatory.work.housekeeping import KEPT, tidy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

Answer = dict[str, Any]
KEPT_OF_PLAYERS = ("id", "name", "type", "description")
"""Fields of a bundled player that do not depend on who runs it."""


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take its time to start a game."""
    monkeypatch.setattr(hosted_sessions, "START_SECONDS", 300)


async def league_of(platform: Platform, *champions: str) -> tuple[World, list[Account], list[str]]:
    """A league whose champions are policies of one account each; these accounts, and the policies' versions."""
    world = await seed(platform.services, (await platform.account("owner")).id)
    owners = [await platform.account(f"{name}-owner") for name in champions]
    versions = [await platform.policy(owner, name) for owner, name in zip(owners, champions, strict=True)]
    for version in versions:
        await platform.join(world, version)
    return world, owners, versions


async def drafted(client: httpx2.AsyncClient, world: World, key: str = "k", **body: Any) -> Answer:
    answer = await client.post(f"/v2/leagues/{world.league}/lobbies", json={"idempotency_key": key, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def refused(answer: httpx2.Response, status: int, code: str) -> None:
    assert (answer.status_code, answer.json().get("type")) == (status, code), answer.text


def kinds(lobby: Answer) -> list[str]:
    return [seat["kind"] for seat in lobby["seats"]]


def starting(lobby: Answer, key: str = "s") -> Answer:
    return {"idempotency_key": key, "expected_revision": lobby["revision"]}


async def test_draft_seats_host_and_champions_by_default(tmp_path: Path) -> None:
    async with open_platform(tmp_path) as platform:
        world, _, _ = await league_of(platform, "old", "young")
        ann = await platform.account("ann")
        async with platform.client(ann) as client:
            lobby = await drafted(client, world)
            assert (lobby["status"], lobby["revision"], lobby["variant_id"]) == ("draft", 1, "duel")
            assert (lobby["min_players"], lobby["max_players"]) == (2, 4)
            assert kinds(lobby) == ["human", "league_player", "closed", "closed"]
            host, champion = lobby["seats"][:2]
            assert (host["is_me"], host["claimant_label"], host["can_remove"]) == (True, "ann", True)
            assert champion["player_name"] == "young-owner"
            assert lobby["permissions"] == {
                "can_start": True,
                "can_edit": True,
                "can_remove_player": True,
                "can_end_game": False,
            }
            created, expires = (dt.datetime.fromisoformat(lobby[name]) for name in ("created_at", "expires_at"))
            assert expires - created == dt.timedelta(hours=1)
            four = await drafted(client, world, "four", variant_id="four")
            assert kinds(four) == ["human", "league_player", "random", "random"]
            few = await drafted(client, world, "few", variant_id="four", num_players=3)
            assert kinds(few) == ["human", "league_player", "random", "closed"]
            seats = [
                {"position": 0, "kind": "human_open"},
                {"position": 1, "kind": "league_player", "player_id": lobby["seats"][1]["player_id"]},
                {"position": 3, "kind": "random"},
            ]
            laid = await drafted(client, world, "laid", seats=seats)
            assert kinds(laid) == ["human_open", "league_player", "closed", "random"]
            assert laid["permissions"]["can_start"] is False
            place = f"/v2/leagues/{world.league}/lobbies"
            for body, status, code in (
                ({"variant_id": "none"}, 404, "unknown_variant"),
                ({"num_players": 5}, 400, "slots_out_of_bounds"),
                ({"game_config_overrides": {"nothing": 1}}, 400, "config_invalid"),
                ({"game_config_overrides": {"tokens": ["a", "b"]}}, 400, "config_invalid"),
                ({"seats": [{"position": 4, "kind": "random"}]}, 400, "bad_slot"),
                ({"seats": [{"position": 1, "kind": "league_player", "player_id": "ply_x"}]}, 400, "no_champion"),
                ({"seats": [{"position": 1, "kind": "league_player"}]}, 422, "validation_error"),
                ({"seats": [{"position": 1, "kind": "random", "player_id": "ply_x"}]}, 422, "validation_error"),
                ({"seats": [{"position": 1, "kind": "human"}]}, 422, "validation_error"),
                ({"seats": [{"position": 1, "kind": "random"}] * 2}, 422, "validation_error"),
                ({"idempotency_key": ""}, 422, "validation_error"),
            ):
                await refused(await client.post(place, json={"idempotency_key": "x", **body}), status, code)


async def test_stale_revision_is_rejected(tmp_path: Path, database: str | None) -> None:
    async with open_platform(tmp_path, database=database) as platform:
        world, _, _ = await league_of(platform, "bot")
        ann, bob, eve = [await platform.account(name) for name in ("ann", "bob", "eve")]
        async with platform.client(ann) as host, platform.client(bob) as guest, platform.client(eve) as other:
            lobby = await drafted(host, world, variant_id="four")
            place = f"/v2/lobbies/{lobby['id']}"
            seat = {"expected_revision": 1, "kind": "human_open"}
            opened = (await host.put(f"{place}/seats/2", json=seat)).json()
            assert (opened["revision"], kinds(opened)[2]) == (2, "human_open")
            await refused(await host.put(f"{place}/seats/3", json=seat), 409, "stale_revision")
            await refused(await host.post(f"{place}/start", json=starting(lobby)), 409, "stale_revision")
            # People come and go without a revision, and each change is a new one
            taken = (await guest.post(f"{place}/seats/2/claim")).json()
            assert (taken["revision"], taken["seats"][2]["claimant_label"]) == (3, "bob")
            assert [seat["is_me"] for seat in taken["seats"]] == [False, False, True, False]
            assert taken["can_manage"] is False
            assert not any(taken["permissions"].values())
            assert (await guest.post(f"{place}/seats/2/claim")).json()["revision"] == 3
            await refused(await other.post(f"{place}/seats/2/claim"), 409, "seat_taken")
            await refused(await other.post(f"{place}/seats/3/claim"), 409, "seat_not_open")
            assert (await other.post(f"{place}/seats/9/claim")).status_code == 404
            await refused(await host.put(f"{place}/seats/2", json=seat | {"expected_revision": 3}), 409, "seat_taken")
            # Who takes another seat leaves the first
            await host.put(f"{place}/seats/3", json=seat | {"expected_revision": 3})
            moved = (await guest.post(f"{place}/seats/3/claim")).json()
            assert (moved["revision"], kinds(moved)[2:]) == (5, ["human_open", "human"])
            left = (await guest.post(f"{place}/leave")).json()
            assert (left["revision"], kinds(left)[2:]) == (6, ["human_open", "human_open"])
            await refused(await guest.post(f"{place}/leave"), 409, "not_seated")
            await guest.post(f"{place}/seats/2/claim")
            for answer in (
                await guest.put(f"{place}/seats/3", json=seat | {"expected_revision": 7}),
                await guest.delete(f"{place}/seats/0/player"),
                await guest.post(f"{place}/start", json={"idempotency_key": "g", "expected_revision": 7}),
                await guest.post(f"{place}/cancel"),
                await guest.post(f"{place}/end"),
            ):
                await refused(answer, 403, "not_host")
            out = (await host.delete(f"{place}/seats/2/player")).json()
            assert (out["revision"], kinds(out)[2]) == (8, "human_open")
            await refused(await host.delete(f"{place}/seats/2/player"), 409, "seat_not_taken")
            await refused(await host.post(f"{place}/end"), 409, "not_started")
            gone = (await host.post(f"{place}/cancel")).json()
            assert (gone["status"], gone["revision"], gone["ended_at"] is None) == ("cancelled", 9, False)
            assert (await host.post(f"{place}/cancel")).json()["revision"] == 9
            await refused(await guest.post(f"{place}/seats/2/claim"), 409, "not_a_draft")
            async with platform.services.database.reading() as db:
                (entry,) = await db.scalars(sa.select(AuditEntry).where(AuditEntry.action == "lobby.player_removed"))
            assert (entry.actor_id, entry.user_id, entry.subject) == (ann.id, bob.id, lobby["id"])


async def test_concurrent_claims_of_a_seat_have_one_winner(tmp_path: Path, database: str | None) -> None:
    async with open_platform(tmp_path, database=database) as platform:
        world, _, _ = await league_of(platform)
        guests = [await platform.account(name) for name in ("ann", "bob", "eve")]
        async with platform.client(guests[0]) as host:
            seats = [{"position": at, "kind": "human_open"} for at in (0, 1)]
            lobby = await drafted(host, world, seats=seats)
        statuses: list[int] = []

        async def claim(guest: Account) -> None:
            async with platform.client(guest) as client:
                statuses.append((await client.post(f"/v2/lobbies/{lobby['id']}/seats/0/claim")).status_code)

        async with anyio.create_task_group() as group:
            for guest in guests:
                group.start_soon(claim, guest)
        assert sorted(statuses) == [200, 409, 409]


async def test_idempotency_key_creates_one_lobby(tmp_path: Path) -> None:
    async with open_platform(tmp_path) as platform:
        world, _, _ = await league_of(platform, "bot")
        ann, bob = await platform.account("ann"), await platform.account("bob")
        place = f"/v2/leagues/{world.league}/lobbies"
        async with platform.client(ann) as client, platform.client(bob) as other:
            lobby = await drafted(client, world)
            again = await client.post(place, json={"idempotency_key": "k"})
            assert (again.json(), again.headers["idempotent-replayed"]) == (lobby, "true")
            different = await client.post(place, json={"idempotency_key": "k", "num_players": 3})
            await refused(different, 422, "idempotency_key_reused")
            assert (await drafted(other, world))["id"] != lobby["id"]
            for number in range(19):
                await drafted(client, world, f"more {number}")
            await refused(await client.post(place, json={"idempotency_key": "most"}), 429, "quota_exceeded")
            await client.post(f"/v2/lobbies/{lobby['id']}/cancel")
            await drafted(client, world, "most")


async def test_a_draft_expires(tmp_path: Path) -> None:
    async with open_platform(tmp_path) as platform:
        world, _, _ = await league_of(platform, "bot")
        async with platform.client(await platform.account("ann")) as client:
            lobby = await drafted(client, world)

            async def move(moment: dt.datetime) -> None:
                async with platform.services.database.writing() as db:
                    (await db.get_one(Lobby, lobby["id"])).expires_at = moment

            await move(now() - dt.timedelta(seconds=1))
            place = f"/v2/lobbies/{lobby['id']}"
            seen = (await client.get(place)).json()
            assert (seen["status"], any(seen["permissions"].values())) == ("expired", False)
            body = {"expected_revision": 1, "kind": "random"}
            for answer in (
                await client.put(f"{place}/seats/1", json=body),
                await client.post(f"{place}/start", json=starting(lobby)),
                await client.post(f"{place}/leave"),
                await client.post(f"{place}/cancel"),
            ):
                await refused(answer, 409, "not_a_draft")
            await tidy(platform.services)
            assert (await client.get(place)).status_code == 200
            await move(now() - KEPT - dt.timedelta(seconds=1))
            await tidy(platform.services)
            assert (await client.get(place)).status_code == 404


async def test_lobbies_of_a_hidden_league_are_hidden(tmp_path: Path) -> None:
    async with open_platform(tmp_path) as platform:
        world, _, _ = await league_of(platform, "bot")
        ann = await platform.account("ann")
        async with platform.client(ann) as client, platform.client() as anybody:
            lobby = await drafted(client, world)
            assert (await anybody.get(f"/v2/lobbies/{lobby['id']}")).status_code == 401
            async with platform.services.database.writing() as db:
                (await db.get_one(League, world.league)).hidden = True
            assert (await client.get(f"/v2/lobbies/{lobby['id']}")).status_code == 404
            place = f"/v2/leagues/{world.league}/lobbies"
            assert (await client.post(place, json={"idempotency_key": "b"})).status_code == 404


async def test_unplayable_draft_is_not_started(tmp_path: Path) -> None:
    async with open_platform(tmp_path) as platform:
        world, _, versions = await league_of(platform, "bot")
        eve, ann = await platform.account("eve"), await platform.account("ann")
        marker = tmp_path / "marker"
        # A policy whose command no package of this machine declares
        wild = await platform.policy(eve, "wild", f"--touch={marker}")
        await platform.join(world, wild)
        async with platform.client(ann) as client:
            lobby = await drafted(client, world)
            place = f"/v2/lobbies/{lobby['id']}"
            assert lobby["seats"][1]["player_name"] == "eve"
            answer = await client.post(f"{place}/start", json=starting(lobby))
            await refused(answer, 409, "not_declared")
            assert "is not declared by any package on this machine" in answer.json()["detail"]
            seat = {"kind": "league_player", "expected_revision": 1}
            async with platform.services.database.reading() as db:
                bot = await db.get_one(PolicyVersion, versions[0])
            answer = await client.put(f"{place}/seats/1", json=seat | {"player_id": bot.user_id})
            assert answer.status_code == 200, answer.text
            async with platform.services.database.writing() as db:
                await disable_policy(db, await db.get_one(PolicyVersion, versions[0]))
            answer = await client.post(f"{place}/start", json=starting(answer.json()))
            await refused(answer, 409, "no_champion")
            for seats, code in (
                ([{"position": 1, "kind": "human_open"}], "seats_open"),
                ([{"position": 0, "kind": "random"}], "nobody_seated"),
            ):
                lobby = await drafted(client, world, code, seats=seats)
                await refused(await client.post(f"/v2/lobbies/{lobby['id']}/start", json=starting(lobby)), 409, code)
            lobby = await drafted(client, world, "alone", seats=[{"position": 1, "kind": "closed"}])
            answer = await client.post(f"/v2/lobbies/{lobby['id']}/start", json=starting(lobby))
            await refused(answer, 400, "slots_out_of_bounds")
            async with platform.services.database.reading() as db:
                assert await db.scalar(sa.select(sa.func.count()).select_from(HostedSession)) == 0
        assert not marker.exists()


async def test_game_hosted_players_cannot_have_lobbies(tmp_path: Path) -> None:
    async with open_platform(tmp_path) as platform:
        world, _, _ = await league_of(platform)
        async with platform.services.database.writing() as db:
            row = await db.get_one(Coworld, world.id)
            players = [
                {key: value for key, value in player.items() if key in KEPT_OF_PLAYERS}
                for player in row.manifest["player"]
            ]
            row.manifest = {
                **row.manifest,
                "game": {**row.manifest["game"], "player_runtime": "game-hosted"},
                "player": [{**player, "file": "players/one.py"} for player in players],
            }
        async with platform.client(await platform.account("ann")) as client:
            answer = await client.post(f"/v2/leagues/{world.league}/lobbies", json={"idempotency_key": "k"})
            await refused(answer, 400, "unsupported_runtime")


async def finished(client: httpx2.AsyncClient, lobby_id: str) -> Answer:
    """The lobby, once its game is over."""

    async def over() -> Answer | None:
        lobby: Answer = (await client.get(f"/v2/lobbies/{lobby_id}")).json()
        return lobby if lobby["status"] not in ("pending", "running") else None

    return await until_committed(over)


async def socket_of(client: httpx2.AsyncClient, lobby: Mapping[str, Any]) -> tuple[int, str]:
    """The caller's slot in the game of a lobby, and the address of its player."""
    seat = (await client.post(f"/v2/coworlds/play/session/{lobby['session_id']}/join")).json()
    return seat["slot"], seat["player_url"].replace("http", "ws").replace("/client/", "/")


async def test_a_person_and_a_policy_play_to_the_end(tmp_path: Path, database: str | None) -> None:
    async with open_platform(tmp_path, database=database) as platform:
        world, (owner,), versions = await league_of(platform, "bot")
        ann, eve = await platform.account("ann"), await platform.account("eve")
        async with platform.client(ann) as client, platform.client(eve) as stranger, platform.client(owner) as author:
            seats = [{"position": 0, "kind": "random"}, {"position": 1, "kind": "closed"}]
            seats.append({"position": 2, "kind": "human_open"})
            lobby = await drafted(client, world, seats=seats, tags={"exp": "people"})
            assert lobby["tags"] == {"exp": "people"}
            assert (await stranger.get(f"/v2/lobbies/{lobby['id']}")).json()["tags"] is None
            place = f"/v2/lobbies/{lobby['id']}"
            lobby = (await client.post(f"{place}/seats/2/claim")).json()
            answer = await client.post(f"{place}/start", json=starting(lobby))
            assert answer.status_code == 200, answer.text
            running = answer.json()
            assert (running["status"], running["revision"]) == ("running", lobby["revision"] + 1)
            assert running["permissions"]["can_end_game"] is True
            # Now it is known who was drawn
            assert [seat["player_name"] for seat in running["seats"]] == ["bot-owner", None, None, None]
            # The same request is answered alike, and another one under its key is not
            again = (await client.post(f"{place}/start", json=starting(lobby))).json()
            assert again["session_id"] == running["session_id"]
            await refused(await client.post(f"{place}/start", json=starting(running)), 422, "idempotency_key_reused")
            await refused(await client.post(f"{place}/start", json=starting(running, "t")), 409, "not_a_draft")
            # The policy's seat is nobody's to take
            join = f"/v2/coworlds/play/session/{running['session_id']}/join"
            assert (await stranger.post(join)).status_code == 409
            session = platform.services.runtime.sessions
            assert session is not None
            hosted = session.get(running["session_id"])
            assert hosted is not None
            assert (set(hosted.seats), hosted.game.config["players"]) == ({1}, [{"name": "bot:v1"}, {"name": "ann"}])
            slot, address = await socket_of(client, running)
            assert slot == 1
            async with connect(address, open_timeout=300) as socket:
                assert await socket.recv()
                await socket.wait_closed()
            ended = await finished(client, lobby["id"])
            assert (ended["status"], ended["error"], any(ended["permissions"].values())) == ("completed", None, False)
            assert ended["ended_at"] is not None
            assert (await client.get(ended["replay_url"])).status_code == 200
            game = (await client.get(f"/v2/coworlds/play/session/{running['session_id']}")).json()
            assert (game["tags"], game["status"]) == ({"exp": "people"}, "completed")
            assert [(seat["slot"], seat["label"]) for seat in game["players"]] == [(0, "bot:v1"), (1, "ann")]
            (episode,) = (await client.get("/v2/episode-requests?tags=exp=people")).json()["entries"]
            assert (episode["id"], episode["episode_id"]) == (ended["episode_request_id"], ended["episode_id"])
            assert (episode["status"], episode["source"]) == ("completed", "play")
            assert [(seat["position"], seat["policy_version_id"]) for seat in episode["participants"]] == [
                (0, versions[0])
            ]
            assert [(seat["position"], seat["name"], seat["score"]) for seat in episode["people"]] == [(1, "ann", 1)]
            stats = (await client.get(f"/v2/episode-requests/{episode['id']}/episode-stats")).json()
            assert [seat["policy_name"] for seat in stats["policy_stats"]] == ["bot", "ann"]
            # The policy's log is its author's, who may see the episode, and strangers may not
            log = f"/v2/episode-requests/{episode['id']}/{versions[0]}/policy-logs/0"
            assert [(await who.get(log)).status_code for who in (client, stranger, author)] == [403, 404, 200]
            assert (await stranger.get(f"/v2/episode-requests/{episode['id']}")).status_code == 404
            assert (await stranger.get(place)).json()["replay_url"] is None
            async with platform.services.database.reading() as db:
                # No table of the league counts it
                assert (await db.scalars(sa.select(Tally))).all() == []
                scores = (await db.scalars(sa.select(EpisodeScore))).all()
                assert {(score.policy_version_id, score.division_id) for score in scores} == {
                    (versions[0], None),
                    (None, None),
                }
                (entry,) = await db.scalars(sa.select(AuditEntry).where(AuditEntry.action == "lobby.started"))
                assert (entry.actor_id, entry.detail["policies"]) == (ann.id, ["bot:v1"])
                runs = [run or "" for run in await db.scalars(sa.select(HostedSession.run_id))]
            assert (await client.get(f"/v2/divisions/{world.division}/leaderboard")).json() is None
    assert leftovers(run_ids=runs) == []


async def test_the_host_ends_a_game(tmp_path: Path) -> None:
    async with open_platform(tmp_path) as platform:
        world, _, _ = await league_of(platform, "bot")
        async with platform.client(await platform.account("ann")) as client:
            lobbies = [await drafted(client, world, str(number)) for number in range(3)]
            for lobby in lobbies[:2]:
                answer = await client.post(f"/v2/lobbies/{lobby['id']}/start", json=starting(lobby))
                assert answer.json()["status"] == "running", answer.text
            # An account's games are limited alike, however they were started
            answer = await client.post(f"/v2/lobbies/{lobbies[2]['id']}/start", json=starting(lobbies[2]))
            await refused(answer, 429, "quota_exceeded")
            assert (await client.get(f"/v2/lobbies/{lobbies[2]['id']}")).json()["status"] == "draft"
            place = f"/v2/lobbies/{lobbies[0]['id']}"
            ended = (await client.post(f"{place}/end")).json()
            assert (ended["status"], ended["episode_request_id"]) == ("ended", None)
            assert (await client.post(f"{place}/end")).json() == ended
            assert (await client.get("/v2/episode-requests")).json()["entries"] == []
            answer = await client.post(f"/v2/lobbies/{lobbies[2]['id']}/start", json=starting(lobbies[2]))
            assert answer.json()["status"] == "running", answer.text


async def test_drafts_survive_a_restart_and_games_do_not(tmp_path: Path, database: str | None) -> None:
    async with open_platform(tmp_path, database=database) as platform:
        world, _, _ = await league_of(platform, "bot")
        ann = await platform.account("ann")
        async with platform.client(ann) as client:
            draft = await drafted(client, world)
            played = await drafted(client, world, "played")
            played = (await client.post(f"/v2/lobbies/{played['id']}/start", json=starting(played))).json()
        sessions = platform.services.runtime.sessions
        assert sessions is not None
        await sessions.end()
        # As a server leaves it that is killed
        async with platform.services.database.writing() as db:
            await db.execute(sa.update(HostedSession).values(status="starting", ended_at=None))
    async with open_platform(tmp_path, database=database) as platform, platform.client(ann) as client:
        seen = (await client.get(f"/v2/lobbies/{draft['id']}")).json()
        assert {**seen, "page_url": None} == {**draft, "page_url": None}
        seen = (await client.get(f"/v2/lobbies/{played['id']}")).json()
        assert (seen["status"], seen["error"]) == ("failed", "The server was restarted during the game.")
        answer = await client.post(f"/v2/lobbies/{draft['id']}/start", json=starting(draft))
        assert answer.json()["status"] == "running", answer.text
