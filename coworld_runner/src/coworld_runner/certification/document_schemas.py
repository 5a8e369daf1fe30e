"""The JSON Schemas of every document that coworld reads or writes, by name."""

from __future__ import annotations

from typing import Any, Literal, get_args

from pydantic import TypeAdapter

from coworld_core.episode.events import Event
from coworld_core.episode.record import BatchSummary, EpisodeRecord
from coworld_core.schemas import DIALECT, certificate_schema, episode_request_schema, manifest_schema, model_schema

from .certification_record import Certification

__all__ = ["DOCUMENT_NAMES", "DocumentName", "document_schema"]

DocumentName = Literal["manifest", "episode-request", "episode", "summary", "certification", "certificate", "event"]
"""`episode`, `summary` and `certification` are the records of runs; `event` is a line of an event log."""

DOCUMENT_NAMES: tuple[DocumentName, ...] = get_args(DocumentName)


def document_schema(name: DocumentName) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a document.

    Args:
        name: Name of the document.
    """
    match name:
        case "manifest":
            return manifest_schema()
        case "episode-request":
            return episode_request_schema()
        case "episode":
            return model_schema(EpisodeRecord, title="Coworld Episode Record")
        case "summary":
            return model_schema(BatchSummary, title="Coworld Batch Summary")
        case "certification":
            return model_schema(Certification, title="Coworld Certification")
        case "certificate":
            return certificate_schema()
        case "event":
            schema = TypeAdapter[Any](Event).json_schema(by_alias=True)
            return {"$schema": DIALECT, "title": "Coworld Event", **schema}
