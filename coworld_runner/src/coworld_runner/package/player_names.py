"""Parses the names of players, wherever a user gives one.

A player is the id of a bundled player, the user's own file or directory, a version in the user's registry
(`name:v3`), an image, `llm:…`, `recording:…`, `random` or `human`, in this order where a word could be two of them;
`./name`, `registry:name:v3` and `docker.io/library/name:v3` can be only one. The suffix `@N` on any of them except a
recording means N seats in a row. On the directory of a training run, `@NAME` is one of its checkpoints.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from coworld_core.errors import ImageError, UsageError
from coworld_core.images import ImageRef
from coworld_core.manifest.models import GAME_HOSTED, Manifest, Runnable
from coworld_core.rules.player_directories import checkpoint_numbered, names_checkpoint
from coworld_core.rules.seat_wire import PROTOCOL
from coworld_core.text.phrases import closest, listed, plural

from .own_players.llm_player import LLM
from .own_players.own_player import OwnPlayer
from .own_players.recorded_player import RECORDING
from .random_player import RANDOM
from .resolver import Package

if TYPE_CHECKING:
    from coworld_core.controller import HostedPolicy

    from ..backend import Backend
    from .player_registry.registered_player import RegisteredPlayer

__all__ = [
    "HUMAN",
    "PlayerRef",
    "SeatPlayer",
    "describe_environment",
    "describe_registered",
    "files_player",
    "is_bare",
    "is_player_path",
    "manifest_host",
    "player_host",
    "read_players",
    "seat_files",
    "uploaded_player",
]

HUMAN = "human"
"""The word that leaves a seat to a person."""

_REPEATED = re.compile(r"(?P<word>.+)@(?P<count>\d{1,4})", re.DOTALL)
_FORMS = "A file is ./NAME, an image has a tag: NAME:latest."


@dataclass(frozen=True, kw_only=True)
class PlayerRef:
    """A player as it was named, and its meaning."""

    word: str
    kind: Literal["bundled", "own", "image", "human", "policy"]
    own: OwnPlayer | None = None
    """The file or directory."""
    registered: RegisteredPlayer | None = None
    """The version in the user's registry, if it is one."""
    policy: HostedPolicy | None = None
    """The version of a policy, if a platform plays."""

    @property
    def image(self) -> str:
        """The image, if it is one."""
        return self.registered.version.source if self.registered is not None else self.word

    def frozen(self) -> PlayerRef:
        """The same without following what is published later: `name:latest` is the version that it is now."""
        if self.registered is None or not self.registered.follows:
            return self
        return _registered(self.word, self.registered.frozen())

    def __str__(self) -> str:
        return self.word


SeatPlayer = str | os.PathLike[str] | PlayerRef | Callable[..., Any]
"""The name of a player; a path; or a function or class at the top level of a Python file, as `load_player` finds it."""


def read_players(names: Sequence[SeatPlayer], package: Package) -> tuple[PlayerRef, ...]:
    """Parse the names of players; nothing is started or fetched.

    A bundled player's id takes precedence over a file of the same name, which can be named as `./NAME`. A bare word
    that is neither is refused: it is unlikely to be an image that the user wants to fetch.

    Args:
        names: The names, paths, functions or classes, in the order of the seats; files are relative to the current
            directory.
        package: The Coworld.

    Returns:
        One player for each named seat, with `@N` expanded.

    Raises:
        UsageError: There is no such player, or the file cannot be run.
    """
    found: dict[str, PlayerRef] = {}
    players: list[PlayerRef] = []
    for word in names:
        if isinstance(word, PlayerRef):
            players.append(word)
            continue
        if isinstance(word, os.PathLike):
            word = str(Path(cast("os.PathLike[str]", word)).absolute())
        elif not isinstance(word, str):
            players.append(_read_function(word, package.manifest))
            continue
        name, count = _counted(word)
        if name not in found:
            found[name] = _read(name, package)
        players += [found[name]] * count
    return tuple(players)


def files_player(
    player: str | os.PathLike[str], package: Package, *, why: str = "only files can be improved"
) -> OwnPlayer:
    """Find a player that is made of files of the user's.

    Args:
        player: Its file or directory.
        package: The Coworld.
        why: Why another player is of no use.

    Raises:
        UsageError: It is no file and no directory (`not_files`), or cannot be run.
    """
    found = read_players([player], package)
    own = found[0].own
    if len(found) != 1 or own is None or own.kind != "file":
        raise UsageError(
            f"{os.fspath(player)!r} is not a file or a directory, and {why}.",
            code="not_files",
            hint="Begin with a file of yours, such as a copy of one of the package's own players.",
            context={"player": os.fspath(player)},
        )
    return own


