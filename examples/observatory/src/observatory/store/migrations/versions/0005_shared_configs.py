"""The part that the configs of several episodes share is stored once.

Revision: 0005, after 0004.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from observatory.store.columns import Moment

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the table of shared configs; existing episodes keep their whole configs."""
    op.create_table(
        "game_configs",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("config", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("size", _NUMBER, nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_game_configs"),
    )
    op.add_column("episode_requests", sa.Column("config_id", sa.String(length=64), nullable=True))


def downgrade() -> None:
    """Drop the shared configs; episodes that use them lose that part of their configs."""
    op.drop_column("episode_requests", "config_id")
    op.drop_table("game_configs")
