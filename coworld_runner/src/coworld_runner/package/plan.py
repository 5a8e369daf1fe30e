"""The plan of one episode: a manifest, a config without tokens, and the players of each seat. Plain values."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from coworld_core.episode.hook_record import HookRecord
from coworld_core.episode.request import JobSpec, LoadedRequest, build_request, with_image
from coworld_core.errors import ManifestError, UsageError
from coworld_core.hints import Hint
from coworld_core.ids import generate_tokens
from coworld_core.images import ImageRef
from coworld_core.issues import Report
from coworld_core.manifest.config_changes import merge_config
from coworld_core.manifest.features import Startup
from coworld_core.manifest.game_config import (
    distinct_names,
    named_players,
    only_variant,
    require_game_config,
    validate_game_config,
    with_tokens,
)
from coworld_core.manifest.game_results import Results, read_results
from coworld_core.manifest.models import GAME_HOSTED, Manifest, RoleRunnable, Runnable
from coworld_core.player_seeds import new_player_secret, player_seed
from coworld_core.ports import EXTRA_PORTS_ENV, ExtraPort, parse_extra_ports
from coworld_core.text.phrases import listed

from ..images.compose import Contexts
from .own_players.own_player import OwnPlayer
from .player_names import HUMAN, PlayerRef, SeatPlayer, player_host, read_players, seat_files
from .resolver import Package

if TYPE_CHECKING:
    from coworld_core.controller import HostedPolicy
    from coworld_core.rules import Branch

    from .player_registry.registered_player import RegisteredPlayer

__all__ = ["CONNECT_TIMEOUT", "EpisodePlan", "Seat", "plan_episode", "plan_for_people"]

CONNECT_TIMEOUT = "player_connect_timeout_seconds"
"""The config field by which games say how long they wait for their players."""
_CONNECT_SECONDS = 1800
"""Seconds a game waits for people to open their page, if its config allows that."""
_WARM_UP = 1200
"""Seconds allowed to a player that declares a startup without saying how long it takes."""
_PERSON = "Person"


@dataclass(frozen=True, kw_only=True)
class Seat:
    """One seat of an episode."""

    runnable: Runnable | None
    """The player; None leaves the seat to a person in a browser."""
    name: str = ""
    """Display name: the game's name for the seat, if it knows names."""
    player_id: str | None = None
    """The bundled player's id, if it is one."""
    player_name: str = ""
    """The player's own name, the same in every seat; empty: `name`."""
    own: OwnPlayer | None = None
    """The file or directory that plays; then `runnable` is the image in which it runs."""
    registered: RegisteredPlayer | None = None
    """The version in the user's registry that plays, if it is one."""
    policy: HostedPolicy | None = None
    """The version of a policy that plays on a platform; then `runnable` stands for it, and its image is the id."""
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

    @property
    def player_version(self) -> str:
        """The version in the registry, as in records: `name:v3`; empty if it is none."""
        return self.registered.version.label if self.registered is not None else ""

    @property
    def follows(self) -> str:
        """The name of whose newest version plays in each episode, as in records: `name:latest`; empty: it is fixed."""
        return self.registered.name if self.registered is not None and self.registered.follows else ""