def uploaded_player(word: str) -> OwnPlayer | None:
    """Read the files that an upload of a player sends to a platform; None: it is an image.

    Args:
        word: A file, a directory, or `registry:NAME:v3`, which is handed on under its name without the number.

    Raises:
        UsageError: There is no such player or version, or it has no files (`version_without_files`).
        EnvironmentFault: A version's files are missing or were changed (`version_damaged`).
    """
    from .own_players.named_player import read_own_player
    from .player_registry.registered_player import REGISTRY, find_registered

    if is_player_path(word):
        return read_own_player(word)
    found = find_registered(word) if word.startswith(REGISTRY) else None
    return dataclasses.replace(found.folder.read(found.version), name=found.version.name) if found is not None else None


def player_host(package: Package) -> Runnable:
    """Return the program whose image runs the user's own files: a player's or the game's, preferably with Python.

    If the build context of any of these images is known, only such images are considered.
    """
    known = _programs(package.manifest)
    return _with_python([runnable for runnable in known if runnable.image in package.contexts] or known)


def manifest_host(manifest: Manifest) -> Runnable:
    """Return the program whose image runs the user's own files, if only the package's manifest is known."""
    return _with_python(_programs(manifest))


def seat_files(own: OwnPlayer, seat: Runnable, host: Runnable) -> tuple[Runnable, OwnPlayer]:
    """Return how the user's own file runs in a seat, with the name of the Python interpreter that its host uses.

    Args:
        own: The file or directory.
        seat: A player of the image that it runs in.
        host: The result of `player_host`.
    """
    python = host.run[0] if host.run and Path(host.run[0]).name.startswith("python") else "python3"
    # The bundled player's variables are dropped, because they were meant for another program
    return seat.model_copy(update={"run": own.shown(), "env": {}}), dataclasses.replace(own, python=python)


def _programs(manifest: Manifest) -> list[Runnable]:
    bundled = [player.as_runnable() for player in manifest.player if player.file is None]
    return [*bundled, manifest.game.runnable]


def _with_python(known: list[Runnable]) -> Runnable:
    return next((one for one in known if one.run and Path(one.run[0]).name.startswith("python")), known[0])


def describe_environment(players: Iterable[OwnPlayer | None], package: Package, backend: Backend) -> tuple[str, ...]:
    """Describe what the user's own files and directories run in, one line each; none on a backend without images."""
    if not backend.capabilities.images:
        return ()
    host = player_host(package).image
    own = {player.reference: player for player in players if player is not None and not player.hosted}
    return tuple(
        f"{player.file} is built into an image of its own, {player.image}."
        if player.dockerfile
        else f"{player.file} runs in {host}, the package's own player image."
        for player in own.values()
        if backend.capabilities.builds or not player.dockerfile
    )


def describe_registered(players: Iterable[RegisteredPlayer | None], *, frozen: bool = False) -> tuple[str, ...]:
    """Say which players are versions of the user's registry, one line each.

    Args:
        players: The players; None: another one.
        frozen: Whether something is measured, so that no player follows what is published later.
    """
    return tuple(dict.fromkeys(player.describe(frozen=frozen) for player in players if player is not None))


def _counted(word: str) -> tuple[str, int]:
    match = _REPEATED.fullmatch(word)
    # In a recording, the part after the @ says whose actions are replayed
    if match is None or word.startswith(RECORDING) or Path(word).exists():
        return word, 1
    count = int(match["count"])
    if count < 1:
        raise UsageError(
            f"{word!r} gives the player no seat.",
            code="bad_count",
            hint=f"Leave it out, or write {match['word']}@2 for two seats.",
        )
    if found := checkpoint_numbered(str(Path(match["word"]).expanduser()), count):
        raise UsageError(
            f"{word!r} could be the checkpoint {found} or {plural(count, 'seat')}.",
            code="ambiguous_player",
            hint=f"Write {'' if found.is_absolute() else './'}{found} for the checkpoint, or "
            f"{match['word']}@latest@{count} for seats of the newest.",
        )
    return match["word"], count


