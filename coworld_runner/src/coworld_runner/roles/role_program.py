"""Which program plays a supporting role: one of the manifest, a file or directory of the user, or an image."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coworld_core.errors import UsageError
from coworld_core.files.lfs_pointers import read_whole
from coworld_core.hints import Hint
from coworld_core.manifest.features import ReporterReference, WasmReporter
from coworld_core.manifest.models import Runnable
from coworld_core.role_kinds import ROLES, RoleType
from coworld_core.roles.role_record import DiagnosedPlayer, Role
from coworld_core.text.phrases import closest, listed

from ..package.own_players.component_file import COMPONENT, read_component
from ..package.own_players.own_player import MOST_BYTES, PYTHON, OwnPlayer, too_large
from ..package.own_players.player_file import only_defines, read_file, with_imports
from ..package.player_names import is_bare, is_player_path, player_host, seat_files
from ..package.resolver import Package

__all__ = ["RoleProgram", "declared_elsewhere", "declared_ids", "find_role"]

_HOST = (PYTHON, "-m", "coworld_runner.kit.roles")


@dataclass(frozen=True, kw_only=True)
class RoleProgram:
    """The program of a role."""

    role: Role
    id: str
    """Its id in the manifest, or the name of its file or image."""
    runnable: Runnable
    """Image, command, environment and resources."""
    own: OwnPlayer | None = None
    """The user's file, which runs in that image."""

    @property
    def is_component(self) -> bool:
        """Whether it is a WebAssembly component, which needs wasmtime where it runs."""
        return self.own is not None and self.own.file.endswith(COMPONENT)

    @property
    def is_hosted(self) -> bool:
        """Whether it is only a function or a component, which a program of ours plays."""
        return self.own is not None and self.own.command[: len(_HOST)] == _HOST

    def identity(self, digest: str) -> dict[str, object]:
        """What it is, for a key: the same identity, the same program.

        Args:
            digest: The digest of its image; empty if that is not known.
        """
        return {
            "role": self.role,
            "program": self.own.digest if self.own is not None else digest or self.runnable.image,
            "run": list(self.own.shown() if self.own is not None else self.runnable.run),
            "env": dict(self.runnable.env),
        }

    def key(
        self,
        digest: str,
        *,
        episodes: Sequence[str],
        player: DiagnosedPlayer | None = None,
        how: Mapping[str, Any] | None = None,
    ) -> str:
        """Digest of the program and of all that it is given, in hexadecimal: the same key, the same work.

        Args:
            digest: The digest of its image; empty if that is not known.
            episodes: A digest of what it is given of each episode.
            player: The player to diagnose.
            how: How it is run, as far as that may change what it says.
        """
        told = {
            **self.identity(digest),
            "episodes": list(episodes),
            "player": None if player is None else player.model_dump(mode="json"),
            **(how or {}),
        }
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

    def __str__(self) -> str:
        return f"{self.role} {self.id}"


def find_role(package: Package, role: Role, word: str | None = None, *, run: Sequence[str] = ()) -> RoleProgram:
    """Find the program of a role.

    Args:
        package: The Coworld.
        role: The role.
        word: An id of the manifest, a file (`./grader.py`; for a reporter, also a WebAssembly component), a command
            that names a file (`node ./grader.mjs --fast`), or an image. None: the only one of the manifest.
        run: The command, for an image; empty: its own.

    Raises:
        UsageError: There is none, or several and none is named (`role_unknown`), or the file is no program of that role
            (`role_not_runnable`).
    """
    if word is None:
        ids = declared_ids(package, role)
        if len(ids) != 1:
            raise _undecided(package, role)
        word = ids[0]
    for entry in package.manifest.section(role):
        if entry.id == word:
            return RoleProgram(role=role, id=entry.id, runnable=entry.as_runnable())
    for component in _components(package, role):
        if component.id == word:
            assert package.directory is not None
            return _of_file(package, role, package.directory / component.wasm, id=component.id)
    if len(word.split()) > 1 and not _is_file(word):
        return _of_command(package, role, word)
    if is_player_path(word) or word.endswith(COMPONENT):
        return _of_file(package, role, Path(word).expanduser().absolute())
    if is_bare(word):
        raise _unknown(package, role, word)
    # An invalid reference is refused where images are resolved
    runnable = _plain(package.manifest.game.runnable, role).model_copy(update={"image": word, "run": tuple(run)})
    return RoleProgram(role=role, id=word, runnable=runnable)


def declared_ids(package: Package, role: RoleType) -> tuple[str, ...]:
    """The ids of the programs of a role that the manifest declares and that can run here."""
    programs = [entry.id for entry in package.manifest.section(role)]
    return (*programs, *(component.id for component in _components(package, role)))


def declared_elsewhere(package: Package) -> tuple[str, ...]:
    """The reporters that the manifest declares and that run on their platform only, by id or reference."""
    here = declared_ids(package, "reporter")
    known = [
        entry.reporter if isinstance(entry, ReporterReference) else entry.id
        for entry in package.manifest.reporter
        if isinstance(entry, ReporterReference | WasmReporter)
    ]
    return tuple(name for name in known if name not in here)


def _components(package: Package, role: RoleType) -> list[WasmReporter]:
    """The components among a package's reporters whose file is in the package."""
    if role != "reporter" or package.directory is None:
        return []
    root = package.directory.resolve()
    found = [entry for entry in package.manifest.reporter if isinstance(entry, WasmReporter)]
    return [entry for entry in found if _inside(root, entry.wasm)]


