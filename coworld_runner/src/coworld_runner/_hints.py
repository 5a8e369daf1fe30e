"""Words for hints: what was probably meant, and what there is."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["did_you_mean", "listed"]


def listed(names: Iterable[str], *, limit: int = 12, word: str = "and") -> str:
    """Names as an enumeration, ``a, b and c``; at most ``limit`` of them."""
    known = list(names)
    if len(known) > limit:
        return f"{', '.join(known[:limit])}, … ({len(known)} in all)"
    return f"{', '.join(known[:-1])} {word} {known[-1]}" if len(known) > 1 else "".join(known)


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, or None."""
    folded: dict[str, str] = {}
    for candidate in known:
        folded.setdefault(candidate.casefold(), candidate)
    close = difflib.get_close_matches(name[:80].casefold(), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else None
