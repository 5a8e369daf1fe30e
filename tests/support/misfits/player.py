"""A player that misbehaves as its first argument says, and behaves well without one.

`BEHAVIOURS` in this file lists the behaviours. The well-behaved player is as simple as most: it ends with status 0
when the game sends `final` or closes the connection cleanly, and with a traceback when the connection breaks.

It uses only the standard library and starts quickly, because tests start hundreds of players, as local processes and
in containers.
"""

from __future__ import annotations

import binascii
import contextlib
import os
import signal
import socket
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Functions import these where needed: they take as long to import as the interpreter to start.
    from pathlib import Path
    from typing import BinaryIO

BEHAVIOURS = {
    "well": "plays to the end",
    "impatient": "plays to the end, unless it is not let in at once",
    "exits-3": "ends with status 3 at once",
    "exits-3-midway": "ends with status 3 after some states",
    "exits-0": "ends with status 0 after ARG seconds, without a word to the game",
    "says-nothing": "opens a connection to the game, says nothing for a second, and ends with status 0",
    "exits-0-midway": "ends with status 0 after some states",
    "exits-9-after": "ends with status 9 once the game is over",
    "never-connects": "waits for ever",
    "hangs-after": "waits for ever once the game is over",
    "ignores-term": "waits for ever once the game is over, and ignores TERM",
    "floods-log": "writes ARG bytes to its log, then plays on",
    "forks": "forks ARG processes that sleep, then plays on",
    "forks-away": "forks ARG processes that sleep, each in a session of its own, then plays on",
    "fills-disk": "writes ARG bytes beside its artifact, then plays on",
    "runs-out-of-memory": "allocates ARG bytes, then plays on",
    "loses-a-child": "has a child allocate ARG bytes, and plays on whatever becomes of it",
    "steals": "looks for the tokens of others and says what it found, then plays on",
    "phones": "says whom it reaches on port ARG, while it listens there itself, then plays on",
    "tells": "prints its environment, then plays on",
    "artifact": "leaves a good artifact of ARG bytes",
    "artifact-link": "leaves a link to /etc/passwd for an artifact",
    "artifact-fifo": "leaves a pipe for an artifact",
    "artifact-directory": "leaves a directory for an artifact",
    "digs": "makes ARG directories, each in the one before, then plays on",
    "closes-streams": "closes its standard streams, then plays on",
    "litters": "makes ARG directories beside each other, then plays on",
    "hides": "reserves ARG mebibytes in files that it removes and keeps open, then plays on",
    "drops-labels": "leaves a daemon without any environment, then plays on",
    "stops-parent": "stops the process that started it (SIGSTOP), then plays on",
    "stops-itself": "sends itself STOP once the game is over",
    "kills-group": "sends KILL to its process group, in the middle",
    "runs-away": "leaves a daemon that is another process in another session every few milliseconds, then plays on",
    "zombies": "forks ARG processes that end and are not waited for, then plays on",
    "renames-itself": "takes a name that looks like the rest of a line of /proc, then plays on",
    "crowds": "opens ARG connections to the game that say nothing, and plays on meanwhile",
    "long-line": "writes ARG bytes to its log without the end of a line, then plays on",
    "hides-in-memory": "reserves ARG mebibytes in files that are in memory alone, then plays on",
    "artifact-setuid": "leaves an artifact that would run as its owner",
    "loses-directory": "removes its directory, then plays on",
    "kills-parent": "leaves such a daemon, and kills the process that started it",
    "kills-keepers": "the same, with the one before, both at one stroke",
}


def artifact() -> Path:
    """The path for the artifact."""
    from pathlib import Path
    from urllib.parse import unquote, urlsplit

    return Path(unquote(urlsplit(os.environ["COWORLD_PLAYER_ARTIFACT_UPLOAD_URL"]).path))


CONTINUATION, CLOSE, PING, PONG = 0, 8, 9, 10
NORMAL = struct.pack(">H", 1000)
GOOD_ENDS = (1000, 1001)


def game_url() -> tuple[str, str]:
    """The host and port of the game, and the request target."""
    url = os.environ.get("COWORLD_PLAYER_WS_URL") or os.environ["COGAMES_ENGINE_WS_URL"]
    place, _, target = url.partition("://")[2].partition("/")
    return place, f"/{target}"


