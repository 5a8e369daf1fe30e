"""One word for one thing in files and JSON: the table in `docs/concepts.md` lists the words, and those never used."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from coworld_core.documents.records import Record

ROOT = Path(__file__).parents[2]
SOURCES = sorted(ROOT.glob("coworld_*/src"))

NESTED = {"FaultSeen.fault", "RoleRecord.fault"}
"""A fault as an object, not the party at fault."""

REASONS = {("outcome.py", "timeout")}
"""A reason for which a unit ended, not a limit."""

WRITERS = ("coworld_cli", "coworld_core/episode", "coworld_core/evaluation", "coworld_core/tournament")
"""Where JSON and table rows are put together by hand."""
ALONE = ("coworld_client/seat/llm.py", "coworld_runner/episode/episode_rows.py", "coworld_runner/episode/batch.py")
RECORD = re.compile(r"^from \S*\brecords import .*\bRecord\b|^from \S*episode\.record import|^from \.log import", re.M)


def never() -> dict[str, str]:
    """The words that are never written, each with the word to write."""
    table = (ROOT / "docs/concepts.md").read_text().partition("## Words in files and JSON")[2]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| `")]
    return {old: row[0].strip() for row in rows for old in re.findall(r"`(\w+)`", row[3])}


def modules(folder: Path) -> Iterator[str]:
    """The modules below a folder of sources that define or extend records."""
    for path in sorted(folder.rglob("*.py")):
        if RECORD.search(path.read_text()) and "templates" not in path.parts:
            yield ".".join(path.relative_to(folder).with_suffix("").parts)


def models() -> dict[str, type[BaseModel]]:
    """Every kind of record, by name."""
    for folder in SOURCES:
        for name in modules(folder):
            importlib.import_module(name)
    found, left = dict[str, type[BaseModel]](), [*Record.__subclasses__()]
    while left:
        model = left.pop()
        left += model.__subclasses__()
        if model.__module__.startswith("coworld_"):
            found[model.__name__] = model
    return found


def fields(model: type[BaseModel]) -> set[str]:
    """The keys that a model writes."""
    return {field.serialization_alias or name for name, field in model.model_fields.items()}


def keys(path: Path) -> set[str]:
    """The literal keys of dictionaries in a source."""
    tree = ast.parse(path.read_text())
    return {
        key.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def sources() -> list[Path]:
    """The sources that put JSON together by hand."""
    found = [path for folder in SOURCES for part in WRITERS for path in (folder / part).rglob("*.py")]
    return sorted(found) + [path for folder in SOURCES for part in ALONE if (path := folder / part).is_file()]


def test_no_record_writes_a_word_that_has_another_name() -> None:
    avoided, found = never(), models()
    assert {"EpisodeRecord", "EpisodeRow", "TournamentReport", "Certification", "EpisodeEnded"} <= found.keys()
    used = [f"{name}.{key}" for name, model in found.items() for key in fields(model) if key in avoided]
    assert sorted(set(used) - NESTED) == []


def test_no_command_or_table_writes_one_either() -> None:
    avoided, found = never().keys(), sources()
    assert len(found) > 50
    assert {(path.name, word) for path in found for word in keys(path) & avoided} == REASONS


@pytest.mark.parametrize("word", ["seats", "deadline"])
def test_a_word_with_another_name_is_found(word: str, tmp_path: Path) -> None:
    class Broken(Record):
        seats: int
        deadline: float

    assert word in fields(Broken) & never().keys()
    (tmp_path / "broken.py").write_text(f'out.answer({{"{word}": 1}})')
    assert keys(tmp_path / "broken.py") & never().keys() == {word}
