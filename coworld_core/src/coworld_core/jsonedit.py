"""Edit a JSON text and keep everything else unchanged: order, white space, line ends."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

__all__ = ["Edit", "edited"]

Place: TypeAlias = tuple[str | int, ...]

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_INDENT = re.compile(r"\r?\n([ \t]*)\Z")


@dataclass(frozen=True)
class Edit:
    """One change."""

    action: Literal["set", "rename", "remove"]
    """``set`` the value of a key, which is appended if missing; ``rename`` a key; ``remove`` a key."""
    path: Place
    """Path of the member to change; ends with a key."""
    value: Any = None
    """The value to set, or the new key."""


@dataclass(frozen=True)
class _Member:
    """An element of an object or a list, as offsets in the text."""

    name: str | int
    key: tuple[int, int]
    value: tuple[int, int]


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Apply changes to a JSON text, one after the other.

    Args:
        text: A JSON document.
        edits: The changes; those whose path does not exist are skipped.

    Raises:
        ValueError: The text is not JSON.
    """
    for edit in edits:
        text = _applied(text, edit)
    return text


def _applied(text: str, edit: Edit) -> str:
    start = _skipped(text, 0 if not text.startswith("\ufeff") else 1)
    for part in edit.path[:-1]:
        found = next((member for member in _members(text, start) if member.name == part), None)
        if found is None:
            return text
        start = found.value[0]
    if text[start : start + 1] != "{":
        return text
    members = _members(text, start)
    index = next((index for index, member in enumerate(members) if member.name == edit.path[-1]), None)
    if index is None:
        return _with_member(text, start, members, str(edit.path[-1]), edit.value) if edit.action == "set" else text
    member = members[index]
    if edit.action == "rename":
        return text[: member.key[0]] + json.dumps(edit.value, ensure_ascii=False) + text[member.key[1] :]
    if edit.action == "set":
        value = _written(text, edit.value, _indent(text, member.key[0]), _unit(text))
        return text[: member.value[0]] + value + text[member.value[1] :]
    if index + 1 < len(members):
        return text[: member.key[0]] + text[members[index + 1].key[0] :]
    begin = members[index - 1].value[1] if index else start + 1
    return text[:begin] + text[member.value[1] :]


def _with_member(text: str, start: int, members: list[_Member], key: str, value: Any) -> str:
    """Append a member to the object that begins at an offset."""
    name = json.dumps(key, ensure_ascii=False)
    if not members:
        return f"{text[: start + 1]}{name}: {_written(text, value, None, '')}{text[start + 1 :]}"
    last = members[-1]
    indent = _indent(text, last.key[0])
    before = " " if indent is None else f"{_line_end(text)}{indent}"
    member = f",{before}{name}: {_written(text, value, indent, _unit(text))}"
    return text[: last.value[1]] + member + text[last.value[1] :]


def _written(text: str, value: Any, indent: str | None, unit: str) -> str:
    """A value as JSON, with its further lines indented; on one line if there is no indent."""
    if indent is None:
        return json.dumps(value, ensure_ascii=False)
    lines = json.dumps(value, ensure_ascii=False, indent=unit or 2).split("\n")
    return f"{_line_end(text)}{indent}".join(lines)


def _indent(text: str, offset: int) -> str | None:
    """The indent before an offset; None if it is not at the beginning of a line."""
    found = _INDENT.search(text, max(0, offset - 200), offset)
    return found[1] if found else None


def _unit(text: str) -> str:
    found = re.search(r"[{\[]\r?\n([ \t]+)", text)
    return found[1] if found else "  "


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _skipped(text: str, offset: int) -> int:
    found = _SPACE.match(text, offset)
    return found.end() if found else offset


def _members(text: str, start: int) -> list[_Member]:
    """The members of the object or list that begins at an offset; empty if neither begins there."""
    opening = text[start : start + 1]
    if opening not in ("{", "["):
        return []
    members: list[_Member] = []
    offset = _skipped(text, start + 1)
    while text[offset : offset + 1] not in ("}", "]", ""):
        name: str | int = len(members)
        key = (offset, offset)
        if opening == "{":
            name, end = _DECODER.raw_decode(text, offset)
            key = (offset, end)
            offset = _skipped(text, _skipped(text, end) + 1)
        _, end = _DECODER.raw_decode(text, offset)
        members.append(_Member(name, key, (offset, end)))
        offset = _skipped(text, end)
        if text[offset : offset + 1] == ",":
            offset = _skipped(text, offset + 1)
    return members
