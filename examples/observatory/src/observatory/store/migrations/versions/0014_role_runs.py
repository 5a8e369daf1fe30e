"""Supporting roles that are run on episodes which are over.

Revision: 0014, after 0013.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from observatory.store.columns import Moment

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_JSON = sa.JSON(none_as_null=True)
_INDEXED = ("completed_at", "episode_request_id", "lease_expires_at", "user_id")


def upgrade() -> None:
    """Add the table; no role has been run yet."""
    op.create_table(
        "role_runs",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("episode_request_id", sa.String(length=64), nullable=False),
        sa.Column("automatic", sa.Boolean(), nullable=False),
        sa.Column("role", sa.String(length=32), nullable=False),
        sa.Column("runnable_id", sa.String(length=256), nullable=False),
        sa.Column("position", _NUMBER, nullable=False),
        sa.Column("slots", _JSON, nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("answer", _JSON, nullable=True),
        sa.Column("score", sa.Double[float](), nullable=True),
        sa.Column("record", _JSON, nullable=True),
        sa.Column("output_key", sa.Text(), nullable=True),
        sa.Column("output_size", _NUMBER, nullable=False),
        sa.Column("output_sha256", sa.String(length=64), nullable=True),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("index", _NUMBER, nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("priority", _NUMBER, nullable=False),
        sa.Column("attempts", _NUMBER, nullable=False),
        sa.Column("lease_token", sa.String(length=64), nullable=True),
        sa.Column("lease_owner", sa.String(length=256), nullable=True),
        sa.Column("lease_expires_at", Moment(), nullable=True),
        sa.Column("run_id", sa.String(length=256), nullable=True),
        sa.Column("error_type", sa.String(length=64), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("started_at", Moment(), nullable=True),
        sa.Column("completed_at", Moment(), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(
            ["episode_request_id"], ["episode_requests.id"], name="fk_role_runs_episode_request_id"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_role_runs_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_role_runs"),
        sa.UniqueConstraint("key", name="uq_role_runs_key"),
    )
    op.create_index("ix_role_runs_queue", "role_runs", ["status", "priority", "created_at", "index"])
    for column in _INDEXED:
        op.create_index(f"ix_role_runs_{column}", "role_runs", [column])


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("role_runs")
