"""Accounts take turns in the queue and may have their own quotas.

Revision: 0003, after 0002.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from observatory.store.columns import Moment

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; no account has had a turn yet."""
    op.add_column("users", sa.Column("served_at", Moment(), nullable=True))
    op.add_column("users", sa.Column("quotas", sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    """Drop the columns."""
    op.drop_column("users", "quotas")
    op.drop_column("users", "served_at")
