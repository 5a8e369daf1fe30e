"""Improvements as values: budgets, steps, what follows from them, and what an optimizer is given."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coworld_core.errors import RecordError, UsageError
from coworld_core.roles.improvement import (
    ChangedFiles,
    ImprovedPlayer,
    ImprovementPlan,
    ImprovementState,
    ImprovementStep,
    StepComparison,
    changed_files,
    judge_comparison,
    judge_player,
    read_improvement_plan,
    read_improvement_steps,
)
from coworld_core.roles.improvement_budget import ImprovementBudget, ImprovementLeft, ImprovementSpent, read_budget
from coworld_core.roles.improvement_report import (
    ImprovementReport,
    improvement_markdown,
    improvement_report,
    read_improvement_report,
)
from coworld_core.roles.improvement_task import (
    EvidenceEpisode,
    ImprovementEvidence,
    ImprovementTask,
    episode_outcome,
    read_evidence,
    read_improvement_task,
    task_page,
)

# A busy machine generates slowly
quick = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
words = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
names = st.lists(words, max_size=3).map(tuple)
counts = st.integers(0, 2**53)
times = st.floats(0, 1e9)
numbers = st.floats(allow_nan=False, allow_infinity=False)
players = st.builds(ImprovedPlayer, name=words, entry=words, single=st.booleans(), digest=words)
plans = st.builds(
    ImprovementPlan,
    coworld=words,
    version=words,
    variant=words,
    player=players,
    seed=counts,
    metric=words,
    margin=st.none() | times,
    evidence=st.integers(1, 99),
)
comparisons = st.builds(
    StepComparison, verdict=words, won=counts, lost=counts, drawn=counts, difference=st.none() | numbers, stopped=words
)
steps = st.builds(
    ImprovementStep,
    step=st.integers(1, 999),
    status=st.sampled_from(["kept", "dropped", "lost"]),
    reason=words,
    message=words,
    note=words,
    base=counts,
    digest=words,
    files=st.builds(ChangedFiles, added=names, changed=names, removed=names),
    comparison=st.none() | comparisons,
    episodes=counts,
    seconds=times,
    began_at=st.datetimes(timezones=st.just(dt.UTC)),
)
histories = st.lists(steps, max_size=3).map(tuple)
episodes = st.builds(
    EvidenceEpisode,
    id=words,
    bundle=words,
    slot=st.integers(0, 9),
    outcome=st.sampled_from(["won", "lost", "drawn", "failed"]),
    scores=st.lists(numbers, max_size=3).map(tuple),
    failure=words,
    grade=st.dictionaries(words, numbers, max_size=2),
    findings=st.dictionaries(words, st.lists(words, max_size=2), max_size=2),
    diagnosis=words,
)
tasks = st.builds(
    ImprovementTask,
    goal=words,
    coworld=words,
    step=st.integers(1, 9),
    player=players,
    left=st.builds(ImprovementLeft, steps=st.none() | counts, episodes=st.none() | counts, seconds=st.none() | times),
    history=histories,
    evidence=st.lists(episodes, max_size=2).map(tuple),
    docs=names,
    left_out=names,
)
spent = st.builds(ImprovementSpent, steps=counts, episodes=counts, seconds=times)
reports = st.builds(
    ImprovementReport,
    plan=plans,
    best=counts,
    steps=histories,
    spent=spent,
    unfinished=st.none() | st.integers(1, 9),
    ended=st.sampled_from(["", "steps", "episodes", "seconds", "losses"]),
    final=st.none() | comparisons,
)
PLAN = ImprovementPlan(coworld="nim", player=ImprovedPlayer(name="bot", entry="bot.py", single=True, digest="d0"))
NOW = dt.datetime(2026, 11, 26, tzinfo=dt.UTC)


def step(number: int, status: str, digest: str = "", **more: object) -> ImprovementStep:
    told = {"step": number, "status": status, "reason": "r", "message": "m", "digest": digest, "began_at": NOW}
    return ImprovementStep.model_validate({**told, **more})


@quick
@given(plans, histories)
def test_a_log_is_read_as_it_was_written_without_a_torn_line(
    plan: ImprovementPlan, history: tuple[ImprovementStep, ...]
) -> None:
    assert read_improvement_plan(plan.model_dump_json().encode()) == plan
    log = b"".join(each.to_line() for each in history)
    assert tuple(read_improvement_steps(log)) == history
    assert tuple(read_improvement_steps(log + b'{"step": 7, "sta')) == history


@quick
@given(tasks, reports)
def test_tasks_and_reports_are_read_as_they_were_written(task: ImprovementTask, report: ImprovementReport) -> None:
    assert read_improvement_task(task.to_document()) == task
    assert read_improvement_report(report.to_document()) == report
    evidence = ImprovementEvidence(episodes=task.evidence, left_out=task.left_out)
    assert read_evidence(evidence.model_dump_json().encode()) == evidence
    assert task_page(task).startswith("# Improve a player of ")
    assert improvement_markdown(report).startswith("### ")


def test_a_line_that_is_no_step_is_refused() -> None:
    with pytest.raises(RecordError):
        tuple(read_improvement_steps(b'{"step": 0}\n'))


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("10", ImprovementBudget(steps=10)),
        ("1step", ImprovementBudget(steps=1)),
        ("500ep", ImprovementBudget(episodes=500)),
        ("90s", ImprovementBudget(seconds=90)),
        ("1.5h", ImprovementBudget(seconds=5400)),
        (" 10, 2h,500 EP", ImprovementBudget(steps=10, episodes=500, seconds=7200)),
    ],
)
def test_budgets_are_read(text: str, budget: ImprovementBudget) -> None:
    assert read_budget(text) == budget


@pytest.mark.parametrize("text", ["", "0", "ten", "-1", "2x", "1.5", "10,20", "1h,30m", "nan", "1e400s", "10;2h"])
def test_what_is_no_budget_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a budget") as refused:
        read_budget(text)
    assert refused.value.code == "bad_budget"


def test_the_first_part_that_is_used_up_ends_it() -> None:
    budget = read_budget("2,100ep,60s")
    assert budget.left(ImprovementSpent(steps=1, episodes=99, seconds=59)).ended == ""
    assert budget.left(ImprovementSpent(steps=2, episodes=100)).ended == "steps"
    assert budget.left(ImprovementSpent(steps=1, episodes=103)).ended == "episodes"
    assert budget.left(ImprovementSpent(seconds=61)).ended == "seconds"
    assert read_budget("1").left(ImprovementSpent(episodes=9, seconds=9)).ended == ""


def test_the_state_follows_from_the_log() -> None:
    log = (
        step(1, "lost", seconds=1.0),
        step(2, "kept", "d2", episodes=30, seconds=2.0),
        step(3, "dropped", "d3", episodes=40, seconds=3.0),
    )
    state = ImprovementState.of(PLAN, log)
    assert (state.best, state.best_digest, state.next) == (2, "d2", 4)
    assert state.spent == ImprovementSpent(steps=3, episodes=70, seconds=6.0)
    assert dict(state.players) == {"d0": 0, "d2": 2, "d3": 3}
    begun = ImprovementState.of(PLAN, ())
    assert (begun.best, begun.best_digest, begun.next) == (0, "d0", 1)


def test_a_player_that_is_known_need_not_be_compared() -> None:
    state = ImprovementState.of(PLAN, (step(1, "kept", "d1"), step(2, "dropped", "d2")))
    reasons = {
        digest: loss and loss.reason for digest in ("d0", "d1", "d2", "new") for loss in [judge_player(state, digest)]
    }
    assert reasons == {"d0": "player_repeated", "d1": "player_unchanged", "d2": "player_repeated", "new": None}


@pytest.mark.parametrize(
    ("verdict", "stopped", "fate"),
    [
        ("better", "evidence", ("kept", "better")),
        ("worse", "evidence", ("dropped", "worse")),
        ("undecided", "max_blocks", ("dropped", "undecided")),
        ("a later word", "margin", ("dropped", "a later word")),
        ("undecided", "never_started", ("lost", "never_started")),
    ],
)
def test_only_what_is_better_is_kept(verdict: str, stopped: str, fate: tuple[str, str]) -> None:
    assert judge_comparison(StepComparison(verdict=verdict, won=1, lost=0, drawn=0, stopped=stopped)) == fate


def test_changes_are_named_by_file() -> None:
    found = changed_files({"a": b"1", "b": b"2", "c": b"3"}, {"a": b"1", "b": b"4", "d": b"5"})
    assert found == ChangedFiles(added=("d",), changed=("b",), removed=("c",))
    assert str(found) == "+d ~b -c"


@pytest.mark.parametrize(
    ("scores", "slot", "ok", "outcome"),
    [
        ((3.0, 1.0), 0, True, "won"),
        ((3.0, 1.0, 3.0), 0, True, "drawn"),
        ((3.0, 1.0), 1, True, "lost"),
        ((3.0,), 0, True, "drawn"),
        ((3.0, 1.0), 0, False, "failed"),
        ((), 0, True, "failed"),
    ],
)
def test_outcomes_are_those_of_the_player(scores: tuple[float, ...], slot: int, ok: bool, outcome: str) -> None:
    assert episode_outcome(scores, slot, ok=ok) == outcome


def test_what_a_program_says_cannot_break_the_report() -> None:
    state = ImprovementState.of(PLAN, (step(1, "lost", message="<b>", note="a | b\nc"),))
    text = improvement_markdown(improvement_report(state))
    assert "| 1 | lost | \\<b\\> | a \\| b c |" in text.splitlines()
    assert improvement_report(state).headline == "No change made bot better, after 1 step."


def test_the_page_names_files_where_they_are(tmp_path: Path) -> None:
    task = ImprovementTask(
        goal="Win.",
        coworld="nim",
        step=1,
        player=PLAN.player,
        evidence=(EvidenceEpisode(id="e", bundle="evidence/0/episode.zip", slot=1, outcome="lost", scores=(1.0, 0.0)),),
        docs=("docs/readme.md",),
    )
    page = task_page(task, inputs="/in", player="/copy/player")
    assert "| 1 | lost | 1 0 | – | /in/evidence/0/episode.zip |" in page
    assert "Change its files in place, in /copy/player." in page
    assert "About the game: /in/docs/readme.md." in page
