"""What recording costs: samples told by the game, and frames through the recorder, beside a game that is not recorded.

python tests/benchmarks/recorder.py --rounds 5 --turns 5000 --frames 20000

Each round plays the same game unrecorded, with samples and with frames, one after the other, and sends frames directly
and through the recorder. Players, game, recorder and the reader of what is recorded are processes of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from _measure import HERE, finish, interleaved, machine, median, python, show
from serving import game, play
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

import coworld_runner.web

TOKENS = ("token-0", "token-1")
FRAME = json.dumps({"type": "observe", "tick": 7, "observation": {"text": "x" * 1000}})


async def keep(url: str, path: str) -> None:
    """Write what is recorded to a file, as a runner does, until it ends; a line on standard input asks for that."""
    async with connect(url, compression=None, ping_interval=None, max_size=None, proxy=None) as stream:
        print("reading", flush=True)

        async def end() -> None:
            await asyncio.to_thread(sys.stdin.readline)
            await stream.send("end")

        async with asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(end())
            with Path(path).open("wb", buffering=0) as file:  # noqa: ASYNC230 - nothing else is done here
                async for message in stream:
                    assert isinstance(message, str)
                    file.write(message.encode())
            asked.cancel()


@contextmanager
def reading(url: str) -> Generator[Path]:
    """Have what is recorded read by a process of its own; the file is whole when the block has ended."""
    with tempfile.NamedTemporaryFile() as file:
        words = [python(), __file__, "--keep", url, file.name]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == "reading\n"
            yield Path(file.name)
            process.stdin.write("end\n")
            process.stdin.flush()
            assert process.wait(60) == 0


@contextmanager
def recorder(port: int, spent: list[float]) -> Generator[int]:
    """Run the recorder before a game, with a reader; yields the port for players.

    Args:
        port: The game's.
        spent: Receives the seconds of a processor that the recorder takes.
    """
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    numbers = [listener.fileno() for listener in listeners]
    code = (
        f"import socket, sys; sys.path.insert(0, {coworld_runner.web.__path__[0]!r}); "
        f"from recorder.frame_relay import FrameRelay; both = [socket.socket(fileno=number) for number in {numbers}]; "
        f"FrameRelay(('127.0.0.1', {port}), {TOKENS}, 'reader').run(*both)"
    )
    with subprocess.Popen([python(), "-I", "-S", "-c", code], pass_fds=numbers) as process:
        players, frames = (listener.getsockname()[1] for listener in listeners)
        for listener in listeners:
            listener.close()
        try:
            with reading(f"ws://127.0.0.1:{frames}/frames?token=reader"):
                yield players
            _, _, usage = os.wait4(process.pid, 0)
            process.returncode = 0
            spent.append(usage.ru_utime + usage.ru_stime)
        finally:
            process.kill()


def turns_played(turns: int, record: str) -> float:
    """Turns per second of a game with minimal rules, whose two seats wait for one another."""
    os.environ["COWORLD_SAMPLES_TOKEN"] = "reader" if record == "samples" else ""
    with tempfile.TemporaryDirectory() as place, game(Path(place), "_counting:Counting", 2, turns=turns) as (_, urls):
        port = int(urlsplit(str(urls[0])).port or 0)
        if record == "off":
            return turns / asyncio.run(play(urls, {"take": 1}))
        if record == "frames":
            with recorder(port, []) as door:
                return turns / asyncio.run(play([url.replace(f":{port}/", f":{door}/") for url in urls], {"take": 1}))
        with reading(f"ws://127.0.0.1:{port}/samples?token=reader"):
            return turns / asyncio.run(play(urls, {"take": 1}))


async def answer_all() -> None:
    """A game that sends as many frames as it is asked for, and sends back every other one."""

    async def seat(connection: ServerConnection) -> None:
        async for message in connection:
            if isinstance(message, str) and message.isdigit():
                for _ in range(int(message)):
                    await connection.send(FRAME)
            else:
                await connection.send(message)

    async with serve(seat, "127.0.0.1", 0, compression=None) as server:
        print(next(iter(server.sockets)).getsockname()[1], flush=True)
        await server.serve_forever()


async def frames_sent(port: int, frames: int) -> dict[str, float]:
    """Frames per second in one direction, and the median seconds of a frame that is sent back at once."""
    url = f"ws://127.0.0.1:{port}/player?slot=0&token={TOKENS[0]}"
    async with connect(url, compression=None, proxy=None, max_queue=1024) as seat:
        trips: list[float] = []
        for _ in range(frames // 10):
            begun = time.perf_counter()
            await seat.send(FRAME)
            await seat.recv()
            trips.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        await seat.send(str(frames))
        for _ in range(frames):
            await seat.recv()
        return {"a_second": frames / (time.perf_counter() - begun), "trip": median(trips)}


def frames_passed(frames: int, *, recorded: bool) -> dict[str, float]:
    """The same, directly or through the recorder."""
    with subprocess.Popen([python(), __file__, "--answer"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline())
            if not recorded:
                return asyncio.run(frames_sent(port, frames))
            spent: list[float] = []
            with recorder(port, spent) as door:
                found = asyncio.run(frames_sent(door, frames))
            # Those that are sent back, those that are not, and what asks for them
            return {**found, "spent": sum(spent) / (2 * (frames // 10) + frames + 1)}
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=2000)
    parser.add_argument("--frames", type=int, default=5000)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    os.environ["PYTHONPATH"] = str(HERE)
    off, samples, frames, direct, through = interleaved(
        asked.rounds,
        lambda: turns_played(asked.turns, "off"),
        lambda: turns_played(asked.turns, "samples"),
        lambda: turns_played(asked.turns, "frames"),
        lambda: frames_passed(asked.frames, recorded=False),
        lambda: frames_passed(asked.frames, recorded=True),
    )
    # A trip is two frames
    cost = [(one["trip"] - other["trip"]) / 2 for one, other in zip(through, direct, strict=True)]
    figures: dict[str, Any] = {
        "machine": machine(),
        "turns_per_second": {
            "off": round(median(off)),
            "samples": round(median(samples)),
            "frames": round(median(frames)),
        },
        "samples_of_off": round(median(samples) / median(off), 3),
        "frames_of_off": round(median(frames) / median(off), 3),
        "frames_per_second": {
            "direct": round(median([one["a_second"] for one in direct])),
            "recorded": round(median([one["a_second"] for one in through])),
        },
        "milliseconds_of_a_frame": round(median(cost) * 1000, 3),
        "processor_milliseconds_of_a_frame": round(median([one["spent"] for one in through]) * 1000, 3),
    }
    both = figures["frames_per_second"]
    figures["recorded_of_direct"] = round(both["recorded"] / both["direct"], 3)
    show(
        "Recording",
        ["", ""],
        [
            *([f"turns a second, {word}", speed] for word, speed in figures["turns_per_second"].items()),
            ["samples, of unrecorded", figures["samples_of_off"]],
            ["frames, of unrecorded", figures["frames_of_off"]],
            *([f"frames a second, {word}", speed] for word, speed in both.items()),
            ["recorded, of direct", figures["recorded_of_direct"]],
            ["milliseconds that the recorder adds to a frame, median", figures["milliseconds_of_a_frame"]],
            ["milliseconds of a processor that it takes for it", figures["processor_milliseconds_of_a_frame"]],
        ],
    )
    finish(figures, as_json=asked.json)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--keep"]:
        asyncio.run(keep(*sys.argv[2:]))
    elif sys.argv[1:2] == ["--answer"]:
        asyncio.run(answer_all())
    else:
        main()
