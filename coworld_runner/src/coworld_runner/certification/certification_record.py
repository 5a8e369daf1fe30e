"""The record of one certification: its checks, evidence and verdict (`certification.json`).

It is written strictly and read leniently (`coworld_core.documents.records`); `read_certification` reads it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AliasChoices, Field

from coworld_core.certificate import CERTIFICATE_NAME, Degree
from coworld_core.documents.canonical_json import json_digest
from coworld_core.documents.records import OpenEnum, Record, SchemaVersion, open_record, read_as
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.outcome import EpisodeStatus
from coworld_core.episode.record import ImageRecord, SeatedPlayer, WorkspaceRecord
from coworld_core.errors import CertificationError
from coworld_core.issues import HintCode, Hinted, HintValues

if TYPE_CHECKING:
    from coworld_core.documents.json_text import Source

__all__ = [
    "PAGE_NAME",
    "RECORD_NAME",
    "Certification",
    "Evidence",
    "Level",
    "SkipReason",
    "SourceRecord",
    "SourceStatus",
    "StepId",
    "StepRecord",
    "StepStatus",
    "outcomes_digest",
    "read_certification",
]

PAGE_NAME = "certification.html"
RECORD_NAME = "certification.json"
"""Names of the page's and the record's files in the workspace."""

StepId = Annotated[
    Literal[
        "matriculate",
        "source-resolves",
        "images-reachable",
        "fixture-conforms",
        "smoke-episode",
        "results-conform",
        "replay-present",
        "replay-loadable",
        "players-run",
        "supporting-roles",
        "clients-handled",
        "seed-repeats",
        "pages-drawn",
        "rules-audit",
    ],
    OpenEnum,
]
"""The steps. Names and order of the first ten are the published ones (certification contract); the others are ours."""

_CAPTIONS: Mapping[str, str] = {
    "matriculate": "the manifest is right",
    "source-resolves": "the sources that the manifest names exist",
    "images-reachable": "every image is available for the platform that it runs on",
    "fixture-conforms": "every config satisfies the game's own schema",
    "smoke-episode": "an episode runs to its end, and the game keeps the contract",
    "results-conform": "the results satisfy the game's own schema, with a score for each seat",
    "replay-present": "the game leaves a replay",
    "replay-loadable": "the game shows that replay",
    "players-run": "every bundled player plays, and ends with status 0",
    "supporting-roles": "supporting roles, such as reporters and graders, are listed",
    "pages-drawn": "the pages show something in a browser, without errors",
    "rules-audit": "the rules give the same game everywhere, and valid answers",
    "clients-handled": "the game survives bad messages, and readmits players that lost their connection",
    "seed-repeats": "two episodes with the same seed end alike",
}
"""What each step checks, in plain words."""

StepStatus = Annotated[Literal["pass", "fail", "skip"], OpenEnum]
"""`skip`: the step gave no answer, and `skip_reason` says why."""

SkipReason = Annotated[
    Literal[
        "premise_failed",
        "not_applicable",
        "source_unreachable",
        "source_unsupported",
        "not_run",
        "platform_error",
        "interrupted",
    ],
    OpenEnum,
]
"""Why a step has no answer.

