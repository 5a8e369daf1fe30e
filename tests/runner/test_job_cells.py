"""Several measurements over one store, each in a place of its own below it: suites, gates and improvements."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.misfit_kit import PACKAGE, PLACEHOLDER
from support.waiting import until

from coworld_core.errors import CapabilityError, CoworldError, EnvironmentFault, RecordError, UsageError
from coworld_core.evaluation.suite_report import SuiteReport, read_suite_file
from coworld_core.roles.improvement_budget import ImprovementBudget
from coworld_runner import EpisodeOptions
from coworld_runner.backends import ClusterOptions
from coworld_runner.errors import unwrapped
from coworld_runner.evaluation import EvaluationRules
from coworld_runner.evaluation.gate import gate_player
from coworld_runner.evaluation.suite import play_suite
from coworld_runner.improvement import ImprovementRules, improve_player
from coworld_runner.jobs import JobVenue, StoredRuns, is_stored, pull_run, stop_jobs
from coworld_runner.jobs.taking_part import take_part
from coworld_runner.package.resolver import Package, resolve_package
from coworld_runner.runs.scratch import find_scratch, reap_scratch

NIM = Path(__file__).parents[2] / "examples" / "nim"
WEAK = (NIM / "players" / "random_taker.py").read_text()
STRONG = (NIM / "players" / "counter.py").read_text()
SLOW = "import time\ndef act(observation, legal, rng):\n    time.sleep(0.02)\n    return rng.choice(legal)\n"
SUITE = """
seed = 7
episodes = 8

[[entry]]
name = "plain"
variants = ["default"]
lineups = [["{player}", "random-taker"], ["{player}", "counter"]]

