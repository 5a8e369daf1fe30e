"""Tables of experience requests, episodes, scores, artifacts and hosted sessions."""

from __future__ import annotations

import datetime as dt

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, foreign, mapped_column, relationship

from .columns import Base, JsonObject, id_column, now, reference
from .models_platform import Coworld, User
from .models_queue import Queued, queue_indexes

__all__ = [
    "CHECK",
    "COWORLD_UPLOAD",
    "FINAL_STATUSES",
    "Artifact",
    "EpisodeRequest",
    "EpisodeScore",
    "ExperienceRequest",
    "GameConfig",
    "HostedSession",
    "Participant",
    "Tally",
]

FINAL_STATUSES = ("completed", "failed", "cancelled")
"""The `EpisodeRequest.status` of an episode that is over."""
CHECK = "qualification"
"""`EpisodeRequest.source` of the episode in which a newcomer to a league plays against itself."""
COWORLD_UPLOAD = "coworld_upload"
"""The `EpisodeRequest.source` of an episode that checks an uploaded Coworld."""


class ExperienceRequest(Base):
    """A request for a number of episodes."""

    __tablename__ = "experience_requests"

    id: Mapped[str] = id_column("xreq")
    user_id: Mapped[str] = reference("users.id")
    player_id: Mapped[str | None] = reference("players.id")
    coworld_id: Mapped[str] = reference("coworlds.id")
    variant_id: Mapped[str | None]
    league_id: Mapped[str | None] = reference("leagues.id")
    division_id: Mapped[str | None] = reference("divisions.id")
    body: Mapped[JsonObject]
    """The request body as received."""
    status: Mapped[str] = mapped_column(sa.String(32), default="pending", index=True)
    """`pending`, `running`, `completed`, `failed` or `cancelled`."""
    episode_count: Mapped[int]
    title: Mapped[str | None]
    description: Mapped[str | None] = mapped_column(sa.Text())
    error: Mapped[str | None] = mapped_column(sa.Text())
    cancelled_at: Mapped[dt.datetime | None]
    started_at: Mapped[dt.datetime | None]
    completed_at: Mapped[dt.datetime | None]
    revision: Mapped[int] = mapped_column(default=0, index=True)
    """Number of its last change (`database.next_revision`)."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now, index=True)

    coworld: Mapped[Coworld] = relationship(lazy="raise")
    user: Mapped[User] = relationship(lazy="raise")


class GameConfig(Base):
    """The part of a config that all episodes of a request share; each episode stores the rest."""

    __tablename__ = "game_configs"

    id: Mapped[str] = id_column("cfg")
    config: Mapped[JsonObject]
    size: Mapped[int]
    """Size of the config as JSON, in bytes."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now)


class EpisodeRequest(Queued, Base):
    """One episode: the request, the lease of the worker that plays it, and the outcome."""

    __tablename__ = "episode_requests"
    __table_args__ = (
        *queue_indexes("episode_requests", ("source", *Queued.LINE)),
        sa.Index("ix_episode_requests_newest", "created_at", "id"),
        *(
            sa.Index(f"ix_episode_requests_{of}_newest", f"{of}_id", "created_at", "id")
            for of in ("league", "division", "coworld")
        ),
    )

    LINE = ("source", *Queued.LINE)

    id: Mapped[str] = id_column("ereq")
    player_id: Mapped[str | None] = reference("players.id")
    source: Mapped[str] = mapped_column(sa.String(32), default="request")
    """`experience`, `request`, `coworld_upload`, `round`, `qualification` or `play`."""
    experience_request_id: Mapped[str | None] = reference("experience_requests.id")
    round_id: Mapped[str | None] = reference("rounds.id")
    """The league's round that scheduled it. Never set by a request: only such episodes count in standings."""
    league_id: Mapped[str | None] = reference("leagues.id", index=False)
    division_id: Mapped[str | None] = reference("divisions.id", index=False)
    coworld_id: Mapped[str] = reference("coworlds.id", index=False)
    variant_id: Mapped[str | None]
    own_config: Mapped[JsonObject] = mapped_column("game_config")
    """The keys of its config that differ from `shared` or are missing there."""
    config_id: Mapped[str | None] = mapped_column(sa.String(64))
    """Id of `shared`. Not a foreign key: SQLite cannot add one to a table that others reference."""
    seed: Mapped[int | None]
    max_steps: Mapped[int | None]
    traceparent: Mapped[str | None] = mapped_column(sa.String(64))
    """The span of the request that asked for it, as in W3C's header of that name; None if it is not traced."""

    job_id: Mapped[str | None] = mapped_column(sa.String(64), index=True)
    episode_id: Mapped[str | None] = mapped_column(sa.String(64), index=True)
    live_url: Mapped[str | None] = mapped_column(sa.Text())
    failed_policy_index: Mapped[int | None]
    failed_agent_index: Mapped[int | None]
    """The seat whose policy could not be played on this platform, which is no fault of the policy."""
    steps: Mapped[int | None]
    stats: Mapped[JsonObject | None]
    """`game_stats` and `policy_stats` as in the API."""
    record: Mapped[JsonObject | None]
    """The runner's `episode.json`."""

    pruned_at: Mapped[dt.datetime | None]
    """When its replay, logs and players' files were removed."""
    revision: Mapped[int] = mapped_column(default=0, index=True)
    """Number of its last change (`database.next_revision`)."""

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
    """The occupant of a slot, with names as of that time."""

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
    """Name of the player, or of the account if it plays without one."""
    bundled_player: Mapped[str | None]
    """Id of a player in the manifest, if no policy sits here; if both are missing, it is a person."""


