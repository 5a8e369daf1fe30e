"""The state of a commissioned tournament: divisions, members and rounds, computed from the log alone."""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import Field

from ..commissioner.values import COMPETING
from ..documents.records import Record
from ..evaluation.report_contents import Table
from .tournament_log import (
    DueRound,
    LeagueDivision,
    LeagueSet,
    LogEvent,
    Move,
    RoundDecided,
    RoundDropped,
    RoundPlace,
    RoundsDue,
)

__all__ = [
    "CommissionedLeague",
    "CommissionedReport",
    "DivisionReport",
    "MemberReport",
    "RoundReport",
    "commissioned_tables",
]

_ROUNDS_SHOWN = 50


class MemberReport(Record):
    """A player in a division."""

    name: str = Field(description="Name of the player.")
    status: str = Field(description="Its status, such as competing.")
    substatus: str | None = Field(default=None, description="Its substatus, if any.")
    rank: int | None = Field(default=None, description="Its last place in the division; null before the first.")
    score: float | None = Field(default=None, description="Its score at that place, as given by the commissioner.")


class DivisionReport(LeagueDivision):
    """A division and its members."""

    members: tuple[MemberReport, ...] = Field(description="Its members, in order of their places.")
    words: dict[str, str] = Field(
        default_factory=dict[str, str], description="The commissioner's description of its rounds and rules."
    )


class RoundReport(Record):
    """A finished round."""

    round: int = Field(ge=1, description="Number of the round.")
    division: str = Field(description="Name of its division.")
    rankings: tuple[RoundPlace, ...] = Field(default=(), description="The places of the players.")
    moves: tuple[str, ...] = Field(default=(), description="Changes of division or status, in words.")
    display: dict[str, Any] | None = Field(default=None, description="What the commissioner wants shown.")
    state_refused: int = Field(default=0, ge=0, description="Bytes of a state that was too large to keep; 0: none.")
    code: str = Field(default="", description="Why it was dropped, as a code; empty: it was not.")
    reason: str = Field(default="", description="The same in words.")

    def lines(self) -> list[str]:
        """The round in words, line by line."""
        words = [f"Came to nothing: {self.reason}"] if self.code else []
        words += [", ".join(f"{place.rank}. {place.name} {place.score:.4g}" for place in self.rankings)]
        words += [f"{key}: {value}" for key, value in (self.display or {}).items()]
        words += self.moves
        if self.state_refused:
            words.append(f"Its state of {self.state_refused} bytes is too large, so the previous state is kept.")
        return [line for line in words if line]


class CommissionedReport(Record):
    """The decisions of a commissioner so far."""

    commissioner: str = Field(description="The commissioner.")
    divisions: tuple[DivisionReport, ...] = Field(description="All divisions, the highest first.")
    rounds: tuple[RoundReport, ...] = Field(description="The finished rounds, in order.")


