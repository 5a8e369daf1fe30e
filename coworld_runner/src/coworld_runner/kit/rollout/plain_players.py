"""Tells players whose episodes can share a process from those that need a fresh one for each.

A program starts anew in each episode, so nothing that an episode leaves behind may be seen by the next. For most
players it is enough to run their file again: that makes all that the file defines anew. It is not enough for a player
that can change what outlives its file, such as the state of a library, or that can end its process. Their source tells.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import Final

__all__ = ["is_plain"]

_STATELESS: Final = frozenset(
    [
        "__future__",
        "abc",
        "array",
        "bisect",
        "cmath",
        "collections",
        "contextlib",
        "copy",
        "dataclasses",
        "enum",
        "fractions",
        "functools",
        "heapq",
        "itertools",
        "json",
        "math",
        "numbers",
        "operator",
        "random",
        "re",
        "statistics",
        "string",
        "textwrap",
        "time",
        "types",
        "typing",
    ]
)
"""Modules that a player uses without leaving anything in them."""

_REACHING: Final = frozenset(
    [
        "__builtins__",
        "__import__",
        "__loader__",
        "__spec__",
        "breakpoint",
        "compile",
        "delattr",
        "eval",
        "exec",
        "exit",
        "getattr",
        "help",
        "input",
        "open",
        "quit",
        "setattr",
        "vars",
    ]
)
"""Names by which a player may reach beyond its own module."""

_SHARED: Final = frozenset({"getstate", "seed", "setstate", "purge", "tzset"})
"""Functions of these modules that change them."""


def is_plain(source: bytes, *, beside: Collection[str] = ()) -> bool:
    """Whether running a file again is the same as starting it in a new process, as far as it can tell.

    Args:
        source: The player's file.
        beside: The names of the modules that lie beside it.
    """
    if not _STATELESS.isdisjoint(beside):
        return False
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError):
        return False
    imported: set[str] = set()
    for node in nodes:
        match node:
            case ast.Import(names=names):
                if any(alias.name.partition(".")[0] not in _STATELESS for alias in names):
                    return False
                imported.update(alias.asname or alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=module, level=level, names=names):
                if level or (module or "").partition(".")[0] not in _STATELESS:
                    return False
                if any(alias.name in _SHARED or alias.name == "*" for alias in names):
                    return False
                imported.update(alias.asname or alias.name for alias in names)
            case _:
                pass
    return not any(_reaches(node, imported) for node in nodes)


def _reaches(node: ast.AST, imported: set[str]) -> bool:
    match node:
        case ast.Name(id=name):
            return name in _REACHING
        case ast.Attribute(attr=name, ctx=ast.Load()):
            if name.startswith("_") and _root(node) in imported:
                return True
            # Dunder attributes lead from any object to all others
            return name in _SHARED or (name.startswith("__") and name not in ("__init__", "__name__", "__class__"))
        case ast.Attribute():
            # Any other name may stand for a class or a module that outlives the file
            return _root(node) != "self"
        case ast.Subscript(ctx=ast.Store() | ast.Del()):
            return _root(node) in imported
        case _:
            return False


def _root(node: ast.AST) -> str:
    """The name that a chain of attributes and subscripts begins with; empty if it begins with another expression."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
