"""The runs of a store, read as those of a folder are: by name, in SQL, with their verdict; and what strangers wrote."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from support.waiting import until

from coworld_core.errors import UsageError
from coworld_core.records import RunFilter
from coworld_runner.evaluation import EvaluationRules, compare
from coworld_runner.jobs import JobVenue, StoredRuns
from coworld_runner.jobs.job_store import JobStore
from coworld_runner.jobs.taking_part import take_part
from coworld_runner.package.resolver import resolve_package
from coworld_runner.runs.scratch import find_scratch

NIM = Path(__file__).parents[2] / "examples" / "nim"


async def _played(url: str, out: Path) -> None:
    package = await resolve_package(NIM)

    async def play() -> None:
        await until(lambda: JobStore(url).get("run.json"), what="a run")
        await take_part(url)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(play)
        async with JobVenue(package, url) as venue:
            rules = EvaluationRules(seed=7, max_blocks=8)
            await compare(package, "counter", "random-taker", rules=rules, workspace=out, venue=venue)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a run, which is not to be changed."""
    place = tmp_path_factory.mktemp("stores")
    anyio.run(_played, str(place / "base" / "first"), place / "out")
    return place / "base" / "first"


def test_runs_of_a_store_are_read_as_those_of_a_folder(first: Path) -> None:
    report = json.loads((first.parents[1] / "out" / "report.json").read_bytes())
    with StoredRuns(first.parent) as runs:
        (run,) = runs.runs(RunFilter(game="nim", kind="compare"))
        assert (str(run.path), run.status, run.ok) == ("first", "completed", True)
        assert f"Counter from Random Taker, after {report['blocks']} blocks" in run.outcome
        assert run.started_at is not None
        assert run.players == ("Counter", "Random Taker")
        assert not run.problem
        assert not runs.notices
        asked = "SELECT run, count(*), sum(ok), max(path) FROM episodes WHERE run = 'first'"
        assert runs.query(asked).rows[0][:3] == ("first", run.episodes, run.episodes)
        for word in ("3", "first/3", "latest/3", f"{run.run_id[:8]}/block-0002.1-1", "block-0002.1-1"):
            episode = runs.find(word).episode
            assert episode is not None
            assert episode.key == "block-0002.1-1"
            assert episode.path == Path("first/episodes/000001.1/block-0002.1-1")
            assert {"replay", "results.json", "logs/game.stderr.log"} <= {*runs.evidence(episode)}
        rest = runs.find("block-0003.1-1").episode
        assert rest is not None
        for word in ("nothing", "first/nothing"):
            with pytest.raises(UsageError, match="nothing"):
                runs.find(word)
        mine = len(find_scratch())
    with StoredRuns(first) as runs:
        assert runs.find("latest").run == run
    assert len(find_scratch()) < mine
    with pytest.raises(UsageError, match="There is no run at"), StoredRuns(first / "chunks"):
        pass


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda rows: rows.write_bytes(rows.read_bytes().replace(b'"scores":[1.0', b'"scores":[NaN', 1)), "NaN"),
        (
            lambda rows: rows.write_bytes(rows.read_bytes().replace(b'"block-0001.1-1"', b'"../../../evil"')),
            "directory",
        ),
        (lambda rows: os.truncate(rows, 1 << 30), "are read"),
        (lambda rows: rows.write_bytes(b'{"attempt":1}\n' + b"[" * 100_000 + b"\n"), "row"),
        (lambda rows: rows.write_bytes(b'{"attempt":"x"}\n'), "attempt"),
        (lambda rows: rows.parents[1].joinpath("plan.json").write_bytes(b'{"kind":"\\u001b[31m"}'), "plan"),
    ],
    ids=["nan", "out", "gigabyte", "deep", "attempt", "plan"],
)
def test_what_strangers_wrote_is_left_out_and_said(
    first: Path, tmp_path: Path, spoil: Callable[[Path], object], words: str
) -> None:
    shutil.copytree(first, tmp_path / "spoilt")
    shutil.copytree(first, tmp_path / "whole")
    spoil(tmp_path / "spoilt" / "rows" / "000001.jsonl")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "run.json").write_bytes(b"[]")
    with StoredRuns(tmp_path) as runs:
        found = {run.path.name: run for run in runs.runs()}
        assert found.keys() == {"spoilt", "whole"}
        assert words in found["spoilt"].problem
        assert "\x1b" not in found["spoilt"].problem
        assert not found["whole"].problem
        assert found["whole"].episodes == 16
        assert [notice.partition(":")[0] for notice in runs.notices] == ["foreign"]
    assert not list(tmp_path.rglob("evil"))
