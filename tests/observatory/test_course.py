"""A course of fifty for a term: three submissions and one kill a day, a wrong setting, and a restored backup.

Real servers and workers, as processes; a day is as long as its games, since the last round is moved to the day before.
Four days by default, ten weeks with `FULL=1`.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import httpx2
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import undefer
from support.cli_kit import launcher_of
from support.full import FULL
from support.observatory import ServerProcess, add_account, kill_while_playing, run_server
from support.observatory_kit import World, add_policy, declaring, roster, seed
from support.waiting import until

from coworld_runner.evaluation.tournament import find_pairing
from observatory.services import Services, open_services
from observatory.settings import Settings
from observatory.store.models import Artifact, Coworld, EpisodeRequest, EpisodeScore, League, Membership, Round, User
from observatory.work.finished_episodes import finished_episodes
from observatory.work.game_setup import setup_of
from observatory.work.league_settings import LeagueSettings
from observatory.work.season_standings import compute_standings, played_round, season_rules
from observatory.work.seasons import CONTINUOUS

DAYS = 70 if FULL else 4
WRONG_SETTING, RESTORED = (DAYS // 3, DAYS // 2)
"""The days of the operator's mistakes."""
ACCOUNTS, TEAMS, SUBMISSIONS = 50, 18, 3
TESTS = (4, 8, 12)
"""Test games that three of the teams ask for, each day other ones."""
FIRST = 9
"""So many test games are played while all three still wait."""
A_DAY = TEAMS + sum(TESTS)
"""Episodes of a day: in a round, each team plays one match of two episodes."""
LEASE = 6

_SCORES = "[slot + seed for slot in range(len(tokens))]"
_OWN_SCORES = '[hash_of(config["players"][slot]["name"], seed) for slot in range(len(tokens))]'
_HASH = '''def hash_of(name: str, seed: int) -> int:
    """A score that depends on who plays and on the episode's seed."""
    return (seed + sum(map(ord, name))) * 2654435761 % 97
'''


def team_of(account: int) -> int:
    """The team that owns the entry of an account; until entries belong to teams, its first account does."""
    return account % TEAMS


def hash_of(name: str, number: int) -> int:
    """The score that the game gives."""
    return (number + sum(map(ord, name))) * 2654435761 % 97


