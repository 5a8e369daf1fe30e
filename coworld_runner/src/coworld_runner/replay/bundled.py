"""Combines a static viewer and a replay into one file: the bundle's files go into the viewer's page.

The scripts, styles and pictures that the page names are inlined. A small script answers the requests that the page's
scripts make while they run, including the one for the replay.
"""

from __future__ import annotations

import base64
import gzip
import json
import mimetypes
import posixpath
import re
from collections.abc import Mapping
from html import escape
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import unquote

from coworld_core.errors import EpisodeError
from coworld_core.hints import Hint
from coworld_core.sizes import shown_size

from ..package.viewer import VIEWER_PAGE, ViewerBundle

__all__ = ["bundled_page", "kind_of"]

_MOST_BYTES: Final = 96 << 20
"""Size limit of bundle and replay in bytes; browsers do not open much larger pages."""
_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval' data: blob:; style-src 'unsafe-inline'; "
    "img-src data: blob:; media-src data: blob:; font-src data:; worker-src blob:; connect-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)
_KINDS: Final = {".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm", ".css": "text/css"}
"""Types that browsers require; the machine's own table does not always have these."""
_ADDRESS: Final = "https://viewer.invalid/"
"""Address that the bundle's modules take for their own; ``bundled.js`` has the same one."""
_IMPORTS: Final = re.compile(
    r"""(?P<before>\b(?:from|import)\s*\(?\s*)(?P<quote>["'])(?P<name>\.{1,2}/[^"'\n]*)(?P=quote)"""
)
_URLS: Final = re.compile(r"""url\(\s*(?P<quote>["']?)(?P<name>[^"')]+)(?P=quote)\s*\)""")
_LOADING: Final = {"script": "src", "link": "href", "img": "src", "source": "src", "audio": "src", "video": "src"}


def kind_of(name: str) -> str:
    """Return the media type of a bundle's file."""
    return _KINDS.get(posixpath.splitext(name)[1]) or mimetypes.guess_type(name)[0] or "application/octet-stream"


def bundled_page(bundle: ViewerBundle, replay: Path, *, packed: bool = False) -> str:
    """Write a viewer and a replay as one page. Blocks.

    Args:
        bundle: The viewer.
        replay: A file with the replay as the game wrote it.
        packed: Whether the viewer receives the replay as gzip.

    Raises:
        EpisodeError: They are too large for one page (``replay_endless``), or the page loads a file that is not in the
            bundle (``replay_page_not_alone``).
    """
    size = replay.stat().st_size + sum(path.stat().st_size for path in bundle.files.values())
    if size > _MOST_BYTES:
        raise EpisodeError(
            f"The viewer and the replay have {shown_size(size)}, which is too much for one page.",
            code="replay_endless",
            hint=Hint("smaller_page", "A page takes {size}. open_replay shows this one.", size=shown_size(_MOST_BYTES)),
        )
    writer = _Writer({name: path.read_bytes() for name, path in bundle.files.items()})
    writer.feed(writer.contents[VIEWER_PAGE].decode("utf-8", "replace"))
    writer.close()
    content = replay.read_bytes()
    held = {
        f"bundle/{name}": [kind_of(name), _base64(content)]
        for name, content in writer.contents.items()
        if name not in writer.inlined
    }
    held["replay"] = ["application/octet-stream", _base64(gzip.compress(content, mtime=0) if packed else content)]
    script = (files("coworld_runner.replay") / "bundled.js").read_text("utf-8")
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<script type="application/json" id="coworld-bundle">{_json(held)}</script>\n<script>{script}</script>\n'
        f'<script type="importmap">{_json({"imports": writer.modules})}</script>'
    )
    page = "".join(writer.written)
    # first in the page, so that the page's own scripts find everything in place
    place = re.search(r"<head[^>]*>", page, re.IGNORECASE) or re.search(
        r"<html[^>]*>|<!doctype[^>]*>", page, re.IGNORECASE
    )
    at = place.end() if place is not None else 0
    return f"{page[:at]}{head}{page[at:]}"


