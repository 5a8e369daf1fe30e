"""Secrets that a manifest's environment refers to, as `secret://coworld/<coworld>/<secret>`.

Anyone can read a manifest, so it holds only the name; the Observatory holds the value. A Coworld gets only its own
secrets, whatever its manifest names. As on the hosted platform, the program's variable holds a URI: here of a file in
the program's own directory, which exists from before its start until the end of the episode.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core.errors import UsageError

from ..names import name_key
from ..store.models import Coworld, CoworldSecret
from ..store.vault import Vault

__all__ = ["resolve_secrets"]

_SCHEME = "secret://"
_REFERENCE = re.compile(r"secret://coworld/(?P<coworld>[^/?#]+)/(?P<secret>[^/?#]+)", re.ASCII)


async def resolve_secrets(
    session: AsyncSession, vault: Vault, coworld: Coworld, environment: Mapping[str, str], *, of: str
) -> dict[str, bytes]:
    """The secrets that an environment refers to, by variable.

    Args:
        session: For reading.
        vault: Decrypts the values.
        coworld: The Coworld of the manifest.
        environment: The variables in the manifest.
        of: The program's name, for messages.

    Raises:
        UsageError: A reference names a secret that does not exist (code `secret_missing`) or belongs to another
            Coworld (`secret_foreign`), or it cannot be parsed (`bad_secret_reference`).
        EnvironmentFault: The value was changed (code `key_wrong`).
    """
    found: dict[str, bytes] = {}
    for variable, value in environment.items():
        if value.startswith(_SCHEME):
            found[variable] = await _resolve(session, vault, coworld, value, f"The variable {variable} of {of}")
    return found


async def _resolve(session: AsyncSession, vault: Vault, coworld: Coworld, reference: str, who: str) -> bytes:
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise UsageError(
            f"{who} is {reference!r}, which is not a reference to a secret.",
            code="bad_secret_reference",
            hint=f"Write secret://coworld/{coworld.name}/SECRET.",
        )
    owner, name = unquote(match["coworld"]), unquote(match["secret"])
    if name_key(owner) != coworld.name_key:
        raise UsageError(
            f"{who} refers to the secret {name!r} of {owner}, and {coworld.name} may use only its own secrets.",
            code="secret_foreign",
            hint=f"Also store it as a secret of {coworld.name}.",
        )
    sealed = await session.scalar(
        sa.select(CoworldSecret.sealed).where(CoworldSecret.name_key == coworld.name_key, CoworldSecret.name == name)
    )
    if sealed is None:
        raise UsageError(
            f"{who} refers to the secret {name!r}, and {coworld.name} has none of that name.",
            code="secret_missing",
            hint=f"The owner of {coworld.name} can store it.",
        )
    return vault.unseal(sealed)
