"""A player of one's own: a file or a directory that becomes a player without an image having been made of it.

What it holds is read once, and from then on is what plays, whatever becomes of the file meanwhile. It is handed to a
unit as its inputs, beside the package's own player image; only a directory with a Dockerfile has an image of its own,
where a backend makes images. What a Python file is, its syntax tree says: nothing of it is imported here.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import os
import platform
import stat
import struct
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from coworld_core.errors import CapabilityError, UsageError

from ._hints import did_you_mean, listed
from .backend import Backend
from .images.dockerfile import read_dockerfile

__all__ = ["PLAYER_LABEL", "OwnPlayer", "near_file", "read_own_player", "require_own_player"]

PLAYER_LABEL = "coworld.player"
"""Label of the images that are made of such players; its value is the digest."""

_PYTHON = "python"
_SEAT = (_PYTHON, "-m", "coworld_client.seat")
_MOST_BYTES = 256 << 20
_MOST_FILES = 5000
_LEFT_OUT = frozenset(
    {".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
)
"""What is no part of a player, though it lies in its directory."""
_ACT = ("observation", "legal", "rng")
_CALLED = "import importlib,os,sys;os.chdir(sys.argv[1]);sys.path[:0]=[sys.argv[1]+'/src',sys.argv[1]];"
_IN_DIRECTORY = ("/bin/sh", "-c", 'cd "$0" && exec "$@"')


@dataclass(frozen=True, kw_only=True)
class OwnPlayer:
    """A player as its author has it on this machine. Values only."""

    name: str
    """What it is called: its file's name, without the ending."""
    file: str
    """Name of its file or directory."""
    path: Path
    """Where it was read, for messages."""
    files: Mapping[str, bytes] = field(repr=False)
    """What it holds, by path relative to its directory; a file by its name."""
    command: tuple[str, ...]
    """How it is run, in the directory that has its files; ``{}`` in a word stands for that directory. Empty: only an
    image that is built of it says."""
    runnable: frozenset[str] = frozenset()
    """Those of its files that may be executed."""
    python: str = "python3"
    """What Python is called in the image that it runs beside; a local process gets the one that runs coworld."""
    needs_client: bool = False
    """Whether ``coworld_client.seat`` plays it."""
    needs: str = ""
    """os/architecture of the machine code it is; empty for any."""
    dockerfile: bool = False
    """Whether an image is built of it, by a backend that builds images."""

    @property
    def digest(self) -> str:
        """Digest of what it holds, whatever its name."""
        told = hashlib.sha256()
        for name in sorted(self.files):
            shown = name if len(self.files) > 1 or self.dockerfile else ""
            told.update(f"{shown}\0{len(self.files[name])}\0".encode("utf-8", "surrogatepass"))
            told.update(self.files[name])
        return f"sha256:{told.hexdigest()}"

    @property
    def reference(self) -> str:
        """What records call what it ran from: its file, and which content it had."""
        return f"{self.file}@{self.digest.partition(':')[2][:12]}"

    @property
    def image(self) -> str:
        """The image that is built of it, named by its content."""
        plain = "".join(char if char.isascii() and char.isalnum() else "-" for char in self.name.lower()).strip("-")
        return f"coworld-player/{plain or 'player'}:{self.digest.partition(':')[2][:12]}"

    def argv(self, directory: str, *, in_image: bool) -> tuple[str, ...]:
        """Its command, where its files are in that directory, beside an image or as a local process."""
        command = tuple(word.replace("{}", directory) for word in self.command)
        return (self.python, *command[1:]) if in_image and command[:1] == (_PYTHON,) else command

    def shown(self) -> tuple[str, ...]:
        """Its command for people, without the directory."""
        return tuple(word.replace("{}/", "").replace("{}", ".") for word in self.command)

    def put(self, directory: Path) -> None:
        """Write its files into a directory, where every user can read them."""
        for name, content in self.files.items():
            target = directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(0o755 if name in self.runnable else 0o644)
        for place, _, _ in os.walk(directory):
            Path(place).chmod(0o755)


def read_own_player(word: str) -> OwnPlayer:
    """Read the file or directory that a person named.

    Args:
        word: A path, relative to the current directory; ``~`` is expanded.

    Raises:
        UsageError: There is none, it cannot be read, or nothing in it can be run; the message says why.
    """
    path = Path(word).expanduser()
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise _absent(word, path) from None
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        if stat.S_ISDIR(status.st_mode):
            return _read_directory(path.absolute())
        if stat.S_ISREG(status.st_mode):
            return _read_file(path.absolute(), status)
    except OSError as error:
        raise _unreadable(path, error) from error
    raise UsageError(
        f"{path} is neither a file nor a directory, so it is no player.",
        code="player_not_runnable",
        hint="Name a .py file, an executable, or a directory with a Dockerfile or a pyproject.toml.",
    )


