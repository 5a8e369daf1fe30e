"""The plan of one episode: a manifest, a config without tokens, and the players of each seat. Plain values."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from coworld_core.episode.request import JobSpec, LoadedRequest, build_request
from coworld_core.errors import ManifestError, UsageError
from coworld_core.hints import Hint
from coworld_core.ids import generate_tokens
from coworld_core.images import ImageRef
from coworld_core.manifest.features import Startup
from coworld_core.manifest.game_config import distinct_names, named_players, validate_game_config, with_tokens
from coworld_core.manifest.game_results import Results, read_results
from coworld_core.manifest.models import GAME_HOSTED, Manifest, Runnable
from coworld_core.player_seeds import player_seed
from coworld_core.ports import EXTRA_PORTS_ENV, ExtraPort, parse_extra_ports
from coworld_core.text.phrases import listed

from .own_players.game_run_player import bundled_hosted
from .own_players.own_player import OwnPlayer
from .player_names import HUMAN, PlayerRef, SeatPlayer, player_host, read_players, seat_files
from .resolver import Package

__all__ = ["CONNECT_TIMEOUT", "EpisodePlan", "Seat", "plan_episode", "plan_for_people"]

CONNECT_TIMEOUT = "player_connect_timeout_seconds"
"""The config field by which games say how long they wait for their players."""
_PATIENCE = 1800
"""Seconds a game waits for people to open their page, if its config allows that."""
_PERSON = "Person"


@dataclass(frozen=True, kw_only=True)
class Seat:
    """One seat of an episode."""

    name: str
    """Display name: the game's name for the seat, if it knows names."""
    runnable: Runnable | None
    """The player; None leaves the seat to a person in a browser."""
    player_id: str | None = None
    """The bundled player's id, if it is one."""
    player_name: str = ""
    """The player's own name, the same in every seat; empty: `name`."""
    own: OwnPlayer | None = None
    """The file or directory that plays; then `runnable` is the image in which it runs."""
    secret_env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Secrets for this seat's player alone; never in logs, records or argument lists."""
    secret_files: Mapping[str, bytes] = field(default_factory=dict[str, bytes], repr=False)
    """Secrets passed to the player as files, by environment variable; the variable's value is the file's URI."""

    @property
    def controller(self) -> str:
        """The kind of controller, as in records."""
        if self.runnable is None:
            return "human"
        if self.player_id is not None:
            return "bundled"
        return self.own.kind if self.own is not None else "image"

    @property
    def has_unit(self) -> bool:
        """Whether the seat has its own program: neither a person nor a file that the game runs itself."""
        return self.runnable is not None and not (self.own is not None and self.own.hosted)

    @property
    def image(self) -> str:
        """The player's image, or its file and digest, as in records; empty for a person."""
        if self.own is not None:
            return self.own.reference
        return self.runnable.image if self.runnable is not None else ""


