"""Reads why the API server does not admit an object: a quota, a limit range, or a missing permission."""

from __future__ import annotations

import re
from decimal import Decimal

from coworld_core.quantities import parse_quantity

from ._api_server import ClusterGone, ClusterRefused

__all__ = ["advice_on", "is_over_quota", "is_restricted", "never_fits"]

_EXCEEDED = re.compile(r"exceeded quota: [^,]+, requested: (\S+), used: \S+, limited: (\S+)")
"""A quota's words. Resources are separated by commas without spaces: `requested: pods=1,requests.cpu=260m, used: …`."""
_LIMIT_RANGE = re.compile(
    r"m(in|ax)imum \S+ usage per \w+ is|max limit to request ratio per|less than or equal to \w+ limit"
)
"""A limit range's words, and those of the API server where the limit that it adds is below what is requested."""


def is_over_quota(error: ClusterRefused) -> bool:
    """Whether the namespace's quota has less left than was requested."""
    return error.status == 403 and "exceeded quota" in error.server_message


def is_restricted(error: ClusterRefused) -> bool:
    """Whether the namespace enforces the *restricted* standard, which a pod does not meet.

    The refusal says this, not the namespace's label: a cluster has a default, and the label may not be readable.
    """
    return error.status == 403 and 'violates PodSecurity "restricted' in error.server_message


def never_fits(message: str) -> bool:
    """Whether a quota allows less than was requested even if nothing else uses it."""
    found = _EXCEEDED.search(message)
    if found is None:
        return False
    try:
        requested, limited = (_amounts(text) for text in found.groups())
    except ValueError:
        return False
    return any(amount > limited.get(name, amount) for name, amount in requested.items())


def _amounts(text: str) -> dict[str, Decimal]:
    pairs = (pair.partition("=") for pair in text.rstrip(",").split(","))
    return {name: parse_quantity(amount) for name, _, amount in pairs}


def advice_on(
    error: ClusterRefused | ClusterGone, namespace: str, forbidden_hint: str | None
) -> tuple[str | None, str | None]:
    """Return the code and the hint of the error for an object that was refused; None where there is nothing to add.

    Args:
        error: The refusal.
        namespace: The object's namespace.
        forbidden_hint: The hint for what the user may not create.
    """
    if isinstance(error, ClusterGone):
        return error.code, error.hint
    if is_over_quota(error):
        return "quota_exceeded", f"Raise the quota of namespace {namespace!r}, or run fewer episodes at a time."
    if "failed quota" in error.server_message:
        hint = f"A LimitRange in namespace {namespace!r} can give containers the limits that its quota asks for."
        return "quota_needs_limits", hint
    if error.status in (403, 422) and _LIMIT_RANGE.search(error.server_message):
        hint = f"Ask for what the namespace allows, or have that changed: kubectl describe limitrange -n {namespace}"
        return "limit_range", hint
    if error.status == 403:
        return "cluster_forbidden", forbidden_hint
    if error.status == 422 and "env" in error.server_message:
        return None, "A variable's name is one that a cluster does not take."
    return None, None
