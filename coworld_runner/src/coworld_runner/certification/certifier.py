"""Runs the steps; times, reports and records each, and writes the record and the page on every path."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Unpack

import anyio

from coworld_core.certificate import CERTIFICATE_NAME, Certificate
from coworld_core.episode.events import Notice, RunFinished, RunStarted, StepFinished, StepStarted
from coworld_core.episode.outcome import EpisodeStatus
from coworld_core.errors import CoworldError, EnvironmentFault, ImageError, ManifestError

from ..backend import Backend
from ..episode.run_context import entered_backend
from ..episode.run_options import RunArguments, RunOptions
from ..episode.run_start import OpenRun, open_run
from ..errors import leaves, unwrapped
from ..package.resolver import Package, resolve_package
from ..runs.event_bus import EventBus, Listener
from .candidate import Candidate, CertifyOptions
from .certificate_writing import make_certificate
from .certification_page import render_page
from .certification_record import PAGE_NAME, RECORD_NAME, Certification, StepId, StepRecord
from .certification_steps import carry_out, say_of_refused
from .page_checks import PageName
from .rules_audit import own_steps
from .step_answers import StepAnswer, failed, skipped
from .step_ledger import StepLedger, Subject
from .transcript import TRANSCRIPT, TranscriptStep

__all__ = ["CertifyOptions", "certify", "certify_refused"]

_BELOW = "certification"
"""Directory of certifications among a package's results."""


async def certify(
    what: Package | str | os.PathLike[str],
    *,
    options: CertifyOptions | None = None,
    episode_listeners: tuple[Listener, ...] = (),
    **run: Unpack[RunArguments],
) -> Certification:
    """Take a Coworld through the steps of `coworld-executable`, and leave the evidence in a workspace.

    A game of the kit takes one step more: its rules are audited in its image (`coworld_core.rules.audit_rules`).

    A failed step does not end the certification: later steps run if their premises hold, and otherwise name the step
    that they depend on. `certification.json` and `certification.html` are written on every path, also when
    interrupted; `certificate.json` and the manifest that it is about, once every step has an answer.

    Args:
        what: The Coworld: a package, or a reference that `resolve_package` accepts. A manifest with errors fails the
            first step, and nothing is run.
        options: How to certify.
        episode_listeners: Readers of the smoke episode's own events.
        run: Where to certify. A fresh workspace is below `results/certification`, and `latest` points at a workspace
            from the start.

    Returns:
        The record. Its steps say what is wrong with the Coworld.

    Raises:
        UsageError: There is no such package or backend.
        WorkspaceError: The workspace is not fresh, not writable or another run's; nothing was started.
        EnvironmentFault: The machine or the engine failed; the record says how far it got.
    """
    given = RunOptions.of(RunArguments, run)
    try:
        package = await resolve_package(what)
    except ManifestError as error:
        return await certify_refused(error, **run)
    async with entered_backend(given.backend, package, install=given.install) as backend:
        game = package.manifest.game
        subject = Subject(
            manifest=package.source,
            manifest_sha256=package.sha256,
            coworld=game.name,
            version=game.version,
            players=tuple(entry.player_id for entry in package.manifest.certification.players),
            backend=backend,
        )
        with open_run(given, package, below=_BELOW, point_at_once=True) as opened:
            candidate = Candidate(
                package=package,
                backend=backend,
                options=options or CertifyOptions(),
                layout=opened.layout,
                publish=opened.bus.publish,
                episode_listeners=episode_listeners,
            )
            beside = own_steps(package.manifest, candidate.options.published, browser=candidate.options.browser)
            seal = partial(make_certificate, candidate)
            return await _go_through(opened, subject, partial(carry_out, candidate), beside=beside, seal=seal)


async def certify_refused(error: ManifestError, **run: Unpack[RunArguments]) -> Certification:
    """Certify a Coworld whose manifest could not be read: the first step fails, and nothing is run.

    Args:
        error: The error that `resolve_package` raised.
        run: Where to certify, as for `certify`. The record names an entered backend.

    Returns:
        The record.

    Raises:
        WorkspaceError: The workspace is not fresh or not writable, or another run is writing to it.
    """
    given = RunOptions.of(RunArguments, run)
    backend = given.backend if isinstance(given.backend, Backend) else None
    subject = Subject(manifest=error.report.source, backend=backend)
    with open_run(given, error.report.source, below=_BELOW, point_at_once=True) as opened:
        return await _go_through(opened, subject, partial(say_of_refused, error.report))


