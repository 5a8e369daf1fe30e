"""A runner for tests to kill: runs one unit for ever, so that a test can see what a dead runner leaves behind.

Reads a pickled `(backend, spec)` from standard input, prints `up` once the unit runs, and waits.
"""

from __future__ import annotations

import dataclasses
import pickle
import sys
from pathlib import Path

import anyio

from coworld_core.episode.events import BaseEvent

from ..backend import Backend, UnitSpec
from ..runs.scratch import open_scratch

__all__ = ["main"]


def _ignore(_event: BaseEvent) -> None:
    pass


async def main(backend: Backend, spec: UnitSpec) -> None:
    """Run the unit for ever."""
    async with (
        open_scratch(spec.run_id) as scratch,
        backend,
        backend.units([_placed(spec, scratch.directory(spec.name, shared=True))], publish=_ignore),
    ):
        print("up", flush=True)
        await anyio.sleep_forever()


def _placed(spec: UnitSpec, directory: Path) -> UnitSpec:
    return dataclasses.replace(spec, directory=directory)


if __name__ == "__main__":
    anyio.run(main, *pickle.load(sys.stdin.buffer))  # noqa: S301 - sent by the test that started us
