"""Strict JSON parsing, with a finding for every error and its position.

Python's own parser accepts what other parsers refuse: `NaN`, `Infinity`, numbers beyond a float, repeated keys,
lone surrogates, and nesting up to the interpreter's recursion limit. Here each of them is a finding. Lines and columns
need a second pass over the text, so they are only computed for a report.
"""

from __future__ import annotations

import json
import math
import pathlib
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from ..files.lfs_pointers import LFS_HINT, is_lfs_pointer
from ..issues import Issue, Report
from .findings import Finding, Findings, Path, pointer, quoted, type_word

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_VALUES",
    "JsonDocument",
    "Source",
    "has_too_many_values",
    "json_report",
    "parse_json",
    "wrap_json",
]

MAX_BYTES = 4 * 1024 * 1024
"""Largest document read, in bytes of UTF-8."""

MAX_DEPTH = 64
"""Deepest nesting of objects and lists read."""

MAX_VALUES = 400_000
"""Most commas and opening brackets in a document, which bound the number of its values. The parser cannot be
interrupted, not even in a thread, and its time depends on the values more than on their bytes."""

Source: TypeAlias = pathlib.Path | str | bytes | Mapping[str, Any]
"""A path (of a file, or of a directory that holds one), the content as bytes, or the JSON as a Python value."""


@dataclass(frozen=True, eq=False)
class JsonDocument:
    """A parsed JSON document: its value, its text, and its errors as JSON."""

    source: str
    """The file or name it came from, for reports."""

    value: Any
    """The value; None if it could not be parsed (see `usable`)."""

    text: str | None
    """The text, or None if the document was given as a Python value."""

    findings: tuple[Finding, ...]
    """Findings about the JSON itself."""

    usable: bool
    """Whether `value` is the document's value, despite any findings."""

    def report(self, findings: Iterable[Finding] | None = None, *, dropped: int = 0) -> Report:
        """A report of findings, with lines and columns; by default of those about the JSON itself."""
        return json_report(self, self.findings if findings is None else findings, dropped=dropped)


def has_too_many_values(data: bytes | str, most: int = MAX_VALUES) -> bool:
    """Whether a JSON text has more than `most` commas and opening brackets, those in its strings included."""
    if isinstance(data, str):
        return data.count(",") + data.count("[") + data.count("{") > most
    return data.count(b",") + data.count(b"[") + data.count(b"{") > most


def parse_json(
    data: bytes | bytearray | memoryview | str,
    *,
    source: str = "JSON",
    max_bytes: int = MAX_BYTES,
    max_depth: int = MAX_DEPTH,
    max_values: int | None = MAX_VALUES,
) -> JsonDocument:
    """Read a JSON document.

    Args:
        data: UTF-8 bytes (a byte order mark is allowed) or text.
        source: The name for reports.
        max_bytes: Refuse longer documents.
        max_depth: Refuse deeper nesting.
        max_values: Refuse more values, as `has_too_many_values` counts them; None: no limit.

    Returns:
        The document. Invalid data never raises; it is reported in `findings`.
    """
    if len(data) > max_bytes:
        return _unusable(
            source, None, "too_large", f"The document has {len(data)} bytes; at most {max_bytes} are read."
        )
    if isinstance(data, str):
        text = data
    else:
        try:
            text = bytes(data).decode("utf-8")
        except UnicodeDecodeError as error:
            where = f"at byte {error.start} (0x{bytes(data)[error.start]:02x})"
            return _unusable(source, None, "not_utf8", f"The document is not UTF-8 text: {where}.", "Save it as UTF-8.")
    text = text.removeprefix("\ufeff")
    if not text.strip():
        return _unusable(source, text, "empty_document", "The document is empty; a JSON object is expected.")
    if max_values is not None and has_too_many_values(text, max_values):
        message = f"The document has more than {max_values} values (commas and opening brackets)."
        return _unusable(source, None, "too_large", message)
    strict = _StrictDecoder()
    try:
        value = strict.decode(text)
    except json.JSONDecodeError as error:
        if is_lfs_pointer(text):
            return _unusable(source, text, "lfs_pointer", "It is a Git LFS pointer, not the file itself.", LFS_HINT)
        message, hint = _syntax(text, error)
        offset = error.pos
        if error.msg.startswith("Illegal trailing comma"):
            # Newer Pythons point at the comma, older ones at what follows; report the latter, where people look.
            offset += 1 + len(text[offset + 1 :]) - len(text[offset + 1 :].lstrip())
        return _unusable(source, text, "not_json", message, hint, offset=offset)
    except RecursionError:
        return _scanned(source, text, None, max_depth, usable=False)
    except ValueError:
        # Python refuses to turn very long digit strings into integers.
        return _scanned(source, text, None, max_depth, usable=False)
    if strict.suspicious or not _is_plain(value, max_depth, surrogates="\\u" in text or not isinstance(data, bytes)):
        return _scanned(source, text, value, max_depth, usable=True)
    return JsonDocument(source, value, text, (), usable=True)


