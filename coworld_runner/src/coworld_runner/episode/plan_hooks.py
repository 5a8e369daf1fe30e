"""Hooks before an episode: functions from plan to plan, found by name or given, and applied in order.

A hook is pure: it gets a copy of the plan, and nothing but what it returns counts. Each has a deadline, and its record
says what it changed. A sync function runs in a thread of its own; an async one on the event loop of the run, so it
must not block.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import inspect
import os
import re
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import cast

import anyio
import anyio.to_thread

from coworld_core.documents.findings import did_you_mean, pointer
from coworld_core.episode.hook_record import HookRecord
from coworld_core.errors import CoworldError, HookError, UsageError
from coworld_core.hints import Hint
from coworld_core.scopes import bare_names, load_file
from coworld_core.text.phrases import listed

from ..backends._plugins import entry_points_of, find_entry_point, source_of
from ..package.plan import EpisodePlan, Seat

__all__ = ["GROUP", "EpisodeHook", "Hook", "apply_hooks", "find_hooks", "hook_names"]

GROUP = "coworld.hooks"
"""The entry point group; each of its entry points is a function from plan to plan."""

Hook = Callable[[EpisodePlan], EpisodePlan | Awaitable[EpisodePlan]]
"""A function that returns the plan to play instead of the one that it gets; sync or async."""

_FILE = re.compile(r"(?P<file>.+\.py)(?::(?P<name>\w+))?")
_MOST_CHANGES = 200
"""Places in a record at most."""


@dataclass(frozen=True)
class EpisodeHook:
    """A hook that was found.

    Attributes:
        name: What records and messages call it.
        digest: SHA-256 of its source, in hex: of its whole file, or of a function that was given; empty if unknown.
        function: The function.
    """

    name: str
    digest: str
    function: Hook

    def record(self, changed: tuple[str, ...] = (), seconds: float | None = None) -> HookRecord:
        """Return what records say of it."""
        return HookRecord(name=self.name, digest=self.digest, changed=changed, seconds=seconds)


def hook_names() -> tuple[str, ...]:
    """Return the names of the installed hooks."""
    return tuple(entry_points_of(GROUP))


def find_hooks(hooks: Iterable[Hook | EpisodeHook | str | os.PathLike[str]]) -> tuple[EpisodeHook, ...]:
    """Find hooks, in order.

    Args:
        hooks: Functions; `FILE.py:NAME`, or `FILE.py` for a file with only one public function; or names of installed
            hooks (entry points of the group `coworld.hooks`).

    Raises:
        UsageError: There is no such file, function or entry point, or it cannot be loaded.
    """
    return tuple(_found(hook) for hook in hooks)


def _found(hook: Hook | EpisodeHook | str | os.PathLike[str]) -> EpisodeHook:
    if isinstance(hook, EpisodeHook):
        return hook
    if isinstance(hook, str | os.PathLike):
        word = str(cast("str | os.PathLike[str]", hook))
        match = _FILE.fullmatch(word)
        if match is not None:
            return _of_file(Path(match["file"]).expanduser(), match["name"])
        return _of_entry_point(word)
    if not callable(hook):
        raise UsageError(f"{hook!r} is not a function from plan to plan.", code="hook_broken")
    return EpisodeHook(_name_of(hook), _digest_of_function(hook), hook)


def _of_file(path: Path, name: str | None) -> EpisodeHook:
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UsageError(
            f"The hook's file {path} cannot be read: {error.strerror or error}.", code="file_not_found"
        ) from None
    try:
        module = load_file(path)
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"{path} cannot be loaded: {_describe_error(error, str(path.resolve()))}.", code="hook_broken"
        ) from error
    functions = _functions_of(module)
    if name is None:
        if len(functions) != 1:
            has = f"it has {listed(functions)}" if functions else "it has none"
            raise UsageError(
                f"{path} does not say which function is the hook: {has}.",
                code="hook_ambiguous",
                hint=f"Name it: {path}:{next(iter(functions), 'NAME')}",
            )
        name = next(iter(functions))
    function = getattr(module, name, None)
    if not callable(function):
        raise UsageError(
            f"{path} has no function {name!r}.", code="unknown_hook", hint=did_you_mean(name, list(functions))
        )
    return EpisodeHook(f"{path.name}:{name}", digest, cast("Hook", function))


def _functions_of(module: ModuleType) -> list[str]:
    """The public functions that a module defines itself, in its order."""
    return [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]


def _of_entry_point(name: str) -> EpisodeHook:
    known = entry_points_of(GROUP)
    if not known:
        raise UsageError(
            f"There is no hook {name!r}: no distribution with hooks is installed.",
            code="unknown_hook",
            hint="A file is named by its path, such as ./hooks.py or ./hooks.py:NAME.",
        )
    entry = find_entry_point(name, known, noun="hook")
    try:
        function: object = entry.load()
    except Exception as error:
        raise UsageError(
            f"The hook {name!r} of {source_of(entry)} cannot be used: {_describe_error(error)}.",
            code="hook_broken",
            hint=f"Update or uninstall {source_of(entry)}.",
        ) from error
    if not callable(function):
        raise UsageError(
            f"The hook {name!r} of {source_of(entry)} cannot be used: it is a {type(function).__name__}, and not a "
            "function.",
            code="hook_broken",
            hint=f"Update or uninstall {source_of(entry)}.",
        )
    file = inspect.getsourcefile(inspect.unwrap(function)) if inspect.isfunction(function) else None
    digest = hashlib.sha256(Path(file).read_bytes()).hexdigest() if file is not None else ""
    return EpisodeHook(name, digest, cast("Hook", function))


def _name_of(function: Hook) -> str:
    kind = function if hasattr(function, "__qualname__") else type(function)
    return bare_names(f"{kind.__module__}:{kind.__qualname__}")


def _digest_of_function(function: Hook) -> str:
    try:
        text = inspect.getsource(inspect.unwrap(function))
    except (OSError, TypeError):
        return ""
    return hashlib.sha256(text.encode()).hexdigest()


# --- applying -------------------------------------------------------------------------------------------------------


async def apply_hooks(
    plan: EpisodePlan, hooks: Sequence[EpisodeHook], *, timeout: float, same_players: bool = False
) -> EpisodePlan:
    """Return the plan that hooks make of a plan, with the record of each in `EpisodePlan.hooks`.

    Args:
        plan: The plan; it stays as it is.
        hooks: The hooks, in the order in which they are applied.
        timeout: Seconds for each.
        same_players: Whether every seat must keep its player.

    Raises:
        HookError: One of them failed, did not end in time, or returned no plan or one that cannot be played. The error
            names it.
    """
    for hook in hooks:
        begun = time.monotonic()
        made = await _returned(hook, _copy(plan), timeout)
        seconds = round(time.monotonic() - begun, 6)
        if not isinstance(made, EpisodePlan):
            raise _error(
                hook,
                f"has returned {type(made).__name__}, and not a plan" if made is not None else "has returned no plan",
                code="hook_without_plan",
                hint="It returns the plan to play; one that changes nothing returns the plan that it got.",
            )
        if same_players and _players(made) != _players(plan):
            raise _error(
                hook,
                "has changed who sits where, and in a measurement the measurement decides that",
                code="hook_changes_players",
                hint=Hint("hook_for_runs", "Use it with run_episode, run_batch or run_many."),
            )
        changed = _changes(plan, made)
        if changed and not (report := made.check_config()).ok:
            raise _error(
                hook, f"has made a plan that the game cannot play: {report.summary()}", code="hook_plan_invalid"
            )
        plan = dataclasses.replace(made, hooks=(*plan.hooks, hook.record(changed, seconds)))
    return plan


async def _returned(hook: EpisodeHook, plan: EpisodePlan, timeout: float) -> object:
    """What a hook returns.

    Raises:
        HookError: It raised, or did not end in time.
    """
    answer: object = None
    failure: BaseException | None = None
    with anyio.move_on_after(timeout) as scope:
        try:
            answer = hook.function(plan) if _is_async(hook.function) else await _called_apart(hook, plan)
            if inspect.isawaitable(answer):
                answer = await answer
        except (Exception, SystemExit) as error:  # noqa: BLE001 (a user's code may raise anything)
            failure = error
    if scope.cancelled_caught:
        raise _error(
            hook,
            f"has not ended within {timeout:g} s",
            code="hook_timeout",
            hint=Hint("hook_deadline", "Give every wait in it a limit, or it more time (hook_timeout_seconds)."),
        )
    if failure is not None:
        raise _error(
            hook, f"has failed: {_describe_error(failure, _file_of(hook.function))}", code="hook_failed"
        ) from failure
    return answer


def _is_async(function: Hook) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


async def _called_apart(hook: EpisodeHook, plan: EpisodePlan) -> object:
    """Call a hook in a thread that nothing waits for when the process ends: one that never ends cannot be stopped."""
    ended = threading.Event()
    answers: list[object] = []
    failures: list[BaseException] = []

    def call() -> None:
        try:
            answers.append(hook.function(plan))
        except BaseException as error:  # noqa: BLE001 (raised again in the run's own thread)
            failures.append(error)
        finally:
            ended.set()

    threading.Thread(target=call, name=f"hook {hook.name}", daemon=True).start()
    try:
        await anyio.to_thread.run_sync(ended.wait, abandon_on_cancel=True)
    finally:
        ended.set()
    if failures:
        raise failures[0]
    return answers[0]


def _file_of(function: Hook) -> str | None:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code.co_filename if code is not None else None


def _error(hook: EpisodeHook, what: str, *, code: str, hint: str | None = None) -> HookError:
    return HookError(
        f"The hook {hook.name} {what}. The episode was not started.",
        code=code,
        hint=hint,
        context={"hook": hook.name, "digest": hook.digest},
    )


def _describe_error(error: BaseException, file: str | None = None) -> str:
    """An error in a few words, with the line of the user's file that it came from, or else of any other."""
    if isinstance(error, CoworldError):
        return error.message.removesuffix(".")
    words = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
    frames = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in frames if frame.filename == file] or frames
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return bare_names(words) + where


