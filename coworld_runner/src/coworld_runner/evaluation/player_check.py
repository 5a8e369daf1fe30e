"""Checks a player before it is uploaded: what it is made of, and how it plays a short episode."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Unpack

import anyio
import anyio.to_thread

from coworld_core.episode.record import ROWS_NAME, PlayerFault, read_rows
from coworld_core.errors import CapabilityError, CoworldError, ImageError, StartError, UsageError
from coworld_core.evaluation.battery import BOT
from coworld_core.evaluation.diagnosis import DiagnosisReport
from coworld_core.evaluation.report_base import UNMEASURED
from coworld_core.images import HOSTED_PLATFORM, runs_on
from coworld_core.text.phrases import listed, plural
from coworld_core.text.size_text import shown_size

from ..doctor import Check
from ..episode.run_options import BatchArguments
from ..errors import unwrapped
from ..package.locations import expand
from ..package.own_players.missing_imports import missing_imports
from ..package.own_players.own_player import OwnPlayer
from ..package.own_players.player_wire import to_wire
from ..package.player_names import read_players
from ..package.resolver import Package, resolve_package
from ..runs.scratch import open_scratch
from .diagnosis import play_battery
from .entrants import Entrants, settled_rules
from .evaluation_rules import EvaluationRules

__all__ = ["PlayerReport", "check_files", "check_player"]

_SLOW_SHARE = 0.5
"""A turn that takes more of the time for a move than this may be late on a slower machine."""
_SAMPLE_SECONDS = 0.05
_MAX_LOG_END = 200
"""Characters of a log's last line that are shown."""
_SECRETS = (".env", "id_rsa", "id_ed25519", "credentials", ".netrc", ".npmrc", ".pypirc")
_SECRET_SUFFIXES = (".pem", ".key", ".p12", ".pfx")


@dataclass(frozen=True, kw_only=True)
class PlayerReport:
    """What the checks of a player have found."""

    player: str
    checks: tuple[Check, ...]
    seed: int | None = None
    """The base seed of its episodes; None: none was played, or the game takes none."""

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return all(check.status != "fail" for check in self.checks)


async def check_player(
    what: Package | str | os.PathLike[str],
    player: str,
    *,
    rules: EvaluationRules | None = None,
    **run: Unpack[BatchArguments],
) -> PlayerReport:
    """Check a player: its files as for an upload, and its behaviour in the shortest episodes of a game.

    It plays itself in every seat, twice with the same seed, and then in one seat among the game's own players, as in a
    diagnosis of one block.

    Args:
        what: The Coworld: a package, or anything that `resolve_package` accepts.
        player: The player, as `read_players` reads it.
        rules: What to play; by default the certification fixture, which is short.
        run: Where and how to play. Without a `workspace`, no evidence is kept.

    Returns:
        A check for each property. A player that cannot be read or started is a check that failed, not an error.

    Raises:
        UsageError: There is no such game or variant, or it does not allow the changes to its config.
        ManifestError: The manifest has errors, or the changed config does not satisfy the game's schema.
        EnvironmentFault: The machine or the engine failed.
    """
    package = await resolve_package(what)
    rules = replace(settled_rules(rules, run), max_blocks=1, count_starved=True)
    # A wrong variant or config is not the player's fault
    Entrants(package, {}, rules, any_seats=True)
    try:
        found = read_players([player], package)
        entrants = Entrants(package, {BOT: player}, rules, any_seats=True)
    except CoworldError as error:
        return PlayerReport(player=player, checks=(_of_error("player", error),))
    own = found[0].own
    checks = [*check_files(own)] if own is not None else [_ok("player", f"{player}: {found[0].kind} player")]
    if any(check.status == "fail" and check.name == "imports" for check in checks):
        return PlayerReport(player=player, checks=tuple(checks))
    async with contextlib.AsyncExitStack() as stack:
        given = run.get("workspace")
        place = given or (await stack.enter_async_context(open_scratch())).path / "run"
        workspace = run["workspace"] = expand(os.fspath(place))
        try:
            with unwrapped():
                async with _watched_memory(own) as memory:
                    report = await play_battery(entrants, blocks=1, **run)
        except (UsageError, CapabilityError, ImageError, StartError) as error:
            return PlayerReport(player=player, checks=(*checks, _of_error("starts", error)))
        played = list(_faults(workspace, entrants.rows()[BOT].image))
    checks += _behaviour(report, played, _seconds_per_move(entrants))
    if memory.peak:
        checks.append(_ok("memory", f"up to {shown_size(memory.peak)} in each of its processes"))
    return PlayerReport(
        player=player, checks=tuple(checks), seed=report.plan.seed if report.variants[0].repeated else None
    )


