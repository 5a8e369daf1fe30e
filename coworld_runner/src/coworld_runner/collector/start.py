"""The collector itself: gets the directory ready, says that the unit may start, and serves until it is told to end."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time

from .files import Files
from .processes import Processes
from .usage import FreeRoom, disk_usage, too_much
from .waiting import GO, address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Collector", "CollectorSettings", "main"]

_HELD_SECONDS = 120.0
"""How long a unit is held back for files that nobody brings."""
_DISK_SECONDS = 1.0
_DISK_SHARE = 20
_ROOM_SECONDS = 0.1
"""Between two looks whether much of the disk is gone at once."""


class CollectorSettings:
    """What the pod says in its environment."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.port = int(environment["COWORLD_COLLECTOR_PORT"])
        self.directory = environment["COWORLD_COLLECTOR_DIRECTORY"]
        self.inputs = environment.get("COWORLD_COLLECTOR_INPUTS", "")
        """What the unit may only read; empty when there is nothing of the kind."""
        self.given = environment["COWORLD_COLLECTOR_GIVEN"]
        self.hold = environment.get("COWORLD_COLLECTOR_HOLD") == "1"
        disk, entries = (environment.get(f"COWORLD_COLLECTOR_{name}") for name in ("DISK", "ENTRIES"))
        self.disk = int(disk) if disk else None
        """Bytes that the unit may write; None: any number."""
        self.entries = int(entries) if entries else None
        """Files and directories that it may make; None: any number."""
        self.signals = environment.get("COWORLD_COLLECTOR_SIGNALS") == "1"
        """Whether the processes around us are those of the unit; outside of a pod they are somebody's."""
        self.token = environment.get("COWORLD_COLLECTOR_TOKEN", "")


class Collector:
    """All that the requests are about."""

    def __init__(self, settings: CollectorSettings) -> None:
        self.settings = settings
        self.files = Files(settings.directory)
        self.processes = Processes() if settings.signals else None
        self.go = threading.Event()
        self.heard = time.monotonic()
        """When somebody who may asked for something last."""
        self.over_disk = ""
        """In what way the unit was over its disk limit, and ended for it."""

    def prepare(self) -> None:
        """Fill the directory and watch it."""
        descriptor = self.files.open_watch()
        self.files.fill(self.settings.given, self.settings.inputs)
        threading.Thread(target=self.files.follow, args=(descriptor,), daemon=True).start()
        limited = self.settings.disk is not None or self.settings.entries is not None
        if limited and self.processes is not None:
            threading.Thread(target=self._watch_disk, daemon=True).start()
        if not self.settings.hold:
            self.go.set()

    def signal(self, name: str) -> int:
        """Signal the unit; returns to how many processes."""
        return self.processes.signal(name) if self.processes is not None else 0

    def used(self) -> tuple[int, int]:
        """Bytes, files and directories of the unit; counted no further than to the first that is too many."""
        most_bytes, most_entries = (
            float("inf") if most is None else most for most in (self.settings.disk, self.settings.entries)
        )
        return disk_usage([self.settings.directory], most_bytes=most_bytes, most_entries=most_entries)

    def _watch_disk(self) -> None:
        room = FreeRoom([self.settings.directory], self.settings.disk, self.settings.entries)
        begun = ended = time.monotonic()
        while True:
            # a thread of this program's own: nothing tells how much a directory holds
            time.sleep(max(_ROOM_SECONDS, _DISK_SHARE * (ended - begun)))
            if time.monotonic() - ended < _DISK_SECONDS and not room.fell():
                continue
            begun = time.monotonic()
            room.note()
            over = too_much(self.used(), self.settings.disk, self.settings.entries)
            ended = time.monotonic()
            if over:
                self.over_disk = over
                self.signal("KILL")

    def usher(self, waiting: socket.socket) -> None:
        """Tell whoever waits for it that the unit may start; or nothing, when it may not."""
        while True:
            connection, _ = waiting.accept()
            with connection:
                while not (may := self.go.wait(1.0)):
                    if time.monotonic() - self.heard > _HELD_SECONDS:
                        sys.stderr.write(f"collector: nobody said for {_HELD_SECONDS:g} s that the unit may start\n")
                        break
                try:
                    connection.sendall(GO if may else b"")
                except OSError:
                    continue


def _leave(_number: int, _frame: object) -> None:
    os._exit(0)


def main() -> None:
    """Serve until told to end."""
    # what is not the unit's ends at once, whatever it is doing
    signal.signal(signal.SIGTERM, _leave)
    # directories of what it brings may be entered by any user
    os.umask(0o022)
    settings = CollectorSettings(os.environ)
    # both are listened on before the unit may start: whoever connects meanwhile is answered a little later
    waiting = socket.socket(socket.AF_UNIX)
    waiting.bind(address(settings.port))
    waiting.listen()
    requests = socket.socket()
    requests.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    requests.bind(("127.0.0.1", settings.port))
    requests.listen()
    collector = Collector(settings)
    collector.prepare()
    threading.Thread(target=collector.usher, args=(waiting,), daemon=True).start()
    # loaded while the unit begins
    from .serving import serve

    serve(collector, requests)
