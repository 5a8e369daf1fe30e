"""Opens a replay, wherever it is and however it is packed.

A replay is opaque bytes of any game, and may be raw, zlib or gzip. Its first bytes tell which; its name counts only for
rare zlib headers. It is unpacked in bounded pieces up to a limit, never in memory as a whole.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import anyio.from_thread
import anyio.to_thread

from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.record import read_record
from coworld_core.errors import CoworldError, EnvironmentFault, RemoteError, UsageError
from coworld_core.files.compression import Compression, Unpacker, detect_compression, sniff_compression
from coworld_core.files.lfs_pointers import refuse_lfs_pointer
from coworld_core.hints import Hint
from coworld_core.roles.bundle_file import is_bundle, read_bundle
from coworld_core.text.phrases import listed
from coworld_core.text.size_text import shown_size
from coworld_core.text.urls import shown_url

from ..package.locations import FETCH_SECONDS, Location, fetch, missing, read_location, s3_address
from ..package.resolver import Package
from ..runs.episode_places import find_episode, not_one_episode, runs_below
from ..runs.scratch import open_scratch
from ..runs.workspace import replays_of

__all__ = [
    "DEFAULT_REPLAY_LIMIT",
    "Compression",
    "Replay",
    "ReplayError",
    "find_replay",
    "game_of",
    "last_of",
    "last_replay",
    "resolve_replay",
    "sniff_compression",
]

DEFAULT_REPLAY_LIMIT = 1 << 30
"""Size limit of a replay in bytes, fetched or unpacked."""


class ReplayError(CoworldError):
    """A replay is empty, damaged, cut short, or larger than it may be."""

    kind = "answer"
    default_code = "replay_unreadable"


@dataclass(frozen=True, kw_only=True)
class Replay:
    """A replay as a plain, unpacked file on this machine."""

    path: Path
    """The file: the original if it was local and not compressed, else a copy that is removed with the context."""
    name: str
    """File name to give the replay for a game: without a compression suffix, since games of the runtime contract unpack
    by suffix."""
    size: int
    """Bytes of the file."""
    source: str
    """Where it came from, without passwords and queries."""
    compression: Compression
    """How it was compressed."""
    copied: bool
    """Whether `path` is a copy."""


@asynccontextmanager
async def resolve_replay(
    argument: str | os.PathLike[str],
    *,
    directory: Path | None = None,
    limit: int = DEFAULT_REPLAY_LIMIT,
    timeout: float = FETCH_SECONDS,
    token: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> AsyncGenerator[Replay, None]:
    """Provide a replay as a plain file while the context is open.

    Args:
        argument: A path (of a replay, a bundle or a workspace, of an episode of a run of many, or `latest`, as
            `coworld_runner.runs.episode_places.find_episode` explains), or an address: `file://`, `http(s)://`, or
            `s3://bucket/key` for a public object. What an address leads to may be a bundle, too.
        directory: An existing directory for copies. None: a temporary one, removed on leaving.
        limit: Size limit of the replay in bytes, fetched or unpacked.
        timeout: Seconds to wait for a connection, or for the next bytes.
        token: Bearer token for an http(s) address, sent to its own origin only.
        environment: Environment with `AWS_ENDPOINT_URL_S3` and `AWS_ENDPOINT_URL`; None means this process's.

    Raises:
        UsageError: There is no such file, or the argument is not a readable address.
        RemoteError: The host cannot be reached or refused; the message names it.
        ReplayError: It is empty, damaged, cut short or too large (codes `replay_empty`, `replay_damaged`,
            `replay_truncated`, `replay_too_large`, `replay_bomb`).
        BundleError: It is a bundle that is not valid.
        EnvironmentFault: There is no room for a copy.
    """
    source = read_location(argument, what="replay")
    async with contextlib.AsyncExitStack() as stack:
        place = directory

        async def copies() -> Path:
            nonlocal place
            if place is None:
                # Labelled and locked like a run's, so that `coworld clean` finds it after a kill
                place = (await stack.enter_async_context(open_scratch())).directory("replay")
            return place

        if source.kind == "path":
            replay = await _local(source, copies, limit)
        else:
            replay = await _remote(source, await copies(), limit, timeout, token, environment)
        yield replay


def last_replay(directory: Path, *, below: bool = False) -> tuple[Path, Path]:
    """Find the newest replay among the results of a package.

    Args:
        directory: The package's directory.
        below: Whether to search packages one or two directories below, too.

    Returns:
        The directory of the package, and the replay.

    Raises:
        UsageError: There is none.
    """
    found = [
        (replay.stat().st_mtime_ns, package, replay)
        for package, run in runs_below(directory, below=below)
        for replay in replays_of(run)
    ]
    if not found:
        raise UsageError(
            f"There is no replay{' at or below' if below else ' of an episode in'} {directory} yet.",
            code="no_replay",
            hint=Hint("play_first", "run_episode leaves one; any other can be named by its path."),
        )
    _, package, replay = max(found)
    return package, replay


def last_of(package: Package) -> Path:
    """Return the newest replay among a package's results. Blocks.

    Raises:
        UsageError: There is none.
    """
    return last_replay(package.default_results_dir().parent)[1]


def find_replay(
    package: str = "", replay: str | os.PathLike[str] | None = None
) -> tuple[str, str | os.PathLike[str] | None]:
    """Tell which package and which replay are meant. Blocks.

    Args:
        package: A reference that `resolve_package` accepts, or an episode, whose record says which game played it.
            Empty: the package of the last replay at or below the current directory.
        replay: A reference that `resolve_replay` accepts.

    Returns:
        References of the package and of the replay; None: the last one of the package.

    Raises:
        UsageError: There is no replay here, or a bundle or an episode was given that does not tell its game.
    """
    if not package:
        found, last = last_replay(Path.cwd(), below=True)
        return str(found), last
    if replay is None and (game := game_of(package)) is not None:
        return game, package
    return package, replay


def game_of(argument: str) -> str | None:
    """Tell which game has played an episode. Blocks.

    Args:
        argument: The path of an episode, as `find_episode` reads it, or anything else.

    Returns:
        Where the game's manifest is, according to the episode's record; None if the argument names no episode.

    Raises:
        UsageError: It is a bundle, which does not tell (`game_unknown`); or there is no such episode.
    """
    source = read_location(argument, what="manifest")
    if source.path is None:
        return None
    place = find_episode(source.path)
    if EpisodeLayout(place).record.is_file():
        return read_record(place).manifest or None
    if place.is_file() and is_bundle(place):
        raise UsageError(
            f"{place} is a bundle, which does not say which game shows its replay.",
            code="game_unknown",
            hint=Hint("name_game", "Name the game's manifest, too.", bundle=argument),
            context={"path": str(place)},
        )
    return None


async def _local(source: Location, copies: Callable[[], Awaitable[Path]], limit: int) -> Replay:
    assert source.path is not None
    place = await anyio.to_thread.run_sync(find_episode, source.path)
    path, head, size = await anyio.to_thread.run_sync(_look, place)
    name, shown, bundled = path.name, str(path), await anyio.to_thread.run_sync(is_bundle, path)
    if bundled:
        path = await anyio.to_thread.run_sync(_of_bundle, path, await copies() / "bundled", limit, shown)
        path, head, size = await anyio.to_thread.run_sync(_look, path)
        name = "replay"
    compression = await anyio.to_thread.run_sync(_compression, path, head, name)
    if compression == "none":
        return Replay(path=path, name=_name(name), size=size, source=shown, compression="none", copied=bundled)
    target = await copies() / "replay"
    size = await anyio.to_thread.run_sync(_unpack, path, target, compression, limit, shown)
    return Replay(path=target, name="replay", size=size, source=shown, compression=compression, copied=True)


def _of_bundle(path: Path, target: Path, limit: int, shown: str) -> Path:
    """Extract the replay of a bundle; returns its path. Runs in a worker thread."""
    bundle = read_bundle(path)
    file = bundle.file("replay")
    if file is None:
        parts = listed(list(dict.fromkeys(file.token for file in bundle.files))) or "nothing"
        raise UsageError(
            f"There is no replay in the bundle {shown}.",
            code="no_replay",
            hint=f"It includes {parts}.",
            context={"path": shown},
        )
    if file.size > limit:
        raise ReplayError(
            f"The replay in the bundle {shown} has {shown_size(file.size)}, more than {shown_size(limit)}.",
            code="replay_too_large",
            hint="Raise the limit if you trust the source.",
        )
    with _copying(target, shown):
        bundle.extract(file, target, pause=anyio.from_thread.check_cancelled)
    return target


def _look(path: Path) -> tuple[Path, bytes, int]:
    """Return the file that a path refers to, its first bytes and its size."""
    try:
        if path.is_dir():
            if not (path / "replay").is_file():
                raise not_one_episode(path) or UsageError(
                    f"{path} is a directory, and there is no file `replay` in it.",
                    code="path_missing",
                    hint="Name the replay itself, or the workspace of an episode that wrote one.",
                )
            path = path / "replay"
        if not stat.S_ISREG(path.stat().st_mode):
            raise UsageError(f"{path} is not a regular file, so it is not a replay.", code="bad_path")
        with path.open("rb") as file:
            return path, refuse_lfs_pointer(file.read(100), path)[:4], os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        raise missing(path, what="replay") from None
    except OSError as error:
        raise UsageError(f"The replay {path} cannot be read: {error.strerror}.", code="path_unreadable") from error


def _compression(path: Path, head: bytes, name: str) -> Compression:
    """Detect how a file is packed; in doubt by unpacking it, because text may begin like zlib ("x^")."""
    if not head:
        raise _empty(name)
    with path.open("rb") as file:
        return detect_compression(file, name=name)


def _empty(name: str) -> ReplayError:
    return ReplayError(
        f"The replay {name} is empty.",
        code="replay_empty",
        hint="The game wrote nothing, or has not finished writing.",
    )


async def _remote(
    source: Location,
    directory: Path,
    limit: int,
    timeout: float,
    token: str | None,
    environment: Mapping[str, str] | None,
) -> Replay:
    url = source.url
    if source.kind == "s3":
        variables = os.environ if environment is None else environment
        url = s3_address(url, variables.get("AWS_ENDPOINT_URL_S3") or variables.get("AWS_ENDPOINT_URL"))
        token = None
    shown = shown_url(source.url)
    fetched = directory / "fetched"
    with fetched.open("w+b") as file:
        answer = await fetch(url, file, what="replay", limit=limit, timeout=timeout, token=token)
    path = urlsplit(source.url).path if source.kind == "http" else source.url
    name = unquote(path.rpartition("/")[2])
    if answer.encoding:
        # Decode here, within the limit, because the transport has none
        fetched = await anyio.to_thread.run_sync(_decoded, fetched, answer.encoding, limit, shown)
    if await anyio.to_thread.run_sync(is_bundle, fetched):
        bundled = await anyio.to_thread.run_sync(_of_bundle, fetched, directory / "bundled", limit, shown)
        fetched.unlink()
        fetched, name = bundled, "replay"
    head = await anyio.to_thread.run_sync(_head, fetched)
    compression = await anyio.to_thread.run_sync(_compression, fetched, head, name or "replay")
    plain = _name(name) if compression == "none" else "replay"
    target = directory / plain
    if compression == "none":
        size = fetched.stat().st_size
        fetched.rename(target)
    else:
        size = await anyio.to_thread.run_sync(_unpack, fetched, target, compression, limit, shown)
        fetched.unlink()
    return Replay(path=target, name=plain, size=size, source=shown, compression=compression, copied=True)


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4)


def _decoded(path: Path, encoding: str, limit: int, source: str) -> Path:
    """Undo the transport's content encoding."""
    if encoding not in {"gzip", "x-gzip", "deflate"}:
        raise RemoteError(
            f"{source} came in the encoding {encoding[:40]!r}, which was not asked for.",
            code="remote_encoding",
            hint="Ask its owner to serve it as it is.",
        )
    with path.open("rb") as file:
        actual = sniff_compression(file.read(4), name=".z")
    if actual == "none":
        # Some servers announce an encoding for files that they store packed, others for files that are not packed
        return path
    target = path.with_name("decoded")
    _unpack(path, target, actual, limit, source)
    path.unlink()
    return target


