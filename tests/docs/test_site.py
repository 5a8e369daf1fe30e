"""The pages of the documentation as a whole: those that must be there, and where their links lead."""

from __future__ import annotations

import ast
import inspect
import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import yaml
from faults.test_matrix import CASES
from support.docs_pages import PAGES, ROOT, blocks, page_id


def test_the_navigation_has_every_page_once() -> None:
    """What `mkdocs build --strict` says of links is said in CI, where its libraries are installed for it."""
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = re.findall(r"[\w-]+\.md", str(site["nav"]))
    assert sorted(listed) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))
    assert "mkdocs build -q --strict" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_first_page_has_the_order_of_the_navigation() -> None:
    first = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    begin, _, rest = first.partition("\n## In depth\n")
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    sections = {title: re.findall(r"[\w-]+\.md", str(pages)) for part in site["nav"] for title, pages in part.items()}
    assert {"Begin": re.findall(r"\]\(([\w-]+\.md)", begin), "In depth": re.findall(r"\]\(([\w-]+\.md)", rest)} == {
        title: pages for title, pages in sections.items() if title != "Home"
    }
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [page for page in re.findall(r"\(docs/([\w-]+\.md)\)", readme) if page != "index.md"] == sections["Begin"]


def test_the_site_has_an_overview_for_models(tmp_path: Path) -> None:
    """As mkdocs calls it; that its own objects are like these is seen in CI."""

    def page(name: str) -> SimpleNamespace:
        return SimpleNamespace(
            is_page=True, is_section=False, url=f"{name}.html", file=SimpleNamespace(src_uri=f"{name}.md")
        )

    def section(title: str, *children: SimpleNamespace) -> SimpleNamespace:
        return SimpleNamespace(is_page=False, is_section=True, title=title, children=list(children))

    hook = runpy.run_path(str(ROOT / "tests" / "docs" / "llms_txt.py"))
    items = [page("index"), section("Begin", page("concepts")), section("In depth", section("Episodes", page("fork")))]
    hook["on_nav"](SimpleNamespace(items=items))
    hook["on_post_build"](
        SimpleNamespace(docs_dir=ROOT / "docs", site_dir=tmp_path, site_name="coworld", site_description="Arenas.")
    )
    lines = (tmp_path / "llms.txt").read_text(encoding="utf-8").splitlines()
    assert lines[:3] == ["# coworld", "", "> Arenas."]
    assert [line for line in lines if line.startswith("## ")] == ["## Begin", "## Episodes"]
    assert "- [Concepts](concepts.html): Every term once, in the order in which you meet them." in lines
    whole = (tmp_path / "llms-full.txt").read_text(encoding="utf-8")
    assert len(re.findall(r"(?m)^<!-- \S+\.md -->$", whole)) == len(list((ROOT / "docs").glob("*.md")))


def test_troubleshooting_names_existing_codes() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    codes = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    sources = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("coworld_*/src/**/*.py"))
    assert len(codes) > 9
    assert [code for code in codes if f'"{code}"' not in sources] == []


def test_what_fails_on_a_page_says_what_it_fails_for() -> None:
    """Another mistake may end with the same status. What goes to a file is looked at by the page itself."""
    failing = [(page, block) for page in PAGES for block in blocks(page) if block.notes.get("exit", "0") != "0"]
    assert len(failing) > 9
    unsaid = [(page, block) for page, block in failing if "says" not in block.notes and " > " not in block.text]
    assert [f"{page_id(page)}:{block.line}" for page, block in unsaid] == []


def test_links_between_pages_resolve() -> None:
    broken: list[str] = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page_id(page)} -> {target}")
    assert not broken


def test_security_claims_name_existing_tests() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    rows = {f"test_blame[{case.id}]" for case in CASES}
    named = re.findall(r"`((?:tests|coworld_runner)/[\w/]+\.py)::(\w+)(\[[^`]+\])?`", text)
    assert len(named) > 20
    missing = [
        f"{file}::{name}{row}"
        for file, name, row in named
        if f"def {name}(" not in (ROOT / file).read_text(encoding="utf-8") or (row and f"{name}{row}" not in rows)
    ]
    assert not missing
    tables = re.findall(r"^\| Attempt .*?(?=\n\n)", text, re.MULTILINE | re.DOTALL)
    assert all(".py::" in line for table in tables for line in table.splitlines()[2:])


def test_readme_example_runs_in_a_notebook() -> None:
    """There a loop runs already, so nothing can start one; that it works is seen when the page is executed."""
    shown = [block.text for block in blocks(ROOT / "README.md") if block.language == "python"]
    assert shown
    for text in shown:
        code = compile(text, "README.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        assert code.co_flags & inspect.CO_COROUTINE
        assert not re.search(r"\brun\(", text)


FIRST_PAGES = ("index", "start-here", "concepts", "write-a-player", "write-a-game", "evaluation", "commands")
OUR_WORDS = re.compile(r"(\*|`|\[[\w ]*)?(starved|base seed|forfeit|block)", re.IGNORECASE)


def unexplained(text: str) -> set[str]:
    """Words of ours whose first mention is neither emphasised, as where they are explained, nor a link to that."""
    first = dict[str, str | None]()
    for mark, word in OUR_WORDS.findall(re.sub(r"```.*?```|\(#[\w-]+\)", "", text, flags=re.DOTALL)):
        first.setdefault(word.lower(), mark)
    return {word for word, mark in first.items() if not mark}


def test_first_pages_use_no_word_before_they_explain_it() -> None:
    pages = {name: (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in FIRST_PAGES}
    assert {name: words for name, text in pages.items() if (words := unexplained(text))} == {}
    assert unexplained("Use `--count-starved`. An episode is **starved** if it waited; see [its block](#blocks).") == {
        "starved"
    }
