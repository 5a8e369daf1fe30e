"""What the language model in a seat was asked in an episode, and what that cost."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError

from ..documents.records import OpenEnum, Record
from ..files.regular import open_regular
from ..text.phrases import plural

__all__ = ["ModelUse", "read_model_use"]

_SUMMARY = "summary.json"
"""File in the artifact of an `llm:` player."""
_MOST_BYTES = 1 << 20


class ModelUse(Record):
    """What a language model was asked, and what that cost."""

    model: str = Field(default="", description="Name of the model; empty: not known.")
    calls: int = Field(default=0, ge=0, description="Requests that were sent to it.")
    prompt_tokens: int = Field(default=0, ge=0, description="Tokens of the questions.")
    completion_tokens: int = Field(default=0, ge=0, description="Tokens of the answers.")
    uncounted: int = Field(
        default=0, ge=0, description="Answers whose tokens the provider did not count, so that they are estimated."
    )
    unanswered: int = Field(
        default=0, ge=0, description="Requests that were given up; whether they are charged for is not known."
    )
    refused: int = Field(default=0, ge=0, description="Its answers that named no action, or one that was refused.")
    cost: float | None = Field(default=0.0, ge=0, description="US dollars; null: not known.")
    unknown: Annotated[Literal["", "no_price", "uncounted", "no_account"], OpenEnum] = Field(
        default="",
        description="Why the cost is not known: no price was given, tokens were not counted, or the player left no "
        "account of them; empty: it is known.",
    )

    def __str__(self) -> str:
        about = "about " * bool(self.uncounted)
        cost = "cost not known" if self.cost is None else f"${self.cost:.4g}"
        tokens = f"{about}{self.prompt_tokens} tokens in, {about}{self.completion_tokens} out"
        return f"{plural(self.calls, 'call')}, {tokens}, {cost}"

    def plus(self, other: ModelUse) -> Self:
        """Both together; the cost is known if both are."""
        known = self.cost is not None and other.cost is not None
        added = {
            name: getattr(self, name) + getattr(other, name)
            for name in ("calls", "prompt_tokens", "completion_tokens", "uncounted", "unanswered", "refused")
        }
        return self.model_copy(
            update={
                **added,
                "model": self.model or other.model,
                "cost": (self.cost or 0.0) + (other.cost or 0.0) if known else None,
                "unknown": self.unknown or other.unknown,
            }
        )


def read_model_use(artifact: Path) -> ModelUse:
    """Read what a seat's model was asked from what the seat left.

    Args:
        artifact: The seat's zip. If it has no account, or is not there, the cost is not known (`no_account`).
    """
    try:
        with open_regular(artifact) as file, zipfile.ZipFile(file) as archive:
            if archive.getinfo(_SUMMARY).file_size > _MOST_BYTES:
                raise ValueError
            said: dict[str, Any] = json.loads(archive.read(_SUMMARY))
        told = {name: said[name] for name in ModelUse.model_fields if name != "calls"}
        return ModelUse.model_validate({**told, "calls": said["asked"]})
    except (OSError, ValueError, LookupError, TypeError, RecursionError, zipfile.BadZipFile, ValidationError):
        return ModelUse(cost=None, unknown="no_account")
