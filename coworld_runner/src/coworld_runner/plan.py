"""What one episode plays: a manifest, a config without tokens, and who sits where. Values only."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from coworld_core.episode.request import LoadedRequest, build_request
from coworld_core.errors import ManifestError, UsageError
from coworld_core.ids import generate_tokens
from coworld_core.images import ImageRef
from coworld_core.manifest.gameconfig import distinct_names, named_players, validate_game_config, with_tokens
from coworld_core.manifest.models import Manifest, Runnable
from coworld_core.manifest.results import Results, read_results
from coworld_core.ports import EXTRA_PORTS_ENV, ExtraPort, parse_extra_ports

from ._hints import did_you_mean, listed
from .package.resolving import Package

__all__ = ["EpisodePlan", "Seat", "plan_episode", "plan_for_people"]

_CONNECT_TIMEOUT = "player_connect_timeout_seconds"
_PATIENCE = 1800
"""Seconds a game waits for people to open their page, where its config lets us say so."""
_PERSON = "Person"


@dataclass(frozen=True, kw_only=True)
class Seat:
    """One seat of an episode."""

    name: str
    """Display name: what the game calls the seat, where it knows names."""
    runnable: Runnable | None
    """Who sits there; None leaves the seat to a person in a browser."""
    player_id: str | None = None
    """The bundled player's id, if it is one."""
    player_name: str = ""
    """The player's own name, the same in whatever seat; empty: ``name``."""
    secret_env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Secrets for this seat's player alone; never in logs, records or argument lists."""
    secret_files: Mapping[str, bytes] = field(default_factory=dict[str, bytes], repr=False)
    """Secrets that its player is handed as files of its own, by environment variable: the variable is the URI."""


@dataclass(frozen=True, kw_only=True)
class EpisodePlan:
    """What one episode plays."""

    manifest: Manifest
    game_config: Mapping[str, Any]
    """The config without tokens."""
    seats: tuple[Seat, ...]
    variant: str
    """Variant id, or certification, or episode-request."""
    source: str = ""
    """Where the manifest was read from."""
    manifest_sha256: str = ""
    episode_tags: Mapping[str, str] = field(default_factory=dict[str, str])
    policy_names: tuple[str, ...] = ()
    """Names the first generations of games are told in ``COGAMES_POLICY_NAMES``."""
    secret_files: Mapping[str, bytes] = field(default_factory=dict[str, bytes], repr=False)
    """Secrets that the game is handed as files of its own, by environment variable: the variable is the URI."""
    tokens: tuple[str, ...] = field(default=(), repr=False)
    """Tokens that the game has been told already, by slot; empty: new ones are made."""

    @property
    def seed(self) -> int | None:
        """The config's integer ``seed``, if it has one."""
        seed = self.game_config.get("seed")
        return seed if isinstance(seed, int) and not isinstance(seed, bool) else None

    def for_episode(self, index: int) -> EpisodePlan:
        """The plan of the n-th of several episodes, from 0: an integer seed grows by the index, all else stays."""
        if self.seed is None or index == 0:
            return self
        return dataclasses.replace(self, game_config={**self.game_config, "seed": self.seed + index})

    @property
    def images(self) -> tuple[str, ...]:
        """The images of what runs, once each, the game's first."""
        players = (seat.runnable.image for seat in self.seats if seat.runnable is not None)
        return tuple(dict.fromkeys([self.manifest.game.runnable.image, *players]))

    def hint_for(self, image: str, hint: str | None) -> str | None:
        """What to do about an image that is not to be had: its name may be that of a bundled player, misspelt.

        Args:
            image: Its name.
            hint: What there is to do otherwise.
        """
        manifest = self.manifest
        bundled = {player.id: player.image for player in manifest.player}
        if not bundled or image in {manifest.game.runnable.image, *bundled.values()} or any(c in image for c in "/:@"):
            return hint
        if near := did_you_mean(image, bundled):
            return f"Did you mean the player {near!r}?"
        return " ".join(filter(None, [f"The package's own players are {listed(bundled)}.", hint]))

    @cached_property
    def extra_ports(self) -> tuple[ExtraPort, ...]:
        """Further local ports the game asks for.

        Raises:
            UsageError: What it asks for cannot be read.
        """
        text = self.manifest.game.runnable.env.get(EXTRA_PORTS_ENV)
        return parse_extra_ports(text) if text is not None else ()

    def new_tokens(self) -> tuple[str, ...]:
        """One token a seat, new unless the game has been told them already."""
        return self.tokens or generate_tokens(len(self.seats))

    def config_with_tokens(self, tokens: Sequence[str]) -> dict[str, Any]:
        """The config as the game gets it, checked against its schema.

        Raises:
            ManifestError: It does not satisfy the schema.
        """
        report = validate_game_config(self.manifest, self.game_config, slots=len(self.seats))
        if not report.ok:
            raise ManifestError(report, code="config_invalid")
        return with_tokens(self.game_config, tokens)

    def read_results(self, path: Path) -> Results:
        """Read and check a results file of this episode.

        Raises:
            ManifestError: It is not JSON, not finite, breaks the schema, or has not one score a seat.
        """
        return read_results(path, self.manifest.game.results_schema, len(self.seats))


