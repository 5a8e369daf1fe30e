"""A certification in which every text is hostile."""

from __future__ import annotations

import datetime as dt
from typing import Any

from coworld_core.episode.record import ImageRecord, SeatedPlayer
from coworld_runner.certification import TRANSCRIPT, Certification, Evidence, SourceRecord, StepRecord
from coworld_runner.certification.record import Level

__all__ = ["HOSTILE", "hostile_certification"]

HOSTILE = (
    "<script>document.title='owned'</script>",
    "</pre></details></style><img src=x onerror=\"document.title='owned'\">",
    "\"'><a href=\"javascript:document.title='owned'\">click</a>",
    "<svg onload=document.title='owned'>",
    "&lt;b&gt; &amp;amp; {{7*7}} ${7*7}",
    "<!-- ]]> -->",
)
_CONTROLS = "\u202ereversed\u202c \x1b[31mred\x07 \x00 \ufeff \ud83d"
_ALL = " ".join(HOSTILE) + _CONTROLS


def hostile_certification(status: Any = "completed") -> Certification:
    """A record in which every text of foreign origin tries to break out of its place in the page."""
    now = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)
    passed: tuple[Level, bool] = ("required", True)
    kinds: list[tuple[Level, bool]] = [("required", False), ("advice", False), ("note", True), *[passed] * 8]
    evidence = tuple(
        Evidence(
            code="anything",
            level=level,
            ok=ok,
            message=_ALL,
            hint=_ALL,
            pointer=f"/player/0/{_ALL}",
            line=1,
            column=2,
            artifact=f"episode/{_ALL}",
            log_tail=_ALL,
        )
        for level, ok in kinds
    )
    return Certification(
        transcript=TRANSCRIPT.name,
        transcript_sha256=TRANSCRIPT.sha256,
        verdict=None,
        statement=_ALL,
        caveats=(_ALL,),
        status=status,
        coworld=_ALL,
        version=_ALL,
        manifest=_ALL,
        manifest_sha256="0" * 64,
        images=(ImageRecord(image=_ALL, digest=_ALL, platform=_ALL),),
        sources=(SourceRecord(runnable=_ALL, url=_ALL, status="unresolved", code="x", message=_ALL),),
        backend="fake",
        run_id="0123456789abcdef",
        started_at=now,
        ended_at=now,
        seconds=1.5,
        steps=tuple(
            StepRecord(
                id=step.id,
                kind=step.kind,
                checks=step.checks,
                criterion=step.criterion,
                how=step.how,
                status="fail" if index % 2 else "skip",
                failure_reason=_ALL if index % 2 else None,
                skip_reason=None if index % 2 else "premise_failed",
                detail=_ALL,
                evidence=evidence,
                hint=f"Do {_ALL}",
            )
            for index, step in enumerate(TRANSCRIPT.steps)
        ),
        slots=(SeatedPlayer(name=_ALL, player_id=_ALL), SeatedPlayer(name=_ALL)),
        scores=(1, 2),
        trouble=_ALL,
        versions={_ALL: _ALL},
    )
