"""How the best player plays: episodes among the game's own players, their bundles, grades and diagnoses."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack, cast

import anyio

from coworld_core.episode.record import EpisodeRow, read_rows
from coworld_core.errors import UsageError
from coworld_core.evaluation.designs import Lineup
from coworld_core.files.regular import read_regular
from coworld_core.roles.improvement_task import EvidenceEpisode, ImprovementEvidence, episode_outcome, read_evidence
from coworld_core.roles.role_record import Role

from ..backend import Publish
from ..episode.many import run_many
from ..episode.run_options import BatchArguments
from ..errors import unwrapped
from ..evaluation.entrants import Entrants
from ..evaluation.evaluation_rules import EvaluationRules
from ..package.resolver import Package
from ..roles.after_episode import RoleArguments, diagnose_episode
from ..roles.episode_bundle import bundle_episode
from ..roles.grading import grade_episodes
from ..roles.role_program import RoleProgram, find_role
from ..runs.workspace import atomic_write

__all__ = ["EvidenceRoles", "evidence_directory", "find_evidence_roles", "gather_evidence", "play_alone"]

_LABEL = "player"
_INDEX = "evidence.json"
_EPISODES = "episodes"
_INPUTS = "given"
_FINDINGS = "findings.json"


@dataclass(frozen=True, kw_only=True)
class EvidenceRoles:
    """The programs that look at the episodes of the best player."""

    grader: RoleProgram | None
    diagnoser: RoleProgram | None
    left_out: tuple[str, ...]
    """Why there is none of one of them, in a sentence each."""


def find_evidence_roles(package: Package, *, grader: str | None, diagnoser: str | None) -> EvidenceRoles:
    """Find the programs that look at episodes; without a name, those of the manifest, if there is one of each.

    Raises:
        UsageError: A named program does not exist or cannot be run.
    """
    left_out: list[str] = []

    def find(role: Role, word: str | None) -> RoleProgram | None:
        count = len(package.manifest.section(role))
        if word is None and count != 1:
            why = f"declares no {role}" if count == 0 else f"declares {count} {role}s, and none was named"
            left_out.append(f"{package.manifest.game.name} {why}.")
            return None
        return find_role(package, role, word)

    found = (find("grader", grader), find("diagnoser", diagnoser))
    return EvidenceRoles(grader=found[0], diagnoser=found[1], left_out=tuple(left_out))


def evidence_directory(directory: Path) -> Path:
    """The directory that a task's paths to its episodes lead to."""
    return directory / _INPUTS


