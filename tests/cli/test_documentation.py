"""`coworld docs`: the pages as they are in the checkout, found, searched and shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support.cli_kit import Terminal, coworld

DOCS = Path(__file__).parents[2] / "docs"


def test_every_page_is_listed_with_a_line() -> None:
    first, later = coworld("docs").stdout.split("\n\nIn depth:\n")
    assert [line.split()[0] for line in first.splitlines()] == [
        *("index", "start-here", "concepts", "write-a-player", "write-a-game", "evaluation", "commands")
    ]
    listed = [*first.splitlines(), *later.splitlines()]
    names = [line.split()[0] for line in listed]
    assert sorted(names) == sorted(page.stem for page in DOCS.glob("*.md"))
    assert all(len(line.split(maxsplit=1)[1]) > 15 for line in listed)
    assert all("](" not in line and "**" not in line for line in listed)
    pages = coworld("docs", "--json").json["pages"]
    assert [page["page"] for page in pages] == names
    assert pages[0]["title"] == "coworld"


@pytest.mark.parametrize("name", ["concepts", "concepts.md", "docs/concepts.md#words", "Concepts"])
def test_a_page_is_printed_as_it_is(name: str) -> None:
    text = (DOCS / "concepts.md").read_text(encoding="utf-8")
    assert "<picture>" not in text
    assert coworld("docs", name).stdout == text
    assert coworld("docs", name, "--json").json == {"page": "concepts", "title": "Concepts", "text": text}


def test_a_picture_becomes_what_it_shows(terminal: Callable[..., Terminal]) -> None:
    page = (DOCS / "start-here.md").read_text(encoding="utf-8").splitlines()
    printed = coworld("docs", "start-here").stdout.splitlines()
    [(before, after)] = [lines for lines in zip(page, printed, strict=True) if lines[0] != lines[1]]
    assert before.startswith("<picture>")
    assert after.startswith("*Picture: What it prints: ")
    run = terminal("docs", "start-here", env={"PAGER": "cat"}, columns=80)
    assert run.end() == 0
    assert "Picture: What it prints" in run.text
    assert "<" not in run.text.split("File", 1)[0]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("evalution", "There is no page 'evalution'. Did you mean 'evaluation'?"),
        ("cogames", "There is no page 'cogames'. Did you mean 'from-cogames'?"),
        ("../README.md", "There is no page '../README.md'."),
        ("xyzzy", "There is no page 'xyzzy'. `coworld docs` lists all pages."),
    ],
)
def test_an_unknown_page_says_which_was_meant(typed: str, said: str) -> None:
    done = coworld("docs", typed)
    assert (done.status, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_word_is_found_wherever_it_is() -> None:
    found = coworld("docs", "--search", "BRADLEY-terry", "--json").json["found"]
    assert found
    for one in found:
        line = (DOCS / f"{one['page']}.md").read_text(encoding="utf-8").splitlines()[one["line"] - 1]
        assert one["text"] == line.strip()
        assert "bradley-terry" in line.lower()
    assert coworld("docs", "--search", "bradley-terry").stdout.splitlines() == [
        f"{one['page']}:{one['line']}: {one['text']}" for one in found
    ]
    here = coworld("docs", "evaluation", "--search", "seed", "--json").json["found"]
    assert {one["page"] for one in here} == {"evaluation"}


def test_a_word_that_is_nowhere_is_a_no() -> None:
    done = coworld("docs", "--search", "xyzzyx")
    assert (done.status, done.stdout, done.stderr) == (1, "", "No line contains 'xyzzyx'.\n")


def test_a_terminal_gets_a_formatted_page(terminal: Callable[..., Terminal]) -> None:
    run = terminal("docs", "from-cogames", env={"PAGER": "cat"}, columns=80)
    assert run.end() == 0
    assert "## Words" not in run.text
    assert "| `replay FILE` |" not in run.text
    assert "replay PACKAGE FILE" in run.text
    assert "environments" in run.text
    assert "(train.md)" in run.text
    assert max(map(len, run.text.splitlines())) <= 80


def test_a_list_fits_the_terminal(terminal: Callable[..., Terminal]) -> None:
    run = terminal("docs", columns=60)
    assert run.end() == 0
    assert "…" in run.text
    assert max(map(len, run.text.splitlines()[:20])) <= 60


def test_all_pages_are_one_file() -> None:
    done = coworld("docs", "--all")
    names = [page["page"] for page in coworld("docs", "--json").json["pages"]]
    assert re.findall(r"^<!-- ([\w-]+)\.md -->$", done.stdout, re.MULTILINE) == names
    assert "<picture>" not in done.stdout
    assert (DOCS / "concepts.md").read_text(encoding="utf-8") in done.stdout
    size = len(done.stdout.encode())
    assert done.stderr == f"{len(names)} pages, {size // 1000} kB: about {size // 4000},000 tokens.\n"
    assert [page["page"] for page in coworld("docs", "--all", "--json").json["pages"]] == names
    assert coworld("docs", "concepts", "--all").status == 2
