"""The port at which the kept frames are taken, by one reader, over a websocket."""

from __future__ import annotations

import hmac
import selectors
import socket
import time
from urllib.parse import parse_qs, urlsplit

from .kept_frames import KeptFrames
from .socket_messages import CLOSING, accept_key, is_closing, text_frame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FramePort", "fields_of", "prepare"]

_CHUNK = 1 << 16
_HEAD = 1 << 16
"""Bytes of the longest head of a request."""
_BATCH_BYTES, _BATCH_SECONDS = 1 << 16, 0.05
"""Lines are sent together, because each message wakes the reader up."""

_CLOSING_SECONDS = 5.0


class FramePort:
    """Sends the kept frames to whoever reads them.

    Args:
        selector: The program's selector.
        token: What the reader must know.
        frames: The kept frames.
        on_end: Called when the reader asks for the end; reads what was passed on before the last line is added.
    """

    def __init__(
        self, selector: selectors.BaseSelector, token: str, frames: KeptFrames, on_end: Callable[[], None]
    ) -> None:
        self._selector, self._token, self._frames, self._on_end = selector, token, frames, on_end
        self._reader: socket.socket | None = None
        self._sending = bytearray()
        self._due: float | None = None
        """When what waits is sent; None: nothing waits."""
        self._ending = False

    def accept(self, listener: socket.socket) -> None:
        """Let somebody ask."""
        try:
            caller, _ = listener.accept()
        except OSError:
            return
        prepare(caller)
        head = bytearray()

        def receive(caller: socket.socket) -> None:
            data = _received(caller)
            if data is None:
                return
            head.extend(data)
            if not data or b"\r\n\r\n" in head or len(head) > _HEAD:
                self._selector.unregister(caller)
                self._answer(caller, bytes(head))

        self._selector.register(caller, selectors.EVENT_READ, receive)

    def _answer(self, caller: socket.socket, head: bytes) -> None:
        """Answer a health check, or let the reader in."""
        first, *fields = head.split(b"\r\n")
        url = urlsplit(b"".join(first.split(b" ")[1:2]).decode("ascii", "replace"))
        token = parse_qs(url.query).get("token", [""])[0].encode(errors="replace")
        is_reader = url.path == "/frames" and hmac.compare_digest(token, self._token.encode()) and self._reader is None
        answer = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        if url.path == "/healthz":
            answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
        elif is_reader:
            key = accept_key(fields_of(fields).get(b"sec-websocket-key", b""))
            answer = (
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Accept: " + key + b"\r\n\r\n"
            )
        try:
            caller.send(answer)
        except OSError:
            is_reader = False
        if is_reader:
            self._reader = caller
            self._selector.register(caller, selectors.EVENT_READ, self._hear)
        else:
            caller.close()

    def _hear(self, reader: socket.socket) -> None:
        """Whatever the reader says asks for the end. If it says goodbye or is gone, the game goes on unrecorded."""
        data = _received(reader)
        if data and (self._ending or not is_closing(data)):
            if not self._ending:
                self._on_end()
                self._frames.finish()
                self._ending = True
        elif data is not None:
            self._frames.is_open = False
            self._frames.take()
            self._sending = bytearray()
            self._selector.unregister(reader)
            reader.close()
            self._reader = None

    def pause(self) -> float | None:
        """Seconds until something is to be sent; None: only an event can change that."""
        if self._reader is None or self._sending or not self._frames.waiting:
            return None
        if self._due is None:
            self._due = time.monotonic() + _BATCH_SECONDS
        return max(self._due - time.monotonic(), 0.0)

    def send(self) -> bool:
        """Send what is due; returns whether the reader has got everything and the program may end."""
        reader, frames = self._reader, self._frames
        if reader is None or not (self._sending or frames.waiting):
            return False
        if not self._sending:
            late = self._due is not None and time.monotonic() >= self._due
            if not (late or self._ending or len(frames.waiting) > _BATCH_BYTES):
                return False
            self._sending = bytearray(text_frame(frames.take()))
            self._due = None
            if self._ending:
                self._sending += CLOSING
        try:
            del self._sending[: reader.send(self._sending)]
        except BlockingIOError:
            pass
        except OSError:
            return False  # It is gone, which is also an event
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._sending else 0)
        if self._selector.get_key(reader).events != events:
            self._selector.modify(reader, events, self._hear)
        return self._ending and not self._sending and not frames.waiting

    def close(self) -> None:
        """Wait until the reader has closed its end; otherwise the kernel might discard what it has not read yet."""
        assert self._reader is not None
        self._selector.unregister(self._reader)
        self._reader.settimeout(_CLOSING_SECONDS)
        try:
            self._reader.shutdown(socket.SHUT_WR)
            while self._reader.recv(_CHUNK):
                pass
        except OSError:
            pass
        self._reader.close()


def fields_of(lines: list[bytes]) -> dict[bytes, bytes]:
    """The fields in the head of a request, by name in lower case."""
    parts = (line.partition(b":") for line in lines)
    return {name.strip().lower(): value.strip() for name, _, value in parts}


def prepare(end: socket.socket) -> None:
    """Make a socket that neither blocks nor holds data back."""
    end.setblocking(False)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _received(end: socket.socket) -> bytes | None:
    """What has arrived; nothing if the other end is gone, and None if there is nothing yet."""
    try:
        return end.recv(_CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""
