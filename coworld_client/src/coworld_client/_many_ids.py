"""Ids for calls that take several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from coworld_core.api import check_id, id_kind
from coworld_core.errors import UsageError

__all__ = ["MAX_IDS", "many_ids"]

MAX_IDS = 50
"""Most ids that one call takes."""


def many_ids(ids: str | Sequence[str]) -> tuple[str, ...]:
    """Validate the ids for a call that takes several, and remove duplicates.

    Raises:
        UsageError: There are none or more than 50, or they are not all experience requests or all episode requests.
    """
    unique = tuple(dict.fromkeys((ids,) if isinstance(ids, str) else ids))
    if not 1 <= len(unique) <= MAX_IDS:
        raise UsageError(f"1 to {MAX_IDS} ids are taken at once, not {len(unique)}.", code="bad_ids")
    kind = id_kind(unique[0])
    if kind not in ("experience request", "episode request"):
        check_id(unique[0], ("experience request", "episode request"))
    for other in unique:
        check_id(other, cast("str", kind))
    return unique
