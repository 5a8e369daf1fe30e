"""Leagues whose rounds a commissioner decides: its program runs, and is spoken to, as in tournaments in a folder."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from support.observatory import add_account, run_server, until_committed
from support.observatory_kit import QUICK, Platform, Subject, World, add_member, add_policy, open_platform, seed
from support.waiting import until

from coworld_core.commissioner.hook_names import HOOKS
from coworld_core.errors import UsageError
from coworld_core.secret_seeds import verify_seed
from observatory.api.leagues import LeagueError, change_league_settings, create_league
from observatory.api.standings import standings
from observatory.operations.overview import leagues
from observatory.services import Services, open_services
from observatory.settings import Settings
from observatory.store.columns import now
from observatory.store.models import (
    Commission,
    CommissionEvent,
    Division,
    EpisodeRequest,
    EpisodeScore,
    Event,
    League,
    Membership,
    Round,
    RoundResult,
    Tally,
    User,
)
from observatory.work import commissioner_service
from observatory.work.seasons import change_league

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PAINT = Path(__file__).parents[2] / "examples" / "paintarena"
ARENA = Subject(PAINT, "{{PAINTARENA_IMAGE}}", "paintarena", ("python", "-m", "paintarena.players.sweep"))
FRONTIER = Subject(PAINT, "{{PAINTARENA_IMAGE}}", "paintarena", ("python", "-m", "paintarena.players.frontier"))


async def _commission(services: Services, world: World, commissioner: str, **terms: Any) -> None:
    async with services.database.writing() as session:
        await change_league_settings(
            session, world.league, every=0, terms={"commissioner_runnable_id": commissioner, **terms}
        )


async def _rounds(services: Services) -> list[Round]:
    async with services.database.reading() as session:
        return list((await session.scalars(sa.select(Round).order_by(Round.created_at, Round.id))).unique())


async def _first(services: Services, *statuses: str) -> list[Round] | None:
    """The first rounds, if they have these statuses."""
    rounds = (await _rounds(services))[: len(statuses)]
    return rounds if [row.status for row in rounds] == list(statuses) else None


async def _until(services: Services, *statuses: str) -> list[Round]:
    """Rounds once the first ones have ended like this."""
    return await until_committed(lambda: _first(services, *statuses), seconds=200)


async def _until_any(services: Services, status: str) -> list[Round]:
    """Rounds with a status, once there is one."""

    async def there() -> list[Round]:
        return [row for row in await _rounds(services) if row.status == status]

    return await until_committed(there, seconds=200)


async def _shown(services: Services) -> dict[str, Any]:
    async with services.database.reading() as session:
        [league] = await leagues(session)
    return league


async def _trouble(services: Services) -> str:
    async def trouble() -> str | None:
        return (await _shown(services))["trouble"]

    return await until_committed(trouble, seconds=100)


async def _page(platform: Platform, path: str) -> str:
    async with platform.client() as anybody:
        answer = await anybody.get(f"{platform.url}{path}")
    assert answer.status_code == 200
    return answer.text


async def _three(platform: Platform, world: World, *subjects: Subject) -> dict[str, str]:
    """Three members; their policy versions by name."""
    found: dict[str, str] = {}
    for name, subject in zip(("ann", "bob", "cyd"), subjects or (QUICK,) * 3, strict=True):
        account = await platform.account(name)
        found[name] = await platform.policy(account, name, subject=subject)
        await platform.join(world, found[name])
    return found


@asynccontextmanager
async def _league(
    tmp_path: Path, commissioner: str, *, parallel: int = 2, database: str | None = None, **terms: Any
) -> AsyncGenerator[tuple[Platform, World]]:
    """A platform with a league of three members and a commissioner."""
    async with open_platform(tmp_path, parallel=parallel, database=database) as platform:
        world = await seed(platform.services, (await platform.account("house")).id)
        await _three(platform, world)
        await _commission(platform.services, world, commissioner, **terms)
        yield platform, world


async def test_paint_arenas_commissioner_drives_a_league_with_a_promotion(tmp_path: Path) -> None:
    async with open_platform(tmp_path, packages=(PAINT,)) as platform:
        services = platform.services
        world = await seed(services, (await platform.account("house")).id, subject=ARENA)
        versions = await _three(platform, world, ARENA, FRONTIER, ARENA)
        async with services.database.writing() as session:
            (await session.get_one(League, world.league)).variant_id = "quick"
        await _commission(services, world, "two-divisions")
        first, second, third = await _until(services, "completed", "completed", "completed")
        async with services.database.writing() as session:
            await change_league(session, world.league, "pause")
        async with services.database.reading() as session:
            divisions = {
                row.name: row
                for row in await session.scalars(sa.select(Division).where(Division.archived_at.is_(None)))
            }
            levels = {name: row.level for name, row in divisions.items()}
            results = (await session.scalars(sa.select(RoundResult).where(RoundResult.round_id == first.id))).all()
            members = (await session.scalars(sa.select(Membership))).unique().all()
            games = Counter(await session.scalars(sa.select(EpisodeRequest.round_id)))
            told = (await session.scalars(sa.select(Event).where(Event.event_type == "membership_moved"))).all()
        assert levels == {"Challengers": 1, "Masters": 2}
        # Three met in both orders; then the two that were left
        assert (games[first.id], games[second.id]) == (6, 2)
        assert {row.division.name for row in (first, second)} == {"Challengers"}
        best = {row.policy_version_id for row in results if row.rank == 1}
        assert best == {versions["bob"]}, "the frontier painter is the better one"
        assert first.round_display == {"masters": 1}
        risen = next(row for row in members if row.policy_version_id == versions["bob"])
        assert (risen.division.name, risen.status, risen.reason) == (
            "Masters",
            "competing",
            "the best of the challengers",
        )
        assert any("bob:v1 moved from Challengers to Masters" in one.headline for one in told)
        # Its second round moved another one up: the state was kept, without which three would have been needed
        assert second.round_display == {"masters": 2}
        # The two masters met, and who lost is back, in the table below at once
        assert third.division.name == "Masters"
        async with services.database.reading() as session:
            lines = await standings(session, divisions["Challengers"].id)
        assert {line.name for line in lines} == {"ann", "cyd"}
        assert all(line.rating is not None for line in lines)
        shown = await _page(platform, f"/leagues/{world.league}")
        assert "The commissioner two-divisions decides" in shown
        shown = await _page(platform, f"/leagues/{world.league}/rounds/{first.id}")
        assert "masters: 1" in shown
        assert "bob:v1: Challengers → Masters: the best of the challengers" in shown


BROKEN = {
    "gone": "The commissioner exited with status 3.",
    "nonsense": "has an unknown type: &#39;applause&#39;",
    "late": "has an unknown type: &#39;applause&#39;",
    "stranger": "nobody competes as",
}


@pytest.mark.parametrize("vice", BROKEN)
async def test_a_round_of_a_broken_commissioner_fails_with_the_reason(tmp_path: Path, vice: str) -> None:
    async with _league(tmp_path, vice) as (platform, world):
        services = platform.services
        [failed] = await _until(services, "failed")
        trouble = await _trouble(services)
        assert trouble == failed.error
        for path in (f"/leagues/{world.league}", f"/leagues/{world.league}/rounds/{failed.id}"):
            assert BROKEN[vice] in await _page(platform, path)
        async with services.database.reading() as session:
            assert await session.scalar(sa.select(sa.func.count()).select_from(Tally)) == 0
            assert (await session.scalars(sa.select(RoundResult))).all() == []
            counts = set(await session.scalars(sa.select(EpisodeScore.division_id)))
            assert counts == ({None} if vice == "late" else set()), "what was played counts nowhere"
        if vice != "late":
            return
        # Another commissioner is a matter for a new season; with it, the league plays
        async with services.database.writing() as session:
            with pytest.raises(LeagueError, match="begun with another commissioner"):
                await change_league_settings(session, world.league, terms={"commissioner_runnable_id": "honest"})
        async with services.database.writing() as session:
            await change_league(session, world.league, "season")
        await _commission(services, world, "honest")
        await _until_any(services, "completed")
        assert (await _shown(services))["trouble"] is None


# --- hooks

HOOKED = [*HOOKS]


async def test_league_calls_its_configured_hooks(tmp_path: Path) -> None:
    async with _league(tmp_path, "hooked", hooks=HOOKED) as (platform, world):
        services = platform.services
        first, second = await _until(services, "completed", "completed")
        async with services.database.writing() as session:
            await change_league(session, world.league, "pause")
        async with services.database.reading() as session:
            games = Counter(await session.scalars(sa.select(EpisodeRequest.round_id)))
            members = (await session.scalars(sa.select(Membership).where(Membership.end_time.is_(None)))).unique().all()
            division = await session.get_one(Division, first.division_id)
            lines = await standings(session, division.id)
            of_first = sa.select(EpisodeRequest.seed).where(EpisodeRequest.round_id == first.id)
            drawn = (await session.scalars(of_first)).all()
        # The hook after the first episode had one more played
        assert (games[first.id], games[second.id]) == (7, 2)
        assert [(row.division_id, row.round_config["asked"]["stages"][0]["label"]) for row in (first, second)] == [
            (division.id, "Everybody meets"),
            (division.id, "Again"),
        ]
        assert "benched" in {row.substatus for row in members}
        assert "by the hook" in {row.reason for row in members}
        # The order and the points are the hook's; who has risen to the other division is not among them
        assert len(lines) == 1 or [line.subject_id for line in lines] == sorted(line.subject_id for line in lines)
        assert all(line.points is not None and line.points > 1000 for line in lines)
        assert division.commissioner_description == {
            "next_round": "At noon.",
            "leaderboard_rules": "By the letters of the id.",
        }
        shown = await _page(platform, f"/leagues/{world.league}")
        assert "Next round: At noon." in shown
        assert ">Points<" in shown
        async with platform.client() as anybody:
            table = (await anybody.get(f"{platform.url}/observatory/v2/divisions/{division.id}/leaderboards")).json()
            seeds = (await anybody.get(f"{platform.url}/observatory/v2/rounds/{first.id}")).json()["seeds"]
        # Each of its games is a block, also the one that the hook asked for, and its seed can be checked
        assert sorted(one["seed"] for one in seeds) == sorted(seed or 0 for seed in drawn)
        for one in seeds:
            assert verify_seed(one["seed"], **{key: one[key] for key in ("key", "commitment", "least", "most")})
        [view] = table["views"]
        assert "points" in [column["key"] for column in view["columns"]]
        assert [row["values"]["points"] for row in view["rows"]] == [line.points for line in lines]
        # Other hooks apply from the next round on: it is asked no more how its division is played
        async with services.database.writing() as session:
            await change_league_settings(session, world.league, terms={"hooks": ["rank_division"]})
            await change_league(session, world.league, "resume")
        before = len(await _rounds(services))
        await _until(services, *["completed"] * (before + 2))
        async with services.database.reading() as session:
            division = await session.get_one(Division, first.division_id)
            of_league = CommissionEvent.league_id == world.league
            texts = await session.scalars(sa.select(CommissionEvent.event).where(of_league).order_by("number"))
            decided = [json.loads(text) for text in texts if '"kind":"round_decided"' in text]
        assert "The commissioner decides." in (division.commissioner_description or {}).values()
        assert decided[0]["description"]
        assert decided[-1]["standings"]
        assert not decided[-1].get("description")


BROKEN_HOOKS = {
    "ranks-strangers": "It ranks unknown players: nobody.",
    "moves-strangers": "which does not exist.",
    "answers-another": "The commissioner said rank_division_response after describe_division_request.",
    "talks-on": "The commissioner sent more than 100 messages before it answered episode_completed_request.",
    "leaves": "The commissioner exited with status 3.",
}


@pytest.mark.parametrize("vice", BROKEN_HOOKS)
async def test_failing_hook_drops_the_whole_round(tmp_path: Path, vice: str) -> None:
    async with _league(tmp_path, vice, hooks=HOOKED) as (platform, world):
        services = platform.services
        [failed] = await _until(services, "failed")
        assert BROKEN_HOOKS[vice] in (failed.error or "")
        assert await _trouble(services) == failed.error
        for path in (f"/leagues/{world.league}", f"/leagues/{world.league}/rounds/{failed.id}"):
            assert BROKEN_HOOKS[vice] in await _page(platform, path)
        async with services.database.reading() as session:
            assert await session.scalar(sa.select(sa.func.count()).select_from(Tally)) == 0
            assert (await session.scalars(sa.select(RoundResult))).all() == []
            assert set(await session.scalars(sa.select(EpisodeScore.division_id))) == {None}, "it counts nowhere"
            assert await standings(session, failed.division_id) == []
            members = (await session.scalars(sa.select(Membership).where(Membership.end_time.is_(None)))).unique()
            assert {(row.division_id, row.substatus) for row in members} == {(failed.division_id, "champion")}
            division = await session.get_one(Division, failed.division_id)
            assert "next_round" not in (division.commissioner_description or {})
            events = (await session.scalars(sa.select(CommissionEvent.event))).all()
        assert not any('"kind":"round_decided"' in event for event in events)


async def test_commissioner_disconnect_is_noticed_while_episodes_wait(tmp_path: Path) -> None:
    # Nobody plays: no result is ever told to it
    async with _league(tmp_path, "deserter", parallel=0) as (platform, _):
        services = platform.services
        [failed] = await _until(services, "failed")
        assert failed.error == "The commissioner exited with status 3."
        async with services.database.reading() as session:
            of_round = EpisodeRequest.round_id == failed.id
            assert set(await session.scalars(sa.select(EpisodeRequest.status).where(of_round))) == {"cancelled"}


async def test_unattended_commissioner_league_is_reported(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        services = platform.services
        world = await seed(services, (await platform.account("house")).id)
        assert (await _shown(services))["unattended"] is None, "a pairing needs no backend"
        await _commission(services, world, "honest")
        assert "No server runs its commissioner" in (await _shown(services))["unattended"]
        assert "No server runs its commissioner" in await _page(platform, f"/leagues/{world.league}")
        # After a failure, a server may be about to try again; a day later, there is none
        async with services.database.writing() as session:
            session.add(Commission(league_id=world.league, trouble="It failed.", expires_at=now()))
        assert (await _shown(services))["unattended"] is None
        async with services.database.writing() as session:
            (await session.get_one(Commission, world.league)).expires_at = now() - dt.timedelta(days=1)
        assert "No server runs its commissioner" in (await _shown(services))["unattended"]
    async with open_platform(tmp_path, parallel=0) as platform:

        async def attended() -> bool:
            return (await _shown(platform.services))["unattended"] is None

        await until_committed(attended, seconds=100)
        assert "No server runs its commissioner" not in await _page(platform, f"/leagues/{world.league}")


async def test_unresponsive_commissioner_is_reported(tmp_path: Path) -> None:
    async with _league(tmp_path, "never") as (platform, world):
        services = platform.services
        assert (await _trouble(services)).startswith("The commissioner has not started:")
        assert "The commissioner has not started:" in await _page(platform, f"/leagues/{world.league}")
        assert await _rounds(services) == []


async def test_unreadable_log_stops_only_its_league(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(commissioner_service, "_RETREAT_SECONDS", 0.1)
    async with open_platform(tmp_path) as platform:
        services = platform.services
        world = await seed(services, (await platform.account("house")).id)
        await _three(platform, world)
        async with services.database.writing() as session:
            torn = CommissionEvent(league_id=world.league, season=1, number=1, event='{"kind":"round_decided"}')
            session.add(torn)
        await _commission(services, world, "honest")
        assert await _trouble(services) == "Internal server error (ValidationError). See the server's log."
        assert f"League {world.league} cannot be run: an unexpected ValidationError." in caplog.text
        # Looked after again, without a restart
        async with services.database.writing() as session:
            await session.delete(await session.merge(torn))
        await _until(services, "completed")


@pytest.mark.postgresql
async def test_commissioner_league_runs_on_postgresql(tmp_path: Path, empty_postgres: str) -> None:
    async with _league(tmp_path, "hooked", hooks=HOOKED, database=empty_postgres) as (platform, world):
        services = platform.services
        [first, _] = await _until(services, "completed", "completed")
        async with services.database.writing() as session:
            lines = await standings(session, first.division_id)
            assert all(line.points is not None and line.points > 1000 for line in lines)
            await change_league(session, world.league, "season")
        await _commission(services, world, "answers-another")
        failed = await _until_any(services, "failed")
        assert "rank_division_response after describe_division_request" in (failed[0].error or "")
        async with services.database.reading() as session:
            assert await session.scalar(sa.select(sa.func.count()).select_from(Tally)) == 0


async def test_round_over_its_time_limit_does_not_count(tmp_path: Path) -> None:
    # Nobody plays: the round waits for ever
    async with _league(tmp_path, "honest", lifetime_seconds=2, parallel=0) as (platform, _):
        services = platform.services
        [failed] = await _until(services, "failed")
        assert failed.error == "The round did not complete within 2 s."
        async with services.database.reading() as session:
            of_round = EpisodeRequest.round_id == failed.id
            assert set(await session.scalars(sa.select(EpisodeRequest.status).where(of_round))) == {"cancelled"}


async def test_undeclared_commissioner_is_not_run_locally(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    async with open_platform(tmp_path) as platform:
        services = platform.services
        eve = await platform.account("eve")
        own = {"id": "own", "name": "Own", "type": "commissioner", "description": "Eve's.", "image": "coworld-quick"}
        world = await seed(services, eve.id, commissioner=[{**own, "run": ["touch", str(marker)]}])
        await _three(platform, world)
        await _commission(services, world, "own")
        assert "is not declared by any package on this machine" in await _trouble(services)
        assert not marker.exists()
        assert await _rounds(services) == []


async def test_unknown_commissioner_is_refused(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        ann = await platform.account("ann")
        await seed(platform.services, ann.id)
        async with platform.services.database.writing() as session:
            with pytest.raises(UsageError, match="no commissioner 'gon' in its manifest") as refused:
                await create_league(session, "new", coworld="quick", terms={"commissioner_runnable_id": "gon"})
            assert "honest" in (refused.value.hint or "")
            with pytest.raises(LeagueError, match="Hooks are calls to a commissioner"):
                await create_league(session, "new", coworld="quick", terms={"hooks": ["rank_division"]})
            with pytest.raises(LeagueError, match="No commissioner is named"):
                await create_league(session, "new", coworld="quick", terms={"pairing": "commissioner"})


@pytest.mark.parametrize(("commissioner", "hooks"), [("honest", []), ("hooked", HOOKED)])
async def test_round_continues_after_the_server_is_killed(tmp_path: Path, commissioner: str, hooks: list[str]) -> None:
    settings = Settings(data=tmp_path / "observatory")
    await add_account(settings, "ann")
    where, log = ["--data", str(settings.data), "--json"], tmp_path / "log"
    plays = ["--backend", "process", "--package", str(QUICK.directory), "--parallel", "1", "--lease", "3"]
    async with open_services(settings) as services:
        async with services.database.reading() as session:
            owner = (await session.scalars(sa.select(User.id))).one()
        world = await seed(services, owner)
        for name in ("ann", "bob", "cyd", "dan"):
            if name != "ann":
                await add_account(settings, name)
            async with services.database.reading() as session:
                user = (await session.scalars(sa.select(User.id).where(User.name == name))).one()
            version = await add_policy(services, user, name)
            await add_member(services, world, version)
        await _commission(services, world, commissioner, hooks=hooks)
        games = 13 if hooks else 12

        async def completed() -> int:
            async with services.database.reading() as session:
                done = sa.select(sa.func.count()).where(EpisodeRequest.status == "completed")
                return await session.scalar(done) or 0

        for least in (3, 7):
            async with run_server(["serve", "--port", "0", *where, *plays], log=log) as (server, _):

                async def enough(wanted: int = least) -> bool:
                    return await completed() >= wanted

                await until(enough, seconds=100, what=f"{least} episodes", every=0.05)
                server.kill()
                await server.wait()
            assert await completed() < 12
        async with run_server(["serve", "--port", "0", *where, *plays], log=log):
            [first] = await until(lambda: _first(services, "completed"), seconds=200, what="the end of the round")
            async with services.database.writing() as session:
                await change_league(session, world.league, "pause")
        async with services.database.reading() as session:
            of_round = sa.select(EpisodeRequest.id).where(EpisodeRequest.round_id == first.id)
            # Four, each with each other in both orders; and one that a hook asks for
            assert len((await session.scalars(of_round)).all()) == games
            scores = sa.select(sa.func.count()).where(EpisodeScore.episode_request_id.in_(of_round))
            assert await session.scalar(scores) == 2 * games
            of_league = CommissionEvent.league_id == world.league
            kinds = [
                row.partition('"kind":"')[2].partition('"')[0]
                for row in await session.scalars(sa.select(CommissionEvent.event).where(of_league).order_by("number"))
            ]
            seats = await session.scalar(sa.select(sa.func.count()).where(EpisodeScore.division_id.is_not(None)))
            assert await session.scalar(sa.select(sa.func.sum(Tally.episodes))) == seats
        # The round was scheduled once, whoever was spoken to about it
        scheduled = ["round_scheduled"] * (2 if hooks else 1)
        assert kinds[: 4 + len(scheduled)] == ["league_set", "league_set", "rounds_due", *scheduled, "round_decided"]
