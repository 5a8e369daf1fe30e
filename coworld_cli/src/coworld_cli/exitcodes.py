"""The exit statuses of all commands."""

from __future__ import annotations

__all__ = ["ANSWER_IS_NO", "ENVIRONMENT", "INTERNAL", "INTERRUPTED", "OK", "REMOTE", "USAGE", "for_kind", "for_verdict"]

OK = 0
ANSWER_IS_NO = 1
"""It ran, and the answer is no: an episode with a fault, a certification that failed, an invalid manifest."""
USAGE = 2
"""The command line is invalid, or names a path that does not exist."""
ENVIRONMENT = 3
"""This machine lacks something: an engine, a permission, a login, a connection, room on the disk."""
REMOTE = 4
"""A server refused, or what a MANIFEST or REPLAY names could not be reached; of `verify`: it cannot be played again."""
INTERNAL = 5
"""A bug in coworld."""
INTERRUPTED = 130
"""Ended by Ctrl-C, SIGTERM or a closed terminal."""

_BY_KIND = {"answer": ANSWER_IS_NO, "usage": USAGE, "environment": ENVIRONMENT, "remote": REMOTE, "internal": INTERNAL}
_BY_VERDICT = {"same": OK, "different": ANSWER_IS_NO, "cannot": REMOTE}


def for_kind(kind: str) -> int:
    """The exit status for `CoworldError.kind`."""
    return _BY_KIND.get(kind, INTERNAL)


def for_verdict(verdict: str) -> int:
    """The exit status for the verdict of a verification."""
    return _BY_VERDICT.get(verdict, INTERNAL)
