"""Places in the YAML of compose files: their values and lines, what lies below them, and the errors found there."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coworld_core.errors import UsageError
from coworld_core.issues import Issue, Report, Severity
from coworld_core.text.phrases import closest, listed

from ._compose_variables import WatchedVariables, interpolate, read_env_file

if TYPE_CHECKING:
    from yaml import MappingNode, ScalarNode, SequenceNode

    Node = MappingNode | ScalarNode | SequenceNode

__all__ = ["COMPOSE_NAMES", "Reading", "YamlNode", "merged"]


COMPOSE_NAMES = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
"""Names of compose files; the first one that exists is used."""

_MAX_BYTES = 1 << 20
_MAX_DEPTH = 64
"""The parser recurses in C for each level; no real file comes near this."""
_NULL = "tag:yaml.org,2002:null"


class Reading:
    """One reading of a compose file: the issues found, and the values of variables.

    Args:
        path: The file.
        environment: Values of variables, which take precedence over the `.env` file beside the compose file.

    Attributes:
        directory: What relative paths in the file are relative to.
        top: The reading of the file that led to this one; itself if none did.
        project: The project's name, once it is known; only at the top.
    """

    def __init__(self, path: Path, environment: Mapping[str, str]) -> None:
        self.path = path
        self.directory = path.parent
        self.top = self
        self.project = ""
        self.variables = WatchedVariables(environment)
        self._issues: list[Issue] = []
        self._reported: set[str] = set()
        self._flat: dict[int, dict[str, tuple[Node, Node]]] = {}
        """Merged mappings by node. Each is merged once: aliases in merge keys could otherwise repeat work endlessly."""
        self._open: set[int] = set()
        self._root: YamlNode | None = None
        self._further: dict[Path, Reading] = {}
        self.add_env_file(path.parent / ".env")

    def further(self, path: Path, *, directory: Path | None = None) -> Reading:
        """Begin to read a file that this one leads to; its issues are added to those of the top file.

        Args:
            path: The file.
            directory: The directory of a part with variables of its own, in its `.env` file; None: the file belongs to
                the same part.
        """
        if directory is None and path in self._further:
            return self._further[path]
        reading = copy.copy(self)
        reading.path, reading._flat, reading._open, reading._root = path, {}, set(), None
        reading.directory = directory or path.parent
        if directory is None:
            self._further[path] = reading
        else:
            reading._further = {}
            reading.variables = WatchedVariables(self.variables)
            reading.add_env_file(directory / ".env")
        return reading

    @property
    def report(self) -> Report:
        """The issues found, errors first."""
        order = {"error": 0, "warning": 1, "info": 2}
        issues = sorted(self._issues, key=lambda issue: (order[issue.severity], issue.line or 0, issue.column or 0))
        return Report(source=str(self.path), issues=tuple(issues))

    def wrong(
        self,
        code: str,
        message: str,
        *,
        node: Node | None = None,
        line: int | None = None,
        column: int | None = None,
        pointer: str = "",
        hint: str | None = None,
        severity: Severity = "error",
    ) -> ValueError:
        """Record an issue; returns the error to raise if reading cannot continue."""
        if node is not None:
            line, column = node.start_mark.line + 1, node.start_mark.column + 1
        if self is not self.top:
            # The report is about the top file
            message = f"{os.path.relpath(self.path, self.top.directory)}{f':{line}' if line else ''}: {message}"
            line = column = None
        self._issues.append(
            Issue(code=code, severity=severity, pointer=pointer, line=line, column=column, message=message, hint=hint)
        )
        return ValueError(message)

    def root(self) -> YamlNode:
        """Return the file's top-level mapping, as nodes, so that aliases stay shared and cannot expand without limit.

        Raises:
            UsageError: The file does not exist or cannot be read.
            ValueError: The file does not hold a mapping; the report has the reason.
        """
        if self._root is None:
            self._root = self._parsed()
        return self._root

    def _parsed(self) -> YamlNode:
        import yaml

        text = self._text()
        try:
            depth = 0
            for event in yaml.parse(text, Loader=yaml.CSafeLoader):
                depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
                if depth > _MAX_DEPTH:
                    message = f"The file is nested more than {_MAX_DEPTH} levels deep, so it is not read."
                    raise self.wrong("compose_too_deep", message)
            root: Any = yaml.compose(text, Loader=yaml.CSafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
            detail = ": ".join(part for part in (error.context, error.problem) if part)
            raise self.wrong("not_yaml", f"The file is not YAML: {detail}.", line=line, column=column) from error
        except yaml.YAMLError as error:
            raise self.wrong("not_yaml", f"The file is not YAML: {error}.") from error
        if root is None:
            hint = "A compose file has a mapping `services:`."
            raise self.wrong("compose_empty", "The file is empty.", hint=hint)
        place = YamlNode(reading=self, name="", key=root, node=root, pointer="")
        if root.id != "mapping":
            hint = "A compose file has a mapping `services:` at its top."
            raise place.wrong("wrong_type", f"The file holds {place.kind}, not a mapping.", hint=hint)
        return place

    def _text(self) -> str:
        path = self.path
        try:
            with path.open("rb") as file:
                data = file.read(_MAX_BYTES + 1)
        except FileNotFoundError:
            near = closest(path.name, sorted(entry.name for entry in path.parent.glob("*.y*ml")))
            raise UsageError(
                f"There is no compose file at {path}.",
                code="compose_missing",
                hint=f"Did you mean {near}?" if near else f"Looked for {listed(COMPOSE_NAMES, word='or')}.",
                context={"path": str(path)},
            ) from None
        except OSError as error:
            raise UsageError(
                f"The compose file {path} cannot be read: {error.strerror}.",
                code="compose_unreadable",
                context={"path": str(path)},
            ) from error
        if len(data) > _MAX_BYTES:
            raise self.wrong("compose_too_large", f"The file has more than {_MAX_BYTES} bytes, so it is not read.")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise self.wrong("not_utf8", "The file is not UTF-8 text.", line=line, hint="Save it as UTF-8.") from error

    def add_env_file(self, path: Path) -> None:
        """Add the variables of a file; those that are known keep their values."""
        what = f"{path.name} beside the file"
        try:
            with path.open("rb") as file:
                found = read_env_file(file.read(_MAX_BYTES).decode("utf-8"), self.variables)
        except FileNotFoundError:
            return
        except OSError as error:
            self.wrong("env_file", f"{what} cannot be read: {error.strerror}.", severity="warning")
        except UnicodeDecodeError:
            self.wrong("env_file", f"{what} is not UTF-8 text.", hint="Save it as UTF-8.")
        except ValueError as error:
            self.wrong("env_file", f"{what}: {error}", hint="Write KEY=VALUE lines.")
        else:
            self.variables = WatchedVariables({**found, **self.variables})

    def filled(self, node: YamlNode) -> str:
        """Return a place's text with variables expanded; each unset variable is reported once."""
        try:
            text = interpolate(node.node.value, self.variables)
        except ValueError as error:
            raise node.wrong("bad_variable", str(error)) from error
        for name in self.variables.missed - self._reported:
            node.wrong(
                "variable_unset",
                f"The variable {name} is not set; it counts as empty.",
                hint=f"Set it, put it into .env beside the file, or write ${{{name}:-default}}.",
                severity="warning",
            )
        self._reported |= self.variables.missed
        return text

    def flat(self, node: Node, pointer: str) -> dict[str, tuple[Node, Node]]:
        """Return the keys with their nodes; merge keys (`<<`) are followed, and the mapping's own keys win."""
        if id(node) in self._flat:
            return self._flat[id(node)]
        self._open.add(id(node))
        own: dict[str, tuple[Node, Node]] = {}
        merged: dict[str, tuple[Node, Node]] = {}
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                for source in value.value if value.id == "sequence" else [value]:
                    if source.id != "mapping" or id(source) in self._open:
                        message = "`<<` takes a mapping or a list of mappings, and none that holds itself."
                        self.wrong("bad_merge", message, node=key, pointer=pointer)
                        continue
                    merged = self.flat(source, pointer) | merged
            elif key.id != "scalar":
                self.wrong("bad_key", f"A key is {_kind(key)}, not text.", node=key, pointer=pointer)
            elif key.value in own:
                first = own[key.value][0].start_mark.line + 1
                message = f"The key {key.value!r} is given a second time (first in line {first})."
                where = f"{pointer}/{_escaped(key.value)}"
                self.wrong("duplicate_key", message, node=key, pointer=where, hint="Keep one of them.")
            else:
                own[key.value] = (key, value)
        self._open.discard(id(node))
        self._flat[id(node)] = merged | own
        return self._flat[id(node)]


