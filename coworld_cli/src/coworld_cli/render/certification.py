"""The result of a certification as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from .issues import render_issue, verdict
from .results import labelled, next_commands, step_tag
from .text import clean, command_line, hint_line, number, seconds, shown_path

if TYPE_CHECKING:
    from coworld_runner.certification import Certification, CheckedCertificate, StepRecord

__all__ = ["certificate_text", "verdict_text"]


def certificate_text(checked: CheckedCertificate) -> str:
    """A certificate as text: what it says, every finding about it, and whether it holds."""
    certificate = checked.certificate
    name = clean(f"{certificate.coworld} {certificate.version}", one_line=True)
    authority = certificate.authority
    who = clean(f"{authority.name or 'somebody'}{f' at {authority.host}' if authority.host else ''}", one_line=True)
    rules = f"the rules of {certificate.published}" if certificate.published else "the current rules"
    key = f"key {authority.key_id[:16]}…" if authority.key_id else "not signed"
    rows = [
        ("Degree", clean(str(certificate.verdict or "none"), one_line=True)),
        ("By", f"{who} ({key})"),
        ("When", f"{certificate.ended_at:%Y-%m-%d %H:%M:%S} UTC, by {rules}, on {certificate.backend}"),
        ("Content", clean(certificate.content.digest, one_line=True)),
    ]
    found = verdict(checked.report)
    word = (
        click.style(f"holds: {found}", fg="green") if checked.ok else click.style(f"does not hold: {found}", fg="red")
    )
    return "\n\n".join(
        [
            f"{click.style(name, bold=True)}\n{labelled(rows)}",
            "\n".join(render_issue(checked.report.source, issue) for issue in checked.report.issues),
            f"The certificate {word}",
        ]
    )


def verdict_text(certification: Certification, *, manifest: str, backend: Sequence[str] = ()) -> str:
    """The verdict as text: every step, then advice, and where the evidence is.

    Args:
        certification: The record.
        manifest: The Coworld, as the user named it.
        backend: Options of a follow-up command that make it run in the same place.
    """
    paths = certification.paths
    name = clean(f"{certification.coworld} {certification.version}", one_line=True).strip() or shown_path(manifest)
    degree = (
        click.style(f"certified: {certification.verdict}", fg="green", bold=True)
        if certification.verdict
        else click.style("not certified", fg="red", bold=True)
    )
    about = click.style(certification.backend, dim=True)
    parts = [f"{click.style(name, bold=True)} {about}  {degree} after {seconds(certification.seconds)}"]
    width = max((len(step.id) for step in certification.all_steps), default=0)
    parts.append("\n".join(line for step in certification.all_steps for line in _step_lines(step, width)))
    if certification.advice:
        parts.append(
            "\n".join(
                [
                    "Advice (certification does not depend on it):"
                    if certification.ok
                    else "Advice, apart from what failed:",
                    *(f"  · {clean(item.message, one_line=True)}" for item in certification.advice),
                ]
            )
        )
    parts.append("\n".join(clean(text, one_line=True) for text in (certification.statement, *certification.caveats)))
    labels = {
        "report": "Report",
        "record": "Record",
        "certificate": "Certificate",
        "results": "Results",
        "replay": "Replay",
        "logs": "Logs",
    }
    rows = [(labels[key], shown_path(path)) for key, path in paths.items() if path is not None]
    if certification.scores:
        scores = ", ".join(f"{clean(who, one_line=True)} {number(score)}" for who, score in certification.standings)
        rows.append(("Scores", scores))
    parts.append(labelled(rows, indent=""))
    replay = paths["replay"]
    if replay is not None:
        parts.append(next_commands([command_line("replay", manifest, shown_path(replay), *backend)]))
    return "\n\n".join(parts)


def _step_lines(step: StepRecord, width: int) -> list[str]:
    """The lines of a step: its result, and for a failed step also the reasons and what to do."""
    lines = [f"  {step_tag(step.status)} {step.id.ljust(width)}  {clean(step.detail, one_line=True)}"]
    inset = " " * 9
    if step.status != "pass" and step.caption:
        lines.append(f"{inset}{click.style(f'This step checks that {step.caption}.', dim=True)}")
    if step.status != "fail":
        return lines
    if len(step.broken) > 1:
        shown = step.broken[:10]
        lines += [f"{inset}· {clean(item.message, one_line=True)}" for item in shown]
        if len(step.broken) > len(shown):
            lines.append(f"{inset}… and {len(step.broken) - len(shown)} more, all in the report")
    tails = [item.log_tail for item in step.broken if item.log_tail.strip()]
    if tails:
        lines += [f"{inset}{click.style('│', dim=True)} {line}" for line in clean(tails[0]).rstrip().splitlines()[-8:]]
    if step.hint:
        lines.append(hint_line(step.hint, indent=inset))
    return lines
