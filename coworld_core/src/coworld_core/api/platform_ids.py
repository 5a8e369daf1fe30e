"""The ids of a platform: the prefix of each kind, and helpful errors when another kind was given."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..errors import UsageError
from ..text.phrases import listed

__all__ = ["ID_PREFIXES", "check_id", "id_kind", "is_id", "is_image_id", "is_uuid", "same_coworld"]

ID_PREFIXES: dict[str, str] = {
    "coworld": "cow_",
    "counterfactual evaluation": "cfeval_",
    "division": "div_",
    "episode request": "ereq_",
    "experience request": "xreq_",
    "game": "game_",
    "image": "img_",
    "league": "league_",
    "league seed": "lseed_",
    "lobby": "lby_",
    "membership": "lpm_",
    "player": "ply_",
    "pool": "pool_",
    "reporter": "rptr_",
    "role run": "role_",
    "round": "round_",
    "submission": "sub_",
    "user": "user_",
}
"""Prefix of the ids of each kind; a UUID follows."""

_UUID_KINDS = ("policy", "policy version", "job", "episode")
"""Kinds whose id is a bare UUID."""

_OPAQUE_KINDS = ("play session", "user")
"""Kinds whose ids have no defined format."""

_ALSO = {"player": ("player_",), "coworld": ("coworld_",), "round": ("rnd_",)}
"""Other prefixes that have been seen."""

_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_IMAGE = re.compile(r"img_[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_MAX_LENGTH = 200


def is_uuid(text: str) -> bool:
    """Whether a text is a UUID in its usual form (8-4-4-4-12 hexadecimal digits)."""
    return _UUID.fullmatch(text) is not None


def is_image_id(text: str) -> bool:
    """Whether a text is the id of an uploaded image (`img_` and a UUID in lower case) rather than a reference."""
    return _IMAGE.fullmatch(text) is not None


def id_kind(text: str) -> str | None:
    """The kind of an id, judged by its prefix, or None."""
    matches = [kind for kind, prefix in ID_PREFIXES.items() if text.startswith((prefix, *_ALSO.get(kind, ())))]
    return matches[0] if matches else None


def check_id(text: str, kind: str | Sequence[str]) -> str:
    """Refuse an id that cannot be of the given kind, before asking a server.

    Args:
        text: The candidate.
        kind: A key of `ID_PREFIXES`, or `policy`, `policy version`, `job`, `episode` (UUIDs) or ``play
            session`` (anything); a sequence accepts any of them.

    Returns:
        The id, unchanged.

    Raises:
        UsageError: Code `bad_id`; the message says what was expected and, if it can be told, what the id is of.
    """
    kinds = (kind,) if isinstance(kind, str) else tuple(kind)
    shown = repr(text if len(text) <= 80 else f"{text[:79]}…")
    wanted = listed((f"{'an' if name[0] in 'aeiou' else 'a'} {name}" for name in kinds), word="or")
    if not text or len(text) > _MAX_LENGTH or text in (".", "..") or not text.isprintable():
        said = "An empty string" if not text else shown
        raise UsageError(f"{said} is not the id of {wanted}.", code="bad_id", hint=_hint(kinds))
    if any(_fits(text, name) for name in kinds):
        return text
    actual = id_kind(text)
    if actual is not None and actual not in kinds:
        article = "an" if actual[0] in "aeiou" else "a"
        message = f"{shown} is the id of {article} {actual}, where that of {wanted} is needed."
    else:
        message = f"{shown} is not the id of {wanted}."
    raise UsageError(message, code="bad_id", hint=_hint(kinds))


def is_id(text: str, kind: str | Sequence[str]) -> bool:
    """Whether a text is the id of something of a kind; otherwise it is a name, also one such as `round_robin`.

    Args:
        text: An id or a name.
        kind: As for `check_id`.

    Raises:
        UsageError: Code `bad_id`: it is the id of something else, or can be no name either.
    """
    kinds = (kind,) if isinstance(kind, str) else tuple(kind)
    other = is_uuid(text.partition("_")[2]) and id_kind(text) is not None
    name = bool(text.strip()) and len(text) <= _MAX_LENGTH and text.isprintable()
    if name and not other and not any(_fits(text, each) for each in kinds):
        return False
    check_id(text, kinds)
    return True


def same_coworld(one: str, other: str) -> bool:
    """Whether two names mean the same Coworld, treating hyphens and underscores as equal."""
    return one.replace("-", "_") == other.replace("-", "_")


def _fits(text: str, kind: str) -> bool:
    if kind in _OPAQUE_KINDS:
        return True
    if kind in _UUID_KINDS:
        return is_uuid(text)
    prefixes = (ID_PREFIXES[kind], *_ALSO.get(kind, ()))
    return any(text.startswith(prefix) and len(text) > len(prefix) for prefix in prefixes)


def _hint(kinds: Sequence[str]) -> str | None:
    forms = [f"{ID_PREFIXES[kind]}…" for kind in kinds if kind in ID_PREFIXES and kind not in _OPAQUE_KINDS]
    if any(kind in _UUID_KINDS for kind in kinds):
        forms.append("a UUID")
    return f"It looks like {listed(forms, word='or')}." if forms else None
