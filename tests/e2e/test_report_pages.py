"""Pages of reports in a real browser, as they are shown: no request leaves, no script runs, and honest ones are shown.

Each is in a sandboxed frame and served with `RENDER_HEADERS`. What hostile pages name elsewhere is a server of this
test, which notes who comes; the page around the frames notes who speaks to it.
"""

from __future__ import annotations

import mimetypes
import random
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser, Error, Page, Request
from support.hostile_reports import ELSEWHERE, HONEST, HOSTILE

from coworld_core.roles.safe_render import (
    RENDER_HEADERS,
    RENDER_SANDBOX,
    _Check,  # pyright: ignore[reportPrivateUsage]
    _Position,  # pyright: ignore[reportPrivateUsage]
    check_render,
    render_markdown,
)

pytestmark = pytest.mark.browser

_LISTEN = """<!doctype html><script>
window.heard = [];
addEventListener("message", event => {
    for (const frame of document.querySelectorAll("iframe"))
        if (frame.contentWindow === event.source) heard.push(frame.name);
});
</script>"""


@dataclass
class Shop:
    """Serves reports, each in a folder of its own name, and a page with all of them in frames.

    It is the other server, too, under another name, and notes what that is asked for. With `guarded=False`, neither
    frames nor headers protect anything.
    """

    reports: Mapping[str, Mapping[str, bytes]]
    guarded: bool = True
    port: int = 0
    asked: set[str] = field(default_factory=set[str])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, host: str, path: str) -> tuple[int, str, bytes]:
        """The status, the kind and the content for a path."""
        if host.startswith("localhost"):
            self.asked.add(path)
            return 200, "text/javascript", b""
        if path == "/around":
            sandbox = f'sandbox="{RENDER_SANDBOX}"' if self.guarded else ""
            frames = [
                f'<iframe name="{name}" {sandbox} src="/{name}/{next(iter(files))}"></iframe>'
                for name, files in self.reports.items()
            ]
            return 200, "text/html", "\n".join([_LISTEN, *frames]).encode()
        name, _, entry = unquote(urlsplit(path).path).lstrip("/").partition("/")
        files = self.reports.get(name, {})
        if entry not in files:
            return 404, "text/plain", b""
        kind = mimetypes.guess_type(entry)[0] or "application/octet-stream"
        data = files[entry].replace(ELSEWHERE.removeprefix("http:").encode(), f"//localhost:{self.port}".encode())
        if entry.endswith(".md"):
            data, kind = render_markdown(data.decode(), names=files).encode(), "text/html"
        return 200, f"{kind}; charset=utf-8" if kind.startswith("text/") else kind, data


@contextmanager
def serving(shop: Shop) -> Generator[Shop]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, kind, data = shop.answer(self.headers["Host"], self.path)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            if shop.guarded and self.path != "/around":
                for name, value in RENDER_HEADERS.items():
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *words: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 256

    with Server(("127.0.0.1", 0), Handler) as server:
        shop.port = server.server_port
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield shop
        finally:
            server.shutdown()
            thread.join()


def files_of(name: str) -> dict[str, bytes]:
    hostile = HOSTILE[name]
    return {"report.html": hostile.page.encode(), **{entry: text.encode() for entry, text in hostile.files.items()}}


def open_all(page: Page, shop: Shop) -> list[str]:
    """Show all reports, and click whatever can be clicked; returns the names of those that ran a script."""
    page.goto(f"{shop.url}/around")
    for frame in page.frames[1:]:
        for link in frame.locator("a, area, button, summary, text").all():
            # The frame may have gone where an earlier one led
            with suppress(Error):
                link.dispatch_event("click", timeout=2000)
    return settled(page, shop)


def settled(page: Page, shop: Shop) -> list[str]:
    """The names of the reports that ran a script, once whatever was asked before has been answered."""
    for _ in range(3):
        page.evaluate(
            f"new Promise(done => fetch('{shop.url}/none').then(() => requestAnimationFrame(() => setTimeout(done))))"
        )
    heard: list[str] = page.evaluate("heard")
    return sorted(set(heard))


@pytest.fixture
def page(browser: Browser) -> Generator[Page]:
    context = browser.new_context()
    try:
        yield context.new_page()
    finally:
        context.close()


def test_nothing_leaves_a_hostile_report_and_nothing_runs(page: Page) -> None:
    requests: list[Request] = []
    page.on("request", lambda request: requests.append(request))
    with serving(Shop({name: files_of(name) for name in HOSTILE})) as shop:
        assert open_all(page, shop) == []
        assert shop.asked - {"/none"} == set()
        # The browser tells of requests that it has stopped itself, too: for the policy, or as another origin's
        left = [asked.url for asked in requests if asked.failure not in ("csp", "origin")]
        assert [url for url in left if url.startswith("http") and not url.startswith(shop.url)] == []
        assert len(page.frames) > len(HOSTILE)


