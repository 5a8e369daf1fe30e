"""A game under development: plays in its own page, and starts again whenever one of its files is saved."""

from __future__ import annotations

import random
import re
import secrets
import socket
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote

import anyio

from coworld_core.episode.outcome import Exit
from coworld_core.errors import CoworldError, NotReadyError, UsageError, unwrapped

from ...backend import Backend, Unit
from ...backends.process.child_environment import child_environment
from ...episode.contract_probes import seat_query
from ...package.plan import EpisodePlan, Seat, plan_episode, plan_for_people
from ...package.player_names import HUMAN
from ...package.resolver import Package, resolve_package
from ...runs._task_groups import nursery
from ..server.manifest import UP_TO_DATE
from .dev_page import DevControls, open_page_server
from .file_watch import changes, find_players, follow_log
from .local_programs import OpenGame, local_backend, open_game, open_player, read_scores, ready_game
from .relay import SIT, WATCH, Relay

__all__ = ["Dev", "open_dev"]

_GRACE: Final = 1.0
"""Seconds between TERM and KILL; short, because a user who saves a file wants to see its effect."""
_READY_SECONDS: Final = 60.0
_PLACE: Final = re.compile(r'File "(?P<file>[^"<]+)", line (?P<line>\d+)')
_POINTED: Final = re.compile(r"(?P<file>[^\s:]+\.py):(?P<line>\d+): (?P<problem>.+)")
"""The first line of what `pointed_out` says, which is followed by the line and a caret."""
_MOST_SEED: Final = 2**31
_SHOWN_LINES: Final = 15
"""Lines shown from the end of a failed program's output."""
_MOST_LATE: Final = 3600

_Status = Literal["starting", "playing", "over", "failed"]


@dataclass
class _SeatState:
    """One seat: its occupant and their state."""

    who: str
    bot: str
    """The player that gets the seat back when a person leaves it."""
    name: str = ""
    page: str | None = None
    status: str = ""
    files: frozenset[Path] = frozenset()
    """The files that its player runs from."""
    changed: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope | None = None


@dataclass
class _Game:
    """The current game, as the page shows it."""

    name: str = ""
    variant: str = ""
    variants: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    choices: list[str] = field(default_factory=list[str])
    status: _Status = "starting"
    problem: dict[str, str] | None = None
    viewer: str | None = None
    scores: list[float] | None = None


