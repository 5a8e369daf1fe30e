"""Records an episode while it is played: the samples that a game of the kit tells, or the frames of any game.

Either comes as lines over a websocket: samples from the game itself, frames from a program that runs between players
and game. This process writes them to the workspace as they come, so that they are there whenever it is killed.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import anyio

from coworld_core.errors import EnvironmentFault, UsageError
from coworld_core.hints import Hint
from coworld_core.rules.seat_wire import PROTOCOL

from ..backend import Backend, Port, Unit
from ..errors import unwrapped
from ..package.plan import EpisodePlan
from ..runs._append_log import AppendedFile
from ..runs.scratch import Scratch
from .episode_inputs import Setup
from .episode_ledger import Ledger
from .episode_options import EpisodeOptions
from .helper_units import helper_spec, open_helper, require_helper

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

__all__ = ["RECORDER", "Recorder", "require_recording"]

RECORDER = "recorder"
"""Name of the unit between players and game."""

_MOST_OF_MESSAGE = 256 << 20
_MOST_OF_FILE = 16 << 30
"""Bytes of the largest file: samples come from a game, which may be hostile."""
_OPEN_SECONDS = 10.0
_END_SECONDS = 30.0
"""For what is left, once the game is over."""
_LINE = re.compile(rb'^\{"tick":(\d{1,15}|null),', re.MULTILINE)


def require_recording(plan: EpisodePlan, backend: Backend, options: EpisodeOptions) -> None:
    """Check that what is to be recorded can be; starts nothing.

    Raises:
        UsageError: The game tells no samples (`no_samples`), or runs its players itself, so that no frames pass
            (`no_frames`).
        CapabilityError: The backend can put no recorder between players and game.
    """
    game = plan.manifest.game
    if options.record == "samples" and PROTOCOL not in game.protocols.player.value:
        raise UsageError(
            f"{game.name} has a protocol of its own, which tells no samples.",
            code="no_samples",
            hint=Hint("record_frames", 'Record what players and game say to each other: record="frames".'),
        )
    if options.record != "frames":
        return
    if plan.game_hosts:
        raise UsageError(f"{game.name} runs its players itself: there are no frames to record.", code="no_frames")
    require_helper(backend, "puts no recorder between players and game", "record")


class Recorder:
    """Records one episode, if it is to be recorded.

    Args:
        setup: The episode's surroundings.
        ledger: Receives the record of what was recorded.
        scratch: Holds the program's files.

    Attributes:
        variables: Secret variables for the game.
    """

    def __init__(self, setup: Setup, ledger: Ledger, scratch: Scratch) -> None:
        self._setup, self._ledger, self._scratch = setup, ledger, scratch
        self._kind = setup.options.record
        self._token = secrets.token_urlsafe(16)
        self.variables = {"COWORLD_SAMPLES_TOKEN": self._token} if self._kind == "samples" else {}
        self._unit: Unit | None = None
        self._file: AppendedFile | None = None
        self._socket: ClientConnection | None = None
        self._read = anyio.Event()
        """Set once nothing more comes."""
        self._count = self._size = 0
        self._last_tick: int | None = None
        self._end: Mapping[str, Any] = {}
        """The last line that came."""
        self._problem = ""
        """Why the recording is cut short, in words."""
        self._ending = False

    @asynccontextmanager
    async def between(self, game: Unit) -> AsyncGenerator[Unit]:
        """Yield the unit that players connect to: the game, or the recorder, which connects to it.

        Args:
            game: The game, which has been started.

        Raises:
            EnvironmentFault: The recorder could not be started, or has ended before the episode did.
        """
        if self._kind == "off":
            yield game
            return
        with unwrapped():
            async with AsyncExitStack() as stack:
                if self._kind == "frames":
                    self._unit = await self._start(stack)
                self._open(stack)
                self._tasks = await stack.enter_async_context(anyio.create_task_group())
                try:
                    yield self._unit or game
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._finish()

    async def begin(self, game: Unit) -> None:
        """Read what is told from now on; the game is ready, and no player has started."""
        if self._kind == "off" or self._file is None:
            return
        from websockets.exceptions import InvalidHandshake, InvalidStatus

        from ..web.game_socket import connect_to_game, failure_text

        address = game.endpoint().here if self._unit is None else self._unit.endpoint("frames").here
        try:
            self._socket = await connect_to_game(
                address,
                f"/{self._kind}?token={self._token}",
                max_size=_MOST_OF_MESSAGE,
                open_timeout=_OPEN_SECONDS,
                # Whatever is sent asks the recorder for the end
                ping_interval=None,
            )
        except InvalidStatus as error:
            status = error.response.status_code
            self._cut(f"the game serves no samples (HTTP {status}): it was made with an earlier version of the kit")
        except (InvalidHandshake, OSError, EOFError, TimeoutError) as error:
            self._cut(f"the connection to it failed: {failure_text(error)}")
        else:
            self._tasks.start_soon(self._take_all, self._socket)

    async def _start(self, stack: AsyncExitStack) -> Unit:
        from ..web.recorder.recorder_program import FRAMES_PORT, PLAYERS_PORT

        setup = self._setup
        spec = helper_spec(
            setup,
            self._scratch,
            name=RECORDER,
            package="web/recorder",
            module="recorder_program",
            environment=lambda placement, _: {
                "COWORLD_RECORDER_GAME": self._game_address(),
                "COWORLD_RECORDER_HOST": placement.listen_host,
                "COWORLD_RECORDER_PORTS": f"{placement.listen['http']} {placement.listen['frames']}",
            },
            secret_env={
                "COWORLD_RECORDER_TOKEN": self._token,
                "COWORLD_RECORDER_SEAT_TOKENS": json.dumps(setup.tokens),
            },
            ports=(Port(name="http", number=PLAYERS_PORT), Port(name="frames", number=FRAMES_PORT)),
            clients=tuple(f"player-{slot}" for slot in self._ledger.seats),
            connects_to="game",
            network=setup.options.player_network or "game-only",
        )
        what = "the recorder between players and game"
        return await stack.enter_async_context(open_helper(setup, self._ledger, spec, what=what))

    def _game_address(self) -> str:
        assert self._ledger.game.unit is not None
        return self._ledger.game.unit.endpoint().there

    # The file

    @property
    def _path(self) -> Path:
        layout = self._setup.layout
        return layout.samples if self._kind == "samples" else layout.frames

    def _open(self, stack: AsyncExitStack) -> None:
        from coworld_core.records.samples import FRAMES_FORMAT, SAMPLES_FORMAT

        plan = self._setup.plan
        header = {
            "format": SAMPLES_FORMAT if self._kind == "samples" else FRAMES_FORMAT,
            "episode": self._setup.run.bus.run_id,
            "game": plan.manifest.game.name,
            "version": plan.manifest.game.version,
            "seed": plan.seed,
            "names": [seat.name for seat in plan.seats],
        }
        try:
            self._file = stack.enter_context(AppendedFile(self._path))
        except OSError as error:
            self._cut(f"{self._path} cannot be written to: {error.strerror}")
        else:
            self._append(f"{json.dumps(header)}\n".encode())

    def _append(self, lines: bytes) -> None:
        """Write lines, or as many of them as there is room for."""
        if self._file is None or self._problem:
            return
        self._size += len(lines)
        if self._size > _MOST_OF_FILE:
            self._cut(f"the file would have more than {_MOST_OF_FILE >> 30} GiB")
            return
        try:
            self._file.append(lines)
            self._count_lines(lines)
        except EnvironmentFault as error:
            with contextlib.suppress(EnvironmentFault):
                for line in lines.splitlines(keepends=True):
                    self._file.append(line)
                    self._count_lines(line)
            self._cut(error.message.removesuffix("."))

    def _count_lines(self, lines: bytes) -> None:
        found = _LINE.findall(lines)
        self._count += len(found)
        self._last_tick = next((int(tick) for tick in reversed(found) if tick != b"null"), self._last_tick)

    def _cut(self, why: str) -> None:
        """Record nothing more; the episode goes on."""
        if not self._problem:
            self._problem = why
            until = "There are none" if not self._count else f"They end at tick {self._last_tick}"
            self._ledger.warn(f"The {self._kind} are not complete: {why}. {until}.")

    async def _take_all(self, socket: ClientConnection) -> None:
        """Write what comes, until nothing more does."""
        from websockets.exceptions import ConnectionClosed

        try:
            async for message in socket:
                self._take(message if isinstance(message, bytes) else message.encode())
                if self._problem:
                    break
            await socket.close()
        except ConnectionClosed:
            pass
        finally:
            self._read.set()
        if self._unit is not None and not self._ending and not self._problem:
            with anyio.move_on_after(_OPEN_SECONDS):
                await self._unit.wait()
            ended = f"it {self._unit.exit}" if self._unit.exit is not None else "the connection to it is lost"
            raise EnvironmentFault(
                f"The recorder between players and game ended before the episode did: {ended}.",
                code="recorder_failed",
                hint=f"Read its log: logs/{RECORDER}.log.",
            )

    def _take(self, lines: bytes) -> None:
        if not lines.endswith(b"\n"):
            lines += b"\n"
        start = lines.rfind(b"\n", 0, -1) + 1
        if lines.startswith(b'{"end":', start):
            try:
                end: Any = json.loads(lines[start:])
            except (ValueError, RecursionError):
                end = None
            self._end = cast("Mapping[str, Any]", end) if isinstance(end, dict) else {}
            lines = lines[:start]
        if lines:
            self._append(lines)

    async def _finish(self) -> None:
        """Wait for what is left, and write how it ended."""
        from coworld_core.episode.record import RecordingRecord

        self._ending = True
        if self._socket is not None:
            from websockets.exceptions import ConnectionClosed

            with anyio.move_on_after(_END_SECONDS):
                try:
                    if self._unit is not None:
                        await self._socket.send("end")
                    await self._read.wait()
                except ConnectionClosed:
                    pass
            self._tasks.cancel_scope.cancel()
        reason = self._problem or self._reason()
        told: Any = self._end.get("out_of_sync")
        seats = range(len(self._setup.plan.seats))
        out_of_sync = [seat for seat in seats if isinstance(told, list) and seat in cast("list[Any]", told)]
        complete = not self._problem and reason == "over" and self._end.get("complete") is True
        end = {
            "end": reason,
            "complete": complete,
            "count": self._count,
            "last_tick": self._last_tick,
            "scores": self._end.get("scores"),
            "out_of_sync": out_of_sync,
        }
        self._append(f"{json.dumps(end)}\n".encode())
        self._ledger.recording = RecordingRecord(
            kind="samples" if self._kind == "samples" else "frames",
            path=self._setup.layout.relative(self._path) if self._file is not None else None,
            count=self._count,
            complete=complete and not self._problem,
            last_tick=self._last_tick,
            reason="" if complete else reason,
            out_of_sync=tuple(out_of_sync),
        )

    def _reason(self) -> str:
        """Why it ended, as far as the recording had no problem."""
        told = self._end.get("end")
        if not isinstance(told, str):
            return "the game was not played" if self._socket is None else "the end was not told"
        # The recorder does not know whether the game was over
        return told if told != "over" or self._ledger.over_at is not None else "stopped"
