"""A comparison to be killed: goes on where the one before it was. Its workspace is the argument."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
from support.contest import compared, contest


async def main(workspace: Path) -> None:
    async with contest(0.3) as small:
        await compared(small, workspace, max_blocks=15, seed=1)


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
