"""The types of the client that is not async, made from those of the async one; run as a program, it writes them."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import coworld_client

ROOT = Path(coworld_client.__file__).parent
STUB = ROOT / "sync.pyi"

_HEAD = '''\
"""Types of `coworld_client.sync`, made from the async client by `tests/client/sync_stub.py`: do not edit."""

from __future__ import annotations

{imports}

__all__ = ["SyncClient"]

_T = TypeVar("_T")
_W = TypeVar("_W", bound=Wire)
_P = ParamSpec("_P")

class _Rows(Generic[_W]):
    def __iter__(self) -> Iterator[_W]: ...
    def pages(self) -> Iterable[Page[_W]]: ...

class _Changes:
    cursor: str | None
    def __iter__(self) -> Iterator[Change]: ...

'''

_TAIL = """    def run(
        self, function: Callable[Concatenate[CoworldClient, _P], Awaitable[_T]], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T: ...
"""

_OWN_IMPORTS = (
    "from collections.abc import Awaitable, Callable, Iterable, Iterator",
    "from contextlib import AbstractContextManager",
    "from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar",
    "from types import TracebackType",
    "from coworld_core.api import Wire",
    "from .client import CoworldClient",
    "from .pages import Page",
    "from .watch import Change",
)

_SYNC = {
    "AsyncPager": "_Rows",
    "AsyncIterator": "Iterator",
    "AbstractAsyncContextManager": "AbstractContextManager",
    "Changes": "_Changes",
}
"""What each async type is for code that is not async."""


def stub() -> str:
    """The whole file, but for its format."""
    source = _Source("client")
    client = source.classes["CoworldClient"]
    nouns = dict(_nouns(client))
    imports = _Imports(_OWN_IMPORTS)
    parts = [_noun(source, kind, imports) for kind in nouns.values()]
    lines = ["class SyncClient:", "    acting_as: str"]
    methods = [method for method in _methods(client) if method.name not in nouns]
    for method in methods:
        if method.name in ("__aenter__", "__aexit__", "__repr__"):
            method.name = method.name.replace("__a", "__")
        if method.name != "__repr__":
            lines += _signature(method, source, imports)
    for name, kind in nouns.items():
        lines += ["    @property", f"    def {name}(self) -> _{kind}: ..."]
    return _HEAD.format(imports="\n".join(imports.lines())) + "\n\n".join([*parts, "\n".join(lines)]) + "\n" + _TAIL


def meaning(text: str) -> tuple[set[str], str]:
    """The imports of a stub, and the rest of it, whatever their form."""
    tree = ast.parse(text)
    parts = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    imports = {
        f"{ast.unparse(node).partition('import ')[0]}import {ast.unparse(name)}"
        for node in parts
        for name in node.names
    }
    return imports, ast.dump(ast.Module([node for node in tree.body if node not in parts], []))


def _nouns(client: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for method in _methods(client):
        if any(isinstance(mark, ast.Name) and mark.id == "cached_property" for mark in method.decorator_list):
            assert isinstance(method.returns, ast.Name)
            yield method.name, method.returns.id


def _noun(source: _Source, kind: str, imports: _Imports) -> str:
    module = source.imported[kind].split(" import ")[0].removeprefix("from .")
    there = _Source(module.replace(".", "/"))
    lines = [f"class _{kind}:"]
    for method in _methods(there.classes[kind]):
        lines += _signature(method, there, imports)
    return "\n".join(lines)


def _methods(defined: ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for method in defined.body:
        if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if not method.name.startswith("_") or method.name.startswith("__"):
            yield method


class _Renamed(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(_SYNC.get(node.id, node.id), node.ctx)


def _signature(method: ast.FunctionDef | ast.AsyncFunctionDef, source: _Source, imports: _Imports) -> list[str]:
    """The lines of a method in the stub; what its annotations need is added to the imports."""
    args = method.args
    for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
        if arg is not None and arg.annotation is not None:
            imports.add(source, arg.annotation)
    if method.returns is not None:
        method.returns = _Renamed().visit(method.returns)
        imports.add(source, method.returns)
    for default in (*args.defaults, *args.kw_defaults):
        if default is not None:
            imports.add(source, default)
    marks = [f"    @{ast.unparse(mark)}" for mark in method.decorator_list]
    returns = ast.unparse(method.returns) if method.returns is not None else "None"
    return [*marks, f"    def {method.name}({ast.unparse(args)}) -> {returns}: ..."]


class _Source:
    """A module of the client: its classes, and the import that each of its names comes from."""

    def __init__(self, module: str) -> None:
        self.name = module.replace("/", ".")
        tree = ast.parse((ROOT / f"{module}.py").read_text(encoding="utf-8"))
        above = module.count("/")
        self.classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        self.imported: dict[str, str] = {}
        self.own: set[str] = set(self.classes)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self.imported |= {alias.name: f"import {alias.name}" for alias in node.names}
            if isinstance(node, ast.ImportFrom):
                # A module of a room names its neighbours from where it is
                place = node.module or ""
                if node.level == 1 and above:
                    place = f"{module.rpartition('/')[0].replace('/', '.')}.{place}"
                dots = "." if node.level else ""
                self.imported |= {alias.name: f"from {dots}{place} import {alias.name}" for alias in node.names}
        for node in tree.body:
            if isinstance(node, ast.Assign):
                self.own |= {target.id for target in node.targets if isinstance(target, ast.Name)}


class _Imports:
    """The imports of the stub, one for each name."""

    def __init__(self, own: Iterable[str]) -> None:
        self._names: dict[str, str] = {}
        for line in own:
            place, _, names = line.partition(" import ")
            self._names |= {name: f"{place} import {name}" for name in names.split(", ")}

    def add(self, source: _Source, node: ast.expr) -> None:
        """Add what an annotation or a default needs."""
        for name in {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}:
            if name in source.own:
                line = f"from .{source.name} import {name}"
            elif name in source.imported and name not in _SYNC.values():
                line = source.imported[name]
            else:
                continue
            assert self._names.setdefault(name, line) == line, f"two things are called {name}"

    def lines(self) -> list[str]:
        return sorted(self._names.values())


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
    for step in (("check", "--quiet", "--select", "I", "--fix"), ("format", "--quiet")):
        subprocess.run([sys.executable, "-m", "ruff", *step, STUB], check=True)
    sys.stdout.write(f"{STUB.name} has its types.\n")
