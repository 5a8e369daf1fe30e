"""The secret of a league, from which the seeds of its rounds are drawn.

Revision: 0013, after 0012.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; the next round of each league creates its secret."""
    op.add_column("leagues", sa.Column("seed_secret", sa.String(length=64), nullable=True))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("leagues", "seed_secret")
