"""The log of a tournament on disk: any process may read it at any time, and one process at a time writes it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

from coworld_core.documents.settings_file import found_from
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.record import EpisodeRow
from coworld_core.errors import EnvironmentFault, UsageError, WorkspaceError
from coworld_core.evaluation.evaluation_files import MARKDOWN_NAME, REPORT_NAME, measure_row, refuse_changed
from coworld_core.evaluation.report_contents import ShownReport
from coworld_core.files.locks import is_free
from coworld_core.manifest.game_config import only_variant
from coworld_core.text.phrases import listed
from coworld_core.tournament.standings import Tournament, TournamentReport
from coworld_core.tournament.tournament_log import (
    LOG_NAME,
    BlockVoided,
    Configured,
    EntrantAdded,
    EntrantWithdrawn,
    EpisodeEnded,
    LogEvent,
    LogReader,
    TournamentRules,
    encode_event,
    read_log,
)

from ...episode.episode_rows import Rows
from ...package.resolver import Package
from ...runs._append_log import AppendedFile
from ..entrants import Entrants
from ..evaluation_rules import EvaluationRules
from ..evaluation_run import PlayedEvaluation, write_report
from .pairing_plugins import find_pairing
from .tournament_settings import SEEDS_NAME, SETTINGS_NAME, TournamentSettings, read_secret, write_secret

__all__ = ["EPISODES", "TournamentFolder", "TournamentRows", "entrants_of", "read_tournament"]

EPISODES = "episodes"
"""Name of the directory of the episodes' evidence."""
_CHANGEABLE = {"pairing", "rounds", "blocks", "max_blocks", "told_apart", "rating", "lowest", "highest"}
"""Rules that may change during a tournament, as they do not affect episodes already played. Logs of older versions do
not have the lowest and the highest score."""


def read_tournament(directory: str | os.PathLike[str], *, rating: str = "") -> PlayedEvaluation:
    """Read a tournament's report so far and its episodes; another process may be writing the log.

    If nobody is, and its `report.json` or `report.md` was deleted, both are written again.

    Args:
        directory: The tournament's directory.
        rating: A rating to use instead of the tournament's own.

    Raises:
        UsageError: There is no tournament, its log is empty, or its log was changed.
    """
    place = Path(directory)
    episodes = 0

    def noted() -> Iterator[LogEvent]:
        nonlocal episodes
        for event in read_log(place / LOG_NAME):
            episodes += isinstance(event, EpisodeEnded)
            yield event

    def rows() -> Iterator[EpisodeRow]:
        for event in read_log(place / LOG_NAME):
            if isinstance(event, EpisodeEnded):
                yield (
                    event.row.model_copy(update={"workspace": f"{EPISODES}/{event.row.workspace}"})
                    if event.row.workspace
                    else event.row
                )

    tournament = replay(noted())
    if tournament is None:
        raise UsageError(f"The log of {place} has nothing in it yet.", code="no_tournament", hint="Add players first.")
    if rating:
        tournament.apply(Configured(rules=tournament.rules.model_copy(update={"rating": rating})))
    report: ShownReport = tournament.report()
    deleted = not all((place / name).exists() for name in (REPORT_NAME, MARKDOWN_NAME))
    if deleted and episodes and not rating and is_free(place / LOG_NAME):
        # The directory may be somebody else's, or on a medium that cannot be written to
        with suppress(EnvironmentFault, WorkspaceError):
            write_report(place, report)
    return PlayedEvaluation(workspace=place, report=report, episodes=episodes, reread=rows)


def replay(events: Iterable[LogEvent]) -> Tournament | None:
    """Rebuild a tournament from the events of its log; None for an empty log."""
    tournament: Tournament | None = None
    for event in events:
        if tournament is None:
            if not isinstance(event, Configured):
                raise UsageError("The log does not begin with the rules.", code="log_changed")
            tournament = Tournament(event.rules, None)
        tournament.apply(event)
    if tournament is not None:
        tournament.pairing = find_pairing(tournament.rules.pairing)
    return tournament


def entrants_of(settings: TournamentSettings, directory: Path, package: Package, rules: EvaluationRules) -> Entrants:
    """Return the players of a tournament, as found on this machine."""
    players = {name: found_from(directory, word) for name, word in settings.entrants.items()}
    # All of a tournament's matches are of one variant
    variant = only_variant(package.manifest, rules.variant).id if rules.variant is not None else None
    return Entrants(package, players, replace(rules, variant=variant))


