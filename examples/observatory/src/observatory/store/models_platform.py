"""Tables of who (users, players, tokens), what (images, Coworlds, policies), and where (leagues, members)."""

from __future__ import annotations

import datetime as dt

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column, relationship

from .columns import Base, JsonList, JsonObject, id_column, now, reference

__all__ = [
    "AuthCode",
    "Counter",
    "Coworld",
    "CoworldName",
    "CoworldSecret",
    "Division",
    "Event",
    "Game",
    "Idempotent",
    "Image",
    "League",
    "LeagueSeed",
    "Membership",
    "Player",
    "Policy",
    "PolicySecretEnv",
    "PolicyVersion",
    "RegistryBlob",
    "RegistryManifest",
    "RegistryTag",
    "Round",
    "RoundResult",
    "Season",
    "Submission",
    "Token",
    "User",
]


# who


class User(Base):
    """A person with an account."""

    __tablename__ = "users"

    id: Mapped[str] = id_column("user")
    name: Mapped[str] = mapped_column(unique=True)
    email: Mapped[str | None]
    is_team: Mapped[bool] = mapped_column(default=False)
    """May ask for rights over what belongs to others."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    disabled_at: Mapped[dt.datetime | None]
    disabled_reason: Mapped[str | None] = mapped_column(sa.Text())
    """What its tokens are refused with."""
    served_at: Mapped[dt.datetime | None]
    """When a worker last took an episode of theirs: who has waited longest is served next."""
    quotas: Mapped[JsonObject | None]
    """What holds for this account in the place of everybody's quotas (``Quotas``)."""


class Player(Base):
    """An identity under which a user plays."""

    __tablename__ = "players"
    __table_args__ = (sa.UniqueConstraint("user_id", "name"),)

    id: Mapped[str] = id_column("ply")
    user_id: Mapped[str] = reference("users.id")
    name: Mapped[str]
    is_default: Mapped[bool] = mapped_column(default=False)
    avatar_url: Mapped[str | None] = mapped_column(sa.Text())
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    disabled_at: Mapped[dt.datetime | None]


class Token(Base):
    """A secret somebody shows; only its argon2 hash is kept, found by the public id in front of the secret."""

    __tablename__ = "tokens"

    id: Mapped[str] = mapped_column(sa.String(64), primary_key=True)
    kind: Mapped[str] = mapped_column(sa.String(16))
    """``user``, ``player``, ``web`` (a browser's cookie) or ``registry`` (one repository, or all for pulling)."""
    user_id: Mapped[str] = reference("users.id")
    player_id: Mapped[str | None] = reference("players.id")
    hash: Mapped[str]
    label: Mapped[str | None]
    repository: Mapped[str | None]
    """For ``registry``: the repository it is for; null: any."""
    actions: Mapped[str | None]
    """For ``registry``: ``pull`` or ``pull,push``."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    expires_at: Mapped[dt.datetime | None]
    revoked_at: Mapped[dt.datetime | None]


class AuthCode(Base):
    """A sign-in code on its way from a browser to a command line: used once, within minutes."""

    __tablename__ = "auth_codes"

    digest: Mapped[str] = mapped_column(sa.String(64), primary_key=True)
    """SHA-256 of the code."""
    user_id: Mapped[str] = reference("users.id")
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    expires_at: Mapped[dt.datetime]
    used_at: Mapped[dt.datetime | None]


class Idempotent(Base):
    """An answer already given under an ``Idempotency-Key``, written in the transaction of what it answers."""

    __tablename__ = "idempotent_answers"

    subject_id: Mapped[str] = mapped_column(sa.String(64), primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(sa.String(64))
    """SHA-256 of method, path and body: the same key for something else is refused."""
    status: Mapped[int]
    body: Mapped[str] = mapped_column(sa.Text())
    created_at: Mapped[dt.datetime] = mapped_column(default=now, index=True)


class Counter(Base):
    """A number that only grows; whoever takes the next holds it until the end of the transaction."""

    __tablename__ = "counters"

    name: Mapped[str] = mapped_column(sa.String(64), primary_key=True)
    value: Mapped[int] = mapped_column(default=0)


# what: images, coworlds, policies


class Image(Base):
    """A container image somebody uploaded."""

    __tablename__ = "container_images"
    __table_args__ = (sa.UniqueConstraint("user_id", "name", "version"), sa.UniqueConstraint("user_id", "client_hash"))

    id: Mapped[str] = id_column("img")
    user_id: Mapped[str] = reference("users.id")
    name: Mapped[str]
    version: Mapped[int]
    client_hash: Mapped[str]
    status: Mapped[str] = mapped_column(sa.String(16), default="pending")
    """``pending`` until the upload is complete, then ``ready``."""
    repository: Mapped[str] = mapped_column(index=True)
    tag: Mapped[str]
    digest: Mapped[str | None]
    """Digest of the manifest, once complete."""
    public: Mapped[bool] = mapped_column(default=False)
    """Whether anybody may pull it: a Coworld names it."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now, index=True)


