"""The libraries whose games can be wrapped: how to install and import each, and how to read the names of games."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import shlex
import sys
from collections.abc import Iterable
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from coworld_core.errors import UsageError

__all__ = ["DISTRIBUTIONS", "imported", "loaded_extras", "read_call", "requirement"]

DISTRIBUTIONS: Final = {
    "gymnasium": "gymnasium",
    "pettingzoo": "pettingzoo",
    "pyspiel": "open_spiel",
    "textarena": "textarena",
}
"""The distribution that installs each module."""


def imported(module: str, needs: str = "") -> Any:
    """Import the module of a library.

    Args:
        module: The module.
        needs: The distribution that has it, with the versions that do; by default as in `DISTRIBUTIONS`.

    Raises:
        UsageError: Code `library_missing`: the library is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise
        distribution = needs or DISTRIBUTIONS[module]
        raise UsageError(
            f"This needs {distribution}, which is not installed.",
            code="library_missing",
            hint=f"Install it where coworld is: pip install {shlex.quote(distribution)}",
        ) from error


def requirement(module: str, more: Iterable[str] = ()) -> str:
    """Return the installed library as an argument of `pip install`, with its version so that the game stays the same.

    Args:
        module: The library's module.
        more: Further distributions that a game needs.
    """
    return " ".join(f"{name}=={importlib.metadata.version(name)}" for name in (DISTRIBUTIONS[module], *more))


def loaded_extras(module: str, extra: str) -> tuple[str, ...]:
    """Return the distributions of one of the library's extras that this process has imported."""
    named: set[str] = set()
    for line in importlib.metadata.requires(DISTRIBUTIONS[module]) or ():
        need = Requirement(line)
        if need.marker is not None and need.marker.evaluate({"extra": extra}) and "extra" in str(need.marker):
            named.add(canonicalize_name(need.name))
    loaded = {
        distribution
        for top, distributions in importlib.metadata.packages_distributions().items()
        if top in sys.modules
        for distribution in distributions
    }
    return tuple(sorted(name for name in loaded if canonicalize_name(name) in named))


def read_call(text: str) -> tuple[str, dict[str, Any]]:
    """Parse a game's name and parameters, such as `pistonball_v6(n_pistons=4, continuous=False)`.

    Raises:
        ValueError: The parameters cannot be read.
    """
    name, bracket, rest = text.partition("(")
    if not bracket:
        return name, {}
    try:
        call = ast.parse(f"_({rest}", mode="eval").body
        assert isinstance(call, ast.Call)
        if call.args or any(word.arg is None for word in call.keywords):
            raise ValueError
        return name, {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (SyntaxError, ValueError, AssertionError):
        raise ValueError(f"the parameters of {text} cannot be read; they are written as in {name}(size=3)") from None
