"""Files of games and players, each with imports of its own, however many of them a process loads.

`load_file` opens a scope for a file: a package with a unique name whose path is the directory of the file. Whatever is
imported from that directory becomes a module of this package. The modules of a scope have their own `__import__`, which
looks in the scope first, at any time and in any thread. So `import helper` finds the helper beside the file, as with
`python bot.py`, while `sys.path` stays as it is and `sys.modules` has no `helper`. The standard library and installed
packages are shared.

Scopes are the submodules of this package. The name of a scope contains its file, so other processes can import it, and
pickled classes and functions work there.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.abc
import importlib.util
import inspect
import itertools
import os
import re
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import FrozenImporter, ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast
from urllib.parse import quote, unquote_to_bytes

__all__ = ["arguments_of", "bare_names", "close_scope", "load_alone", "load_file", "load_module"]

_PREFIX: Final = f"{__name__}."
_SCOPE: Final = re.compile(rf"{re.escape(_PREFIX)}[\w%/~-]+\.")
_KIT: Final = ("coworld_core.", "coworld_runner.", "coworld_client.", "coworld_cli.")

_numbers = itertools.count(1)
_scopes: dict[str, _Scope] = {}
_arguments: list[list[str]] = []
"""The original `sys.argv` and those of the files that are being loaded; empty if none is."""
_arguments_lock = threading.Lock()


def load_file(path: Path) -> ModuleType:
    """Load a Python file in a new scope, independent of every earlier load of the same file.

    While it loads, `sys.argv` is the file alone.

    Args:
        path: An existing file. Errors that it raises are passed on, and then nothing of it remains.
    """
    scope = _open(path.resolve())
    try:
        return scope.load(scope.main)
    except BaseException:
        scope.close()
        raise


def load_module(name: str, *, directory: Path | None = None) -> ModuleType:
    """Import a module by name. A caller in a scope gets the module of its scope, if there is one.

    Args:
        name: The module.
        directory: Where to look first; a module found there gets a new scope.

    Raises:
        ModuleNotFoundError: There is no such module.
    """
    top = name.partition(".")[0]
    opened = None if directory is None else _open(directory.resolve())
    if opened is not None and not opened.has(top):
        opened.close()
        opened = None
    scope = opened or _calling_scope()
    try:
        if scope is None or not scope.has(top):
            with arguments_of(_origin(name)):
                return importlib.import_module(name)
        with _bare_errors(), arguments_of(_origin(f"{scope.name}.{name}")):
            return scope.load(name)
    except BaseException:
        if opened is not None:
            opened.close()
        raise


def load_alone(name: str) -> ModuleType:
    """Load a file or module as the program of this process, as `python FILE` or `python -m MODULE` would.

    This is for processes that serve a single game or player. The file's directory then belongs on `sys.path`, and
    `sys.argv` is the file alone, both for good.

    Args:
        name: An existing file that ends with `.py`, or a module.

    Raises:
        ModuleNotFoundError: There is no such module.
    """
    if not name.endswith(".py"):
        sys.argv = [_origin(name)]
        return importlib.import_module(name)
    path = Path(name).resolve()
    sys.path.insert(0, str(path.parent))
    sys.argv = [str(path)]
    # A player may be called like a module that this process already uses.
    own = path.stem if path.stem not in sys.modules else f"{path.stem}_"
    spec = importlib.util.spec_from_file_location(own, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[own] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def close_scope(module: ModuleType) -> None:
    """Remove a module that `load_file` returned, and everything else in its scope, from `sys.modules`.

    Its functions still work, but cannot import from the scope any more.
    """
    name, _, _ = module.__name__.removeprefix(_PREFIX).partition(".")
    if (scope := _scopes.get(_PREFIX + name)) is not None:
        scope.close()


def bare_names(text: str) -> str:
    """Return a text in which modules in scopes have the names that their authors know."""
    return _SCOPE.sub("", text)


@contextmanager
def arguments_of(place: str) -> Generator[None]:
    """Set `sys.argv` to a file alone for a while, as code of that file expects it.

    Several threads may do so at once; none waits for the other, which could be waiting for it in turn.
    """
    mine = [place]
    with _arguments_lock:
        if not _arguments:
            _arguments.append(sys.argv)
        _arguments.append(mine)
        sys.argv = mine
    try:
        yield
    finally:
        with _arguments_lock:
            del _arguments[next(index for index in reversed(range(len(_arguments))) if _arguments[index] is mine)]
            sys.argv = _arguments[-1]
            if len(_arguments) == 1:
                _arguments.clear()


class _Scope:
    """The imports of one file, or of one directory.

    Args:
        name: The module name of the scope.
        place: The file or directory.
    """

    def __init__(self, name: str, place: str) -> None:
        self.name = name
        path = Path(place)
        self.file = None if path.is_dir() else place
        directory = place if self.file is None else str(path.parent)
        self.main: Final = path.stem.replace(".", "_")
        self._given = tuple(sys.path)
        # The authors' own additions to `sys.path` are theirs alone.
        view = _View(sys, path=[directory, *self._given], argv=[place])
        self._views: dict[str, ModuleType] = {
            "sys": view,
            "importlib": _View(importlib, import_module=self.import_module),
        }
        self._search: Callable[[], list[str]] = lambda: view.path
        self._shared: set[str] = set()
        self.builtins: Final = {**vars(builtins), "__import__": self._import}
        # A listing of this directory that is older than its newest file could be in use.
        sys.path_importer_cache.pop(directory, None)

    def load(self, name: str) -> ModuleType:
        """Import a module of the scope."""
        # The built-in function leaves the import system out of tracebacks.
        with _bare_errors():
            builtins.__import__(f"{self.name}.{name}", None, None, (), 0)
        return sys.modules[f"{self.name}.{name}"]

    def close(self) -> None:
        """Forget the scope and its modules."""
        _scopes.pop(self.name, None)
        inside = f"{self.name}."
        for name in [name for name in sys.modules.copy() if name == self.name or name.startswith(inside)]:
            sys.modules.pop(name, None)
        vars(sys.modules[__name__]).pop(self.name.removeprefix(_PREFIX), None)

    def path(self) -> list[str]:
        """Directories of the scope: its own, and those that its modules have added to `sys.path`."""
        search = self._search()
        return [place for place in dict.fromkeys(search) if search.count(place) > self._given.count(place)]

    def has(self, top: str) -> bool:
        """Whether a module without dots is the scope's own."""
        if self.name not in _scopes:
            return False
        if f"{self.name}.{top}" in sys.modules:
            return True
        if top in self._shared and top in sys.modules:
            return False
        spec = None
        # Python itself looks for these before it looks at any directory.
        if top not in sys.builtin_module_names and FrozenImporter.find_spec(top) is None:
            spec = _FINDER.find_spec(f"{self.name}.{top}", self.path())
        if spec is None or (spec.origin is None and _exists(top)):
            self._shared.add(top)
            return False
        sys.modules[self.name].__path__ = self.path()
        return True

    def import_module(self, name: str, package: str | None = None) -> ModuleType:
        """`importlib.import_module` for modules of the scope."""
        if not name.startswith("."):
            if self.has(name.partition(".")[0]):
                return self.load(name)
            return self._views.get(name) or importlib.import_module(name)
        if package is not None and self.has(package.partition(".")[0]):
            package = f"{self.name}.{package}"
        return importlib.import_module(name, package)

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """`__import__` for modules of the scope."""
        if level:
            self._check_relative((globals or {}).get("__package__") or "", level)
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        top = name.partition(".")[0]
        if not self.has(top):
            found = builtins.__import__(name, globals, locals, fromlist or (), 0)
            return self._views.get(name if fromlist else top) or found
        with _bare_errors():
            found = builtins.__import__(f"{self.name}.{name}", globals, locals, fromlist or (), 0)
        # The built-in function returns this package if `fromlist` is empty.
        return found if fromlist else sys.modules[f"{self.name}.{top}"]

    def _check_relative(self, package: str, level: int) -> None:
        """Modules beside the file are in no package, as with `python bot.py`."""
        if f"{package}.".startswith(f"{self.name}."):
            depth = package.removeprefix(self.name).count(".")
            if level > depth:
                why = "beyond top-level package" if depth else "with no known parent package"
                raise ImportError(f"attempted relative import {why}")


