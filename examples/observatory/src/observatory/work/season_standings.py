"""A division's season as a tournament (``coworld_core.tournament``), computed from rows of the database.

Pure values. A tournament in a folder has its log on disk; here the log is made from the season's rounds and episodes,
so the same pairings and the same standings apply. The computation continues from the state stored when the last round
was closed, so a round costs the same however long the season is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from coworld_core.episode.record import EpisodeRow, SlotRow
from coworld_core.evaluation.designs import Lineup, episode_key
from coworld_core.evaluation.reports import IntervalRecord
from coworld_core.records import READING
from coworld_core.tournament.log import (
    EntrantAdded,
    EntrantWithdrawn,
    EpisodeEnded,
    RoundPlace,
    RoundScheduled,
    ScheduledBlock,
    TournamentRules,
)
from coworld_core.tournament.pairing import PairingRule
from coworld_core.tournament.standings import Tournament, TournamentState

from ..store.columns import JsonObject
from .game_setup import GameSetup
from .league_settings import LeagueSettings

__all__ = [
    "PlayedEpisode",
    "PlayedRound",
    "SeasonStandings",
    "compute_standings",
    "report_of",
    "season_rules",
    "stored_state",
    "take_in",
]

_NO_END = 10**9
"""More rounds and blocks than any season has."""
_REMARKS = {"game_faults": "game_faults", "spoiled": "spoiled_blocks"}
"""The tournament remark that explains a stop, by reason."""
_PLATFORM = "crash"
"""The ``error_type`` of episodes that the platform spoiled."""


@dataclass(frozen=True, kw_only=True)
class PlayedEpisode:
    """An episode of a finished round."""

    id: str
    index: int
    status: str
    error_type: str | None = None
    error: str | None = None
    failed_slot: int | None = None
    scores: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PlayedRound:
    """A finished round of the season, with ``Round.round_config``."""

    config: JsonObject
    episodes: tuple[PlayedEpisode, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SeasonStandings:
    """A division's standings, and its next round."""

    report: JsonObject
    """``standings``, best first (``subject``, ``place``, ``rating``, ``low``, ``high``, ``won``, ``played``,
    ``rounds``; also ``rank`` and ``points``, given by a commissioner if there is one), ``pairs``, ``over``, and ``why``
    in words if the season cannot continue."""
    state: JsonObject | None
    """What the next table continues from (``coworld_core.tournament.standings.TournamentState``); None if the pairing
    needs all earlier rounds."""
    over: str
    """Why no round follows; empty if one does, or if there are too few members."""
    config: JsonObject | None = None
    """The next round's ``Round.round_config``."""
    lineups: tuple[tuple[int, Lineup], ...] = field(default=())
    """The next round's episodes in order: the number of the block in the season, and the lineup."""


def season_rules(terms: LeagueSettings, setup: GameSetup) -> TournamentRules:
    """The rules of a season.

    Args:
        terms: The league's terms.
        setup: The game.
    """
    return TournamentRules(
        coworld=setup.coworld.name,
        version=setup.coworld.version,
        variant=setup.variant,
        slot_count=setup.seats,
        seed=0,
        seeded=True,
        max_blocks=_NO_END,
        pairing=terms.pairing,
        rounds=terms.rounds or _NO_END,
        blocks=terms.blocks,
        rating="bradley-terry",
    )


def stored_state(stored: JsonObject | None, rules: TournamentRules) -> TournamentState | None:
    """The stored state of a table, if a table with these rules can continue from it.

    Args:
        stored: ``Table.state``.
        rules: The season's current rules.
    """
    if stored is None:
        return None
    try:
        state = TournamentState.model_validate(stored, context=READING)
    except ValidationError:
        # Written by another version of this program. The rounds hold the same information.
        return None
    return state if state.fits(rules) else None


def compute_standings(
    rounds: Sequence[PlayedRound],
    entrants: Sequence[str],
    *,
    rules: TournamentRules,
    pairing: PairingRule,
    state: TournamentState | None = None,
) -> SeasonStandings:
    """Replay a season, or the part of it since a stored state.

    Args:
        rounds: Finished rounds in order; with a state, only those since.
        entrants: Subjects that compete now, in the order in which they joined.
        rules: The season's rules.
        pairing: Decides who meets.
        state: A stored state to continue from.
    """
    tournament = Tournament.resumed(rules, pairing, state) if state is not None else Tournament(rules, pairing)
    entered = [entrant.name for entrant in tournament.plan.entrants]

    def enter(names: Sequence[str]) -> None:
        for name in names:
            if name not in entered:
                entered.append(name)
                tournament.apply(EntrantAdded(name=name, player=SlotRow(name=name, image=name)))

    for one in rounds:
        # Skip rounds stored by older versions without their blocks, and rounds of a game with another number of seats.
        if one.config.get("blocks") and one.config.get("seats", rules.slot_count) == rules.slot_count:
            enter(one.config["entrants"])
            _take_in(tournament, one)
    stored = tournament.state()
    enter(entrants)
    for name in entered:
        if name not in entrants:
            tournament.apply(EntrantWithdrawn(name=name))
    events = tournament.next_events() if len(entrants) > 1 else []
    scheduled = next((event for event in events if isinstance(event, RoundScheduled)), None)
    over = tournament.stopped if scheduled is None and len(entrants) > 1 else ""
    table = SeasonStandings(
        report=report_of(tournament, over=over),
        state=stored.model_dump(mode="json") if stored is not None else None,
        over=over,
    )
    if scheduled is None:
        return table
    tournament.apply(scheduled)
    return dataclasses.replace(
        table,
        config={
            "variant_id": rules.variant,
            "pairing": rules.pairing,
            "seats": rules.slot_count,
            "entrants": list(entrants),
            "blocks": [block.model_dump(mode="json", exclude_defaults=True) for block in scheduled.blocks],
            "byes": list(scheduled.byes),
        },
        lineups=tuple(
            (block.block, lineup) for block in scheduled.blocks for lineup in tournament.lineups(block.block)
        ),
    )


