"""Durations, as people read them."""

from __future__ import annotations

import pytest

from coworld_core.text import shown_duration


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 ms"),
        (0.3401, "340 ms"),
        (0.9999, "1 s"),
        (12.51, "12.5 s"),
        (59.96, "1 min"),
        (200, "3 min 20 s"),
        (3600, "1 h"),
        (7530, "2 h 5 min"),
        (4 * 86400 + 3 * 3600 + 59, "4 d 3 h"),
    ],
)
def test_duration_is_shown_in_one_or_two_units(seconds: float, shown: str) -> None:
    assert shown_duration(seconds) == shown
