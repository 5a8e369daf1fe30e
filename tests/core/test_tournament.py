"""Tournaments as pure functions: pairings over simulated results, the log, and what follows from it."""

from __future__ import annotations

import dataclasses
import gc
import itertools
import os
import random
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.simulated import episode_row, tournament_rules

from coworld_core.episode.record import SlotRow
from coworld_core.errors import UsageError
from coworld_core.evaluation.designs import Lineup, episode_key
from coworld_core.tournament import (
    Field,
    PairingRule,
    PlayedMatch,
    Tournament,
    TournamentMatch,
    TournamentReport,
    continue_season,
    read_log,
    standings,
)
from coworld_core.tournament.elimination import double_elimination, single_elimination
from coworld_core.tournament.pairings import free_play, ladder, round_robin, swiss
from coworld_core.tournament.tournament_log import (
    Configured,
    EntrantAdded,
    EntrantWithdrawn,
    EpisodeEnded,
    LogEvent,
    RoundDropped,
    RoundScheduled,
    ScheduledBlock,
    encode_event,
)


def strongest_first(
    pairing: PairingRule, count: int, *, seats: int = 2, upset: float = 0.0, **more: Any
) -> tuple[Field, list[PlayedMatch]]:
    """Play a tournament in which a higher number is stronger; a draw of chance lets the weaker one win."""
    chance = random.Random(count)
    names = tuple(f"p{number:02d}" for number in range(count))
    field = Field(entrants=names, everybody=names, seats=seats, seed=1, **more)
    for _ in range(100):
        matches = pairing.next_round(field)
        if not matches:
            break
        seated = [name for match in matches for name in match.players]
        assert pairing is round_robin or len(seated) == len(set(seated)), "twice in one round"
        played = tuple(
            PlayedMatch(
                players=match.players,
                name=match.name,
                scores={}
                if len(match.players) == 1
                else {name: int(name[1:]) * (-1.0 if chance.random() < upset else 1.0) for name in match.players},
            )
            for match in matches
        )
        field = dataclasses.replace(field, played=(*field.played, played))
    else:
        pytest.fail("it never ends")
    return field, [match for of in field.played for match in of]


def test_a_round_robin_has_every_group_meet_once_a_round() -> None:
    field, matches = strongest_first(round_robin, 5, seats=3, rounds=2)
    assert len(field.played) == 2
    met = Counter(frozenset(match.players) for match in matches)
    names = field.entrants
    assert met == dict.fromkeys(map(frozenset, itertools.combinations(names, 3)), 2)
    # Fewer players than seats, and a game for one: everybody at one table
    for seats in (4, 1):
        assert [match.players for match in strongest_first(round_robin, 3, seats=seats)[1]] == [("p00", "p01", "p02")]


_SEASON = """
from support.simulated import tournament_rules
from coworld_core.tournament import PlayedEpisode, PlayedRound, continue_season
from coworld_core.tournament.pairings import free_play

names, rounds = [f"p{number}" for number in range(12)], []
for _ in range(4):
    rules = tournament_rules(pairing="free-play", rounds=9)
    season, state, scheduled = continue_season(rounds, names, rules=rules, pairing=free_play)
    played = [
        PlayedEpisode(id=str(at), index=at, status="completed", scores=(at % 3, at % 2))
        for at in range(sum(len(season.lineups(block.block)) for block in scheduled.blocks))
    ]
    rounds.append(PlayedRound(entrants=names, blocks=scheduled.blocks, byes=scheduled.byes, episodes=played))
print(state.model_dump_json())
"""


def test_stored_states_do_not_depend_on_the_order_of_sets() -> None:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    states = [
        subprocess.run(
            [sys.executable, "-c", _SEASON], env={**env, "PYTHONHASHSEED": str(number)}, capture_output=True, check=True
        ).stdout
        for number in (1, 2)
    ]
    assert len(states[0]) > 1000
    assert states[0] == states[1]


def test_free_play_seats_players_equally_often() -> None:
    _, matches = strongest_first(free_play, 7, seats=3, rounds=7)
    met = Counter(name for match in matches for name in match.players)
    assert set(met.values()) == {6}


