"""Secrets: private files that only the Observatory's own user can read, and no answer ever shows."""

from __future__ import annotations

import json
from pathlib import Path

import anyio

from .settings import prepare_directory, write_private

__all__ = ["Vault"]


class Vault:
    """A directory of secrets, by id.

    Args:
        directory: Where they are kept.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = prepare_directory(directory)

    async def put(self, kind: str, name: str, value: bytes) -> None:
        """Keep a secret, in the place of one of the same name."""
        await anyio.to_thread.run_sync(write_private, self._path(kind, name), value)

    async def get(self, kind: str, name: str) -> bytes:
        """The secret.

        Raises:
            FileNotFoundError: When there is none.
        """
        return await anyio.to_thread.run_sync(self._path(kind, name).read_bytes)

    async def delete(self, kind: str, name: str) -> None:
        """Forget a secret; one that is not there is forgotten already."""
        await anyio.Path(self._path(kind, name)).unlink(missing_ok=True)

    async def policy_env(self, secret_env_id: str) -> dict[str, str]:
        """The secret environment variables of a policy version, for its own seat and nobody else.

        Raises:
            FileNotFoundError: When they are not there.
        """
        values: dict[str, str] = json.loads(await self.get("policy-env", secret_env_id))
        return values

    def _path(self, kind: str, name: str) -> Path:
        # both are ours: a word of this program, and the id of a row
        return self._directory / kind / name
