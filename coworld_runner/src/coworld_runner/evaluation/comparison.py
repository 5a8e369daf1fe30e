"""Plays two players against each other until it is clear which is better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

from coworld_core.errors import UsageError
from coworld_core.evaluation.comparison import NEW, OLD, OPPONENT, Comparison, ComparisonPlan, ComparisonReport
from coworld_core.evaluation.elo import usual_blocks
from coworld_core.evaluation.power import ComparisonForecast, forecast

from ..episode.many import KeyedRun
from ..episode.run_options import BatchArguments
from ..package.player_names import SeatPlayer
from ..package.resolver import PackageSource
from .entrants import Entrants, find_entrants
from .evaluation_rules import EvaluationRules
from .evaluation_run import play_evaluation
from .lost_moves import note_lost_moves

__all__ = ["ComparisonTerms", "compare", "forecast_comparison"]


async def compare(
    what: PackageSource,
    new: SeatPlayer,
    old: SeatPlayer,
    *,
    opponent: SeatPlayer | None = None,
    rules: EvaluationRules | None = None,
    margin: float | None = None,
    elo0: float | None = None,
    elo1: float | None = None,
    alpha: float = 0.05,
    beta: float = 0.05,
    **run: Unpack[BatchArguments],
) -> ComparisonReport:
    """Find out whether one player is better than another, in as few episodes as possible.

    Each block plays both seat orders of the two players on one seed. In a game with more than two seats, each of the
    two plays in turn in the same seat among the game's own players; with an opponent, always among copies of that.
    The comparison stops as soon as the evidence decides. If the workspace already contains this comparison, only the
    missing episodes are played. The report has the worst of the blocks that were lost, in games of the kit with the
    first move in which the two players differed.

    Args:
        what: The Coworld, as `resolve_package` takes it.
        new: The player expected to be better, as `players.read_players` reads it: an id, a file, an image, …
        old: The player it is compared with.
        opponent: Compare how the two do against this player, instead of against each other.
        rules: What to play and what counts.
        margin: The largest difference of mean scores that is still considered negligible.
        elo0: With `elo1`, test whether NEW is better by more than this Elo difference; None: 0.
        elo1: An Elo difference that is worth having; None: no such test.
        alpha: How often an equal player, or one better by `elo0` at most, may be called better.
        beta: How often a player that is better by `elo1` may fail the test.
        run: Where and how to play.

    Returns:
        The report, which is also written to `report.json` and `report.md`.

    Raises:
        UsageError: Terms that exclude each other (code `bad_terms`), an unknown variant, a metric that the results do
            not have, an image that has changed since the comparison began, or a workspace of another evaluation.
        ManifestError: The config does not satisfy the game's schema.
        WorkspaceError: The workspace is not fresh or not writable, or another run is writing to it.
        EnvironmentFault: The machine or the engine failed; the report covers the episodes that had ended.
    """
    players = {NEW: new, OLD: old, **({OPPONENT: opponent} if opponent is not None else {})}
    entrants = await find_entrants(what, players, rules, run)
    terms = ComparisonTerms(margin=margin, elo0=elo0, elo1=elo1, alpha=alpha, beta=beta)
    comparison = Comparison(_plan(entrants, terms))

    async def afterwards(keyed: KeyedRun) -> None:
        await note_lost_moves(keyed, comparison, entrants)

    return await play_evaluation(comparison, entrants, afterwards=afterwards, **run)


async def forecast_comparison(
    what: PackageSource,
    new: SeatPlayer,
    old: SeatPlayer,
    *,
    rules: EvaluationRules | None = None,
    terms: ComparisonTerms | None = None,
) -> ComparisonForecast:
    """Say how many blocks a comparison takes for which difference; nothing is played.

    Args:
        what: The Coworld, as `resolve_package` takes it.
        new: The player expected to be better.
        old: The player it is compared with.
        rules: What would be played and what would count.
        terms: What would be decided.

    Raises:
        UsageError: An unknown variant or player.
        ManifestError: The config does not satisfy the game's schema.
    """
    entrants = await find_entrants(what, {NEW: new, OLD: old}, rules, {})
    return forecast(_plan(entrants, terms or ComparisonTerms()))


@dataclass(frozen=True, kw_only=True)
class ComparisonTerms:
    """What a comparison decides, and how often it may be wrong."""

    margin: float | None = None
    """The largest difference of mean scores that is still considered negligible."""
    elo0: float | None = None
    """With `elo1`, the Elo difference that is not worth having; None: 0."""
    elo1: float | None = None
    """The Elo difference that is worth having; None: no test of Elo differences."""
    alpha: float = 0.05
    """How often an equal player, or one better by `elo0` at most, may be called better."""
    beta: float = 0.05
    """How often a player that is better by `elo1` may fail the test."""

    def __post_init__(self) -> None:
        if not (0 < self.alpha < 1 and 0 < self.beta < 1):
            raise UsageError("The risks alpha and beta are above 0 and below 1.", code="bad_terms")
        if self.elo1 is None and self.elo0 is not None:
            raise UsageError("elo0 needs elo1: the Elo difference that is worth having.", code="bad_terms")
        if self.elo1 is not None and self.elo1 <= (self.elo0 or 0.0):
            raise UsageError(f"elo1 must be larger than elo0, which is {self.elo0 or 0.0:g}.", code="bad_terms")
        if self.elo1 is not None and self.margin is not None:
            raise UsageError("A margin and a test of Elo differences exclude each other.", code="bad_terms")


def _plan(entrants: Entrants, terms: ComparisonTerms) -> ComparisonPlan:
    rows, elo0 = entrants.rows(), terms.elo0 or 0.0
    least = usual_blocks(elo0, terms.elo1, alpha=terms.alpha) if terms.elo1 is not None else 0
    return entrants.planned(
        ComparisonPlan,
        least=least,
        new=rows[NEW],
        old=rows[OLD],
        opponent=rows.get(OPPONENT),
        margin=terms.margin,
        elo0=elo0 if terms.elo1 is not None else None,
        elo1=terms.elo1,
        alpha=terms.alpha,
        beta=terms.beta,
    )
