"""The page of a certification: one file that loads nothing, runs nothing, and shows hostile text as text."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from support.formats import LATER, files, with_added_fields, with_later_values
from support.hostile_certification import HOSTILE, hostile_certification
from support.small_world import LONG, world

from coworld_core.certificate import read_certificate
from coworld_runner.certification import read_certification, render_page

VOID = {"meta", "br", "link", "img", "input", "hr"}
ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "div", "b", "h1", "h2", "h3", "small", "p"),
    *("nav", "a", "span", "aside", "ul", "ol", "li", "code", "dl", "dt", "dd", "section", "details", "summary", "pre"),
    *("figure", "img", "figcaption", "i", "table", "thead", "tbody", "tr", "th", "td", "footer"),
}


class Page(HTMLParser):
    """What a page consists of; fails on tags that do not match."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.styles = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            self.styles += data
        else:
            self.text += data


def assert_self_contained(html: str) -> Page:
    page = Page(html)
    ids = {attrs["id"] for _, attrs in page.tags if "id" in attrs}
    for tag, attrs in page.tags:
        assert tag in ALLOWED
        for name, value in attrs.items():
            assert not name.startswith("on")
            if name == "href":
                assert value is not None
                assert value.startswith("#")
                assert value[1:] in ids
            assert name not in ("srcset", "action", "formaction", "background", "data", "poster")
            assert name != "src" or (tag == "img" and re.fullmatch(r"data:image/png;base64,[\w+/=]+", value or ""))
            assert name != "style" or (tag == "i" and re.fullmatch(r"width:\d+(\.\d+)?%", value or ""))
    assert not re.search(r"url\(|@import|expression|</", page.styles)
    policy = next(attrs["content"] for tag, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in (policy or "")
    return page


@pytest.mark.slow
async def test_a_real_page_is_self_contained_and_tells_everything(tmp_path: Path) -> None:
    def mixed(manifest: dict[str, Any]) -> None:
        manifest["certification"]["game_config"] = dict(LONG)
        manifest["game"]["runnable"]["source_url"] = "https://gitlab.example.org/me/counting"

    async with world(game_vices=("no_replay",), player_vices=("second:leaves",), change=mixed) as bad:
        found = await bad.certify(tmp_path / "out")
    html = (tmp_path / "out/certification.html").read_text()
    certificate, _ = read_certificate(tmp_path / "out")
    assert html == render_page(found, certificate)
    assert certificate.verdict is None
    page = assert_self_contained(html)
    for step in found.steps:
        assert step.id in page.text
        assert step.detail in page.text
        assert step.checks in page.text
        assert step.criterion in page.text
        assert all(item.message in page.text for item in step.evidence)
    assert found.statement in page.text
    assert all(caveat in page.text for caveat in found.caveats)
    assert found.manifest_sha256 in page.text
    assert found.run_id in page.text
    assert "Not certified" in page.text
    opened = [attrs for tag, attrs in page.tags if tag == "details"]
    assert sum("open" in attrs for attrs in opened) == sum(step.status != "pass" for step in found.steps)


async def test_a_good_page_shows_the_degree(tmp_path: Path) -> None:
    async with world() as good:
        await good.certify(tmp_path / "out")
    page = assert_self_contained((tmp_path / "out/certification.html").read_text())
    assert "Executable" in page.text
    assert "First (first) 1, Second (second) 2.5" in page.text
    assert "Not certified" not in page.text
    certificate, _ = read_certificate(tmp_path / "out")
    assert certificate.id in page.text
    assert certificate.content.digest in page.text


def test_pictures_are_on_the_page_and_large_ones_only_named() -> None:
    html = render_page(hostile_certification(), pictures={"player": b"a picture", "replay": b"x" * (1 << 21)})
    page = assert_self_contained(html)
    (picture,) = [attrs for name, attrs in page.tags if name == "img"]
    assert (picture["alt"], picture["src"]) == ("The player page", "data:image/png;base64,YSBwaWN0dXJl")
    assert "screenshots/replay.png" in page.text


@pytest.mark.parametrize("status", ["completed", "failed", "interrupted"])
def test_hostile_text_is_only_text(status: Any) -> None:
    html = render_page(hostile_certification(status))
    page = assert_self_contained(html)
    for piece in HOSTILE:
        assert piece in page.text


@pytest.mark.parametrize("word", [LATER, "<b onclick='x'>&\"later"])
def test_a_record_of_a_later_version_has_a_page(word: str) -> None:
    (path,) = files("certified/certification.json")
    later = with_later_values(with_added_fields(json.loads(path.read_bytes())))
    later |= {"verdict": None, "steps": [{**step, "status": word, "id": word} for step in later["steps"]]}
    page = assert_self_contained(render_page(read_certification(later)))
    assert f"{len(later['steps'])} {word}" in page.text


def test_characters_that_hide_or_reorder_are_shown_by_number() -> None:
    html = render_page(hostile_certification())
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]", html
    )
    assert "\N{REPLACEMENT CHARACTER}202E" in html
    assert "\N{REPLACEMENT CHARACTER}001B[31m" in html
    html.encode()  # A lone surrogate could not be written
