"""Leagues that live: pairings, standings with intervals, divisions, seasons, who is let in, and who is put out."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pyarrow.parquet
import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from support.league_play import contestants, league_of, play, play_rounds, strengths_of
from support.observatory_kit import Account, Platform, World, open_platform, seed

from coworld_client import CoworldClient, NotFound
from coworld_core.errors import UsageError
from observatory.api.leagues import LeagueError, change_league_settings
from observatory.cli import cli
from observatory.operations import overview
from observatory.store.columns import now
from observatory.store.models import (
    Division,
    EpisodeRequest,
    League,
    Membership,
    Participant,
    PolicyVersion,
    Round,
    Season,
    Submission,
    User,
)
from observatory.work import rounds
from observatory.work.cancellation import cancel_disabled
from observatory.work.league_members import check_newcomers
from observatory.work.queue import Outcome, Queue, write_outcome
from observatory.work.rounds import advance
from observatory.work.seasons import CONTINUOUS, change_league

pytestmark = pytest.mark.slow


async def test_swiss_rounds_make_a_season(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        database = platform.services.database
        world = await seed(platform.services, (await platform.account("owner")).id)
        versions = await contestants(platform, world, 4)
        await league_of(platform, world, pairing="swiss", rounds=2)
        await play_rounds(platform, world.division, strengths_of(versions), 2)
        async with platform.client() as anybody:
            board = (await anybody.get(f"/v2/divisions/{world.division}/leaderboards")).json()
            [view] = board["views"]
            first = view["rows"][0]["values"]
            assert (first["rounds"], first["won"], first["played"]) == (1, 1, 1)
            assert first["low"] < first["rating"] < first["high"]
            # The second round is the last, and closes the season
            assert await advance(database, world.division) is None
            assert (await anybody.get(f"/v2/divisions/{world.division}/leaderboard")).json() is None
        async with database.reading() as session:
            season = (await session.scalars(sa.select(Season))).one()
            met = [
                {frozenset(block["players"]) for block in config["blocks"]}
                for config in await session.scalars(sa.select(Round.round_config).order_by(Round.round_number))
            ]
        async with CoworldClient(platform.url) as api:
            [archived] = await api.leagues.seasons(world.league)
            assert await api.leagues.season(world.league, 1) == archived
            running = await api.leagues.season(world.league)
            assert (running.number, running.closed_at, running.to_records()) == (2, None, [])
            with pytest.raises(NotFound):
                await api.leagues.season(world.league, 3)
        assert archived.closed_at is not None
        rows = archived.to_records()
        assert [(row["season"], row["place"], row["name"]) for row in rows] == [
            (1, place, name) for place, name in zip((1, 2, 2, 4), versions, strict=True)
        ]
        assert pyarrow.parquet.read_table(io.BytesIO(archived.to_bytes(".parquet"))).to_pylist() == rows
        async with platform.client() as anybody:
            sheet = await anybody.get(f"/v2/leagues/{world.league}/seasons/1", params={"format": "csv"})
        assert sheet.content == archived.to_bytes(".csv")
        lines = list(csv.DictReader(sheet.text.splitlines()))
        assert [(line["place"], line["name"], float(line["rating"])) for line in lines] == [
            (str(row["place"]), row["name"], row["rating"]) for row in rows
        ]
        [table] = season.tables
        assert [line["name"] for line in table["standings"]] == list(versions)
        assert [(line["place"], line["won"], line["episodes"]) for line in table["standings"]] == [
            (1, 2, 4),
            (2, 1, 4),
            (2, 1, 4),
            (4, 0, 4),
        ]
        assert met[0].isdisjoint(met[1]), "nobody meets twice"
        assert await advance(database, world.division) is not None
        async with database.reading() as session:
            newest = (await session.scalars(sa.select(Round).order_by(Round.round_number.desc()).limit(1))).one()
        assert (newest.season, newest.round_number) == (2, 3)


async def test_a_pause_and_a_season_closed_by_hand(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        database = platform.services.database
        world = await seed(platform.services, (await platform.account("owner")).id)
        versions = await contestants(platform, world, 2)
        await league_of(platform, world)
        await play_rounds(platform, world.division, strengths_of(versions), 1)
        async with database.writing() as session:
            await change_league(session, world.league, "pause")
        # The round that is under way is closed, and none is begun
        assert await advance(database, world.division) is None
        async with database.reading() as session:
            assert await session.scalar(sa.select(Round.status)) == "completed"
        async with database.writing() as session:
            await change_league(session, world.league, "resume")
        assert await advance(database, world.division) is not None
        # One of its episodes is played, one waits
        async with database.writing() as session:
            [played, _] = (
                await session.scalars(sa.select(EpisodeRequest).where(EpisodeRequest.status == "pending"))
            ).all()
            played.status = "running"
        async with database.writing() as session:
            await change_league(session, world.league, "season")
        async with database.writing() as session:
            row = await session.get_one(EpisodeRequest, played.id)
            await write_outcome(session, row, Outcome(status="completed", scores=(1.0, 1.0)))
        async with database.reading() as session:
            waited = await session.scalars(sa.select(EpisodeRequest.status).where(EpisodeRequest.status == "cancelled"))
            assert len(waited.all()) == 1
        async with platform.client() as anybody:
            assert (await anybody.get(f"/v2/divisions/{world.division}/leaderboard")).json() is None


async def test_settings_fixed_by_a_running_season_cannot_change(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        database = platform.services.database
        world = await seed(platform.services, (await platform.account("owner")).id)
        await league_of(platform, world, pairing="round-robin", rounds=3)
        strengths = strengths_of(await contestants(platform, world, 3))
        await play_rounds(platform, world.division, strengths, 1)

        async def change(**terms: Any) -> Any:
            async with database.writing() as session:
                return (await change_league_settings(session, world.league, terms=terms)).commissioner_config

        with pytest.raises(LeagueError, match="begun with another pairing and other blocks") as told:
            await change(pairing="swiss", blocks=2, rounds=2)
        assert told.value.code == "season_begun"
        # Nothing of that was changed; what leaves the table alone may change, and ends the season a round earlier
        assert (await change(rounds=2, faults=5))["pairing"] == "round-robin"
        await play_rounds(platform, world.division, strengths, 1)
        await advance(database, world.division)
        async with database.reading() as session:
            assert (await session.get_one(League, world.league)).season == 2
        with pytest.raises(UsageError, match="no pairing 'x'"):
            await change(pairing="x")


async def test_stopped_season_reports_the_reason(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        database = platform.services.database
        world = await seed(platform.services, (await platform.account("owner")).id)
        await contestants(platform, world, 2)
        await league_of(platform, world, blocks=3)
        assert await advance(database, world.division) is not None
        async with database.writing() as session:
            for row in await session.scalars(sa.select(EpisodeRequest)):
                row.started_at = now()
                outcome = Outcome(status="failed", error_type="game_unhealthy", error="The game ended with status 5.")
                await write_outcome(session, row, outcome)
        # The round is closed, and none follows
        assert await advance(database, world.division) is None
        assert await advance(database, world.division) is None
        async with database.reading() as session:
            [league] = await overview.leagues(session)
        [stopped] = league["stopped"]
        assert stopped["division"] == "Main"
        assert "The game ended with status 5." in stopped["why"]
        command = ["league", "list", "--data", str(platform.settings.data)]
        listed = await anyio.to_thread.run_sync(CliRunner().invoke, cli, command)
        assert f"Main: {stopped['why']}" in listed.stdout
        assert "observatory league season 'Quick League'" in listed.stderr
        async with platform.client() as anybody:
            page = (await anybody.get(f"{platform.url}/leagues/{world.league}")).text
        assert "No more rounds will be played in this season" in page
        assert "The game ended with status 5." in page
        async with database.writing() as session:
            await change_league(session, world.league, "season")
        async with database.reading() as session:
            assert [league["stopped"] for league in await overview.leagues(session)] == [[]]
        assert await advance(database, world.division) is not None


async def test_who_retires_at_the_top_has_no_place(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        database = platform.services.database
        world = await seed(platform.services, (await platform.account("owner")).id)
        versions = await contestants(platform, world, 4)
        await league_of(platform, world, pairing="round-robin", rounds=3, played_percent=50)
        # The last of them comes for the third round
        late = Membership.policy_version_id == versions["bot3"]
        async with database.writing() as session:
            await session.execute(sa.update(Membership).where(late).values(is_champion=False))
        await play_rounds(platform, world.division, strengths_of(versions), 2)
        async with database.writing() as session:
            await session.execute(sa.update(Membership).where(late).values(is_champion=True))
            best = Membership.policy_version_id == versions["bot0"]
            gone = {"is_champion": False, "status": "retired", "end_time": now()}
            await session.execute(sa.update(Membership).where(best).values(**gone))
        async with platform.client() as anybody:
            board = (await anybody.get(f"/v2/divisions/{world.division}/leaderboard")).json()
            assert [(line["rank"], line["player_name"]) for line in board] == [(1, "bot1"), (2, "bot2"), (None, "bot0")]
            view = (await anybody.get(f"/v2/divisions/{world.division}/leaderboards")).json()["views"][0]
            assert [row["values"]["absent"] for row in view["rows"]] == [None, None, "withdrawn"]
            second = sa.update(Membership).where(Membership.policy_version_id == versions["bot2"])
            async with database.writing() as session:
                await session.execute(second.values(is_champion=False))
            view = (await anybody.get(f"/v2/divisions/{world.division}/leaderboards")).json()["views"][0]
            assert {row["subject_name"]: row["values"]["absent"] for row in view["rows"]} == {
                "bot1": None,
                "bot0": "withdrawn",
                "bot2": "benched",
            }
            async with database.writing() as session:
                await session.execute(second.values(is_champion=True))
            page = (await anybody.get(f"{platform.url}/leagues/{world.league}")).text
            assert '<span class="soft">withdrawn</span>' in page
            assert "have played 50 % of its rounds" in page
            home = (await anybody.get(platform.url)).text
            assert "<span>bot1</span>" in home, "who leads is in the league"
        await play_rounds(platform, world.division, strengths_of(versions), 1)
        await advance(database, world.division)
        async with database.reading() as session:
            [table] = (await session.scalars(sa.select(Season))).one().tables
        assert [(line["place"], line["name"], line.get("unplaced")) for line in table["standings"]] == [
            (1, "bot1", None),
            (2, "bot2", None),
            (None, "bot0", "withdrawn"),
            (None, "bot3", "few_rounds"),
        ]
        async with platform.client() as anybody:
            assert "too few rounds" in (await anybody.get(f"{platform.url}/leagues/{world.league}")).text


@pytest.mark.parametrize("share", [1.0, 0.0])
async def test_rounds_have_a_share_of_turns_of_their_own(tmp_path: Path, share: float, database: str | None) -> None:
    async with open_platform(tmp_path, backend="none", database=database) as platform:
        world = await seed(platform.services, (await platform.account("owner")).id)
        await contestants(platform, world, 3)
        await league_of(platform, world, pairing="round-robin")
        assert await advance(platform.services.database, world.division) is not None
        async with platform.services.database.writing() as session:
            # Accounts that never had a turn, where that of the league has had one
            for number in range(6):
                who = await platform.account(f"student{number}")
                session.add(EpisodeRequest(user_id=who.id, coworld_id=world.id, game_config={}))
            owner = sa.select(League.created_at).scalar_subquery()
            await session.execute(sa.update(User).where(User.name == "owner").values(served_at=owner))
        queue = Queue(platform.services.database, owner="one", league_share=share)
        sources: list[str] = []
        async with platform.client() as anybody:
            page = f"{platform.url}/leagues/{world.league}"
            assert "waits for a turn since" in (await anybody.get(page)).text
            while (claim := await queue.claim()) is not None:
                sources.append((await platform.episode(claim.episode_id)).source)
            assert "waits for a turn" not in (await anybody.get(page)).text
        assert sources == sorted(sources, reverse=not share, key=lambda source: source != "round")
        assert (sources.count("round"), len(sources)) == (6, 12)


async def test_changed_champions_do_not_hold_up_a_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        database = platform.services.database
        world = await seed(platform.services, (await platform.account("owner")).id)
        versions = await contestants(platform, world, 3)
        await league_of(platform, world, pairing="round-robin")
        values: dict[str, object] = {}
        statement = sa.update(Membership).where(Membership.policy_version_id == versions["bot1"])
        look = rounds._look  # pyright: ignore[reportPrivateUsage]

        async def looked(*args: Any, **kwargs: Any) -> object:
            """Each time that somebody has looked, a member changes its mind."""
            found = await look(*args, **kwargs)
            if kwargs.get("rounds", True):
                async with database.writing() as session:
                    await session.execute(statement.values(**values))
            return found

        monkeypatch.setattr(rounds, "_look", looked)
        values["is_champion"] = False
        assert await advance(database, world.division) is not None
        async with database.reading() as session:
            seated = set(await session.scalars(sa.select(Participant.policy_version_id)))
        assert seated == set(versions.values()), "it counts from the next round on"
        await play(platform, strengths_of(versions))
        # Whoever is put out by an operator meanwhile does not play
        values["is_champion"] = True
        await advance(database, world.division)
        async with database.writing() as session:
            await session.execute(sa.update(PolicyVersion).values(disabled_at=None))
        statement = sa.update(PolicyVersion).where(PolicyVersion.id == versions["bot1"])
        values.pop("is_champion")
        values["disabled_at"] = now()
        assert await advance(database, world.division) is None


async def test_best_members_are_promoted_at_the_end_of_a_season(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        database = platform.services.database
        world = await seed(platform.services, (await platform.account("owner")).id)
        versions = await contestants(platform, world, 4)
        async with database.writing() as session:
            upper = Division(name="Upper", level=2, league_id=world.league)
            session.add(upper)
        await league_of(platform, world, pairing="round-robin", rounds=1, moves=1)
        await play_rounds(platform, world.division, strengths_of(versions), 1)
        await advance(database, world.division)
        async with database.reading() as session:
            members = (await session.scalars(sa.select(Membership))).unique().all()
            names = {row.policy_version.policy.name: row.division.name for row in members}
            season = (await session.scalars(sa.select(Season))).one()
        assert {name for name, division in names.items() if division == "Upper"} == {"bot0", "bot1"}
        assert [(move["name"], move["to"]) for move in season.moves] == [("bot0", "Upper"), ("bot1", "Upper")]
        assert await advance(database, upper.id) is not None
        assert await advance(database, world.division) is not None


async def _submit(platform: Platform, account: Account, world: World, version: str) -> dict[str, Any]:
    async with platform.client(account) as client:
        body = {"league_id": world.league, "policy_version_id": version}
        answer = await client.post("/v2/league-submissions", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()


async def test_new_submission_is_checked_before_competing(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        database = platform.services.database
        owner = await platform.account("owner")
        world = await seed(platform.services, owner.id)
        await league_of(platform, world, check=True)
        good, bad = await platform.account("good"), await platform.account("bad")
        versions = {account.name: await platform.policy(account, account.name) for account in (good, bad)}
        for account in (good, bad):
            submitted = await _submit(platform, account, world, versions[account.name])
            assert submitted["status"] == "processing"
        await check_newcomers(database)
        await check_newcomers(database)
        async with database.reading() as session:
            checks = (await session.scalars(sa.select(EpisodeRequest))).all()
            assert [row.source for row in checks] == ["qualification"] * 2
            assert {len({seat.policy_version_id for seat in row.participants}) for row in checks} == {1}
        await play(platform, {versions["good"]: 1.0}, faulty=versions["bad"])
        await check_newcomers(database)
        async with database.reading() as session:
            members = (await session.scalars(sa.select(Membership))).unique().all()
            states = {row.policy_version.policy.name: (row.status, row.is_champion) for row in members}
            submissions = (await session.scalars(sa.select(Submission))).unique().all()
            said = {row.policy_version.policy.name: (row.status, row.notes or "") for row in submissions}
        assert states == {"good": ("competing", True), "bad": ("disqualified", False)}
        assert said["good"] == ("placed", "Its image is the same as that of bad:v1 of bad in this league.")
        assert said["bad"][0] == "rejected"
        assert said["bad"][1].endswith("gone")
        # Why is for its owner and the team
        async with database.writing() as session:
            await session.execute(sa.update(User).where(User.name == "owner").values(is_team=True))
        place = f"/v2/league-submissions?league_id={world.league}"
        mine = f"/v2/episode-requests/{next(row.id for row in checks if row.user_id == bad.id)}"
        for account, headers, sees in (
            (bad, {}, True),
            (good, {}, False),
            (owner, {}, False),
            (owner, {"X-Use-Elevated-Privileges": "true"}, True),
        ):
            async with platform.client(account) as client:
                notes = {
                    row["policy_version"]["policy"]["name"]: row["notes"]
                    for row in (await client.get(place, headers=headers)).json()
                }
                assert (notes["bad"] is not None) == sees, account.name
                assert ((await client.get(mine, headers=headers)).status_code == 200) == sees, account.name
        # What it played to be let in is in no table
        async with platform.client() as anybody:
            assert (await anybody.get(f"/v2/divisions/{world.division}/leaderboard")).json() is None


async def test_repeatedly_failing_policy_is_disqualified(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        database = platform.services.database
        world = await seed(platform.services, (await platform.account("owner")).id)
        versions = await contestants(platform, world, 3)
        await league_of(platform, world, pairing="round-robin", faults=4)
        assert await advance(database, world.division) is not None
        await play(platform, strengths_of(versions), faulty=versions["bot2"])
        # The round is closed, and the next is for those who are left
        assert await advance(database, world.division) is None
        assert await advance(database, world.division) is not None
        async with database.reading() as session:
            out = await session.scalars(sa.select(Membership).where(Membership.status == "disqualified"))
            [member] = out.unique().all()
            seated = await session.scalars(
                sa.select(Participant.policy_version_id)
                .join(EpisodeRequest, EpisodeRequest.id == Participant.episode_request_id)
                .where(EpisodeRequest.status == "pending")
            )
            assert set(seated) == {versions["bot0"], versions["bot1"]}
        assert member.policy_version_id == versions["bot2"]
        assert member.reason is not None
        assert member.reason.startswith("The policy was at fault in each of its last 4 episodes")
        # It has forfeited, and is rated for it
        async with platform.client() as anybody:
            board = (await anybody.get(f"/v2/divisions/{world.division}/leaderboard")).json()
        assert [line["player_name"] for line in board] == ["bot0", "bot1"]


async def test_member_that_cannot_be_played_is_benched_until_it_is_submitted_again(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        database = platform.services.database
        world = await seed(platform.services, (await platform.account("owner")).id)
        image = await platform.account("image")
        versions = await contestants(platform, world, 2)
        versions["image"] = await platform.policy(image, "image")
        await platform.join(world, versions["image"])
        await league_of(platform, world, pairing="round-robin", unplayable=4)

        async def a_round(**trouble: str) -> set[str | None]:
            """Play one round; returns who sat in it."""
            assert await advance(database, world.division) is not None
            async with database.reading() as session:
                pending = sa.select(EpisodeRequest.id).where(EpisodeRequest.status == "pending")
                seated = await session.scalars(
                    sa.select(Participant.policy_version_id).where(Participant.episode_request_id.in_(pending))
                )
                found = set(seated)
            await play(platform, strengths_of(versions), **trouble)
            return found

        async with platform.client(image) as owner, platform.client() as anybody:
            query = {"policy_version_id": versions["image"]}

            async def member(client: httpx2.AsyncClient) -> dict[str, Any]:
                [row] = (await client.get("/v2/league-policy-memberships", params=query)).json()
                return row

            assert await a_round(unplayable=versions["image"]) == set(versions.values())
            assert await advance(database, world.division) is None
            benched = await member(owner)
            assert (benched["status"], benched["substatus"]) == ("competing", "benched")
            assert (benched["is_champion"], benched["is_active"]) == (False, True)
            assert benched["reason"].startswith("The platform could not play it in its last 4 episodes, most recently ")
            assert "No images. Submit it again" in benched["reason"]
            assert "reason" not in await member(anybody)
            [event] = (await owner.get("/v2/competition-events", params={"event_type": "policy_benched"})).json()
            assert (event["headline"], event["summary"]) == ("image:v1 was benched", benched["reason"])
            assert (await anybody.get("/v2/competition-events")).json() == []
            # The others go on, and none of them is benched for what was no fault of theirs.
            assert await a_round() == {versions["bot0"], versions["bot1"]}
            submitted = await _submit(platform, image, world, versions["image"])
            assert (submitted["status"], (await member(owner)).get("reason")) == ("placed", None)
            # What was before it was submitted again is forgotten.
            while versions["image"] not in await a_round(unplayable=versions["image"]):
                pass
            await advance(database, world.division)
            assert (await member(owner))["is_champion"] is False


async def test_member_whose_episodes_are_played_in_between_is_not_benched(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        database = platform.services.database
        world = await seed(platform.services, (await platform.account("owner")).id)
        versions = await contestants(platform, world, 3)
        await league_of(platform, world, pairing="round-robin", unplayable=5)
        assert await advance(database, world.division) is not None
        # Four in a row that cannot be played, then some that are, then four again.
        for unplayable in (versions["bot2"], "", versions["bot2"]):
            await play(platform, strengths_of(versions), unplayable=unplayable)
            await advance(database, world.division)
            async with database.reading() as session:
                members = (await session.scalars(sa.select(Membership))).unique().all()
            assert {(row.is_champion, row.reason) for row in members} == {(True, None)}


async def test_episodes_requested_while_a_policy_was_disabled_are_cancelled(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        database = platform.services.database
        world = await seed(platform.services, (await platform.account("owner")).id)
        versions = await contestants(platform, world, 3)
        await platform.play_round(world, versions["bot0"], versions["bot1"])
        kept = await platform.play_round(world, versions["bot1"], versions["bot2"])
        async with database.writing() as session:
            # As if the two had been committed just after that
            (await session.get_one(PolicyVersion, versions["bot0"])).disabled_at = now()
        # No worker is quicker than the sweep
        queue = Queue(database, owner="quick")
        claim = await queue.claim()
        assert claim is not None
        assert claim.episode_id == kept
        assert await queue.claim() is None
        assert await queue.release(claim, counts=False)
        await cancel_disabled(database)
        async with database.reading() as session:
            rows = await session.execute(sa.select(EpisodeRequest.id, EpisodeRequest.status, EpisodeRequest.error_type))
            states = {row[0]: (row[1], row[2]) for row in rows}
        assert states.pop(kept) == ("pending", None)
        assert list(states.values()) == [("cancelled", "disabled")]


async def test_episode_page_says_what_retention_removed(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        world = await seed(platform.services, (await platform.account("owner")).id)
        versions = await contestants(platform, world, 2)
        episode = await platform.play_round(world, *versions.values())
        await play(platform, strengths_of(versions))
        async with platform.client() as anybody:
            page = f"{platform.url}/episodes/{episode}"
            assert "There is no replay." in (await anybody.get(page)).text
            async with platform.services.database.writing() as session:
                (await session.get_one(EpisodeRequest, episode)).pruned_at = now()
            assert "The replay was removed" in (await anybody.get(page)).text


async def test_pages_of_a_running_league_show_its_seasons(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        boss = await platform.account("boss", team=True)
        world = await seed(platform.services, (await platform.account("owner")).id)
        versions = await contestants(platform, world, 3)
        await league_of(platform, world, pairing="round-robin")
        await play_rounds(platform, world.division, strengths_of(versions), 2)
        begun = await advance(platform.services.database, world.division)
        async with platform.services.database.writing() as session:
            await change_league(session, world.league, "pause")
            (await session.get_one(League, world.league)).commissioner_key = CONTINUOUS
        async with platform.client() as anybody:
            league = (await anybody.get(f"{platform.url}/leagues/{world.league}")).text
            assert "This league is paused" in league
            assert "Cross table" in league
            assert "<polyline" in league
            shown = (await anybody.get(f"{platform.url}/leagues/{world.league}/rounds/{begun}")).text
            assert "0 of 6 episodes are over" in shown
            assert shown.count("data-episode=") == 6
            missing = await anybody.get(f"{platform.url}/leagues/{world.league}/rounds/round_x")
            assert missing.status_code == 404
            same = {"Sec-Fetch-Site": "same-origin"}
            await anybody.post(f"{platform.url}/sign-in", data={"token": boss.token}, headers=same)
            pressed = await anybody.post(
                f"{platform.url}/operator/league/season", data={"name": world.league}, headers=same
            )
            assert pressed.headers["location"] == "/operator/leagues"
            assert "season 2" in (await anybody.get(f"{platform.url}/operator/leagues")).text
            assert "Season 1" in (await anybody.get(f"{platform.url}/leagues/{world.league}")).text
