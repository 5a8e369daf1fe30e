"""What the function of a role is called with and what it leaves: files at the addresses that the environment names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...package.locations import fetch, read_location
from ...package.transfers import Transfers
from .role_error import RoleError

__all__ = ["DOCUMENT_LIMIT", "FILE_LIMIT", "call_role", "fetch_input", "put_answer"]

FILE_LIMIT = 8 << 30
"""Bytes of a bundle or a file that is fetched."""
DOCUMENT_LIMIT = 64 << 20
"""Bytes of a document that is read into memory."""


async def call_role(function: Callable[..., Any], *arguments: object) -> Any:
    """Call a role's function, which may be a coroutine function.

    Raises:
        RoleError: It has raised an exception, which is the cause (`role_failed`).
    """
    try:
        answer = function(*arguments)
        return await answer if inspect.isawaitable(answer) else answer
    except RoleError:
        raise  # Of a component, which has no traceback of use
    except Exception as error:
        raise RoleError(f"{function.__name__} raised {type(error).__name__}: {error}", code="role_failed") from error


async def fetch_input(uri: str, target: Path, what: str) -> Path:
    """Return the path of the file at an address: where it is, or a copy."""
    source = read_location(uri, what=what)
    if source.kind == "path":
        assert source.path is not None
        return source.path
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        await fetch(uri, file, what=what, limit=FILE_LIMIT)
    return target


async def put_answer(uri: str, content: Path | bytes, content_type: str, what: str) -> None:
    """Write an answer to its address."""
    async with Transfers() as transfers:
        await transfers.put(uri, content, content_type=content_type, what=what)
