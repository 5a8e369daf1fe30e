"""The pages of reports: what they may contain, under which policy they are shown, and Markdown as such a page.

A page is shown in a sandbox that runs no scripts and lets nothing in or out (`RENDER_SANDBOX`, `RENDER_HEADERS`). That
is the boundary. The check comes before it, and names what a page must not contain: whatever is on none of the lists of
elements, attributes, addresses and styles. HTML is parsed as browsers do it, by justhtml (it follows the current
standard; html5lib drops elements that browsers have come to keep); CSS by tinycss2; SVG files by expat. They come with
the extra `reports`, and are imported on first use.
"""

from __future__ import annotations

import base64
import binascii
import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, cast
from urllib.parse import unquote, unquote_to_bytes
from xml.parsers import expat

from ..documents.findings import pointer, quoted
from ..issues import Issue
from ..lazy import load_library
from ..text import svg_names
from ..text.size_text import shown_size
from . import _render_lists as lists

__all__ = ["RENDER_HEADERS", "RENDER_POLICY", "RENDER_SANDBOX", "check_render", "render_markdown"]

RENDER_SANDBOX = ""
"""The `sandbox` attribute of the frame that shows a page: nothing is permitted, neither scripts nor its origin."""

RENDER_POLICY = (
    "default-src 'none'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; font-src 'self' data:; "
    "script-src 'none'; base-uri 'self'; form-action 'none'; sandbox"
)
"""The `Content-Security-Policy` of a report's files, which holds where one is opened outside the frame, too."""

RENDER_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": RENDER_POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-DNS-Prefetch-Control": "off",
}
"""Headers of every file of a report that is served."""

_HINT = "pip install 'coworld-core[reports]'"
_LARGEST = 8 << 20
"""Most bytes of a page, style sheet or picture that is checked; parsing that much takes seconds."""
_MOST = 16 << 20
"""Most bytes of them in one report."""
_MOST_ISSUES = 100
_MOST_NESTED = 4
"""Deepest nesting of data addresses in one another."""

_XHTML = "http://www.w3.org/1999/xhtml"
_SVG = "http://www.w3.org/2000/svg"
_PREFIXES = {
    "http://www.w3.org/1999/xlink": "xlink",
    "http://www.w3.org/XML/1998/namespace": "xml",
    "http://www.w3.org/2000/xmlns/": "xmlns",
}

_BITMAPS = frozenset(
    f"image/{kind}" for kind in ("png", "jpeg", "jpg", "gif", "webp", "avif", "bmp", "x-icon", "vnd.microsoft.icon")
)
_DRAWING = "image/svg+xml"
_FONTS = re.compile(
    r"font/[\w+-]+|application/(x-)?font-[\w+-]+|application/(font|octet-stream|vnd\.ms-fontobject|x-font)"
)
_RECORDINGS = re.compile(r"(audio|video)/[\w.+-]+|text/vtt|application/ogg")
_RECORDED = frozenset({"audio", "video", "source", "track"})
_DOWNLOADS = frozenset({"text/plain", "text/csv", "application/json"}) | _BITMAPS
_LINKED = frozenset({"http", "https", "mailto"})
_SCRIPTS = frozenset({"", "text/javascript", "application/javascript", "text/ecmascript", "module"})
_UNCHECKED_PAGES = frozenset({".xhtml", ".xht", ".xml", ".xsl", ".xslt", ".mht", ".mhtml", ".shtml", ".swf"})

_UTF8 = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_MARKUP = re.compile(r"<[a-z/!?]", re.IGNORECASE)
_FRAME = re.compile(r"<frame", re.IGNORECASE)
_CUSTOM_ELEMENT = re.compile(r"[a-z][a-z0-9._]*-[a-z0-9._-]*")
_RESERVED_ELEMENTS = frozenset({"annotation-xml", "color-profile", "font-face", "missing-glyph"}) | {
    f"font-face-{kind}" for kind in ("src", "uri", "format", "name")
}
_FOREIGN_NAME = re.compile(r"(?!xlink:|xml:)[a-z][\w.-]*:[a-z_][\w.-]*", re.IGNORECASE)
_CANDIDATE = re.compile(r"[\s,]*(\S+)")
_SIZE = re.compile(r"(?:\([^)]*\)?|[^,(])*,?")
_SPACES = "".join(chr(code) for code in range(33))
_BREAKS = str.maketrans("", "", "\t\n\r")


