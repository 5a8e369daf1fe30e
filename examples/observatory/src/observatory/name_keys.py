"""Names that mean the same, and names that look the same."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable

__all__ = ["look_alike", "name_key"]

_LEFT_OUT = ("Cc", "Cf", "Zs")
"""Categories of characters that do not show, and of spaces."""


def name_key(name: str) -> str:
    """What a Coworld's name is known by: case does not matter, and `-` is `_`."""
    return name.strip().casefold().replace("-", "_")


def look_alike(name: str, others: Iterable[str]) -> str | None:
    """The first of some names that a person may take for a name; None if there is none.

    Names are compared in the form that Unicode calls NFKD, without accents, case, spaces and hyphens, and with equal
    characters for those that Unicode lists as confusable: a Cyrillic and a Latin letter, `O` and `0`, `I`, `l` and `1`.
    """
    look = _look(name)
    return next((other for other in others if _look(other) == look), None)


def _look(name: str) -> str:
    return "".join(
        min(_prototype(one) for one in {character, *character.casefold(), *character.upper()})
        for character in unicodedata.normalize("NFKD", name)
        if unicodedata.category(character) not in _LEFT_OUT
        and not "\u0300" <= character <= "\u036f"
        and character not in "-_."
    )


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
