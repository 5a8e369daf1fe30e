"""The current state of a tournament: schedule, standings and rounds, computed from its log alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol

from pydantic import Field as Described

from ..documents.records import Record
from ..episode.events import EvaluationProgressed
from ..episode.record import SlotRow
from ..evaluation.block_ledger import JudgedBlock, LedgerState
from ..evaluation.designs import Lineup
from ..evaluation.number_text import interval_text
from ..evaluation.ranking import PairRecord, encounters, pair_records, rating_interval
from ..evaluation.rating_fit import Rankings, RankingsState
from ..evaluation.ratings import rate
from ..evaluation.report_base import (
    Estimate,
    Evaluation,
    EvaluationPlan,
    EvaluationTerms,
    IntervalRecord,
    MeasuredValue,
    measured_value,
    rounded,
    shared_places,
)
from ..evaluation.report_contents import INTERVAL, Parts, ShownReport, Table, block_facts, seats_table, shown_number
from ..evaluation.totals import Totals, TotalsState
from ..text.phrases import plural
from .block_estimate import expected_blocks
from .history import History, HistoryState, PlayedRounds
from .league import CommissionedLeague, CommissionedReport, commissioned_tables
from .pairing_rule import CarryingRule, Field, PairingRule, PastRounds
from .pairings import Commissioned
from .tournament_log import (
    Configured,
    EntrantAdded,
    EntrantWithdrawn,
    EpisodeEnded,
    LogEvent,
    RoundDropped,
    RoundScheduled,
    ScheduledBlock,
    TournamentRules,
)

__all__ = [
    "MatchRecord",
    "Tournament",
    "TournamentPlan",
    "TournamentReport",
    "TournamentStanding",
    "TournamentState",
    "TournamentStore",
]

_MATCHES_SHOWN = 200
_MATCHES_REPORTED = 1000


class TournamentPlan(EvaluationPlan):
    """The current plan of a tournament."""

    kind: Literal["tournament"] = "tournament"  # pyright: ignore[reportIncompatibleVariableOverride]
    rules: TournamentRules = Described(description="The current rules.")
    entrants: tuple[SlotRow, ...] = Described(default=(), description="The players, in order of entry.")
    withdrawn: tuple[str, ...] = Described(default=(), description="Names of players that have withdrawn.")

    def players(self) -> dict[str, SlotRow]:
        """The measured players, by name."""
        return {entrant.name: entrant for entrant in self.entrants}


class TournamentStanding(Record):
    """A player's place in the standings."""

    rank: int = Described(ge=1, description="Place of the player.")
    name: str = Described(description="Name of the player.")
    rating: float | None = Described(description="Its rating; null before its first block.")
    interval: IntervalRecord | None = Described(description="Interval of the rating.")
    won: float = Described(ge=0, description="Matches won; among several players, the share beaten.")
    played: int = Described(ge=0, description="Matches that counted, byes included.")
    withdrawn: bool = Described(default=False, description="Whether it has withdrawn.")


class MatchRecord(Record):
    """A finished match."""

    round: int = Described(ge=1, description="Number of its round.")
    name: str = Described(default="", description="The pairing's name for it.")
    players: tuple[str, ...] = Described(description="The players that met.")
    scores: tuple[float, ...] = Described(description="Their mean scores over its blocks; empty if none counts.")


