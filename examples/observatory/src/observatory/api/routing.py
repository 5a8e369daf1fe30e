"""The base of all routes: authentication, transactions, refusals and responses.

::

    router = ApiRouter(tags=["Leagues"])

    @router.get("/v2/leagues/{league_id}", response_model=api.League)
    async def get_league(call: Anyone, league_id: str) -> Json: ...

The type of `call` declares who may call. `response_model` only documents the response, which handlers render
themselves (`Json`): validating every row of a page as a model would cost more than everything else.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, Literal, cast

import anyio
import pydantic_core
from fastapi import APIRouter, Request, Response, Security
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.requests import HTTPConnection
from starlette.routing import Match

from ..errors import Refusal, conflict, forbidden, unauthenticated
from ..identity.auth import ANONYMOUS, Caller
from ..identity.limits import QUOTA_CODES
from ..services import Services
from ..store.audit import Actor, acting, audit
from ..store.columns import JsonObject
from ..store.models import Idempotent

__all__ = [
    "MAX_BODY",
    "PREFIX",
    "Access",
    "Anyone",
    "ApiRouter",
    "Call",
    "InPerson",
    "Json",
    "QueryModel",
    "RouteAccess",
    "SignedIn",
    "Team",
    "binary",
    "gate",
    "read_body",
    "refusals",
]

PREFIX = "/observatory"
"""The prefix of all paths of the API."""

Access = Literal["anyone", "known", "user", "team"]
"""`anyone`; `known`: a user or a player; `user`: a user in person; `team`: a member of the team."""

MAX_BODY = 8 * 1024 * 1024
"""Largest JSON body read, in bytes."""

BODY_SECONDS = 60.0
"""How long a JSON body may take to arrive."""

_REPLAYED = "Idempotent-Replayed"

_REASONS: Mapping[int, str] = {
    400: "The request is invalid.",
    401: "The request has no token, or its token is invalid or expired.",
    403: "The token does not permit this request.",
    404: "The resource does not exist, or the caller may not see it.",
    405: "This platform does not offer this operation.",
    408: "The request body did not arrive in time.",
    409: "The request conflicts with the resource's current state.",
    410: "The resource no longer exists.",
    412: "The resource has changed since the given version.",
    413: "The request body is too large.",
    416: "The requested range cannot be satisfied.",
    422: "The request failed validation.",
    429: "Too many requests, or a quota is exhausted. Retry after the time in `Retry-After`, if there is one.",
    503: "The service is temporarily unavailable. Try again later.",
}


class QueryModel(BaseModel):
    """Base of query strings; unknown parameters are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Json(JSONResponse):
    """A value as JSON: models by alias, times as RFC 3339, NaN and infinities as null."""

    def render(self, content: Any) -> bytes:
        """The value's text."""
        return pydantic_core.to_json(content, by_alias=True, inf_nan_mode="null")


@dataclass(kw_only=True)
class Call:
    """A request with its caller and its session."""

    request: Request
    services: Services
    caller: Caller
    db: AsyncSession
    """The session of the call: a transaction if the route writes, else for reading. It ends with the handler, before
    the response is sent."""

    @property
    def base_url(self) -> str:
        """The address at which clients reach this server, without a trailing slash."""
        return self.services.settings.url


class RouteAccess(HTTPBearer):
    """The access to a route, and its transaction.

    Args:
        access: Who may call it.
        tolerant: Whether an invalid token makes the caller anonymous instead of causing a 401.
        held: Whether a route that writes has a transaction from beginning to end. A route that takes long has none, and
            opens its own.
        secret: Whether the response contains a token. Such a response is never stored, even under an Idempotency-Key.
        keyed: Whether the body has an `idempotency_key`, which is used if there is no Idempotency-Key.
    """

    def __init__(
        self, access: Access, *, tolerant: bool = False, held: bool = True, secret: bool = False, keyed: bool = False
    ) -> None:
        super().__init__(scheme_name="token", auto_error=False)
        self.access = access
        self.tolerant = tolerant
        self.held = held
        self.secret = secret
        self.keyed = keyed

    async def __call__(self, request: HTTPConnection) -> Any:
        """The call, which `_Route` has admitted before reading the body."""
        return request.state.call

    def admit(self, caller: Caller) -> None:
        """Check that a caller has access.

        Raises:
            Refusal: 401 or 403.
        """
        if self.access == "anyone":
            return
        caller.require()
        if self.access != "known" and caller.kind == "player":
            raise forbidden("A player's session may not do this. Use your own token.", code="user_token_needed")
        if self.access == "team" and not caller.is_team:
            raise forbidden("Only members of the team may do this.", code="team_only")