class _Writer(HTMLParser):
    """Rewrites a page, and inlines what it loads."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        super().__init__(convert_charrefs=False)
        self.contents = contents
        self.written: list[str] = []
        self.modules: dict[str, str] = {}
        """The import map: modules of the bundle, and the entries of the page's own map."""
        self.inlined = {VIEWER_PAGE}
        """Files that are no longer requested, because they are in the page."""
        self._inside = ""
        """Type of the script being read, if it is a type that is rewritten."""
        self._text = ""
        """Text of that script so far."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        text = self.get_starttag_text() or ""
        rel = given.get("rel", "").lower().split()
        attribute = _LOADING.get(tag)
        named = given.get(attribute, "") if attribute else ""
        if tag == "script":
            self._inside = given.get("type", "").lower() if given.get("type", "").lower() in _CHANGED else ""
        if tag == "script" and self._inside == "importmap":
            return
        if not named or named.startswith(("data:", "#", "blob:")):
            self.written.append(text)
            return
        if tag == "link" and not {"stylesheet", "icon"} & set(rel):
            return  # preloading is of no use: the page already holds everything
        name = _name(named, VIEWER_PAGE)
        if name not in self.contents:
            if tag not in ("script", "link") or "icon" in rel:
                self.written.append(text)
                return
            raise _not_alone(named)
        if tag == "script" and self._inside == "module":
            kept = {key: value for key, value in given.items() if key not in _OF_FILES}
            self.written.append(f'<script{_attributes(kept)}>import "{self._module(name)}"')
        elif tag == "link" and "stylesheet" in rel:
            media = f' media="{escape(given["media"])}"' if "media" in given else ""
            style = self._style(name).replace("</", r"<\/")
            self.written.append(f"<style{media}>{style}</style>")
        else:
            if tag == "script":
                self.inlined.add(name)
            kept = {key: value for key, value in given.items() if key not in _OF_FILES}
            kept[attribute or "src"] = self._data(name)
            self.written.append(f"<{tag}{_attributes(kept)}>")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        inside, text, self._inside, self._text = self._inside, self._text, "", ""
        if inside == "importmap":
            self._take_map(text)
            return
        if inside == "module":
            self.written.append(self._linked(text, VIEWER_PAGE))
        self.written.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        # a script may come in pieces
        if self._inside:
            self._text += data
        else:
            self.written.append(data)

    def handle_entityref(self, name: str) -> None:
        self.written.append(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.written.append(f"&#{name};")

    def handle_comment(self, data: str) -> None:
        self.written.append(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        self.written.append(f"<!{decl}>")

    def _take_map(self, text: str) -> None:
        try:
            given: Any = json.loads(text)
            entries = cast("dict[str, Any]", given["imports"])
        except (ValueError, KeyError, TypeError):
            return  # browsers ignore an invalid map, too
        for specifier, target in entries.items():
            name = _name(str(target), VIEWER_PAGE)
            self.modules[specifier] = self._data_of_module(name) if name in self.contents else str(target)

    def _module(self, name: str) -> str:
        """Add a module of the bundle, and what it imports, to the map; returns the name to import it by."""
        specifier = f"bundle/{name}"
        if specifier not in self.modules:
            self.modules[specifier] = ""  # modules may import each other
            self.modules[specifier] = self._data_of_module(name)
        return specifier

    def _data_of_module(self, name: str) -> str:
        self.inlined.add(name)
        text = self._linked(self.contents[name].decode("utf-8", "replace"), name)
        text = text.replace("import.meta.url", json.dumps(f"{_ADDRESS}{name}"))
        return f"data:text/javascript;base64,{_base64(text.encode())}"

    def _linked(self, text: str, place: str) -> str:
        """Return a module's text, with its imports replaced by names in the map."""

        def by_name(match: re.Match[str]) -> str:
            name = _name(match["name"], place)
            return f'{match["before"]}"{self._module(name)}"' if name in self.contents else match[0]

        return _IMPORTS.sub(by_name, text)

    def _style(self, name: str) -> str:
        self.inlined.add(name)

        def in_place(match: re.Match[str]) -> str:
            inside = _name(match["name"], name)
            return f'url("{self._data(inside)}")' if inside in self.contents else match[0]

        return _URLS.sub(in_place, self.contents[name].decode("utf-8", "replace"))

    def _data(self, name: str) -> str:
        return f"data:{kind_of(name)};base64,{_base64(self.contents[name])}"


_CHANGED: Final = ("module", "importmap")
_OF_FILES: Final = ("src", "href", "integrity", "crossorigin")


def _attributes(given: Mapping[str, str]) -> str:
    return "".join(f' {name}="{escape(value)}"' for name, value in given.items())


def _name(address: str, place: str) -> str:
    """Return the name of the bundle's file that an address in one of its files refers to."""
    plain = unquote(re.split(r"[?#]", address, maxsplit=1)[0])
    return posixpath.normpath(posixpath.join(posixpath.dirname(place), plain)).lstrip("/")


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _json(value: object) -> str:
    """Return JSON that is safe inside a script element."""
    return json.dumps(value).replace("<", "\\u003c")


def _not_alone(address: str) -> EpisodeError:
    return EpisodeError(
        f"The viewer's page cannot stand alone: it loads {address}, which is not in its bundle.",
        code="replay_page_not_alone",
        hint=Hint("whole_bundle", "Copy it into the bundle. open_replay shows this one."),
    )
