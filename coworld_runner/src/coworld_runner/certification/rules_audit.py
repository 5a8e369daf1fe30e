"""Audits the rules of a game of the kit: in the game's own image, and in several processes there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import anyio.to_thread

from coworld_core.issues import Issue, Report
from coworld_core.manifest.models import Manifest
from coworld_core.versions import Generation

from ..backend import Backend, Placement, enforceable
from ..episode.episode_options import GAME_LIMITS
from ..episode.program import Program, ProgramOptions, ProgramOutcome, run_program
from ..package.kit_programs import rules_served
from ..runs.scratch import open_scratch
from .certification_record import Evidence
from .step_answers import StepAnswer, failed_on, issue_evidence, passed, skipped
from .transcript import OWN_STEPS, TranscriptStep

__all__ = ["audit_served_rules", "own_steps"]

_PROGRAM = ("-m", "coworld_runner.kit.server.audit_program")
_REPORT, _CONFIG, _REPLAY = "rules-audit.json", "config.json", "replay"
_MAX_REPORT = 16 * 1024 * 1024
_TO_START = 60.0
"""Seconds to start the program, which counts its own time, and ends with a traceback when that is over."""
_LATE = "Timeout ("
"""What a log has in which a traceback follows, because the time was over."""
_MEND = "Correct the rules; the message says what leads there, and coworld_core.rules.audit_rules repeats it at once."


def own_steps(manifest: Manifest, published: Generation | None, *, browser: bool = True) -> tuple[TranscriptStep, ...]:
    """The steps beside the published ones that a Coworld takes; none by the rules of a published version.

    Args:
        manifest: The Coworld.
        published: The version whose rules apply.
        browser: Whether its pages are to be looked at.
    """
    if published is not None:
        return ()
    left_out = {"rules-audit": not rules_served(manifest), "pages-drawn": not browser}
    return tuple(step for step in OWN_STEPS if not left_out.get(step.id))


async def audit_served_rules(
    manifest: Manifest,
    *,
    replay: Path | None,
    backend: Backend,
    platform: str | None,
    directory: Path,
    timeout: float,
) -> StepAnswer:
    """Audit the rules that a manifest's game serves.

    Args:
        manifest: The Coworld, a game of the kit.
        replay: The replay of the smoke episode, if it left one.
        backend: An entered backend.
        platform: Platform of the image.
        directory: A directory for the report and the logs, which is made.
        timeout: Seconds for all of it, once the program runs.
    """
    served = rules_served(manifest)
    assert served is not None
    python, name = served
    fixture = manifest.certification
    config = {**fixture.game_config, "tokens": [f"audit-{slot}" for slot in range(len(fixture.players))]}

    def environment(place: Placement) -> Mapping[str, str]:
        return {
            **manifest.game.runnable.env,
            "COGAME_CONFIG_URI": place.input_uri(_CONFIG),
            "COWORLD_AUDIT_SECONDS": f"{timeout:g}",
            "COGAME_RESULTS_URI": place.uri(_REPORT),
            **({"COGAME_LOAD_REPLAY_URI": place.input_uri(_REPLAY)} if replay else {}),
        }

    program = Program(
        name="rules-audit",
        component="game",
        image=manifest.game.runnable.image,
        argv=(*python, *_PROGRAM, name),
        environment=environment,
        documents={_CONFIG: lambda _: json.dumps(config)},
        inputs={_REPLAY: replay} if replay else {},
        outputs=(_REPORT,),
        network="none" if backend.capabilities.network_isolation else "open",
        limits=enforceable(GAME_LIMITS, backend.capabilities),
        platform=platform,
    )
    async with open_scratch() as scratch:
        place = scratch.path / "audit"
        options = ProgramOptions(timeout=timeout + _TO_START, file_bytes=_MAX_REPORT)
        outcome = await run_program(program, backend=backend, directory=place, options=options)
        await anyio.to_thread.run_sync(_keep, outcome, directory)
    log_tail, at = outcome.log_tail, f"{directory.parent.name}/{directory.name}"
    if f"No module named {_PROGRAM[1]}" in log_tail or f"No module named '{_PROGRAM[1]}" in log_tail:
        detail = "Its image has an earlier coworld-runner, which cannot audit rules."
        return skipped("not_applicable", detail, hint="Build it again with a newer one.")
    fault = outcome.fault
    if fault is not None and fault.party in ("platform", "operator"):
        return skipped("platform_error", f"The rules of {name} could not be audited: {fault.message}", hint=fault.hint)
    try:
        report = Report.model_validate_json((directory / _REPORT).read_bytes()) if fault is None else None
        problem = fault.message if fault else ""
    except ValueError:
        report, problem = None, "What it has written is not a report."
    if report is None:
        late = "The log ends with where the rules were: a call must return soon."
        broken = Evidence(
            code="rules_audit_failed",
            level="required",
            ok=False,
            message=f"The audit of {name} did not come to its end: {problem}",
            hint=late if _LATE in log_tail else "Read its log.",
            artifact=f"{at}/{Path(outcome.unit.logs[-1]).name}" if outcome.unit.logs else None,
            log_tail=log_tail,
        )
        return failed_on("rules_audit_failed", [broken])
    evidence = [_evidence(issue) for issue in report.issues]
    if any(item.broken for item in evidence):
        return failed_on(report.errors[0].code, evidence, hint=_MEND)
    return passed(f"{name} keeps what rules promise; audited in {outcome.seconds:.1f} s.", evidence)


def _evidence(issue: Issue) -> Evidence:
    """A finding; the lines of a traceback are shown like those of a log."""
    message, _, lines = issue.message.partition("\n")
    return issue_evidence(issue).model_copy(update={"message": message, "log_tail": lines})


def _keep(outcome: ProgramOutcome, directory: Path) -> None:
    """Copy what the audit left to where it stays."""
    directory.mkdir()
    for name in (*outcome.unit.logs, *(record.path for record in outcome.outputs.values())):
        path = outcome.directory / name
        if path.exists():
            shutil.copyfile(path, directory / path.name)
