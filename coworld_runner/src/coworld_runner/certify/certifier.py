"""The ten steps, carried out."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import anyio

from coworld_core.episode import EpisodeRecord, ImageRecord, read_record
from coworld_core.errors import CoworldError, EnvironmentFault, ImageError, ManifestError
from coworld_core.events import Notice, RunFinished, RunStarted, StepFinished, StepStarted
from coworld_core.loading import manifest_sha256
from coworld_core.outcome import EpisodeStatus

from .._files import strip_controls
from .._hints import listed
from .._runs import open_run
from ..backend import Backend
from ..episode import versions
from ..errors import unwrapped
from ..events import Listener
from ..packages import Package
from .answers import (
    Answer,
    failed,
    skipped,
)
from .page import render_page
from .record import RECORD_NAME, UNDECIDED, Certification, Evidence, SkipReason, StepRecord
from .steps import EPISODE, CertifyOptions, Steps, Subject
from .transcript import TRANSCRIPT, TranscriptStep

__all__ = ["PAGE_NAME", "CertifyOptions", "certify", "certify_refused"]

PAGE_NAME = "certification.html"
"""The page's file in the workspace."""


async def certify(
    package: Package,
    *,
    backend: Backend,
    workspace: Path,
    options: CertifyOptions | None = None,
    overwrite: bool = False,
    listeners: tuple[Listener, ...] = (),
    episode_listeners: tuple[Listener, ...] = (),
    latest: bool = False,
    run_id: str | None = None,
) -> Certification:
    """Take a Coworld through the ten steps of ``coworld-executable``, and leave the evidence in a workspace.

    A failed step does not end it: every later step is carried out whose premises are there, and the others say which
    step they miss. ``certification.json`` and ``certification.html`` are written on every path, interruption included.

    Args:
        package: The Coworld.
        backend: An entered backend.
        workspace: The directory for the evidence; it must be new or empty.
        options: How to certify.
        overwrite: Whether a workspace of an earlier run may be emptied first.
        listeners: Readers of the certification's events (steps, images, the replay's unit).
        episode_listeners: Readers of the smoke episode's own events.
        latest: Whether ``latest`` beside the workspace should point at it.
        run_id: The certification's label; a new one by default.

    Returns:
        The record. What is wrong with the Coworld is in its steps.

    Raises:
        WorkspaceError: The workspace is not fresh or not writable; nothing was started.
        EnvironmentFault: The machine or the engine failed; the record says how far it got.
    """
    return await _carry_out(
        Subject(package=package, report=None, backend=backend),
        workspace=workspace,
        options=options or CertifyOptions(),
        overwrite=overwrite,
        listeners=listeners,
        episode_listeners=episode_listeners,
        latest=latest,
        run_id=run_id,
    )


async def certify_refused(
    error: ManifestError,
    *,
    workspace: Path,
    backend: Backend | None = None,
    overwrite: bool = False,
    listeners: tuple[Listener, ...] = (),
    latest: bool = False,
    run_id: str | None = None,
) -> Certification:
    """The certification of a Coworld whose manifest could not be read: its first step fails, and nothing is run.

    Args:
        error: What ``resolve_package`` raised.
        workspace: The directory for the evidence; it must be new or empty.
        backend: Where it would have run, for the record; need not be entered.
        overwrite: Whether a workspace of an earlier run may be emptied first.
        listeners: Readers of the certification's events.
        latest: Whether ``latest`` beside the workspace should point at it.
        run_id: The certification's label; a new one by default.

    Returns:
        The record.

    Raises:
        WorkspaceError: The workspace is not fresh or not writable.
    """
    return await _carry_out(
        Subject(package=None, report=error.report, backend=backend),
        workspace=workspace,
        options=CertifyOptions(),
        overwrite=overwrite,
        listeners=listeners,
        episode_listeners=(),
        latest=latest,
        run_id=run_id,
    )


