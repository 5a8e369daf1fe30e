"""The collector's main program: prepares the directory, lets the unit start, and serves until it is told to end."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time

from .collected_files import Files
from .disk_usage import FreeRoom, disk_usage, too_much
from .start_permit import GO, address
from .unit_processes import Processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Collector", "CollectorSettings", "main"]

_DISK_SECONDS = 1.0
_DISK_SHARE = 20
_ROOM_SECONDS = 0.1
"""Seconds between checks whether free space fell sharply."""


class CollectorSettings:
    """The collector's settings, from the pod's environment."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.port = int(environment["COWORLD_COLLECTOR_PORT"])
        self.directory = environment["COWORLD_COLLECTOR_DIRECTORY"]
        self.inputs = environment.get("COWORLD_COLLECTOR_INPUTS", "")
        """The directory that the unit may only read; empty if it has none."""
        self.source = environment["COWORLD_COLLECTOR_GIVEN"]
        self.hold = int(environment.get("COWORLD_COLLECTOR_HOLD") or 0)
        """Seconds after the last request for which the unit is held back until it is let go; 0: it is not."""
        disk, entries = (environment.get(f"COWORLD_COLLECTOR_{name}") for name in ("DISK", "ENTRIES"))
        self.disk = int(disk) if disk else None
        """Bytes that the unit may write; None: any number."""
        self.entries = int(entries) if entries else None
        """Files and directories that it may create; None: any number."""
        self.signals = environment.get("COWORLD_COLLECTOR_SIGNALS") == "1"
        """Whether the processes around us belong to the unit; outside a pod they do not."""
        self.token = environment.get("COWORLD_COLLECTOR_TOKEN", "")


class Collector:
    """The state that requests read and change."""

    def __init__(self, settings: CollectorSettings) -> None:
        self.settings = settings
        self.files = Files(settings.directory)
        self.processes = Processes() if settings.signals else None
        self.go = threading.Event()
        self.heard = time.monotonic()
        """When the last permitted request arrived."""
        self.over_disk = ""
        """How the unit exceeded its disk limit, if it was killed for that."""

    def prepare(self) -> None:
        """Fill the directory and watch it."""
        descriptor = self.files.open_watch()
        self.files.fill(self.settings.source, self.settings.inputs)
        threading.Thread(target=self.files.follow, args=(descriptor,), daemon=True).start()
        limited = self.settings.disk is not None or self.settings.entries is not None
        if limited and self.processes is not None:
            threading.Thread(target=self._watch_disk, daemon=True).start()
        if not self.settings.hold:
            self.go.set()

    def signal(self, name: str) -> int:
        """Signal the unit; return how many processes were signalled."""
        return self.processes.signal(name) if self.processes is not None else 0

    def used(self) -> tuple[int, int]:
        """Bytes, and files and directories, of the unit; counting stops at the first that is too many."""
        most_bytes, most_entries = (
            float("inf") if most is None else most for most in (self.settings.disk, self.settings.entries)
        )
        return disk_usage([self.settings.directory], most_bytes=most_bytes, most_entries=most_entries)

    def _watch_disk(self) -> None:
        room = FreeRoom([self.settings.directory], self.settings.disk, self.settings.entries)
        begun = ended = time.monotonic()
        while True:
            # Runs in its own thread: nothing reports how much a directory holds
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
        """Tell each waiting connection that the unit may start; send nothing if it may not."""
        while True:
            connection, _ = waiting.accept()
            with connection:
                while not (may := self.go.wait(1.0)):
                    if time.monotonic() - self.heard > self.settings.hold:
                        said = f"no request for {self.settings.hold} s: the unit does not start"
                        sys.stderr.write(f"collector: {said}\n")
                        break
                try:
                    connection.sendall(GO if may else b"")
                except OSError:
                    continue


def _leave(_number: int, _frame: object) -> None:
    os._exit(0)


def main() -> None:
    """Serve until told to end."""
    # End at once, whatever is under way
    signal.signal(signal.SIGTERM, _leave)
    # Any user may enter the directories of uploaded files
    os.umask(0o022)
    settings = CollectorSettings(os.environ)
    # Listen on both before the unit may start: early connections are answered a little later
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
    # Imported late, while the unit starts
    from .collector_server import serve

    serve(collector, requests)
