"""What people who take part see: what became of their submissions, the history of an entry, and how a season stands."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import httpx2
import sqlalchemy as sa
from support.league_play import contestants, league_of, play, play_rounds, strengths_of
from support.observatory import until_committed
from support.observatory_kit import MISFITS, Account, Platform, World, open_platform, seed

from observatory.operations.moderation import disable_policy, find_policy
from observatory.store.columns import now
from observatory.store.models import CHECK, Division, EpisodeRequest, League, Membership, Submission
from observatory.web.visit import PAGE_ROWS
from observatory.work.queue import Queue
from observatory.work.rounds import advance
from observatory.work.season_progress import season_progress
from observatory.work.seasons import CONTINUOUS, change_league


async def seen(platform: Platform, account: Account | None, path: str, *, status: int = 200) -> str:
    """A page as somebody sees it who has signed in."""
    async with httpx2.AsyncClient(base_url=platform.url, timeout=300) as browser:
        if account is not None:
            same = {"Sec-Fetch-Site": "same-origin"}
            await browser.post("/sign-in", data={"token": account.token}, headers=same)
        answer = await browser.get(path)
        assert answer.status_code == status, answer.text
        return answer.text


async def enter(platform: Platform, world: World, account: Account, version: str, **more: str) -> str:
    """Submit a policy version; returns its membership's id."""
    async with platform.client(account) as client:
        body = {"league_id": world.league, "policy_version_id": version, **more}
        answer = await client.post("/v2/league-submissions", json=body)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["league_policy_membership_id"])


def row_of(page: str, label: str) -> str:
    """The row of a submission, as text with its links."""
    [row] = [row for row in re.findall(r"<tr>.*?</tr>", page, re.DOTALL) if f">{label}</a>" in row and "badge" in row]
    return row


async def test_a_failed_check_leads_its_owner_alone_to_the_log(tmp_path: Path, database: str | None) -> None:
    async with open_platform(tmp_path, backend="none", database=database) as platform:
        ann, eve = await platform.account("ann"), await platform.account("eve")
        world = await seed(platform.services, eve.id)
        await league_of(platform, world, check=True)
        version = await platform.policy(ann, "walker")
        await enter(platform, world, ann, version)
        assert 'data-status="waiting"' in row_of(await seen(platform, ann, "/mine"), "walker:v1")

        async def checked() -> str | None:
            async with platform.services.database.reading() as session:
                of_check = sa.select(EpisodeRequest.id).where(EpisodeRequest.source == CHECK)
                return await session.scalar(of_check)

        check = await until_committed(checked)
        assert await Queue(platform.services.database, owner="worker").claim() is not None
        assert 'data-status="checking"' in row_of(await seen(platform, ann, "/mine"), "walker:v1")
        async with platform.services.database.writing() as session:
            await session.execute(sa.update(EpisodeRequest).values(status="pending", lease_token=None))
        await play(platform, {}, faulty=version)

        async def rejected() -> bool:
            async with platform.services.database.reading() as session:
                return await session.scalar(sa.select(Submission.status)) == "rejected"

        await until_committed(rejected)
        row = row_of(await seen(platform, ann, "/mine"), "walker:v1")
        assert 'data-status="rejected"' in row
        assert f'(episode <a href="/episodes/{check}">{check}</a>): gone' in row
        assert "coworld upload-policy FILE --name walker --league" in row
        assert f'<a href="/episodes/{check}#logs">The log of its check</a>' in row
        await seen(platform, ann, f"/episodes/{check}")
        await seen(platform, eve, f"/episodes/{check}", status=404)
        assert "walker" not in await seen(platform, eve, "/mine")
        await seen(platform, None, "/mine", status=303)


async def test_each_state_says_why_and_what_to_do(tmp_path: Path, database: str | None) -> None:
    async with open_platform(tmp_path, backend="none", database=database) as platform:
        ann, ben = await platform.account("ann"), await platform.account("ben")
        world = await seed(platform.services, ben.id)
        async with platform.client(ann) as client:
            team = (await client.post("/v2/teams", json={"name": "crew"})).json()["id"]
        names = ("admitted", "retired", "disqualified", "disabled", "champion")
        versions = {name: await platform.policy(ann, name) for name in names}
        members = {name: await enter(platform, world, ann, version) for name, version in versions.items()}
        shared = await platform.policy(Account(team, "crew", ""), "ours")
        other = await seed(platform.services, ben.id, subject=MISFITS)
        await enter(platform, other, ann, shared)
        async with platform.client(ann) as client:
            path = f"/v2/league-policy-memberships/{members['retired']}/retire"
            await client.post(path, json={"reason": "It was <slow>."})
        async with platform.services.database.writing() as session:
            gone = await session.get_one(Membership, members["disqualified"])
            gone.status, gone.end_time, gone.reason = "disqualified", now(), "At fault in each episode."
            await disable_policy(session, await find_policy(session, versions["disabled"]), reason="It mines coins.")
        text = await seen(platform, ann, "/mine")
        said = {
            "admitted": "coworld champion admitted:v1 --league",
            "retired": 'It was &lt;slow&gt;.<br><span class="soft">It plays again after</span> <code>coworld submit',
            "disqualified": "At fault in each episode.",
            "disabled": "It mines coins.",
            "champion": "It plays in each round.",
        }
        for name, words in said.items():
            row = row_of(text, f"{name}:v1")
            assert f'data-status="{name}"' in row
            assert words in row
        assert "--as-team crew" in row_of(text, "ours:v1")
        assert "ours" not in await seen(platform, ben, "/mine")
        # Where nothing is taken, no command would help
        yesterday = (now() - dt.timedelta(days=1)).isoformat()
        await league_of(platform, world, closes_at=yesterday)
        row = row_of(await seen(platform, ann, "/mine"), "retired:v1")
        assert "Submissions closed on" in row
        assert "coworld submit" not in row
        # Newest first, page by page
        async with platform.services.database.writing() as session:
            for _ in range(PAGE_ROWS):
                session.add(
                    Submission(league_id=world.league, policy_version_id=shared, user_id=team, status="rejected")
                )
        text = await seen(platform, ann, "/mine")
        assert text.count("badge") == PAGE_ROWS
        assert f"/mine?policies=0&amp;offset={PAGE_ROWS}" in text
        assert "champion:v1" in await seen(platform, ann, f"/mine?offset={PAGE_ROWS}")


