"""A tournament to be killed: goes on where the one before it was. Its directory is the argument."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
from support.contest import contest, held, played_on

from coworld_runner.evaluation.tournament import add_entrant

PLAYERS = ("first", "second", "third")


async def main(place: Path) -> None:
    async with contest(0.3) as small:
        if not (place / "tournament.toml").exists():
            await held(small, place, pairing="swiss", rounds=5)
        # Those that are in it already stay in it: this, too, may have been killed before
        for player in PLAYERS:
            await add_entrant(place, player)
        await played_on(small, place)


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