def check_render(entry: str, *, names: Collection[str], read: Callable[[str], bytes]) -> list[Issue]:
    """Check a page of a report, and each page, style sheet and picture of the report to which it leads.

    Args:
        entry: The page's name in the report: Markdown (`.md`) or HTML.
        names: The names of all files of the report.
        read: Gives the content of a file.

    Returns:
        The issues, each with the entry as its pointer. An error is a reason to refuse the page; information tells its
        author what will not work.

    Raises:
        EnvironmentFault: The extra `reports` is not installed (`not_installed`).
    """
    check = _Check(names=frozenset(names), read=read)
    check.lead(entry)
    check.follow()
    return check.issues


def render_markdown(text: str, *, entry: str = "", names: Collection[str] = ()) -> str:
    """Markdown as a part of an HTML page that passes the check: markup in it is shown as text.

    Args:
        text: The Markdown.
        entry: Its name in the report.
        names: The report's files. Pictures that are not among them are shown as links.

    Raises:
        EnvironmentFault: The extra `reports` is not installed (`not_installed`).
    """
    parser: Any = (
        load_library("markdown_it", _HINT).MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    )
    check, place = _Check(names=frozenset(names), read=_nothing), _Position(entry=entry)
    parser.validateLink = _is_plain
    tokens: list[Any] = parser.parse(text.replace("\0", "\N{REPLACEMENT CHARACTER}"))
    for block in tokens:
        children: list[Any] = block.children or []
        for token in children:
            if token.type != "image" or check.has_picture(str(token.attrs.get("src", "")), place):
                continue
            # A picture from elsewhere is not fetched; whoever wants to see it can follow the link
            token.type, token.tag = "html_inline", ""
            label = parser.renderer.renderInlineAsText(token.children, parser.options, {}) or "picture"
            token.content = _link(str(token.attrs.get("src", "")), label)
    return cast("str", parser.renderer.render(tokens, parser.options, {}))


def _is_plain(address: str) -> bool:
    """Whether Markdown may have an address at all."""
    address = _as_browser(address)
    scheme = _scheme(address)
    return scheme is None or scheme in _LINKED or (scheme == "data" and _data_kind(address) in _BITMAPS)


def _link(address: str, label: str) -> str:
    scheme = _scheme(_as_browser(address))
    return f'<a href="{escape(address)}">{escape(label)}</a>' if scheme in _LINKED else escape(label)


def _nothing(name: str) -> bytes:
    raise KeyError(name)


@dataclass(frozen=True, kw_only=True)
class _Position:
    """Where something is."""

    entry: str
    line: int = 1
    column: int = 1
    nested: int = 0
    """In how many data addresses; there, relative addresses lead nowhere."""
    whole: bool = False
    """Whether lines within it are not those of the entry."""

    def at(self, line: int | None, column: int | None = None) -> _Position:
        """The same place, with a line and column of its text; within a data address, the place of the address."""
        if self.nested or self.whole or not line:
            return self
        return _Position(entry=self.entry, line=line, column=max(1, column or 1))


