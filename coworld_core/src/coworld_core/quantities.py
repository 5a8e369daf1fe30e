"""Kubernetes resource quantities: `250m`, `1.5`, `512Mi`, `2e3`."""

from __future__ import annotations

import re
from decimal import Decimal

__all__ = ["parse_quantity", "quantity_problem"]

_QUANTITY = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?\d{1,3})?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_MAX_LENGTH = 40
_MAX_CPUS = Decimal(10_000)
_MAX_BYTES = Decimal(2) ** 60


def parse_quantity(text: str) -> Decimal:
    """The value of a quantity in its base unit (processors, bytes).

    Args:
        text: A Kubernetes quantity: a decimal number with an optional suffix n, u, m, k, M, G, T, P, E, Ki ... Ei,
            or a decimal exponent.

    Raises:
        ValueError: When the text is not a quantity.
    """
    match = _QUANTITY.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None or not text.isascii():
        raise ValueError(f"{text[:_MAX_LENGTH]!r} is not a Kubernetes quantity")
    sign, digits, suffix = match.groups()
    value = Decimal(f"{sign}{digits}")
    if not suffix:
        return value
    if suffix in _BINARY:
        return value * 2 ** _BINARY[suffix]
    return value.scaleb(_DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:]))


def quantity_problem(resource: str, text: str) -> tuple[str, str] | None:
    """Say why a quantity is not valid for a resource, or return None if it is.

    Args:
        resource: `cpu`, `memory` or `ephemeral-storage`.
        text: The quantity as written.

    Returns:
        The problem and what to write instead, or None.
    """
    example = '"500m" or "2"' if resource == "cpu" else '"256Mi" or "2Gi"'
    try:
        value = parse_quantity(text)
    except ValueError:
        return "is not a Kubernetes quantity", f"Write something like {example}."
    if value <= 0:
        return "must be more than zero", f"Write something like {example}, or leave it out for the role's default."
    if resource == "cpu":
        if value > _MAX_CPUS:
            return f"asks for more than {_MAX_CPUS} processors", f"cpu counts processors; write {example}."
        if value * 1000 % 1:
            return "is finer than a thousandth of a processor", f"Write something like {example}."
        return None
    if value < 1 or text[-1] in "mun":
        return "counts fractions of a byte ('m' means thousandths)", f"Write something like {example}."
    if value > _MAX_BYTES:
        return "is more than any machine has", f"Write something like {example}."
    return None