@dataclass(frozen=True, kw_only=True)
class EpisodePlan:
    """The plan of one episode."""

    manifest: Manifest
    game_config: Mapping[str, Any]
    """The config without tokens."""
    seats: tuple[Seat, ...]
    variant: str
    """Variant id, or certification, or episode-request."""
    source: str = ""
    """Where the manifest was read from."""
    directory: Path | None = None
    """The package's directory on this machine, if it has one."""
    manifest_sha256: str = ""
    episode_tags: Mapping[str, str] = field(default_factory=dict[str, str])
    policy_names: tuple[str, ...] = ()
    """Names passed to games of the first generation in `COGAMES_POLICY_NAMES`."""
    secret_files: Mapping[str, bytes] = field(default_factory=dict[str, bytes], repr=False)
    """Secrets passed to the game as files, by environment variable; the variable's value is the file's URI."""
    tokens: tuple[str, ...] = field(default=(), repr=False)
    """Tokens already passed to the game, by slot; empty: new ones are made."""

    @property
    def seed(self) -> int | None:
        """The config's integer `seed`, if it has one."""
        seed = self.game_config.get("seed")
        return seed if isinstance(seed, int) and not isinstance(seed, bool) else None

    def player_seed(self, slot: int) -> int | None:
        """The seed of a seat's player; None if the episode has no seed."""
        return None if self.seed is None else player_seed(self.seed, slot)

    def for_episode(self, index: int) -> EpisodePlan:
        """Return the plan of the n-th episode, counted from 0: the index is added to an integer seed."""
        if self.seed is None or index == 0:
            return self
        return dataclasses.replace(self, game_config={**self.game_config, "seed": self.seed + index})

    @property
    def images(self) -> tuple[str, ...]:
        """The images of the game and the players, without duplicates, the game's first."""
        players = (seat.runnable.image for seat in self.seats if seat.runnable is not None and seat.has_unit)
        return tuple(dict.fromkeys([self.manifest.game.runnable.image, *players]))

    @property
    def game_hosts(self) -> bool:
        """Whether the game runs its players itself, from files."""
        return self.manifest.game.player_runtime == GAME_HOSTED

    def startup(self, slot: int) -> Startup | None:
        """Return what the bundled player of a seat serves until it is ready to connect; None if it declares nothing."""
        player = self.seats[slot].player_id
        return next((entry.startup for entry in self.manifest.player if entry.id == player), None)

    def timeout_within(self, limit: float) -> float:
        """Seconds the episode may take on a platform: `episode_timeout_minutes`, but no more than its own limit."""
        minutes = self.manifest.episode_timeout_minutes
        return limit if minutes is None else min(limit, minutes * 60.0)

    @cached_property
    def extra_ports(self) -> tuple[ExtraPort, ...]:
        """Additional local ports that the game asks for.

        Raises:
            UsageError: The game's request cannot be parsed.
        """
        text = self.manifest.game.runnable.env.get(EXTRA_PORTS_ENV)
        return parse_extra_ports(text) if text is not None else ()

    def new_tokens(self) -> tuple[str, ...]:
        """One token per seat; new unless the game already has tokens."""
        return self.tokens or generate_tokens(len(self.seats))

    def config_with_tokens(self, tokens: Sequence[str]) -> dict[str, Any]:
        """The config with tokens, as the game gets it, checked against its schema.

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
            ManifestError: It is not JSON, not finite, breaks the schema, or does not have one score per seat.
        """
        return read_results(path, self.manifest.game.results_schema, len(self.seats))


def plan_episode(
    package: Package,
    *,
    variant: str | None = None,
    request: LoadedRequest | None = None,
    players: Sequence[SeatPlayer] = (),
    run: Sequence[str] = (),
    humans: Sequence[int] = (),
    secret_env: Mapping[str, str] | None = None,
    seed: int | None = None,
) -> EpisodePlan:
    """Plan an episode.

    Each player named in `players` gets a name for its seat, which is also passed to the game if its schema names
    players: the display name of a bundled player, the stem of a file, the short name of an image (`player:2`). In
    several seats the name is numbered: `X`, `X (2)`. Seats left to people are called `Person` instead of by a
    bot's name. If the config cannot take these names, and for players that were not named, the author's names remain.

    Args:
        package: The Coworld.
        variant: Id of a variant; None is the certification fixture or, if people play, the first variant, because a
            fixture is too short for people.
        request: An episode request, which contains everything, names included; excludes variant, players and run.
        players: The players, one for all seats or one per seat: the id of a bundled player, a file or directory, an
            image, or `human`; a suffix `@N` means N seats. Or a function or class at the top level of a Python file.
        run: Command for players given as images.
        humans: Seats left to people.
        secret_env: Secrets for every player.
        seed: Sets the config's integer `seed`.

    Raises:
        UsageError: An unknown variant or player, a wrong number of players, a seat that does not exist, a seed for a
            game that takes none, or options that exclude each other.
        ManifestError: The config does not satisfy the game's schema.
    """
    manifest = package.manifest
    if request is not None and (variant is not None or players or run):
        raise UsageError(
            "An episode request says variant and players itself, so variant, players and run cannot be given too.",
            code="request_excludes_options",
        )
    named = read_players(players, package)
    humans = _with_people(humans, named, manifest)
    if humans and manifest.game.player_runtime == GAME_HOSTED:
        raise UsageError(
            f"{manifest.game.name} runs its players itself, from files: there is no seat for people.",
            code="people_unsupported",
            hint="Name files for the players, or none for those of the package.",
        )
    if humans and variant is None and request is None:
        variant = manifest.variants[0].id
    if request is None:
        asked, label = _asked(package, variant, named, run), variant or "certification"
        policy_names: tuple[str, ...] = ()
    else:
        asked, policy_names, label = request.request, request.policy_names, "episode-request"
    called = None
    if request is not None:
        slots = range(len(asked.players))
        called = [{_display_name(asked.game_config, slot), *policy_names[slot : slot + 1]} for slot in slots]
    taken = _seated(package, asked.players, named, called=called)
    runnables = [
        runnable.model_copy(update={"env": {**runnable.env, **package.environment}}) for runnable, _, _ in taken
    ]
    ids = [known for _, known, _ in taken]
    config = dict(asked.game_config)
    if seed is not None:
        config = _with_seed(manifest, config, seed, slots=len(runnables))
    for slot in humans:
        if not 0 <= slot < len(runnables):
            raise UsageError(
                f"There is no seat {slot}: this episode has seats 0 to {len(runnables) - 1}.", code="unknown_seat"
            )
    own = [_PERSON if slot in humans else name for slot, name in enumerate(_own_names(manifest, taken))]
    others = policy_names or distinct_names(own)
    seats = tuple(
        Seat(
            name=_display_name(config, slot) or others[slot],
            runnable=None if slot in humans else runnable,
            player_id=None if slot in humans else ids[slot],
            player_name="" if slot in humans or request is not None else own[slot],
            own=None if slot in humans else taken[slot][2],
            secret_env={} if slot in humans else {**_own_secrets(taken[slot][2]), **(secret_env or {})},
        )
        for slot, runnable in enumerate(runnables)
    )
    plan = EpisodePlan(
        manifest=asked.manifest,
        game_config=config,
        seats=seats,
        variant=label,
        source=package.source,
        directory=package.directory,
        manifest_sha256=package.sha256,
        episode_tags=dict(asked.episode_tags),
        policy_names=policy_names,
    )
    # The author of a request has already put everyone's names into the game's config
    return plan if request is not None else _named(plan, own if players else ())


