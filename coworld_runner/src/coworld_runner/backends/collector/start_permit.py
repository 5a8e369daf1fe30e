"""What pods wait for: `start_permit.py PORT` ends with 0 once the collector there says that the unit may start."""

from __future__ import annotations

import socket
import sys
import time

__all__ = ["GO", "address", "main"]

GO = b"go"
_BEGIN_SECONDS = 60.0
"""How long the collector may take to start."""
_LOOK_SECONDS = 0.005


def address(port: int) -> str:
    """The collector's abstract socket address: a name in the pod's own network, which leaves no file behind."""
    return f"\0coworld-collector-{port}"


def main(port: int) -> int:
    """Wait for the collector; return the exit status."""
    until = time.monotonic() + _BEGIN_SECONDS
    with socket.socket(socket.AF_UNIX) as connection:
        while True:
            try:
                connection.connect(address(port))
                break
            except OSError:
                if time.monotonic() > until:
                    return 1
            # Polls: nothing reports yet that the collector has started
            time.sleep(_LOOK_SECONDS)
        return 0 if connection.recv(len(GO)) == GO else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
