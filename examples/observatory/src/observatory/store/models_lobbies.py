"""The table of lobbies."""

from __future__ import annotations

import datetime as dt

from sqlalchemy.orm import Mapped, mapped_column, relationship

from .columns import Base, JsonList, JsonObject, id_column, now, reference
from .models_episodes import HostedSession
from .models_platform import Coworld, Player, User

__all__ = ["Lobby"]


class Lobby(Base):
    """A draft of a game that people and policies play together, and its hosted session once it has started."""

    __tablename__ = "lobbies"

    id: Mapped[str] = id_column("lby")
    league_id: Mapped[str] = reference("leagues.id")
    """The league whose champions can be seated. Its standings do not count the game."""
    coworld_id: Mapped[str] = reference("coworlds.id")
    user_id: Mapped[str] = reference("users.id")
    """The host."""
    player_id: Mapped[str | None] = reference("players.id")
    """The player as which the host drafted it."""
    variant_id: Mapped[str]
    overrides: Mapped[JsonObject]
    """Keys of the game config that replace the variant's."""
    seats: Mapped[JsonList]
    """Its seats by position, as `hosted.lobbies.LobbySeat` writes them."""
    revision: Mapped[int] = mapped_column(default=1)
    """Grows with each change."""
    start_key: Mapped[str | None]
    """The idempotency key of the request that started it."""
    session_id: Mapped[str | None] = reference("hosted_sessions.id")
    """Its game; null until it is started."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    started_at: Mapped[dt.datetime | None]
    cancelled_at: Mapped[dt.datetime | None]
    expires_at: Mapped[dt.datetime] = mapped_column(index=True)
    """When it can no longer be started."""

    coworld: Mapped[Coworld] = relationship(lazy="joined", innerjoin=True)
    user: Mapped[User] = relationship(lazy="joined", innerjoin=True)
    player: Mapped[Player | None] = relationship(lazy="joined")
    session: Mapped[HostedSession | None] = relationship(lazy="joined")