_Taken = tuple[Runnable, str | None, OwnPlayer | None]
"""The player of a seat: its runnable, its id if it is bundled, and its files if it is the user's own."""


def _own_secrets(player: OwnPlayer | None) -> Mapping[str, str]:
    return {} if player is None else player.secret_env


def _with_people(humans: Sequence[int], named: Sequence[PlayerRef], manifest: Manifest) -> tuple[int, ...]:
    """The seats left to people, including those where `players` says `human`."""
    people = [slot for slot, player in enumerate(named) if player.kind == HUMAN]
    if people and len(named) == 1:
        people = list(range(len(manifest.certification.players)))
    return tuple(dict.fromkeys([*humans, *people]))


def _asked(package: Package, variant: str | None, named: Sequence[PlayerRef], run: Sequence[str]) -> JobSpec:
    """Return the request for the named variant and players."""
    host = player_host(package).image
    bundled = {player.id: player.image if player.file is None else host for player in package.manifest.player}
    if run and named and all(player.kind in ("own", "human") for player in named):
        raise UsageError(
            f"A command was given for player images, but {listed(dict.fromkeys(map(str, named)))} is not an image.",
            code="run_without_image",
            hint=Hint("leave_run_out", "The kind of a file determines how it runs: leave run out."),
        )
    images = [
        bundled.get(player.word, player.word) if player.kind in ("bundled", "image") else host for player in named
    ]
    try:
        return build_request(package.manifest, variant, images=images, run=run)
    except UsageError as error:
        if error.code != "wrong_image_count":
            raise
        seats = error.context["slots"]
        raise UsageError(
            f"expected 1 or {seats} players for {seats} seats, got {len(named)}.",
            code=error.code,
            hint="Name one for all seats, or one for each; NAME@2 sits in two.",
            context={"players": [str(player) for player in named], "slots": seats},
        ) from None


def _seated(
    package: Package,
    asked: Sequence[Runnable],
    named: Sequence[PlayerRef],
    *,
    called: Sequence[Collection[str | None]] | None,
) -> list[_Taken]:
    """The player of each seat; `called` has the seats' names in an episode request, if there is one."""
    manifest = package.manifest
    bundled = {player.id: player for player in manifest.player}
    hosts = manifest.game.player_runtime == GAME_HOSTED
    if called is not None:
        ids = [_bundled_id(manifest, runnable, names) for runnable, names in zip(asked, called, strict=True)]
        if hosts and None in ids:
            raise UsageError(
                f"Seat {ids.index(None)} of the episode request names an image, and {manifest.game.name} runs its "
                "players itself, from files.",
                code="player_file_unavailable",
                hint=Hint(
                    "play_own_files", "Play it with run_episode, which takes a file or a directory for each seat."
                ),
            )
        own = [bundled_hosted(package, bundled[known]) if hosts and known is not None else None for known in ids]
        return list(zip(asked, ids, own, strict=True))
    host = player_host(package)
    seats = named or [PlayerRef(word=seat.player_id, kind="bundled") for seat in manifest.certification.players]
    taken: list[_Taken] = []
    for slot, runnable in enumerate(asked):
        player = seats[slot % len(seats)]
        if player.kind == "bundled":
            own = bundled_hosted(package, bundled[player.word]) if hosts else None
            taken.append((bundled[player.word].as_runnable(), player.word, own))
        elif player.own is not None:
            there, own = seat_files(player.own, runnable, host)
            taken.append((there, None, own))
        else:
            taken.append((runnable, None, None))
    return taken


