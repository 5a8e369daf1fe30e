"""Reads which player a file of Python defines, without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Final

__all__ = ["FORMS", "is_hosted", "module_contents", "player_form"]

FORMS: Final = ("act", "Player", "play")
"""Names under which a file may define its player; the first one found is used."""


def module_contents(tree: ast.Module) -> tuple[dict[str, ast.stmt], bool]:
    """Return the names that a module binds, each with its statement, and whether it does more than that."""
    names: dict[str, ast.stmt] = {}
    works = False
    for statement in _top(tree.body):
        works = works or _does_something(statement)
        names.update((name, statement) for name in _named(statement))
    return names, works


def player_form(names: Mapping[str, ast.stmt]) -> str:
    """Return the name under which a module defines its player (one of `FORMS`); empty if it has none.

    Args:
        names: The names that the module binds, each with its statement.
    """
    if "act" in names:
        return "act"
    if _has_act(names.get("Player")):
        return "Player"
    return "play" if _is_session(names.get("play")) else ""


def is_hosted(names: Mapping[str, ast.stmt], works: bool) -> bool:
    """Whether a module is played by what asks its player, rather than being a program itself.

    Args:
        names: As for `player_form`.
        works: Whether the module does more than bind names.
    """
    return "act" in names or (not works and bool(player_form(names)))


def _top(body: Iterable[ast.stmt]) -> Iterable[ast.stmt]:
    """Yield the statements of a module, including those inside `if` and `try`."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try):
            yield from _top(statement.body)
            yield from _top(statement.orelse)
            for handler in getattr(statement, "handlers", ()):
                yield from _top(handler.body)


def _named(statement: ast.stmt) -> list[str]:
    """Return the names that a statement binds."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            return [name]
        case ast.ImportFrom(names=names):
            return [alias.asname or alias.name for alias in names]
        case _:
            return []


def _does_something(statement: ast.stmt) -> bool:
    """Whether a statement suggests that its module is a program: it does more than bind names."""
    match statement:
        case ast.Expr(value=value):
            return not isinstance(value, ast.Constant)
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return True
        case ast.For() | ast.While() | ast.With() | ast.Raise():
            return True
        case _:
            return False


def _has_act(statement: ast.stmt | None) -> bool:
    # An imported or inherited class may have the method.
    if isinstance(statement, ast.ImportFrom | ast.Assign):
        return True
    return isinstance(statement, ast.ClassDef) and (
        bool(statement.bases) or any("act" in _named(inner) for inner in statement.body)
    )


def _is_session(statement: ast.stmt | None) -> bool:
    return isinstance(statement, ast.AsyncFunctionDef) and len(statement.args.args) == 1
