"""An address at which nobody listens, as long as it is needed."""

from __future__ import annotations

import socket
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["nobody_there"]


@contextmanager
def nobody_there() -> Generator[str]:
    """The URL of a port that is bound, so that no other test comes to listen on it, and refuses connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"
