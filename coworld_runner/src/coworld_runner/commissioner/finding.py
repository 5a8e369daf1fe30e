"""Finds the commissioner that a user names."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from coworld_core.errors import UsageError
from coworld_core.hints import Hint
from coworld_core.manifest.models import Manifest, Runnable
from coworld_core.wording import closest, listed

from ..package.resolving import Package
from ..players import player_host

__all__ = ["FoundCommissioner", "declared_commissioner", "find_commissioner"]


@dataclass(frozen=True, kw_only=True)
class FoundCommissioner:
    """A commissioner, and how to run it."""

    name: str
    """The name it was requested by; its id if it is in the manifest."""
    runnable: Runnable


def declared_commissioner(manifest: Manifest, id: str) -> FoundCommissioner:
    """Return the commissioner of a manifest with this id.

    Raises:
        UsageError: Code ``unknown_commissioner``: there is none.
    """
    for entry in manifest.commissioner:
        if entry.id == id:
            return FoundCommissioner(name=id, runnable=entry.as_runnable())
    known = listed(entry.id for entry in manifest.commissioner)
    raise UsageError(
        f"{manifest.game.name} has no commissioner {id!r} in its manifest.",
        code="unknown_commissioner",
        hint=f"It has {known or 'none'}.",
    )


def find_commissioner(package: Package, word: str = "") -> FoundCommissioner:
    """Find a commissioner by what the user named.

    Args:
        package: The Coworld.
        word: The id of a commissioner in the manifest; an image, which has its own command; or a command with
            arguments, which runs in an image of the package that has Python. Empty: the only one in the manifest.

    Raises:
        UsageError: ``word`` is empty and the manifest has no commissioner or several, or ``word`` matches nothing.
    """
    known = [entry.id for entry in package.manifest.commissioner]
    game = package.manifest.game.name
    if not word and len(known) != 1:
        raise UsageError(
            f"{game} has {len(known) or 'no'} commissioner{'s' if len(known) > 1 else ''} in its manifest.",
            code="unknown_commissioner",
            hint=Hint("name_commissioner", "Name one: {known}.", known=listed(known, word="or"))
            if known
            else Hint("give_commissioner", "Name a command or an image."),
        )
    name = word or known[0]
    if name in known:
        return declared_commissioner(package.manifest, name)
    try:
        argv = tuple(shlex.split(name))
    except ValueError as error:
        raise UsageError(f"{name!r} is not a command: {error}.", code="unknown_commissioner") from None
    if len(argv) > 1:
        runnable = Runnable(type="commissioner", image=player_host(package).image, run=argv)
    elif ":" in name or "/" in name or "@" in name:
        runnable = Runnable(type="commissioner", image=name)
    else:
        close = closest(name, known)
        raise UsageError(
            f"{game} has no commissioner {name!r}, and it is neither an image nor a command with arguments.",
            code="unknown_commissioner",
            hint=f"Did you mean {close!r}?" if close else f"There is {listed(known) or 'none in its manifest'}.",
        )
    return FoundCommissioner(name=name, runnable=runnable)
