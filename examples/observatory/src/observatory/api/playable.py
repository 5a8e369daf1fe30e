"""Refuses uploads and submissions that nothing on this platform can run."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from coworld_core.errors import CapabilityError

from ..errors import conflict, explained
from ..store.models import Image, PolicyVersion
from ..store.player_files import holds_player
from ..work.executor import sole_admission
from .routing import Call

__all__ = ["require_image_runs", "require_version_runs"]


async def require_image_runs(call: Call, name: str) -> None:
    """Refuse an image before it is pushed if no image of that name runs here.

    Raises:
        Refusal: 409 with the reason and what to do instead (code `not_declared`).
    """
    if (admission := await sole_admission(call.services, call.db)) is not None:
        with _refused():
            admission.require_image(name)


async def require_version_runs(call: Call, version: PolicyVersion, image: Image, *, is_played: bool) -> None:
    """Refuse a policy version if it does not run here.

    Args:
        call: The request.
        version: The version.
        image: Its image or files.
        is_played: Whether it is to be played now, with its secrets: a program may be declared without variables.

    Raises:
        Refusal: 409 with the reason and what to do instead (code `not_declared`).
    """
    from ..work.plan import policy_runnable

    admission = await sole_admission(call.services, call.db)
    if admission is None:
        return
    with _refused():
        if await holds_player(call.db, image):
            admission.require_files(image.name)
            return
        secrets = await call.services.vault.policy_env(call.db, version.secret_env_id if is_played else None)
        await admission.admit(call.db, policy_runnable(version), owner=version.user_id, secrets=secrets)


@contextmanager
def _refused() -> Generator[None]:
    try:
        yield
    except CapabilityError as error:
        raise conflict(explained(error), code=error.code) from error
