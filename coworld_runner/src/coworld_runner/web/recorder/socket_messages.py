"""The messages in the bytes of a websocket."""

from __future__ import annotations

import base64
import hashlib
import struct

__all__ = ["CLOSING", "MOST_OF_MESSAGE", "MessageReader", "accept_key", "is_closing", "text_frame"]

MOST_OF_MESSAGE = 16 << 20
"""Bytes of the longest message whose content is kept."""
CLOSING = b"\x88\x02\x03\xe8"
"""The frame that closes a connection normally."""

_MOST_OF_CONTROL = 125
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class MessageReader:
    """Finds the messages in one direction of a websocket, whose bytes come in pieces."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._skip = 0
        """Bytes of a frame that is not kept which are still to come."""
        self._parts: list[bytes] = []
        self._size = 0
        self._is_text = True

    @property
    def held(self) -> int:
        """Bytes of an incomplete frame that are held."""
        return len(self._bytes)

    def feed(self, data: bytes) -> list[tuple[bool, bytes | None, int]]:
        """Take more bytes, and return the messages that they complete.

        Returns:
            For each, whether it is text, its content (None if it is longer than `MOST_OF_MESSAGE`), and its size in
            bytes.
        """
        found: list[tuple[bool, bytes | None, int]] = []
        if self._skip:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            data = data[skipped:]
        self._bytes += data
        while not self._skip and (head := self._head()) is not None:
            final, code, mask, start, size = head
            is_control = code >= 8
            before = 0 if code else self._size
            kept = size <= _MOST_OF_CONTROL if is_control else before + size <= MOST_OF_MESSAGE
            if kept and len(self._bytes) < start + size:
                break
            content = bytes(self._bytes[start : start + size]) if kept else None
            self._skip = max(start + size - len(self._bytes), 0)
            del self._bytes[: start + size]
            if is_control:
                continue
            if code:
                self._is_text, self._parts = code == 1, []
            self._size = before + size
            if content is not None:
                self._parts.append(_unmasked(content, mask) if mask else content)
            if final:
                whole = b"".join(self._parts) if self._size <= MOST_OF_MESSAGE else None
                found.append((self._is_text, whole, self._size))
                self._parts, self._size = [], 0
        return found

    def _head(self) -> tuple[bool, int, bytes, int, int] | None:
        """Whether the next frame is a message's last, its code, its mask, where its content begins, and its size."""
        held = self._bytes
        if len(held) < 2:
            return None
        size, start = held[1] & 127, 2
        if size > _MOST_OF_CONTROL:
            start = 4 if size == 126 else 10
            if len(held) < start:
                return None
            (size,) = struct.unpack(">H" if start == 4 else ">Q", held[2:start])
        mask = b""
        if held[1] & 128:
            mask = bytes(held[start : start + 4])
            start += 4
            if len(mask) < 4:
                return None
        return bool(held[0] & 128), held[0] & 15, mask, start, size


def _unmasked(content: bytes, mask: bytes) -> bytes:
    # One operation on large numbers is the fastest way that Python has for this
    count = len(content)
    key = int.from_bytes((mask * (count // 4 + 1))[:count], "little")
    return (int.from_bytes(content, "little") ^ key).to_bytes(count, "little")


def text_frame(content: bytes) -> bytes:
    """A frame with a whole text, as a server sends it."""
    size = len(content)
    if size <= _MOST_OF_CONTROL:
        return struct.pack(">BB", 0x81, size) + content
    return (struct.pack(">BBH", 0x81, 126, size) if size < 1 << 16 else struct.pack(">BBQ", 0x81, 127, size)) + content


def is_closing(data: bytes) -> bool:
    """Whether what arrives begins with a frame that closes the connection."""
    return data[0] & 15 == 8


def accept_key(key: bytes) -> bytes:
    """What a server answers to the key of a client."""
    return base64.b64encode(hashlib.sha1(key + _GUID).digest())  # noqa: S324 - the protocol's own