@dataclass(frozen=True, kw_only=True)
class EpisodePlan:
    """The plan of one episode."""

    manifest: Manifest
    game_config: Mapping[str, Any]
    """The config without tokens."""
    seats: tuple[Seat, ...]
    variant: str
    """Variant id, or certification, or episode-request."""
    config_changes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The changes to the config of that variant, which `game_config` has."""
    source: str = ""
    """Where the manifest was read from."""
    directory: Path | None = None
    """The package's directory on this machine, if it has one."""
    manifest_sha256: str = ""
    unpinned: frozenset[str] = frozenset()
    """Images of a package from elsewhere under names that any other image may have on this machine."""
    episode_tags: Mapping[str, str] = field(default_factory=dict[str, str])
    policy_names: tuple[str, ...] = ()
    """Names passed to games of the first generation in `COGAMES_POLICY_NAMES`."""
    secret_files: Mapping[str, bytes] = field(default_factory=dict[str, bytes], repr=False)
    """Secrets passed to the game as files, by environment variable; the variable's value is the file's URI."""
    tokens: tuple[str, ...] = field(default=(), repr=False)
    """Tokens already passed to the game, by slot; empty: new ones are made."""
    player_secret: str = field(default_factory=new_player_secret, repr=False, compare=False)
    """What the players' seeds are derived from, beside the episode's seed; empty: they follow from that alone. Nothing
    that plays ever gets it; the record has it."""
    branch: Branch | None = None
    """A game that it goes on from, of the same rules, seats and config; only worker processes play such plans."""
    hooks: tuple[HookRecord, ...] = ()
    """What hooks have done to it (`episode.plan_hooks`); hooks themselves leave this alone."""

    @property
    def seed(self) -> int | None:
        """The config's integer `seed`, if it has one."""
        seed = self.game_config.get("seed")
        return seed if isinstance(seed, int) and not isinstance(seed, bool) else None

    def player_seed(self, slot: int) -> int | None:
        """The seed of a seat's player; None if the episode has no seed."""
        return None if self.seed is None else player_seed(self.seed, slot, secret=self.player_secret)

    def for_episode(self, index: int) -> EpisodePlan:
        """Return the plan of the n-th episode, counted from 0: the index is added to an integer seed.

        Each has a secret of its own, unless the seed was given.
        """
        if self.seed is None:
            return self
        return dataclasses.replace(
            self,
            game_config={**self.game_config, "seed": self.seed + index},
            player_secret=self.player_secret and new_player_secret(),
        )

    def tagged(self, labels: Mapping[str, str]) -> EpisodePlan:
        """Return the plan with labels among its tags."""
        return dataclasses.replace(self, episode_tags={**self.episode_tags, **labels}) if labels else self

    def reseated(self, order: Sequence[int]) -> EpisodePlan:
        """Return the plan with the same players in other seats.

        Their secrets go with them, and so do their names, also in a game config that names the players.

        Args:
            order: By seat, the seat in which its player sits now.

        Raises:
            UsageError: Code `bad_order`: some seat would have no player, or a player two seats.
        """
        if sorted(order) != list(range(len(self.seats))):
            raise UsageError(
                f"{list(order)} is no order of {len(self.seats)} seats: each of them must occur in it once.",
                code="bad_order",
            )
        named = [_display_name(self.game_config, slot) == seat.name for slot, seat in enumerate(self.seats)]
        seats = tuple(self.seats[slot] for slot in order)
        config = self.game_config
        if all(named):
            config = named_players(self.manifest, config, [seat.name for seat in seats])
        names = tuple(self.policy_names[slot] for slot in order) if self.policy_names else ()
        return dataclasses.replace(self, seats=seats, game_config=config, policy_names=names)

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

    def command_origin(self, slot: int) -> str:
        """Say in a sentence whose command a seat's player runs with; empty if that is clear from the player."""
        seat = self.seats[slot]
        if seat.runnable is None or seat.own is not None or seat.player_id is not None:
            return ""
        if not seat.runnable.run:
            return "It was started with the image's own command."
        bundled = [entry.id for entry in self.manifest.player if entry.run == seat.runnable.run]
        if bundled:
            return f"That is the command of the package's player {bundled[0]!r}."
        return "That is the command that was given for the image."

    def episode_timeout(self, limit: float) -> float:
        """Seconds the episode may take on a platform: `episode_timeout_minutes`, but no more than its own limit."""
        minutes = self.manifest.episode_timeout_minutes
        return limit if minutes is None else min(limit, minutes * 60.0)

    def warm_up(self) -> float:
        """Seconds that bundled players in its seats declare as their startup, at most; 0 if none does."""
        startups = [startup for slot in range(len(self.seats)) if (startup := self.startup(slot)) is not None]
        return max((startup.timeout_seconds or _WARM_UP for startup in startups), default=0)

    def limit_connecting(self, limit: float) -> EpisodePlan:
        """The plan for a machine on which other episodes wait.

        The game waits at most `limit` seconds for its players, or as long as their startup takes, if its config schema
        has `player_connect_timeout_seconds`.
        """
        limit = max(limit, self.warm_up())
        now = self.game_config.get(CONNECT_TIMEOUT)
        return self if isinstance(now, int | float) and now <= limit else _waiting(self, limit)

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

    def check_config(self) -> Report:
        """Check the config, which is without tokens, against the game's schema."""
        return validate_game_config(self.manifest, self.game_config, slots=len(self.seats))

    def config_with_tokens(self, tokens: Sequence[str]) -> dict[str, Any]:
        """The config with tokens, as the game gets it. Every started game gets its config here, where it is checked.

        Raises:
            ManifestError: It does not satisfy the schema.
        """
        require_game_config(self.manifest, self.game_config, slots=len(self.seats))
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
    config: Mapping[str, Any] | None = None,
) -> EpisodePlan:
    """Plan an episode.

    Each player named in `players` gets a name for its seat, which is also passed to the game if its schema names
    players: the display name of a bundled player, the stem of a file, the short name of an image (`player:2`). In
    several seats the name is numbered: `X`, `X (2)`. Seats left to people are called `Person` instead of by a
    bot's name. If the config cannot take these names, and for players that were not named, the author's names remain.

    Args:
        package: The Coworld.
        variant: Id of a variant, or a pattern that matches only one; None is the certification fixture or, if people
            play, the first variant, because a fixture is too short for people.
        request: An episode request, which contains everything, names included; excludes variant, players and run.
        players: The players, one for all seats or one per seat: the id of a bundled player, a file or directory, an
            image, or `human`; a suffix `@N` means N seats. Or a function or class at the top level of a Python file.
        run: Command for players given as images.
        humans: Seats left to people.
        secret_env: Secrets for every player.
        seed: Sets the config's integer `seed`. Then, as where `config` sets it, the players' seeds follow from it
            alone, so that it repeats the episode; otherwise they are drawn anew for each plan.
        config: Changes to the game config (`coworld_core.manifest.config_changes`): only the fields that differ.

    Raises:
        UsageError: An unknown variant or player, a wrong number of players, a seat that does not exist, a seed for a
            game that takes none, a field that the game's config does not have, or options that exclude each other.
        ManifestError: Code `config_invalid`: the game's schema does not allow the changed config.
    """
    if request is not None and (variant is not None or players or run):
        raise UsageError(
            "An episode request says variant and players itself, so variant, players and run cannot be given too.",
            code="request_excludes_options",
        )
    named = read_players(players, package)
    people = bool(humans) or any(player.kind == HUMAN for player in named)
    if people and package.manifest.game.player_runtime == GAME_HOSTED:
        raise UsageError(
            f"{package.manifest.game.name} runs its players itself, from files: there is no seat for people.",
            code="people_unsupported",
            hint="Name files for the players, or none for those of the package.",
        )
    if people and variant is None:
        variant = package.manifest.variants[0].id
    changes = dict(config or {})
    if request is None:
        plan = _plan_of_players(package, variant, named, run, changes)
    else:
        plan = _plan_of_request(package, request, changes)
    plan = _with_people(plan, humans)
    plan = _with_environment(plan, package.environment, secret_env or {})
    if seed is not None:
        plan = _with_seed(plan, seed)
    if seed is not None or "seed" in changes:
        plan = dataclasses.replace(plan, player_secret="")
    if changes:
        require_game_config(plan.manifest, plan.game_config, slots=len(plan.seats))
    plan = _with_display_names(plan, own=request is None)
    # The author of a request has already put everyone's names into the game's config
    return plan if request is not None else _with_names_in_game(plan, everyone=bool(players))


