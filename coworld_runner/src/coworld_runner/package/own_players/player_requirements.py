"""Checks, before anything starts, that a backend can run a player."""

from __future__ import annotations

from coworld_core.errors import CapabilityError, UsageError
from coworld_core.images import here, runs_on
from coworld_core.text.phrases import listed

from ...backend import Backend
from .own_player import OwnPlayer

__all__ = ["require_key", "require_own_player"]


def require_own_player(player: OwnPlayer, backend: Backend, *, platform: str | None) -> None:
    """Check that a backend can run a player; starts nothing.

    Args:
        player: The player.
        backend: The backend to run it on.
        platform: os/architecture of the image that runs it. None: this machine's on a backend without images; on others
            it is not checked.

    Raises:
        UsageError: The player is for another machine, has no command, or needs a library that is not installed.
        CapabilityError: The backend cannot run such a player.
    """
    can = backend.capabilities
    if player.dockerfile and can.images and not can.builds:
        raise CapabilityError(
            f"The {backend.name} backend builds no images, and {player.file} is a directory with a Dockerfile.",
            hint="Build it, push it to a registry that the backend pulls from, and name the image instead.",
            context={"backend": backend.name, "player": player.file},
        )
    if not player.command and not can.images:
        raise UsageError(
            f"{player.path}/Dockerfile has neither CMD nor ENTRYPOINT, so nothing says how to run it here.",
            code="player_not_runnable",
            hint='Add a line such as CMD ["python", "bot.py"], or a [project.scripts] to a pyproject.toml.',
        )
    if player.needs and can.remote:
        raise CapabilityError(
            f"The {backend.name} backend cannot pass executables to pods, and {player.file} is one.",
            hint="Put it into an image, push that, and name the image instead.",
            context={"backend": backend.name, "player": player.file},
        )
    where = platform or ("" if can.images else here())
    if player.needs and where and not runs_on(player.needs, where):
        raise UsageError(
            f"{player.path} is a program for {player.needs}, and it would run on {where}.",
            code="player_other_platform",
            hint=f"Build it for {where}; nothing was started.",
            context={"path": str(player.path), "needs": player.needs, "platform": where},
        )
    if player.needs_client and not can.images:
        _require_client(player)


def require_key(player: OwnPlayer) -> None:
    """Check that a language model can be asked, where its player is given no other way to it.

    Raises:
        UsageError: Neither its key nor its address is set.
    """
    if player.kind == "llm" and not player.secret_env:
        raise UsageError(
            f"Neither a key nor an address is set for {player.name}.",
            code="llm_without_key",
            hint="Set OPENAI_API_KEY, or OPENAI_BASE_URL for your own server, in the environment.",
        )


def _require_client(player: OwnPlayer) -> None:
    from importlib.util import find_spec

    missing = [name for name in ("coworld_client", "websockets") if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"{player.file} has a function act, which coworld_client.seat plays, and {listed(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not installed for the Python that runs coworld.",
            code="client_missing",
            hint='Install it there: pip install "coworld-client[seat]".',
            context={"missing": missing},
        )