`premise_failed` a step that it needs did not pass; `not_applicable` this backend has nothing to check;
`source_unreachable` the host of the sources did not answer, or the check was offline; `source_unsupported` a source
is on a host that cannot be checked; `not_run` declared, but there is no harness for it; `platform_error` the
machine or the engine failed, which says nothing about the Coworld; `interrupted` cut short.
"""

UNDECIDED: frozenset[SkipReason] = frozenset({"premise_failed", "platform_error", "interrupted"})
"""Skips that leave the verdict open: the step might have failed."""

Level = Annotated[Literal["required", "advice", "note"], OpenEnum]
"""`required`: fails the step if not ok; `advice`: a warning, the step still passes; `note`: a fact."""

SourceStatus = Annotated[Literal["resolved", "unresolved", "unsupported", "not_declared", "unreached"], OpenEnum]
"""The state of one source reference; `unreached` if its host gave no usable answer."""


class _Record(Record):
    def __str__(self) -> str:
        return repr(self)


class Evidence(_Record, Hinted):
    """The result of one check."""

    code: str = Field(description="Stable snake_case identifier of the check.")
    level: Level = Field(description="Effect if not ok: required fails the step, advice is a warning; note is a fact.")
    ok: bool = Field(description="Whether the check passed.")
    message: str = Field(description="The finding, in a sentence.")
    hint: str | None = Field(default=None, description="How to fix it.")
    hint_code: HintCode = None
    hint_values: HintValues = None
    pointer: str | None = Field(default=None, description="JSON pointer into the manifest or the results.")
    line: int | None = Field(default=None, description="Line in that document, from 1.")
    column: int | None = Field(default=None, description="Column in that line, from 1.")
    slot: int | None = Field(default=None, description="The slot concerned, if any.")
    artifact: str | None = Field(default=None, description="A file with details, relative to the workspace.")
    log_tail: str = Field(default="", description="The last lines of the related log.")

    @property
    def broken(self) -> bool:
        """Whether this alone fails its step."""
        return not self.ok and self.level == "required"


class StepRecord(_Record, Hinted):
    """One step of the transcript and its answer."""

    id: StepId = Field(description="Id of the step.")
    kind: Annotated[Literal["auto", "human"], OpenEnum] = Field(
        description="Who carries it out: a program or a person."
    )
    checks: str = Field(description="What the step checks.")
    criterion: str = Field(
        validation_alias=AliasChoices("pass", "criterion"), serialization_alias="pass", description="When it passes."
    )
    how: str = Field(description="How it is checked.")
    status: StepStatus = Field(description="pass, fail or skip.")
    failure_reason: str | None = Field(default=None, description="Stable code of the failure, if it failed.")
    skip_reason: SkipReason | None = Field(default=None, description="Why it has no answer, if it was skipped.")
    detail: str = Field(description="The answer in a sentence.")
    evidence: tuple[Evidence, ...] = Field(default=(), description="The findings of the step.")
    hint: str | None = Field(default=None, description="What to do next, if it did not pass.")
    hint_code: HintCode = None
    hint_values: HintValues = None
    seconds: float = Field(default=0.0, ge=0, description="How long it took.")

    @property
    def caption(self) -> str:
        """The step's check in plain words, to follow "checks that"; empty for a step of another version."""
        return _CAPTIONS.get(self.id, "")

    @property
    def advice(self) -> tuple[Evidence, ...]:
        """Warnings (the step still passes)."""
        return tuple(item for item in self.evidence if item.level == "advice" and not item.ok)

    @property
    def broken(self) -> tuple[Evidence, ...]:
        """The evidence that the step failed on."""
        return tuple(item for item in self.evidence if item.broken)

    def __repr__(self) -> str:
        return f"<StepRecord {self.id}: {self.status}, {self.detail!r}>"


class SourceRecord(_Record):
    """The declared source of one program, and whether it exists."""

    runnable: str = Field(description="The program: game, player <id>, reporter <id>, ...")
    url: str | None = Field(default=None, description="The reference as declared, without passwords; null: none.")
    status: SourceStatus = Field(description="Result of the look-up.")
    code: str = Field(description="Stable code of the reason: source_resolved, source_not_pinned, ...")
    message: str = Field(description="The finding, in a sentence.")
    sha: str | None = Field(default=None, description="The commit it is pinned to.")


