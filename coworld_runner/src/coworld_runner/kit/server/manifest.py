"""The manifest of served rules: `python -m coworld_runner.kit.server.manifest MODULE:CLASS FILE` updates one.

The parts that come from the rules' types and docstrings are replaced, and players in `players/` and supporting roles in
`roles/` that no entry runs are added; variants, owner and everything else that an author has written stay.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coworld_core.documents.json_edit import Edit, edited
from coworld_core.errors import CoworldError, UsageError
from coworld_core.manifest.manifest_file import check_manifest
from coworld_core.rules import Rules, game_section, load_rules

from .new_programs import declarations, new_programs

__all__ = ["brought_up_to_date", "main"]


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
        added = new_programs(manifest, path.parent)
        after = edited(before, [*changes, *declarations(manifest, added)])
    except CoworldError as error:
        print(error.message, file=sys.stderr)
        return 2
    except (OSError, ValueError) as error:
        print(f"{path} cannot be read: {error}", file=sys.stderr)
        return 2
    path.write_bytes(after.encode("utf-8"))
    print(f"{path}: {'brought up to date' if after != before else 'nothing to change'}")
    for program in added:
        entry = program.entry
        if program.refused:
            print(f"{path}: {program.section} {entry['id']} is not declared: {program.refused}")
            continue
        print(f"{path}: {program.section} {entry['id']} is new: {' '.join(entry['run'])}")
        if program.remark:
            print(f"{path}: {program.remark}", file=sys.stderr)
    wrong = check_manifest(path, template=True).errors
    for issue in wrong:
        print(f"{path}:{issue}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
