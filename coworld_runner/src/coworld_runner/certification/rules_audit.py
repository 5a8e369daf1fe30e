"""Audits the rules of a game of the kit: in the game's own image, and in several processes there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import anyio.to_thread

from coworld_core.ids import new_run_id
from coworld_core.issues import Issue, Report
from coworld_core.manifest.models import Manifest
from coworld_core.versions import Generation

from ..backend import Backend, Placement, enforceable
from ..episode.episode_options import EpisodeOptions
from ..episode.program import Program, ProgramOptions, ProgramOutcome, run_program
from ..runs.scratch import open_scratch
from .certification_record import Evidence
from .step_answers import StepAnswer, failed, failed_on, issue_evidence, passed, skipped
from .transcript import OWN_STEPS, TranscriptStep

__all__ = ["audit_served_rules", "own_steps", "rules_served"]

_SERVER = ("-m", "coworld_runner.kit.server")
_PROGRAM = ("-m", "coworld_runner.kit.server.audit_program")
_REPORT, _CONFIG, _REPLAY = "rules-audit.json", "config.json", "replay"
_LATE = "Timeout ("
"""What a log has in which a traceback follows, because the time was over."""
_MEND = "Correct the rules; the message says what leads there, and coworld_core.rules.audit_rules repeats it at once."


def rules_served(manifest: Manifest) -> tuple[tuple[str, ...], str] | None:
    """How a game of the kit starts Python, and the name of its rules; None for other games."""
    run = tuple(manifest.game.runnable.run)
    for at in range(len(run) - 2):
        if run[at : at + 2] == _SERVER:
            return run[:at], run[at + 2]
    return None


def own_steps(manifest: Manifest, published: Generation | None) -> tuple[TranscriptStep, ...]:
    """The steps beside the published ones that a Coworld takes; none by the rules of a published version."""
    return OWN_STEPS if published is None and rules_served(manifest) else ()


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
        timeout: Seconds for all of it.
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
        limits=enforceable(EpisodeOptions().game_limits, backend.capabilities),
        platform=platform,
    )
    async with open_scratch(new_run_id()) as scratch:
        place = scratch.path / "audit"
        options = ProgramOptions(timeout=timeout)
        outcome = await run_program(program, backend=backend, directory=place, options=options)
        await anyio.to_thread.run_sync(_keep, outcome, directory)
    log_tail, at = outcome.log_tail, f"{directory.parent.name}/{directory.name}"
    if f"No module named {_PROGRAM[1]}" in log_tail or f"No module named '{_PROGRAM[1]}" in log_tail:
        detail = "Its image has an earlier coworld-runner, which cannot audit rules."
        return skipped("not_applicable", detail, hint="Build it again with a newer one.")
    if outcome.fault is not None:
        message = f"The audit of {name} did not come to its end: {outcome.fault.message}"
        hint = (
            "The log ends with where the rules were: a call must return soon." if _LATE in log_tail else "Read its log."
        )
        broken = Evidence(
            code="rules_audit_failed",
            level="required",
            ok=False,
            message=message,
            hint=hint,
            artifact=f"{at}/{Path(outcome.unit.logs[-1]).name}" if outcome.unit.logs else None,
            log_tail=log_tail,
        )
        return failed("rules_audit_failed", message, [broken], hint=hint)
    report = Report.model_validate_json((directory / _REPORT).read_bytes())
    evidence = [_evidence(issue, f"{at}/{_REPORT}") for issue in report.issues]
    if any(item.broken for item in evidence):
        return failed_on(report.errors[0].code, evidence, hint=_MEND)
    return passed(f"{name} keeps what rules promise; audited in {outcome.seconds:.1f} s.", evidence)


def _evidence(issue: Issue, artifact: str) -> Evidence:
    """A finding; the lines of a traceback are shown like those of a log."""
    message, _, lines = issue.message.partition("\n")
    evidence = issue_evidence(issue, artifact=artifact)
    return evidence.model_copy(update={"message": message, "log_tail": lines})


def _keep(outcome: ProgramOutcome, directory: Path) -> None:
    """Copy what the audit left to where it stays."""
    directory.mkdir()
    for name in (*outcome.unit.logs, *(record.path for record in outcome.outputs.values())):
        path = outcome.directory / name
        if path.exists():
            shutil.copyfile(path, directory / path.name)
