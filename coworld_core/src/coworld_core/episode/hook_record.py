"""What a hook has done to the plan of an episode before it was played, as records have it."""

from __future__ import annotations

from pydantic import Field

from ..documents.records import Record

__all__ = ["HookRecord"]


class HookRecord(Record):
    """One hook of an episode."""

    name: str = Field(description="Its file and function, its module and function, or its entry point.")
    digest: str = Field(default="", description="SHA-256 of its source, in hex; empty if there is no source to read.")
    changed: tuple[str, ...] = Field(
        default=(), description="JSON pointers to what it changed in the plan; values are not recorded, only places."
    )
    seconds: float | None = Field(default=None, ge=0, description="How long it took; null if it did not end well.")
