"""The roles that programs play in a Coworld: the one table from which lists of roles follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

__all__ = ["ROLES", "ROLE_SECTIONS", "HostedRole", "Role", "RoleKind", "RoleType", "RunnableType"]

Role = Literal["reporter", "grader", "diagnoser", "optimizer"]
"""The roles that run after an episode."""

HostedRole: TypeAlias = Literal["grader", "reporter", "diagnoser"]
"""A role that a platform runs on an episode which is over."""

RoleType = Literal["player", "reporter", "commissioner", "grader", "diagnoser", "optimizer"]
"""The roles of an entry in a role section of a manifest, and the names of the sections: all but the game."""

RunnableType = Literal["game", RoleType]
"""The roles of a runnable in a Coworld."""

ROLE_SECTIONS: tuple[RoleType, ...] = get_args(RoleType)
"""The role sections in the order used everywhere."""


@dataclass(frozen=True)
class RoleKind:
    """What is particular to a role."""

    function: str
    """The function by which a file of Python plays it."""
    output: str
    """Name of the file that its program leaves."""
    variables: tuple[str, ...]
    """Variables that tell its program what to do, and that a manifest must not set."""


_BUNDLE = "COGAME_EPISODE_BUNDLE_URI"
ROLES: Final[Mapping[Role, RoleKind]] = {
    "reporter": RoleKind("report", "report.zip", ("COGAME_REPORT_REQUEST",)),
    "grader": RoleKind("grade", "grade.json", (_BUNDLE, "COGAME_GRADE_URI")),
    "diagnoser": RoleKind("diagnose", "diagnosis.zip", (_BUNDLE, "COGAME_TARGET_POLICY_URI", "COGAME_DIAGNOSIS_URI")),
    "optimizer": RoleKind(
        "optimize",
        "plan.json",
        (
            "COWORLD_MANIFEST_URI",
            "COGAME_OPTIMIZER_ID",
            "COGAME_OPTIMIZER_OUTPUT_URI",
            "COGAME_POLICY_WORKSPACE_URI",
            "COGAME_REPORT_URIS",
            "COGAME_GRADER_OUTPUT_URIS",
            "COGAME_DIAGNOSER_OUTPUT_URIS",
        ),
    ),
}
"""The roles that run after an episode, in the order used everywhere."""
