"""For operators: an append-only audit log, workers, reasons for closed accounts and policies, and times of pruning.

Revision: 0006, after 0005.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from observatory.store.columns import Moment

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_CLOSED = ("policies", "policy_versions")


def upgrade() -> None:
    """Add the tables and columns, all empty."""
    op.create_table(
        "audit_entries",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("actor", sa.String(length=16), nullable=False),
        sa.Column("actor_id", sa.String(length=64), nullable=True),
        sa.Column("origin", sa.String(length=256), nullable=True),
        sa.Column("user_id", sa.String(length=64), nullable=True),
        sa.Column("subject", sa.String(length=256), nullable=True),
        sa.Column("detail", sa.JSON(none_as_null=True), nullable=False),
        sa.ForeignKeyConstraint(["actor_id"], ["users.id"], name="fk_audit_entries_actor_id"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_audit_entries_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_audit_entries"),
    )
    for column in ("created_at", "action", "user_id"):
        op.create_index(f"ix_audit_entries_{column}", "audit_entries", [column])
    _only_grows(op.get_bind().dialect.name)
    op.create_table(
        "workers",
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("backend", sa.String(length=256), nullable=False),
        sa.Column("parallel", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("trouble", sa.Text(), nullable=True),
        sa.Column("started_at", Moment(), nullable=False),
        sa.Column("seen_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_workers"),
    )
    op.add_column("users", sa.Column("disabled_reason", sa.Text(), nullable=True))
    for table in _CLOSED:
        op.add_column(table, sa.Column("disabled_at", Moment(), nullable=True))
        op.add_column(table, sa.Column("disabled_reason", sa.Text(), nullable=True))
    op.add_column("episode_requests", sa.Column("pruned_at", Moment(), nullable=True))


def downgrade() -> None:
    """Drop the tables and columns."""
    op.drop_column("episode_requests", "pruned_at")
    for table in reversed(_CLOSED):
        op.drop_column(table, "disabled_reason")
        op.drop_column(table, "disabled_at")
    op.drop_column("users", "disabled_reason")
    op.drop_table("workers")
    op.drop_table("audit_entries")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION audit_only_grows()")


def _only_grows(dialect: str) -> None:
    """Make the database refuse to change or delete entries of the audit log."""
    if dialect == "postgresql":
        op.execute(
            "CREATE FUNCTION audit_only_grows() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'the audit log only grows'; END $$"
        )
        op.execute(
            "CREATE TRIGGER audit_only_grows BEFORE UPDATE OR DELETE ON audit_entries "
            "FOR EACH ROW EXECUTE FUNCTION audit_only_grows()"
        )
        return
    for event in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER audit_entries_no_{event.lower()} BEFORE {event} ON audit_entries "
            "BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END"
        )
