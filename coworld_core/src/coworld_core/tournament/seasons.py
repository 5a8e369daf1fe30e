"""Seasons of a league whose log is not kept: a tournament made from its rounds and episodes, and what ends a season.

Pure values. The same pairings and the same standings apply as in a tournament with a log. A season continues from the
state stored when its last round was closed, so a round costs the same however long the season is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..episode.record import EpisodeRow, SlotRow
from ..evaluation.designs import episode_key
from .pairing_rule import PairingRule
from .standings import Tournament, TournamentState
from .tournament_log import (
    EntrantAdded,
    EntrantWithdrawn,
    EpisodeEnded,
    RoundScheduled,
    ScheduledBlock,
    TournamentRules,
)

__all__ = [
    "MovedSubject",
    "PlayedEpisode",
    "PlayedRound",
    "continue_season",
    "enter",
    "risers",
    "take_in",
    "withdraw_others",
]

_PLATFORM = "crash"
"""The `error_type` of episodes that the platform spoiled."""


@dataclass(frozen=True, kw_only=True)
class PlayedEpisode:
    """An episode of a finished round. The columns of a platform's episodes; a row takes several times the memory."""

    id: str
    index: int
    status: str
    error_type: str | None = None
    error: str | None = None
    failed_slot: int | None = None
    scores: tuple[float, ...] = ()

    def row(self, key: str) -> EpisodeRow:
        """The row of the episode as the given part of a block."""
        failed = self.status == "failed"
        blamed = "platform" if self.error_type == _PLATFORM else "game"
        return EpisodeRow(
            index=self.index + 1,
            key=key,
            run_id=self.id,
            workspace="",
            status="failed" if failed else "completed",
            ok=not failed,
            scores=self.scores,
            seconds=0,
            error_type=self.error_type,
            party=("player" if self.failed_slot is not None else blamed) if failed else None,
            fault_slot=self.failed_slot if failed else None,
            message=self.error,
        )


@dataclass(frozen=True, kw_only=True)
class PlayedRound:
    """A finished round of the season."""

    entrants: Sequence[str]
    blocks: tuple[ScheduledBlock, ...]
    byes: tuple[str, ...]
    episodes: Sequence[PlayedEpisode] = ()
    """Its episodes; they were queued block by block, lineup by lineup, and `index` counts them from 0."""


def continue_season(
    rounds: Iterable[PlayedRound],
    entrants: Sequence[str],
    *,
    rules: TournamentRules,
    pairing: PairingRule,
    state: TournamentState | None = None,
    owners: Mapping[str, str] | None = None,
) -> tuple[Tournament, TournamentState | None, RoundScheduled | None]:
    """Replay a season, or the part of it since a stored state, and schedule its next round.

    Args:
        rounds: Finished rounds in order; with a state, only those since.
        entrants: Names of the players that compete now, in the order in which they joined.
        rules: The season's rules.
        pairing: Decides who meets.
        state: A stored state to continue from.
        owners: The owner of each entrant, by name; players of one owner do not meet.

    Returns:
        The season as a tournament; what it continues from once these rounds are closed, None if the pairing needs all
        earlier rounds; and the next round, if there is one and there are entrants of two owners.
    """
    tournament = Tournament.resumed(rules, pairing, state) if state is not None else Tournament(rules, pairing)
    for one in rounds:
        enter(tournament, one.entrants)
        tournament.apply(RoundScheduled(round=tournament.last_round + 1, blocks=one.blocks, byes=one.byes))
        episodes, index = {episode.index: episode for episode in one.episodes}, itertools.count()
        blocks = [block.block for block in one.blocks]
        take_in(tournament, ((id, [episodes.get(next(index)) for _ in tournament.lineups(id)]) for id in blocks))
    stored = tournament.state()
    enter(tournament, entrants)
    withdraw_others(tournament, entrants)
    tournament.owners = owners or {}
    several = len({tournament.owners.get(name, name) for name in entrants}) > 1
    events = tournament.next_events() if several else []
    for event in events:
        tournament.apply(event)
    return tournament, stored, next((event for event in events if isinstance(event, RoundScheduled)), None)


def enter(tournament: Tournament, names: Iterable[str]) -> None:
    """Enter the players that have not entered yet, by their names alone."""
    known = set(tournament.active)
    new = (name for name in dict.fromkeys(names) if name not in known)
    tournament.apply(*(EntrantAdded(name=name, player=SlotRow(name=name, image=name)) for name in new))


def withdraw_others(tournament: Tournament, names: Iterable[str]) -> None:
    """Withdraw all players but these."""
    staying = set(names)
    tournament.apply(*(EntrantWithdrawn(name=name) for name in tournament.active if name not in staying))


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
                tournament.apply(EpisodeEnded(row=episode.row(episode_key(block, 1, lineup))))
        if tournament.ledger.missing(block):
            for judged in tournament.ledger.withdraw(block, "The episode could not be played."):
                tournament.take_in(judged)


@dataclass(frozen=True, kw_only=True)
class MovedSubject:
    """A subject that changes division."""

    subject: str
    frm: int
    """Index of the division; 0 is the highest."""
    to: int


def risers(ladder: Sequence[Sequence[str]], *, moves: int, size: int) -> list[MovedSubject]:
    """Decide promotion and relegation between neighbouring divisions at the end of a season.

    The last of the upper division change places with the first of the lower one. If the upper division has room, more
    rise, as long as two remain below to play each other; if it has too many members, more fall.

    Args:
        ladder: The subjects of each division in the order of its table, highest division first.
        moves: How many change places between two divisions.
        size: How many members a division above the lowest has.
    """
    if moves < 1:
        return []
    found: dict[str, MovedSubject] = {}
    for at, (upper, lower) in enumerate(itertools.pairwise(ladder)):
        staying = [one for one in upper if one not in found]
        swaps = min(moves, len(staying), len(lower))
        rise = swaps + max(0, min(size - len(upper), len(lower) - 2))
        fall = swaps + min(max(0, len(upper) - size), len(staying) - swaps)
        found.update({one: MovedSubject(subject=one, frm=at + 1, to=at) for one in lower[:rise]})
        found.update({one: MovedSubject(subject=one, frm=at, to=at + 1) for one in staying[len(staying) - fall :]})
    return list(found.values())
