"""The measurements of a suite on a platform: each a mixture of policies, each episode a request of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from coworld_core.api import Coworld, EpisodeRequest, ExperienceDetail
from coworld_core.controller import EpisodeSpec
from coworld_core.episode.outcome import EpisodeStatus
from coworld_core.episode.record import EpisodeRow, PlayerFault, SlotRow
from coworld_core.episode.request import build_request
from coworld_core.evaluation.designs import (
    Lineup,
    block_seed,
    blocks_for,
    mixture_lineups,
    require_block_seeds,
    shares,
)
from coworld_core.evaluation.metrics import measured
from coworld_core.evaluation.mixture import MixturePlan
from coworld_core.evaluation.ranking import player_labels
from coworld_core.evaluation.suite_plan import SuiteCombination
from coworld_core.evaluation.suite_settings import SuiteSettings
from coworld_core.manifest.game_config import seed_range
from coworld_core.manifest.game_results import score_bounds
from coworld_core.manifest.models import Manifest

__all__ = ["HostedSeats", "PolicySeat", "faulty_row", "plan_hosted", "row_of"]

_OF_THE_GAME = ("game_", "results_", "replay_", "episode_timeout")
"""How the error types of platforms begin for which the game is to blame."""


@dataclass(frozen=True, kw_only=True)
class PolicySeat:
    """A version of a policy."""

    id: str
    """Its UUID."""
    label: str
    """`name:v3`."""


@dataclass(frozen=True, kw_only=True)
class HostedSeats:
    """What turns a lineup of a measurement into an episode that is requested."""

    variant: str
    players: Mapping[str, PolicySeat]
    """The players, by label."""
    config: Mapping[str, Any]
    seeds: tuple[int, int] | None
    """The smallest and the largest seed that the game accepts; None: it takes none."""
    base_seed: int

    def spec(self, coworld: Coworld, lineup: Lineup, block: int) -> EpisodeSpec:
        """The episode of a block.

        Args:
            coworld: The game.
            lineup: The label of the player in each seat.
            block: Number of the block, from 1.
        """
        seed = None
        if self.seeds is not None:
            seed = block_seed(self.base_seed, block, least=self.seeds[0], most=self.seeds[1])
        return EpisodeSpec(
            coworld=coworld.id,
            variant=self.variant,
            players=tuple(self.players[label].id for label in lineup if label is not None),
            seed=seed,
            config=dict(self.config),
        )


def plan_hosted(
    what: SuiteCombination,
    *,
    settings: SuiteSettings,
    coworld: Coworld,
    manifest: Manifest,
    policies: Mapping[str, PolicySeat],
) -> tuple[MixturePlan, HostedSeats]:
    """Plan the measurement of a line-up in a variant.

    Args:
        what: The line-up and the variant; without a variant, the first of the Coworld.
        settings: The suite.
        coworld: The game.
        manifest: Its manifest.
        policies: The versions that the words of line-ups stand for.

    Raises:
        UsageError: There are more players than seats, the config sets a seed, or has a field that there is not.
        ManifestError: The changed config does not satisfy the game's schema.
    """
    require_block_seeds(what.config)
    variant = what.variant if what.variant is not None else manifest.variants[0].id
    job = build_request(manifest, variant, config=what.config)
    seats, words = len(job.players), list(what.shares)
    labels = player_labels(len(words))
    players = dict(zip(labels, (policies[word] for word in words), strict=True))
    counts = shares(words, list(what.shares.values()), seats)
    seeds = seed_range(manifest, job.game_config, slots=seats)
    lowest, highest = score_bounds(manifest.game.results_schema, seats, pointer=settings.metric or "/scores")
    plan = MixturePlan(
        coworld=coworld.name,
        version=coworld.version,
        manifest_sha256=coworld.manifest_hash.removeprefix("sha256:"),
        variant=variant,
        config_changes=what.config,
        slot_count=seats,
        seed=what.seed,
        seeded=seeds is not None,
        metric=settings.metric,
        forfeit=settings.forfeit,
        lowest=lowest,
        highest=highest,
        count_starved=settings.count_starved,
        max_blocks=blocks_for(what.episodes, len(mixture_lineups(labels, counts, 1))),
        same_commands=_same(players),
        entrants=tuple(SlotRow(name=_name(label, players), image=seat.id) for label, seat in players.items()),
        counts=counts,
    )
    return plan, HostedSeats(variant=variant, players=players, config=what.config, seeds=seeds, base_seed=what.seed)


def row_of(
    index: int,
    key: str,
    episode: EpisodeRequest,
    results: object,
    *,
    plan: MixturePlan,
    seats: Sequence[SlotRow],
) -> EpisodeRow:
    """The row of an episode that has ended.

    Args:
        index: Its number.
        key: Its key.
        episode: What the platform says of it.
        results: The game's results; None: it has none.
        plan: The plan of the measurement.
        seats: Who sat in it, by slot.
    """
    whole = cast("dict[str, Any]", results) if isinstance(results, dict) else None
    scores = measured(whole, "/scores", len(seats)) if whole is not None else None
    took = (
        (episode.completed_at - episode.started_at).total_seconds()
        if episode.completed_at is not None and episode.started_at is not None
        else 0.0
    )
    status, party, error_type, message = _ended(episode, has_scores=scores is not None)
    return EpisodeRow(
        index=index,
        key=key,
        run_id=episode.id,
        workspace="",
        variant=plan.variant,
        config_changes=plan.config_changes,
        seed=episode.seed,
        episode_tags=episode.tags or {},
        status=status,
        ok=party is None and not episode.player_faults,
        slots=tuple(seats),
        scores=(scores or ()) if status == "completed" else (),
        seconds=max(0.0, took),
        error_type=error_type,
        party=party,
        fault_slot=episode.failed_policy_index if party == "player" else None,
        message=message,
        player_faults=_player_faults(episode, party),
        results=whole if plan.metric else None,
    )


def faulty_row(
    index: int, key: str, request: ExperienceDetail, *, plan: MixturePlan, seats: Sequence[SlotRow]
) -> EpisodeRow:
    """The row of an episode that a platform has not made of its request."""
    return EpisodeRow(
        index=index,
        key=key,
        run_id=request.id,
        workspace="",
        variant=plan.variant,
        config_changes=plan.config_changes,
        status="failed",
        ok=False,
        slots=tuple(seats),
        seconds=0.0,
        error_type="platform_error",
        party="platform",
        message=request.error or f"The request has no episode: it is {request.status}.",
    )


def _ended(episode: EpisodeRequest, *, has_scores: bool) -> tuple[EpisodeStatus, str | None, str | None, str | None]:
    """How an episode ended: its status, the party at fault, the type of the fault, and a sentence."""
    if episode.status.is_success and has_scores:
        first = episode.player_faults[0] if episode.player_faults else None
        if first is None:
            return "completed", None, None, None
        return "completed", "player", first.error_type, first.message
    if episode.status.is_success:
        return "failed", "game", "results_malformed", "The results have no list of one score for each seat."
    said = episode.error or f"The episode is {episode.status}."
    if episode.status.is_cancelled:
        return "interrupted", "operator", "interrupted", said
    kind = episode.error_type or "platform_error"
    if episode.failed_policy_index is not None or kind == "player_error":
        return "failed", "player", kind, said
    return "failed", "game" if kind.startswith(_OF_THE_GAME) else "platform", kind, said


def _player_faults(episode: EpisodeRequest, party: str | None) -> tuple[PlayerFault, ...]:
    found = {
        fault.position: PlayerFault(
            slot=fault.position, error_type=fault.error_type or "player_error", message=fault.message or ""
        )
        for fault in reversed(episode.player_faults)
        if fault.position >= 0
    }
    if party == "player" and episode.failed_policy_index is not None and episode.failed_policy_index not in found:
        slot = episode.failed_policy_index
        found[slot] = PlayerFault(
            slot=slot, error_type=episode.error_type or "player_error", message=episode.error or ""
        )
    return tuple(found[slot] for slot in sorted(found))


def _name(label: str, players: Mapping[str, PolicySeat]) -> str:
    name = players[label].label
    alike = sum(seat.label == name for seat in players.values()) > 1
    return f"{name} ({label})" if alike else name


def _same(players: Mapping[str, PolicySeat]) -> tuple[tuple[str, ...], ...]:
    """Groups of labels that stand for the same version."""
    groups: dict[str, list[str]] = {}
    for label, seat in players.items():
        groups.setdefault(seat.id, []).append(label)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)
