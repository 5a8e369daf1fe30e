"""Whether one player is better than another, decided as soon as enough blocks have been played.

The verdict is about winning blocks: `firm_evidence` of the blocks won and lost. The report also
gives the mean difference and its interval. If the two disagree, a remark says so.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from ..documents.records import OpenEnum, Record, is_empty
from ..episode.events import EvaluationProgressed
from ..episode.record import EpisodeRow, SlotRow
from ..text.phrases import plural
from .betting import MeanTest
from .block_ledger import JudgedBlock, Pair
from .comparison_words import chance_better, describe_evidence, more_blocks, percent, two_digits
from .designs import Lineup, comparison_lineups
from .elo import EloDifference, EloTest, elo_difference
from .estimates import Doubt, Interval, Sample, firm_evidence, least_wins, running_interval
from .lost_blocks import LostBlock, WorstBlocks, lost_scenes
from .number_text import interval_text, number
from .report_base import (
    Estimate,
    Evaluation,
    EvaluationPlan,
    IntervalRecord,
    Remark,
    interval_record,
    rounded,
)
from .report_contents import Parts, ShownReport, player_names, players_table

__all__ = [
    "NEW",
    "OLD",
    "OPPONENT",
    "Comparison",
    "ComparisonPlan",
    "ComparisonReport",
    "ComparisonVerdict",
    "OpponentMeeting",
    "compare_rows",
]

NEW, OLD = "new", "old"
"""Labels of the two entrants."""
OPPONENT = "opponent"
"""Label of the player that both meet in turn, if there is one."""

ComparisonVerdict = Annotated[Literal["better", "worse", "equal", "not_better", "undecided"], OpenEnum]
"""`better` or `worse`: the new player wins or loses more blocks than chance explains; `equal`: the mean
difference is within the margin; `undecided`: not enough evidence. In a test of an Elo difference, `better`: by more
than the lower one; `not_better`: by less than the upper one."""


class ComparisonPlan(EvaluationPlan):
    """The plan of a comparison: everything its report depends on besides the rows."""

    kind: Literal["compare"] = "compare"  # pyright: ignore[reportIncompatibleVariableOverride]
    new: SlotRow = Field(description="The player that is to prove better.")
    old: SlotRow = Field(description="The player to compare it with.")
    opponent: SlotRow | None = Field(
        default=None,
        exclude_if=lambda value: value is None,
        description="The player that both meet in turn, in all other seats; null: they meet each other.",
    )
    margin: float | None = Field(default=None, ge=0, description="Differences up to this count as none.")
    elo0: float | None = Field(
        default=None, description="An Elo difference up to this is not worth having; null: no such test."
    )
    elo1: float | None = Field(default=None, description="An Elo difference from this on is; null: no such test.")
    beta: float = Field(default=0.05, gt=0, lt=1, description="How often one from elo1 on may fail the test.")

    @model_validator(mode="after")
    def _with_both(self) -> ComparisonPlan:
        if (self.elo0 is None) != (self.elo1 is None) or (
            self.elo0 is not None and self.elo1 is not None and self.elo0 >= self.elo1
        ):
            raise ValueError("elo0 and elo1 belong together, and elo0 is the lower one")
        return self

    def players(self) -> dict[str, SlotRow]:
        """The measured players, by label."""
        met = {OPPONENT: self.opponent} if self.opponent is not None else {}
        return {NEW: self.new, OLD: self.old, **met}


class EloTestRecord(Record):
    """How far a test of an Elo difference has come."""

    elo0: float = Field(description="A difference up to this is not worth having.")
    elo1: float = Field(description="A difference from this on is.")
    beta: float = Field(description="How often such a difference may fail.")
    evidence: float = Field(ge=0, description="Evidence for a difference of more than elo0; 1 / alpha decides.")
    counter_evidence: float = Field(ge=0, description="Evidence for one of less than elo1; 1 / beta decides.")


class OpponentMeeting(Record):
    """How one of the two players did against the opponent of both: one episode a block."""

    label: str = Field(description="Label of the player.")
    won: int = Field(ge=0, description="Episodes in which it scored more than the opponent.")
    lost: int = Field(ge=0, description="Episodes in which it scored less.")
    drawn: int = Field(ge=0, description="Episodes in which both scored the same.")
    elo: EloDifference = Field(description="Its Elo difference to the opponent.")

    def __str__(self) -> str:
        return f"{self.won} won, {self.lost} lost, {self.drawn} drawn, Elo {self.elo}"


class ComparisonReport(ShownReport):
    """The result of a comparison."""

    plan: ComparisonPlan = Field(description="The plan of the comparison.")  # pyright: ignore[reportIncompatibleVariableOverride]
    verdict: ComparisonVerdict = Field(description="Whether the new player is better.")
    won: int = Field(ge=0, description="Blocks in which the new player scored more.")
    lost: int = Field(ge=0, description="Blocks in which it scored less.")
    drawn: int = Field(ge=0, description="Blocks in which both scored the same.")
    evidence: float = Field(ge=0, description="Evidence for a difference; 1 / alpha decides.")
    elo: EloDifference | None = Field(
        default=None, description="The Elo difference of the new player; null without blocks."
    )
    elo_test: EloTestRecord | None = Field(default=None, description="The test of that difference; null: none.")
    chance: float | None = Field(
        default=None,
        description="Chance that the new player wins more than half of all decided blocks: the beta posterior of those "
        "played, with a uniform prior; null if none is decided.",
    )
    more_blocks: int | None = Field(
        default=None,
        description="About how many more blocks a verdict needs if it goes on like this; null: none, or it is unknown.",
    )
    doubtful: int = Field(
        default=0,
        ge=0,
        description="Blocks that were not counted, or were played again, and that the evidence counts against the one "
        "that leads, because a player may have caused that.",
    )
    difference: float | None = Field(description="Mean of new less old over blocks; null without blocks.")
    interval: IntervalRecord | None = Field(
        default=None, description="Interval of that mean, valid at every look; null if there are too few blocks."
    )
    meetings: tuple[OpponentMeeting, ...] = Field(
        default=(),
        exclude_if=is_empty,
        description="How both did against their opponent; empty if they met each other.",
    )
    lost_blocks: tuple[LostBlock, ...] = Field(
        default=(),
        exclude_if=is_empty,
        description="The worst of the blocks that the new player lost, the worst first.",
    )

    def estimates(self) -> list[Estimate]:
        """Every measured number with its interval, the most important first."""
        if self.difference is None:
            return super().estimates()
        between = f"{self.plan.new.name} less {self.plan.old.name}"
        own = [Estimate(quantity="difference", of=between, value=self.difference, interval=self.interval)]
        elo = self.elo
        if elo is not None and elo.value is not None and elo.low is not None and elo.high is not None:
            interval = IntervalRecord(low=elo.low, high=elo.high, method="betting")
            own.append(Estimate(quantity="Elo difference", of=between, value=elo.value, interval=interval))
        return [*own, *super().estimates()]

    def sentence(self, after: str) -> str:
        """The verdict in a sentence."""
        new, old = self.plan.new.name, self.plan.old.name
        match self.verdict:
            case "better" if self.elo_test is not None:
                return f"{new} is better than {old} by more than {self.elo_test.elo0:g} Elo, {after}."
            case "not_better" if self.elo_test is not None:
                return f"{new} is not better than {old} by {self.elo_test.elo1:g} Elo, {after}."
            case "better" | "worse":
                return f"{new} is {self.verdict} than {old}, {after}."
            case "equal":
                return f"Between {new} and {old} there is no difference worth having, {after}."
            case _:
                return f"There is not enough evidence to tell {new} from {old}, {after}."

    def parts(self) -> Parts:
        """The parts to display."""
        quantities = {"difference": True, "mean score": False, "seat effect": True}
        shown = len(self.lost_blocks)
        names = {label: player.name for label, player in self.plan.players().items()}
        return Parts(
            tables=[players_table(self)],
            facts=_facts(self),
            quantities=quantities,
            scenes_title="Blocks that were lost" + (f", the {shown} worst of {self.lost}" if shown < self.lost else ""),
            scenes=lost_scenes(self.lost_blocks, names, self.plan.slot_count),
        )


class Comparison(Evaluation[ComparisonPlan, ComparisonReport]):
    """A comparison in progress.

    Args:
        plan: The players and the terms.

    Attributes:
        verdict: The verdict so far.
        worst: The worst of the blocks that the new player lost.
    """

    def __init__(self, plan: ComparisonPlan) -> None:
        super().__init__(plan)
        self.verdict: str = "undecided"
        self.worst = WorstBlocks()
        self._differences = Sample()
        self._won = self._lost = 0
        self._doubt = Doubt()
        self._shares = array("d")
        self._met = {NEW: array("d"), OLD: array("d")} if plan.opponent is not None else {}
        self._test = (
            EloTest(plan.elo0, plan.elo1, alpha=plan.alpha, beta=plan.beta)
            if plan.elo0 is not None and plan.elo1 is not None
            else None
        )
        self._values = array("d")
        self._margins: tuple[MeanTest, ...] = ()
        self._bounds = self.differences
        if plan.margin is not None and (bounds := self._bounds) is not None and bounds.certain:
            ends = (bounds.fraction_of(-plan.margin), bounds.fraction_of(plan.margin))
            self._margins = tuple(MeanTest(end, alpha=plan.alpha) for end in ends)

    def lineups(self, block: int) -> Sequence[Lineup]:
        """The lineups of a block."""
        opponent = OPPONENT if self.plan.opponent is not None else None
        return comparison_lineups(NEW, OLD, self.plan.slot_count, block, opponent=opponent)

    def look(self, block: JudgedBlock) -> str:
        """Take in a block; return why no more are needed, or an empty string while more are."""
        if block.fate == "counted":
            difference = block.scores[NEW] - block.scores[OLD]
            self._differences.add(difference)
            self._values.append(difference)
            for test in self._margins:
                test.take(self._bounds.fraction_of(difference) if self._bounds is not None else 0.5)
            self._won += difference > 0
            self._lost += difference < 0
            for label, shares in self._met.items():
                shares.append(self._share_of(label, block))
            if difference < 0:
                played = self.ledger.played[block.block]
                self.worst.add(block, rounded(difference), self.lineups(block.block), played, _why(block))
        self._doubt = self._doubt.plus(block.doubts.get((NEW, OLD), Doubt()))
        share = self._share(block)
        if share is not None:
            self._shares.append(share)
        if self._test is not None:
            if share is not None or block.doubts:
                self._test.take(*_worst_and_best(share, block.doubts))
            self.verdict = "better" if self._test.passed else "not_better" if self._test.failed else "undecided"
            return "evidence" if self.verdict != "undecided" else ""
        if self._evidence >= 1 / self.plan.alpha:
            self.verdict = "better" if self._won > self._lost else "worse"
            return "evidence"
        if self.plan.margin is not None and self._within(self.plan.margin):
            self.verdict = "equal"
            return "margin"
        return ""

    @property
    def least_blocks(self) -> int | None:
        """How many blocks in a row one player has to win for a verdict."""
        plan = self.plan
        if plan.elo0 is None or plan.elo1 is None:
            return least_wins(1 / plan.alpha)
        test, blocks = EloTest(plan.elo0, plan.elo1, alpha=plan.alpha, beta=plan.beta), 0
        while not (test.passed or test.failed):
            test.take(1.0, 1.0)
            blocks += 1
        return blocks

    @property
    def _evidence(self) -> float:
        return firm_evidence(self._won, self._lost, self._doubt)

    def _share(self, block: JudgedBlock) -> float | None:
        """The new player's share of the points of a block; None if it does not count."""
        if block.fate != "counted":
            return None
        pairs = [(block.scores[NEW], block.scores[OLD])]
        if self.plan.slot_count == 2 and self.plan.opponent is None:
            first, second = block.tables
            pairs = [first, second[::-1]]
        return math.fsum(0.5 * (1 + (new > old) - (new < old)) for new, old in pairs) / len(pairs)

    def _share_of(self, label: str, block: JudgedBlock) -> float:
        """A player's share of the points of its episode with the opponent."""
        number = (NEW, OLD).index(label)
        seats = list(zip(self.lineups(block.block)[number], block.tables[number], strict=True))
        own = next(score for seated, score in seats if seated == label)
        others = [score for seated, score in seats if seated != label]
        other = math.fsum(others) / len(others)
        return 0.5 * (1 + (own > other) - (own < other))

    def _meetings(self) -> list[OpponentMeeting]:
        met: list[OpponentMeeting] = []
        for label, shares in self._met.items():
            if (elo := elo_difference(shares, alpha=self.plan.alpha)) is not None:
                won, lost = shares.count(1.0), shares.count(0.0)
                drawn = len(shares) - won - lost
                met.append(OpponentMeeting(label=label, won=won, lost=lost, drawn=drawn, elo=elo))
        return met

    def _within(self, margin: float) -> bool:
        scale = self.differences
        if scale is not None and scale.certain and self._margins:
            return self._margins[0].larger and self._margins[1].smaller
        interval = self._differences.running(alpha=self.plan.alpha, scale=scale)
        return interval is not None and -margin <= interval.low and interval.high <= margin

    def progress(self) -> EvaluationProgressed:
        """The progress so far, as an event."""
        standing = {
            "won": self._won,
            "lost": self._lost,
            "evidence": rounded(self._test.evidence if self._test is not None else self._evidence),
            "decides": 1 / self.plan.alpha,
        }
        return super().progress().model_copy(update=standing)

    def _test_record(self) -> EloTestRecord | None:
        plan, test = self.plan, self._test
        if test is None or plan.elo0 is None or plan.elo1 is None:
            return None
        return EloTestRecord(
            elo0=plan.elo0,
            elo1=plan.elo1,
            beta=plan.beta,
            evidence=rounded(test.evidence),
            counter_evidence=rounded(test.counter_evidence),
        )

    def _more_blocks(self) -> int | None:
        if self._test is not None:
            left = self._test.blocks_left()
            return two_digits(left) if left < math.inf else None
        needed = 1 / self.plan.alpha
        return more_blocks(self._won, self._lost, self._differences.count, self._doubt, needed=needed)

    def report(self) -> ComparisonReport:
        """The result; it does not depend on the order of the rows, nor on rows after the verdict."""
        common = self.common()
        differences = self._differences if self.measured else Sample()
        won, lost = (self._won, self._lost) if self.measured else (0, 0)
        doubt = self._doubt if self.measured else Doubt()
        middle = rounded(differences.mean) if differences.count else None
        interval = (
            running_interval(self._values, alpha=self.plan.alpha, scale=self.differences)
            if middle is not None
            else None
        )
        return ComparisonReport.model_validate(
            {
                **common,
                "plan": self.plan,
                "verdict": self.verdict,
                "won": won,
                "lost": lost,
                "drawn": differences.count - won - lost,
                "evidence": rounded(firm_evidence(won, lost, doubt)),
                "elo": elo_difference(self._shares, alpha=self.plan.alpha) if self.measured else None,
                "elo_test": self._test_record(),
                "chance": chance_better(won, lost) if won + lost else None,
                "more_blocks": self._more_blocks() if self.measured and self.verdict == "undecided" else None,
                "doubtful": doubt.lost if won >= lost else doubt.other_lost,
                "difference": middle,
                "interval": interval_record(interval),
                "meetings": tuple(self._meetings()) if self.measured else (),
                "lost_blocks": self.worst.records() if self.measured else (),
                "remarks": (
                    *common["remarks"],
                    *_about_difference(self.verdict, won, lost, middle, interval),
                    *self.worst.remarks(),
                ),
            }
        )


