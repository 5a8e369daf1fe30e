"""The page for people who wrote `import coworld`: both sides of every row are names that there are."""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel
from support.docs_pages import ROOT
from support.published_client import OLDEST, install

from coworld_client import CoworldClient
from coworld_core.commissioner import messages, values

PAGE = ROOT / "docs" / "from-the-published-package.md"
NEWEST = "0.1.64"
NAME = re.compile(r"`(coworld(?:_\w+)?(?:\.\w+)+)`")


class Row(NamedTuple):
    published: tuple[str, ...]
    release: str
    here: tuple[str, ...]
    remark: str


def rows() -> list[Row]:
    cells = [re.split(r"\s+\|\s*", line.strip("| ")) for line in PAGE.read_text("utf-8").splitlines()]
    found = [(cell[0], cell[1], " ".join(cell[2:])) for cell in cells if len(cell) > 1 and NAME.search(cell[0])]
    return [
        Row(
            tuple(NAME.findall(published)), NEWEST if NEWEST in published else OLDEST, tuple(NAME.findall(here)), remark
        )
        for published, here, remark in found
    ]


ROWS = rows()


def resolve(name: str) -> object:
    """What a dotted name leads to: a module, what is in it, or a field of a record.

    Raises:
        AttributeError: Nothing.
    """
    words = name.split(".")
    found: Any = None
    for length in range(len(words), 0, -1):
        try:
            found = importlib.import_module(".".join(words[:length]))
        except ModuleNotFoundError:
            continue
        break
    for word in words[length:]:
        fields = getattr(found, "model_fields", {}) if isinstance(found, type) else {}
        if isinstance(found, type) and dataclasses.is_dataclass(found):
            fields = {field.name: field for field in dataclasses.fields(found)}
        if found is CoworldClient and not callable(getattr(found, word, None)):
            # Its nouns are created on first use
            found = CoworldClient("http://127.0.0.1:1", token="none")
        found = fields[word] if word in fields else getattr(found, word)
    return found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.published[0])
def test_a_row_leads_somewhere(row: Row) -> None:
    assert row.published
    assert row.here or row.remark
    for name in (*row.here, *NAME.findall(row.remark)):
        assert resolve(name) is not None


@pytest.mark.parametrize("name", ["coworld_core.no_such", "coworld_client.CoworldClient.leagues.no_such"])
def test_a_name_that_there_is_not_is_noticed(name: str) -> None:
    with pytest.raises(AttributeError):
        resolve(name)


PUBLISHED = """
import importlib, inspect, json, sys

def there(name):
    words = name.split(".")
    for length in range(len(words), 0, -1):
        try:
            found = importlib.import_module(".".join(words[:length]))
        except ModuleNotFoundError:
            continue
        break
    for word in words[length:]:
        if not hasattr(found, word):
            return False
        found = getattr(found, word)
    return True

def public(of):
    return [name for name, value in vars(of).items() if name[0] != "_" and not inspect.ismodule(value)]

import coworld, coworld.api_client, coworld.commissioner, coworld.upload
print(json.dumps({
    "missing": [name for name in json.load(sys.stdin) if not there(name)],
    "package": public(coworld),
    "clients": public(coworld.api_client.CoworldApiClient) + public(coworld.upload.CoworldUploadClient),
    "messages": {
        name: list(getattr(getattr(coworld.commissioner, name), "model_fields", ()))
        for name in public(coworld.commissioner)
    },
}))
"""


def said_by(release: str, place: Path) -> dict[str, Any]:
    """What the published package itself says: of which names of the page there are none, and which it has."""
    asked = [name for row in ROWS if row.release == release for name in row.published]
    assert asked
    done = subprocess.run(
        [install(place, release), "-c", PUBLISHED],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_names_on_the_left_are_published(tmp_path: Path) -> None:
    old, new = said_by(OLDEST, tmp_path / "old"), said_by(NEWEST, tmp_path / "new")
    assert (old["missing"], new["missing"]) == ([], [])
    named = {name.removeprefix("coworld.") for row in ROWS for name in row.published}
    last = {name.rsplit(".", 1)[-1] for name in named}
    assert set(old["package"]) - {"annotations"} <= named
    # Closing is the end of `async with`; the last two are how the others are built
    assert set(old["clients"]) - {"close", "get_bytes", "get_text"} <= last
    differ = {name.rsplit(".", 1)[-1] for name in named if name.startswith("commissioner.")}
    for name, fields in old["messages"].items():
        ours = getattr(messages, name, None) or getattr(values, name, None)
        assert ours is not None or name in differ, name
        if name not in differ and fields:
            assert isinstance(ours, type)
            assert issubclass(ours, BaseModel)
            assert set(fields) <= {"type", *ours.model_fields}, name