def plan_episode(
    package: Package,
    *,
    variant: str | None = None,
    request: LoadedRequest | None = None,
    players: Sequence[str] = (),
    run: Sequence[str] = (),
    humans: Sequence[int] = (),
    secret_env: Mapping[str, str] | None = None,
    seed: int | None = None,
) -> EpisodePlan:
    """Say what an episode plays.

    Whoever is named in ``players`` sits under a name of its own, by which the game calls it too where its schema gives
    players names: the display name of a bundled player, the short name of an image (``player:2``). In several seats it
    is numbered: ``X``, ``X (2)``. Seats that are left to people are called ``Person`` instead of by a bot's name. Where
    the config cannot take these names, and for players that nobody named, the author's names remain.

    Args:
        package: The Coworld.
        variant: Id of a variant; None is the certification fixture or, where people play, the first variant: a
            fixture is made to be over before anyone has found the keys.
        request: An episode request, which says it all, names too; excludes variant, players and run.
        players: Who plays, one for all seats or one a seat: the id of a bundled player, or an image.
        run: Command for players given as images.
        humans: Seats left to people.
        secret_env: Secrets for every player.
        seed: Puts an integer ``seed`` into the config.

    Raises:
        UsageError: An unknown variant, a wrong number of players, a seat that does not exist, options that exclude
            each other.
        ManifestError: The config does not satisfy the game's schema.
    """
    manifest = package.manifest
    if request is not None and (variant is not None or players or run):
        raise UsageError(
            "An episode request says variant and players itself, so --variant, players and --run cannot be given too.",
            code="request_excludes_options",
        )
    bundled = {player.id: player for player in manifest.player}
    if humans and variant is None and request is None:
        variant = manifest.variants[0].id
    if request is None:
        images = [bundled[name].image if name in bundled else name for name in players]
        asked = build_request(manifest, variant, images=images, run=run)
        policy_names: tuple[str, ...] = ()
        label = variant or "certification"
    else:
        asked, policy_names, label = request.request, request.policy_names, "episode-request"
    runnables = list(asked.players)
    ids: list[str | None] = [None] * len(runnables)
    seated = players or [seat.player_id for seat in manifest.certification.players]
    for slot, runnable in enumerate(runnables):
        if request is not None:
            ids[slot] = next((entry.id for entry in manifest.player if entry.as_runnable() == runnable), None)
        elif (player := bundled.get(seated[slot % len(seated)])) is not None:
            ids[slot] = player.id
            runnables[slot] = player.as_runnable()
    config = dict(asked.game_config)
    if seed is not None:
        config["seed"] = seed
    for slot in humans:
        if not 0 <= slot < len(runnables):
            raise UsageError(
                f"There is no seat {slot}: this episode has seats 0 to {len(runnables) - 1}.", code="unknown_seat"
            )
    own = [_PERSON if slot in humans else name for slot, name in enumerate(_own_names(manifest, ids, runnables))]
    others = policy_names or distinct_names(own)
    seats = tuple(
        Seat(
            name=_display_name(config, slot) or others[slot],
            runnable=None if slot in humans else runnable,
            player_id=None if slot in humans else ids[slot],
            player_name="" if slot in humans or request is not None else own[slot],
            secret_env={} if slot in humans else dict(secret_env or {}),
        )
        for slot, runnable in enumerate(runnables)
    )
    plan = EpisodePlan(
        manifest=asked.manifest,
        game_config=config,
        seats=seats,
        variant=label,
        source=package.source,
        manifest_sha256=package.sha256,
        episode_tags=dict(asked.episode_tags),
        policy_names=policy_names,
    )
    # whoever makes a request has told the game everybody's name already
    return plan if request is not None else _named(plan, own if players else ())


