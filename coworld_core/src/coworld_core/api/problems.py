"""Error answers of a platform."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ._wire_models import Wire, newer

__all__ = ["Problem"]


class Problem(Wire):
    """The body of an answer with an error status."""

    detail: Any = Field(default=None, description="Text, an object with `message`, or a list of wrong fields.")
    type: str | None = newer("Name of the kind of error, for programs.")
    documentation_url: str | None = newer("URL of an explanation.")
