"""Human-readable durations."""

from __future__ import annotations

__all__ = ["shown_duration"]


def shown_duration(seconds: float) -> str:
    """Format a number of seconds for people, in one or two units: 340 ms, 12.5 s, 3 min 20 s, 2 h 5 min, 4 d 3 h."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    unit, size, lower, part = next(
        units for units in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)) if whole >= units[1]
    )
    rest = whole % size // part
    return f"{whole // size} {unit}" + (f" {rest} {lower}" if rest else "")
