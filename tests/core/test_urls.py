"""Places as in URLs."""

from __future__ import annotations

import pytest

from coworld_core.text import authority


@pytest.mark.parametrize(
    ("host", "port", "place"),
    [
        ("arena.example.org", None, "arena.example.org"),
        ("127.0.0.1", 8787, "127.0.0.1:8787"),
        ("::1", None, "[::1]"),
        ("fd00::1", 8787, "[fd00::1]:8787"),
    ],
)
def test_a_place_has_brackets_where_it_needs_them(host: str, port: int | None, place: str) -> None:
    assert authority(host, port) == place
