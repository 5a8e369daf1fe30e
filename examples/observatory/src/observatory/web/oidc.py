"""Signing in by an OpenID Connect provider: the way there, and the way back."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Mapping
from typing import cast

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from coworld_core.errors import RemoteError

from ..errors import Refusal, not_found
from ..identity.auth import ANONYMOUS
from ..identity.oidc import OidcClient, account_of
from ..services import Services
from ..store.audit import Actor, acting
from .account import LIFETIME, continue_to, set_session, sign_in_form

__all__ = ["begin", "finish"]

_COOKIE, _PATH = "observatory_oidc", "/sign-in/oidc"
_SECONDS = 600
"""How long somebody may take at the provider."""


async def begin(request: Request) -> Response:
    """Send the browser to the provider, with what it brings back in a cookie."""
    services, client = _client(request)
    place = continue_to(request.query_params.get("next", "/"))
    try:
        url, begun = await client.begin()
    except RemoteError as error:
        return _trouble(request, client, place, error)
    answer = RedirectResponse(url, status_code=303, headers={"Cache-Control": "no-store"})
    answer.set_cookie(
        _COOKIE,
        _sealed(services, {**begun, "next": place, "until": str(int(time.time()) + _SECONDS)}),
        max_age=_SECONDS,
        path=_PATH,
        httponly=True,
        samesite="lax",
        secure=services.settings.url.startswith("https:"),
    )
    return answer


async def finish(request: Request) -> Response:
    """Sign the browser in as whom the provider says."""
    services, client = _client(request)
    begun = _opened(services, request.cookies.get(_COOKIE, ""))
    place = continue_to(begun.get("next", "/"))
    origin = request.client.host if request.client else None
    try:
        async with services.sign_ins.attempt(services.database, request):
            if not begun:
                raise Refusal(
                    400,
                    "This browser did not begin this sign-in, or longer than ten minutes ago. Begin again here; if it "
                    "stays so, allow this site's cookies.",
                    code="bad_sign_in",
                )
            person = await client.finish(services.database, request.query_params, begun)
            with acting(Actor(kind="anonymous", origin=origin)):
                async with services.database.writing() as session:
                    user = await account_of(session, person, client.provider)
                    with acting(Actor(kind="user", user_id=user.id, origin=origin)):
                        entered = await services.tokens.mint(
                            session, "web", user.id, label=client.provider.name, lifetime=LIFETIME
                        )
        answer: Response = RedirectResponse(place, status_code=303, headers={"Cache-Control": "no-store"})
        set_session(answer, services, entered.text, LIFETIME)
    except (RemoteError, Refusal) as error:
        answer = _trouble(request, client, place, error)
    answer.delete_cookie(_COOKIE, path=_PATH)
    return answer


def _client(request: Request) -> tuple[Services, OidcClient]:
    services = cast("Services", request.app.state.services)
    if services.oidc is None:
        raise not_found("page", request.url.path)
    return services, services.oidc


def _trouble(request: Request, client: OidcClient, place: str, error: RemoteError | Refusal) -> Response:
    if isinstance(error, Refusal):
        said, status, headers = error.message, error.status, error.headers
    else:
        said = f"{client.provider.name} cannot sign you in now: {error.message} Try again later, or use a token."
        status, headers = 503, {"Retry-After": "60"}
    return sign_in_form(request, ANONYMOUS, place, trouble=said, status=status, headers=headers)


def _sealed(services: Services, values: Mapping[str, str]) -> str:
    text = base64.urlsafe_b64encode(json.dumps(values).encode()).decode()
    return f"{text}.{services.runtime.links.mark(f'oidc {text}')}"


def _opened(services: Services, sealed: str) -> dict[str, str]:
    """What was sealed here; nothing if it was not, or is too old."""
    text, _, mark = sealed.partition(".")
    if not hmac.compare_digest(mark.encode(), services.runtime.links.mark(f"oidc {text}").encode()):
        return {}
    values: dict[str, str] = json.loads(base64.urlsafe_b64decode(text))
    return values if int(values["until"]) > time.time() else {}
