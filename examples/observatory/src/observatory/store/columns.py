"""Building blocks of the tables: ids, times, JSON, and the base class."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, InstrumentedAttribute, MappedColumn, mapped_column

__all__ = ["Base", "JsonList", "JsonObject", "Moment", "id_column", "mentions", "new_id", "now", "reference"]

JsonObject: TypeAlias = dict[str, Any]
JsonList: TypeAlias = list[Any]


def now() -> dt.datetime:
    """The current time in UTC, to the microsecond."""
    return dt.datetime.now(dt.UTC)


def new_id(prefix: str = "") -> str:
    """A fresh id: `<prefix>_<uuid>`, or a bare UUID without a prefix."""
    return f"{prefix}_{uuid.uuid4()}" if prefix else str(uuid.uuid4())


class Moment(sa.TypeDecorator[dt.datetime]):
    """A moment in UTC on every database; SQLite stores it as sortable text without a time zone."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: dt.datetime | None, dialect: sa.Dialect) -> dt.datetime | None:
        """Convert to UTC for the database."""
        return None if value is None else value.astimezone(dt.UTC)

    def process_result_value(self, value: dt.datetime | None, dialect: sa.Dialect) -> dt.datetime | None:
        """Return as UTC, which is assumed where the time zone is missing."""
        if value is None:
            return None
        return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)


# PostgreSQL's `json`, not `jsonb`, so that uploads keep their order and their notation of numbers.
_JSON = sa.JSON(none_as_null=True)


class Base(DeclarativeBase):
    """Base of all tables."""

    metadata = sa.MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        dt.datetime: Moment(),
        JsonObject: _JSON,
        JsonList: _JSON,
        str: sa.String(256),
        int: sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
    }


def id_column(prefix: str = "") -> MappedColumn[Any]:
    """A primary key with a generated value: `<prefix>_<uuid>`, or a bare UUID."""
    default: Callable[[], str] = lambda: new_id(prefix)  # noqa: E731
    return mapped_column(sa.String(64), primary_key=True, default=default)


def reference(target: str, *, index: bool = True, primary_key: bool = False) -> MappedColumn[Any]:
    """A column that points to `table.column`."""
    return mapped_column(sa.String(64), sa.ForeignKey(target), index=index, primary_key=primary_key)


def mentions(
    words: str, *columns: InstrumentedAttribute[str] | InstrumentedAttribute[str | None]
) -> sa.ColumnElement[bool]:
    """Whether one of some columns has a text in it, in upper or lower case; an empty text is in everything."""
    if not words:
        return sa.true()
    return sa.or_(*(column.icontains(words, autoescape=True) for column in columns))
