"""The base of all resources: reading answers and lists."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from coworld_core.api import Body, PolicyRef, Wire, check_id
from coworld_core.errors import UsageError
from coworld_core.records.labels import check_names, matches_labels

from ..pages import AsyncPager
from ..transport._connection import Connection, path
from ..transport._replies import Reply, read
from ._names import Named, id_of

if TYPE_CHECKING:
    from ..client import CoworldClient

__all__ = [
    "Keep",
    "Resource",
    "has_labels",
    "label_query",
    "optional_id",
    "policy_filter",
    "version_is",
]

_T = TypeVar("_T", bound=Wire)

Keep = Callable[[], Awaitable[Callable[[_T], bool]]]
"""Prepares a filter of rows."""


class Resource:
    """A resource of the API.

    Args:
        client: The client it belongs to.
    """

    def __init__(self, client: CoworldClient) -> None:
        self._client = client

    @property
    def _connection(self) -> Connection:
        return self._client.connection

    async def _get(self, model: type[_T], target: str, *, timeout: float | None = None) -> _T:
        return read(model, await self._connection.call("GET", target, timeout=timeout))

    async def _post(
        self,
        model: type[_T],
        target: str,
        body: Body | Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> _T:
        """Create something. The call carries an idempotency key, a new one or the caller's, so it may be repeated."""
        json = body.to_wire() if isinstance(body, Body) else body
        reply = await self._connection.call("POST", target, json=json, timeout=timeout, key=idempotency_key or True)
        return read(model, reply)

    def _list(
        self,
        model: type[_T],
        target: str,
        params: Mapping[str, Any] | None = None,
        *,
        of: str | Named | None = None,
        limit: int | None = None,
        offset: int = 0,
        cursor: str | None = None,
        page_size: int = 100,
        keep: Keep[_T] | None = None,
        whole: bool = False,
        timeout: float | None = None,
    ) -> AsyncPager[_T]:
        """List rows. A filter or `of`, whose id the target needs, may be `Named`: then it is looked up once."""
        filters: dict[str, Any] = {**(params or {}), "": of}

        async def fetch(*, limit: int | None, offset: int | None, cursor: str | None) -> Reply:
            await self._look_up(filters, timeout)
            asked = {key: value for key, value in filters.items() if key}
            place: dict[str, Any] = {"limit": limit, "offset": None if cursor else offset, "cursor": cursor}
            whole = path(target, filters[""]) if of is not None else target
            return await self._connection.call("GET", whole, params={**asked, **place}, timeout=timeout)

        return AsyncPager(
            fetch,
            model,
            limit=limit,
            offset=offset,
            cursor=cursor,
            page_size=page_size,
            keep=keep,
            whole=whole,
        )

    async def _look_up(self, filters: dict[str, Any], timeout: float | None) -> None:
        """Put ids in the place of names."""
        for key, value in filters.items():
            if isinstance(value, Named):
                filters[key] = await id_of(self._client, value.name, value.kind, league=value.league, timeout=timeout)

    async def _id(self, text: str, kind: str, *, timeout: float | None = None) -> str:
        """The id of what is given by its id or its name; see `id_of`."""
        return await id_of(self._client, text, kind, timeout=timeout)

    def _of_policy(
        self,
        model: type[_T],
        target: str,
        policy: str | PolicyRef | None,
        params: Mapping[str, Any],
        *,
        limit: int | None,
        cursor: str | None,
        timeout: float | None,
    ) -> AsyncPager[_T]:
        """List rows of leagues that belong to policies, filtered by `policy` if it is not None."""
        version, ref = policy_filter(policy)
        return self._list(
            model,
            target,
            {**params, "policy_version_id": version},
            limit=limit,
            cursor=cursor,
            # Some servers take no offset here, so the first page is as long as they allow
            page_size=1000,
            keep=version_is(ref),
            timeout=timeout,
        )


def label_query(labels: Mapping[str, str] | None) -> list[str] | None:
    """A search for labels as a query: a pattern for the value of each.

    Raises:
        UsageError: Code `bad_label`: a name is none.
    """
    if not labels:
        return None
    check_names(labels)
    return [f"{name}={pattern}" for name, pattern in labels.items()]


def has_labels(tags: Mapping[str, str] | None, labels: Mapping[str, str] | None, server: str) -> bool:
    """Whether a row of a list has labels that fit their patterns; servers may not filter by them.

    Raises:
        UsageError: Code `no_labels`: the server does not say which labels the row has.
    """
    if not labels:
        return True
    if tags is None:
        raise UsageError(
            f"{server} keeps no labels here, so nothing can be found by them.",
            code="no_labels",
            hint="List without labels, and choose by other fields.",
            context={"server": server},
        )
    return matches_labels(tags, labels)


def optional_id(text: str | None, kind: str) -> str | None:
    """An id for a query, checked, or None."""
    return None if text is None else check_id(text, kind)


def policy_filter(policy: str | PolicyRef | None) -> tuple[str | None, PolicyRef | None]:
    """Split a filter by policy into the server's part and ours, because servers filter only by a version's id.

    Args:
        policy: `NAME`, `NAME:v3`, a version's UUID, or None.

    Returns:
        The id for the query, or the reference to filter rows by; both None without a policy.

    Raises:
        UsageError: Code `bad_policy`.
    """
    if policy is None:
        return None, None
    ref = PolicyRef.parse(policy) if isinstance(policy, str) else policy
    return (ref.id, None) if ref.id is not None else (None, ref)


def version_is(ref: PolicyRef | None) -> Keep[Any] | None:
    """A filter of rows that have a `policy_version`; None without a reference."""
    if ref is None:
        return None

    async def prepare() -> Callable[[Any], bool]:
        return lambda row: row.policy_version is not None and ref.matches(row.policy_version)

    return prepare
