"""`coworld-worker` and `python -m coworld_runner.worker`: the hosted worker as a program."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence

import anyio

from coworld_core.errors import CoworldError

__all__ = ["main"]

_log = logging.getLogger("coworld.worker")


def main(args: Sequence[str] | None = None) -> int:
    """Run the worker and return its exit status: 0 for success, 1 for a failure, 2 for a wrong command line.

    Args:
        args: The arguments without the program's name; None: this process's.
    """
    parser = argparse.ArgumentParser(
        prog="coworld-worker",
        description="One episode on Kubernetes, run inside the Job that a platform made for it.",
        epilog="Environment variables configure it; docs/worker.md lists them.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("init-config", help="write the game's config before the game starts")
    commands.add_parser("run", help="play the episode beside the game, and upload its outputs")
    try:
        chosen = parser.parse_args(args)
    except SystemExit as leave:
        return int(leave.code or 0)
    _configure_log()
    return anyio.run(_init_config if chosen.command == "init-config" else _run)


def _configure_log() -> None:
    name = (os.environ.get("LOG_LEVEL") or os.environ.get("COWORLD_LOG_LEVEL") or "INFO").upper()
    level = logging.getLevelNamesMapping().get(name, logging.INFO)
    logging.basicConfig(
        level=max(level, logging.WARNING) if level > logging.DEBUG else level,
        format="%(asctime)s %(levelname)s %(message)s",
        stream=sys.stderr,
    )
    _log.setLevel(level)


async def _run() -> int:
    from .worker_run import run_worker

    return 0 if (await run_worker(os.environ)).counts else 1


async def _init_config() -> int:
    from coworld_core.episode.verdict import judge_error

    from ..package.transfers import Transfers
    from .episode_setup import init_config
    from .worker_settings import read_outputs

    try:
        await init_config(os.environ)
    except CoworldError as error:
        _log.error("%s: %s %s", error.code, error.message, error.hint or "")
        uri = read_outputs(os.environ).error_info
        if uri is not None:
            try:
                async with Transfers() as transfers:
                    await transfers.put(
                        uri, judge_error(error).error_info, content_type="application/json", what="error info"
                    )
            except CoworldError as second:
                _log.error("%s", second.message)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
