"""Secrets: encrypted files that only the Observatory's own user can read, and that no response contains.

The key is a file outside the directory, so that a copy of the directory, such as a backup, reveals nothing. It is
created together with the directory; from then on it must exist, and must be the key that the secrets were encrypted
with.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path

import anyio
import anyio.to_thread
from cryptography.fernet import Fernet, InvalidToken

from coworld_core.errors import EnvironmentFault
from coworld_core.files import while_opening

from ..data_directory import prepare_directory, write_private

__all__ = ["Vault"]

_MARK = b"\x00observatory secret 1\n"
"""The first bytes of an encrypted file."""
_CHECK = ".key-check"
"""A file for checking the key; once it exists, all secrets are encrypted."""


class Vault:
    """A directory of secrets, by id.

    Args:
        directory: Their directory.
        key: The key that encrypts them.
    """

    def __init__(self, directory: Path, key: Fernet) -> None:
        self._directory = directory
        self._key = key

    @classmethod
    async def open(cls, directory: Path, key_file: Path) -> Vault:
        """Open the vault of a directory. The first time, create its key and encrypt existing secrets.

        Args:
            directory: The directory of the secrets.
            key_file: The key, mode 0600.

        Raises:
            UsageError: The directory cannot be used (code `bad_directory`).
            EnvironmentFault: The key is missing (code `key_missing`), is not the key of the secrets
                (`key_wrong`), or can be neither read nor created (`key_unusable`).
        """
        return await anyio.to_thread.run_sync(cls._open, directory, key_file)

    @classmethod
    def _open(cls, directory: Path, key_file: Path) -> Vault:
        prepare_directory(directory)
        check = directory / _CHECK
        with while_opening(directory):
            begun = check.exists()
            if begun and not key_file.exists():
                raise EnvironmentFault(
                    f"The key of the secrets, {key_file}, is missing.",
                    code="key_missing",
                    hint="Put it back, or name it with --key. Without it the secrets are lost: to go on without them, "
                    f"remove {directory}.",
                    context={"key": str(key_file)},
                )
            vault = cls(directory, _read_key(key_file))
            if begun:
                vault._decrypted(check, f"{key_file} is not the key that encrypted the secrets.")
            else:
                write_private(check, vault._encrypted(b"observatory"))
        return vault

    async def put(self, kind: str, name: str, value: bytes) -> None:
        """Store a secret, replacing one of the same name."""
        await anyio.to_thread.run_sync(lambda: write_private(self._path(kind, name), self._encrypted(value)))

    async def get(self, kind: str, name: str) -> bytes:
        """Read a secret.

        Raises:
            FileNotFoundError: It does not exist.
            EnvironmentFault: It was changed, or encrypted with another key (code `key_wrong`).
        """
        words = f"A secret ({kind}) cannot be decrypted: it was changed on disk, or encrypted with another key."
        return await anyio.to_thread.run_sync(self._decrypted, self._path(kind, name), words)

    async def delete(self, kind: str, name: str) -> None:
        """Delete a secret, if it exists."""
        await anyio.Path(self._path(kind, name)).unlink(missing_ok=True)

    async def policy_env(self, secret_env_id: str) -> dict[str, str]:
        """Read the secret environment variables of a policy version, which only its own seat may get.

        Raises:
            FileNotFoundError: They do not exist.
            EnvironmentFault: They were changed, or encrypted with another key (code `key_wrong`).
        """
        values: dict[str, str] = json.loads(await self.get("policy-env", secret_env_id))
        return values

    def _path(self, kind: str, name: str) -> Path:
        # Both come from this program: a fixed word, and the id of a row.
        return self._directory / kind / name

    def _encrypted(self, value: bytes) -> bytes:
        return _MARK + self._key.encrypt(value)

    def _decrypted(self, path: Path, words: str) -> bytes:
        content = path.read_bytes()
        try:
            if not content.startswith(_MARK):
                raise InvalidToken
            return self._key.decrypt(content.removeprefix(_MARK))
        except InvalidToken as error:
            raise EnvironmentFault(
                words,
                code="key_wrong",
                hint="Secrets and key belong together: put back those of the same backup, or name the key with --key.",
            ) from error


def _read_key(path: Path) -> Fernet:
    """Read the key from a file, or create it; if several processes create it at once, one of them wins."""
    try:
        if not path.exists():
            _make_key(path)
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
        return Fernet(path.read_bytes().strip())
    except ValueError as error:
        reason = "it does not contain a key"
        cause: Exception = error
    except OSError as error:
        reason, cause = error.strerror or str(error), error
    raise EnvironmentFault(
        f"The key of the secrets, {path}, cannot be used: {reason}.",
        code="key_unusable",
        hint="Name a file of your own with --key (OBSERVATORY_KEY).",
        context={"key": str(path)},
    ) from cause


def _make_key(path: Path) -> None:
    part = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(Fernet.generate_key() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            path.hardlink_to(part)
        except FileExistsError:
            return
    finally:
        part.unlink(missing_ok=True)