@dataclass(frozen=True, kw_only=True)
class _Check:
    """The state of one check."""

    names: frozenset[str]
    read: Callable[[str], bytes]
    issues: list[Issue] = field(default_factory=list[Issue])
    _known: set[object] = field(default_factory=set[object])
    _sizes: list[int] = field(default_factory=list[int])
    _leads: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """The files to which the page leads, each with the kind as which it is checked, in the order found."""

    def say(
        self, code: str, position: _Position, what: str, *, hint: str | None = None, severity: Any = "error"
    ) -> None:
        """Add an issue, once."""
        key = code, position.entry, position.line, what
        if key in self._known or len(self.issues) > _MOST_ISSUES:
            return
        self._known.add(key)
        shown = quoted(position.entry, 120)[1:-1]
        if len(self.issues) == _MOST_ISSUES:
            code, what, hint, severity = "too_many_issues", "there is more, which is not listed", None, "info"
        self.issues.append(
            Issue(
                code=code,
                severity=severity,
                pointer=pointer((position.entry,)),
                line=position.line,
                column=position.column,
                message=f"{shown}: {what}.",
                hint=hint,
            )
        )

    def will_not_run(self, position: _Position, what: str, hint: str | None = None) -> None:
        """Tell the author of something that is allowed and without effect."""
        self.say("will_not_run", position, what, hint=hint, severity="info")

    # --- files

    def lead(self, name: str, kind: str | None = None) -> None:
        """Note a file to be checked: as the kind that its name says, or as another."""
        lead = name, kind or posixpath.splitext(name)[1].lower()
        if lead not in self._known:
            self._known.add(lead)
            self._leads.append(lead)

    def follow(self) -> None:
        """Check all files that were noted, and those to which they lead in turn."""
        for name, kind in self._leads:
            self._file(name, kind)

    def _file(self, entry: str, kind: str) -> None:
        place = _Position(entry=entry)
        if kind in _UNCHECKED_PAGES:
            self.say("unsafe_address", place, f"a page of the kind {kind} cannot be checked, so nothing may lead to it")
        if kind not in (".md", ".html", ".htm", ".css", ".svg"):
            return
        data = self.read(entry)
        self._sizes.append(len(data))
        if len(data) > _LARGEST or sum(self._sizes) > _MOST:
            limits = f"at most {shown_size(_LARGEST)} in a file and {shown_size(_MOST)} in a report are checked"
            self.say("too_large", place, f"the file has {shown_size(len(data))}; {limits}")
            return
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            self.say("not_utf8", place, f"the file is not UTF-8 text: at byte {error.start}", hint="Write it as UTF-8.")
            return
        if kind == ".md":
            text, kind = render_markdown(text, entry=entry, names=self.names), ".html"
            place = replace(place, whole=True)
        if "\0" in text:
            self.say("unsafe_markup", place, "the file has a NUL, which browsers read in different ways")
        elif kind == ".css":
            self.styles(text, place, sheet=True)
        elif kind == ".svg":
            self.picture(data, place)
        else:
            self.page(text, place)

    # --- pages

    def page(self, text: str, position: _Position) -> None:
        """Check HTML."""
        parser: Any = load_library("justhtml", _HINT).JustHTML
        if _FRAME.search(text):
            self.say("unsafe_element", position, "frames are not allowed, nor is any mention of <frame>")
        # Without scripts, as in the sandbox, <noscript> holds elements; with scripts, text. Both must be safe.
        for scripting in (False, True) if "<noscript" in text.lower() else (False,):
            document = parser(text, sanitize=False, scripting_enabled=scripting, track_node_locations=True)
            nodes: list[tuple[Any, bool]] = [(document.root, False)]
            while nodes:
                node, in_select = nodes.pop()
                name: str = node.name
                if not name.startswith(("#", "!")):
                    in_select = self._html_node(node, position, in_select)
                nodes += [(child, in_select) for child in reversed(node.children or [])]

    def _html_node(self, node: Any, page: _Position, in_select: bool) -> bool:
        """Check an element of HTML; returns whether its children are within a `<select>`."""
        name, kind = str(node.name), str(node.namespace or "html")
        place = page.at(*(node.origin_location or (None, None)))
        attributes = {str(key): str(value or "") for key, value in node.attrs.items()}
        if in_select and not (kind == "html" and name in ("option", "optgroup", "hr")):
            self.say("unsafe_markup", place, f"<{name}> in <select>, which browsers read in different ways")
        text = "".join(child.data or "" for child in node.children or () if child.name == "#text")
        if name == "style":
            inner = next((child.origin_location for child in node.children or ()), None)
            # In the head it is text for sure; elsewhere, whether it is may depend on what is around it
            in_head = node.parent is not None and node.parent.name == "head"
            if any(child.name != "#text" for child in node.children or ()) or (not in_head and _MARKUP.search(text)):
                self.say("unsafe_markup", place, "a <style> holds markup, which browsers read in different ways")
            else:
                self.styles(text, page.at(*inner) if inner else place)
        elif name == "script" and _MARKUP.search(text):
            self.say("unsafe_markup", place, "a <script> holds markup, which browsers read in different ways")
        self.element(kind, name, attributes, place)
        return in_select or (kind == "html" and name == "select")

    def element(self, kind: str, name: str, attributes: Mapping[str, str], position: _Position) -> None:
        """Check an element of HTML, SVG (`svg`) or MathML (`math`)."""
        tag = f"<{quoted(name, 60)[1:-1]}>"
        match kind:
            case "html":
                custom = _CUSTOM_ELEMENT.fullmatch(name) and name not in _RESERVED_ELEMENTS
                allowed = name in lists.HTML_ELEMENTS or custom
            case "svg":
                allowed = name in svg_names.SVG_ELEMENTS or _FOREIGN_NAME.fullmatch(name)
            case _:
                allowed = name in lists.MATH_ELEMENTS
        if not allowed:
            where = {"html": "", "svg": " in a picture"}.get(kind, " in a formula")
            self.say("unsafe_element", position, f"{tag} is not allowed{where}")
            return
        if name == "script" and not attributes.get("src", "").strip():
            self.say("unsafe_element", position, "a <script> without src is not allowed", hint="Put it into a file.")
            return
        if name == "link" and attributes.get("rel", "").lower().split() != ["stylesheet"]:
            self.say("unsafe_element", position, 'a <link> other than rel="stylesheet" is not allowed')
            return
        for attribute, value in attributes.items():
            self._attribute(kind, name, attribute, value, position)

    def _attribute(self, kind: str, element: str, name: str, value: str, position: _Position) -> None:
        shown = f"{quoted(name, 60)[1:-1]} of <{quoted(element, 60)[1:-1]}>"
        if name.lower().startswith("on"):
            self.say("unsafe_attribute", position, f"{shown} would run a script, and is not allowed")
        elif name == "style":
            self.styles(value, position)
        elif name.startswith(("data-", "aria-", "xmlns:")) or name == "xmlns":
            return
        elif ":" in element:
            # An element of another vocabulary, which no browser knows
            return
        elif kind == "html":
            self._html_attribute(element, name, value, shown, position)
        elif kind == "svg":
            self._svg_attribute(element, name, value, shown, position)
        elif name not in lists.MATH_ATTRIBUTES:
            self.say("unsafe_attribute", position, f"{shown} is not allowed")

    def _html_attribute(self, element: str, name: str, value: str, shown: str, position: _Position) -> None:
        match element, name:
            case "script", "src":
                self._script(value, shown, position)
            case _, "src" | "poster" | "background":
                self.resource(value, shown, position, recorded=name == "src" and element in _RECORDED)
            case _, "srcset":
                for candidate in _candidates(value):
                    self.resource(candidate, shown, position)
            case "link", "href":
                self._style_sheet(value, shown, position)
            case (("a" | "area"), "href") | (_, ("cite" | "longdesc")):
                self.link(value, shown, position)
            case "script", "type" if value.strip().lower() not in _SCRIPTS:
                self.say("unsafe_attribute", position, f"{shown} is {quoted(value)}, which is not allowed")
            case "meta", "charset":
                if value.strip().lower() not in _UTF8 - {"us-ascii", "ascii"}:
                    self.say("unsafe_attribute", position, f"{shown} is {quoted(value)}; a page is UTF-8")
            case "meta", "name" if value.strip().lower() == "referrer":
                self.say("unsafe_attribute", position, f"{shown} must not change what is told to others")
            case _ if name not in lists.HTML_ATTRIBUTES:
                self.say("unsafe_attribute", position, f"{shown} is not allowed")
            case _:
                pass

    def _svg_attribute(self, element: str, name: str, value: str, shown: str, position: _Position) -> None:
        if name in ("href", "xlink:href"):
            match element:
                case "a":
                    self.link(value, shown, position)
                case "image" | "feImage":
                    self.resource(value, shown, position)
                case _ if _scheme(_as_browser(value)) == "data":
                    self.say("unsafe_address", position, f"{shown} must not be a data address")
                case _:
                    self.resource(value, shown, position)
        elif name == "attributeName" and element in svg_names.ANIMATIONS:
            target = value.strip()
            if target not in (svg_names.SVG_ATTRIBUTES | svg_names.SVG_STYLES) - {
                "style",
                "id",
                "class",
                "xmlns",
                "begin",
            }:
                self.say("unsafe_attribute", position, f"{shown} must not change {quoted(value)}")
        elif name in svg_names.SVG_STYLES:
            self.styles(value, position)
        elif name not in svg_names.SVG_ATTRIBUTES and not _FOREIGN_NAME.fullmatch(name):
            self.say("unsafe_attribute", position, f"{shown} is not allowed")

    # --- addresses

    def has_picture(self, value: str, position: _Position) -> bool:
        """Whether an address is that of a picture in the report, or a picture itself."""
        trial = replace(self, issues=[], _known=set(), _leads=[])
        trial.resource(value, "", position)
        return not trial.issues

    def resource(
        self, value: str, shown: str, position: _Position, *, recorded: bool = False, font: bool = False
    ) -> None:
        """Check an address that is fetched: a file of the report, or a data address of a harmless kind."""
        address = _as_browser(value)
        if not address or address.startswith("#"):
            return
        if _scheme(address) != "data":
            self._entry(address, shown, position)
        else:
            kind = _data_kind(address)
            if kind == _DRAWING:
                self._nested(address, shown, position, self.picture)
            elif not (
                kind in _BITMAPS
                or address == "data:,"
                or (recorded and _RECORDINGS.fullmatch(kind))
                or (font and _FONTS.fullmatch(kind))
            ):
                self.say("unsafe_address", position, f"{shown} is a data address of the kind {quoted(kind)}")
        if recorded:
            self.will_not_run(position, f"{shown}: sounds and films are not played where reports are shown")

    def link(self, value: str, shown: str, position: _Position) -> None:
        """Check an address that somebody may follow."""
        address = _as_browser(value)
        scheme = _scheme(address)
        if scheme is None:
            if (name := self._named(address, position)) in self.names:
                self.lead(name)
        elif scheme not in _LINKED and not (scheme == "data" and _data_kind(address) in _DOWNLOADS):
            self.say(
                "unsafe_address", position, f"{shown} is an address of the kind {quoted(scheme)}, which is not allowed"
            )

    def _script(self, value: str, shown: str, position: _Position) -> None:
        address = _as_browser(value)
        if _scheme(address) is not None or address.startswith("#"):
            self.say("unsafe_address", position, f"{shown} is not a file of the report")
        elif self._entry(address, shown, position):
            hint = "The page must show without it what it is about."
            self.will_not_run(position, f"{shown}: scripts do not run where reports are shown", hint)

    def _style_sheet(self, value: str, shown: str, position: _Position) -> None:
        address = _as_browser(value)
        if not address or address.startswith("#"):
            return
        if _scheme(address) != "data":
            self._entry(address, shown, position, kind=".css")
            return
        if (kind := _data_kind(address)) != "text/css":
            self.say("unsafe_address", position, f"{shown} is a data address of the kind {quoted(kind)}")
            return
        self._nested(address, shown, position, lambda data, place: self.styles(data.decode("utf-8", "replace"), place))
        self.will_not_run(position, f"{shown}: a style sheet in a data address is not applied where reports are shown")

    def _nested(self, address: str, shown: str, position: _Position, check: Callable[[bytes, _Position], None]) -> None:
        if position.nested == _MOST_NESTED:
            self.say("unsafe_address", position, f"{shown} nests data addresses too deeply")
        else:
            check(_data_bytes(address), replace(position, nested=position.nested + 1))

    def _entry(self, address: str, shown: str, position: _Position, *, kind: str | None = None) -> str | None:
        """The file of the report that an address means, which is to be checked too; None after an issue about it."""
        if _scheme(address) is not None or address.startswith(("/", "\\")):
            self.say(
                "unsafe_address",
                position,
                f"{shown} is {quoted(address)}, which is not in the report",
                hint="Put the file into the report and name it by a relative path, or write it as a data address.",
            )
            return None
        if position.nested:
            self.say("unsafe_address", position, f"{shown} is {quoted(address)}, which leads nowhere in a data address")
            return None
        name = self._named(address, position)
        if name in self.names:
            self.lead(name, kind)
            return name
        if name.startswith("../"):
            self.say("unsafe_address", position, f"{shown} is {quoted(address)}, which leads out of the report")
        else:
            self.say("entry_missing", position, f"{shown} is {quoted(address)}, which is not in the report")
        return None

    def _named(self, address: str, position: _Position) -> str:
        path = unquote(re.split(r"[?#]", address, maxsplit=1)[0]).replace("\\", "/")
        return posixpath.normpath(posixpath.join(posixpath.dirname(position.entry), path))

    # --- styles

    def styles(self, text: str, position: _Position, *, sheet: bool = False) -> None:
        """Check CSS: whatever it is written as, its tokens are all there is to know of what it can fetch or run."""
        parse: Any = load_library("tinycss2", _HINT).parse_component_value_list
        # Names of functions around a token, the innermost last
        waiting: list[tuple[list[Any], str]] = [(parse(text, skip_comments=True), "")]
        while waiting:
            tokens, within = waiting.pop()
            before = ""
            for token in tokens:
                if token.type in _TELLING:
                    self._style_token(token, within, self._style_position(position, token, sheet))
                if before in ("behavior", "-moz-binding") and token.type == "literal" and token.value == ":":
                    self.say(
                        "unsafe_style",
                        self._style_position(position, token, sheet),
                        f"{before} is not allowed in a style",
                    )
                if token.type != "whitespace":
                    before = token.lower_value if token.type == "ident" else ""
                if token.type == "function":
                    waiting.append((token.arguments, token.lower_name))
                elif token.type.endswith("block"):
                    waiting.append((token.content, within))

    def _style_position(self, position: _Position, token: Any, sheet: bool) -> _Position:
        column = token.source_column if sheet or token.source_line > 1 else position.column
        return position.at(position.line + token.source_line - 1, column)

    def _style_token(self, token: Any, within: str, position: _Position) -> None:
        addressed = within in lists.ADDRESS_FUNCTIONS
        match token.type:
            case "url":
                self.resource(token.value, "a url() of a style", position, font=True)
            case "string" if addressed:
                self.resource(token.value, f"{within}() of a style", position, font=True)
            case "function" if addressed and token.lower_name not in ("url", "src", "type", *_GRADIENTS):
                shown = quoted(token.lower_name, 60)[1:-1]
                self.say("unsafe_style", position, f"{shown}() within {within}() is not allowed in a style")
            case "function" if token.lower_name not in _FUNCTIONS and not addressed:
                self.say("unsafe_style", position, f"{quoted(token.lower_name, 60)[1:-1]}() is not allowed in a style")
            case "at-keyword" if token.lower_value not in lists.AT_RULES:
                self.say("unsafe_style", position, f"@{quoted(token.lower_value, 60)[1:-1]} is not allowed in a style")
            case "error" if token.kind == "bad-url":
                self.say("unsafe_style", position, "a style has a url() that is not one")
            case _:
                pass

    # --- pictures

    def picture(self, data: bytes, position: _Position) -> None:
        """Check an SVG file."""
        reader = _SvgReader(self, position)
        try:
            reader.read(data)
        except expat.ExpatError as error:
            at = position.at(error.lineno, error.offset + 1)
            why = expat.ErrorString(error.code)
            self.say("unsafe_markup", at, f"a picture is not well-formed XML, and is not shown: {why}")
        except _OwnDocumentType:
            self.say("unsafe_markup", position, "a picture must not define its own document type")