class EpisodeScore(Base):
    """A slot's score in a finished episode; `Tally` has the sums of the scores that count in a division's table."""

    __tablename__ = "episode_scores"
    __table_args__ = (sa.Index("ix_episode_scores_division_finished", "division_id", "finished_at"),)

    episode_request_id: Mapped[str] = reference("episode_requests.id", index=False, primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    policy_version_id: Mapped[str | None] = reference("policy_versions.id")
    user_id: Mapped[str | None] = reference("users.id")
    player_id: Mapped[str | None] = reference("players.id")
    division_id: Mapped[str | None] = reference("divisions.id", index=False)
    """The division in whose table it counts: that of the episode's round; None for requested episodes."""
    score: Mapped[float]
    finished_at: Mapped[dt.datetime] = mapped_column(default=now)


class Tally(Base):
    """The total of a policy version in a division's table, updated with every episode; shown by leaderboards."""

    __tablename__ = "tallies"

    division_id: Mapped[str] = reference("divisions.id", index=False, primary_key=True)
    policy_version_id: Mapped[str] = reference("policy_versions.id", index=False, primary_key=True)
    subject_id: Mapped[str] = mapped_column(sa.String(64), primary_key=True)
    """The player, or the user if it plays without one."""
    user_id: Mapped[str] = reference("users.id", index=False)
    player_id: Mapped[str | None] = reference("players.id", index=False)
    episodes: Mapped[int]
    total: Mapped[float]
    """Sum of the scores."""


class Artifact(Base):
    """An artifact of an episode; its bytes are in the artifact store under `key`."""

    __tablename__ = "artifacts"
    __table_args__ = (sa.UniqueConstraint("episode_request_id", "kind", "position"),)

    id: Mapped[str] = id_column("art")
    episode_request_id: Mapped[str] = reference("episode_requests.id")
    kind: Mapped[str] = mapped_column(sa.String(32))
    """`results`, `replay`, `events`, `error_info`, `game_logs`, `player_logs` or `player_artifact`."""
    position: Mapped[int] = mapped_column(default=-1)
    """The slot; -1 for the whole episode."""
    key: Mapped[str] = mapped_column(sa.Text())
    media_type: Mapped[str]
    encoding: Mapped[str] = mapped_column(sa.String(16), default="identity")
    """`identity` or `zlib`: the compression of the stored bytes."""
    size: Mapped[int]
    """Of the stored bytes."""
    sha256: Mapped[str] = mapped_column(sa.String(64))
    """Of the stored bytes, in hexadecimal."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now)


class HostedSession(Base):
    """A running game or replay for people to play or watch."""

    __tablename__ = "hosted_sessions"

    id: Mapped[str] = id_column("cps")
    kind: Mapped[str] = mapped_column(sa.String(16))
    """`play` or `replay`."""
    user_id: Mapped[str | None] = reference("users.id")
    coworld_id: Mapped[str] = reference("coworlds.id")
    variant_id: Mapped[str | None]
    episode_request_id: Mapped[str | None] = reference("episode_requests.id")
    status: Mapped[str] = mapped_column(sa.String(32), default="starting")
    state: Mapped[JsonObject] = mapped_column(default=dict)
    """Addresses, slots and their occupants."""
    run_id: Mapped[str | None]
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    expires_at: Mapped[dt.datetime | None]
    ended_at: Mapped[dt.datetime | None]
