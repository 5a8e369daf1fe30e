"""The table of supporting roles that are run on episodes which are over."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column, relationship

from .columns import Base, JsonList, JsonObject, id_column, reference
from .models_episodes import EpisodeRequest
from .models_queue import Queued, queue_indexes

__all__ = ["RoleRun"]


class RoleRun(Queued, Base):
    """A grader, reporter or diagnoser of the Coworld, run on one episode: the request, the lease, and what it said."""

    __tablename__ = "role_runs"
    __table_args__ = (
        *queue_indexes("role_runs", Queued.LINE),
        sa.UniqueConstraint("key"),
    )

    id: Mapped[str] = id_column("role")
    episode_request_id: Mapped[str] = reference("episode_requests.id")
    automatic: Mapped[bool] = mapped_column(default=False)
    """Whether its league asked for it, not an account."""
    role: Mapped[str] = mapped_column(sa.String(32))
    """`grader`, `reporter` or `diagnoser`."""
    runnable_id: Mapped[str]
    """Its id in the Coworld's manifest."""
    position: Mapped[int] = mapped_column(default=-1)
    """The slot of the player that is diagnosed; -1 for the whole episode."""
    slots: Mapped[JsonList]
    """The slots whose players' logs and artifacts it was given: only who may read them all may see what it said."""
    key: Mapped[str] = mapped_column(sa.String(64))
    """Digest of the program and of all that it was given: the same work is done once."""
    answer: Mapped[JsonObject | None]
    """What it said: the grade, or the manifest of its report or diagnosis."""
    score: Mapped[float | None]
    """The grade."""
    record: Mapped[JsonObject | None]
    """The runner's `role.json`."""
    output_key: Mapped[str | None] = mapped_column(sa.Text())
    """Place in the artifact store of what it wrote: JSON of a grader, a zip of the others."""
    output_size: Mapped[int] = mapped_column(default=0)
    output_sha256: Mapped[str | None] = mapped_column(sa.String(64))

    episode: Mapped[EpisodeRequest] = relationship(lazy="raise")
