"""Reads what a build must know about a Dockerfile beforehand: its stages, its base images and the features it uses."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from coworld_core.text.phrases import closest

from ._compose_variables import interpolate

__all__ = ["Copies", "Dockerfile", "PipInstall", "read_dockerfile", "without_frontend"]

_DIRECTIVE = re.compile(r"#\s*(?P<name>[A-Za-z]+)\s*=\s*(?P<value>\S.*?)\s*$")
_HEREDOC = re.compile(r"<<(?P<dash>-?)(?P<quote>[\"']?)(?P<mark>[A-Za-z_][A-Za-z0-9_]*)(?P=quote)")
_FLAGS = re.compile(r"--(?P<name>[a-z-]+)(?:=(?P<value>\S*))?(?:\s+|$)")
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:=(?P<value>\"[^\"]*\"|'[^']*'|\S*))?")

_BUILDKIT_FLAGS = {
    "RUN": {"mount", "network", "security", "device"},
    "COPY": {"link", "chmod", "parents", "exclude"},
    "ADD": {"link", "chmod", "checksum", "keep-git-dir", "exclude", "unpack"},
}
"""Flags that only BuildKit supports; the engine's classic builder rejects them."""

_PIP = re.compile(r"(?:^|[\s/])(?P<pip>pip3?(?:\s+-\S+)*\s+install|uv\s+sync)(?:\s+|$)")
_PIP_VALUE = re.compile(
    r"-[crifetp]|--(?:constraint|requirement|index-url|default-index|index|extra-index-url|find-links|editable|target|"
    r"prefix|root|python|python-version|platform|cache-dir|timeout|retries|proxy|progress-bar|trusted-host|no-binary|"
    r"only-binary|root-user-action|group|extra)"
)
"""Options of `pip install` and `uv` that have a value."""

_INSTRUCTIONS = (
    *("FROM", "ARG", "RUN", "COPY", "ADD", "CMD", "ENTRYPOINT", "ENV", "WORKDIR", "USER", "EXPOSE", "LABEL"),
    *("VOLUME", "SHELL", "STOPSIGNAL", "HEALTHCHECK", "ONBUILD", "MAINTAINER"),
)


Copies = tuple[tuple[tuple[str, ...], str], ...]
"""Files copied from the build context: sources and absolute target."""


@dataclass(frozen=True, kw_only=True)
class PipInstall:
    """One `pip install` of a build step, in any of its forms."""

    arguments: tuple[str, ...]
    """Its arguments, variables expanded; an option has its value in the same word, as in `--requirement=FILE`."""
    workdir: str
    """The directory in the image that its paths are relative to."""
    copies: Copies
    """Files copied into its stage."""

    @property
    def named(self) -> tuple[str, ...]:
        """What it installs: packages, and `-r FILE`."""
        files = {"-r": "-r", "--requirement": "-r", "-e": "-e", "--editable": "-e"}
        split = (word.partition("=") if word.startswith("-") else (word, "", "") for word in self.arguments)
        return tuple(
            f"{files[option]} {value}" if option in files else option
            for option, _, value in split
            if option in files or not option.startswith("-")
        )


@dataclass(frozen=True, kw_only=True)
class Dockerfile:
    """The parts of a Dockerfile that matter for planning a build."""

    stages: tuple[str, ...]
    """Names of the stages, in order; empty for a stage without a name."""
    images: tuple[str, ...]
    """External images that the wanted stages start from or copy from, without duplicates, variables expanded."""
    buildkit: str
    """The first feature it uses that only BuildKit supports, or empty."""
    command: tuple[str, ...] = ()
    """The command of the last wanted stage: ENTRYPOINT and CMD; empty if the stage sets neither."""
    workdir: str = "/"
    """The command's working directory: WORKDIR."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variables of that stage: ENV, variables expanded."""
    copies: Copies = ()
    """Files copied into that stage from the build context, even through other stages: sources and absolute target."""
    installs: tuple[PipInstall, ...] = ()
    """Packages of Python that its build steps install."""
    mistake: tuple[int, str] | None = None
    """The first error that any engine would report: its line, counting from 1, and a description."""


