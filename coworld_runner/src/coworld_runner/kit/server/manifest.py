"""The manifest of served rules: `python -m coworld_runner.kit.server.manifest MODULE:CLASS FILE` updates one.

The parts that come from the rules' types and docstrings are replaced, and players in `players/` that no entry runs are
added; variants, owner and everything else that an author has written stay.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coworld_core.documents.json_edit import Edit, edited
from coworld_core.errors import CoworldError, UsageError
from coworld_core.manifest.manifest_file import check_manifest
from coworld_core.rules import Rules, game_section, load_rules

from ...package.own_players.player_file import read_file

__all__ = ["brought_up_to_date", "main", "new_players"]


def brought_up_to_date(manifest: Mapping[str, Any], rules: type[Rules]) -> dict[str, Any]:
    """Return a manifest whose `game` section matches the rules.

    Args:
        manifest: A manifest or manifest template, as JSON.
        rules: The game.

    Raises:
        UsageError: The manifest has no `game`.
    """
    game = manifest.get("game")
    if not isinstance(game, dict):
        raise UsageError("The manifest has no game.", code="manifest_invalid")
    section = game_section(rules)
    docs: dict[str, Any] = {**game.get("docs", {}), **section["docs"]}  # type: ignore[dict-item]
    return {**manifest, "game": {**game, **section, "docs": docs}}


def new_players(manifest: Mapping[str, Any], directory: Path) -> list[dict[str, Any]]:
    """Return entries for the Python players in `players/` that no entry of a manifest runs.

    Args:
        manifest: A manifest or manifest template, as JSON, of a game whose image also has its players.
        directory: Its directory.
    """
    entries = manifest.get("player", [])
    run = {word for entry in entries for word in entry.get("run", ())}
    ids = {entry.get("id") for entry in entries}
    made: list[dict[str, Any]] = []
    for path in sorted(directory.glob("players/*.py")):
        word, player_id = f"players/{path.name}", path.stem.replace("_", "-")
        if word in run or player_id in ids:
            continue
        try:
            player = read_file(path, path.stat())
        except UsageError:
            continue  # A module that players import, or one that is not finished
        name = path.stem.replace("_", " ").title()
        about = (ast.get_docstring(ast.parse(path.read_bytes())) or f"Plays as {name}.").splitlines()[0]
        seat = ["-m", "coworld_client.seat"] if player.needs_client else []
        made.append(
            {
                "id": player_id,
                "name": name,
                "type": "player",
                "description": about,
                "image": manifest["game"]["runnable"]["image"],
                "run": ["python", *seat, word],
            }
        )
    return made


def main() -> int:
    """Update a file and return the exit code.

    Returns:
        0: it is up to date; 1: it is, and has errors, such as a variant that no longer fits the rules; 2: wrong
        arguments, or an unreadable file.
    """
    if len(sys.argv) != 3:
        print("usage: python -m coworld_runner.kit.server.manifest MODULE:CLASS FILE", file=sys.stderr)
        return 2
    path = Path(sys.argv[2])
    try:
        rules = load_rules(sys.argv[1])
        before = path.read_bytes().decode("utf-8")
        manifest = json.loads(before)
        game = brought_up_to_date(manifest, rules)["game"]
        changes = [Edit("set", ("game", name), game[name]) for name in game if game[name] != manifest["game"].get(name)]
        added = new_players(manifest, path.parent)
        if added:
            changes.append(Edit("set", ("player",), [*manifest.get("player", []), *added]))
        after = edited(before, changes)
    except CoworldError as error:
        print(error.message, file=sys.stderr)
        return 2
    except (OSError, ValueError) as error:
        print(f"{path} cannot be read: {error}", file=sys.stderr)
        return 2
    path.write_bytes(after.encode("utf-8"))
    print(f"{path}: {'brought up to date' if after != before else 'nothing to change'}")
    for entry in added:
        print(f"{path}: player {entry['id']} is new: {' '.join(entry['run'])}")
    wrong = check_manifest(path, template=True).errors
    for issue in wrong:
        print(f"{path}:{issue}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