def _take_in(tournament: Tournament, one: PlayedRound) -> None:
    blocks = tuple(ScheduledBlock.model_validate(block) for block in one.config["blocks"])
    number = tournament.last_round + 1
    tournament.apply(RoundScheduled(round=number, blocks=blocks, byes=tuple(one.config["byes"])))
    take_in(tournament, _by_block(tournament, blocks, one.episodes))


def _by_block(
    tournament: Tournament, blocks: Sequence[ScheduledBlock], episodes: Iterable[PlayedEpisode]
) -> Iterator[tuple[int, list[PlayedEpisode | None]]]:
    """The episodes of a round by block; they were queued block by block, lineup by lineup."""
    known: Mapping[int, PlayedEpisode] = {episode.index: episode for episode in episodes}
    index = 0
    for one in blocks:
        count = len(tournament.lineups(one.block))
        yield one.block, [known.get(at) for at in range(index, index + count)]
        index += count


def take_in(tournament: Tournament, played: Iterable[tuple[int, Sequence[PlayedEpisode | None]]]) -> None:
    """Add finished blocks to a tournament.

    A block that could not be played (spoiled in every attempt, or cancelled) is withdrawn.

    Args:
        tournament: The tournament.
        played: Block numbers, each with its episodes by lineup; None for a missing episode.
    """
    for block, episodes in played:
        for lineup, episode in enumerate(episodes, 1):
            if episode is not None and episode.status in ("completed", "failed"):
                tournament.apply(EpisodeEnded(row=_row(episode, episode_key(block, 1, lineup))))
        if tournament.ledger.missing(block):
            for judged in tournament.ledger.withdraw(block, "The episode could not be played."):
                tournament.take_in(judged)


def _row(episode: PlayedEpisode, key: str) -> EpisodeRow:
    failed = episode.status == "failed"
    blamed = "platform" if episode.error_type == _PLATFORM else "game"
    return EpisodeRow(
        index=episode.index + 1,
        key=key,
        run_id=episode.id,
        workspace="",
        status="failed" if failed else "completed",
        ok=not failed,
        scores=episode.scores,
        seconds=0,
        error_type=episode.error_type,
        party=("player" if episode.failed_slot is not None else blamed) if failed else None,
        fault_slot=episode.failed_slot if failed else None,
        message=episode.error,
    )


def report_of(tournament: Tournament, *, over: str = "", among: Collection[str] | None = None) -> JsonObject:
    """A tournament's standings, as ``Table.report``.

    Args:
        tournament: The tournament.
        over: Why no round follows.
        among: The entrants to include; by default all.
    """
    standings = tuple(tournament.standings())
    shown = {one.name for one in standings} if among is None else set(among)
    rounds = tournament.field().rounds_entered()
    remarks = tournament.report().remarks if over in _REMARKS else ()
    # Without a commissioner there are none, and nothing is stored for them.
    given = tournament.league.last_places() if tournament.league.decided else None
    return {
        "over": over,
        "why": next((one.message for one in remarks if one.code == _REMARKS.get(over)), None),
        "standings": [
            {
                "subject": one.name,
                "place": one.rank,
                "rating": one.rating,
                **_ends(one.interval),
                "won": one.won,
                "played": one.played,
                "rounds": rounds[one.name],
                **_given(given, tournament.league.membership(one.name).division, one.name),
            }
            for one in standings
            if one.played and one.name in shown
        ],
        "pairs": [
            {
                "first": pair.first,
                "second": pair.second,
                "won": pair.won,
                "lost": pair.lost,
                "drawn": pair.drawn,
                "apart": pair.apart,
                "difference": pair.difference,
                **_ends(pair.interval),
            }
            for pair in tournament.pairs()
            if shown.issuperset((pair.first, pair.second))
        ],
    }


def _given(places: Mapping[tuple[str, str], RoundPlace] | None, division: str, name: str) -> JsonObject:
    if places is None:
        return {}
    place = places.get((division, name))
    return {"rank": place.rank if place else None, "points": place.score if place else None}


def _ends(interval: IntervalRecord | None) -> JsonObject:
    return {"low": interval.low if interval else None, "high": interval.high if interval else None}