# --- who plays ------------------------------------------------------------------------------------------------------


def _planned(
    package: Package,
    job: JobSpec,
    seats: Iterable[Seat],
    variant: str,
    changes: Mapping[str, Any],
    policy_names: tuple[str, ...] = (),
) -> EpisodePlan:
    return EpisodePlan(
        manifest=job.manifest,
        game_config=dict(job.game_config),
        seats=tuple(seats),
        variant=variant,
        config_changes=changes,
        source=package.source,
        directory=package.directory,
        manifest_sha256=package.sha256,
        unpinned=package.unpinned,
        episode_tags=dict(job.episode_tags),
        policy_names=policy_names,
    )


def _plan_of_request(package: Package, loaded: LoadedRequest, changes: Mapping[str, Any]) -> EpisodePlan:
    """The plan of an episode request. A program or a name may identify a bundled player."""
    job, game = loaded.request, package.manifest.game
    if changes:
        job = job.model_copy(update={"game_config": merge_config(package.manifest, job.game_config, changes)})
    seats: list[Seat] = []
    for slot, runnable in enumerate(job.players):
        called = {_display_name(job.game_config, slot), *loaded.policy_names[slot : slot + 1]}
        entry = _bundled(package.manifest, runnable, called)
        if entry is None and game.player_runtime == GAME_HOSTED:
            raise UsageError(
                f"Seat {slot} of the episode request names an image, and {game.name} runs its players itself, from "
                "files.",
                code="player_file_unavailable",
                hint=Hint(
                    "play_own_files", "Play it with run_episode, which takes a file or a directory for each seat."
                ),
            )
        seats.append(_bundled_seat(package, entry) if entry is not None else Seat(runnable=runnable))
    return _planned(package, job, seats, "episode-request", changes, loaded.policy_names)


