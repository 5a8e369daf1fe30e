"""The key of an installation, and what is sealed with it: secrets, whose rows no response contains.

The key is a file outside of the database and the directory, so that a copy of them, such as a backup, reveals nothing.
All servers and workers of an installation have the same: the database has its fingerprint, and another is refused. It
is created with the database; from then on it must exist.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread
import sqlalchemy as sa
from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core.errors import EnvironmentFault

from .database import Database
from .models import InstallationKey, PolicySecretEnv

__all__ = ["Vault"]

_SHORTEST = 32
"""The fewest bytes of a key."""


class Vault:
    """What only holders of the installation's key can make or read.

    Args:
        key: The key, at least 32 bytes that nobody can guess.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._cipher = Fernet(base64.urlsafe_b64encode(self.key("secrets")))

    @classmethod
    async def open(cls, database: Database, key_file: Path) -> Vault:
        """Open the vault of a database. The first time, create its key if it is missing, and note its fingerprint.

        Args:
            database: The database, with its tables.
            key_file: The key.

        Raises:
            EnvironmentFault: The key is missing (code `key_missing`), is not that of the database (`key_wrong`), or can
                be neither read nor created (`key_unusable`).
        """
        statement = sa.select(InstallationKey.fingerprint)
        async with database.reading() as session:
            known = await session.scalar(statement)
        if known is not None and not await anyio.Path(key_file).exists():
            raise EnvironmentFault(
                f"The installation's key, {key_file}, is missing.",
                code="key_missing",
                hint="Put it back, or name it with --secret-key-file; other servers of this installation have it. "
                "Without it the secrets are lost.",
                context={"key": str(key_file)},
            )
        vault = cls(await anyio.to_thread.run_sync(_read_key, key_file))
        fingerprint = vault.key("fingerprint").hex()
        if known is None:
            async with database.writing() as session:
                known = await session.scalar(statement)
                if known is None:
                    session.add(InstallationKey(fingerprint=fingerprint))
        if known not in (None, fingerprint):
            raise EnvironmentFault(
                f"{key_file} is not the key of this installation.",
                code="key_wrong",
                hint="All servers and workers of a database have the same key: copy it from the one that began, and "
                "name it with --secret-key-file.",
                context={"key": str(key_file)},
            )
        return vault

    def key(self, purpose: str) -> bytes:
        """A key of 32 bytes for one purpose, which says nothing about those for others."""
        kdf = HKDF(algorithm=SHA256(), length=32, salt=None, info=f"observatory {purpose}".encode())
        return kdf.derive(self._key)

    def seal(self, value: bytes) -> bytes:
        """Encrypt a secret for the database."""
        return self._cipher.encrypt(value)

    def unseal(self, sealed: bytes) -> bytes:
        """Decrypt a secret.

        Raises:
            EnvironmentFault: It was changed (code `key_wrong`).
        """
        try:
            return self._cipher.decrypt(sealed)
        except InvalidToken as error:
            raise EnvironmentFault(
                "A secret cannot be decrypted: it was changed in the database.",
                code="key_wrong",
                hint="Store it again, or restore a backup.",
            ) from error

    async def policy_env(self, session: AsyncSession, secret_env_id: str | None) -> dict[str, str]:
        """The secret environment variables of a policy version, which only its own seat may get; {} without any.

        Raises:
            EnvironmentFault: They were changed (code `key_wrong`).
        """
        if secret_env_id is None:
            return {}
        sealed = await session.scalar(sa.select(PolicySecretEnv.sealed).where(PolicySecretEnv.id == secret_env_id))
        values: dict[str, str] = json.loads(self.unseal(sealed or b""))
        return values


def _read_key(path: Path) -> bytes:
    """Read the key from a file, or create it; if several processes create it at once, one of them wins."""
    try:
        if not path.exists():
            _make_key(path)
        if path.stat().st_mode & 0o077:
            # A file that a cluster mounts is as the cluster made it
            with suppress(OSError):
                path.chmod(0o600)
        key = path.read_bytes().strip()
    except OSError as error:
        reason, cause = error.strerror or str(error), error
    else:
        if len(key) >= _SHORTEST:
            return key
        reason, cause = f"it has {len(key)} bytes, and {_SHORTEST} random ones are the fewest", None
    raise EnvironmentFault(
        f"The installation's key, {path}, cannot be used: {reason}.",
        code="key_unusable",
        hint="Name a file of your own with --secret-key-file (OBSERVATORY_SECRET_KEY_FILE).",
        context={"key": str(path)},
    ) from cause


def _make_key(path: Path) -> None:
    part = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(f"{secrets.token_urlsafe(32)}\n".encode())
            file.flush()
            os.fsync(file.fileno())
        try:
            path.hardlink_to(part)
        except FileExistsError:
            return
    finally:
        part.unlink(missing_ok=True)
