"""How quickly a busy Observatory answers, compared with a bare page of the same rows.

Several clients, each with one persistent connection, send requests to a server with many finished episodes of a league:
the current user, the leaderboard, lists of 50. The bare program only serves the 50 newest rows of the same database
with FastAPI and SQLAlchemy. Both take turns, round by round.

    python tests/benchmarks/answers.py --episodes 10000
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.abc
from _measure import HERE, finish, machine, median, ordinary_environment, python, show
from _platform import Filled, fill_episodes

sys.path.insert(0, str(HERE.parent))

from support.cli_kit import quick_commands
from support.observatory import Observatory, running_observatory


async def ask(address: str, path: str, token: str, seconds: float, clients: int) -> list[float]:
    """Request a path repeatedly; returns the time of each answer."""
    host, port = str(urlsplit(address).hostname), int(urlsplit(address).port or 80)
    request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    times: list[float] = []

    async def client() -> None:
        async with await anyio.connect_tcp(host, port) as stream:
            while True:
                begun = time.perf_counter()
                await stream.send(request)
                await _answer(stream, path)
                times.append(time.perf_counter() - begun)
                # Checked last: on a busy machine, the time may be over before the connection exists.
                if time.perf_counter() >= end:
                    return

    # Warm up, since the first answers fill caches.
    end = time.perf_counter() + 0.2
    await client()
    times.clear()
    end = time.perf_counter() + seconds
    async with anyio.create_task_group() as group:
        for _ in range(clients):
            group.start_soon(client)
    return times


async def _answer(stream: anyio.abc.ByteStream, path: str) -> None:
    """Read one answer, cheaply, because the benchmark's clients must cost little compared with the server."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    head, _, body = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"{path}: {head.splitlines()[0].decode()} {body[:500].decode()}")
    (length,) = (line for line in head.lower().splitlines() if line.startswith(b"content-length:"))
    left = int(length.partition(b":")[2]) - len(body)
    while left > 0:
        left -= len(await stream.receive())


@contextmanager
def bare(database: Path) -> Generator[str]:
    """Run the bare page; yields its URL."""
    program = subprocess.Popen(
        [python(), str(HERE / "_bare_page.py"), str(database)],
        stdout=subprocess.PIPE,
        text=True,
        env=ordinary_environment(),
    )
    assert program.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(program.stdout.readline())}"
    finally:
        program.terminate()
        program.wait()
        program.stdout.close()


async def measure(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    async with running_observatory(scratch) as platform:
        async with platform.services() as services:
            filled = await fill_episodes(services, options.episodes, members=options.members, record=4000)
        with bare(platform.settings.data / "observatory.sqlite3") as page:
            return await compare(platform, page, filled, options)


async def compare(platform: Observatory, page: str, filled: Filled, options: argparse.Namespace) -> dict[str, Any]:
    """Take turns, print the table, and return the figures."""
    division = f"/observatory/v2/divisions/{filled.world.division}"
    paths = {
        "bare page of 50": (page, "/rows"),
        "whoami": (platform.server, "/observatory/whoami"),
        "leaderboard": (platform.server, f"{division}/leaderboard"),
        "leaderboards": (platform.server, f"{division}/leaderboards"),
        "50 episodes": (platform.server, "/observatory/v2/episode-requests"),
        "50 episodes of a league": (
            platform.server,
            f"/observatory/v2/episode-requests?league_id={filled.world.league}&status=completed",
        ),
        "one episode": (platform.server, f"/observatory/v2/episode-requests/{filled.episodes[0]}"),
    }
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(options.rounds):
        for name, (server, path) in paths.items():
            times[name] += await ask(server, path, platform.admin_token, options.seconds, options.clients)
    figures: dict[str, Any] = {"benchmark": "answers", "machine": machine(), "episodes": options.episodes}
    rows: list[list[object]] = []
    floor = median(times["bare page of 50"])
    for name, took in times.items():
        took.sort()
        figures[name] = {
            "a_second": len(took) / (options.rounds * options.seconds),
            "p50_ms": median(took) * 1000,
            "p99_ms": took[int(len(took) * 0.99)] * 1000,
            "ratio": median(took) / floor,
        }
        figure = figures[name]
        cells = [f"{figure['a_second']:.0f}", f"{figure['p50_ms']:.1f}", f"{figure['p99_ms']:.1f}"]
        rows.append([name, *cells, f"{figure['ratio']:.2f}"])
    figures["server_peak_mib"] = _peak(platform.process.pid)
    title = f"{options.clients} clients, {options.episodes} episodes, load {machine()['load']}"
    show(title, ["what", "a second", "p50 ms", "p99 ms", "x bare page"], rows)
    print(f"the server's peak memory: {figures['server_peak_mib']:.0f} MiB")
    return figures


def _peak(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--members", type=int, default=20)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each path and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, quick_commands("observatory", prepared=False):
        figures = anyio.run(measure, options, Path(directory))
    finish(figures, as_json=options.json)


if __name__ == "__main__":
    main()
