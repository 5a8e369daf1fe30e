"""Which version comes next."""

from __future__ import annotations

import pytest

from coworld_core.versions import highest_version, next_version


@pytest.mark.parametrize(
    ("version", "following"),
    [("1.2.3", "1.2.4"), ("1.9", "1.10"), ("2", "3"), ("2.0rc1", "2.1"), ("1.0.post1+local", "1.1")],
)
def test_the_next_version(version: str, following: str) -> None:
    assert next_version(version) == following


def test_malformed_version_is_refused() -> None:
    with pytest.raises(ValueError, match="one"):
        next_version("one")


def test_the_highest_version() -> None:
    assert highest_version(["1.9", "1.10", "odd", "1.10rc1"]) == "1.10"
    assert highest_version(["odd"]) is None
    assert highest_version([]) is None
