"""Blocks measured in worker processes, compared with rollouts of the same games: processor time and blocks a second.

python tests/benchmarks/measuring.py --rounds 5
uv run --no-sync --with open_spiel python tests/benchmarks/measuring.py --rounds 5

Each figure is the difference between a long and a short run, so starting does not count.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
from _measure import finish, interleaved, machine, median, python, run, show, spread

from coworld_core.rules import load_rules
from coworld_runner.evaluation import EvaluationRules, mix
from coworld_runner.kit.rollout import rollouts

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
GAMES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "nim": ("nim", "nim:Nim", {"sticks": 21}),
    "connect four": ("board", "board:Board", {"game": "connect_four"}),
}
MOVER = "def act(observation, legal, rng):\n    return rng.choice(legal)\n"


def measured(game: str, blocks: int, directory: Path) -> None:
    """Measure two players that move at random in so many blocks of two episodes."""
    folder, _, config = GAMES[game]
    players = {str(directory / "first.py"): 1.0, str(directory / "second.py"): 1.0}
    variant = next((name for name in ("connect-four",) if config.get("game") == "connect_four"), None)
    rules = EvaluationRules(variant=variant, seed=0)
    anyio.run(
        lambda: mix(EXAMPLES / folder, players, episodes=2 * blocks, rules=rules, workspace=directory / f"run-{blocks}")
    )


def rolled(game: str, blocks: int, directory: Path) -> None:
    """Play the same number of episodes by rollouts, in this process."""
    folder, rules, config = GAMES[game]
    players = [str(directory / "first.py"), str(directory / "second.py")]
    loaded = load_rules(rules, directory=EXAMPLES / folder)
    for _ in rollouts(loaded, players, episodes=2 * blocks, config=config):
        pass


def timed(road: str, game: str, blocks: int, short: int) -> tuple[float, float]:
    """Processor seconds and seconds for each block, beyond those of a short run."""
    found: list[tuple[float, float]] = []
    # The first run stores bytecode
    for count in (short, short, short + blocks):
        with tempfile.TemporaryDirectory() as place:
            for name in ("first", "second"):
                Path(place, f"{name}.py").write_text(MOVER)
            done = run([python(), __file__, "--one", road, "--game", game, "--blocks", str(count), "--place", place])
            found.append((done.cpu, done.wall))
    _, (cpu, wall), (more, longer) = found
    return (more - cpu) / blocks, (longer - wall) / blocks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--blocks", type=int, default=2000)
    parser.add_argument("--short", type=int, default=400, help="Blocks of the short run: enough for evidence to end.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", choices=("measured", "rolled"))
    parser.add_argument("--game", default="nim")
    parser.add_argument("--place", type=Path, default=Path())
    options = parser.parse_args()
    if options.one:
        (measured if options.one == "measured" else rolled)(options.game, options.blocks, options.place)
        return
    figures: dict[str, Any] = {"machine": machine()}
    games = [game for game in GAMES if game == "nim" or importlib.util.find_spec("pyspiel") is not None]
    for game in games:
        here, alone = interleaved(
            options.rounds,
            lambda game=game: timed("measured", game, options.blocks, options.short),
            lambda game=game: timed("rolled", game, options.blocks, options.short),
        )
        ratios = [one[0] / other[0] for one, other in zip(here, alone, strict=True) if other[0] > 0] or [0.0]
        figures[game] = {
            "cpu_ms": 1000 * median([one[0] for one in here]),
            "rollouts_cpu_ms": 1000 * median([one[0] for one in alone]),
            "of_rollouts": median(ratios),
            "blocks_per_second": 1 / max(median([one[1] for one in here]), 1e-9),
        }
        show(
            f"{game}: a block of two episodes",
            ("", "ms of processors", "ms"),
            [
                (name, spread([1000 * one[0] for one in times]), spread([1000 * one[1] for one in times]))
                for name, times in (("measured", here), ("rollouts", alone))
            ],
        )
        print(f"processor time of rollouts: {spread(ratios)}", file=sys.stderr)
    finish(figures, as_json=options.json)


if __name__ == "__main__":
    main()
