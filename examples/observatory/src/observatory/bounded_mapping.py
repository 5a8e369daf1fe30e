"""A mapping that keeps a bounded number of items."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

__all__ = ["BoundedMapping"]

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class BoundedMapping(OrderedDict[_Key, _Value]):
    """A mapping of the items that were set last; the one set longest ago is dropped first.

    Args:
        most: The number of items to keep.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: _Key, value: _Value) -> None:
        """Set an item, which becomes the newest, and drop the oldest if there are too many."""
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)
