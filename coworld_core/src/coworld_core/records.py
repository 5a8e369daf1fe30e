"""Files that runs leave on disk for good: written strictly, read leniently.

A value that code makes has the fields and values of this version, and anything else is an error. What another version
has written is read as far as it is understood: fields that are not known here, at any depth, are kept and come out of
``model_dump_json`` again, and so are unknown values of sets that grow (``Grows``). What a reader cannot do without, the
fields without a default, every version writes.
"""

# no annotations from __future__: pydantic 2.11 and 2.12 look in other modules for the names in that of extra fields

import io
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
)
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

from .errors import RecordError, UsageError

if TYPE_CHECKING:
    from .jsontext import JsonDocument
    from .manifest.loading import Source

__all__ = [
    "READING",
    "Grows",
    "Record",
    "SchemaVersion",
    "open_record",
    "parse_record",
    "read_as",
    "read_lines",
]

_Model = TypeVar("_Model", bound=BaseModel)

_MAX_DEPTH = 128
"""Deeper than anything in a record: what comes from others is at most half as deep."""

READING: dict[str, bool] = {"reading": True}
"""Validation context of a value that somebody else made."""


def _kept(value: Any, info: ValidationInfo) -> Any:
    """The value of a field that is not known here."""
    if info.context is READING:
        return value
    raise PydanticKnownError("extra_forbidden")


def _closed(schema: dict[str, Any]) -> None:
    """The schema is that of what is written."""
    schema["additionalProperties"] = False


class Record(BaseModel):
    """A part of a file that a run leaves, made by the constructor to be written, or by ``read_as``."""

    # built when first used: a run imports these long before it needs them, while a game waits to be started
    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True, json_schema_extra=_closed)

    # Extra fields are allowed so that they are written again; only a value that has some pays for the check.
    __pydantic_extra__: dict[str, Annotated[Any, AfterValidator(_kept)]] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]


class _Open:
    """Lets values that are not known here through when a record is read.

    Args:
        plausible: Whether a value may be one that another version knows.
    """

    def __init__(self, plausible: Callable[[object], bool]) -> None:
        self._plausible = plausible

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The closed set, open to readers; written as it is."""
        return core_schema.with_info_wrap_validator_function(
            self._read, handler(source), serialization=core_schema.simple_ser_schema("any")
        )

    def _read(self, value: Any, known: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        return value if info.context is READING and self._plausible(value) else known(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_later(value: object) -> bool:
    return isinstance(value, int) and value > 1


Grows = _Open(_is_text)
"""Marks a set of texts to which later versions add: ``Annotated[Literal[...], Grows]``."""

SchemaVersion = Annotated[Literal[1], _Open(_is_later)]
"""The version of a file's shape. A later one is read as far as it is understood."""


def open_record(source: "Source", *, what: str, name: str) -> "JsonDocument":
    """A file that a run left, as JSON.

    Args:
        source: The path of the file or of the directory that holds it, its content as bytes, or the JSON as a Python
            value.
        what: What it is called in messages.
        name: Its name in a run's directory.

    Raises:
        UsageError: Codes ``record_not_found`` and ``record_unreadable``.
    """
    from .jsontext import wrap_json

    if isinstance(source, Mapping):
        return wrap_json(source, source=what, max_depth=_MAX_DEPTH)
    if isinstance(source, bytes):
        return parse_record(source, source=what)
    path = _place(source, name)
    with _opened(path, name) as file:
        return parse_record(file.read(), source=str(path))


def read_lines(source: Path | str | bytes, *, what: str, name: str) -> "Iterator[JsonDocument]":
    """A file that a run left with one JSON object a line, read piece by piece.

    A last line that was not written to its end, because the run was killed or still goes on, is left out.

    Args:
        source: The path of the file or of the directory that holds it, or its content as bytes.
        what: What it is called in messages.
        name: Its name in a run's directory.

    Raises:
        UsageError: Codes ``record_not_found`` and ``record_unreadable``.
    """
    place = what if isinstance(source, bytes) else str(_place(source, name))
    with io.BytesIO(source) if isinstance(source, bytes) else _opened(Path(place), name) as file:
        # split at newlines only: a text may contain other characters that end lines
        for number, line in enumerate(file, 1):
            document = parse_record(line.rstrip(b"\n"), source=f"{place}:{number}")
            if line.endswith(b"\n") or not line.startswith(b"{") or document.usable:
                yield document


def _place(source: Path | str, name: str) -> Path:
    try:
        return Path(source) / name if Path(source).is_dir() else Path(source)
    except (OSError, ValueError):
        return Path(source)


def _opened(path: Path, name: str) -> IO[bytes]:
    try:
        return path.open("rb")
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError)
        why = error.strerror or error if isinstance(error, OSError) else error
        raise UsageError(
            f"There is no file {path}." if missing else f"{path} cannot be read: {why}.",
            code="record_not_found" if missing else "record_unreadable",
            hint=f"Name a run's {name}, or the directory that holds it.",
        ) from error


def parse_record(data: str | bytes, *, source: str) -> "JsonDocument":
    """JSON of any size: a file that was written must stay readable."""
    from .jsontext import parse_json

    return parse_json(data, source=source, max_bytes=len(data), max_depth=_MAX_DEPTH)


def read_as(model: type[_Model], document: "JsonDocument", *, what: str) -> _Model:
    """Read a document that any version may have written.

    Args:
        model: What it is.
        document: The document.
        what: What it is called in messages.

    Raises:
        RecordError: It is something else, or lacks what a reader cannot do without; ``report`` says all of it.
    """
    from dataclasses import replace

    from ._findings import Finding, type_word
    from ._shape import parse_shape
    from .jsontext import json_report

    value, findings, given = None, list(document.findings), document.value
    if document.usable and not findings:
        if isinstance(given, dict):
            value, findings = parse_shape(
                model, cast("dict[str, Any]", given), strict=True, top=f"the {what}", context=READING
            )
        else:
            message = f"An object is expected, not {type_word(given)}."
            findings = [Finding(code="not_an_object", path=(), message=message)]
    if value is not None:
        return value
    version = cast("dict[str, Any]", given).get("schema_version") if isinstance(given, dict) else None
    hint = f"Was it changed since, or is it no {what} at all?"
    if _is_later(version):
        hint = f"A later version of coworld wrote it, in shape {version}: update this one."
    # records are not edited by hand
    findings = [replace(finding, hint=None) for finding in findings]
    raise RecordError(json_report(document, findings), hint=hint)
