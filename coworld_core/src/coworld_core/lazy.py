"""Import a package's names on first use, so that importing the package itself costs next to nothing."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, cast

from lazy_loader import attach_stub

__all__ = ["lazy_names", "load_library"]


def lazy_names(package: str, file: str) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Return a package's `__all__`, `__getattr__` and `__dir__` (PEP 562).

    ::

        __all__, __getattr__, __dir__ = lazy_names(__name__, __file__)

    The names are those that its stub imports (`__init__.pyi`), which type checkers read, too.

    Args:
        package: The package's `__name__`.
        file: Its `__file__`.
    """
    load, _, names = cast("tuple[Callable[[str], object], object, list[str]]", attach_stub(package, file))
    # `import *` must not replace the importing module's own `__version__`
    return [name for name in names if not name.startswith("__")], load, lambda: names


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