def _why(block: JudgedBlock) -> str:
    """Why the new player lost a block, if it forfeited it; else empty."""
    forfeit = block.first_forfeits.get(NEW)
    return f"It was forfeited: {forfeit.message} [{forfeit.error_type}]" if forfeit is not None else ""


def _worst_and_best(share: float | None, doubts: Mapping[Pair, Doubt]) -> tuple[float, float]:
    """The new player's share of a block if it is counted against it, and if it is counted against the old one."""
    doubt = doubts.get((NEW, OLD), Doubt())
    worst = 0.0 if doubt.lost else 0.5 if share is None or doubt.won else share
    best = 1.0 if doubt.other_lost else 0.5 if share is None or doubt.other_won else share
    return (worst if share is None else min(worst, share)), (best if share is None else max(best, share))


def compare_rows(plan: ComparisonPlan, rows: Iterable[EpisodeRow]) -> ComparisonReport:
    """Compute the report of a comparison from its rows.

    Args:
        plan: The plan of the comparison (`plan.json`).
        rows: The episodes, in any order (`episodes.jsonl`).
    """
    return Comparison(plan).over(rows)


def _about_difference(
    verdict: str, won: int, lost: int, middle: float | None, interval: Interval | None
) -> list[Remark]:
    if verdict in ("better", "worse") and middle is not None and (won - lost) * middle < 0:
        more, less = ("wins", "loses") if won > lost else ("loses", "wins")
        message = f"The new player {more} more blocks, but {less} more points: the verdict is about winning blocks."
        return [Remark(code="means_disagree", message=message)]
    if verdict == "undecided" and interval is not None and interval.excludes(0):
        message = (
            "The mean difference is not 0, but neither player wins more blocks than chance explains: the difference "
            "is in a few blocks."
        )
        return [Remark(code="means_disagree", message=message)]
    return []