class TournamentFolder:
    """A tournament that this process owns while the context is entered.

    Args:
        directory: The tournament's directory.

    Raises:
        WorkspaceError: On entry: another process, which the message names, is writing to the directory (code
            `workspace_busy`).
        UsageError: On entry: the log was changed. Nothing is overwritten.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._tournament: Tournament | None = None
        self._file = AppendedFile(directory / LOG_NAME)
        self.rows = TournamentRows(self)

    def __enter__(self) -> TournamentFolder:
        with ExitStack() as stack:
            stack.enter_context(self._file)
            log = LogReader(self._file.path)

            def noted() -> Iterator[LogEvent]:
                for event in log:
                    if isinstance(event, EpisodeEnded):
                        self.rows.note(event.row)
                    yield event

            self._tournament = replay(noted())
            # Only after the check, so that a log that was tampered with is left as it is
            self._file.cut_unfinished()
            self._check = log.check
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def tournament(self) -> Tournament:
        """The tournament of the log; there is none before the first `update`."""
        assert self._tournament is not None
        return self._tournament

    def entrants(self, settings: TournamentSettings, package: Package, rules: EvaluationRules) -> Entrants:
        """Return the players, as `entrants_of`. Settings that a person wrote get a secret before the log begins."""
        found = entrants_of(settings, self.directory, package, rules)
        if settings.seed is not None or rules.seed_secret is not None or not found.seeded or self._tournament:
            return found
        write_secret(self.directory)
        rules = replace(rules, seed_secret=read_secret(self.directory))
        return entrants_of(settings, self.directory, package, rules)

    def evidence(self) -> Path:
        """Return the directory of the episodes' evidence, ready to be resumed."""
        layout = EpisodeLayout(self.directory / EPISODES)
        layout.workspace.mkdir(exist_ok=True)
        layout.events.touch()  # This file marks the directory as a workspace of ours
        return layout.workspace

    def write(self, *events: LogEvent) -> None:
        """Append events, all or none of them.

        Raises:
            EnvironmentFault: The disk is full; the log is unchanged.
        """
        lines: list[bytes] = []
        check = self._check
        for event in events:
            line, check = encode_event(event, check)
            lines.append(line)
        if lines:
            self._file.append(b"".join(lines))
            self._check = check

    def happen(self, *events: LogEvent) -> None:
        """Append events and apply them to the tournament."""
        self.write(*events)
        for event in events:
            self.tournament.apply(event)

    def update(self, settings: TournamentSettings, entrants: Entrants) -> Tournament:
        """Log what has changed in the settings: the rules, and players that were added or withdrawn."""
        rules = _rules(settings, entrants)
        if self._tournament is None:
            self.write(Configured(rules=rules))
            self._tournament = Tournament(rules, None)
        tournament = self.tournament
        if rules != tournament.rules:
            self.happen(Configured(rules=rules))
        tournament.pairing = find_pairing(rules.pairing)
        rows, active = entrants.rows(), set(tournament.active)
        self.happen(*(EntrantAdded(name=name, player=row) for name, row in rows.items() if name not in active))
        for name in [name for name in tournament.active if name not in rows]:
            judged = tournament.history.over
            self.happen(EntrantWithdrawn(name=name))
            self.write(*self.voided(judged))
        return tournament

    def refuse(self, settings: TournamentSettings, entrants: Entrants) -> None:
        """Refuse settings that conflict with what was played; nothing is written.

        Raises:
            UsageError: There is no such pairing, a fixed rule was changed, or a name now stands for another player.
        """
        rules = _rules(settings, entrants)
        find_pairing(rules.pairing)
        if self._tournament is None:
            return
        before, plan = self.tournament.rules, self.tournament.plan
        others = [
            name
            for name in TournamentRules.model_fields
            if name not in _CHANGEABLE and getattr(before, name) != getattr(rules, name)
        ]
        if "seed_commitment" in others and not {"seed", "seeded"} & {*others}:
            raise UsageError(
                f"The seeds of the tournament in {self.directory} were drawn from another secret.",
                code="another_tournament",
                hint=f"Put back the file {SEEDS_NAME} as it was, and name no seed in {SETTINGS_NAME}: what was played "
                "would not be comparable.",
            )
        if others:
            raise UsageError(
                f"The tournament in {self.directory} was begun with another {listed(others)}.",
                code="another_tournament",
                hint="Put that back, or begin another tournament: what was played would not be comparable.",
            )
        rows = entrants.rows()
        now = tuple(row.model_copy(update={"name": name}) for name, row in rows.items())
        refuse_changed(plan, plan.model_copy(update={"entrants": now}))
        known = plan.players()
        for row in now:
            was = known.get(row.name, row)
            if (was.player_id, was.image) != (row.player_id, row.image):
                raise UsageError(
                    f"{row.name} is {was.player_id or was.image} in this tournament, and no other player.",
                    code="player_changed",
                    hint="Add the other player under another name; this one can be withdrawn.",
                )

    def voided(self, since: int) -> list[LogEvent]:
        """Return the events for blocks judged after block number `since` that do not count."""
        return [BlockVoided(block=block.block, reason=block.reason) for block in self.tournament.history.lost(since)]

    def report(self) -> TournamentReport:
        """Return the tournament's report so far."""
        return self.tournament.report()


class TournamentRows(Rows):
    """The rows of a tournament's episodes, which are stored in its log.

    Args:
        folder: The tournament, which has already applied a row when it is appended.
    """

    def __init__(self, folder: TournamentFolder) -> None:
        super().__init__()
        self._folder = folder
        self._voided = 0

    def append(self, *rows: EpisodeRow) -> None:
        """Write rows, and the blocks that they make void."""
        tournament = self._folder.tournament
        measured = [measure_row(row, tournament.plan, self._folder.directory / EPISODES) for row in rows]
        self._folder.write(*(EpisodeEnded(row=row) for row in measured), *self._folder.voided(self._voided))
        self._voided = tournament.history.over
        for row in rows:
            self.note(row)

    def begin(self) -> None:
        """Start a run: log only the void blocks that are judged from now on."""
        self._voided = self._folder.tournament.history.over


def _rules(settings: TournamentSettings, entrants: Entrants) -> TournamentRules:
    common = {name: value for name, value in entrants.common().items() if name in TournamentRules.model_fields}
    return TournamentRules.model_validate(
        {
            **common,
            "pairing": settings.pairing.kind,
            "rounds": settings.pairing.rounds,
            "blocks": settings.pairing.blocks,
            "max_blocks": settings.stop.max_blocks,
            "told_apart": settings.stop.told_apart,
            "rating": settings.rating,
        }
    )
