"""Searches a run's files for its secrets, without reading whole files into memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import anyio.from_thread
import anyio.to_thread

__all__ = ["slots_leaked"]

_PIECE = 1 << 20
_UNPACKED_LIMIT = 1 << 30
"""Limit of unpacked bytes to search in a packed file."""


async def slots_leaked(path: Path, tokens: Sequence[str]) -> tuple[int, ...]:
    """Return the slots whose token is in a file, plain or within one layer of zlib or gzip.

    Args:
        path: A file; a missing one leaks nothing.
        tokens: The tokens by slot.
    """
    return await anyio.to_thread.run_sync(_search, path, [token.encode() for token in tokens])


def _search(path: Path, tokens: list[bytes]) -> tuple[int, ...]:
    wanted = {slot: token for slot, token in enumerate(tokens) if token}
    found: set[int] = set()
    for pieces in (_plain, _unpacked):
        try:
            found |= _found(pieces(path), {slot: token for slot, token in wanted.items() if slot not in found})
        except OSError:
            continue
    return tuple(sorted(found))


def _found(pieces: Iterable[bytes], tokens: dict[int, bytes]) -> set[int]:
    found: set[int] = set()
    overlap = max((len(token) for token in tokens.values()), default=1) - 1
    before = b""
    for piece in pieces:
        window = before + piece
        found |= {slot for slot, token in tokens.items() if slot not in found and token in window}
        if len(found) == len(tokens):
            break
        before = window[-overlap:] if overlap else b""
    return found


def _plain(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            anyio.from_thread.check_cancelled()
            yield piece


def _unpacked(path: Path) -> Iterator[bytes]:
    stream = zlib.decompressobj(47)  # Zlib or gzip, by its header
    total = 0
    try:
        for packed in _plain(path):
            waiting = packed
            while waiting and not stream.eof and total < _UNPACKED_LIMIT:
                piece = stream.decompress(waiting, _PIECE)
                waiting = stream.unconsumed_tail
                total += len(piece)
                yield piece
            if stream.eof or total >= _UNPACKED_LIMIT:
                return
    except zlib.error:
        return
