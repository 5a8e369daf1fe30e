"""Labels of runs: names with values, by which runs are found again.

The labels that an episode begins with are the tags of its record (`episode_tags`, the published contract's word). What
a run was given besides, and every later change, is in `labels.json` in its workspace, which takes precedence: for the
run, and above that for single episodes of a run of many.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import Field

from ..documents.records import Record, SchemaVersion, open_record, read_as
from ..errors import UsageError

__all__ = [
    "LABELS_NAME",
    "MAX_LABELS",
    "RunLabels",
    "check_changes",
    "check_labels",
    "check_names",
    "label_changes",
    "label_patterns",
    "matches_labels",
    "matches_pattern",
    "pattern_regex",
    "read_labels",
]

LABELS_NAME = "labels.json"
"""Name of the file with a run's labels, in its workspace."""
MAX_LABELS = 100
"""Most labels of one thing on a platform."""

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?")
_LONGEST = 200
_RULE = (
    "A label is NAME=VALUE. The name has 1 to 63 letters, digits and . _ / -, and begins and ends with a letter or a "
    f"digit; the value has at most {_LONGEST} printable characters."
)


class RunLabels(Record):
    """The labels of a run and of its episodes (`labels.json`); null stands for a label that was taken away."""

    schema_version: SchemaVersion = Field(default=1, description="Version of this file's shape.")
    labels: dict[str, str | None] = Field(default_factory=dict, description="Labels of the run, by name.")
    episodes: dict[str, dict[str, str | None]] = Field(
        default_factory=dict, description="Further labels of single episodes of a run of many, by the episode's key."
    )

    def changed(self, changes: Mapping[str, str | None], *, episode: str = "") -> RunLabels:
        """The labels after a change.

        Args:
            changes: New values by name; None takes a label away.
            episode: The key of the episode of a run of many that is labelled; empty: the run.
        """
        if not episode:
            return self.model_copy(update={"labels": {**self.labels, **changes}})
        own = {**self.episodes.get(episode, {}), **changes}
        return self.model_copy(update={"episodes": {**self.episodes, episode: own}})

    def of(self, tags: Mapping[str, str], *, episode: str = "") -> dict[str, str]:
        """The labels that hold.

        Args:
            tags: The tags in the record.
            episode: The key of an episode of a run of many; empty: the run.
        """
        found = {**tags, **self.labels, **self.episodes.get(episode, {})}
        return {name: value for name, value in sorted(found.items()) if value is not None}


def check_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return labels as a dictionary.

    Raises:
        UsageError: Code `bad_label`: one of them is no label; the message has the rule.
    """
    for name, value in labels.items():
        _check_name(name)
        if not value or len(value) > _LONGEST or not value.isprintable() or value != value.strip():
            raise _refused(f"The value of the label {name!r} is {'empty' if not value else repr(value[:60])}.")
    return dict(labels)


def check_changes(changes: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return changes of labels as a dictionary; None takes a label away.

    Raises:
        UsageError: Code `bad_label`: one of them is no label, or none is given.
    """
    if not changes:
        raise _refused("No label is given.")
    check_labels({name: value if value is not None else "-" for name, value in changes.items()})
    return dict(changes)


def check_names(names: Iterable[str]) -> None:
    """Check names of labels.

    Raises:
        UsageError: Code `bad_label`: one of them is none.
    """
    for name in names:
        _check_name(name)


def label_changes(items: Iterable[str]) -> dict[str, str | None]:
    """Read changes of labels: `exp=b` sets a label, `exp=` takes it away.

    Raises:
        UsageError: Code `bad_label`: an item is not of this form, or no label; or a name occurs twice.
    """
    found: dict[str, str | None] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals:
            raise _refused(f"{item[:60]!r} is no label: there is no `=`.")
        if name in found:
            raise _refused(f"The label {name!r} is given twice.")
        _check_name(name)
        found[name] = value or None
    check_labels({name: value for name, value in found.items() if value is not None})
    return found


def label_patterns(items: Iterable[str]) -> dict[str, str]:
    """Read what a search asks of labels: `exp=a*` is a pattern for the value, `exp` alone asks for any.

    Raises:
        UsageError: Code `bad_label`: a name is none, or occurs twice.
    """
    found: dict[str, str] = {}
    for item in items:
        name, equals, pattern = item.partition("=")
        _check_name(name)
        if name in found:
            raise _refused(f"The label {name!r} is given twice.")
        found[name] = pattern if equals else "*"
    return found


def pattern_regex(pattern: str) -> str:
    """A pattern with `*`, `?` and `[…]` as a regular expression for the whole value, for Python and PostgreSQL."""
    text, at = "^", 0
    while at < len(pattern):
        sign = pattern[at]
        negated = pattern[at + 1 : at + 2] in ("!", "^")
        first = at + 1 + negated
        # A closing bracket in the first place is a member of the set
        end = pattern.find("]", first + 1) if sign == "[" else -1
        if end > 0:
            text += _set_regex(pattern[first:end], negated=negated)
            at = end
        else:
            text += {"*": ".*", "?": "."}.get(sign) or _literal(sign)
        at += 1
    return f"{text}$"


def _set_regex(members: str, *, negated: bool) -> str:
    ranges: list[str] = []
    while members:
        if len(members) > 2 and members[1] == "-":
            if members[0] <= members[2]:
                ranges.append(f"{_literal(members[0])}-{_literal(members[2])}")
            members = members[3:]
        else:
            ranges.append(_literal(members[0]))
            members = members[1:]
    if not ranges:
        return "." if negated else "(?!.)."
    return f"[{'^' if negated else ''}{''.join(ranges)}]"


def _literal(sign: str) -> str:
    return sign if sign.isalnum() or ord(sign) > 127 or sign in " _" else f"\\{sign}"


def matches_pattern(text: str, pattern: str) -> bool:
    """Whether a text fits a pattern with `*`, `?` and `[…]` as in a shell."""
    return re.fullmatch(pattern_regex(pattern), text) is not None


def matches_labels(labels: Mapping[str, str], patterns: Mapping[str, str]) -> bool:
    """Whether labels have each of these names, with a value that fits its pattern (`*`, `?` and `[…]`)."""
    return all(name in labels and matches_pattern(labels[name], pattern) for name, pattern in patterns.items())


def read_labels(workspace: Path) -> RunLabels:
    """Read the labels in a run's workspace; without a file, there are none.

    Raises:
        RecordError: The file is no such record.
        UsageError: It cannot be read.
    """
    path = workspace / LABELS_NAME
    if not path.is_file():
        return RunLabels()
    what = "file of labels"
    return read_as(RunLabels, open_record(path, what=what, name=LABELS_NAME), what=what)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise _refused(f"{name[:60]!r} cannot be the name of a label.")


def _refused(what: str) -> UsageError:
    return UsageError(what, code="bad_label", hint=_RULE)
