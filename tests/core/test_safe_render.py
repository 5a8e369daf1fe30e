"""The check of reports' pages: every way out of one is named, and what honest reporters write passes."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hostile_reports import HONEST, HOSTILE, PIXEL, page

from coworld_core.errors import EnvironmentFault
from coworld_core.issue_codes import ISSUE_CODES
from coworld_core.issues import Issue
from coworld_core.roles.safe_render import check_render, render_markdown


def issues(files: Mapping[str, bytes], entry: str = "report.html") -> list[Issue]:
    return check_render(entry, names=files, read=files.__getitem__)


def errors(body: str, **files: bytes) -> list[str]:
    found = issues({"report.html": page(body).encode(), **files})
    return [issue.message for issue in found if issue.severity == "error"]


@pytest.mark.parametrize("name", HOSTILE)
def test_each_way_out_is_refused_by_its_name(name: str) -> None:
    hostile = HOSTILE[name]
    files = {name: text.encode() for name, text in hostile.files.items()}
    found = issues({"report.html": hostile.page.encode(), **files})
    named = [issue for issue in found if issue.code == hostile.code and hostile.says in issue.message]
    assert named, found
    assert named[0].severity == "error"
    assert named[0].pointer == f"/{hostile.at}"
    for issue in found:
        assert issue.code in ISSUE_CODES
        assert issue.message.isprintable()
        assert len(issue.message) < 300


@pytest.mark.parametrize("name", HONEST)
def test_what_honest_reporters_write_passes(name: str) -> None:
    files = HONEST[name]
    found = issues(files, next(iter(files)))
    assert [issue for issue in found if issue.severity != "info"] == []


def test_an_author_is_told_what_will_not_run() -> None:
    found = issues(HONEST["what-does-not-run"])
    # Two scripts on one line are one issue
    assert [issue.message.partition(" of ")[0] for issue in found] == [
        "report.html: href",
        *["report.html: src"] * 3,
    ]
    assert {issue.code for issue in found} == {"will_not_run"}
    assert "scripts do not run where reports are shown" in found[1].message


def test_all_violations_are_listed_with_their_lines() -> None:
    text = (
        '<p onclick="x">a</p>\n<iframe></iframe>\n<style>\n\na{b:url(http://a)}\n</style>\n<img src="gone.png" alt="">'
    )
    found = issues({"report.html": text.encode()})
    assert [(issue.line, issue.code) for issue in found] == [
        (1, "unsafe_attribute"),
        (2, "unsafe_element"),
        (5, "unsafe_address"),
        (7, "entry_missing"),
    ]


def test_a_page_with_many_violations_is_cut() -> None:
    found = issues({"report.html": "\n".join(["<iframe></iframe>"] * 5000).encode()})
    assert [issue.code for issue in found[-2:]] == ["unsafe_element", "too_many_issues"]
    assert len(found) == 101


def test_files_that_are_not_text_or_too_large() -> None:
    assert issues({"report.html": b"<p>\xff"})[0].code == "not_utf8"
    assert issues({"report.md": b"\xff"}, "report.md")[0].code == "not_utf8"
    assert issues({"report.html": b" " * (8 << 20) + b"<p>"})[0].code == "too_large"


@pytest.mark.slow
def test_no_report_takes_long_to_check() -> None:
    files = {f"{number}.css": b" " * (6 << 20) for number in range(4)}
    links = "".join(f'<link rel="stylesheet" href="{name}">' for name in files)
    assert [issue.code for issue in issues({"report.html": links.encode(), **files})] == ["too_large"] * 2
    # Whatever grows with the square of its length would not end
    long = f'<img alt="" srcset="{"a " * 100_000}"><style>{"behavior " * 50_000}</style>'
    assert {issue.code for issue in issues({"report.html": long.encode()})} == {"entry_missing"}


def test_a_srcset_is_read_as_browsers_do() -> None:
    found = issues(
        {"report.html": b'<img alt="" srcset="a, b 2x,c 10w , data:image/png;base64,AA== 1x,(d, e 1x (f,g) ,h,">'}
    )
    assert [issue.message.split('"')[1] for issue in found] == ["a", "b", "c", "(d", "e", "h"]


@pytest.mark.parametrize(("library", "page"), [("justhtml", "a.html"), ("tinycss2", "a.css"), ("markdown_it", "a.md")])
def test_a_missing_library_is_named(library: str, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(EnvironmentFault) as raised:
        issues({page: b"a{}"}, page)
    assert raised.value.code == "not_installed"
    assert raised.value.hint == "pip install 'coworld-core[reports]'"


def test_addresses_are_relative_to_the_file_that_has_them() -> None:
    files = {
        "a/b/report.html": page('<img alt="" src="../x%20y.png#a"><img alt="" src="..\\x%20y.png">').encode(),
        "a/x y.png": PIXEL,
    }
    assert issues(files, "a/b/report.html") == []
    assert [issue.code for issue in issues({**files, "report.html": files["a/b/report.html"]})] == [
        "unsafe_address"
    ] * 2


def test_data_addresses_in_one_another_have_an_end() -> None:
    from base64 import b64encode

    text = "<svg xmlns='http://www.w3.org/2000/svg'/>"
    for _ in range(6):
        inner = b64encode(text.encode()).decode()
        text = f"<svg xmlns='http://www.w3.org/2000/svg'><image href='data:image/svg+xml;base64,{inner}'/></svg>"
    [message] = errors(f'<img alt="" src="data:image/svg+xml;base64,{b64encode(text.encode()).decode()}">')
    assert "too deeply" in message


def test_relative_addresses_lead_nowhere_in_a_data_address() -> None:
    [message] = errors(
        "<img alt='' src='data:image/svg+xml,%3Csvg xmlns=%22http://www.w3.org/2000/svg%22%3E"
        "%3Cimage href=%22x.png%22/%3E%3C/svg%3E'>",
        **{"x.png": PIXEL},
    )
    assert "leads nowhere" in message


def test_pages_may_lead_to_each_other() -> None:
    files = {name: page('<a href="a.html">a</a> <a href="b.html">b</a>').encode() for name in ("a.html", "b.html")}
    assert issues(files, "a.html") == []


MARKDOWN = st.lists(
    st.sampled_from(
        [
            *(
                "<script>alert(1)</script>",
                "<img src=x onerror=y>",
                "[a](javascript:x)",
                "![a](x.svg 'onerror=')",
                "<!--",
            ),
            *(
                "![a](http://a/x.png)",
                "[a]: data:text/html,x",
                "![a][a]",
                "<http://a>",
                "```",
                "~~~ x onload=",
                "|a|\n|-|",
            ),
            *(
                "![a](img.png)",
                "[![a](http://b)](c)",
                "![a](//b/c)",
                "![a](\\\\b)",
                "&lt;b&gt;",
                "&#60;",
                "\\<",
                "`",
                "> ",
            ),
            *(
                "![a](data:image/png;base64,AA)",
                "![a](data:image/svg+xml,<svg onload=x>)",
                "\n",
                " ",
                "#",
                "\0",
                "*",
                "- ",
            ),
        ]
    )
    | st.text(max_size=8),
    max_size=12,
).map("".join)


@given(MARKDOWN)
def test_markdown_is_a_safe_page_whatever_it_says(text: str) -> None:
    html = render_markdown(text, names=["img.png"]).encode("utf-8", "surrogatepass")
    files = {"report.html": html, "img.png": PIXEL}
    if b"\xed" not in html:
        assert issues(files) == []


def test_pictures_of_a_markdown_report_are_checked_too() -> None:
    files = {
        "a/report.md": b"![chart](chart.svg)",
        "a/chart.svg": b"<svg xmlns='http://www.w3.org/2000/svg' onload='x'/>",
    }
    [issue] = issues(files, "a/report.md")
    assert (issue.pointer, issue.code) == ("/a~1chart.svg", "unsafe_attribute")