def read_dockerfile(text: str, *, args: Mapping[str, str] | None = None, target: str | None = None) -> Dockerfile:
    """Read a Dockerfile.

    Args:
        text: The file's text.
        args: Build arguments, which override the defaults of `ARG`.
        target: The last stage to read, by name or number; None: all stages.

    Returns:
        The parsed Dockerfile. References that cannot be resolved beforehand are left out; the engine reports their
        errors.
    """
    args = args or {}
    known: dict[str, str] = {}
    stages: list[str] = []
    images: dict[str, None] = {}
    buildkit = ""
    mistake: tuple[int, str] | None = None
    started: dict[str, tuple[str, ...]] = {}
    installs: list[PipInstall] = []
    files, every = _Files(), list[_Files]()
    for number, instruction, rest, heredoc in _instructions(text):
        mistake = mistake or _mistake(number, instruction, rest, stages)
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
            started = {}
            named = len(words) == 3 and words[1].upper() == "AS"
            base = _stage_number(_filled(words[0], known) if words else "", stages)
            files = every[base].inherited() if base is not None else _Files()
            files.known.update(known)
            every.append(files)
            _add(_filled(words[0], known) if words else "", stages, images)
            stages.append(words[2] if named else "")
        elif instruction in {"CMD", "ENTRYPOINT"}:
            started[instruction] = _started(rest)
        elif instruction in {"COPY", "ADD"} and "from" in flags:
            source = _filled(flags["from"], known)
            _add(source, stages, images)
            if (number_of := _stage_number(source, stages)) is not None:
                files.take(every[number_of], rest)
        elif instruction in {"COPY", "ADD"} and not heredoc:
            files.copy(rest)
        elif instruction == "WORKDIR":
            files.workdir = files.at(rest)
        elif instruction == "ENV":
            files.set(rest)
        elif instruction == "ARG":
            files.argument(rest, args)
        elif instruction == "RUN":
            installs += files.installs(rest)
            for source in re.findall(r"(?:^|,)from=([^,\s]+)", flags.get("mount", "")):
                _add(_filled(source, known), stages, images)
    if not stages and mistake is None:
        mistake = (1, "There is no FROM, which names the base image.")
    command = (*started.get("ENTRYPOINT", ()), *started.get("CMD", ()))
    return Dockerfile(
        stages=tuple(stages),
        images=tuple(images),
        buildkit=buildkit,
        command=command,
        workdir=files.workdir,
        env=files.env,
        copies=tuple(files.copies),
        installs=tuple(installs),
        mistake=mistake,
    )


@dataclass
class _Files:
    """The known files and variables of one stage."""

    workdir: str = "/"
    env: dict[str, str] = field(default_factory=dict[str, str])
    known: dict[str, str] = field(default_factory=dict[str, str])
    """Build arguments."""
    copies: list[tuple[tuple[str, ...], str]] = field(default_factory=list[tuple[tuple[str, ...], str]])

    def inherited(self) -> _Files:
        return _Files(self.workdir, dict(self.env), {}, list(self.copies))

    def filled(self, text: str) -> str:
        return _filled(text, {**self.known, **self.env})

    def at(self, place: str) -> str:
        """Return an absolute path in the image, resolved against the working directory."""
        words = self.filled(place.strip().strip("\"'"))
        return _normal(posixpath.join(self.workdir, words)) if words else self.workdir

    def argument(self, rest: str, args: Mapping[str, str]) -> None:
        for match in _ASSIGNMENT.finditer(rest):
            default = self.filled((match["value"] or "").strip("\"'"))
            self.known[match["name"]] = args.get(match["name"], default or self.known.get(match["name"], ""))

    def set(self, rest: str) -> None:
        name, _, value = rest.partition(" ")
        if "=" not in name:
            # The old form, for a single variable: ENV NAME value
            self.env[name] = self.filled(value.strip())
            return
        try:
            words = shlex.split(rest)
        except ValueError:
            return
        known = {**self.known, **self.env}
        for word in words:
            name, _, value = word.partition("=")
            self.env[name] = _filled(value, known)

    def installs(self, step: str) -> Iterator[PipInstall]:
        """Yield the `pip install` commands of a build step."""
        if step.startswith("["):
            step = shlex.join(_started(step))
        workdir = self.workdir
        for command in re.split(r"&&|;|\|\||\n", step):
            try:
                shell = shlex.split(command)
                pip = _PIP.search(command)
                words = shlex.split(command[pip.end() :]) if pip is not None else []
            except ValueError:
                continue
            if shell[:1] == ["cd"] and len(shell) == 2:
                workdir = _normal(posixpath.join(workdir, self.filled(shell[1])))
            if pip is None:
                continue
            joined: list[str] = ["."] if pip["pip"].startswith("uv") else []
            while words:
                word = words.pop(0)
                short = re.fullmatch(r"(-[rcife])(.+)", word) if not word.startswith("--") else None
                if short is not None:
                    word = f"{short[1]}={short[2]}"
                elif _PIP_VALUE.fullmatch(word) and words:
                    word = f"{word}={words.pop(0)}"
                joined.append(self.filled(word) or word)
            if joined:
                yield PipInstall(arguments=tuple(joined), workdir=workdir, copies=tuple(self.copies))

    def copy(self, rest: str) -> None:
        if (words := self._tokens(rest)) is not None:
            *sources, target = words
            local = tuple(source for source in sources if "://" not in source)
            if local:
                self.copies.append((local, self._target(target)))

    def take(self, stage: _Files, rest: str) -> None:
        """Record files that another stage copied from the context and that this stage copies from there."""
        if (words := self._tokens(rest)) is None:
            return
        *sources, target = words
        for place in (_normal(posixpath.join("/", source)) for source in sources):
            for local, there in stage.copies:
                bare = _normal(there)
                if bare == place or place == "/" or bare.startswith(f"{place}/"):
                    below = posixpath.relpath(bare, place)
                    on = _normal(posixpath.join(self._target(target), below))
                    self.copies.append((local, f"{on}/" if there.endswith("/") else on))
                elif place.startswith(f"{bare}/") and len(local) == 1:
                    inside = posixpath.join(local[0], posixpath.relpath(place, bare))
                    self.copies.append(((inside,), self._target(target)))

    def _target(self, target: str) -> str:
        place = self.at(target)
        return f"{place.rstrip('/')}/" if target.endswith(("/", "/.")) or target in (".", "./") else place

    def _tokens(self, rest: str) -> list[str] | None:
        words: object = None
        try:
            words = json.loads(rest) if rest.startswith("[") else shlex.split(rest)
        except ValueError:
            return None
        found = [self.filled(str(word)) for word in cast("list[object]", words)] if isinstance(words, list) else []
        return found if len(found) > 1 and all(found) else None


