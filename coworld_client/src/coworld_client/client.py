"""The API client: one connection, with each resource of the API as an attribute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from ssl import SSLContext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import httpx2

from coworld_core.api import AccountDeletion, EpisodeView, Whoami

from .sign_in.credentials import DEFAULT_SERVER, Token, resolve_login, resolve_server
from .transport._connection import TIMEOUT, Connection
from .transport._retry import Backoff

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from .resources.coworlds import Coworlds
    from .resources.divisions import Divisions
    from .resources.downloads import Downloads
    from .resources.episodes import Episodes
    from .resources.events import Events
    from .resources.experience import Experience
    from .resources.games import Games
    from .resources.hosted import Hosted
    from .resources.images import Images
    from .resources.labels import Labels
    from .resources.league_seeds import LeagueSeeds
    from .resources.leagues import Leagues
    from .resources.lobbies import Lobbies
    from .resources.memberships import Memberships
    from .resources.players import Players
    from .resources.policies import Policies
    from .resources.policy_registry import PolicyRegistry
    from .resources.reporters import Reporters
    from .resources.role_runs import RoleRuns
    from .resources.rounds import Rounds
    from .resources.secrets import Secrets
    from .resources.submissions import Submissions
    from .resources.teams import Teams
    from .resources.tokens import Tokens
    from .resources.webhooks import Webhooks
    from .watch import Changes

__all__ = ["CoworldClient"]


class CoworldClient:
    """A client of one platform; use it in `async with`.

    Args:
        server: Address of the platform.
        token: The token to send; anonymous when None.
        timeout: Seconds for one attempt of an ordinary call. Each call has its own `timeout=`.
        max_retries: How often to retry a call that may be repeated: reads always, writes with an idempotency key, which
            is created once per call. 409 is never retried.
        transport: Carries the requests; the network by default.
        user_agent: Prepended to the client's own.
        elevated: Request team rights with every call.
        team: Act for this one of your teams, by its name.
        backoff: Pauses between attempts.
        ssl: Whom to trust, and which certificate to show: `coworld_client.tls.tls_context(ca=…, certificate=…)`. It
            counts for the storage and the registry that the platform points to, too. By default as `SSL_CERT_FILE`,
            `SSL_CERT_DIR`, `COWORLD_CA_FILE` and `COWORLD_CLIENT_CERT` say.
        headers: Headers for each request to this server, for a proxy before it; they are sent to no other host.
        tracer_provider: Where spans go, one for each request (OpenTelemetry, the extra `tracing`). The platform is told
            of the span that is current, this one or one of yours, and may go on with it.

    Raises:
        UsageError: The server is not an address, the token is malformed, a player's session asks for team rights, or a
            header is none or one that the client sets itself (`bad_header`).
    """

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
    ) -> None:
        self.connection = Connection(
            server,
            token=Token(token) if isinstance(token, str) else token,
            timeout=timeout,
            max_retries=max_retries,
            transport=transport,
            user_agent=user_agent,
            elevated=elevated,
            team=team,
            backoff=backoff,
            ssl=ssl,
            headers=headers,
            tracer_provider=tracer_provider,
        )
        self.acting_as: str = "anonymous" if token is None else "token"
        """`user`, `environment`, `anonymous`, `token` when one was given here, or the player's id."""

    @classmethod
    def from_login(cls, server: str | None = None, *, identity: str = "active", **options: Any) -> Self:
        """A client with the credentials stored on this machine.

        Args:
            server: The platform; when None, `COWORLD_SERVER` or the default one.
            identity: `active`: the player in use if there is one, else the user; `user`: the user; or a player's
                `ply_` id. `COWORLD_TOKEN` overrides all of them.
            options: Passed to the constructor.

        Raises:
            NotLoggedIn: There is no token; `SessionExpired` when the player's session has ended.
            UsageError: The server is not an address, or the identity is invalid.
            EnvironmentFault: The credentials cannot be read.
        """
        login = resolve_login(server, identity=identity)
        client = cls(login.server, token=login.token, **options)
        client.acting_as = login.identity
        return client

    @classmethod
    def anonymous(cls, server: str | None = None, **options: Any) -> Self:
        """A client without a token, which can read public data.

        Args:
            server: The platform; when None, `COWORLD_SERVER` or the default one.
            options: Passed to the constructor.
        """
        return cls(resolve_server(server), **options)

    async def __aenter__(self) -> Self:
        await self.connection.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.connection.__aexit__(kind, error, trace)

    def __repr__(self) -> str:
        return f"<CoworldClient {self.server} as {self.acting_as}>"

    @property
    def server(self) -> str:
        """The platform's address, normalised."""
        return self.connection.server

    async def whoami(self, *, timeout: float | None = None) -> Whoami:
        """The account of the token. An unknown token gives `anonymous`, not an error.

        Raises:
            ApiError: The server refused, or cannot be reached.
        """
        from .transport._replies import read

        return read(Whoami, await self.connection.call("GET", "/whoami", timeout=timeout))

    async def delete_account(self, name: str | None = None, *, timeout: float | None = None) -> AccountDeletion:
        """Delete your account for good, or, without its name, say what that would do.

        Args:
            name: The account's name, to say that it is meant.
            timeout: Seconds for each attempt.

        Raises:
            Conflict: The name is another one, or you are the last member of a team that has entries.
        """
        from .transport._replies import read

        method, target = ("GET", "/account/deletion") if name is None else ("DELETE", "/account")
        return read(AccountDeletion, await self.connection.call(method, target, params={"name": name}, timeout=timeout))

    def watch(
        self,
        ids: str | Sequence[str],
        *,
        view: EpisodeView = "progress",
        cursor: str | None = None,
        until_done: bool = True,
        wait_seconds: float = 20,
        retry_timeout: float = 300,
    ) -> AbstractAsyncContextManager[Changes]:
        """Follow episodes, or the episodes of experience requests, as they change.

        ::

            async with api.watch("xreq_...") as changes:
                async for change in changes:
                    print(change.id, change.episode.status)

        The first changes report the current state of every episode. A server without a change feed is polled, with
        growing pauses while nothing changes.

        Args:
            ids: 1 to 50 ids, all of experience requests or all of episode requests.
            view: `results` to get scores, participants and replay as well.
            cursor: `change.cursor` of the last change seen, to resume from there.
            until_done: Whether to stop once all episodes have ended; otherwise watching never stops.
            wait_seconds: Seconds that the server may hold a call until something changes, up to 25.
            retry_timeout: Seconds to keep retrying while the server is unavailable.

        Raises:
            UsageError: There are no ids, too many, or ids of different kinds, or the cursor is invalid.
        """
        from .watch import watch

        return watch(
            self,
            (ids,) if isinstance(ids, str) else tuple(ids),
            view=view,
            cursor=cursor,
            until_done=until_done,
            wait_seconds=wait_seconds,
            retry_timeout=retry_timeout,
        )

    def web_url(self, path: str) -> str:
        """The URL of a web page of the platform.

        Args:
            path: The path of the page, beginning with a slash.

        Returns:
            The path appended to the server's address, without the API's own suffix (`/api`, `/observatory`).
        """
        for ending in ("/api/observatory", "/api", "/observatory"):
            if self.server.endswith(ending):
                return self.server.removesuffix(ending) + path
        return self.server + path

    # Each resource is imported on first use.

    @cached_property
    def coworlds(self) -> Coworlds:
        """Coworlds: the games to play."""
        from .resources.coworlds import Coworlds

        return Coworlds(self)

    @cached_property
    def divisions(self) -> Divisions:
        """Divisions of leagues, and their standings."""
        from .resources.divisions import Divisions

        return Divisions(self)

    @cached_property
    def downloads(self) -> Downloads:
        """Files to download from many episodes at once."""
        from .resources.downloads import Downloads

        return Downloads(self)

    @cached_property
    def episodes(self) -> Episodes:
        """Episodes that were played, and their files."""
        from .resources.episodes import Episodes

        return Episodes(self)

    @cached_property
    def events(self) -> Events:
        """Events of leagues."""
        from .resources.events import Events

        return Events(self)

    @cached_property
    def experience(self) -> Experience:
        """Experience requests: episodes you ask for."""
        from .resources.experience import Experience

        return Experience(self)

    @cached_property
    def games(self) -> Games:
        """Games that leagues are played in."""
        from .resources.games import Games

        return Games(self)

    @cached_property
    def hosted(self) -> Hosted:
        """Games and replays that run on the platform."""
        from .resources.hosted import Hosted

        return Hosted(self)

    @cached_property
    def labels(self) -> Labels:
        """Labels of what is yours."""
        from .resources.labels import Labels

        return Labels(self)

    @cached_property
    def images(self) -> Images:
        """Container images you have uploaded."""
        from .resources.images import Images

        return Images(self)

    @cached_property
    def league_seeds(self) -> LeagueSeeds:
        """Requests for leagues, for the platform's team."""
        from .resources.league_seeds import LeagueSeeds

        return LeagueSeeds(self)

    @cached_property
    def leagues(self) -> Leagues:
        """Leagues."""
        from .resources.leagues import Leagues

        return Leagues(self)

    @cached_property
    def lobbies(self) -> Lobbies:
        """Games of leagues that people and policies play together."""
        from .resources.lobbies import Lobbies

        return Lobbies(self)

    @cached_property
    def memberships(self) -> Memberships:
        """Policies in divisions."""
        from .resources.memberships import Memberships

        return Memberships(self)

    @cached_property
    def players(self) -> Players:
        """Players you own."""
        from .resources.players import Players

        return Players(self)

    @cached_property
    def policies(self) -> Policies:
        """Policies you have uploaded."""
        from .resources.policies import Policies

        return Policies(self)

    @cached_property
    def registry(self) -> PolicyRegistry:
        """Your policies as a registry of players, as a directory of this machine is one."""
        from .resources.policy_registry import PolicyRegistry

        return PolicyRegistry(self)

    @cached_property
    def reporters(self) -> Reporters:
        """The catalogue of reporters, and what they have written."""
        from .resources.reporters import Reporters

        return Reporters(self)

    @cached_property
    def role_runs(self) -> RoleRuns:
        """Graders, reporters and diagnosers that the platform runs on episodes."""
        from .resources.role_runs import RoleRuns

        return RoleRuns(self)

    @cached_property
    def rounds(self) -> Rounds:
        """Rounds of divisions."""
        from .resources.rounds import Rounds

        return Rounds(self)

    @cached_property
    def secrets(self) -> Secrets:
        """Secrets of Coworlds."""
        from .resources.secrets import Secrets

        return Secrets(self)

    @cached_property
    def submissions(self) -> Submissions:
        """Requests to let a policy play in a league."""
        from .resources.submissions import Submissions

        return Submissions(self)

    @cached_property
    def teams(self) -> Teams:
        """Your teams."""
        from .resources.teams import Teams

        return Teams(self)

    @cached_property
    def webhooks(self) -> Webhooks:
        """Your webhooks."""
        from .resources.webhooks import Webhooks

        return Webhooks(self)

    @cached_property
    def tokens(self) -> Tokens:
        """Your own tokens."""
        from .resources.tokens import Tokens

        return Tokens(self)
