"""Packages whose names are imported when they are first used, so that importing the package costs next to nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

__all__ = ["lazy_names", "load_library"]


def lazy_names(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of such a package (PEP 562); the first knows ``__all__``, too.

    ::

        if TYPE_CHECKING:
            from .events import EventBus as EventBus

        __getattr__, __dir__ = lazy_names(__name__)

    Args:
        package: The package's ``__name__``. Its public names are those that it imports under their own name, as above,
            which is also how a type checker knows that they are public.
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
    """A module of a library that not everybody has.

    Args:
        name: The module.
        hint: What to do where it is not installed.

    Raises:
        EnvironmentFault: Code ``not_installed``: it is not.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if not name.startswith(str(error.name)):
            raise
        from .errors import EnvironmentFault

        library = name.partition(".")[0]
        raise EnvironmentFault(f"{library} is not installed.", code="not_installed", hint=hint) from error
