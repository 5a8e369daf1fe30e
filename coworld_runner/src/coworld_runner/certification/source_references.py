"""Checks that the source of every program is where the manifest says (certification contract, "Source references").

Only references to GitHub are looked up; any other host is reported as unsupported, never passed silently. If GitHub
cannot be asked (no network, no quota left), the reference is unreached, which is neither a pass nor a failure.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast
from urllib.parse import quote, unquote, urlsplit

import anyio

from coworld_core.manifest.models import Manifest
from coworld_core.retries import Backoff, Tries, retry_after, says_later
from coworld_core.text.urls import shown_url

from .certification_record import SourceRecord, SourceStatus

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response

__all__ = ["SourceOptions", "check_sources"]

_HOSTS = frozenset({"github.com", "www.github.com"})
_SHA = re.compile(r"[0-9a-fA-F]{40}")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """How source references are looked up. Times are seconds."""

    offline: bool = False
    """Make no requests; check only the form of the address."""
    api: str = "https://api.github.com"
    """Address of GitHub's API."""
    token: str | None = field(default=None, repr=False)
    """Token for that API; None means `GITHUB_TOKEN` or `GH_TOKEN` of the environment, if set."""
    timeout: float = 30.0
    """For one request."""
    total_timeout: float = 120.0
    """For all requests."""
    tries: int = 3
    """How often to try a request that fails because of the host or the network."""
    backoff: Backoff = field(default_factory=lambda: Backoff(base=1.0, longest_wait=10.0))
    """Between two tries. If the host asks for a longer wait than `longest_wait`, its quota counts as used up."""
    parallel: int = 8
    """How many requests run at a time."""


@dataclass(frozen=True)
class _Reference:
    """A directory or file of a repository at one commit."""

    owner: str
    repo: str
    sha: str
    path: str

    def at(self, path: str) -> _Reference:
        return _Reference(self.owner, self.repo, self.sha, path)

    def __str__(self) -> str:
        return f"{self.owner}/{self.repo}{f'/{self.path}' if self.path else ''} at {self.sha[:12]}"


@dataclass(frozen=True)
class _Lookup:
    """The content of a place: a file, or a directory with entries."""

    is_file: bool
    size: int = 0
    entries: tuple[tuple[str, str], ...] = ()
    """Name and type of each entry of a directory."""

    @property
    def has_dockerfile(self) -> bool:
        return any(kind == "file" and _is_dockerfile(name) for name, kind in self.entries)


@dataclass(frozen=True)
class _Absent:
    """GitHub answers that the place does not exist, or refuses access."""

    status: int


