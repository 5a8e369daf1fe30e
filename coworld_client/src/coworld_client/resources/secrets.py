"""Secrets of Coworlds."""

from __future__ import annotations

from coworld_core.api import Secret

from ..transport._connection import path
from ..transport._replies import read, read_list
from ._base import Resource

__all__ = ["Secrets"]


class Secrets(Resource):
    """Secrets of Coworlds, to which manifests refer as ``secret://coworld/<coworld>/<secret>``."""

    async def put(self, coworld: str, name: str, value: bytes, *, timeout: float | None = None) -> Secret:
        """Store a secret, replacing its old value.

        Args:
            coworld: Name of the Coworld.
            name: Name of the secret.
            value: The secret.
            timeout: Seconds for each attempt.
        """
        headers = {"Content-Type": "application/octet-stream"}
        target = path("/v2/coworlds/secrets/{}/{}", coworld, name)
        return read(Secret, await self._connection.call("PUT", target, content=value, headers=headers, timeout=timeout))

    async def list(self, coworld: str, *, timeout: float | None = None) -> tuple[Secret, ...]:
        """The secrets of a Coworld: their names and sizes, never their values."""
        reply = await self._connection.call("GET", path("/v2/coworlds/secrets/{}", coworld), timeout=timeout)
        return read_list(Secret, reply)

    async def delete(self, coworld: str, name: str, *, timeout: float | None = None) -> Secret:
        """Delete a secret, and return its description.

        Raises:
            NotFound: If there is no such secret.
        """
        target = path("/v2/coworlds/secrets/{}/{}", coworld, name)
        return read(Secret, await self._connection.call("DELETE", target, timeout=timeout))
