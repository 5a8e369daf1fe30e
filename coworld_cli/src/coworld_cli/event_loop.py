"""Running a command's asynchronous work: one event loop, and the handling of Ctrl-C.

The first SIGINT, SIGTERM or other signal that would end the process cancels the work and says what is being stopped.
The second kills what is still running. The third exits at once and names the command that finds leftovers.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, TypeVar

from . import exitcodes
from .options.platform import Connection
from .output import Output
from .render.text import clean, left_behind, shown_path
from .terminal import echo

if TYPE_CHECKING:
    import anyio
    from anyio.abc import TaskGroup

    from coworld_client import CoworldClient

__all__ = ["Interrupted", "Running", "opened_client", "run_api", "run_async"]

_T = TypeVar("_T")

_NAMES = {
    "SIGINT": "Interrupted",
    "SIGHUP": "Terminal closed (SIGHUP)",
    **{name: f"Asked to stop ({name})" for name in ("SIGTERM", "SIGQUIT", "SIGUSR1", "SIGUSR2")},
}
_UNLESS_IGNORED = ("SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
"""Signals that stay ignored if the parent ignored them: `nohup` ignores SIGHUP, and shells ignore SIGQUIT for
background jobs. Batch systems send SIGUSR1 and SIGUSR2 before they kill."""


class Interrupted(Exception):
    """The user or the system ended the command early.

    Args:
        message: How the command was ended, and where its results so far are.
        hint: How to resume.
        context: Details for programs that read the error.
    """

    def __init__(self, message: str, *, hint: str | None = None, context: dict[str, object] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.context = context or {}


class Running:
    """The work of one command while it runs.

    Args:
        out: Where to narrate.
        tasks: A task group for background tasks, such as redrawing a display; cancelled when the work has ended.
        scope: The scope of the work.
    """

    def __init__(self, out: Output, tasks: TaskGroup, scope: anyio.CancelScope) -> None:
        self.out = out
        self.tasks = tasks
        self.scope = scope
        self._signals: list[str] = []
        self._ending: anyio.Event | None = None
        self._end_waits: list[Callable[[], object]] = []
        self._restore: list[Callable[[], object]] = []
        self.units: dict[str, str] = {}
        """The kind of each running unit (game, player, replay, ...), by `RUN_ID/UNIT`."""
        self.left: list[str] = []
        """What could not be removed."""
        self.evidence: str | None = None
        """The directory with the results so far, for `last_words`."""
        self.context: dict[str, object] = {}
        """Details for programs, for `last_words`."""
        self.so_far: str | None = None
        """A sentence about the results so far, for `last_words`, in place of `evidence`."""
        self.to_go_on: str | None = None
        """How to resume after an interruption, for `last_words`."""

    def resumable(self) -> None:
        """Make the message after Ctrl-C say that an interrupted download can be resumed."""
        self.so_far = "What has arrived is kept."
        self.to_go_on = "Run the same command again to resume."

    @property
    def interrupted(self) -> bool:
        """Whether a signal has cancelled the work."""
        return bool(self._signals) and self._ending is None

    @contextmanager
    def on_end_waits(self, end: Callable[[], object]) -> Generator[None]:
        """Call a function at the second signal while the context is open."""
        self._end_waits.append(end)
        try:
            yield
        finally:
            self._end_waits.remove(end)

    @contextmanager
    def on_abandon(self, restore: Callable[[], object]) -> Generator[None]:
        """Call a function, for example to restore the terminal's cursor, before the third signal ends the process."""
        self._restore.append(restore)
        try:
            yield
        finally:
            self._restore.remove(restore)

    async def until_interrupted(self, wait: Callable[[], Awaitable[_T]]) -> _T | None:
        """Wait for a function to return, or for the first signal, which is then a normal way to end.

        Args:
            wait: The function.

        Returns:
            Its result; None if the signal came first.
        """
        import anyio

        ended: list[_T] = []
        self._ending = anyio.Event()

        async def ends(scope: anyio.CancelScope) -> None:
            ended.append(await wait())
            scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(ends, group.cancel_scope)
            await self._ending.wait()
            group.cancel_scope.cancel()
        return ended[0] if ended else None

    def receive(self, name: str) -> None:
        """Act on a signal."""
        self._signals.append(name)
        count = len(self._signals)
        if count == 1:
            what = f"stopping {self._what()}" if self.units else "ending"
            if self._ending is not None:
                self.out.note(f"{what.capitalize()}.")
                self._ending.set()
            else:
                again = " Again: kill at once." if self.units else ""
                self.out.note(f"{_NAMES.get(name, name)}: {what}.{again}")
                self.scope.cancel()
        elif count == 2:
            self.out.note(f"Killing {self._what()}. Again: exit at once.")
            for end in self._end_waits:
                end()
        else:
            for restore in self._restore:
                restore()
            echo("Exited. `coworld clean` lists what may still run, `coworld clean --yes` removes it.", err=True)
            os._exit(exitcodes.INTERRUPTED)

    def _what(self) -> str:
        """The running units in words: `the game and 2 players`."""
        parts = [
            f"the {kind}" if count == 1 else f"{count} {kind}s" for kind, count in Counter(self.units.values()).items()
        ]
        return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts) or "what is left"

    def interruption(self) -> Interrupted:
        """The error that says which signal ended the command, where its results are and how to resume."""
        name = self._signals[0] if self._signals else "SIGINT"
        far = f"What was done so far is in {shown_path(self.evidence)}." if self.evidence else "Nothing was written."
        if self.so_far is not None:
            far = self.so_far
        left = left_behind(self.left) if self.left else ""
        return Interrupted(
            " ".join(filter(None, (f"{_NAMES.get(name, name)}.", far, clean(left, one_line=True)))),
            hint=self.to_go_on,
            context={"signal": name, **self.context, **({"left_behind": self.left} if self.left else {})},
        )


