"""Entries: the places of an account in a league, which its players share.

Revision: 0012, after 0011.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_MEMBERS = sa.table("memberships", sa.column("entry_id"), sa.column("player_id"), sa.column("user_id"))
_LEAGUES = sa.table("leagues", sa.column("id"), sa.column("commissioner_config", sa.JSON(none_as_null=True)))


def upgrade() -> None:
    """Give each member an entry of its own player, and let existing leagues admit as many as before."""
    op.add_column("memberships", sa.Column("entry_id", sa.String(length=64), nullable=False, server_default=""))
    op.execute(sa.update(_MEMBERS).values(entry_id=sa.func.coalesce(_MEMBERS.c.player_id, _MEMBERS.c.user_id)))
    connection = op.get_bind()
    for id, config in connection.execute(sa.select(_LEAGUES)).all():
        settled: dict[str, object] = {**(config or {}), "entries_per_user": None}
        connection.execute(sa.update(_LEAGUES).where(_LEAGUES.c.id == id).values(commissioner_config=settled))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("memberships", "entry_id")
