"""Hints: what to do next, in words of the library, and as a code with values that others put into theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, cast

__all__ = ["Hint", "HintValue", "hint_fields", "hint_from"]

HintValue = str | int | float
"""What a hint tells beside its code; a path is text."""


class Hint(str):
    """A hint that names arguments or functions of the library, and a code by which others word it for their users.

    It is its own text, so it goes wherever a hint goes. A hint that names nothing of the library can be a plain text.
    Text that is made of a hint, by joining or formatting, has no code.

    Args:
        code: Stable snake_case identifier. Hints with one code have the same words and the same names of values.
        text: What to do, for users of the library; `{name}` stands for a value.
        values: The values, ready for JSON.

    Attributes:
        code: The identifier.
        values: The values, by name.
    """

    __slots__ = ("code", "values")

    code: str
    values: Mapping[str, HintValue]

    def __new__(cls, code: str, text: str, /, **values: HintValue) -> Self:
        """Make a hint; see the class."""
        return cls.restored(text.format_map(values), code, values)

    @classmethod
    def restored(cls, text: str, code: str, values: Mapping[str, HintValue]) -> Self:
        """A hint whose text has been made before.

        Args:
            text: The text with its values in it.
            code: The identifier.
            values: The values, by name.
        """
        hint = super().__new__(cls, text)
        hint.code = code
        hint.values = dict(values)
        return hint

    def __reduce__(self) -> tuple[object, ...]:
        return type(self).restored, (str(self), self.code, self.values)


def hint_fields(hint: str | None) -> dict[str, object]:
    """A hint as JSON-ready data: its text as `hint`, and, if it has them, `hint_code` and `hint_values`."""
    if not isinstance(hint, Hint):
        return {"hint": hint}
    values = {"hint_values": dict(hint.values)} if hint.values else {}
    return {"hint": str(hint), "hint_code": hint.code, **values}


def hint_from(fields: Mapping[str, Any]) -> str | None:
    """The hint of data that `hint_fields` has made, or that has been read from JSON; None if there is none."""
    text, code, values = (fields.get(name) for name in ("hint", "hint_code", "hint_values"))
    if not isinstance(text, str) or not isinstance(code, str):
        return text
    return Hint.restored(text, code, cast("Mapping[str, HintValue]", values) if isinstance(values, Mapping) else {})
