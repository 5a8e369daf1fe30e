"""All participants of an episode have a name, including accounts that play without a player.

Revision: 0008, after 0007.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_SEATS = sa.table("participants", sa.column("user_id"), sa.column("policy_version_id"), sa.column("player_name"))
_USERS = sa.table("users", sa.column("id"), sa.column("name"))


def upgrade() -> None:
    """Name the nameless participants of existing episodes after their accounts."""
    owner = sa.select(_USERS.c.name).where(_USERS.c.id == _SEATS.c.user_id).scalar_subquery()
    nameless = _SEATS.c.player_name.is_(None) & _SEATS.c.policy_version_id.is_not(None)
    op.execute(sa.update(_SEATS).where(nameless).values(player_name=owner))


def downgrade() -> None:
    """Do nothing: the names do no harm."""
