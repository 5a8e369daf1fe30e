"""Turns a lineup into the plan of an episode: the player in each seat, and the game's seed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from coworld_core.episode.record import SlotRow
from coworld_core.errors import UsageError
from coworld_core.evaluation.battery import VariantPlan
from coworld_core.evaluation.designs import Lineup, block_seed
from coworld_core.evaluation.evaluation_files import PLAN_NAME, read_plan
from coworld_core.evaluation.report_base import EvaluationPlan
from coworld_core.manifest.game_config import seed_range
from coworld_core.manifest.game_results import score_bounds
from coworld_core.player_seeds import block_secret
from coworld_core.secret_seeds import fresh_seed, key_commitment, seed_from_key, seed_key

from ..episode.run_options import BatchArguments
from ..package.own_players.llm_player import require_prices
from ..package.plan import EpisodePlan, Seat, plan_episode
from ..package.player_names import PlayerRef, SeatPlayer, read_players
from ..package.resolver import Package, PackageSource, resolve_package
from ..package.variant_plans import require_alike, variant_ids
from .evaluation_rules import EvaluationRules

__all__ = ["Entrants", "entrants_of_plan", "find_entrants", "settled_rules"]

_Plan = TypeVar("_Plan", bound=EvaluationPlan)


class Entrants:
    """The players to measure, and the game they are measured in.

    With several variants, block 1 plays the first, block 2 the second, and so on, and then the first again.

    Args:
        package: The Coworld.
        players: The players to measure, by label: anything that `read_players` reads except a human.
        rules: What to play and what counts.
        any_seats: Whether variants may differ in their numbers of seats.
        gives_models: Whether all programs get a way to language models, which counts.

    Attributes:
        package: The Coworld.
        bases: The episode of each variant as the game's author seats it.

    Raises:
        UsageError: An unknown variant or player, variants that differ in their numbers of seats, or a limit to the cost
            of models without a price.
        ManifestError: A variant does not allow the changes to its config.
    """

    def __init__(
        self,
        package: Package,
        players: Mapping[str, SeatPlayer],
        rules: EvaluationRules,
        *,
        any_seats: bool = False,
        gives_models: bool = False,
    ) -> None:
        self.package = package
        # Files are read once, so that their current content plays in every episode
        self._players = {label: _entrant(player, package) for label, player in players.items()}
        self._others = _entrant(rules.others, package) if rules.others is not None else None
        self._seed = rules.seed if rules.seed is not None else fresh_seed()
        if package.policies is not None and rules.variant is None:
            # A platform plays no fixture
            rules = dataclasses.replace(rules, variant=package.manifest.variants[0].id)
        self._rules = rules
        self._plans: dict[tuple[int, Lineup], EpisodePlan] = {}
        self.bases = tuple(
            plan_episode(package, variant=variant, secret_env=rules.secret_env, config=rules.config)
            for variant in variant_ids(package.manifest, rules.variant)
        )
        if not any_seats:
            require_alike({base.variant: len(base.seats) for base in self.bases})
        self._ranges = [seed_range(package.manifest, base.game_config, slots=len(base.seats)) for base in self.bases]
        if rules.max_cost is not None:
            seats = [*(self.seat(label) for label in players), *(self.others if self._others is not None else ())]
            require_prices([seat.own for seat in seats if seat.own is not None], gives_models=gives_models)

    @property
    def base(self) -> EpisodePlan:
        """The first of `bases`."""
        return self.bases[0]

    @property
    def seeded(self) -> bool:
        """Whether the config of every variant takes a seed."""
        return None not in self._ranges

    @property
    def seats(self) -> int:
        """The number of seats of the game; of variants that differ in it, the largest."""
        return max(len(base.seats) for base in self.bases)

    def variants(self) -> tuple[VariantPlan, ...]:
        """Return the variants, in the order in which blocks play them."""
        return tuple(
            VariantPlan(id=base.variant, slot_count=len(base.seats), seeded=known is not None)
            for base, known in zip(self.bases, self._ranges, strict=True)
        )

    def planned(self, kind: type[_Plan], *, least: int = 0, **own: object) -> _Plan:
        """Return the plan of an evaluation.

        Args:
            kind: Its kind.
            least: The number of blocks that the clearest possible outcome needs.
            own: The fields that only this kind has, or has otherwise.
        """
        return kind.model_validate({**self.common(least=least), **own})

    def common(self, *, least: int = 0) -> dict[str, Any]:
        """Return the fields that the plans of all evaluations share.

        Args:
            least: The number of blocks that the clearest possible outcome needs.
        """
        game, rules = self.package.manifest.game, self._rules
        lowest, highest = score_bounds(game.results_schema, self.seats, pointer=rules.metric or "/scores")
        return {
            "coworld": game.name,
            "version": game.version,
            "manifest_sha256": self.package.sha256,
            "variant": ", ".join(base.variant for base in self.bases),
            "config_changes": dict(rules.config),
            "slot_count": self.seats,
            "seed": self._seed,
            "seed_commitment": key_commitment(rules.seed_secret) if rules.seed_secret is not None else "",
            "seeded": self.seeded,
            "metric": rules.metric,
            "max_blocks": rules.most_blocks(least),
            "max_cost": rules.max_cost,
            "forfeit": rules.forfeit,
            "lowest": lowest,
            "highest": highest,
            "count_starved": rules.count_starved,
            "same_commands": self._same_commands(),
            "others": _row(self.others[0]) if self._others is not None else None,
        }

    def seat(self, label: str) -> Seat:
        """Return the seat of the player with this label."""
        return self._plan((label,) * len(self.base.seats), 0).seats[0]

    @property
    def others(self) -> tuple[Seat, ...]:
        """The seats of those who may sit among the players."""
        if self._others is not None:
            return self._plan((None,) * len(self.base.seats), 0).seats[:1]
        return tuple(seat for base in self.bases for seat in base.seats)

    def rows(self) -> dict[str, SlotRow]:
        """Return all players by label, under distinct names."""
        seats = {label: self.seat(label) for label in self._players}
        names = {label: seat.player_name or seat.name for label, seat in seats.items()}
        alike = {name for name in names.values() if list(names.values()).count(name) > 1}
        return {
            label: _row(seat, f"{names[label]} ({label})" if names[label] in alike else names[label])
            for label, seat in seats.items()
        }

    def _same_commands(self) -> tuple[tuple[str, ...], ...]:
        """Return groups of labels whose players are the same except perhaps for their images."""
        groups: dict[str, list[str]] = {}
        for label in self._players:
            seat = self.seat(label)
            runnable = seat.runnable
            what = (runnable.run, sorted(runnable.env.items())) if runnable is not None else ()
            # Files are compared by content, not by name
            what = seat.own.digest if seat.own is not None else what if seat.policy is None else seat.policy.id
            groups.setdefault(repr(what), []).append(label)
        return tuple(tuple(group) for group in groups.values() if len(group) > 1)

    def plan(self, lineup: Lineup, block: int, *, seed: int | None = None) -> EpisodePlan:
        """Return the plan of an episode.

        Args:
            lineup: The label of the player in each seat; None: the game's own player.
            block: The number of its block, from 1.
            seed: Its seed; if None, or outside the range that the game accepts, the block's seed is drawn.
        """
        at = (block - 1) % len(self.bases)
        allowed, secret = self._ranges[at], self._rules.seed_secret
        players = block_secret(self._seed if secret is None else secret, block)
        plan = dataclasses.replace(self._plan(lineup, at), player_secret=players)
        if allowed is None:
            return plan
        least, most = allowed
        if seed is None or not least <= seed <= most:
            seed = (
                block_seed(self._seed, block, least=least, most=most)
                if secret is None
                else seed_from_key(seed_key(secret, str(block)), least=least, most=most)
            )
        return dataclasses.replace(plan, game_config={**plan.game_config, "seed": seed})

    def _plan(self, lineup: Lineup, at: int) -> EpisodePlan:
        if (at, lineup) not in self._plans:
            base = self.bases[at]
            self._plans[at, lineup] = plan_episode(
                self.package,
                variant=None if self._rules.variant is None else base.variant,
                players=[
                    self._players[label] if label is not None else self._others or base.seats[slot].player_id or ""
                    for slot, label in enumerate(lineup)
                ],
                run=self._rules.command,
                secret_env=self._rules.secret_env,
                config=self._rules.config,
            )
        return self._plans[at, lineup]


async def find_entrants(
    what: PackageSource,
    players: Mapping[str, SeatPlayer],
    rules: EvaluationRules | None,
    run: BatchArguments,
    *,
    any_seats: bool = False,
) -> Entrants:
    """Find the game and the players of a measurement.

    Args:
        what: The Coworld, as `resolve_package` takes it.
        players: The players, by label.
        rules: What to play and what counts, settled by `settled_rules`.
        run: Where and how to play.
        any_seats: Whether variants may differ in their numbers of seats.

    Raises:
        CoworldError: As `resolve_package`, `settled_rules` and `Entrants`.
    """
    options = run.get("options")
    gives_models = options is not None and options.models is not None
    rules = settled_rules(rules, run)
    return Entrants(await resolve_package(what), players, rules, any_seats=any_seats, gives_models=gives_models)


def entrants_of_plan(package: Package, plan: EvaluationPlan, word: Callable[[SlotRow], SeatPlayer]) -> Entrants:
    """Find the game and the players of a measurement again, from its plan.

    Args:
        package: The Coworld.
        plan: The plan.
        word: Names the player that a row of the plan is about.

    Raises:
        UsageError: A player is not the one of the plan any more (`player_changed`), or the seeds are secret.
    """
    if plan.seed_commitment:
        raise UsageError("The seeds of this measurement are secret.", code="secret_seeds")
    known = {variant.id for variant in package.manifest.variants}
    others = plan.others
    rules = EvaluationRules(
        variant=plan.variant if known.issuperset(plan.variant.split(", ")) else None,
        config=plan.config_changes,
        others=word(others) if others is not None else None,
        seed=plan.seed,
        max_blocks=plan.max_blocks,
        metric=plan.metric,
        forfeit=plan.forfeit,
        count_starved=plan.count_starved,
    )
    players = {label: word(slot) for label, slot in plan.players().items()}
    found = Entrants(package, players, rules, any_seats=True)
    for label, slot in found.rows().items():
        if slot.image != plan.players()[label].image:
            planned = plan.players()[label].image
            raise UsageError(f"{slot.image} is there, and {planned} was planned.", code="player_changed")
    return found


def settled_rules(rules: EvaluationRules | None, run: BatchArguments) -> EvaluationRules:
    """Return the rules, with the base seed of the evaluation that is to be resumed unless they name one.

    Raises:
        RecordError: The plan in the workspace is invalid.
    """
    rules, workspace = rules or EvaluationRules(), run.get("workspace")
    if rules.seed is not None or workspace is None or run.get("overwrite"):
        return rules
    place = Path(workspace).expanduser().absolute()
    return dataclasses.replace(rules, seed=read_plan(place).seed) if (place / PLAN_NAME).is_file() else rules


def _row(seat: Seat, name: str = "") -> SlotRow:
    return SlotRow(
        name=name or seat.player_name or seat.name,
        player_id=seat.player_id,
        image=seat.image,
        player_version=seat.player_version,
    )


def _entrant(word: SeatPlayer, package: Package) -> PlayerRef:
    found = read_players([word], package)
    if len(found) != 1 or found[0].kind == "human":
        raise UsageError(
            f"{word!r} is not one program, so it cannot be measured.",
            code="not_one_player",
            hint="Name each player once: every player plays every seat.",
        )
    # What is measured must not change before the last episode
    return found[0].frozen()
