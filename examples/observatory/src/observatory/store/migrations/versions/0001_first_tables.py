"""The first tables.

Revision: 0001, after nothing.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from observatory.store.columns import Moment

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "counters",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("value", Number, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_counters"),
    )
    op.create_table(
        "idempotent_answers",
        sa.Column("subject_id", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=256), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("status", Number, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("subject_id", "key", name="pk_idempotent_answers"),
    )
    op.create_index("ix_idempotent_answers_created_at", "idempotent_answers", ["created_at"])

    op.create_table(
        "registry_blobs",
        sa.Column("repository", sa.String(length=256), nullable=False),
        sa.Column("digest", sa.String(length=256), nullable=False),
        sa.Column("size", Number, nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("repository", "digest", name="pk_registry_blobs"),
    )
    op.create_table(
        "registry_manifests",
        sa.Column("repository", sa.String(length=256), nullable=False),
        sa.Column("digest", sa.String(length=256), nullable=False),
        sa.Column("media_type", sa.String(length=256), nullable=False),
        sa.Column("size", Number, nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("repository", "digest", name="pk_registry_manifests"),
    )
    op.create_table(
        "registry_tags",
        sa.Column("repository", sa.String(length=256), nullable=False),
        sa.Column("tag", sa.String(length=256), nullable=False),
        sa.Column("digest", sa.String(length=256), nullable=False),
        sa.Column("updated_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("repository", "tag", name="pk_registry_tags"),
    )
    op.create_table(
        "users",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("email", sa.String(length=256), nullable=True),
        sa.Column("is_team", sa.Boolean(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("disabled_at", Moment(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
        sa.UniqueConstraint("name", name="uq_users_name"),
    )
    op.create_table(
        "auth_codes",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("expires_at", Moment(), nullable=False),
        sa.Column("used_at", Moment(), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_auth_codes_user_id"),
        sa.PrimaryKeyConstraint("digest", name="pk_auth_codes"),
    )
    op.create_index("ix_auth_codes_user_id", "auth_codes", ["user_id"])

    op.create_table(
        "container_images",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("version", Number, nullable=False),
        sa.Column("client_hash", sa.String(length=256), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("repository", sa.String(length=256), nullable=False),
        sa.Column("tag", sa.String(length=256), nullable=False),
        sa.Column("digest", sa.String(length=256), nullable=True),
        sa.Column("public", sa.Boolean(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_container_images_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_container_images"),
        sa.UniqueConstraint("user_id", "client_hash", name="uq_container_images_user_id_client_hash"),
        sa.UniqueConstraint("user_id", "name", "version", name="uq_container_images_user_id_name_version"),
    )
    op.create_index("ix_container_images_created_at", "container_images", ["created_at"])
    op.create_index("ix_container_images_repository", "container_images", ["repository"])
    op.create_index("ix_container_images_user_id", "container_images", ["user_id"])

    op.create_table(
        "coworld_names",
        sa.Column("key", sa.String(length=256), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_coworld_names_user_id"),
        sa.PrimaryKeyConstraint("key", name="pk_coworld_names"),
    )
    op.create_index("ix_coworld_names_user_id", "coworld_names", ["user_id"])

    op.create_table(
        "players",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("is_default", sa.Boolean(), nullable=False),
        sa.Column("avatar_url", sa.Text(), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("disabled_at", Moment(), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_players_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_players"),
        sa.UniqueConstraint("user_id", "name", name="uq_players_user_id_name"),
    )
    op.create_index("ix_players_user_id", "players", ["user_id"])

    op.create_table(
        "policies",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("selection_scope", sa.String(length=32), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_policies_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_policies"),
        sa.UniqueConstraint("user_id", "name", name="uq_policies_user_id_name"),
    )
    op.create_index("ix_policies_user_id", "policies", ["user_id"])

    op.create_table(
        "policy_secret_envs",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("names", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_policy_secret_envs_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_policy_secret_envs"),
    )
    op.create_index("ix_policy_secret_envs_user_id", "policy_secret_envs", ["user_id"])

    op.create_table(
        "coworld_secrets",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name_key", sa.String(length=256), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("size_bytes", Number, nullable=False),
        sa.Column("updated_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["name_key"], ["coworld_names.key"], name="fk_coworld_secrets_name_key"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_coworld_secrets_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_coworld_secrets"),
        sa.UniqueConstraint("name_key", "name", name="uq_coworld_secrets_name_key_name"),
    )
    op.create_index("ix_coworld_secrets_user_id", "coworld_secrets", ["user_id"])

    op.create_table(
        "coworlds",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name_key", sa.String(length=256), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("version", sa.String(length=256), nullable=False),
        sa.Column("manifest", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("manifest_hash", sa.String(length=256), nullable=False),
        sa.Column("size_bytes", Number, nullable=False),
        sa.Column("canonical", sa.Boolean(), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("visibility", sa.String(length=16), nullable=False),
        sa.Column("certification", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["name_key"], ["coworld_names.key"], name="fk_coworlds_name_key"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_coworlds_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_coworlds"),
        sa.UniqueConstraint("name_key", "version", name="uq_coworlds_name_key_version"),
    )
    op.create_index("ix_coworlds_created_at", "coworlds", ["created_at"])
    op.create_index("ix_coworlds_name_key", "coworlds", ["name_key"])
    op.create_index("ix_coworlds_user_id", "coworlds", ["user_id"])

    op.create_table(
        "policy_versions",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("policy_id", sa.String(length=64), nullable=False),
        sa.Column("version", Number, nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("player_id", sa.String(length=64), nullable=True),
        sa.Column("image_id", sa.String(length=64), nullable=False),
        sa.Column("run", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("secret_env_id", sa.String(length=64), nullable=True),
        sa.Column("tags", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["image_id"], ["container_images.id"], name="fk_policy_versions_image_id"),
        sa.ForeignKeyConstraint(["player_id"], ["players.id"], name="fk_policy_versions_player_id"),
        sa.ForeignKeyConstraint(["policy_id"], ["policies.id"], name="fk_policy_versions_policy_id"),
        sa.ForeignKeyConstraint(["secret_env_id"], ["policy_secret_envs.id"], name="fk_policy_versions_secret_env_id"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_policy_versions_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_policy_versions"),
        sa.UniqueConstraint("policy_id", "version", name="uq_policy_versions_policy_id_version"),
    )
    op.create_index("ix_policy_versions_created_at", "policy_versions", ["created_at"])
    op.create_index("ix_policy_versions_image_id", "policy_versions", ["image_id"])
    op.create_index("ix_policy_versions_player_id", "policy_versions", ["player_id"])
    op.create_index("ix_policy_versions_policy_id", "policy_versions", ["policy_id"])
    op.create_index("ix_policy_versions_secret_env_id", "policy_versions", ["secret_env_id"])
    op.create_index("ix_policy_versions_user_id", "policy_versions", ["user_id"])

    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("player_id", sa.String(length=64), nullable=True),
        sa.Column("hash", sa.String(length=256), nullable=False),
        sa.Column("label", sa.String(length=256), nullable=True),
        sa.Column("repository", sa.String(length=256), nullable=True),
        sa.Column("actions", sa.String(length=256), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("expires_at", Moment(), nullable=True),
        sa.Column("revoked_at", Moment(), nullable=True),
        sa.ForeignKeyConstraint(["player_id"], ["players.id"], name="fk_tokens_player_id"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_tokens_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
    )
    op.create_index("ix_tokens_player_id", "tokens", ["player_id"])
    op.create_index("ix_tokens_user_id", "tokens", ["user_id"])

    op.create_table(
        "games",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("slug", sa.String(length=256), nullable=False),
        sa.Column("name_key", sa.String(length=256), nullable=False),
        sa.Column("coworld_id", sa.String(length=64), nullable=True),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["coworld_id"], ["coworlds.id"], name="fk_games_coworld_id"),
        sa.ForeignKeyConstraint(["name_key"], ["coworld_names.key"], name="fk_games_name_key"),
        sa.PrimaryKeyConstraint("id", name="pk_games"),
        sa.UniqueConstraint("name_key", name="uq_games_name_key"),
    )
    op.create_index("ix_games_coworld_id", "games", ["coworld_id"])

    op.create_table(
        "leagues",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("slug", sa.String(length=256), nullable=False),
        sa.Column("game_id", sa.String(length=64), nullable=False),
        sa.Column("variant_id", sa.String(length=256), nullable=True),
        sa.Column("commissioner_key", sa.String(length=256), nullable=True),
        sa.Column("commissioner_config", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("public", sa.Boolean(), nullable=False),
        sa.Column("hidden", sa.Boolean(), nullable=False),
        sa.Column("is_game_of_week", sa.Boolean(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("disabled_at", Moment(), nullable=True),
        sa.ForeignKeyConstraint(["game_id"], ["games.id"], name="fk_leagues_game_id"),
        sa.PrimaryKeyConstraint("id", name="pk_leagues"),
        sa.UniqueConstraint("name", name="uq_leagues_name"),
    )
    op.create_index("ix_leagues_game_id", "leagues", ["game_id"])

    op.create_table(
        "divisions",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("level", Number, nullable=False),
        sa.Column("type", sa.String(length=32), nullable=False),
        sa.Column("league_id", sa.String(length=64), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("hidden", sa.Boolean(), nullable=False),
        sa.Column("commissioner_description", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("archived_at", Moment(), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["league_id"], ["leagues.id"], name="fk_divisions_league_id"),
        sa.PrimaryKeyConstraint("id", name="pk_divisions"),
        sa.UniqueConstraint("league_id", "level", name="uq_divisions_league_id_level"),
    )
    op.create_index("ix_divisions_league_id", "divisions", ["league_id"])

    op.create_table(
        "league_seeds",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("coworld_name", sa.String(length=256), nullable=False),
        sa.Column("template", sa.String(length=64), nullable=False),
        sa.Column("overrides", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("league_key", sa.String(length=256), nullable=True),
        sa.Column("league_name", sa.String(length=256), nullable=True),
        sa.Column("default_variant_id", sa.String(length=256), nullable=True),
        sa.Column("league_id", sa.String(length=64), nullable=True),
        sa.Column("created_by", sa.String(length=64), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["created_by"], ["users.id"], name="fk_league_seeds_created_by"),
        sa.ForeignKeyConstraint(["league_id"], ["leagues.id"], name="fk_league_seeds_league_id"),
        sa.PrimaryKeyConstraint("id", name="pk_league_seeds"),
    )
    op.create_index("ix_league_seeds_created_by", "league_seeds", ["created_by"])
    op.create_index("ix_league_seeds_league_id", "league_seeds", ["league_id"])

    op.create_table(
        "experience_requests",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("player_id", sa.String(length=64), nullable=True),
        sa.Column("coworld_id", sa.String(length=64), nullable=False),
        sa.Column("variant_id", sa.String(length=256), nullable=True),
        sa.Column("league_id", sa.String(length=64), nullable=True),
        sa.Column("division_id", sa.String(length=64), nullable=True),
        sa.Column("body", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("episode_count", Number, nullable=False),
        sa.Column("title", sa.String(length=256), nullable=True),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("cancelled_at", Moment(), nullable=True),
        sa.Column("started_at", Moment(), nullable=True),
        sa.Column("completed_at", Moment(), nullable=True),
        sa.Column("revision", Number, nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["coworld_id"], ["coworlds.id"], name="fk_experience_requests_coworld_id"),
        sa.ForeignKeyConstraint(["division_id"], ["divisions.id"], name="fk_experience_requests_division_id"),
        sa.ForeignKeyConstraint(["league_id"], ["leagues.id"], name="fk_experience_requests_league_id"),
        sa.ForeignKeyConstraint(["player_id"], ["players.id"], name="fk_experience_requests_player_id"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_experience_requests_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_experience_requests"),
    )
    op.create_index("ix_experience_requests_coworld_id", "experience_requests", ["coworld_id"])
    op.create_index("ix_experience_requests_created_at", "experience_requests", ["created_at"])
    op.create_index("ix_experience_requests_division_id", "experience_requests", ["division_id"])
    op.create_index("ix_experience_requests_league_id", "experience_requests", ["league_id"])
    op.create_index("ix_experience_requests_player_id", "experience_requests", ["player_id"])
    op.create_index("ix_experience_requests_revision", "experience_requests", ["revision"])
    op.create_index("ix_experience_requests_status", "experience_requests", ["status"])
    op.create_index("ix_experience_requests_user_id", "experience_requests", ["user_id"])

    op.create_table(
        "memberships",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("substatus", sa.String(length=256), nullable=True),
        sa.Column("is_champion", sa.Boolean(), nullable=False),
        sa.Column("start_time", Moment(), nullable=True),
        sa.Column("end_time", Moment(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("league_id", sa.String(length=64), nullable=False),
        sa.Column("division_id", sa.String(length=64), nullable=False),
        sa.Column("policy_version_id", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("player_id", sa.String(length=64), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["division_id"], ["divisions.id"], name="fk_memberships_division_id"),
        sa.ForeignKeyConstraint(["league_id"], ["leagues.id"], name="fk_memberships_league_id"),
        sa.ForeignKeyConstraint(["player_id"], ["players.id"], name="fk_memberships_player_id"),
        sa.ForeignKeyConstraint(["policy_version_id"], ["policy_versions.id"], name="fk_memberships_policy_version_id"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_memberships_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_memberships"),
    )
    op.create_index("ix_memberships_created_at", "memberships", ["created_at"])
    op.create_index("ix_memberships_division_id", "memberships", ["division_id"])
    op.create_index("ix_memberships_league_id", "memberships", ["league_id"])
    op.create_index("ix_memberships_player_id", "memberships", ["player_id"])
    op.create_index("ix_memberships_policy_version_id", "memberships", ["policy_version_id"])
    op.create_index("ix_memberships_user_id", "memberships", ["user_id"])
    op.create_index(
        "uq_memberships_live",
        "memberships",
        ["league_id", "policy_version_id"],
        unique=True,
        sqlite_where=sa.text("end_time IS NULL"),
        postgresql_where=sa.text("end_time IS NULL"),
    )

    op.create_table(
        "rounds",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("round_number", Number, nullable=False),
        sa.Column("commissioner_key", sa.String(length=256), nullable=False),
        sa.Column("execution_backend", sa.String(length=256), nullable=False),
        sa.Column("round_config", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("round_display", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("division_id", sa.String(length=64), nullable=False),
        sa.Column("started_at", Moment(), nullable=True),
        sa.Column("completed_at", Moment(), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["division_id"], ["divisions.id"], name="fk_rounds_division_id"),
        sa.PrimaryKeyConstraint("id", name="pk_rounds"),
        sa.UniqueConstraint("division_id", "round_number", name="uq_rounds_division_id_round_number"),
    )
    op.create_index("ix_rounds_created_at", "rounds", ["created_at"])
    op.create_index("ix_rounds_division_id", "rounds", ["division_id"])

    op.create_table(
        "competition_events",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("event_type", sa.String(length=64), nullable=False),
        sa.Column("audience", sa.String(length=16), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=True),
        sa.Column("player_id", sa.String(length=64), nullable=True),
        sa.Column("policy_version_id", sa.String(length=64), nullable=True),
        sa.Column("league_id", sa.String(length=64), nullable=True),
        sa.Column("division_id", sa.String(length=64), nullable=True),
        sa.Column("round_id", sa.String(length=64), nullable=True),
        sa.Column("headline", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("payload", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["division_id"], ["divisions.id"], name="fk_competition_events_division_id"),
        sa.ForeignKeyConstraint(["league_id"], ["leagues.id"], name="fk_competition_events_league_id"),
        sa.ForeignKeyConstraint(["player_id"], ["players.id"], name="fk_competition_events_player_id"),
        sa.ForeignKeyConstraint(
            ["policy_version_id"], ["policy_versions.id"], name="fk_competition_events_policy_version_id"
        ),
        sa.ForeignKeyConstraint(["round_id"], ["rounds.id"], name="fk_competition_events_round_id"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_competition_events_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_competition_events"),
    )
    op.create_index("ix_competition_events_created_at", "competition_events", ["created_at"])
    op.create_index("ix_competition_events_division_id", "competition_events", ["division_id"])
    op.create_index("ix_competition_events_event_type", "competition_events", ["event_type"])
    op.create_index("ix_competition_events_league_id", "competition_events", ["league_id"])
    op.create_index("ix_competition_events_player_id", "competition_events", ["player_id"])
    op.create_index(
        "ix_competition_events_policy_version_id", "competition_events", ["policy_version_id"], unique=False
    )
    op.create_index("ix_competition_events_round_id", "competition_events", ["round_id"])
    op.create_index("ix_competition_events_user_id", "competition_events", ["user_id"])

    op.create_table(
        "episode_requests",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("player_id", sa.String(length=64), nullable=True),
        sa.Column("source", sa.String(length=32), nullable=False),
        sa.Column("experience_request_id", sa.String(length=64), nullable=True),
        sa.Column("index", Number, nullable=False),
        sa.Column("round_id", sa.String(length=64), nullable=True),
        sa.Column("league_id", sa.String(length=64), nullable=True),
        sa.Column("division_id", sa.String(length=64), nullable=True),
        sa.Column("coworld_id", sa.String(length=64), nullable=False),
        sa.Column("variant_id", sa.String(length=256), nullable=True),
        sa.Column("game_config", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("seed", Number, nullable=True),
        sa.Column("max_steps", Number, nullable=True),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("priority", Number, nullable=False),
        sa.Column("attempts", Number, nullable=False),
        sa.Column("lease_token", sa.String(length=64), nullable=True),
        sa.Column("lease_owner", sa.String(length=256), nullable=True),
        sa.Column("lease_expires_at", Moment(), nullable=True),
        sa.Column("run_id", sa.String(length=256), nullable=True),
        sa.Column("job_id", sa.String(length=64), nullable=True),
        sa.Column("episode_id", sa.String(length=64), nullable=True),
        sa.Column("live_url", sa.Text(), nullable=True),
        sa.Column("error_type", sa.String(length=64), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("failed_policy_index", Number, nullable=True),
        sa.Column("failed_agent_index", Number, nullable=True),
        sa.Column("steps", Number, nullable=True),
        sa.Column("stats", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("record", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("started_at", Moment(), nullable=True),
        sa.Column("completed_at", Moment(), nullable=True),
        sa.Column("revision", Number, nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["coworld_id"], ["coworlds.id"], name="fk_episode_requests_coworld_id"),
        sa.ForeignKeyConstraint(["division_id"], ["divisions.id"], name="fk_episode_requests_division_id"),
        sa.ForeignKeyConstraint(
            ["experience_request_id"],
            ["experience_requests.id"],
            name="fk_episode_requests_experience_request_id",
        ),
        sa.ForeignKeyConstraint(["league_id"], ["leagues.id"], name="fk_episode_requests_league_id"),
        sa.ForeignKeyConstraint(["player_id"], ["players.id"], name="fk_episode_requests_player_id"),
        sa.ForeignKeyConstraint(["round_id"], ["rounds.id"], name="fk_episode_requests_round_id"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_episode_requests_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_episode_requests"),
    )
    op.create_index("ix_episode_requests_completed_at", "episode_requests", ["completed_at"])
    op.create_index("ix_episode_requests_coworld_id", "episode_requests", ["coworld_id"])
    op.create_index("ix_episode_requests_division_newest", "episode_requests", ["division_id", "created_at"])
    op.create_index("ix_episode_requests_episode_id", "episode_requests", ["episode_id"])
    op.create_index(
        "ix_episode_requests_experience_request_id", "episode_requests", ["experience_request_id"], unique=False
    )
    op.create_index("ix_episode_requests_job_id", "episode_requests", ["job_id"])
    op.create_index("ix_episode_requests_league_id", "episode_requests", ["league_id"])
    op.create_index("ix_episode_requests_lease_expires_at", "episode_requests", ["lease_expires_at"])
    op.create_index("ix_episode_requests_newest", "episode_requests", ["created_at", "id"])
    op.create_index("ix_episode_requests_player_id", "episode_requests", ["player_id"])
    op.create_index("ix_episode_requests_queue", "episode_requests", ["status", "priority", "created_at", "index"])
    op.create_index("ix_episode_requests_revision", "episode_requests", ["revision"])
    op.create_index("ix_episode_requests_round_id", "episode_requests", ["round_id"])
    op.create_index("ix_episode_requests_user_id", "episode_requests", ["user_id"])

    op.create_table(
        "round_results",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("round_id", sa.String(length=64), nullable=False),
        sa.Column("policy_version_id", sa.String(length=64), nullable=False),
        sa.Column("player_id", sa.String(length=64), nullable=True),
        sa.Column("rank", Number, nullable=False),
        sa.Column("score", sa.Double[float](), nullable=False),
        sa.Column("result_metadata", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["player_id"], ["players.id"], name="fk_round_results_player_id"),
        sa.ForeignKeyConstraint(
            ["policy_version_id"], ["policy_versions.id"], name="fk_round_results_policy_version_id"
        ),
        sa.ForeignKeyConstraint(["round_id"], ["rounds.id"], name="fk_round_results_round_id"),
        sa.PrimaryKeyConstraint("id", name="pk_round_results"),
    )
    op.create_index("ix_round_results_player_id", "round_results", ["player_id"])
    op.create_index("ix_round_results_policy_version_id", "round_results", ["policy_version_id"])
    op.create_index("ix_round_results_round_id", "round_results", ["round_id"])

    op.create_table(
        "submissions",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("auto_champion", sa.String(length=16), nullable=False),
        sa.Column("preferences", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("notes", sa.Text(), nullable=True),
        sa.Column("league_id", sa.String(length=64), nullable=False),
        sa.Column("policy_version_id", sa.String(length=64), nullable=False),
        sa.Column("membership_id", sa.String(length=64), nullable=True),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("player_id", sa.String(length=64), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["league_id"], ["leagues.id"], name="fk_submissions_league_id"),
        sa.ForeignKeyConstraint(["membership_id"], ["memberships.id"], name="fk_submissions_membership_id"),
        sa.ForeignKeyConstraint(["player_id"], ["players.id"], name="fk_submissions_player_id"),
        sa.ForeignKeyConstraint(["policy_version_id"], ["policy_versions.id"], name="fk_submissions_policy_version_id"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_submissions_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_submissions"),
    )
    op.create_index("ix_submissions_created_at", "submissions", ["created_at"])
    op.create_index("ix_submissions_league_id", "submissions", ["league_id"])
    op.create_index("ix_submissions_membership_id", "submissions", ["membership_id"])
    op.create_index("ix_submissions_player_id", "submissions", ["player_id"])
    op.create_index("ix_submissions_policy_version_id", "submissions", ["policy_version_id"])
    op.create_index("ix_submissions_user_id", "submissions", ["user_id"])

    op.create_table(
        "artifacts",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("episode_request_id", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("position", Number, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("media_type", sa.String(length=256), nullable=False),
        sa.Column("encoding", sa.String(length=16), nullable=False),
        sa.Column("size", Number, nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(
            ["episode_request_id"], ["episode_requests.id"], name="fk_artifacts_episode_request_id"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_artifacts"),
        sa.UniqueConstraint(
            "episode_request_id", "kind", "position", name="uq_artifacts_episode_request_id_kind_position"
        ),
    )
    op.create_index("ix_artifacts_episode_request_id", "artifacts", ["episode_request_id"])

    op.create_table(
        "episode_scores",
        sa.Column("episode_request_id", sa.String(length=64), nullable=False),
        sa.Column("position", Number, nullable=False),
        sa.Column("policy_version_id", sa.String(length=64), nullable=True),
        sa.Column("user_id", sa.String(length=64), nullable=True),
        sa.Column("player_id", sa.String(length=64), nullable=True),
        sa.Column("division_id", sa.String(length=64), nullable=True),
        sa.Column("score", sa.Double[float](), nullable=False),
        sa.Column("finished_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["division_id"], ["divisions.id"], name="fk_episode_scores_division_id"),
        sa.ForeignKeyConstraint(
            ["episode_request_id"], ["episode_requests.id"], name="fk_episode_scores_episode_request_id"
        ),
        sa.ForeignKeyConstraint(["player_id"], ["players.id"], name="fk_episode_scores_player_id"),
        sa.ForeignKeyConstraint(
            ["policy_version_id"], ["policy_versions.id"], name="fk_episode_scores_policy_version_id"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_episode_scores_user_id"),
        sa.PrimaryKeyConstraint("episode_request_id", "position", name="pk_episode_scores"),
    )
    op.create_index("ix_episode_scores_division_finished", "episode_scores", ["division_id", "finished_at"])
    op.create_index("ix_episode_scores_player_id", "episode_scores", ["player_id"])
    op.create_index("ix_episode_scores_policy_version_id", "episode_scores", ["policy_version_id"])
    op.create_index("ix_episode_scores_user_id", "episode_scores", ["user_id"])

    op.create_table(
        "hosted_sessions",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=True),
        sa.Column("coworld_id", sa.String(length=64), nullable=False),
        sa.Column("variant_id", sa.String(length=256), nullable=True),
        sa.Column("episode_request_id", sa.String(length=64), nullable=True),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("state", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("run_id", sa.String(length=256), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("expires_at", Moment(), nullable=True),
        sa.Column("ended_at", Moment(), nullable=True),
        sa.ForeignKeyConstraint(["coworld_id"], ["coworlds.id"], name="fk_hosted_sessions_coworld_id"),
        sa.ForeignKeyConstraint(
            ["episode_request_id"], ["episode_requests.id"], name="fk_hosted_sessions_episode_request_id"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_hosted_sessions_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_hosted_sessions"),
    )
    op.create_index("ix_hosted_sessions_coworld_id", "hosted_sessions", ["coworld_id"])
    op.create_index("ix_hosted_sessions_episode_request_id", "hosted_sessions", ["episode_request_id"])
    op.create_index("ix_hosted_sessions_user_id", "hosted_sessions", ["user_id"])

    op.create_table(
        "participants",
        sa.Column("episode_request_id", sa.String(length=64), nullable=False),
        sa.Column("position", Number, nullable=False),
        sa.Column("policy_version_id", sa.String(length=64), nullable=True),
        sa.Column("policy_id", sa.String(length=64), nullable=True),
        sa.Column("policy_name", sa.String(length=256), nullable=False),
        sa.Column("version", Number, nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=True),
        sa.Column("player_id", sa.String(length=64), nullable=True),
        sa.Column("player_name", sa.String(length=256), nullable=True),
        sa.Column("bundled_player", sa.String(length=256), nullable=True),
        sa.ForeignKeyConstraint(
            ["episode_request_id"], ["episode_requests.id"], name="fk_participants_episode_request_id"
        ),
        sa.ForeignKeyConstraint(["player_id"], ["players.id"], name="fk_participants_player_id"),
        sa.ForeignKeyConstraint(["policy_id"], ["policies.id"], name="fk_participants_policy_id"),
        sa.ForeignKeyConstraint(
            ["policy_version_id"], ["policy_versions.id"], name="fk_participants_policy_version_id"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_participants_user_id"),
        sa.PrimaryKeyConstraint("episode_request_id", "position", name="pk_participants"),
    )
    op.create_index("ix_participants_player_id", "participants", ["player_id"])
    op.create_index("ix_participants_policy_version_id", "participants", ["policy_version_id"])
    op.create_index("ix_participants_user_id", "participants", ["user_id"])
    counters = sa.table("counters", sa.column("name", sa.String), sa.column("value", Number))
    op.bulk_insert(counters, [{"name": "changes", "value": 0}])


def downgrade() -> None:
    """Drop all tables."""
    for name in (
        "participants",
        "hosted_sessions",
        "episode_scores",
        "artifacts",
        "submissions",
        "round_results",
        "episode_requests",
        "competition_events",
        "rounds",
        "memberships",
        "experience_requests",
        "league_seeds",
        "divisions",
        "leagues",
        "games",
        "tokens",
        "policy_versions",
        "coworlds",
        "coworld_secrets",
        "policy_secret_envs",
        "policies",
        "players",
        "coworld_names",
        "container_images",
        "auth_codes",
        "users",
        "registry_tags",
        "registry_manifests",
        "registry_blobs",
        "idempotent_answers",
        "counters",
    ):
        op.drop_table(name)
