"""Findings: issues located by path, without the line and column that only a report needs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..text.phrases import closest, listed
from ..text.terminal import writable

if TYPE_CHECKING:
    from ..issues import Severity
    from .json_edit import Edit

__all__ = [
    "Cause",
    "Finding",
    "Findings",
    "Path",
    "did_you_mean",
    "dotted",
    "one_per_cause",
    "pointer",
    "quoted",
    "type_word",
]

Path = tuple[str | int, ...]
"""A path in a document: keys and indices from the top."""

MAX_FINDINGS = 200
"""Maximum number of findings listed for one document."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One finding about one place."""

    code: str
    path: Path
    message: str
    hint: str | None = None
    severity: Severity = "error"
    at_key: bool = False
    """Whether the finding is about the key itself rather than its value; decides line and column."""
    offset: int | None = None
    """Offset in the text of something that has no path, such as a syntax error."""
    edits: tuple[Edit, ...] = field(default=(), compare=False)
    """Edits that fix it, if there is exactly one right answer and nothing is lost."""


@dataclass
class Findings:
    """Collects findings in document order."""

    items: list[Finding] = field(default_factory=list[Finding])
    dropped: int = 0

    def add(
        self,
        code: str,
        path: Path,
        message: str,
        hint: str | None = None,
        *,
        severity: Severity = "error",
        at_key: bool = False,
        offset: int | None = None,
        edits: Iterable[Edit] = (),
    ) -> None:
        """Add a finding."""
        finding = Finding(
            code=code,
            path=path,
            message=message,
            hint=hint,
            severity=severity,
            at_key=at_key,
            offset=offset,
            edits=tuple(edits),
        )
        self.extend([finding])

    def extend(self, findings: Iterable[Finding], *, below: Path = ()) -> None:
        """Add several findings, whose paths are relative to `below`."""
        for finding in findings:
            if len(self.items) < MAX_FINDINGS:
                self.items.append(_below(finding, below) if below else finding)
            else:
                self.dropped += 1

    @property
    def failed(self) -> bool:
        """Whether any of them is an error."""
        return any(finding.severity == "error" for finding in self.items)


def _below(finding: Finding, place: Path) -> Finding:
    edits = tuple(replace(edit, path=(*place, *edit.path)) for edit in finding.edits)
    return replace(finding, path=(*place, *finding.path), edits=edits)


def pointer(path: Path) -> str:
    """A path as a JSON pointer (RFC 6901)."""
    text = "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)
    return writable(text)


def dotted(path: Path, *, top: str = "the manifest") -> str:
    """A path in dotted form, `player[0].image`; `top` for the whole document."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{quoted(part, 40)[1:-1]}" if text else quoted(part, 40)[1:-1]
    return text or top


def quoted(value: object, length: int = 60) -> str:
    """A value as JSON, shortened to `length` characters; objects and lists only by their type."""
    if isinstance(value, int) and value.bit_length() > 512:
        text = "a very long number"
    elif isinstance(value, str | int | float | bool | None):
        text = json.dumps(value, ensure_ascii=False)
    elif isinstance(value, dict):
        text = "an object"
    elif isinstance(value, list):
        text = "a list"
    else:
        text = type(value).__name__
    text = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    return text if len(text) <= length else f"{text[: length - 1]}…"


def type_word(value: object) -> str:
    """The type of a JSON value in plain words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    return f"a Python {type(value).__name__}"


def did_you_mean(word: str, candidates: Sequence[str]) -> str:
    """A sentence for a hint, with the candidate that was probably meant, or else all candidates."""
    guess = closest(word, candidates)
    if guess is not None:
        return f"Did you mean {quoted(guess)}?"
    return f"Known: {listed(candidates)}." if candidates else "There are none."


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A finding that may be one half of a misspelling: a missing key, or an unknown key beside it."""

    finding: Finding
    missing: str | None = None
    """Name of the key that is missing at the finding's place."""
    known: tuple[str, ...] | None = None
    """For an unknown key, which is the last part of the path: the keys that are known there."""


def _renaming(path: Path, name: str) -> Edit:
    from .json_edit import Edit

    return Edit("rename", path, name)


def one_per_cause(causes: Iterable[Cause]) -> list[Finding]:
    """The findings in the given order, with each misspelling reported once and without duplicates."""
    unique = list(dict.fromkeys(causes))
    absent: dict[Path, list[str]] = {}
    for cause in unique:
        if cause.missing is not None:
            absent.setdefault(cause.finding.path, []).append(cause.missing)
    settled: set[tuple[Path, str]] = set()
    rewritten: dict[Cause, Finding] = {}
    for cause in unique:
        if cause.known is None:
            continue
        finding = cause.finding
        parent, name = finding.path[:-1], str(finding.path[-1])
        open_names = [other for other in absent.get(parent, []) if (parent, other) not in settled]
        if (guess := closest(name, open_names, cutoff=0.7)) is not None:
            settled.add((parent, guess))
            rewritten[cause] = replace(
                finding,
                code="misspelt_field",
                severity="error",
                message=f"The key {quoted(name)} is not known here, and {quoted(guess)} is missing.",
                hint=f"Did you mean {quoted(guess)}?",
                edits=(_renaming(finding.path, guess),),
            )
        elif finding.hint is None and cause.known:
            rewritten[cause] = replace(finding, hint=did_you_mean(name, cause.known))
    return list(
        dict.fromkeys(
            rewritten.get(cause, cause.finding)
            for cause in unique
            if cause.missing is None or (cause.finding.path, cause.missing) not in settled
        )
    )
