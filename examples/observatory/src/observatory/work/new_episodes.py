"""Adding rounds of a league, whoever decides them, and episodes to the queue."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core.errors import ManifestError
from coworld_runner.telemetry import current_traceparent

from ..store.columns import JsonObject, new_id, now
from ..store.database import next_revision
from ..store.models import EpisodeRequest, GameConfig, Participant, Round
from .game_setup import GameSetup
from .lineups import Candidate, episode_configs, plan_config

__all__ = ["EpisodeTemplate", "add_episodes", "add_round", "add_round_episodes", "participant"]


@dataclass(frozen=True, kw_only=True)
class EpisodeTemplate:
    """What episodes of one request have in common."""

    source: str
    """`EpisodeRequest.source`."""
    user_id: str
    """The account whose turns in the queue they use."""
    person_id: str | None = None
    """Who asked for them, if not the account itself."""
    player_id: str | None = None
    coworld_id: str
    variant_id: str | None
    league_id: str | None = None
    division_id: str | None = None


async def add_episodes(
    session: AsyncSession,
    order: EpisodeTemplate,
    drawn: Sequence[Sequence[Candidate]],
    configs: Sequence[Mapping[str, Any]],
    *,
    request_id: str | None = None,
    round_id: str | None = None,
    first: int = 0,
) -> list[str]:
    """Add episodes to the queue; returns their ids.

    Args:
        session: A writing session.
        order: What they have in common.
        drawn: The lineup of each episode, by slot.
        configs: The config of each episode, without tokens.
        request_id: Their experience request.
        round_id: Their round, if the league itself scheduled them.
        first: The index of the first episode.
    """
    moment = now()
    shared = await _share(session, configs)
    # Each has its own number, so that a reader can stop after any of them
    revision = await next_revision(session, count=len(configs)) - len(configs) + 1 - first
    ids: list[str] = []
    participants: list[Participant] = []
    for index, (seats, config) in enumerate(zip(drawn, configs, strict=True), first):
        row = EpisodeRequest(
            id=new_id("ereq"),
            user_id=order.user_id,
            person_id=order.person_id or order.user_id,
            player_id=order.player_id,
            source=order.source,
            experience_request_id=request_id,
            round_id=round_id,
            index=index,
            league_id=order.league_id,
            division_id=order.division_id,
            coworld_id=order.coworld_id,
            variant_id=order.variant_id,
            config_id=shared.id if shared is not None else None,
            own_config=dict(config)
            if shared is None
            else {key: config[key] for key in config.keys() - shared.config.keys()},
            seed=_seed(config),
            traceparent=current_traceparent(),
            revision=revision + index,
            created_at=moment,
        )
        session.add(row)
        ids.append(row.id)
        participants += [participant(row.id, position, seat) for position, seat in enumerate(seats)]
    await session.flush()
    session.add_all(participants)
    await session.flush()
    return ids


async def add_round(
    session: AsyncSession, division_id: str, config: JsonObject, *, key: str, season: int, id: str | None = None
) -> Round:
    """Add a round that runs from now on, with the next number of its division.

    Args:
        session: A writing session.
        division_id: The round's division.
        config: `Round.round_config`.
        key: `Round.commissioner_key`.
        season: Number of the league's season.
        id: Its id; a new one by default.
    """
    last = await session.scalar(sa.select(sa.func.max(Round.round_number)).where(Round.division_id == division_id))
    moment = now()
    row = Round(
        id=id or new_id("round"),
        round_number=(last or 0) + 1,
        commissioner_key=key,
        execution_backend="any",
        round_config=config,
        status="running",
        division_id=division_id,
        season=season,
        started_at=moment,
        created_at=moment,
    )
    session.add(row)
    await session.flush()
    return row


async def add_round_episodes(
    session: AsyncSession,
    row: Round,
    league_id: str,
    setup: GameSetup,
    episodes: Sequence[tuple[int | None, Sequence[Candidate]]],
    *,
    first: int = 0,
) -> None:
    """Add episodes of a round; workers find them in the queue.

    Args:
        session: A writing session.
        row: The round.
        league_id: The league.
        setup: The game.
        episodes: For each episode its seed, used if the game takes it, or None, and the lineup by slot.
        first: The index of the first episode.

    Raises:
        UsageError: There is no such variant.
        ManifestError: It does not fit the game's schema.
    """
    configs: list[dict[str, Any]] = []
    for seed, lineup in episodes:
        try:
            own = {} if seed is None else {"seed": seed}
            config = plan_config(setup.manifest, setup.variant, own, seats=setup.seats)
        except ManifestError:
            config = plan_config(setup.manifest, setup.variant, {}, seats=setup.seats)
        labels = [candidate.label for candidate in lineup]
        configs += episode_configs(setup.manifest, config, [labels], seed_pinned=True)
    order = EpisodeTemplate(
        source="round",
        # A league has no owner, so its episodes count as those of the game's owner when accounts take turns.
        user_id=setup.coworld.user_id,
        coworld_id=setup.coworld.id,
        variant_id=setup.variant,
        league_id=league_id,
        division_id=row.division_id,
    )
    await add_episodes(session, order, [lineup for _, lineup in episodes], configs, round_id=row.id, first=first)


def participant(episode_id: str, position: int, policy: Candidate) -> Participant:
    """The row of a policy in a seat of an episode."""
    return Participant(
        episode_request_id=episode_id,
        position=position,
        policy_version_id=policy.policy_version_id,
        policy_id=policy.policy_id,
        policy_name=policy.name,
        version=policy.version,
        user_id=policy.owner_user_id,
        player_id=policy.player_id,
        player_name=policy.player_name,
    )


async def _share(session: AsyncSession, configs: Sequence[Mapping[str, Any]]) -> GameConfig | None:
    """Store the keys that all configs share only once, so that a hundred episodes do not store a large config each."""
    first, *others = configs
    if not others:
        return None
    common = {
        key: value
        for key, value in first.items()
        if all(key in other and (other[key] is value or other[key] == value) for other in others)
    }
    shared = GameConfig(config=common, size=len(json.dumps(common)))
    session.add(shared)
    await session.flush()
    return shared


def _seed(config: Mapping[str, Any]) -> int | None:
    seed = config.get("seed")
    return seed if isinstance(seed, int) and not isinstance(seed, bool) and abs(seed) < 1 << 63 else None
