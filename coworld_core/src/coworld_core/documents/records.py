"""Base classes for the files that runs leave on disk: written strictly, read leniently.

A value built by code may only have the fields and values of this version. A file written by another version is read as
far as possible: unknown fields, at any depth, are kept and written back by `model_dump_json`, and so are unknown
values of enumerations marked with `OpenEnum`. Every version writes the fields without a default, which readers need.
"""

# No annotations from __future__: pydantic 2.11 and 2.12 look in other modules for the names in that of extra fields

import io
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
)
from pydantic_core import CoreSchema, PydanticKnownError, PydanticSerializationError, core_schema

from ..errors import RecordError, UsageError
from ..files.regular import MAX_FILE, read_regular, regular_lines
from ..text.terminal import writable

if TYPE_CHECKING:
    from .json_text import JsonDocument, Source

__all__ = [
    "READING",
    "OpenEnum",
    "Record",
    "SchemaVersion",
    "is_empty",
    "open_record",
    "parse_record",
    "read_as",
    "read_lines",
    "record_unreadable",
]

_Model = TypeVar("_Model", bound=BaseModel)

_MAX_DEPTH = 128
"""Deeper than any record: documents from others that a record contains are limited to half of it."""

READING: dict[str, bool] = {"reading": True}
"""Validation context for reading a value that another program wrote."""


def _kept(value: Any, info: ValidationInfo) -> Any:
    """Keep an unknown field when reading; refuse it otherwise."""
    if info.context is READING:
        return value
    raise PydanticKnownError("extra_forbidden")


def _closed(schema: dict[str, Any]) -> None:
    """Forbid unknown fields in the JSON Schema, which describes the written form."""
    schema["additionalProperties"] = False


class Record(BaseModel):
    """A part of a file that a run leaves. The constructor builds one to write; `read_as` reads one."""

    # Built on first use: importing a record must not delay the start of a game
    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True, json_schema_extra=_closed)

    # Extra fields are allowed so that they can be written back; only values that have some pay for the check.
    __pydantic_extra__: dict[str, Annotated[Any, AfterValidator(_kept)]] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]

    def model_dump_json(self, *, indent: int | None = None, **options: Any) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The value as JSON; paths and texts that are not Unicode as `writable` shows them."""
        try:
            return super().model_dump_json(indent=indent, **options)
        except PydanticSerializationError:
            layout = (",", ":") if indent is None else None
            value = self.model_dump(mode="json", **options)
            return writable(json.dumps(value, ensure_ascii=False, indent=indent, separators=layout))

    def to_line(self) -> bytes:
        """The record as a line of a log."""
        return f"{self.model_dump_json()}\n".encode()

    def to_document(self) -> bytes:
        """The record as the content of a file of its own, indented by two."""
        return f"{self.model_dump_json(indent=2)}\n".encode()


class _Open:
    """Accepts unknown values when a record is read.

    Args:
        plausible: Whether a value may be one that another version defines.
    """

    def __init__(self, plausible: Callable[[object], bool]) -> None:
        self._plausible = plausible

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The declared schema, extended for reading; values are written unchanged."""
        return core_schema.with_info_wrap_validator_function(
            self._read, handler(source), serialization=core_schema.simple_ser_schema("any")
        )

    def _read(self, value: Any, known: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        if info.context is READING and self._plausible(value):
            return value
        return known(value)


def is_empty(value: object) -> bool:
    """Whether a field that is left out if it has nothing in it (`exclude_if`) is left out."""
    return not value


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_later(value: object) -> bool:
    return isinstance(value, int) and value > 1


OpenEnum = _Open(_is_text)
"""Marks an enumeration of strings that later versions may extend: `Annotated[Literal[...], OpenEnum]`."""


SchemaVersion = Annotated[Literal[1], _Open(_is_later)]
"""Version of a file format. Files of later versions are read as far as possible."""


def open_record(source: "Source", *, what: str, name: str, most: int = MAX_FILE) -> "JsonDocument":
    """Open a file that a run left, as a JSON document.

    Args:
        source: The path of the file or of the directory that holds it, its content as bytes, or the JSON as a Python
            value.
        what: A noun for messages.
        name: The file's name in a run's directory.
        most: Bytes that the file may have.

    Raises:
        UsageError: The file does not exist (`record_not_found`), or it cannot be read, is no regular file or is larger
            (`record_unreadable`).
    """
    from .json_text import wrap_json

    if isinstance(source, Mapping):
        return wrap_json(source, source=what, max_depth=_MAX_DEPTH)
    if isinstance(source, bytes):
        return parse_record(source, source=what)
    path = _place(source, name)
    try:
        return parse_record(read_regular(path, most=most), source=str(path))
    except OSError as error:
        raise record_unreadable(path, name, error) from error


def read_lines(source: Path | str | bytes, *, what: str, name: str) -> "Iterator[JsonDocument]":
    """Read a file with one JSON object per line, line by line.

    Skips an incomplete last line, which a run leaves when it is killed or still going.

    Args:
        source: The path of the file or of the directory that holds it, or its content as bytes.
        what: The name of the source in messages, if it is bytes.
        name: The file's name in a run's directory.

    Raises:
        UsageError: As for `open_record`, or one of its lines is too long.
    """
    place = what if isinstance(source, bytes) else str(_place(source, name))
    try:
        # Split at newlines only: strings may contain other characters that count as line ends
        for number, line in enumerate(io.BytesIO(source) if isinstance(source, bytes) else regular_lines(place), 1):
            document = parse_record(line.rstrip(b"\n"), source=f"{place}:{number}")
            if line.endswith(b"\n") or not line.startswith(b"{") or document.usable:
                yield document
    except OSError as error:
        raise record_unreadable(Path(place), name, error) from error


def _place(source: Path | str, name: str) -> Path:
    try:
        return Path(source) / name if Path(source).is_dir() else Path(source)
    except (OSError, ValueError):
        return Path(source)


def record_unreadable(path: Path, name: str, error: OSError) -> UsageError:
    """The error for a file that does not exist (`record_not_found`) or cannot be read (`record_unreadable`).

    Args:
        path: The file.
        name: Its name in a run's directory.
        error: Why.
    """
    missing = isinstance(error, FileNotFoundError)
    return UsageError(
        f"There is no file {path}." if missing else f"{path} cannot be read: {error.strerror or error}.",
        code="record_not_found" if missing else "record_unreadable",
        hint=f"Name a run's {name}, or the directory that holds it.",
    )


def parse_record(data: str | bytes, *, source: str) -> "JsonDocument":
    """Parse JSON without a size limit of its own: a file that was written must stay readable."""
    from .json_text import parse_json

    return parse_json(data, source=source, max_bytes=len(data), max_depth=_MAX_DEPTH, max_values=None)


def read_as(model: type[_Model], document: "JsonDocument", *, what: str) -> _Model:
    """Read a document as a record that any version may have written.

    Args:
        model: The model of the record.
        document: The document.
        what: A noun for messages.

    Raises:
        RecordError: It is not such a record, or lacks a required field; `report` lists every error.
    """
    from dataclasses import replace

    from .findings import Finding, type_word
    from .json_text import json_report
    from .shapes import parse_shape

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
    hint = f"Check that it has not been edited, and that it is a valid {what}."
    if _is_later(version):
        hint = f"A later version of coworld wrote it, with schema version {version}: update this one."
    # Records are not edited by hand
    findings = [replace(finding, hint=None) for finding in findings]
    raise RecordError(json_report(document, findings), hint=hint)
