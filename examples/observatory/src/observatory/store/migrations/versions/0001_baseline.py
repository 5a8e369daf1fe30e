"""The baseline: the tables of the first release.

Revision: 0001, after nothing.
"""

from __future__ import annotations

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing: `Database.upgrade` creates missing tables as the models describe them."""
