"""An HTTP server with a thread for each connection, of which one client may not take all."""

from __future__ import annotations

import threading
from http.server import ThreadingHTTPServer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["LimitedServer"]


class LimitedServer(ThreadingHTTPServer):
    """The server.

    Args:
        address: Where to listen.
        handler: The class that serves a connection.
        most_each: Maximum connections of one client at a time.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: Any, most_each: int) -> None:
        super().__init__(address, handler)
        self._most_each = most_each
        self._open: dict[str, int] = {}
        self._lock = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, unless its client has too many."""
        with self._lock:
            before = self._open.get(client_address[0], 0)
            if before < self._most_each:
                self._open[client_address[0]] = before + 1
        if before < self._most_each:
            super().process_request(request, client_address)
        else:
            self.tell_too_many(self._most_each)
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._open[client_address[0]] -= 1

    def tell_too_many(self, most: int) -> None:
        """Report that a client has opened too many connections."""
