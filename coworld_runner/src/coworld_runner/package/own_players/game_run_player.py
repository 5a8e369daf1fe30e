"""A player that the game itself runs: a file, or a directory as a zip (contract, players that the game hosts)."""

from __future__ import annotations

import io
import os
from pathlib import Path

from coworld_core.errors import UsageError
from coworld_core.files.lfs_pointers import read_whole
from coworld_core.hints import Hint
from coworld_core.manifest.models import RoleRunnable

from ..resolver import Package
from .own_player import HOSTED_FILE, OwnPlayer

__all__ = ["bundled_hosted", "read_hosted"]

_MOST_BYTES = 100 << 20
_EPOCH = (1980, 1, 1, 0, 0, 0)


def bundled_hosted(package: Package, entry: RoleRunnable) -> OwnPlayer:
    """Read the file of a bundled player.

    Raises:
        UsageError: The file is not in the package, or cannot be given to the game.
    """
    if entry.file is None or entry.file.startswith("sha256:") or package.directory is None:
        what = f"is the image {entry.image}" if entry.file is None else f"is {entry.file}, which is not on this machine"
        raise UsageError(
            f"Player {entry.id!r} {what}; {package.manifest.game.name} hosts its players itself, from files.",
            code="player_file_unavailable",
            hint=Hint("name_own_files", 'Name a file or a directory for each seat, such as "./FILE".'),
            context={"player": entry.id},
        )
    path = package.directory / entry.file
    return read_hosted(path, name=entry.id)


def read_hosted(path: Path, *, name: str | None = None) -> OwnPlayer:
    """Read what the game receives: a file as it is, or a directory as a zip that depends only on its content.

    Args:
        path: The file or directory.
        name: The player's name; None: the file's name without its suffix.

    Raises:
        UsageError: The path cannot be read, is too large, or is or contains a link.
    """
    try:
        content = _packed(path) if path.is_dir() and not path.is_symlink() else _bytes(path)
    except OSError as error:
        raise UsageError(
            f"The player file {path} cannot be read: {error.strerror}.",
            code="player_file_unavailable",
            hint="Paths are relative to the current directory; a bundled player's path, to its manifest.",
            context={"path": str(path)},
        ) from error
    if len(content) > _MOST_BYTES:
        raise _refused(path, f"has more than {_MOST_BYTES >> 20} MiB")
    called = name or path.stem or "player"
    return OwnPlayer(
        name=called,
        file=path.name,
        path=path,
        files={HOSTED_FILE: content},
        command=(),
        hosted=True,
    )


def _bytes(path: Path) -> bytes:
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise _refused(path, "is neither a regular file nor a directory")
    if path.stat().st_size > _MOST_BYTES:
        raise _refused(path, f"has more than {_MOST_BYTES >> 20} MiB")
    return read_whole(path)


def _packed(directory: Path) -> bytes:
    import zipfile

    found: list[Path] = []
    for place, directories, names in os.walk(directory):
        found += [Path(place, name) for name in names]
        if links := [name for name in directories if Path(place, name).is_symlink()]:
            raise _refused(Path(place, links[0]), "is a link")
    packed, room = io.BytesIO(), _MOST_BYTES
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(found, key=lambda path: path.relative_to(directory).as_posix()):
            content = _bytes(path)
            room -= len(content)
            if room < 0:
                raise _refused(directory, f"has more than {_MOST_BYTES >> 20} MiB")
            entry = zipfile.ZipInfo(path.relative_to(directory).as_posix(), _EPOCH)
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return packed.getvalue()


def _refused(path: Path, why: str) -> UsageError:
    return UsageError(
        f"The player file {path} {why}, so it cannot be given to the game.",
        code="player_file_unavailable",
        hint="A game that hosts its players takes regular files, and directories of them.",
        context={"path": str(path)},
    )