def require_own_player(player: OwnPlayer, backend: Backend, *, platform: str | None) -> None:
    """See that a backend can run it; nothing is started.

    Args:
        player: It.
        backend: Where it is to run.
        platform: os/architecture of what it runs in; None: this machine's, for a backend without images.

    Raises:
        UsageError: It is for another machine, or what plays it is not installed.
        CapabilityError: The backend cannot have it.
    """
    can = backend.capabilities
    if player.dockerfile and can.images and not can.builds:
        raise CapabilityError(
            f"The {backend.name} backend builds no images, and {player.file} is a directory with a Dockerfile.",
            hint="Build it, push it to a registry that the backend pulls from, and name the image instead.",
            context={"backend": backend.name, "player": player.file},
        )
    if not player.command and not can.images:
        raise UsageError(
            f"{player.path}/Dockerfile has neither CMD nor ENTRYPOINT, so nothing says how to run it here.",
            code="player_not_runnable",
            hint='Add a line such as CMD ["python", "bot.py"], or a [project.scripts] to a pyproject.toml.',
        )
    if player.needs and can.remote:
        raise CapabilityError(
            f"The {backend.name} backend hands pods no executables, and {player.file} is one.",
            hint="Put it into an image, push that, and name the image instead.",
            context={"backend": backend.name, "player": player.file},
        )
    where = platform or ("" if can.images else _here())
    if player.needs and where and not _fits(player.needs, where):
        raise UsageError(
            f"{player.path} is a program for {player.needs}, and it would run on {where}.",
            code="player_other_platform",
            hint=f"Build it for {where}.",
            context={"path": str(player.path), "needs": player.needs, "platform": where},
        )
    if player.needs_client and not can.images:
        _require_client(player)


def _require_client(player: OwnPlayer) -> None:
    from importlib.util import find_spec

    missing = [name for name in ("coworld_client", "websockets") if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"{player.file} has a function act, which coworld_client.seat plays, and {listed(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not installed for the Python that runs coworld.",
            code="client_missing",
            hint='Install it there: pip install "coworld-client[seat]".',
            context={"missing": missing},
        )


# --- a file ------------------------------------------------------------------------------------------------------


def _read_file(path: Path, status: os.stat_result) -> OwnPlayer:
    if status.st_size > _MOST_BYTES:
        raise _too_large(path)
    content = path.read_bytes()
    words = _shebang(content)
    common: dict[str, Any] = {"name": path.stem, "file": path.name, "path": path, "files": {path.name: content}}
    if path.suffix == ".py" or (words and Path(words[0]).name.startswith("python")):
        by_seat = _is_act(path, content)
        runs = (*_SEAT, f"{{}}/{path.name}") if by_seat else (_PYTHON, f"{{}}/{path.name}")
        return OwnPlayer(**common, command=runs, needs_client=by_seat)
    needs = _machine(content)
    if not needs and not words:
        raise UsageError(
            f"{path} is neither Python nor a program.",
            code="player_not_runnable",
            hint="A player is a .py file, an executable, or a script that begins with a line such as #!/bin/sh; "
            "or name a directory with a Dockerfile or a pyproject.toml.",
        )
    if not status.st_mode & 0o111:
        raise UsageError(
            f"{path} is not executable.", code="player_not_runnable", hint=f"If it is to be run: chmod +x {path}"
        )
    # a file that a pod is handed may be read there, and not executed
    command = (*words, f"{{}}/{path.name}") if words else (f"{{}}/{path.name}",)
    return OwnPlayer(**common, command=command, needs=needs, runnable=frozenset({path.name}))


def _shebang(content: bytes) -> tuple[str, ...]:
    """The interpreter that a script's first line names, as a command."""
    if not content.startswith(b"#!"):
        return ()
    words = content[2:].split(b"\n", 1)[0][:500].decode("utf-8", "replace").split()
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if word != "-S"]
    return tuple(words)


_ELF_MACHINES = {
    3: "386",
    8: "mips",
    20: "ppc",
    21: "ppc64",
    22: "s390x",
    40: "arm",
    62: "amd64",
    183: "arm64",
    243: "riscv64",
    258: "loong64",
}
_MACHO = {0x01000007: "amd64", 0x0100000C: "arm64"}


