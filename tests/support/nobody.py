"""An address at which nothing listens, reserved while it is needed."""

from __future__ import annotations

import socket
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["nobody_there"]


@contextmanager
def nobody_there() -> Generator[str]:
    """The URL of a port that refuses connections; it is bound, so that no other test can listen on it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"