class TournamentReport(ShownReport):
    """The result of a tournament so far."""

    plan: TournamentPlan = Described(description="The current plan.")  # pyright: ignore[reportIncompatibleVariableOverride]
    standings: tuple[TournamentStanding, ...] = Described(description="All players, in order of their places.")
    pairs: tuple[PairRecord, ...] = Described(description="Every pair of players that met.")
    rounds: int = Described(ge=0, description="Number of finished rounds.")
    matches: tuple[MatchRecord, ...] = Described(
        description=f"The last {_MATCHES_REPORTED} finished matches, in order."
    )
    matches_before: int = Described(default=0, ge=0, description="Number of matches before these.")
    commissioned: CommissionedReport | None = Described(
        default=None, description="The decisions of its commissioner; null if there is none."
    )

    def estimates(self) -> list[Estimate]:
        """Every measured number with its interval, the most important first."""
        ratings = [
            Estimate(quantity="rating", of=one.name, value=one.rating, interval=one.interval)
            for one in self.standings
            if one.rating is not None
        ]
        # The mean score is already listed as the rating
        means = [one for one in super().estimates() if one.quantity != "mean score" or not self._by_mean]
        return ratings + means

    @property
    def _by_mean(self) -> bool:
        return self.plan.rules.rating == "mean"

    def sentence(self, after: str) -> str:
        """Say which player is first."""
        if not self.blocks:
            return self.nothing
        best = self.standings[0]
        level = [one.name for one in self.standings if one.rank == best.rank]
        rounds = plural(self.rounds, "round")
        if len(level) > 1:
            return f"{len(level)} of {len(self.standings)} share the first place, after {rounds}."
        return f"{best.name} {'is first' if self.stopped else 'leads'} of {len(self.standings)}, after {rounds}."

    def parts(self) -> Parts:
        """The parts to display."""
        return Parts(
            tables=[_standings(self), *commissioned_tables(self.commissioned), seats_table(self), _matches(self)],
            facts=[("Pairing", self.plan.rules.pairing), *block_facts(self)],
            quantities={"rating": not self._by_mean, "mean score": False, "seat effect": True},
            encounters=encounters(self.plan, self.pairs),
        )


class TournamentState(Record):
    """The stored form of a tournament between two rounds; its size depends on which players met, not on the rounds."""

    pairing: str = Described(description="Name of the pairing.")
    slot_count: int = Described(ge=1, description="Number of slots in the game.")
    rating: str = Described(description="How players are rated.")
    entrants: tuple[SlotRow, ...] = Described(description="The players, in order of entry.")
    withdrawn: tuple[str, ...] = Described(description="Names of players that have withdrawn.")
    past: PastRounds = Described(description="The totals of the finished rounds.")
    history: HistoryState = Described(description="A summary of their blocks.")
    ledger: LedgerState = Described(description="The scores from which those of forfeits are derived.")
    totals: TotalsState = Described(description="The totals of the blocks.")
    rankings: RankingsState = Described(description="The rankings in the blocks.")
    digests: dict[str, str] = Described(description="Content ids of what ran, by player name.")

    def fits(self, rules: TournamentRules) -> bool:
        """Whether a tournament with these rules can continue from this state."""
        return (self.pairing, self.slot_count, self.rating) == (rules.pairing, rules.slot_count, rules.rating)


