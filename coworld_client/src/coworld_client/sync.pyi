"""Types of `coworld_client.sync`, made from the async client by `tests/client/sync_stub.py`: do not edit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from ssl import SSLContext
from types import TracebackType
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Self, TypeVar

import httpx2
from opentelemetry.trace import TracerProvider

from coworld_core import time_limits
from coworld_core.api import (
    AccountDeletion,
    ArtifactType,
    AutoChampion,
    BundlePart,
    CertificationState,
    CompetitionEvent,
    Coworld,
    Division,
    DownloadCategory,
    DownloadEntry,
    EpisodeProgress,
    EpisodeRequest,
    EpisodeStats,
    EpisodeView,
    ExperienceBody,
    ExperienceDetail,
    ExperienceRequest,
    Game,
    HostedReplaySession,
    HostedRole,
    Image,
    JoinedSession,
    LadderEntry,
    Leaderboard,
    LeaderboardEntry,
    League,
    LeagueOfficer,
    LeagueSeason,
    LeagueSeed,
    Lobby,
    LobbySeatBody,
    Membership,
    NewToken,
    NewWebhook,
    OwnedPlayer,
    OwnToken,
    PlayerEvidence,
    PlayerFiles,
    PlayerLogin,
    PlaySession,
    PolicyRef,
    PolicyVersionCreated,
    PolicyVersionRow,
    ReporterDetail,
    ReporterEntry,
    ReporterOutput,
    RoleRun,
    Round,
    RoundDetail,
    SeatKind,
    Secret,
    Submission,
    SubmissionCreated,
    Tagged,
    Team,
    TeamInvitation,
    TeamLeft,
    Webhook,
    Whoami,
    Wire,
)
from coworld_core.documents.json_text import Source
from coworld_core.manifest.manifest_file import LoadedManifest
from coworld_core.player_registry import ANY_VERSION, PlayerVersion

from .client import CoworldClient
from .pages import Page
from .resources._episode_places import Episode
from .sign_in.credentials import DEFAULT_SERVER, Token
from .transfers.files import Downloaded, OnProgress
from .transport._connection import TIMEOUT
from .transport._retry import Backoff
from .uploads._coworlds import Certified, Uncertified, UploadedCoworld
from .uploads._images import OnImage, UploadedImage
from .uploads.docker_engine import DockerEngine
from .uploads.packages import DownloadedCoworld, OnPull
from .uploads.smoke import CoworldStatus
from .watch import Change

__all__ = ["SyncClient"]

_T = TypeVar("_T")
_W = TypeVar("_W", bound=Wire)
_P = ParamSpec("_P")

class _Rows(Generic[_W]):
    def __iter__(self) -> Iterator[_W]: ...
    def pages(self) -> Iterable[Page[_W]]: ...

class _Changes:
    cursor: str | None
    def __iter__(self) -> Iterator[Change]: ...

class _Coworlds:
    def list(
        self,
        *,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
        offset: int = 0,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> _Rows[Coworld]: ...
    def get(self, coworld_id: str, *, timeout: float | None = None) -> Coworld: ...
    def find(self, name_or_id: str, *, version: str | None = None, timeout: float | None = None) -> Coworld: ...
    def certification(self, coworld_id: str, *, timeout: float | None = None) -> CertificationState: ...
    def next_version(self, name: str, *, timeout: float | None = None) -> str: ...
    def download(
        self,
        name_or_id: str,
        directory: Path = Path("coworld"),
        *,
        refresh: bool = False,
        pull: bool = False,
        timeout: float | None = None,
        on_pull: OnPull | None = None,
    ) -> DownloadedCoworld: ...
    def upload(
        self,
        manifest: Source | LoadedManifest,
        *,
        certification: Certified | Uncertified,
        visibility: str | None = None,
        labels: Mapping[str, str] | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
        on_progress: OnImage | None = None,
    ) -> UploadedCoworld: ...
    def update(
        self,
        name_or_id: str,
        *,
        certification: Certified | Uncertified,
        version: str | None = None,
        patch: Mapping[str, Any] | None = None,
        images: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
        on_progress: OnImage | None = None,
    ) -> UploadedCoworld: ...
    def patch_commissioner(
        self,
        name: str,
        image: str,
        *,
        runnable_id: str | None = None,
        version: str | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
        on_progress: OnImage | None = None,
    ) -> Coworld: ...
    def status(self, coworld_id: str, *, timeout: float | None = None) -> CoworldStatus: ...
    def wait_for_smoke(
        self,
        coworld_id: str,
        *,
        wait_timeout: float = time_limits.HOSTED_SMOKE,
        start_timeout: float | None = None,
        on_change: Callable[[CoworldStatus], object] | None = None,
        timeout: float | None = None,
    ) -> CoworldStatus: ...

class _Divisions:
    def list(
        self, *, league: str | None = None, limit: int | None = None, offset: int = 0, timeout: float | None = None
    ) -> _Rows[Division]: ...
    def get(self, division_id: str, *, timeout: float | None = None) -> Division: ...
    def leaderboard(
        self, division_id: str, *, recent_rounds: int = 3, timeout: float | None = None
    ) -> tuple[LeaderboardEntry, ...]: ...
    def leaderboards(self, division_id: str, *, timeout: float | None = None) -> Leaderboard | None: ...

class _Downloads:
    def list(
        self,
        ids: str | Sequence[str],
        *,
        include: Collection[DownloadCategory] | None = None,
        positions: Collection[int] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> _Rows[DownloadEntry]: ...
    def fetch(
        self,
        entry: DownloadEntry,
        target: Path,
        *,
        unpack: bool = True,
        limit: int | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Downloaded: ...

class _Episodes:
    def list(
        self,
        *,
        league: str | None = None,
        division: str | None = None,
        round: str | None = None,
        player: str | None = None,
        coworld: str | None = None,
        policy: str | PolicyRef | None = None,
        mine: bool = False,
        with_replay: bool = False,
        status: str | Collection[str] | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
        offset: int = 0,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> _Rows[EpisodeRequest]: ...
    def progress(
        self,
        ids: str | Sequence[str],
        *,
        view: EpisodeView = "progress",
        status: str | Collection[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> _Rows[EpisodeProgress]: ...
    def get(self, episode_id: str, *, timeout: float | None = None) -> EpisodeRequest: ...
    def my_policy_versions(self, *, timeout: float | None = None) -> frozenset[str]: ...
    def stats(self, episode: Episode, *, timeout: float | None = None) -> EpisodeStats: ...
    def results(self, episode: Episode, *, timeout: float | None = None) -> Any: ...
    def artifact(self, episode: Episode, kind: ArtifactType, *, timeout: float | None = None) -> bytes: ...
    def game_log(self, episode: Episode, *, timeout: float | None = None) -> str: ...
    def agent_logs(
        self, episode: Episode, *, mine: bool = False, timeout: float | None = None
    ) -> tuple[PlayerEvidence, ...]: ...
    def agent_log(self, episode: Episode, position: int, *, timeout: float | None = None) -> str: ...
    def annotations(
        self, episode: Episode, policy: str | PolicyRef, *, timeout: float | None = None
    ) -> tuple[Any, ...]: ...
    def download_artifact(
        self,
        episode: Episode,
        position: int,
        target: Path,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Downloaded: ...
    def download_log(
        self,
        episode: Episode,
        target: Path,
        *,
        position: int | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Downloaded: ...
    def download_replay(
        self,
        episode: Episode,
        target: Path,
        *,
        unpack: bool = True,
        limit: int | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Downloaded: ...
    def download_bundle(
        self,
        episode: Episode,
        target: Path,
        *,
        include: Sequence[BundlePart] | None = None,
        limit: int | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Downloaded: ...

class _Events:
    def list(
        self,
        *,
        league: str | None = None,
        division: str | None = None,
        round: str | None = None,
        event_type: str | None = None,
        audience: str | None = None,
        player: str | None = None,
        policy: str | PolicyRef | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> _Rows[CompetitionEvent]: ...

class _Experience:
    def create(
        self,
        body: ExperienceBody | Mapping[str, Any],
        *,
        labels: Mapping[str, str] | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> ExperienceDetail: ...
    def create_each(
        self,
        body: ExperienceBody | Mapping[str, Any],
        *,
        labels: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> tuple[ExperienceDetail, ...]: ...
    def list(
        self,
        *,
        mine: bool = False,
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
        offset: int = 0,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> _Rows[ExperienceRequest]: ...
    def get(self, request_id: str, *, timeout: float | None = None) -> ExperienceDetail: ...
    def episodes(
        self, request_id: str, *, limit: int | None = None, offset: int = 0, timeout: float | None = None
    ) -> _Rows[EpisodeRequest]: ...
    def cancel(self, request_id: str, *, timeout: float | None = None) -> ExperienceDetail: ...
    def wait(
        self, request_id: str, *, timeout: float | None = None, on_change: Callable[[Change], object] | None = None
    ) -> ExperienceDetail: ...

class _Games:
    def list(self, *, limit: int | None = None, offset: int = 0, timeout: float | None = None) -> _Rows[Game]: ...

class _Hosted:
    def create(
        self,
        coworld_id: str,
        *,
        variant: str | None = None,
        spectators: bool = True,
        labels: Mapping[str, str] | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> PlaySession: ...
    def get(self, session_id: str, *, timeout: float | None = None) -> PlaySession: ...
    def join(
        self, session_id: str, *, timeout: float | None = None, idempotency_key: str | None = None
    ) -> JoinedSession: ...
    def end(self, session_id: str, *, timeout: float | None = None) -> PlaySession: ...
    def replay_session(self, episode: Episode, *, timeout: float | None = None) -> HostedReplaySession: ...

class _Labels:
    def change(
        self, thing: str | PolicyRef, changes: Mapping[str, str | None], *, timeout: float | None = None
    ) -> Tagged: ...

class _Images:
    def list(
        self, *, limit: int | None = None, offset: int = 0, cursor: str | None = None, timeout: float | None = None
    ) -> _Rows[Image]: ...
    def get(self, image_id: str, *, timeout: float | None = None) -> Image: ...
    def upload(
        self,
        reference: str,
        *,
        name: str | None = None,
        engine: DockerEngine | None = None,
        compress: bool = True,
        concurrency: int = 4,
        timeout: float | None = None,
        idempotency_key: str | None = None,
        on_progress: OnImage | None = None,
    ) -> UploadedImage: ...

class _LeagueSeeds:
    def list(self, *, limit: int | None = None, timeout: float | None = None) -> _Rows[LeagueSeed]: ...
    def create(
        self,
        coworld_name: str,
        *,
        template: str = "commissioner_driven",
        overrides: Mapping[str, Any] | None = None,
        enabled: bool = True,
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> LeagueSeed: ...

class _Leagues:
    def list(
        self, *, game: str | None = None, limit: int | None = None, offset: int = 0, timeout: float | None = None
    ) -> _Rows[League]: ...
    def get(self, league_id: str, *, timeout: float | None = None) -> League: ...
    def id_of(self, league: str, *, timeout: float | None = None) -> str: ...
    def only_division(self, league: str, *, timeout: float | None = None) -> str: ...
    def officers(self, league: str, *, timeout: float | None = None) -> tuple[LeagueOfficer, ...]: ...
    def appoint(
        self, league: str, user: str, role: Literal["organiser", "assistant", "none"], *, timeout: float | None = None
    ) -> tuple[LeagueOfficer, ...]: ...
    def seasons(self, league_id: str, *, timeout: float | None = None) -> _Rows[LeagueSeason]: ...
    def season(self, league_id: str, number: int | None = None, *, timeout: float | None = None) -> LeagueSeason: ...
    def game_of_week(self, *, timeout: float | None = None) -> League | None: ...
    def ladder(self, league_id: str, *, timeout: float | None = None) -> tuple[LadderEntry, ...]: ...
    def guide(self, league_id: str, *, timeout: float | None = None) -> str: ...

class _Lobbies:
    def create(
        self,
        league_id: str,
        *,
        variant: str | None = None,
        players: int | None = None,
        seats: Sequence[LobbySeatBody] = (),
        overrides: Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> Lobby: ...
    def get(self, lobby_id: str, *, timeout: float | None = None) -> Lobby: ...
    def seat(
        self,
        lobby_id: str,
        position: int,
        kind: SeatKind,
        *,
        player: str | None = None,
        revision: int | None = None,
        timeout: float | None = None,
    ) -> Lobby: ...
    def claim(self, lobby_id: str, position: int, *, timeout: float | None = None) -> Lobby: ...
    def remove(self, lobby_id: str, position: int, *, timeout: float | None = None) -> Lobby: ...
    def leave(self, lobby_id: str, *, timeout: float | None = None) -> Lobby: ...
    def start(
        self,
        lobby_id: str,
        *,
        revision: int | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> Lobby: ...
    def cancel(self, lobby_id: str, *, timeout: float | None = None) -> Lobby: ...
    def end(self, lobby_id: str, *, timeout: float | None = None) -> Lobby: ...

class _Memberships:
    def list(
        self,
        *,
        league: str | None = None,
        division: str | None = None,
        policy: str | PolicyRef | None = None,
        player: str | None = None,
        mine: bool = False,
        active_only: bool = False,
        champions_only: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> _Rows[Membership]: ...
    def id_of(self, membership: str, *, league: str | None = None, timeout: float | None = None) -> str: ...
    def retire(
        self, membership: str, *, league: str | None = None, reason: str | None = None, timeout: float | None = None
    ) -> Membership: ...
    def nominate(self, membership: str, *, league: str | None = None, timeout: float | None = None) -> Membership: ...

class _Players:
    def list(self, *, limit: int | None = None, timeout: float | None = None) -> _Rows[OwnedPlayer]: ...
    def id_of(self, player: str, *, timeout: float | None = None) -> str: ...
    def create(self, name: str, *, timeout: float | None = None, idempotency_key: str | None = None) -> OwnedPlayer: ...
    def login(self, player_id: str, *, timeout: float | None = None) -> PlayerLogin: ...

class _Policies:
    def list(
        self,
        *,
        name: str | None = None,
        version: int | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
        offset: int = 0,
        timeout: float | None = None,
    ) -> _Rows[PolicyVersionRow]: ...
    def lookup(self, policy: str | PolicyRef, *, timeout: float | None = None) -> PolicyVersionRow: ...
    def version_id(self, policy: str | PolicyRef, *, timeout: float | None = None) -> str: ...
    def upload(
        self,
        player: str | Path | PlayerFiles,
        *,
        name: str | None = None,
        run: Sequence[str] = (),
        secret_env: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
        on_progress: OnImage | None = None,
    ) -> PolicyVersionCreated: ...
    def download(
        self,
        policy: str | PolicyRef | PolicyVersionRow,
        directory: Path,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Path: ...

class _PolicyRegistry:
    def publish(
        self,
        name: str,
        player: PlayerFiles | Path | str,
        *,
        run: Sequence[str] = (),
        metadata: Mapping[str, str] | None = None,
        tags: Sequence[str] = (),
    ) -> PlayerVersion: ...
    def names(self) -> tuple[str, ...]: ...
    def versions(self, name: str) -> tuple[PlayerVersion, ...]: ...
    def get(self, ref: str) -> PlayerVersion: ...
    def tag(
        self, name: str, version: int | None, tag: str, *, expected: int | None = ANY_VERSION
    ) -> PlayerVersion | None: ...
    def updates(self, name: str, *, after: int | None = None) -> Iterator[PlayerVersion]: ...
    def fetch(self, version: PlayerVersion | str, directory: Path) -> Path: ...

class _Reporters:
    def list(
        self,
        *,
        text: str | None = None,
        types: Collection[str] | None = None,
        author: str | None = None,
        mode: Literal["all", "hosted", "external"] = "all",
        limit: int | None = None,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> _Rows[ReporterEntry]: ...
    def get(self, reporter_id: str, *, timeout: float | None = None) -> ReporterDetail: ...
    def outputs(
        self, reporter_id: str, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> _Rows[ReporterOutput]: ...
    def download(
        self,
        output: ReporterOutput,
        target: Path,
        *,
        limit: int | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Downloaded: ...

class _RoleRuns:
    def list(self, episode: Episode, *, limit: int | None = None, timeout: float | None = None) -> _Rows[RoleRun]: ...
    def create(
        self,
        episode: Episode,
        role: HostedRole,
        *,
        runnable_id: str | None = None,
        position: int | None = None,
        private: bool = False,
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> RoleRun: ...
    def get(self, run_id: str, *, timeout: float | None = None) -> RoleRun: ...
    def wait(
        self, run_id: str, *, timeout: float | None = None, on_change: Callable[[RoleRun], object] | None = None
    ) -> RoleRun: ...
    def download_output(
        self,
        run: str | RoleRun,
        target: Path,
        *,
        limit: int | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Downloaded: ...

class _Rounds:
    def list(
        self,
        *,
        league: str | None = None,
        division: str | None = None,
        status: str | None = None,
        limit: int | None = None,
        offset: int = 0,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> _Rows[Round]: ...
    def get(self, round_id: str, *, timeout: float | None = None) -> RoundDetail: ...

class _Secrets:
    def put(self, coworld: str, name: str, value: bytes, *, timeout: float | None = None) -> Secret: ...
    def list(self, coworld: str, *, timeout: float | None = None) -> _Rows[Secret]: ...
    def delete(self, coworld: str, name: str, *, timeout: float | None = None) -> Secret: ...

class _Submissions:
    def list(
        self,
        *,
        league: str | None = None,
        policy: str | PolicyRef | None = None,
        player: str | None = None,
        mine: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> _Rows[Submission]: ...
    def create(
        self,
        league_id: str,
        policy: str | PolicyRef,
        *,
        auto_champion: AutoChampion = "always",
        preferences: Mapping[str, Any] | None = None,
        player: str | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> SubmissionCreated: ...

class _Teams:
    def list(self, *, limit: int | None = None, timeout: float | None = None) -> _Rows[Team]: ...
    def create(self, name: str, *, timeout: float | None = None, idempotency_key: str | None = None) -> Team: ...
    def invite(self, team: str, *, days: int = 14, timeout: float | None = None) -> TeamInvitation: ...
    def join(self, code: str, *, timeout: float | None = None, idempotency_key: str | None = None) -> Team: ...
    def leave(
        self,
        team: str,
        member: str = "me",
        *,
        entries: Literal["retire", "keep"] | None = None,
        timeout: float | None = None,
    ) -> TeamLeft: ...

class _Webhooks:
    def list(self, *, limit: int | None = None, timeout: float | None = None) -> _Rows[Webhook]: ...
    def create(self, url: str, *, timeout: float | None = None) -> NewWebhook: ...
    def delete(self, webhook: str, *, timeout: float | None = None) -> Webhook: ...

class _Tokens:
    def list(self, *, limit: int | None = None, timeout: float | None = None) -> _Rows[OwnToken]: ...
    def create(self, name: str, *, days: int | None = None, timeout: float | None = None) -> NewToken: ...
    def revoke(self, token_id: str, *, timeout: float | None = None) -> OwnToken: ...

class SyncClient:
    acting_as: str
    def __init__(
        self,
        server: str = DEFAULT_SERVER,
        *,
        token: str | Token | None = None,
        timeout: float = TIMEOUT,
        max_retries: int = 2,
        transport: httpx2.AsyncBaseTransport | None = None,
        user_agent: str | None = None,
        elevated: bool = False,
        team: str | None = None,
        backoff: Backoff | None = None,
        ssl: SSLContext | None = None,
        headers: Mapping[str, str] | None = None,
        tracer_provider: TracerProvider | None = None,
    ) -> None: ...
    @classmethod
    def from_login(cls, server: str | None = None, *, identity: str = "active", **options: Any) -> Self: ...
    @classmethod
    def anonymous(cls, server: str | None = None, **options: Any) -> Self: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    @property
    def server(self) -> str: ...
    def whoami(self, *, timeout: float | None = None) -> Whoami: ...
    def delete_account(self, name: str | None = None, *, timeout: float | None = None) -> AccountDeletion: ...
    def watch(
        self,
        ids: str | Sequence[str],
        *,
        view: EpisodeView = "progress",
        cursor: str | None = None,
        until_done: bool = True,
        wait_seconds: float = 20,
        retry_timeout: float = 300,
    ) -> AbstractContextManager[_Changes]: ...
    def web_url(self, path: str) -> str: ...
    @property
    def coworlds(self) -> _Coworlds: ...
    @property
    def divisions(self) -> _Divisions: ...
    @property
    def downloads(self) -> _Downloads: ...
    @property
    def episodes(self) -> _Episodes: ...
    @property
    def events(self) -> _Events: ...
    @property
    def experience(self) -> _Experience: ...
    @property
    def games(self) -> _Games: ...
    @property
    def hosted(self) -> _Hosted: ...
    @property
    def labels(self) -> _Labels: ...
    @property
    def images(self) -> _Images: ...
    @property
    def league_seeds(self) -> _LeagueSeeds: ...
    @property
    def leagues(self) -> _Leagues: ...
    @property
    def lobbies(self) -> _Lobbies: ...
    @property
    def memberships(self) -> _Memberships: ...
    @property
    def players(self) -> _Players: ...
    @property
    def policies(self) -> _Policies: ...
    @property
    def registry(self) -> _PolicyRegistry: ...
    @property
    def reporters(self) -> _Reporters: ...
    @property
    def role_runs(self) -> _RoleRuns: ...
    @property
    def rounds(self) -> _Rounds: ...
    @property
    def secrets(self) -> _Secrets: ...
    @property
    def submissions(self) -> _Submissions: ...
    @property
    def teams(self) -> _Teams: ...
    @property
    def webhooks(self) -> _Webhooks: ...
    @property
    def tokens(self) -> _Tokens: ...
    def run(
        self, function: Callable[Concatenate[CoworldClient, _P], Awaitable[_T]], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T: ...
