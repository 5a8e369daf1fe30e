"""What stands beside a unit in its pod: brings files in, watches and serves what the unit writes, and signals it.

This file is a program for any Python from 3.9 on, without further packages. The Kubernetes backend hands it to each pod
and runs it in a container of its own, beside the unit's: both share the unit's directory, the network and the process
namespace. It listens on loopback only, so that nobody reaches it but the unit itself, which does not know the token,
and whoever may forward a port of the pod.

``collector.py`` serves; ``collector.py await`` ends when the unit may start, which is what the pod waits for.

==============================  =====================================================================================
``GET /await``                  answers when the directory is filled and watched (no token needed)
``GET /hello``                  whether the unit runs
``GET /written?since=N``        a line of JSON for each file that a writer closed, then ``{"end": true}``
``POST /ended``                 the unit has ended: what is pending is told, then ``/written`` ends
``GET /files/NAME``             a regular file's bytes, from ``Range`` on; its state is the ``ETag``
``GET /size/NAME``              its size
``GET /digest/NAME``            its size, SHA-256 and state
``PUT /files/NAME``             a file of the unit's directory, before the unit starts
``POST /go``                    the unit may start
``GET /ready?port=&path=&…``    a line of JSON for each change of what is seen, until ``{"status": 200}``
``POST /signal?name=TERM``      to the unit's first process; ``KILL`` goes to all
``GET /used``                   bytes in the directory, and whether the unit was ended for them
==============================  =====================================================================================
"""

from __future__ import annotations

import ctypes
import hashlib
import hmac
import http.client
import json
import os
import select
import shutil
import signal
import socket
import stat
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["main"]

_CHUNK = 1 << 18
_NAMES = 10_000
"""How many files are kept in mind; beyond, the oldest are forgotten."""
_BEAT_SECONDS = 5.0
"""A stream that has nothing to say sends an empty line that often, so that a broken one is noticed."""
_HELD_SECONDS = 120.0
"""How long a unit is held back for files that nobody brings."""
_LOOK_SECONDS = 0.02
_DISK_SECONDS = 1.0
_DISK_SHARE = 20

# <sys/inotify.h>
_IN_CLOSE_WRITE, _IN_MOVED_TO, _IN_Q_OVERFLOW, _IN_ISDIR = 0x8, 0x80, 0x4000, 0x4000_0000
_EVENT_HEAD = struct.Struct("iIII")


class Settings:
    """What the pod says, in ``COWORLD_COLLECTOR`` as JSON."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        given = json.loads(environment["COWORLD_COLLECTOR"])
        self.port: int = given["port"]
        self.directory: str = given["directory"]
        self.inputs: str = given["inputs"]
        self.hold: bool = given["hold"]
        self.disk: int | None = given["disk"]
        self.signals: bool = given["signals"]
        """Whether the processes around us are those of the unit; outside of a pod they are somebody's."""
        self.token: str = environment.get("COWORLD_COLLECTOR_TOKEN", "")


# --- the directory ------------------------------------------------------------------------------------------------