class Tournament(Evaluation[TournamentPlan, TournamentReport]):
    """A tournament in progress: applies the events of its log and produces the next ones.

    Args:
        rules: The initial rules.
        pairing: Decides which players meet; None to only replay the log.

    Attributes:
        history: Its blocks and their outcomes.
        owners: The owner of each player, by name; players of one owner do not meet.
    """

    def __init__(self, rules: TournamentRules, pairing: PairingRule | None) -> None:
        self.history = History()
        super().__init__(_plan(rules, {}, set()))
        self._rankings, self._past = Rankings(), PastRounds()
        self._expected: tuple[object, int | None] | None = None
        self.pairing = pairing
        self.league = CommissionedLeague()
        self.owners: Mapping[str, str] = {}
        self._entrants: dict[str, SlotRow] = {}
        self._withdrawn: set[str] = set()

    @classmethod
    def resumed(cls, rules: TournamentRules, pairing: PairingRule, state: TournamentState) -> Tournament:
        """Create a tournament that continues from a stored state, as if it had applied all earlier events.

        Its report lists only the matches since then; it counts those before.

        Args:
            rules: The current rules, which the state fits.
            pairing: Decides which players meet.
            state: The stored state (`Tournament.state`).
        """
        resumed = cls(rules, pairing)
        resumed._past, resumed.history, resumed.digests = state.past, History(state.history), dict(state.digests)
        resumed.totals, resumed._rankings = Totals.resumed(state.totals), Rankings.resumed(state.rankings)
        resumed._entrants = {entrant.name: entrant for entrant in state.entrants}
        resumed._withdrawn = {*state.withdrawn}
        resumed.ledger.resume(state.ledger)
        resumed._replan(rules)
        return resumed

    def state(self) -> TournamentState | None:
        """The state to store; `resumed` continues from it.

        None while a block is unfinished, and if totals are not enough: if the pairing looks back at single rounds, or
        if a commissioner decides, because its rounds may be dropped later.
        """
        if self.unplayed or self.league.commissioner or not isinstance(self.pairing, CarryingRule):
            return None
        field = self.field()
        return TournamentState(
            pairing=self.rules.pairing,
            slot_count=self.plan.slot_count,
            rating=self.rules.rating,
            entrants=self.plan.entrants,
            withdrawn=self.plan.withdrawn,
            past=field.added_up(self.pairing.carry(field)),
            history=self.history.state,
            ledger=self.ledger.state,
            totals=self.totals.state,
            rankings=self._rankings.state(in_order=self.rules.rating == "openskill"),
            digests=dict(self.digests),
        )

    @property
    def rules(self) -> TournamentRules:
        """The current rules."""
        return self.plan.rules

    @property
    def active(self) -> list[str]:
        """The players that have not withdrawn, in order of entry."""
        return [name for name in self._entrants if name not in self._withdrawn]

    @property
    def last_block(self) -> int:
        """Number of the last scheduled block; 0 before the first."""
        return self.history.scheduled

    @property
    def last_round(self) -> int:
        """Number of the last round so far; 0 before the first."""
        return max([self.history.last_round, *self.league.rounds])

    def seed_of(self, block: int) -> int | None:
        """The seed scheduled for a block; None if it is drawn."""
        return self.history.seed(block)

    def lineups(self, block: int) -> Sequence[Lineup]:
        """The lineups of a block."""
        return self.history.lineups(block, self.plan.slot_count)

    def apply(self, *events: LogEvent) -> None:
        """Apply events of the log, in order; many entrants together cost less than one by one.

        Raises:
            UsageError: Code `image_changed` if a different image ran than before.
        """
        moved = False
        for event in events:
            if isinstance(event, EntrantAdded):
                self._entrants[event.name] = event.player.model_copy(update={"name": event.name})
                self._withdrawn.discard(event.name)
            elif isinstance(event, EntrantWithdrawn):
                self._withdrawn.add(event.name)
                for number in range(self.ledger.judged + 1, self.last_block + 1):
                    if event.name in self.history.players(number):
                        for block in self.ledger.withdraw(number):
                            self.take_in(block)
            else:
                if moved:
                    self._replan(self.rules)
                self._apply(event)
            moved = isinstance(event, EntrantAdded | EntrantWithdrawn)
        if moved:
            self._replan(self.rules)

    def _apply(self, event: LogEvent) -> None:
        if isinstance(event, EpisodeEnded):
            self.add(event.row)
        elif isinstance(event, RoundScheduled):
            self.history.schedule(event)
        elif isinstance(event, Configured):
            self._replan(event.rules)
        else:
            self.league.apply(event)
            if isinstance(event, RoundDropped):
                self._leave_out(event)

    def _leave_out(self, dropped: RoundDropped) -> None:
        """Discount all blocks of a dropped round."""
        reason = f"Its round came to nothing: {dropped.reason}"
        for scheduled in self.history.blocks_of(dropped.round):
            if scheduled.block <= self.history.over:
                self.history.leave_out(scheduled.block, reason)
            else:
                for block in self.ledger.withdraw(scheduled.block, reason):
                    self.take_in(block)
        self.totals, self._rankings = Totals(), Rankings()
        for block in self.history.blocks():
            self.add_up(block)
        # Without these blocks it may continue
        self.stopped = self.totals.spoiled_from_the_start

    def take_in(self, block: JudgedBlock) -> None:
        """Take in a judged block; `next_events` decides between rounds whether the tournament is over."""
        self.add_up(block)
        self.history.judge(block)
        self.stopped = self.totals.spoiled_from_the_start

    def add_up(self, block: JudgedBlock) -> None:
        """Add a block to the totals and to the rankings."""
        super().add_up(block)
        self._rankings.doubt(block.doubts)
        if block.fate == "counted":
            self._rankings.add(block.scores)

    def look(self, block: JudgedBlock) -> str:
        """Nothing ends a tournament within a round."""
        del block
        return ""

    def next_events(self) -> list[LogEvent]:
        """The next round, once all scheduled blocks are over; empty at the end, when `stopped` says why.

        Always empty when a commissioner schedules the rounds: ask it unless the tournament is `stopped`.
        """
        if self.unplayed or self.stopped in ("game_faults", "spoiled") or self.league.open is not None:
            return []
        self.stopped = "max_blocks" if self.room < 1 else self._told_apart()
        assert self.pairing is not None
        if not self.stopped and isinstance(self.pairing, Commissioned):
            enough = self.rules.rounds is not None and len(self.league.decided) >= self.rules.rounds
            self.stopped = "rounds" if enough or self.league.idle else ""
        if self.stopped or isinstance(self.pairing, Commissioned):
            return []
        field, room = self.field(), self.room
        matches, number = self.pairing.next_round(field), self.last_round + 1
        real = [match for match in matches if len(match.players) > 1 and field.may_meet(match.players)]
        if not real:
            self.stopped = "rounds"
            return []
        first = self.last_block + 1
        blocks = [(at, match) for at, match in enumerate(real, 1) for _ in range(self.rules.blocks)]
        return [
            RoundScheduled(
                round=number,
                blocks=tuple(
                    ScheduledBlock(block=block, match=at, name=match.name, players=match.players)
                    for block, (at, match) in enumerate(blocks[:room], first)
                ),
                byes=tuple(match.players[0] for match in matches if len(match.players) == 1),
            )
        ]

    def progress(self) -> EvaluationProgressed:
        """The progress so far, as an event, with the expected number of blocks."""
        if self._expected is None or self._expected[0] != (self.last_block, self.plan):
            open_round = self.history.last_scheduled if self.unplayed else None
            expected = expected_blocks(self.pairing, self.field(), self.last_block, self.rules, open_round)
            self._expected = (self.last_block, self.plan), expected
        return super().progress().model_copy(update={"expected": self._expected[1]})

    @property
    def unplayed(self) -> bool:
        """Whether a scheduled block is unfinished."""
        return self.history.over < self.last_block

    @property
    def room(self) -> int:
        """How many more blocks may be scheduled."""
        return self.rules.max_blocks - self.last_block

    def field(self) -> Field:
        """The information a pairing may use."""
        return Field(
            entrants=tuple(self.active),
            everybody=tuple(self._entrants),
            seats=self.plan.slot_count,
            seed=self.rules.seed,
            rounds=self.rules.rounds,
            played=self._played(),
            past=self._past,
            owners=self.owners,
        )

    def report(self) -> TournamentReport:
        """The result so far; it depends on the log alone."""
        if not self.stopped and self.pairing is not None:
            self.next_events()
        played = self._played()
        matches = _last_matches(played)
        return TournamentReport.model_validate(
            {
                **self.common(),
                # Their costs before a stored state are not known
                "models": (),
                "plan": self.plan,
                "standings": tuple(self.standings()),
                "pairs": self.pairs(),
                "rounds": self._past.rounds + len(played),
                "matches": matches,
                "matches_before": self._past.matches + played.match_count - len(matches),
                "commissioned": self.league.report(self.active),
            }
        )

    def pairs(self) -> tuple[PairRecord, ...]:
        """Every pair of players that has met so far."""
        players = max(2, len(self._entrants))
        return tuple(pair_records(self._counted, players=players, alpha=self.rules.alpha))

    def _replan(self, rules: TournamentRules) -> None:
        self.plan = _plan(rules, self._entrants, self._withdrawn)
        self.ledger.allow(rules.lowest, rules.highest)
        # Changed rules or entrants may let it continue
        self.stopped = self.totals.spoiled_from_the_start

    def _told_apart(self) -> str:
        count = len(self.active)
        if not self.rules.told_apart or count < 2:
            return ""
        rankings = self._counted.among(self.active) if self._withdrawn else self._counted
        found = pair_records(rankings, players=count, alpha=self.rules.alpha)
        apart = len(found) == count * (count - 1) // 2 and all(pair.apart for pair in found)
        return "told_apart" if apart else ""

    def _played(self) -> PlayedRounds:
        """The finished rounds; a commissioner's round counts once it was decided, and never if it was dropped."""
        league = self.league
        open_rounds = league.rounds.keys() - league.decided.keys() - league.dropped.keys()
        return self.history.rounds(open_rounds, league.dropped)

    @property
    def _counted(self) -> Rankings:
        return self._rankings if self.measured else Rankings()

    def _ratings(self) -> dict[str, MeasuredValue]:
        rating = self.rules.rating
        if rating != "mean":
            return {
                one.label: MeasuredValue(value=rounded(one.points), interval=rating_interval(one))
                for one in rate(self._counted, by=rating)
            }
        scores = self.totals.scores if self.measured else {}
        measured = {name: measured_value(sample, self.scale) for name, sample in scores.items()}
        return {name: value for name, value in measured.items() if value is not None}

    def standings(self) -> Iterable[TournamentStanding]:
        """The standings so far, the first one first."""
        rated, field = self._ratings(), self.field()
        points, played = field.points_and_matches()
        order = self.pairing.places(field) if self.pairing is not None else ()
        if not order:
            order = sorted(self._entrants, key=lambda name: -rated[name].value if name in rated else math.inf)
        levels: dict[str, object] = {
            name: (rated[name].value if name in rated else None, rounded(points[name])) for name in order
        }
        if self.league.decided and isinstance(self.pairing, Commissioned):
            levels = self.league.ordered(list(self._entrants))
        for place, name in zip(shared_places(list(levels.values())), levels, strict=True):
            rating = rated.get(name)
            yield TournamentStanding(
                rank=place,
                name=name,
                rating=rating.value if rating else None,
                interval=rating.interval if rating else None,
                won=rounded(points[name]),
                played=played[name],
                withdrawn=name in self._withdrawn,
            )


