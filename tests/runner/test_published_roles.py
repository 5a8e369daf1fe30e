"""The published package's roles of its Paint Arena look at an episode that was played here, and ours say the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.published_client import install

from coworld_runner import resolve_package, run_episode
from coworld_runner.roles.after_episode import RoleAnswer, diagnose_episode, grade_episode, report_episodes

ARENA = Path(__file__).parents[2] / "examples" / "paintarena"
SUMMARIZER = str(ARENA / "src" / "paintarena" / "roles" / "summarizer.py")
PUBLISHED = "coworld.examples.paintarena"
NEWEST = "0.1.64"
"""The release whose examples have a grader and a diagnoser."""
_READ = """
import json, sys
from coworld.report import validate_report_zip
print(validate_report_zip(open(sys.argv[1], "rb").read()).model_dump_json())
"""

pytestmark = [pytest.mark.slow, pytest.mark.more, pytest.mark.timeout(900)]


def program(directory: Path, name: str, python: Path, module: str) -> str:
    """A program of the published package, as a file."""
    path = directory / name
    path.write_text(f'#!/bin/sh\nexec "{python}" -I -m {PUBLISHED}.{module}\n')
    path.chmod(0o755)
    return str(path)


def said(answer: RoleAnswer, name: str) -> Any:
    assert answer.ok, answer.record.fault
    return json.loads((answer.files / name).read_text())


async def test_published_roles_and_ours_say_the_same_of_an_episode(tmp_path: Path) -> None:
    older, newer = install(tmp_path / "older"), install(tmp_path / "newer", NEWEST)
    package = await resolve_package(ARENA)
    episode = tmp_path / "episode"
    await run_episode(package, variant="quick", backend="process", workspace=episode)

    summarizer = program(tmp_path, "published-summarizer", older, "reporter.paint_arena_summarizer")
    theirs = await report_episodes([episode], reporter=summarizer, game=package)
    ours = await report_episodes([episode], reporter=SUMMARIZER, game=package)
    # Theirs finds no metadata in the request, which has no place for them
    unknown = {"episode_id", "variant_id", "duration_seconds", "slots"}
    their_stats, our_stats = said(theirs, "stats.json"), said(ours, "stats.json")
    assert {**our_stats, **{name: their_stats[name] for name in unknown}} == their_stats
    assert [slot["painted_tiles"] for slot in our_stats["slots"]] == [
        slot["painted_tiles"] for slot in their_stats["slots"]
    ]
    words = [older, "-I", "-c", _READ, ours.directory / ours.record.outputs["report.zip"].path]
    read = await anyio.run_process(list(map(str, words)))
    assert json.loads(read.stdout)["reporter_id"] == "paint-arena-summarizer"

    parquet = program(tmp_path, "published-stats", older, "reporter.stats_reporter")
    table = await report_episodes([episode], reporter=parquet, game=package)
    assert (table.ok, table.answer["event_log"]) == (True, "stats.parquet"), table.record.fault

    grader = program(tmp_path, "published-grader", newer, "grader.paint_arena_grader")
    grades = [await grade_episode(episode, grader=named, game=package) for named in (grader, None)]
    assert grades[0].ok, grades[0].record.fault
    # Theirs has four decimals
    rounded = round(grades[1].answer["score"], 4)
    assert {**grades[0].answer, "scale": ""} == {**grades[1].answer, "scale": "", "score": rounded}

    diagnoser = program(tmp_path, "published-diagnoser", newer, "diagnoser.paint_arena_diagnoser")
    findings = [
        said(await diagnose_episode(episode, 1, diagnoser=named, game=package), "findings.json")
        for named in (diagnoser, None)
    ]
    same = ("diagnoser_id", "margin_tiles", "total_tiles", "winner_slot")
    assert [findings[0][name] for name in same] == [findings[1][name] for name in same]
    assert set(findings[0]) <= set(findings[1])
