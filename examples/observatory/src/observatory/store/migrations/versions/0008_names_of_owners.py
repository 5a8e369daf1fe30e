"""Who sits in an episode is called by a name, also whoever plays without a player.

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
    """Go forward: episodes that were ordered before have the names of their accounts, too."""
    owner = sa.select(_USERS.c.name).where(_USERS.c.id == _SEATS.c.user_id).scalar_subquery()
    nameless = _SEATS.c.player_name.is_(None) & _SEATS.c.policy_version_id.is_not(None)
    op.execute(sa.update(_SEATS).where(nameless).values(player_name=owner))


def downgrade() -> None:
    """Go back: the names do no harm there."""