def _read(word: str, package: Package) -> PlayerRef:
    manifest = package.manifest
    if package.policies is not None:
        return _policy(word, manifest, package.policies)
    if any(player.id == word for player in manifest.player):
        return PlayerRef(word=word, kind="bundled")
    from .own_players.named_player import read_own_player
    from .player_registry.registered_player import REGISTRY, find_registered

    if manifest.game.player_runtime == GAME_HOSTED and word != HUMAN:
        if word.startswith(REGISTRY) or not is_player_path(word):
            raise _unknown(word, manifest)
        from .own_players.game_run_player import read_hosted

        return PlayerRef(word=word, kind="own", own=read_hosted(Path(word).expanduser().absolute()))
    if word == HUMAN:
        return PlayerRef(word=word, kind="human")
    if word == RANDOM:
        return PlayerRef(word=word, kind="own", own=_random_player(manifest))
    if (word.startswith(REGISTRY) or not is_player_path(word)) and (found := find_registered(word)) is not None:
        return _registered(word, found)
    if is_player_path(word):
        return PlayerRef(word=word, kind="own", own=read_own_player(word))
    if "=" in word or (is_bare(word) and word not in _images(manifest) and word not in package.contexts):
        raise _unknown(word, manifest)
    return PlayerRef(word=word, kind="image")


def _policy(word: str, manifest: Manifest, policies: Mapping[str, HostedPolicy]) -> PlayerRef:
    if word not in policies:
        raise UsageError(
            f"{word!r} is none of the policies that are to play {manifest.game.name}.",
            code="unknown_player",
            hint=f"They are {listed(policies) or 'none'}. A platform plays policies alone.",
            context={"player": word, "players": list(policies)},
        )
    return PlayerRef(word=word, kind="policy", policy=policies[word])


def _registered(word: str, player: RegisteredPlayer) -> PlayerRef:
    own = player.read()
    return PlayerRef(word=word, kind="image" if own is None else "own", own=own, registered=player)


def _read_function(player: object, manifest: Manifest) -> PlayerRef:
    from .own_players.function_player import read_function

    own = read_function(player)
    if manifest.game.player_runtime == GAME_HOSTED:
        raise UsageError(
            f"{own.file} is Python, and {manifest.game.name} runs its players itself, from files.",
            code="player_file_unavailable",
            hint="Name a file or a directory for each seat.",
        )
    return PlayerRef(word=own.file, kind="own", own=own)


def _random_player(manifest: Manifest) -> OwnPlayer:
    from .own_players.named_player import read_own_player

    protocol = manifest.game.protocols.player
    # A protocol that is only linked may still be ours; if not, the player reports it when it connects
    if protocol.type == "text" and PROTOCOL not in protocol.value:
        raise UsageError(
            f"{RANDOM!r} plays games that speak {PROTOCOL} and say with it what is legal; {manifest.game.name} speaks "
            "a protocol of its own.",
            code="random_unknown",
            hint=f"The package's own players are {listed(player.id for player in manifest.player)}.",
            context={"game": manifest.game.name},
        )
    file = str(Path(__file__).with_name("random_player.py"))
    return dataclasses.replace(read_own_player(file), name=RANDOM, kind="random")


def is_player_path(word: str) -> bool:
    """Return whether a word names a file, a directory, or a source that is read like one, rather than an image."""
    if word.startswith(("./", "../", "/", "~", LLM, RECORDING)) or word in (".", "..") or word.endswith((".py", "/")):
        return True
    try:
        return Path(word).exists() or names_checkpoint(word)
    except (OSError, ValueError):
        return False


def is_bare(word: str) -> bool:
    """Return whether a word is only a name, without registry, path, tag or digest."""
    try:
        reference = ImageRef.parse(word)
    except ImageError:
        # Invalid image references are reported where images are resolved
        return False
    return reference.kind == "local" and "/" not in word and not reference.tag and not reference.digest


def _images(manifest: Manifest) -> set[str]:
    return {manifest.game.runnable.image, *(player.image for player in manifest.player)}


def _unknown(word: str, manifest: Manifest) -> UsageError:
    from .own_players.named_player import near_file
    from .player_registry.registry_folder import RegistryFolder

    bundled = [player.id for player in manifest.player]
    meant = closest(word, bundled)
    registered = None if meant else closest(word, RegistryFolder().names())
    if meant:
        hint = f"Did you mean the player {meant!r}?"
    elif registered:
        hint = f"Did you mean {registered!r} of your registry?"
    else:
        file = near_file(Path(word))
        hint = f"Did you mean ./{file}?" if file else f"The package's own players are {listed(bundled)}. {_FORMS}"
    return UsageError(
        f"There is no player {word!r} in {manifest.game.name}.",
        code="unknown_player",
        hint=hint,
        context={"player": word, "players": bundled},
    )
