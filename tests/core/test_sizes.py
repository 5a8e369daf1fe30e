"""Numbers of bytes, as people read them."""

from __future__ import annotations

import pytest

from coworld_core.sizes import shown_size


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (4300, "4.2 KiB"),
        (1 << 20, "1 MiB"),
        (3 << 39, "1.5 TiB"),
        (1 << 60, "1048576 TiB"),
    ],
)
def test_size_is_shown_in_a_suitable_unit(size: int, shown: str) -> None:
    assert shown_size(size) == shown