def _facts(report: ComparisonReport) -> list[tuple[str, str]]:
    """The facts below the verdict, the first ones first."""
    plan, test = report.plan, report.elo_test
    decided = report.won + report.lost
    facts = [("Blocks", f"{report.won} won, {report.lost} lost, {report.drawn} drawn")]
    names = player_names(report)
    facts += [(names[met.label], f"against {names[OPPONENT]}: {met}") for met in report.meetings]
    if report.elo is not None:
        facts.append(("Elo", str(report.elo)))
    if report.chance is not None:
        of = f"Beta posterior of {plural(decided, 'decided block')}, uniform prior"
        facts.append(("Chance", f"{percent(report.chance)} that {plan.new.name} is better ({of})"))
    if test is not None:
        for word, elo, evidence, decides in (
            ("more", test.elo0, test.evidence, 1 / plan.alpha),
            ("less", test.elo1, test.counter_evidence, 1 / test.beta),
        ):
            words = describe_evidence(evidence, decides)
            facts.append((f"Elo {word} than {elo:g}", f"{words}: {number(evidence)} ({number(decides)} decides)"))
    else:
        decides = 1 / plan.alpha
        words = describe_evidence(report.evidence, decides)
        facts.append(("Evidence", f"{words}: {number(report.evidence)} ({number(decides)} decides)"))
    if report.verdict == "undecided" and decided:
        more = report.more_blocks
        needed = f"about {plural(more, 'more block')}" if more is not None else "more blocks than can be foretold"
        facts.append(("Needed", f"{needed}, if it goes on like this"))
    if report.doubtful:
        leads = plan.new.name if report.won >= report.lost else plan.old.name
        blocks = plural(report.doubtful, "block")
        facts.append(
            ("Doubtful", f"{blocks} failed or had to be played again; the evidence counts them against {leads}")
        )
    if report.difference is not None:
        interval = interval_text(report.interval, signed=True)
        facts.append(
            ("Difference", f"{number(report.difference, report.interval, signed=True)} on average ({interval})")
        )
    if plan.margin is not None:
        facts.append(("Margin", number(plan.margin)))
    return facts
