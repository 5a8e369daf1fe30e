"""Seasons of leagues, standings after each round, and paused leagues.

Revision: 0007, after 0006.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from observatory.store.columns import Moment

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add seasons; all existing rounds belong to the first."""
    op.create_table(
        "seasons",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("league_id", sa.String(length=64), nullable=False),
        sa.Column("number", _NUMBER, nullable=False),
        sa.Column("tables", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("moves", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("closed_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["league_id"], ["leagues.id"], name="fk_seasons_league_id"),
        sa.PrimaryKeyConstraint("id", name="pk_seasons"),
        sa.UniqueConstraint("league_id", "number", name="uq_seasons_league_id_number"),
    )
    for table in ("leagues", "rounds"):
        op.add_column(table, sa.Column("season", _NUMBER, nullable=False, server_default="1"))
    op.add_column("leagues", sa.Column("paused_at", Moment(), nullable=True))
    op.add_column("rounds", sa.Column("report", sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    """Drop the tables and columns."""
    op.drop_column("rounds", "report")
    op.drop_column("leagues", "paused_at")
    for table in ("rounds", "leagues"):
        op.drop_column(table, "season")
    op.drop_table("seasons")
