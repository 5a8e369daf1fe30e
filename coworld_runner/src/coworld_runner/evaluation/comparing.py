"""Playing two players against each other until it is known which is better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coworld_core.errors import UsageError
from coworld_core.evaluation.comparison import NEW, OLD, Comparison, ComparisonPlan, ComparisonReport
from coworld_core.evaluation.markdown import comparison_markdown

from ..packages import Package
from ..plan import Seat
from .lineups import Entrants
from .playing import EvaluationRun, play_evaluation

__all__ = ["MAX_BLOCKS", "compare"]

MAX_BLOCKS = 200
"""Enough for a difference of a quarter of a standard deviation, most often."""


async def compare(
    package: Package,
    new: str,
    old: str,
    *,
    run: EvaluationRun,
    variant: str | None = None,
    command: Sequence[str] = (),
    secret_env: Mapping[str, str] | None = None,
    seed: int = 0,
    max_blocks: int = MAX_BLOCKS,
    margin: float | None = None,
    metric: str = "",
    forfeit: float | None = None,
    starved: bool = False,
) -> ComparisonReport:
    """Find out whether one player is better than another, in as few episodes as that takes.

    Each block is both orders of the two on one seed; with more than two seats, first the one and then the other in the
    same seat among the game's own players. The comparison ends as soon as the evidence decides. A workspace that has
    this comparison already is gone on with: only what it lacks is played.

    Args:
        package: The Coworld.
        new: The player that is to be better: the id of a bundled player, or an image.
        old: The player that it is compared with.
        run: Where and how to play.
        variant: Id of a variant; None: the certification fixture.
        command: Command for players given as images.
        secret_env: Secrets for every player.
        seed: The base seed: every block has one of its own, made of it.
        max_blocks: How many blocks to play at most.
        margin: Differences of mean scores up to this are not worth having.
        metric: JSON pointer to a list of one number a seat in the results; empty: the scores.
        forfeit: The score of whoever fails without results; None: the worst that was shown by then.
        starved: Whether to count episodes in which the machine was short of processors, for games in which time does
            not matter.

    Returns:
        The report, which is in ``report.json`` and ``report.md`` too.

    Raises:
        UsageError: An unknown variant, a metric that the results do not have, an image that has changed since the
            comparison began, or a workspace of another evaluation.
        ManifestError: The config does not satisfy the game's schema.
        WorkspaceError: The workspace is not fresh or not writable, or another run writes there.
        EnvironmentFault: The machine or the engine failed; the report covers what had ended.
    """
    if max_blocks < 1:
        raise UsageError("There must be at least 1 block.", code="bad_count")
    entrants = Entrants(package, {NEW: new, OLD: old}, variant=variant, run=command, secret_env=secret_env)
    rows = entrants.rows()
    game = package.manifest.game
    plan = ComparisonPlan(
        coworld=game.name,
        version=game.version,
        manifest_sha256=package.sha256,
        variant=entrants.base.variant,
        seats=entrants.seats,
        seed=seed,
        seeded=entrants.seeded,
        metric=metric,
        max_blocks=max_blocks,
        forfeit=forfeit,
        starved=starved,
        new=rows[NEW],
        old=rows[OLD],
        same_command=_settings(entrants.seat(NEW)) == _settings(entrants.seat(OLD)),
        margin=margin,
    )
    return await play_evaluation(Comparison(plan), plan, entrants, run, comparison_markdown)


def _settings(seat: Seat) -> object:
    """What a player is besides its image."""
    return None if seat.runnable is None else (seat.runnable.run, seat.runnable.env)