def wrap_json(value: object, *, source: str = "value", max_depth: int = MAX_DEPTH) -> JsonDocument:
    """Convert a Python value to a JSON document: mappings become dicts, and lists and tuples lists, in a copy.

    Args:
        value: Mappings with text keys, lists, tuples, text, numbers, booleans, None.
        source: The name for reports.
        max_depth: Refuse deeper nesting.
    """
    findings = Findings()
    plain = _plain(value, (), findings, max_depth)
    return JsonDocument(source, plain, None, tuple(findings.items), usable=not findings.failed)


def json_report(document: JsonDocument, findings: Iterable[Finding], *, dropped: int = 0) -> Report:
    """A report of findings: errors first, then in document order, with line and column if there is text."""
    items = list(findings)
    places = _places(document.text, items)
    ranks = {"error": 0, "warning": 1, "info": 2}
    order = sorted(range(len(items)), key=lambda index: (ranks[items[index].severity], places[index] or (0, 0), index))
    issues = [
        Issue(
            code=items[index].code,
            severity=items[index].severity,
            pointer=pointer(items[index].path),
            line=place[0] if (place := places[index]) else None,
            column=place[1] if place else None,
            message=items[index].message,
            hint=items[index].hint,
        )
        for index in order
    ]
    if dropped:
        issues.append(
            Issue(code="too_many_issues", severity="info", message=f"{dropped} more findings are not listed.")
        )
    return Report(source=document.source, issues=tuple(issues))


class _StrictDecoder(json.JSONDecoder):
    """The standard parser, which also notices what is not JSON; the second pass finds the positions."""

    def __init__(self) -> None:
        self.suspicious = False
        super().__init__(object_pairs_hook=self._pairs, parse_constant=self._constant, parse_float=self._float)

    def _pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs):
            self.suspicious = True
        return value

    def _constant(self, text: str) -> float:
        self.suspicious = True
        return float(text.replace("Infinity", "inf"))

    def _float(self, text: str) -> float:
        value = float(text)
        if math.isinf(value):
            self.suspicious = True
        return value


def _unusable(
    source: str, text: str | None, code: str, message: str, hint: str | None = None, *, offset: int | None = None
) -> JsonDocument:
    finding = Finding(code=code, path=(), message=message, hint=hint, offset=offset)
    return JsonDocument(source, None, text, (finding,), usable=False)


def _syntax(text: str, error: json.JSONDecodeError) -> tuple[str, str | None]:
    rest = text[error.pos :]
    before = text[: error.pos].rstrip()
    start = rest[:1]
    word = re.match(r"[A-Za-z_$][\w$]*", rest)
    if not rest.strip():
        return "The document ends too early; something is not closed.", "Close every quote, bracket and brace."
    if error.msg.startswith("Extra data"):
        return "Something follows the end of the document.", "A file holds one JSON object and nothing else."
    if error.msg.startswith("Unterminated string"):
        return "A text is not closed with a double quote.", None
    if error.msg.startswith("Invalid control character"):
        return "A text contains a line break or another control character.", r"Write \n for a line break."
    if error.msg.startswith("Invalid \\"):
        return "A backslash begins an escape sequence that JSON does not have.", r"Write \\ for a backslash itself."
    if start in ("}", "]") and before.endswith(","):
        return f"There is a comma before the closing {start}.", "JSON allows no comma after the last element."
    if error.msg.startswith("Illegal trailing comma"):
        return "There is a comma before a closing brace or bracket.", "JSON allows no comma after the last element."
    if start == "'":
        return "A text is in single quotes.", "JSON writes text in double quotes."
    if rest.startswith(("//", "/*", "#")):
        return "There is a comment; JSON has none.", "Remove it."
    if rest.startswith("{{") or (start == "{" and before.endswith("{")):
        return "A placeholder stands outside quotes.", 'Write it as text: "{{SERVICE_IMAGE}}".'
    if word and word[0] in ("True", "False", "None", "undefined"):
        proper = {"True": "true", "False": "false"}.get(word[0], "null")
        return f"{word[0]} is not JSON.", f"Write {proper}."
    if error.msg.startswith("Expecting ','"):
        return f"A comma or a closing bracket is missing before {quoted(rest[:12])}.", None
    if error.msg.startswith("Expecting ':'"):
        return "A colon is missing after a key.", None
    if error.msg.startswith("Expecting property name"):
        return f"A key in double quotes is expected, not {quoted(rest[:12])}.", None
    return f"A value is expected, not {quoted(rest[:12])}.", "The document must be JSON."