def _with_seed(manifest: Manifest, config: Mapping[str, Any], seed: int, *, slots: int) -> dict[str, Any]:
    """The config with a seed.

    Raises:
        UsageError: The game takes no seed.
    """
    seeded = {**config, "seed": seed}
    known = _object(manifest.game.config_schema.get("properties"))
    if (
        "seed" in known
        or "seed" in config
        or validate_game_config(manifest, seeded, slots=slots).ok
        or not validate_game_config(manifest, config, slots=slots).ok
    ):
        return seeded
    alike = next((name for name in known if "seed" in name.casefold()), None)
    settings = [name for name in known if name not in ("tokens", "players")]
    if alike:
        hint = f"Its config has {alike!r}: set it in an episode request."
    else:
        hint = "Leave the seed out."
        hint += f" An episode request can set the fields of its config: {listed(settings)}." if settings else ""
    raise UsageError(f"{manifest.game.name} takes no seed: its config has none.", code="seed_unknown", hint=hint)


def plan_for_people(plan: EpisodePlan) -> EpisodePlan:
    """Return the plan with a longer connect timeout for people, and without bots' names for them.

    The game waits half an hour for its players if its config schema has `player_connect_timeout_seconds` and the
    maximum allows it. A person's seat that the config names after a bundled player is called `Person` instead, also
    in the game if its schema names players.
    """
    return _patient(_named(plan))


def _named(plan: EpisodePlan, players: Sequence[str] = ()) -> EpisodePlan:
    """The plan with seats named after their players, also in the game; unchanged if the game refuses that.

    Args:
        plan: The plan.
        players: Names of the programs by slot; without any, the seats keep theirs.
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
        # A game whose schema does not mention names may still be passed some
        dataclasses.replace(seat, name=_display_name(config, slot) or names[slot])
        for slot, seat in enumerate(plan.seats)
    )
    return dataclasses.replace(plan, game_config=config, seats=seats)


def _own_names(manifest: Manifest, taken: Sequence[_Taken]) -> list[str]:
    """The players' own names, independent of the seat.

    Bundled players have the manifest's name, files their file name, and images a short name, or the full name where two
    short names collide.
    """
    bundled = {player.id: player.name for player in manifest.player}
    brief = [_brief(runnable, own) for runnable, _, own in taken]
    alike = Counter(name for name, _ in dict.fromkeys(brief))
    return [
        bundled[known] if known is not None else name if alike[name] == 1 else full
        for (_, known, _), (name, full) in zip(taken, brief, strict=True)
    ]


def _brief(runnable: Runnable, own: OwnPlayer | None) -> tuple[str, str]:
    """A player's name, and its longer name for when another player has the same one."""
    if own is not None:
        return own.name, f"{own.path.parent.name}/{own.name}"
    return ImageRef.parse(runnable.image).short, runnable.image


def _bundled_id(manifest: Manifest, runnable: Runnable, called: Collection[str | None]) -> str | None:
    """Return the id of the bundled player that runs this program; None if neither program nor name identifies one."""
    alike = [entry for entry in manifest.player if entry.as_runnable() == runnable]
    if len(alike) > 1:
        # The name of a player in several seats is numbered
        names = {re.sub(r" \(\d+\)$", "", name) for name in called if name}
        alike = [entry for entry in alike if not names.isdisjoint((entry.id, entry.name))]
    return alike[0].id if len(alike) == 1 else None


def _patient(plan: EpisodePlan) -> EpisodePlan:
    rule = _object(_object(plan.manifest.game.config_schema.get("properties")).get(CONNECT_TIMEOUT))
    if not rule:
        return plan
    most = rule.get("maximum")
    time_limit = min(_PATIENCE, most) if isinstance(most, int | float) else _PATIENCE
    now = plan.game_config.get(CONNECT_TIMEOUT)
    if isinstance(now, int | float) and now >= time_limit:
        return plan
    return dataclasses.replace(plan, game_config={**plan.game_config, CONNECT_TIMEOUT: time_limit})


def _display_name(config: Mapping[str, Any], slot: int) -> str | None:
    players = config.get("players")
    if not isinstance(players, list):
        return None
    entries = cast("list[object]", players)
    name = _object(entries[slot]).get("name") if slot < len(entries) else None
    return name if isinstance(name, str) else None


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
