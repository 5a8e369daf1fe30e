"""Supporting roles on real episodes, as local processes: what they get, what they leave, and how they fail."""

from __future__ import annotations

import dataclasses
import itertools
import json
import shutil
import zipfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import pytest
from wasmtime import wat2wasm

from coworld_core.episode.events import BaseEvent, RoleFinished, RoleProgressed, RoleStarted, read_events
from coworld_core.episode.record import read_record
from coworld_core.errors import EpisodeError, UsageError, WorkspaceError
from coworld_core.roles.plan import read_optimizer_plan
from coworld_core.roles.report_check import check_report
from coworld_core.roles.role_record import read_role_record
from coworld_runner import open_backend, plan_episode, resolve_package, run_episode, run_many
from coworld_runner.certification import Evidence
from coworld_runner.certification.declared_roles import run_declared_roles
from coworld_runner.kit.rollout import SeatInWords
from coworld_runner.package.own_players import component_file
from coworld_runner.roles.after_episode import diagnose_episode, grade_episode, report_episodes
from coworld_runner.roles.episode_bundle import bundle_episode
from coworld_runner.roles.episode_roles import EpisodeRole, find_roles, require_roles, run_episode_roles
from coworld_runner.roles.grading import grade_episodes, graded_by
from coworld_runner.roles.role_run import RoleOptions
from coworld_runner.testing.fake_backend import FakeBackend

