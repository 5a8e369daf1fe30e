"""Whether a player gains by taking the processors when it is losing: Paint Arena against an honest copy of itself.

Both play the same; one of them keeps all processors busy with processes of its own whenever it is not ahead. The
figures are the verdict, who forfeited, and what became of the blocks.

    python tests/benchmarks/burning.py --blocks 10
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
from _measure import HERE, finish, machine

from coworld_core.episode.record import read_rows
from coworld_core.evaluation.comparison import NEW, OLD
from coworld_runner.evaluation import EvaluationRules, compare

GAME = HERE.parents[1] / "examples" / "paintarena"
HONEST = """
from paintarena.players.frontier import choose

async def play(seat):
    async for seen in seat:
        if seen["type"] == "observation":
            await seat.send({"move": choose(seen)})
        elif seen["type"] == "final":
            return
"""
BURNING = """
import os, signal
from paintarena.players.frontier import choose

def burn():
    if child := os.fork():
        return child
    # In a session of its own, it has as large a share of the processors as any other
    os.setsid()
    while True:
        pass

async def play(seat):
    burning = []
    async for seen in seat:
        if seen["type"] == "observation":
            ahead = seen["scores"][seen["slot"]] > max(seen["scores"][1 - seen["slot"]], 2)
            if not ahead and not burning:
                burning = [burn() for _ in range(12 * os.cpu_count())]
                print("burning from tick", seen["tick"], flush=True)
            await seat.send({"move": choose(seen)})
        elif seen["type"] == "final":
            break
    for child in burning:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
"""
"""The same, with processes beside it, twelve for each processor."""


async def compared(blocks: int, variant: str) -> dict[str, Any]:
    """Compare the two; returns what the report says of each."""
    with tempfile.TemporaryDirectory() as place:
        bots = {NEW: Path(place, "burning.py"), OLD: Path(place, "honest.py")}
        bots[NEW].write_text(BURNING)
        bots[OLD].write_text(HONEST)
        workspace = Path(place, "compared")
        report = await compare(
            GAME,
            str(bots[NEW]),
            str(bots[OLD]),
            rules=EvaluationRules(variant=variant, seed=0, max_blocks=blocks),
            backend="process",
            workspace=workspace,
            parallel=1,
        )
        rows = list(read_rows(workspace))
    return {
        "verdict": report.verdict,
        "headline": report.headline,
        "forfeits": {one.label: one.forfeits for one in report.entrants},
        "first_forfeit": next((one.first_forfeit.error_type for one in report.entrants if one.first_forfeit), ""),
        "blocks": {"won": report.won, "lost": report.lost, "drawn": report.drawn, "doubtful": report.doubtful},
        "evidence": report.evidence,
        "episodes": {
            "all": len(rows),
            "starved": sum(bool(row.starved) for row in rows),
            "by": dict(Counter(row.slots[slot].name for row in rows for slot in row.starved_by)),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=10)
    parser.add_argument("--variant", default="quick")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = {
        "benchmark": "burning",
        "machine": machine(),
        **anyio.run(compared, options.blocks, options.variant),
    }
    for name, value in figures.items():
        print(f"{name}: {value}")
    finish(figures, as_json=options.json)


if __name__ == "__main__":
    main()