def check_files(player: OwnPlayer, *, upload: bool = True) -> tuple[Check, ...]:
    """Check what a player is made of; nothing is started.

    Args:
        player: The file or directory.
        upload: Whether it is to be uploaded to a platform as files.
    """
    size = sum(map(len, player.files.values()))
    checks = [
        _ok("player", f"{player.file}: {_kind(player)}"),
        _ok("files", f"{plural(len(player.files), 'file')}, {shown_size(size)}, digest {player.digest[7:19]}"),
    ]
    if upload and player.kind == "file":
        try:
            to_wire(player)
        except CoworldError as error:
            # It still plays here, and an image of it can be uploaded
            checks[1] = _of_error("files", error, "warn" if player.dockerfile else "fail")
        if player.needs and not runs_on(player.needs, str(HOSTED_PLATFORM)):
            message = f"it is machine code for {player.needs}, and platforms run {HOSTED_PLATFORM}"
            checks.append(
                Check(name="machine", status="fail", message=message, hint=f"Build it for {HOSTED_PLATFORM}.")
            )
        if secret := [name for name in player.files if _is_secret(name)]:
            message = f"{listed(secret)} would be uploaded, and may hold a secret"
            checks.append(Check(name="secrets", status="warn", message=message, hint="Keep it outside the directory."))
    if missing := missing_imports(player):
        first = ", ".join(f"{name} ({file})" for name, file in list(missing.items())[:5])
        checks.append(
            Check(
                name="imports",
                status="fail",
                message=f"{first} cannot be imported by the Python that runs coworld",
                hint="Put the module beside the player, install it, or use a directory with a Dockerfile.",
            )
        )
    elif any(name.endswith(".py") for name in player.files) and not player.dockerfile:
        checks.append(_ok("imports", "every module that it imports is there"))
    return tuple(checks)


def _kind(player: OwnPlayer) -> str:
    if player.kind != "file":
        return f"the player {player.kind}"
    if player.dockerfile:
        return "a directory with a Dockerfile"
    shape = "a directory" if player.path.is_dir() else "a file"
    if player.needs_client:
        return f"{shape} of Python that answers observations"
    return (
        f"{shape} with a program: {' '.join(player.shown())[:80]}" if player.command else f"{shape} that the game runs"
    )


def _is_secret(name: str) -> bool:
    last = name.rpartition("/")[2].lower()
    return last in _SECRETS or last.startswith(".env.") or last.endswith(_SECRET_SUFFIXES)


def _behaviour(report: DiagnosisReport, played: list[PlayerFault | None], limit: float | None) -> Iterator[Check]:
    """What the episodes show, from the first thing that a player does to the last."""
    one = report.variants[0]
    faults = [fault for fault in played if fault is not None]
    conduct = one.conduct
    if report.stopped in UNMEASURED and not faults:
        told = "; ".join(f"{fault.error_type} ({fault.party})" for fault in report.faults) or report.stopped
        yield Check(
            name="game", status="fail", message=f"the game itself failed: {told}", hint="Certify the game first."
        )
        return
    if faults:
        first = faults[0]
        end = first.log_end if len(first.log_end) <= _MAX_LOG_END else f"{first.log_end[:_MAX_LOG_END]}…"
        ended = f"; its log ends: {end}" if end and end not in first.message else ""
        name = "connects" if first.away else "plays"
        failed = f"it failed in {len(faults)} of {plural(len(played), 'episode')}"
        message = f"{failed}: {first.message.rstrip('.')}{ended}"
        yield Check(name=name, status="fail", message=message)
        return
    yield _ok(
        "plays", f"{plural(conduct.episodes, 'episode')} of {report.plan.coworld} {report.plan.played}, to the end"
    )
    if conduct.acted is None:
        yield _ok("acts", "the game does not tell what its players do")
    else:
        turns, refused, idle = conduct.acted + (conduct.idle or 0), conduct.refused or 0, conduct.idle or 0
        if not conduct.acted and turns:
            yield Check(name="acts", status="fail", message=f"it never acted: it let all {turns} turns pass")
        else:
            yield _ok("acts", f"{conduct.acted} of {plural(turns, 'turn')}")
        if refused:
            yield Check(name="legal", status="fail", message=f"{refused} of its messages were refused as not legal")
        else:
            yield _ok("legal", "none of its messages was refused")
        slow = conduct.slow_seconds or 0.0
        times = f"half of its turns in {conduct.median_seconds or 0.0:.2g} s, 99 of 100 in {slow:.2g} s"
        of = f" of {limit:g} s for a move" if limit is not None else ""
        if idle and conduct.acted:
            message = f"it let {idle} of {plural(turns, 'turn')} pass, as it was late or passed on purpose; {times}{of}"
            yield Check(name="in-time", status="warn", message=message)
        elif limit is not None and slow > _SLOW_SHARE * limit:
            message = f"{times}, which is close to the {limit:g} s for a move"
            yield Check(name="in-time", status="warn", message=message, hint="The machine of a platform may be slower.")
        else:
            yield _ok("in-time", f"{times}{of}")
    yield _repeated(one.repeated, one.other_scores, one.other_replays)