def gate(access: Access, **options: bool) -> Any:
    """A `RouteAccess` as a dependency; in the OpenAPI document its access is a required role of the token."""
    return Security(RouteAccess(access, **options), scopes=[access] if access in ("user", "team") else [])


Anyone = Annotated[Call, gate("anyone")]
SignedIn = Annotated[Call, gate("known")]
InPerson = Annotated[Call, gate("user")]
Team = Annotated[Call, gate("team")]


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Further statuses of a route, for the OpenAPI document."""
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": _REASONS.get(status) or f"{HTTPStatus(status).phrase}.", "content": content}
        for status in sorted(statuses)
    }


def binary(media_type: str) -> type[Response]:
    """The response class of a route that does not return JSON."""
    return type("Binary", (Response,), {"media_type": media_type})


class _JsonRequest(Request):
    """A request with a JSON body of any content type, at most `MAX_BODY` bytes long."""

    async def body(self) -> bytes:
        """The whole body."""
        if not hasattr(self, "_body"):
            self._body = await read_body(self, MAX_BODY)
        return self._body

    async def json(self) -> Any:
        """The parsed body."""
        try:
            return pydantic_core.from_json(await self.body())
        except ValueError as error:
            raise json.JSONDecodeError(str(error), "", 0) from error


class _Route(APIRoute):
    """A route of the API: it identifies the caller, reads the body, then does everything in one transaction."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        doc = inspect.getdoc(endpoint) or ""
        options["summary"] = doc.partition("\n")[0].rstrip(".")
        options["response_description"] = f"{options['summary']}."
        options["operation_id"] = f"{endpoint.__module__.rpartition('.')[2]}_{endpoint.__name__}"
        super().__init__(path, endpoint, **options)
        gate = self._gate()
        extra: dict[str, Any] = {**(self.openapi_extra or {})}
        if gate.access == "anyone":
            extra["security"] = [{}]
        if self._remembers(gate):
            shape = {"type": "string", "maxLength": 200, "pattern": "^[A-Za-z0-9_.-]+$"}
            extra["parameters"] = [{"name": "Idempotency-Key", "in": "header", "required": False, "schema": shape}]
        self.openapi_extra = extra
        self.responses = {**refusals(*self._usual(gate)), **self.responses}

    def matches(self, scope: Any) -> tuple[Match, Any]:
        """Whether a request matches; GET routes also match HEAD."""
        if scope["type"] == "http" and scope["method"] == "HEAD":
            return super().matches({**scope, "method": "GET"})
        return super().matches(scope)

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        """Respond to a request."""
        if scope["method"] == "HEAD" and "GET" in (self.methods or ()):
            await self.app(scope, receive, send)
        else:
            await super().handle(scope, receive, send)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The route as a function of the request."""
        handle, gate = super().get_route_handler(), self._gate()
        has_body, writes, remembers = self.body_field is not None, self._writes(gate), self._remembers(gate)

        async def answer(request: Request) -> Response:
            _refuse_nul(request)
            services = cast("Services", request.app.state.services)
            address = request.client.host if request.client else ""
            async with services.database.reading() as session:
                caller = await identify(request, services, session, tolerant=gate.tolerant)
            try:
                with acting(Actor(kind=caller.kind, user_id=caller.actor_id, origin=address)):
                    return await proceed(request, services, caller)
            except Refusal as refusal:
                if caller.user is not None and refusal.code in QUOTA_CODES:
                    await services.refused.write(services.database, caller.user.id, refusal.code, refusal.message)
                raise

        async def proceed(request: Request, services: Services, caller: Caller) -> Response:
            gate.admit(caller)
            key = request.headers.get("idempotency-key") if remembers and caller.known else None
            if has_body:
                scope = {**request.scope, "headers": [*_without_type(request), (b"content-type", b"application/json")]}
                request = _JsonRequest(scope, request.receive)
                # The sender may be slow, so the transaction begins after the body.
                await request.body()
                if gate.keyed and remembers and key is None:
                    key = await _idempotency_key(request)
            open_session = services.database.writing if writes else services.database.reading
            try:
                async with open_session() as session:
                    if writes and caller.elevated:
                        audit(session, "team.acted", subject=f"{request.method} {request.url.path}")
                    call = Call(request=request, services=services, caller=caller, db=session)
                    request.state.call = call
                    if key is None:
                        return await handle(request)
                    return await _once(call, partial(handle, request), key)
            except IntegrityError as error:
                # Two requests did the same at once, and the database accepted one of them.
                raise conflict(
                    "A concurrent request made a conflicting change. Fetch the current state, then try again.",
                    code="concurrent_change",
                ) from error

        return answer

    def _gate(self) -> RouteAccess:
        return next(part.call for part in self.dependant.dependencies if isinstance(part.call, RouteAccess))

    def _writes(self, gate: RouteAccess) -> bool:
        return gate.held and "GET" not in (self.methods or ())

    def _remembers(self, gate: RouteAccess) -> bool:
        """Whether responses under an Idempotency-Key are stored and repeated."""
        return self._writes(gate) and not gate.secret and "POST" in (self.methods or ())

    def _usual(self, gate: RouteAccess) -> set[int]:
        # Any request may ask for team rights and be refused, contain a NUL, be one too many, or find no database.
        statuses = {403, 422, 429, 503}
        if not gate.tolerant:
            statuses.add(401)
        if self.param_convertors or self.body_field is not None:
            statuses.add(404)
        if self.body_field is not None:
            statuses |= {408, 409, 413}
        if self.dependant.query_params:
            statuses.add(400)
        if "GET" not in (self.methods or ()):
            statuses |= {400, 409}
        return statuses


ApiRouter = partial(APIRouter, prefix=PREFIX, route_class=_Route)
"""A noun's routes."""


