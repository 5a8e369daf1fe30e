"""What a certification's page must be: one file that loads nothing, runs nothing, and shows text as text."""

from __future__ import annotations

import re
from html.parser import HTMLParser

__all__ = ["Page", "assert_self_contained"]

_VOID = {"meta", "br", "link", "img", "input", "hr"}
_ALLOWED = {
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
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            self.styles += data
        else:
            self.text += data


def assert_self_contained(html: str) -> Page:
    """Parse a page, and check that it is self-contained."""
    page = Page(html)
    ids = {attrs["id"] for _, attrs in page.tags if "id" in attrs}
    for tag, attrs in page.tags:
        assert tag in _ALLOWED
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
    policy = next(attrs["content"] for _, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in (policy or "")
    return page