class RegistryManifest(Base):
    """An image manifest of a repository; its bytes are a blob on disk."""

    __tablename__ = "registry_manifests"

    repository: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(primary_key=True)
    media_type: Mapped[str]
    size: Mapped[int]
    created_at: Mapped[dt.datetime] = mapped_column(default=now)


class RegistryTag(Base):
    """A tag of a repository."""

    __tablename__ = "registry_tags"

    repository: Mapped[str] = mapped_column(primary_key=True)
    tag: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str]
    updated_at: Mapped[dt.datetime] = mapped_column(default=now)


class RegistryBlob(Base):
    """A blob that belongs to a repository: who may read the repository may read it."""

    __tablename__ = "registry_blobs"

    repository: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(primary_key=True)
    size: Mapped[int]
    created_at: Mapped[dt.datetime] = mapped_column(default=now)


class CoworldName(Base):
    """Who owns a Coworld's name: the first to upload under it."""

    __tablename__ = "coworld_names"

    key: Mapped[str] = mapped_column(primary_key=True)
    """The name in lower case, with ``-`` for ``_``."""
    name: Mapped[str]
    user_id: Mapped[str] = reference("users.id")
    created_at: Mapped[dt.datetime] = mapped_column(default=now)

    user: Mapped[User] = relationship(lazy="joined", innerjoin=True)


