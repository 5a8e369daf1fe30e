"""The compose file itself: read with its lines, everything wrong with it found at once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from coworld_core.errors import ImageError, UsageError
from coworld_core.images import ImageRef, Platform
from coworld_core.issues import Issue, Severity

from ._compose_values import COMPOSE_NAMES, Build, Service
from ._hints import did_you_mean, listed
from ._variables import WatchedVariables, interpolate, read_env_file, shown

if TYPE_CHECKING:
    from yaml import MappingNode, Node

__all__ = ["ComposeReader", "ComposeVariables", "Findings", "parse_document", "read_text"]


_MAX_BYTES = 1 << 20
_MAX_DEPTH = 64
"""The parser recurses in C for each level; no real file comes near this."""

_SERVICE_NAME = re.compile(r"[A-Za-z0-9._-]+")
_UNREAD_BUILD_KEYS = frozenset({"additional_contexts", "secrets", "ssh", "entitlements", "privileged"})
"""Keys of ``build`` that change what is built and that are not handed to the engine."""


class Findings:
    def __init__(self) -> None:
        self._issues: list[Issue] = []

    def add(
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
    ) -> None:
        if node is not None:
            line, column = node.start_mark.line + 1, node.start_mark.column + 1
        self._issues.append(
            Issue(
                code=code,
                severity=severity,
                pointer=pointer,
                line=line,
                column=column,
                message=message,
                hint=hint,
            )
        )

    def sorted(self) -> tuple[Issue, ...]:
        order = {"error": 0, "warning": 1, "info": 2}
        return tuple(sorted(self._issues, key=lambda issue: (order[issue.severity], issue.line or 0)))


def read_text(path: Path, findings: Findings) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        near = did_you_mean(path.name, _names_in(path.parent))
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
        findings.add("compose_too_large", f"The file has more than {_MAX_BYTES} bytes, so it is not read.")
        return ""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        findings.add("not_utf8", "The file is not UTF-8 text.", line=line, hint="Save it as UTF-8.")
        return ""


def _names_in(directory: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in directory.iterdir() if entry.suffix in {".yaml", ".yml"})
    except OSError:
        return []


def parse_document(text: str, findings: Findings) -> MappingNode | None:
    """The document's top mapping, as nodes: aliases stay shared, so nothing can be blown up by them."""
    import yaml

    if findings.sorted():
        return None
    try:
        depth = 0
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > _MAX_DEPTH:
                message = f"The file is nested more than {_MAX_DEPTH} levels deep, so it is not read."
                findings.add("compose_too_deep", message)
                return None
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        detail = ": ".join(part for part in (error.context, error.problem) if part)
        findings.add(
            "not_yaml",
            f"The file is not YAML: {detail}.",
            line=mark.line + 1 if mark else None,
            column=mark.column + 1 if mark else None,
        )
        return None
    except yaml.YAMLError as error:
        findings.add("not_yaml", f"The file is not YAML: {error}.")
        return None
    if root is None:
        findings.add("compose_empty", "The file is empty.", hint="A compose file has a mapping `services:`.")
        return None
    if not isinstance(root, yaml.MappingNode):
        findings.add(
            "wrong_type",
            f"The file holds {_kind(root)}, not a mapping.",
            node=root,
            hint="A compose file has a mapping `services:` at its top.",
        )
        return None
    return root


def _kind(node: Node) -> str:
    import yaml

    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    return "nothing" if node.tag == "tag:yaml.org,2002:null" else "a single value"


