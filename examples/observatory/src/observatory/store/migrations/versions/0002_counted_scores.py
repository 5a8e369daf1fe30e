"""Scores count in a division's table only if the league scheduled the episode.

Revision: 0002, after 0001.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Stop counting the scores of episodes that users requested."""
    scores = sa.table("episode_scores", sa.column("episode_request_id"), sa.column("division_id"))
    episodes = sa.table("episode_requests", sa.column("id"), sa.column("round_id"))
    asked_for = sa.select(episodes.c.id).where(episodes.c.round_id.is_(None))
    op.execute(sa.update(scores).where(scores.c.episode_request_id.in_(asked_for)).values(division_id=None))


def downgrade() -> None:
    """Do nothing: which scores counted before the upgrade is not known."""
