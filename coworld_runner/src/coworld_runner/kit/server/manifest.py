"""The manifest template of a game of the kit follows its rules: `python -m coworld_runner.kit.server.manifest DIR`.

What the class of the rules decides is replaced: schemas, texts, the number of seats, the settings of its pace, and tags
about both. Players in `players/` and supporting roles in `roles/` that no entry runs are added. Everything else that an
author has written stays.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Any, Final, cast

from coworld_core.documents.json_edit import Edit, edited
from coworld_core.errors import CoworldError, UsageError
from coworld_core.files.atomic import write_whole
from coworld_core.issues import Report
from coworld_core.manifest.manifest_file import TEMPLATE_NAME, check_manifest
from coworld_core.rules import Rules, Turns, game_section, load_rules
from coworld_core.rules.game import fixed_pace, wrong_rules
from coworld_core.rules.rules_schemas import config_schema

from .new_programs import NewProgram, declarations, new_programs, rules_name

__all__ = ["UP_TO_DATE", "ManifestUpdate", "brought_up_to_date", "main", "manifest_update"]

UP_TO_DATE: Final = "nothing to change"
"""What the program says of a manifest that follows from its rules already."""

_NUMBERS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBER: Final = rf"(?:\d+|{'|'.join(_NUMBERS)})"
_SEATS_TAG: Final = re.compile(rf"{_NUMBER}(?:-to-{_NUMBER})?-player")
_PACES: Final = ("seconds_per_move", "ticks_per_second")
_PACE_TAGS: Final = ("turn-based", "real-time")


@dataclass(frozen=True, kw_only=True)
class ManifestUpdate:
    """What the rules of a game change in its manifest template.

    Attributes:
        path: The template.
        before: Its text.
        after: Its text as it follows from the rules; the same if nothing differs.
        added: The programs that were not declared.
        left: What is wrong in it then, for its author to correct.
    """

    path: Path
    before: str
    after: str
    added: tuple[NewProgram, ...]
    left: Report

    @property
    def changed(self) -> bool:
        """Whether anything differs."""
        return self.after != self.before

    def write(self) -> None:
        """Write the template, if anything differs."""
        if self.changed:
            write_whole(self.path, self.after.encode("utf-8"))

    def remarks(self) -> list[str]:
        """What to say about the programs that are new."""
        said: list[str] = []
        for program in self.added:
            what = f"{program.section} {program.entry['id']}"
            said.append(f"{what} is new: {' '.join(program.entry['run'])}" if not program.refused else "")
            said.append(f"{what} is not declared: {program.refused}" if program.refused else program.remark)
        return [line for line in said if line]


def manifest_update(directory: Path) -> ManifestUpdate:
    """Find out what the rules of a game change in its manifest template; writes nothing.

    Args:
        directory: The directory of the package, or the template itself.

    Raises:
        UsageError: There is no template (`manifest_not_found`), it cannot be read (`manifest_unreadable`), the game is
            not one of the kit (`no_rules`), or its rules are wrong: the message then names the file and the line.
    """
    path = directory / TEMPLATE_NAME if directory.is_dir() else directory
    try:
        before = path.read_bytes().decode("utf-8")
        manifest: Any = json.loads(before)
        name = rules_name(manifest)
    except FileNotFoundError:
        raise UsageError(f"There is no {path}.", code="manifest_not_found") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read: {error}.", code="manifest_unreadable") from None
    if not name:
        hint = "The manifest of any other game is written by hand."
        raise UsageError(f"{path} is not of a game whose rules the kit serves.", code="no_rules", hint=hint)
    home = path.absolute().parent
    rules = load_rules(name, directory=home)
    try:
        added = new_programs(manifest, path.parent)
        text = edited(before, declarations(manifest, added))
        declared = json.loads(text)
    except (AttributeError, LookupError, TypeError) as error:
        raise UsageError(f"{path} is not a manifest: {error}.", code="manifest_unreadable") from None
    try:
        after = brought_up_to_date(declared, rules)
    except Exception as error:
        raise wrong_rules(error, directory=home, at=rules) from error
    text = edited(text, _edits((), declared, after))
    left = check_manifest(text.encode("utf-8"), template=True).model_copy(update={"source": str(path)})
    return ManifestUpdate(path=path, before=before, after=text, added=tuple(added), left=left)


def brought_up_to_date(manifest: Mapping[str, Any], rules: type[Rules]) -> dict[str, Any]:
    """Return a manifest that follows from the rules, wherever they decide.

    Args:
        manifest: A manifest or manifest template, as JSON.
        rules: The game.

    Raises:
        UsageError: The manifest has no `game`.
    """
    game = _object(manifest.get("game"))
    if not game:
        raise UsageError("The manifest has no game.", code="manifest_invalid")
    section = game_section(rules)
    docs = {**_object(game.get("docs")), **section["docs"]}
    done: dict[str, Any] = {**manifest, "game": {**game, **section, "docs": docs}}
    if isinstance(variants := manifest.get("variants"), list):
        done["variants"] = [_with_config(one, rules) for one in _items(variants)]
    if isinstance(fixture := manifest.get("certification"), dict):
        done["certification"] = _fixture(_object(_with_config(fixture, rules)), manifest, rules)
    if isinstance(tags := manifest.get("tags"), list):
        told = [_tag(tag, rules) for tag in _items(tags)]
        done["tags"] = [tag for index, tag in enumerate(told) if tag not in told[:index]]
    return done


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _items(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _seats(count: int, rules: type[Rules]) -> int:
    return min(max(count, rules.seats), rules.most_seats or rules.seats)


def _with_config(part: Any, rules: type[Rules]) -> Any:
    """A variant or the fixture, with a game config that has a name for each seat and no setting of another pace."""
    own = _object(part)
    if not isinstance(own.get("game_config"), dict):
        return part
    known, config = config_schema(rules)["properties"], _object(own["game_config"])
    kept = {name: value for name, value in config.items() if name in known or name not in _PACES}
    names = kept.get("players", [] if rules.most_seats else None)
    if isinstance(names, list):
        named = cast("list[Any]", names)
        count = _seats(len(named), rules)
        kept["players"] = [*named[:count], *({"name": f"Seat {seat}"} for seat in range(len(named), count))]
    return {**own, "game_config": kept}


def _fixture(fixture: dict[str, Any], manifest: Mapping[str, Any], rules: type[Rules]) -> dict[str, Any]:
    """The fixture with a player in each seat; in new seats first those that have none yet."""
    if not isinstance(fixture.get("players"), list):
        return fixture
    players, names = _items(fixture["players"]), _items(_object(fixture.get("game_config")).get("players"))
    count = _seats(len(names or players), rules)
    ids = [{"player_id": _object(entry).get("id")} for entry in _items(manifest.get("player"))]
    spare = [one for one in ids if one not in players]
    more = islice(chain(spare, cycle(ids)), max(count - len(players), 0))
    return {**fixture, "players": [*players[:count], *more]}


def _tag(tag: Any, rules: type[Rules]) -> Any:
    """A tag, or what it must be if the rules decide it."""
    if tag in _PACE_TAGS and (pace := fixed_pace(rules)) is not None:
        return _PACE_TAGS[not isinstance(pace, Turns)]
    if not isinstance(tag, str) or not _SEATS_TAG.fullmatch(tag):
        return tag
    ends = dict.fromkeys((rules.seats, rules.most_seats or rules.seats))
    return "-to-".join(_NUMBERS[end] if end < len(_NUMBERS) else str(end) for end in ends) + "-player"


def _edits(path: tuple[str | int, ...], old: Any, new: Any) -> Iterator[Edit]:
    """The changes from one document to another; each part that the rules make is one of them."""
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict) and (path[:1] != ("game",) or len(path) < 2):
        before, after = _object(old), _object(new)
        yield from (Edit("remove", (*path, name)) for name in before if name not in after)
        for name, value in after.items():
            yield from _edits((*path, name), before.get(name), value)
    elif path == ("variants",):
        for index, (one, other) in enumerate(zip(_items(old), _items(new), strict=True)):
            yield from _edits((*path, index), one, other)
    else:
        yield Edit("set", path, new)


def main() -> int:
    """Update a file and return the exit code.

    Returns:
        0: it is up to date; 1: it is, and has errors, such as a variant that no longer fits the rules; 2: wrong
        arguments, or an unreadable file.
    """
    if len(sys.argv) != 2:
        print("usage: python -m coworld_runner.kit.server.manifest DIR|FILE", file=sys.stderr)
        return 2
    try:
        update = manifest_update(Path(sys.argv[1]))
        update.write()
    except (CoworldError, OSError) as error:
        print(error.message if isinstance(error, CoworldError) else error, file=sys.stderr)
        return 2
    print(f"{update.path}: {'brought up to date' if update.changed else UP_TO_DATE}")
    for line in update.remarks():
        print(f"{update.path}: {line}")
    for issue in update.left.errors:
        print(f"{update.path}:{issue}", file=sys.stderr)
    return 1 if update.left.errors else 0


if __name__ == "__main__":
    sys.exit(main())