def test_the_watch_notices_what_unguarded_pages_do(page: Page) -> None:
    fetching = [
        "svg-image-elsewhere",
        "css-image-set",
        "css-escaped-url",
        "css-escaped-import",
        "link-preload",
        "poster",
    ]
    for name in fetching:
        with serving(Shop({name: files_of(name)}, guarded=False)) as shop:
            open_all(page, shop)
            assert shop.asked, name
    running = [
        *("cdata-in-html", "comment-that-ends-with-a-bang", "handler-onerror", "href-javascript-with-a-tab"),
        *("script-in-a-linked-picture", "script-with-a-data-address", "svg-link"),
    ]
    with serving(Shop({name: files_of(name) for name in (*running, "css-url")}, guarded=False)) as shop:
        open_all(page, shop)
        page.wait_for_function("names => names.every(name => heard.includes(name))", arg=running)
        assert settled(page, shop) == running


def test_honest_reports_are_shown(page: Page) -> None:
    with serving(Shop(HONEST)) as shop:
        page.goto(f"{shop.url}/around")
        for name in HONEST:
            frame = page.frame(name)
            assert frame is not None
            frame.get_by_text("Shown").first.wait_for()
            frame.wait_for_function("[...document.images].every(one => one.complete)")
            pictures = frame.locator("img").evaluate_all("all => all.map(one => [one.alt, one.naturalWidth])")
            assert [alt for alt, width in pictures if not width] == [], name
        frame = page.frame("files")
        assert frame is not None
        # The style sheet of the report is applied
        assert frame.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--ink').trim()") == "#223"
        assert settled(page, shop) == []
        assert shop.asked == set()


def test_a_file_that_is_opened_alone_is_in_a_sandbox_too(page: Page) -> None:
    with serving(Shop({name: files_of(name) for name in ("file-with-a-handler", "page-that-is-linked")})) as shop:
        for path in ("file-with-a-handler/chart.svg", "page-that-is-linked/more.html"):
            page.goto(f"{shop.url}/{path}")
            assert page.evaluate("origin") == "null"
        assert shop.asked == set()


PIECES = [
    *(
        "<svg>",
        "</svg>",
        "<math>",
        "</math>",
        "<style>",
        "</style>",
        "<title>",
        "</title>",
        '<a id="',
        '">',
        "<p>",
        "</p>",
    ),
    *("<table>", "</table>", "<td>", "<tr>", "<caption>", "<col>", "<select>", "</select>", "<option>", "<noscript>"),
    *("</noscript>", "<mtext>", "</mtext>", "<desc>", "</desc>", "<!--", "-->", "--!>", "<!-->", "<![CDATA[", "]]>"),
    *("<?xml x?>", "<!x>", "</ >", "<textarea>", "</textarea>", "<b>", "</b>", "<i>", "</br>", "<li>", "<button>", "x"),
    *("<body class=a>", "<html lang=b>", "<head>", "</head>", "</body>", "<image>", "<linearGradient>", "<ruby><rt>"),
    *("<nobr>", "<search>", "<hr>", "&lt;", "<dd>", "</a>", "<h1>", "<font color=red>", "<annotation>", "<metadata>"),
    # Seldom accepted
    *(
        "<img src=x onerror=y>",
        "<template>",
        "<iframe>",
        "<frameset>",
        "<mglyph>",
        "<foreignObject>",
        "<xmp>",
        "<form>",
    ),
]


def test_a_browser_sees_no_more_in_an_accepted_page_than_the_check(page: Page) -> None:
    pick = random.Random(39)
    texts = ["<!doctype html>" + "".join(pick.choices(PIECES, k=pick.randint(2, 9))) for _ in range(6000)]
    accepted = [
        text for text in texts if not check_render("a.html", names=("a.html",), read=lambda _, it=text: it.encode())
    ]
    assert len(accepted) > 1000
    page.goto("about:blank")
    seen: list[list[tuple[str, str, dict[str, str]]]] = page.evaluate(
        """texts => texts.map(text => [...new DOMParser().parseFromString(text, "text/html").querySelectorAll("*")].map(
            one => [one.namespaceURI.split("/").pop().toLowerCase(), one.localName,
                    Object.fromEntries([...one.attributes].map(at => [at.name, at.value]))]))""",
        accepted,
    )
    for text, elements in zip(accepted, seen, strict=True):
        check = _Check(names=frozenset(), read=lambda _: b"")
        for kind, name, attributes in elements:
            check.element(
                {"xhtml": "html", "svg": "svg"}.get(kind, "math"), name, attributes, _Position(entry="a.html")
            )
        assert check.issues == [], text
