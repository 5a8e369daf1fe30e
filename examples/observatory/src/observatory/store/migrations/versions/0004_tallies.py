"""Leaderboards are read from stored sums; lists of a league, division or Coworld are read in the order of an index.

Revision: 0004, after 0003.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_LISTED = ("league", "division", "coworld")


def upgrade() -> None:
    """Create the sums from the existing scores, and the indexes."""
    references = {"division_id": "divisions", "policy_version_id": "policy_versions", "user_id": "users"}
    op.create_table(
        "tallies",
        *(sa.Column(name, sa.String(length=64), nullable=False) for name in (*references, "subject_id")),
        sa.Column("player_id", sa.String(length=64), nullable=True),
        sa.Column("episodes", _NUMBER, nullable=False),
        sa.Column("total", sa.Double[float](), nullable=False),
        *(
            sa.ForeignKeyConstraint([name], [f"{table}.id"], name=f"fk_tallies_{name}")
            for name, table in {**references, "player_id": "players"}.items()
        ),
        sa.PrimaryKeyConstraint("division_id", "policy_version_id", "subject_id", name="pk_tallies"),
    )
    columns = ("division_id", "policy_version_id", "user_id", "player_id")
    scores = sa.table("episode_scores", *map(sa.column, (*columns, "score")))
    who = [scores.c[name] for name in columns]
    subject = sa.func.coalesce(scores.c.player_id, scores.c.user_id)
    summed = (
        sa.select(*who, subject, sa.func.count(), sa.func.sum(scores.c.score))
        .where(*(column.is_not(None) for column in who[:3]))
        .group_by(*who)
    )
    tallies = sa.table("tallies", *map(sa.column, (*columns, "subject_id", "episodes", "total")))
    op.execute(sa.insert(tallies).from_select([column.name for column in tallies.columns], summed))
    for name in _LISTED:
        old = "ix_episode_requests_division_newest" if name == "division" else f"ix_episode_requests_{name}_id"
        op.drop_index(old, "episode_requests")
        op.create_index(f"ix_episode_requests_{name}_newest", "episode_requests", [f"{name}_id", "created_at", "id"])


def downgrade() -> None:
    """Drop the sums and restore the earlier indexes."""
    for name in _LISTED:
        op.drop_index(f"ix_episode_requests_{name}_newest", "episode_requests")
        of_division = ("ix_episode_requests_division_newest", ["division_id", "created_at"])
        old, columns = of_division if name == "division" else (f"ix_episode_requests_{name}_id", [f"{name}_id"])
        op.create_index(old, "episode_requests", columns)
    op.drop_table("tallies")