# --- what changed ---------------------------------------------------------------------------------------------------


def _copy(plan: EpisodePlan) -> EpisodePlan:
    """A copy whose values may be changed in place without any effect on the plan."""
    return dataclasses.replace(
        plan,
        game_config=copy.deepcopy(dict(plan.game_config)),
        config_changes=copy.deepcopy(dict(plan.config_changes)),
        episode_tags=dict(plan.episode_tags),
        secret_files=dict(plan.secret_files),
        seats=tuple(
            dataclasses.replace(
                seat,
                runnable=seat.runnable.model_copy(deep=True) if seat.runnable is not None else None,
                secret_env=dict(seat.secret_env),
                secret_files=dict(seat.secret_files),
            )
            for seat in plan.seats
        ),
    )


def _players(plan: EpisodePlan) -> list[object]:
    return [
        (seat.image, seat.player_id, seat.runnable.run if seat.runnable is not None else None) for seat in plan.seats
    ]


def _changes(before: EpisodePlan, after: EpisodePlan) -> tuple[str, ...]:
    """JSON pointers to what differs between two plans."""
    found: list[str] = []
    _compare(_tree(before), _tree(after), (), found)
    return tuple(found[:_MOST_CHANGES])


def _tree(plan: EpisodePlan) -> dict[str, object]:
    fields = {field.name: getattr(plan, field.name) for field in dataclasses.fields(plan)}
    seats = {str(slot): _seat_tree(seat) for slot, seat in enumerate(plan.seats)}
    return {**fields, "manifest": plan.manifest.model_dump(mode="json"), "seats": seats, "hooks": None}


def _seat_tree(seat: Seat) -> dict[str, object]:
    runnable = seat.runnable.model_dump(mode="json") if seat.runnable is not None else None
    return {
        **{field.name: getattr(seat, field.name) for field in dataclasses.fields(seat)},
        "runnable": runnable,
        "own": seat.own.reference if seat.own is not None else None,
    }


def _compare(before: object, after: object, place: tuple[str, ...], found: list[str]) -> None:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        one, other = cast("Mapping[str, object]", before), cast("Mapping[str, object]", after)
        for key in dict.fromkeys([*one, *other]):
            if key in one and key in other:
                _compare(one[key], other[key], (*place, key), found)
            else:
                found.append(pointer((*place, key)))
    elif before != after:
        found.append(pointer(place))