class _View(ModuleType):
    """A module of the standard library as a scope sees it.

    Args:
        real: The module, which also gets whatever is set here under other names.
        own: The scope's own values.
    """

    def __init__(self, real: ModuleType, **own: Any) -> None:
        super().__init__(real.__name__, real.__doc__)
        described = {name: getattr(real, name, None) for name in ("__loader__", "__package__", "__spec__")}
        vars(self).update(described, _real=real, **own)

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_real"], name)

    def __setattr__(self, name: str, value: object) -> None:
        if name in vars(self):
            super().__setattr__(name, value)
        else:
            setattr(vars(self)["_real"], name, value)

    def __dir__(self) -> list[str]:
        return dir(vars(self)["_real"])

    def __reduce__(self) -> tuple[Any, ...]:
        return importlib.import_module, (self.__name__,)


class _Finder:
    """Finds scopes by their names, and the modules in them."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith(_PREFIX):
            return None
        key, _, inner = name.removeprefix(_PREFIX).partition(".")
        if not inner:
            return ModuleSpec(name, _Root(), is_package=True) if "~" in key else None
        scope = _scopes[_PREFIX + key]
        program = inner == scope.main and scope.file is not None
        spec = importlib.util.spec_from_file_location(name, scope.file) if program else PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = cast("Any", (_Program if program else _Loader)(spec.loader, scope))
        return spec


_FINDER: Final = _Finder()
sys.meta_path.insert(0, _FINDER)


class _Root(importlib.abc.Loader):
    """The loader of scopes."""

    def exec_module(self, module: ModuleType) -> None:
        place = module.__name__.removeprefix(_PREFIX).rpartition("~")[0]
        scope = _scopes[module.__name__] = _Scope(module.__name__, os.fsdecode(unquote_to_bytes(place)))
        module.__path__ = scope.path()


class _Loader:
    """A loader of the import system, for modules of a scope."""

    def __init__(self, real: Any, scope: _Scope) -> None:
        self._real = real
        self._scope = scope

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        # Not in `exec_module`, whose frame would keep those of the import system in tracebacks.
        module = self._real.create_module(spec) or ModuleType(spec.name)
        vars(module)["__builtins__"] = self._scope.builtins
        return module


class _Program(_Loader):
    """The loader of a scope's file."""

    def exec_module(self, module: ModuleType) -> None:
        with arguments_of(self._real.path):
            self._real.exec_module(module)


