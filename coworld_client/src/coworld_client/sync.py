"""The client for code that is not async: ``CoworldClient``, called from a thread of its own.

::

    with SyncClient.from_login() as api:
        for policy in api.policies.list():
            print(policy.name, policy.version)

Nothing is written twice: a proxy stands for the client and for each of its resources, and turns coroutines into calls,
async iterators into iterators, and async context managers into context managers. Its types are in ``sync.pyi``, which
``tests/client/sync_stub.py`` writes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterable, Callable, Generator, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from types import TracebackType
from typing import Any, Self, cast

from anyio.from_thread import BlockingPortal, start_blocking_portal

from coworld_core.errors import UsageError

from .client import CoworldClient
from .resources._base import Resource
from .sign_in.credentials import DEFAULT_SERVER

__all__ = ["SyncClient"]

_END = object()


class _Bridge:
    """Runs async code in another thread, and shows what comes of it to code that is not async."""

    portal: BlockingPortal | None = None
    """None while the client is closed."""

    def opened(self) -> BlockingPortal:
        """The way into the other thread.

        Raises:
            UsageError: The client is closed (``client_closed``).
        """
        if self.portal is None:
            raise UsageError(
                "The client is not open.", code="client_closed", hint="Use it inside `with SyncClient(...)`."
            )
        return self.portal

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call an async function and wait for its result. An exception here, such as Ctrl-C's, ends it there."""
        future = self.opened().start_task_soon(function, *args)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def shown(self, value: object) -> Any:
        """A value as code that is not async can use it."""
        if inspect.isroutine(value):
            return self._called(cast("Callable[..., Any]", value))
        if isinstance(value, AsyncIterable):
            return _Rows(cast("AsyncIterable[Any]", value), self)
        if isinstance(value, AbstractAsyncContextManager):
            return self._entered(cast("AbstractAsyncContextManager[Any]", value))
        return _Proxy(value, self) if isinstance(value, Resource) else value

    def _called(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if inspect.iscoroutinefunction(function):
                return self.run(functools.partial(function, *args, **kwargs))
            return self.shown(function(*args, **kwargs))

        return call

    @contextmanager
    def _entered(self, manager: AbstractAsyncContextManager[Any]) -> Generator[Any]:
        with self.opened().wrap_async_context_manager(manager) as value:
            yield self.shown(value)


class _Proxy:
    """Stands for an object of the async client."""

    def __init__(self, target: object, bridge: _Bridge) -> None:
        self._target = target
        self._bridge = bridge

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._bridge.shown(getattr(self._target, name))

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._target) if not name.startswith("_")]

    def __repr__(self) -> str:
        return f"<sync {self._target!r}>"


class _Rows(_Proxy):
    """Stands for something that is iterated over."""

    def __iter__(self) -> Iterator[Any]:
        rows = aiter(cast("AsyncIterable[Any]", self._target))
        while (row := self._bridge.run(anext, rows, _END)) is not _END:
            yield row


class SyncClient(_Proxy):
    """``CoworldClient`` for code that is not async; use it in ``with``.

    It has the same attributes and methods, which return when they are done. Lists are iterated over with ``for``.
    It works in scripts, in several threads at a time, and inside a running event loop (a notebook's), which waits
    meanwhile. Callbacks are called in the client's own thread and must not call the client.

    Args:
        server: Address of the platform.
        options: As for ``CoworldClient``.

    Raises:
        UsageError: As for ``CoworldClient``; also for calls before and after ``with`` (``client_closed``).
    """

    _target: CoworldClient

    def __init__(self, server: str = DEFAULT_SERVER, **options: Any) -> None:
        super().__init__(CoworldClient(server, **options), _Bridge())

    @classmethod
    def _of(cls, client: CoworldClient) -> Self:
        self = cls.__new__(cls)
        _Proxy.__init__(self, client, _Bridge())
        return self

    @classmethod
    def from_login(cls, server: str | None = None, **options: Any) -> Self:
        """A client with the credentials stored on this machine; see ``CoworldClient.from_login``."""
        return cls._of(CoworldClient.from_login(server, **options))

    @classmethod
    def anonymous(cls, server: str | None = None, **options: Any) -> Self:
        """A client without a token, which can read public data; see ``CoworldClient.anonymous``."""
        return cls._of(CoworldClient.anonymous(server, **options))

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal())
            stack.enter_context(portal.wrap_async_context_manager(self._target))
            self._stack = stack.pop_all()
        self._bridge.portal = portal
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bridge.portal = None
        self._stack.__exit__(kind, error, trace)

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call an async function that takes a client, such as those of ``coworld_client.transfers``.

        ::

            api.run(use_player, player_id, store)

        Args:
            function: The function; its first argument is the async client.
            args: Its further arguments.
            kwargs: Its named arguments.

        Returns:
            Its result.
        """
        return self._bridge.run(functools.partial(function, self._target, *args, **kwargs))
