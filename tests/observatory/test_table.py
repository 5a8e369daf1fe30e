"""How a division stands: from all rounds of a season, or from what was stored when the last one was closed."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import sqlalchemy as sa
from support.league_play import contestants, league_of, play, play_rounds, strengths_of
from support.observatory_kit import open_platform, seed

from coworld_core.tournament.seasons import PlayedEpisode, PlayedRound
from coworld_core.tournament.tournament_log import TournamentRules
from coworld_runner.evaluation.tournament.pairing_plugins import find_pairing
from observatory.store.models import Coworld, EpisodeRequest, Round
from observatory.work.game_setup import GameSetup
from observatory.work.league_settings import LeagueSettings
from observatory.work.rounds import advance
from observatory.work.season_standings import (
    SeasonStandings,
    compute_standings,
    played_round,
    season_rules,
    stored_state,
)


def rules_of(pairing: str, seats: int = 2, blocks: int = 1) -> TournamentRules:
    terms = LeagueSettings(pairing=pairing, blocks=blocks)
    coworld = Coworld(name="game", version="1")
    setup = GameSetup(coworld=coworld, manifest=cast("Any", None), variant="default", config={}, seats=seats)
    return season_rules(terms, setup)


def played(table: SeasonStandings, chance: random.Random, rules: TournamentRules) -> PlayedRound | None:
    """The round that a table wants; some episodes fail."""
    assert table.config is not None
    episodes: list[PlayedEpisode] = []
    for index, (_, lineup) in enumerate(table.lineups):
        common: dict[str, Any] = {"id": f"ereq_{index}", "index": index}
        match chance.randrange(8):
            case 0:
                episodes.append(PlayedEpisode(status="failed", error_type="crash", error="gone", **common))
            case 1:
                slot = chance.randrange(len(lineup))
                episodes.append(PlayedEpisode(status="failed", error_type="player_error", failed_slot=slot, **common))
            case 2:
                episodes.append(PlayedEpisode(status="cancelled", **common))
            case _:
                scores = tuple(float(chance.randrange(5)) for _ in lineup)
                episodes.append(PlayedEpisode(status="completed", scores=scores, **common))
    # As the database has it
    return played_round(json.loads(json.dumps(table.config)), episodes, rules)


@pytest.mark.parametrize(("pairing", "seats"), [("free-play", 2), ("free-play", 4), ("swiss", 2), ("ladder", 2)])
def test_resumed_and_replayed_standings_are_equal(pairing: str, seats: int) -> None:
    rules, rule, chance = rules_of(pairing, seats, blocks=2), find_pairing(pairing), random.Random(seats)
    coming: Sequence[Sequence[str]] = ["ABCDE", "ABCDE", "ABCDEF", "BCDEF", "BCDEF", "FBAC", "FBAC", "BCDEFGH"]
    rounds: list[PlayedRound] = []
    before = compute_standings([], coming[0], rules=rules, pairing=rule)
    for entrants in coming:
        one = played(before, chance, rules)
        assert one is not None
        rounds.append(one)
        whole = compute_standings(rounds, entrants, rules=rules, pairing=rule)
        state = stored_state(json.loads(json.dumps(before.state)), rules)
        assert state is not None
        stored = compute_standings(rounds[-1:], entrants, rules=rules, pairing=rule, state=state)
        assert (stored.report, stored.config, stored.lineups) == (whole.report, whole.config, whole.lineups)
        # Who looks after a pause has no round to add
        again = compute_standings([], entrants, rules=rules, pairing=rule, state=stored_state(stored.state, rules))
        assert (again.report, again.config) == (whole.report, whole.config)
        before = stored
    assert before.report["standings"]


def test_state_of_other_rules_is_not_resumed() -> None:
    state = compute_standings([], "AB", rules=rules_of("ladder"), pairing=find_pairing("ladder")).state
    assert state is not None
    assert stored_state(state, rules_of("ladder")) is not None
    assert stored_state(state, rules_of("swiss")) is None
    assert stored_state(state, rules_of("ladder", seats=4)) is None
    assert stored_state({**state, "history": "lost"}, rules_of("ladder")) is None
    assert stored_state(None, rules_of("ladder")) is None


def test_rounds_with_another_seat_count_are_ignored() -> None:
    first = compute_standings([], "ABCD", rules=rules_of("free-play"), pairing=find_pairing("free-play"))
    assert played(first, random.Random(0), rules_of("free-play")) is not None
    assert played(first, random.Random(0), rules_of("free-play", seats=4)) is None
    # And so are those that older versions stored without their blocks
    assert played_round({"variant_id": "default"}, (), rules_of("free-play")) is None


async def test_closed_round_is_not_read_again(tmp_path: Path) -> None:
    """Each closing adds its own round to what was stored, and a season without that is replayed."""
    async with open_platform(tmp_path, backend="none") as platform:
        database = platform.services.database
        world = await seed(platform.services, (await platform.account("owner")).id)
        versions = await contestants(platform, world, 2)
        await league_of(platform, world, pairing="round-robin")

        async def standings(round_number: int) -> list[dict[str, Any]]:
            async with database.reading() as session:
                report = await session.scalar(sa.select(Round.report).where(Round.round_number == round_number))
                assert report is not None
                return report["standings"]

        async def stored() -> list[int]:
            async with database.reading() as session:
                numbers = sa.select(Round.round_number).where(Round.state.is_not(None))
                return [*(await session.scalars(numbers)).all()]

        await play_rounds(platform, world.division, strengths_of(versions), 3)
        assert await stored() == [2]
        async with database.writing() as session:
            await session.execute(sa.update(EpisodeRequest).values(status="cancelled"))
        # The episodes of the third round are lost, and those before are not looked at
        assert await advance(database, world.division) is not None
        assert await stored() == [3]
        assert [(line["won"], line["played"], line["rounds"]) for line in await standings(3)] == [(2, 2, 3), (0, 2, 3)]
        await play(platform, strengths_of(versions))
        async with database.writing() as session:
            await session.execute(sa.update(Round).values(state=None))
        assert await advance(database, world.division) is not None
        assert [(line["won"], line["played"], line["rounds"]) for line in await standings(4)] == [(1, 1, 4), (0, 1, 4)]
