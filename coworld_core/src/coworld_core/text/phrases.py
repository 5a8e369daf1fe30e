"""Format names and counts for sentences, and guess what a misspelt name was meant to be."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["closest", "listed", "plural"]


def listed(names: Iterable[str], *, limit: int = 12, word: str = "and") -> str:
    """Join names as in a sentence, `a, b and c`; at most `limit` names of at most 80 printable characters each."""
    known = list(names)
    shown = [_shortened(name) for name in known[:limit]]
    if len(known) > limit:
        return f"{', '.join(shown)}, … ({len(known)} in all)"
    return f"{', '.join(shown[:-1])} {word} {shown[-1]}" if len(shown) > 1 else "".join(shown)


def closest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known name that was probably meant, or None. Ignores case, hyphens, underscores and spaces.

    Args:
        name: The name as written; one of more than 80 characters matches nothing.
        known: The names that could have been meant.
        cutoff: Minimum similarity, from 0 to 1, where 1 means equal.
    """
    import difflib

    if len(name) > 80:
        return None
    folded: dict[str, str] = {}
    for candidate in known:
        folded.setdefault(_folded(candidate), candidate)
    close = difflib.get_close_matches(_folded(name), folded, n=1, cutoff=cutoff)
    return folded[close[0]] if close else None


def plural(count: int, noun: str) -> str:
    """A count with its noun: `1 episode`, `2 episodes`."""
    return f"{count} {noun if count == 1 else noun + 's'}"


def _shortened(name: str) -> str:
    text = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in name)
    return text if len(text) <= 80 else f"{text[:79]}…"


def _folded(word: str) -> str:
    return word.casefold().replace("-", "").replace("_", "").replace(" ", "")
