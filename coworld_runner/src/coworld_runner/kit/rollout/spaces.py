"""Gymnasium spaces for JSON, made from a JSON Schema or, if there is none, from an example.

| JSON | Space |
| --- | --- |
| enumeration, boolean, null | `Discrete` |
| integer with two bounds | `Discrete` that starts at the lower bound; `Box` (int64) if the range is large |
| number, other integers | `Box` of shape `()`, float64 or int64 |
| string | `Text` |
| list of fixed length | `MultiBinary`, `MultiDiscrete` or `Box`, depending on its items; otherwise `Tuple` |
| list of bounded length | `Dict` of `length` and `values`, which is padded with zeros |
| list of any length | `Sequence` |
| object | `Dict` |
| optional value (or null) | `Dict` of `given` (0 or 1) and `value` |
| one of several types | `OneOf` |
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from coworld_core.rules.plain_values import to_json

from ...package.random_player import resolved
from ._env_extra import env_missing

try:
    import numpy as np
    from gymnasium import Space, spaces
except ModuleNotFoundError as error:
    raise env_missing(error) from error

__all__ = ["Codec", "NoSpaceError", "codec", "every_value", "like"]

MOST_CHOICES: Final = 10_000
"""Maximum number of values of one `Discrete` space."""

MOST_ROWS: Final = 256
"""Maximum number of values whose vectors of zeros and a one are kept."""

MOST_PADDED: Final = 1024
"""Maximum length of a list that is padded."""

EXACT: Final = 2**53
"""Larger integers are not exact in every JSON implementation."""

TEXT: Final = 4096
"""Characters kept of a text without a maximum length."""

_CHARACTERS: Final = frozenset(string.printable)
_Json = Mapping[str, Any]


class NoSpaceError(Exception):
    """The type of a part of a value is unknown; the message is the path of that part."""


@dataclass(frozen=True, kw_only=True)
class Codec:
    """A space, and the conversion between JSON and its elements."""

    space: Space[Any]
    encode: Callable[[Any], Any]
    """Converts JSON to an element; raises LookupError, TypeError or ValueError for a value that does not fit."""
    decode: Callable[[Any], Any]
    """Converts an element to JSON."""
    zero: Any
    """The element used for padding and for missing values."""
    flat: Callable[[Any, list[float]], None]
    """Appends the numbers of JSON, in the order of `gymnasium.spaces.flatten`; raises like `encode`."""
    schema: _Json | None = None
    """What a codec that `codec` has made is pickled as: its functions cannot be."""

    def __reduce__(self) -> Any:
        return super().__reduce__() if self.schema is None else (codec, (self.schema,))


def codec(schema: _Json) -> Codec:
    """Return the codec of the space that a JSON Schema describes; it can be pickled.

    Raises:
        NoSpaceError: The schema leaves the type of some part open.
    """
    return replace(_codec(schema, schema, ""), schema=schema)


def like(example: Any, where: str = "") -> _Json:
    """Return the JSON Schema of values with the structure of an example: the same fields, lists of the same length.

    Raises:
        NoSpaceError: The example contains an empty list or a null, which do not determine a type.
    """
    match example:
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer"}
        case float():
            return {"type": "number"}
        case str():
            return {"type": "string"}
        case dict():
            fields = cast("dict[str, Any]", example)
            return {
                "type": "object",
                "required": list(fields),
                "properties": {name: like(value, f"{where}/{name}") for name, value in fields.items()},
            }
        case list() if example:
            items = [like(item, f"{where}/{index}") for index, item in enumerate(cast("list[Any]", example))]
            if all(item == items[0] for item in items):
                return {"type": "array", "items": items[0], "minItems": len(items), "maxItems": len(items)}
            return {"type": "array", "prefixItems": items}
        case _:
            raise NoSpaceError(where or "/")


def every_value(schema: _Json, *, most: int = MOST_CHOICES) -> list[Any] | None:
    """Return all values that a JSON Schema allows, in its order; None if there are more than `most`."""
    return _every(schema, schema, most, 0)


def _types(known: _Json, root: _Json) -> list[_Json]:
    """Return the schemas of the alternative types of a value."""
    several: Any = known.get("anyOf") or known.get("oneOf")
    if several:
        return [one for inner in several for one in _types(resolved(inner, root), root)]
    if isinstance(known.get("type"), list):
        return [{**known, "type": kind} for kind in known["type"]]
    return [known]


def _bounds(known: _Json) -> tuple[float | None, float | None]:
    step = 1 if known.get("type") == "integer" else 0
    low = known.get("minimum", known["exclusiveMinimum"] + step if "exclusiveMinimum" in known else None)
    high = known.get("maximum", known["exclusiveMaximum"] - step if "exclusiveMaximum" in known else None)
    return low, high


# --- all values -----------------------------------------------------------------------------------------------------


def _every(schema: Any, root: _Json, most: int, depth: int) -> list[Any] | None:
    known = resolved(schema, root)
    if depth > 20:
        return None
    kinds = _types(known, root)
    if len(kinds) > 1:
        parts = [_every(kind, root, most, depth + 1) for kind in kinds]
        return _joined(parts, most)
    known = kinds[0]
    if "const" in known:
        return [known["const"]]
    if "enum" in known:
        return list(known["enum"])
    match known.get("type"):
        case "null":
            return [None]
        case "boolean":
            return [False, True]
        case "integer":
            low, high = _bounds(known)
            if low is None or high is None or high - low >= most:
                return None
            by = known.get("multipleOf", 1)
            return [value for value in range(int(low), int(high) + 1) if value % by == 0]
        case "object":
            fields: Any = known.get("properties", {})
            found = _product([_every(inner, root, most, depth + 1) for inner in fields.values()], most)
            return None if found is None else [dict(zip(fields, values, strict=True)) for values in found]
        case "array":
            return _every_list(known, root, most, depth)
        case _:
            return None


def _every_list(known: _Json, root: _Json, most: int, depth: int) -> list[Any] | None:
    first = [_every(inner, root, most, depth + 1) for inner in known.get("prefixItems", [])]
    longest = known.get("maxItems", len(first) if "items" not in known else None)
    if longest is None or longest > 64:
        return None
    rest = _every(known.get("items", {}), root, most, depth + 1) if longest > len(first) else []
    lengths = range(max(known.get("minItems", 0), len(first)), longest + 1)
    return _joined([_product([*first, *[rest] * (length - len(first))], most) for length in lengths], most)


def _joined(parts: Sequence[list[Any] | None], most: int) -> list[Any] | None:
    found: dict[str, Any] = {}
    for part in parts:
        if part is None:
            return None
        found.update((to_json(value), value) for value in part)
    return list(found.values()) if len(found) <= most else None


def _product(parts: Sequence[list[Any] | None], most: int) -> list[Any] | None:
    count = 1
    for part in parts:
        if part is None or (count := count * len(part)) > most:
            return None
    return [list(values) for values in itertools.product(*cast("list[list[Any]]", parts))]


# --- spaces ---------------------------------------------------------------------------------------------------------


def _codec(schema: Any, root: _Json, where: str) -> Codec:
    known = resolved(schema, root)
    kinds = _types(known, root)
    others = [kind for kind in kinds if kind.get("type") != "null" and kind.get("const", 0) is not None]
    if len(kinds) > 1 and len(others) == 1:
        return _optional(_codec(others[0], root, where))
    if len(kinds) > 1:
        values = every_value({**known, "$defs": root.get("$defs", {})})
        return _choices(values) if values else _one_of([_codec(kind, root, where) for kind in kinds])
    known = kinds[0]
    if "const" in known or "enum" in known:
        return _choices([known["const"]] if "const" in known else list(known["enum"]))
    match known.get("type"):
        case "null":
            return _choices([None])
        case "boolean":
            return _choices([False, True])
        case "integer" | "number" as kind:
            return _number(known, whole=kind == "integer")
        case "string":
            return _text(known.get("maxLength", TEXT))
        case "array":
            return _array(known, root, where)
        case "object" if known.get("properties"):
            return _object(known, root, where)
        case _:
            raise NoSpaceError(where or "/")


def _choices(values: list[Any]) -> Codec:
    index: dict[Any, int] = {to_json(value): number for number, value in enumerate(values)}
    number = _by_text(index)
    if {type(value) for value in values} in ({str}, {int}, {bool}):
        # None of them equals another one, so that a dictionary tells them apart without their texts.
        number = {value: number for number, value in enumerate(values)}.__getitem__
    return Codec(
        space=spaces.Discrete(len(values)),
        encode=lambda value: np.int64(number(value)),
        decode=lambda element: values[int(element)],
        zero=np.int64(0),
        flat=_one_hot(len(values), number),
    )


def _by_text(index: Mapping[str, int]) -> Callable[[Any], int]:
    return lambda value: index[to_json(value)]


def _one_hot(count: int, number: Callable[[Any], int]) -> Callable[[Any, list[float]], None]:
    """Append `count` numbers of which the one with a value's number is 1."""
    rows = [[float(one == which) for one in range(count)] for which in range(count if count <= MOST_ROWS else 0)]

    def flat(value: Any, out: list[float]) -> None:
        which = number(value)
        if not 0 <= which < count:
            raise ValueError(f"{value!r} is out of bounds")
        if rows:
            out.extend(rows[which])
            return
        out.extend([0.0] * count)
        out[which - count] = 1.0

    return flat


