"""The JSON form of a program's values, the same wherever rules or players hand one over: in rollouts, sockets, audits.

Besides what JSON has, a value may consist of pydantic models, dataclasses, enumerations and the like, and of numbers
and arrays of NumPy or a library like it. No such library is imported, and pydantic only for the types that need it.
"""

from __future__ import annotations

import json
import marshal
import math
import operator
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from .rules_errors import ActionRefused
from .simple_models import simple_fields, simple_form

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["action_text", "adapter", "is_same_json", "json_writer", "to_json", "to_plain"]


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """A validator for values of a type."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def to_json(value: object) -> str:
    """A value as canonical JSON text: keys sorted, nothing left out, no NaN.

    Raises:
        ValueError: If it contains a NaN or an infinity.
        TypeError: If it contains a set or something else without a JSON form.
    """
    try:
        return _encode(value)
    except (TypeError, ValueError):
        # Keys of other types, or something that `to_plain` has better words for.
        return _encode_plain(to_plain(value))


def action_text(action: object) -> str:
    """A player's action as canonical JSON text.

    Raises:
        ActionRefused: It has no JSON form.
    """
    try:
        return to_json(action)
    except RecursionError:
        problem = "it is nested too deeply, or contains itself"
    except (TypeError, ValueError) as error:
        problem = str(error)
    raise ActionRefused(f"the action is not a JSON value: {problem}", code="action_malformed")


_ATOMS: Final = frozenset({str, int, bool, type(None)})
_TEXT: Final = frozenset({str})


def to_plain(value: Any) -> Any:
    """A value as `json.loads` would return it from `to_json`, but faster; nothing in it is shared with the original.

    Raises:
        ValueError: If it contains a NaN or an infinity.
        TypeError: If it contains a set or something else without a JSON form.
    """
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind in _ATOMS:
        return value
    if kind is float:
        if not math.isfinite(value):
            raise ValueError(f"{value} is not a JSON number")
        return value
    if kind is list or kind is tuple:
        return list(value) if _ATOMS.issuperset(map(type, value)) else [to_plain(item) for item in value]
    if kind is dict and _TEXT.issuperset(map(type, value)):
        # Keys are in the order of the JSON text, for callers that iterate over them.
        if _ATOMS.issuperset(map(type, value.values())):
            return {key: value[key] for key in sorted(value)} if len(value) > 1 else value.copy()
        return {key: to_plain(value[key]) for key in sorted(value)}
    if (fields := simple_fields(kind)) is not None and (form := simple_form(value, fields)) is not None:
        return form
    if isinstance(value, dict):
        return _object(cast("dict[Any, Any]", value))
    for base, plain in _SUBCLASSES:
        if isinstance(value, base):
            return to_plain(plain(value))
    return to_plain(_plain(value))


def _object(value: dict[Any, Any]) -> dict[str, Any]:
    """An object with other keys than text: numbers, true, false and null become text, as in JSON."""
    named: dict[Any, Any] = {}
    for key, item in value.items():
        name = to_plain(key)
        if isinstance(name, list | dict):
            raise TypeError(f"the key of an object is text, not {_kind(key)}")
        named[name] = to_plain(item)
    try:
        names = sorted(named)
    except TypeError:
        names = sorted(named, key=str)
    return {name if isinstance(name, str) else _encode(name): named[name] for name in names}


_SUBCLASSES: Final[tuple[tuple[type, Any], ...]] = (
    (str, str.__str__),
    (int, int),
    (float, float),
    (list, list),
    (tuple, list),
)


def _plain(value: object) -> object:
    """One step from a value that JSON does not know towards its JSON form."""
    if isinstance(value, set | frozenset):
        # The order of strings in a set differs between processes.
        raise TypeError("a set has no order: return a list")
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    kind: Any = type(value)
    if (fields := simple_fields(kind)) is not None and (form := simple_form(value, fields)) is not None:
        return form
    if hasattr(kind, "model_dump"):
        return cast("Any", value).model_dump(mode="json", fallback=_plain, warnings=False)
    for form in ("tolist", "__array__"):
        if hasattr(kind, form):
            given = getattr(value, form)()
            # Numbers of higher precision stay what they are.
            return float(given) if type(given) is kind else given
    if hasattr(kind, "__index__"):
        return operator.index(cast("Any", value))
    from pydantic import PydanticUserError

    def inside(part: object) -> object:
        if part is value:
            raise _without_form(value)
        return _plain(part)

    try:
        return adapter(kind).dump_python(value, mode="json", fallback=inside, warnings=False)
    except PydanticUserError:
        raise _without_form(value) from None


def _without_form(value: object) -> TypeError:
    return TypeError(f"{_kind(value)} has no JSON form")


def _kind(value: object) -> str:
    return f"a value of type {type(value).__name__}"


def is_same_json(first: Any, second: Any) -> bool:
    """Whether two values that consist of what JSON has are the same, with keys in the same order.

    Values that are equal and yet not the same JSON, such as 1 and True, are not. Of other values it may say so, too.
    """
    try:
        return marshal.dumps(first, 2) == marshal.dumps(second, 2)
    except ValueError:
        return False


def json_writer(
    *, sort_keys: bool = False, allow_nan: bool = True, default: Callable[[Any], Any] | None = None
) -> Callable[[object], str]:
    """Return what writes values as JSON text without spaces, as a `json.JSONEncoder` with these options would.

    `JSONEncoder.encode` makes a new encoder in C for each value, which takes longer than writing a small one. A value
    that contains itself is a RecursionError here.
    """
    encoder = json.JSONEncoder(separators=(",", ":"), sort_keys=sort_keys, allow_nan=allow_nan, default=default)
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return encoder.encode
    text: Any = getattr(json.encoder, "encode_basestring_ascii")  # noqa: B009
    write = make(None, encoder.default, text, None, ":", ",", sort_keys, False, allow_nan)
    return lambda value: "".join(write(value, 0))


_encode = json_writer(sort_keys=True, allow_nan=False, default=_plain)
_encode_plain = json_writer()
