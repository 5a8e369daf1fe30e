"""Rules served over sockets: turns per second compared with a bare server, memory, and time to a new game's first page.

python tests/benchmarks/serving.py --rounds 5
uv run --no-sync --with mettagrid==0.26.22 python tests/benchmarks/serving.py --rounds 5
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from _measure import HERE, finish, interleaved, machine, median, python, show
from websockets.asyncio.client import connect

from coworld_core.rules import load_rules
from coworld_runner.kit.rollout import rollouts

COGS = HERE.parents[1] / "examples" / "cogs"


@contextmanager
def program(*arguments: str, path: Path = HERE, **env: str) -> Generator[tuple[subprocess.Popen[str], int]]:
    """Run a server; yields its process and port."""
    variables = {**os.environ, **env, "PYTHONPATH": str(path), "COGAME_HOST": "127.0.0.1", "COGAME_PORT": "0"}
    with subprocess.Popen([python(), *arguments], env=variables, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            said = next(found for line in process.stdout if (found := re.search(r"listening on \S+:(\d+)", line)))
            yield process, int(said[1])
        finally:
            process.kill()


@contextmanager
def game(place: Path, rules: str, seats: int, *, path: Path = HERE, **config: Any) -> Generator[Any]:
    """Serve a game of the kit; yields its process and the URLs of the seats."""
    tokens = [f"token-{seat}" for seat in range(seats)]
    (place / "config.json").write_text(json.dumps({"tokens": tokens, "seed": 1, **config}))
    names = {
        "COGAME_RESULTS_URI": "results.json",
        "COGAME_SAVE_REPLAY_URI": "replay",
        "COGAME_CONFIG_URI": "config.json",
    }
    uris = {variable: (place / name).as_uri() for variable, name in names.items()}
    with program("-m", "coworld_runner.kit.server", rules, path=path, **uris) as (process, port):
        yield process, [f"ws://127.0.0.1:{port}/player?slot={seat}&token={token}" for seat, token in enumerate(tokens)]


async def play(urls: Sequence[str], action: Any, *, look: Callable[[int], None] = lambda tick: None) -> float:
    """Play all seats until the game is over; returns the seconds since the first turn."""
    begun = 0.0

    async def seat(url: str) -> None:
        nonlocal begun
        async with connect(url, compression=None, ping_timeout=None, proxy=None, max_size=None) as socket:
            async for text in socket:
                said = json.loads(text)
                if said.get("your_turn"):
                    begun = begun or time.monotonic()
                    look(said["tick"])
                    await socket.send(json.dumps({"type": "act", "tick": said["tick"], "action": action}))
                if said["type"] == "over":
                    return

    await asyncio.gather(*(seat(url) for url in urls))
    return time.monotonic() - begun


def socket_speed(turns: int) -> float:
    """Turns per second of the kit."""
    with tempfile.TemporaryDirectory() as place, game(Path(place), "_counting:Counting", 2, turns=turns) as (_, urls):
        return turns / asyncio.run(play(urls, {"take": 1}))


def bare_speed(turns: int) -> float:
    """Turns per second of a bare server with the same player."""
    with program(str(HERE / "_counting.py"), str(turns)) as (_, port):
        return turns / asyncio.run(play([f"ws://127.0.0.1:{port}"] * 2, {"take": 1}))


def resident(process: subprocess.Popen[str]) -> float:
    """Resident KiB of a process."""
    return float(re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())[0])


async def _sit(urls: Sequence[str], process: subprocess.Popen[str]) -> float:
    async with contextlib.AsyncExitStack() as stack:
        # One seat stays free, so that the game does not begin.
        for url in urls[1:]:
            socket = await stack.enter_async_context(connect(url, proxy=None))
            await socket.recv()
            await socket.recv()
        return resident(process)


def memory_of_a_seat() -> float:
    """KiB per additional occupied seat."""
    with tempfile.TemporaryDirectory() as place:
        held: list[float] = []
        for seats in (2, 16):
            with game(Path(place), "_counting:Counting", seats) as (process, urls):
                held.append(asyncio.run(_sit(urls, process)))
    return (held[1] - held[0]) / 14


def memory_of_play(turns: int) -> float:
    """KiB by which a game grows per thousand turns, after the first fifth of its turns."""
    held: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as place, game(Path(place), "_counting:Counting", 2, turns=turns) as (one, urls):

        def look(tick: int) -> None:
            if tick in (turns // 5, turns - 1):
                held[tick] = resident(one)

        asyncio.run(play(urls, {"take": 1}, look=look))
    return (held[turns - 1] - held[turns // 5]) * 1000 / (turns - 1 - turns // 5)


def first_page() -> float:
    """Seconds from `coworld init` to the page of the new game."""
    with tempfile.TemporaryDirectory() as place:
        command = [python(), "-m", "coworld_cli"]
        begun = time.monotonic()
        subprocess.run([*command, "init", "game", "fresh"], cwd=place, check=True, capture_output=True)
        dev = [*command, "dev", "fresh", "--no-open-browser"]
        with subprocess.Popen(dev, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    if link := re.search(r"http://\S+", line):
                        with urllib.request.urlopen(link[0], timeout=20) as answer:
                            answer.read()
                        return time.monotonic() - begun
            finally:
                process.terminate()
        raise SystemExit("`coworld dev` has shown no link")


def cogs(ticks: int) -> dict[str, float] | None:
    """Ticks per second of Cogs with eight seats, in the process and over sockets; None without mettagrid."""
    if importlib.util.find_spec("mettagrid") is None:
        return None
    sys.path.insert(0, str(COGS))
    rules = load_rules("cogs:Cogs")
    begun = time.monotonic()
    (done,) = rollouts(rules, "random", seats=8, config={"ticks": ticks}, episodes=1)
    found = {"rollout": done.ticks / (time.monotonic() - begun)}
    with (
        tempfile.TemporaryDirectory() as place,
        game(Path(place), "cogs:Cogs", 8, path=COGS, ticks=ticks, ticks_per_second=1000) as (_, urls),
    ):
        found["socket"] = ticks / asyncio.run(play(urls, "stay"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turns", type=int, default=5000)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    served, bare = interleaved(asked.rounds, lambda: socket_speed(asked.turns), lambda: bare_speed(asked.turns))
    pages = [first_page() for _ in range(asked.rounds)]
    figures: dict[str, Any] = {
        "machine": machine(),
        "turns_per_second": {"served": round(median(served)), "bare": round(median(bare))},
        "of_bare": round(median(served) / median(bare), 3),
        "kib_of_a_seat": round(memory_of_a_seat()),
        "kib_of_a_thousand_turns": round(memory_of_play(asked.turns), 1),
        "seconds_from_init_to_page": round(median(pages), 2),
    }
    rows: list[list[object]] = [
        ["turns a second, served", figures["turns_per_second"]["served"]],
        ["turns a second, bare websockets with the same frames", figures["turns_per_second"]["bare"]],
        ["of bare", figures["of_bare"]],
        ["KiB for a seat", figures["kib_of_a_seat"]],
        ["KiB more after a thousand turns", figures["kib_of_a_thousand_turns"]],
        ["seconds from `init` to the first page", figures["seconds_from_init_to_page"]],
    ]
    if found := cogs(min(asked.turns, 600)):
        figures["cogs_ticks_per_second"] = {name: round(speed) for name, speed in found.items()}
        rows += [[f"cogs, 8 seats, ticks a second by {name}", f"{speed:,.0f}"] for name, speed in found.items()]
    show("Serving", ["", ""], rows)
    finish(figures, as_json=asked.json)


if __name__ == "__main__":
    main()
