"""What supporting roles have said, as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coworld_core.evaluation import number as estimate
from coworld_core.text import plural

from .text import clean, hint_line, number, seconds, shown_path, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coworld_core.roles import Role
    from coworld_runner.roles import GradedEpisode, Grades, RoleAnswer, RoleResult

__all__ = [
    "answer_text",
    "grades_answer",
    "grades_text",
    "results_answer",
    "results_text",
    "role_answer",
    "role_command",
]


_MOST_COLUMNS = 5
"""How many of the other things that a grade says the table shows."""
_WIDEST = 40
"""Characters of a cell."""


def role_command(role: Role, *, named: str, run: str, game: str) -> list[str]:
    """The command that runs the program of a role.

    Args:
        role: The role.
        named: Its id, or its file.
        run: An episode.
        game: The game, for programs that play it.
    """
    match role:
        case "grader":
            return ["grade", run, "--grader", named]
        case "reporter":
            return ["report-episode", run, "--reporter", named]
        case "diagnoser":
            return ["diagnose-episode", run, "--player", "0", "--diagnoser", named]
        case "optimizer":
            return ["improve", game, "PLAYER", "--with", named]


def role_answer(answer: RoleAnswer) -> dict[str, Any]:
    """What a role has said, as JSON."""
    files = sorted(path for path in answer.files.rglob("*") if path.is_file()) if answer.files.is_dir() else []
    return {
        "directory": str(answer.directory),
        "page": str(answer.page) if answer.page is not None else None,
        "files": [str(path) for path in files],
        "kept": answer.kept,
        **answer.record.model_dump(mode="json"),
    }


def answer_text(answer: RoleAnswer) -> str:
    """Where it is what a role has said, or why it has said nothing valid."""
    record = answer.record
    who = clean(f"{record.role} {record.id}", one_line=True)
    if record.fault is not None:
        return "\n".join(_failure(answer))
    if record.score is not None:
        who = f"{who}: {number(record.score)}"
    where = shown_path(answer.page or answer.directory)
    how = "it was there already" if answer.kept else seconds(record.seconds)
    return f"{who[0].upper()}{who[1:]} ({how}): {where}"


def grades_answer(grader: str, grades: Grades) -> dict[str, Any]:
    """Grades as JSON.

    Args:
        grader: Its id.
        grades: What it has said.
    """
    interval = grades.interval
    return {
        "grader": grader,
        "mean_score": grades.mean,
        "interval": None if interval is None else {"low": interval.low, "high": interval.high},
        "episodes": [
            {
                "run": episode.run,
                "score": episode.score,
                "error": None if episode.error is None else episode.error.message,
                **({} if episode.graded is None else role_answer(episode.graded)),
            }
            for episode in grades.episodes
        ],
    }


def grades_text(grader: str, grades: Grades) -> str:
    """Grades as a table; of several, their mean with its interval.

    Args:
        grader: Its id.
        grades: What it has said.
    """
    from coworld_core.evaluation import interval_record

    failed = [episode for episode in grades.episodes if episode.score is None]
    columns = _columns(grades)
    rows = [
        (
            shown_path(episode.run),
            _cell(episode.score),
            *(_cell(_further_values(episode).get(name)) for name in columns),
        )
        for episode in grades.episodes
    ]
    right = range(1, len(columns) + 2)
    parts = [table([("Episode", "Grade", *(clean(name, one_line=True) for name in columns)), *rows], right=right)]
    scale = next(
        (e.graded.answer.get("scale") for e in grades.episodes if e.graded and e.graded.answer.get("scale")), None
    )
    if scale:
        parts.append(f"Scale: {clean(str(scale), one_line=True)}.")
    if len(grades.scores) > 1 and grades.mean is not None:
        mean = estimate(grades.mean, interval_record(grades.interval))
        parts.append(f"Mean of {plural(len(grades.scores), 'grade')} by {clean(grader, one_line=True)}: {mean}")
    for episode in failed[:3]:
        if episode.error is not None:
            parts.append(f"{shown_path(episode.run)}: {clean(episode.error.message)}")
        elif episode.graded is not None:
            parts.append("\n".join(_failure(episode.graded)))
    return "\n".join(parts)


def results_answer(results: Sequence[RoleResult]) -> list[dict[str, Any]]:
    """What roles have said about episodes, as JSON."""
    return [
        {
            "run": str(result.job.run),
            "role": result.job.program.role,
            "id": result.job.program.id,
            "error": None if result.error is None else result.error.message,
            **({} if result.answer is None else role_answer(result.answer)),
        }
        for result in results
    ]


def results_text(results: Sequence[RoleResult]) -> str:
    """Where it is what roles have said, and why others have said nothing; of several episodes, a table of grades."""
    if len({result.job.run for result in results}) == 1:
        return "\n".join(_result(result) for result in results)
    programs: dict[str, list[RoleResult]] = {}
    for result in results:
        player = f" on {result.job.player}" if result.job.program.role == "diagnoser" else ""
        programs.setdefault(f"{result.job.program}{player}", []).append(result)
    return "\n\n".join(_of_many(clean(who, one_line=True), its) for who, its in programs.items())


def _of_many(who: str, results: Sequence[RoleResult]) -> str:
    """What one program has said about several episodes."""
    from coworld_runner.roles import grades_of

    program = results[0].job.program
    if program.role == "grader":
        return grades_text(program.id, grades_of(results))
    good = [result for result in results if result.ok]
    lines = [f"{who[0].upper()}{who[1:]}: {len(good)} of {plural(len(results), 'episode')}"]
    if good and good[0].answer is not None:
        first = good[0].answer
        lines.append(f"  The first: {shown_path(first.page or first.directory)}")
    return "\n".join(lines + [_result(result) for result in results if not result.ok][:4])


def _result(result: RoleResult) -> str:
    if result.answer is not None:
        return answer_text(result.answer)
    error = result.error
    assert error is not None
    lines = [clean(f"{result.job.program} was not run: {error.message}")]
    return "\n".join(lines + ([hint_line(error.hint)] if error.hint else []))


def _further_values(episode: GradedEpisode) -> dict[str, Any]:
    """What a grade says besides its score, as far as it fits a table."""
    answer = episode.graded.answer if episode.graded is not None else {}
    known = ("score", "grader_id", "scale")
    return {
        name: value
        for name, value in answer.items()
        if name not in known and isinstance(value, str | int | float | bool | None)
    }


def _columns(grades: Grades) -> tuple[str, ...]:
    names = dict.fromkeys(name for episode in grades.episodes for name in _further_values(episode))
    return tuple(names)[:_MOST_COLUMNS]


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number(value)
    return clean(str(value), one_line=True)[:_WIDEST]


def _failure(answer: RoleAnswer) -> list[str]:
    fault = answer.record.fault
    assert fault is not None
    who = clean(f"{answer.record.role} {answer.record.id}", one_line=True)
    lines = [f"{who[0].upper()}{who[1:]}: {clean(fault.message)}"]
    if fault.hint:
        lines.append(hint_line(fault.hint))
    lines += [f"    {line}" for line in clean(fault.log_tail).splitlines()[-8:]]
    lines.append(f"  Everything it left: {shown_path(answer.directory)}")
    return lines