_Answers = Callable[[StepId, StepLedger], Awaitable[StepAnswer]]
"""Runs a step; may note in the ledger what other steps and the record need."""
_Seal = Callable[[StepLedger, Certification, bytes], Certificate]
"""Makes the certificate, given the record and the bytes of its file."""


async def _go_through(
    run: OpenRun,
    subject: Subject,
    answers: _Answers,
    *,
    beside: tuple[TranscriptStep, ...] = (),
    seal: _Seal | None = None,
) -> Certification:
    ledger, steps = StepLedger(), TRANSCRIPT.steps + beside
    start = RunStarted(
        what="certification",
        coworld=subject.coworld,
        version=subject.version,
        variant="certification",
        players=subject.players,
    )
    run.publish_start(start, subject.backend.name if subject.backend else "")
    status: EpisodeStatus = "failed"
    try:
        for step in steps:
            run.bus.publish(StepStarted(step=step.id, checks=step.checks))
            begun = time.monotonic()
            answer = await _answer(answers, step.id, ledger)
            _tell(run.bus, ledger.note(step, answer, time.monotonic() - begun))
        status = "completed"
    except CoworldError as error:
        ledger.trouble = error.message
        error.context["workspace"] = str(run.layout.workspace)
        raise
    except anyio.get_cancelled_exc_class():
        status = "interrupted"
        raise
    except Exception as error:
        ledger.trouble = "; ".join(dict.fromkeys(f"{type(leaf).__name__}: {leaf}" for leaf in leaves(error)))
        raise
    finally:
        for step in steps[len(ledger.steps) :]:
            _tell(run.bus, ledger.note(step, _not_reached(status, ledger.trouble), 0.0))
        certification = ledger.record(subject, run, status)
        _write(run, certification, partial(seal, ledger) if seal and status == "completed" else None, ledger.pictures)
    return certification


async def _answer(answers: _Answers, step: StepId, ledger: StepLedger) -> StepAnswer:
    try:
        with unwrapped():
            return await answers(step, ledger)
    except CoworldError as error:
        # A missing image is the Coworld's own fault; other faults of machine or engine say nothing about it
        if isinstance(error, EnvironmentFault) and not isinstance(error, ImageError):
            raise
        return failed(error.code, error.message, hint=error.hint)


def _tell(bus: EventBus, record: StepRecord) -> None:
    bus.publish(StepFinished(step=record.id, status=record.status, detail=record.detail, seconds=record.seconds))
    for item in record.advice:
        bus.publish(Notice(level="warning", message=f"{record.id}: {item.message}"))


def _not_reached(status: EpisodeStatus, trouble: str | None) -> StepAnswer:
    if status == "interrupted":
        return skipped("interrupted", "Not checked, because the certification was interrupted")
    return skipped("platform_error", f"Not checked, because the certification could not go on: {trouble}")


def _write(
    run: OpenRun,
    certification: Certification,
    seal: Callable[[Certification, bytes], Certificate] | None,
    pictures: Mapping[PageName, bytes],
) -> None:
    """Write the record, the certificate and the page, without awaiting, so that the writing cannot be cancelled."""
    run.bus.publish(
        RunFinished(
            status=certification.status,
            ok=certification.ok,
            scores=certification.scores,
            seconds=certification.seconds,
        )
    )
    record = certification.to_json().encode()
    run.reserve.write(run.layout.workspace / RECORD_NAME, record)
    certificate = seal(certification, record) if seal is not None else None
    if certificate is not None:
        run.reserve.write(run.layout.workspace / CERTIFICATE_NAME, certificate.to_json().encode())
    run.reserve.write(
        run.layout.workspace / PAGE_NAME, render_page(certification, certificate, pictures=pictures).encode()
    )
