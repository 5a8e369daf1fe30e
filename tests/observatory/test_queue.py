"""Who is next in the queue: turns of accounts and teams, the share of rounds, quotas; and how a claim finds it."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from support.observatory import new_services
from support.observatory_kit import add_policy, open_platform, roster, seed
from support.statements import noted

from observatory.identity.accounts import add_user
from observatory.services import Services
from observatory.settings import Settings
from observatory.store.models import Division, EpisodeRequest, RoleRun, Round, TeamMember, User
from observatory.work.queue import Queue

_BEGAN = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)


async def _world(services: Services) -> str:
    """A game with a league; returns the Coworld's id."""
    async with services.database.writing() as session:
        teacher, _ = await add_user(session, services.tokens, "teacher")
    return (await seed(services, teacher.id)).id


async def _round(session: Any) -> str:
    division = await session.scalar(sa.select(Division.id))
    row = Round(
        round_number=1,
        commissioner_key="x",
        execution_backend="any",
        round_config={},
        status="running",
        division_id=division,
        season=1,
    )
    session.add(row)
    await session.flush()
    return str(row.id)


async def _add(services: Services, rows: list[dict[str, Any]]) -> None:
    async with services.database.writing() as session:
        await session.execute(sa.insert(EpisodeRequest), rows)


@pytest.mark.parametrize("number", range(4))
async def test_claims_are_in_the_order_of_all_that_waits(tmp_path: Path, number: int, database: str | None) -> None:
    chance = random.Random(number)
    settings = Settings(data=tmp_path / "observatory", database=database)
    async with new_services(settings) as services:
        coworld = await _world(services)
        served: dict[str, dt.datetime] = {}
        people = [f"user_{n}" for n in range(6)]
        names = {person: [person, *chance.sample(["team_a", "team_b"], chance.randrange(3))] for person in people}
        async with services.database.writing() as session:
            round_id = await _round(session)
            for name in (*people, "team_a", "team_b"):
                if chance.random() < 0.5:
                    served[name] = _BEGAN - dt.timedelta(seconds=chance.randrange(1000))
                session.add(User(id=name, name=name, is_shared=name.startswith("team"), served_at=served.get(name)))
        rows: list[dict[str, Any]] = []
        for n in range(60):
            person = chance.choice(people)
            of_round = chance.random() < 0.3
            rows.append(
                {
                    "id": f"ereq_{n}",
                    "user_id": person if of_round else chance.choice(names[person]),
                    "person_id": person,
                    "source": "round" if of_round else chance.choice(["experience", "request", "qualification"]),
                    "round_id": round_id if of_round else None,
                    "coworld_id": coworld,
                    "own_config": {},
                    # Many at the same moment, each with a place
                    "created_at": _BEGAN + dt.timedelta(seconds=chance.randrange(8)),
                    "index": n,
                    "status": chance.choice(["pending"] * 4 + ["completed"]),
                }
            )
        await _add(services, rows)
        waiting = {row["id"]: row for row in rows if row["status"] == "pending"}
        never = dt.datetime.min.replace(tzinfo=dt.UTC)
        while waiting:
            share = chance.choice([0.0, 1.0])

            def place(row: dict[str, Any], share: float = share) -> tuple[Any, ...]:
                turn = max(served.get(row["user_id"], never), served.get(row["person_id"], never))
                return ((row["round_id"] is None) == (share == 1.0), turn, row["created_at"], row["index"])

            claim = await Queue(services.database, owner="one", league_share=share).claim()
            assert claim is not None
            assert claim.episode_id == min(waiting.values(), key=place)["id"]
            row = waiting.pop(claim.episode_id)
            async with services.database.reading() as session:
                found = await session.get_one(EpisodeRequest, claim.episode_id)
                assert found.started_at is not None
                served[row["user_id"]] = served[row["person_id"]] = found.started_at
        assert await Queue(services.database, owner="one").claim() is None


