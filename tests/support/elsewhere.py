"""Runs coroutine functions elsewhere: in another thread, or as another user."""

from __future__ import annotations

import codecs
import os
import warnings
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import anyio

__all__ = ["as_user", "in_thread"]

_T = TypeVar("_T")


def in_thread(work: Callable[[], Awaitable[_T]]) -> _T:
    """Run a coroutine function to its end, even if an event loop is already running in this thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(anyio.run, work).result()


def as_user(user: int, group: int, work: Callable[[], Awaitable[str]]) -> str:
    """Run a coroutine function as another user, who may be unable to read this checkout, and return its result."""
    for codec in ("ascii", "idna"):
        codecs.lookup(codec)  # Load codecs now, since the child may be unable to read the standard library.

    read, write = os.pipe()
    with warnings.catch_warnings():
        # Newer Pythons warn about threads, which the child does not have after a fork; it needs none.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(group)
            os.setuid(user)
            said = anyio.run(work)
        except BaseException as error:  # The child must not continue as a second test run.
            said = repr(error)
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as result:
        said = result.read()
    os.waitpid(child, 0)
    return said
