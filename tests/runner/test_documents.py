"""The JSON Schemas of all documents."""

from __future__ import annotations

import datetime as dt
from typing import get_args

import jsonschema
import pytest

from coworld_core.episode.events import Notice, UnitExited
from coworld_core.episode.outcome import Exit
from coworld_runner.certification.document_schemas import DOCUMENT_NAMES, DocumentName, document_schema


@pytest.mark.parametrize("name", DOCUMENT_NAMES)
def test_every_document_has_a_schema(name: DocumentName) -> None:
    schema = document_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["title"].startswith("Coworld")
    assert get_args(DocumentName) == DOCUMENT_NAMES


def test_the_schema_of_events_tells_them_apart() -> None:
    validator = jsonschema.Draft202012Validator(document_schema("event"))
    time = dt.datetime.now(dt.UTC)
    for event in (Notice(message="x", time=time), UnitExited(unit="game", exit=Exit(reason="exited", code=0))):
        validator.validate(event.model_dump(mode="json"))
    assert not validator.is_valid({"kind": "nothing", "seq": 1})
    assert not validator.is_valid({"kind": "notice", "seq": 1})
