"""Creates tournaments, and adds and withdraws their players."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import ConvertError
from tomlkit.items import Item

from coworld_core.documents.settings_file import described_game, found_game, parse_settings
from coworld_core.errors import UsageError
from coworld_core.hints import Hint
from coworld_core.manifest.game_config import only_variant
from coworld_core.text.phrases import closest, listed
from coworld_core.tournament.pairings import Commissioned
from coworld_core.tournament.standings import Tournament

from ...package.player_names import read_players
from ...package.resolver import Package, resolve_package
from ...runs.workspace import atomic_write, unwritable
from ..commissioner.commissioner_lookup import find_commissioner
from ..entrants import Entrants
from ..evaluation_rules import EvaluationRules, rating_for
from ..settings_words import described_player
from .pairing_plugins import find_pairing
from .tournament_folder import TournamentFolder
from .tournament_settings import (
    SETTINGS_NAME,
    TournamentSettings,
    change_entrants,
    read_secret,
    read_settings,
    write_secret,
)

__all__ = ["add_entrant", "create_tournament", "game_of", "rules_of", "withdraw_entrant"]


async def create_tournament(
    directory: str | os.PathLike[str],
    game: str,
    *,
    variant: str | None = None,
    config: Mapping[str, Any] | None = None,
    pairing: str = "",
    rounds: int | None = None,
    blocks: int = 1,
    seed: int | None = None,
    count_starved: bool = False,
    commissioner: str = "",
) -> Path:
    """Write the `tournament.toml` of a new tournament, for a person to edit.

    Args:
        directory: The tournament's directory, which is created.
        game: The Coworld: anything that `resolve_package` accepts.
        variant: Id of a variant, or a pattern that matches only one; None: the certification fixture.
        config: Changes to the game config, as for `plan_episode`.
        pairing: The pairing; empty: a round robin, or `commissioner` if one is named.
        rounds: Number of rounds; None: as many as the pairing needs.
        blocks: Blocks per match.
        seed: The base seed, from which everybody can compute the seeds in advance; None: they are drawn from a new
            secret, the file `seed.secret` in the directory.
        count_starved: Whether to count episodes in which the machine was short of processors.
        commissioner: The commissioner that decides the rounds (`find_commissioner`).

    Returns:
        The path of the file.

    Raises:
        UsageError: The directory has a tournament already, or there is no such game, variant, pairing or commissioner.
    """
    place = Path(directory)
    path = place / SETTINGS_NAME
    _refuse_existing(place)
    pairing = pairing or ("commissioner" if commissioner else "round-robin")
    rule = find_pairing(pairing)
    package = await resolve_package(game)
    if isinstance(rule, Commissioned):
        find_commissioner(package, commissioner)
    elif commissioner:
        raise UsageError(
            f"The pairing {pairing} has no commissioner.",
            code="bad_pairing",
            hint="With a commissioner, the pairing is commissioner.",
        )
    variant = only_variant(package.manifest, variant).id if variant is not None else None
    entrants = Entrants(package, {}, EvaluationRules(variant=variant, config=config or {}))
    document = tomlkit.document()
    document["game"] = described_game(place, game)
    if variant is not None:
        document["variant"] = variant
    if seed is not None:
        document["seed"] = seed
    document["count_starved"] = count_starved
    document["rating"] = rating_for(entrants.seats)
    of: dict[str, object] = {"kind": pairing, "blocks": blocks, "rounds": rounds, "commissioner": commissioner or None}
    document["pairing"] = {key: value for key, value in of.items() if value is not None}
    document["stop"] = {"max_blocks": 1000, "told_apart": False}
    if config:
        document["config"] = _as_toml(config)
    document["entrants"] = {}
    text = tomlkit.dumps(document)
    parse_settings(TournamentSettings, text, path)
    _write(path, text, secret=seed is None and entrants.seeded)
    return path


def _as_toml(config: Mapping[str, Any]) -> Item:
    try:
        return tomlkit.item(dict(config))
    except ConvertError:
        raise UsageError(
            f"{SETTINGS_NAME} cannot hold null, which the game config is to have.",
            code="settings_invalid",
            hint="Leave that field out, or declare a variant that has it.",
        ) from None


def _refuse_existing(directory: Path) -> None:
    if (directory / SETTINGS_NAME).exists():
        raise UsageError(
            f"{directory} has a tournament already.",
            code="tournament_exists",
            hint="Name another directory, or edit it.",
        )


def _write(path: Path, text: str, *, secret: bool) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if secret:
            write_secret(path.parent)
    except OSError as error:
        raise unwritable(path.parent, error) from error
    atomic_write(path, text.encode())


async def game_of(settings: TournamentSettings, directory: Path) -> Package:
    """Return the game of a tournament."""
    return await resolve_package(found_game(directory, settings.game))


def rules_of(settings: TournamentSettings, directory: Path) -> EvaluationRules:
    """Return what the episodes of a tournament play and what counts.

    Raises:
        UsageError: The file with its secret is invalid.
    """
    return EvaluationRules(
        variant=settings.variant,
        config=settings.config,
        seed=settings.seed or 0,
        seed_secret=read_secret(directory) if settings.seed is None else None,
        max_blocks=settings.stop.max_blocks,
        metric=settings.metric,
        forfeit=settings.forfeit,
        count_starved=settings.count_starved,
    )


async def add_entrant(directory: str | os.PathLike[str], player: str, *, name: str = "") -> tuple[str, Tournament]:
    """Add a player; the current content of its file is what plays from now on.

    Args:
        directory: The tournament's directory.
        player: The player, as `read_players` reads it: an id, a file, a directory, an image.
        name: Its name in the tournament; by default the player's own.

    Returns:
        Its name, and the tournament.

    Raises:
        UsageError: No such player, or the name is taken by another one.
        WorkspaceError: Another process is writing to the directory.
    """
    place = Path(directory)
    settings = read_settings(place)
    package = await game_of(settings, place)
    found = read_players([player], package)
    if len(found) != 1 or found[0].kind == "human":
        raise UsageError(f"{player!r} is not one program, so it cannot enter.", code="not_one_player")
    own = found[0].own
    called = name or (own.name if own is not None else player.rpartition("/")[2])
    word = described_player(place, found[0])
    if settings.entrants.get(called, word) != word:
        raise UsageError(
            f"{called} is {settings.entrants[called]} in this tournament.",
            code="name_taken",
            hint=Hint("other_name", "Give this one another name."),
        )
    wanted = settings.model_copy(update={"entrants": {**settings.entrants, called: word}})
    return called, _change(place, wanted, package, add=(called, word))


async def withdraw_entrant(directory: str | os.PathLike[str], name: str) -> Tournament:
    """Withdraw a player. Its played blocks stay; its outstanding blocks become void.

    Args:
        directory: The tournament's directory.
        name: The player's name in the tournament.

    Raises:
        UsageError: The player is not in the tournament.
        WorkspaceError: Another process is writing to the directory.
    """
    place = Path(directory)
    settings = read_settings(place)
    if name not in settings.entrants:
        close = closest(name, settings.entrants)
        raise UsageError(
            f"{name!r} is not in this tournament.",
            code="unknown_entrant",
            hint=f"Did you mean {close!r}?" if close else f"There is {listed(settings.entrants) or 'nobody yet'}.",
        )
    left = {other: word for other, word in settings.entrants.items() if other != name}
    package = await game_of(settings, place)
    return _change(place, settings.model_copy(update={"entrants": left}), package, remove=name)


def _change(
    directory: Path,
    wanted: TournamentSettings,
    package: Package,
    *,
    add: tuple[str, str] | None = None,
    remove: str = "",
) -> Tournament:
    """Change the settings, then the log; if killed between the two, the next command continues from the settings."""
    with TournamentFolder(directory) as folder:
        entrants = folder.entrants(wanted, package, rules_of(wanted, directory))
        folder.refuse(wanted, entrants)
        change_entrants(directory, add=add, remove=remove)
        return folder.update(wanted, entrants)
