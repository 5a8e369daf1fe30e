"""A tournament that is stored between two rounds goes on as if it had been replayed whole."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from support.simulated import episode_row, tournament_rules

from coworld_core.episode.record import EpisodeRow, SlotRow
from coworld_core.evaluation.designs import episode_key
from coworld_core.tournament import Field, PairingRule, Tournament, TournamentMatch
from coworld_core.tournament.elimination import single_elimination
from coworld_core.tournament.pairings import free_play, ladder, round_robin, swiss
from coworld_core.tournament.standings import TournamentState
from coworld_core.tournament.tournament_log import (
    EntrantAdded,
    EntrantWithdrawn,
    EpisodeEnded,
    LogEvent,
    TournamentRules,
)


def rules_of(seats: int, rating: Any = "bradley-terry") -> TournamentRules:
    return tournament_rules(slot_count=seats, pairing="tried", rounds=10**6, max_blocks=10**6, rating=rating)


class Uneven:
    """Chance decides what comes of an episode, faults included; the same for the same numbers."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def row(self, key: str, seats: int) -> EpisodeRow:
        row = episode_row(key, *[float(self._chance.randrange(-3, 4)) + 1 / 3 for _ in range(seats)])
        match self._chance.randrange(12):
            case 0:
                failed = {"error_type": "player_error", "party": "player", "fault_slot": self._chance.randrange(seats)}
            case 1:
                failed = {"error_type": "game_unhealthy", "party": "game"}
            case 2:
                failed = {"error_type": "crash", "party": "platform"}
            case _:
                return row.model_copy(update={"slots": tuple(SlotRow(name="x", digest="d") for _ in range(seats))})
        return row.model_copy(update={"status": "failed", "ok": False, "scores": (), "message": "It broke.", **failed})


def play(tournament: Tournament, rows: Uneven) -> list[LogEvent]:
    """Play the next round to its end; return all that happened."""
    events = tournament.next_events()
    for event in events:
        tournament.apply(event)
    while tournament.unplayed:
        block = tournament.history.over + 1
        for key, lineup in tournament.ledger.missing(block):
            events.append(EpisodeEnded(row=rows.row(key, len(lineup))))
            tournament.apply(events[-1])
    return events


def entered(names: Sequence[str]) -> list[LogEvent]:
    return [EntrantAdded(name=name, player=SlotRow(name=name, image=name)) for name in names]


def shown(tournament: Tournament) -> dict[str, Any]:
    """Its report; of the matches, only how many there were."""
    report = tournament.report()
    count = report.matches_before + len(report.matches)
    return report.model_copy(update={"matches": (), "matches_before": count}).model_dump()


@pytest.mark.parametrize(
    ("pairing", "seats", "rating"),
    [
        (round_robin, 2, "bradley-terry"),
        (free_play, 2, "openskill"),
        (free_play, 4, "openskill"),
        (swiss, 2, "mean"),
        (ladder, 2, "mean"),
        pytest.param(free_play, 4, "bradley-terry", marks=pytest.mark.slow),
        pytest.param(ladder, 2, "bradley-terry", marks=pytest.mark.slow),
    ],
)
def test_resumed_and_replayed_tournaments_agree(pairing: PairingRule, seats: int, rating: Any) -> None:
    """Stored after every round, and read again as JSON: reports, pairs, and the rounds that come next."""
    rules = rules_of(seats, rating)
    whole, stored = Tournament(rules, pairing), Tournament(rules, pairing)
    rows = Uneven(seats)
    comings: dict[int, list[LogEvent]] = {
        0: entered("ABCDE"),
        4: [EntrantWithdrawn(name="B"), *entered("F")],
        7: [*entered("B"), EntrantWithdrawn(name="A")],
    }
    for number in range(12):
        for event in comings.get(number, []):
            whole.apply(event)
            stored.apply(event)
        for event in play(whole, rows):
            stored.apply(event)
        state = stored.state()
        assert state is not None
        assert len(stored.field().played) == 1, "the rounds before are no longer there"
        read = TournamentState.model_validate_json(state.model_dump_json())
        stored = Tournament.resumed(rules, pairing, read)
        assert shown(stored) == shown(whole)
        assert [event.model_dump(exclude={"time"}) for event in stored.next_events()] == [
            event.model_dump(exclude={"time"}) for event in whole.next_events()
        ]
    counted = {fate for fate, count in whole.totals.fates.items() if count}
    assert {"counted", "void"} <= counted, "faults took part in it"


def test_stored_state_has_constant_size() -> None:
    rules = rules_of(2)
    tournament = Tournament(rules, round_robin)
    for event in entered("ABC"):
        tournament.apply(event)
    rows, sizes = Uneven(1), list[int]()
    for _ in range(300):
        play(tournament, rows)
        state = tournament.state()
        assert state is not None
        tournament = Tournament.resumed(rules, round_robin, state)
        sizes.append(len(state.model_dump_json()))
    # Up to 256 numbers of each sample are kept before they are added up
    assert max(sizes[150:]) <= max(sizes[:150]) * 1.1


class LooksBack:
    """A pairing of somebody else, which goes over all rounds."""

    def next_round(self, field: Field) -> Sequence[TournamentMatch]:
        return round_robin.next_round(field)

    def places(self, field: Field) -> Sequence[str]:
        return [match.players[0] for matches in field.played for match in matches]


@pytest.mark.parametrize("pairing", [single_elimination, LooksBack()])
def test_pairing_that_needs_history_is_not_stored(pairing: PairingRule) -> None:
    tournament = Tournament(rules_of(2), pairing)
    for event in entered("ABCD"):
        tournament.apply(event)
    play(tournament, Uneven(1))
    assert tournament.state() is None


def test_a_round_that_is_played_is_not_stored() -> None:
    tournament = Tournament(rules_of(2), round_robin)
    for event in entered("AB"):
        tournament.apply(event)
    assert tournament.state() is not None
    for event in tournament.next_events():
        tournament.apply(event)
    assert tournament.state() is None
    tournament.apply(EpisodeEnded(row=episode_row(episode_key(1, 1, 1), 1, 2)))
    assert tournament.state() is None
    tournament.apply(EpisodeEnded(row=episode_row(episode_key(1, 1, 2), 1, 2)))
    assert tournament.state() is not None


def test_a_state_fits_the_rules_that_it_was_made_by() -> None:
    tournament = Tournament(rules_of(2), round_robin)
    state = tournament.state()
    assert state is not None
    assert state.fits(rules_of(2).model_copy(update={"rounds": 3, "version": "2"}))
    for change in ({"pairing": "swiss"}, {"slot_count": 3}, {"rating": "mean"}):
        assert not state.fits(rules_of(2).model_copy(update=change))
