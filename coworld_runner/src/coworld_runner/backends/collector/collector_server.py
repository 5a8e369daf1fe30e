"""The collector's HTTP server."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import http.client
import json
import os
import socket
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

from .collected_files import state_of
from .listening_ports import listens_elsewhere

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .collector_start import Collector

__all__ = ["serve"]

_CHUNK = 1 << 18
_BEAT_SECONDS = 5.0
"""An idle stream sends a line this often, so that a broken connection is noticed."""


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    # Send each line without waiting for the acknowledgement of the one before
    disable_nagle_algorithm = True
    collector: Collector

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the pod's log is for errors."""

    def do_GET(self) -> None:
        """Answer requests that change nothing."""
        path, query = self._target()
        if self._permitted():
            if path == "/hello":
                processes = self.collector.processes
                self._answer({"running": bool(processes is not None and processes.first())})
            elif path == "/written":
                self._written(int(query.get("since", "0")))
            elif path == "/left":
                self._answer({"names": self.collector.files.left()})
            elif path == "/ready":
                self._ready(int(query["port"]), query.get("path", "/"), float(query.get("interval", "0.02")))
            elif path == "/used":
                used, entries = self.collector.used()
                self._answer({"used": used, "entries": entries, "over": self.collector.over_disk})
            elif path.startswith("/files/"):
                self._send_file(unquote(path[7:]))
            elif path.startswith("/digest/"):
                self._digest(unquote(path[8:]))
            elif path.startswith("/size/"):
                self._size(unquote(path[6:]))
            else:
                self._answer({"error": "no such thing"}, 404)

    def do_POST(self) -> None:
        """Carry out a command."""
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
        _, kind, name = path.split("/", 2) if path.count("/") > 1 else ("", "", "")
        parts = unquote(name).split("/")
        settings = self.collector.settings
        directory, mode = {"files": (settings.directory, 0o666), "inputs": (settings.inputs, 0o644)}.get(kind, ("", 0))
        plain = not {"", ".", ".."}.intersection(parts) and (len(parts) == 1 or kind == "inputs")
        if self.collector.go.is_set() or not directory or not plain:
            self._answer({"error": "not now, or not the name of a file"}, 409)
            return
        target = os.path.join(directory, *parts)  # noqa: PTH118
        os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120
        part = f"{target}.part"
        left = int(self.headers["Content-Length"])
        digest = hashlib.sha256()
        try:
            with open(part, "wb") as file:  # noqa: PTH123
                while left:
                    data = self.rfile.read(min(_CHUNK, left))
                    if not data:
                        return
                    digest.update(data)
                    file.write(data)
                    self.collector.heard = time.monotonic()
                    left -= len(data)
            os.chmod(part, mode)  # noqa: PTH101
            os.replace(part, target)  # noqa: PTH105
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part)  # noqa: PTH108
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
        time_limit = 0.5
        beat = time.monotonic()
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=time_limit)
            try:
                connection.request("GET", path, headers={"Connection": "close"})
                status = connection.getresponse().status
                missed = self._missed(port)
                if status == 200 and not missed:
                    self._line({"status": 200})
                    return
                last = f"status {status}{missed}"
            except ConnectionRefusedError:
                last = f"connection refused{self._missed(port)}"
            except socket.timeout:  # noqa: UP041 - TimeoutError only since Python 3.10
                last = f"no answer within {time_limit:g} s"
                time_limit = min(time_limit * 2, 5.0)
            except http.client.HTTPException:
                last = "an answer that is not HTTP"
            except OSError as error:
                last = str(error)
            finally:
                connection.close()
            if last != told or time.monotonic() - beat >= _BEAT_SECONDS:
                told, beat = last, time.monotonic()
                self._line({"last": last})
            # Runs in the request's own thread: nothing reports that a program has begun to answer
            time.sleep(interval)

    def _missed(self, port: int) -> str:
        """Why others cannot reach the port, although this program can."""
        words = listens_elsewhere(port, besides=self.collector.settings.port)
        return f"; {words}" if words else ""

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
                    # The file has shrunk: the announced length cannot be met
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
    """Handles requests in threads that end with the process."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnect; write other errors to the pod's log."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            sys.stderr.write(f"collector: {type(error).__name__}: {error}\n")


def serve(collector: Collector, listener: socket.socket) -> None:
    """Answer requests until told to end."""
    Handler.collector = collector
    server = Server(listener.getsockname(), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.serve_forever()
