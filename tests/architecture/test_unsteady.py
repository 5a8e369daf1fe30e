"""The list of unsteady tests stays short, names tests that exist, and names none twice."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MOST = 10

Entries = list[dict[str, Any]]


def complaints(seen: Entries) -> list[str]:
    """What is wrong with the list."""
    found = [f"more than {MOST} entries: repair a test before another is added"] if len(seen) > MOST else []
    for test, count in Counter(entry["test"] for entry in seen).items():
        if count > 1:
            found.append(f"{test} is there twice: repair it, or remove it")
    for entry in seen:
        if not defined(entry["test"]):
            found.append(f"{entry['test']} does not exist")
        if not str(entry.get("known", "")).strip():
            found.append(f"{entry['test']}: `known` says nothing")
    return found


def defined(test: str) -> bool:
    file, _, name = test.partition("::")
    if not (ROOT / file).is_file():
        return False
    wanted = name.split("::")[-1].partition("[")[0]
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return any(
        isinstance(node, functions) and node.name == wanted
        for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
    )


def test_list_is_right() -> None:
    assert complaints(tomllib.loads((ROOT / "tests/unsteady.toml").read_text(encoding="utf-8"))["seen"]) == []


HERE = "tests/architecture/test_unsteady.py::test_list_is_right"
GOOD = {"test": HERE, "known": "why"}


@pytest.mark.parametrize(
    ("seen", "complaint"),
    [
        ([GOOD, GOOD], "twice"),
        ([{**GOOD, "test": "tests/nowhere.py::test_it"}], "does not exist"),
        ([{**GOOD, "test": HERE + "_at_all"}], "does not exist"),
        ([{**GOOD, "known": " "}], "says nothing"),
        ([{**GOOD, "test": f"{HERE}[{number}]"} for number in range(MOST + 1)], "more than 10"),
    ],
)
def test_wrong_list_is_found(seen: Entries, complaint: str) -> None:
    [found] = complaints(seen)
    assert complaint in found


def test_right_list_passes() -> None:
    assert complaints([{**GOOD, "test": f"{HERE}[{number}]"} for number in range(MOST)]) == []
