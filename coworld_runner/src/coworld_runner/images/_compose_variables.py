"""Variables in compose files, Dockerfiles and `.env` files."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["WatchedVariables", "interpolate", "read_env_file", "shown"]


class WatchedVariables(dict[str, str]):
    """Variables that record in `missed` which names were looked up but not set, and so counted as empty."""

    def __init__(self, known: Mapping[str, str]) -> None:
        super().__init__(known)
        self.missed: set[str] = set()


def shown(text: str) -> str:
    """Return an excerpt of a text for a message."""
    # An address may contain a password
    return re.sub(r"//[^/@]*@", "//", text)[:80]


_VARIABLE = re.compile(r"\$(?:(?P<dollar>\$)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<brace>\{)|)")
_BRACED = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<operator>:?[-?+])?")
_MAX_NESTING = 16


def interpolate(text: str, variables: Mapping[str, str]) -> str:
    """Expand variables with the syntax of compose files.

    `$VAR` and `${VAR}`; `${VAR-word}` (a default if unset); `${VAR+word}` (a replacement if set);
    `${VAR?word}` (an error if unset); with a colon, as in `${VAR:-word}`, an empty variable counts as unset; `$$`
    is a dollar sign. A word may contain variables itself. Unset variables without an operator count as empty.

    Args:
        text: The text.
        variables: Values of variables.

    Raises:
        ValueError: The syntax is invalid, or a required variable is missing; the message gives details.
    """
    return _interpolate(text, variables, 0)


def _interpolate(text: str, variables: Mapping[str, str], depth: int) -> str:
    if depth > _MAX_NESTING:
        raise ValueError(f"Variables are nested more than {_MAX_NESTING} levels deep.")
    out: list[str] = []
    position = 0
    while (start := text.find("$", position)) >= 0:
        out.append(text[position:start])
        match = _VARIABLE.match(text, start)
        if match is None or match.end() == start + 1:
            raise ValueError(
                f"The dollar sign in {shown(text)!r} is followed by neither a variable nor a second dollar sign. "
                "Write $$ for a dollar sign."
            )
        if match["dollar"]:
            out.append("$")
            position = match.end()
        elif match["name"]:
            out.append(_value(match["name"], variables))
            position = match.end()
        else:
            end = _closing(text, match.end())
            out.append(_braced(text[match.end() : end], variables, depth))
            position = end + 1
    out.append(text[position:])
    return "".join(out)


def _closing(text: str, start: int) -> int:
    """Return the position of the brace that closes the one opened before `start`."""
    open_braces = 1
    for index in range(start, len(text)):
        if text.startswith("${", index):
            open_braces += 1
        elif text[index] == "}":
            open_braces -= 1
            if not open_braces:
                return index
    raise ValueError(f"A ${{ in {shown(text)!r} is never closed.")


def _braced(inside: str, variables: Mapping[str, str], depth: int) -> str:
    match = _BRACED.match(inside)
    if match is None or (match["operator"] is None and match.end() != len(inside)):
        raise ValueError(f"${{{inside[:60]}}} is not a variable.")
    name, operator, word = match["name"], match["operator"] or "", inside[match.end() :]
    if not operator:
        return _value(name, variables)
    value = variables.get(name)
    given = bool(value) if operator.startswith(":") else value is not None
    if operator.endswith("+"):
        return _interpolate(word, variables, depth + 1) if given else ""
    if given:
        return value or ""
    if operator.endswith("?"):
        reason = _interpolate(word, variables, depth + 1).strip().rstrip(".")
        raise ValueError(f"The variable {name} is required but not set{f': {reason}' if reason else ''}.")
    return _interpolate(word, variables, depth + 1)


def _value(name: str, variables: Mapping[str, str]) -> str:
    value = variables.get(name)
    if value is None and isinstance(variables, WatchedVariables):
        variables.missed.add(name)
    return value or ""


_ENV_LINE = re.compile(r"(?:export[ \t]+)?(?P<key>[A-Za-z_][A-Za-z0-9_.-]*)[ \t]*(?:(?P<equals>=)[ \t]*|$)")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def read_env_file(text: str, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    r"""Read a `.env` file.

    Each line holds `KEY=VALUE`, optionally after `export`; empty lines and lines that begin with `#` are ignored.
    A value in single quotes is taken literally; in double quotes `\n`, `\r`, `\t`, `\"`, `\\` and `\$` are
    translated; quoted values may span lines. Otherwise the value ends before ` #` and is stripped. Variables are
    expanded except in single quotes, from `environment` and the lines above.

    Args:
        text: The file's text.
        environment: Values of variables, which take precedence over those in the file.

    Raises:
        ValueError: A line is malformed; the message names the line.
    """
    values: dict[str, str] = {}
    known = dict(environment or {})
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    number = 0
    while number < len(lines):
        first = number + 1
        line = lines[number].strip()
        number += 1
        if not line or line.startswith("#"):
            continue
        match = _ENV_LINE.match(line)
        if match is None:
            raise ValueError(f"Line {first}: This is not KEY=VALUE.")
        if not match["equals"]:
            # A bare name asks for the environment's own value, which is already known
            continue
        rest = line[match.end() :]
        quote = rest[:1]
        try:
            if quote and quote in "'\"":
                while (end := _closing_quote(rest, quote)) < 0:
                    if number >= len(lines):
                        raise ValueError("A quote is never closed.")
                    rest += "\n" + lines[number]
                    number += 1
                value = rest[1:end]
                if quote == '"':
                    # An escaped dollar sign must survive the expansion
                    value = re.sub(r"\\(.)", lambda found: _unescaped(found[1]), value, flags=re.DOTALL)
                    value = interpolate(value, {**values, **known})
            else:
                value = interpolate(re.split(r"(?:^|\s)#", rest, maxsplit=1)[0].strip(), {**values, **known})
        except ValueError as error:
            raise ValueError(f"Line {first}: {error}") from None
        values[match["key"]] = value
    return values


def _unescaped(character: str) -> str:
    if character == "$":
        return "$$"
    return _ESCAPES.get(character, character if character in '"\\' else "\\" + character)


def _closing_quote(text: str, quote: str) -> int:
    index = 1
    while index < len(text):
        if text[index] == "\\" and quote == '"':
            index += 2
            continue
        if text[index] == quote:
            return index
        index += 1
    return -1