def _inside(root: Path, name: str) -> bool:
    try:
        place = (root / name).resolve()
        return place.is_relative_to(root) and place.is_file()
    except (OSError, ValueError):
        return False


def _of_file(package: Package, role: Role, path: Path, *, id: str = "") -> RoleProgram:
    return _of_own(package, role, _read(path, role), id=id)


def _of_command(package: Package, role: Role, line: str) -> RoleProgram:
    """The program of a command, which goes where it runs with the first file that it names."""
    problem = "no word of it is a file"
    try:
        words = shlex.split(line)
    except ValueError as error:
        problem, words = str(error), []
    at = next((index for index, word in enumerate(words) if _is_file(word)), None)
    if at is None:
        raise UsageError(
            f"{line!r} is no command that runs a {role}: {problem}.",
            code="role_not_runnable",
            hint=f"It names the program's file, which is copied to where it runs: 'node ./{role}.mjs --fast'.",
            context={"role": role},
        )
    path = Path(words[at]).expanduser().absolute()
    if at == 0:
        own = _read(path, role)
        if own.command[: len(_HOST)] == _HOST:
            raise UsageError(
                f"{path} has only a function, which is given its episodes and no words.", code="role_not_runnable"
            )
        command = own.command
    else:
        first = PYTHON if words[0] in (PYTHON, "python3") else words[0]
        own = _with_file(path)
        command = (first, *words[1:at], f"{{}}/{path.name}")
    return _of_own(package, role, dataclasses.replace(own, command=(*command, *words[at + 1 :])))


def _with_file(path: Path) -> OwnPlayer:
    content = read_whole(path)
    if len(content) > MOST_BYTES:
        raise too_large(path)
    files = with_imports(path, content) if path.suffix == ".py" else {path.name: content}
    return OwnPlayer(name=path.stem, file=path.name, path=path, files=files, command=())


def _is_file(word: str) -> bool:
    try:
        return Path(word).expanduser().is_file()
    except (OSError, ValueError, RuntimeError):
        return False


def _of_own(package: Package, role: Role, own: OwnPlayer, *, id: str = "") -> RoleProgram:
    host = player_host(package)
    runnable, own = seat_files(own, _plain(host, role), host)
    return RoleProgram(role=role, id=id or own.name, runnable=runnable, own=own)


def _plain(runnable: Runnable, role: Role) -> Runnable:
    """A program of a role in the image of another, without what was meant for that one."""
    return runnable.model_copy(update={"type": role, "run": (), "env": {}, "resources": None})


def _read(path: Path, role: Role) -> OwnPlayer:
    try:
        if not path.is_file():
            raise UsageError(
                f"There is no {role} at {path}." if not path.exists() else f"{path} is a directory.",
                code="role_not_found",
                hint=f"A {role} is a file with a function {ROLES[role].function}, or a program; paths are relative to "
                "the current directory.",
                context={"path": str(path)},
            )
        if path.suffix == COMPONENT:
            return _component(path, role)
        return read_file(path, path.stat(), host=functools.partial(_host, role))
    except OSError as error:
        raise UsageError(
            f"The {role} {path} cannot be read: {error.strerror}.", code="role_unreadable", context={"path": str(path)}
        ) from error


def _component(path: Path, role: Role) -> OwnPlayer:
    if role != "reporter":
        raise UsageError(
            f"{path} is a WebAssembly component, and only reporters are.",
            code="role_not_runnable",
            hint=f"A {role} is a file with a function {ROLES[role].function}, or a program.",
            context={"path": str(path), "role": role},
        )
    return read_component(path, host=_HOST)


def _host(role: Role, path: Path, content: bytes) -> tuple[str, ...]:
    """The command that plays a file which only defines the role's function; empty if it is a program itself."""
    names = only_defines(path, content)
    if names is None:
        return ()
    function = ROLES[role].function
    if function in names:
        return _HOST
    other: Role | None = next((other for other, kind in ROLES.items() if kind.function in names), None)
    near = closest(function, names)
    raise UsageError(
        f"{path} has no function {function}, and is not a program either: nothing in it would run.",
        code="role_not_runnable",
        hint=f"It is a {other}: it has the function {ROLES[other].function}."
        if other
        else f"Did you mean {near!r} to be {function}?"
        if near
        else f"A {role} is a file with that function, or a program.",
        context={"path": str(path), "role": role},
    )


def _undecided(package: Package, role: Role) -> UsageError:
    manifest = package.manifest
    ids = declared_ids(package, role)
    if ids:
        return UsageError(
            f"{manifest.game.name} declares {len(ids)} {role}s: {listed(ids)}.",
            code="role_unknown",
            hint="Name one of them, a file, or an image.",
            context={"role": role, "ids": list(ids)},
        )
    if role == "reporter" and (elsewhere := declared_elsewhere(package)):
        message = f"The reporters of {manifest.game.name} run on its platform only: {listed(elsewhere)}."
    else:
        message = f"{manifest.game.name} declares no {role}."
    return UsageError(
        message,
        code="role_unknown",
        hint=Hint("name_role", "Name a file or an image, or declare one in the manifest.", role=role),
        context={"role": role, "ids": []},
    )


def _unknown(package: Package, role: Role, word: str) -> UsageError:
    ids = declared_ids(package, role)
    near = closest(word, ids)
    known = f"It has {listed(ids)}. " if ids else ""
    return UsageError(
        f"There is no {role} {word!r} in {package.manifest.game.name}.",
        code="role_unknown",
        hint=f"Did you mean {near!r}?" if near else f"{known}A file is ./NAME, an image has a tag: NAME:latest.",
        context={"role": role, "ids": list(ids)},
    )
