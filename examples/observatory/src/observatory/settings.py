"""Settings of an Observatory, and the places of its data."""

from __future__ import annotations

import hashlib
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from coworld_core import time_limits
from coworld_core.errors import UsageError

from .quotas import Quotas

__all__ = [
    "DEFAULT_PORT",
    "BackendName",
    "OidcProvider",
    "Retention",
    "Settings",
    "database_url",
    "server_id",
]

DEFAULT_PORT = 8787
"""The default port."""

BackendName = Literal["none", "auto", "process", "docker", "kubernetes"]
"""Where episodes run."""


@dataclass(frozen=True, kw_only=True)
class Retention:
    """Which episodes keep their replays, logs and players' files; None: no limit.

    Args:
        days: The most days since the end of the episode.
        episodes: The number of last episodes of each account.
    """

    days: int | None = None
    episodes: int | None = None


@dataclass(frozen=True, kw_only=True)
class OidcProvider:
    """An OpenID Connect provider by which people sign in.

    Args:
        issuer: Its issuer, as it writes it: an https URL, or http on this machine.
        client_id: What it calls this server.
        client_secret: What it gave this server to prove itself; None: PKCE alone.
        name: What people call it.
        domains: The only domains of e-mail addresses that may sign in; none: all.
        register: Whether somebody without an account gets one.
    """

    issuer: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    name: str
    domains: tuple[str, ...] = ()
    register: bool = False


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of an Observatory.

    Args:
        data: Its directory, private to its user: database, artifacts, unfinished uploads.
        database: SQLAlchemy URL, or `postgresql://…` for short; None: SQLite in `data`.
        key: File with the installation's key; None: beside `data`, under its name and `.key`.
        artifacts: fsspec URL of the artifacts and images; None: `data/artifacts`.
        url: The address for clients (`http://127.0.0.1:8787`), without a trailing slash.
        internal_address: `host:port` at which other servers of the installation reach this one; None: nowhere.
        trusted_proxies: Addresses and networks of the proxies that are believed what the client's address is.
        public: Whether anonymous visitors may read public leagues, Coworlds and episodes.
        backend: Where episodes run: `docker`, `process`, `kubernetes`; `auto` chooses, `none` runs nothing.
        packages: Directories of the operator's own packages, whose programs may run as local processes.
        trust_uploads: Whether uploaded player files also run as local processes; only on loopback.
        namespace: The cluster's namespace for games and players, for `kubernetes`; None: that of the kubeconfig or pod.
        pull_secrets: Secrets in that namespace for pulling images, for `kubernetes`.
        pods: A file with what else is to be said of pods, for `kubernetes`.
        allow_privileged: Whether that file may ask for what lets a program out of its pod.
        parallel: Episodes at a time; 0 leaves them to other workers.
        league_share: The share of turns, from 0 to 1, in which rounds of leagues are played before anything else.
        lease: Seconds until a worker's claim expires unless it is renewed.
        episode_timeout: The most seconds that a whole episode may take.
        connect_timeout: The most seconds that a game waits for its players, unless they declare a longer startup.
        quotas: The default quotas of an account.
        connections: The most open connections from one address to replays, as many again to games for people, and to
            episodes that are being played. Their pages are not trusted, so they do not say whose account it is.
        retention: Which episodes keep all their artifacts.
        private_webhooks: Whether webhooks may lead to addresses that are not public.
        oidc: By whom people may sign in besides their tokens; None: by nobody.
    """

    data: Path
    database: str | None = None
    key: Path | None = None
    artifacts: str | None = None
    url: str = f"http://127.0.0.1:{DEFAULT_PORT}"
    internal_address: str | None = None
    trusted_proxies: tuple[str, ...] = ("127.0.0.1", "::1")
    public: bool = True
    backend: BackendName = "none"
    packages: tuple[Path, ...] = ()
    trust_uploads: bool = False
    namespace: str | None = None
    pull_secrets: tuple[str, ...] = ()
    pods: Path | None = None
    allow_privileged: bool = False
    parallel: int = 1
    league_share: float = 0.5
    lease: float = 30.0
    episode_timeout: float = time_limits.JOB
    connect_timeout: float = 30.0
    quotas: Quotas = field(default_factory=Quotas)
    connections: int = 128
    retention: Retention = field(default_factory=Retention)
    private_webhooks: bool = False
    oidc: OidcProvider | None = None

    @property
    def database_url(self) -> str:
        """The database URL for SQLAlchemy's async engine."""
        return database_url(self.database, self.data)

    @property
    def artifacts_url(self) -> str:
        """The fsspec URL of the artifacts."""
        return self.artifacts or f"file://{(self.data / 'artifacts').absolute()}"

    @property
    def local_processes(self) -> bool:
        """Whether episodes run as local processes, by choice or because packages are named."""
        return self.backend == "process" or (self.backend == "auto" and bool(self.packages))

    @property
    def registry(self) -> str:
        """Host and port of the image registry, as in the names of images."""
        return urlsplit(self.url).netloc

    def owner(self, role: str) -> str:
        """A worker's name: stable across restarts of the server of a directory, and different from all others."""
        return f"{role}@{socket.gethostname()}:{self.data.absolute()}"[:250]

    @property
    def uploads(self) -> Path:
        """The registry's unfinished uploads."""
        return self.data / "uploads"

    @property
    def key_file(self) -> Path:
        """The installation's key, which all its servers and workers have."""
        data = self.data.absolute()
        return self.key or data.with_name(f"{data.name}.key")


def server_id(owner: str) -> str:
    """A server's id, 16 hexadecimal digits, from its name (`Settings.owner`)."""
    return hashlib.sha256(owner.encode()).hexdigest()[:16]


def database_url(url: str | None, data: Path) -> str:
    """The URL of a database for SQLAlchemy's async engine.

    Args:
        url: `sqlite:///…`, `postgresql://…` or either with an async driver named; None: SQLite in `data`.
        data: The data directory.

    Raises:
        UsageError: The database is of another kind (code `bad_database`).
    """
    if url is None:
        return f"sqlite+aiosqlite:///{(data / 'observatory.sqlite3').absolute()}"
    scheme, separator, rest = url.partition("://")
    drivers = {
        "sqlite": "sqlite+aiosqlite",
        "sqlite+aiosqlite": "sqlite+aiosqlite",
        "postgres": "postgresql+asyncpg",
        "postgresql": "postgresql+asyncpg",
        "postgresql+asyncpg": "postgresql+asyncpg",
    }
    if not separator or scheme not in drivers:
        raise UsageError(
            f"{scheme or url!r} is not a supported kind of database.",
            code="bad_database",
            hint="Give postgresql://USER:PASSWORD@HOST/NAME or sqlite:////path/to/file.",
        )
    return f"{drivers[scheme]}://{rest}"
