"""Waits until a unit is ready."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from coworld_core.episode.outcome import Exit
from coworld_core.errors import NotReadyError

from ..backend import HttpProbe, Unit
from ..runs._task_groups import nursery
from ..web.http_requests import NotHttpError, get_status

__all__ = ["LISTENS_ELSEWHERE", "wait_until_ready"]

LISTENS_ELSEWHERE = (
    "It must listen on the address and the port that it is told (COGAME_HOST, COGAME_PORT), not on fixed ones; in a "
    "container the address is 0.0.0.0."
)
"""What to do about a unit that cannot be reached where it listens."""
_TRY_SECONDS = 5.0
"""How long one request may take; a server may be slow while it starts."""
_SLOW_SECONDS = 0.25
"""A request cut short after at least this long is reported as not answered."""
_NOTHING: str = "nothing was asked yet"


async def wait_until_ready(
    unit: Unit,
    probe: HttpProbe,
    *,
    since: float,
    stranger: Callable[[], str] | None = None,
    elsewhere: Callable[[Callable[[str], None]], Awaitable[None]] | None = None,
) -> float:
    """Probe a unit until it answers 200, ends, or runs out of time.

    Args:
        unit: The unit, already started.
        probe: The request to send.
        since: When the unit was started, on the event loop's clock.
        stranger: Describes the program that answered if it was not the unit, else empty. Called once per answer.
        elsewhere: Probes instead of this function, from nearer to the unit: returns once the unit is ready, and
            reports each observation until then.

    Returns:
        Seconds from `since` to the answer.

    Raises:
        NotReadyError: The unit ended first (`context['exit']`) or ran out of time (`context['last']`).
        KeyError: The unit has no port of that name.
    """
    address = unit.endpoint(probe.port).here
    last = _NOTHING
    exit: Exit | None = None
    seconds: float | None = None

    async def ask() -> bool:
        nonlocal last
        began = anyio.current_time()
        try:
            with anyio.fail_after(_TRY_SECONDS):
                status = await get_status(address, probe.path)
        except TimeoutError:
            last = f"no answer within {_TRY_SECONDS:g} s"
            return False
        except anyio.get_cancelled_exc_class():
            waited = anyio.current_time() - began
            if waited >= _SLOW_SECONDS:
                # The earlier observation may be outdated, or the machine was only busy at the deadline
                before = f"{last}, then " if last != _NOTHING else ""
                last = f"{before}no answer within {waited:.1f} s"
            raise
        except ConnectionRefusedError:
            last = "connection refused"
            return False
        except OSError as error:
            # anyio words a refused connection in its own way
            last = "connection refused" if "All connection attempts failed" in str(error) else str(error)
            return False
        except NotHttpError as error:
            last = str(error)
            return False
        other = stranger() if stranger is not None else ""
        if other:
            last = f"status {status} from a stranger: {other}"
            return False
        last = f"status {status}"
        return status == 200

    with anyio.move_on_after(probe.timeout):
        async with nursery() as tasks:

            async def watch() -> None:
                nonlocal exit
                exit = await unit.wait()
                tasks.cancel_scope.cancel()

            def see(seen: str) -> None:
                nonlocal last
                last = seen

            tasks.start_soon(watch)
            if elsewhere is not None:
                await elsewhere(see)
            while elsewhere is None and not await ask():  # noqa: ASYNC110 - nothing reports that a server came up
                await anyio.sleep(probe.interval)
            seconds = anyio.current_time() - since
    if seconds is not None:
        return seconds
    if exit is None and (words := unit.missed(probe.port)):
        last = f"{last}; {words}"
    tail = await unit.log_tail()
    # It may have ended while its log was read, and that explains more than the time that ran out
    error = _not_ready(unit, probe, exit=exit or unit.exit, last=last, tail=tail)
    if unit.exit is not None and (hint := unit.missing_hint(tail)):
        error.hint = hint
    raise error


def _not_ready(unit: Unit, probe: HttpProbe, *, exit: Exit | None, last: str, tail: str) -> NotReadyError:
    """Build the error for a unit that ended or ran out of time."""
    context: dict[str, object] = {
        "unit": unit.name,
        "slot": unit.spec.slot,
        "exit": exit.model_dump(mode="json") if exit is not None else None,
        "last": last,
        "log_tail": tail,
    }
    if exit is not None:
        message = f"{unit.name} {exit} before it answered GET {probe.path} on port {probe.port!r}."
        if exit.ok:
            hint = "Status 0 says that its work was done: nothing in its file kept it running until the game was over."
        else:
            hint = "The end of its log says why." if tail else "It wrote no log."
    else:
        message = (
            f"{unit.name} did not answer GET {probe.path} with 200 within {probe.timeout:g} s; "
            f"last seen on {unit.endpoint(probe.port).here}: {last}."
        )
        hint = f"GET {probe.path} must answer 200 as soon as the unit can play its part."
        if "stranger" in last:
            hint = "Another program has that port; stop it, or use a port that is free."
        elif "it listens on" in last:
            hint = LISTENS_ELSEWHERE
        elif last == "connection refused":
            hint = "It must listen on the host and port that its environment names."
        elif last.startswith("status 503"):
            hint = "It says that it is not ready; give it more time, or see its log."
    return NotReadyError(message, hint=hint, context=context)
