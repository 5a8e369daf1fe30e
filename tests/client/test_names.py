"""Names where ids go: every method of every noun, against a real platform."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from support.flaky_transport import FlakyTransport
from support.observatory_kit import Account, Platform, open_platform, roster, seed

from coworld_client import CoworldClient, NotFound
from coworld_client.resources._base import Resource
from coworld_client.uploads import Uncertified
from coworld_core.api import is_id
from coworld_core.errors import CoworldError, UsageError
from observatory.store.columns import new_id
from observatory.store.models import Division, Game, League

Call = Callable[[CoworldClient, Mapping[str, str]], Awaitable[Any]]

TABLE: Mapping[str, Call] = {
    "leagues.list(game)": lambda api, x: api.leagues.list(game=x["game"]),
    "leagues.get(league_id)": lambda api, x: api.leagues.get(x["league"]),
    "leagues.id_of(league)": lambda api, x: api.leagues.id_of(x["league"]),
    "leagues.only_division(league)": lambda api, x: api.leagues.only_division(x["league"]),
    "leagues.officers(league)": lambda api, x: api.leagues.officers(x["league"]),
    "leagues.appoint(league)": lambda api, x: api.leagues.appoint(x["league"], "ben", "none"),
    "leagues.seasons(league_id)": lambda api, x: api.leagues.seasons(x["league"]),
    "leagues.season(league_id)": lambda api, x: api.leagues.season(x["league"]),
    "leagues.ladder(league_id)": lambda api, x: api.leagues.ladder(x["league"]),
    "leagues.guide(league_id)": lambda api, x: api.leagues.guide(x["league"]),
    "divisions.list(league)": lambda api, x: api.divisions.list(league=x["league"]),
    "divisions.get(division_id)": lambda api, x: api.divisions.get(x["division"]),
    "divisions.leaderboard(division_id)": lambda api, x: api.divisions.leaderboard(x["division"]),
    "divisions.leaderboards(division_id)": lambda api, x: api.divisions.leaderboards(x["division"]),
    "rounds.list(league)": lambda api, x: api.rounds.list(league=x["league"]),
    "rounds.list(division)": lambda api, x: api.rounds.list(division=x["division"]),
    "events.list(league)": lambda api, x: api.events.list(league=x["league"]),
    "events.list(division)": lambda api, x: api.events.list(league=x["league"], division=x["division"]),
    "events.list(player)": lambda api, x: api.events.list(player=x["player"]),
    "events.list(policy)": lambda api, x: api.events.list(policy=x["policy"]),
    "memberships.list(league)": lambda api, x: api.memberships.list(league=x["league"]),
    "memberships.list(division)": lambda api, x: api.memberships.list(division=x["division"]),
    "memberships.list(policy)": lambda api, x: api.memberships.list(policy=x["policy"]),
    "memberships.list(player)": lambda api, x: api.memberships.list(player=x["player"]),
    "memberships.id_of(membership)": lambda api, x: api.memberships.id_of(x["membership"]),
    "memberships.id_of(league)": lambda api, x: api.memberships.id_of("walker", league=x["league"]),
    "memberships.nominate(membership)": lambda api, x: api.memberships.nominate(x["membership"]),
    "memberships.nominate(league)": lambda api, x: api.memberships.nominate("walker", league=x["league"]),
    "submissions.list(league)": lambda api, x: api.submissions.list(league=x["league"]),
    "submissions.list(policy)": lambda api, x: api.submissions.list(policy=x["policy"]),
    "submissions.list(player)": lambda api, x: api.submissions.list(player=x["player"]),
    "submissions.create(league_id)": lambda api, x: api.submissions.create(x["league"], "walker"),
    "submissions.create(policy)": lambda api, x: api.submissions.create(x["league"], x["policy"]),
    "submissions.create(player)": lambda api, x: api.submissions.create(x["league"], "walker", player=x["player"]),
    "episodes.list(league)": lambda api, x: api.episodes.list(league=x["league"]),
    "episodes.list(division)": lambda api, x: api.episodes.list(division=x["division"]),
    "episodes.list(player)": lambda api, x: api.episodes.list(player=x["player"]),
    "episodes.list(coworld)": lambda api, x: api.episodes.list(coworld=x["coworld"]),
    "episodes.list(policy)": lambda api, x: api.episodes.list(policy=x["policy"]),
    "episodes.annotations(policy)": lambda api, x: api.episodes.annotations(x["episode"], x["policy"]),
    "coworlds.get(coworld_id)": lambda api, x: api.coworlds.get(x["coworld"]),
    "coworlds.find(name_or_id)": lambda api, x: api.coworlds.find(x["coworld"]),
    "coworlds.certification(coworld_id)": lambda api, x: api.coworlds.certification(x["coworld"]),
    "coworlds.status(coworld_id)": lambda api, x: api.coworlds.status(x["coworld"]),
    "coworlds.wait_for_smoke(coworld_id)": lambda api, x: api.coworlds.wait_for_smoke(x["coworld"], wait_timeout=0),
    "coworlds.download(name_or_id)": lambda api, x: api.coworlds.download(x["coworld"], Path(x["directory"])),
    "hosted.create(coworld_id)": lambda api, x: api.hosted.create(x["coworld"]),
    "lobbies.create(league_id)": lambda api, x: api.lobbies.create(x["league"], idempotency_key="one"),
    "policies.version_id(policy)": lambda api, x: api.policies.version_id(x["policy"]),
    "players.id_of(player)": lambda api, x: api.players.id_of(x["player"]),
    "players.login(player_id)": lambda api, x: api.players.login(x["player"]),
    "teams.invite(team)": lambda api, x: api.teams.invite(x["team"]),
    "teams.leave(team)": lambda api, x: api.teams.leave(x["team"], "ben"),
    "labels.change(thing)": lambda api, x: api.labels.change(x["policy"], {"kind": "walk"}),
    "experience.create(body)": lambda api, x: api.experience.create(body(coworld_id=x["coworld"]), idempotency_key="b"),
    "experience.create_each(body)": lambda api, x: api.experience.create_each(body(target={"league_id": x["league"]})),
    "memberships.retire(membership)": lambda api, x: api.memberships.retire(x["membership"], reason="enough"),
    "memberships.retire(league)": lambda api, x: api.memberships.retire(x["other"], league=x["league"]),
    "coworlds.update(name_or_id)": lambda api, x: api.coworlds.update(
        x["coworld"], certification=Uncertified(reason="test"), version="2.0.0"
    ),
}
"""Each parameter that takes a name and an id."""

NAMELESS = frozenset(
    {
        # What has no name: episodes, requests, rounds, lobbies, sessions, runs
        *("episode", "episode_id", "ids", "round", "round_id", "request_id", "lobby_id", "session_id", "run_id", "run"),
        # What one reads from a list
        *("image_id", "reporter_id", "token_id", "webhook", "runnable_id"),
    }
)
NAMES_ALONE = frozenset(
    {
        # Secrets belong to all versions of a Coworld; a lookup and files are of a policy's name
        *("secrets.put(coworld)", "secrets.list(coworld)", "secrets.delete(coworld)"),
        *("policies.lookup(policy)", "policies.download(policy)"),
        # A seat may be another person's, or that of an account without a player
        "lobbies.seat(player)",
        # Accounts are found by the server
        *("leagues.appoint(user)", "teams.leave(member)"),
        # Files, not who owns them
        *("policies.upload(player)", "registry.publish(player)"),
    }
)
_NOUNS = ("league", "division", "player", "coworld", "policy", "game", "team", "member", "membership", "user", "thing")


def body(**where: Any) -> dict[str, Any]:
    return {**where, "roster": roster("walker", "walker"), "num_episodes": 1}


def test_every_parameter_that_names_something_is_in_the_table() -> None:
    found: set[str] = set()
    for kind in Resource.__subclasses__():
        noun = next(name for name, held in vars(CoworldClient).items() if _gives(held, kind))
        for method, function in inspect.getmembers(kind, inspect.isfunction):
            for name in () if method.startswith("_") else inspect.signature(function).parameters:
                if (name.removesuffix("_id") in _NOUNS or name.endswith("_id")) and name not in NAMELESS:
                    found.add(f"{noun}.{method}({name})")
    assert found - NAMES_ALONE <= TABLE.keys()


def _gives(held: object, kind: type) -> bool:
    function = getattr(held, "func", None)
    return function is not None and function.__annotations__.get("return") == kind.__name__


async def asked(platform: Platform, account: Account, call: Call, words: Mapping[str, str]) -> tuple[set[str], str]:
    """The requests of a call, and why it was refused, if it was."""
    transport, refused = FlakyTransport(), ""
    async with CoworldClient(platform.url, token=account.token, transport=transport) as api:
        try:
            await call(api, words)
        except CoworldError as error:
            refused = error.message
    return {f"{ask.method} {ask.url} {ask.body!r}" for ask in transport.asked}, refused


@pytest.mark.slow
async def test_a_name_does_what_the_id_does_and_an_id_asks_for_nothing_more(tmp_path: Path) -> None:
    async with open_platform(tmp_path / "platform", backend="none") as platform:
        ann, ben = await platform.account("ann"), await platform.account("ben")
        world = await seed(platform.services, ann.id)
        versions = {name: await platform.policy(ann, name) for name in ("walker", "strider")}
        for version in versions.values():
            await platform.join(world, version)
        async with CoworldClient(platform.url, token=ann.token) as api:
            player, team = await api.players.create("Second Self"), await api.teams.create("Pair")
            game = (await api.games.list())[0]
            code = (await api.teams.invite(team.id)).link
            async with CoworldClient(platform.url, token=ben.token) as friend:
                await friend.teams.join(code)
            membership = (await api.memberships.list(policy="walker"))[0].id
            other = (await api.memberships.list(policy="strider"))[0].id
        same = {"episode": f"ereq_{team.id.partition('_')[2]}", "directory": str(tmp_path)}
        ids = {
            "league": world.league,
            "division": world.division,
            "coworld": world.id,
            "game": game.id,
            "player": player.id,
            "policy": versions["walker"],
            "team": team.id,
            "user": ben.id,
            "membership": membership,
            "other": other,
        }
        names = {
            "league": f"{world.name.title()} League".lower(),
            "division": "main",
            "coworld": world.name,
            "game": game.name,
            "player": "second self",
            "policy": "walker:v1",
            "team": "Pair",
            "user": "ben",
            "membership": "walker",
            "other": "strider",
        }
        faults: list[str] = []
        for row, call in TABLE.items():
            by_name, refused = await asked(platform, ann, call, {**names, **same})
            by_id, refused_by_id = await asked(platform, ann, call, {**ids, **same})
            # What one may not do, or not here, is refused by the server in the same words
            if refused not in ("", refused_by_id):
                faults.append(f"{row}: {refused}")
            if not by_id <= by_name and not row.startswith(("teams.", "coworlds.")) and "(policy)" not in row:
                faults.append(f"{row}: {sorted(by_id - by_name)}, not {sorted(by_name)}")
        assert not faults, "\n".join(faults)


async def test_names_that_are_not_there_or_not_enough_say_which_there_are(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id)
        await platform.policy(ann, "walker")
        async with platform.services.database.writing() as session:
            game = await session.scalar(sa.select(Game.id))
            league = League(id=new_id("league"), name="Winter Cup", slug="winter-cup", game_id=game)
            session.add(league)
            await session.flush()
            twin = Division(id=new_id("div"), name="Main", level=1, league_id=league.id)
            session.add(twin)
        async with CoworldClient(platform.url, token=ann.token) as api:
            await api.players.create("Second Self")
            for call, said, hint in (
                (api.leagues.get("winter cop"), "no league 'winter cop'", "Did you mean 'Winter Cup'?"),
                (api.divisions.get("Mian"), "no division 'Mian'", "Main"),
                (api.coworlds.get("chess"), "no Coworld 'chess'", f"There is {world.name}."),
                (api.players.login("Third"), "You have no player 'Third'", "There is Second Self."),
                (api.policies.lookup("wolker"), "You have no policy 'wolker'", "Did you mean 'walker'?"),
                (api.policies.lookup("walker:v7"), "You have no policy 'walker:v7'", "Did you mean 'walker:v1'?"),
            ):
                with pytest.raises(NotFound) as absent:
                    await call
                assert said in absent.value.message
                assert hint in str(absent.value.hint)
            with pytest.raises(UsageError) as several:
                await api.divisions.get("Main")
            assert several.value.code == "ambiguous"
            assert f"{twin.id} (Winter Cup/Main)" in str(several.value.hint)
            assert world.division in str(several.value.hint)
            assert (await api.divisions.get("Winter Cup/Main")).id == twin.id
            assert [row.id for row in await api.divisions.list(league="winter-cup")] == [twin.id]
            assert await api.rounds.list(league="Winter Cup", division="Main") == []


@pytest.mark.parametrize("name", ["round_robin", "game_2048", "role_play", "user_study"])
def test_names_that_begin_as_ids_do_are_names(name: str) -> None:
    assert not is_id(name, "coworld")
    assert is_id(f"cow_{name}", "coworld")
