"""What stands in sentences: names, how many, and which was meant."""

from __future__ import annotations

import pytest

from coworld_core.wording import closest, listed, plural


def test_names_as_an_enumeration() -> None:
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(iter("abc"), word="or") == "a, b or c"
    assert listed(map(str, range(30)), limit=2) == "0, 1, … (30 in all)"
    # whoever made the names, a line stays a line
    assert listed(["a\nb", "c" * 100]) == f"a\N{REPLACEMENT CHARACTER}b and {'c' * 79}…"


@pytest.mark.parametrize(
    ("word", "meant"),
    [("Frontier-Painter", "frontier_painter"), ("fronteer painter", "frontier_painter"), ("x", None), ("f" * 81, None)],
)
def test_close_names_are_suggested(word: str, meant: str | None) -> None:
    assert closest(word, ["sweep_painter", "frontier_painter"]) == meant
    assert closest(word, []) is None


def test_counts() -> None:
    assert [plural(count, "episode") for count in (0, 1, 2)] == ["0 episodes", "1 episode", "2 episodes"]
