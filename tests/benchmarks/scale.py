"""What a day of a large league costs: our own pairing, rating, queue and scheduling under a virtual clock.

A discrete-event simulation: rounds, requests for test games and workers are events; what they call is the product, with
a real database on disk. Only the games are missing: an episode lasts a drawn time and ends with drawn scores. A part of
a day is simulated, as many episodes as asked for; costs, rows and bytes are of these, and are extrapolated to a day. A
round with more episodes is filled up with rows, so that it is closed at its full size.

    python tests/benchmarks/scale.py --entrants 1000 10000 100000
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import math
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import ExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import anyio
import sqlalchemy as sa
from _measure import HERE, finish, machine, peak_mib, show
from sqlalchemy import event

sys.path.insert(0, str(HERE.parent))

from _claims import claims_of
from support.observatory import new_services
from support.observatory_kit import World, seed
from support.postgres import execute, running_postgres

from coworld_core.tournament import pairings, standings
from observatory.identity.accounts import add_user
from observatory.services import Services
from observatory.settings import Settings
from observatory.store import columns
from observatory.store.models import (
    Base,
    Coworld,
    EpisodeRequest,
    EpisodeScore,
    Image,
    League,
    Membership,
    Participant,
    Policy,
    PolicyVersion,
    Round,
    User,
)
from observatory.work import rounds
from observatory.work.cancellation import cancel_disabled
from observatory.work.game_setup import setup_of
from observatory.work.league_members import check_newcomers
from observatory.work.lineups import Candidate, episode_configs, plan_config
from observatory.work.new_episodes import EpisodeTemplate, add_episodes
from observatory.work.queue import Claim, Outcome, Queue
from observatory.work.rounds import advance
from observatory.work.seasons import CONTINUOUS

A_DAY = 1_000_000
"""Episodes a day: half of them of rounds, as the default share of turns has it."""
SECONDS = 20.0
"""Mean length of an episode."""
TESTERS, FEW, MANY = 20, 10, 100
"""Accounts that always have test games in the queue, and how many they ask for at a time: every second one many."""
_BATCH = 5000


class Clock:
    """The time of the product, which stands still between two events."""

    def __init__(self) -> None:
        self.time = datetime(2030, 1, 1, tzinfo=UTC)

    def now(self, _: object = None) -> datetime:
        """The current time; each call is a microsecond later, since rows are ordered by it."""
        self.time += timedelta(microseconds=1)
        return self.time

    @contextmanager
    def set(self) -> Generator[Clock]:
        """Let the product read this clock (`columns.now`)."""
        with patch.object(columns, "dt", SimpleNamespace(datetime=self, UTC=UTC)):
            yield self


class Costs:
    """Seconds of named parts, each call by itself."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)

    @contextmanager
    def of(self, part: str) -> Generator[None]:
        """Time the block."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part].append(time.perf_counter() - begun)

    @contextmanager
    def within(self, part: str, owner: Any, name: str) -> Generator[None]:
        """Time every call of a function of the product; its callers find it under this name."""
        real: Callable[..., Any] = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.of(part):
                return real(*args, **kwargs)

        setattr(owner, name, timed)
        try:
            yield
        finally:
            setattr(owner, name, real)

    def mean(self, part: str) -> float:
        """Mean seconds of a call; 0 without one."""
        found = self.seconds[part]
        return sum(found) / len(found) if found else 0.0


class Simulation:
    """A league with its entrants, workers and testers.

    Args:
        services: The Observatory.
        clock: Its clock.
        costs: Where costs are added.
        entrants: Number of entries, two for every third account and one for each other.
        share: The share of turns for rounds.
    """

    def __init__(self, services: Services, clock: Clock, costs: Costs, entrants: int, share: float) -> None:
        self.services, self.database, self.clock, self.costs = services, services.database, clock, costs
        self.entrants, self.chance = entrants, random.Random(1)
        self.queue = Queue(self.database, owner="one", lease=1e9, league_share=share)
        self.owner_of: dict[str, str] = {}
        self.strength: dict[str, float] = {}
        self.testers: list[Candidate] = []
        self.served: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.world = World("", "", "", "")
        self._agenda: list[tuple[datetime, int, str, Any]] = []
        self._order = itertools.count()

    async def settle(self) -> None:
        """Add the accounts, their policies and the members of the league."""
        async with self.database.writing() as session:
            teacher, _ = await add_user(session, self.services.tokens, "teacher")
        self.world = await seed(self.services, teacher.id)
        async with self.database.reading() as session:
            image = (await session.scalars(sa.select(Image.id))).one()
        users = [f"user_{number}" for number in range(math.ceil(self.entrants * 3 / 4))]
        for first in range(0, self.entrants, _BATCH):
            numbers = range(first, min(self.entrants, first + _BATCH))
            # Of four entries, two are of one account
            owners = {number: users[number // 4 * 3 + min(number % 4, 2)] for number in numbers}
            rows: dict[Any, list[dict[str, Any]]] = {
                User: [{"id": user, "name": user} for user in dict.fromkeys(owners.values())],
                Policy: [{"id": f"p{n}", "user_id": owners[n], "name": f"bot-{n}"} for n in numbers],
                PolicyVersion: [
                    {"id": f"v{n}", "policy_id": f"p{n}", "version": 1, "user_id": owners[n], "image_id": image}
                    for n in numbers
                ],
                Membership: [
                    {
                        "id": f"m{n:07d}",
                        "league_id": self.world.league,
                        "division_id": self.world.division,
                        "policy_version_id": f"v{n}",
                        "entry_id": f"e{n:07d}",
                        "user_id": owners[n],
                        "is_champion": True,
                    }
                    for n in numbers
                ],
            }
            async with self.database.writing() as session:
                for table, values in rows.items():
                    await session.execute(sa.insert(table), values)
            self.owner_of |= {f"v{n}": owners[n] for n in numbers}
            self.strength |= {f"v{n}": self.chance.gauss(0, 1) for n in numbers}
        for n in range(0, min(self.entrants, TESTERS * 4), 4):
            who = {"policy_version_id": f"v{n}", "policy_id": f"p{n}", "owner_user_id": self.owner_of[f"v{n}"]}
            self.testers.append(Candidate(**who, name=f"bot-{n}", version=1))
        async with self.database.writing() as session:
            league = await session.get_one(League, self.world.league)
            league.commissioner_key = CONTINUOUS
            every = 86_400 * self.entrants / (A_DAY / 2)
            league.commissioner_config = {"every_seconds": every, "rounds": 10**6, "entries_per_user": None}

    def at(self, seconds: float, what: str, of: Any = None) -> None:
        """Let something happen after so many seconds."""
        heapq.heappush(self._agenda, (self.clock.time + timedelta(seconds=seconds), next(self._order), what, of))

    async def look(self) -> str | None:
        """What a server does each second (`rounds._play_on`); returns the round that began."""
        with self.costs.of("look for cancelled and new"):
            await cancel_disabled(self.database)
            await check_newcomers(self.database)
        begun = time.perf_counter()
        found = await advance(self.database, self.world.division)
        part = "close and begin a round" if found else "look at a round"
        self.costs.seconds[part].append(time.perf_counter() - begun)
        return found

    async def ask(self, tester: int) -> None:
        """A tester asks for games against the next one."""
        mine, other = self.testers[tester], self.testers[(tester + 1) % len(self.testers)]
        many = MANY if tester % 2 else FEW
        async with self.database.reading() as session:
            setup = setup_of(await session.get_one(Coworld, self.world.id), None)
        config = plan_config(setup.manifest, setup.variant, {}, seats=setup.seats)
        lineups = [(mine, other)] * many
        configs = episode_configs(
            setup.manifest, config, [[one.label for one in line] for line in lineups], seed_pinned=False
        )
        order = EpisodeTemplate(
            source="experience", user_id=mine.owner_user_id, coworld_id=self.world.id, variant_id=setup.variant
        )
        with self.costs.of("add requested episodes"):
            async with self.database.writing() as session:
                await add_episodes(session, order, lineups, configs)
        self.asked[mine.owner_user_id] += many

    async def run(self, episodes: int, workers: int) -> None:
        """Play so many episodes, by the clock."""
        idle, ended = workers, 0
        await self.look()
        for tester in range(len(self.testers)):
            await self.ask(tester)
        self.at(1, "look")
        while ended < episodes:
            while idle:
                with self.costs.of("claim"):
                    claim = await self.queue.claim()
                if claim is None:
                    break
                idle -= 1
                async with self.database.reading() as session:
                    row = (
                        await session.execute(
                            sa.select(EpisodeRequest.user_id, EpisodeRequest.round_id).where(
                                EpisodeRequest.id == claim.episode_id
                            )
                        )
                    ).one()
                self.served["league" if row.round_id else row.user_id] += 1
                self.at(self.chance.expovariate(1 / SECONDS), "end", claim)
                owner = row.user_id
                if not row.round_id and self.asked[owner] - self.served[owner] < 5:
                    owners = [one.owner_user_id for one in self.testers]
                    await self.ask(owners.index(owner))
            self.clock.time, _, what, of = heapq.heappop(self._agenda)
            if what == "look":
                await self.look()
                # Ten times less often than a server: its cost is counted by itself
                self.at(10, "look")
            else:
                await self.end(of)
                idle, ended = idle + 1, ended + 1

    async def end(self, claim: Claim) -> None:
        """End an episode with drawn scores."""
        async with self.database.reading() as session:
            seats = await session.scalars(
                sa.select(Participant.policy_version_id)
                .where(Participant.episode_request_id == claim.episode_id)
                .order_by(Participant.position)
            )
            scores = self.scores(seats.all())
        with self.costs.of("finish"):
            await self.queue.finish(claim, Outcome(status="completed", scores=scores, steps=1))

    def scores(self, seats: Iterable[str | None]) -> tuple[float, ...]:
        """Drawn scores: the strength of each with much luck."""
        return tuple(round(self.strength[seat or ""] + self.chance.gauss(0, 1), 3) for seat in seats)

    async def fill_up(self) -> int:
        """End what is left of the round at once, with rows; returns how many episodes that were."""
        left = sa.and_(EpisodeRequest.round_id.is_not(None), EpisodeRequest.status.in_(("pending", "running")))
        async with self.database.writing() as session:
            found = await session.execute(
                sa.select(Participant.episode_request_id, Participant.policy_version_id, Participant.user_id)
                .join(EpisodeRequest, EpisodeRequest.id == Participant.episode_request_id)
                .where(left)
                .order_by(Participant.episode_request_id, Participant.position)
            )
            rows: list[dict[str, Any]] = []
            for episode, seats in itertools.groupby(found.all(), key=lambda row: str(row[0])):
                seated = list(seats)
                for position, (seat, score) in enumerate(
                    zip(seated, self.scores(str(one[1]) for one in seated), strict=True)
                ):
                    rows.append(
                        {
                            "episode_request_id": episode,
                            "position": position,
                            "policy_version_id": seat[1],
                            "user_id": seat[2],
                            "division_id": self.world.division,
                            "score": score,
                        }
                    )
            for first in range(0, len(rows), _BATCH):
                await session.execute(sa.insert(EpisodeScore), rows[first : first + _BATCH])
            over = {"status": "completed", "completed_at": columns.now(), "lease_token": None}
            await session.execute(sa.update(EpisodeRequest).where(left).values(**over))
        return len(rows) // 2

    async def close(self, times: int) -> int:
        """Close so many rounds at their full size, each followed by the next; returns the episodes that were added."""
        added = 0
        for _ in range(times):
            added += await self.fill_up()
            self.clock.time += timedelta(days=1)
            await self.look()
        return added

    async def fairness(self) -> dict[str, Any]:
        """How far shares are from equal ones, in per cent of an equal share."""
        testers = [self.served[one.owner_user_id] for one in self.testers]
        equal = sum(testers) / max(1, len(testers))
        async with self.database.reading() as session:
            configs = (await session.scalars(sa.select(Round.round_config))).all()
        games: Counter[str] = Counter()
        for config in configs:
            games.update(name for block in config["blocks"] for name in block["players"])
        return {
            "share_of_rounds": round(self.served["league"] / max(1, self.served.total()), 3),
            "farthest_tester_percent": round(max(abs(one / equal - 1) for one in testers) * 100, 1) if equal else None,
            "games_of_an_entry": [min(games.values()), max(games.values())],
            "rounds": len(configs),
        }


async def sizes(services: Services) -> tuple[dict[str, int], int]:
    """The rows of each table, and the bytes of the database."""
    async with services.database.reading() as session:
        rows = {
            table.name: await session.scalar(sa.select(sa.func.count()).select_from(table)) or 0
            for table in Base.metadata.sorted_tables
        }
        if services.database.dialect == "sqlite":
            pages = await session.scalar(sa.text("PRAGMA page_count")) or 0
            return rows, pages * (await session.scalar(sa.text("PRAGMA page_size")) or 0)
        return rows, await session.scalar(sa.text("SELECT pg_database_size(current_database())")) or 0


@asynccontextmanager
async def without_index(services: Services, found: Counter[str]) -> AsyncGenerator[None]:
    """Collect the statements that read a whole table of SQLite which grows; counted by their plans."""
    seen: set[str] = set()

    def note(connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        if statement not in seen and not many and statement.startswith(("SELECT", "UPDATE", "DELETE")):
            seen.add(statement)
            waiting.append((statement, parameters))

    waiting: list[tuple[str, Any]] = []
    engine = services.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        yield
    finally:
        event.remove(engine, "before_cursor_execute", note)
    if services.database.dialect != "sqlite":
        return
    async with services.database.engine.connect() as connection:
        for statement, parameters in waiting:
            plan = (await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)).all()
            for line in plan:
                words = str(line[-1])
                if words.startswith("SCAN ") and "CONSTANT" not in words:
                    found[f"{words}: {' '.join(statement.split())[:90]}"] += 1


async def measure_one(options: argparse.Namespace, entrants: int, directory: Path, database: str | None) -> Any:
    """The figures of a league of so many entrants."""
    clock, costs, scans = Clock(), Costs(), Counter[str]()
    settings = Settings(data=directory / "observatory", database=database)
    async with new_services(settings) as services:
        with ExitStack() as stack:
            stack.enter_context(clock.set())
            stack.enter_context(costs.within("pair a round", pairings.FreePlay, "next_round"))
            stack.enter_context(costs.within("rate", standings, "rate"))
            stack.enter_context(costs.within("standings and pairing", rounds, "compute_standings"))
            league = Simulation(services, clock, costs, entrants, settings.league_share)
            await league.settle()
            before, size = await sizes(services)
            begun = time.perf_counter(), clock.time
            async with without_index(services, scans):
                await league.run(options.episodes, options.workers)
            wall, simulated = time.perf_counter() - begun[0], (clock.time - begun[1]).total_seconds()
            fair = await league.fairness()
            filled = await league.close(options.rounds)
            after, grown = await sizes(services)
    episodes = after["episode_requests"] - before["episode_requests"]
    added = {name: after[name] - before[name] for name in after if after[name] > before[name]}
    rounds_a_day = A_DAY / 2 / entrants
    per_episode = costs.mean("claim") + costs.mean("finish")
    every_look = costs.mean("look for cancelled and new") + costs.mean("look at a round")
    day = {
        "queue": per_episode * A_DAY,
        "rounds": costs.mean("close and begin a round") * rounds_a_day,
        "looks": every_look * 86_400,
    }
    return {
        "entrants": entrants,
        "simulated_seconds": round(simulated),
        "wall_seconds": round(wall),
        "filled_up_episodes": filled,
        "seconds_per_call": {part: round(costs.mean(part), 5) for part in sorted(costs.seconds)},
        "seconds_of_a_day": {part: round(seconds) for part, seconds in day.items()},
        "share_of_a_day": round(sum(day.values()) / 86_400, 3),
        "rows_a_day": {name: round(count / episodes * A_DAY) for name, count in sorted(added.items())},
        "gib_a_day": round((grown - size) / episodes * A_DAY / 2**30, 2),
        "fairness": fair,
        "whole_tables_read": dict(scans),
        "peak_mib": round(peak_mib()),
    }


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """The figures of all sizes, one after the other, each with a database of its own."""
    found: list[dict[str, Any]] = []
    with ExitStack() as stack:
        server = stack.enter_context(running_postgres()) if options.postgresql else None
        claims = await claims_of(options.waiting, options.owners, server)
        for entrants in options.entrants:
            database = None
            if server is not None:
                await execute(server, f"CREATE DATABASE scale_{entrants}")
                database = server.format(name=f"scale_{entrants}")
            with tempfile.TemporaryDirectory() as directory:
                found.append(await measure_one(options, entrants, Path(directory), database))
                show(f"{entrants} entrants: seconds of a call", ["", "s"], [*found[-1]["seconds_per_call"].items()])
    if not found:
        return {"machine": machine(), "claims": claims, "sizes": found}
    parts = list(dict.fromkeys(part for one in found for part in one["seconds_per_call"]))
    rows = [[part, *(one["seconds_per_call"].get(part, "-") for one in found)] for part in parts]
    others = ("share_of_a_day", "gib_a_day", "peak_mib", "simulated_seconds", "wall_seconds")
    rows += [[name, *(one[name] for one in found)] for name in others]
    rows += [[name, *(one["fairness"][name] for one in found)] for name in found[0]["fairness"]]
    rows += [["rows a day", *(f"{sum(one['rows_a_day'].values()):,}" for one in found)]]
    show(f"Seconds of a call, and a day of {A_DAY:,} episodes", ["", *map(str, options.entrants)], rows)
    scans = sorted({scan for one in found for scan in one["whole_tables_read"]})
    show("Statements that read a whole table or index", ["plan and statement"], [[scan] for scan in scans])
    grown = [[part, *(f"{_power(one, other, part):.1f}" for one, other in itertools.pairwise(found))] for part in parts]
    show("Grows with this power of the entrants", ["", *map(str, options.entrants[1:])], grown)
    return {"machine": machine(), "claims": claims, "sizes": found}


def _power(one: dict[str, Any], other: dict[str, Any], part: str) -> float:
    few, many = (figures["seconds_per_call"].get(part) or 1e-5 for figures in (one, other))
    return math.log(many / few) / math.log(other["entrants"] / one["entrants"])


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entrants", type=int, nargs="*", default=[1000, 10_000, 100_000])
    parser.add_argument("--episodes", type=int, default=2000, help="played through the queue, for each size")
    parser.add_argument("--waiting", type=int, nargs="+", default=[1000, 100_000], help="episodes, to find the next of")
    parser.add_argument("--owners", type=int, nargs="+", default=[100], help="whose these episodes are")
    parser.add_argument("--rounds", type=int, default=2, help="closed at their full size")
    parser.add_argument("--workers", type=int, default=256, help="places for episodes")
    parser.add_argument("--postgresql", action="store_true", help="in place of SQLite")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = anyio.run(measure, options)
    finish(figures, as_json=options.json)


if __name__ == "__main__":
    main()
