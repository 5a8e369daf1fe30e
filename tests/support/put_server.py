"""A server that stores uploads, serves documents, and fails on request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .fake_server import Ask, Reset, Say, Site

__all__ = ["Put", "PutServer"]


@dataclass(frozen=True)
class Put:
    """A completely received request."""

    path: str
    content_type: str
    length: str | None
    """The announced length; None if the body was chunked."""
    body: bytes
    status: int
    """The status of the answer; 0 if the connection was reset."""


class PutServer(Site):
    """The server's uploads, documents and faults.

    Args:
        faults: Answers to the first requests for a path: a status, `reset`, or a status with Retry-After, as
            `503/1`.
    """

    def __init__(self, faults: Mapping[str, list[int | str]] | None = None) -> None:
        super().__init__()
        self.puts: list[Put] = []
        """All uploads, in the order in which they were answered."""
        self.documents: dict[str, bytes] = {}
        """Documents that clients can fetch, by path."""
        self.faults = {path: list(steps) for path, steps in (faults or {}).items()}

    def kept(self) -> dict[str, bytes]:
        """The last accepted upload for each path."""
        return {put.path: put.body for put in self.puts if put.status == 200}

    def order(self) -> list[str]:
        """The paths that were accepted, in order."""
        return [put.path for put in self.puts if put.status == 200]

    def put_of(self, path: str) -> Put:
        """The accepted request for a path."""
        return next(put for put in self.puts if put.path == path and put.status == 200)

    def otherwise(self, ask: Ask) -> Any:
        if ask.method == "GET" and ask.path not in self.documents:
            return Say(404)
        steps = self.faults.get(ask.path) or [200]
        status, _, wait = str(steps.pop(0)).partition("/")
        if ask.method != "GET":
            kind, length = ask.headers.get("content-type", ""), ask.headers.get("content-length")
            self.puts.append(Put(ask.path, kind, length, ask.body, 0 if status == "reset" else int(status)))
        if status == "reset":
            raise Reset
        document = self.documents.get(ask.path, b"") if status == "200" else b""
        return Say(int(status), document, {"Retry-After": wait} if wait else {})
