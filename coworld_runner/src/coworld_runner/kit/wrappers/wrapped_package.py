"""Makes a package from a library's game: rules, two players, manifest, files to build an image from, and the card."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from coworld_core.errors import EnvironmentFault

from ...backends.process.child_environment import child_environment
from ...package.own_players.player_file import with_imports
from ...package.random_player import RANDOM
from ..server.scaffolds import NewFiles, new_game, require_game_directory, rules_names, write_files
from .card import Card, measure_card
from .game_catalogue import LIBRARIES
from .libraries import requirement
from .trial import TRIAL_SECONDS, Trials
from .wrappable import WrappedGame, not_wrappable

__all__ = ["WrappedPackage", "wrap_game"]

_TEMPLATES: Final = files("coworld_runner.kit.wrappers") / "templates"
_MANIFEST: Final = "coworld_manifest_template.json"
_RUN: Final = ["python", "-m", "coworld_client.seat"]
_SECOND: Final = {
    "practised": "Practises first, then plays the moves that scored best.",
    "listener": "Plays the moves that the game gives as examples, and does not repeat refused ones.",
    "searcher": "Plays each move out at random, and makes the best one.",
}
"""Descriptions of the players that think first; each has a folder of templates."""


@dataclass(frozen=True, kw_only=True)
class WrappedPackage(NewFiles):
    """A package that was made from a library's game.

    Attributes:
        game: The game.
        card: The measurements; None if there are none.
    """

    game: WrappedGame
    card: Card | None


def wrap_game(source: str, *, directory: Path | None = None, measure: bool = True) -> WrappedPackage:
    """Make a package from a library's game.

    Args:
        source: The game, such as `openspiel:hanabi`, or `pettingzoo:./myenv.py` for an environment of one's own.
        directory: The package's directory, new or empty; the game takes its name. None: one in the current directory,
            named after the game.
        measure: Whether to measure its card, which takes about ten seconds.

    Raises:
        UsageError: There is no such game, it cannot be wrapped, its library is missing, or the directory is not empty.
        EnvironmentFault: The game does not run on this machine.
    """
    if directory is not None:
        require_game_directory(_name(directory.resolve().name), directory)
    with Trials() as trials:
        game = trials.find(source)
    # The module of an environment of one's own keeps its name, so the rules need another one.
    place = directory or Path(_name(game.short_name) + ("-game" if game.module_directory else ""))
    name = _name(place.resolve().name)
    module, class_name = rules_names(name)
    if game.module_directory and module == game.module.partition(".")[0]:
        raise not_wrappable(
            source, f"{module}.py would be both its environment and its rules", hint="Name another directory."
        )
    made = new_game(name, directory=place)
    library = LIBRARIES[game.library]
    installed = requirement(library.module, game.needs)
    thinking = game.second
    words = {
        "GAME_TITLE": game.title,
        "NewGame": class_name,
        "newgame:NewGame": f"{module}:{class_name}",
        "newgame": module,
        "LIBRARY": installed,
        "READING": library.reading,
        "SEES": library.sees,
        "OpenSpiel": library.title,
        "openspiel": game.library,
        "SEATS_WORD": _seats(game),
        "OTHER": thinking,
        '"kuhn_poker"': json.dumps(game.game),
        "^kuhn_poker": f"^{re.escape(game.short_name)}",
        "    seats = 2": f"    seats = {game.seats}",
        "most_seats = 10": f"most_seats = {game.most_seats}",
        "live_scores = False": f"live_scores = {game.live_scores}",
    }
    players = write_files(_TEMPLATES / thinking, place, words)
    rules = write_files(_TEMPLATES / "rules", place, words)
    own = _bring_environment(game, place, place / f"{module}.py", installed) if game.module else ()
    _edit(place / "Dockerfile", '"coworld-client[seat]"', f'"coworld-client[seat]" {installed}')
    manifest: dict[str, Any] = json.loads((place / _MANIFEST).read_text("utf-8"))
    _people(manifest, game, thinking)
    (place / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    _bring_up_to_date(place)
    card = None
    if measure:
        card = measure_card(
            f"{module}:{class_name}",
            directory=place,
            seats=game.default_seats,
            policy=f"players/{thinking}.py",
            baseline="players/random_player.py" if thinking == "listener" else RANDOM,
        )
    _edit(place / "README.md", "CARD", card.markdown().rstrip() if card else "It was not measured.")
    paths = sorted({*made.paths, *players.paths, *rules.paths, *own})
    return WrappedPackage(directory=place, paths=tuple(paths), game=game, card=card)


def _name(word: str) -> str:
    """Return a valid name for a game: names in libraries may begin with a digit, or contain capitals or a slash."""
    plain = re.sub(r"[^a-z0-9_-]+", "-", word.lower())
    return plain if plain[:1].isalpha() else f"game_{plain}"


def _seats(game: WrappedGame) -> str:
    count = f"{game.seats}" if game.seats == game.most_seats else f"{game.seats} to {game.most_seats}"
    return f"{count} seat{'' if count == '1' else 's'}"


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text, f"{path.name} has no {old}"
    path.write_text(text.replace(old, new), encoding="utf-8")


def _bring_environment(game: WrappedGame, place: Path, rules: Path, installed: str) -> tuple[str, ...]:
    """Copy an environment of one's own into a package, with the modules beside it that it imports, and name it there.

    Returns:
        The paths of the copies, relative to the package.
    """
    _edit(rules, "\n\n\nclass ", f"\n\nimport {game.module}\n\n\nclass ")
    made_by = f"{game.module}.{game.maker}" if game.maker else game.module
    _edit(rules, "    seats = ", f"    environment = {made_by}\n    seats = ")
    _edit(rules, f"the rules are {LIBRARIES[game.library].title}'s", f"the rules are those of `{game.module}`")
    _edit(place / "README.md", f"as `{installed}` plays it", f"as the environment in `{game.module}` plays it")
    if not game.module_directory:
        return ()
    asking = Path(game.module_directory, f"{place.name}.py")
    files = with_imports(asking, f"import {game.module}".encode())
    del files[asking.name]
    for path, content in files.items():
        target = place / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return tuple(files)


def _people(manifest: dict[str, Any], game: WrappedGame, thinking: str) -> None:
    """Put the players into a manifest, and a name for each seat."""
    first = manifest["player"][0]
    second = {
        **first,
        "id": thinking,
        "name": thinking.capitalize(),
        "description": _SECOND[thinking],
        "run": [*_RUN, f"players/{thinking}.py"],
    }
    # Certification fails for a player without a seat, so a game with one seat gets one player.
    manifest["player"] = [first, second] if game.default_seats > 1 else [second]
    names = [{"name": f"Seat {seat}"} for seat in range(game.default_seats)]
    manifest["variants"][0]["game_config"]["players"] = names
    manifest["certification"]["game_config"]["players"] = names
    ids = [player["id"] for player in manifest["player"]]
    manifest["tags"] = [game.library, f"{game.default_seats}-player", manifest["game"]["name"]]
    manifest["certification"]["players"] = [{"player_id": ids[seat % len(ids)]} for seat in range(game.default_seats)]


def _bring_up_to_date(place: Path) -> None:
    """Update the manifest in a separate process: it imports the game, whose module may have any name."""
    command = [sys.executable, "-m", "coworld_runner.kit.server.manifest", _MANIFEST]
    try:
        done = subprocess.run(
            command,
            cwd=place,
            env=child_environment(None),
            capture_output=True,
            text=True,
            check=False,
            timeout=TRIAL_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentFault(f"The rules were not loaded in {TRIAL_SECONDS:g} s.", code="not_wrapped") from None
    if done.returncode:
        raise EnvironmentFault(f"The manifest could not be made: {done.stderr.strip()}", code="not_wrapped")