@pytest.mark.parametrize("count", [2, 5, 8, 13])
def test_swiss_has_no_rematches_and_finds_the_first(count: int) -> None:
    field, matches = strongest_first(swiss, count)
    pairs = [frozenset(match.players) for match in matches]
    assert len(pairs) == len(set(pairs))
    assert swiss.places(field)[0] == f"p{count - 1:02d}"
    byes = Counter(match.players[0] for match in matches if len(match.players) == 1)
    assert max(byes.values(), default=0) <= 1
    assert sum(byes.values()) == (len(field.played) if count % 2 else 0)


def test_a_swiss_round_has_no_most_players() -> None:
    names = tuple(f"p{number:05d}" for number in range(5000))
    field = Field(entrants=names, everybody=names, seats=2, seed=1, rounds=2)
    first = swiss.next_round(field)
    second = swiss.next_round(field.after(first))
    met = [{frozenset(match.players) for match in matches} for matches in (first, second)]
    assert [len(pairs) for pairs in met] == [2500, 2500]
    assert met[0].isdisjoint(met[1])


def test_a_ladder_sorts_neighbours() -> None:
    field, _ = strongest_first(ladder, 6)
    assert list(ladder.places(field)) == sorted(field.entrants, reverse=True)


@pytest.mark.parametrize("count", [2, 3, 5, 8, 11])
def test_brackets_end_with_everybody_out_but_one(count: int) -> None:
    field, matches = strongest_first(single_elimination, count)
    real = [match for match in matches if len(match.players) > 1]
    assert len(real) == count - 1
    assert single_elimination.places(field)[0] == f"p{count - 1:02d}"
    for upset in (0.0, 0.4):
        field, matches = strongest_first(double_elimination, count, upset=upset)
        lost = Counter(
            min(match.players, key=lambda name: match.scores[name]) for match in matches if len(match.players) > 1
        )
        first, *others = double_elimination.places(field)
        assert lost[first] < 2
        assert all(lost[name] == 2 for name in others)


def test_the_best_seeds_have_the_byes_and_meet_last() -> None:
    names = tuple("ABCDE")
    field = Field(entrants=names, everybody=names, seats=2, seed=0)
    matches = single_elimination.next_round(field)
    # The second and the third have a bye each, so they can meet already
    assert {match.players for match in matches} == {("D", "E"), ("B", "C"), ("A",)}


def test_drawn_match_is_repeated_then_decided_by_seed() -> None:
    field = Field(entrants=("A", "B"), everybody=("A", "B"), seats=2, seed=0)
    for _ in range(3):
        (match,) = single_elimination.next_round(field)
        draw = PlayedMatch(players=match.players, name=match.name, scores={"A": 1.0, "B": 1.0})
        field = dataclasses.replace(field, played=(*field.played, (draw,)))
    assert not single_elimination.next_round(field)
    assert list(single_elimination.places(field)) == ["A", "B"]


OWNERS = {"p00": "ann", "p01": "ann", "p02": "ann", "p03": "bob", "p04": "bob", "p05": "cat"}