@dataclass
class Course:
    """The course, its operator and its students."""

    settings: Settings
    package: Path
    log: Path
    tokens: list[str] = field(default_factory=list[str])
    world: World = field(default_factory=lambda: World("", "", "", ""))
    owners: list[str] = field(default_factory=list[str])
    firsts: Counter[int] = field(default_factory=Counter[int])
    """How many of the first test games of each day were those of the team that asked for few, more, and most."""

    async def operator(self, *words: str) -> None:
        """Give a command as the operator."""
        command = ["observatory", *words, "--data", str(self.settings.data)]
        run = partial(launcher_of("observatory").run, command, env=dict(os.environ), cwd=Path.cwd())
        done = await anyio.to_thread.run_sync(run)
        assert done.status == 0, done.stdout + done.stderr

    async def serve(self, stack: AsyncExitStack) -> tuple[ServerProcess, str]:
        """Start a server; returns it with its address."""
        words = ["serve", "--port", "0", "--json", "--backend", "none", "--data", str(self.settings.data)]
        server, said = await stack.enter_async_context(run_server(words, log=self.log))
        return server, f"{said['url']}/observatory"

    async def work(self, stack: AsyncExitStack) -> ServerProcess:
        """Start a worker."""
        words = ["worker", "--json", "--backend", "process", "--package", str(self.package), "--parallel", "2"]
        words += ["--lease", str(LEASE), "--data", str(self.settings.data)]
        return (await stack.enter_async_context(run_server(words, log=self.log)))[0]

    async def open(self, services: Services) -> None:
        """Add everybody, the game and its league."""
        async with services.database.reading() as session:
            users = {user.name: user.id for user in await session.scalars(sa.select(User))}
        self.owners = [users[f"student-{number}"] for number in range(TEAMS)]
        self.world = await seed(services, users["teacher"])
        async with services.database.writing() as session:
            league = await session.get_one(League, self.world.league)
            league.commissioner_config = {"every_seconds": 86_400}

    async def submit(self, services: Services, url: str, team: int, *, expect: int = 200) -> None:
        """A team submits another version of its bot."""
        version = await add_policy(services, self.owners[team], f"bot-{team}")
        body = {"league_id": self.world.league, "policy_version_id": version}
        await self.ask(url, "/v2/league-submissions", team, body, expect=expect)

    async def ask(self, url: str, path: str, team: int, body: dict[str, Any], *, expect: int = 200) -> None:
        """A team posts something."""
        headers = {"Authorization": f"Bearer {self.tokens[team]}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as client:
            answer = await client.post(f"{url}{path}", json=body)
        assert answer.status_code == expect, answer.text

    async def day(self, day: int) -> None:
        """Live a day: submissions, test games, a round, and a kill in the middle of it."""
        async with open_services(self.settings, upgrade=False) as services, AsyncExitStack() as stack:
            server, url = await self.serve(stack)
            if day == WRONG_SETTING:
                await self.operator("league", "set", "Quick League", "--closes", "2020-01-01")
                await self.submit(services, url, 0, expect=409)
                await self.operator("league", "set", "Quick League", "--closes", "none")
            for number in range(TEAMS if day == 0 else SUBMISSIONS):
                await self.submit(services, url, team_of((day * SUBMISSIONS + number) % ACCOUNTS))
            testers = [(day + place * (TEAMS // 3)) % TEAMS for place in range(3)]
            for team, games in zip(testers, TESTS, strict=True):
                both = roster(f"bot-{team}", f"bot-{team}")
                body = {"coworld_id": self.world.id, "variant_id": "duel", "roster": both, "num_episodes": games}
                await self.ask(url, "/v2/experience-requests", team, body)
            async with services.database.writing() as session:
                (await session.get_one(League, self.world.league)).commissioner_key = CONTINUOUS
                yesterday = {"created_at": dt.datetime.now(dt.UTC) - dt.timedelta(days=1)}
                await session.execute(sa.update(Round).values(yesterday))

            async def begun() -> bool:
                async with services.database.reading() as session:
                    return await session.scalar(sa.select(sa.func.count()).select_from(Round)) == day + 1

            await until(begun, seconds=120, what=f"the round of day {day}")
            worker = await self.work(stack)
            await self.reach(services, day * A_DAY + 30)
            await self.count(services, day, testers)
            await kill_while_playing(services, (server, worker)[day % 2], owner=f":{worker.pid}:")
            if day == RESTORED:
                # Of what the kill has left; before it, the day might be over by the time that a backup takes
                await self.operator("backup", str(self.settings.data.with_name("backup")))
        await self.finish(day)
        if day == RESTORED:
            await self.operator("restore", str(self.settings.data.with_name("backup")), "--replace")
            await self.finish(day)

    async def finish(self, day: int) -> None:
        """Play what is left of a day with new processes, until its round is closed."""
        async with open_services(self.settings, upgrade=False) as services, AsyncExitStack() as stack:
            await self.serve(stack)
            await self.work(stack)
            await self.reach(services, (day + 1) * A_DAY)

            async def closed() -> bool:
                async with services.database.reading() as session:
                    return set(await session.scalars(sa.select(Round.status))) == {"completed"}

            await until(closed, seconds=120, what=f"the end of the round of day {day}")

    async def reach(self, services: Services, completed: int) -> None:
        """Wait until so many episodes are completed."""
        found: dict[str, int] = {}

        async def reached() -> bool:
            async with services.database.reading() as session:
                statement = sa.select(EpisodeRequest.status, sa.func.count()).group_by(EpisodeRequest.status)
                found.clear()
                found.update({row[0]: row[1] for row in await session.execute(statement)})
                assert (await session.scalars(sa.select(EpisodeRequest.error))).unique().all() in ([], [None])
            return found.get("completed", 0) >= completed

        await until(reached, seconds=600, what=lambda: f"{completed} of {found} completed", every=0.1)

    async def count(self, services: Services, day: int, testers: list[int]) -> None:
        """Count whose test games of the day were played first."""
        ids = [self.owners[team] for team in testers]
        async with services.database.reading() as session:
            served = await session.scalars(
                sa.select(EpisodeRequest.user_id)
                .where(EpisodeRequest.round_id.is_(None), EpisodeRequest.started_at.is_not(None))
                .order_by(EpisodeRequest.started_at)
                .offset(day * sum(TESTS))
                .limit(FIRST)
            )
            self.firsts.update(ids.index(user) for user in served)


@pytest.mark.slow
@pytest.mark.timeout(7200 if FULL else 900)
async def test_a_term_of_a_course_is_played_once_and_fairly(tmp_path: Path) -> None:
    package = declaring(tmp_path)
    game = package / "game.py"
    text = game.read_text()
    assert _SCORES in text
    game.write_text(text.replace(_SCORES, _OWN_SCORES).replace("def file_of", f"{_HASH}\n\ndef file_of", 1))
    settings = Settings(data=tmp_path / "observatory")
    course = Course(settings, package, tmp_path / "log")
    await add_account(settings, "teacher", team=True)
    course.tokens = [await add_account(settings, f"student-{number}") for number in range(ACCOUNTS)]
    async with open_services(settings) as services:
        await course.open(services)
    for day in range(DAYS):
        await course.day(day)
    async with open_services(settings, upgrade=False) as services:
        await played_once(services)
        await standings_follow_from_the_log(services, course.world)
        await shares_are_equal(services, course)


async def played_once(services: Services) -> None:
    """Every episode has one result, its own."""
    async with services.database.reading() as session:
        rows = (await session.scalars(sa.select(EpisodeRequest))).all()
        results = sa.select(sa.func.count()).where(Artifact.kind == "results")
        assert await session.scalar(results) == len(rows) == DAYS * A_DAY
        assert await session.scalar(sa.select(sa.func.count()).select_from(EpisodeScore)) == 2 * len(rows)
    assert {row.status for row in rows} == {"completed"}
    assert len({row.episode_id for row in rows}) == len(rows)
    assert all(row.lease_token is None for row in rows)
    places = Counter((row.round_id, row.index) for row in rows if row.round_id is not None)
    assert (len(places), set(places.values())) == (DAYS * TEAMS, {1})
    for row in rows:
        names = [player["name"] for player in row.game_config["players"]]
        assert [score.score for score in row.scores] == [hash_of(name, row.seed or 0) for name in names]
    assert max(row.attempts for row in rows) > 1, "nothing was being played when they were killed"


async def standings_follow_from_the_log(services: Services, world: World) -> None:
    """The standings, which each round continued from those before, are those of all rounds at once, byte for byte."""
    async with services.database.reading() as session:
        rows = (
            await session.scalars(
                sa.select(Round).options(undefer(Round.report), undefer(Round.state)).order_by(Round.round_number)
            )
        ).all()
        league = await session.get_one(League, world.league)
        setup = setup_of(await session.get_one(Coworld, world.id), league.variant_id)
        champions = sa.select(Membership).where(Membership.is_champion, Membership.end_time.is_(None))
        owners = {row.entry_id: row.user_id for row in (await session.scalars(champions)).unique()}
        episodes = await finished_episodes(session, EpisodeRequest.round_id.is_not(None))
    terms = LeagueSettings.of(league.commissioner_config)
    rules = season_rules(terms, setup)
    played = [played_round(row.round_config, episodes.get(row.id, ()), rules) for row in rows]
    again = compute_standings(
        [one for one in played if one is not None],
        rows[-1].round_config["entrants"],
        rules=rules,
        pairing=find_pairing(terms.pairing),
        owners=owners,
    )
    assert len(rows) == DAYS
    assert json.dumps(again.report) == json.dumps(rows[-1].report)
    assert json.dumps(again.state) == json.dumps(rows[-1].state)
    assert len({line["rating"] for line in again.report["standings"]}) > 1


async def shares_are_equal(services: Services, course: Course) -> None:
    """No team has more than its share by 5 %: of the seats in rounds, and of turns while others wait."""
    async with services.database.reading() as session:
        seats = await session.execute(
            sa.select(EpisodeScore.user_id, sa.func.count())
            .where(EpisodeScore.division_id.is_not(None))
            .group_by(EpisodeScore.user_id)
        )
        taken = {row[0]: row[1] for row in seats}
    assert set(taken) == set(course.owners)
    assert max(taken.values()) <= 1.05 * sum(taken.values()) / TEAMS
    assert course.firsts.total() == DAYS * FIRST
    assert max(course.firsts.values()) <= 1.05 * course.firsts.total() / len(TESTS), course.firsts