def _open(place: Path) -> _Scope:
    # A worker gets modules by name from another process, so the name of a scope is unique among processes.
    name = f"{_PREFIX}{quote(os.fsencode(place)).replace('.', '%2E')}~{os.getpid()}-{next(_numbers)}"
    importlib.import_module(name)
    return _scopes[name]


def _exists(name: str) -> bool:
    """Whether a module exists outside of scopes, other than as a directory without `__init__.py`."""
    try:
        spec = importlib.util.find_spec(name)
    except ValueError:
        return True
    return spec is not None and spec.origin is not None


def _origin(name: str) -> str:
    """The file of a module; its name if it has none."""
    try:
        spec = importlib.util.find_spec(name)
    except ValueError:
        # An imported module may have no spec.
        spec = None
    return (spec and spec.origin) or name


def _calling_scope() -> _Scope | None:
    """The scope of the nearest caller outside of this kit."""
    frame = inspect.currentframe()
    while frame is not None:
        scope = getattr(frame.f_builtins.get("__import__"), "__self__", None)
        if isinstance(scope, _Scope):
            return scope
        if not str(frame.f_globals.get("__name__")).startswith(_KIT):
            return None
        frame = frame.f_back
    return None


@contextmanager
def _bare_errors() -> Generator[None]:
    try:
        yield
    except ImportError as error:
        error.msg = bare_names(error.msg)
        error.name = error.name and bare_names(error.name)
        error.args = (error.msg,)
        raise
