"""The span of the request that asked for an episode, so that its trace goes on with the worker that plays it.

Revision: 0016, after 0015.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; nobody asked for traces of earlier episodes."""
    op.add_column("episode_requests", sa.Column("traceparent", sa.String(length=64), nullable=True))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("episode_requests", "traceparent")