def _repeated(episodes: int, other_scores: int, other_replays: int) -> Check:
    if not episodes:
        return _ok("same-seed", "the game takes no seed, so no episode can be repeated")
    if not other_replays and not other_scores:
        return _ok("same-seed", "the same seed gave the same game twice")
    what = "other scores" if other_scores else "the same scores, but another game"
    return Check(
        name="same-seed",
        status="warn",
        message=f"the same seed gave {what} the second time",
        hint="Draw chance only from the rng that act gets, and let nothing depend on time.",
    )


def _faults(workspace: Path, image: str) -> Iterator[PlayerFault | None]:
    """The first fault of the player in each of its episodes, or None."""
    if not (workspace / ROWS_NAME).is_file():
        return
    for row in read_rows(workspace):
        own = {slot for slot, seat in enumerate(row.slots) if seat.image == image}
        if own:
            yield next((fault for fault in row.failed_players if fault.slot in own), None)


def _seconds_per_move(entrants: Entrants) -> float | None:
    """The time for a move, in games of the kit."""
    base = entrants.base
    config = base.game_config.get("seconds_per_move")
    return float(config) if isinstance(config, int | float) and not isinstance(config, bool) else None


def _ok(name: str, message: str) -> Check:
    return Check(name=name, status="ok", message=message)


def _of_error(name: str, error: CoworldError, status: Literal["warn", "fail"] = "fail") -> Check:
    return Check(name=name, status=status, message=error.message.rstrip("."), hint=error.hint)


@dataclass
class _Memory:
    peak: int = 0
    """The most that any process of the player has had, in bytes; 0: not known."""


@asynccontextmanager
async def _watched_memory(player: OwnPlayer | None) -> AsyncGenerator[_Memory]:
    """Note how much memory the player's processes use: those below this one that its command starts."""
    memory = _Memory()
    if player is None or player.kind != "file":
        yield memory
        return

    async def watch() -> None:
        while True:
            memory.peak = max(memory.peak, await anyio.to_thread.run_sync(_most_memory, player.command))
            await anyio.sleep(_SAMPLE_SECONDS)

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        yield memory
        group.cancel_scope.cancel()


def _most_memory(command: Sequence[str]) -> int:
    import psutil

    most = 0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error, OSError):
            if _starts(command, process.cmdline()):
                most = max(most, process.memory_info().rss)
    return most


def _starts(command: Sequence[str], seen: Sequence[str]) -> bool:
    """Whether a player's command, with `{}` for its directory, has started a process with the given command line."""
    files = tuple(word.partition("{}")[2] for word in command if "{}/" in word)
    if files:
        return any(word.endswith(files) for word in seen)
    # A project has its directory as an argument; with a Dockerfile, a shell changes there and becomes what follows.
    after = command[command.index("{}") + 1 :] if "{}" in command else ()
    rest = after or [word for word in command[1:] if word != "{}"]
    return bool(rest) and all(word in seen for word in rest)