def _machine(content: bytes) -> str:
    """os/architecture of machine code; empty for anything else."""
    if content.startswith(b"\x7fELF") and len(content) >= 20:
        order = ">" if content[5] == 2 else "<"
        (machine,) = struct.unpack(f"{order}H", content[18:20])
        little = {21: "ppc64le", 8: "mipsle"} if order == "<" else {}
        return f"linux/{little.get(machine) or _ELF_MACHINES.get(machine) or f'machine-{machine}'}"
    if content[:4] in (b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe") and len(content) >= 8:
        (cpu,) = struct.unpack("<I", content[4:8])
        return f"darwin/{_MACHO.get(cpu, 'universal')}"
    return "windows" if content.startswith(b"MZ") else ""


_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "i686": "386", "i386": "386", "armv7l": "arm"}
"""What engines call the processors that systems call otherwise."""


def _here() -> str:
    return f"{platform.system()}/{platform.machine()}"


def _fits(needs: str, where: str) -> bool:
    system, _, architecture = needs.partition("/")
    there, _, rest = where.lower().partition("/")
    processor = rest.partition("/")[0]
    processor = _ARCHITECTURES.get(processor, processor)
    if system != there:
        return False
    return architecture in (processor, "universal") or (architecture, processor) == ("386", "amd64")


# --- a file of Python --------------------------------------------------------------------------------------------


def _is_act(path: Path, content: bytes) -> bool:
    """Whether a file is a player of one function; else it is a whole program."""
    try:
        tree = ast.parse(content, filename=str(path))
    except SyntaxError as error:
        raise UsageError(
            f"{path}:{error.lineno or 1}: {error.msg}.",
            code="player_syntax",
            hint=f"Python {platform.python_version()} cannot read it: {(error.text or '').strip()}"
            if error.text
            else "Correct the file; nothing was started.",
            context={"path": str(path), "line": error.lineno},
        ) from None
    except ValueError as error:
        raise UsageError(f"{path} is no Python: {error}.", code="player_syntax", hint="Is it another file?") from None
    names: dict[str, ast.stmt] = {}
    works = False
    for statement in _top(tree.body):
        works = works or _does_something(statement)
        names.update((name, statement) for name in _named(statement))
    if "act" in names:
        _check_arguments(path, names["act"])
        return True
    if works:
        return False
    near = did_you_mean("act", names)
    raise UsageError(
        f"{path} has no function act(observation, legal, rng), and is no program either: nothing in it would run.",
        code="player_without_act",
        hint=f"Did you mean {near!r} to be act?" if near else "coworld init player FILE begins a player.",
        context={"path": str(path)},
    )


def _top(body: Iterable[ast.stmt]) -> Iterable[ast.stmt]:
    """Statements of a module, those in ``if`` and ``try`` too."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try):
            yield from _top(statement.body)
            yield from _top(statement.orelse)
            for handler in getattr(statement, "handlers", ()):
                yield from _top(handler.body)


def _named(statement: ast.stmt) -> list[str]:
    """Names that a statement gives to something."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
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
    """Whether a module that holds this may be a program: it does more than name things."""
    match statement:
        case ast.Expr(value=value):
            return not isinstance(value, ast.Constant)
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return True
        case ast.For() | ast.While() | ast.With() | ast.Raise():
            return True
        case _:
            return False


def _check_arguments(path: Path, statement: ast.stmt) -> None:
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    given = statement.args
    count, least = len(given.posonlyargs + given.args), len(given.posonlyargs + given.args) - len(given.defaults)
    required = [arg.arg for arg, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None]
    if (count < 3 and given.vararg is None) or least > 3 or required:
        raise UsageError(
            f"{path}:{statement.lineno}: act does not take three arguments by position.",
            code="player_without_act",
            hint=f"Write: def act({', '.join(_ACT)})",
            context={"path": str(path), "line": statement.lineno},
        )


# --- a directory -------------------------------------------------------------------------------------------------