def _bundled(manifest: Manifest, runnable: Runnable, called: Collection[str | None]) -> RoleRunnable | None:
    """Return the bundled player that runs this program; None if neither program nor name identifies one."""
    alike = [entry for entry in manifest.player if entry.as_runnable() == runnable]
    if len(alike) > 1:
        # The name of a player in several seats is numbered
        names = {re.sub(r" \(\d+\)$", "", name) for name in called if name}
        alike = [entry for entry in alike if not names.isdisjoint((entry.id, entry.name))]
    return alike[0] if len(alike) == 1 else None


def _plan_of_players(
    package: Package,
    variant: str | None,
    named: Sequence[PlayerRef],
    run: Sequence[str],
    changes: Mapping[str, Any],
) -> EpisodePlan:
    """The plan of a variant with the named players, or with those of the certification fixture."""
    if run and all(player.kind in ("own", "human", "policy") for player in named):
        instead = f"{listed(dict.fromkeys(map(str, named)))} is not an image" if named else "no image"
        raise UsageError(
            f"A command was given for player images, but {instead}.",
            code="run_without_image",
            hint=Hint("leave_run_out", "The kind of a file determines how it runs: leave run out.")
            if named
            else "Name an image, or leave the command out.",
        )
    variant = only_variant(package.manifest, variant).id if variant is not None else None
    job = build_request(package.manifest, variant, config=changes)
    slots = len(job.players)
    if len(named) not in (0, 1, slots):
        raise UsageError(
            f"expected 1 or {slots} players for {slots} seats, got {len(named)}.",
            code="wrong_image_count",
            hint="Name one for all seats, or one for each; NAME@2 sits in two.",
            context={"players": [str(player) for player in named], "slots": slots},
        )
    players = named or [
        PlayerRef(word=seat.player_id, kind="bundled") for seat in package.manifest.certification.players
    ]
    seats = [_seat(package, players[slot % len(players)], usual, run) for slot, usual in enumerate(job.players)]
    return _planned(package, job, seats, variant or "certification", changes)