def plan_for_people(plan: EpisodePlan) -> EpisodePlan:
    """The plan with more patience for people, and under names that are not a bot's.

    A game that may wait for its players waits half an hour: where the config schema knows
    ``player_connect_timeout_seconds``, and its maximum allows it. A person whose seat the config has given the name of
    a bundled player is called ``Person`` instead, by the game too if its schema names players.
    """
    return _patient(_named(plan))


def _named(plan: EpisodePlan, players: Sequence[str] = ()) -> EpisodePlan:
    """The plan with seats called after who sits there, by the game too; as it was where the game refuses that.

    Args:
        plan: The plan.
        players: Names of the programs by slot; without any, they keep theirs.
    """
    bots = {None, *(name for player in plan.manifest.player for name in (player.id, player.name))}
    told = [_display_name(plan.game_config, slot) for slot in range(len(plan.seats))]
    wanted = dict(enumerate(players)) | {
        slot: _PERSON if told[slot] in bots else told[slot]
        for slot, seat in enumerate(plan.seats)
        if seat.runnable is None
    }
    names = distinct_names(wanted.get(slot) or told[slot] or seat.name for slot, seat in enumerate(plan.seats))
    if names == told or not (players or any(name != told[slot] for slot, name in wanted.items())):
        return plan
    try:
        config = named_players(plan.manifest, plan.game_config, names)
    except ManifestError:
        return plan
    if not validate_game_config(plan.manifest, config, slots=len(plan.seats)).ok:
        return plan
    seats = tuple(
        # a game whose schema is silent about names may be told some all the same
        dataclasses.replace(seat, name=_display_name(config, slot) or names[slot])
        for slot, seat in enumerate(plan.seats)
    )
    return dataclasses.replace(plan, game_config=config, seats=seats)


def _own_names(manifest: Manifest, ids: Sequence[str | None], runnables: Sequence[Runnable]) -> list[str]:
    """What players are called in whatever seat: as the manifest calls them, or briefly by their images."""
    bundled = {player.id: player.name for player in manifest.player}
    short = {runnable.image: ImageRef.parse(runnable.image).short for runnable in runnables}
    alike = Counter(short.values())
    return [
        bundled[known] if known is not None else short[image] if alike[short[image]] == 1 else image
        for known, image in zip(ids, (runnable.image for runnable in runnables), strict=True)
    ]


def _patient(plan: EpisodePlan) -> EpisodePlan:
    rule = _object(_object(plan.manifest.game.config_schema.get("properties")).get(_CONNECT_TIMEOUT))
    if not rule:
        return plan
    most = rule.get("maximum")
    patience = min(_PATIENCE, most) if isinstance(most, int | float) else _PATIENCE
    now = plan.game_config.get(_CONNECT_TIMEOUT)
    if isinstance(now, int | float) and now >= patience:
        return plan
    return dataclasses.replace(plan, game_config={**plan.game_config, _CONNECT_TIMEOUT: patience})


def _display_name(config: Mapping[str, Any], slot: int) -> str | None:
    players = config.get("players")
    if not isinstance(players, list):
        return None
    entries = cast("list[object]", players)
    name = _object(entries[slot]).get("name") if slot < len(entries) else None
    return name if isinstance(name, str) else None


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