async def gather_evidence(
    package: Package,
    player: Path,
    *,
    directory: Path,
    episodes: int,
    roles: EvidenceRoles,
    rules: EvaluationRules,
    publish: Publish,
    how: RoleArguments,
    **run: Unpack[BatchArguments],
) -> ImprovementEvidence:
    """Play episodes with a player in each seat in turn, among the game's own players, and have them looked at.

    What is there already is not done again.

    Args:
        package: The Coworld.
        player: The player's file or directory.
        directory: Where the episodes and what is made of them are kept.
        episodes: Number of episodes.
        roles: The programs that look at them.
        rules: What to play; the seed of the episodes is derived from its.
        publish: Receives the events of these programs.
        how: How these programs run; `game` and `backend` must be there.
        run: Where and how to play.

    Raises:
        EnvironmentFault: The machine or the engine failed.
    """
    if (directory / _INDEX).is_file():
        return read_evidence(directory / _INDEX)
    entrants = Entrants(package, {_LABEL: str(player)}, rules)
    seats = entrants.seats
    lineups: dict[str, Lineup] = {
        f"episode-{index + 1}": tuple(_LABEL if slot == index % seats else None for slot in range(seats))
        for index in range(episodes)
    }
    plans = [(key, entrants.plan(lineup, index // seats + 1)) for index, (key, lineup) in enumerate(lineups.items())]
    await run_many(plans, resume=True, **{**run, "workspace": directory / _EPISODES})
    rows = {row.key: row for row in read_rows(directory / _EPISODES)}
    ordered = [(rows[key], lineup.index(_LABEL)) for key, lineup in lineups.items()]
    given = evidence_directory(directory)
    if given.exists():
        shutil.rmtree(given)
    each: RoleArguments = {**how, "publish": publish}
    found = await _looked_at(ordered, directory, given, roles, each)
    left_out = roles.left_out
    for name, program, lacks in (
        ("grade", roles.grader, [one.id for one in found if one.outcome != "failed" and not one.grade]),
        ("diagnosis", roles.diagnoser, [one.id for one in found if one.outcome != "failed" and not one.diagnosis]),
    ):
        if program is not None and lacks:
            left_out = (*left_out, f"{program.id} has failed: there is no {name} of {len(lacks)} episodes.")
    evidence = ImprovementEvidence(episodes=found, left_out=left_out)
    atomic_write(directory / _INDEX, evidence.to_document())
    return evidence


async def _looked_at(
    rows: list[tuple[EpisodeRow, int]], directory: Path, given: Path, roles: EvidenceRoles, how: RoleArguments
) -> tuple[EvidenceEpisode, ...]:
    """Bundle, grade and diagnose episodes."""
    workspaces = [directory / _EPISODES / row.workspace for row, _ in rows]
    grades: list[dict[str, Any]] = [{} for _ in rows]
    if roles.grader is not None:
        graded = await grade_episodes([str(path) for path in workspaces], grader=roles.grader, parallel=2, **how)
        grades = [one.graded.answer if one.graded is not None else {} for one in graded.episodes]
    found: dict[int, EvidenceEpisode] = {}
    slots = anyio.CapacityLimiter(2)

    async def look(index: int) -> None:
        (row, slot), workspace, place = rows[index], workspaces[index], given / str(index)
        place.mkdir(parents=True)
        async with slots:
            bundle = await bundle_episode(workspace, place / "episode.zip")
            findings: dict[str, Any] = {}
            diagnosed = False
            if roles.diagnoser is not None:
                try:
                    answer = await diagnose_episode(workspace, slot, diagnoser=roles.diagnoser, **how)
                except UsageError:
                    answer = None  # An episode without a record has no player
                if answer is not None and answer.ok:
                    diagnosed = True
                    shutil.copyfile(answer.directory / "outputs" / "diagnosis.zip", place / "diagnosis.zip")
                    shutil.copytree(answer.files, place / "diagnosis")
                    findings = _findings(answer.files / str(answer.answer.get("findings") or _FINDINGS))
        if grades[index]:
            atomic_write(place / "grade.json", json.dumps(grades[index]).encode())
        found[index] = EvidenceEpisode(
            id=bundle.episode_id,
            bundle=f"evidence/{index}/episode.zip",
            slot=slot,
            outcome=episode_outcome(row.scores, slot, ok=_played(row, slot)),
            scores=row.scores,
            failure=row.message or "",
            grade=grades[index],
            findings=findings,
            diagnosis=f"evidence/{index}/diagnosis" if diagnosed else "",
        )

    with unwrapped():
        async with anyio.create_task_group() as tasks:
            for index in range(len(rows)):
                tasks.start_soon(look, index)
    return tuple(found[index] for index in range(len(rows)))


def _findings(path: Path) -> dict[str, Any]:
    try:
        value: object = json.loads(read_regular(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _played(row: EpisodeRow, slot: int) -> bool:
    """Whether a player played to the end of an episode that counts."""
    return bool(row.scores) and not any(fault.slot == slot for fault in row.player_faults)


async def play_alone(
    package: Package, player: Path, *, directory: Path, rules: EvaluationRules, **run: Unpack[BatchArguments]
) -> EpisodeRow:
    """Play one episode with a player in every seat, to see whether it plays at all.

    Raises:
        UsageError: The player cannot be run.
        EnvironmentFault: The machine or the engine failed.
    """
    entrants = Entrants(package, {_LABEL: str(player)}, rules)
    plan = entrants.plan((_LABEL,) * entrants.seats, 1)
    await run_many([("trial", plan)], resume=True, **{**run, "workspace": directory})
    return next(read_rows(directory))
