"""Every game of OpenSpiel, wrapped with nothing done by hand: which play, which certify, and why the rest does not.

uv run --no-sync --with open_spiel python tests/wrapping/table.py --certify
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from coworld_core.errors import CoworldError
from coworld_runner.wrapping import list_wrappable, wrap_game

PLAY = """
import sys
from coworld_core.rules import Play, load_rules
rules = load_rules(sys.argv[1])
play = Play(rules, seats=int(sys.argv[2]), seed=1)
for _ in range(20):
    if not play.over:
        play.step({seat: play.options(seat)[0] for seat in play.to_act})
"""


def outcome(source: str, place: Path, *, certify: bool) -> str:
    try:
        made = wrap_game(source, directory=place, measure=False)
    except CoworldError as error:
        return f"not wrapped: {error.message}"
    python = Path(sys.executable)
    name = next(path for path in made.paths if path.endswith(".py") and "/" not in path).removesuffix(".py")
    commands = [[str(python), "-c", PLAY, name, str(made.game.default_seats)]]
    if certify:
        coworld = "from coworld_cli.main import main; import sys; sys.exit(main())"
        commands.append([str(python), "-c", coworld, "certify", ".", "--backend", "process", "-o", "certified"])
    for word, command in zip(("not played", "not certified"), commands, strict=False):
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
        if done.returncode:
            (place / "said").write_text(done.stdout + done.stderr)
            failed = [line for line in done.stdout.splitlines() if "fail" in line] or done.stderr.splitlines()
            return f"{word}: {' '.join(failed[:1])}"
    return "certified" if certify else "played"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--certify", action="store_true", help="certify each on the process backend, not only play it")
    parser.add_argument("--only", nargs="*", help="names of games")
    asked = parser.parse_args()
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        for one in list_wrappable("openspiel"):
            name = one.source.partition(":")[2]
            if asked.only and name not in asked.only:
                continue
            said = f"refused: {one.refused}" if one.refused else ""
            said = said or outcome(one.source, Path(place) / f"game_{name}", certify=asked.certify)
            counts[said.partition(":")[0]] += 1
            print(f"| {name} | {said} |", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main()