class Coworld(Base):
    """One uploaded version of a Coworld."""

    __tablename__ = "coworlds"
    __table_args__ = (sa.UniqueConstraint("name_key", "version"),)

    id: Mapped[str] = id_column("cow")
    name_key: Mapped[str] = mapped_column(sa.ForeignKey("coworld_names.key"), index=True)
    name: Mapped[str]
    version: Mapped[str]
    manifest: Mapped[JsonObject]
    """As uploaded: images are ``img_`` ids or references of elsewhere."""
    manifest_hash: Mapped[str]
    size_bytes: Mapped[int]
    canonical: Mapped[bool] = mapped_column(default=False)
    """Whether it is the version meant by the bare name."""
    user_id: Mapped[str] = reference("users.id")
    visibility: Mapped[str] = mapped_column(sa.String(16), default="public")
    certification: Mapped[JsonObject | None]
    """What the uploader said about certification."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now, index=True)


class CoworldSecret(Base):
    """A secret of a Coworld; its bytes are a private file."""

    __tablename__ = "coworld_secrets"
    __table_args__ = (sa.UniqueConstraint("name_key", "name"),)

    id: Mapped[str] = id_column()
    name_key: Mapped[str] = mapped_column(sa.ForeignKey("coworld_names.key"))
    name: Mapped[str]
    user_id: Mapped[str] = reference("users.id")
    size_bytes: Mapped[int]
    updated_at: Mapped[dt.datetime] = mapped_column(default=now)


class Policy(Base):
    """A named player program of a user; its versions are what plays."""

    __tablename__ = "policies"
    __table_args__ = (sa.UniqueConstraint("user_id", "name"),)

    id: Mapped[str] = id_column()
    user_id: Mapped[str] = reference("users.id")
    name: Mapped[str]
    selection_scope: Mapped[str] = mapped_column(sa.String(32), default="any_request")
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    disabled_at: Mapped[dt.datetime | None]
    """When an operator closed it, all versions."""
    disabled_reason: Mapped[str | None] = mapped_column(sa.Text())


class PolicySecretEnv(Base):
    """Secret environment variables of a policy version; the values are a private file, here are only the names."""

    __tablename__ = "policy_secret_envs"

    id: Mapped[str] = id_column()
    user_id: Mapped[str] = reference("users.id")
    names: Mapped[JsonList]
    created_at: Mapped[dt.datetime] = mapped_column(default=now)


class PolicyVersion(Base):
    """One version of a policy: an image and how to start it."""

    __tablename__ = "policy_versions"
    __table_args__ = (sa.UniqueConstraint("policy_id", "version"),)

    id: Mapped[str] = id_column()
    policy_id: Mapped[str] = reference("policies.id")
    version: Mapped[int]
    user_id: Mapped[str] = reference("users.id")
    player_id: Mapped[str | None] = reference("players.id")
    """The player it was uploaded as; null: the user's own."""
    image_id: Mapped[str] = reference("container_images.id")
    run: Mapped[JsonList | None]
    secret_env_id: Mapped[str | None] = reference("policy_secret_envs.id")
    tags: Mapped[JsonObject | None]
    created_at: Mapped[dt.datetime] = mapped_column(default=now, index=True)
    disabled_at: Mapped[dt.datetime | None]
    """When an operator closed it."""
    disabled_reason: Mapped[str | None] = mapped_column(sa.Text())

    policy: Mapped[Policy] = relationship(lazy="joined", innerjoin=True)
    user: Mapped[User] = relationship(lazy="joined", innerjoin=True)
    player: Mapped[Player | None] = relationship(lazy="joined")
    image: Mapped[Image] = relationship(lazy="raise")


# where: games, leagues, divisions, members


class Game(Base):
    """A Coworld by name, whatever its version."""

    __tablename__ = "games"

    id: Mapped[str] = id_column("game")
    name: Mapped[str]
    slug: Mapped[str]
    name_key: Mapped[str] = mapped_column(sa.ForeignKey("coworld_names.key"), unique=True)
    coworld_id: Mapped[str | None] = reference("coworlds.id")
    """The canonical version."""
    description: Mapped[str | None] = mapped_column(sa.Text())
    created_at: Mapped[dt.datetime] = mapped_column(default=now)


