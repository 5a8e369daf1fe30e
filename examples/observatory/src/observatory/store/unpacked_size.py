"""How large a layer of an image is once an engine has unpacked it, counted while its bytes arrive."""

from __future__ import annotations

import bz2
import lzma
import sys
import zlib
from collections.abc import Iterator
from typing import Protocol

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["UnpackedSize"]

_PIECE = 1024 * 1024
_MEMORY = 128 * 1024 * 1024
"""The most memory for unpacking."""
_BROKEN = (EOFError, OSError, ValueError, lzma.LZMAError, zlib.error, zstd.ZstdError)
_LONGEST_MAGIC = 6


class _Unpacker(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def needs_input(self) -> bool: ...
    def decompress(self, data: bytes, /, max_length: int = -1) -> bytes: ...


class _Gzip:
    """A gzip decompressor in the form of the other ones."""

    def __init__(self) -> None:
        self._unpacker = zlib.decompressobj(31)

    @property
    def eof(self) -> bool:
        return self._unpacker.eof

    @property
    def unused_data(self) -> bytes:
        return self._unpacker.unused_data

    @property
    def needs_input(self) -> bool:
        return not self._unpacker.unconsumed_tail

    def decompress(self, data: bytes, /, max_length: int = -1) -> bytes:
        return self._unpacker.decompress(self._unpacker.unconsumed_tail + data, max_length)


def _unpacker(head: bytes) -> _Unpacker | None:
    """What unpacks content with such a beginning, as engines choose it; None if nothing does."""
    if head.startswith(b"\x1f\x8b"):
        return _Gzip()
    if head.startswith(b"\x28\xb5\x2f\xfd") or (head[0] >> 4 == 5 and head[1:4] == b"\x2a\x4d\x18"):
        return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: 27})
    if head.startswith(b"BZh"):
        return bz2.BZ2Decompressor()
    if head.startswith(b"\xfd7zXZ\x00"):
        return lzma.LZMADecompressor(memlimit=_MEMORY)
    return None


class UnpackedSize:
    """Counts the bytes of a blob, and what they are when they are unpacked.

    Content that is not compressed, or cannot be unpacked to its end, counts as far as it can be read.
    """

    def __init__(self) -> None:
        self.packed = 0
        """Bytes received."""
        self.unpacked = 0
        """Bytes that an engine writes for them, as far as they have been received."""
        self._head = b""
        self._unpacker: _Unpacker | None = None
        self._plain = False
        """Whether the rest is not compressed, or cannot be unpacked."""

    @property
    def counted(self) -> int:
        """The larger of both: the registry keeps the one, and engines the other."""
        return max(self.packed, self.unpacked)

    def add(self, data: bytes, most: int | None = None) -> bool:
        """Count further bytes; returns whether there are no more than `most` in all.

        Args:
            data: The bytes.
            most: Nothing is unpacked beyond this; None: no limit.
        """
        self.packed += len(data)
        for size in self._sizes(data):
            self.unpacked += size
            if most is not None and self.unpacked > most:
                break
        return most is None or self.counted <= most

    def _sizes(self, data: bytes) -> Iterator[int]:
        """Unpack a piece at a time."""
        while not self._plain and (data or self._waiting):
            if self._unpacker is None:
                self._head += data
                if len(self._head) < _LONGEST_MAGIC:
                    return
                data, self._head = self._head, b""
                self._unpacker = _unpacker(data)
                self._plain = self._unpacker is None
                continue
            try:
                yield len(self._unpacker.decompress(data, _PIECE))
            except _BROKEN:
                self._plain = True
                return
            # Content may consist of several parts, each compressed by itself.
            data = self._unpacker.unused_data if self._unpacker.eof else b""
            if self._unpacker.eof:
                self._unpacker = None

    @property
    def _waiting(self) -> bool:
        """Whether there is more to unpack of what has arrived."""
        return self._unpacker is not None and not self._unpacker.needs_input
