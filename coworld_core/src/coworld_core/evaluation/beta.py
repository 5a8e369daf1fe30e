"""The beta distribution: what is known of a share after some successes and failures."""

from __future__ import annotations

import math

__all__ = ["beta_below", "beta_quantile", "log_beta"]

_TERMS = 300
_TINY = 1e-300


def log_beta(a: float, b: float) -> float:
    """The logarithm of the beta function."""
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def beta_below(value: float, a: float, b: float) -> float:
    """The part of a beta distribution below a value between 0 and 1.

    Args:
        value: The value.
        a: Its first parameter, above 0.
        b: Its second parameter, above 0.
    """
    if value <= 0 or value >= 1:
        return float(value >= 1)
    if value > (a + 1) / (a + b + 2):
        return 1 - beta_below(1 - value, b, a)
    front = math.exp(a * math.log(value) + b * math.log1p(-value) - log_beta(a, b)) / a
    return front * _fraction(value, a, b)


def _fraction(value: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, 1 / _away(1 - (a + b) * value / (a + 1))
    found = d
    for term in range(1, _TERMS):
        even = term * (b - term) * value / ((a + 2 * term - 1) * (a + 2 * term))
        odd = -(a + term) * (a + b + term) * value / ((a + 2 * term) * (a + 2 * term + 1))
        for part in (even, odd):
            d, c = 1 / _away(1 + part * d), _away(1 + part / c)
            found *= c * d
        if abs(c * d - 1) < 1e-13:
            break
    return found


def _away(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def beta_quantile(share: float, a: float, b: float) -> float:
    """The value below which this part of a beta distribution lies."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if beta_below(middle, a, b) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2
