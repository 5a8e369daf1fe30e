"""The findings of a diagnosis, most important first, and its tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..wording import plural
from .battery import DiagnosisChange, DiagnosisPlan, VariantDiagnosis
from .contents import INTERVAL, Table, shown_interval, shown_number
from .reports import MeasuredValue, Remark
from .words import between, excludes_zero, number

__all__ = ["diagnosis_tables", "findings"]

_SLOW = 1.0
"""Seconds: a player that takes longer in one turn of a hundred is reported as slow."""


def findings(
    plan: DiagnosisPlan, variants: Sequence[VariantDiagnosis], changes: Sequence[DiagnosisChange]
) -> list[Remark]:
    """The findings: first those that spoil episodes, then those that lose points, then mere oddities.

    Args:
        plan: The plan of the diagnosis.
        variants: The observations in each variant.
        changes: Changes since an earlier diagnosis.
    """
    found: list[Remark] = []
    several = len(variants) > 1

    def say(code: str, one: VariantDiagnosis, message: str) -> None:
        found.append(Remark(code=code, message=f"{one.id}: {message}" if several else message))

    for one in variants:
        _say_faults(one, say)
    for one in variants:
        idle, refused = one.conduct.idle_share, one.conduct.refused_share
        if idle is not None and one.conduct.idle:
            say("idle", one, f"It let {plural(one.conduct.idle, 'turn')} pass, {_percent(idle)} of all.")
        if refused is not None and one.conduct.refused:
            count, were = one.conduct.refused, _were(one.conduct.refused)
            say("refused", one, f"{count} of its messages {were} refused, {_percent(refused)} of all.")
    for one in variants:
        less = one.over_baseline
        if less is not None and excludes_zero(less.interval) and less.value < 0:
            gap = f"{number(less.value, less.interval, signed=True)}{between(less.interval, signed=True)}"
            say("under_baseline", one, f"It scores less than the baseline, by {gap} on average.")
    for one in variants:
        if (slow := one.conduct.slow_seconds or 0.0) > _SLOW:
            half = number(one.conduct.median_seconds or 0.0)
            say("slow", one, f"One turn in a hundred takes it {number(slow)} s or more; half of them take {half} s.")
        if one.other_scores or one.other_replays:
            others = f"{one.other_scores} with other scores"
            what = others if one.other_scores else "with the same scores, but another replay"
            say(
                "not_repeatable",
                one,
                f"Of {plural(one.repeated, 'episode')} that {_were(one.repeated)} played twice with the same seed, "
                f"{one.other_replays} came out differently, {what}.",
            )
        for seat in one.slot_effects:
            if excludes_zero(seat.interval) and seat.effect > 0:
                words = f"{seat.effect:g} more in seat {seat.slot} than on average"
                say("seat_effect", one, f"With itself it scores {words}.")
    return found + _about_all(plan, variants, changes)


def _say_faults(one: VariantDiagnosis, say: Callable[[str, VariantDiagnosis, str], None]) -> None:
    conduct = one.conduct
    of = f"of {plural(conduct.episodes, 'episode')}"
    where = f" The first is in {conduct.first_fault}."
    if conduct.never_started:
        say("never_started", one, f"It never came in {conduct.never_started} {of}.{where}")
    if conduct.failed:
        say("failed", one, f"It crashed or left early in {conduct.failed} {of}.{where}")
    if conduct.timed_out:
        say("timed_out", one, f"It took too long in {conduct.timed_out} {of}.{where}")


def _about_all(
    plan: DiagnosisPlan, variants: Sequence[VariantDiagnosis], changes: Sequence[DiagnosisChange]
) -> list[Remark]:
    found: list[Remark] = []
    scale = [(one.normalised, one.id) for one in variants if one.normalised is not None and one.normalised.interval]
    if len(scale) > 1:
        low = min(scale, key=lambda each: each[0].value)
        high = max(scale, key=lambda each: each[0].value)
        assert low[0].interval is not None
        assert high[0].interval is not None
        if low[0].interval.high < high[0].interval.low:
            message = (
                f"It is weakest in {low[1]}, {number(low[0].value, low[0].interval)} of the way from the baseline to "
                f"the strong player, and strongest in {high[1]}, {number(high[0].value, high[0].interval)}."
            )
            found.append(Remark(code="uneven", message=message))
    if plan.baseline is not None and plan.strong is not None:
        unscaled = [one.id for one in variants if one.blocks and one.normalised is None]
        if unscaled:
            message = (
                f"{plan.baseline.name} and {plan.strong.name} are not told apart in {', '.join(unscaled)}: nothing can "
                "be normalised between them."
            )
            found.append(Remark(code="no_scale", message=message))
    if changes and plan.before is not None:
        message = f"{plural(len(changes), 'number')} changed since {plan.before.name}."
        found.append(Remark(code="changed", message=message))
    return found


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _percent(share: MeasuredValue) -> str:
    if share.interval is None:
        return f"{share.value:.2%}"
    return f"{share.value:.2%} ({share.interval.low:.1%} to {share.interval.high:.1%})"


def diagnosis_tables(
    plan: DiagnosisPlan, variants: Sequence[VariantDiagnosis], changes: Sequence[DiagnosisChange]
) -> list[Table]:
    """The tables of scores, behaviour, seats and changes.

    Args:
        plan: The plan of the diagnosis.
        variants: The observations in each variant.
        changes: Changes since an earlier diagnosis.
    """
    return [_scores(plan, variants), _behaviour(variants), _seats(variants), _changes(plan, changes)]


def _scores(plan: DiagnosisPlan, variants: Sequence[VariantDiagnosis]) -> Table:
    """A row for each variant, without the columns that do not apply to the plan."""
    wanted = [
        ("With itself", "with_itself", any(one.slot_count > 1 for one in plan.variants)),
        ("Alone", "alone", True),
        ("Over baseline", "over_baseline", plan.baseline is not None),
        ("Over strong", "over_strong", plan.strong is not None),
        ("Normalised", "normalised", plan.baseline is not None and plan.strong is not None),
    ]
    columns = [(head, name) for head, name, there in wanted if there]
    rows: list[tuple[str, ...]] = []
    for one in variants:
        values: list[MeasuredValue | None] = [getattr(one, name) for _, name in columns]
        signed = [name.startswith("over") for _, name in columns]
        shown = (
            shown_number(value.value, value.interval, signed=sign) if value is not None else "-"
            for value, sign in zip(values, signed, strict=True)
        )
        of = values[-1]
        interval = shown_interval(of.interval, signed=signed[-1]) if of is not None else "-"
        deviation = "-" if one.deviation is None else number(one.deviation)
        rows.append((one.id, str(one.blocks), *shown, interval, deviation))
    head = ("Variant", "Blocks", *(head for head, _ in columns), INTERVAL, "From seed to seed")
    return Table(title="Scores", head=head, rows=tuple(rows), names=(0, len(head) - 2))


def _behaviour(variants: Sequence[VariantDiagnosis]) -> Table:
    def count(value: int | None) -> str:
        return "-" if value is None else str(value)

    def seconds(value: float | None) -> str:
        return "-" if value is None else f"{number(value * 1000)} ms"

    rows = [
        (
            one.id,
            str(one.conduct.episodes),
            str(one.conduct.failed),
            str(one.conduct.timed_out),
            str(one.conduct.never_started),
            count(one.conduct.acted),
            count(one.conduct.idle),
            count(one.conduct.refused),
            seconds(one.conduct.median_seconds),
            seconds(one.conduct.slow_seconds),
            f"{one.repeated - one.other_replays} of {one.repeated}" if one.repeated else "-",
        )
        for one in variants
    ]
    faults = ("Episodes", "Failed", "Timed out", "Never came")
    turns = ("Turns", "Idle", "Refused", "p50", "p99")
    return Table(title="Behaviour", head=("Variant", *faults, *turns, "Same again"), rows=tuple(rows))


def _seats(variants: Sequence[VariantDiagnosis]) -> Table:
    rows = [
        (
            one.id,
            str(seat.slot),
            shown_number(seat.effect, seat.interval, signed=True),
            shown_interval(seat.interval, signed=True),
        )
        for one in variants
        for seat in one.slot_effects
    ]
    return Table(
        title="Seats, with itself",
        head=("Variant", "Seat", "Over the others", INTERVAL),
        rows=tuple(rows),
        names=(0, 3),
    )


def _changes(plan: DiagnosisPlan, changes: Sequence[DiagnosisChange]) -> Table:
    since = plan.before.name if plan.before is not None else ""
    rows = [
        (one.of, one.quantity, number(one.before), number(one.now), shown_interval(one.interval, signed=True))
        for one in changes
    ]
    head = ("Of", "What", "Was", "Is", f"{INTERVAL} of the difference")
    return Table(title=f"Changed since {since}", head=head, rows=tuple(rows), names=(0, 1, 4))
