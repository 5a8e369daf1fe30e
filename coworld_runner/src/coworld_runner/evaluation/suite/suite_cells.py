"""What a suite measures, one line-up in one variant after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from coworld_core.episode.layout import directory_of
from coworld_core.errors import UsageError
from coworld_core.evaluation.mixture import MixturePlan
from coworld_core.evaluation.suite_report import SuiteCell
from coworld_core.evaluation.suite_settings import CANDIDATE, EntrySettings, SuiteSettings
from coworld_core.hints import Hint
from coworld_core.manifest.game_config import matching_variants
from coworld_core.manifest.models import Manifest
from coworld_core.text.phrases import listed

from ...package.resolver import Package
from ..entrants import Entrants
from ..evaluation_rules import EvaluationRules
from ..measurements import mixed_players, plan_mixture

__all__ = ["PlannedCell", "plan_cells"]


@dataclass(frozen=True, kw_only=True)
class PlannedCell:
    """What is measured at once: a line-up in a variant."""

    record: SuiteCell
    plan: MixturePlan
    entrants: Entrants


def plan_cells(
    settings: SuiteSettings,
    package: Package,
    players: Sequence[str],
    seed: int,
    *,
    command: tuple[str, ...],
    secret_env: Mapping[str, str],
) -> Iterator[PlannedCell]:
    """Plan everything that a suite measures, in the order of its file.

    Args:
        settings: The suite.
        package: The game.
        players: The players that `{player}` stands for; each is measured by itself.
        seed: The base seed (`suite_seed`).
        command: Command for players given as images.
        secret_env: Secrets for every player.

    Raises:
        UsageError: A line-up or a variant is wrong, players are named for a suite without `{player}`, or not for one
            that has it.
        ManifestError: The changed config does not satisfy the game's schema.
    """
    wants = any(CANDIDATE in lineup for entry in settings.entry for lineup in entry.lineups)
    if wants and not players:
        raise UsageError(
            f"The line-ups of {settings.name!r} have {CANDIDATE}, and no player is named.",
            code="no_candidate",
            hint=Hint("name_player", "Name one in players."),
        )
    if players and not wants:
        raise UsageError(
            f"No line-up of {settings.name!r} has {CANDIDATE}, so there is no seat for {listed(players)}.",
            code="no_candidate",
            hint=f"Put {CANDIDATE} into a line-up, or name no player.",
        )
    for entry in settings.entry:
        lineups = list(_lineups(entry, players))
        for variant in _variants(entry, package.manifest):
            for number, lineup in enumerate(lineups, 1):
                rules = EvaluationRules(
                    variant=variant,
                    config={**settings.config, **entry.config},
                    command=command,
                    secret_env=secret_env,
                    seed=entry.seed if entry.seed is not None else seed,
                    metric=settings.metric,
                    forfeit=settings.forfeit,
                    count_starved=settings.count_starved,
                )
                episodes = entry.episodes or settings.episodes
                # One that is named twice has twice the seats
                shares = {word: float(lineup.count(word)) for word in lineup}
                try:
                    entrants = Entrants(package, mixed_players(shares), rules)
                    planned = plan_mixture(entrants, shares, episodes=episodes)
                except UsageError as error:
                    raise _in(f"Entry {entry.name!r}, line-up {number} ({', '.join(lineup)})", error) from error
                record = SuiteCell(
                    entry=entry.name,
                    variant=planned.variant,
                    lineup=lineup,
                    directory=directory_of(f"{entry.name}.{planned.variant}.{number}"),
                    episodes=episodes,
                )
                yield PlannedCell(record=record, plan=planned, entrants=entrants)


def _lineups(entry: EntrySettings, players: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The line-ups of an entry; one with `{player}` once for each player."""
    for lineup in entry.lineups:
        for player in players if CANDIDATE in lineup else ("",):
            yield tuple(player if word == CANDIDATE else word for word in lineup)


def _variants(entry: EntrySettings, manifest: Manifest) -> tuple[str | None, ...]:
    if entry.variants is None:
        return (None,)
    try:
        found = [one.id for word in entry.variants for one in matching_variants(manifest, word)]
    except UsageError as error:
        raise _in(f"Entry {entry.name!r}", error) from error
    return tuple(dict.fromkeys(found))


def _in(where: str, error: UsageError) -> UsageError:
    """The error with the place in the file."""
    return UsageError(f"{where}: {error.message}", code=error.code, hint=error.hint, context=error.context)
