"""The shared parts of a running Observatory."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from .data_directory import prepare_directory
from .identity.auth import Authenticator
from .identity.limits import REQUEST_WINDOW, ConnectionLimit, RateLimit
from .identity.oidc import OidcClient
from .identity.sign_in import SignIns
from .runtime import Runtime
from .settings import Settings, server_id
from .store.artifacts import ArtifactStore, artifact_store
from .store.audit import RefusalLog
from .store.blobs import BlobStore
from .store.database import Database, open_database
from .store.models import EpisodeRequest
from .store.row_cache import RowCache
from .store.vault import Vault

__all__ = ["Services", "open_services"]


@dataclass(frozen=True, kw_only=True)
class Services:
    """The open connections and stores of one Observatory."""

    settings: Settings
    database: Database
    artifacts: ArtifactStore
    blobs: BlobStore
    vault: Vault
    runtime: Runtime
    """The running parts besides the stores, in a server."""
    tokens: Authenticator = field(default_factory=Authenticator)
    requests: RateLimit = field(default_factory=lambda: RateLimit("requests", REQUEST_WINDOW))
    """Requests to come, by account or address."""
    rows: RateLimit = field(default_factory=lambda: RateLimit("new rows", 24 * 3600.0, code="quota_exceeded"))
    """Rows that requests have added, likewise."""
    sign_ins: SignIns = field(default_factory=SignIns)
    oidc: OidcClient | None = None
    """The client of the provider by which people sign in; None without one."""
    connections: ConnectionLimit = field(default_factory=ConnectionLimit)
    refused: RefusalLog = field(default_factory=RefusalLog)
    episodes: RowCache[EpisodeRequest] = field(
        default_factory=lambda: RowCache(EpisodeRequest.id, (EpisodeRequest.revision, EpisodeRequest.pruned_at))
    )
    """Episodes shown last."""


@asynccontextmanager
async def open_services(settings: Settings, *, upgrade: bool = True) -> AsyncGenerator[Services]:
    """Open the database, stores and secrets of an Observatory.

    Args:
        settings: Its settings.
        upgrade: Whether to bring the database's tables up to date.

    Raises:
        EnvironmentFault: The database, the artifact store or the installation's key cannot be used.
        UsageError: The data directory, or the provider by which people sign in, cannot be used.
    """
    oidc = OidcClient(settings.oidc, settings.url) if settings.oidc is not None else None
    prepare_directory(settings.data)
    async with open_database(settings.database_url) as database:
        if upgrade:
            await database.upgrade()
        artifacts = artifact_store(settings.artifacts_url)
        await artifacts.check()
        vault = await Vault.open(database, settings.key_file)
        yield Services(
            settings=settings,
            oidc=oidc,
            database=database,
            artifacts=artifacts,
            blobs=BlobStore(artifacts, settings.uploads, server_id(settings.owner("server"))),
            vault=vault,
            runtime=Runtime.of(vault, settings),
        )