def _flattened(space: Space[Any], encode: Callable[[Any], Any]) -> Callable[[Any, list[float]], None]:
    """Leave it to the library."""
    return lambda value, out: out.extend(_vector(space, encode(value)))


def _vector(space: Space[Any], element: Any) -> list[float]:
    return np.asarray(spaces.flatten(space, element)).ravel().tolist()


def _number(known: _Json, *, whole: bool) -> Codec:
    low, high = _bounds(known)
    if whole and low is not None and high is not None and high - low < MOST_CHOICES:
        least = int(low)
        count = int(high) - least + 1
        return Codec(
            space=spaces.Discrete(count, start=least),
            encode=np.int64,
            decode=int,
            zero=np.int64(least),
            flat=_one_hot(count, lambda value: value - least),
        )
    kind = np.int64 if whole else np.float64
    least, most = (-EXACT, EXACT) if whole else (-np.inf, np.inf)
    space = spaces.Box(least if low is None else low, most if high is None else high, (), kind)
    return Codec(
        space=space,
        encode=lambda value: np.asarray(value, kind),
        decode=lambda element: np.asarray(element).item(),
        zero=np.clip(np.zeros((), kind), space.low, space.high),
        # The sum fails for what is no number.
        flat=lambda value, out: out.append(value + 0.0),
    )