_TELLING = frozenset({"url", "string", "function", "at-keyword", "error"})
"""The kinds of tokens that may be something else than a harmless word."""
_FUNCTIONS = lists.CSS_FUNCTIONS | lists.ADDRESS_FUNCTIONS
_GRADIENTS = frozenset(name for name in lists.CSS_FUNCTIONS if name.endswith("gradient"))


class _SvgReader:
    """Reads an SVG file, element by element."""

    def __init__(self, check: _Check, position: _Position) -> None:
        self._check = check
        self._whole = position
        self._style: list[str] | None = None
        self._depth = 0
        self._parser = expat.ParserCreate("utf-8", " ")
        self._parser.buffer_text = True
        self._parser.XmlDeclHandler = self._declaration
        self._parser.StartDoctypeDeclHandler = self._document_type
        self._parser.ProcessingInstructionHandler = self._instruction
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text

    def read(self, data: bytes) -> None:
        """Read it.

        Raises:
            expat.ExpatError: It is not well-formed.
        """
        self._parser.Parse(data, True)

    def _position(self) -> _Position:
        return self._whole.at(self._parser.CurrentLineNumber, self._parser.CurrentColumnNumber + 1)

    def _declaration(self, version: str, encoding: str | None, standalone: int) -> None:
        if encoding is not None and encoding.lower() not in _UTF8:
            self._check.say("unsafe_markup", self._position(), f"a picture is {quoted(encoding)}; it must be UTF-8")

    def _document_type(self, name: str, system: str | None, public: str | None, has_subset: int) -> None:
        if has_subset:
            # Its entities would multiply, and its attributes appear where nobody wrote them
            raise _OwnDocumentType

    def _instruction(self, target: str, data: str) -> None:
        if target.lower() != "xpacket":
            shown = quoted(target, 60)[1:-1]
            self._check.say("unsafe_markup", self._position(), f"a picture must not have the instruction <?{shown}?>")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        space, _, local = name.rpartition(" ")
        place = self._position()
        if self._style is not None:
            self._check.say("unsafe_markup", place, "a <style> holds markup")
        if space in ("", _XHTML):
            why = f"<{quoted(local, 60)[1:-1]}> of {'HTML' if space else 'no namespace'} is not allowed in a picture"
            self._check.say("unsafe_element", place, why)
            return
        found: dict[str, str] = {}
        for key, value in attributes.items():
            of, _, word = key.rpartition(" ")
            found[word if not of else f"{_PREFIXES.get(of, 'other')}:{word}"] = value
        if space == "http://www.w3.org/1998/Math/MathML":
            self._check.element("math", local, found, place)
        else:
            self._check.element("svg", local if space == _SVG else f"other:{local}", found, place)
        if space == _SVG and local == "style":
            self._style = []

    def _end(self, name: str) -> None:
        if name == f"{_SVG} style" and self._style is not None:
            self._check.styles("".join(self._style), self._position())
            self._style = None

    def _text(self, data: str) -> None:
        if self._style is not None:
            self._style.append(data)


