"""A cache of rows shared by requests, so that a frequently read list is not loaded again each time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from sqlalchemy.orm import InstrumentedAttribute

from ..bounded_mapping import BoundedMapping

__all__ = ["RowCache"]

_Row = TypeVar("_Row")


class RowCache(Generic[_Row]):
    """The rows of a table that were read last, by id and version.

    Requests share these rows after the session that loaded them has ended. They must be loaded with all attributes that
    are used later, and must not be changed.

    Args:
        key: The id column.
        version: Columns of which at least one changes with every change of a row or of what is loaded with it.
        most: The number of rows to keep.
    """

    def __init__(
        self, key: InstrumentedAttribute[str], version: Sequence[InstrumentedAttribute[Any]], *, most: int = 256
    ) -> None:
        self.columns = (key, *version)
        self._names = [column.key for column in self.columns]
        self._rows: BoundedMapping[tuple[Any, ...], _Row] = BoundedMapping(most)

    async def rows(
        self, versions: Sequence[tuple[Any, ...]], load: Callable[[list[str]], Awaitable[Sequence[_Row]]]
    ) -> dict[str, _Row]:
        """Rows by id; those that no longer exist are left out.

        Args:
            versions: The current values of ``columns`` for each row.
            load: Loads the rows with the given ids.
        """
        known = {version: self._rows[version] for version in versions if version in self._rows}
        if missing := [version[0] for version in versions if version not in known]:
            # A row may have changed since its version was read.
            known |= {tuple(getattr(row, name) for name in self._names): row for row in await load(missing)}
        for version, row in known.items():
            self._rows[version] = row
        return {version[0]: row for version, row in known.items()}