async def _carry_out(
    subject: Subject,
    *,
    workspace: Path,
    options: CertifyOptions,
    overwrite: bool,
    listeners: tuple[Listener, ...],
    episode_listeners: tuple[Listener, ...],
    latest: bool,
    run_id: str | None,
) -> Certification:
    with open_run(workspace, run_id=run_id, listeners=listeners, overwrite=overwrite, latest=latest) as run:
        return await _Certifier(subject, run, options, episode_listeners).run()


class _Certifier(Steps):
    """The course of one certification."""

    # ------------------------------------------------------------------ the whole

    async def run(self) -> Certification:
        package, backend = self.subject.package, self.subject.backend
        self.bus.publish(
            RunStarted(
                what="certification",
                coworld=package.manifest.game.name if package else "",
                version=package.manifest.game.version if package else "",
                backend=backend.name if backend else "",
                variant="certification",
                players=tuple(entry.player_id for entry in package.manifest.certification.players) if package else (),
                workspace=str(self.layout.workspace),
            )
        )
        status: EpisodeStatus = "failed"
        left: SkipReason = "platform_error"
        trouble: CoworldError | None = None
        try:
            for step in TRANSCRIPT.steps:
                await self._step(step)
            status = "completed"
        except CoworldError as error:
            trouble = error
            self.trouble = error.message
        except anyio.get_cancelled_exc_class():
            status, left = "interrupted", "interrupted"
            raise
        except Exception as error:
            self.trouble = "; ".join(dict.fromkeys(_words(error)))
            raise
        finally:
            self.probes.close()
            self._leave_out(left)
            certification = self._write(status)
        if trouble is not None:
            trouble.context["workspace"] = str(self.layout.workspace)
            raise trouble
        return certification

    async def _step(self, step: TranscriptStep) -> None:
        self.bus.publish(StepStarted(step=step.id, checks=step.checks))
        begun = time.monotonic()
        try:
            with unwrapped():
                answer = await self._answer(step.id)
        except ImageError as error:
            answer = failed(error.code, error.message, hint=error.hint)
        except EnvironmentFault:
            raise
        except CoworldError as error:
            answer = failed(error.code, error.message, hint=error.hint)
        self._note(step, answer, time.monotonic() - begun)
        if step.id == "matriculate" and answer.status == "pass":
            self.matriculated_at = dt.datetime.now(dt.UTC)

    def _note(self, step: TranscriptStep, answer: Answer, seconds: float) -> None:
        record = StepRecord(
            id=step.id,
            kind=step.kind,
            checks=step.checks,
            criterion=step.criterion,
            how=step.how,
            status=answer.status,
            failure_reason=answer.failure_reason,
            skip_reason=answer.skip_reason,
            detail=self._plain(answer.detail),
            evidence=tuple(self._plain_evidence(item) for item in answer.evidence),
            hint=self._plain(answer.hint) if answer.hint else None,
            seconds=round(seconds, 3),
        )
        self.steps.append(record)
        self.bus.publish(
            StepFinished(step=record.id, status=record.status, detail=record.detail, seconds=record.seconds)
        )
        for item in record.advice:
            self.bus.publish(Notice(level="warning", message=f"{record.id}: {item.message}"))

    def _leave_out(self, reason: SkipReason) -> None:
        """Say of every step that was not reached why it was not."""
        why = "was interrupted" if reason == "interrupted" else f"could not go on: {self.trouble}"
        for step in TRANSCRIPT.steps[len(self.steps) :]:
            self._note(step, skipped(reason, f"Not checked, because the certification {why}"), 0.0)

    # ------------------------------------------------------------------ the record

    def _record(self, status: EpisodeStatus) -> Certification:
        package, backend, report = self.subject.package, self.subject.backend, self.subject.report
        ended_at = dt.datetime.now(dt.UTC)
        failed_steps = [step for step in self.steps if step.status == "fail"]
        undecided = [step for step in self.steps if step.skip_reason in UNDECIDED]
        conferred = status == "completed" and not failed_steps and not undecided
        name = f"{package.manifest.game.name} {package.manifest.game.version}" if package else "The Coworld"
        source = package.source if package else report.source if report else ""
        with_images = backend is not None and backend.capabilities.images
        episode = self.episode or self._episode_left_behind()
        return Certification(
            transcript=TRANSCRIPT.name,
            transcript_sha256=TRANSCRIPT.sha256,
            verdict="Executable" if conferred else None,
            statement=self._plain(_statement(name, status, failed_steps, undecided)),
            caveats=tuple(self._plain(caveat) for caveat in self.caveats),
            status=status,
            coworld=package.manifest.game.name if package else "",
            version=package.manifest.game.version if package else "",
            manifest=self._plain(source),
            manifest_sha256=manifest_sha256(package.manifest) if package else "",
            images=tuple(
                ImageRecord(image=image, digest=info.digest, platform=info.platform, emulated=info.emulated)
                for image, info in sorted(self.images.items())
                if with_images
            ),
            sources=self.sources,
            backend=backend.name if backend else "",
            run_id=self.bus.run_id,
            started_at=self.begun_at,
            matriculated_at=self.matriculated_at,
            graduated_at=ended_at if conferred else None,
            ended_at=ended_at,
            seconds=round(time.monotonic() - self.begun, 3),
            steps=tuple(self.steps),
            episode=f"{EPISODE}/{self.episode_layout.record.name}" if episode else None,
            scores=episode.scores if episode else (),
            trouble=self._plain(self.trouble) if self.trouble else None,
            versions=versions(backend) if backend is not None else {},
        )

    def _episode_left_behind(self) -> EpisodeRecord | None:
        """The record of an episode that did not return: it was written on its way out."""
        try:
            return read_record(self.episode_layout.record)
        except CoworldError:
            return None

    def _write(self, status: EpisodeStatus) -> Certification:
        """Make the record and the page; without waiting, so that nothing can come between."""
        certification = self._record(status)
        self.bus.publish(
            RunFinished(status=status, ok=certification.ok, scores=certification.scores, seconds=certification.seconds)
        )
        self.reserve.write(self.layout.workspace / RECORD_NAME, certification.to_json().encode())
        self.reserve.write(self.layout.workspace / PAGE_NAME, render_page(certification).encode())
        return certification

    # ------------------------------------------------------------------ texts

    def _plain(self, text: str) -> str:
        """A text for a person: no control sequences, no half characters, no secret of this run."""
        text = strip_controls(text.encode("utf-8", "replace").decode())
        for slot, token in enumerate(self.probes.tokens):
            text = text.replace(token, f"[token of slot {slot}]")
        return text

    def _plain_evidence(self, item: Evidence) -> Evidence:
        return item.model_copy(
            update={
                "message": self._plain(item.message),
                "hint": self._plain(item.hint) if item.hint else None,
                "pointer": self._plain(item.pointer) if item.pointer else item.pointer,
                "log_tail": self._plain(item.log_tail),
            }
        )


def _words(error: BaseException) -> Iterator[str]:
    """What went wrong, for errors that should not be."""
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("tuple[BaseException, ...]", error.exceptions):
            yield from _words(inner)
    else:
        yield f"{type(error).__name__}: {error}"


def _statement(
    name: str, status: EpisodeStatus, failed_steps: Sequence[StepRecord], undecided: Sequence[StepRecord]
) -> str:
    if status == "interrupted":
        return f"{name} is not certified: the certification was interrupted."
    if failed_steps:
        count = f"{len(failed_steps)} of {len(TRANSCRIPT.steps)} steps failed"
        return f"{name} is not certified: {count} ({listed([step.id for step in failed_steps])})."
    if undecided:
        return f"{name} is not certified: {listed([step.id for step in undecided])} could not be checked."
    return f"{name} is Executable: it went through the {len(TRANSCRIPT.steps)} steps of {TRANSCRIPT.name}."