class _OwnDocumentType(Exception):
    """A picture defines its own document type."""


def _as_browser(value: str) -> str:
    """An address without what browsers leave out of it."""
    return value.strip(_SPACES).translate(_BREAKS)


def _scheme(address: str) -> str | None:
    found = _SCHEME.match(address)
    return found[1].lower() if found else None


def _data_kind(address: str) -> str:
    """The kind of a data address, with an encoding that is not UTF-8 if it has one."""
    kind, *parameters = (part.strip().lower() for part in _data_parts(address)[0].split(";"))
    odd = [part for part in parameters if part.startswith("charset=") and part[8:].strip('"') not in _UTF8]
    return ";".join([kind or "text/plain", *odd])


def _data_bytes(address: str) -> bytes:
    """The content of a data address; nothing if it cannot be decoded."""
    head, body = _data_parts(address)
    data = unquote_to_bytes(body)
    if not head.lower().rstrip().endswith(";base64"):
        return data
    try:
        return base64.b64decode(data + b"==")
    except binascii.Error:
        return b""


def _data_parts(address: str) -> tuple[str, str]:
    head, _, body = address.partition(":")[2].partition("#")[0].partition(",")
    return head, body


def _candidates(value: str) -> Iterator[str]:
    """The addresses of a `srcset`: a comma separates them where it ends one or its size."""
    at = 0
    while found := _CANDIDATE.match(value, at):
        yield found[1].rstrip(",")
        at = found.end()
        if not found[1].endswith(","):
            at = _SIZE.match(value, at).end()  # pyright: ignore[reportOptionalMemberAccess]
