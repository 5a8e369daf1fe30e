"""`python -m coworld_runner.jobs`: takes part in playing a run, or drives one, as a program."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import anyio

from coworld_core.errors import CoworldError, UsageError

from ..errors import unwrapped
from .attended_run import attend_run
from .job_objects import HOPELESS
from .job_pods import JobPods
from .own_pod import OwnPod
from .taking_part import take_part

__all__ = ["main"]

_log = logging.getLogger("coworld.jobs")


def main(args: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status: 0 for success, 1 for a failure, 2 for what fails again.

    A wrong command line and whatever else is wrong with what was asked fail again.

    Args:
        args: The arguments without the program's name; None: this process's.
    """
    parser = argparse.ArgumentParser(
        prog="python -m coworld_runner.jobs", description="Take part in a measurement that many machines share."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, words in _COMMANDS.items():
        one = commands.add_parser(name, help=words)
        one.add_argument("store", nargs="?" if name == "play" else None, help="s3://BUCKET/PREFIX and the like")
        one.add_argument(
            "--folder", type=Path, required=name in ("carry", "drive"), help="a directory that is shared, or kept"
        )
        if name == "episode":
            one.add_argument("chunk", type=int, help="the number of its chunk")
        if name == "drive":
            one.add_argument("--at-once", type=int, help="how many pods play")
    try:
        chosen = parser.parse_args(args)
        if chosen.command == "play" and (chosen.store is None) == (chosen.folder is None):
            parser.error("play takes the store, or --folder if another process carries the chunks")
    except SystemExit as leave:
        return int(leave.code or 0)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    if chosen.command == "drive":
        return anyio.run(_reported, partial(_drive, chosen.store, chosen.folder, chosen.at_once))
    part = partial(take_part, chosen.store, chosen.folder, name=os.environ.get("POD_NAME", ""))
    if chosen.command == "episode":
        return anyio.run(_reported, lambda: part(only=chosen.chunk, pod=_own_pod()))
    return anyio.run(_reported, partial(part, plays=chosen.command == "play"))


_COMMANDS = {
    "play": "play episodes, in worker processes",
    "carry": "bring episodes from the store to a directory, where another process plays them, and take back rows",
    "episode": "play one episode of images, with the other containers of this pod, or with pods of their own",
    "drive": "drive a run that was detached, and leave its report in its store",
}


def _own_pod() -> OwnPod:
    # Whoever is told what pods to make makes those of game and players
    told = JobPods.told(os.environ)
    return OwnPod.of(os.environ, apart=told.cluster if told is not None else None)


async def _drive(store: str, folder: Path, at_once: int | None) -> None:
    await attend_run(store, folder / "run", at_once=at_once, pods=JobPods.told(os.environ))


async def _reported(work: Callable[[], Awaitable[object]]) -> int:
    try:
        with unwrapped():
            await work()
    except CoworldError as error:
        _log.error("%s: %s %s", error.code, error.message, error.hint or "")
        return HOPELESS if isinstance(error, UsageError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