async def test_a_history_shows_rating_place_and_opponents(tmp_path: Path, database: str | None) -> None:
    async with open_platform(tmp_path, backend="none", database=database) as platform:
        world = await seed(platform.services, (await platform.account("owner")).id)
        await league_of(platform, world, pairing="swiss")
        versions = await contestants(platform, world, 4)
        await play_rounds(platform, world.division, strengths_of(versions), 2)
        assert await advance(platform.services.database, world.division) is not None
        async with platform.services.database.reading() as session:
            entry = await session.scalar(
                sa.select(Membership.entry_id).where(Membership.policy_version_id == versions["bot0"])
            )
        league = await seen(platform, None, f"/leagues/{world.league}")
        path = f"/leagues/{world.league}/entries/{entry}"
        assert f'<a href="{path}">bot0</a>' in league
        # What the table of a Swiss tournament is made of: two wins, over those that have one and none
        row = next(row for row in league.split("<tr") if f'{path}">bot0<' in row)
        assert 'title="In 2 matches">2</td><td class="number">2</td>' in row
        assert '<th class="number" title="The points of its opponents' in league
        text = await seen(platform, None, path)
        assert "2 rounds played, now in place 1" in text
        assert re.search(r'aria-label="Rating after each round: \+\d+, \+\d+"', text)
        assert 'aria-label="Place after each round: 1, 1"' in text
        against = text.partition('id="met"')[2].partition("</section>")[0]
        assert re.findall(r'<td class="number">(\d+)</td>' * 3, against) == [("1", "0", "0")] * 2
        assert text.count("data-episode") > 0
        assert path in await seen(platform, None, f"/policies/versions/{versions['bot0']}")
        # Where it has played nothing
        assert "It has finished no round of this season." in await seen(platform, None, f"{path}?season=7")
        for nothing in ("none/entries/none", f"{world.league}/entries/none"):
            await seen(platform, None, f"/leagues/{nothing}", status=404)
        async with platform.services.database.writing() as session:
            (await session.get_one(League, world.league)).public = False
        await seen(platform, None, path, status=404)


async def test_a_season_says_how_far_it_is_and_what_comes_next(tmp_path: Path, database: str | None) -> None:
    async with open_platform(tmp_path, backend="none", database=database) as platform:
        world = await seed(platform.services, (await platform.account("owner")).id)
        versions = await contestants(platform, world, 3)

        async def said(**terms: object) -> tuple[int, int | None, str, bool]:
            await league_of(platform, world, pairing="round-robin", rounds=4, **terms)
            async with platform.services.database.reading() as session:
                progress = await season_progress(session, await session.get_one(Division, world.division))
            assert progress is not None
            return progress.done, progress.planned, progress.next, progress.next_at is not None

        await league_of(platform, world, pairing="round-robin", rounds=4)
        await play_rounds(platform, world.division, strengths_of(versions), 2)
        await advance(platform.services.database, world.division)
        # It plays by itself only now, and its third round is not over: the server begins none
        async with platform.services.database.writing() as session:
            (await session.get_one(League, world.league)).commissioner_key = CONTINUOUS
        assert await said() == (2, 4, "The next round begins when this one is over.", False)
        words = "The next round begins when this one is over, at the earliest"
        assert await said(every_seconds=9e5) == (2, 4, words, True)
        closes = (now() + dt.timedelta(days=1)).isoformat()
        await said(every_seconds=9e5, closes_at=closes)
        page = await seen(platform, None, f"/leagues/{world.league}")
        assert "2 of 4 rounds of season 1 over" in page
        assert "0 of 6 episodes over, 0 running, 6 waiting" in page
        assert "Submissions close on" in page
        # Everybody meets everybody: a cross table
        assert "<details open><summary>Cross table</summary>" in page
        await play(platform, strengths_of(versions))

        async def closed() -> bool:
            return (await said(every_seconds=9e5))[0] == 3

        await until_committed(closed)
        assert await said(every_seconds=9e5) == (3, 4, "The next round begins", True)
        async with platform.services.database.writing() as session:
            await change_league(session, world.league, "pause")
        assert (await said(every_seconds=9e5))[2] == "No round begins while the league is paused."