@pytest.mark.parametrize(
    ("pairing", "seats"),
    [
        (round_robin, 2),
        (free_play, 2),
        (free_play, 3),
        (swiss, 2),
        (ladder, 2),
        (single_elimination, 2),
        (double_elimination, 2),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else type(value).__name__,
)
def test_players_of_one_owner_do_not_meet(pairing: PairingRule, seats: int) -> None:
    _, matches = strongest_first(pairing, 8, seats=seats, owners=OWNERS)
    met = [match.players for match in matches if len(match.players) > 1]
    assert [players for players in met if len({OWNERS.get(name, name) for name in players}) < len(players)] == []
    # They all play, and not less because they have an owner in common
    assert {name for match in matches for name in match.players} == {f"p{number:02d}" for number in range(8)}
    if pairing is free_play:
        assert len(met) == 10 * (8 // seats)
    # Nobody is left to play against: it is over
    _, none = strongest_first(pairing, 3, seats=seats, owners=OWNERS)
    assert [match for match in none if len(match.players) > 1] == []


def test_a_match_of_one_owner_is_not_scheduled_whoever_pairs() -> None:
    class Blind(type(round_robin)):
        def next_round(self, field: Field) -> list[TournamentMatch]:
            pairs = itertools.combinations(field.entrants, 2)
            return [TournamentMatch(players=pair) for pair in pairs]

    names = ("p00", "p01", "p03")
    *_, scheduled = continue_season((), names, rules=RULES, pairing=Blind(), owners=OWNERS)
    assert scheduled is not None
    assert [block.players for block in scheduled.blocks] == [("p00", "p03"), ("p01", "p03")]
    *_, scheduled = continue_season((), names, rules=RULES, pairing=Blind())
    assert scheduled is not None
    assert len(scheduled.blocks) == 3


RULES = tournament_rules(pairing="round-robin", rounds=2, max_blocks=100)


def history(pairing: PairingRule, strengths: dict[str, float], *, by_slot: float = 0.0, **rules: Any) -> list[LogEvent]:
    """The log of a whole tournament in which the score is the strength, and what the seat is worth."""
    first = Configured(rules=RULES.model_copy(update=rules))
    events: list[LogEvent] = [first]
    tournament = Tournament(first.rules, pairing)
    events += [EntrantAdded(name=name, player=SlotRow(name=name)) for name in strengths]
    for event in events:
        tournament.apply(event)
    while coming := tournament.next_events():
        for event in coming:
            tournament.apply(event)
        events += coming
        for block in range(tournament.history.over + 1, tournament.last_block + 1):
            for number, lineup in enumerate(tournament.lineups(block), 1):
                scores = [strengths[label or ""] + by_slot * slot for slot, label in enumerate(lineup)]
                events.append(EpisodeEnded(row=episode_row(episode_key(block, 1, number), *scores)))
                tournament.apply(events[-1])
    return events


def replayed(events: list[LogEvent], pairing: PairingRule) -> TournamentReport:
    assert isinstance(events[0], Configured)
    tournament = Tournament(events[0].rules, pairing)
    for event in events:
        tournament.apply(event)
    return tournament.report()


STRENGTHS = {"Ada": 1.0, "Bob": 3.0, "Cleo": 2.0}


@pytest.mark.parametrize(
    ("pairing", "rules"),
    [
        (round_robin, {"rounds": 2, "blocks": 3}),
        (free_play, {"rounds": 90}),
        (swiss, {"rounds": None}),
        (ladder, {"rounds": None, "max_blocks": 7}),
        (single_elimination, {"rounds": None}),
        (double_elimination, {"rounds": None}),
    ],
)
def test_the_estimate_is_of_what_there_will_be(pairing: PairingRule, rules: dict[str, Any]) -> None:
    """Whoever entered earlier wins, as the estimate has it."""
    events = history(pairing, {name: -float(at) for at, name in enumerate("ABCDEF")}, **rules)
    tournament = Tournament(RULES.model_copy(update=rules), pairing)
    said: set[int | None] = set()
    for event in events:
        tournament.apply(event)
        if isinstance(event, RoundScheduled | EpisodeEnded):
            said.add(tournament.progress().expected)
    assert said == {tournament.last_block}


def test_standings_follow_from_the_log_alone() -> None:
    events = history(round_robin, STRENGTHS)
    report = replayed(events, round_robin)
    assert [one.name for one in report.standings] == ["Bob", "Cleo", "Ada"]
    assert [(one.won, one.played) for one in report.standings] == [(4, 4), (2, 4), (0, 4)]
    assert (report.stopped, report.rounds, report.blocks) == ("rounds", 2, 6)
    assert str(report) == "Bob is first of 3, after 2 rounds."
    # Episodes end in another order, clocks go backwards, and somebody rates otherwise: nothing is played for it
    rows = [event for event in events if isinstance(event, EpisodeEnded)]
    shuffled = [event for event in events if not isinstance(event, EpisodeEnded)] + [
        event.model_copy(update={"time": rows[0].time}) for event in reversed(rows)
    ]
    assert replayed(shuffled, round_robin) == report
    mean = replayed([*events, Configured(rules=RULES.model_copy(update={"rating": "mean"}))], round_robin)
    assert [one.rating for one in mean.standings] == [3.0, 2.0, 1.0]


def test_entering_together_does_not_list_everybody_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[int] = []
    plan = standings._plan  # pyright: ignore[reportPrivateUsage]

    def counted(rules: Any, entrants: Any, withdrawn: Any) -> Any:
        listed.append(len(entrants))
        return plan(rules, entrants, withdrawn)

    monkeypatch.setattr(standings, "_plan", counted)
    rules = tournament_rules(pairing="free-play")
    names = [f"p{number}" for number in range(50)]
    tournament, _, scheduled = continue_season([], names, rules=rules, pairing=free_play)
    assert scheduled is not None
    assert max(listed) == 50
    assert len(listed) < 10
    one_by_one = Tournament(rules, free_play)
    for name in names:
        one_by_one.apply(EntrantAdded(name=name, player=SlotRow(name=name, image=name)))
    assert (one_by_one.plan, one_by_one.active) == (tournament.plan, tournament.active)


@pytest.mark.parametrize("rating", ["bradley-terry", "plackett-luce", "mean"])
def test_equals_share_a_place(rating: str) -> None:
    report = replayed(history(round_robin, {"Ada": 1.0, "Bob": 1.0, "Cleo": 0.0}, rating=rating), round_robin)
    assert [(one.name, one.rank) for one in report.standings] == [("Ada", 1), ("Bob", 1), ("Cleo", 3)]
    assert str(report) == "2 of 3 share the first place, after 2 rounds."


@pytest.mark.parametrize("rating", ["bradley-terry", "mean"])
def test_often_failing_player_is_not_rated_by_its_results(rating: str) -> None:
    """The strongest, in seat 0, though the results say that it won by far there too."""
    events = history(round_robin, STRENGTHS, rating=rating)
    lineups = list(_lineups(events))
    rows = [at for at, event in enumerate(events) if isinstance(event, EpisodeEnded)]
    fault = {"ok": False, "party": "player", "fault_slot": 0, "error_type": "player_error", "message": "Exit 1."}
    for at, lineup in zip(rows, lineups, strict=True):
        ended = events[at]
        assert isinstance(ended, EpisodeEnded)
        if lineup[0] == "Bob":
            events[at] = EpisodeEnded(row=ended.row.model_copy(update=fault))
    report = replayed(events, round_robin)
    assert report.standings[0].name == "Cleo"
    matches = [match for match in report.matches if "Bob" in match.players]
    assert all(match.scores[match.players.index("Bob")] == min(match.scores) for match in matches)
    assert str(report).endswith("Bob forfeited 4 episodes.")
    assert {one.label: one.forfeits for one in report.entrants} == {"Ada": 0, "Bob": 4, "Cleo": 0}


def test_unequal_seat_counts_do_not_change_ratings() -> None:
    """Of three in four seats one has two of them, and the seats are not worth the same."""
    events = history(round_robin, STRENGTHS, by_slot=10.0, slot_count=4, rounds=2, rating="mean")
    report = replayed(events, round_robin)
    assert [(one.name, one.rating) for one in report.standings] == [("Bob", 18.0), ("Cleo", 17.0), ("Ada", 16.0)]
    assert [seat.effect for seat in report.slot_effects] == [-15.0, -5.0, 5.0, 15.0]
    lineups = {tuple(sorted(str(label) for label in lineup)) for lineup in _lineups(events)}
    assert len(lineups) == 2, "another one has two seats when they meet again"


def _lineups(events: list[LogEvent]) -> Iterator[Lineup]:
    assert isinstance(events[0], Configured)
    tournament = Tournament(events[0].rules, round_robin)
    for event in events:
        tournament.apply(event)
    for block in range(1, tournament.last_block + 1):
        yield from tournament.lineups(block)


def test_a_dropped_round_of_broken_games_does_not_end_the_tournament() -> None:
    names = ("Ada", "Bob")
    tournament = Tournament(RULES, None)
    blocks = tuple(
        ScheduledBlock(block=number, match=number, players=names, lineup=names, seed=number) for number in (1, 2, 3)
    )
    for event in (
        *(EntrantAdded(name=name, player=SlotRow(name=name)) for name in names),
        RoundScheduled(round=1, blocks=blocks),
        *(
            EpisodeEnded(row=episode_row(episode_key(block, attempt, 1), party="game"))
            for attempt in (1, 2, 3)
            for block in (1, 2, 3)
        ),
    ):
        tournament.apply(event)
    assert (tournament.unplayed, tournament.stopped) == (False, "game_faults")
    tournament.apply(RoundDropped(round=1, code="commissioner_gone", reason="It left."))
    assert (tournament.report().blocks, tournament.stopped) == (0, "")


def test_withdrawal_cancels_open_blocks_and_keeps_results() -> None:
    events = history(round_robin, STRENGTHS)
    scheduled = next(at for at, event in enumerate(events) if event.kind == "round_scheduled")
    cut = [*events[: scheduled + 3], EntrantWithdrawn(name="Ada")]
    report = replayed(cut, round_robin)
    assert report.stopped == ""
    assert report.plan.withdrawn == ("Ada",)
    assert {one.name: one.withdrawn for one in report.standings}["Ada"]
    # Back again, with another round
    again = replayed([*cut, EntrantAdded(name="Ada", player=SlotRow(name="Ada"))], round_robin)
    assert again.plan.withdrawn == ()


@pytest.mark.slow
def test_a_game_that_is_over_takes_a_few_bytes() -> None:
    rules = RULES.model_copy(update={"rounds": None, "max_blocks": 10**6})
    tournament = Tournament(rules, free_play)
    names = [f"player {number}" for number in range(6)]
    for name in names:
        tournament.apply(EntrantAdded(name=name, player=SlotRow(name=name)))
    chance = random.Random(3)

    def play(rounds: int) -> int:
        for number in range(tournament.last_round + 1, tournament.last_round + 1 + rounds):
            pairs = [tuple(chance.sample(names, 2)) for _ in range(10)]
            first = tournament.last_block + 1
            blocks = [ScheduledBlock(block=first + at, match=at + 1, players=pair) for at, pair in enumerate(pairs)]
            tournament.apply(RoundScheduled(round=number, blocks=tuple(blocks)))
            for block in blocks:
                for lineup in (1, 2):
                    row = episode_row(episode_key(block.block, 1, lineup), chance.random(), chance.random())
                    tournament.apply(EpisodeEnded(row=row))
        return len(tournament.report().matches)

    # As many as are reported, and samples that are added up from then on
    assert play(150) == 1000
    tracemalloc.start()
    try:
        play(100)
        # What the report itself took is given back
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 1000 * 400
    finally:
        tracemalloc.stop()
    report = tournament.report()
    assert (len(report.matches), report.matches_before, report.rounds) == (1000, 1500, 250)
    assert [match.round for match in report.matches[::10]] == list(range(151, 251))
    field = tournament.field()
    assert (len(field.played), len(field.played[0]), len(field.played[-2:])) == (250, 10, 2)
    assert sum(field.points().values()) == 2500


def test_blocks_end_it_and_so_does_evidence() -> None:
    assert replayed(history(round_robin, STRENGTHS, max_blocks=4), round_robin).stopped == "max_blocks"
    told = replayed(history(round_robin, STRENGTHS, rounds=50, max_blocks=400, told_apart=True), round_robin)
    assert told.stopped == "told_apart"
    assert told.rounds < 50


def write(path: Path, events: list[LogEvent]) -> list[bytes]:
    lines: list[bytes] = []
    check = b""
    for event in events:
        line, check = encode_event(event, check)
        lines.append(line)
    path.write_bytes(b"".join(lines))
    return lines


def test_a_log_is_read_back_and_a_torn_line_left_out(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    events = history(round_robin, STRENGTHS)
    lines = write(path, events)
    assert list(read_log(path)) == events
    path.write_bytes(b"".join(lines)[:-5])
    assert list(read_log(path)) == events[:-1]
    # A kind of a later version says nothing here, and breaks nothing
    write(path, [*events[:3], LogEvent(kind="later"), *events[3:]])
    assert list(read_log(path)) == events


@pytest.mark.parametrize("vice", ["changed", "taken out", "added", "no JSON"])
def test_the_first_line_that_was_changed_is_named(tmp_path: Path, vice: str) -> None:
    path = tmp_path / "events.ndjson"
    lines = write(path, history(round_robin, STRENGTHS))
    if vice == "changed":
        lines[6] = lines[6].replace(b'"scores":[', b'"scores":[1')
    elif vice == "taken out":
        del lines[6]
    elif vice == "added":
        lines.insert(6, lines[5])
    else:
        lines[6] = b"oops\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(UsageError, match=":7 is not what a tournament wrote there") as refused:
        list(read_log(path))
    assert refused.value.code == "log_changed"
