"""Signing in by an OpenID Connect provider: where a browser is sent, what it brings back, and whose account that is."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

import anyio
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core.errors import RemoteError, UsageError
from coworld_core.loopback import is_loopback

from ..errors import Refusal, conflict, forbidden
from ..names import NameRefused
from ..settings import OidcProvider
from ..store.audit import audit
from ..store.columns import now
from ..store.database import Database
from ..store.models import SignInLink, UsedState, User
from .accounts import make_account
from .auth import require_enabled

__all__ = ["OidcClient", "ProvenPerson", "account_of"]

_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""Signatures by a key that the provider alone has: neither `none`, nor one by a key that others know."""
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_FRESH = 3600.0
"""Seconds for which what the provider says of itself is used."""
_LEEWAY = 60
"""Seconds by which the provider's clock may be wrong."""
_LIMIT = 256 * 1024
_LONGEST = 256
_SECONDS = 15.0
_TRIED_NAMES = 100
_KEPT = dt.timedelta(hours=1)
"""How long it is known which states were used: longer than one is good for."""


@dataclass(frozen=True, kw_only=True)
class ProvenPerson:
    """Whom a provider has signed in."""

    issuer: str
    subject: str
    email: str | None
    """Only one that the provider has verified."""
    names: tuple[str, ...]
    """What the person may be called, the best first."""


