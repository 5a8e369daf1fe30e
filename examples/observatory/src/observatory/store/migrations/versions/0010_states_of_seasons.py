"""A season's table continues from the state stored when its last round was closed.

Revision: 0010, after 0009.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; seasons that have begun are replayed once more."""
    op.add_column("rounds", sa.Column("state", sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    """Drop the column; seasons are again replayed after each round."""
    op.drop_column("rounds", "state")
