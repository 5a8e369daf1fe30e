"""The OpenAPI document as a page for people."""

from __future__ import annotations

from html import escape
from typing import Any

from .columns import JsonObject

__all__ = ["page"]

_HEAD = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Observatory API</title><style>
:root{color-scheme:light dark;font:15px/1.5 system-ui,sans-serif}
body{max-width:56rem;margin:2rem auto;padding:0 1rem}
code{font-family:ui-monospace,monospace;font-size:.95em}
details{border-top:1px solid color-mix(in srgb,currentColor 20%,transparent);padding:.4rem 0}
summary{cursor:pointer}summary b{display:inline-block;min-width:4.2em}
table{border-collapse:collapse;margin:.4rem 0}td{padding:.1rem .8rem .1rem 0;vertical-align:top}
</style></head><body><h1>Observatory API</h1>
<p>The same for programs: <a href="/openapi.json">openapi.json</a>.</p>
"""


def page(document: JsonObject) -> str:
    """The page."""
    by_tag: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            by_tag.setdefault(operation["tags"][0], []).append(_operation(method, path, operation))
    parts = [f"<h2>{escape(tag)}</h2>{''.join(operations)}" for tag, operations in by_tag.items()]
    return _HEAD + "".join(parts) + "</body></html>"


def _operation(method: str, path: str, operation: JsonObject) -> str:
    rows = [
        f"<tr><td><code>{escape(row['name'])}</code></td><td>{row['in']}</td>"
        f"<td>{escape(str(row['schema'].get('description', '')))}</td></tr>"
        for row in operation["parameters"]
    ]
    rows += [
        f"<tr><td>{escape(status)}</td><td></td><td>{escape(answer['description'])}</td></tr>"
        for status, answer in operation["responses"].items()
    ]
    body: dict[str, Any] = operation.get("requestBody", {}).get("content", {})
    sent = "".join(
        f"<p>Send: <code>{escape(str(shape['schema'].get('$ref', kind)))}</code></p>" for kind, shape in body.items()
    )
    return (
        f"<details><summary><b>{method.upper()}</b> <code>{escape(path)}</code> — {escape(operation['summary'])}"
        f"</summary>{sent}<table>{''.join(rows)}</table></details>"
    )