class OidcClient:
    """The client of an OpenID Connect provider.

    Args:
        provider: The provider.
        url: The address at which people reach this server.

    Raises:
        UsageError: `authlib` is not installed (code `oidc_missing`), or the issuer is no https URL (`bad_issuer`).
    """

    def __init__(self, provider: OidcProvider, url: str) -> None:
        if find_spec("authlib") is None:
            raise UsageError(
                "Signing in by a provider needs authlib, which is not installed.",
                code="oidc_missing",
                hint='Install it: pip install "observatory[oidc]".',
            )
        if not _is_safe(provider.issuer):
            raise UsageError(
                f"{provider.issuer!r} is no issuer that can be trusted: it begins with https://, on this machine http://.",
                code="bad_issuer",
                hint="Give --oidc-issuer as the provider's documentation writes it.",
            )
        self.provider = provider
        self._callback = f"{url}/sign-in/oidc/callback"
        self._read_at = float("-inf")
        self._metadata: dict[str, Any] = {}
        self._keys: dict[str, Any] = {}

    async def begin(self) -> tuple[str, dict[str, str]]:
        """Begin to sign somebody in.

        Returns:
            Where to send the browser, and what it must bring back to `finish`: `state`, `nonce` and `verifier`.

        Raises:
            RemoteError: The provider cannot be reached, or does not say what it should.
        """
        await self._read()
        begun = {name: secrets.token_urlsafe(32) for name in ("state", "nonce", "verifier")}
        async with self._client() as client:
            url, _ = client.create_authorization_url(
                self._metadata["authorization_endpoint"],
                state=begun["state"],
                nonce=begun["nonce"],
                code_verifier=begun["verifier"],
            )
        return url, begun

    async def finish(self, database: Database, answer: Mapping[str, str], begun: Mapping[str, str]) -> ProvenPerson:
        """Find out whom the provider has signed in.

        Args:
            database: Notes what was used, for all servers.
            answer: What it has sent back by the browser.
            begun: What `begin` has returned, from the same browser.

        Raises:
            Refusal: 400 (code `bad_sign_in`): this is not the answer to what this browser began, or the second one;
                403 (`sign_in_refused`): the provider has refused, or what it says cannot be believed.
            RemoteError: It cannot be reached, or does not say what it should.
        """
        name, state = self.provider.name, begun["state"]
        if not secrets.compare_digest(answer.get("state", "").encode(), state.encode()):
            raise Refusal(400, "This browser did not begin this sign-in. Begin again here.", code="bad_sign_in")
        if answer.get("iss", self.provider.issuer) != self.provider.issuer:
            raise forbidden(f"Another provider than {name} has answered. Begin again here.", code="sign_in_refused")
        if "error" in answer or not answer.get("code"):
            raise self._refused(answer.get("error_description") or answer.get("error") or "it sent no code")
        if not await _use(database, state):
            raise Refusal(400, "This sign-in was already used. Begin again here.", code="bad_sign_in")
        await self._read()
        return _person(self.provider, await self._claims(await self._exchange(answer["code"], begun), begun["nonce"]))

    async def _exchange(self, code: str, begun: Mapping[str, str]) -> dict[str, Any]:
        """What the provider gives for a code: `id_token` and more."""
        import httpx2
        from authlib.integrations.base_client.errors import OAuthError

        try:
            async with self._client() as client:
                return await client.fetch_token(
                    self._metadata["token_endpoint"],
                    grant_type="authorization_code",
                    code=code,
                    code_verifier=begun["verifier"],
                )
        except OAuthError as error:
            raise self._refused(str(error.description or error.error)) from error
        except (httpx2.HTTPError, ValueError, TypeError) as error:
            raise self._remote(f"did not give a token for its code: {error or type(error).__name__}") from error

    async def _claims(self, given: Mapping[str, Any], nonce: str) -> dict[str, Any]:
        """The claims of an ID token, once they are proven."""
        from authlib.oidc.core import CodeIDToken
        from joserfc import jwt
        from joserfc.errors import InvalidKeyIdError, JoseError
        from joserfc.jwk import KeySet

        text, issuer, client_id = str(given.get("id_token", "")), self.provider.issuer, self.provider.client_id
        try:
            for last in (False, True):
                try:
                    token = jwt.decode(text, KeySet.import_key_set(self._keys), _ALGORITHMS)  # pyright: ignore[reportArgumentType]
                    break
                except InvalidKeyIdError:
                    # It has begun to sign with another key
                    if last:
                        raise
                    await self._read(anew=True)
            claims = CodeIDToken(
                token.claims,  # pyright: ignore[reportPossiblyUnboundVariable]
                token.header,  # pyright: ignore[reportPossiblyUnboundVariable]
                {"iss": {"essential": True, "value": issuer}, "aud": {"essential": True, "value": client_id}},
                {"nonce": nonce, "client_id": client_id, "access_token": given.get("access_token")},
            )
            claims.validate(leeway=_LEEWAY)  # pyright: ignore[reportUnknownMemberType]
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise forbidden(
                f"What {self.provider.name} said of you cannot be believed ({error or type(error).__name__}). Begin "
                "again here; if it stays so, tell whoever runs this server.",
                code="sign_in_refused",
            ) from error
        return dict(claims)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]

    async def _read(self, *, anew: bool = False) -> None:
        """Read what the provider says of itself, and its keys, unless both are fresh."""
        if not anew and anyio.current_time() - self._read_at < _FRESH:
            return
        issuer = self.provider.issuer
        metadata = await self._get(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if metadata.get("issuer") != issuer:
            raise self._remote(f"says that its issuer is {metadata.get('issuer')!r}, not {issuer!r}")
        for one in _ENDPOINTS:
            if not _is_safe(metadata.get(one)):
                raise self._remote(f"names no {one} with https")
        self._keys = await self._get(metadata["jwks_uri"])
        self._metadata, self._read_at = metadata, anyio.current_time()

    async def _get(self, url: str) -> dict[str, Any]:
        from coworld_runner.package import read_document

        found: bytes | None = None
        with anyio.move_on_after(_SECONDS):
            found = await read_document(url, what="document of the provider", limit=_LIMIT, retry_timeout=0)
        if found is None:
            raise self._remote("did not answer in time")
        with suppress(ValueError, RecursionError):
            if isinstance(document := json.loads(found), dict):
                return document  # pyright: ignore[reportUnknownVariableType]
        raise self._remote(f"did not answer with a JSON object at {url}")

    def _client(self) -> Any:  # an `AsyncOAuth2Client`, which has no types for its base
        from authlib.integrations.httpx_client import AsyncOAuth2Client

        secret = self.provider.client_secret
        ways = self._metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        way = "client_secret_basic" if "client_secret_basic" in ways else "client_secret_post"
        return AsyncOAuth2Client(
            client_id=self.provider.client_id,
            client_secret=secret,
            token_endpoint_auth_method="none" if secret is None else way,
            scope="openid email profile",
            redirect_uri=self._callback,
            code_challenge_method="S256",
            timeout=_SECONDS,
        )

    def _refused(self, why: str) -> Refusal:
        return forbidden(
            f"{self.provider.name} did not sign you in: {why[:200].rstrip('.')}. Begin again here.",
            code="sign_in_refused",
        )

    def _remote(self, said: str) -> RemoteError:
        return RemoteError(f"{self.provider.name} {said}.", code="bad_provider")


async def _use(database: Database, state: str) -> bool:
    """Use a state; whether nobody has before."""
    digest = hashlib.sha256(state.encode()).hexdigest()
    async with database.writing() as session:
        if fresh := await session.get(UsedState, digest) is None:
            session.add(UsedState(digest=digest, expires_at=now() + _KEPT))
    return fresh


def _is_safe(url: object) -> bool:
    """Whether nobody on the way can read or change what is sent to an address."""
    try:
        parts = urlsplit(str(url))
        if parts.scheme == "http":
            return is_loopback(parts.hostname or "")
    except ValueError:
        return False
    return parts.scheme == "https" and bool(parts.hostname)


def _person(provider: OidcProvider, claims: Mapping[str, Any]) -> ProvenPerson:
    subject, email = claims["sub"], claims.get("email")
    if not isinstance(subject, str) or not 0 < len(subject) < _LONGEST:
        raise forbidden(f"{provider.name} did not say who you are. Use a token.", code="sign_in_refused")
    email = email if isinstance(email, str) and claims.get("email_verified") is True else None
    email = email if email and len(email) < _LONGEST else None
    domain = (email or "").rpartition("@")[2].lower()
    if provider.domains and domain not in {one.lower() for one in provider.domains}:
        raise forbidden(
            f"Only verified e-mail addresses of {', '.join(provider.domains)} sign in here. Sign in to {provider.name} "
            "with such an account, or use a token.",
            code="sign_in_refused",
        )
    # Providers put addresses in place of names, which everybody would see
    names = [str(claims.get(one) or "").partition("@")[0] for one in ("preferred_username", "nickname", "name")]
    names += [(email or "").partition("@")[0], "player"]
    return ProvenPerson(
        issuer=provider.issuer,
        subject=subject,
        email=email,
        names=tuple(name for name in names if name.strip()),
    )


async def account_of(session: AsyncSession, person: ProvenPerson, provider: OidcProvider) -> User:
    """The account of somebody whom a provider has signed in: linked before, found by the e-mail, or made.

    Args:
        session: A writing session.
        person: Who.
        provider: The provider.

    Raises:
        Refusal: 403: there is no account (code `no_account`), it is disabled (`account_disabled`), or somebody else of
            the provider has it (`sign_in_refused`); 409 (`no_account`): no name is free.
    """
    link = await session.get(SignInLink, (person.issuer, person.subject))
    if link is not None:
        user = await session.get_one(User, link.user_id)
        require_enabled(user)
        return user
    found: list[User] = []
    if person.email is not None:
        same = sa.func.lower(User.email) == person.email.lower()
        found = list(await session.scalars(sa.select(User).where(same, ~User.is_shared).limit(2)))
    if not found and provider.register:
        user = await _new_account(session, person)
    elif len(found) != 1:
        who = f"Several accounts have the e-mail {person.email}" if found else "You have no account here"
        verified = "" if person.email else f", and {provider.name} has verified no e-mail of yours"
        raise forbidden(f"{who}{verified}. Ask whoever runs this server for an invitation.", code="no_account")
    else:
        [user] = found
        require_enabled(user)
        taken = sa.select(SignInLink.subject).where(SignInLink.issuer == person.issuer, SignInLink.user_id == user.id)
        if await session.scalar(taken) is not None:
            # Addresses are given to other people in time
            raise forbidden(
                f"The account with the e-mail {person.email} belongs to somebody else of {provider.name}. If it is "
                "yours, ask whoever runs this server to revoke its sign-ins.",
                code="sign_in_refused",
            )
    session.add(SignInLink(issuer=person.issuer, subject=person.subject, user_id=user.id))
    audit(session, "account.linked", user_id=user.id, subject=person.issuer)
    await session.flush()
    return user


async def _new_account(session: AsyncSession, person: ProvenPerson) -> User:
    for base in person.names:
        for number in range(1, _TRIED_NAMES):
            try:
                name = base if number == 1 else f"{base[:90]}-{number}"
                return await make_account(session, name, email=person.email)
            except NameRefused as refused:
                if refused.code != "name_taken":
                    break
    said = "No name is free for your account. Ask whoever runs this server for an invitation."
    raise conflict(said, code="no_account")
