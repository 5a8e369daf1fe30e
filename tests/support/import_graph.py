"""The import graph of the workspace's modules, read from the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = [
    "DISTRIBUTIONS",
    "EXAMPLES",
    "ROOT",
    "Graph",
    "Import",
    "circles",
    "import_graph",
    "imports",
    "imports_below",
    "nodes",
    "sources",
]

ROOT = Path(__file__).parents[2]
DISTRIBUTIONS = ("coworld_core", "coworld_runner", "coworld_client", "coworld_cli")
EXAMPLES = ("examples/observatory", "examples/paintarena")

Graph = Mapping[str, frozenset[str]]


@cache
def sources(*members: str) -> Mapping[str, Path]:
    """The source files of members of the workspace, by module name."""
    found: dict[str, Path] = {}
    for member in members:
        for path in sorted((ROOT / member / "src").rglob("*.py")):
            parts = path.relative_to(ROOT / member / "src").with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
        assert any(path.is_relative_to(ROOT / member) for path in found.values()), f"{member} has no source files"
    return found


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a source file's syntax tree, parsed once; the first is the whole file."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@cache
def import_graph(*members: str, loaded: bool = False) -> Graph:
    """For each module of some members of the workspace, the modules of these members that it imports.

    Args:
        members: The members, by directory.
        loaded: Include only imports at load time, not those in functions or for type checkers; but also include the
            parent packages of imported modules, which Python loads too.
    """
    modules = sources(*members)
    return {name: frozenset(_targets(name, path, modules, loaded=loaded)) for name, path in modules.items()}


def _targets(name: str, path: Path, modules: Mapping[str, Path], *, loaded: bool) -> Iterator[str]:
    for found in imports(name, path):
        if loaded and not found.loaded:
            continue
        # Importing a module from its package uses nothing of the package itself.
        target = found.name if found.name in modules else found.name.rpartition(".")[0]
        parts = target.split(".")
        parents = [".".join(parts[:length]) for length in range(1, len(parts))] if loaded else []
        for needed in (target, *(parent for parent in parents if not f"{name}.".startswith(f"{parent}."))):
            if needed in modules and needed != name:
                yield needed


@dataclass(frozen=True)
class Import:
    """One name that a module imports.

    Attributes:
        name: The name, absolute: `a.b.c` for `from a.b import c`.
        loaded: Whether it is imported when the module is, and not in a function or for type checkers only.
        checked: Whether it is for type checkers only.
        home: The module that it is taken from: `a.b`; empty for `import a.b`.
    """

    name: str
    loaded: bool
    checked: bool
    home: str


@cache
def imports(name: str, path: Path) -> tuple[Import, ...]:
    """What a module imports, in the order of its source, and then what a package imports on first use, by its stub.

    Args:
        name: The module's name, from which relative imports are resolved.
        path: Its source file.
    """
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = tuple(imports_below(nodes(path)[0], package))
    stub = path.with_suffix(".pyi")
    if path.name != "__init__.py" or not stub.exists():
        return found
    return (*found, *imports_below(nodes(stub)[0], package, loaded=False, checked=True))


def imports_below(node: ast.AST, package: str, *, loaded: bool = True, checked: bool = False) -> Iterator[Import]:
    """What the statements below a node import.

    Args:
        node: The node.
        package: The package that relative imports start from.
        loaded: Whether the node is executed when its module is loaded.
        checked: Whether it is for type checkers only.
    """
    unloaded: list[ast.stmt] = []
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        loaded = False
    elif isinstance(node, ast.If) and "TYPE_CHECKING" in (getattr(node.test, "id", ""), getattr(node.test, "attr", "")):
        unloaded = node.body
    for child in ast.iter_child_nodes(node):
        for_types = checked or child in unloaded
        if isinstance(child, ast.Import | ast.ImportFrom):
            home = ""
            if isinstance(child, ast.ImportFrom):
                above = package.split(".")[: len(package.split(".")) - child.level + 1] if child.level else []
                home = ".".join([*above, *([child.module] if child.module else [])])
            for alias in child.names:
                full = f"{home}.{alias.name}" if home else alias.name
                yield Import(full, loaded and not for_types, for_types, home)
        yield from imports_below(child, package, loaded=loaded and not for_types, checked=for_types)


def circles(graph: Graph) -> list[frozenset[str]]:
    """Import cycles: sets of modules each of which imports all others, directly or indirectly."""

    @cache
    def reached(start: str) -> frozenset[str]:
        seen: set[str] = set()
        ahead = [start]
        while ahead:
            for target in graph[ahead.pop()] - seen:
                seen.add(target)
                ahead.append(target)
        return frozenset(seen)

    found = {frozenset(other for other in reached(name) if name in reached(other)) for name in graph}
    return sorted((circle for circle in found if circle), key=sorted)