def connected(place: str) -> socket.socket:
    """Connect to a host and port."""
    host, _, port = place.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)))


def play(until: int | None = None, *, patience: float = 10.0) -> None:
    """Play to the end, or until `until` messages have been received."""
    place, target = game_url()
    with connected(place) as game, game.makefile("rb") as stream:
        game.settimeout(patience)
        upgrade(game, stream, place, target)
        game.settimeout(None)
        count = 0
        while True:
            kind, payload = receive(stream)
            if kind == PING:
                send(game, PONG, payload)
            elif kind == CLOSE:
                send(game, CLOSE, payload[:2])
                if int.from_bytes(payload[:2], "big") not in GOOD_ENDS:
                    raise ConnectionError(f"the game closed the connection with {payload!r}")
                return
            elif kind != PONG:
                count += 1
                if payload.startswith(b'{"type": "final"') or count == until:
                    goodbye(game, stream)
                    return


def upgrade(game: socket.socket, stream: BinaryIO, host: str, target: str) -> None:
    """Upgrade a connection to a websocket."""
    key = binascii.b2a_base64(os.urandom(16), newline=False).decode()
    head = (f"GET {target} HTTP/1.1", f"Host: {host}", "Upgrade: websocket", "Connection: Upgrade")
    lines = (*head, f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", "", "")
    game.sendall("\r\n".join(lines).encode())
    status = stream.readline()
    if b" 101 " not in status:
        raise ConnectionError(f"the game did not let us in: {status!r}")
    while stream.readline().strip():
        pass


def receive(stream: BinaryIO) -> tuple[int, bytes]:
    """Receive the next frame: its opcode and payload. Fragmented messages are not supported."""
    first, length = exactly(stream, 2)
    if not first & 0x80 or first & 0x0F == CONTINUATION:
        raise ConnectionError("a message in pieces")
    if length in (126, 127):
        length = int.from_bytes(exactly(stream, 2 if length == 126 else 8), "big")
    return first & 0x0F, exactly(stream, length)


def exactly(stream: BinaryIO, count: int) -> bytes:
    """Read exactly `count` bytes."""
    data = stream.read(count)
    if len(data) < count:
        raise ConnectionError("the connection broke")
    return data


def send(game: socket.socket, kind: int, payload: bytes) -> None:
    """Send a short frame with a mask of zeros."""
    game.sendall(bytes((0x80 | kind, 0x80 | len(payload), 0, 0, 0, 0)) + payload)


def goodbye(game: socket.socket, stream: BinaryIO) -> None:
    """Close the connection cleanly, without insisting on an answer."""
    with contextlib.suppress(OSError):
        send(game, CLOSE, NORMAL)
        game.settimeout(1)
        while receive(stream)[0] != CLOSE:
            pass


def hoard(size: int) -> list[bytearray]:
    """Allocate memory piece by piece, and write to it."""
    pieces: list[bytearray] = []
    while sum(map(len, pieces)) < size:
        pieces.append(bytearray(b"\1" * (4 << 20)))
    return pieces


def for_ever() -> None:
    """Do nothing any more; signals are still handled."""
    while True:
        signal.pause()


def fork(count: int, *, away: bool) -> None:
    """Fork processes that sleep for 10 minutes."""
    made = 0
    for _ in range(count):
        try:
            child = os.fork()
        except OSError as error:
            print(f"no more than {made} forks: {error}", flush=True)
            time.sleep(0.2)
            break
        if child == 0:
            if away:
                os.setsid()
            with contextlib.suppress(BaseException):
                time.sleep(600)
            os._exit(0)
        made += 1
    print(f"forked {made}", flush=True)


def steal() -> None:
    """Search all places where another player's token might be, and print anything that looks like one."""
    from pathlib import Path

    mine = os.environ["COWORLD_PLAYER_WS_URL"]
    places = [Path("/coworld"), Path("/coworld-artifact"), artifact().parent, artifact().parent.parent, Path("/proc")]
    patterns = ("*.json", "*/*.json", "*/environ", "*/cmdline")
    for place in places:
        for path in (path for pattern in patterns for path in place.glob(pattern)):
            try:
                data = path.read_bytes()
            except OSError:
                continue
            for word in data.replace(b"\0", b"\n").split(b"\n"):
                text = word.decode(errors="replace")
                if ("token" in text and mine not in text and "--" not in text) or '"tokens"' in text:
                    print(f"STOLEN {path}: {text[:200]}", flush=True)
    with contextlib.suppress(OSError):
        Path("/coworld/results.json").write_text("mine")
        print("WRITTEN", flush=True)
    print("LOOKED", flush=True)


def dotted(word: str) -> str:
    """Convert an address from the notation of /proc to dotted notation."""
    return socket.inet_ntoa(struct.pack("<L", int(word, 16)))


def neighbours() -> set[str]:
    """Gateways, and addresses in the networks of this machine."""
    import ipaddress
    from pathlib import Path

    found: set[str] = set()
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/route").read_text().splitlines()[1:]:
            _, destination, gateway, *_, mask, _, _, _ = line.split()
            network = ipaddress.ip_network(f"{dotted(destination)}/{dotted(mask)}")
            if int(gateway, 16):
                found.add(dotted(gateway))
            # Large networks: only the first addresses, which engines assign first.
            count = min(network.num_addresses, 256 if network.prefixlen >= 24 else 32) if network.prefixlen else 0
            hosts = [network.network_address + number for number in range(1, count)]
            found.update(map(str, hosts))
    return found


async def phone(port: int, *others: str) -> None:
    """Listen on a port for two seconds, and try to reach the same port of all neighbours."""
    import asyncio

    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "0.0.0.0", port)
    own = set(socket.gethostbyname_ex(socket.gethostname())[2])
    reached: list[str] = []

    async def call(address: str) -> None:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(1.5):
                _, writer = await asyncio.open_connection(address, port)
                writer.close()
            reached.append(address)

    async with server, asyncio.TaskGroup() as group:
        for address in (neighbours() | set(others)) - own:
            group.create_task(call(address))
        await asyncio.sleep(2.0)
    print(f"REACHED {' '.join(sorted(reached)) or 'nobody'}", flush=True)


