"""The canonical form of a JSON value, which digests and signatures are over."""

from __future__ import annotations

import hashlib
import json

__all__ = ["canonical_json", "json_digest"]


def canonical_json(value: object) -> bytes:
    """Return a JSON value with sorted keys, without spaces, as UTF-8."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def json_digest(value: object) -> str:
    """Return the SHA-256 of a JSON value's canonical form, in hex."""
    return hashlib.sha256(canonical_json(value)).hexdigest()