class League(Base):
    """A competition in a game."""

    __tablename__ = "leagues"

    id: Mapped[str] = id_column("league")
    name: Mapped[str] = mapped_column(unique=True)
    slug: Mapped[str]
    game_id: Mapped[str] = reference("games.id")
    variant_id: Mapped[str | None]
    """What is played in it; null: the Coworld's first variant."""
    commissioner_key: Mapped[str | None]
    commissioner_config: Mapped[JsonObject | None]
    public: Mapped[bool] = mapped_column(default=True)
    hidden: Mapped[bool] = mapped_column(default=False)
    is_game_of_week: Mapped[bool] = mapped_column(default=False)
    season: Mapped[int] = mapped_column(default=1)
    """Number of the season that is played, from 1."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    disabled_at: Mapped[dt.datetime | None]
    paused_at: Mapped[dt.datetime | None]
    """Since when an operator has it begin no more rounds."""

    game: Mapped[Game] = relationship(lazy="joined", innerjoin=True)


class Division(Base):
    """A level of a league."""

    __tablename__ = "divisions"
    __table_args__ = (sa.UniqueConstraint("league_id", "level"),)

    id: Mapped[str] = id_column("div")
    name: Mapped[str]
    level: Mapped[int]
    """1 is the first a newcomer is placed in."""
    type: Mapped[str] = mapped_column(sa.String(32), default="competition")
    league_id: Mapped[str] = reference("leagues.id")
    description: Mapped[str | None] = mapped_column(sa.Text())
    hidden: Mapped[bool] = mapped_column(default=False)
    commissioner_description: Mapped[JsonObject | None]
    archived_at: Mapped[dt.datetime | None]
    created_at: Mapped[dt.datetime] = mapped_column(default=now)

    league: Mapped[League] = relationship(lazy="joined", innerjoin=True)


class Membership(Base):
    """A policy version in a division."""

    __tablename__ = "memberships"
    __table_args__ = (
        sa.Index(
            "uq_memberships_live",
            "league_id",
            "policy_version_id",
            unique=True,
            sqlite_where=sa.text("end_time IS NULL"),
            postgresql_where=sa.text("end_time IS NULL"),
        ),
    )

    id: Mapped[str] = id_column("lpm")
    status: Mapped[str] = mapped_column(sa.String(32), default="competing")
    """``qualifying`` (until its check is passed), ``competing``, ``retired`` or ``disqualified``."""
    substatus: Mapped[str | None]
    is_champion: Mapped[bool] = mapped_column(default=False)
    """Whether its owner nominated it; one per owner and league."""
    start_time: Mapped[dt.datetime | None] = mapped_column(default=now)
    end_time: Mapped[dt.datetime | None]
    reason: Mapped[str | None] = mapped_column(sa.Text())
    league_id: Mapped[str] = reference("leagues.id")
    division_id: Mapped[str] = reference("divisions.id")
    policy_version_id: Mapped[str] = reference("policy_versions.id")
    user_id: Mapped[str] = reference("users.id")
    player_id: Mapped[str | None] = reference("players.id")
    created_at: Mapped[dt.datetime] = mapped_column(default=now, index=True)

    division: Mapped[Division] = relationship(lazy="joined", innerjoin=True)
    policy_version: Mapped[PolicyVersion] = relationship(lazy="joined", innerjoin=True)
    player: Mapped[Player | None] = relationship(lazy="joined")


class Submission(Base):
    """A wish to take part in a league, and what became of it."""

    __tablename__ = "submissions"

    id: Mapped[str] = id_column("sub")
    status: Mapped[str] = mapped_column(sa.String(32), default="pending")
    """``pending``, ``processing``, ``placed`` or ``rejected``."""
    auto_champion: Mapped[str] = mapped_column(sa.String(16), default="always")
    preferences: Mapped[JsonObject | None]
    notes: Mapped[str | None] = mapped_column(sa.Text())
    league_id: Mapped[str] = reference("leagues.id")
    policy_version_id: Mapped[str] = reference("policy_versions.id")
    membership_id: Mapped[str | None] = reference("memberships.id")
    user_id: Mapped[str] = reference("users.id")
    player_id: Mapped[str | None] = reference("players.id")
    created_at: Mapped[dt.datetime] = mapped_column(default=now, index=True)

    league: Mapped[League] = relationship(lazy="joined", innerjoin=True)
    policy_version: Mapped[PolicyVersion] = relationship(lazy="joined", innerjoin=True)
    player: Mapped[Player | None] = relationship(lazy="joined")


class Round(Base):
    """A round of a division."""

    __tablename__ = "rounds"
    __table_args__ = (sa.UniqueConstraint("division_id", "round_number"),)

    id: Mapped[str] = id_column("round")
    round_number: Mapped[int]
    commissioner_key: Mapped[str]
    execution_backend: Mapped[str]
    round_config: Mapped[JsonObject]
    round_display: Mapped[JsonObject | None]
    status: Mapped[str] = mapped_column(sa.String(32))
    error: Mapped[str | None] = mapped_column(sa.Text())
    division_id: Mapped[str] = reference("divisions.id")
    season: Mapped[int] = mapped_column(default=1)
    """Number of the league's season that it is of."""
    report: Mapped[JsonObject | None] = mapped_column(deferred=True)
    """How the division stood when it was over (``work.table.Table``); pairs are in the last one alone."""
    state: Mapped[JsonObject | None] = mapped_column(deferred=True)
    """What the table of the next round goes on from; in the last one that is over alone."""
    started_at: Mapped[dt.datetime | None]
    completed_at: Mapped[dt.datetime | None]
    created_at: Mapped[dt.datetime] = mapped_column(default=now, index=True)

    division: Mapped[Division] = relationship(lazy="joined", innerjoin=True)