def _read_directory(path: Path) -> OwnPlayer:
    project, recipe = path / "pyproject.toml", path / "Dockerfile"
    if not project.is_file() and not recipe.is_file():
        inside = sorted(entry.name for entry in path.iterdir() if entry.suffix == ".py")
        raise UsageError(
            f"{path} has neither a Dockerfile nor a pyproject.toml, so nothing in it says how it is run.",
            code="player_not_runnable",
            hint=f"Name the file: {listed((f'{path.name}/{name}' for name in inside), limit=4, word='or')}."
            if inside
            else "Name a .py file, an executable, or a directory with a Dockerfile or a pyproject.toml.",
        )
    command: tuple[str, ...] = ()
    if recipe.is_file():
        command = _dockerfile_command(recipe)
    if project.is_file() and (script := _script(project, needed=not recipe.is_file())):
        module, function = script
        code = f"{_CALLED}sys.exit(getattr(importlib.import_module({module!r}),{function!r})())"
        command = (_PYTHON, "-c", code, "{}")
    files, runnable = _contents(path)
    return OwnPlayer(
        name=path.resolve().name or "player",
        file=path.resolve().name or "player",
        path=path,
        files=files,
        command=command,
        runnable=runnable,
        dockerfile=recipe.is_file(),
    )


def _contents(path: Path) -> tuple[dict[str, bytes], frozenset[str]]:
    files: dict[str, bytes] = {}
    runnable: set[str] = set()
    left = _MOST_BYTES
    for place, directories, names in os.walk(path):
        directories[:] = sorted(set(directories) - _LEFT_OUT)
        for name in sorted(names):
            entry = Path(place, name)
            if not entry.is_file():
                continue
            left -= entry.stat().st_size
            if left < 0 or len(files) == _MOST_FILES:
                raise _too_large(path)
            relative = entry.relative_to(path).as_posix()
            files[relative] = entry.read_bytes()
            if entry.stat().st_mode & 0o111:
                runnable.add(relative)
    return files, frozenset(runnable)


def _dockerfile_command(path: Path) -> tuple[str, ...]:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text.", code="dockerfile_invalid", hint="Is it another file?") from None
    read = read_dockerfile(text)
    if read.mistake is not None:
        line, words = read.mistake
        raise UsageError(
            f"{path}:{line}: {words}",
            code="dockerfile_invalid",
            hint="Correct the Dockerfile; nothing was built.",
            context={"path": str(path), "line": line},
        )
    return (*_IN_DIRECTORY, "{}", *read.command) if read.command else ()


def _script(path: Path, *, needed: bool) -> tuple[str, str] | None:
    """Module and function of the one script of a project."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}.", code="pyproject_invalid", hint="Correct it.") from None
    project = _table(document.get("project"))
    scripts = {name: target for name, target in _table(project.get("scripts")).items() if isinstance(target, str)}
    name = project.get("name")
    chosen = next(iter(scripts.values())) if len(scripts) == 1 else scripts.get(name if isinstance(name, str) else "")
    if chosen is None:
        if not needed:
            return None
        several = f" Its scripts are {listed(scripts)}." if scripts else ""
        raise UsageError(
            f"{path} does not say which script is the player.{several}",
            code="player_not_runnable",
            hint='Add [project.scripts] with one entry, such as player = "my_player:main".',
        )
    module, _, function = chosen.partition(":")
    function = function.partition("[")[0].strip()
    if not module.strip() or not function.isidentifier():
        raise UsageError(
            f"{path} has a script {chosen!r}, which is not module:function.",
            code="pyproject_invalid",
            hint="Correct it.",
        )
    return module.strip(), function


def _table(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


# --- what cannot be meant ----------------------------------------------------------------------------------------


def _absent(word: str, path: Path) -> UsageError:
    near = near_file(path)
    return UsageError(
        f"There is no player at {word}: {path.absolute()} does not exist.",
        code="player_not_found",
        hint=f"Did you mean {word.removesuffix(path.name)}{near}?"
        if near
        else "A path is relative to where you are. `coworld init player FILE` begins a player.",
        context={"path": str(path.absolute())},
    )


def near_file(path: Path) -> str | None:
    """The name of a file beside a path that was probably meant; what it ends with counts for nothing."""
    beside: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for entry in sorted(path.parent.iterdir())[:2000]:
            beside.setdefault(entry.stem, entry.name)
    near = did_you_mean(path.stem, beside)
    return beside[near] if near else None


def _unreadable(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"The player {path} cannot be read: {error.strerror}.",
        code="player_unreadable",
        hint="Check that you may read it.",
        context={"path": str(path.absolute())},
    )


def _too_large(path: Path) -> UsageError:
    return UsageError(
        f"{path} has more than {_MOST_FILES} files or {_MOST_BYTES >> 20} MiB, which is too much to hand over.",
        code="player_too_large",
        hint="Build an image of it, and name that instead.",
    )
