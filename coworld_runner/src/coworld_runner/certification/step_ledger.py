"""The state of a running certification, and the record made from it.

The checks are in `steps`; `certifier` runs them.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field

from coworld_core.certificate import ContentPart
from coworld_core.episode.outcome import EpisodeStatus
from coworld_core.episode.record import EpisodeRecord, SeatedPlayer
from coworld_core.hints import Hint
from coworld_core.issues import Issue
from coworld_core.text.phrases import listed
from coworld_core.text.terminal import strip_controls, writable

from ..backend import Backend, ImageInfo
from ..episode.episode_record import versions
from ..episode.run_start import OpenRun
from .certification_record import UNDECIDED, Certification, Evidence, SourceRecord, StepRecord
from .contract_checks import ContractProbes
from .further_episodes import FurtherEpisodes
from .page_checks import PageName
from .step_answers import StepAnswer
from .transcript import TRANSCRIPT, TranscriptStep

__all__ = ["EPISODE", "SCREENSHOTS", "StepLedger", "Subject"]

SCREENSHOTS = "screenshots"
"""Directory of pictures of the pages."""
EPISODE = "episode"
"""The smoke episode's own workspace, below the certification's."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The certified Coworld for the record and the first event; most fields are empty if its manifest is unreadable."""

    manifest: str
    """Where the manifest was read from."""
    manifest_sha256: str = ""
    coworld: str = ""
    version: str = ""
    players: tuple[str, ...] = ()
    """The fixture's players, by slot."""
    backend: Backend | None
    """The backend that it runs on, or would have run on."""


