"""Packages whose names are imported when they are first used, so that importing the package costs next to nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

__all__ = ["lazy_names"]


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of such a package (PEP 562).

    ::

        if TYPE_CHECKING:
            from .events import EventBus

        __all__ = ["EventBus"]
        __getattr__, __dir__ = lazy_names(__name__, {"events": ("EventBus",)})

    Args:
        package: The package's ``__name__``.
        homes: Public names by the module of the package that they live in.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def load(name: str) -> object:
        if (home := home_of.get(name)) is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(f".{home}", package), name)
        # from now on it is found without us
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted(home_of)

    return load, names
