"""The login with which our own workers pull any image of the registry; it pushes nothing, and opens nothing else."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .services import Services

__all__ = ["PREFIX", "is_worker", "worker_login"]

PREFIX = "obk_"
"""What the password begins with."""

_USER = "worker"
_KEY = ("keys", "registry-pull")


async def worker_login(services: Services) -> tuple[str, str]:
    """User and password of the workers that share the data directory."""
    try:
        return _USER, (await services.vault.get(*_KEY)).decode()
    except FileNotFoundError:
        await services.vault.put(*_KEY, f"{PREFIX}{secrets.token_urlsafe(32)}".encode())
        return _USER, (await services.vault.get(*_KEY)).decode()


async def is_worker(services: Services, password: str) -> bool:
    """Whether a password is that of the workers."""
    if not password.startswith(PREFIX):
        return False
    try:
        kept = await services.vault.get(*_KEY)
    except FileNotFoundError:
        return False
    return secrets.compare_digest(kept, password.encode())
