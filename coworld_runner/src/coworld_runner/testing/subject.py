"""A test program that performs the steps given by its arguments, in order, on any backend.

It needs only Python 3.11, so the file can be mounted into any image with it. Each argument is one step, `verb` or
`verb:argument:...`; an argument `$NAME` stands for that environment variable. It exits with status 0 after the last
step. The environment variables `SUBJECT_DIR` (its own directory), `SUBJECT_HOST` and `SUBJECT_PORT` (where to
listen) configure it.

==========================  =================================================================================
`print:TEXT`              write a line to standard output (`error:TEXT`: to standard error)
`bytes:HEX`               write these bytes to standard output
`flood:COUNT`             write that many bytes of lines to standard output
`exit:STATUS`             exit with that status
`die:SIGNAL`              send itself that signal and end by it
`hang`                    do nothing until it is ended from outside
`wait:NAME`               wait until that file exists in its directory
`stubborn`                ignore TERM from now on
`polite:STATUS`           on TERM, print `goodbye` and exit with that status
`linger:NAME`             on TERM, print `goodbye` and exit with status 0 once that file exists
`write:NAME:TEXT`         write a file in its directory, all at once
`rename:NAME:TEXT`        write it under another name, then rename it into place
`slow:NAME:TEXT:GO`       write half of it, then the rest once the file GO exists; report each step
`size:NAME:BYTES`         write a file of that many zeros
`link:NAME:TARGET`        create a symbolic link (`pipe:NAME`: a named pipe)
`lock:NAME`               hold a lock on that file in its directory until it ends
`child:NAME`              fork a child that holds such a lock and hangs
`daemon:NAME`             the same with an orphaned grandchild in its own session that ignores TERM and HUP
`serve:STATUS`            answer HTTP with that status from now on
`serve:STATUS:GO`         the same once the file GO exists; 503 until then
`mute`                    accept connections from now on and never answer
`memory:BYTES`            use that much memory and hang
`processes:COUNT`         fork that many children that hang, and hang too
`env`                     print its environment as a line of JSON (`arguments`: its own command line)
`read:PATH`               print whether that file can be read, and the beginning of its content
`touch:NAME`              print whether that file can be written in its directory
`connect:ADDRESS`         print whether `host:port` accepts a connection
`addresses`               print its own network addresses, except loopback, on a line
==========================  =================================================================================
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main"]


def _say(text: str, stream: int = 1) -> None:
    data = text.encode() + b"\n"
    while data:
        data = data[os.write(stream, data) :]


def _print(*text: str) -> None:
    _say(":".join(text))


def _error(*text: str) -> None:
    _say(":".join(text), 2)


def _bytes(text: str) -> None:
    os.write(1, bytes.fromhex(text))


def _exit(status: str) -> None:
    os._exit(int(status))


def _path(name: str) -> str:
    return os.path.join(os.environ["SUBJECT_DIR"], name)  # noqa: PTH118 - start quickly: no pathlib


def _wait(name: str) -> None:
    while not os.path.exists(_path(name)):  # noqa: PTH110
        # A separate program that has nothing else to do
        time.sleep(0.005)


def _hang() -> None:
    while True:
        # A separate program that does nothing until it is stopped
        time.sleep(3600)


def _write(name: str, data: bytes) -> None:
    with open(_path(name), "wb") as file:  # noqa: PTH123
        file.write(data)


def _text(name: str, *text: str) -> None:
    _write(name, ":".join(text).encode())


def _link(name: str, target: str) -> None:
    os.symlink(target, _path(name))  # noqa: PTH211


def _pipe(name: str) -> None:
    os.mkfifo(_path(name))


def _lock(name: str) -> None:
    import fcntl

    descriptor = os.open(_path(name), os.O_RDWR | os.O_CREAT, 0o666)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.write(descriptor, b"locked")


def _slow(name: str, text: str, go: str) -> None:
    data = text.encode()
    with open(_path(name), "wb", buffering=0) as file:  # noqa: PTH123
        file.write(data[: len(data) // 2])
        _say(f"half {name}")
        _wait(go)
        file.write(data[len(data) // 2 :])
    _say(f"whole {name}")


def _rename(name: str, text: str) -> None:
    _write(f".{name}.part", text.encode())
    os.replace(_path(f".{name}.part"), _path(name))  # noqa: PTH105


def _size(name: str, count: str) -> None:
    with open(_path(name), "wb", buffering=0) as file:  # noqa: PTH123
        left = int(count)
        while left:
            left -= file.write(bytes(min(left, 65536)))


def _flood(count: str) -> None:
    line = b"0123456789" * 6 + b"abc\n"
    left = int(count)
    while left > 0:
        left -= os.write(1, (line * 64)[:left])


def _child(name: str) -> None:
    if os.fork() == 0:
        _lock(name)
        _hang()
    _wait(name)


def _daemon(name: str) -> None:
    import signal

    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            _lock(name)
            _hang()
        os._exit(0)
    os.waitpid(child, 0)
    _wait(name)


def _serve(status: str, go: str = "") -> None:
    def answer() -> bytes:
        code = status if not go or os.path.exists(_path(go)) else "503"  # noqa: PTH110
        return f"HTTP/1.1 {code} Subject\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok".encode()

    _listen(answer)


def _mute() -> None:
    _listen(None)


def _listen(answer: Callable[[], bytes] | None) -> None:
    import socket
    import threading

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((os.environ["SUBJECT_HOST"], int(os.environ["SUBJECT_PORT"])))
    listener.listen(100)
    open_ones: list[socket.socket] = []

    def serve() -> None:
        while True:
            connection, _ = listener.accept()
            if answer is None:
                open_ones.append(connection)
                continue
            with connection:
                try:
                    while (asked := connection.recv(65536)) and b"\r\n\r\n" not in asked:
                        pass
                    if asked:
                        connection.sendall(answer())
                        connection.shutdown(socket.SHUT_WR)
                        connection.recv(1)
                except OSError:
                    continue

    threading.Thread(target=serve, daemon=True).start()


def _memory(count: str) -> None:
    block = bytearray(int(count))
    block[:: os.sysconf("SC_PAGE_SIZE")] = b"x" * len(range(0, len(block), os.sysconf("SC_PAGE_SIZE")))
    _say(f"using {len(block)}")
    _hang()


def _processes(count: str) -> None:
    for _ in range(int(count)):
        if os.fork() == 0:
            _hang()
    _hang()


def _read(*parts: str) -> None:
    path = ":".join(parts)
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            _say(f"read {path}: {file.read(1000).decode(errors='replace')}")
    except OSError as error:
        _say(f"cannot read {path}: {error.strerror}")


def _touch(name: str) -> None:
    try:
        _write(name, b"touched")
        _say(f"wrote {name}")
    except OSError as error:
        _say(f"cannot write {name}: {error.strerror}")


def _connect(host: str, port: str = "") -> None:
    import socket

    if not port:
        host, _, port = host.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=3).close()
        _say(f"connected to {host}:{port}")
    except OSError as error:
        _say(f"cannot connect to {host}:{port}: {error}")


def _polite(status: str) -> None:
    import signal

    def leave(_number: int, _frame: object) -> None:
        _say("goodbye")
        os._exit(int(status))

    signal.signal(signal.SIGTERM, leave)


def _linger(name: str) -> None:
    import signal

    def leave(_number: int, _frame: object) -> None:
        _say("goodbye")
        _wait(name)
        os._exit(0)

    signal.signal(signal.SIGTERM, leave)


def _addresses() -> None:
    import socket

    _, _, addresses = socket.gethostbyname_ex(socket.gethostname())
    _say("addresses " + " ".join(address for address in addresses if not address.startswith("127.")))


def _stubborn() -> None:
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _env() -> None:
    import json

    _say(json.dumps(dict(os.environ)))


def _arguments() -> None:
    with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123
        _say(repr(file.read().split(b"\0")))


def _die(number: str) -> None:
    import signal

    if number not in {"9", "19"}:
        signal.signal(int(number), signal.SIG_DFL)
    os.kill(os.getpid(), int(number))
    _hang()


_VERBS: dict[str, Callable[..., object]] = {
    "print": _print,
    "error": _error,
    "bytes": _bytes,
    "flood": _flood,
    "exit": _exit,
    "die": _die,
    "hang": _hang,
    "wait": _wait,
    "stubborn": _stubborn,
    "polite": _polite,
    "linger": _linger,
    "addresses": _addresses,
    "write": _text,
    "rename": _rename,
    "slow": _slow,
    "size": _size,
    "link": _link,
    "pipe": _pipe,
    "lock": _lock,
    "child": _child,
    "daemon": _daemon,
    "serve": _serve,
    "mute": _mute,
    "memory": _memory,
    "processes": _processes,
    "env": _env,
    "arguments": _arguments,
    "read": _read,
    "touch": _touch,
    "connect": _connect,
}


def main(steps: list[str]) -> None:
    """Perform the steps in order, then exit with status 0."""
    for step in steps:
        verb, *arguments = step.split(":")
        _VERBS[verb](*(os.environ[item[1:]] if item.startswith("$") else item for item in arguments))
    # Skips the interpreter's shutdown, which takes time and has nothing to wait for
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
