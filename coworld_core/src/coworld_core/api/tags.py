"""Labels of what a platform keeps: of episodes, requests for them, policy versions and Coworlds; `tags` on the wire."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from ..errors import UsageError
from ..records.labels import MAX_LABELS, check_changes, check_labels
from ._wire_models import Body, Wire, required

__all__ = ["TagChangesBody", "Tagged", "Tags"]


def _tags(tags: dict[str, str]) -> dict[str, str]:
    try:
        return check_labels(tags)
    except UsageError as error:
        raise _wrong(error) from None


def _changes(tags: dict[str, str | None]) -> dict[str, str | None]:
    try:
        return check_changes(tags)
    except UsageError as error:
        raise _wrong(error) from None


def _wrong(error: UsageError) -> ValueError:
    return ValueError(f"{error.message} {error.hint}".rstrip("."))


Tags = Annotated[dict[str, str], Field(max_length=MAX_LABELS), AfterValidator(_tags)]
"""Labels in a body, by name."""


class TagChangesBody(Body):
    """Change labels."""

    tags: Annotated[dict[str, str | None], Field(max_length=MAX_LABELS), AfterValidator(_changes)] = Field(
        description="New values by name; null takes a label away. Other labels stay."
    )


class Tagged(Wire):
    """The labels of something, after a change."""

    id: str = required("Id of what is labelled.")
    tags: dict[str, str] = required("All its labels.", {})
