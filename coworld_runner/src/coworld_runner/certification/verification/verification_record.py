"""What came of playing what was played again."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

from pydantic import Field

from coworld_core.documents.records import OpenEnum, Record, SchemaVersion, is_empty

__all__ = ["ONLY_ROW", "ChangedFile", "Verification", "VerificationSummary"]

ONLY_ROW = "only_row"
"""Code of the usual reason why an episode of an evaluation is not played again."""
_Verdict = Literal["same", "different", "cannot"]

_LONGEST = 200
"""Characters of a value that are told."""
_MOST_TOLD = 1000
"""How many verifications a summary keeps that are not the same."""


class ChangedFile(Record):
    """A file that is not as it was left."""

    path: str = Field(description="Its path in the run's directory, or the bundle.")
    problem: str = Field(description="What is wrong with it, as a sentence without its beginning.")


class Verification(Record):
    """Whether an episode is what its record says: its files are as they were left, and its game plays again."""

    schema_version: SchemaVersion = Field(default=1, description="Version of this document's shape.")
    run: str = Field(description="The path of the run, or the key of an episode of a run of many.")
    verdict: Annotated[_Verdict, OpenEnum] = Field(
        description="same; different: a file was changed, or another game came out; cannot: it cannot be played again, "
        "and its files are as they were left."
    )
    code: str = Field(default="", description="Code of the reason; empty for the same.")
    reason: str = Field(default="", description="The reason in a sentence; empty for the same.")
    tick: int | None = Field(default=None, description="The first tick that differs; null: none is known.")
    recorded: str = Field(default="", description="What was recorded there, shortened.")
    now: str = Field(default="", description="What came out, shortened.")
    files: tuple[ChangedFile, ...] = Field(default=(), description="Files that are not as they were left.")
    checked: tuple[str, ...] = Field(
        default=(), description="What was compared: files, record, signature, certificate, replay, results, row."
    )
    notes: tuple[str, ...] = Field(default=(), description="Limits of the verdict, in sentences.")
    of: str = Field(default="", exclude_if=is_empty, description="Digest of the row that it is about, of one of many.")

    @property
    def ok(self) -> bool:
        """Whether it is the same."""
        return self.verdict == "same"


class VerificationSummary(Record):
    """What came of verifying many episodes."""

    schema_version: SchemaVersion = Field(default=1, description="Version of this document's shape.")
    verified: int = Field(default=0, description="Number of episodes.")
    kept: int = Field(default=0, description="Number of them that were verified before, and not again.")
    verdicts: dict[str, int] = Field(default_factory=dict[str, int], description="Number of episodes by verdict.")
    reasons: dict[str, int] = Field(
        default_factory=dict[str, int], description="Number of episodes by the code of their reason."
    )
    others: tuple[Verification, ...] = Field(
        default=(),
        description=f"Those that are not the same, at most {_MOST_TOLD}, without those of which only the row was kept.",
    )

    @property
    def verdict(self) -> _Verdict:
        """The worst: different if any is, else cannot if any cannot be played again."""
        return "different" if self.verdicts.get("different") else "cannot" if self.verdicts.get("cannot") else "same"


class Tally:
    """Counts verifications; memory does not grow with their number."""

    def __init__(self) -> None:
        self._verdicts: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._others: list[Verification] = []
        self._kept = 0

    @property
    def verified(self) -> int:
        """How many were counted."""
        return self._verdicts.total()

    def add(self, found: Verification, *, kept: bool = False) -> None:
        """Count one."""
        self._verdicts[found.verdict] += 1
        self._kept += kept
        if not found.ok:
            self._reasons[found.code] += 1
            if found.code != ONLY_ROW and len(self._others) < _MOST_TOLD:
                self._others.append(found)

    def summary(self) -> VerificationSummary:
        """What was counted."""
        return VerificationSummary(
            verified=self.verified,
            kept=self._kept,
            verdicts=dict(self._verdicts),
            reasons=dict(self._reasons),
            others=tuple(self._others),
        )


def shortened(text: str) -> str:
    """A value as it is told."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