class TournamentStore(Protocol):
    """What keeps a tournament: a folder, or a platform's database."""

    @property
    def tournament(self) -> Tournament:
        """The tournament, to which all events of its log have been applied."""
        ...

    def happen(self, *events: LogEvent) -> None:
        """Append events to the log, and apply them to the tournament."""
        ...


def _last_matches(played: PlayedRounds) -> tuple[MatchRecord, ...]:
    found = (
        MatchRecord(
            round=number,
            name=match.name,
            players=match.players,
            scores=tuple(rounded(match.scores[name]) for name in match.players) if match.scores else (),
        )
        for number, matches in played.numbered_backwards()
        for match in reversed(matches)
    )
    return tuple(reversed([*itertools.islice(found, _MATCHES_REPORTED)]))


def _plan(rules: TournamentRules, entrants: Mapping[str, SlotRow], withdrawn: set[str]) -> TournamentPlan:
    same: dict[str, list[str]] = {}
    for name, entrant in entrants.items():
        # The part after the @ identifies the content, whatever the file's name
        _, known, content = entrant.image.rpartition("@")
        same.setdefault(content if known else f"{entrant.player_id} {entrant.image}", []).append(name)
    common = rules.model_dump(include=set(EvaluationTerms.model_fields))
    return TournamentPlan.model_validate(
        {
            **common,
            "rules": rules,
            "same_commands": tuple(tuple(names) for names in same.values() if len(names) > 1),
            "entrants": tuple(entrants.values()),
            "withdrawn": tuple(name for name in entrants if name in withdrawn),
        }
    )


