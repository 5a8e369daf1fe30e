"""Answers of certification steps, and their evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from coworld_core.episode.outcome import Fault
from coworld_core.issues import Issue

from .certification_record import Evidence, Level, SkipReason, StepId, StepStatus

__all__ = [
    "StepAnswer",
    "about_results",
    "advice",
    "failed",
    "failed_on",
    "fault_evidence",
    "issue_evidence",
    "missing",
    "note",
    "passed",
    "required",
    "skipped",
]

_LEVELS: dict[str, Level] = {"error": "required", "warning": "advice", "info": "note"}


@dataclass(frozen=True, kw_only=True)
class StepAnswer:
    """The answer of a step."""

    status: StepStatus
    detail: str
    evidence: tuple[Evidence, ...] = ()
    failure_reason: str | None = None
    skip_reason: SkipReason | None = None
    hint: str | None = None


def passed(detail: str, evidence: Iterable[Evidence] = ()) -> StepAnswer:
    """The step passes."""
    return StepAnswer(status="pass", detail=detail, evidence=tuple(evidence))


def failed(reason: str, detail: str, evidence: Iterable[Evidence] = (), *, hint: str | None = None) -> StepAnswer:
    """The step fails; `reason` is a stable code."""
    return StepAnswer(status="fail", failure_reason=reason, detail=detail, evidence=tuple(evidence), hint=hint)


def failed_on(
    reason: str, evidence: Sequence[Evidence], *, broken: Sequence[Evidence] = (), hint: str | None = None
) -> StepAnswer:
    """The step fails on its broken evidence, or on the part of it given as `broken`.

    The first broken item provides the detail, and the hint if it has one.
    """
    broken = broken or [item for item in evidence if item.broken]
    more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
    first = broken[0]
    read = f"Read {first.artifact}." if first.artifact else None
    return failed(reason, f"{first.message}{more}", evidence, hint=first.hint or hint or read)


def skipped(
    reason: SkipReason, detail: str, evidence: Iterable[Evidence] = (), *, hint: str | None = None
) -> StepAnswer:
    """The step gives no answer."""
    return StepAnswer(status="skip", skip_reason=reason, detail=detail, evidence=tuple(evidence), hint=hint)


def missing(step: StepId, why: str, evidence: Iterable[Evidence] = ()) -> StepAnswer:
    """The step gives no answer, because an earlier step did not pass."""
    return skipped("premise_failed", f"Not checked, because {step} did not pass: {why}.", evidence)


def required(
    code: str,
    *,
    ok: bool,
    message: str,
    hint: str | None = None,
    slot: int | None = None,
    artifact: str | None = None,
    level: Level = "required",
) -> Evidence:
    """A finding that fails its step if it is not ok."""
    return Evidence(code=code, level=level, ok=ok, message=message, hint=hint, slot=slot, artifact=artifact)


def advice(code: str, message: str, *, hint: str | None = None, artifact: str | None = None) -> Evidence:
    """A warning: worth fixing, but the step still passes."""
    return Evidence(code=code, level="advice", ok=False, message=message, hint=hint, artifact=artifact)


def note(code: str, message: str, *, slot: int | None = None, artifact: str | None = None) -> Evidence:
    """A fact."""
    return Evidence(code=code, level="note", ok=True, message=message, slot=slot, artifact=artifact)


def issue_evidence(issue: Issue, *, artifact: str | None = None) -> Evidence:
    """A finding about a document, with its position."""
    return Evidence(
        code=issue.code,
        level=_LEVELS[issue.severity],
        ok=issue.severity == "info",
        message=issue.message,
        hint=issue.hint,
        pointer=issue.pointer,
        line=issue.line,
        column=issue.column,
        artifact=artifact,
    )


def fault_evidence(fault: Fault, directory: str) -> Evidence:
    """A fault of an episode; its log is below the directory, which is relative to the certification's."""
    return Evidence(
        code=fault.error_type,
        level="required",
        ok=False,
        message=fault.message,
        hint=fault.hint,
        slot=fault.slot,
        artifact=f"{directory}/{fault.log}" if fault.log else None,
        log_tail=fault.log_tail,
    )


def about_results(fault: Fault) -> bool:
    """Whether a fault of the episode belongs to the step that judges results."""
    return fault.error_type in ("results_missing", "results_malformed")
