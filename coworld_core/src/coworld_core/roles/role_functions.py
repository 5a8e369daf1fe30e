"""The functions of roles: a file of Python plays a role if it has the role's function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .role_record import Role

__all__ = ["ROLE_FUNCTIONS"]

ROLE_FUNCTIONS: Final[Mapping[Role, str]] = {
    "reporter": "report",
    "grader": "grade",
    "diagnoser": "diagnose",
    "optimizer": "optimize",
}
"""The function of each role."""