def _seat(package: Package, player: PlayerRef, usual: Runnable, run: Sequence[str]) -> Seat:
    """The seat of a player; `usual` is the bundled player that would sit there."""
    if player.kind == HUMAN:
        return Seat(runnable=None)
    if player.kind == "bundled":
        return _bundled_seat(package, next(entry for entry in package.manifest.player if entry.id == player.word))
    if player.policy is not None:
        return Seat(runnable=with_image(usual, player.policy.id), policy=player.policy)
    if player.own is None:
        made = package.contexts
        if isinstance(made, Contexts) and (build := made.build(player.image)) and build == made.build(usual.image):
            # What a template's placeholder stands for is known only here
            usual = usual.model_copy(update={"image": player.image})
        own_run = player.registered.version.run if player.registered is not None else ()
        return Seat(runnable=with_image(usual, player.image, run or own_run), registered=player.registered)
    host = player_host(package)
    runnable, own = seat_files(player.own, with_image(usual, host.image), host)
    return Seat(runnable=runnable, own=own, registered=player.registered, secret_env=own.secret_env)


def _bundled_seat(package: Package, entry: RoleRunnable) -> Seat:
    own = None
    if package.manifest.game.player_runtime == GAME_HOSTED:
        from .own_players.game_run_player import bundled_hosted

        own = bundled_hosted(package, entry)
    return Seat(runnable=entry.as_runnable(), player_id=entry.id, own=own)


def _with_people(plan: EpisodePlan, humans: Collection[int]) -> EpisodePlan:
    last = len(plan.seats) - 1
    for slot in humans:
        if not 0 <= slot <= last:
            raise UsageError(f"There is no seat {slot}: this episode has seats 0 to {last}.", code="unknown_seat")
    seats = (Seat(runnable=None) if slot in humans else seat for slot, seat in enumerate(plan.seats))
    return dataclasses.replace(plan, seats=tuple(seats))


def _with_environment(plan: EpisodePlan, environment: Mapping[str, str], secret_env: Mapping[str, str]) -> EpisodePlan:
    """The plan with variables and secrets for all players; the game has its variables from the package."""
    seats = (
        seat
        if (runnable := seat.runnable) is None
        else dataclasses.replace(
            seat,
            runnable=runnable.model_copy(update={"env": {**runnable.env, **environment}}),
            secret_env={**seat.secret_env, **secret_env},
        )
        for seat in plan.seats
    )
    return dataclasses.replace(plan, seats=tuple(seats))


# --- what the game is told ------------------------------------------------------------------------------------------


def _with_seed(plan: EpisodePlan, seed: int) -> EpisodePlan:
    """The plan with a seed.

    Raises:
        UsageError: The game takes no seed.
    """
    seeded = dataclasses.replace(plan, game_config={**plan.game_config, "seed": seed})
    game = plan.manifest.game
    known = _object(game.config_schema.get("properties"))
    if "seed" in known or "seed" in plan.game_config or seeded.check_config().ok or not plan.check_config().ok:
        return seeded
    alike = next((name for name in known if "seed" in name.casefold()), None)
    settings = [name for name in known if name not in ("tokens", "players")]
    if alike:
        hint = f"Its config has {alike!r}: set it in an episode request."
    else:
        hint = "Leave the seed out."
        hint += f" An episode request can set the fields of its config: {listed(settings)}." if settings else ""
    raise UsageError(f"{game.name} takes no seed: its config has none.", code="seed_unknown", hint=hint)


def plan_for_people(plan: EpisodePlan) -> EpisodePlan:
    """Return the plan with a longer connect timeout for people, and without bots' names for them.

    The game waits half an hour for its players if its config schema has `player_connect_timeout_seconds` and the
    maximum allows it. A person's seat that the config names after a bundled player is called `Person` instead, also
    in the game if its schema names players.
    """
    return _patient(_with_names_in_game(plan))


def _player_names(plan: EpisodePlan) -> list[str]:
    """The players' own names by slot, independent of the seat.

    Bundled players have the manifest's name, files their file name, and images a short name, or the full name where two
    short names collide.
    """
    bundled = {player.id: player.name for player in plan.manifest.player}
    brief = [_brief_name(seat) for seat in plan.seats]
    alike = Counter(name for name, _ in dict.fromkeys(brief))
    return [
        bundled[seat.player_id] if seat.player_id is not None else name if alike[name] == 1 else full
        for seat, (name, full) in zip(plan.seats, brief, strict=True)
    ]