[[entry]]
name = "short game"
config = { sticks = 5 }
lineups = [["{player}", "random-taker"]]
"""
CELLS = {"plain.default.1", "plain.default.2"}


@pytest.fixture
async def nim() -> Package:
    return await resolve_package(NIM)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "bots").mkdir()
    (tmp_path / "suite.toml").write_text(SUITE)
    path = tmp_path / "bots" / "mine.py"
    path.write_text(STRONG)
    return path


def put(path: Path, text: str) -> None:
    path.write_text(text)


def cells(store: Path) -> set[str]:
    return {run.parent.name for run in store.glob("*/run.json")}


@asynccontextmanager
async def workers(store: Path) -> AsyncGenerator[None]:
    """Who takes part in playing whatever is below a store."""
    async with anyio.create_task_group() as tasks:

        async def look() -> None:
            met: set[str] = set()
            while True:
                for name in {name for name in cells(store) - met if not (store / name / "closed").exists()}:
                    met.add(name)
                    tasks.start_soon(take_part, str(store / name))
                await anyio.sleep(0.05)

        tasks.start_soon(look)
        yield
        tasks.cancel_scope.cancel()


async def measured(package: Package, mine: Path, store: Path, out: Path) -> SuiteReport:
    async with JobVenue(package, store, lease=3) as venue:
        return await play_suite(
            out.parent / "suite.toml", package=package, players=[str(mine)], workspace=out, venue=venue
        )


def left(store: Path) -> dict[str, bytes]:
    """What was ever played from a store."""
    return {str(path.relative_to(store)): path.read_bytes() for path in store.glob("*/rows/*")}


async def test_a_suite_is_played_cell_by_cell(nim: Package, mine: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    async with workers(store):
        report = await measured(nim, mine, store, tmp_path / "pods")
    here = await play_suite(tmp_path / "suite.toml", package=nim, players=[str(mine)], workspace=tmp_path / "here")
    assert report == here
    assert {cell.directory for cell in report.cells} == cells(store) > CELLS
    # Another machine, with the same store, takes everything; nobody plays there
    before = left(store)
    assert await measured(nim, mine, store, tmp_path / "again") == report
    assert left(store) == before
    with StoredRuns(store) as runs:
        assert {(str(run.path), run.status) for run in runs.runs().runs} == {
            (name, "completed") for name in cells(store)
        }
    # All of it is brought, and is then a suite that was played here
    pulled = tmp_path / "pulled"
    assert await pull_run(store, pulled) == await pull_run(store, pulled) == sum(cell.played for cell in report.cells)
    assert read_suite_file(pulled) == report
    settings = tmp_path / "suite.toml"
    assert await play_suite(settings, package=nim, players=[str(mine)], workspace=pulled) == report
    assert await pull_run(store / "plain.default.1", tmp_path / "one") == report.cells[0].played
    put(pulled / "mine.txt", "kept")
    with pytest.raises(UsageError, match="something else"):
        await pull_run(store, pulled)
    with pytest.raises(UsageError, match="has another run"):
        await measured(nim, mine, store / "plain.default.1", tmp_path / "below")
    assert all(item.removed for item in reap_scratch(find_scratch()))
    # What others have written there leads nowhere else
    for name in (".hidden", "back\\slash", "suite.json.d"):
        shutil.copytree(store / "plain.default.1", store / name)
    await pull_run(store, tmp_path / "with theirs")
    assert {path.name for path in (tmp_path / "with theirs").iterdir()} == {
        *(cell.directory for cell in report.cells),
        *("suite.json.d", "suite.json", "report.md"),
    }
    put(store / "plain.default.2" / "rows" / "000001.jsonl", "{}\n")
    with pytest.raises(RecordError):
        await pull_run(store, tmp_path / "spoilt")


@pytest.mark.slow
async def test_all_below_a_store_is_ended_and_goes_on(nim: Package, mine: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    put(mine, SLOW)
    none = ClusterOptions(kubeconfig=tmp_path / "none")

    async def end() -> None:
        await until(lambda: (store / "plain.default.2" / "claims").is_dir(), what="the second cell", seconds=60)
        assert is_stored(str(store))
        ended = await stop_jobs(store, cluster=none)
        assert len(ended.run_id.split(", ")) == 2
        assert (ended.jobs, ended.store) == ((), str(store))

    async with workers(store), anyio.create_task_group() as tasks:
        tasks.start_soon(end)
        with pytest.raises(EnvironmentFault, match="ended from elsewhere"), unwrapped():
            await measured(nim, mine, store, tmp_path / "out")
    assert cells(store) == CELLS
    # What had come to its end stays so
    assert [(store / name / "closed").read_bytes() for name in sorted(CELLS)] == [b"", b"stopped\n"]
    before = left(store)
    async with workers(store):
        report = await measured(nim, mine, store, tmp_path / "out")
    assert report.ok
    assert before.items() <= left(store).items()
    with pytest.raises(UsageError, match="There is no run at"):
        await stop_jobs(f"file://{tmp_path / 'nothing'}", cluster=none)


async def test_none_begins_after_all_were_ended(nim: Package, mine: Path, tmp_path: Path) -> None:
    """Between two cells, nobody drives one that could hear of it."""
    store = tmp_path / "store"
    async with JobVenue(nim, store) as venue:
        async with venue.cell("first"):
            pass
        (store / "closed").write_bytes(b"stopped\n")
        with pytest.raises(EnvironmentFault, match="ended from elsewhere"):
            async with venue.cell("second"):
                pass
    async with JobVenue(nim, store) as venue, venue.cell("second"):
        assert not (store / "closed").exists()


async def test_an_interrupted_suite_leaves_its_cell_running(nim: Package, mine: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with anyio.CancelScope() as scope:
        async with JobVenue(nim, store) as venue, anyio.create_task_group() as tasks:

            async def interrupt() -> None:
                await until(lambda: (store / "plain.default.1" / "chunks").is_dir(), what="a chunk")
                scope.cancel()

            tasks.start_soon(interrupt)
            await play_suite(
                tmp_path / "suite.toml", package=nim, players=[str(mine)], workspace=tmp_path / "out", venue=venue
            )
    assert venue.under_way
    assert not (store / "plain.default.1" / "closed").exists()


async def test_a_gate_has_a_place_for_each_comparison(nim: Package, mine: Path, tmp_path: Path) -> None:
    store, rules = tmp_path / "store", EvaluationRules(max_blocks=20)
    put(mine, WEAK)
    put(mine.parent / "rival.py", WEAK + "# of another hand\n")
    async with workers(store), JobVenue(nim, store) as venue:
        first = await gate_player(nim, mine, rules=rules, venue=venue)
        put(mine, STRONG)
        better = await gate_player(nim, mine, rules=rules, venue=venue)
    assert (first.accepted, better.record.reason) == (True, "better")
    expected = {f"{first.record.gate}-{name}" for name in ("first", "opponent-1")}
    expected |= {f"{better.record.gate}-{name}" for name in ("accepted", "opponent-1")}
    assert cells(store) == expected
    before = left(store)
    async with JobVenue(nim, store) as venue:
        assert (await gate_player(nim, mine, rules=rules, venue=venue)).unchanged
    assert left(store) == before


@pytest.mark.slow
async def test_an_improvement_has_its_comparisons_played(nim: Package, mine: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    put(mine, WEAK)
    put(tmp_path / "better.py", f"def optimize(task, player):\n    player.write_text({STRONG!r})\n")

    async def improved(out: str) -> Any:
        async with JobVenue(nim, store) as venue:
            return await improve_player(
                nim,
                mine,
                improver=str(tmp_path / "better.py"),
                budget=ImprovementBudget(steps=1),
                rules=ImprovementRules(evaluation=EvaluationRules(seed=3, max_blocks=30), episodes=2),
                measuring=venue,
                backend="process",
                workspace=tmp_path / out,
            )

    async with workers(store):
        done = await improved("out")
    assert done.report.improved
    assert cells(store) == {"step-0001", "final-0001"}
    # What is lost here is taken from there, where nobody plays any more
    before = left(store)
    shutil.rmtree(tmp_path / "out" / "final")
    assert (await improved("out")).report.final == done.report.final
    assert left(store) == before


async def misfits(tmp_path: Path) -> Package:
    manifest = json.loads((PACKAGE / "coworld_manifest_template.json").read_text().replace(PLACEHOLDER, "game:1"))
    manifest["game"]["version"] = "1.0.0"
    (tmp_path / "coworld_manifest.json").write_text(json.dumps(manifest))
    return await resolve_package(tmp_path / "coworld_manifest.json")


async def test_what_pods_cannot_play_is_refused_before_anything(nim: Package, mine: Path, tmp_path: Path) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    suite: dict[str, Any] = {"players": [str(mine)], "workspace": out}
    images = await misfits(tmp_path)

    async def refused(package: Package, **more: Any) -> CoworldError:
        with pytest.raises(CoworldError) as error, unwrapped():
            async with JobVenue(package, store) as venue:
                await play_suite(tmp_path / "suite.toml", package=package, venue=venue, **{**suite, **more})
        assert not out.exists()
        assert not cells(store)
        return error.value

    hooks = [lambda plan: plan]
    assert isinstance(await refused(nim, hooks=hooks), CapabilityError)
    assert "is to be recorded" in (await refused(nim, options=EpisodeOptions(record="frames"))).message
    # Its second cell would have been the first to meet it
    (tmp_path / "suite.toml").write_text(SUITE.replace('"counter"', '"ghcr.io/ada/bot:1"'))
    assert (await refused(nim)).code == "player_not_portable"
    with pytest.raises(UsageError, match="cannot be detached"):
        async with JobVenue(nim, store, detach=("counter",)) as venue, venue.cell("first"):
            pass
    for measure in (
        lambda venue: gate_player(images, mine, venue=venue),
        lambda venue: improve_player(images, mine, improver="true", measuring=venue, workspace=out),
    ):
        with pytest.raises(UsageError, match="it is no image"):
            async with JobVenue(images, store) as venue:
                await measure(venue)
        assert not out.exists()
