"""Pictures of games that want to run, load, navigate, cover the page, or take its time; and one that wants nothing."""

from __future__ import annotations

from typing import Final

__all__ = ["ELSEWHERE", "HOSTILE", "KEPT"]

ELSEWHERE: Final = "https://elsewhere.invalid"
_RUN: Final = "window.ran=1;alert(1)"


def _svg(inner: str, more: str = "") -> str:
    space = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    whole = '<rect id="all" width="90" height="90" fill="teal"/>'
    return f'<svg {space} viewBox="0 0 90 90" {more}>{inner}{whole}{inner}</svg>'


def _uses(depth: int) -> str:
    steps = "".join(
        f'<g id="u{n}"><use href="#u{n + 1}"/><use href="#u{n + 1}"/><use href="#u{n + 1}"/></g>' for n in range(depth)
    )
    return f'<defs>{steps}<rect id="u{depth}" width="9" height="9"/></defs><use href="#u0"/>'


HOSTILE: Final = {
    # It runs
    "script": _svg(f"<script>{_RUN}</script>"),
    "script elsewhere": _svg(f'<script href="{ELSEWHERE}/x.js"/>'),
    "script of html": _svg(f'<script xmlns="http://www.w3.org/1999/xhtml">{_RUN}</script>'),
    "handlers": _svg(f'<circle r="50" onclick="{_RUN}" onmouseover="{_RUN}" onfocus="{_RUN}"/>', f'onload="{_RUN}"'),
    "handler of an animation": _svg(f'<animate attributeName="x" dur="1s" onbegin="{_RUN}"/>'),
    "foreignObject": _svg(
        '<foreignObject width="90" height="90"><body xmlns="http://www.w3.org/1999/xhtml">'
        f'<img src="x" onerror="{_RUN}"/><iframe src="{ELSEWHERE}"/></body></foreignObject>'
    ),
    "html in a title": _svg(f'<title><img xmlns="http://www.w3.org/1999/xhtml" src="x" onerror="{_RUN}"/></title>'),
    "text that is markup": _svg(
        f"<text>&lt;img src=x onerror={_RUN}&gt;<![CDATA[</text><script>{_RUN}</script>]]></text>"
    ),
    "set of a handler": _svg(f'<circle r="40"><set attributeName="onclick" to="{_RUN}"/></circle>'),
    # It loads
    "image": _svg(f'<image href="{ELSEWHERE}/x.png" width="9" height="9"/><image xlink:href="{ELSEWHERE}/y.png"/>'),
    "data image": _svg('<image href="data:image/svg+xml,%3Csvg/%3E" width="9" height="9"/>'),
    "use": _svg(
        f'<use href="{ELSEWHERE}/x.svg#a"/><use xlink:href="{ELSEWHERE}/x.svg#a"/><use href="//x.invalid/#a"/>'
    ),
    "feImage": _svg(
        f'<filter id="f"><feImage href="{ELSEWHERE}/x.png"/></filter><rect width="9" height="9" filter="url(#f)"/>'
    ),
    "fill": _svg(f'<rect width="9" height="9" fill="url({ELSEWHERE}/x.svg#a)" mask="url(&quot;{ELSEWHERE}/x&quot;)"/>'),
    "fill in escapes": _svg(
        f'<rect width="9" height="9" fill="u\\72 l({ELSEWHERE}/x.svg#a)" filter="u\\rl({ELSEWHERE}/y)"/>'
    ),
    "style": _svg(f'<rect width="9" height="9" style="fill: url({ELSEWHERE}/x#a); background: url({ELSEWHERE}/y)"/>'),
    "style of another kind": _svg(
        f"<rect style=\"cursor: url({ELSEWHERE}/c), auto; mask-image: image-set('{ELSEWHERE}')\"/>"
    ),
    "style sheet": _svg(f'<style>@import "{ELSEWHERE}/x.css"; * {{ background: url({ELSEWHERE}/y) }}</style>'),
    "link": _svg(f'<link xmlns="http://www.w3.org/1999/xhtml" rel="stylesheet" href="{ELSEWHERE}/x.css"/>'),
    "set of href": _svg(f'<use href="#all"><set attributeName="href" to="{ELSEWHERE}/x.svg#a"/></use>'),
    "animate of xlink:href": _svg(
        f'<use><animate attributeName="xlink:href" values="{ELSEWHERE}/x#a;{ELSEWHERE}/y#a"/></use>'
    ),
    "set of fill": _svg(f'<rect width="9" height="9"><set attributeName="fill" to="url({ELSEWHERE}/x#a)"/></rect>'),
    # It leads away
    "a": _svg(f'<a href="{ELSEWHERE}"><rect width="90" height="90"/></a>'),
    "a of a script": _svg(f'<a xlink:href="javascript:{_RUN}"><rect width="90" height="90"/></a>'),
    "a of html": _svg(
        f'<a xmlns="http://www.w3.org/1999/xhtml" href="{ELSEWHERE}" style="position:fixed;inset:0">x</a>'
    ),
    "form": _svg(
        f'<form xmlns="http://www.w3.org/1999/xhtml" action="{ELSEWHERE}"><button autofocus="">x</button></form>'
    ),
    "refresh": _svg(f'<meta xmlns="http://www.w3.org/1999/xhtml" http-equiv="refresh" content="0;url={ELSEWHERE}"/>'),
    # It covers or changes the page
    "fixed": _svg(
        "", 'style="position: fixed; inset: 0; width: 5000px; height: 5000px; z-index: 9" width="5000" height="5000"'
    ),
    "overflow": _svg(
        '<rect x="-9000" y="-9000" width="18000" height="18000"/>', 'overflow="visible" style="overflow: visible"'
    ),
    "transform": _svg("", 'transform="scale(40)" style="transform: scale(40) translate(0, -50px)"'),
    "sheet for the page": _svg("<style>body, header { display: none; background: red !important }</style>"),
    "ids and classes of the page": _svg('<g id="status" class="form" name="status">x</g><text id="controls">y</text>'),
    "set of the page": _svg(
        '<set href="#status" attributeName="display" to="none"/><set attributeName="id" to="status"/>'
    ),
    "buttons": _svg('<g role="alert" tabindex="1" aria-live="assertive" aria-label="Log in" data-action="1">x</g>'),
    # It takes time
    "uses of uses": _svg(_uses(24)),
    "use of itself": _svg('<g id="s"><use href="#s"/></g>'),
    "entities": '<svg xmlns="http://www.w3.org/2000/svg"><text>&a;</text></svg>',
    "depth": _svg("<g>" * 4000 + "</g>" * 4000),
    "nodes": _svg("<g/>" * 30_000),
    "length": _svg("x" * (5 << 20)),
    "no picture": f'<svg-x onload="{_RUN}"><script>{_RUN}</script></svg-x>',
    "html": f'<svg xmlns="http://www.w3.org/1999/xhtml"><script>{_RUN}</script></svg>',
}
"""Drawings, by what they try."""

KEPT: Final = """
<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><title>All of it</title>
<defs><linearGradient id="shade"><stop offset="0" stop-color="#123"/></linearGradient><circle id="dot" r="3"/></defs>
<rect width="9" height="9" fill="url(#shade)" style="stroke: red; opacity: .5; position: fixed" transform="rotate(3)"/>
<use href="#dot" x="20" y="9"/><circle r="1"><animate attributeName="r" values="1;3" dur="2s"/></circle></svg>
"""
"""A picture of which everything is shown but the position."""
