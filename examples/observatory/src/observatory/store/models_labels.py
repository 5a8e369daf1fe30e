"""The table of labels."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from .columns import Base

__all__ = ["Label"]


class Label(Base):
    """A label of an episode, an experience request, a policy version or a Coworld."""

    __tablename__ = "labels"
    __table_args__ = (sa.Index("ix_labels_name_value", "name", "value"),)

    subject_id: Mapped[str] = mapped_column(sa.String(64), primary_key=True)
    """Id of what is labelled; ids of different tables never agree."""
    name: Mapped[str] = mapped_column(sa.String(256), primary_key=True)
    value: Mapped[str | None]
    """Null: taken from an episode, whose experience request has it."""