ARENA = Path(__file__).parents[2] / "examples" / "paintarena"
COMPONENT = Path(__file__).parents[1] / "support" / "reporter.wat"
SOCKET = str(Path(__file__).parents[1] / "support" / "socket_reporter.py")
SUMMARIZER, PARQUET = (
    str(ARENA / "src" / "paintarena" / "roles" / f"{name}.py") for name in ("summarizer", "parquet_stats")
)
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workspace of a quick game of Paint Arena."""
    workspace = tmp_path_factory.mktemp("played") / "episode"

    async def play() -> None:
        await run_episode(ARENA, variant="quick", backend="process", workspace=workspace)

    anyio.run(play)
    return workspace


@pytest.fixture
def episode(played: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(played, tmp_path / "episode"))


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., str]:
    """Write a program of a role; returns its path."""

    def write(source: str, name: str = "mine.py") -> str:
        (tmp_path / name).write_text(source)
        return str(tmp_path / name)

    return write


async def test_manifests_grader_grades_an_episode(episode: Path) -> None:
    graded = await grade_episode(episode)
    results = json.loads((episode / "results.json").read_text())
    first, second = sorted(results["painted_tiles"], reverse=True)
    assert graded.ok, graded.record.fault
    assert graded.answer["score"] == pytest.approx((first - second) / 96)
    assert graded.answer["grader_id"] == "paint-arena-grader"
    assert read_role_record(graded.directory) == graded.record
    assert graded.directory == episode / "roles" / "grader-paint-arena-grader"


async def test_a_game_that_was_played_in_this_process_is_graded(program: Callable[[str], str]) -> None:
    nim = ARENA.parent / "nim"
    with SeatInWords(f"{nim}/nim.py:Nim") as seat:
        seat.begin(seed=1)
        seat.leave()
    graded = await graded_by("nim-grader", game=nim)(seat.episode)
    assert (graded["grader_id"], graded["score"]) == ("nim-grader", pytest.approx(0.5, abs=0.5))
    named = program("def grade(episode):\n    raise ValueError('No.')\n")
    with pytest.raises(EpisodeError, match="mine has given no grade"):
        await graded_by(named, game=nim)(seat.episode)


async def test_same_grader_on_the_same_episode_is_not_run_again(episode: Path, program: Callable[[str], str]) -> None:
    named = program("def grade(episode):\n    return len(episode.game_log)\n")
    first = await grade_episode(episode, grader=named)
    again = await grade_episode(episode, grader=named)
    assert (first.kept, again.kept, again.record) == (False, True, first.record)
    (first.directory / "note.md").write_text("Mine.")
    asked = await grade_episode(episode, grader=named, again=True)
    assert (first.directory / "note.md").read_text() == "Mine."
    assert (asked.kept, asked.record.key, asked.record.run_id != first.record.run_id) == (False, first.record.key, True)
    # With a service and its key it may say something else; which key that is does not matter
    options = [RoleOptions(network="open"), RoleOptions(secret_env={"K": "1"}), RoleOptions(secret_env={"K": "2"})]
    keys = [(await grade_episode(episode, grader=named, options=each)).record.key for each in options]
    assert len({first.record.key, *keys}) == 3
    assert keys[1] == keys[2]
    program("def grade(episode):\n    return 7\n")
    changed = await grade_episode(episode, grader=named)
    assert (changed.kept, changed.answer["score"]) == (False, 7)


async def test_reporter_gets_every_episode_and_leaves_files(episode: Path, played: Path) -> None:
    report = await report_episodes([episode], reporter=SUMMARIZER)
    assert report.ok, report.record.fault
    assert report.page == report.files / "summary.md"
    assert (report.files / "summary.md").read_text().startswith("# PaintArena — Episode ")
    stats = json.loads((report.files / "stats.json").read_text())
    assert stats["grid"] == {"width": 12, "height": 8, "total_tiles": 96}
    assert [each["policy_name"] for each in stats["slots"]] == ["Sweep Painter", "Frontier Painter"]
    both = await report_episodes([episode, played], reporter=SUMMARIZER, directory=episode.parent / "both")
    assert len(json.loads((both.files / "stats.json").read_text())["episodes"]) == 2
    assert len(both.record.episodes) == 2


async def test_parquet_reporter_writes_every_tick_as_a_table(episode: Path) -> None:
    told = await report_episodes([episode], reporter=PARQUET)
    assert told.ok, told.record.fault
    assert told.answer["event_log"] == "stats.parquet"
    assert check_report(told.directory / "outputs" / "report.zip").issues == ()
    table: Any = import_module("pyarrow.parquet").ParquetFile(told.files / "stats.parquet")
    assert table.num_row_groups == 1
    rows = [(row["ts"], row["player"], row["key"], json.loads(row["value"])) for row in table.read().to_pylist()]
    frames = json.loads((episode / "replay").read_text())["frames"]
    results = json.loads((episode / "results.json").read_text())
    assert [row[3] for row in rows if row[2] == "tile_owners"] == [frame["tile_owners"] for frame in frames]
    assert [row[3] for row in rows if row[1:3] == (1, "position")] == [frame["positions"][1] for frame in frames]
    assert rows[-5:-3] == [(20, -1, "final_results", results), (20, 0, "final_score", results["scores"][0])]


async def test_diagnoser_is_told_the_player(episode: Path) -> None:
    told = await diagnose_episode(episode, "Frontier Painter")
    assert told.ok, told.record.fault
    findings = json.loads((told.files / "findings.json").read_text())
    assert (findings["diagnoser_id"], findings["ticks"]) == ("paint-arena-diagnoser", 19)
    assert told.record.player is not None
    assert (told.record.player.slot, told.record.player.source) == (1, "frontier-painter")
    with pytest.raises(UsageError, match="No player of") as refused:
        await diagnose_episode(episode, "Frontier")
    assert refused.value.hint == "Did you mean 'Frontier Painter'?"


async def test_bundle_needs_its_game(episode: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bundle = tmp_path / "ep.zip"
    await bundle_episode(episode, bundle)
    with pytest.raises(UsageError, match="Nothing tells which game"):
        await grade_episode(bundle)
    there = await grade_episode(episode)
    graded = await grade_episode(bundle, game=ARENA)
    assert graded.record.key == there.record.key
    assert graded.directory.parent == tmp_path
    with zipfile.ZipFile(bundle) as archive:
        assert not [name for name in archive.namelist() if name.startswith("roles")]


WRONG = {
    "raises": ("def grade(episode):\n    return {}['score']\n", "program_error", "KeyError: 'score'"),
    "exits": ("import os\nos._exit(3)\n", "program_error", ""),
    "ends-without-a-grade": ("print('nothing')\n", "output_missing", "nothing"),
    "grades-nan": ("def grade(episode):\n    return float('nan')\n", "program_error", "no grade"),
    "grades-a-word": ("def grade(episode):\n    return 'good'\n", "program_error", "no grade"),
    "writes-nan": (
        "import os, urllib.parse as u\n"
        "open(u.unquote(u.urlsplit(os.environ['COGAME_GRADE_URI']).path), 'w').write('{\"score\": NaN}')\n",
        "output_refused",
        "",
    ),
    "writes-no-json": (
        "import os, urllib.parse as u\n"
        "open(u.unquote(u.urlsplit(os.environ['COGAME_GRADE_URI']).path), 'w').write('good')\n",
        "output_refused",
        "",
    ),
    "hangs": ("print('thinking', flush=True)\nimport time\ntime.sleep(600)\n", "program_timeout", "thinking"),
}


@pytest.mark.parametrize("how", WRONG)
async def test_program_that_fails_is_typed_and_its_log_kept(
    how: str, episode: Path, program: Callable[[str], str]
) -> None:
    source, error, said = WRONG[how]
    options = RoleOptions(timeout=3 if how == "hangs" else 60)
    graded = await grade_episode(episode, grader=program(source), options=options)
    fault = graded.record.fault
    assert fault is not None
    assert (fault.party, fault.error_type, graded.ok, graded.answer) == ("program", error, False, {})
    assert said in fault.log_tail
    assert said in "".join(path.read_text() for path in (graded.directory / "logs").iterdir())
    # What has failed is tried again, and replaced
    mended = await grade_episode(episode, grader=program("def grade(episode):\n    return 1\n"))
    assert (mended.answer["score"], mended.directory) == (1, graded.directory)


async def test_reporter_is_asked_on_its_socket_and_tells_how_far_it_is(episode: Path) -> None:
    heard: list[BaseEvent] = []
    options = RoleOptions(socket=True)
    report = await report_episodes([episode], reporter=SOCKET, options=options, publish=heard.append)
    assert report.ok, report.record.fault
    assert json.loads((report.files / "seen.json").read_text())["ticks"] == 20
    assert report.record.unit is not None
    assert report.record.unit.exit is not None
    assert report.record.unit.exit.reason == "stopped"
    kept = read_events(report.directory)
    assert [event.seq for event in kept] == list(range(1, len(kept) + 1))
    assert list(kept) == heard
    told = [event for event in kept if isinstance(event, RoleStarted | RoleProgressed | RoleFinished)]
    assert [event.kind for event in told] == ["role_started", "role_progressed", "role_finished"]
    assert {(event.id, event.episodes) for event in told} == {("socket_reporter", report.record.episodes)}
    again = await report_episodes([episode], reporter=SOCKET, options=options, publish=heard.append)
    assert again.kept
    assert isinstance(heard[-1], RoleFinished)
    assert heard[-1].kept
    with pytest.raises(UsageError, match="reporter summarizer serves no socket"):
        await report_episodes([episode], reporter=SUMMARIZER, options=options)


async def test_component_runs_as_a_program(episode: Path, tmp_path: Path) -> None:
    (tmp_path / "recap.wasm").write_bytes(wat2wasm(COMPONENT.read_text()))
    report = await report_episodes([episode], reporter=str(tmp_path / "recap.wasm"))
    assert report.ok, report.record.fault
    assert (report.answer["reporter_id"], report.page) == ("recap", report.files / "summary.md")
    assert (report.files / "results.json").read_bytes() == (episode / "results.json").read_bytes()


@pytest.mark.parametrize(
    ("how", "error", "said"),
    [
        ("crashes", "program_error", "exited with status 3"),
        ("hangs", "program_timeout", "at the deadline of 3 s"),
        ("writes-nothing", "output_missing", "has not written report.zip"),
    ],
)
async def test_reporter_that_fails_on_its_socket_is_typed(
    how: str, error: str, said: str, episode: Path, program: Callable[[str], str]
) -> None:
    named = program(
        f"import sys\nsys.argv[1:] = [{how!r}]\nimport runpy\nrunpy.run_path({SOCKET!r}, run_name='__main__')\n"
    )
    options = RoleOptions(socket=True, timeout=3 if how == "hangs" else 60)
    fault = (await report_episodes([episode], reporter=named, options=options)).record.fault
    assert fault is not None
    assert (fault.party, fault.error_type, said in fault.message) == ("program", error, True), fault


async def test_record_of_an_episode_names_its_roles(episode: Path, program: Callable[..., str]) -> None:
    package = await resolve_package(ARENA)
    before = read_record(episode)
    broken = program("raise SystemExit(3)\n", "broken.py")
    twice = program(
        "import os, urllib.parse as u\n"
        "for text in ('nonsense', '{\"score\": 7}'):\n"
        "    open(u.unquote(u.urlsplit(os.environ['COGAME_GRADE_URI']).path), 'w').write(text)\n",
        "twice.py",
    )
    roles = [EpisodeRole(program=each) for each in find_roles(package, "grader", [broken, twice])]
    roles += [EpisodeRole(program=each, player="Frontier Painter") for each in find_roles(package, "diagnoser")]
    with pytest.raises(UsageError, match="Two graders are called 'twice'"):
        find_roles(package, "grader", [twice, twice])
    async with open_backend("process", package) as (backend, _):
        plan = plan_episode(package, variant="quick", players=["sweep-painter"])
        with pytest.raises(UsageError, match="No player of paintarena"):
            await require_roles(roles, plan, backend)
        heard: list[BaseEvent] = []
        results = await run_episode_roles([episode], roles, game=package, backend=backend, publish=heard.append)
        again = await run_episode_roles([episode], roles, game=package, backend=backend)
    assert [result.ok for result in results] == [False, True, True]
    steps = [isinstance(event, RoleStarted) for event in heard if isinstance(event, RoleStarted | RoleFinished)]
    running = list(itertools.accumulate(1 if started else -1 for started in steps))
    assert (len(running), max(running), running[-1]) == (6, 2, 0)
    assert [result.answer.kept for result in again if result.answer is not None] == [False, True, True]
    record = read_record(episode)
    assert [(each.role, each.id, each.slot, each.status, each.score, each.error_type) for each in record.roles] == [
        ("grader", "broken", None, "failed", None, "program_error"),
        ("grader", "twice", None, "completed", 7.0, None),
        ("diagnoser", "paint-arena-diagnoser", 1, "completed", None, None),
    ]
    assert (episode / str(record.roles[2].page)).is_file()
    assert str(record.roles[0]) == "grader broken: The grader exited with status 3."
    # What became of the episode is untouched
    assert record.ok
    assert {*before.artifacts} < {*record.artifacts}
    kept = {"roles": (), "artifacts": before.artifacts, "digest": before.digest}
    assert record.model_copy(update=kept) == before


async def test_one_failure_leaves_the_other_grades(tmp_path: Path, program: Callable[[str], str]) -> None:
    package = await resolve_package(ARENA)
    plan = plan_episode(package, variant="quick")
    async with open_backend("process", package) as (backend, _):
        await run_many(
            [(str(number), plan) for number in range(3)], backend=backend, workspace=tmp_path / "many", parallel=3
        )
        odd = (
            "from pathlib import Path\n"
            f"seen = Path({str(tmp_path / 'seen')!r})\n"
            "def grade(episode):\n"
            "    try:\n"
            "        seen.mkdir()\n"
            "    except FileExistsError:\n"
            "        return episode.results['ticks']\n"
            "    raise SystemExit(4)\n"
        )
        grades = await grade_episodes([tmp_path / "many"], grader=program(odd), game=package, backend=backend)
        assert sorted(grades.scores) == [20, 20]
        assert (grades.ok, grades.mean) == (False, 20)
        again = await grade_episodes([tmp_path / "many"], grader=program(odd), game=package, backend=backend)
    assert (again.ok, again.scores) == (True, (20, 20, 20))
    assert [each.graded.kept for each in again.episodes if each.graded is not None].count(False) == 1


async def test_directory_of_something_else_is_left_alone(episode: Path) -> None:
    place = episode / "roles" / "grader-paint-arena-grader"
    place.mkdir(parents=True)
    (place / "thesis.txt").write_text("mine")
    with pytest.raises(WorkspaceError, match="no role has left what is in it"):
        await grade_episode(episode)
    assert (place / "thesis.txt").read_text() == "mine"


async def test_what_roles_left_goes_with_the_episode(episode: Path) -> None:
    report = await report_episodes([episode], reporter=SUMMARIZER)
    assert report.files.is_dir()
    await run_episode(ARENA, variant="quick", backend="process", workspace=episode, overwrite=True)
    assert not (episode / "roles").exists()
    report = await report_episodes([episode], reporter=SUMMARIZER)
    (report.files / "mine.txt").write_text("mine")
    with pytest.raises(WorkspaceError, match=r"files/mine\.txt"):
        await run_episode(ARENA, variant="quick", backend="process", workspace=episode, overwrite=True)


async def test_declared_roles_are_run_for_a_certificate(episode: Path) -> None:
    package = await resolve_package(ARENA)
    (grader,) = package.manifest.grader
    broken = grader.model_copy(update={"id": "broken", "run": ("python", "-c", "raise SystemExit(3)")})
    silent = grader.model_copy(update={"id": "silent", "run": ("python", "-c", "pass")})
    (optimizer,) = package.manifest.optimizer
    lost = optimizer.model_copy(update={"id": "lost", "run": ("python", "-c", "raise SystemExit(3)")})
    manifest = package.manifest.model_copy(update={"grader": (broken, grader, silent), "optimizer": (optimizer, lost)})
    async with open_backend("process", package) as (backend, _):
        found = await run_declared_roles(
            dataclasses.replace(package, manifest=manifest),
            episode,
            backend=backend,
            platform=None,
            publish=lambda _: None,
            directory="episode",
        )
    assert [(item.code, item.broken) for item in found] == [
        ("program_error", True),
        ("role_ran", False),
        ("output_missing", True),
        ("role_ran", False),
        ("role_ran", False),
        ("program_error", False),
    ]
    assert found[0].message == "grader 'broken': The grader exited with status 3."
    # Asked after the others, with what they have said
    plan = read_optimizer_plan(episode / "roles" / "optimizer-paint-arena-optimizer" / "outputs" / "plan.json")
    assert (plan.input_counts.grader_outputs, plan.input_counts.diagnoser_outputs) == (1, 1)
    assert (found[-1].ok, found[-1].level) == (False, "advice")
    assert str(found[0].artifact).startswith("episode/roles/grader-broken/logs/")
    assert "paint-arena-grader' gave the grade" in found[1].message


async def test_component_is_run_for_a_certificate_and_advice_where_it_cannot(
    episode: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = "coworld_manifest_template.json"
    document = json.loads((ARENA / template).read_text())
    recap = {"wasm": "recap.wasm", "id": "recap", "attributes": {"world": "softmax:reporter@0.6.0"}}
    (tmp_path / "recap.wasm").write_bytes(wat2wasm(COMPONENT.read_text()))
    (tmp_path / template).write_text(
        json.dumps({**document, "grader": [], "diagnoser": [], "optimizer": [], "reporter": [recap]})
    )
    package = await resolve_package(tmp_path / template)

    async def found() -> Evidence:
        # A component needs no image, so it runs whatever the backend
        (one,) = await run_declared_roles(
            package, episode, backend=FakeBackend(), platform=None, publish=lambda _: None, directory="episode"
        )
        return one

    assert (await found()).code == "role_ran"

    def nothing(_: str) -> None: ...

    monkeypatch.setattr(component_file, "find_spec", nothing)
    missing = await found()
    assert (missing.code, missing.level, missing.broken) == ("role_not_run", "advice", False)
    assert missing.message.startswith("reporter 'recap' was not run: A program that is a WebAssembly component needs")
    assert "\n" not in missing.message