def _is_plain(value: Any, max_depth: int, *, surrogates: bool) -> bool:
    """Whether a parsed value is not too deep and all its text can be written as UTF-8. Breadth first, no recursion."""
    level: list[Any] = [value]
    for _ in range(max_depth + 1):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                entries = cast("dict[str, Any]", item)
                if surrogates and not all(map(_encodable, entries)):
                    return False
                below.extend(entries.values())
            elif isinstance(item, list):
                below.extend(cast("list[Any]", item))
            elif surrogates and isinstance(item, str) and not _encodable(item):
                return False
        if not below:
            return True
        level = below
    return False


def _encodable(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _plain(value: object, path: Path, findings: Findings, room: int) -> Any:
    if isinstance(value, int) and value.bit_length() > _LONGEST_INTEGER * 3:
        findings.add("non_finite_number", path, "The number is too long to be written.", "Use a smaller number.")
        return None
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        if not _encodable(value):
            findings.add("bad_text", path, "The text contains half of a surrogate pair and cannot be written.")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            findings.add("non_finite_number", path, f"{value!r} is not a JSON number.", "Use a finite number, or null.")
        return value
    if not isinstance(value, Mapping | list | tuple):
        findings.add("not_json_value", path, f"A Python {type(value).__name__} has no JSON form.")
        return None
    if room <= 0:
        findings.add("too_deep", path, "The nesting is too deep.", f"At most {MAX_DEPTH} levels are read.")
        return None
    if isinstance(value, Mapping):
        plain: dict[str, Any] = {}
        for key, item in cast("Mapping[object, object]", value).items():
            if not isinstance(key, str):
                findings.add("not_json_value", path, f"A JSON key is text, not {type_word(key)}.")
                continue
            if not _encodable(key):
                findings.add("bad_text", path, "A key contains half of a surrogate pair and cannot be written.")
            plain[key] = _plain(item, (*path, key), findings, room - 1)
        return plain
    items = cast("list[object] | tuple[object, ...]", value)
    return [_plain(item, (*path, index), findings, room - 1) for index, item in enumerate(items)]


_TOKEN = re.compile(
    r'[ \t\n\r]*+(?:("(?:[^"\\]++|\\.)*+")|([{\[])|([}\]])|([:,])|([^\s"{}\[\]:,]++))',
    re.DOTALL,
)
_LONGEST_INTEGER = 4000
_DECODER = json.JSONDecoder()


@dataclass(slots=True)
class _Frame:
    """An object or a list that contains the current position of the scan."""

    keys: set[str] | None
    """Keys seen so far; None for a list."""

    part: str | int
    """Key or index of the current element."""

    key_offset: int = 0


@dataclass(frozen=True, slots=True)
class _Element:
    """An element found by the scan."""

    path: Path
    offset: int
    key_offset: int | None
    token: str
    repeated: bool


def _walk(text: str, max_depth: int, *, paths: Collection[Path] | None = None) -> Iterator[_Element]:
    """All elements of a text in order, without recursion; stops after the first that is too deep.

    Args:
        text: The text.
        max_depth: Deepest nesting.
        paths: Where to look; what other objects and lists contain is passed over.
    """
    stack: list[_Frame] = []
    awaiting_key = False
    repeated = False
    position = 0
    while (match := _TOKEN.search(text, position)) is not None:
        position = match.end()
        string, opening, closing, mark, _ = match.groups()
        offset = match.end() - len((match[0]).lstrip(" \t\n\r"))
        frame = stack[-1] if stack else None
        if closing:
            if stack:
                stack.pop()
            awaiting_key = False
            continue
        if mark:
            if mark == "," and frame is not None:
                if frame.keys is None:
                    frame.part = cast("int", frame.part) + 1
                else:
                    awaiting_key = True
            continue
        if string and awaiting_key and frame is not None and frame.keys is not None:
            key = _unquoted(string)
            repeated = key in frame.keys
            frame.keys.add(key)
            frame.part, frame.key_offset = key, offset
            awaiting_key = False
            continue
        path = tuple(entry.part for entry in stack)
        key_offset = frame.key_offset if frame is not None and frame.keys is not None else None
        yield _Element(path, offset, key_offset, match[0].lstrip(" \t\n\r"), repeated)
        repeated = False
        if opening and paths is not None and path not in paths:
            # The parser is so much quicker that it does not matter that it makes values
            with suppress(ValueError, RecursionError):
                position = _DECODER.raw_decode(text, offset)[1]
                continue
        if opening:
            if len(stack) >= max_depth:
                return
            stack.append(_Frame(set() if opening == "{" else None, "" if opening == "{" else 0))
            awaiting_key = opening == "{"


def _scanned(source: str, text: str, value: Any, max_depth: int, *, usable: bool) -> JsonDocument:
    """Scan a text that the first pass found suspicious, to find the errors and their positions."""
    findings = Findings()
    for element in _walk(text, max_depth):
        token, path = element.token, element.path
        first = token[0]
        if element.repeated:
            findings.add(
                "duplicate_key",
                path,
                f"The key {quoted(path[-1])} occurs twice in one object.",
                "Readers disagree about which one counts; remove one.",
                offset=element.key_offset,
            )
        if path and isinstance(path[-1], str) and not _encodable(path[-1]):
            findings.add(
                "bad_text",
                path[:-1],
                "A key contains half of a surrogate pair and cannot be written.",
                offset=element.key_offset,
            )
            usable = False
        if first in "{[":
            if len(path) >= max_depth:
                findings.add(
                    "too_deep",
                    path,
                    f"The nesting is deeper than {max_depth} levels.",
                    "Nothing that a Coworld needs is that deep.",
                    offset=element.offset,
                )
                usable = False
        elif first == '"':
            if "\\u" in token and not _encodable(_unquoted(token)):
                findings.add(
                    "bad_text",
                    path,
                    "The text contains half of a surrogate pair and cannot be written.",
                    offset=element.offset,
                )
                usable = False
        elif token not in ("true", "false", "null") and not _is_number(token):
            findings.add(
                "non_finite_number",
                path,
                f"{quoted(token, 30)[1:-1]} is not a JSON number that fits.",
                "Use a finite number, or null.",
                offset=element.offset,
            )
            usable = False
        if findings.dropped:
            break
    if not findings.items:
        # The first pass refused the text, so it is wrong even if the scan cannot say where.
        findings.add("not_json", (), "The document is not JSON.")
        usable = False
    return JsonDocument(source, value if usable else None, text, tuple(findings.items), usable=usable)


def _unquoted(token: str) -> str:
    try:
        return cast("str", json.loads(token))
    except ValueError:
        # Only happens in a text that the first pass gave up on before this point.
        return token[1:-1]


def _is_number(token: str) -> bool:
    if len(token) > _LONGEST_INTEGER and token.lstrip("-").isdigit():
        return False
    try:
        return math.isfinite(float(token))
    except (ValueError, OverflowError):
        return False


def _places(text: str | None, findings: list[Finding]) -> list[tuple[int, int] | None]:
    """Line and column of each finding: from its offset, else from its path, else from the nearest existing parent."""
    if text is None or not findings:
        return [None] * len(findings)
    lines = [0, *(match.end() for match in re.finditer("\n", text))]

    def place(offset: int) -> tuple[int, int]:
        line = bisect_right(lines, offset)
        return line, offset - lines[line - 1] + 1

    wanted: set[Path] = {finding.path[:length] for finding in findings for length in range(len(finding.path) + 1)}
    # The last of two equal keys counts, so the whole text has to be read.
    repeated = any(finding.code == "duplicate_key" for finding in findings)
    found: dict[Path, tuple[int, int | None]] = {}
    if any(finding.offset is None for finding in findings):
        for element in _walk(text, MAX_DEPTH, paths=wanted):
            if element.path in wanted:
                found[element.path] = element.offset, element.key_offset
                if len(found) == len(wanted) and not repeated:
                    break
    places: list[tuple[int, int] | None] = []
    for finding in findings:
        if finding.offset is not None:
            places.append(place(finding.offset))
            continue
        at = next((found[p] for p in _upwards(finding.path) if p in found), None)
        if at is None:
            places.append(None)
        else:
            key = at[1] if finding.at_key and finding.path in found else None
            places.append(place(at[0] if key is None else key))
    return places


def _upwards(path: Path) -> Iterator[Path]:
    return (path[:length] for length in range(len(path), -1, -1))