class Season(Base):
    """A season of a league that is over, as it stood at its end."""

    __tablename__ = "seasons"
    __table_args__ = (sa.UniqueConstraint("league_id", "number"),)

    id: Mapped[str] = id_column("season")
    league_id: Mapped[str] = reference("leagues.id", index=False)
    number: Mapped[int]
    tables: Mapped[JsonList]
    """One object a division, the highest first: ``division_id``, ``division``, and its ``standings``."""
    moves: Mapped[JsonList]
    """Who changed division with its end: ``name``, ``from`` and ``to``."""
    closed_at: Mapped[dt.datetime] = mapped_column(default=now)


class RoundResult(Base):
    """How a policy version did in a round."""

    __tablename__ = "round_results"

    id: Mapped[str] = id_column()
    round_id: Mapped[str] = reference("rounds.id")
    policy_version_id: Mapped[str] = reference("policy_versions.id")
    player_id: Mapped[str | None] = reference("players.id")
    rank: Mapped[int]
    score: Mapped[float]
    result_metadata: Mapped[JsonObject | None]
    created_at: Mapped[dt.datetime] = mapped_column(default=now)

    policy_version: Mapped[PolicyVersion] = relationship(lazy="joined", innerjoin=True)
    player: Mapped[Player | None] = relationship(lazy="joined")


class LeagueSeed(Base):
    """A standing order for a league of a Coworld."""

    __tablename__ = "league_seeds"

    id: Mapped[str] = id_column("lseed")
    coworld_name: Mapped[str]
    template: Mapped[str] = mapped_column(sa.String(64), default="commissioner_driven")
    overrides: Mapped[JsonObject | None]
    enabled: Mapped[bool] = mapped_column(default=True)
    league_key: Mapped[str | None]
    league_name: Mapped[str | None]
    default_variant_id: Mapped[str | None]
    league_id: Mapped[str | None] = reference("leagues.id")
    created_by: Mapped[str] = reference("users.id")
    created_at: Mapped[dt.datetime] = mapped_column(default=now)


class Event(Base):
    """Something that happened in a competition, told to an audience."""

    __tablename__ = "competition_events"

    id: Mapped[str] = id_column("evt")
    event_type: Mapped[str] = mapped_column(sa.String(64), index=True)
    audience: Mapped[str] = mapped_column(sa.String(16), default="public")
    """``public``, or ``owner``: only ``user_id`` and the team see it."""
    user_id: Mapped[str | None] = reference("users.id")
    player_id: Mapped[str | None] = reference("players.id")
    policy_version_id: Mapped[str | None] = reference("policy_versions.id")
    league_id: Mapped[str | None] = reference("leagues.id")
    division_id: Mapped[str | None] = reference("divisions.id")
    round_id: Mapped[str | None] = reference("rounds.id")
    headline: Mapped[str] = mapped_column(sa.Text())
    summary: Mapped[str] = mapped_column(sa.Text(), default="")
    payload: Mapped[JsonObject] = mapped_column(default=dict)
    created_at: Mapped[dt.datetime] = mapped_column(default=now, index=True)

    player: Mapped[Player | None] = relationship(lazy="joined")
    policy_version: Mapped[PolicyVersion | None] = relationship(lazy="joined")
    league: Mapped[League | None] = relationship(lazy="joined")
    division: Mapped[Division | None] = relationship(lazy="joined")
