"""Import a package's names on first use, so that importing the package itself costs next to nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

__all__ = ["lazy_names", "load_library"]


def lazy_names(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return a package's ``__getattr__`` and ``__dir__`` (PEP 562); ``__getattr__`` also provides ``__all__``.

    ::

        if TYPE_CHECKING:
            from .events import EventBus as EventBus

        __getattr__, __dir__ = lazy_names(__name__)

    Args:
        package: The package's ``__name__``. Its public names are those that it imports as themselves, as above, which
            also tells type checkers that they are public.
    """

    @cache
    def home_of() -> dict[str, str]:
        import re
        from importlib.util import find_spec

        loader = getattr(find_spec(package), "loader", None)
        source: str = loader.get_source(package) if loader is not None else ""
        return {name: home for home, name in re.findall(r"^ +from ([\w.]+) import (\w+) as \2$", source, re.MULTILINE)}

    def load(name: str) -> object:
        if name == "__all__":
            return names()
        if (home := home_of().get(name)) is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(home, package), name)
        # later look-ups find it without this function
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted(home_of())

    return load, names


def load_library(name: str, hint: str) -> Any:
    """Import a module of an optional library.

    Args:
        name: The module.
        hint: What to do if it is not installed.

    Raises:
        EnvironmentFault: The library is not installed (``not_installed``).
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if not name.startswith(str(error.name)):
            raise
        from .errors import EnvironmentFault

        library = name.partition(".")[0]
        raise EnvironmentFault(f"{library} is not installed.", code="not_installed", hint=hint) from error
