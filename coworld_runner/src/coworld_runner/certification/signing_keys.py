"""Keys that sign certificates and records of episodes, and the check of a signature. Needs the extra `sign`."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from coworld_core.documents.seals import ED25519, Signature, key_id_of
from coworld_core.errors import EnvironmentFault, UsageError
from coworld_core.hints import Hint
from coworld_core.issues import Issue

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = [
    "PUBLIC_SUFFIX",
    "SigningKey",
    "check_signature",
    "make_key",
    "public_path",
    "read_public_keys",
    "read_signing_key",
]

PUBLIC_SUFFIX = ".pub"
"""What the name of a public key's file has after that of its private key."""
_MOST_BYTES = 1 << 20
"""The largest file of keys that is read."""
_BEGIN = b"-----BEGIN PUBLIC KEY-----"


@dataclass(frozen=True)
class SigningKey:
    """A private key."""

    _key: Ed25519PrivateKey = field(repr=False)

    @property
    def public_key(self) -> bytes:
        """The public key, 32 bytes."""
        return self._key.public_key().public_bytes_raw()

    @property
    def key_id(self) -> str:
        """The SHA-256 of the public key, in hex."""
        return key_id_of(self.public_key)

    def sign(self, data: bytes) -> bytes:
        """Return the signature of data, 64 bytes."""
        return self._key.sign(data)


def make_key(path: Path) -> SigningKey:
    """Make a pair of keys: a file that only its owner can read, and beside it the public key (`.pub`). Blocks.

    Raises:
        UsageError: One of the files exists, or cannot be written; then neither is left.
        EnvironmentFault: The extra `sign` is not installed.
    """
    _require()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    written: list[Path] = []
    try:
        for place, data, mode in ((path, private, 0o600), (public_path(path), public, 0o644)):
            opened = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            written.append(place)
            with os.fdopen(opened, "wb") as file:
                file.write(data)
    except OSError as error:
        for place in written:
            with suppress(OSError):
                place.unlink()
        raise UsageError(
            f"{error.filename or path} cannot be written: {error.strerror}.",
            code="key_exists" if isinstance(error, FileExistsError) else "key_unwritable",
            hint="Name a new file: a key is never replaced.",
            context={"path": str(path)},
        ) from error
    return SigningKey(key)


def public_path(path: Path) -> Path:
    """Return where `make_key` puts the public key of a private one."""
    return path.with_name(path.name + PUBLIC_SUFFIX)


def read_signing_key(path: Path) -> SigningKey:
    """Read a private key. Blocks.

    Raises:
        UsageError: The file is missing, holds no unencrypted ed25519 private key, or is open to others.
        EnvironmentFault: The extra `sign` is not installed.
    """
    _require()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    data, mode = _read(path)
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise _not_a_key(path, "private")
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UsageError(
            f"The key {path} can be read or changed by others, so a signature with it proves nothing.",
            code="key_exposed",
            hint=f"chmod 600 {path}; if somebody may have read it, make a new one.",
            context={"path": str(path)},
        )
    return SigningKey(key)


def read_public_keys(path: Path) -> list[bytes]:
    """Read public keys: from a file with one or several, or from the files `*.pub` of a directory. Blocks.

    Returns:
        The keys, 32 bytes each.

    Raises:
        UsageError: There is no such file, or it holds something else than ed25519 public keys.
        EnvironmentFault: The extra `sign` is not installed.
    """
    _require()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if path.is_dir():
        return [key for file in sorted(path.glob(f"*{PUBLIC_SUFFIX}")) for key in read_public_keys(file)]
    data, _ = _read(path)
    found: list[bytes] = []
    for block in data.split(_BEGIN)[1:]:
        try:
            key = serialization.load_pem_public_key(_BEGIN + block)
        except (ValueError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, Ed25519PublicKey):
            raise _not_a_key(path, "public")
        found.append(key.public_bytes_raw())
    if not found:
        raise _not_a_key(path, "public")
    return found


def _read(path: Path) -> tuple[bytes, int]:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES), os.fstat(file.fileno()).st_mode
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        raise UsageError(
            f"There is no key {path}." if missing else f"The key {path} cannot be read: {error.strerror}.",
            code="key_missing" if missing else "key_unreadable",
            hint=Hint("make_key", "make_key makes one."),
            context={"path": str(path)},
        ) from error


def _not_a_key(path: Path, kind: str) -> UsageError:
    other = f" The public key of {path.name} has the suffix {PUBLIC_SUFFIX}." if kind == "public" else ""
    return UsageError(
        f"{path} is not an ed25519 {kind} key in PEM without a password.",
        code="bad_key",
        hint=f"Check that it is the right file, and whole.{other}",
        context={"path": str(path)},
    )


def check_signature(
    signature: Signature | None, data: bytes, *, of: str, trusted: Collection[bytes] | None
) -> list[Issue]:
    """Check who signed a document.

    Args:
        signature: Its signature, if it has one.
        data: What the signature is over.
        of: The kind of document, for messages.
        trusted: Public keys of which one must have signed it; None: any may, or none.

    Raises:
        EnvironmentFault: It is signed, and the extra `sign` is not installed.
    """
    if signature is None:
        if trusted is None:
            said = "It is not signed, so nothing proves whose it is."
            return [Issue(code="unsigned", severity="warning", pointer="/signature", message=said)]
        message = "It is not signed, and a signature is required."
        return [_error("unsigned", message, "Ask for one with a signature.")]
    if signature.algorithm != ED25519:
        message = f"Its signature is of the algorithm {signature.algorithm!r}, which is not known or no longer trusted."
        return [_error("algorithm_unknown", message, f"Ask for one of {ED25519}.", "/signature/algorithm")]
    try:
        public, value = bytes.fromhex(signature.public_key), bytes.fromhex(signature.value)
    except ValueError:
        public = value = b""
    if len(public) != 32 or len(value) != 64:
        return [_error("signature_malformed", "Its signature or its public key is cut short, or is not in hex.")]
    found: list[Issue] = []
    if not _signed(public, value, data):
        found.append(_error("signature_wrong", f"Its signature is not one of this {of} by its key."))
    short = key_id_of(public)[:16]
    if trusted is not None and public not in trusted:
        message = f"The key that signed it, {short}…, is not one of those that are trusted."
        found.append(_error("key_untrusted", message, "Ask whoever signed it for the public key, in another way."))
    if found:
        return found
    if trusted is None:
        message = f"It is signed with the key {short}…; whose that is, was not checked."
        hint = Hint("give_public_key", "Give the public key that you have from whoever signed it.")
        return [Issue(code="key_unchecked", severity="warning", pointer="/signature", message=message, hint=hint)]
    return [Issue(code="signature_right", severity="info", message=f"It is signed with the trusted key {short}….")]


def _error(code: str, message: str, hint: str | None = None, pointer: str = "/signature") -> Issue:
    return Issue(code=code, pointer=pointer, message=message, hint=hint)


def _signed(public: bytes, value: bytes, data: bytes) -> bool:
    _require()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(value, data)
    except (InvalidSignature, ValueError):
        return False
    return True


def _require() -> None:
    if find_spec("cryptography") is None:
        raise EnvironmentFault(
            "Signatures need cryptography, which is not installed.",
            code="sign_missing",
            hint='Install it: pip install "coworld-runner[sign]".',
        )
