"""The import graph of the workspace's modules, read from the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

__all__ = ["DISTRIBUTIONS", "EXAMPLES", "ROOT", "circles", "import_graph", "nodes", "sources"]

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
    assert len(found) > 10, f"{members} have no source files"
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
    return {
        name: frozenset(
            target for target in _targets(name, path, modules, loaded=loaded) if target in modules and target != name
        )
        for name, path in modules.items()
    }


def _targets(name: str, path: Path, modules: Mapping[str, Path], *, loaded: bool) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in _imports(nodes(path)[0], loaded=loaded):
        if isinstance(node, ast.Import):
            taken = [alias.name for alias in node.names]
        else:
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            home = ".".join([*above, *([node.module] if node.module else [])])
            # Importing a module from its package uses nothing of the package itself.
            taken = [f"{home}.{alias.name}" if f"{home}.{alias.name}" in modules else home for alias in node.names]
        for target in taken:
            yield target
            parts = target.split(".")
            for length in range(1, len(parts)) if loaded else ():
                if not f"{name}.".startswith(f"{'.'.join(parts[:length])}."):
                    yield ".".join(parts[:length])


def _imports(node: ast.AST, *, loaded: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    for child in ast.iter_child_nodes(node):
        if loaded and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if loaded and isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        yield from _imports(child, loaded=loaded)


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