def _standings(report: TournamentReport) -> Table:
    rows = [
        (
            str(one.rank),
            f"{one.name} (withdrawn)" if one.withdrawn else one.name,
            shown_number(one.rating, one.interval, signed=report.plan.rules.rating != "mean"),
            "–" if one.interval is None else interval_text(one.interval),
            f"{one.won:g} of {one.played}",
        )
        for one in report.standings
    ]
    head = ("", "Player", "Rating", INTERVAL, "Won")
    return Table(title="Standings", head=head, rows=tuple(rows), names=(0, 1, 3))


def _matches(report: TournamentReport) -> Table:
    rows = [
        (
            str(match.round),
            match.name,
            " – ".join(match.players),
            " – ".join(f"{score:.4g}" for score in match.scores) or "-",
        )
        for match in report.matches[-_MATCHES_SHOWN:]
    ]
    all_shown = len(report.matches) <= _MATCHES_SHOWN and not report.matches_before
    title = "Rounds" if all_shown else f"Rounds (the last {_MATCHES_SHOWN} matches)"
    named = any(match.name for match in report.matches)
    head = ("Round", "Match", "Players", "Scores")
    columns = [0, 1, 2, 3] if named else [0, 2, 3]
    return Table(
        title=title,
        head=tuple(head[column] for column in columns),
        rows=tuple(tuple(row[column] for column in columns) for row in rows),
        names=tuple(range(len(columns))),
    )
