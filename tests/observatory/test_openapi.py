"""The OpenAPI document, and the server held to it by requests that nobody would think of."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from openapi_spec_validator import validate
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from support.full import FULL
from support.observatory import Inside, inside
from support.uploads import upload_coworld, upload_policy

from observatory import server
from observatory.api.leagues import create_league, league_divisions
from observatory.app import document
from observatory.settings import Settings

pytestmark = pytest.mark.slow

EXAMPLES = int(os.environ.get("OBSERVATORY_TEST_EXAMPLES", "10" if FULL else "2"))
"""Requests an operation and caller."""


def test_every_route_is_described() -> None:
    described = document("http://here")
    operations = [operation for methods in described["paths"].values() for operation in methods.values()]
    names = [operation["operationId"] for operation in operations]
    assert sorted(names) == sorted(set(names))
    for operation in operations:
        assert operation["summary"]
        assert not operation["summary"].endswith(".")
        assert "200" in operation["responses"]
    text = json.dumps(described)
    for reference in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert reference in described["components"]["schemas"], reference


def test_openapi_document_is_valid() -> None:
    validate(document("http://here"))


async def test_openapi_document_is_served(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        here, there = [await platform.http.get(path) for path in ("/openapi.json", "/observatory/openapi.json")]
        assert here.json() == there.json()
        assert here.json()["servers"] == [{"url": "http://127.0.0.1:8787"}]
        page = await platform.http.get("/docs")
        assert "/openapi.json" in page.text
        assert page.headers["content-security-policy"].startswith("default-src 'none'")


@pytest.mark.timeout(600)
async def test_fuzzed_requests_never_cause_a_server_error(tmp_path: Path) -> None:
    """Every operation, called with what its description allows and forbids, by somebody and by nobody."""
    listener = server.bind("127.0.0.1", 0)
    settings = server.with_url(Settings(data=tmp_path / "observatory"), listener, None)
    async with (
        server.serve(settings, listener) as services,
        httpx2.AsyncClient(base_url=settings.url) as http,
    ):
        platform = Inside(services, http)
        ann = await platform.add_user("ann")
        known = await _some_things(platform, ann)
        callers = {"ann": ann, "nobody": None}
        wrong = await anyio.to_thread.run_sync(_call_everything, settings.url, callers, known)
    assert not wrong, "\n\n".join(wrong)


async def _some_things(platform: Inside, token: str) -> dict[str, str]:
    """Ids of things that are there, by the name of a path's parameter."""
    coworld = await upload_coworld(platform, token)
    version = await upload_policy(platform, token)
    image = (await platform.get("/v2/container_images", token))[0]
    async with platform.services.database.writing() as db:
        league = await create_league(db, "open", coworld="paint-arena")
        [division] = await league_divisions(db, league.id)
    body = {"league_id": league.id, "policy_version_id": version["id"]}
    submission = await platform.post("/v2/league-submissions", token, body)
    found = await platform.get("/stats/policy-versions", token, mine="true")
    player = await platform.post("/players", token, {"name": "sprinter"})
    episodes = await platform.get("/v2/episode-requests", token)
    lobby = await platform.post(f"/v2/leagues/{league.id}/lobbies", token, {"idempotency_key": "first"})
    return {
        "coworld_id": coworld["id"],
        "coworld": "paint-arena",
        "name": "paint_arena",
        "image_id": image["id"],
        "league_id": league.id,
        "lobby_id": lobby["id"],
        "division_id": division.id,
        "membership_id": submission["league_policy_membership_id"],
        "policy_id": found["entries"][0]["policy_id"],
        "policy_version_id": version["id"],
        "player_id": player["id"],
        "episode_id": episodes["entries"][0]["id"],
    }


def _call_everything(server: str, callers: dict[str, str | None], known: dict[str, str]) -> list[str]:
    schema = schemathesis.openapi.from_url(f"{server}/openapi.json")
    wrong: list[str] = []
    with requests.Session() as session:
        # What removes things comes last: the others need them
        operations = [result.ok() for result in schema.get_all_operations()]
        for operation in sorted(operations, key=lambda operation: operation.method.upper() == "DELETE"):
            call = partial(_call_once, session=session, known=known)
            try:
                _with_examples(operation, callers, call)
            except BaseExceptionGroup as error:
                wrong.append("\n".join([f"{operation.label}: {error.exceptions}", *getattr(error, "__notes__", [])]))
            except Exception as error:
                wrong.append("\n".join([f"{operation.label}: {error}", *getattr(error, "__notes__", [])]))
    return wrong


def _with_examples(operation: Any, callers: dict[str, str | None], call: Any) -> None:
    @seed(1)
    @settings(
        max_examples=EXAMPLES,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    # The simplest is tried first: a call that is about things that are there
    @given(case=operation.as_strategy(), real=st.sampled_from([True, False]))
    def every(case: Any, real: bool) -> None:
        for who, token in callers.items():
            try:
                call(case, real, token)
            except (Exception, BaseExceptionGroup) as error:
                error.add_note(f"called by {who}")
                raise

    every()


def _call_once(case: Any, real: bool, token: str | None, *, session: requests.Session, known: dict[str, str]) -> None:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if real:
        for name in case.path_parameters or {}:
            case.path_parameters[name] = known.get(name, case.path_parameters[name])
    if case.query and "wait_seconds" in case.query:
        # Nothing changes here that would be worth waiting for
        case.query["wait_seconds"] = 0
    case.headers = {key: value for key, value in (case.headers or {}).items() if key.lower() != "authorization"}
    response = case.call(session=session, headers=headers, timeout=30)
    checks = [status_code_conformance, content_type_conformance, response_schema_conformance]
    if response.status_code != 503:
        # Nothing is run here, so whoever wants to play is told to come again, as the document says
        checks.append(not_a_server_error)
    case.validate_response(response, checks=checks)