@dataclass(frozen=True, kw_only=True)
class YamlNode:
    """A place in a compose file. A value of the wrong type is reported and raises `ValueError`."""

    reading: Reading = field(repr=False)
    name: str
    """The key of the value; empty for list items and the top level."""
    key: Node
    """The node of that key, or else of the value itself."""
    node: Node
    pointer: str
    base: YamlNode | None = field(default=None, repr=False)
    """What the value is merged over, as compose merges: its mappings by key, its lists at the end."""

    @property
    def kind(self) -> str:
        """The kind of the value, in words."""
        return _kind(self.node)

    @property
    def is_null(self) -> bool:
        """Whether the value is null."""
        return self.node.tag == _NULL

    @property
    def line(self) -> int:
        """Line of the key, counting from 1."""
        return self.key.start_mark.line + 1

    def wrong(
        self, code: str, message: str, *, at_key: bool = False, hint: str | None = None, severity: Severity = "error"
    ) -> ValueError:
        """Record an issue at this place, as `Reading.wrong` does."""
        node = self.key if at_key else self.node
        return self.reading.wrong(code, message, node=node, pointer=self.pointer, hint=hint, severity=severity)

    def entries(self, what: str) -> dict[str, YamlNode]:
        """Return the entries of a mapping by key; `what` names the mapping in the error message."""
        if self.node.id != "mapping":
            raise self.wrong("wrong_type", f"{what} is {self.kind}, not a mapping.")
        own = {
            name: YamlNode(
                reading=self.reading, name=name, key=key, node=node, pointer=f"{self.pointer}/{_escaped(name)}"
            )
            for name, (key, node) in self.reading.flat(self.node, self.pointer).items()
        }
        return merged(own, self.base.entries(what)) if self.base is not None else own

    def over(self, base: YamlNode | None) -> YamlNode:
        """Return this place merged over another one, and over what that is merged over."""
        if base is None or self.node.tag == "!override":
            return self
        return replace(self, base=self.base.over(base) if self.base is not None else base)

    def alone(self) -> YamlNode:
        """Return this place without what it is merged over."""
        return replace(self, base=None)

    def items(self) -> list[YamlNode]:
        """Return the items of a list."""
        if self.node.id != "sequence":
            raise self.wrong("wrong_type", f"This must be a list, not {self.kind}.")
        return [
            *(self.base.items() if self.base is not None else ()),
            *(
                YamlNode(reading=self.reading, name="", key=node, node=node, pointer=f"{self.pointer}/{index}")
                for index, node in enumerate(self.node.value)
            ),
        ]

    def text(self) -> str:
        """Return the text with variables expanded. Numbers and booleans are returned as written."""
        if self.node.id != "scalar" or self.is_null:
            raise self.wrong("wrong_type", f"This must be text, not {self.kind}.")
        return self.reading.filled(self)

    def implied(self, name: str, text: str) -> YamlNode:
        """Return a place for a text that counts as an entry of this place, although the file does not contain it."""
        import yaml

        node = yaml.ScalarNode("tag:yaml.org,2002:str", text, self.key.start_mark)
        return replace(self, name=name, node=node, pointer=f"{self.pointer}/{name}", base=None)


def merged(own: Mapping[str, YamlNode], base: Mapping[str, YamlNode]) -> dict[str, YamlNode]:
    """Return the entries of a mapping that is merged over another one; `!reset` removes an entry."""
    together = {**base, **{name: place.over(base.get(name)) for name, place in own.items()}}
    return {name: place for name, place in together.items() if place.node.tag != "!reset"}


def _kind(node: Node) -> str:
    found = {"mapping": "a mapping", "sequence": "a list"}
    return found.get(node.id, "nothing" if node.tag == _NULL else "a single value")


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
