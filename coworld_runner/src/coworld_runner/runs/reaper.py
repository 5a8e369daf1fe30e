"""Finding and removing leftovers of killed runners: only our own, by label, as a dry run by default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio
import anyio.to_thread

from coworld_core.errors import CoworldError

from ..backend import Backend, Found, Reaped
from .scratch import find_scratch, reap_scratch, scratch_roots

__all__ = ["Sweep", "sweep", "sweep_run"]

_SETTLE_SECONDS = 1.5
"""How long an engine may take to finish a killed runner's last requests."""
_LOOKS = 5


@dataclass(frozen=True)
class Sweep:
    """The leftovers that were found, and the attempts to remove them."""

    found: tuple[Found, ...]
    reaped: tuple[Reaped, ...] = ()
    """Empty after a dry run."""
    unavailable: tuple[str, ...] = field(default=())
    """Backends that could not be asked, and directories that are unsafe to touch, each with the reason."""

    @property
    def ok(self) -> bool:
        """Whether everything that had to be removed is gone."""
        return all(item.removed or item.found.alive for item in self.reaped)


async def sweep(
    backends: Sequence[Backend], *, run_id: str | None = None, apply: bool = False, force: bool = False
) -> Sweep:
    """Look for leftovers on all backends, and remove them when asked to.

    Units go first, the run directories last: a directory's lock shows whether its run is alive.

    Args:
        backends: Backends, not entered; one that cannot be reached is reported, not raised. If all of them run units on
            other machines, directories on this one count only if they are those of runs that were found there.
        run_id: Only this run.
        apply: Whether to remove; otherwise this is a dry run.
        force: Whether to remove what a living runner owns, too.
    """
    found: list[Found] = []
    reaped: list[Reaped] = []
    unavailable: list[str] = []
    killed = apply and any(not item.alive for item in find_scratch(run_id))
    for backend in backends:
        try:
            async with backend:
                if not apply:
                    # A backend built on another one finds the same units
                    known = {(item.kind, item.id) for item in found}
                    found.extend(item for item in await _units(backend, run_id) if (item.kind, item.id) not in known)
                    continue
                mine, gone = await _remove_units(backend, run_id, force=force, killed=killed)
                found.extend(mine)
                reaped.extend(gone)
        except CoworldError as error:
            unavailable.append(f"{backend.name}: {error.message}")
        except Exception as error:  # noqa: BLE001 - backends may be third-party, and the others must still be swept
            unavailable.append(f"{backend.name}: it failed with {type(error).__name__}: {error}")
    unavailable += [
        f"directories: {root} {why}, so nothing there is touched" for root, why in scratch_roots().items() if why
    ]
    elsewhere = run_id is None and bool(backends) and all(backend.capabilities.remote for backend in backends)
    runs = {item.run_id for item in found}
    directories = [item for item in find_scratch(run_id) if not elsewhere or item.run_id in runs]
    found.extend(directories)
    if apply:
        reaped.extend(await _remove_directories(directories, force=force))
    return Sweep(tuple(found), tuple(reaped), tuple(unavailable))


async def sweep_run(backend: Backend, run_id: str) -> tuple[Reaped, ...]:
    """Remove the leftovers of a killed run on an entered backend and on this machine."""
    killed = any(not item.alive for item in find_scratch(run_id))
    _, gone = await _remove_units(backend, run_id, force=False, killed=killed)
    return (*gone, *await _remove_directories(find_scratch(run_id), force=False))


async def _remove_directories(found: Sequence[Found], *, force: bool) -> tuple[Reaped, ...]:
    # Cancellable: a hostile program may have left more than the user waits for
    return await anyio.to_thread.run_sync(lambda: reap_scratch(found, force=force), abandon_on_cancel=True)


async def _units(backend: Backend, run_id: str | None) -> tuple[Found, ...]:
    return tuple(item for item in await backend.find(run_id) if item.kind != "directory")


async def _remove_units(
    backend: Backend, run_id: str | None, *, force: bool, killed: bool
) -> tuple[tuple[Found, ...], tuple[Reaped, ...]]:
    """Remove existing units, and those that an engine still creates for a killed runner's last requests."""
    found: dict[str, Found] = {}
    reaped: dict[str, Reaped] = {}
    expecting = killed
    for _ in range(_LOOKS):
        mine = await _units(backend, run_id)
        gone = await backend.reap(mine, force=force)
        found |= {item.id: item for item in mine}
        reaped |= {item.found.id: item for item in gone}
        if not backend.capabilities.images or not (expecting or any(item.removed for item in gone)):
            break
        expecting = False
        await anyio.sleep(_SETTLE_SECONDS)
    return tuple(found.values()), tuple(reaped.values())
