"""Resources as they go over the wire: read leniently, built strictly.

`Model.read(raw)` accepts whatever a server sent. Unknown fields are kept. A field with a wrong value takes its
neutral value, is reported in `odd`, and is dumped by `model_dump` as it was received, so one odd row never breaks a
listing. Servers build their answers with `Model(...)`, which raises on wrong values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Self, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    model_serializer,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from ..documents.findings import pointer, quoted, type_word
from ..documents.records import READING
from ..errors import RemoteError, UsageError
from ..issues import Issue

__all__ = ["Body", "LongText", "Text", "Time", "Wire", "newer", "part", "read_entries", "required"]

_Row = TypeVar("_Row", bound="Wire")

_PLAIN: dict[str, bool] = {"plain": True}
"""Serialisation context for the wire: leaves out fields that a client computes."""

_MAX_ODD = 50
"""Maximum number of issues listed for one value."""
_MAX_CUTS = 200
"""A value with more mistakes than this loses the affected fields, instead of being repaired one mistake at a time."""


def _aware(value: datetime) -> datetime:
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


Time = Annotated[datetime, AfterValidator(_aware)]
"""A point in time; without a time zone it is taken as UTC."""

# Databases cannot store a NUL in text, and servers limit the length of text. The client refuses such values before
# sending them.
Text = Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00]*$")]
"""A short text in a body, such as a name or an id."""

LongText = Annotated[str, StringConstraints(max_length=20_000, pattern=r"^[^\x00]*$")]
"""A longer text in a body."""


def required(description: str, default: Any = "") -> Any:
    """A field that a server has to send; if it does not, the field takes its neutral value."""
    return Field(default=default, description=description, json_schema_extra={"x-required": True})


def part(model: type[Wire], description: str) -> Any:
    """A required nested resource; if it is missing, it takes neutral values in all its fields."""
    return Field(default_factory=model.blank, description=description, json_schema_extra={"x-required": True})


def newer(description: str, default: Any = None) -> Any:
    """A field that only some servers know; it is sent only if it was given."""
    return Field(default=default, description=description, json_schema_extra={"x-newer": True})


def _marked(field: FieldInfo, mark: str) -> bool:
    extra = cast("object", field.json_schema_extra)
    return isinstance(extra, dict) and mark in cast("dict[str, object]", extra)


def _published_schema(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Declare required fields as JSON Schema does, and remove internal markers and computed fields from the schema."""
    names: list[str] = []
    properties = cast("dict[str, dict[str, Any]]", schema.get("properties", {}))
    for name in model.model_computed_fields:
        if properties.pop(name, None) is not None:
            schema["required"] = [given for given in schema["required"] if given != name]
    for name, shape in properties.items():
        shape.pop("x-newer", None)
        if shape.pop("x-required", False):
            names.append(name)
            shape.pop("default", None)
    if names:
        schema["required"] = sorted({*schema.get("required", ()), *names})