class Files:
    """Regular files directly in the unit's directory, and which of them are complete."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.changed = threading.Condition()
        self.complete: dict[str, int] = {}
        """Name → number of the moment at which a writer closed it, oldest first."""
        self.count = 0
        self.drained = False
        self._ended = threading.Event()

    def open_watch(self) -> int | None:
        """A descriptor that watches the directory; None where the kernel gives none."""
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, AttributeError):
            return None
        if descriptor < 0:
            return None
        mask = ctypes.c_uint32(_IN_CLOSE_WRITE | _IN_MOVED_TO)
        if libc.inotify_add_watch(descriptor, os.fsencode(self.directory), mask) < 0:
            os.close(descriptor)
            return None
        return descriptor

    def fill(self, inputs: str) -> None:
        """Copy what the pod brings into the directory."""
        os.chmod(self.directory, 0o777)  # noqa: PTH101, S103 - the unit may run as any user
        try:
            names = sorted(name for name in os.listdir(inputs) if not name.startswith(".."))  # noqa: PTH208
        except FileNotFoundError:
            return
        for name in names:
            target = os.path.join(self.directory, name)  # noqa: PTH118
            shutil.copyfile(os.path.join(inputs, name), target)  # noqa: PTH118
            os.chmod(target, 0o666)  # noqa: PTH101, S103

    def follow(self, descriptor: int | None) -> None:
        """Take note of what is closed, for as long as the pod lives."""
        self.note(self.regular())
        seen: dict[str, tuple[int, int, int]] = {}
        while True:
            ended = self._ended.is_set()
            names = self._read(descriptor) if descriptor is not None else self._changed(seen)
            if names:
                self.note(name for name in names if self._is_regular(name))
                continue
            if ended:
                with self.changed:
                    self.drained = True
                    self.changed.notify_all()
                return
            if descriptor is not None:
                select.select([descriptor], [], [], 0.2)
            else:
                self._ended.wait(0.1)

    def end(self) -> None:
        """The unit has ended: what is pending is all that comes."""
        self._ended.set()

    def note(self, names: Iterator[str] | list[str]) -> None:
        """These files are complete, as of now."""
        with self.changed:
            for name in names:
                self.count += 1
                self.complete.pop(name, None)
                self.complete[name] = self.count
                if len(self.complete) > _NAMES:
                    del self.complete[next(iter(self.complete))]
            self.changed.notify_all()

    def regular(self) -> list[str]:
        """Names of all regular files that there are."""
        try:
            with os.scandir(self.directory) as entries:
                return sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
        except OSError:
            return []

    def _is_regular(self, name: str) -> bool:
        try:
            return stat.S_ISREG(os.lstat(os.path.join(self.directory, name)).st_mode)  # noqa: PTH118
        except OSError:
            return False

    def _read(self, descriptor: int) -> list[str]:
        names: list[str] = []
        while len(names) < 256:
            try:
                data = os.read(descriptor, 65536)
            except BlockingIOError:
                break
            offset = 0
            while offset < len(data):
                _, mask, _, length = _EVENT_HEAD.unpack_from(data, offset)
                offset += _EVENT_HEAD.size
                name = os.fsdecode(data[offset : offset + length].rstrip(b"\0"))
                offset += length
                if mask & _IN_Q_OVERFLOW:
                    return self.regular()
                if name and not mask & _IN_ISDIR and name not in names:
                    names.append(name)
        return names

    def _changed(self, seen: dict[str, tuple[int, int, int]]) -> list[str]:
        """Without inotify: what has not changed since the look before."""
        stable: list[str] = []
        for name in self.regular():
            try:
                now = os.lstat(os.path.join(self.directory, name))  # noqa: PTH118
            except OSError:
                continue
            state = (now.st_ino, now.st_size, now.st_mtime_ns)
            if seen.get(name) == state and seen.get(name + "\0") != state:
                seen[name + "\0"] = state
                stable.append(name)
            seen[name] = state
        return stable

    def open(self, name: str) -> int:
        """A descriptor of a regular file; nothing else is opened, and no link is followed.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: It is something else, or no plain name.
        """
        if name in {"", ".", ".."} or "/" in name or "\0" in name:
            raise ValueError("not a plain file name")
        path = os.path.join(self.directory, name)  # noqa: PTH118
        # looked at before it is opened, since opening a pipe or a device may do something
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise ValueError("not a regular file")
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise ValueError(f"not readable: {error.strerror}") from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise ValueError("not a regular file")
        return descriptor


def state_of(descriptor: int) -> str:
    """What changes when a file does."""
    now = os.fstat(descriptor)
    return f'"{now.st_ino}-{now.st_size}-{now.st_mtime_ns}"'


def tree_size(path: str, depth: int = 0) -> int:
    """Bytes below a directory, following no links."""
    total = 0
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if stat.S_ISDIR(status.st_mode):
                    total += tree_size(entry.path, depth + 1) if depth < 100 else 0
                else:
                    total += max(status.st_size, status.st_blocks * 512)
    except OSError:
        pass
    return total


# --- the unit's processes -----------------------------------------------------------------------------------------


class Processes:
    """The processes of the unit: those of the pod that are neither ours nor the pod's first one."""

    def __init__(self) -> None:
        self._ours = self._group("self")
        self._first = self._group("1")

    @staticmethod
    def _group(process: str) -> str:
        try:
            with open(f"/proc/{process}/cgroup", encoding="ascii", errors="replace") as file:  # noqa: PTH123
                return file.read()
        except OSError:
            return ""

    def all(self) -> list[int]:
        """Their numbers, lowest first."""
        numbers = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208
        return [number for number in numbers if number != 1 and self._is_theirs(number)]

    def _is_theirs(self, number: int) -> bool:
        group = self._group(str(number))
        return bool(group) and group not in (self._ours, self._first)

    def first(self) -> list[int]:
        """The one that the container was started with: its parent is outside of the pod."""
        return [number for number in self.all() if self._parent(number) == 0]

    @staticmethod
    def _parent(number: int) -> int:
        try:
            with open(f"/proc/{number}/stat", encoding="ascii", errors="replace") as file:  # noqa: PTH123
                return int(file.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return -1

    def signal(self, name: str) -> int:
        """Send a signal; returns to how many."""
        number = {"TERM": signal.SIGTERM, "KILL": signal.SIGKILL}[name]
        sent = 0
        for process in self.first() if name == "TERM" else [*self.first(), *self.all()]:
            try:
                os.kill(process, number)
                sent += 1
            except OSError:
                continue
        return sent


# --- serving ------------------------------------------------------------------------------------------------------


class Collector:
    """All that the requests are about."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.files = Files(settings.directory)
        self.processes = Processes() if settings.signals else None
        self.go = threading.Event()
        self.heard = time.monotonic()
        """When somebody who may asked for something last."""
        self.over_disk = 0

    def prepare(self) -> None:
        """Fill the directory and watch it."""
        descriptor = self.files.open_watch()
        self.files.fill(self.settings.inputs)
        threading.Thread(target=self.files.follow, args=(descriptor,), daemon=True).start()
        if self.settings.disk is not None and self.processes is not None:
            threading.Thread(target=self._watch_disk, args=(self.settings.disk,), daemon=True).start()
        if not self.settings.hold:
            self.go.set()

    def signal(self, name: str) -> int:
        """Signal the unit; returns to how many processes."""
        return self.processes.signal(name) if self.processes is not None else 0

    def _watch_disk(self, limit: int) -> None:
        pause = _DISK_SECONDS
        while True:
            # a thread of this program's own: nothing tells how much a directory holds
            time.sleep(pause)
            begun = time.monotonic()
            used = tree_size(self.settings.directory)
            pause = max(_DISK_SECONDS, _DISK_SHARE * (time.monotonic() - begun))
            if used > limit:
                self.over_disk = used
                self.signal("KILL")


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    collector: Collector

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the pod's log is for what goes wrong."""

    def do_GET(self) -> None:
        """Answer what only looks."""
        path, query = self._target()
        if path == "/await":
            self._await()
        elif self._permitted():
            if path == "/hello":
                processes = self.collector.processes
                self._answer({"running": bool(processes is not None and processes.first())})
            elif path == "/written":
                self._written(int(query.get("since", "0")))
            elif path == "/ready":
                self._ready(int(query["port"]), query.get("path", "/"), float(query.get("interval", "0.02")))
            elif path == "/used":
                directory = self.collector.settings.directory
                self._answer({"used": tree_size(directory), "over": self.collector.over_disk})
            elif path.startswith("/files/"):
                self._send_file(unquote(path[7:]))
            elif path.startswith("/digest/"):
                self._digest(unquote(path[8:]))
            elif path.startswith("/size/"):
                self._size(unquote(path[6:]))
            else:
                self._answer({"error": "no such thing"}, 404)

    def do_POST(self) -> None:
        """Do what was asked for."""
        path, query = self._target()
        if not self._permitted():
            return
        if path == "/signal":
            self._answer({"sent": self.collector.signal(query["name"])})
        elif path == "/ended":
            self.collector.files.end()
            self._answer({})
        elif path == "/go":
            self.collector.go.set()
            self._answer({})
        else:
            self._answer({"error": "no such thing"}, 404)

    def do_PUT(self) -> None:
        """Take a file for the unit."""
        path, _ = self._target()
        if not self._permitted():
            return
        name = unquote(path[7:])
        if self.collector.go.is_set() or not path.startswith("/files/") or name in {"", ".", ".."} or "/" in name:
            self._answer({"error": "not now, or not a plain file name"}, 409)
            return
        target = os.path.join(self.collector.settings.directory, name)  # noqa: PTH118
        part = f"{target}.part"
        left = int(self.headers["Content-Length"])
        digest = hashlib.sha256()
        with open(part, "wb") as file:  # noqa: PTH123
            while left:
                data = self.rfile.read(min(_CHUNK, left))
                if not data:
                    return
                digest.update(data)
                file.write(data)
                self.collector.heard = time.monotonic()
                left -= len(data)
        os.chmod(part, 0o666)  # noqa: PTH101, S103
        os.replace(part, target)  # noqa: PTH105
        self._answer({"sha256": digest.hexdigest()})

    # --- what is answered

    def _target(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        return parts.path, {name: values[-1] for name, values in parse_qs(parts.query).items()}

    def _permitted(self) -> bool:
        given = self.headers.get("Authorization", "")
        wanted = f"Bearer {self.collector.settings.token}"
        if self.collector.settings.token and hmac.compare_digest(given.encode(), wanted.encode()):
            self.collector.heard = time.monotonic()
            return True
        self._answer({"error": "no token, or a wrong one"}, 401)
        return False

    def _answer(self, content: dict[str, object], status: int = 200) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)
        self.close_connection = True

    def _lines(self) -> None:
        """Begin a stream of lines that ends with the connection."""
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def _line(self, content: dict[str, object] | None) -> None:
        self.wfile.write((json.dumps(content) if content is not None else "").encode() + b"\n")
        self.wfile.flush()

    def _await(self) -> None:
        while not self.collector.go.wait(1.0):
            if time.monotonic() - self.collector.heard > _HELD_SECONDS:
                self._answer({"error": f"nobody said for {_HELD_SECONDS:g} s that the unit may start"}, 503)
                return
        self._answer({})

    def _written(self, since: int) -> None:
        self._lines()
        files = self.collector.files
        beat = time.monotonic()
        while True:
            with files.changed:
                fresh = [(name, number) for name, number in files.complete.items() if number > since]
                drained = files.drained
                if not fresh and not drained:
                    files.changed.wait(_BEAT_SECONDS)
            for name, number in fresh:
                self._line({"name": name, "number": number})
                since = number
            if drained and not fresh:
                self._line({"end": True})
                return
            if not fresh and time.monotonic() - beat >= _BEAT_SECONDS:
                beat = time.monotonic()
                self._line(None)

    def _ready(self, port: int, path: str, interval: float) -> None:
        self._lines()
        told = ""
        patience = 0.5
        beat = time.monotonic()
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience)
            try:
                connection.request("GET", path, headers={"Connection": "close"})
                status = connection.getresponse().status
                if status == 200:
                    self._line({"status": 200})
                    return
                last = f"status {status}"
            except ConnectionRefusedError:
                last = "connection refused"
            except socket.timeout:  # noqa: UP041 - TimeoutError only since Python 3.10
                last = f"no answer within {patience:g} s"
                patience = min(patience * 2, 5.0)
            except http.client.HTTPException:
                last = "an answer that is not HTTP"
            except OSError as error:
                last = str(error)
            finally:
                connection.close()
            if last != told or time.monotonic() - beat >= _BEAT_SECONDS:
                told, beat = last, time.monotonic()
                self._line({"last": last})
            time.sleep(interval)

    def _send_file(self, name: str) -> None:
        descriptor = self._opened(name)
        if descriptor is None:
            return
        try:
            size = os.fstat(descriptor).st_size
            start = 0
            wanted = self.headers.get("Range", "")
            if wanted.startswith("bytes="):
                start = min(int(wanted[6:].partition("-")[0]), size)
            self.send_response(206 if wanted else 200)
            self.send_header("Content-Length", str(size - start))
            self.send_header("ETag", state_of(descriptor))
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            os.lseek(descriptor, start, os.SEEK_SET)
            left = size - start
            while left:
                data = os.read(descriptor, min(_CHUNK, left))
                if not data:
                    # it has shrunk meanwhile; what was announced cannot be kept
                    return
                self.wfile.write(data)
                left -= len(data)
        finally:
            os.close(descriptor)

    def _size(self, name: str) -> None:
        descriptor = self._opened(name)
        if descriptor is not None:
            size = os.fstat(descriptor).st_size
            os.close(descriptor)
            self._answer({"size": size})

    def _digest(self, name: str) -> None:
        descriptor = self._opened(name)
        if descriptor is None:
            return
        try:
            state = state_of(descriptor)
            digest = hashlib.sha256()
            size = 0
            while data := os.read(descriptor, _CHUNK):
                digest.update(data)
                size += len(data)
            self._answer({"sha256": digest.hexdigest(), "size": size, "state": state})
        finally:
            os.close(descriptor)

    def _opened(self, name: str) -> int | None:
        try:
            return self.collector.files.open(name)
        except FileNotFoundError:
            self._answer({"error": "there is no such file"}, 404)
        except ValueError as error:
            self._answer({"error": str(error)}, 409)
        return None


class Server(ThreadingHTTPServer):
    """Requests in threads, which end with the process."""

    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing for a reader that left; the rest is said where somebody may look."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            sys.stderr.write(f"collector: {type(error).__name__}: {error}\n")


def _await(settings: Settings) -> int:
    """End with 0 when the unit may start."""
    until = time.monotonic() + _HELD_SECONDS
    while time.monotonic() < until:
        # once it answers, it knows how long to wait
        connection = http.client.HTTPConnection("127.0.0.1", settings.port)
        try:
            connection.request("GET", "/await")
            return 0 if connection.getresponse().status == 200 else 1
        except (OSError, http.client.HTTPException):
            time.sleep(_LOOK_SECONDS)
        finally:
            connection.close()
    return 1


def _leave(_number: int, _frame: object) -> None:
    os._exit(0)


def main(arguments: list[str]) -> int:
    """Serve until told to end, or wait for what serves."""
    settings = Settings(os.environ)
    if arguments == ["await"]:
        return _await(settings)
    # what is not the unit's ends at once, whatever it is doing
    signal.signal(signal.SIGTERM, _leave)
    collector = Collector(settings)
    collector.prepare()
    Handler.collector = collector
    Server(("127.0.0.1", settings.port), Handler).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