class ComposeReader:
    """Walks the nodes of what is read, and only those."""

    def __init__(self, path: Path, variables: ComposeVariables, findings: Findings) -> None:
        self._path = path
        self._variables = variables
        self._findings = findings
        self.project = ""
        self._flat: dict[int, dict[str, tuple[Node, Node]]] = {}
        """Mappings by node, merged once: aliases in merge keys could otherwise ask for the same work without end."""
        self._open: set[int] = set()

    def services(self, root: MappingNode) -> tuple[Service, ...]:
        top = self._mapping(root, "")
        self.project = self._project_name(top)
        if "include" in top:
            self._not_read(top["include"][0], "/include", "include", "Write the services into this file.")
        if "services" not in top:
            near = did_you_mean("services", top)
            self._findings.add(
                "services_missing",
                "The file has no `services`.",
                node=root,
                hint=f"Did you mean `services` instead of {near!r}?" if near else "List the images under `services:`.",
            )
            return ()
        key, node = top["services"]
        entries = self._entries(node, "/services", "`services`")
        if entries is not None and not node.value:
            self._findings.add("services_missing", "`services` is empty.", node=key, pointer="/services")
        services: list[Service] = []
        taken: dict[str, Service] = {}
        for name, (name_node, body) in (entries or {}).items():
            pointer = f"/services/{_escaped(name)}"
            if not _SERVICE_NAME.fullmatch(name):
                message = f"{name!r} is not a service name: letters, digits, dots, hyphens and underscores only."
                self._findings.add("bad_service_name", message, node=name_node, pointer=pointer)
                continue
            service = self._service(name, name_node, body, pointer)
            if service is None:
                continue
            other = taken.setdefault(service.placeholder, service)
            if other is not service:
                self._findings.add(
                    "placeholder_clash",
                    f"The services {other.name!r} and {name!r} have the same placeholder {service.placeholder}.",
                    node=name_node,
                    pointer=pointer,
                    hint="Rename one of them.",
                )
            services.append(service)
        return tuple(services)

    def _service(self, name: str, name_node: Node, body: Node, pointer: str) -> Service | None:
        entries = self._entries(body, pointer, f"The service {name!r}")
        if entries is None:
            return None
        image = self._text(entries, "image", pointer)
        platform = self._platform(self._text(entries, "platform", pointer), entries, "platform", pointer)
        build = self._build(name, entries["build"][1], f"{pointer}/build") if "build" in entries else None
        if "extends" in entries:
            hint = f"Write `image` and `build` into {name!r} itself."
            self._not_read(entries["extends"][0], f"{pointer}/extends", "extends", hint)
        if "image" in entries and image is None:
            return None
        if image is None:
            if "build" not in entries:
                self._findings.add(
                    "image_missing",
                    f"The service {name!r} has neither `image` nor `build`.",
                    node=name_node,
                    pointer=pointer,
                    hint="Give it an image to use, or a directory to build.",
                )
                return None
            image = f"{self.project}-{name}".lower()
        try:
            ImageRef.parse(image).require_runnable(f"the image of service {name!r}")
        except ImageError as error:
            node = entries["image"][1] if "image" in entries else name_node
            self._findings.add(error.code, error.message, node=node, pointer=f"{pointer}/image", hint=error.hint)
            return None
        return Service(name=name, image=image, build=build, platform=platform, line=name_node.start_mark.line + 1)

    def _build(self, name: str, node: Node, pointer: str) -> Build | None:
        import yaml

        if isinstance(node, yaml.ScalarNode):
            text = self._scalar(node, pointer)
            context = self._context(text, node, pointer) if text is not None else None
            return Build(context=context) if context is not None else None
        entries = self._entries(node, pointer, f"`build` of the service {name!r}")
        if entries is None:
            return None
        for key in sorted(_UNREAD_BUILD_KEYS & entries.keys()):
            hint = "Build the image yourself and name it under `image`, without `build`."
            self._not_read(entries[key][0], f"{pointer}/{key}", f"build.{key}", hint)
        text = self._text(entries, "context", pointer) if "context" in entries else "."
        at = entries["context"][1] if "context" in entries else node
        context = self._context(text, at, f"{pointer}/context") if text is not None else None
        dockerfile = self._text(entries, "dockerfile", pointer)
        inline = self._text(entries, "dockerfile_inline", pointer)
        if dockerfile is not None and inline is not None:
            self._findings.add(
                "dockerfile_twice",
                f"The service {name!r} gives both `dockerfile` and `dockerfile_inline`.",
                node=entries["dockerfile_inline"][0],
                pointer=f"{pointer}/dockerfile_inline",
                hint="Keep one of them.",
            )
        platforms: list[str] = []
        if "platforms" in entries:
            for index, text in enumerate(self._list(entries["platforms"][1], f"{pointer}/platforms")):
                checked = self._platform(text, entries, "platforms", f"{pointer}/platforms/{index}")
                platforms += [checked] if checked else []
        args = self._args(entries["args"][1], f"{pointer}/args") if "args" in entries else {}
        target = self._text(entries, "target", pointer)
        if context is None:
            return None
        return Build(
            context=context,
            dockerfile=dockerfile or None,
            dockerfile_inline=inline,
            args=args,
            target=target or None,
            platforms=tuple(platforms),
        )

    def _context(self, text: str, node: Node, pointer: str) -> Path | None:
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://|git@|github\.com/", text):
            self._findings.add(
                "context_remote",
                f"The build context {shown(text)!r} is not a directory of this machine.",
                node=node,
                pointer=pointer,
                hint="Fetch it first and name the directory.",
            )
            return None
        if not text.strip() or "\0" in text:
            self._findings.add(
                "context_empty",
                "The build context is empty.",
                node=node,
                pointer=pointer,
                hint="Write `.` for the directory of the compose file.",
            )
            return None
        return Path(os.path.normpath(self._path.parent / Path(text).expanduser()))

    def _args(self, node: Node, pointer: str) -> dict[str, str]:
        """Build arguments from a mapping or a list of ``KEY=VALUE``; without a value, from the environment."""
        import yaml

        pairs: list[tuple[str, str | None]] = []
        if isinstance(node, yaml.SequenceNode):
            for text in self._list(node, pointer):
                key, equals, value = text.partition("=")
                pairs.append((key, value if equals else None))
        else:
            for key, (_, value_node) in (self._entries(node, pointer, "`args`") or {}).items():
                if value_node.tag == "tag:yaml.org,2002:null":
                    pairs.append((key, None))
                else:
                    text = self._scalar(value_node, f"{pointer}/{_escaped(key)}")
                    pairs += [(key, text)] if text is not None else []
        args: dict[str, str] = {}
        for key, value in pairs:
            if value is None:
                value = self._variables.get(key)
            if value is not None:
                args[key] = value
        return args

    def _platform(
        self, text: str | None, entries: Mapping[str, tuple[Node, Node]], key: str, pointer: str
    ) -> str | None:
        if not text:
            return None
        try:
            Platform.parse(text)
        except ValueError as error:
            message = f"The platform {error}."
            self._findings.add("bad_platform", message, node=entries[key][1], pointer=pointer)
            return None
        return text

    def _project_name(self, top: Mapping[str, tuple[Node, Node]]) -> str:
        name = self._variables.get("COMPOSE_PROJECT_NAME") or self._text(top, "name", "") or self._path.parent.name
        return re.sub(r"[^a-z0-9_-]", "", name.lower()).lstrip("_-") or "coworld"

    # --- nodes

    def _mapping(self, node: MappingNode, pointer: str) -> dict[str, tuple[Node, Node]]:
        """Keys with their nodes; merge keys (``<<``) are followed, what the mapping says itself wins."""
        import yaml

        if id(node) in self._flat:
            return self._flat[id(node)]
        self._open.add(id(node))
        own: dict[str, tuple[Node, Node]] = {}
        merged: dict[str, tuple[Node, Node]] = {}
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    if not isinstance(source, yaml.MappingNode) or id(source) in self._open:
                        message = "`<<` takes a mapping or a list of mappings, and none that holds itself."
                        self._findings.add("bad_merge", message, node=key, pointer=pointer)
                        continue
                    for name, pair in self._mapping(source, pointer).items():
                        merged.setdefault(name, pair)
            elif not isinstance(key, yaml.ScalarNode):
                self._findings.add("bad_key", f"A key is {_kind(key)}, not text.", node=key, pointer=pointer)
            elif key.value in own:
                first = own[key.value][0].start_mark.line + 1
                self._findings.add(
                    "duplicate_key",
                    f"The key {key.value!r} stands here a second time (first in line {first}).",
                    node=key,
                    pointer=f"{pointer}/{_escaped(key.value)}",
                    hint="Keep one of them.",
                )
            else:
                own[key.value] = (key, value)
        self._open.discard(id(node))
        self._flat[id(node)] = {**merged, **own}
        return self._flat[id(node)]

    def _entries(self, node: Node, pointer: str, what: str) -> dict[str, tuple[Node, Node]] | None:
        import yaml

        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, pointer)
        self._findings.add("wrong_type", f"{what} is {_kind(node)}, not a mapping.", node=node, pointer=pointer)
        return None

    def _text(self, entries: Mapping[str, tuple[Node, Node]], key: str, pointer: str) -> str | None:
        return self._scalar(entries[key][1], f"{pointer}/{key}") if key in entries else None

    def _scalar(self, node: Node, pointer: str) -> str | None:
        import yaml

        if not isinstance(node, yaml.ScalarNode) or node.tag == "tag:yaml.org,2002:null":
            self._findings.add("wrong_type", f"This must be text, not {_kind(node)}.", node=node, pointer=pointer)
            return None
        try:
            return interpolate(node.value, self._variables.at(node, pointer))
        except ValueError as error:
            self._findings.add("bad_variable", str(error), node=node, pointer=pointer)
            return None

    def _list(self, node: Node, pointer: str) -> list[str]:
        import yaml

        if not isinstance(node, yaml.SequenceNode):
            self._findings.add("wrong_type", f"This must be a list, not {_kind(node)}.", node=node, pointer=pointer)
            return []
        texts = [self._scalar(item, f"{pointer}/{index}") for index, item in enumerate(node.value)]
        return [text for text in texts if text is not None]

    def _not_read(self, node: Node, pointer: str, key: str, hint: str) -> None:
        message = f"`{key}` is not read here, so what it says has no effect on the build."
        self._findings.add("key_not_read", message, node=node, pointer=pointer, hint=hint, severity="warning")


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


