"""Leagues, members, submissions, events, and who leads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from support.observatory import Inside, inside
from support.uploads import manifest_for, upload_coworld, upload_image, upload_policy

from coworld_core import api
from observatory.api.leagues import LeagueError, create_league
from observatory.names import NameRefused
from observatory.store.columns import now
from observatory.store.models import (
    Coworld,
    Division,
    EpisodeRequest,
    League,
    Participant,
    PolicyVersion,
    Round,
    RoundResult,
)
from observatory.work.scores import add_scores

ELEVATED = {"X-Use-Elevated-Privileges": "true"}


async def _league(platform: Inside, name: str = "open", **more: Any) -> str:
    async with platform.services.database.writing() as db:
        return (await create_league(db, name, coworld="paint-arena", **more)).id


async def _league_in(db: Any, name: str) -> str:
    return (await create_league(db, name, coworld="paint-arena")).id


async def test_participation_guide_is_served(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        admin = await platform.add_user("admin", team=True)
        await upload_coworld(platform, admin, players_per_user=3)
        open_one = await _league(platform, "Open *to* all # x")
        private = await _league(platform, "ours", public=False)
        answer = await platform.ask("GET", "/v2/participate", params={"league_id": open_one})
        assert answer.headers["content-type"].startswith("text/markdown")
        text = answer.text
        # A name is text, whatever is in it
        assert text.startswith("# Open \\*to\\* all \\# x\n\n")
        assert f"coworld submit NAME --league {open_one}" in text
        assert f"export COWORLD_SERVER={platform.services.settings.url}" in text
        assert (
            "- Seats: 2\n- Divisions: Open\n- Entries of one account: 1\n- Policies one user may have in it: 3\n"
            in text
        )
        template = manifest_for("x")
        assert template["game"]["protocols"]["player"]["value"].strip() in text
        await platform.ask("GET", "/v2/participate", params={"league_id": private}, expect=404)
        await platform.ask("GET", "/v2/participate", admin, params={"league_id": private})
        for wrong, status in (({}, 422), ({"league_id": "x"}, 422), ({"league_id": "league_x"}, 404)):
            await platform.ask("GET", "/v2/participate", params=wrong, expect=status)


async def test_league_is_created(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        admin = await platform.add_user("admin", team=True)
        assert await platform.get("/v2/leagues") == []
        assert await platform.get("/v2/leagues/game-of-week") is None
        with pytest.raises(LeagueError) as error:
            await _league(platform)
        assert error.value.code == "unknown_coworld"
        await upload_coworld(platform, admin)
        league_id = await _league(platform, "Früh & Spät", variant_id=None)
        for name, more, code in (
            ("Früh & Spät", {}, "name_taken"),
            ("Fruh & Spat", {}, "name_taken"),
            ("x", {"variant_id": "nothing"}, "unknown_variant"),
            (" ", {}, "bad_name"),
        ):
            with pytest.raises((LeagueError, NameRefused)) as told:
                await _league(platform, name, **more)
            assert told.value.code == code
        league = await platform.get(f"/v2/leagues/{league_id}")
        assert api.League.read(league).odd == ()
        assert (league["slug"], league["game"]["coworld_name"]) == ("fruh-spat", "paint_arena")
        [division] = await platform.get("/v2/divisions", league_id=league_id)
        assert api.Division.read(division).odd == ()
        assert division["league"]["id"] == league_id
        assert await platform.get(f"/v2/divisions/{division['id']}") == division
        [step] = await platform.get(f"/v2/leagues/{league_id}/division-ladder")
        assert (step["id"], step["member_count"]) == (division["id"], 0)
        game = league["game"]["id"]
        assert len(await platform.get("/v2/leagues", game_id=game)) == 1
        assert await platform.get("/v2/leagues", game_id="game_x") == []
        assert await platform.get(f"/v2/divisions/{division['id']}/leaderboard") is None
        assert await platform.get(f"/v2/divisions/{division['id']}/leaderboards") is None
        for path in ("/v2/leagues/league_x", "/v2/divisions/div_x", "/v2/rounds/round_x", "/v2/leagues/x%00y"):
            answer = await platform.ask("GET", path, expect=404)
            assert answer.json()["type"] == "not_found"
        await platform.ask("GET", "/v2/leagues", params={"game_id": "league_x"}, expect=422)


async def test_league_seeds_create_and_rename_leagues(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        admin = await platform.add_user("admin", team=True)
        waiting = await platform.post("/v2/coworld-league-seeds", admin, {"coworld_name": "paint_arena"})
        assert waiting["league_id"] is None
        await upload_coworld(platform, admin)
        body = {"coworld_name": "Paint-Arena", "league_name": "open", "template": "default"}
        seed = await platform.post("/v2/coworld-league-seeds", admin, body)
        assert api.LeagueSeed.read(seed).odd == ()
        assert (await platform.get("/v2/leagues"))[0]["id"] == seed["league_id"]
        await platform.ask("POST", "/v2/coworld-league-seeds", admin, json=body, expect=409)
        await platform.ask("POST", "/v2/coworld-league-seeds", admin, json={**body, "template": "x"}, expect=422)
        path = f"/v2/coworld-league-seeds/{seed['id']}"
        changed = await platform.ask("PATCH", path, admin, json={"league_name": "renamed", "enabled": False})
        assert changed.json()["enabled"] is False
        assert (await platform.get(f"/v2/leagues/{seed['league_id']}"))["name"] == "renamed"
        await platform.ask("PATCH", f"{path}x", admin, json={}, expect=404)
        assert len(await platform.get("/v2/coworld-league-seeds", admin)) == 2
        async with platform.services.database.writing() as db:
            (await db.get_one(League, await _league_in(db, "former"))).is_game_of_week = True
        await platform.ask("PUT", f"{path}/game-of-week", expect=401)
        await platform.ask("PUT", "/v2/coworld-league-seeds/lseed_x/game-of-week", admin, expect=404)
        unmade = f"/v2/coworld-league-seeds/{waiting['id']}/game-of-week"
        await platform.ask("PUT", unmade, admin, expect=409)
        await platform.ask("PUT", f"{path}/game-of-week", admin)
        assert (await platform.get("/v2/leagues/game-of-week"))["id"] == seed["league_id"]
        chosen = [league["name"] for league in await platform.get("/v2/leagues") if league["is_game_of_week"]]
        assert chosen == ["renamed"]


async def test_private_leagues_are_visible_to_members_only(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        admin, ann = await platform.add_user("admin", team=True), await platform.add_user("ann")
        await upload_coworld(platform, admin)
        await _league(platform, "public")
        internal = await _league(platform, "internal", public=False)
        hidden = await _league(platform, "hidden")
        async with platform.services.database.writing() as db:
            await db.execute(sa.update(League).where(League.id == hidden).values(hidden=True))

        async def seen(token: str | None, **headers: str) -> set[str]:
            leagues = (await platform.ask("GET", "/v2/leagues", token, headers=headers)).json()
            divisions = (await platform.ask("GET", "/v2/divisions", token, headers=headers)).json()
            assert {row["league"]["name"] for row in divisions} == {row["name"] for row in leagues}
            return {row["name"] for row in leagues}

        assert await seen(None) == {"public"}
        assert await seen(ann) == {"public", "internal"}
        assert await seen(admin) == {"public", "internal"}
        assert await seen(admin, **ELEVATED) == {"public", "internal", "hidden"}
        await platform.ask("GET", f"/v2/leagues/{internal}", expect=404)
        version = await upload_policy(platform, ann)
        body = {"league_id": hidden, "policy_version_id": version["id"]}
        await platform.ask("POST", "/v2/league-submissions", ann, json=body, expect=404)


async def test_a_submission_is_placed(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        await upload_coworld(platform, ann)
        league_id = await _league(platform)
        first, second = [await upload_policy(platform, ann) for _ in range(2)]
        body = {"league_id": league_id, "policy_version_id": first["id"], "auto_champion": "always"}
        submission = await platform.post("/v2/league-submissions", ann, body)
        assert api.Submission.read(submission).odd == ()
        assert submission["status"] == "placed"
        [membership] = await platform.get("/v2/league-policy-memberships", active_only="true")
        assert api.Membership.read(membership).odd == ()
        assert membership["id"] == submission["league_policy_membership_id"]
        assert (membership["is_champion"], membership["substatus"]) == (True, "champion")
        # Once more is said to be there already
        again = await platform.post("/v2/league-submissions", ann, body)
        assert again["league_policy_membership_id"] == membership["id"]
        assert "already" in again["notes"]
        # The next version takes the crown, or leaves it
        body = {"league_id": league_id, "policy_version_id": second["id"], "auto_champion": "never"}
        later = (await platform.post("/v2/league-submissions", ann, body))["league_policy_membership_id"]
        champions = await platform.get("/v2/league-policy-memberships", champions_only="true", league_id=league_id)
        assert [row["id"] for row in champions] == [membership["id"]]
        await platform.ask("POST", f"/v2/league-policy-memberships/{later}/champion", bob, expect=403)
        await platform.post(f"/v2/league-policy-memberships/{later}/champion", ann)
        champions = await platform.get("/v2/league-policy-memberships", champions_only="true")
        assert [row["id"] for row in champions] == [later]
        # It is not anybody's to submit, or to retire
        await platform.ask("POST", "/v2/league-submissions", bob, json=body, expect=404)
        await platform.ask("POST", f"/v2/league-policy-memberships/{later}/retire", bob, expect=403)
        retired = await platform.ask("POST", f"/v2/league-policy-memberships/{later}/retire", ann)
        assert (retired.json()["status"], retired.json()["is_champion"]) == ("retired", False)
        answer = await platform.ask("POST", f"/v2/league-policy-memberships/{later}/retire", ann, json={}, expect=409)
        assert answer.json()["type"] == "already_retired"
        await platform.ask("POST", "/v2/league-policy-memberships/lpm_x/retire", ann, expect=404)
        active = await platform.get("/v2/league-policy-memberships", ann, active_only="true", mine="true")
        assert [row["id"] for row in active] == [membership["id"]]
        assert await platform.get("/v2/league-policy-memberships", bob, mine="true") == []
        assert len(await platform.get("/v2/league-policy-memberships", ann, limit=1)) == 1
        assert [row["id"] for row in await platform.get("/v2/league-policy-memberships/portfolio", ann)] == [
            membership["id"]
        ]
        assert len(await platform.get("/v2/league-submissions", ann, mine="true")) == 3
        assert await platform.get("/v2/league-submissions", bob, mine="true") == []
        # Who retired may come back
        back = await platform.post("/v2/league-submissions", ann, body)
        assert back["league_policy_membership_id"] not in (later, membership["id"])


async def test_former_champion_plays_again_once_its_successor_has_retired(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann = await platform.add_user("ann")
        await upload_coworld(platform, ann)
        league_id = await _league(platform)

        async def submit(version: str, how: str = "always") -> dict[str, Any]:
            body = {"league_id": league_id, "policy_version_id": version, "auto_champion": how}
            return dict(await platform.post("/v2/league-submissions", ann, body))

        async def crowned() -> list[str]:
            rows = await platform.get("/v2/league-policy-memberships", league_id=league_id, champions_only="true")
            return [row["policy_version"]["policy"]["name"] for row in rows]

        old, new = [(await upload_policy(platform, ann, name))["id"] for name in ("old", "new")]
        await submit(old)
        later = (await submit(new))["league_policy_membership_id"]
        assert await crowned() == ["new"]
        # Asked for by name, it stays where it is
        assert (await submit(old, "never"))["status"] == "placed"
        assert await crowned() == ["new"]
        await platform.post(f"/v2/league-policy-memberships/{later}/retire", ann)
        assert await crowned() == []
        again = await submit(old)
        assert "your champion again" in again["notes"]
        assert await crowned() == ["old"]


async def test_lineage_nominates_new_versions_of_the_champion(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann = await platform.add_user("ann")
        await upload_coworld(platform, ann)
        league_id = await _league(platform)

        async def crowned(name: str) -> bool:
            version = await upload_policy(platform, ann, name)
            body = {"league_id": league_id, "policy_version_id": version["id"], "auto_champion": "lineage"}
            made = await platform.post("/v2/league-submissions", ann, body)
            rows = await platform.get("/v2/league-policy-memberships", policy_version_id=version["id"])
            assert [row["id"] for row in rows] == [made["league_policy_membership_id"]]
            return bool(rows[0]["is_champion"])

        assert [await crowned(name) for name in ("a", "b", "a", "b")] == [True, False, True, False]


async def test_submission_beyond_players_per_user_is_rejected(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        image = await upload_image(platform, ann)
        manifest = manifest_for(image["id"], players_per_user=1)
        await platform.post("/v2/coworlds/upload", ann, {"manifest": manifest})
        league_id = await _league(platform)

        async def submit(token: str) -> dict[str, Any]:
            version = await upload_policy(platform, token)
            body = {"league_id": league_id, "policy_version_id": version["id"]}
            return dict(await platform.post("/v2/league-submissions", token, body))

        assert (await submit(ann))["status"] == "placed"
        refused = await submit(ann)
        assert (refused["status"], refused["league_policy_membership_id"]) == ("rejected", None)
        assert "Retire" in refused["notes"]
        assert (await submit(bob))["status"] == "placed"
        # Its owner is told, and nobody else
        types = {"event_type": "submission_rejected"}
        assert len(await platform.get("/v2/competition-events", ann, **types)) == 1
        assert await platform.get("/v2/competition-events", bob, **types) == []
        assert await platform.get("/v2/competition-events", **types) == []
        [event] = await platform.get("/v2/competition-events", bob, event_type="submission_placed", limit=1)
        assert api.CompetitionEvent.read(event).odd == ()
        assert event["headline"] == "racer:v1 joined Open"


async def test_players_submit_as_themselves(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        await upload_coworld(platform, ann)
        league_id = await _league(platform, terms={"entries_per_user": None})
        one, two = [(await platform.post("/players", ann, {"name": name}))["id"] for name in ("one", "two")]
        his = (await platform.post("/players", bob, {"name": "his"}))["id"]
        session = (await platform.post(f"/players/{one}/login", ann))["token"]
        hers = await upload_policy(platform, session, "hers")
        body = {"league_id": league_id, "policy_version_id": hers["id"]}
        refused = await platform.ask("POST", "/v2/league-submissions", ann, json={**body, "player_id": two}, expect=403)
        assert refused.json()["type"] == "other_player"
        placed = await platform.post("/v2/league-submissions", session, body)
        assert placed["player"]["id"] == one
        shared = await upload_policy(platform, ann, "shared")
        body = {"league_id": league_id, "policy_version_id": shared["id"]}
        await platform.ask("POST", "/v2/league-submissions", session, json={**body, "player_id": two}, expect=403)
        await platform.ask("POST", "/v2/league-submissions", ann, json={**body, "player_id": his}, expect=404)
        placed = await platform.post("/v2/league-submissions", ann, {**body, "player_id": two})
        assert placed["player"]["name"] == "two"
        rows = await platform.get("/v2/league-policy-memberships", player_id=two)
        assert [row["policy_version"]["policy"]["name"] for row in rows] == ["shared"]
        # Where the league admits any number of entries, each player has a champion of its own
        assert all(row["is_champion"] for row in await platform.get("/v2/league-policy-memberships"))


async def test_leaderboards(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        ann, bob, cat = [await platform.add_user(name) for name in ("ann", "bob", "cat")]
        player = (await platform.post("/players", bob, {"name": "sprinter"}))["id"]
        session = (await platform.post(f"/players/{player}/login", bob))["token"]
        await upload_coworld(platform, ann)
        league_id = await _league(platform)
        versions = [(await upload_policy(platform, token))["id"] for token in (ann, session, cat)]
        # Ann 3.0 in two, sprinter 3.0 in one, cat -1 in one, a bundled player who does not count
        await _scores(platform, [(0, 2.0), (1, 3.0), (None, 99.0)], versions)
        await _scores(platform, [(0, 4.0), (2, -1.0)], versions)
        await _scores(platform, [(2, 1000.0)], versions, elsewhere=True)
        [division] = await platform.get("/v2/divisions", league_id=league_id)
        lines = await platform.get(f"/v2/divisions/{division['id']}/leaderboard", include_recent_rounds=3)
        assert all(api.LeaderboardEntry.read(line).odd == () for line in lines)
        assert [(line["rank"], line["player_name"], line["score"], line["rounds_played"]) for line in lines] == [
            (1, "ann", 3.0, 0),
            (1, "sprinter", 3.0, 0),
            (3, "cat", -1.0, 0),
        ]
        assert lines[1]["player_id"] == player
        board = await platform.get(f"/v2/divisions/{division['id']}/leaderboards")
        assert api.Leaderboard.read(board).odd == ()
        [view] = board["views"]
        assert [row["policy_version_ids"] for row in view["rows"]] == [[version] for version in versions]
        # What a round has made of it stands beside it, once that is known
        async with platform.services.database.writing() as db:
            found = (await db.scalars(sa.select(Round))).unique().one()
            db.add(RoundResult(round_id=found.id, policy_version_id=versions[0], rank=1, score=2.5))
        lines = await platform.get(f"/v2/divisions/{division['id']}/leaderboard", include_recent_rounds=3)
        assert [[r["score"] for r in line["recent_rounds"]] for line in lines] == [[2.5], [None], [None]]
        page = await platform.get("/v2/rounds", league_id=league_id, status="completed")
        assert (page["total_count"], page["limit"], page["offset"]) == (1, 25, 0)
        assert api.Round.read(page["entries"][0]).odd == ()
        detail = await platform.get(f"/v2/rounds/{found.id}")
        assert api.RoundDetail.read(detail).odd == ()
        assert [row["score"] for row in detail["results"]] == [2.5]
        assert (await platform.get("/v2/rounds", division_id="div_x"))["entries"] == []


async def test_leaderboard_includes_requested_number_of_rounds(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann = await platform.add_user("ann")
        await upload_coworld(platform, ann)
        league_id = await _league(platform)
        await _scores(platform, [(0, 2.0)], [(await upload_policy(platform, ann))["id"]])
        [division] = await platform.get("/v2/divisions", league_id=league_id)
        async with platform.services.database.writing() as db:
            first = (await db.scalars(sa.select(Round))).unique().one()
            more = {"commissioner_key": first.commissioner_key, "execution_backend": "any", "status": "completed"}
            db.add_all(
                Round(round_number=number, division_id=first.division_id, round_config={}, **more)
                for number in range(2, 206)
            )

        async def numbers(asked: object) -> list[int]:
            place = f"/v2/divisions/{division['id']}/leaderboard"
            [line] = await platform.get(place, include_recent_rounds=asked)
            return [found["round_number"] for found in line["recent_rounds"]]

        assert await numbers(60) == list(range(205, 145, -1))
        # The most that are given
        assert await numbers(10**6) == list(range(205, 5, -1))
        # Newer clients say only whether
        assert len(await numbers("true")) == 5


async def _scores(
    platform: Inside, scores: list[tuple[int | None, float]], versions: list[str], *, elsewhere: bool = False
) -> None:
    """An episode that finished with some scores, by place in the list of versions; None is a bundled player."""
    async with platform.services.database.writing() as db:
        coworld = (await db.scalars(sa.select(Coworld))).one()
        division = (await db.scalars(sa.select(Division))).unique().one()
        its_round = (await db.scalars(sa.select(Round))).unique().one_or_none()
        if its_round is None:
            its_round = Round(
                round_number=1,
                commissioner_key="static",
                execution_backend="process",
                round_config={},
                status="completed",
                division_id=division.id,
            )
            db.add(its_round)
            await db.flush()
        episode = EpisodeRequest(
            user_id=coworld.user_id,
            coworld_id=coworld.id,
            game_config={},
            status="completed",
            division_id=division.id,
            # What somebody has asked for is of no round
            round_id=None if elsewhere else its_round.id,
        )
        db.add(episode)
        await db.flush()
        for position, (place, _) in enumerate(scores):
            version = await db.get(PolicyVersion, versions[place]) if place is not None else None
            db.add(
                Participant(
                    episode_request_id=episode.id,
                    position=position,
                    policy_version_id=version.id if version else None,
                    policy_name="somebody",
                    user_id=version.user_id if version else None,
                    player_id=version.player_id if version else None,
                )
            )
        await db.flush()
        await add_scores(db, episode, [score for _, score in scores], now())
