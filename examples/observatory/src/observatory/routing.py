"""How a route is written down: a function, its path, and types that say what goes in and what comes out.

A handler takes a ``Call`` and, by their names, the path's parameters, ``query`` and ``body`` (pydantic models)::

    router = Router("Leagues")

    @router.get("/v2/leagues/{league_id}", access="anyone", answer=api.League)
    async def get_league(call: Call, league_id: str) -> JsonObject: ...

What it returns is written as JSON; a ``Response`` goes out as it is; ``Answer`` adds a status or headers. The same
table makes the OpenAPI document.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias, get_type_hints

import pydantic_core
import sqlalchemy as sa
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.requests import Request
from starlette.responses import Response

from .auth import ANONYMOUS, Caller
from .errors import Refusal, conflict, forbidden, unauthenticated
from .models import Idempotent
from .services import Services

__all__ = ["Access", "Answer", "Body", "Call", "Endpoint", "LongText", "Query", "Router", "Text", "serve"]

Access = Literal["anyone", "known", "user", "team"]
"""``anyone``; ``known``: a user or a player; ``user``: a user in person; ``team``: a member of the team."""

Handler: TypeAlias = Callable[..., Awaitable[Any]]

Text = Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00]*$")]
"""A line of text as every database takes it."""

LongText = Annotated[str, StringConstraints(max_length=20_000, pattern=r"^[^\x00]*$")]
"""More than a line."""

MAX_BODY = 8 * 1024 * 1024
"""Largest JSON body read, in bytes."""

_REPLAYED = "Idempotent-Replayed"


class Body(BaseModel):
    """Base of what clients send: what is not known is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Query(BaseModel):
    """Base of query strings: what is not known is ignored, as everywhere on the web."""

    model_config = ConfigDict(extra="ignore", frozen=True)


@dataclass(kw_only=True)
class Call:
    """One request on its way through."""

    request: Request
    services: Services
    caller: Caller
    db: AsyncSession
    """The call's session: a transaction for what changes something, else for reading. It ends with the handler, before
    the answer is sent."""

    @property
    def base_url(self) -> str:
        """Where clients reach this server, without a slash at the end."""
        return self.services.settings.url


@dataclass(frozen=True)
class Answer:
    """A value with a status or headers of its own."""

    value: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A route, as it was written down."""

    method: str
    path: str
    handler: Handler
    access: Access
    tag: str
    body: type[BaseModel] | None
    optional_body: bool
    query: type[BaseModel] | None
    answer: Any
    """Type of the JSON it answers; None: not described."""
    media_type: str
    transaction: bool
    remembered: bool
    """Whether an answer under an Idempotency-Key is kept and given again."""
    tolerant: bool
    """Whether a token that is not good makes its bearer anonymous instead of a 401."""
    refusals: tuple[int, ...]

    @property
    def summary(self) -> str:
        """The first line of the handler's docstring."""
        return (inspect.getdoc(self.handler) or self.handler.__name__).partition("\n")[0].rstrip(".")


class Router:
    """A part's routes.

    Args:
        tag: What the part is called in the OpenAPI document.
    """

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.endpoints: list[Endpoint] = []

    def get(self, path: str, **options: Any) -> Callable[[Handler], Handler]:
        """A route that only reads (see ``route``)."""
        return self.route("GET", path, **options)

    def post(self, path: str, **options: Any) -> Callable[[Handler], Handler]:
        """A route that does something (see ``route``)."""
        return self.route("POST", path, **options)

    def put(self, path: str, **options: Any) -> Callable[[Handler], Handler]:
        """A route that puts something (see ``route``)."""
        return self.route("PUT", path, **options)

    def delete(self, path: str, **options: Any) -> Callable[[Handler], Handler]:
        """A route that removes something (see ``route``)."""
        return self.route("DELETE", path, **options)

    def route(
        self,
        method: str,
        path: str,
        *,
        access: Access = "known",
        answer: Any = None,
        media_type: str = "application/json",
        transaction: bool | None = None,
        secret: bool = False,
        tolerant: bool = False,
        refusals: tuple[int, ...] = (),
    ) -> Callable[[Handler], Handler]:
        """Write a route down.

        Args:
            method: The HTTP method.
            path: Below ``/observatory``, with ``{parameters}``.
            access: Who may call it.
            answer: Type of the JSON it answers, for the OpenAPI document.
            media_type: What it answers, when that is not JSON.
            transaction: Whether ``call.db`` is a transaction; by default for everything but GET. A handler that takes
                long takes none, and opens its own.
            secret: Whether the answer holds a token. Such an answer is never kept, also not under an Idempotency-Key.
            tolerant: Whether a token that is not good makes its bearer anonymous instead of a 401.
            refusals: Statuses it may answer besides the usual ones, for the OpenAPI document.
        """

        def add(handler: Handler) -> Handler:
            hints = get_type_hints(handler)
            body = hints.get("body")
            optional = body is not None and inspect.signature(handler).parameters["body"].default is None
            if body is not None and optional:
                body = next(part for part in body.__args__ if part is not type(None))
            transacted = method != "GET" if transaction is None else transaction
            self.endpoints.append(
                Endpoint(
                    method=method,
                    path=path,
                    handler=handler,
                    access=access,
                    tag=self.tag,
                    body=body,
                    optional_body=optional,
                    query=hints.get("query"),
                    answer=answer,
                    media_type=media_type,
                    transaction=transacted,
                    remembered=method == "POST" and transacted and not secret,
                    tolerant=tolerant,
                    refusals=refusals,
                )
            )
            return handler

        return add


