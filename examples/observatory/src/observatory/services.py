"""What every part of a running Observatory shares."""

from __future__ import annotations

from dataclasses import dataclass, field

from .identity.auth import Authenticator
from .identity.limits import RequestLimit
from .runtime import Runtime
from .settings import Settings
from .store.artifacts import ArtifactStore
from .store.blobs import BlobStore
from .store.database import Database
from .store.vault import Vault

__all__ = ["Services"]


@dataclass(frozen=True, kw_only=True)
class Services:
    """The open connections and stores of one Observatory."""

    settings: Settings
    database: Database
    artifacts: ArtifactStore
    blobs: BlobStore
    vault: Vault
    tokens: Authenticator = field(default_factory=Authenticator)
    requests: RequestLimit = field(default_factory=RequestLimit)
    runtime: Runtime = field(default_factory=Runtime)
    """What runs beside the stores while a server does."""
