"""Lobbies, in which people and policies play together.

Revision: 0011, after 0010.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from observatory.store.columns import Moment

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_REFERENCES = {
    "league_id": ("leagues.id", False),
    "coworld_id": ("coworlds.id", False),
    "user_id": ("users.id", False),
    "player_id": ("players.id", True),
    "session_id": ("hosted_sessions.id", True),
}


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "lobbies",
        sa.Column("id", sa.String(length=64), nullable=False),
        *(sa.Column(name, sa.String(length=64), nullable=nullable) for name, (_, nullable) in _REFERENCES.items()),
        sa.Column("variant_id", sa.String(length=256), nullable=False),
        sa.Column("overrides", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("seats", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("revision", _NUMBER, nullable=False),
        sa.Column("start_key", sa.String(length=256), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("started_at", Moment(), nullable=True),
        sa.Column("cancelled_at", Moment(), nullable=True),
        sa.Column("expires_at", Moment(), nullable=False),
        *(
            sa.ForeignKeyConstraint([name], [target], name=f"fk_lobbies_{name}")
            for name, (target, _) in _REFERENCES.items()
        ),
        sa.PrimaryKeyConstraint("id", name="pk_lobbies"),
    )
    for name in (*_REFERENCES, "expires_at"):
        op.create_index(f"ix_lobbies_{name}", "lobbies", [name])


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("lobbies")
