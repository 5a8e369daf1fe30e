"""What must be known of a Dockerfile before it is built: its stages, the images it starts from, and what it needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ._variables import interpolate

__all__ = ["Dockerfile", "read_dockerfile", "without_frontend"]

_DIRECTIVE = re.compile(r"#\s*(?P<name>[A-Za-z]+)\s*=\s*(?P<value>\S.*?)\s*$")
_HEREDOC = re.compile(r"<<(?P<dash>-?)(?P<quote>[\"']?)(?P<mark>[A-Za-z_][A-Za-z0-9_]*)(?P=quote)")
_FLAGS = re.compile(r"--(?P<name>[a-z-]+)(?:=(?P<value>\S*))?(?:\s+|$)")
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:=(?P<value>\"[^\"]*\"|'[^']*'|\S*))?")

_BUILDKIT_FLAGS = {
    "RUN": {"mount", "network", "security", "device"},
    "COPY": {"link", "chmod", "parents", "exclude"},
    "ADD": {"link", "chmod", "checksum", "keep-git-dir", "exclude", "unpack"},
}
"""Flags that only BuildKit knows; the engine's classic builder stops at them."""


@dataclass(frozen=True, kw_only=True)
class Dockerfile:
    """A Dockerfile as far as planning a build is concerned."""

    stages: tuple[str, ...]
    """Names of the stages, in order; empty for a stage without one."""
    images: tuple[str, ...]
    """Images from elsewhere that the wanted stages start from or copy from, each once, variables filled in."""
    buildkit: str
    """The first thing in it that only BuildKit can do, or empty."""


def read_dockerfile(text: str, *, args: Mapping[str, str] | None = None, target: str | None = None) -> Dockerfile:
    """Read a Dockerfile.

    Args:
        text: The file's text.
        args: Build arguments, which stand for ``ARG`` before the first ``FROM``.
        target: The last stage that counts, by name or number; None: all.

    Returns:
        What was found. A reference that cannot be told beforehand is left out: the engine will say.
    """
    args = args or {}
    known: dict[str, str] = {}
    stages: list[str] = []
    images: dict[str, None] = {}
    buildkit = ""
    for instruction, rest, heredoc in _instructions(text):
        flags: dict[str, str] = {}
        while (flag := _FLAGS.match(rest)) is not None:
            # --mount may be given several times
            flags[flag["name"]] = ",".join(filter(None, (flags.get(flag["name"]), flag["value"])))
            rest = rest[flag.end() :]
        only = sorted(_BUILDKIT_FLAGS.get(instruction, set()) & flags.keys())
        if only or heredoc:
            buildkit = buildkit or (f"{instruction} --{only[0]}" if only else f"{instruction} with a here-document")
        if instruction == "ARG" and not stages:
            for match in _ASSIGNMENT.finditer(rest):
                default = _filled((match["value"] or "").strip("\"'"), known)
                known[match["name"]] = args.get(match["name"], default)
        elif instruction == "FROM":
            if target is not None and _is_stage(target, stages):
                break
            words = rest.split()
            named = len(words) == 3 and words[1].upper() == "AS"
            _add(_filled(words[0], known) if words else "", stages, images)
            stages.append(words[2] if named else "")
        elif instruction in {"COPY", "ADD"} and "from" in flags:
            _add(_filled(flags["from"], known), stages, images)
        elif instruction == "RUN":
            for source in re.findall(r"(?:^|,)from=([^,\s]+)", flags.get("mount", "")):
                _add(_filled(source, known), stages, images)
    return Dockerfile(stages=tuple(stages), images=tuple(images), buildkit=buildkit)


def without_frontend(text: str) -> str:
    """A Dockerfile without the directive that asks for Docker's own frontend in some version.

    BuildKit would fetch that image for every build, though it holds one of its own. Frontends of others stay.
    """
    lines = text.split("\n")
    for number, line in enumerate(lines):
        directive = _DIRECTIVE.fullmatch(line.removeprefix("\ufeff").strip())
        if directive is None:
            break
        if directive["name"].lower() == "syntax" and re.match(
            r"(docker\.io/)?docker/dockerfile([:@]|$)", directive["value"]
        ):
            lines[number] = "#"
            return "\n".join(lines)
    return text


def _is_stage(name: str, stages: list[str]) -> bool:
    return name.lower() in (stage.lower() for stage in stages if stage) or (name.isdigit() and int(name) < len(stages))


def _add(image: str, stages: list[str], images: dict[str, None]) -> None:
    if image and image != "scratch" and not image.isdigit() and not _is_stage(image, stages):
        images[image] = None


def _filled(text: str, known: Mapping[str, str]) -> str:
    try:
        return interpolate(text, known)
    except ValueError:
        return ""


def _instructions(text: str) -> Iterator[tuple[str, str, bool]]:
    """Each instruction with what follows it on its (continued) line, and whether here-documents follow."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    escape = "\\"
    number = 0
    for line in lines:
        directive = _DIRECTIVE.fullmatch(line.strip())
        if directive is None:
            break
        if directive["name"].lower() == "escape" and directive["value"] in {"`", "\\"}:
            escape = directive["value"]
    while number < len(lines):
        line = lines[number].strip()
        number += 1
        if not line or line.startswith("#"):
            continue
        while line.endswith(escape) and number < len(lines):
            line = line[:-1].rstrip()
            following = lines[number].strip()
            number += 1
            # comments and empty lines do not end a continued instruction
            line += f" {following}" if following and not following.startswith("#") else f" {escape}"
        instruction, _, rest = line.partition(" ")
        instruction, rest = instruction.upper(), rest.strip()
        marks = list(_HEREDOC.finditer(rest)) if instruction in {"RUN", "COPY", "ADD"} else []
        if any(not _ends(lines[number:], mark) for mark in marks):
            marks = []
        yield instruction, rest, bool(marks)
        for mark in marks:
            while number < len(lines):
                body = lines[number]
                number += 1
                if (body.lstrip("\t") if mark["dash"] else body) == mark["mark"]:
                    break


def _ends(lines: list[str], mark: re.Match[str]) -> bool:
    """Whether a here-document that seems to begin here ends somewhere; else it was something of the shell's."""
    return any((line.lstrip("\t") if mark["dash"] else line) == mark["mark"] for line in lines)
