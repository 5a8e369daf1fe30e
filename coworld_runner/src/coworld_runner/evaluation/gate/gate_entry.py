"""Begins gates: finds the accepted version and the opponents, keeps their files, and settles the seed."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from coworld_core.documents.canonical_json import json_digest
from coworld_core.errors import CoworldError, UsageError
from coworld_core.evaluation.gate_decision import again_note
from coworld_core.evaluation.gate_history import GatedPlayer, GateHistory, GateRecord
from coworld_core.evaluation.scrimmage import PLAYER
from coworld_core.hints import Hint
from coworld_core.secret_seeds import fresh_seed
from coworld_core.text.phrases import listed

from ...package.locations import expand
from ...package.own_players.named_player import no_such_player
from ...package.own_players.own_player import OwnPlayer
from ...package.player_names import PlayerRef, files_player, is_player_path, read_players
from ...package.player_registry.registered_player import REGISTRY, find_registered
from ...package.resolver import Package
from ..entrants import Entrants
from ..evaluation_rules import EvaluationRules
from .gate_folder import GateFolder

__all__ = ["Gate", "GateOpponent", "accept_player", "begin_gate", "find_gate_folder", "read_opponents"]

_EARLIER = 3
"""Versions before the accepted one that are opponents, too."""


@dataclass(frozen=True, kw_only=True)
class GateOpponent:
    """An opponent of a bot, and what plays it."""

    player: GatedPlayer
    word: str
    """As `read_players` reads it; its files are those that were kept."""
    role: Literal["opponent", "earlier"] = "opponent"
    """Whether it is a version of the bot that was accepted earlier."""


@dataclass(frozen=True, kw_only=True)
class Gate:
    """A gate that has begun: its players are kept, and its seed is settled."""

    folder: GateFolder
    package: Package
    record: GateRecord
    """The line of the history with which it began, or that of the same measurement, which goes on."""
    bot: Path
    """The kept version."""
    accepted: Path | None
    """The kept accepted version; None: there is none."""
    opponents: tuple[GateOpponent, ...]
    """The standing ones, then versions of the bot that were accepted earlier."""
    rules: EvaluationRules
    margin: float | None
    left_out: tuple[str, ...] = ()
    """Bots and versions that cannot play, and why, in a sentence each."""

    @property
    def unchanged(self) -> bool:
        """Whether the version is the accepted one, so that there is nothing to decide."""
        return self.record.accepted == self.record.bot

    @property
    def directory(self) -> Path:
        """Where it is measured."""
        return self.folder.gate(self.record.gate)

    @property
    def plan(self) -> str:
        """Whom the version meets, as a sentence."""
        record = self.record
        first = f"the accepted version {record.accepted}" if record.accepted is not None else "itself"
        then = [*map(str, record.opponents), *(f"{version} (earlier)" for version in record.earlier)]
        return f"{record.bot} meets {first}{f'; if it passes, {listed(then, limit=10)}' if then else ''}."

    def players(self) -> tuple[str, ...]:
        """Everybody that plays."""
        accepted = (str(self.accepted),) if self.accepted is not None else ()
        return (str(self.bot), *accepted, *(one.word for one in self.opponents))


def find_gate_folder(bot: str | os.PathLike[str]) -> GateFolder:
    """The folder of a bot's file or directory.

    Raises:
        UsageError: There is no such bot (`player_not_found`); or it is a version in a registry, which has no folder
            (`not_in_folder`), or the registry has the name without that version.
    """
    word = os.fspath(bot)
    if word.startswith(REGISTRY) or (not is_player_path(word) and find_registered(word) is not None):
        raise UsageError(
            f"{word} is not in a folder of bots.",
            code="not_in_folder",
            hint=Hint("copy_version", "Copy its files to such a folder, and gate that: LocalRegistry.fetch."),
        )
    path = expand(word)
    if not path.exists():
        raise no_such_player(word, path)
    return GateFolder(path.parent)


def begin_gate(
    package: Package,
    bot: str | os.PathLike[str],
    *,
    opponents: Sequence[str] | None = None,
    rules: EvaluationRules | None = None,
    margin: float | None = None,
    seed: int | None = None,
) -> Gate:
    """Begin a gate, or go on with the same one: the same files against the same accepted version and opponents.

    Args:
        package: The Coworld.
        bot: The bot's file or directory; the folder that it is in has the history.
        opponents: The opponents, as `read_players` reads them; None: the other bots of the folder. A bot of the folder
            plays its accepted version, if it has one. The three versions of the bot that were accepted last before the
            present one are opponents, too.
        rules: What to play and what counts; its seed is not used.
        margin: The largest difference of mean scores that is negligible: a version that is as good as the accepted one
            passes, too.
        seed: The base seed; None: a fresh one, or the one of the same gate.

    Raises:
        UsageError: There is no such player, the folder has bots of another game (`another_game`), or the files of the
            accepted version are gone (`version_missing`).
        RecordError: The history cannot be read.
        WorkspaceError: The folder cannot be written to.
    """
    rules = rules or EvaluationRules()
    own = files_player(bot, package, why="only files have versions")
    folder = find_gate_folder(bot)
    history = folder.history()
    _refuse_other_game(folder, history, package)
    last = history.accepted_of(own.path.name)
    found, left_out = read_opponents(folder, history, package, own, opponents)
    if last is not None and Entrants(package, {PLAYER: str(own.path)}, rules).seats == 1:
        # There is no seat for anyone else
        found, earlier = [], []
    else:
        earlier, gone = _earlier(folder, history, own, {one.player.identity for one, _ in found})
        left_out += gone
    record = _record(folder, package, own, rules, margin).model_copy(
        update={
            "accepted": last.bot if last is not None else None,
            "opponents": tuple(one.player for one, _ in found),
            "earlier": tuple(one.player for one in earlier),
        }
    )
    accepted = _accepted(folder, last)
    kept = [one for one, _ in found]

    def begin(history: GateHistory) -> GateRecord | None:
        nonlocal record, kept
        folder.versions.keep(own)
        kept = [
            replace(one, word=str(folder.versions.keep(files))) if files is not None else one for one, files in found
        ]
        same = [gate for gate in history.of_bot(own.path.name) if gate.same_measurement(record)]
        same = [gate for gate in same if seed is None or gate.seed == seed]
        record = record.model_copy(update={"seed": fresh_seed() if seed is None else seed})
        if same:
            record = same[-1]
            return None
        return record if record.accepted != record.bot else None

    folder.enter(begin)
    return Gate(
        folder=folder,
        package=package,
        record=record,
        bot=folder.version(record.bot),
        accepted=accepted,
        opponents=(*kept, *earlier),
        rules=replace(rules, seed=record.seed, seed_secret=None),
        margin=margin,
        left_out=left_out,
    )


def accept_player(
    package: Package,
    bot: str | os.PathLike[str],
    *,
    rules: EvaluationRules | None = None,
    reason: str = "forced",
    message: str = "It was accepted without being measured.",
) -> GateRecord:
    """Accept a version of a bot as it is, because a person knows better; nothing is played.

    Raises:
        UsageError: There is no such player, or the folder has bots of another game.
        WorkspaceError: The folder cannot be written to.
    """
    own = files_player(bot, package, why="only files have versions")
    folder = find_gate_folder(bot)
    begun = _record(folder, package, own, rules or EvaluationRules(), None)

    def accept(history: GateHistory) -> GateRecord:
        _refuse_other_game(folder, history, package)
        folder.versions.keep(own)
        last = history.accepted_of(own.path.name)
        again = again_note(history, begun.bot) if last is not None and last.bot != begun.bot else ""
        return begun.model_copy(
            update={
                "status": "accepted",
                "reason": reason,
                "message": " ".join(filter(None, (message, again))),
                "accepted": last.bot if last is not None else None,
            }
        )

    record = folder.enter(accept)
    assert record is not None
    return record


def _record(
    folder: GateFolder, package: Package, own: OwnPlayer, rules: EvaluationRules, margin: float | None
) -> GateRecord:
    """The line with which a gate begins, without those that it plays against, and without its seed."""
    terms = {
        "manifest": package.sha256,
        "variant": rules.variant,
        "metric": rules.metric,
        "forfeit": rules.forfeit,
        "count_starved": rules.count_starved,
        "margin": margin,
    }
    return GateRecord(
        gate=folder.new_gate(own.path.name),
        time=dt.datetime.now(dt.UTC),
        status="begun",
        bot=GatedPlayer(name=own.path.name, digest=own.digest),
        coworld=package.manifest.game.name,
        version=package.manifest.game.version or "",
        variant=rules.variant or "",
        terms=json_digest(terms)[:16],
    )


def _refuse_other_game(folder: GateFolder, history: GateHistory, package: Package) -> None:
    name = package.manifest.game.name
    others = {gate.coworld for gate in history.gates} - {name}
    if others:
        raise UsageError(
            f"{folder.directory} has bots of {', '.join(sorted(others))}, and this is {name}.",
            code="another_game",
            hint="Keep the bots of each game in a folder of their own.",
        )


def _accepted(folder: GateFolder, last: GateRecord | None) -> Path | None:
    if last is None:
        return None
    path = folder.version(last.bot)
    if not path.exists():
        raise UsageError(
            f"The accepted version {last.bot} is gone from {path.parent}.",
            code="version_missing",
            hint=Hint("accept_version", "Put its files back, or accept another version as it is."),
            context={"path": str(path)},
        )
    return path


def read_opponents(
    folder: GateFolder, history: GateHistory, package: Package, own: OwnPlayer, named: Sequence[str] | None
) -> tuple[list[tuple[GateOpponent, OwnPlayer | None]], tuple[str, ...]]:
    """The opponents, each with files that are still to be kept, and why others are left out."""
    if named is not None:
        players = {player.word: player for player in read_players(named, package) if player.kind != "human"}
        return [_opponent(folder, history, player) for player in players.values()], ()
    last = history.accepted_of(own.path.name)
    known = {own.digest, last.bot.digest if last is not None else ""}
    found: list[tuple[GateOpponent, OwnPlayer | None]] = []
    left_out: list[str] = []
    for path in folder.others(own, history):
        try:
            kept = _kept(folder, history, path)
            opponent = (
                (kept, None) if kept is not None else _opponent(folder, history, read_players([str(path)], package)[0])
            )
        except CoworldError as error:
            left_out.append(f"{path.name} is left out: {error.message}")
            continue
        # A copy of the version itself, or of another opponent, tells nothing new
        if opponent[0].player.digest not in known:
            known.add(opponent[0].player.digest)
            found.append(opponent)
    return found, tuple(left_out)


def _earlier(
    folder: GateFolder, history: GateHistory, own: OwnPlayer, known: set[str]
) -> tuple[list[GateOpponent], tuple[str, ...]]:
    """The versions before the accepted one, the last one first, and why others are left out."""
    before = history.versions_of(own.path.name)[1 : 1 + _EARLIER]
    met = [
        GateOpponent(player=version, word=str(folder.version(version)), role="earlier")
        for version in before
        if version.digest not in known | {own.digest}
    ]
    gone = [one.player for one in met if not Path(one.word).exists()]
    left_out = tuple(f"{version} is left out: its files are gone from {folder.versions.place}." for version in gone)
    return [one for one in met if one.player not in gone], left_out


def _kept(folder: GateFolder, history: GateHistory, path: Path) -> GateOpponent | None:
    """The accepted version of a bot of the folder, whatever its file has now; None if there is none."""
    last = history.accepted_of(path.name) if path.parent == folder.directory else None
    if last is None or not (kept := folder.version(last.bot)).exists():
        return None
    return GateOpponent(player=last.bot, word=str(kept))


def _opponent(folder: GateFolder, history: GateHistory, player: PlayerRef) -> tuple[GateOpponent, OwnPlayer | None]:
    own = player.own
    if own is None or own.kind != "file":
        return GateOpponent(player=GatedPlayer(name=player.word), word=player.word), None
    if (kept := _kept(folder, history, own.path)) is not None:
        return kept, None
    return GateOpponent(player=GatedPlayer(name=own.path.name, digest=own.digest), word=str(own.path)), own