def _brief_name(seat: Seat) -> tuple[str, str]:
    """A player's name, and its longer name for when another player has the same one."""
    if seat.runnable is None:
        return _PERSON, _PERSON
    if seat.policy is not None:
        return seat.policy.label, seat.policy.id
    if seat.registered is not None:
        return seat.registered.name, seat.registered.name
    if seat.own is not None:
        return seat.own.name, f"{seat.own.path.parent.name}/{seat.own.name}"
    return ImageRef.parse(seat.runnable.image).short, seat.runnable.image


def _with_display_names(plan: EpisodePlan, *, own: bool) -> EpisodePlan:
    """The plan with names of seats: the game's, or else their players'.

    Args:
        plan: The plan.
        own: Whether the players' own names are kept, too.
    """
    called = _player_names(plan)
    others = plan.policy_names or distinct_names(called)
    seats = (
        dataclasses.replace(
            seat,
            name=_display_name(plan.game_config, slot) or others[slot],
            player_name=called[slot] if own and seat.runnable is not None else "",
        )
        for slot, seat in enumerate(plan.seats)
    )
    return dataclasses.replace(plan, seats=tuple(seats))


def _with_names_in_game(plan: EpisodePlan, *, everyone: bool = False) -> EpisodePlan:
    """The plan with seats named after their players, also in the game; unchanged if the game refuses that.

    Args:
        plan: The plan.
        everyone: Whether all players give their names to their seats, or only people.
    """
    bots = {None, *(name for player in plan.manifest.player for name in (player.id, player.name))}
    told = [_display_name(plan.game_config, slot) for slot in range(len(plan.seats))]
    wanted = [
        (_PERSON if name in bots else name) if seat.runnable is None else seat.player_name if everyone else name
        for name, seat in zip(told, plan.seats, strict=True)
    ]
    names = distinct_names(name or seat.name for name, seat in zip(wanted, plan.seats, strict=True))
    if names == told or (wanted == told and not everyone):
        return plan
    try:
        named = dataclasses.replace(plan, game_config=named_players(plan.manifest, plan.game_config, names))
    except ManifestError:
        return plan
    if not named.check_config().ok:
        return plan
    seats = (
        # A game whose schema does not mention names may still be passed some
        dataclasses.replace(seat, name=_display_name(named.game_config, slot) or names[slot])
        for slot, seat in enumerate(plan.seats)
    )
    return dataclasses.replace(named, seats=tuple(seats))


def _patient(plan: EpisodePlan) -> EpisodePlan:
    patient = _waiting(plan, _CONNECT_SECONDS)
    now = plan.game_config.get(CONNECT_TIMEOUT)
    if isinstance(now, int | float) and now >= patient.game_config.get(CONNECT_TIMEOUT, 0):
        return plan
    return patient


def _waiting(plan: EpisodePlan, seconds: float) -> EpisodePlan:
    """The plan of a game that waits so long for its players; unchanged if its config schema has no such field."""
    rule = _object(_object(plan.manifest.game.config_schema.get("properties")).get(CONNECT_TIMEOUT))
    if not rule:
        return plan
    least, most = (rule.get(name) for name in ("minimum", "maximum"))
    seconds = min(seconds, most) if isinstance(most, int | float) else seconds
    seconds = max(seconds, least) if isinstance(least, int | float) else seconds
    whole = int(seconds) if seconds == int(seconds) else seconds
    return dataclasses.replace(plan, game_config={**plan.game_config, CONNECT_TIMEOUT: whole})


def _display_name(config: Mapping[str, Any], slot: int) -> str | None:
    players = config.get("players")
    if not isinstance(players, list):
        return None
    entries = cast("list[object]", players)
    name = _object(entries[slot]).get("name") if slot < len(entries) else None
    return name if isinstance(name, str) else None


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
