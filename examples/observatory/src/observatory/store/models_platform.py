"""Tables of identities (users, players, tokens), programs (images, Coworlds, policies) and leagues."""

from __future__ import annotations

import datetime as dt

import sqlalchemy as sa
from sqlalchemy.engine.default import DefaultExecutionContext
from sqlalchemy.orm import Mapped, column_property, mapped_column, relationship

from .columns import Base, JsonList, JsonObject, id_column, now, reference
from .models_teams import LeagueOfficer, TeamMember

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
    "ImageChain",
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


# Identities


class User(Base):
    """An account: a person, or a team of several who act for it."""

    __tablename__ = "users"

    id: Mapped[str] = id_column("user")
    name: Mapped[str] = mapped_column(unique=True)
    email: Mapped[str | None]
    is_team: Mapped[bool] = mapped_column(default=False)
    """Whether the user may ask for rights over other accounts' resources."""
    is_shared: Mapped[bool] = mapped_column(default=False)
    """Whether it is a team of several (`TeamMember`), which has no tokens: they act for it with their own."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    disabled_at: Mapped[dt.datetime | None]
    disabled_reason: Mapped[str | None] = mapped_column(sa.Text())
    """The reason given when its tokens are refused."""
    served_at: Mapped[dt.datetime | None]
    """When a worker last took an episode of the account; the account that has waited longest is next."""
    quotas: Mapped[JsonObject | None]
    """Quotas of this account that replace the defaults (`Quotas`)."""
    teams: Mapped[str | None] = column_property(
        sa.select(sa.func.aggregate_strings(TeamMember.team_id, " "))
        .where(TeamMember.user_id == id)
        .correlate_except(TeamMember)
        .scalar_subquery(),
        deferred=True,
    )
    """Ids of the teams for which the account may act, with spaces between them."""
    offices: Mapped[str | None] = column_property(
        sa.select(sa.func.aggregate_strings(LeagueOfficer.league_id + ":" + LeagueOfficer.role, " "))
        .where(LeagueOfficer.user_id == id)
        .correlate_except(LeagueOfficer)
        .scalar_subquery(),
        deferred=True,
    )
    """The leagues that the account helps to run, as `id:role`, with spaces between them."""


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
    """A token; only the argon2 hash of its secret is stored, found by the public id in front of the secret."""

    __tablename__ = "tokens"

    id: Mapped[str] = mapped_column(sa.String(64), primary_key=True)
    kind: Mapped[str] = mapped_column(sa.String(16))
    """`user`, `player`, `web` (a browser's cookie) or `registry` (one repository, or all for pulling)."""
    user_id: Mapped[str] = reference("users.id")
    player_id: Mapped[str | None] = reference("players.id")
    hash: Mapped[str]
    label: Mapped[str | None]
    repository: Mapped[str | None]
    """For `registry`: its repository; null: any."""
    actions: Mapped[str | None]
    """For `registry`: `pull` or `pull,push`."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    expires_at: Mapped[dt.datetime | None]
    revoked_at: Mapped[dt.datetime | None]


class AuthCode(Base):
    """A sign-in code, passed from a browser to a command line or in a link of an invitation; valid once, for a time."""

    __tablename__ = "auth_codes"

    digest: Mapped[str] = mapped_column(sa.String(64), primary_key=True)
    """SHA-256 of the code."""
    user_id: Mapped[str] = reference("users.id")
    """Who signs in by it; for an invitation into a team, the member who made it."""
    team_id: Mapped[str | None] = reference("users.id")
    """For an invitation into a team: the team. Nobody signs in by it."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    expires_at: Mapped[dt.datetime]
    used_at: Mapped[dt.datetime | None]


class Idempotent(Base):
    """An answer given under an `Idempotency-Key`, stored in the transaction of its request."""

    __tablename__ = "idempotent_answers"

    subject_id: Mapped[str] = mapped_column(sa.String(64), primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(sa.String(64))
    """SHA-256 of method, path and body; the same key with another request is refused."""
    status: Mapped[int]
    body: Mapped[str] = mapped_column(sa.Text())
    created_at: Mapped[dt.datetime] = mapped_column(default=now, index=True)


class Counter(Base):
    """A number that only grows; taking the next one locks it until the end of the transaction."""

    __tablename__ = "counters"

    name: Mapped[str] = mapped_column(sa.String(64), primary_key=True)
    value: Mapped[int] = mapped_column(default=0)


# Programs: images, coworlds, policies


class Image(Base):
    """An uploaded container image."""

    __tablename__ = "container_images"
    __table_args__ = (sa.UniqueConstraint("user_id", "name", "version"), sa.UniqueConstraint("user_id", "client_hash"))

    id: Mapped[str] = id_column("img")
    user_id: Mapped[str] = reference("users.id")
    name: Mapped[str]
    version: Mapped[int]
    client_hash: Mapped[str]
    status: Mapped[str] = mapped_column(sa.String(16), default="pending")
    """`pending` until the upload is complete, then `ready`."""
    repository: Mapped[str] = mapped_column(index=True)
    tag: Mapped[str]
    digest: Mapped[str | None]
    """Digest of the manifest, once complete."""
    layers: Mapped[str | None] = mapped_column(sa.Text())
    """Digests of its layers, lowest first, each followed by a space. None: not known, as of files and of indexes."""
    public: Mapped[bool] = mapped_column(default=False)
    """Whether anyone may pull it, because a Coworld names it."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now, index=True)

    @property
    def content(self) -> str:
        """What tells whether two images are the same: if one's begins with the other's, it has all its layers."""
        return self.layers or self.digest or ""


class ImageChain(Base):
    """A layer of a complete image on top of those below it, which is how engines keep and share what they unpack."""

    __tablename__ = "image_chains"

    image_id: Mapped[str] = reference("container_images.id", primary_key=True, index=False)
    chain: Mapped[str] = mapped_column(sa.String(64), primary_key=True)
    """SHA-256 of the chain below and the layer's digest."""
    digest: Mapped[str]
    """Of the layer."""
    size: Mapped[int]
    """Of the layer, unpacked if that is more."""


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
    """When it was last pushed, or found to be there by somebody who would have pushed it."""


class RegistryBlob(Base):
    """A blob of a repository, readable by anyone who may read the repository."""

    __tablename__ = "registry_blobs"

    repository: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(primary_key=True)
    size: Mapped[int]
    """In bytes, unpacked if that is more (older rows: as pushed)."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now)


class CoworldName(Base):
    """The owner of a Coworld's name: the first account to upload under it."""

    __tablename__ = "coworld_names"

    key: Mapped[str] = mapped_column(primary_key=True)
    """The name in lower case, with `-` for `_`."""
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
    """As uploaded: images are `img_` ids or references to other registries."""
    manifest_hash: Mapped[str]
    size_bytes: Mapped[int]
    canonical: Mapped[bool] = mapped_column(default=False)
    """Whether the name without a version means this version."""
    user_id: Mapped[str] = reference("users.id")
    visibility: Mapped[str] = mapped_column(sa.String(16), default="public")
    certification: Mapped[JsonObject | None]
    """The certification result given by the uploader."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now, index=True)


class CoworldSecret(Base):
    """A secret of a Coworld."""

    __tablename__ = "coworld_secrets"
    __table_args__ = (sa.UniqueConstraint("name_key", "name"),)

    id: Mapped[str] = id_column()
    name_key: Mapped[str] = mapped_column(sa.ForeignKey("coworld_names.key"))
    name: Mapped[str]
    user_id: Mapped[str] = reference("users.id")
    size_bytes: Mapped[int]
    sealed: Mapped[bytes] = mapped_column(deferred=True)
    """Its value, encrypted by the vault."""
    updated_at: Mapped[dt.datetime] = mapped_column(default=now)


class Policy(Base):
    """A named player program of a user; its versions play."""

    __tablename__ = "policies"
    __table_args__ = (sa.UniqueConstraint("user_id", "name"),)

    id: Mapped[str] = id_column()
    user_id: Mapped[str] = reference("users.id")
    name: Mapped[str]
    selection_scope: Mapped[str] = mapped_column(sa.String(32), default="any_request")
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    disabled_at: Mapped[dt.datetime | None]
    """When an operator closed all its versions."""
    disabled_reason: Mapped[str | None] = mapped_column(sa.Text())


class PolicySecretEnv(Base):
    """A policy version's secret environment variables."""

    __tablename__ = "policy_secret_envs"

    id: Mapped[str] = id_column()
    user_id: Mapped[str] = reference("users.id")
    names: Mapped[JsonList]
    sealed: Mapped[bytes] = mapped_column(deferred=True)
    """Their names and values as JSON, encrypted by the vault."""
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
    """The player that uploaded it; null: the user."""
    image_id: Mapped[str] = reference("container_images.id")
    run: Mapped[JsonList | None]
    secret_env_id: Mapped[str | None] = reference("policy_secret_envs.id")
    created_at: Mapped[dt.datetime] = mapped_column(default=now, index=True)
    disabled_at: Mapped[dt.datetime | None]
    """When an operator closed it."""
    disabled_reason: Mapped[str | None] = mapped_column(sa.Text())

    policy: Mapped[Policy] = relationship(lazy="joined", innerjoin=True)
    user: Mapped[User] = relationship(lazy="joined", innerjoin=True)
    player: Mapped[Player | None] = relationship(lazy="joined")
    image: Mapped[Image] = relationship(lazy="raise")


# Competitions: games, leagues, divisions, members


class Game(Base):
    """A Coworld with all its versions."""

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
    """The variant to play; null: the Coworld's first."""
    commissioner_key: Mapped[str | None]
    commissioner_config: Mapped[JsonObject | None]
    public: Mapped[bool] = mapped_column(default=True)
    hidden: Mapped[bool] = mapped_column(default=False)
    is_game_of_week: Mapped[bool] = mapped_column(default=False)
    season: Mapped[int] = mapped_column(default=1)
    """Number of the current season, from 1."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    disabled_at: Mapped[dt.datetime | None]
    seed_secret: Mapped[str | None] = mapped_column(sa.String(64))
    """The secret from which the seeds of its rounds are drawn (`work.league_seeds`), in hexadecimal. None before its
    first round. No answer contains it."""
    paused_at: Mapped[dt.datetime | None]
    """When an operator paused it: no new rounds begin."""

    game: Mapped[Game] = relationship(lazy="joined", innerjoin=True)


class Division(Base):
    """A level of a league."""

    __tablename__ = "divisions"
    __table_args__ = (sa.UniqueConstraint("league_id", "level"),)

    id: Mapped[str] = id_column("div")
    name: Mapped[str]
    level: Mapped[int]
    """Newcomers are placed in the lowest level, 1."""
    type: Mapped[str] = mapped_column(sa.String(32), default="competition")
    league_id: Mapped[str] = reference("leagues.id")
    description: Mapped[str | None] = mapped_column(sa.Text())
    hidden: Mapped[bool] = mapped_column(default=False)
    commissioner_description: Mapped[JsonObject | None]
    archived_at: Mapped[dt.datetime | None]
    created_at: Mapped[dt.datetime] = mapped_column(default=now)

    league: Mapped[League] = relationship(lazy="joined", innerjoin=True)


def _own_entry(context: DefaultExecutionContext) -> str:
    given = context.get_current_parameters()
    return given.get("player_id") or given["user_id"]


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
    """`qualifying` (until its check is passed), `competing`, `retired` or `disqualified`."""
    substatus: Mapped[str | None]
    is_champion: Mapped[bool] = mapped_column(default=False)
    """Whether it is its owner's champion; one for each entry."""
    entry_id: Mapped[str] = mapped_column(sa.String(64), default=_own_entry)
    """In whose name it is rated: the player, or the account without one, that first took the entry. Every policy of an
    entry continues its rating, whichever of the account's players it plays for."""
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
    """A request to take part in a league, and its result."""

    __tablename__ = "submissions"

    id: Mapped[str] = id_column("sub")
    status: Mapped[str] = mapped_column(sa.String(32), default="pending")
    """`pending`, `processing`, `placed` or `rejected`."""
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
    """Number of the league's season."""
    report: Mapped[JsonObject | None] = mapped_column(deferred=True)
    """The division's standings then (`work.season_standings.SeasonStandings`); only the last one has pairs."""
    state: Mapped[JsonObject | None] = mapped_column(deferred=True)
    """What the table of the next round continues from; only in the last finished round."""
    started_at: Mapped[dt.datetime | None]
    completed_at: Mapped[dt.datetime | None]
    created_at: Mapped[dt.datetime] = mapped_column(default=now, index=True)

    division: Mapped[Division] = relationship(lazy="joined", innerjoin=True)


class Season(Base):
    """A finished season of a league, with its final tables."""

    __tablename__ = "seasons"
    __table_args__ = (sa.UniqueConstraint("league_id", "number"),)

    id: Mapped[str] = id_column("season")
    league_id: Mapped[str] = reference("leagues.id", index=False)
    number: Mapped[int]
    tables: Mapped[JsonList]
    """One object for each division, highest first: `division_id`, `division`, and its `standings`."""
    moves: Mapped[JsonList]
    """Members that changed division at its end: `name`, `from` and `to`."""
    closed_at: Mapped[dt.datetime] = mapped_column(default=now)


class RoundResult(Base):
    """The result of a policy version in a round."""

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
    """A standing instruction to create a league for a Coworld."""

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
    """An event in a competition, with its audience."""

    __tablename__ = "competition_events"
    __table_args__ = (sa.Index("ix_competition_events_kind", "event_type", "created_at"),)

    id: Mapped[str] = id_column("evt")
    event_type: Mapped[str] = mapped_column(sa.String(64))
    audience: Mapped[str] = mapped_column(sa.String(16), default="public")
    """`public`, or `owner`: visible only to `user_id` and the team."""
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