def _text(longest: int) -> Codec:
    def encode(value: Any) -> str:
        return "".join(letter if letter in _CHARACTERS else "?" for letter in value[:longest])

    space = spaces.Text(longest, min_length=0, charset=_CHARACTERS)
    return Codec(space=space, encode=encode, decode=str, zero="", flat=_flattened(space, encode))


def _optional(inner: Codec) -> Codec:
    def encode(value: Any) -> Any:
        given = value is not None
        return {"given": np.int64(given), "value": inner.encode(value) if given else inner.zero}

    nothing: list[float] = []

    def flat(value: Any, out: list[float]) -> None:
        if value is not None:
            out += (0.0, 1.0)
            inner.flat(value, out)
            return
        if not nothing:
            nothing.extend(_vector(inner.space, inner.zero))
        out += (1.0, 0.0)
        out += nothing

    return Codec(
        space=spaces.Dict({"given": spaces.Discrete(2), "value": inner.space}),
        encode=encode,
        decode=lambda element: inner.decode(element["value"]) if element["given"] else None,
        zero={"given": np.int64(0), "value": inner.zero},
        flat=flat,
    )


def _one_of(several: list[Codec]) -> Codec:
    def encode(value: Any) -> Any:
        for number, one in enumerate(several):
            try:
                element = one.encode(value)
            except (LookupError, TypeError, ValueError):
                continue
            return (np.int64(number), element)
        raise ValueError(f"{value!r} has none of the types")

    space = spaces.OneOf([one.space for one in several])
    return Codec(
        space=space,
        encode=encode,
        decode=lambda element: several[int(element[0])].decode(element[1]),
        zero=(np.int64(0), several[0].zero),
        flat=_flattened(space, encode),
    )


def _object(known: _Json, root: _Json, where: str) -> Codec:
    needed: Any = known.get("required", [])
    fields: dict[str, Codec] = {}
    for name, inner in known["properties"].items():
        one = _codec(inner, root, f"{where}/{name}")
        always = name in needed or "default" in inner
        fields[name] = one if always else _optional(one)
    space = spaces.Dict({name: one.space for name, one in fields.items()})
    # In the order of the space.
    parts = [(name, fields[name].flat, name in needed) for name in space.spaces]

    def flat(value: Any, out: list[float]) -> None:
        for name, part, always in parts:
            part(value[name] if always else value.get(name), out)

    return Codec(
        space=space,
        encode=lambda value: {
            name: one.encode(value[name] if name in needed else value.get(name)) for name, one in fields.items()
        },
        decode=lambda element: {
            name: decoded
            for name, one in fields.items()
            if (decoded := one.decode(element[name])) is not None or name in needed
        },
        zero={name: one.zero for name, one in fields.items()},
        flat=flat,
    )


