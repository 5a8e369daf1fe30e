"""A tournament whose rounds a commissioner decides: it is asked when no episode is running, and its answers are logged.

A round that a killed run left open is started again: episodes that the commissioner requests are answered from the log
if the same ones were played before. A failure of the commissioner drops the open round and ends the run.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from coworld_core.commissioner.hook_names import HookName
from coworld_core.commissioner.messages import (
    DescribeDivisionResponse,
    EpisodeCancel,
    EpisodeCompletedResponse,
    EpisodeFailed,
    EpisodeResult,
    EpisodesAccepted,
    EpisodesRejected,
    LeagueMigrationConfigResponse,
    LeagueMigrationResponse,
    RankDivisionResponse,
    RoundComplete,
    RoundCompletedResponse,
    RoundStart,
    ScheduleEpisodes,
    ScheduleRoundsResponse,
)
from coworld_core.commissioner.values import MembershipEvent, VariantInfo
from coworld_core.episode.events import Notice
from coworld_core.errors import CommissionerError
from coworld_core.tournament.commissioner_hooks import (
    ask_about_episode,
    ask_consequences,
    ask_description,
    ask_ranking,
    with_consequences,
    with_description,
    with_ranking,
)
from coworld_core.tournament.commissions import Commission, refused
from coworld_core.tournament.pairings import Commissioned
from coworld_core.tournament.standings import Tournament
from coworld_core.tournament.tournament_log import (
    DueRound,
    LeagueSet,
    LogEvent,
    RoundDecided,
    RoundDropped,
    RoundScheduled,
    RoundsDue,
    ScheduledBlock,
)

from ...backend import Backend, Publish
from ..commissioner.commissioner_host import (
    Commissioner,
    CommissionerOptions,
    CommissionerSocket,
    misplaced,
    open_commissioner,
)
from ..commissioner.commissioner_lookup import FoundCommissioner, find_commissioner
from ..entrants import Entrants
from .tournament_folder import TournamentFolder
from .tournament_settings import TournamentSettings

__all__ = ["CommissionedTournament", "open_commissioned_tournament"]

_PATIENCE = 3
"""The number of refused messages at which a round is given up."""


@dataclass
class _Round:
    """A round during the conversation with its commissioner."""

    due: DueRound
    socket: CommissionerSocket
    start: RoundStart
    unclaimed: list[ScheduledBlock]
    """Blocks of a killed run that the commissioner has not requested again yet."""
    requests: dict[str, ScheduledBlock] = field(default_factory=dict[str, ScheduledBlock])
    untold: dict[str, ScheduledBlock] = field(default_factory=dict[str, ScheduledBlock])
    refusals: int = 0
    told: list[EpisodeResult | EpisodeFailed] = field(default_factory=list[EpisodeResult | EpisodeFailed])
    events: list[MembershipEvent] = field(default_factory=list[MembershipEvent])
    """Membership changes requested so far; they take effect when the round does."""


class CommissionedTournament:
    """Asks a commissioner what comes next.

    Args:
        tournament: The tournament, which this process owns.
        commission: The commissioner's view of the tournament.
        found: The commissioner.
        happen: Logs events and applies them to the tournament.
        backend: An entered backend.
        publish: Receives events.
        options: How to run the commissioner.
        hooks: The optional questions to ask it.
        run_id: The label of its program; a new one each time by default.
    """

    def __init__(
        self,
        tournament: Tournament,
        commission: Commission,
        found: FoundCommissioner,
        *,
        happen: Callable[[LogEvent], None],
        backend: Backend,
        publish: Publish,
        options: CommissionerOptions | None = None,
        hooks: Collection[HookName] = (),
        run_id: str | None = None,
    ) -> None:
        self._tournament = tournament
        self._commission = commission
        self._found = found
        self._happen = happen
        self._backend = backend
        self._publish = publish
        self._options = options
        self._hooks = frozenset(hooks)
        self._run_id = run_id
        self._program = AsyncExitStack()
        self._conversation = AsyncExitStack()
        self._commissioner: Commissioner | None = None
        self._round: _Round | None = None
        self._asked = False

    async def go_on(self) -> None:
        """Take steps until there are episodes to play or nothing is due.

        Raises:
            CommissionerError: The commissioner failed; an open round is dropped.
        """
        while (not self._tournament.unplayed or self.deserted) and await self.step():
            pass

    async def step(self) -> bool:
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
                await self._talk(due)
            elif league.commissioner != self._found.name:
                await self._set_up()
            else:
                await self._ask_rounds()
        except CommissionerError as error:
            if due is not None:
                self.drop(due, error)
            raise
        return True

    @property
    def deserted(self) -> bool:
        """Whether the commissioner has left the open round; the next step drops it."""
        return self._round is not None and self._round.socket.closed

    @property
    def waits(self) -> bool:
        """Whether requested episodes are running and no outcome is ready to report."""
        untold = self._round.untold.values() if self._round is not None else ()
        return bool(untold) and not any(self._is_over(block) for block in untold)

    def ask_again(self) -> None:
        """Ask which rounds are due once more, although none was."""
        self._asked = False

    def drop(self, due: DueRound, error: CommissionerError) -> None:
        """Drop a round because of an error."""
        self._round = None
        self._happen(RoundDropped(round=due.round, code=error.code, reason=error.message))
        self._tell(due.round)

    async def close(self) -> None:
        """End the conversation and the program."""
        self._round = None
        try:
            await self._conversation.aclose()
        finally:
            self._commissioner = None
            await self._program.aclose()

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

    def _tell(self, number: int) -> None:
        """Publish the outcome of a round."""
        report = self._tournament.league.report(self._tournament.active)
        assert report is not None
        over = next(one for one in report.rounds if one.round == number)
        bad = over.code or over.state_refused
        for line in over.lines():
            message = f"round {number} of {over.division}: {line}"
            self._publish(Notice(level="warning" if bad else "info", message=message))

    # --- talking

    async def _open(self) -> CommissionerSocket:
        """Open a new conversation with the running program, or with a new one if that has ended."""
        await self._conversation.aclose()
        if self._commissioner is not None and self._commissioner.unit.exit is not None:
            self._commissioner = None
            await self._program.aclose()
        if self._commissioner is None:
            self._commissioner = await self._program.enter_async_context(
                open_commissioner(
                    self._found,
                    backend=self._backend,
                    publish=self._publish,
                    options=self._options,
                    run_id=self._run_id,
                )
            )
        return await self._conversation.enter_async_context(self._commissioner.converse())

    async def _set_up(self) -> None:
        socket = await self._open()
        commission = self._commission
        config = await socket.ask(commission.ask_divisions(), LeagueMigrationConfigResponse)
        divisions = commission.new_divisions(config)
        moves = await socket.ask(commission.ask_members(divisions), LeagueMigrationResponse)
        event: LeagueSet = commission.league_set(self._found.name, divisions, moves)
        self._happen(event)

    async def _ask_rounds(self) -> None:
        socket = await self._open()
        response = await socket.ask(self._commission.ask_rounds(), ScheduleRoundsResponse)
        event: RoundsDue = self._commission.rounds_due(response)
        self._asked = True
        if event.rounds or not self._tournament.league.idle:
            self._happen(event)

    async def _talk(self, due: DueRound) -> None:
        """Report outcomes to the commissioner, or handle its next message in a round."""
        now = self._round
        if now is None or now.due.round != due.round:
            socket = await self._open()
            start = self._commission.start(due)
            self._round = now = _Round(due, socket, start, self._tournament.history.blocks_of(due.round))
            await socket.tell(start)
        for id, block in list(now.untold.items()):
            if not self._is_over(block):
                continue
            del now.untold[id]
            told = self._commission.told(id, block, self._tournament.history.judged(block.block))
            await now.socket.tell(told)
            if "episode_completed" in self._hooks:
                request = ask_about_episode(now.start, told, now.told)
                answer = await now.socket.ask_meanwhile(request, EpisodeCompletedResponse)
                now.told.append(told)
                now.events += answer.policy_membership_events
                if answer.episodes:
                    await self._schedule(now, ScheduleEpisodes(episodes=answer.episodes))
        if now.untold:  # Still running, or requested by a hook
            await now.socket.require_open()
            return
        message = await now.socket.hear()
        if isinstance(message, ScheduleEpisodes):
            await self._schedule(now, message)
        elif isinstance(message, RoundComplete):
            event = await self._consequences(now, self._commission.decided(due, message, now.events))
            self._round = None
            self._happen(event)
            self._tell(due.round)
        elif not isinstance(message, EpisodeCancel):
            raise misplaced(message, now.start)
        elif message.request_id not in now.requests:
            raise refused(f"It cancels the episode {message.request_id!r:.80}, which it has not requested.")
        # A cancellation has no effect: the episode had ended when the message was read

    async def _consequences(self, now: _Round, event: RoundDecided) -> RoundDecided:
        """Add the answers of the hooks to the end of a round."""
        commission, division, ask = self._commission, now.due.division, now.socket.ask_meanwhile
        if "round_completed" in self._hooks:
            request = ask_consequences(commission, now.due, event)
            event = with_consequences(commission, event, await ask(request, RoundCompletedResponse))
        if "rank_division" in self._hooks:
            request = ask_ranking(commission.after(event), division)
            event = with_ranking(commission, event, await ask(request, RankDivisionResponse))
        if "describe_division" in self._hooks:
            request = ask_description(commission.after(event), division)
            event = with_description(event, await ask(request, DescribeDivisionResponse))
        return event

    async def _schedule(self, now: _Round, message: ScheduleEpisodes) -> None:
        """Schedule the episodes of a message: all of them, or none."""
        room = self._tournament.room + len(self._tournament.history.blocks_of(now.due.round))
        mistakes = self._commission.mistakes(now.due, message, now.requests, room=room)
        ids = tuple(request.request_id for request in message.episodes)
        if mistakes:
            first = next(iter(mistakes.items()))
            now.refusals += 1
            if now.refusals >= _PATIENCE:
                raise refused(
                    f"Its episodes were refused {now.refusals} times, the last time {first[0]!r:.80}: {first[1]}."
                )
            others = {id: "another episode of the same message is refused" for id in ids if id not in mistakes}
            await now.socket.tell(EpisodesRejected(request_ids=ids, errors={**mistakes, **others}))
            return
        new: list[ScheduledBlock] = []
        for request in message.episodes:
            block = self._commission.block(now.due, request)
            same = [one for one in now.unclaimed if (one.lineup, one.seed) == (block.lineup, block.seed)]
            if same:
                block = same[0]
                now.unclaimed.remove(block)
            else:
                number = self._tournament.last_block + len(new) + 1
                match = len(self._tournament.history.blocks_of(now.due.round)) + len(new) + 1
                block = block.model_copy(update={"block": number, "match": match})
                new.append(block)
            now.requests[request.request_id] = now.untold[request.request_id] = block
        if new:
            self._happen(RoundScheduled(round=now.due.round, blocks=tuple(new)))
        await now.socket.tell(EpisodesAccepted(request_ids=ids))


@asynccontextmanager
async def open_commissioned_tournament(
    folder: TournamentFolder,
    settings: TournamentSettings,
    entrants: Entrants,
    *,
    backend: Backend,
    publish: Publish,
    options: CommissionerOptions | None = None,
) -> AsyncGenerator[CommissionedTournament | None]:
    """Open the chair of a tournament's commissioner; None for a tournament without a commissioner.

    The commissioner's program is started when it is needed and stopped on leaving.

    Raises:
        UsageError: There is no such commissioner.
    """
    assert folder.tournament is not None
    if not isinstance(folder.tournament.pairing, Commissioned):
        yield None
        return
    base = entrants.base
    variant = VariantInfo(
        id=base.variant, name=base.variant, game_config=dict(base.game_config), num_agents=entrants.seats
    )
    chair = CommissionedTournament(
        folder.tournament,
        Commission(folder.tournament, variant),
        find_commissioner(entrants.package, settings.pairing.commissioner),
        happen=folder.happen,
        backend=backend,
        publish=publish,
        options=options,
        hooks=settings.pairing.hooks,
    )
    try:
        yield chair
    finally:
        await chair.close()
