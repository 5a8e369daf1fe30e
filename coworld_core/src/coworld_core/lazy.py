"""Import a package's names on first use, so that importing the package itself costs next to nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_names", "load_library"]


def lazy_names(
    package: str, homes: Mapping[str, tuple[str, ...]]
) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Return a package's `__all__`, `__getattr__` and `__dir__` (PEP 562).

    ::

        if TYPE_CHECKING:
            from .events import EventBus as EventBus
            from .events import EventLog as EventLog
        else:
            __all__, __getattr__, __dir__ = lazy_names(__name__, {".events": ("EventBus", "EventLog")})

    Args:
        package: The package's `__name__`.
        homes: The package's public names, by the module that defines them. Type checkers read the imports above
            instead, which must be the same.
    """
    home_of = {name: home for home, names in homes.items() for name in names}
    listed = sorted(home_of)

    def load(name: str) -> object:
        if (home := home_of.get(name)) is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(home, package), name)
        # Later look-ups find it without this function.
        setattr(sys.modules[package], name, value)
        return value

    # `import *` must not replace the importing module's own `__version__`.
    return [name for name in listed if not name.startswith("__")], load, lambda: listed


def load_library(name: str, hint: str) -> Any:
    """Import a module of an optional library.

    Args:
        name: The module.
        hint: What to do if it is not installed.

    Raises:
        EnvironmentFault: The library is not installed (`not_installed`).
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if not name.startswith(str(error.name)):
            raise
        from .errors import EnvironmentFault

        library = name.partition(".")[0]
        raise EnvironmentFault(f"{library} is not installed.", code="not_installed", hint=hint) from error
