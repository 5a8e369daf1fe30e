"""One step of an improvement: evidence of how the best player plays, a changed player, and whether it is better.

What is there of a step is not done again, so a step that was interrupted is completed.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path

import anyio.to_thread

from coworld_core.documents.canonical_json import json_digest
from coworld_core.episode.events import Notice, PhaseStarted
from coworld_core.episode.record import ROWS_NAME, read_rows
from coworld_core.errors import CoworldError, EnvironmentFault
from coworld_core.evaluation.comparison import ComparisonReport
from coworld_core.ids import new_run_id
from coworld_core.roles.improvement import (
    ChangedFiles,
    ImprovementPlan,
    ImprovementState,
    ImprovementStep,
    StepComparison,
    StepLoss,
    changed_files,
    judge_comparison,
    judge_player,
    step_comparison,
)
from coworld_core.roles.improvement_budget import ImprovementLeft
from coworld_core.roles.improvement_task import TASK_PAGE, ImprovementEvidence, ImprovementTask, task_page
from coworld_core.roles.plan import read_optimizer_plan
from coworld_core.roles.role_record import RoleRecord

from ..backend import Backend, Publish
from ..episode.run_options import BatchArguments
from ..evaluation.comparison import compare
from ..evaluation.evaluation_rules import EvaluationRules
from ..evaluation.found_workers import open_cell
from ..package.own_players.player_directory import directory_files
from ..package.player_names import files_player
from ..package.resolver import Package
from ..roles.kept_answer import EVENTS_KEPT, kept_record, run_and_keep
from ..roles.optimizer_program import Optimizer
from ..roles.optimizer_work import PLAN_OUTPUT, PLAYER_OUTPUT, optimizer_work, unpack_player
from ..runs.event_bus import EventBus
from ..runs.workspace import atomic_write, plain_name
from .improvement_evidence import EvidenceRoles, evidence_directory, gather_evidence, play_alone
from .improvement_folder import ASKED, ImprovementFolder, changes_text
from .improvement_rules import ImprovementRules, default_goal

__all__ = ["EpisodesSpent", "StepMaker"]

_MOST_NOTE = 2000
"""Characters of what a program says about its change."""
_TRIAL = "trial"
_COMPARISON = "comparison"
_SINGLE = "The file keeps its name, and may get modules beside it."
_DIRECTORY = "It must still be found how to run it."
_BLOCK = 2
"""Episodes of a block of a comparison."""


class EpisodesSpent(Exception):
    """The budget leaves too few episodes for a verdict."""


@dataclass(frozen=True, kw_only=True)
class StepMaker:
    """Makes the steps of an improvement."""

    package: Package
    plan: ImprovementPlan
    folder: ImprovementFolder
    optimizer: Optimizer
    optimizing: Backend
    """Where the program runs that changes the player."""
    backend: Backend
    """Where everything else runs."""
    measuring: BatchArguments
    """Where and how to play comparisons."""
    roles: EvidenceRoles
    rules: ImprovementRules
    publish: Publish
    nested: BatchArguments
    """Where and how to play, without a workspace."""

    async def make(self, state: ImprovementState, left: ImprovementLeft, *, most: int | None) -> ImprovementStep:
        """Make the next step, or what is missing of it.

        Args:
            state: Where the improvement stands.
            left: What is left of the budget, for the program to know.
            most: Most episodes that this step may play, with those that it has played before.

        Raises:
            EpisodesSpent: These are too few for a verdict.
            EnvironmentFault: The machine or the engine failed.
        """
        number = state.next
        place = self.folder.step(number)
        place.mkdir(parents=True, exist_ok=True)
        step = ImprovementStep(
            step=number, status="lost", reason="", message="", base=state.best, began_at=dt.datetime.now(dt.UTC)
        )
        self._phase("evidence")
        evidence = await self._evidence(state)
        self._phase("change")
        record = await self._asked(state, evidence, left)
        step = step.model_copy(update={"note": _note(record, place / ASKED)})
        loss, digest, files = await anyio.to_thread.run_sync(self._taken, state, record)
        step = step.model_copy(update={"digest": digest, "files": files})
        if loss is None:
            self._phase("trial")
            loss = await self._tried(number)
        if loss is not None:
            told = {"reason": loss.reason, "message": loss.message, "episodes": self.played(state)}
            return step.model_copy(update=told)
        self._phase("compare")
        report = await self._compared(state, most)
        comparison = step_comparison(report)
        status, reason = judge_comparison(comparison)
        return step.model_copy(
            update={
                "status": status,
                "reason": reason,
                "message": f"{comparison}.",
                "comparison": comparison,
                "episodes": self.played(state),
            }
        )

    async def _evidence(self, state: ImprovementState) -> ImprovementEvidence:
        best = state.best
        return await gather_evidence(
            self.package,
            self.folder.playable(best, self.plan.player),
            directory=self.folder.evidence(best),
            episodes=self.plan.evidence,
            roles=self.roles,
            rules=self._evaluation("evidence", best),
            publish=self.publish,
            how={"game": self.package, "backend": self.backend, "options": self.rules.looking},
            **self.nested,
        )

    async def _asked(self, state: ImprovementState, evidence: ImprovementEvidence, left: ImprovementLeft) -> RoleRecord:
        """Let the program change the player, unless it has done so already."""
        folder, plan, rules, number = self.folder, self.plan, self.rules, state.next
        directory = folder.step(number) / ASKED
        if (known := kept_record(directory)) is not None:
            return known
        docs, pages = await anyio.to_thread.run_sync(self._docs)
        single = plan.player.single
        task = ImprovementTask(
            goal=rules.goal or default_goal(plan),
            coworld=plan.coworld,
            version=plan.version,
            variant=plan.variant,
            step=number,
            player=plan.player.model_copy(update={"digest": state.best_digest}),
            may_change="It keeps its name, and may get modules beside it."
            if single
            else "It must still play as it does.",
            most_files=rules.limits.files,
            most_bytes=rules.limits.bytes,
            seconds=rules.optimizer.timeout,
            left=left,
            best=state.best,
            history=state.steps,
            evidence=evidence.episodes,
            docs=tuple(f"docs/{name}" for name in pages),
            left_out=evidence.left_out,
        )
        atomic_write(folder.step(number) / "task.json", task.to_document())
        atomic_write(folder.step(number) / TASK_PAGE, task_page(task).encode())
        program = self.optimizer.program
        record = await run_and_keep(
            program,
            optimizer_work(
                task,
                optimizer=program.id,
                manifest=self.package.manifest.model_dump_json(by_alias=True),
                player=folder.files_of(state.best, plan.player),
                evidence=evidence_directory(folder.evidence(state.best)),
                docs=docs,
                limits=rules.limits,
            ),
            lambda files: {"files": list(files)},
            directory=directory,
            key=json_digest([program.identity(""), task.model_dump(mode="json")]),
            backend=self.optimizing,
            options=rules.optimizer,
            bus=EventBus(new_run_id(), self.publish, keep=EVENTS_KEPT),
            unpack=False,
        )
        await anyio.to_thread.run_sync(folder.sweep_step, number)
        fault = record.fault
        if fault is not None and fault.party != "program":
            raise EnvironmentFault(fault.message, code=fault.error_type, hint=fault.hint)
        return record

    def _taken(self, state: ImprovementState, record: RoleRecord) -> tuple[StepLoss | None, str, ChangedFiles]:
        """Take in the changed player: why it cannot be compared, if it cannot, its digest, and what was changed."""
        folder, player, number = self.folder, self.plan.player, state.next
        nothing = ChangedFiles()
        if record.fault is not None:
            return StepLoss(reason=record.fault.error_type, message=_why(record)), "", nothing
        place, target = folder.step(number), folder.files_of(number, player)
        before, runnable = directory_files(folder.files_of(state.best, player))
        if not target.is_dir():
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(".player-unpacked")
            unpack_player(place / ASKED / record.outputs[PLAYER_OUTPUT].path, part, runnable=runnable)
            part.rename(target)
        after, _ = directory_files(target)
        files = changed_files(before, after)
        atomic_write(place / "changes.diff", changes_text(before, after).encode())
        playable = folder.playable(number, player)
        if not playable.exists():
            return StepLoss(reason="player_missing", message=f"{player.entry} is not there any more."), "", files
        try:
            digest = files_player(playable, self.package).digest
        except CoworldError as error:
            words = error.message.replace(f"{target}{os.sep}", "")
            return StepLoss(reason=error.code, message=words), "", files
        return judge_player(state, digest), digest, files

    async def _tried(self, number: int) -> StepLoss | None:
        """Play an episode with the changed player alone, which shows most mistakes at once."""
        place = self.folder.step(number)
        rules = self._evaluation("trial", number)
        row = await play_alone(
            self.package,
            self.folder.playable(number, self.plan.player),
            directory=place / _TRIAL,
            rules=rules,
            **self.nested,
        )
        if row.player_faults:
            first = row.player_faults[0]
            said = ": ".join(filter(None, (first.message.removesuffix("."), first.log_end)))
            return StepLoss(reason="player_failed", message=f"The player does not play: {said}.")
        return None

    async def _compared(self, state: ImprovementState, most: int | None) -> ComparisonReport:
        """Compare the changed player with the best so far, as far as the budget allows."""
        place = self.folder.step(state.next) / _COMPARISON
        rules = self._evaluation("step", state.next)
        limit = most_blocks = rules.most_blocks()
        if most is not None:
            limit = min(limit, (most - self.played(state) + _rows(place)) // _BLOCK)
        if limit < 1:
            raise EpisodesSpent
        rules = replace(rules, max_blocks=limit)
        report = await self._compare(state.next, state.best, rules, place, cell=f"step-{state.next:04}")
        if report.stopped in ("max_blocks", "spoiled") and limit < most_blocks:
            raise EpisodesSpent
        return report

    async def against_the_first(self, state: ImprovementState) -> StepComparison | None:
        """Compare the best player with the first, on seeds that no step has used; None if they are the same."""
        best = state.best
        if best == 0:
            return None
        self._phase("final")
        message = f"The best player, of step {best}, is compared with the first, on seeds of their own."
        self.publish(Notice(level="info", message=message))
        rules, place = self._evaluation("final", best), self.folder.final(best)
        report = await self._compare(best, 0, rules, place, cell=f"final-{best:04}")
        return step_comparison(report)

    async def _compare(
        self, new: int, old: int, rules: EvaluationRules, workspace: Path, *, cell: str
    ) -> ComparisonReport:
        player = self.plan.player
        players = [str(self.folder.playable(number, player)) for number in (new, old)]
        async with open_cell({**self.measuring, "workspace": workspace}, cell) as run:
            return await compare(self.package, *players, rules=rules, margin=self.plan.margin, **run)

    def played(self, state: ImprovementState) -> int:
        """Episodes that the next step has played; those of the evidence count in the first step that has used it."""
        place = self.folder.step(state.next)
        played = _rows(place / _TRIAL) + _rows(place / _COMPARISON)
        if not any(step.base == state.best for step in state.steps):
            played += _rows(self.folder.evidence(state.best) / "episodes")
        return played

    def _evaluation(self, *what: object) -> EvaluationRules:
        """The rules, with seeds of their own."""
        told = hashlib.sha256(":".join(map(str, (self.plan.seed, *what))).encode()).digest()
        return replace(self.rules.evaluation, seed=int.from_bytes(told[:8], "big") >> 1, seed_secret=None)

    def _docs(self) -> tuple[Path, list[str]]:
        """The directory of the game's own documents, and their names."""
        directory = self.folder.path / "docs"
        directory.mkdir(exist_ok=True)
        game = self.package.manifest.game
        named = {
            "readme.md": game.docs.readme,
            "player-protocol.md": game.protocols.player,
            **{f"{plain_name(page.id.removesuffix('.md')) or 'page'}.md": page.content for page in game.docs.pages},
        }
        for name, doc in named.items():
            text = doc.value if doc.type == "text" else f"See {doc.value}\n"
            atomic_write(directory / name, text.encode())
        return directory, sorted(named)

    def _phase(self, name: str) -> None:
        self.publish(PhaseStarted(phase=name))


def _rows(directory: Path) -> int:
    return sum(1 for _ in read_rows(directory)) if (directory / ROWS_NAME).is_file() else 0


def _note(record: RoleRecord, directory: Path) -> str:
    """What a program says about its change; empty if it has left no plan."""
    output = record.outputs.get(PLAN_OUTPUT)
    if output is None:
        return ""
    try:
        plan = read_optimizer_plan(directory / output.path)
    except CoworldError:
        return ""
    return " ".join(plan.recommendations)[:_MOST_NOTE]


def _why(record: RoleRecord) -> str:
    assert record.fault is not None
    last = record.fault.log_tail.strip().rpartition("\n")[2].strip()
    return f"{record.fault.message} {last}" if last and last not in record.fault.message else record.fault.message
