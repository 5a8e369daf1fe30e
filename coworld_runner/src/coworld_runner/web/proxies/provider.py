"""One request to a provider of models, and what comes back, without the key in it."""

from __future__ import annotations

import http.client
import select
import socket
import threading
from contextlib import contextmanager
from urllib.parse import urlsplit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

__all__ = ["IDLE_SECONDS", "MOST_ANSWER", "ClientLeft", "Provider", "ProviderFailed"]

MOST_ANSWER = 64 << 20
"""Bytes of an answer."""
IDLE_SECONDS = 600.0
"""A model may think for minutes without sending a byte."""
_CONNECT_SECONDS = 20.0
_MOST_LINE = 16 << 20
_PIECE = 1 << 16
_PASSED = ("content-type", "retry-after")
"""Headers of an answer that are passed on."""
_HIDDEN = b"[key]"


class ProviderFailed(Exception):
    """The provider could not be asked, or broke off; the message says how."""


class ClientLeft(Exception):
    """Whoever asked has hung up."""


class Answer:
    """What a provider answers.

    Args:
        response: The response.
        key: The key, which is removed from whatever is read.
        has_left: Set if the connection was ended because the client has left.

    Attributes:
        status: Its status of HTTP.
        headers: Those of its headers that are passed on.
        is_stream: Whether it comes as events.
    """

    def __init__(self, response: http.client.HTTPResponse, key: str, has_left: threading.Event) -> None:
        self._response = response
        self._has_left = has_left
        self._key = key.encode()
        self.status = response.status
        self.headers = {name: value for name in _PASSED if (value := response.headers.get(name)) is not None}
        self.is_stream = "text/event-stream" in self.headers.get("content-type", "")

    def whole(self) -> bytes:
        """All of it.

        Raises:
            ProviderFailed: It broke off, or is too long.
        """
        with _failing():
            body = self._response.read(MOST_ANSWER + 1)
        if len(body) > MOST_ANSWER:
            raise ProviderFailed(f"its answer has more than {MOST_ANSWER >> 20} MiB")
        return self._clean(body)

    def lines(self) -> Iterator[bytes]:
        """Its lines as they come, with their ends.

        Raises:
            ProviderFailed: It broke off, or is too long.
        """
        total, rest = 0, b""
        while True:
            with _failing():
                # Not readline, which takes a stream that breaks off for one that ends
                piece = self._response.read1(_PIECE)
            total += len(piece)
            *lines, rest = (rest + piece).split(b"\n")
            if len(rest) > _MOST_LINE or total > MOST_ANSWER:
                raise ProviderFailed(f"its answer has more than {MOST_ANSWER >> 20} MiB, or one line of it is too long")
            for line in lines:
                yield self._clean(line + b"\n")
            if not piece:
                if self._has_left.is_set() and not self._response.chunked:
                    raise ProviderFailed("it was not to go on")
                yield self._clean(rest)
                return

    def _clean(self, text: bytes) -> bytes:
        return text.replace(self._key, _HIDDEN) if self._key else text


class Provider:
    """A provider of models.

    Args:
        base: Its address, to which the name of a call is added.
        key: The key; empty: none is sent.
        key_header: The header for the key: `authorization`, or `x-api-key`.
    """

    def __init__(self, base: str, key: str, key_header: str) -> None:
        self._base = urlsplit(base.rstrip("/"))
        self._key = key
        self._headers = {"Content-Type": "application/json", "User-Agent": "coworld", "Accept-Encoding": "identity"}
        if key:
            self._headers[key_header] = f"Bearer {key}" if key_header == "authorization" else key

    @contextmanager
    def asked(self, call: str, body: bytes, headers: Mapping[str, str], client: socket.socket) -> Generator[Answer]:
        """Ask, and hang up when the client does.

        Args:
            call: The name of the call, such as `chat/completions`.
            body: The question.
            headers: Further headers.
            client: The connection of who asks.

        Raises:
            ProviderFailed: It cannot be reached, sends nothing, or what is not HTTP.
            ClientLeft: The client has hung up.
        """
        kind = http.client.HTTPSConnection if self._base.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._base.hostname or "", self._base.port, timeout=_CONNECT_SECONDS)
        try:
            with _failing():
                connection.connect()
            # From here on it is the model that takes its time
            connection.sock.settimeout(IDLE_SECONDS)
            with _hanging_up(client, connection.sock) as has_left:
                try:
                    with _failing():
                        connection.request("POST", f"{self._base.path}/{call}", body, {**self._headers, **headers})
                        response = connection.getresponse()
                    yield Answer(response, self._key, has_left)
                except ProviderFailed:
                    if not has_left.is_set():
                        raise
                    raise ClientLeft from None
        finally:
            connection.close()


@contextmanager
def _failing() -> Generator[None]:
    try:
        yield
    except socket.timeout as error:  # noqa: UP041 - another class in Python 3.9
        raise ProviderFailed("it sent nothing for too long") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        # The words of some errors repeat what was sent, as a request's line
        raise ProviderFailed(f"the connection to it failed ({type(error).__name__})") from error


@contextmanager
def _hanging_up(client: socket.socket, upstream: socket.socket) -> Generator[threading.Event]:
    """End the connection to the provider once the client has closed its own, and say so: nobody waits any more."""
    has_left = threading.Event()
    woken, waking = socket.socketpair()

    def watch() -> None:
        try:
            ready, _, _ = select.select([client, woken], [], [])
            if client in ready and not client.recv(1, socket.MSG_PEEK):
                has_left.set()
                upstream.shutdown(socket.SHUT_RDWR)
        except (OSError, ValueError):
            pass  # One of them is closed already

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield has_left
    finally:
        waking.close()
        watcher.join()
        woken.close()
