"""Labels of episodes, experience requests, policy versions and Coworlds.

Revision: 0015, after 0014.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_VERSIONS = sa.table("policy_versions", sa.column("id"), sa.column("tags", sa.JSON(none_as_null=True)))
_LABELS = sa.table("labels", sa.column("subject_id"), sa.column("name"), sa.column("value"))


def upgrade() -> None:
    """Create the table, and move the tags of policy versions there."""
    op.create_table(
        "labels",
        sa.Column("subject_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("value", sa.String(length=256), nullable=True),
        sa.PrimaryKeyConstraint("subject_id", "name", name=op.f("pk_labels")),
    )
    op.create_index("ix_labels_name_value", "labels", ["name", "value"])
    rows = op.get_bind().execute(sa.select(_VERSIONS.c.id, _VERSIONS.c.tags).where(_VERSIONS.c.tags.is_not(None)))
    kept = [{"subject_id": id, "name": name, "value": value} for id, tags in rows.all() for name, value in tags.items()]
    if kept:
        op.bulk_insert(_LABELS, kept)
    op.drop_column("policy_versions", "tags")


def downgrade() -> None:
    """Move the labels of policy versions back, and drop the table with all others."""
    op.add_column("policy_versions", sa.Column("tags", sa.JSON(none_as_null=True), nullable=True))
    connection = op.get_bind()
    tags: dict[str, dict[str, str]] = {}
    of_versions = sa.select(_LABELS).where(_LABELS.c.subject_id.in_(sa.select(_VERSIONS.c.id)))
    for id, name, value in connection.execute(of_versions):
        tags.setdefault(id, {})[name] = value
    for id, values in tags.items():
        connection.execute(sa.update(_VERSIONS).where(_VERSIONS.c.id == id).values(tags=values))
    op.drop_table("labels")