def litter(count: int) -> None:
    """Create directories."""
    for number in range(count):
        artifact().with_name(f"litter-{number}").mkdir()


def hide(mebibytes: int) -> list[int]:
    """Use disk space in deleted files, which no directory listing shows."""
    kept: list[int] = []
    for number in range(mebibytes):
        path = artifact().with_name(f"hidden-{number}")
        kept.append(os.open(path, os.O_WRONLY | os.O_CREAT))
        os.posix_fallocate(kept[-1], 0, 1 << 20)
        path.unlink()
    return kept


def hide_in_memory(mebibytes: int) -> list[int]:
    """Use memory that no process has mapped."""
    kept = [os.memfd_create(f"hidden-{number}") for number in range(mebibytes)]
    for descriptor in kept:
        os.posix_fallocate(descriptor, 0, 1 << 20)
    return kept


def run_away() -> None:
    """Leave a process behind that keeps forking and exiting, so that its id changes before anyone can act on it."""
    if os.fork():
        return
    mark = os.environ.get("MISFITS_MARK", "")
    until = time.monotonic() + 600
    while time.monotonic() < until:
        if os.fork():
            os._exit(0)
        os.setsid()
        time.sleep(0.002)
    print(mark)


def rename() -> None:
    """Take a name that confuses parsers of process lists."""
    with open("/proc/self/comm", "w") as file:  # noqa: PTH123
        file.write(") Z 1 1 (\n")


def crowd(count: int) -> list[socket.socket]:
    """Open connections to the game without sending anything."""
    place, _ = game_url()
    return [connected(place) for _ in range(count)]


