"""The tables of the API page that are made from what they describe; run as a program, it writes them into the page."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from coworld_cli.exitcodes import for_kind
from coworld_client.errors import ApiConnectionError, ApiShapeError, ApiTimeoutError, NotLoggedIn, error_for_status
from coworld_core.api.platform_ids import ID_PREFIXES
from coworld_core.errors import CoworldError
from observatory.app import document

PAGE = Path(__file__).parents[2] / "docs" / "api.md"

# Kinds that only other platforms have are theirs to explain
_KINDS = (
    *("coworld", "division", "episode request", "experience request", "game", "image", "league", "league seed"),
    *("lobby", "membership", "player", "round", "submission", "user"),
)

_PAGES = ("limit", "offset", "cursor")

STATUSES = {
    400: "the request is invalid: a cursor of another list, an empty division",
    401: "no token, or an invalid or expired one",
    403: "the token does not permit the request, or the rules do not",
    404: "there is no such resource, or the caller may not see it",
    405: "this platform does not offer the operation",
    408: "the request body did not arrive in time",
    409: "the request conflicts with the resource's current state: it already exists, is already over, is not over yet",
    410: "already used, or expired",
    412: "the resource has changed since the given version",
    413: "the request body is too large",
    416: "the requested range cannot be satisfied",
    422: "the request failed validation: `detail` lists what is wrong, and where",
    425: "not available yet",
    429: "too many requests, or a quota is exhausted; `Retry-After` says how long to wait",
    500: "internal server error; the server's log has the details under the request's id",
    502: "a program that was started on demand failed to start",
    503: "still starting, or the database does not answer; `Retry-After` says how long to wait",
}
"""Every status that a route answers with when it refuses."""

_WITHOUT_STATUS: dict[type[CoworldError], str] = {
    ApiShapeError: "the response does not have the expected form",
    ApiConnectionError: "the server cannot be reached",
    ApiTimeoutError: "the server did not respond in time",
    NotLoggedIn: "this machine has no token for the server",
}


@cache
def described() -> dict[str, Any]:
    """The document for machines."""
    return document("http://here")


def tables() -> dict[str, str]:
    """Each table by its name."""
    return {"ids": _ids(), "refusals": _refusals(), "routes": _routes()}


def written(page: str) -> str:
    """The page with its tables as they should be."""
    for name, table in tables().items():
        between = re.compile(rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
        assert len(between.findall(page)) == 1, f"{PAGE.name} has no place for the table of {name}"
        page = between.sub(lambda match, table=table: f"{match[1]}{table}{match[2]}", page)
    return page


def _ids() -> str:
    rows = [f"| {kind} | `{ID_PREFIXES[kind]}` and a UUID |" for kind in _KINDS]
    rows += ["| policy, policy version, job, episode | a bare UUID |", "| play session | opaque |"]
    return "\n".join(["| Of a | |", "|---|---|", *rows]) + "\n"


def _refusals() -> str:
    rows = [(str(status), meaning, error_for_status(status)) for status, meaning in STATUSES.items()]
    rows += [("–", meaning, error) for error, meaning in _WITHOUT_STATUS.items()]
    lines = [f"| {what} | {meaning} | `{error.__name__}` | {for_kind(error.kind)} |" for what, meaning, error in rows]
    return "\n".join(["| Status | Means | Client | Command line |", "|---|---|---|---|", *lines]) + "\n"


def _routes() -> str:
    by_tag: dict[str, list[str]] = {tag["name"]: [] for tag in described()["tags"]}
    for path, methods in described()["paths"].items():
        for method, operation in methods.items():
            call = f"`{method.upper()} {path.removeprefix('/observatory')}`"
            row = f"| {call} | {_access(operation)} | {operation['summary']} | {_query(operation)} |\n"
            by_tag[operation["tags"][0]].append(row)
    heads = "| Call | For | | Query |\n|---|---|---|---|\n"
    return "".join(f"\n### {tag}\n\n{heads}{''.join(rows)}" for tag, rows in by_tag.items()) + "\n"


def _access(operation: dict[str, Any]) -> str:
    if {} in operation["security"]:
        return "anyone"
    [[*roles]] = [security["token"] for security in operation["security"]]
    return roles[0] if roles else "known"


def _query(operation: dict[str, Any]) -> str:
    names = [part["name"] for part in operation.get("parameters", ()) if part["in"] == "query"]
    return ", ".join([f"`{name}`" for name in names if name not in _PAGES] + ["pages"] * ("cursor" in names))


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{PAGE} has its tables.\n")
