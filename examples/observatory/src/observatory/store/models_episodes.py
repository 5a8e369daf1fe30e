"""Tables of what happened: experience requests, episodes, scores, artifacts, hosted sessions."""

from __future__ import annotations

import datetime as dt

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, foreign, mapped_column, relationship

from .columns import Base, JsonObject, id_column, now, reference
from .models_platform import Coworld, User

__all__ = [
    "Artifact",
    "EpisodeRequest",
    "EpisodeScore",
    "ExperienceRequest",
    "GameConfig",
    "HostedSession",
    "Participant",
    "Tally",
]


class ExperienceRequest(Base):
    """A wish for a number of episodes; its counts are those of its children."""

    __tablename__ = "experience_requests"

    id: Mapped[str] = id_column("xreq")
    user_id: Mapped[str] = reference("users.id")
    player_id: Mapped[str | None] = reference("players.id")
    coworld_id: Mapped[str] = reference("coworlds.id")
    variant_id: Mapped[str | None]
    league_id: Mapped[str | None] = reference("leagues.id")
    division_id: Mapped[str | None] = reference("divisions.id")
    body: Mapped[JsonObject]
    """What was asked for, as it came."""
    status: Mapped[str] = mapped_column(sa.String(32), default="pending", index=True)
    """``pending``, ``running``, ``completed``, ``failed`` or ``cancelled``."""
    episode_count: Mapped[int]
    title: Mapped[str | None]
    description: Mapped[str | None] = mapped_column(sa.Text())
    error: Mapped[str | None] = mapped_column(sa.Text())
    cancelled_at: Mapped[dt.datetime | None]
    started_at: Mapped[dt.datetime | None]
    completed_at: Mapped[dt.datetime | None]
    revision: Mapped[int] = mapped_column(default=0, index=True)
    """Number of its last change (``database.next_revision``)."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now, index=True)

    coworld: Mapped[Coworld] = relationship(lazy="raise")
    user: Mapped[User] = relationship(lazy="raise")


class GameConfig(Base):
    """What the configs of a request's episodes have in common; each episode keeps the rest."""

    __tablename__ = "game_configs"

    id: Mapped[str] = id_column("cfg")
    config: Mapped[JsonObject]
    size: Mapped[int]
    """Of the config as JSON, in bytes."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now)


class EpisodeRequest(Base):
    """One episode: asked for, claimed by a worker under a lease, and how it ended.

    A worker claims a ``pending`` row by writing ``lease_token`` and ``lease_expires_at``, and finishes it in one
    transaction that asks for the same token: whoever lost the lease changes nothing.
    """

    __tablename__ = "episode_requests"
    __table_args__ = (
        sa.Index("ix_episode_requests_queue", "status", "priority", "created_at", "index"),
        sa.Index("ix_episode_requests_newest", "created_at", "id"),
        *(
            sa.Index(f"ix_episode_requests_{of}_newest", f"{of}_id", "created_at", "id")
            for of in ("league", "division", "coworld")
        ),
    )

    id: Mapped[str] = id_column("ereq")
    user_id: Mapped[str] = reference("users.id")
    player_id: Mapped[str | None] = reference("players.id")
    source: Mapped[str] = mapped_column(sa.String(32), default="request")
    """``experience``, ``request``, ``coworld_upload``, ``round``, ``qualification`` or ``play``."""
    experience_request_id: Mapped[str | None] = reference("experience_requests.id")
    index: Mapped[int] = mapped_column(default=0)
    """Its place among the episodes it was asked for with, from 0."""
    round_id: Mapped[str | None] = reference("rounds.id")
    """The league's own round that it is of. Never taken from a request: only such episodes count in standings."""
    league_id: Mapped[str | None] = reference("leagues.id", index=False)
    division_id: Mapped[str | None] = reference("divisions.id", index=False)
    coworld_id: Mapped[str] = reference("coworlds.id", index=False)
    variant_id: Mapped[str | None]
    own_config: Mapped[JsonObject] = mapped_column("game_config")
    """The keys of its config that ``shared`` has otherwise or not at all."""
    config_id: Mapped[str | None] = mapped_column(sa.String(64))
    """Of ``shared``. No foreign key: SQLite can add none to a table that others refer to."""
    seed: Mapped[int | None]
    max_steps: Mapped[int | None]

    status: Mapped[str] = mapped_column(sa.String(32), default="pending")
    """``pending``, ``running``, then ``completed``, ``failed`` or ``cancelled``."""
    priority: Mapped[int] = mapped_column(default=0)
    """Lower goes first."""
    attempts: Mapped[int] = mapped_column(default=0)
    lease_token: Mapped[str | None] = mapped_column(sa.String(64))
    lease_owner: Mapped[str | None]
    lease_expires_at: Mapped[dt.datetime | None] = mapped_column(index=True)
    run_id: Mapped[str | None]
    """Label of what the last attempt created, for reaping after a crash."""

    job_id: Mapped[str | None] = mapped_column(sa.String(64), index=True)
    episode_id: Mapped[str | None] = mapped_column(sa.String(64), index=True)
    live_url: Mapped[str | None] = mapped_column(sa.Text())
    error_type: Mapped[str | None] = mapped_column(sa.String(64))
    error: Mapped[str | None] = mapped_column(sa.Text())
    failed_policy_index: Mapped[int | None]
    failed_agent_index: Mapped[int | None]
    steps: Mapped[int | None]
    stats: Mapped[JsonObject | None]
    """``game_stats`` and ``policy_stats`` as the API gives them."""
    record: Mapped[JsonObject | None]
    """The runner's ``episode.json``."""

    started_at: Mapped[dt.datetime | None]
    completed_at: Mapped[dt.datetime | None] = mapped_column(index=True)
    pruned_at: Mapped[dt.datetime | None]
    """When its replay, logs and players' files were thrown away."""
    revision: Mapped[int] = mapped_column(default=0, index=True)
    """Number of its last change (``database.next_revision``)."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now)

    shared: Mapped[GameConfig | None] = relationship(
        lazy="selectin", primaryjoin=lambda: foreign(EpisodeRequest.config_id) == GameConfig.id
    )
    participants: Mapped[list[Participant]] = relationship(
        lazy="selectin", order_by="Participant.position", viewonly=True
    )
    scores: Mapped[list[EpisodeScore]] = relationship(lazy="selectin", order_by="EpisodeScore.position", viewonly=True)
    artifacts: Mapped[list[Artifact]] = relationship(lazy="selectin", order_by="Artifact.position", viewonly=True)

    @property
    def game_config(self) -> JsonObject:
        """The whole config without tokens."""
        return {**self.shared.config, **self.own_config} if self.shared is not None else self.own_config

    @game_config.setter
    def game_config(self, config: JsonObject) -> None:
        self.own_config = config


class Participant(Base):
    """Who sits in a slot; names are kept as they were then."""

    __tablename__ = "participants"

    episode_request_id: Mapped[str] = reference("episode_requests.id", index=False, primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    policy_version_id: Mapped[str | None] = reference("policy_versions.id")
    policy_id: Mapped[str | None] = reference("policies.id", index=False)
    policy_name: Mapped[str]
    version: Mapped[int] = mapped_column(default=1)
    user_id: Mapped[str | None] = reference("users.id")
    player_id: Mapped[str | None] = reference("players.id")
    player_name: Mapped[str | None]
    """Of the player, or of the account that plays without one."""
    bundled_player: Mapped[str | None]
    """Id of an entry of the manifest's ``player``, when no policy sits here; without either, it is a person."""