@pytest.mark.parametrize("table", [EpisodeRequest, RoleRun])
async def test_a_claim_sorts_nothing_that_waits(tmp_path: Path, table: type[EpisodeRequest] | type[RoleRun]) -> None:
    async with new_services(Settings(data=tmp_path / "observatory")) as services:
        coworld = await _world(services)
        async with services.database.writing() as session:
            session.add(User(id="user_ann", name="ann"))
        await _add(services, [{"user_id": "user_ann", "coworld_id": coworld, "own_config": {}}])
        engine = services.database.engine
        with noted(engine) as asked:
            assert await Queue(services.database, owner="one").claim() is not None
        [(statement, given)] = [
            one for one in asked if "RECURSIVE" in one[0] and f"FROM {table.__tablename__} JOIN" in one[0]
        ]
        async with engine.connect() as connection:
            found = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", given)
            plan = [str(row.detail) for row in found]
        line = ",".join((*table.LINE, "created_at"))
        place = f"USING INDEX ix_{table.__tablename__}_queue (status=? AND ({line})>(?"
        assert any(place in step for step in plan), plan
        # What is sorted is the first of each line
        assert sum("TEMP B-TREE" in step for step in plan) == 1, plan


async def test_a_team_counts_as_one_and_so_does_who_is_in_three(tmp_path: Path, database: str | None) -> None:
    async with new_services(Settings(data=tmp_path / "observatory", database=database)) as services:
        coworld = await _world(services)
        members = [*(("red", who) for who in ("ann", "bob", "cid")), ("blue", "ann"), ("green", "ann")]
        async with services.database.writing() as session:
            for name in ("ann", "bob", "cid", "dan", "red", "blue", "green"):
                session.add(User(id=name, name=name, is_shared=name in ("red", "blue", "green")))
            await session.flush()
            session.add_all(TeamMember(team_id=team, user_id=who) for team, who in members)
            round_id = await _round(session)
        common: dict[str, Any] = {"coworld_id": coworld, "own_config": {}}
        names = [("dan", "dan"), *members, ("ann", "ann")]
        asked = [{"user_id": name, "person_id": who, **common} for name, who in names]
        await _add(services, [{**row, "index": n} for row in asked for n in range(40)])
        async with services.database.reading() as session:
            owner = await session.scalar(sa.select(User.id).where(User.name == "teacher"))
        rounds = {"user_id": owner, "source": "round", "round_id": round_id, **common}
        await _add(services, [{**rounds, "index": n} for n in range(40)])

        async def turns(share: float, many: int) -> list[tuple[str, str]]:
            queue = Queue(services.database, owner="one", league_share=share)
            claims = [await queue.claim() for _ in range(many)]
            async with services.database.reading() as session:
                rows = {row.id: row for row in await session.scalars(sa.select(EpisodeRequest))}
            found = [rows[claim.episode_id] for claim in claims if claim is not None]
            return [(row.user_id if row.round_id is None else "league", row.person_id) for row in found]

        # Rounds have their share however many teams there are
        assert {name for name, _ in await turns(1.0, 20)} == {"league"}
        taken = await turns(0.0, 60)
        of = {name: sum(one == name for one, _ in taken) for name in ("dan", "red")}
        ann = sum(who == "ann" for _, who in taken)
        assert of["dan"] >= max(of["red"], ann) - 1, taken


async def test_teams_are_no_way_to_a_larger_quota(tmp_path: Path, database: str | None) -> None:
    async with open_platform(tmp_path, backend="none", database=database) as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id)
        await platform.policy(ann, "a")
        async with platform.client(ann) as client:
            for name in ("red", "blue"):
                assert (await client.post("/v2/teams", json={"name": name})).status_code == 200
        async with platform.services.database.reading() as session:
            teams = (await session.scalars(sa.select(User.id).where(User.is_shared))).all()
        for team in teams:
            await add_policy(platform.services, team, "a")
        async with platform.services.database.writing() as session:
            for name in ("ann", "red", "blue"):
                few = {"episodes": 5 if name == "ann" else 3}
                await session.execute(sa.update(User).where(User.name == name).values(quotas=few))
        async with platform.client(ann) as client:

            async def ask(many: int, team: str | None) -> int:
                body = {"coworld_id": world.id, "roster": roster("a", "a"), "num_episodes": many}
                headers = {} if team is None else {"X-Team": team}
                return (await client.post("/v2/experience-requests", json=body, headers=headers)).status_code

            assert await ask(4, "red") == 429, "a team has one quota"
            assert await ask(3, "red") == 200
            assert await ask(3, "blue") == 429, "what she has asked for in the name of the other counts"
            assert await ask(3, None) == 429
            assert await ask(2, None) == 200
