"""The OpenAPI document, made from the table of routes and the types written at them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from functools import cache
from http import HTTPStatus
from importlib import metadata
from typing import Any, cast

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, models_json_schema
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

from .columns import JsonObject
from .routing import Endpoint

__all__ = ["document", "routes"]

_REF = "#/components/schemas/{model}"

_REASONS: Mapping[int, str] = {
    400: "It cannot be meant.",
    401: "No token, or one that is not good (any more).",
    403: "Not with this token.",
    404: "There is none, or it is not the caller's to see.",
    409: "Not in the state things are in.",
    410: "It was there once.",
    412: "It has changed since.",
    413: "Too long.",
    416: "No such range.",
    422: "It does not have the right form.",
    425: "Not yet.",
    429: "Too often.",
    501: "Not on this platform.",
    503: "Not now; try again.",
}

_PROBLEM: JsonObject = {
    "title": "Problem",
    "description": "Why it was not done.",
    "type": "object",
    "required": ["detail", "type"],
    "properties": {
        "detail": {
            "description": "What happened; a list of issues where the request does not have the right form.",
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}, {"type": "object"}],
        },
        "type": {"type": "string", "description": "Stable name of the kind of problem."},
    },
}


def document(endpoints: Iterable[Endpoint], *, prefix: str, url: str) -> JsonObject:
    """The OpenAPI 3.1 document of some routes.

    Args:
        endpoints: The routes.
        prefix: What stands before their paths.
        url: Where the server is.
    """
    listed = tuple(endpoints)
    models = _models(listed)
    answers: dict[str, Any] = {}
    components: JsonObject = {}
    inputs = [(model, "validation") for model in models]
    outputs = [(f"{index}", "validation", TypeAdapter(e.answer)) for index, e in enumerate(listed) if e.answer]
    input_refs, shared = models_json_schema(cast("Any", inputs), ref_template=_REF) if inputs else ({}, {})
    components |= shared.get("$defs", {})
    if outputs:
        found, shared = TypeAdapter.json_schemas(
            cast("Any", [(key, mode, adapter) for key, mode, adapter in outputs]), ref_template=_REF
        )
        answers = {str(key): schema for (key, _), schema in found.items()}
        components |= shared.get("$defs", {})
    components["Problem"] = _PROBLEM
    paths: dict[str, JsonObject] = {}
    for index, endpoint in enumerate(listed):
        operation = _operation(endpoint, answers.get(str(index)), input_refs)
        paths.setdefault(prefix + endpoint.path, {})[endpoint.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Observatory",
            "version": metadata.version("observatory"),
            "description": "A platform for Coworlds: uploads, leagues, experience requests, episodes, replays.",
        },
        "servers": [{"url": url}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _models(endpoints: Iterable[Endpoint]) -> list[type[BaseModel]]:
    return list(dict.fromkeys(model for endpoint in endpoints for model in (endpoint.body,) if model is not None))


def _operation(endpoint: Endpoint, answer: JsonObject | None, inputs: Mapping[Any, JsonObject]) -> JsonObject:
    doc = inspect.getdoc(endpoint.handler) or ""
    operation: JsonObject = {
        "operationId": f"{endpoint.handler.__module__.rpartition('.')[2]}_{endpoint.handler.__name__}",
        "tags": [endpoint.tag],
        "summary": endpoint.summary,
        "description": doc,
        "parameters": _parameters(endpoint),
        "responses": _responses(endpoint, answer),
        "security": [{"token": []}] if endpoint.access != "anyone" else [{}, {"token": []}],
    }
    if endpoint.body is not None:
        operation["requestBody"] = {
            "required": not endpoint.optional_body,
            "content": {"application/json": {"schema": inputs[(endpoint.body, "validation")]}},
        }
    elif endpoint.method == "PUT" and not endpoint.transaction:
        # who reads a body by itself holds no transaction meanwhile
        binary = {"schema": {"type": "string", "format": "binary"}}
        operation["requestBody"] = {"required": True, "content": {"application/octet-stream": binary}}
    return operation


def _parameters(endpoint: Endpoint) -> list[JsonObject]:
    parameters: list[JsonObject] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"{(\w+)(?::\w+)?}", endpoint.path)
    ]
    if endpoint.query is not None:
        schema = endpoint.query.model_json_schema(schema_generator=_Flat)
        for name, shape in schema.get("properties", {}).items():
            required = name in schema.get("required", ())
            parameters.append({"name": name, "in": "query", "required": required, "schema": _without_null(shape)})
    if endpoint.remembered:
        shape = {"type": "string", "maxLength": 200, "pattern": "^[A-Za-z0-9_.-]+$"}
        parameters.append({"name": "Idempotency-Key", "in": "header", "required": False, "schema": shape})
    return parameters


class _Flat(GenerateJsonSchema):
    """Schemas of query parameters, of which each stands alone."""

    def nullable_schema(self, schema: Any) -> Any:
        """A parameter that may be left out is not null: it is left out."""
        return self.generate_inner(schema["schema"])


def _without_null(shape: JsonObject) -> JsonObject:
    return {key: value for key, value in shape.items() if not (key == "default" and value is None)}


def _responses(endpoint: Endpoint, answer: JsonObject | None) -> JsonObject:
    shape = answer if answer is not None else {}
    if endpoint.media_type != "application/json":
        shape = {"type": "string", "format": "binary"}
    good = {"description": endpoint.summary + ".", "content": {endpoint.media_type: {"schema": shape}}}
    # team rights may be asked for anywhere, and refused
    statuses = {403, *endpoint.refusals}
    if not endpoint.tolerant:
        statuses.add(401)
    if "{" in endpoint.path or endpoint.body is not None:
        statuses.add(404)
    if endpoint.body is not None:
        statuses |= {409, 413, 422}
    if endpoint.query is not None:
        statuses |= {400, 422}
    if endpoint.method != "GET":
        statuses |= {400, 409, 422}
    problem = {"application/json": {"schema": {"$ref": _REF.format(model="Problem")}}}
    refused = {str(status): {"description": _reason(status), "content": problem} for status in sorted(statuses)}
    return {"200": good, **refused}


def _reason(status: int) -> str:
    return _REASONS.get(status) or f"{HTTPStatus(status).phrase}."


@cache
def _document(url: str) -> JsonObject:
    from .app import PREFIX, api_endpoints

    return document(api_endpoints(), prefix=PREFIX, url=url)


async def _openapi(request: Request) -> Response:
    return JSONResponse(_document(request.app.state.services.settings.url))


async def _docs(request: Request) -> Response:
    """The document for people: every route, in one page that needs nothing from elsewhere."""
    from .docs_page import page

    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    return HTMLResponse(
        page(_document(request.app.state.services.settings.url)), headers={"Content-Security-Policy": policy}
    )


routes: list[BaseRoute] = [
    Route("/openapi.json", _openapi),
    Route("/observatory/openapi.json", _openapi),
    Route("/docs", _docs),
    Route("/observatory/docs", _docs),
]
