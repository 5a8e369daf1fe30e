"""Tells players whose episodes can share a process from those that need a fresh one for each.

A program starts anew in each episode, so nothing that an episode leaves behind may be seen by the next. For most
players it is enough to run their file again: all that the file defines is then new, its functions and their defaults,
its classes and the dictionaries of its module. It is not enough for a player that can change what outlives its file,
such as a class or a dictionary of a library, or that can end its process. Their source tells: what a file imports may
be called, inherited from and compared, but as soon as it becomes a value that could be stored under any name, nobody
can tell what is done to it. Whatever cannot be told costs the player its quick way, and nothing else.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import types
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

__all__ = ["SHARED", "STATELESS", "is_plain"]

STATELESS: Final = frozenset(
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
        "breakpoint",
        "compile",
        "delattr",
        "eval",
        "exec",
        "exit",
        "getattr",
        "globals",
        "help",
        "input",
        "locals",
        "open",
        "quit",
        "setattr",
        "vars",
    ]
)
"""Builtins by which a player may reach beyond its own module."""

SHARED: Final = frozenset(
    [
        # Change what belongs to all
        *("chdir", "getstate", "global_enum", "purge", "redirect_stderr", "redirect_stdout", "register", "seed"),
        *("setstate", "tzset"),
        # Run or read what stands in a text
        *("ForwardRef", "Formatter", "attrgetter", "get_type_hints", "methodcaller", "singledispatch"),
        "singledispatchmethod",
        # Hand out what outlives the file
        *("JSONDecoder", "TextWrapper", "ag_frame", "clear_overloads", "cr_frame", "get_args", "get_original_bases"),
        *("get_origin", "get_overloads", "gi_frame", "mro", "resolve_bases", "tb_frame"),
    ]
)
"""Names in these modules, and of attributes, that lead to what outlives a file."""

_OWN: Final = frozenset({"__doc__", "__file__", "__name__"})
"""Names with two underscores that a module may read: the others lead from any object to all others."""

_IMMUTABLE: Final = 1 << 8
"""The flag of classes whose attributes cannot be set (`Py_TPFLAGS_IMMUTABLETYPE`)."""

_MISSING: Final = object()


def is_plain(source: bytes, *, beside: Collection[str] = ()) -> bool:
    """Whether running a file again is the same as starting it in a new process, as far as it can tell.

    Args:
        source: The player's file.
        beside: The names of the modules that lie beside it.
    """
    if not STATELESS.isdisjoint(beside):
        return False
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError):
        return False
    imported = _imported(nodes)
    return imported is not None and not any(map(_Reader(nodes, imported).reaches, nodes))


def _imported(nodes: Sequence[ast.AST]) -> dict[str, Any] | None:
    """What a file imports, by the names that it gives it; None if it imports what has a state, or what is not there."""
    found: dict[str, Any] = {}
    for node in nodes:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    root = alias.name.partition(".")[0]
                    if root not in STATELESS or (module := _module(alias.name)) is None:
                        return None
                    found[alias.asname or root] = module if alias.asname else _module(root)
            case ast.ImportFrom(module=name, level=level, names=names):
                module = None if level or (name or "").partition(".")[0] not in STATELESS else _module(name or "")
                for alias in names:
                    value = _attribute(module, alias.name)
                    if value is _MISSING:
                        value = _module(f"{name}.{alias.name}") if module is not None else None
                    if value is None or _is_foreign(value) or alias.name in SHARED or alias.name.startswith("_"):
                        return None
                    found[alias.asname or alias.name] = value
            case _:
                pass
    return found


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _attribute(value: Any, name: str) -> Any:
    return vars(value).get(name, _MISSING) if isinstance(value, types.ModuleType) else getattr(value, name, _MISSING)


class _Reader:
    """Reads what a file does with what outlives it.

    Args:
        nodes: All nodes of the file.
        imported: What it imports.
    """

    def __init__(self, nodes: Sequence[ast.AST], imported: Mapping[str, Any]) -> None:
        self._imported = imported
        self._parents = {child: parent for parent in nodes for child in ast.iter_child_nodes(parent)}

    def reaches(self, node: ast.AST) -> bool:
        """Whether a node may lead to a change of what outlives the file."""
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if name in _REACHING or (name.startswith("__") and name not in _OWN):
                return True
            case ast.Name(id=name, ctx=ast.Load()):
                return self._escapes(node)
            case ast.Name(id=name):
                return name in ("__annotations__", "__builtins__", "__module__")
            case ast.Attribute(attr=name, ctx=ast.Load()):
                if name in SHARED or (name.startswith("_") and _root(node) in self._imported):
                    return True
                if name == "__class__":
                    return not self._is_only_used(node)
                return (name.startswith("__") and name not in ("__init__", "__name__")) or self._escapes(node)
            case ast.Attribute():
                # Any other name may stand for a class or a module that outlives the file
                return _root(node) != "self"
            case ast.Subscript(ctx=ast.Store() | ast.Del()):
                return _root(node) in self._imported
            case ast.Call(func=ast.Name(id="type")):
                return not self._is_only_used(node)
            case ast.MatchClass(kwd_attrs=names):
                return any(name in SHARED or name.startswith("__") for name in names)
            case _:
                return False

    def _escapes(self, node: ast.Name | ast.Attribute) -> bool:
        """Whether something that a library or Python itself has becomes a value though it can be changed."""
        value = self._value(node)
        if value is _MISSING:
            # Nothing of a library, unless it has no such attribute
            return isinstance(node, ast.Attribute) and self._value(node.value) is not _MISSING
        if isinstance(value, bytearray | dict | list | set) or _is_foreign(value):
            return True
        parent = self._parents[node]
        if isinstance(parent, ast.Attribute) and not isinstance(parent.ctx, ast.Store):
            # Then that attribute is looked at
            return False
        return not (_is_fixed(value) or self._is_only_used(node))

    def _value(self, node: ast.AST) -> Any:
        """What an expression stands for, if it is a name or an attribute of what a file imports or Python has."""
        match node:
            case ast.Name(id=name):
                return self._imported.get(name, vars(builtins).get(name, _MISSING))
            case ast.Attribute(value=value, attr=name) if (owner := self._value(value)) is not _MISSING:
                return _attribute(owner, name)
            case _:
                return _MISSING

    def _is_only_used(self, node: ast.AST) -> bool:
        """Whether an expression stands where a function is called, or where a class is inherited from or compared."""
        parent = self._parents[node]
        match parent:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kinds]) if kinds is node:
                return True
            case ast.Call(func=function):
                return function is node
            case ast.Attribute(attr=name):
                return name == "__name__"
            case ast.AnnAssign(annotation=annotation) | ast.arg(annotation=annotation):
                return annotation is node
            case ast.ClassDef() | ast.Compare() | ast.ExceptHandler() | ast.MatchClass():
                return True
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                # Decorators and what it returns; its defaults are below its arguments
                return True
            case ast.keyword(arg="default_factory" | "metaclass"):
                return True
            case ast.Subscript(value=value) if self._value(value) is not _MISSING:
                # Such as `Mapping[str, Fraction]`
                return True
            case ast.Subscript() | ast.BinOp(op=ast.BitOr()) | ast.List() | ast.Tuple():
                return self._is_only_used(parent)
            case _:
                return False


def _is_fixed(value: object) -> bool:
    """Whether something cannot be changed, whoever has it."""
    match value:
        case type():
            # `type` makes a class of any other object a value
            return value is not type and bool(value.__flags__ & _IMMUTABLE)
        case None | int() | float() | complex() | str() | bytes():
            return True
        case types.BuiltinFunctionType() | types.MethodType() | types.MethodDescriptorType():
            return True
        case types.WrapperDescriptorType() | types.EllipsisType() | types.NotImplementedType():
            return True
        case _:
            return False


def _is_foreign(value: object) -> bool:
    """Whether something is a module that has a state, such as one that a stateless module imports."""
    return isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] not in STATELESS


def _root(node: ast.AST) -> str:
    """The name that a chain of attributes and subscripts begins with; empty if it begins with another expression."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