def _mistake(number: int, instruction: str, rest: str, stages: list[str]) -> tuple[int, str] | None:
    if instruction not in _INSTRUCTIONS:
        near = closest(instruction, _INSTRUCTIONS)
        return number, f"There is no instruction {instruction}." + (f" Did you mean {near}?" if near else "")
    if not rest:
        return number, f"{instruction} has no arguments."
    if not stages and instruction not in {"FROM", "ARG"}:
        return number, f"{instruction} comes before the first FROM."
    return None


def _started(rest: str) -> tuple[str, ...]:
    """Return the words of a CMD or an ENTRYPOINT, in either of its forms."""
    if rest.startswith("["):
        try:
            words: object = json.loads(rest)
        except ValueError:
            words = None
        if isinstance(words, list) and all(isinstance(word, str) for word in cast("list[object]", words)):
            return tuple(cast("list[str]", words))
    try:
        simple = shlex.split(rest)
    except ValueError:
        return ("/bin/sh", "-c", rest)
    # Shell syntax needs a shell
    return ("/bin/sh", "-c", rest) if set(rest) & set("$&|;<>*?`(") else tuple(simple)


def without_frontend(text: str) -> str:
    """Return a Dockerfile without the directive that asks for a version of Docker's own frontend.

    BuildKit would fetch that image for every build, although it contains the frontend. Other frontends are kept.
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


def _normal(place: str) -> str:
    """Return an absolute path without `.` and `..`."""
    return "/" + posixpath.normpath(place).lstrip("/")


def _stage_number(name: str, stages: list[str]) -> int | None:
    """Return the index of the stage that a name or number refers to; None for an external image."""
    folded = [stage.lower() for stage in stages]
    if name and name.lower() in folded:
        return folded.index(name.lower())
    return int(name) if name.isdigit() and int(name) < len(stages) else None


def _add(image: str, stages: list[str], images: dict[str, None]) -> None:
    if image and image != "scratch" and not image.isdigit() and not _is_stage(image, stages):
        images[image] = None


def _filled(text: str, known: Mapping[str, str]) -> str:
    try:
        return interpolate(text, known)
    except ValueError:
        return ""


def _instructions(text: str) -> Iterator[tuple[int, str, str, bool]]:
    """Yield each instruction: line, name, arguments (continued lines joined), and whether here-documents follow."""
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
        begun = number
        if not line or line.startswith("#"):
            continue
        while line.endswith(escape) and number < len(lines):
            line = line[:-1].rstrip()
            following = lines[number].strip()
            number += 1
            # Comments and empty lines do not end a continued instruction
            line += f" {following}" if following and not following.startswith("#") else f" {escape}"
        instruction, _, rest = line.partition(" ")
        instruction, rest = instruction.upper(), rest.strip()
        marks = list(_HEREDOC.finditer(rest)) if instruction in {"RUN", "COPY", "ADD"} else []
        if any(not _ends(lines[number:], mark) for mark in marks):
            marks = []
        yield begun, instruction, rest, bool(marks)
        for mark in marks:
            while number < len(lines):
                body = lines[number]
                number += 1
                if (body.lstrip("\t") if mark["dash"] else body) == mark["mark"]:
                    break


def _ends(lines: list[str], mark: re.Match[str]) -> bool:
    """Whether a here-document that seems to begin here ends somewhere; otherwise it is shell syntax."""
    return any((line.lstrip("\t") if mark["dash"] else line) == mark["mark"] for line in lines)
