"""Patterns of JSON Schemas: matched in linear time where their syntax allows it, refused where they may not end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, cast

from ._findings import quoted

__all__ = ["compiled", "pattern_problem"]


_MAX_PATTERN = 2_000


@lru_cache(maxsize=512)
def compiled(pattern: str) -> Callable[[str], bool]:
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        # Matches in linear time whatever the pattern, but knows no look-around and no back-references.
        linear = SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError:
        expression = re.compile(pattern)
        return lambda text: expression.search(text) is not None
    return lambda text: linear.isinstance_python(text)


def _is_linear(pattern: str) -> bool:
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError:
        return False
    return True


def pattern_problem(pattern: str, *, python: bool = False) -> tuple[str, str, str | None] | None:
    if len(pattern) > _MAX_PATTERN:
        return "pattern_too_costly", f"The pattern is longer than {_MAX_PATTERN} characters.", "Write a shorter one."
    if not python and _is_linear(pattern):
        return None
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return "schema_invalid", f"The pattern {quoted(pattern)} is not a regular expression: {error}.", None
    if _backtracks(pattern):
        return (
            "pattern_too_costly",
            f"The pattern {quoted(pattern)} may take for ever: it repeats something that itself repeats.",
            "Write it without a repetition inside a repetition.",
        )
    return None


def _backtracks(pattern: str) -> bool:
    """Whether an unbounded repetition has a body in which only repetitions need to match, like ``(a+)*``.

    That is the usual way to exponential time in an engine that backtracks. It is asked only of patterns the linear
    engine cannot run, so a wrong "yes" costs an author a rewrite and a wrong "no" costs time on their own config.
    """
    try:
        import re._parser as parser  # pyright: ignore[reportMissingImports]
    except ImportError:
        # The engine's own parser is not a public module; without it nothing can be vouched for.
        return True

    repeats = ("MAX_REPEAT", "MIN_REPEAT")

    def bodies(item: Any) -> Iterator[Any]:
        operation, argument = str(item[0]), item[1]
        if operation in repeats or operation == "POSSESSIVE_REPEAT":
            yield argument[2]
        elif operation == "SUBPATTERN":
            yield argument[-1]
        elif operation == "BRANCH":
            yield from argument[1]
        elif operation in ("ASSERT", "ASSERT_NOT"):
            yield argument[1]
        elif operation == "ATOMIC_GROUP":
            yield argument
        elif operation == "GROUPREF_EXISTS":
            yield from (branch for branch in argument[1:] if branch is not None)

    def loose(body: Any) -> bool:
        """Whether nothing in the body is a fixed landmark between repetitions, and there is a repetition."""
        found = False
        for item in body:
            operation = str(item[0])
            if operation in repeats:
                if item[1][1] > 1:
                    found = True
            elif operation in ("SUBPATTERN", "BRANCH"):
                if any(loose(inner) for inner in bodies(item)):
                    found = True
                elif operation == "SUBPATTERN":
                    return False
                else:
                    found = True
            elif operation not in ("AT", "ASSERT", "ASSERT_NOT"):
                return False
        return found

    def search(body: Any) -> bool:
        for item in body:
            if str(item[0]) in repeats and item[1][1] > 100 and loose(item[1][2]):
                return True
            if any(search(inner) for inner in bodies(item)):
                return True
        return False

    parse = cast("Callable[[str], Any]", parser.parse)  # pyright: ignore[reportUnknownMemberType]
    return search(parse(pattern))