async def identify(request: Request, services: Services, session: AsyncSession, *, tolerant: bool = False) -> Caller:
    """Identify the caller of a request.

    Raises:
        Refusal: 401 for an invalid token, unless `tolerant`.
    """
    reading = request.method in ("GET", "HEAD")
    caller = await services.tokens.caller(session, request.headers, request.cookies, reading=reading)
    if caller is not None:
        return caller
    if tolerant:
        return ANONYMOUS
    raise unauthenticated("The token is invalid or expired. Sign in again.")


async def read_body(request: Request, limit: int) -> bytes:
    """Read a request's whole body.

    Raises:
        Refusal: 413 if it is longer than `limit` bytes, 408 if it does not arrive in time.
    """
    content = bytearray()
    try:
        with anyio.fail_after(BODY_SECONDS):
            async for chunk in request.stream():
                content += chunk
                if len(content) > limit:
                    raise Refusal(413, f"The request body is larger than {limit} bytes.", code="too_large")
    except TimeoutError:
        raise Refusal(
            408,
            f"The request body did not arrive within {BODY_SECONDS:.0f} s.",
            code="too_slow",
            headers={"Connection": "close"},
        ) from None
    return bytes(content)


async def _idempotency_key(request: Request) -> str | None:
    """The `idempotency_key` of a body; None without one, or if the body is invalid, which is reported later."""
    try:
        body = await request.json()
    except json.JSONDecodeError:
        return None
    key = cast("JsonObject", body).get("idempotency_key") if isinstance(body, dict) else None
    return key if isinstance(key, str) and key else None


async def _once(call: Call, handle: Callable[[], Coroutine[Any, Any, Response]], key: str) -> Response:
    """Handle a POST under an Idempotency-Key: repeat the stored response if there is one."""
    if not key.isprintable() or len(key) > 200:
        raise Refusal(
            400, "The Idempotency-Key is invalid: it must be 1 to 200 printable characters.", code="bad_idempotency_key"
        )
    subject = call.caller.subject_id or ""
    content = await call.request.body() if isinstance(call.request, _JsonRequest) else b""
    method, path = call.request.method.encode(), call.request.url.path.encode()
    digest = hashlib.sha256(b"\0".join((method, path, content))).hexdigest()
    # A second request waits here for the first, since one transaction writes at a time.
    stored = await call.db.get(Idempotent, (subject, key))
    if stored is not None:
        if stored.digest != digest:
            raise Refusal(
                422,
                "This Idempotency-Key was already used for a different request. Use a new one.",
                code="idempotency_key_reused",
            )
        headers = {_REPLAYED: "true"}
        return Response(stored.body, status_code=stored.status, headers=headers, media_type="application/json")
    response = await handle()
    body = bytes(response.body).decode()
    call.db.add(Idempotent(subject_id=subject, key=key, digest=digest, status=response.status_code, body=body))
    await call.db.flush()
    return response


def _without_type(request: Request) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in request.scope["headers"] if name != b"content-type"]


def _refuse_nul(request: Request) -> None:
    # Databases cannot store a NUL in a text, so nothing here has one in its name.
    if any("\0" in str(value) for value in request.path_params.values()):
        raise Refusal(404, "Not found: the path contains a NUL character.", code="not_found")
    if any("\0" in value for pair in request.query_params.multi_items() for value in pair):
        raise Refusal(
            422, [{"type": "value_error", "loc": ["query"], "msg": "contains a NUL character"}], code="validation_error"
        )