class Wire(BaseModel):
    """A resource as a platform sends it.

    Clients create one from a server's JSON with `read`; servers use the constructor.
    """

    __slots__ = ("_odd", "_raw")

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        populate_by_name=True,
        coerce_numbers_to_str=True,
        allow_inf_nan=False,
        protected_namespaces=(),
        defer_build=True,
        json_schema_extra=cast("Any", _published_schema),
    )

    _required: ClassVar[frozenset[str]] = frozenset()
    _newer: ClassVar[frozenset[str]] = frozenset()
    _computed: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Sort the fields by their markers, once per class."""
        super().__pydantic_init_subclass__(**kwargs)
        fields = cls.model_fields.items()
        cls._required = frozenset(name for name, field in fields if _marked(field, "x-required"))
        cls._newer = frozenset(name for name, field in fields if _marked(field, "x-newer"))
        cls._computed = frozenset(cls.model_computed_fields)

    @classmethod
    def read(cls, raw: object) -> Self:
        """Read what a server sent.

        Args:
            raw: The JSON value.

        Raises:
            RemoteError: Code `not_an_object` if it is not an object. Anything else that is wrong is reported in
                `odd`.
        """
        if not isinstance(raw, Mapping):
            raise RemoteError(
                f"Where {_article(cls.__name__)} was expected, the server sent {type_word(raw)}.", code="not_an_object"
            )
        return cls.model_validate(raw, context=READING)

    @classmethod
    def blank(cls) -> Self:
        """An instance with neutral values in all fields, used when a server left the resource out."""
        return cls.model_construct()

    @property
    def odd(self) -> tuple[Issue, ...]:
        """Issues with wrong values, in this resource and nested ones; empty if there are none."""
        return tuple(_odd_values(self, ()))

    def to_wire(self) -> dict[str, Any]:
        """The resource as JSON-ready data for the wire, without fields that a client computes."""
        return self.model_dump(mode="json", by_alias=True, context=_PLAIN)

    @model_validator(mode="wrap")
    @classmethod
    def _read_leniently(cls, data: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        if isinstance(data, cls):
            return data
        reading = info.context is READING
        if cls._computed and reading and isinstance(data, dict):
            # A server must not set computed properties
            given = cast("dict[str, Any]", data)
            if not cls._computed.isdisjoint(given):
                data = {key: value for key, value in given.items() if key not in cls._computed}
        try:
            value = handler(data)
        except ValidationError as error:
            if not reading or not isinstance(data, Mapping):
                raise
            return cls._mended(cast("Mapping[str, Any]", data), handler, error)
        if missing := cls._required - value.model_fields_set:
            if not reading:
                names = ", ".join(sorted(missing))
                raise PydanticCustomError("missing", "{name} lacks {names}", {"name": cls.__name__, "names": names})
            value._note(_missing(cls, missing), {})
        return value

    @classmethod
    def _mended(cls, data: Mapping[str, Any], handler: ModelWrapValidatorHandler[Self], error: ValidationError) -> Self:
        """Read again without the wrong values: first without the exact values, then without whole fields."""
        issues: list[Issue] = []
        reduced: dict[str, Any] = dict(data)
        raw: dict[str, Any] = {}
        for whole in (error.error_count() > _MAX_CUTS, True):
            for place, found in _whole_fields(reduced, handler) if whole else _places(error, reduced):
                issues.append(Issue(**found))
                raw[str(place[0])] = data.get(str(place[0]))
                reduced = cast("dict[str, Any]", _without(reduced, place))
            try:
                value = handler(reduced)
            except ValidationError as again:
                error = again
                continue
            break
        else:
            value = cls.model_construct(**{key: item for key, item in reduced.items() if key not in cls.model_fields})
        absent = cls._required - value.model_fields_set - raw.keys()
        value._note([*issues, *_missing(cls, absent)], raw)
        return value

    def _note(self, issues: list[Issue], raw: dict[str, Any]) -> None:
        object.__setattr__(self, "_odd", tuple(issues[:_MAX_ODD]))
        object.__setattr__(self, "_raw", raw)

    @model_serializer(mode="wrap")
    def _as_it_came(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo):
        data: dict[str, Any] = handler(self)
        for name in self._newer - self.model_fields_set:
            data.pop(name, None)
        if (raw := getattr(self, "_raw", None)) is not None:
            data |= raw
        if info.context is _PLAIN:
            for name in self._computed:
                data.pop(name, None)
        return data


class Body(BaseModel):
    """The body of a request, shared by client and server. Unknown keys are errors, and unset fields are not sent."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)

    @classmethod
    def of(cls, **values: Any) -> Self:
        """Build a body to send from a caller's values.

        Raises:
            UsageError: Code `bad_body` if no platform would accept it; the message says which field is wrong, and
                why.
        """
        try:
            return cls(**values)
        except ValidationError as error:
            wrong = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(map(str, wrong["loc"])) or cls.__name__
            raise UsageError(f"{place}: {wrong['msg']}.", code="bad_body") from None

    def to_wire(self) -> dict[str, Any]:
        """The body as JSON-ready data, by alias and without nulls."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def read_entries(model: type[_Row], raw: Iterable[object]) -> tuple[tuple[_Row, ...], tuple[Issue, ...]]:
    """Read the rows of a list.

    Args:
        model: The model of a row.
        raw: The JSON values.

    Returns:
        The rows that are objects, in order (issues with one are in its `odd`), and one issue for each row that is
        not, with a pointer into the list.
    """
    rows: list[_Row] = []
    issues: list[Issue] = []
    for index, item in enumerate(raw):
        try:
            rows.append(model.read(item))
        except RemoteError as error:
            if len(issues) < _MAX_ODD:
                issues.append(Issue(code=error.code, pointer=f"/{index}", message=error.message, severity="warning"))
    return tuple(rows), tuple(issues)


def _article(name: str) -> str:
    return f"{'an' if name[:1] in 'AEIOU' else 'a'} {name}"


def _missing(model: type[Wire], names: Iterable[str]) -> list[Issue]:
    return [
        Issue(code="missing_field", severity="warning", message=f"{_article(model.__name__)} lacks {quoted(name)}.")
        for name in sorted(names)
    ]


_Place = tuple[str | int, ...]


def _places(error: ValidationError, data: Mapping[str, Any]) -> list[tuple[_Place, dict[str, Any]]]:
    """Which values to remove and why, last list elements first so that earlier ones keep their index."""
    found: dict[_Place, dict[str, Any]] = {}
    for raw in error.errors(include_url=False, include_context=False, include_input=False):
        place = _existing(raw["loc"], data)
        if not place or any(place[: len(known)] == known for known in found):
            continue
        value: Any = data
        for key in place:
            value = value[key]
        found[place] = _odd(place, value, raw["msg"])
    return sorted(found.items(), key=lambda item: [(str(type(key)), key) for key in item[0]], reverse=True)


def _whole_fields(
    data: Mapping[str, Any], handler: Callable[[dict[str, Any]], object]
) -> Iterator[tuple[_Place, dict[str, Any]]]:
    """The fields with wrong values, each tried on its own."""
    for name, value in data.items():
        try:
            handler({name: value})
        except ValidationError as error:
            count = error.error_count()
            yield (
                (name,),
                _odd((name,), value, "it does not fit" if count == 1 else f"it does not fit in {count} places"),
            )


def _odd(place: _Place, value: Any, why: str) -> dict[str, Any]:
    message = f"{'.'.join(map(str, place))} is {quoted(value)}: {why}."
    return {"code": "odd_value", "severity": "warning", "pointer": pointer(place), "message": message}


def _existing(loc: _Place, data: Any) -> _Place:
    """The part of a location that exists in the data; pydantic also adds the names of union branches."""
    place: list[str | int] = []
    for key in loc:
        if (isinstance(data, Mapping) and key in data) or (
            isinstance(data, list) and isinstance(key, int) and key < len(cast("list[Any]", data))
        ):
            place.append(key)
            data = cast("Any", data)[key]
        else:
            break
    return tuple(place)


def _without(data: Any, place: _Place) -> Any:
    """A copy without the value at one path, sharing everything off that path."""
    copy: Any = dict(cast("Mapping[str, Any]", data)) if isinstance(data, Mapping) else list(data)
    if len(place) == 1:
        del copy[place[0]]
    else:
        copy[place[0]] = _without(copy[place[0]], place[1:])
    return copy


def _odd_values(value: Any, path: _Place) -> Iterator[Issue]:
    if isinstance(value, Wire):
        for issue in getattr(value, "_odd", ()):
            yield issue.model_copy(update={"pointer": pointer(path) + issue.pointer})
        for name in type(value).model_fields:
            yield from _odd_values(getattr(value, name), (*path, name))
    elif isinstance(value, tuple):
        for index, item in enumerate(cast("tuple[Any, ...]", value)):
            yield from _odd_values(item, (*path, index))
