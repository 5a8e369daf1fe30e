"""A tournament whose rounds a commissioner decides: runs its program, and has the conversation with it.

`coworld_core.tournament.conversation` says what comes next in it, and logs the decisions in the tournament's store. A
failure of the commissioner drops the open round and ends the run.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AsyncExitStack

from coworld_core.commissioner.hook_names import HookName
from coworld_core.commissioner.messages import CommissionerMessage
from coworld_core.errors import CommissionerError
from coworld_core.tournament.commissions import Commission
from coworld_core.tournament.conversation import Ask, Conversation, Turn
from coworld_core.tournament.standings import TournamentStore

from ...backend import Backend, Publish
from ..commissioner.commissioner_host import Commissioner, CommissionerOptions, CommissionerSocket, open_commissioner
from ..commissioner.commissioner_lookup import FoundCommissioner

__all__ = ["CommissionedTournament"]


class CommissionedTournament:
    """Asks a commissioner what comes next.

    Args:
        store: The tournament, which this process owns.
        commission: The commissioner's view of the tournament.
        found: The commissioner.
        backend: An entered backend.
        publish: Receives events.
        options: How to run the commissioner.
        hooks: The optional questions to ask it.
        run_id: The label of its program; a new one each time by default.

    Attributes:
        conversation: The conversation with it.
    """

    def __init__(
        self,
        store: TournamentStore,
        commission: Commission,
        found: FoundCommissioner,
        *,
        backend: Backend,
        publish: Publish,
        options: CommissionerOptions | None = None,
        hooks: Collection[HookName] = (),
        run_id: str | None = None,
    ) -> None:
        self._store = store
        self.conversation = Conversation(store, commission, found.name, publish=publish, hooks=hooks)
        self._found = found
        self._backend = backend
        self._publish = publish
        self._options = options
        self._run_id = run_id
        self._program = AsyncExitStack()
        self._connection = AsyncExitStack()
        self._commissioner: Commissioner | None = None
        self._socket: CommissionerSocket | None = None

    async def go_on(self) -> None:
        """Take steps until there are episodes to play or nothing is due.

        Raises:
            CommissionerError: The commissioner failed; an open round is dropped.
        """
        while (not self._store.tournament.unplayed or self.deserted) and await self.step():
            pass

    async def step(self) -> bool:
        """Exchange and log one more message, as `Conversation.step`."""
        step, heard, failure = self.conversation.step(), None, None
        try:
            while True:
                turn = step.send(heard) if failure is None else step.throw(failure)
                heard = failure = None
                try:
                    heard = await self._take(turn)
                except CommissionerError as error:
                    failure = error
        except StopIteration as end:
            return end.value

    @property
    def deserted(self) -> bool:
        """Whether the commissioner has left the open round; the next step drops it."""
        return self.conversation.in_round and self._socket is not None and self._socket.closed

    async def aclose(self) -> None:
        """End the conversation and the program."""
        self.conversation.end()
        try:
            await self._connection.aclose()
        finally:
            self._commissioner = None
            await self._program.aclose()

    async def _take(self, turn: Turn) -> CommissionerMessage | None:
        """Take a turn of the conversation; return what the commissioner says to it."""
        if turn == "open":
            self._socket = await self._open()
            return None
        assert self._socket is not None
        if turn == "hear":
            return await self._socket.receive()
        if turn == "check":
            return await self._socket.require_open()
        if isinstance(turn, Ask):
            return await self._socket.ask(turn.request, turn.answer, in_round=turn.in_round)
        return await self._socket.tell(turn)

    async def _open(self) -> CommissionerSocket:
        """Open a new connection to the running program, or to a new one if that has ended."""
        await self._connection.aclose()
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
        return await self._connection.enter_async_context(self._commissioner.converse())
