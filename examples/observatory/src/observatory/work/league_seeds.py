"""The seeds of a league's rounds: drawn from its secret, committed to when a round begins, and revealed after it."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core.manifest import seed_range
from coworld_core.secret_seeds import key_commitment, seed_from_key, seed_key

from ..store.columns import JsonObject
from ..store.models import League, Round
from .game_setup import GameSetup
from .lineups import UNLIMITED_SEED, plan_config

__all__ = ["RoundSeeds", "open_seeds", "published_seeds"]


@dataclass(frozen=True, kw_only=True)
class RoundSeeds:
    """The seeds of the blocks of a round."""

    secret: bytes
    scope: str
    """The round, different for every round of the league."""
    least: int
    most: int

    def key(self, block: int) -> bytes:
        """The key of a block (`coworld_core.secret_seeds`)."""
        return seed_key(self.secret, f"{self.scope}:{block}")

    def seed(self, block: int) -> int:
        """The seed of a block: equal for all its lineups, unrelated to that of any other block."""
        return seed_from_key(self.key(block), least=self.least, most=self.most)

    def committed(self, config: JsonObject, blocks: Iterable[int]) -> JsonObject:
        """A `Round.round_config` with the commitments to the seeds of further blocks."""
        before: JsonObject = config.get("seeds") or {"least": self.least, "most": self.most, "commitments": {}}
        new = {str(block): key_commitment(self.key(block)) for block in blocks}
        return {**config, "seeds": {**before, "commitments": {**before["commitments"], **new}}}


async def open_seeds(session: AsyncSession, row: Round, league_id: str, setup: GameSetup) -> RoundSeeds | None:
    """The seeds of a round; None if the game takes none. A league's first round creates its secret.

    Args:
        session: A writing session.
        row: The round, with its number.
        league_id: The league.
        setup: The game.

    Raises:
        UsageError: There is no such variant.
        ManifestError: The config does not fit the game's schema.
    """
    config = plan_config(setup.manifest, setup.variant, {}, seats=setup.seats)
    allowed = seed_range(setup.manifest, config, slots=setup.seats, unlimited=UNLIMITED_SEED, undeclared=True)
    if allowed is None:
        return None
    # Two divisions may begin their first rounds at the same time; the first secret stays.
    new = sa.update(League).where(League.id == league_id, League.seed_secret.is_(None))
    await session.execute(new.values(seed_secret=secrets.token_hex(32)).execution_options(synchronize_session=False))
    secret = await session.scalar(sa.select(League.seed_secret).where(League.id == league_id))
    least, most = allowed
    return RoundSeeds(secret=bytes.fromhex(secret or ""), scope=_scope(row), least=least, most=most)


def published_seeds(row: Round) -> list[JsonObject]:
    """What everybody may know of a round's seeds, by block: the commitments, and also the keys once it is over."""
    said, secret = row.round_config.get("seeds"), row.division.league.seed_secret
    if not said:
        return []
    over = row.status not in ("pending", "running") and secret is not None
    seeds = RoundSeeds(
        secret=bytes.fromhex(secret or ""), scope=_scope(row), least=int(said["least"]), most=int(said["most"])
    )
    return [
        {
            "block": int(block),
            "commitment": commitment,
            "least": seeds.least,
            "most": seeds.most,
            "key": seeds.key(int(block)).hex() if over else None,
            "seed": seeds.seed(int(block)) if over else None,
        }
        for block, commitment in said["commitments"].items()
    ]


def _scope(row: Round) -> str:
    # Blocks are counted by division and season, and again from 1 when a game changes its number of seats: only with the
    # round does no key reveal the seed of a later block.
    return f"{row.season}:{row.division_id}:{row.round_number}"