@dataclass(kw_only=True)
class StepLedger:
    """Findings so far, for later steps and for the record."""

    steps: list[StepRecord] = field(default_factory=list[StepRecord])
    """The steps answered so far, in order."""
    caveats: list[str] = field(default_factory=list[str])
    """Limits of the verdict: what was not checked."""
    issues: tuple[Issue, ...] = ()
    """Issues that the strict check found in the manifest."""
    matriculated_at: dt.datetime | None = None
    files: tuple[ContentPart, ...] = ()
    """The package's files, as they were before anything ran."""
    sources: tuple[SourceRecord, ...] = ()
    images: dict[str, ImageInfo] = field(default_factory=dict[str, ImageInfo])
    """The available images, by reference."""
    fixture_ok: bool = True
    """Whether the fixture can be played."""
    probes: ContractProbes = field(default_factory=ContractProbes)
    """Evidence from the smoke episode, and that episode's tokens."""
    episode: EpisodeRecord | None = None
    """The smoke episode once it has ended, in any way."""
    further: FurtherEpisodes | None = None
    """What the episodes after a smoke episode without faults have shown."""
    pictures: dict[PageName, bytes] = field(default_factory=dict[PageName, bytes])
    """PNGs of the pages."""
    page_tokens: tuple[str, ...] = ()
    """The tokens of the episode in which the pages were looked at."""
    trouble: str | None = None
    """Why the certification could not go on, if that was not the Coworld's fault."""

    @property
    def played(self) -> EpisodeRecord:
        """The smoke episode, for steps that depend on it."""
        assert self.episode is not None
        return self.episode

    def note(self, step: TranscriptStep, answer: StepAnswer, seconds: float) -> StepRecord:
        """Record a step's answer; a skip that does not affect the verdict becomes a caveat."""
        record = StepRecord(
            id=step.id,
            kind=step.kind,
            checks=step.checks,
            criterion=step.criterion,
            how=step.how,
            status=answer.status,
            failure_reason=answer.failure_reason,
            skip_reason=answer.skip_reason,
            detail=self.plain(answer.detail),
            evidence=tuple(self._plain_evidence(item) for item in answer.evidence),
            hint=self._plain_hint(answer.hint),
            seconds=round(seconds, 3),
        )
        self.steps.append(record)
        if record.skip_reason is not None and record.skip_reason not in UNDECIDED:
            self.caveats.append(f"{record.id}: {record.detail}")
        return record

    def record(self, subject: Subject, run: OpenRun, status: EpisodeStatus) -> Certification:
        """Make the record of the current state; it confers the degree if nothing prevents that."""
        ended_at = dt.datetime.now(dt.UTC)
        statement, conferred = self._verdict(subject, status)
        backend, episode = subject.backend, self.episode
        with_images = backend is not None and backend.capabilities.images
        return Certification(
            transcript=TRANSCRIPT.name,
            transcript_sha256=TRANSCRIPT.sha256,
            verdict="Executable" if conferred else None,
            statement=self.plain(statement),
            caveats=tuple(self.plain(caveat) for caveat in self.caveats),
            status=status,
            coworld=subject.coworld,
            version=subject.version,
            manifest=self.plain(subject.manifest),
            manifest_sha256=subject.manifest_sha256,
            images=tuple(info.record() for _, info in sorted(self.images.items()) if with_images),
            sources=self.sources,
            backend=backend.name if backend else "",
            run_id=run.bus.run_id,
            started_at=run.started_at,
            matriculated_at=self.matriculated_at,
            graduated_at=ended_at if conferred else None,
            ended_at=ended_at,
            seconds=run.seconds(),
            steps=tuple(self.steps[: len(TRANSCRIPT.steps)]),
            own_steps=tuple(self.steps[len(TRANSCRIPT.steps) :]),
            episode=f"{EPISODE}/{run.layout.record.name}" if episode else None,
            slots=tuple(
                SeatedPlayer(name=self.plain(slot.name), player_id=slot.player_id)
                for slot in (episode.slots if episode else ())
            ),
            scores=episode.scores if episode else (),
            trouble=self.plain(self.trouble) if self.trouble else None,
            versions=versions(backend) if backend is not None else {},
        ).in_workspace(run.layout.workspace)

    def _verdict(self, subject: Subject, status: EpisodeStatus) -> tuple[str, bool]:
        """Return the verdict as a sentence, and whether the degree is conferred."""
        name = f"{subject.coworld} {subject.version}" if subject.coworld else "The Coworld"
        failed = [step.id for step in self.steps if step.status == "fail"]
        undecided = [step.id for step in self.steps if step.skip_reason in UNDECIDED]
        published = len(TRANSCRIPT.steps)
        steps, beside = len(self.steps), [step.id for step in self.steps[published:] if step.status == "pass"]
        if status == "interrupted":
            return f"{name} is not certified: the certification was interrupted.", False
        if failed:
            return f"{name} is not certified: {len(failed)} of {steps} steps failed ({listed(failed)}).", False
        if undecided:
            return f"{name} is not certified: {listed(undecided)} could not be checked.", False
        more = f", and passed {listed(beside)}" if beside else ""
        statement = f"{name} is Executable: it went through the {published} steps of {TRANSCRIPT.name}{more}."
        return statement, status == "completed"

    # ------------------------------------------------------------------ texts

    def plain(self, text: str) -> str:
        """Clean a text for display: without control sequences, lone surrogates and tokens of this run."""
        text = strip_controls(writable(text))
        for tokens in (self.probes.tokens, self.page_tokens, *(self.further.tokens if self.further else ())):
            for slot, token in enumerate(tokens):
                text = text.replace(token, f"[token of slot {slot}]")
        return text

    def _plain_hint(self, hint: str | None) -> str | None:
        if not isinstance(hint, Hint):
            return self.plain(hint) if hint else None
        values = {name: self.plain(value) if isinstance(value, str) else value for name, value in hint.values.items()}
        return Hint.restored(self.plain(hint), hint.code, values)

    def _plain_evidence(self, item: Evidence) -> Evidence:
        hint = self._plain_hint(item.hint)
        return item.model_copy(
            update={
                "message": self.plain(item.message),
                "hint": hint,
                **({"hint_values": dict(hint.values)} if isinstance(hint, Hint) and hint.values else {}),
                "pointer": self.plain(item.pointer) if item.pointer else item.pointer,
                "log_tail": self.plain(item.log_tail),
            }
        )
