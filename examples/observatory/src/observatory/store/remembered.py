"""A cache of rows shared by requests, so that a frequently read list is not loaded again each time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from sqlalchemy.orm import InstrumentedAttribute

__all__ = ["Remembered"]

_Row = TypeVar("_Row")


class Remembered(Generic[_Row]):
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
        self._most = most
        self._rows: OrderedDict[tuple[Any, ...], _Row] = OrderedDict()

    async def rows(
        self, versions: Sequence[tuple[Any, ...]], load: Callable[[list[str]], Awaitable[Sequence[_Row]]]
    ) -> dict[str, _Row]:
        """Rows by id; those that no longer exist are left out.

        Args:
            versions: The current values of ``columns`` for each row.
            load: Loads the rows with the given ids.
        """
        known = {version[0]: self._rows[version] for version in versions if version in self._rows}
        for version in versions:
            if version[0] in known:
                self._rows.move_to_end(version)
        missing = [version[0] for version in versions if version[0] not in known]
        loaded = await load(missing) if missing else ()
        for row in loaded:
            # A row may have changed since its version was read.
            version = tuple(getattr(row, name) for name in self._names)
            known[version[0]] = self._rows[version] = row
        while len(self._rows) > self._most:
            self._rows.popitem(last=False)
        return known
