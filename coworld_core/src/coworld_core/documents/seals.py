"""Seals of documents: a digest over their canonical form, and a signature, both of which are among their fields."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final, Protocol

from pydantic import Field

from .canonical_json import canonical_json, json_digest
from .records import Record

__all__ = ["ED25519", "Signature", "Signer", "key_id_of", "seal_digest", "sealed_bytes", "written_as"]

ED25519: Final = "ed25519"
"""The only algorithm of signatures."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s"{}\[\],:]+')


class Signature(Record):
    """A signature over a document without its fields for digest and signature, in canonical JSON."""

    algorithm: str = Field(description="ed25519.")
    public_key: str = Field(description="The public key, 32 bytes in hex.")
    value: str = Field(description="The signature, 64 bytes in hex.")


class Signer(Protocol):
    """A private key."""

    @property
    def public_key(self) -> bytes:
        """The public key, 32 bytes."""
        ...

    def sign(self, data: bytes) -> bytes:
        """Return the ed25519 signature of data, 64 bytes."""
        ...


def key_id_of(public_key: bytes) -> str:
    """Return the id of a public key: its SHA-256 in hex."""
    return hashlib.sha256(public_key).hexdigest()


def _sealed(document: Mapping[str, Any], digest: str) -> dict[str, Any]:
    """The fields that a seal is about; also those that only later versions know."""
    return {key: value for key, value in document.items() if key not in (digest, "signature")}


def seal_digest(document: Mapping[str, Any], digest: str) -> str:
    """Return what the digest of a document has to be.

    Args:
        document: Its JSON.
        digest: The name of the field that has the digest.
    """
    return f"sha256:{json_digest(_sealed(document, digest))}"


def sealed_bytes(what: str, document: Mapping[str, Any], digest: str) -> bytes:
    """Return what a signature is over.

    Args:
        what: The kind of document, which the bytes begin with: a signature of another kind is then not one of this.
        document: Its JSON.
        digest: The name of the field that has the digest.
    """
    return f"coworld {what}\n".encode() + canonical_json(_sealed(document, digest))


def written_as(text: str, value: object) -> bool:
    """Whether the JSON of a document is laid out as records are written, which no digest of its content tells."""
    return _TOKEN.sub("0", text) == _TOKEN.sub("0", f"{json.dumps(value, indent=2)}\n")