class Certification(WorkspaceRecord, _Record):
    """The checks of one Coworld, and the degree conferred; written beside the evidence on every path.

    A record that `certify` returned, or that was read from a file, knows its `workspace`, and so its `paths`.
    """

    schema_version: SchemaVersion = Field(default=1, description="Version of this record's shape.")
    transcript: str = Field(description="Name of the transcript, which defines the steps and their checks.")
    transcript_sha256: str = Field(description="Digest of the transcript's canonical Markdown.")
    verdict: Degree | None = Field(description="The degree conferred; null if none was.")
    statement: str = Field(description="The verdict, in a sentence.")
    caveats: tuple[str, ...] = Field(default=(), description="Limits of the verdict: what was not checked.")
    status: EpisodeStatus = Field(description="completed: every step has an answer; failed: it could not go on.")
    coworld: str = Field(default="", description="Name of the Coworld; empty if its manifest could not be read.")
    version: str = Field(default="", description="Version of the Coworld.")
    manifest: str = Field(default="", description="Where the manifest was read from.")
    manifest_sha256: str = Field(default="", description="Digest of the manifest in canonical form.")
    images: tuple[ImageRecord, ...] = Field(default=(), description="The images of the manifest, with their digests.")
    sources: tuple[SourceRecord, ...] = Field(default=(), description="The source of each program.")
    backend: str = Field(default="", description="Name of the backend it ran on.")
    run_id: str = Field(description="The run's label, carried by everything that it created.")
    started_at: dt.datetime = Field(description="When it began (UTC).")
    matriculated_at: dt.datetime | None = Field(default=None, description="When the manifest passed the check (UTC).")
    graduated_at: dt.datetime | None = Field(default=None, description="When the degree was conferred (UTC).")
    ended_at: dt.datetime = Field(description="When it ended (UTC).")
    seconds: float = Field(ge=0, description="Wall time from start to end.")
    steps: tuple[StepRecord, ...] = Field(description="The steps in the order of the transcript.")
    own_steps: tuple[StepRecord, ...] = Field(
        default=(), description="Steps beside those of the transcript, for games to which they apply."
    )
    episode: str | None = Field(default=None, description="The smoke episode's record, relative to the workspace.")
    slots: tuple[SeatedPlayer, ...] = Field(default=(), description="Players of the smoke episode, by slot.")
    scores: tuple[float, ...] = Field(default=(), description="The smoke episode's scores by slot, if valid.")
    trouble: str | None = Field(default=None, description="Why it could not go on, if not because of the Coworld.")
    versions: dict[str, str] = Field(default_factory=dict, description="Versions of coworld, Python and the engine.")

    @property
    def ok(self) -> bool:
        """Whether the degree was conferred."""
        return self.verdict is not None

    @property
    def paths(self) -> dict[str, Path | None]:
        """Where its files are; None for those that do not exist.

        They are the page (`report`), the record, the certificate, and the smoke episode's results, replay and logs.

        Raises:
            UsageError: Code `workspace_unknown` if the record does not know its workspace.
        """
        own = self.layout.workspace
        played = EpisodeLayout((own / self.episode).parent) if self.episode else None
        files = {
            "report": own / PAGE_NAME,
            "record": own / RECORD_NAME,
            "certificate": own / CERTIFICATE_NAME,
            "results": played.results if played else None,
            "replay": played.replay if played else None,
            "logs": played.logs if played else None,
        }
        return {name: path if path is not None and path.exists() else None for name, path in files.items()}

    @property
    def standings(self) -> tuple[tuple[str, float], ...]:
        """Player and score by slot in the smoke episode; a player that the record does not name is `slot N`."""
        names = [str(seat) for seat in self.slots]
        return tuple(
            (names[slot] if slot < len(names) else f"slot {slot}", score) for slot, score in enumerate(self.scores)
        )

    @property
    def all_steps(self) -> tuple[StepRecord, ...]:
        """The steps of the transcript, and those beside them."""
        return self.steps + self.own_steps

    @property
    def failed(self) -> tuple[StepRecord, ...]:
        """The steps that failed, in order."""
        return tuple(step for step in self.all_steps if step.status == "fail")

    @property
    def advice(self) -> tuple[Evidence, ...]:
        """Warnings of all steps (certification still passes)."""
        return tuple(item for step in self.all_steps for item in step.advice)

    def step(self, step_id: StepId) -> StepRecord:
        """Return the record of one step."""
        return next(step for step in self.all_steps if step.id == step_id)

    def to_json(self) -> str:
        """Return the record as the JSON of `certification.json`."""
        return self.model_dump_json(indent=2, by_alias=True) + "\n"

    def raise_for_verdict(self) -> Certification:
        """Return the record if the degree was conferred.

        Raises:
            CertificationError: It was not conferred; has the first failed step's reason and detail.
        """
        if self.ok:
            return self
        if not self.failed:
            raise CertificationError(self.statement, context={"run_id": self.run_id})
        first = self.failed[0]
        raise CertificationError(
            f"{first.id}: {first.detail}",
            code=first.failure_reason,
            hint=first.hint,
            context={"run_id": self.run_id, "step": first.id},
        )

    def __repr__(self) -> str:
        tally = ", ".join(f"{step.id} {step.status}" for step in self.all_steps if step.status != "pass")
        return (
            f"<Certification {self.coworld} {self.version}: {self.verdict or 'none'}{f' ({tally})' if tally else ''}>"
        )


def outcomes_digest(certification: Certification) -> str:
    """Return a digest of what came of the steps: equal for two certifications that came to the same.

    It is over ids, outcomes and reasons of the steps and the checks in them, without texts, facts and times.
    """
    steps = [
        {
            "id": step.id,
            "status": step.status,
            "failure_reason": step.failure_reason,
            "skip_reason": step.skip_reason,
            "findings": sorted(
                [item.code, item.level, str(item.slot), item.pointer or "", item.ok]
                for item in step.evidence
                if item.level != "note"
            ),
        }
        for step in certification.all_steps
    ]
    return f"sha256:{json_digest({'transcript': certification.transcript_sha256, 'steps': steps})}"


def read_certification(source: Source) -> Certification:
    """Read the record of a certification, as `coworld_core.episode.record.read_record` reads that of an episode.

    Args:
        source: The path of a `certification.json` or of the directory that holds it, its content as bytes, or the
            JSON as a Python value.

    Raises:
        RecordError: The source is something else, or lacks a required field.
        UsageError: There is no such file, or it cannot be read.
    """
    what = "certification record"
    return read_as(Certification, open_record(source, what=what, name=RECORD_NAME), what=what).read_from(source)