_PACKED_SUFFIX = re.compile(r"(\.(z|zz|zlib|gz|gzip))+$", re.IGNORECASE)


def _name(name: str) -> str:
    """Return a plain name for an unpacked replay: games unpack by suffix."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", _PACKED_SUFFIX.sub("", name)).strip("._")[:100]
    return plain or "replay"


def _unpack(source: Path, target: Path, compression: Compression, limit: int, shown: str) -> int:
    """Unpack a file piece by piece; returns the size. Runs in a worker thread and stops when its task is cancelled."""
    with _copying(target, shown), source.open("rb") as packed, target.open("xb") as plain:
        unpacker = Unpacker(compression, limit=limit, what="replay", source=shown, error=ReplayError)
        return unpacker.run(packed.read, plain.write, pause=anyio.from_thread.check_cancelled)


@contextlib.contextmanager
def _copying(target: Path, shown: str) -> Generator[None]:
    """Remove an incomplete copy of a replay."""
    try:
        yield
    except OSError as error:
        _discard(target)
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        room = shutil.disk_usage(target.parent).free if full else 0
        raise EnvironmentFault(
            f"The replay {shown} could not be unpacked into {target.parent}: {error.strerror}.",
            code="disk_full" if full else "replay_unwritable",
            hint=f"Free some room ({shown_size(room)} left), or set TMPDIR." if full else None,
        ) from error
    except BaseException:
        _discard(target)
        raise


def _discard(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