def run_async(out: Output, body: Callable[[Running], Awaitable[_T]]) -> _T:
    """Run a command's body in an event loop and return what it returns, most often an exit status.

    Args:
        out: Where to narrate.
        body: The work.

    Raises:
        Interrupted: A signal ended the work.
        CoworldError: Raised by the work, unwrapped from the exception groups of task groups.
    """
    import anyio

    return anyio.run(_supervised, out, body)


async def _supervised(out: Output, body: Callable[[Running], Awaitable[_T]]) -> _T:
    import anyio

    results: list[_T] = []
    failure: Exception | None = None
    tasks = anyio.create_task_group()
    running = Running(out, tasks, anyio.CancelScope())
    async with tasks:
        await tasks.start(_watch_signals, running)
        try:
            with running.scope:
                results.append(await body(running))
        except Exception as error:  # noqa: BLE001 (raised below, outside the group that would wrap it)
            failure = error
        tasks.cancel_scope.cancel()
    if running.interrupted and not results:
        raise running.interruption() from failure
    if failure is not None:
        if running.left:
            failure.add_note(left_behind(running.left))
        raise failure
    return results[0]


async def _watch_signals(running: Running, *, task_status: anyio.abc.TaskStatus[None]) -> None:
    import anyio

    watched = [signal.SIGINT, signal.SIGTERM]
    more = [signal.Signals[name] for name in _UNLESS_IGNORED if hasattr(signal, name)]
    watched += [number for number in more if signal.getsignal(number) is not signal.SIG_IGN]
    with contextlib.ExitStack() as stack:
        try:
            received = stack.enter_context(anyio.open_signal_receiver(*watched))
        except NotImplementedError:  # Windows, where Ctrl-C raises KeyboardInterrupt
            task_status.started()
            return
        task_status.started()
        async for number in received:
            running.receive(number.name)


# --- with a client ------------------------------------------------------------------------------------------------

_UNKNOWN = "The server may have carried out the request."
"""Shown when a command that changes something is interrupted."""


def run_api(
    out: Output,
    connection: Connection,
    body: Callable[[CoworldClient, Running], Awaitable[int]],
    *,
    anonymous: bool = False,
    changes: bool = False,
) -> int:
    """Run a command's body with a client, and return its exit status.

    Args:
        out: Where to narrate.
        connection: Which server, and as whom.
        body: The work.
        anonymous: Whether the work can be done without a login.
        changes: Whether the work changes something on the server.

    Raises:
        NotLoggedIn: There is no token for the server.
        CoworldError: Raised by the work.
    """

    async def work(running: Running) -> int:
        running.so_far = _UNKNOWN if changes else ""
        async with opened_client(connection, anonymous=anonymous) as api:
            return await body(api, running)

    return run_async(out, work)


@asynccontextmanager
async def opened_client(connection: Connection, *, anonymous: bool = False) -> AsyncGenerator[CoworldClient]:
    """Open a client for a server, signed in as the connection says.

    Args:
        connection: Which server, and as whom.
        anonymous: Whether to open an anonymous client if there is no login.
    """
    from coworld_client import CoworldClient
    from coworld_client.errors import NotLoggedIn
    from coworld_client.sign_in import SessionExpired

    named = connection.identity != "active"
    try:
        client = CoworldClient.from_login(
            connection.server, identity=connection.identity, elevated=connection.elevated, team=connection.as_team
        )
    except NotLoggedIn as error:
        # An expired session must not silently become an anonymous one
        if not anonymous or named or isinstance(error, SessionExpired):
            raise
        client = CoworldClient.anonymous(connection.server)
    async with client as api:
        yield api
