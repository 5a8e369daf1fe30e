"""Secrets of Coworlds."""

from __future__ import annotations

from coworld_core.api import Secret

from ..pages import AsyncPager
from ..transport._connection import path
from ..transport._replies import read
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

    def list(self, coworld: str, *, timeout: float | None = None) -> AsyncPager[Secret]:
        """List the secrets of a Coworld: their names and sizes, never their values.

        Args:
            coworld: Name of the Coworld.
            timeout: Seconds for each attempt.
        """
        return self._list(Secret, path("/v2/coworlds/secrets/{}", coworld), whole=True, timeout=timeout)

    async def delete(self, coworld: str, name: str, *, timeout: float | None = None) -> Secret:
        """Delete a secret, and return its description.

        Raises:
            NotFound: If there is no such secret.
        """
        target = path("/v2/coworlds/secrets/{}/{}", coworld, name)
        return read(Secret, await self._connection.call("DELETE", target, timeout=timeout))
