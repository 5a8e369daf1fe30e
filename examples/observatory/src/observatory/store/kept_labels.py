"""Labels in the database: set, changed, read, and searched for.

An episode has the labels of its experience request, except where it has its own: these precede, and can take a label
away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from coworld_core.records import pattern_regex

from .models import EpisodeRequest, Label

__all__ = ["change_labels", "labelled", "labelled_episode", "labels_of", "labels_of_episodes", "set_labels"]


async def set_labels(session: AsyncSession, subject_id: str, labels: Mapping[str, str] | None) -> None:
    """Give something new its first labels."""
    session.add_all(Label(subject_id=subject_id, name=name, value=value) for name, value in (labels or {}).items())
    await session.flush()


async def change_labels(
    session: AsyncSession, subject_id: str, changes: Mapping[str, str | None], *, above: str | None = None
) -> dict[str, str]:
    """Change labels, and return all that hold.

    Args:
        session: A writing session.
        subject_id: What is labelled.
        changes: New values by name; None takes a label away.
        above: The experience request of an episode.
    """
    for name, value in changes.items():
        if value is None and above is None:
            await session.execute(sa.delete(Label).where(Label.subject_id == subject_id, Label.name == name))
        else:
            await session.merge(Label(subject_id=subject_id, name=name, value=value))
    await session.flush()
    return await _of_one(session, subject_id, above)


async def labels_of(session: AsyncSession, subject_ids: Iterable[str]) -> dict[str, dict[str, str]]:
    """The labels of things that stand by themselves, by id; each id has an entry."""
    return {id: _held(found) for id, found in (await _rows(session, subject_ids)).items()}


async def labels_of_episodes(session: AsyncSession, episodes: Iterable[EpisodeRequest]) -> dict[str, dict[str, str]]:
    """The labels of episodes, by id; each has an entry."""
    above = {row.id: row.experience_request_id for row in episodes}
    rows = await _rows(session, [*above, *{request for request in above.values() if request is not None}])
    return {id: _held(rows.get(request or "", {}) | rows[id]) for id, request in above.items()}


def labelled(key: InstrumentedAttribute[str], patterns: Mapping[str, str]) -> sa.ColumnElement[bool]:
    """The condition that something has labels of these names, with values that fit their patterns."""
    return sa.and_(sa.true(), *(key.in_(_with(name, pattern)) for name, pattern in patterns.items()))


def labelled_episode(patterns: Mapping[str, str]) -> sa.ColumnElement[bool]:
    """The same condition for an episode, which has the labels of its request as well."""
    conditions: list[sa.ColumnElement[bool]] = [sa.true()]
    for name, pattern in patterns.items():
        own = sa.select(Label.subject_id).where(Label.name == name)
        inherited = sa.and_(
            EpisodeRequest.experience_request_id.in_(_with(name, pattern)), EpisodeRequest.id.not_in(own)
        )
        conditions.append(sa.or_(EpisodeRequest.id.in_(_with(name, pattern)), inherited))
    return sa.and_(*conditions)


def _with(name: str, pattern: str) -> sa.Select[str]:
    # In a pattern of SQLite, only `^` negates a set
    shell = pattern.replace("[!", "[^")
    return sa.select(Label.subject_id).where(
        Label.name == name,
        Label.value.is_not(None),
        _Fits(Label.value, sa.literal(shell), sa.literal(pattern_regex(pattern))),
    )


class _Fits(FunctionElement[bool]):
    """Whether a text fits a pattern, which is given for SQLite and for PostgreSQL."""

    type = sa.Boolean()
    inherit_cache = True


@compiles(_Fits, "sqlite")
def _glob(element: _Fits, compiler: SQLCompiler, **how: Any) -> str:
    text, pattern, _ = element.clauses
    return f"{compiler.process(text, **how)} GLOB {compiler.process(pattern, **how)}"


@compiles(_Fits, "postgresql")
def _regex(element: _Fits, compiler: SQLCompiler, **how: Any) -> str:
    text, _, pattern = element.clauses
    return f"{compiler.process(text, **how)} ~ {compiler.process(pattern, **how)}"


async def _rows(session: AsyncSession, subject_ids: Iterable[str]) -> dict[str, dict[str, str | None]]:
    found: dict[str, dict[str, str | None]] = {id: {} for id in subject_ids}
    columns = sa.select(Label.subject_id, Label.name, Label.value)
    for id, name, value in await session.execute(columns.where(Label.subject_id.in_(found))):
        found[id][name] = value
    return found


async def _of_one(session: AsyncSession, subject_id: str, above: str | None) -> dict[str, str]:
    rows = await _rows(session, [subject_id, *([above] if above is not None else [])])
    return _held(rows.get(above or "", {}) | rows[subject_id])


def _held(labels: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in sorted(labels.items()) if value is not None}
