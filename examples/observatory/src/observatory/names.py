"""The names that people give: what one may consist of, which mean the same, and which look the same.

Accounts, players, policies, Coworlds and leagues have such a name. It is checked when it is first used; names that were
kept before stay as they are.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import NewType

from coworld_core.errors import CoworldError

__all__ = ["Name", "NameRefused", "look_alike", "name_key", "new_name", "require_distinct"]

Name = NewType("Name", str)
"""A name in the form that Unicode calls NFKC, trimmed, all of whose characters show, in one script."""

_LONGEST = 100
_MOST_MARKS = 3
"""Marks on one letter; with more, they cover the lines above and below."""
_LEFT_OUT = ("Cc", "Cf", "Zs", "Pc", "Pd")
"""Categories of characters that do not show, and of spaces, hyphens and underscores."""
_NO_SCRIPT = ("COMMON", "INHERITED")
_TOGETHER = (
    {"LATIN", "HAN", "HIRAGANA", "KATAKANA"},
    {"LATIN", "HAN", "HANGUL"},
    {"LATIN", "HAN", "BOPOMOFO"},
)
"""Scripts that may be mixed: those of Unicode's level "highly restrictive" (UTS 39)."""
_HIDDEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters, marks and symbols that do not show."""


class NameRefused(CoworldError):
    """A new name cannot be used: code `bad_name`, or `name_taken` if it can be taken for another."""

    kind = "usage"
    default_code = "bad_name"


def new_name(text: str) -> Name:
    """Check a name that was not used before.

    Returns:
        Its normal form, which is what to keep.

    Raises:
        NameRefused: It is empty or longer than 100 characters, has a character that does not show, or mixes scripts
            (code `bad_name`).
    """
    name = unicodedata.normalize("NFKC", text).strip()
    if not 0 < len(name) <= _LONGEST:
        said = f"The name has {len(name)} characters." if name else "The name is empty."
        raise NameRefused(said, hint=f"Choose one of 1 to {_LONGEST} characters.")
    for character in name:
        if not character.isprintable() or _HIDDEN.match(character):
            raise NameRefused(
                f"The name {_quoted(name)} has a character that does not show: {_spelled(character)}.",
                hint="Leave it out.",
            )
    _check_marks(name)
    _check_scripts(name)
    if not _look(name):
        raise NameRefused(f"The name {_quoted(name)} has only punctuation.", hint="Add a letter or a digit.")
    return Name(name)


def name_key(name: str) -> str:
    """What a Coworld's name is known by: case does not matter, and `-` is `_`."""
    return name.strip().casefold().replace("-", "_")


def look_alike(name: str, others: Iterable[str]) -> str | None:
    """The first of some names that a person may take for a name; None if there is none.

    Names are compared in the form that Unicode calls NFKD, without accents, case, spaces and hyphens, and with equal
    characters for those that Unicode lists as confusable: a Cyrillic and a Latin letter, `O` and `0`, `I`, `l` and `1`,
    `m` and `rn`.
    """
    look = _look(name)
    return next((other for other in others if _look(other) == look), None)


def require_distinct(name: Name, others: Iterable[str], said: str = "{!r}") -> None:
    """Refuse a new name that a person may take for another.

    Args:
        name: The new name.
        others: The names that there are.
        said: How to name the other one in the message.

    Raises:
        NameRefused: It looks like one of them (code `name_taken`).
    """
    if (other := look_alike(name, others)) is not None:
        raise NameRefused(
            f"{name!r} can be taken for {said.format(other)}.", code="name_taken", hint="Choose another name."
        )


def _check_marks(name: str) -> None:
    marks = _MOST_MARKS
    for character in name:
        marks = marks + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        if marks > _MOST_MARKS:
            raise NameRefused(
                f"The name {_quoted(name)} has a mark without a letter, or too many on one: {_spelled(character)}.",
                hint="Leave it out.",
            )


def _check_scripts(name: str) -> None:
    scripts = Counter(script for script in map(_script, name) if script not in _NO_SCRIPT)
    if len(scripts) < 2 or any(scripts.keys() <= together for together in _TOGETHER):
        return
    rare = min(scripts, key=scripts.__getitem__)
    odd = next(character for character in name if _script(character) == rare)
    raise NameRefused(
        f"The name {_quoted(name)} mixes the scripts {' and '.join(map(str.capitalize, scripts))}: {_spelled(odd)}.",
        hint="Write it in one script.",
    )


def _quoted(name: str) -> str:
    """A name within a message, without what moves a cursor or hides."""
    return _HIDDEN.sub(lambda found: found[0].encode("ascii", "backslashreplace").decode(), repr(name))


def _spelled(character: str) -> str:
    other = "CONTROL CHARACTER" if unicodedata.category(character) == "Cc" else "UNASSIGNED CHARACTER"
    return f"U+{ord(character):04X} {unicodedata.name(character, other)}"


@functools.lru_cache(maxsize=1 << 16)
def _look(name: str) -> str:
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", name).casefold())
    shown = (
        min(_prototype(one) for one in {character, *character.upper()})
        for character in "".join(map(_spread, folded))
        if unicodedata.category(character) not in _LEFT_OUT and not _is_accent(character)
    )
    return "".join(character for character in shown if character not in "-_.")


def _is_accent(character: str) -> bool:
    # Marks of one script are letters of it
    return unicodedata.category(character) in ("Mn", "Me") and (
        _script(character) == "INHERITED" or bool(_HIDDEN.match(character))
    )


@functools.cache
def _spread(character: str) -> str:
    """The letters that look like one: `rn` for `m`."""
    return next((one for one in _listed(character) if len(one) > 1 and one.isascii() and one.isalpha()), character)


@functools.cache
def _prototype(character: str) -> str:
    """The first of all characters that look like one."""
    same = _listed(character)
    # A character that others look like has them all listed; each of those has it alone.
    group = {character, *same, *(_listed(same[0]) if len(same) == 1 else ())}
    return min(one for one in group if len(one) == 1)


def _listed(character: str) -> list[str]:
    # A megabyte of data, which few commands need.
    from confusable_homoglyphs.confusables import confusables_data  # pyright: ignore[reportMissingTypeStubs]

    table: dict[str, list[dict[str, str]]] = confusables_data
    return [entry["c"].strip("\u200e") for entry in table.get(character, ())]


@functools.cache
def _script(character: str) -> str:
    from confusable_homoglyphs import categories  # pyright: ignore[reportMissingTypeStubs]

    return str(categories.alias(character))  # pyright: ignore[reportUnknownMemberType]