def _array(known: _Json, root: _Json, where: str) -> Codec:
    first = [_codec(inner, root, f"{where}/{index}") for index, inner in enumerate(known.get("prefixItems", []))]
    if first:
        return _tuple(first)
    item = _codec(known.get("items", {}), root, f"{where}/*")
    least, most = known.get("minItems", 0), known.get("maxItems")
    if most is not None and least == most:
        return _fixed(item, most)
    if most is not None and most <= MOST_PADDED:
        return _padded(item, most)
    return Codec(
        space=spaces.Sequence(item.space),
        encode=lambda value: tuple(item.encode(one) for one in value),
        decode=lambda element: [item.decode(one) for one in element],
        zero=(),
        flat=_no_length,
    )


def _no_length(value: Any, out: list[float]) -> None:
    raise TypeError("a list of any length does not have a fixed number of numbers")


def _padded(item: Codec, most: int) -> Codec:
    values = _fixed(item, most)
    nothing = item.decode(item.zero)
    length = _one_hot(most + 1, len)

    def encode(value: Any) -> Any:
        return {
            "length": np.int64(len(value)),
            "values": values.encode([*value, *[nothing] * (most - len(value))]),
        }

    def flat(value: Any, out: list[float]) -> None:
        length(value, out)
        values.flat([*value, *[nothing] * (most - len(value))], out)

    return Codec(
        space=spaces.Dict({"length": spaces.Discrete(most + 1), "values": values.space}),
        encode=encode,
        decode=lambda element: values.decode(element["values"])[: int(element["length"])],
        zero={"length": np.int64(0), "values": values.zero},
        flat=flat,
    )


def _tuple(items: list[Codec]) -> Codec:
    def flat(value: Any, out: list[float]) -> None:
        for item, one in zip(items, value, strict=True):
            item.flat(one, out)

    space = _row(items)
    if space is not None:
        return Codec(
            space=space,
            encode=lambda value: np.asarray(
                [item.encode(one) for item, one in zip(items, value, strict=True)], space.dtype
            ),
            decode=lambda element: [item.decode(one) for item, one in zip(items, element, strict=True)],
            zero=np.asarray([item.zero for item in items], space.dtype),
            flat=flat,
        )
    return Codec(
        space=spaces.Tuple([item.space for item in items]),
        encode=lambda value: tuple(item.encode(one) for item, one in zip(items, value, strict=True)),
        decode=lambda element: [item.decode(one) for item, one in zip(items, element, strict=True)],
        zero=tuple(item.zero for item in items),
        flat=flat,
    )


def _row(items: list[Codec]) -> Space[Any] | None:
    """One space for a list of numbers with bounds of their own; None if the items are something else."""
    several: list[Any] = [item.space for item in items]
    if all(isinstance(one, spaces.Discrete) for one in several):
        return spaces.MultiDiscrete([int(one.n) for one in several], start=[int(one.start) for one in several])
    if len({one.dtype for one in several}) == 1 and all(
        isinstance(one, spaces.Box) and not one.shape for one in several
    ):
        low, high = (np.array([getattr(one, end) for one in several]) for end in ("low", "high"))
        return spaces.Box(low, high, dtype=several[0].dtype.type)
    return None


def _fixed(item: Codec, count: int) -> Codec:
    of: Any = item.space
    space: Any
    if isinstance(item.space, spaces.Discrete) and of.n == 2 and item.decode(1) is True:
        space = spaces.MultiBinary(count)
    elif isinstance(item.space, spaces.MultiBinary):
        space = spaces.MultiBinary((count, *of.shape))
    elif isinstance(item.space, spaces.Discrete):
        space = spaces.MultiDiscrete([int(of.n)] * count, start=[int(of.start)] * count)
    elif isinstance(item.space, spaces.MultiDiscrete):
        space = spaces.MultiDiscrete(np.stack([of.nvec] * count), start=np.stack([of.start] * count))
    elif isinstance(item.space, spaces.Box):
        space = spaces.Box(np.stack([of.low] * count), np.stack([of.high] * count), dtype=of.dtype.type)
    else:
        return _tuple([item] * count)

    def encode(value: Any) -> Any:
        if len(value) != count:
            raise ValueError(f"a list of {len(value)} items instead of {count}")
        return np.asarray([item.encode(one) for one in value], space.dtype).reshape(space.shape)

    def flat(value: Any, out: list[float]) -> None:
        if len(value) != count:
            raise ValueError(f"a list of {len(value)} items instead of {count}")
        for one in value:
            item.flat(one, out)

    return Codec(
        space=space,
        encode=encode,
        decode=lambda element: [item.decode(one) for one in element],
        zero=np.asarray([item.zero] * count, space.dtype).reshape(space.shape),
        # Flags are one number each, and not one of two.
        flat=_flattened(space, encode) if isinstance(space, spaces.MultiBinary) else flat,
    )
