"""All games of a library, wrapped automatically: which are certified, and why the others are not.

Each game is wrapped as by `coworld game wrap` and certified on the process backend. The outcome is written as a line of
JSON, so that an interrupted run can continue; at the end, a table shows the number of games for each outcome:

    uv run --no-sync --with open_spiel python tests/benchmarks/wrapping.py openspiel -o openspiel.jsonl
    uv run --no-sync --with textarena python tests/benchmarks/wrapping.py textarena -o textarena.jsonl
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread

from coworld_core.errors import CoworldError
from coworld_runner.wrapping import list_wrappable, wrap_game
from coworld_runner.wrapping.wrappable import Wrappable

PATIENCE = 600.0
"""Time limit in seconds for a certification; the episode alone may take five minutes."""

CERTIFY = "import sys; from coworld_cli.main import main; sys.exit(main())"


def certified(place: Path) -> str | None:
    """Certify a package; returns the problem in one line, or None."""
    command = [sys.executable, "-c", CERTIFY, "certify", ".", "--backend", "process", "-o", "certified"]
    try:
        done = subprocess.run(
            command, cwd=place, capture_output=True, text=True, check=False, timeout=PATIENCE, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return f"not certified: no end within {PATIENCE:g} s"
    if done.returncode == 0:
        return None
    failed = [line for line in (done.stderr + done.stdout).splitlines() if "[fail]" in line]
    return f"not certified: {(failed or done.stderr.splitlines() or ['?'])[0].strip()}"


async def outcome(one: Wrappable, place: Path, wrapping: anyio.Lock) -> str:
    """Wrap and certify a game; returns `certified`, or the reason why not."""
    if one.refused:
        return f"refused: {one.refused}"
    try:
        # One at a time, since wrapping plays the games in this process.
        async with wrapping:
            await to_thread.run_sync(partial(wrap_game, one.source, directory=place, measure=False))
    except CoworldError as error:
        return f"refused: {error.message.partition(' cannot be wrapped: ')[2].rstrip('.') or error.message}"
    return await to_thread.run_sync(certified, place) or "certified"


async def run(games: list[Wrappable], path: Path, *, at_once: int) -> None:
    """Determine the outcome of each game that is missing from `path`, and add it there."""
    known = set(outcomes(path))
    wrapping, room = anyio.Lock(), anyio.CapacityLimiter(at_once)
    with tempfile.TemporaryDirectory() as directory, path.open("a", encoding="utf-8") as file:

        async def each(number: int, one: Wrappable) -> None:
            async with room:
                said = await outcome(one, Path(directory) / f"game-{number}", wrapping)
                file.write(json.dumps({"game": one.source, "outcome": said}) + "\n")
                file.flush()
                print(f"{one.source}: {said}", file=sys.stderr, flush=True)

        async with anyio.create_task_group() as tasks:
            for number, one in enumerate(games):
                if one.source not in known:
                    tasks.start_soon(each, number, one)


def outcomes(path: Path) -> dict[str, str]:
    """Read the outcomes from a file, by game."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {row["game"]: row["outcome"] for row in map(json.loads, lines)}


def table(found: dict[str, str]) -> str:
    """A table of outcomes with the number and names of games."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for game, said in sorted(found.items()):
        groups[said].append(game.partition(":")[2])
    rows = sorted(groups.items(), key=lambda row: -len(row[1]))
    lines = [f"| {said} | {len(names)} | {', '.join(f'`{name}`' for name in names)} |" for said, names in rows]
    return "\n".join(["| | Games | Names |", "|---|---|---|", *lines])


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", help="openspiel, pettingzoo or textarena")
    parser.add_argument("-o", "--output", type=Path, required=True, help="a file of lines, gone on with if it is there")
    parser.add_argument("--only", nargs="*", help="names of games")
    parser.add_argument("--at-once", type=int, default=2, help="games at a time (default: 2)")
    asked = parser.parse_args()
    games = list_wrappable(asked.library)
    if asked.only:
        games = [one for one in games if one.source.partition(":")[2] in asked.only]
    anyio.run(partial(run, games, asked.output, at_once=asked.at_once))
    print(table(outcomes(asked.output)))


if __name__ == "__main__":
    main()