class CommissionedLeague:
    """The state that follows from a commissioner's events.

    Attributes:
        commissioner: The commissioner that set up the divisions; empty before.
        divisions: By id, in the commissioner's order.
        rounds: All rounds that were due, by number.
        decided: Finished rounds, by number.
        dropped: Dropped rounds, by number.
        created: When each round became due, by number.
        ended: When each round was finished or dropped, by number.
        idle: Whether nothing was due when the commissioner was last asked.
        state: The commissioner's state, to pass on in its next round.
    """

    def __init__(self) -> None:
        self.commissioner = ""
        self.divisions: dict[str, LeagueDivision] = {}
        self.rounds: dict[int, DueRound] = {}
        self.decided: dict[int, RoundDecided] = {}
        self.dropped: dict[int, RoundDropped] = {}
        self.created: dict[int, dt.datetime] = {}
        self.ended: dict[int, dt.datetime] = {}
        self.idle = False
        self.state: Any = None
        self._words_of: dict[str, dict[str, str]] = {}
        self._moves: dict[str, Move] = {}
        self._moved: dict[int, tuple[str, ...]] = {}

    def apply(self, event: LogEvent) -> None:
        """Apply an event of the log."""
        if isinstance(event, LeagueSet):
            self.commissioner = event.commissioner
            self.divisions = {division.id: division for division in event.divisions}
            self._moves.update({move.name: move for move in event.moves})
            self.idle = False
        elif isinstance(event, RoundsDue):
            self._add(event.rounds, event.time)
            self.idle = not event.rounds
        elif isinstance(event, RoundDecided):
            self.decided[event.round] = event
            self.ended[event.round] = event.time
            self._moved[event.round] = tuple(self._describe_move(move) for move in event.moves)
            self._moves.update({move.name: move for move in event.moves})
            self.state = self.state if event.state_refused else event.state
            self._add(event.follow_up, event.time)
            if event.description:
                self._words_of[self.rounds[event.round].division] = event.description
        elif isinstance(event, RoundDropped):
            self.dropped[event.round] = event
            self.ended[event.round] = event.time

    def _add(self, due: Iterable[DueRound], at: dt.datetime) -> None:
        for one in due:
            self.rounds[one.round], self.created[one.round] = one, at

    @property
    def open(self) -> DueRound | None:
        """The first round that is due and not over; None if there is none."""
        over = self.decided.keys() | self.dropped.keys()
        return next((due for number, due in self.rounds.items() if number not in over), None)

    def membership(self, name: str) -> Move:
        """A player's division and status; newcomers compete in the lowest division."""
        found = self._moves.get(name)
        if found is not None and found.division in self.divisions:
            return found
        lowest = min(self.divisions.values(), key=lambda division: division.level, default=None)
        return Move(name=name, division=lowest.id if lowest is not None else "", status=COMPETING)

    def entrants(self, due: DueRound, active: Iterable[str]) -> list[str]:
        """The active players that may play in a round."""
        found = ((name, self.membership(name)) for name in active)
        return [
            name
            for name, one in found
            if one.division == due.division and one.status == COMPETING and (not due.entrants or name in due.entrants)
        ]

    def last_places(self) -> dict[tuple[str, str], RoundPlace]:
        """Each player's last place in each division, by division and name; from standings if a round has any."""
        return {
            (division, place.name): place
            for number, decided in self.decided.items()
            for division, places in (
                *((result.division, result.rankings) for result in decided.results),
                (self.rounds[number].division, decided.standings),
            )
            for place in places
        }

    def after(self, event: LogEvent) -> CommissionedLeague:
        """A copy of the league to which an event has been applied."""
        other = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict):
                setattr(other, name, {**value})
        other.apply(event)
        return other

    def ordered(self, names: Sequence[str]) -> dict[str, object]:
        """Players by division, the highest first, then by their last place in it; for each, what decides its place."""
        last = self.last_places()

        def place(name: str) -> tuple[float, float]:
            division = self.membership(name).division
            found = last.get((division, name))
            level = self.divisions[division].level if division in self.divisions else 0
            return -level, found.rank if found is not None else float("inf")

        return {name: place(name) for name in sorted(names, key=place)}

    def report(self, names: Sequence[str]) -> CommissionedReport | None:
        """The report; None until a commissioner has set the divisions.

        Args:
            names: The players that have not withdrawn.
        """
        if not self.divisions:
            return None
        last = self.last_places()
        by_height = sorted(self.divisions.values(), key=lambda division: -division.level)
        members: dict[str, list[MemberReport]] = {id: [] for id in self.divisions}
        for name in self.ordered(names):
            one = self.membership(name)
            place = last.get((one.division, name))
            members[one.division].append(
                MemberReport(
                    name=name,
                    status=one.status,
                    substatus=one.substatus,
                    rank=place.rank if place is not None else None,
                    score=place.score if place is not None else None,
                )
            )
        over = sorted(self.decided.keys() | self.dropped.keys())
        return CommissionedReport(
            commissioner=self.commissioner,
            divisions=tuple(
                DivisionReport(
                    **division.model_dump(),
                    members=tuple(members[division.id]),
                    words=self._words_of.get(division.id, {}),
                )
                for division in by_height
            ),
            rounds=tuple(map(self._round, over)),
        )

    def _round(self, number: int) -> RoundReport:
        division = self._name(self.rounds[number].division)
        if (dropped := self.dropped.get(number)) is not None:
            return RoundReport(round=number, division=division, code=dropped.code, reason=dropped.reason)
        decided = self.decided[number]
        return RoundReport(
            round=number,
            division=division,
            rankings=tuple(place for result in decided.results for place in result.rankings),
            moves=self._moved[number],
            display=decided.display,
            state_refused=decided.state_refused,
        )

    def _describe_move(self, move: Move) -> str:
        was = self.membership(move.name)
        before, now = self._name(was.division), self._name(move.division)
        what = f"{before} → {now}" if was.division != move.division else now
        as_what = f", {move.status}" if move.status != was.status or move.status != COMPETING else ""
        as_what += f" ({move.substatus})" if move.substatus else ""
        return f"{move.name}: {what}{as_what}{f': {move.reason}' if move.reason else ''}"

    def _name(self, division: str) -> str:
        return self.divisions[division].name if division in self.divisions else "-"


def commissioned_tables(report: CommissionedReport | None) -> list[Table]:
    """A commissioner's divisions and rounds as tables."""
    if report is None:
        return []
    members = [
        (
            division.name,
            "-" if one.rank is None else str(one.rank),
            one.name,
            "-" if one.score is None else f"{one.score:.4g}",
            one.status + (f" ({one.substatus})" if one.substatus else ""),
        )
        for division in report.divisions
        for one in division.members or (MemberReport(name="-", status="-"),)
    ]
    said: list[tuple[str, str, str]] = []
    for round in report.rounds[-_ROUNDS_SHOWN:]:
        said += [(str(round.round), round.division, line) for line in round.lines()]
    about = [
        (division.name, key.replace("_", " "), words)
        for division in report.divisions
        for key, words in division.words.items()
    ]
    title = "What the commissioner said"
    title += f" (the last {_ROUNDS_SHOWN} rounds)" if len(report.rounds) > _ROUNDS_SHOWN else ""
    return [
        Table(
            title="Divisions",
            head=("Division", "Place", "Player", "Score", "Status"),
            rows=tuple(members),
            names=(0, 2, 4),
        ),
        *(
            [Table(title="About the divisions", head=("Division", "", ""), rows=tuple(about), names=(0, 2))]
            if about
            else []
        ),
        *([Table(title=title, head=("Round", "Division", "Said"), rows=tuple(said), names=(0, 1, 2))] if said else []),
    ]
