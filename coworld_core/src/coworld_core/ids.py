"""Names that are safe in paths, labels and container names, and secrets that cannot be guessed."""

from __future__ import annotations

import secrets

__all__ = ["MAX_ID_LENGTH", "SAFE_ID_PATTERN", "generate_tokens", "id_problem", "is_safe_id", "new_run_id"]

MAX_ID_LENGTH = 128
"""Longest id in characters."""

SAFE_ID_PATTERN = r"^[^\x00-\x20\x7f/\\:.\-]([^\x00-\x1f\x7f/\\:]*[^\x00-\x20\x7f/\\:.])?$"
"""The rule of `is_safe_id` as a regular expression for JSON Schema (length apart)."""

_MAX_FILE_NAME_BYTES = 200
"""Longest id in bytes of UTF-8; leaves room for a suffix within the 255 bytes that file systems allow."""


def id_problem(text: str) -> str | None:
    """Say why a text cannot be an id, or None when it can.

    Ids become directory names (`reports/<id>`), labels and parts of container names, so a safe id is one path
    component that reads the same everywhere: 1 to 128 printable characters, no slash, backslash or colon, not beginning
    with a dot or a hyphen, not ending with a dot, and no white space at either end.

    Args:
        text: The candidate.

    Returns:
        The reason as the end of a sentence ("... contains a slash"), or None.
    """
    if not text:
        return "is empty"
    if len(text) > MAX_ID_LENGTH or len(text.encode("utf-8", "surrogatepass")) > _MAX_FILE_NAME_BYTES:
        return f"is longer than {MAX_ID_LENGTH} characters ({_MAX_FILE_NAME_BYTES} bytes)"
    if not text.isprintable():
        return "contains a character that cannot be printed"
    for character, name in (("/", "a slash"), ("\\", "a backslash"), (":", "a colon")):
        if character in text:
            return f"contains {name}"
    if text[0] in ".-":
        return "begins with a dot or a hyphen"
    if text[-1] == ".":
        return "ends with a dot"
    if text.strip() != text:
        return "begins or ends with a space"
    return None


def is_safe_id(text: str) -> bool:
    """Whether a text may be used as one path component, label or name (see `id_problem`)."""
    return id_problem(text) is None


def new_run_id() -> str:
    """A fresh run label: 16 hexadecimal digits (8 random bytes)."""
    return secrets.token_hex(8)


def generate_tokens(count: int) -> tuple[str, ...]:
    """Fresh slot tokens, one per slot: 16 random bytes each, URL-safe base64 without padding (22 characters).

    Args:
        count: Number of slots, 0 or more.

    Raises:
        ValueError: When `count` is negative.
    """
    if count < 0:
        raise ValueError(f"count must not be negative, got {count}")
    return tuple(secrets.token_urlsafe(16) for _ in range(count))
