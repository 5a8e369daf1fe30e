"""The conversation with a tournament's commissioner: what it is told and asked, and the events that follow.

Nothing here sends or receives a message. A step is a generator: it yields the next turn of the conversation, and is
resumed with the commissioner's message, or with the error that came instead of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar

from ..commissioner.hook_names import HookName
from ..commissioner.messages import (
    CommissionerMessage,
    DescribeDivisionRequest,
    DescribeDivisionResponse,
    EpisodeCancel,
    EpisodeCompletedRequest,
    EpisodeCompletedResponse,
    EpisodeFailed,
    EpisodeResult,
    EpisodesAccepted,
    EpisodesRejected,
    HostMessage,
    LeagueMigrationConfigResponse,
    LeagueMigrationResponse,
    RankDivisionRequest,
    RankDivisionResponse,
    RoundComplete,
    RoundCompletedRequest,
    RoundCompletedResponse,
    RoundStart,
    ScheduleEpisodes,
    ScheduleRoundsResponse,
    misplaced,
)
from ..commissioner.values import COMPETING, LeaderboardRoundResultInfo, MembershipEvent, RoundResultInfo
from ..episode.events import Notice
from ..errors import CommissionerError
from ..text.phrases import listed
from .commissions import Commission, legacy_events, refused, repeated
from .standings import TournamentStore
from .tournament_log import DueRound, RoundDecided, RoundDropped, RoundPlace, RoundScheduled, RoundsDue, ScheduledBlock

__all__ = ["Ask", "Conversation", "Turn"]

_T = TypeVar("_T")
_Answer = TypeVar("_Answer", bound=CommissionerMessage)

_MAX_REFUSALS = 3
"""The number of refused messages at which a round is given up."""


@dataclass(frozen=True)
class Ask:
    """Send a request, and resume the step with the answer."""

    request: HostMessage
    answer: type[CommissionerMessage]
    in_round: bool
    """Whether messages of the round may arrive before the answer; `hear` then returns them later."""


Turn: TypeAlias = Literal["open", "hear", "check"] | HostMessage | Ask
"""The next turn: `open` a new connection, to which the following turns belong; send a message, or ask for an answer;
`hear` the next message of the round; `check` that the commissioner has not left."""
_Turns: TypeAlias = Generator[Turn, CommissionerMessage | None, _T]


def _ask(request: HostMessage, answer: type[_Answer], *, in_round: bool = True) -> _Turns[_Answer]:
    heard = yield Ask(request, answer, in_round)
    assert isinstance(heard, answer)
    return heard


@dataclass
class _Round:
    """A round during the conversation."""

    due: DueRound
    start: RoundStart
    unclaimed: list[ScheduledBlock]
    """Blocks of a killed run that the commissioner has not requested again yet."""
    requests: dict[str, ScheduledBlock] = field(default_factory=dict[str, ScheduledBlock])
    untold: dict[str, ScheduledBlock] = field(default_factory=dict[str, ScheduledBlock])
    refusals: int = 0
    outcomes: list[EpisodeResult | EpisodeFailed] = field(default_factory=list[EpisodeResult | EpisodeFailed])
    events: list[MembershipEvent] = field(default_factory=list[MembershipEvent])
    """Membership changes requested so far; they take effect when the round does."""


class Conversation:
    """The state of the conversation with a commissioner.

    A round that a killed run left open is started again: episodes that the commissioner requests are answered from the
    log if the same ones were played before. A failure of the commissioner drops the open round.

    Args:
        store: The tournament.
        commission: The commissioner's view of it.
        name: The commissioner's name in the log.
        publish: Receives the outcomes of rounds.
        hooks: The optional questions to ask.
    """

    def __init__(
        self,
        store: TournamentStore,
        commission: Commission,
        name: str,
        *,
        publish: Callable[[Notice], None],
        hooks: Collection[HookName] = (),
    ) -> None:
        self._store = store
        self._tournament = store.tournament
        self._commission = commission
        self._name = name
        self._publish = publish
        self._hooks = frozenset(hooks)
        self._round: _Round | None = None
        self._asked = False

    def step(self) -> _Turns[bool]:
        """Exchange and log one more message, even while episodes of the round are running.

        Returns:
            False if nothing is due.

        Raises:
            CommissionerError: The commissioner failed; an open round is dropped.
        """
        tournament, league = self._tournament, self._tournament.league
        tournament.next_events()  # Returns no events here, but sets `stopped`
        if tournament.stopped and not self._asks_again():
            return False
        due = league.open
        try:
            if due is not None:
                yield from self._talk(due)
            elif league.commissioner != self._name:
                yield from self._set_up()
            else:
                yield from self._ask_rounds()
        except CommissionerError as error:
            if due is not None:
                self.drop(due, error)
            raise
        return True

    @property
    def in_round(self) -> bool:
        """Whether a round has begun and is not over."""
        return self._round is not None

    @property
    def waits(self) -> bool:
        """Whether requested episodes are running and no outcome is ready to report."""
        untold = self._round.untold.values() if self._round is not None else ()
        return bool(untold) and not any(map(self._is_over, untold))

    def ask_again(self) -> None:
        """Ask which rounds are due once more, although none was."""
        self._asked = False

    def drop(self, due: DueRound, error: CommissionerError) -> None:
        """Drop a round because of an error."""
        self._round = None
        self._store.happen(RoundDropped(round=due.round, code=error.code, reason=error.message))
        self._say(due.round)

    def end(self) -> None:
        """Forget the round in progress: the connection is closed, and the next step starts the round again."""
        self._round = None

    def _is_over(self, block: ScheduledBlock) -> bool:
        return block.block <= self._tournament.history.over

    def _asks_again(self) -> bool:
        """Return whether to ask for rounds again because nothing was due in an earlier run; if so, clear `stopped`."""
        tournament = self._tournament
        if self._asked or tournament.stopped != "rounds" or not tournament.league.idle:
            return False
        limit = tournament.rules.rounds
        if limit is not None and len(tournament.league.decided) >= limit:
            return False
        tournament.stopped = ""
        return True

    def _say(self, number: int) -> None:
        """Publish the outcome of a round."""
        report = self._tournament.league.report(self._tournament.active)
        assert report is not None
        over = next(one for one in report.rounds if one.round == number)
        bad = over.code or over.state_refused
        for line in over.lines():
            message = f"round {number} of {over.division}: {line}"
            self._publish(Notice(level="warning" if bad else "info", message=message))

    # --- between rounds

    def _set_up(self) -> _Turns[None]:
        yield "open"
        commission = self._commission
        config = yield from _ask(commission.ask_divisions(), LeagueMigrationConfigResponse, in_round=False)
        divisions = commission.new_divisions(config)
        moves = yield from _ask(commission.ask_members(divisions), LeagueMigrationResponse, in_round=False)
        self._store.happen(commission.league_set(self._name, divisions, moves))

    def _ask_rounds(self) -> _Turns[None]:
        yield "open"
        response = yield from _ask(self._commission.ask_rounds(), ScheduleRoundsResponse, in_round=False)
        event = RoundsDue(rounds=self._commission.due_rounds(response.rounds))
        self._asked = True
        if event.rounds or not self._tournament.league.idle:
            self._store.happen(event)

    # --- in a round

    def _talk(self, due: DueRound) -> _Turns[None]:
        """Report outcomes to the commissioner, or handle its next message in a round."""
        history, now = self._tournament.history, self._round
        if now is None or now.due.round != due.round:
            yield "open"
            self._round = now = _Round(due, self._commission.start(due), history.blocks_of(due.round))
            yield now.start
        for id, block in list(now.untold.items()):
            if not self._is_over(block):
                continue
            del now.untold[id]
            told = self._commission.outcome_message(id, block, history.judged(block.block))
            yield told
            if "episode_completed" in self._hooks:
                answer = yield from _ask(_about_episode(now, told), EpisodeCompletedResponse)
                now.outcomes.append(told)
                now.events += answer.policy_membership_events
                if answer.episodes:
                    yield from self._schedule(now, ScheduleEpisodes(episodes=answer.episodes))
        if now.untold:  # Still running, or requested by a hook
            yield "check"
            return
        message = yield "hear"
        if isinstance(message, ScheduleEpisodes):
            yield from self._schedule(now, message)
        elif isinstance(message, RoundComplete):
            event = yield from self._consequences(due, self._commission.decided(due, message, now.events))
            self._round = None
            self._store.happen(event)
            self._say(due.round)
        elif not isinstance(message, EpisodeCancel):
            assert message is not None
            raise misplaced(message, now.start)
        elif message.request_id not in now.requests:
            raise refused(f"It cancels the episode {message.request_id!r:.80}, which it has not requested.")
        # A cancellation has no effect: the episode had ended when the message was read

    def _schedule(self, now: _Round, message: ScheduleEpisodes) -> _Turns[None]:
        """Schedule the episodes of a message: all of them, or none."""
        tournament, count = self._tournament, len(self._tournament.history.blocks_of(now.due.round))
        mistakes = self._commission.mistakes(now.due, message, now.requests, room=tournament.room + count)
        ids = tuple(request.request_id for request in message.episodes)
        if mistakes:
            first = next(iter(mistakes.items()))
            now.refusals += 1
            if now.refusals >= _MAX_REFUSALS:
                raise refused(
                    f"Its episodes were refused {now.refusals} times, the last time {first[0]!r:.80}: {first[1]}."
                )
            others = {id: "another episode of the same message is refused" for id in ids if id not in mistakes}
            yield EpisodesRejected(request_ids=ids, errors={**mistakes, **others})
            return
        new: list[ScheduledBlock] = []
        for request in message.episodes:
            block = self._commission.block(now.due, request)
            same = [one for one in now.unclaimed if (one.lineup, one.seed) == (block.lineup, block.seed)]
            if same:
                block = same[0]
                now.unclaimed.remove(block)
            else:
                numbers = {"block": tournament.last_block + len(new) + 1, "match": count + len(new) + 1}
                block = block.model_copy(update=numbers)
                new.append(block)
            now.requests[request.request_id] = now.untold[request.request_id] = block
        if new:
            self._store.happen(RoundScheduled(round=now.due.round, blocks=tuple(new)))
        yield EpisodesAccepted(request_ids=ids)

    def _consequences(self, due: DueRound, event: RoundDecided) -> _Turns[RoundDecided]:
        """Add the answers of the hooks to the end of a round.

        Raises:
            CommissionerError: A move, a round or the standings are invalid.
        """
        commission, division = self._commission, due.division
        if "round_completed" in self._hooks:
            over = yield from _ask(_about_round(commission, due, event), RoundCompletedResponse)
            changes = (*over.policy_membership_events, *legacy_events(over.membership_changes))
            after = commission.after(event)
            moves = {move.name: move for move in (*event.moves, *after.moves(changes))}
            follow_up = after.due_rounds(over.follow_up_rounds)
            event = event.model_copy(update={"moves": tuple(moves.values()), "follow_up": follow_up})
        if "rank_division" in self._hooks:
            ranked = yield from _ask(_about_places(commission.after(event), division), RankDivisionResponse)
            event = event.model_copy(update={"standings": _places(commission, ranked)})
        if "describe_division" in self._hooks:
            described = yield from _ask(_about_division(commission.after(event), division), DescribeDivisionResponse)
            words: Mapping[str, str] = described.description.model_dump(exclude_none=True)
            event = event.model_copy(update={"description": dict(words)})
        return event


# --- the requests of hooks


def _about_episode(now: _Round, outcome: EpisodeResult | EpisodeFailed) -> EpisodeCompletedRequest:
    result = outcome.to_json() if isinstance(outcome, EpisodeResult) else None
    return EpisodeCompletedRequest(
        round_start=now.start.model_dump(mode="json", exclude={"type"}),
        episode_result=result,
        episode_failed=outcome.to_json() if result is None else None,
        completed_episode_results=tuple(one.to_json() for one in now.outcomes if isinstance(one, EpisodeResult)),
        failed_episodes=tuple(one.to_json() for one in now.outcomes if isinstance(one, EpisodeFailed)),
    )


def _about_round(commission: Commission, due: DueRound, decided: RoundDecided) -> RoundCompletedRequest:
    def result(number: int, place: RoundPlace) -> RoundResultInfo:
        id, player = commission.id_of("round", number), commission.player(place.name)
        return RoundResultInfo(round_id=id, policy_version_id=player, rank=place.rank, score=place.score)

    return RoundCompletedRequest(
        league=commission.info,
        division=commission.division(due.division),
        all_divisions=commission.divisions(),
        round_config=due.config,
        round_results=tuple(result(due.round, place) for one in decided.results for place in one.rankings),
        division_memberships=tuple(one for one in commission.memberships() if str(one.division_id) == due.division),
        recent_results=tuple(
            result(number, place) for number, division, place in commission.places() if division == due.division
        ),
    )


def _about_places(after: Commission, division: str) -> RankDivisionRequest:
    recent = tuple(one for one in after.rounds_known() if str(one.division_id) == division)
    return RankDivisionRequest(
        league=after.info,
        division=after.division(division),
        completed_rounds=tuple(one for one in recent if one.status == "completed"),
        recent_rounds=recent,
        round_results=tuple(
            LeaderboardRoundResultInfo(
                round_id=after.id_of("round", number),
                policy_version_id=after.player(place.name),
                rank=place.rank,
                score=place.score,
                player_id=place.name,
                player_name=place.name,
            )
            for number, where, place in after.places()
            if where == division
        ),
    )


def _about_division(after: Commission, division: str) -> DescribeDivisionRequest:
    return DescribeDivisionRequest(
        league=after.info,
        division=after.division(division),
        active_memberships=tuple(
            one for one in after.memberships() if one.status == COMPETING and str(one.division_id) == division
        ),
        recent_rounds=tuple(one for one in after.rounds_known() if str(one.division_id) == division),
    )


def _places(commission: Commission, response: RankDivisionResponse) -> tuple[RoundPlace, ...]:
    """The standings of a division; an unknown player, or one that occurs twice, is refused."""
    ids = [entry.player_id for entry in response.rankings]
    known = set(commission.everybody)
    if unknown := [id for id in ids if id not in known]:
        raise refused(f"It ranks unknown players: {listed(unknown)}.")
    if twice := repeated(ids):
        raise refused(f"It ranks {listed(twice)} more than once.")
    places = [RoundPlace(name=one.player_id, rank=one.rank, score=one.score) for one in response.rankings]
    return tuple(sorted(places, key=lambda place: place.rank))