class ComposeVariables(WatchedVariables):
    """The environment over the ``.env`` file; says once for each variable that nobody has set."""

    def __init__(self, environment: Mapping[str, str], directory: Path, findings: Findings) -> None:
        self._environment = environment
        self._file = _env_file(directory / ".env", environment, findings)
        self._findings = findings
        self._told: set[str] = set()
        self._node: Node | None = None
        self._pointer = ""

    def at(self, node: Node, pointer: str) -> ComposeVariables:
        self._node, self._pointer = node, pointer
        return self

    def __getitem__(self, name: str) -> str:
        value = self._environment.get(name)
        return self._file[name] if value is None else value

    def __iter__(self) -> Iterator[str]:
        return iter({**self._file, **self._environment})

    def __len__(self) -> int:
        return len({**self._file, **self._environment})

    def unset(self, name: str) -> None:
        if name in self._told:
            return
        self._told.add(name)
        self._findings.add(
            "variable_unset",
            f"The variable {name} is not set; it counts as empty.",
            node=self._node,
            pointer=self._pointer,
            hint=f"Set it, put it into .env beside the file, or write ${{{name}:-default}}.",
            severity="warning",
        )


def _env_file(path: Path, environment: Mapping[str, str], findings: Findings) -> dict[str, str]:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES)
    except FileNotFoundError:
        return {}
    except OSError as error:
        findings.add("env_file", f"{path.name} beside the file cannot be read: {error.strerror}.", severity="warning")
        return {}
    try:
        return read_env_file(data.decode("utf-8"), environment)
    except UnicodeDecodeError:
        findings.add("env_file", f"{path.name} beside the file is not UTF-8 text.", hint="Save it as UTF-8.")
    except ValueError as error:
        findings.add("env_file", f"{path.name} beside the file: {error}", hint="Write KEY=VALUE lines.")
    return {}