def drop_labels() -> None:
    """Leave a process behind that only its arguments distinguish from unrelated processes."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 256)
            os.execve("/bin/sh", ["sh", "-c", f"sleep 600; : {os.environ.get('MISFITS_MARK')}"], {})
        os._exit(0)
    os.wait()


def signal_parent(number: signal.Signals) -> None:
    """Send a signal to the parent process, unless it is in another process namespace."""
    if os.getppid() > 0:
        os.kill(os.getppid(), number)


def kill_keepers() -> None:
    """Kill the parent and grandparent processes, before either can notice the death of the other."""
    if os.getppid() == 0:
        return
    with open(f"/proc/{os.getppid()}/stat") as file:  # noqa: PTH123
        keepers = [int(file.read().rpartition(")")[2].split()[1]), os.getppid()]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for keeper in keepers:
            os.kill(keeper, number)


def zipped(size: int) -> bytes:
    """A valid zip with one file of `size` bytes."""
    import io
    import zipfile

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("notes.txt", b"x" * size)
    return buffer.getvalue()


def main(behaviour: str = "well", *arguments: str) -> int:
    """Run a behaviour, and return the exit status."""
    number = int(arguments[0]) if arguments else 0
    if behaviour not in BEHAVIOURS:
        raise SystemExit(f"unknown behaviour {behaviour!r}")
    print(f"player: {behaviour}", flush=True)
    match behaviour:
        case "exits-3":
            print("I will not play", file=sys.stderr, flush=True)
            return 3
        case "exits-0":
            time.sleep(number)
            return 0
        case "says-nothing":
            with connected(game_url()[0]):
                time.sleep(1)
            return 0
        case "never-connects":
            for_ever()
        case "exits-3-midway":
            play(until=2)
            return 3
        case "exits-0-midway":
            play(until=2)
            return 0
        case "floods-log":
            lines = ("all work and no play makes a dull log\n" * 1000).encode()
            for _ in range(number // len(lines) + 1):
                os.write(1, lines)
        case "forks" | "forks-away":
            fork(number, away=behaviour == "forks-away")
        case "fills-disk":
            piece = b"0123456789abcdef" * 65536
            with artifact().with_name("filler").open("wb") as file:
                for _ in range(number // len(piece)):
                    file.write(piece)
                    file.flush()
                    time.sleep(0.002)
        case "digs":
            here = os.getcwd()  # noqa: PTH109
            os.chdir(artifact().parent)
            for _ in range(number):
                os.mkdir("deeper")  # noqa: PTH102 - the path of it would be too long for a call
                os.chdir("deeper")
            # Leave, because the path of that working directory is too long for a call.
            os.chdir(here)
        case "loses-a-child":
            child = os.fork()
            if child == 0:
                hoard(number)
                for_ever()
            os.waitpid(child, 0)
        case "runs-out-of-memory":
            hoard(number)
        case "steals":
            steal()
        case "phones":
            import asyncio

            asyncio.run(phone(number, *arguments[1:]))
        case "tells":
            for name, value in sorted(os.environ.items()):
                print(f"{name}={value}", flush=True)
        case "artifact":
            artifact().write_bytes(zipped(number))
        case "artifact-link":
            artifact().symlink_to("/etc/passwd")
        case "artifact-fifo":
            os.mkfifo(artifact())
        case "artifact-directory":
            artifact().mkdir()
        case "litters":
            litter(number)
        case "hides":
            kept = hide(number)
            assert len(kept) == number
        case "drops-labels":
            drop_labels()
        case "hides-in-memory":
            kept = hide_in_memory(number)
            assert len(kept) == number
        case "runs-away":
            run_away()
        case "zombies":
            for _ in range(number):
                if os.fork() == 0:
                    os._exit(0)
        case "renames-itself":
            rename()
        case "crowds":
            kept = crowd(number)
            assert len(kept) == number
        case "long-line":
            for _ in range(number >> 16):
                os.write(1, b"x" * (1 << 16))
        case "kills-group":
            play(until=2)
            os.kill(0, signal.SIGKILL)
        case "artifact-setuid":
            artifact().write_bytes(zipped(10))
            artifact().chmod(0o4777)
        case "loses-directory":
            artifact().parent.rmdir()
        case "stops-parent":
            signal_parent(signal.SIGSTOP)
        case "kills-parent":
            drop_labels()
            signal_parent(signal.SIGKILL)
        case "kills-keepers":
            drop_labels()
            kill_keepers()
        case "closes-streams":
            for descriptor in (0, 1, 2):
                os.close(descriptor)
        case _:
            pass
    play(patience=1.0 if behaviour == "impatient" else 10.0)
    match behaviour:
        case "exits-9-after":
            return 9
        case "hangs-after":
            print("and now nothing more", flush=True)
            for_ever()
        case "stops-itself":
            print("and now nothing more", flush=True)
            os.kill(os.getpid(), signal.SIGSTOP)
        case "ignores-term":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            print("and now nothing more", flush=True)
            for_ever()
        case _:
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
