"""Tokens for each server, stored in the file that the published tools share.

The file is `~/.softmax/credentials.yaml` (`SOFTMAX_CONFIG_DIR` names another directory)::

    tokens:
      https://softmax.com/api: <user token>
    player_sessions:
      https://softmax.com/api:
        active: ply_<uuid>
        cache:
          ply_<uuid>: {token: ply_..., expires_at: "2026-01-31T12:00:00+00:00"}

Unknown keys are preserved. Different spellings of an address name the same server.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from coworld_core.errors import EnvironmentFault, UsageError
from coworld_core.hints import Hint

from ..errors import NotLoggedIn
from ._credentials_file import CredentialStore, ServerCredentials
from ._tokens import DEFAULT_SERVER, PlayerSession, Token, is_player_id, normalise_server

__all__ = [
    "DEFAULT_SERVER",
    "CredentialStore",
    "Login",
    "PlayerSession",
    "ServerCredentials",
    "SessionExpired",
    "Token",
    "normalise_server",
    "resolve_login",
    "resolve_server",
]


class SessionExpired(NotLoggedIn):
    """The active player has no valid session. No other token is used in its place."""

    default_code = "session_expired"


@dataclass(frozen=True, kw_only=True)
class Login:
    """A server, and the identity used there."""

    server: str
    """Normalised address."""
    token: Token | None
    """None for anonymous access."""
    identity: str
    """`user`, `environment` (`COWORLD_TOKEN`), `anonymous`, or the player's `ply_` id."""
    expires_at: datetime | None = field(default=None)
    """When a player's session ends."""


# --- servers -----------------------------------------------------------------------------------------------------


def resolve_server(
    server: str | None = None, *, environ: Mapping[str, str] | None = None, store: CredentialStore | None = None
) -> str:
    """Return the normalised server: the argument, else `COWORLD_SERVER`, else that of the last sign-in.

    Without a sign-in, or with a token in `COWORLD_TOKEN`, which may be for another one, it is `DEFAULT_SERVER`.

    Args:
        server: The server, if one is given.
        environ: The environment; the process's own by default.
        store: The token store; the user's file by default.

    Raises:
        UsageError: It is not the address of a server. The message says if it came from `COWORLD_SERVER`.
        EnvironmentFault: The file cannot be read.
    """
    environ = os.environ if environ is None else environ
    if server:
        return normalise_server(server)
    named = environ.get("COWORLD_SERVER", "").strip()
    if not named and environ.get("COWORLD_TOKEN", "").strip():
        return DEFAULT_SERVER
    if not named:
        try:
            store = store or CredentialStore.from_environment(environ)
        except EnvironmentFault:
            # Without a home directory, there was no sign-in
            return DEFAULT_SERVER
        return store.last_server() or DEFAULT_SERVER
    try:
        return normalise_server(named)
    except UsageError as error:
        raise UsageError(f"COWORLD_SERVER: {error.message}", code=error.code, hint=error.hint) from None


def resolve_login(
    server: str | None = None,
    *,
    identity: str = "active",
    environ: Mapping[str, str] | None = None,
    store: CredentialStore | None = None,
    now: datetime | None = None,
) -> Login:
    """Find the server and the identity to use there.

    `COWORLD_TOKEN` takes precedence over the file. If the player's session has ended, an error is raised and no other
    identity is used.

    Args:
        server: The server; see `resolve_server`.
        identity: `active`: the active player if there is one, else the user; `user`: the user; or a `ply_` id.
        environ: The environment; the process's own by default.
        store: The token store; the user's file by default.
        now: The current time; read from the clock by default.

    Raises:
        NotLoggedIn: There is no token for that server.
        SessionExpired: The player's session has ended, or there is none.
        UsageError: The server or the identity is invalid, or the identity contradicts `COWORLD_TOKEN`.
        EnvironmentFault: The file cannot be read.
    """
    environ = os.environ if environ is None else environ
    address = resolve_server(server, environ=environ, store=store)
    if identity not in ("active", "user") and not is_player_id(identity):
        raise UsageError(
            f"{identity!r} is not an identity.", code="bad_identity", hint="Give `active`, `user`, or a ply_ id."
        )
    if given := environ.get("COWORLD_TOKEN", "").strip():
        return _from_environment(address, identity, given)
    if store is None:
        store = CredentialStore.from_environment(environ)
    known = store.read(address)
    player = known.active if identity == "active" else identity if identity != "user" else None
    if player is not None:
        session = known.sessions.get(player)
        if session is None or session.good_for(now) <= timedelta(0):
            raise _expired(address, player, session, signed_in=known.token is not None)
        return Login(server=address, token=session.token, identity=player, expires_at=session.expires_at)
    if known.token is None:
        raise NotLoggedIn(
            f"You are not signed in to {address}.",
            hint=_sign_in_hint(address),
            context={"server": address, "file": str(store.path)},
        )
    return Login(server=address, token=known.token, identity="user")


def _from_environment(server: str, identity: str, token_text: str) -> Login:
    try:
        token = Token(token_text)
    except UsageError as error:
        raise UsageError(f"COWORLD_TOKEN: {error.message}", code=error.code, hint=error.hint) from None
    if (identity == "user" and token.is_player) or identity not in ("active", "user"):
        wanted = "yourself" if identity == "user" else identity
        raise UsageError(
            f"You ask to act as {wanted}, but COWORLD_TOKEN is set to "
            f"{'the session of a player' if token.is_player else 'a token of its own'}.",
            code="identity_conflict",
            hint="Unset COWORLD_TOKEN to use the tokens of your credentials file.",
        )
    return Login(server=server, token=token, identity="environment")


def _expired(server: str, player: str, session: PlayerSession | None, *, signed_in: bool) -> SessionExpired:
    if session is None:
        said = f"There is no session for the player {player} at {server}."
    else:
        said = f"The session of the player {player} at {server} ended at {session.expires_at:%Y-%m-%d %H:%M %Z}."
    renew = Hint(
        "renew_session", "Start a new one with use_player, or act as yourself with identity='user'.", player=player
    )
    return SessionExpired(
        said,
        hint=renew
        if signed_in
        else Hint(
            "sign_in_and_renew",
            "Sign in with sign_in, or set COWORLD_TOKEN. Then start a new one with use_player, or act as yourself with "
            "identity='user'.",
            server=server,
            player=player,
        ),
        context={"server": server, "player_id": player},
    )


def _sign_in_hint(server: str) -> Hint:
    if server == DEFAULT_SERVER:
        return Hint("sign_in", "Sign in with sign_in, or set COWORLD_TOKEN.")
    return Hint("sign_in_to", "Sign in with sign_in({server!r}), or set COWORLD_TOKEN.", server=server)
