"""Leagues whose rounds a commissioner decides.

Revision: 0009, after 0008.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from observatory.store.columns import Moment

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the tables; no league has a commissioner yet."""
    op.create_table(
        "commissions",
        sa.Column("league_id", sa.String(length=64), nullable=False),
        sa.Column("owner", sa.String(length=256), nullable=True),
        sa.Column("token", sa.String(length=64), nullable=True),
        sa.Column("run_id", sa.String(length=64), nullable=True),
        sa.Column("expires_at", Moment(), nullable=False),
        sa.Column("trouble", sa.Text(), nullable=True),
        sa.Column("trouble_at", Moment(), nullable=True),
        sa.ForeignKeyConstraint(["league_id"], ["leagues.id"], name="fk_commissions_league_id"),
        sa.PrimaryKeyConstraint("league_id", name="pk_commissions"),
    )
    op.create_table(
        "commission_events",
        sa.Column("league_id", sa.String(length=64), nullable=False),
        sa.Column("season", _NUMBER, nullable=False, autoincrement=False),
        sa.Column("number", _NUMBER, nullable=False, autoincrement=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["league_id"], ["leagues.id"], name="fk_commission_events_league_id"),
        sa.PrimaryKeyConstraint("league_id", "season", "number", name="pk_commission_events"),
    )


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("commission_events")
    op.drop_table("commissions")
