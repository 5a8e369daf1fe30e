"""What an optimizer gets and leaves: the published contract's plan, and beside it the task and the changed player."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from coworld_core.errors import CoworldError
from coworld_core.files.zips import open_zip
from coworld_core.role_kinds import ROLES
from coworld_core.roles.improvement_task import IMPROVEMENT_TASK, ImprovementTask
from coworld_core.roles.plan import OptimizerPlan, read_optimizer_plan

from ..backend import Placement
from ..package.own_players.own_player import MOST_BYTES, MOST_FILES
from .role_run import RoleWork

__all__ = ["PLAN_OUTPUT", "PLAYER_OUTPUT", "PlayerLimits", "optimizer_work", "plan_work", "unpack_player"]

PLAN_OUTPUT = ROLES["optimizer"].output
PLAYER_OUTPUT = "player.zip"
_MANIFEST = "manifest.json"
_PLAYER = "player"
_EVIDENCE = "evidence"
_DOCS = "docs"


@dataclass(frozen=True, kw_only=True)
class PlayerLimits:
    """How large a changed player may be."""

    files: int = MOST_FILES
    bytes: int = MOST_BYTES


def optimizer_work(
    task: ImprovementTask,
    *,
    optimizer: str,
    manifest: str,
    player: Path,
    evidence: Path | None,
    docs: Path,
    limits: PlayerLimits,
) -> RoleWork[tuple[str, ...]]:
    """The work of an optimizer: a task with its evidence and the player's files in, a zip of the changed files out.

    Args:
        task: The task.
        optimizer: The optimizer's id.
        manifest: The manifest, as JSON.
        player: The directory of the best player's files.
        evidence: The directory of the task's episodes; None without any.
        docs: The directory of the task's documents.
        limits: How large the changed player may be.
    """
    grades = [index for index, each in enumerate(task.evidence) if each.grade]
    diagnoses = [index for index, each in enumerate(task.evidence) if each.diagnosis]

    def variables(placement: Placement) -> Mapping[str, str]:
        return {
            **_variables(
                placement,
                optimizer,
                grades=[f"{_EVIDENCE}/{n}/grade.json" for n in grades],
                diagnoses=[f"{_EVIDENCE}/{n}/diagnosis.zip" for n in diagnoses],
            ),
            "COGAME_POLICY_WORKSPACE_URI": placement.input_uri(_PLAYER),
            "COWORLD_IMPROVEMENT_TASK_URI": placement.input_uri(IMPROVEMENT_TASK),
            "COWORLD_IMPROVED_PLAYER_URI": placement.uri(PLAYER_OUTPUT),
        }

    directories = {_PLAYER: player, _EVIDENCE: evidence, _DOCS: docs}
    return RoleWork(
        inputs={name: path for name, path in directories.items() if path is not None and any(path.iterdir())},
        documents={IMPROVEMENT_TASK: lambda _: task.to_document().decode(), _MANIFEST: lambda _: manifest},
        variables=variables,
        output=PLAYER_OUTPUT,
        read=lambda path: _checked(path, limits),
    )


def plan_work(
    *, optimizer: str, manifest: str, grades: Mapping[str, Path], diagnoses: Mapping[str, Path]
) -> RoleWork[OptimizerPlan]:
    """The work of an optimizer that only advises: grades and diagnoses in, a plan out.

    Args:
        optimizer: The optimizer's id.
        manifest: The manifest, as JSON.
        grades: Grades, by the name of the input.
        diagnoses: Diagnoses, likewise.
    """
    return RoleWork(
        inputs={**grades, **diagnoses},
        documents={_MANIFEST: lambda _: manifest},
        variables=lambda place: _variables(place, optimizer, grades=grades, diagnoses=diagnoses),
        output=PLAN_OUTPUT,
        read=read_optimizer_plan,
    )


def _variables(
    placement: Placement, optimizer: str, *, grades: Iterable[str], diagnoses: Iterable[str]
) -> dict[str, str]:
    """The variables of the published contract; those of grades and diagnoses only if there are some."""
    given = {
        "COWORLD_MANIFEST_URI": placement.input_uri(_MANIFEST),
        "COGAME_OPTIMIZER_ID": optimizer,
        "COGAME_OPTIMIZER_OUTPUT_URI": placement.uri(PLAN_OUTPUT),
        "COGAME_GRADER_OUTPUT_URIS": ",".join(map(placement.input_uri, grades)),
        "COGAME_DIAGNOSER_OUTPUT_URIS": ",".join(map(placement.input_uri, diagnoses)),
    }
    return {name: value for name, value in given.items() if value}


def _checked(path: Path, limits: PlayerLimits) -> tuple[str, ...]:
    """The files of a changed player.

    Raises:
        CoworldError: The zip is damaged or not safe to unpack, or the player is empty or too large.
    """
    with open_zip(path, limit=limits.bytes, what="player", error=CoworldError) as archive:
        names = tuple(name for name, entry in archive.entries.items() if not entry.is_dir())
    if not names:
        raise CoworldError("The player has no files left.", code="player_empty")
    if len(names) > limits.files:
        raise CoworldError(f"The player has {len(names)} files, more than {limits.files}.", code="player_too_large")
    return names


def unpack_player(path: Path, directory: Path, *, runnable: frozenset[str] = frozenset()) -> None:
    """Unpack a changed player, which was checked, into a new directory.

    Args:
        path: The zip, which does not tell which files are executable.
        directory: The directory, whose parent exists.
        runnable: Files that were executable before; scripts and machine code are as well.
    """
    directory.mkdir()
    with open_zip(path, limit=MOST_BYTES, what="player", error=CoworldError) as archive:
        archive.extract_all(directory)
    for file in directory.rglob("*"):
        if file.is_file():
            with file.open("rb") as content:
                starts = content.read(4)
            if file.relative_to(directory).as_posix() in runnable or starts[:2] == b"#!" or starts == b"\x7fELF":
                file.chmod(file.stat().st_mode | 0o111)