class Dev:
    """A game that plays while it is being written. Its methods do what the buttons of its page do.

    Args:
        directory: The package.
        relay: Connects the seats to the game.
        desk: Updates the open pages.
        variant: Id of the variant; None: the first.
        players: The players, as for `plan_episode`; none: a person in seat 0, and the package's own players.
        seed: The game's seed, if the game takes one; None: a random one.
        config: Changes to the game config, as for `plan_episode`.
    """

    def __init__(
        self,
        directory: Path,
        *,
        relay: Relay,
        controls: DevControls,
        variant: str | None,
        players: Sequence[str],
        seed: int | None,
        config: Mapping[str, Any],
    ) -> None:
        self.link = controls.link
        """Address of the page; anyone who has it has full control."""
        self._directory = directory
        self._relay = relay
        self._controls = controls
        self._tokens: tuple[str, ...] = ()
        self._variant = variant
        self._players = tuple(players)
        # It stays the same until the page asks for a new one
        self._seed: int | None = config.get("seed", random.randrange(_MOST_SEED)) if seed is None else seed
        self._config = dict(config)
        self._seats: list[_SeatState] = []
        self._now = _Game()
        self._again, self._saved = anyio.Event(), anyio.Event()
        self._round: anyio.CancelScope | None = None
        self._backend: Backend | None = None

    # --- what a person does

    def restart(self, *, new_seed: bool = False, variant: str | None = None) -> None:
        """End the game, and play another with the same seed and variant unless new ones are requested."""
        if new_seed:
            self._seed = random.randrange(_MOST_SEED)
        self._variant = variant or self._variant
        self._again.set()
        self._relay.close()
        if self._round is not None:
            self._round.cancel()

    @property
    def seats(self) -> int:
        """Number of seats; 0 before the first game."""
        return len(self._seats)

    def sit(self, slot: int, who: str) -> None:
        """Give a seat to another occupant: a person (`human`), a player of the package, or a file."""
        seat = self._seats[slot]
        if who == seat.who:
            return
        seat.who = who
        if who != HUMAN:
            seat.bot = who
        if self._now.status == "failed":
            self.restart()
        else:
            self._seat_anew(slot)

    def mute(self, slot: int, on: bool) -> None:
        """Discard a player's messages, or stop discarding them."""
        self._relay.seat(slot).muted = on
        self._tell()

    def delay(self, slot: int, seconds: float) -> None:
        """Delay a player's messages."""
        self._relay.seat(slot).delay = seconds
        self._tell()

    def drop(self, slot: int) -> None:
        """Cut a player's connection."""
        self._log("dev", f"the connection of seat {slot} is cut")
        self._relay.drop(slot)

    def end_waits(self) -> None:
        """Give programs that are being stopped no more time."""
        if self._backend is not None:
            self._backend.end_waits()

    # --- games, one after the other

    async def run(self) -> None:
        """Play one game after another until cancelled."""
        async with nursery() as tasks:
            tasks.start_soon(self._follow_rules)
            tasks.start_soon(self._watch)
            while True:
                self._again = anyio.Event()
                with anyio.CancelScope() as self._round:
                    await self._play()
                await self._again.wait()

    async def _watch(self) -> None:
        def elsewhere() -> frozenset[Path]:
            return frozenset[Path]().union(*(seat.files for seat in self._seats))

        async for changed in changes(self._directory, elsewhere):
            names = ", ".join(sorted(path.name for path in changed)[:3])
            mine = [slot for slot, seat in enumerate(self._seats) if seat.files & changed]
            if self._now.status == "playing" and changed <= elsewhere():
                self._log("dev", f"{names} saved: the player starts again")
                for slot in mine:
                    self._seat_anew(slot)
            else:
                self._log("dev", f"{names} saved: the game starts again")
                self._saved.set()
                self.restart()

    async def _follow_rules(self) -> None:
        """Bring the manifest up to date with the rules at each save, in a process of its own: rules may do anything.

        A manifest that changes counts as saved, so that the game starts again.
        """
        command = [sys.executable, "-m", "coworld_runner.kit.server.manifest", str(self._directory)]
        while True:
            with anyio.move_on_after(_READY_SECONDS):
                done = await anyio.run_process(command, env=child_environment(None), check=False)
                # Without a result, the game itself fails for the same reason, or has no rules
                if done.returncode in (0, 1):
                    for line in (done.stdout + done.stderr).decode(errors="replace").splitlines():
                        if not line.endswith(UP_TO_DATE):
                            self._log("manifest", line)
            await self._saved.wait()
            self._saved = anyio.Event()

    async def _play(self) -> None:
        self._now = replace(self._now, status="starting", problem=None, scores=None)
        self._tell()
        try:
            with unwrapped():
                await self._play_once()
        except CoworldError as error:
            self._fail(error.message, error.hint or "")

    async def _play_once(self) -> None:
        package = await resolve_package(self._directory)
        plan = self._prepare(package)
        tokens = plan.new_tokens()
        config = plan.config_with_tokens(tokens)
        self._relay.expect(tokens)
        async with (
            local_backend(package) as self._backend,
            open_game(plan.manifest.game.runnable, config=config, backend=self._backend, stop_grace=_GRACE) as unit,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(follow_log, unit, partial(self._log, "game"))
            for slot in range(len(plan.seats)):
                tasks.start_soon(self._sit, slot, package, tokens[slot])
            try:
                game = await ready_game(unit, tokens, timeout=_READY_SECONDS)
            except NotReadyError as error:
                await self._ended(unit, unit.exit, error.message)
            else:
                self._relay.lead(game.address)
                self._show(game)
                await self._ended(unit, await unit.wait(), "The game has failed.")
            # Players may still write to their logs after the end.
            await self._again.wait()

    def _prepare(self, package: Package) -> EpisodePlan:
        plan = self._plan(package, self._players)
        if len(self._seats) != len(plan.seats):
            words = [seat.player_id or str(seat.own.path if seat.own else HUMAN) for seat in plan.seats]
            spare = package.manifest.player[0].id
            self._seats = [_SeatState(who=word, bot=spare if word == HUMAN else word) for word in words]
            if not self._players:
                self._seats[0].who = HUMAN
        plan = self._plan(package, [seat.who for seat in self._seats])
        for seat, planned in zip(self._seats, plan.seats, strict=True):
            seat.name, seat.status, seat.page = planned.name, "", None
        game = plan.manifest.game
        self._now = replace(
            self._now,
            name=game.name,
            variant=plan.variant,
            variants=[{"id": variant.id, "name": variant.name} for variant in plan.manifest.variants],
            choices=list(dict.fromkeys([*_choices(plan, self._directory), *(seat.bot for seat in self._seats)])),
            viewer=None,
        )
        self._tell()
        return plan

    def _plan(self, package: Package, players: Sequence[str]) -> EpisodePlan:
        variant = self._variant or package.manifest.variants[0].id
        try:
            plan = plan_episode(package, variant=variant, players=players, seed=self._seed, config=self._config)
        except UsageError as error:
            if error.code != "seed_unknown":
                raise
            self._seed = None
            plan = plan_episode(package, variant=variant, players=players, config=self._config)
        return plan_for_people(plan)

    # --- a seat

    def _seat_anew(self, slot: int) -> None:
        seat = self._seats[slot]
        seat.changed.set()
        if seat.scope is not None:
            seat.scope.cancel()
        self._tell()

    async def _sit(self, slot: int, package: Package, token: str) -> None:
        """Run the players of a seat, one after the other, until the game is over."""
        seat = self._seats[slot]
        while True:
            seat.changed = anyio.Event()
            seat.files = frozenset()
            with anyio.CancelScope() as seat.scope:
                if seat.who != HUMAN and self._now.status in ("starting", "playing"):
                    await self._have_play(slot, package, token)
            if not seat.changed.is_set():
                await seat.changed.wait()

    async def _have_play(self, slot: int, package: Package, token: str) -> None:
        seat = self._seats[slot]
        assert self._backend is not None
        # Watch the file even if it cannot be read: the user may correct it.
        seat.files = frozenset({Path(seat.who)})
        try:
            with unwrapped():
                # Leave the other players out of the plan: their errors do not concern this seat.
                words = [seat.who if other is seat else HUMAN for other in self._seats]
                plan = self._plan(package, words)
                planned = plan.seats[slot]
                assert planned.runnable is not None
                seat.files = _files_of(planned, package)
                async with open_player(
                    planned.runnable,
                    planned.own,
                    slot=slot,
                    url=self._controls.socket(f"{SIT}?{seat_query(slot, token)}"),
                    backend=self._backend,
                    seed=plan.player_seed(slot),
                    secret_env=planned.secret_env,
                    stop_grace=_GRACE,
                ) as unit:
                    self._report(seat, "playing")
                    await follow_log(unit, partial(self._log, f"seat {slot}"))
                    self._report(seat, str(await unit.wait()))
        except CoworldError as error:
            self._log(f"seat {slot}", error.message)
            self._report(seat, "failed")

    def _report(self, seat: _SeatState, status: str) -> None:
        seat.status = status
        self._tell()

    # --- state and logs

    def _show(self, game: OpenGame) -> None:
        for slot, seat in enumerate(self._seats):
            seat.page = game.links.players[slot]
        self._now = replace(self._now, status="playing", viewer=game.links.viewer)
        self._tokens = game.tokens
        self._tell()

    async def _ended(self, unit: Unit, ended: Exit | None, message: str) -> None:
        if ended is None or not ended.ok:
            self._fail(*_describe_failure(await unit.log_tail(), message, self._directory))
            return
        scores = await read_scores(unit)
        self._now = replace(self._now, status="over", scores=scores)
        self._tell()

    def _fail(self, message: str, detail: str, place: str = "") -> None:
        self._now = replace(
            self._now, status="failed", viewer=None, problem={"text": message, "detail": detail, "place": place}
        )
        for seat in self._seats:
            seat.page, seat.status = None, ""
            if seat.scope is not None:
                seat.scope.cancel()
        self._relay.close()
        self._log("dev", f"{place}: {message}" if place else message)
        self._tell()

    def _log(self, who: str, text: str) -> None:
        self._controls.log({"type": "log", "who": who, "text": text})

    def _tell(self) -> None:
        now = self._now
        seats = [
            {
                "name": seat.name,
                "who": seat.who,
                "bot": seat.bot,
                "status": seat.status,
                "page": self._page(slot),
                "muted": self._relay.seat(slot).muted,
                "late": self._relay.seat(slot).delay,
            }
            for slot, seat in enumerate(self._seats)
        ]
        self._controls.show({"type": "state", **vars(now), "seed": self._seed, "seats": seats})

    def _page(self, slot: int) -> str | None:
        """Return the address of a seat's page, which can play only if the seat's occupant is a person."""
        seat = self._seats[slot]
        if seat.page is None:
            return None
        path = SIT if seat.who == HUMAN else WATCH
        address = self._controls.socket(f"{path}?{seat_query(slot, self._tokens[slot])}")
        return f"{seat.page}&address={quote(address, safe='')}"


def _obey(dev: Dev, command: dict[str, Any]) -> None:
    """Carry out a page's command; ignores invalid ones."""
    slot = command.get("slot")
    if isinstance(slot, int) and 0 <= slot < dev.seats:
        _obey_about(dev, slot, command)
        return
    match command:
        case {"do": "restart", "new_seed": bool(new)}:
            dev.restart(new_seed=new)
        case {"do": "variant", "id": str(variant)}:
            dev.restart(variant=variant)
        case _:
            pass


def _obey_about(dev: Dev, slot: int, command: dict[str, Any]) -> None:
    match command:
        case {"do": "sit", "who": str(who)}:
            dev.sit(slot, who)
        case {"do": "mute", "on": bool(on)}:
            dev.mute(slot, on)
        case {"do": "late", "seconds": int(seconds) | float(seconds)} if 0 <= seconds <= _MOST_LATE:
            dev.delay(slot, seconds)
        case {"do": "drop"}:
            dev.drop(slot)
        case _:
            pass


def _choices(plan: EpisodePlan, directory: Path) -> list[str]:
    """List who can take a seat: a person, the bundled players, and the package's other player files."""
    players = plan.manifest.player
    bundled = {Path(word).name for player in players for word in player.run}
    files = [str(path) for path in find_players(directory) if path.name not in bundled]
    return [HUMAN, *(player.id for player in players), *files]


def _files_of(seat: Seat, package: Package) -> frozenset[Path]:
    """Return the files that a seat's player runs from, as far as they are known."""
    if seat.own is not None:
        root = seat.own.path if seat.own.path.is_dir() else seat.own.path.parent
        return frozenset(root / name for name in seat.own.files)
    assert seat.runnable is not None
    words = (package.contexts[seat.runnable.image] / word for word in seat.runnable.run)
    return frozenset(path for path in words if path.is_file())


def _describe_failure(tail: str, message: str, directory: Path) -> tuple[str, str, str]:
    """Describe a failure from the end of a program's log: in one line, in full, and as `file:line` if known."""
    root = directory.resolve()
    lines = [line.rstrip() for line in tail.splitlines() if line.strip()]
    for index, line in enumerate(lines):
        if (match := _POINTED.fullmatch(line)) and (root / match["file"]).is_file():
            return match["problem"], "\n".join(lines[index : index + 3]), f"{match['file']}:{match['line']}"
    mine: list[tuple[int, str]] = []
    for index, line in enumerate(lines):
        if (match := _PLACE.search(line)) and (path := Path(match["file"]).resolve()).is_relative_to(root):
            mine.append((index, f"{path.relative_to(root)}:{match['line']}"))
    shown = lines[mine[0][0] :] if mine else lines
    return (lines[-1].strip() if lines else message), "\n".join(shown[-_SHOWN_LINES:]), mine[-1][1] if mine else ""


@asynccontextmanager
async def open_dev(
    directory: Path,
    *,
    variant: str | None = None,
    players: Sequence[str] = (),
    seed: int | None = None,
    config: Mapping[str, Any] | None = None,
    port: int = 0,
) -> AsyncGenerator[Dev]:
    """Play the user's game in a page, starting again whenever one of its files is saved, until the block ends.

    The game and its players run as local processes. The page shows every seat, the spectators' view and the logs. It
    lets people take seats in mid-game, and injects faults.

    Args:
        directory: The package: a directory with a manifest or its template.
        variant: Id of the variant; None: the first.
        players: The players, as for `plan_episode`; none: a person in seat 0, and the package's own players.
        seed: The game's seed, if the game takes one; None: a random one.
        config: Changes to the game config, as for `plan_episode`; they hold for every game that is played.
        port: Port of the page on the loopback interface; 0: any free one.

    Yields:
        The running `Dev`. The first game may not have started yet.

    Raises:
        UsageError: There is no such package, it cannot run as local processes, its config has no such field, or the
            port is taken.
        ManifestError: The manifest has errors, or the game's schema does not allow the changed config.
    """
    package = await resolve_package(directory)
    local_backend(package)
    changes = dict(config or {})
    first = variant or package.manifest.variants[0].id
    plan_episode(package, variant=first, players=players, config=changes)
    place = package.directory or directory
    relay = Relay()
    with _listener(port) as listener:
        controls = DevControls(f"127.0.0.1:{listener.getsockname()[1]}", secrets.token_urlsafe(16))
        dev = Dev(
            place.absolute(),
            relay=relay,
            controls=controls,
            variant=variant,
            players=players,
            seed=seed,
            config=changes,
        )
        async with open_page_server(controls, relay, partial(_obey, dev), listener=listener), nursery() as tasks:
            tasks.start_soon(dev.run)
            try:
                yield dev
            finally:
                relay.close()


def _listener(port: int) -> socket.socket:
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise UsageError(f"Cannot listen on port {port}: {error.strerror or error}.", code="port_taken") from None
