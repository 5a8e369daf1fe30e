"""The files that tests run with: what they import, directly or by way of others, what they start, and what they read.

Read from the source, without running it. Followed are imports, except those for type checkers only; names that a
package imports on first use, to the module that has them; strings that name a module (`python -m`) or a file; and,
where a module imports by a computed name, all modules of its package. Data files count with the modules beside them.
"""

from __future__ import annotations

import ast
import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from .import_graph import imports_below

__all__ = ["Tree"]

SOURCE_ROOTS = (
    "coworld_core/src",
    "coworld_runner/src",
    "coworld_client/src",
    "coworld_cli/src",
    "examples/observatory/src",
    "examples/paintarena/src",
    "tests",
)


@dataclass(frozen=True)
class Module:
    """What a source file refers to."""

    imports: list[tuple[str, list[str]]]
    """Modules, each with the names taken from it; no names: the module itself."""
    strings: list[str]
    computed: bool
    """Whether it imports modules by computed names."""
    lazy: dict[str, str]
    """Names that type checkers see, and the module of each."""


class Tree:
    """The files of a git checkout, tracked or new, and how they refer to each other.

    Args:
        root: The checkout.
        source_roots: The directories from which modules are imported.
        cache: A file that keeps what was read of sources, for as long as they do not change.
    """

    def __init__(self, root: Path, source_roots: Iterable[str] = SOURCE_ROOTS, *, cache: Path | None = None) -> None:
        self._root = root
        self._source_roots = tuple(source_roots)
        self._cache = cache
        self._parsed: dict[str, tuple[tuple[int, int], Module]] = {}
        self._unkept = False
        """Whether something was read that the cache does not have."""
        if cache is not None and cache.exists():
            kept = json.loads(cache.read_text(encoding="utf-8"))
            self._parsed = {name: (tuple(version), Module(**values)) for name, (version, values) in kept.items()}

    @cached_property
    def files(self) -> frozenset[str]:
        """All files that git tracks or would add, by their paths from the root."""
        words = ["git", "-C", str(self._root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split("\0")
        return frozenset(name for name in listed if name and (self._root / name).is_file())

    @cached_property
    def _modules(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for name in self.files:
            for top in self._source_roots:
                if name.startswith(f"{top}/") and name.endswith(".py"):
                    found[_module_name(name[len(top) + 1 :])] = name
        return found

    @cached_property
    def _names(self) -> Mapping[str, str]:
        return {name: module for module, name in self._modules.items()}

    @cached_property
    def _below(self) -> Mapping[str, frozenset[str]]:
        """For each directory, the files in it and below it."""
        found: dict[str, set[str]] = {}
        for name in self.files:
            for above in PurePosixPath(name).parents:
                found.setdefault(str(above), set()).add(name)
        return {directory: frozenset(names) for directory, names in found.items()}

    def reached(self, starts: Iterable[str]) -> frozenset[str]:
        """All files that some files refer to, directly or not, and these files themselves."""
        found: set[str] = set()
        ahead = list(starts)
        while ahead:
            name = ahead.pop()
            if name in found:
                continue
            found.add(name)
            if name.endswith(".py"):
                ahead.extend(self._referred(name))
        if self._cache is not None and self._unkept:
            kept = {name: (version, asdict(module)) for name, (version, module) in self._parsed.items()}
            self._cache.write_text(json.dumps(kept), encoding="utf-8")
            self._unkept = False
        return frozenset(found)

    def _referred(self, name: str) -> Iterator[str]:
        module = self._parse(name)
        for target, taken in module.imports:
            yield from self._imported(target, taken)
        own = str(PurePosixPath(name).parent)
        for text in module.strings:
            if text in self._modules:
                yield from self._loaded(text)
                yield from self._loaded(f"{text}.__main__")
            yield from self._named(f"{own}/{text}")
            if "/" in text.strip("/"):
                yield from self._named(text)
        if module.computed:
            yield from (file for file in self._below[own] if file.endswith(".py"))
        if name in self._names and not own.startswith("tests"):
            yield from self._data_beside(own)
        yield from self._conftests(own)

    def _imported(self, target: str, taken: Iterable[str]) -> Iterator[str]:
        yield from self._loaded(target)
        file = self._modules.get(target)
        lazy = self._parse(file).lazy if file is not None else {}
        for name in taken or lazy:
            if f"{target}.{name}" in self._modules:
                yield from self._loaded(f"{target}.{name}")
            elif name in lazy:
                yield from self._imported(lazy[name], [name])

    def _loaded(self, module: str) -> Iterator[str]:
        """A module's file and those of its parent packages, which Python loads too."""
        parts = module.split(".")
        for length in range(1, len(parts) + 1):
            if (file := self._modules.get(".".join(parts[:length]))) is not None:
                yield file

    def _named(self, path: str) -> Iterator[str]:
        path = str(PurePosixPath(path))
        if path in self.files:
            yield path
        elif f"{path}/__init__.py" not in self.files:
            # A package is imported; another directory is read, or its programs are started.
            yield from self._below.get(path, ())

    def _data_beside(self, directory: str) -> Iterator[str]:
        below = self._below[directory]
        packages = {str(PurePosixPath(file).parent) for file in below if file.endswith(".py")} - {directory}
        for file in below:
            if not file.endswith(".py") and not any(file.startswith(f"{package}/") for package in packages):
                yield file

    def _conftests(self, directory: str) -> Iterator[str]:
        if directory.split("/")[0] == "tests":
            for place in (PurePosixPath(directory), *PurePosixPath(directory).parents):
                if (file := f"{place}/conftest.py") in self.files:
                    yield file

    def _parse(self, name: str) -> Module:
        source = self._root / name
        status = source.stat()
        version = (status.st_mtime_ns, status.st_size)
        if (kept := self._parsed.get(name)) is not None and kept[0] == version:
            return kept[1]
        path = PurePosixPath(name)
        module = self._names.get(name, "")
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        read = _read(ast.parse(source.read_bytes()), package, conftest=path.name == "conftest.py")
        self._parsed[name] = (version, read)
        self._unkept = True
        return read


def _module_name(path: str) -> str:
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _read(tree: ast.Module, package: str, *, conftest: bool) -> Module:
    if conftest:
        # What its fixtures need, the tests that use them import too.
        tree = ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])
    imports: list[tuple[str, list[str]]] = []
    strings: set[str] = set()
    lazy: dict[str, str] = {}
    computed = defines = lazily = False
    for one in imports_below(tree, package):
        taken = one.name.removeprefix(f"{one.home}.") if one.home else ""
        if not one.checked:
            imports.append((one.home, [taken] if taken != "*" else []) if one.home else (one.name, []))
            # A package that imports its names on first use has a table of them, which is followed name by name.
            lazily |= taken == "lazy_names"
        elif one.home:
            lazy[taken] = one.home
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and 0 < len(node.value) <= 200:
            strings.add(node.value)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "import_module":
            computed |= not (node.args and isinstance(node.args[0], ast.Constant))
        elif isinstance(node, ast.FunctionDef) and node.name == "lazy_names":
            defines = True
    return Module(
        imports=imports,
        strings=sorted(text for text in strings if text.strip("./") and "\n" not in text and not text.startswith("/")),
        computed=computed and not lazily and not defines,
        lazy=lazy if lazily else {},
    )
