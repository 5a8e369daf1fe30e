"""Human-readable sizes."""

from __future__ import annotations

__all__ = ["shown_size"]


def shown_size(size: int) -> str:
    """Format a number of bytes for people: 16 MiB, 1.5 KiB, 12 bytes."""
    if size < 1024:
        return f"{size} bytes"
    value = float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if value < 1024 or unit == "TiB":
            return f"{value:.1f}".removesuffix(".0") + f" {unit}"
    raise AssertionError