async def serve(endpoint: Endpoint, request: Request, services: Services) -> Response:
    """Answer a request at a route.

    Raises:
        Refusal: For everything that is not success.
    """
    _refuse_nul(request)
    async with services.database.reading() as session:
        caller = await identify(request, services, session, tolerant=endpoint.tolerant)
    _admit(endpoint, caller)
    arguments: dict[str, Any] = dict(request.path_params)
    if endpoint.query is not None:
        arguments["query"] = _query(endpoint.query, request)
    content = b""
    if endpoint.body is not None:
        content = await read_body(request, MAX_BODY)
        arguments["body"] = _body(endpoint, content)
    key = request.headers.get("idempotency-key") if endpoint.remembered else None
    try:
        if not endpoint.transaction:
            async with services.database.reading() as session:
                call = Call(request=request, services=services, caller=caller, db=session)
                return respond(await endpoint.handler(call, **arguments))
        async with services.database.writing() as session:
            call = Call(request=request, services=services, caller=caller, db=session)
            if key is None or caller.subject_id is None:
                return respond(await endpoint.handler(call, **arguments))
            return await _once(endpoint, call, arguments, key, content)
    except IntegrityError as error:
        # two did the same at once, and the database let one of them
        raise conflict("Somebody else just did that: look again, then decide.", code="concurrent_change") from error


async def identify(request: Request, services: Services, session: AsyncSession, *, tolerant: bool = False) -> Caller:
    """Who sent a request.

    Raises:
        Refusal: 401 for a token that is not good, unless ``tolerant``.
    """
    reading = request.method in ("GET", "HEAD")
    caller = await services.tokens.caller(session, request.headers, request.cookies, reading=reading)
    if caller is not None:
        return caller
    if tolerant:
        return ANONYMOUS
    raise unauthenticated("The token is not valid (any more): sign in again.")


def respond(value: Any) -> Response:
    """A handler's value as an answer."""
    if isinstance(value, Response):
        return value
    answer = value if isinstance(value, Answer) else Answer(value)
    content = pydantic_core.to_json(answer.value, by_alias=True, inf_nan_mode="null")
    return Response(content, status_code=answer.status, headers=dict(answer.headers), media_type="application/json")


async def read_body(request: Request, limit: int) -> bytes:
    """A request's whole body.

    Raises:
        Refusal: 413 when it is longer than ``limit`` bytes.
    """
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > limit:
            raise Refusal(413, f"The body is longer than {limit} bytes.", code="too_large")
    return bytes(content)


async def _once(endpoint: Endpoint, call: Call, arguments: Mapping[str, Any], key: str, content: bytes) -> Response:
    """Answer a POST under a key: what was answered before is answered again."""
    if not key.isprintable() or len(key) > 200:
        raise Refusal(400, "An Idempotency-Key is at most 200 printable characters.", code="bad_idempotency_key")
    subject = call.caller.subject_id or ""
    digest = hashlib.sha256(b"\0".join((endpoint.method.encode(), call.request.url.path.encode(), content))).hexdigest()
    if call.services.database.dialect == "postgresql":
        # whoever comes second waits here for the first; SQLite has one writer at a time anyway
        number = int.from_bytes(hashlib.sha256(f"{subject}\0{key}".encode()).digest()[:8], signed=True)
        await call.db.execute(sa.select(sa.func.pg_advisory_xact_lock(number)))
    stored = await call.db.get(Idempotent, (subject, key))
    if stored is not None:
        if stored.digest != digest:
            raise Refusal(422, "This Idempotency-Key was used for another request.", code="idempotency_key_reused")
        headers = {_REPLAYED: "true"}
        return Response(stored.body, status_code=stored.status, headers=headers, media_type="application/json")
    response = respond(await endpoint.handler(call, **arguments))
    body = bytes(response.body).decode()
    call.db.add(Idempotent(subject_id=subject, key=key, digest=digest, status=response.status_code, body=body))
    await call.db.flush()
    return response


def _admit(endpoint: Endpoint, caller: Caller) -> None:
    if endpoint.access == "anyone":
        return
    caller.require()
    if endpoint.access != "known" and caller.kind == "player":
        raise forbidden("A player's session cannot do this: use your own token.", code="user_token_needed")
    if endpoint.access == "team" and not caller.is_team:
        raise forbidden("Only members of the team may do this.", code="team_only")


def _query(model: type[BaseModel], request: Request) -> BaseModel:
    given: dict[str, Any] = {}
    for name, info in model.model_fields.items():
        key = info.alias or name
        values = request.query_params.getlist(key)
        if values:
            given[key] = values if _is_list(info.annotation) else values[-1]
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise _invalid(error, "query") from error


def _is_list(annotation: Any) -> bool:
    return any(getattr(part, "__origin__", part) is list for part in (annotation, *getattr(annotation, "__args__", ())))


def _body(endpoint: Endpoint, content: bytes) -> BaseModel | None:
    if not content and endpoint.optional_body:
        return None
    assert endpoint.body is not None
    try:
        return endpoint.body.model_validate_json(content)
    except ValidationError as error:
        raise _invalid(error, "body") from error


def _invalid(error: ValidationError, place: str) -> Refusal:
    issues: list[dict[str, object]] = [
        {"type": issue["type"], "loc": [place, *issue["loc"]], "msg": issue["msg"]}
        for issue in error.errors(include_url=False, include_context=False, include_input=False)[:100]
    ]
    return Refusal(422, issues, code="validation_error")


def _refuse_nul(request: Request) -> None:
    # no database keeps a NUL in a text, so nothing of ours is named with one
    if any("\0" in str(value) for value in request.path_params.values()):
        raise Refusal(404, "Not found: nothing has such a name.", code="not_found")
    if any("\0" in value for pair in request.query_params.multi_items() for value in pair):
        raise Refusal(
            422, [{"type": "value_error", "loc": ["query"], "msg": "contains a NUL"}], code="validation_error"
        )