class _Unreached(Exception):
    """GitHub gave no usable answer.

    Args:
        code: Code of the reason.
        message: The reason in words.
        passing: Whether another try may succeed.
        after: Seconds that GitHub asks to wait before another try.
    """

    def __init__(self, code: str, message: str, *, passing: bool = False, after: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.passing = passing
        self.after = after


@dataclass(frozen=True)
class _Settled:
    """The decision about one reference."""

    status: SourceStatus
    code: str
    message: str


def _is_dockerfile(name: str) -> bool:
    return name == "Dockerfile" or (name.startswith("Dockerfile.") and name != "Dockerfile.dockerignore")


def read_reference(url: str) -> _Reference | _Settled:
    """Parse a reference, or decide it by its address alone; makes no request."""
    try:
        parts = urlsplit(url.strip())
        host = (parts.hostname or "").lower()
    except ValueError:
        return _Settled("unsupported", "source_malformed", "It is not an address.")
    if parts.scheme not in ("http", "https") or not host:
        return _Settled("unsupported", "source_malformed", "It is not an http or https address.")
    if host not in _HOSTS:
        return _Settled(
            "unsupported", "source_host_unsupported", f"It is on {host}; only sources on github.com can be checked."
        )
    segments = [unquote(segment) for segment in parts.path.split("/") if segment]
    if len(segments) < 2 or any(segment in (".", "..") or not segment.isprintable() for segment in segments):
        return _Settled("unsupported", "source_shape_unsupported", "It does not name a repository of GitHub.")
    owner, repo = segments[0], segments[1].removesuffix(".git")
    if not _NAME.fullmatch(owner) or not _NAME.fullmatch(repo):
        return _Settled("unsupported", "source_shape_unsupported", "It does not name a repository of GitHub.")
    if len(segments) == 2:
        return _Settled(
            "unresolved",
            "source_not_pinned",
            f"It names the repository {owner}/{repo} at no commit, so what it refers to can change.",
        )
    if len(segments) < 4 or segments[2] not in ("tree", "blob"):
        return _Settled(
            "unsupported",
            "source_shape_unsupported",
            "It is neither a repository nor a tree or blob of one (/owner/repo/tree/<commit>/<path>).",
        )
    sha, path = segments[3], "/".join(segments[4:])
    if not _SHA.fullmatch(sha):
        return _Settled(
            "unresolved",
            "source_not_pinned",
            f"It is pinned to {sha[:60]!r}, which can move; a full commit SHA has 40 hexadecimal digits.",
        )
    return _Reference(owner, repo, sha.lower(), path)


def _programs(manifest: Manifest) -> Iterator[tuple[str, str | None]]:
    yield "game", manifest.game.runnable.source_url
    for entry in manifest.roles():
        yield f"{entry.type} {entry.id}", entry.source_url


async def check_sources(manifest: Manifest, *, options: SourceOptions | None = None) -> tuple[SourceRecord, ...]:
    """Look up the declared source of every program of a manifest.

    Each address is looked up once, even if several programs share it, and each directory once, even if several
    addresses are below it.

    Args:
        manifest: The manifest.
        options: How to look them up.

    Returns:
        One record per program: the game, then the role sections in order. Failed look-ups do not raise; the record says
        so.
    """
    options = options or SourceOptions()
    declared = list(_programs(manifest))
    read = {url: read_reference(url) for _, url in declared if url is not None}
    places = {url: place for url, place in read.items() if isinstance(place, _Reference)}
    found: dict[str, _Settled] = {}
    if places and options.offline:
        found = {
            url: _Settled("unreached", "offline", "It was not looked up: the check was offline.") for url in places
        }
    elif places:
        found = await _look_up(places, options)
    return tuple(_records(declared, read, found))


def _records(
    declared: Iterable[tuple[str, str | None]],
    read: Mapping[str, _Reference | _Settled],
    found: Mapping[str, _Settled],
) -> Iterator[SourceRecord]:
    for runnable, url in declared:
        if url is None:
            yield SourceRecord(
                runnable=runnable,
                status="not_declared",
                code="source_not_declared",
                message="No source_url is declared.",
            )
            continue
        place = read[url]
        settled = place if isinstance(place, _Settled) else found[url]
        yield SourceRecord(
            runnable=runnable,
            url=shown_url(url, query=True),
            status=settled.status,
            code=settled.code,
            message=settled.message,
            sha=place.sha if isinstance(place, _Reference) else None,
        )


async def _look_up(places: Mapping[str, _Reference], options: SourceOptions) -> dict[str, _Settled]:
    import httpx2

    headers = {
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
        "User-Agent": "coworld-certify",
    }
    token = options.token or next((value for name in _TOKENS if (value := os.environ.get(name, "").strip())), None)
    if token:
        headers["Authorization"] = f"Bearer {token}"
    found: dict[str, _Settled] = {}
    async with httpx2.AsyncClient(headers=headers, timeout=options.timeout, follow_redirects=True) as client:
        github = _GitHub(client, options, authenticated=bool(token))

        async def one(url: str, place: _Reference) -> None:
            try:
                found[url] = await github.settle(place)
            except _Unreached as error:
                found[url] = _Settled("unreached", error.code, str(error))

        with anyio.move_on_after(options.total_timeout):
            async with anyio.create_task_group() as group:
                for url, place in places.items():
                    group.start_soon(one, url, place)
    for url in places:
        late = _Settled(
            "unreached", "source_timeout", f"{options.api} did not answer within {options.total_timeout:g} s."
        )
        found.setdefault(url, late)
    return found


class _Once:
    """One look-up of one place, shared by all that need it."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.result: _Lookup | _Absent | _Unreached | None = None


class _GitHub:
    """GitHub's contents API; requests each place once."""

    def __init__(self, client: AsyncClient, options: SourceOptions, *, authenticated: bool) -> None:
        self._client = client
        self._options = options
        self._authenticated = authenticated
        self._places: dict[_Reference, _Once] = {}
        self._gate = anyio.CapacityLimiter(options.parallel)
        self._given_up: _Unreached | None = None

    async def settle(self, place: _Reference) -> _Settled:
        """Decide about one reference.

        Raises:
            _Unreached: GitHub gave no usable answer.
        """
        seen = await self._look(place)
        if isinstance(seen, _Absent):
            hint = "" if self._authenticated else ", or it is private and GITHUB_TOKEN is not set"
            what = "is refused" if seen.status in (401, 403, 451) else "does not exist"
            return _Settled("unresolved", "source_not_found", f"{place} {what} (HTTP {seen.status}){hint}.")
        if not (seen.size if seen.is_file else seen.entries):
            return _Settled("unresolved", "source_empty", f"{place} is empty.")
        path = place.path.rpartition("/")[0] if seen.is_file else place.path
        while True:
            listing = await self._look(place.at(path))
            if isinstance(listing, _Lookup) and listing.has_dockerfile:
                where = path or "the root of the repository"
                return _Settled("resolved", "source_resolved", f"{place} is there, with a Dockerfile in {where}.")
            if not path:
                break
            path = path.rpartition("/")[0]
        return _Settled(
            "unresolved", "source_without_dockerfile", f"{place} is there, but no Dockerfile is beside or above it."
        )

    async def _look(self, place: _Reference) -> _Lookup | _Absent:
        once = self._places.get(place)
        if once is None:
            once = self._places[place] = _Once()
            try:
                async with self._gate:
                    once.result = await self._ask(place)
            except _Unreached as error:
                once.result = error
            finally:
                once.done.set()
        await once.done.wait()
        result = once.result
        if result is None:
            raise _Unreached("source_timeout", "The look-up was cut short.")
        if isinstance(result, _Unreached):
            raise result
        return result

    async def _ask(self, place: _Reference) -> _Lookup | _Absent:
        """Request a place, with retries."""
        tries = Tries(self._options.backoff, most=self._options.tries)
        while True:
            if self._given_up is not None:
                raise self._given_up
            try:
                return self._read(await self._get(place))
            except _Unreached as error:
                pause = tries.again(error.after) if error.passing else None
                if pause is None:
                    # If one request ran out of tries, the others need not try as well
                    self._given_up = error
                    raise
            await anyio.sleep(pause)

    async def _get(self, place: _Reference) -> Response:
        import httpx2

        url = f"{self._options.api.rstrip('/')}/repos/{place.owner}/{place.repo}/contents/{quote(place.path)}"
        try:
            return await self._client.get(url, params={"ref": place.sha})
        except httpx2.HTTPError as error:
            words = str(error) or type(error).__name__
            raise _Unreached(
                "source_unreachable", f"{self._options.api} cannot be reached: {words}.", passing=True
            ) from error

    def _read(self, response: Response) -> _Lookup | _Absent:
        """Interpret an answer about a place.

        Raises:
            _Unreached: The answer is not usable.
        """
        api, status = self._options.api, response.status_code
        asked = _asked_wait(response)
        if asked is not None:
            raise _Unreached("source_rate_limited", self._quota(asked), passing=True, after=asked)
        if status == 401 and self._authenticated:
            raise _Unreached("source_token_refused", f"{api} refuses the token (HTTP 401); set another GITHUB_TOKEN.")
        if says_later(status) or status >= 500:
            raise _Unreached(
                "source_host_failed",
                f"{api} answered HTTP {status}.",
                passing=says_later(status),
                after=retry_after(response.headers),
            )
        if status >= 400:
            return _Absent(status)
        seen = _read(response)
        if seen is None:
            raise _Unreached("source_host_failed", f"{api} answered something that is not a listing; is it GitHub?")
        return seen

    def _quota(self, wait: float) -> str:
        more = "" if self._authenticated else "; with GITHUB_TOKEN set it is larger"
        return f"The quota of {self._options.api} is used up for {wait:.0f} s{more}."


def _asked_wait(response: Response) -> float | None:
    """Return the seconds that the host asks us to wait if its quota is used up; None if it is not."""
    if response.status_code not in (403, 429):
        return None
    after = retry_after(response.headers)
    if after is not None:
        return after
    if response.headers.get("x-ratelimit-remaining") != "0":
        return None
    reset = response.headers.get("x-ratelimit-reset", "")
    return max(0.0, float(reset) - time.time()) if reset.isdecimal() else 3600.0


def _read(response: Response) -> _Lookup | None:
    """Parse a listing or a file of the contents API."""
    try:
        body: object = response.json()
    except ValueError:
        return None
    if isinstance(body, list):
        entries = [cast("dict[str, object]", entry) for entry in cast("list[object]", body) if isinstance(entry, dict)]
        return _Lookup(
            False, entries=tuple((str(entry.get("name", "")), str(entry.get("type", ""))) for entry in entries)
        )
    if isinstance(body, dict) and "type" in body:
        size = cast("dict[str, object]", body).get("size")
        return _Lookup(is_file=True, size=size if isinstance(size, int) else 0)
    return None