class EpisodeScore(Base):
    """A slot's score in an episode that finished; ``Tally`` has the sums of those that count in a division's table."""

    __tablename__ = "episode_scores"
    __table_args__ = (sa.Index("ix_episode_scores_division_finished", "division_id", "finished_at"),)

    episode_request_id: Mapped[str] = reference("episode_requests.id", index=False, primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    policy_version_id: Mapped[str | None] = reference("policy_versions.id")
    user_id: Mapped[str | None] = reference("users.id")
    player_id: Mapped[str | None] = reference("players.id")
    division_id: Mapped[str | None] = reference("divisions.id", index=False)
    """In whose table it counts: the division whose round the episode was; None for what anybody has asked for."""
    score: Mapped[float]
    finished_at: Mapped[dt.datetime] = mapped_column(default=now)


class Tally(Base):
    """What a policy version has made in a division's table, kept up with every episode: what leaderboards show."""

    __tablename__ = "tallies"

    division_id: Mapped[str] = reference("divisions.id", index=False, primary_key=True)
    policy_version_id: Mapped[str] = reference("policy_versions.id", index=False, primary_key=True)
    subject_id: Mapped[str] = mapped_column(sa.String(64), primary_key=True)
    """The player it played for, or the user who plays without one."""
    user_id: Mapped[str] = reference("users.id", index=False)
    player_id: Mapped[str | None] = reference("players.id", index=False)
    episodes: Mapped[int]
    total: Mapped[float]
    """Sum of the scores."""


class Artifact(Base):
    """Something an episode left; its bytes are in the artifact store under ``key``."""

    __tablename__ = "artifacts"
    __table_args__ = (sa.UniqueConstraint("episode_request_id", "kind", "position"),)

    id: Mapped[str] = id_column("art")
    episode_request_id: Mapped[str] = reference("episode_requests.id")
    kind: Mapped[str] = mapped_column(sa.String(32))
    """``results``, ``replay``, ``events``, ``error_info``, ``game_logs``, ``player_logs`` or ``player_artifact``."""
    position: Mapped[int] = mapped_column(default=-1)
    """The slot it belongs to; -1: the whole episode."""
    key: Mapped[str] = mapped_column(sa.Text())
    media_type: Mapped[str]
    encoding: Mapped[str] = mapped_column(sa.String(16), default="identity")
    """``identity`` or ``zlib``: how the stored bytes are packed."""
    size: Mapped[int]
    """Of the stored bytes."""
    sha256: Mapped[str] = mapped_column(sa.String(64))
    """Of the stored bytes, in hexadecimal."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now)


class HostedSession(Base):
    """A game or a replay that runs for people to watch or play."""

    __tablename__ = "hosted_sessions"

    id: Mapped[str] = id_column("cps")
    kind: Mapped[str] = mapped_column(sa.String(16))
    """``play`` or ``replay``."""
    user_id: Mapped[str | None] = reference("users.id")
    coworld_id: Mapped[str] = reference("coworlds.id")
    variant_id: Mapped[str | None]
    episode_request_id: Mapped[str | None] = reference("episode_requests.id")
    status: Mapped[str] = mapped_column(sa.String(32), default="starting")
    state: Mapped[JsonObject] = mapped_column(default=dict)
    """Addresses, slots and who sits in them."""
    run_id: Mapped[str | None]
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    expires_at: Mapped[dt.datetime | None]
    ended_at: Mapped[dt.datetime | None]
