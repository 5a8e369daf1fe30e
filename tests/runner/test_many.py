"""Many episodes: a row each, keys that hold for good, and going on after whatever cut a run short."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from shutil import copytree
from typing import Any

import anyio
import pytest
from support.small_world import World, world

from coworld_core.episode.events import BaseEvent, BatchProgressed, PhaseStarted, RunFinished, RunStarted, read_events
from coworld_core.episode.record import EpisodeRow, read_record, read_rows
from coworld_core.errors import CapabilityError, EnvironmentFault, ImageError, UsageError, WorkspaceError
from coworld_runner.episode.batch import run_batch
from coworld_runner.episode.many import open_keyed_run, run_many
from coworld_runner.episode.run_options import RunOptions
from coworld_runner.episode.single import run_episode
from coworld_runner.evaluation import scrimmage
from coworld_runner.package.plan import EpisodePlan, plan_episode
from coworld_runner.runs.episode_places import find_episode


def plan(small: World, *players: str, **config: Any) -> EpisodePlan:
    """A short episode of the small Coworld."""
    made = plan_episode(small.package, variant="default", players=players)
    return dataclasses.replace(made, game_config={**made.game_config, "ticks": 2, "tick_seconds": 0.01, **config})


def rows(workspace: Path) -> dict[str, EpisodeRow]:
    found = list(read_rows(workspace))
    assert len({row.key for row in found}) == len(found)
    return {row.key: row for row in found}


async def test_a_batch_of_several_variants_with_a_changed_config(tmp_path: Path) -> None:
    async with world() as small:
        how: Any = {"backend": small.backend, "workspace": tmp_path / "run", "variant": "*"}
        summary = await run_batch(small.package, episodes=1, config={"ticks": 1}, **how)
        assert [row.variant for row in summary.episodes] == ["default", "long"]
        assert all(row.ok and row.config_changes == {"ticks": 1} for row in summary.episodes)
        assert (summary.variant, summary.config_changes) == ("default, long", {"ticks": 1})
        assert read_record(tmp_path / "run" / "episode-0002").game_config["ticks"] == 1
        with pytest.raises(UsageError) as refused:
            await run_batch(small.package, episodes=1, config={"ticks": 2}, resume=True, **how)
        assert refused.value.code == "key_of_another_plan"


async def test_each_plan_has_its_row(tmp_path: Path) -> None:
    heard: list[BatchProgressed] = []
    asked: list[str] = []

    def readers(key: str) -> tuple[Any, ...]:
        asked.append(key)
        return ()

    async with world() as small:
        wrong = plan(small, ticks=0)
        nobody = dataclasses.replace(plan(small), seats=plan(small, "counting-nobody:1").seats)
        tally = await run_many(
            {
                "ada/bob #1": plan(small, "first", "second"),
                "bob-ada": plan(small, "second", "first"),
                "wrong": wrong,
                "nobody": nobody,
            }.items(),
            backend=small.backend,
            workspace=tmp_path / "many",
            parallel=2,
            listeners=(lambda event: heard.append(event) if isinstance(event, BatchProgressed) else None,),
            episode_listeners=readers,
        )
    found = rows(tmp_path / "many")
    assert (tally.status, tally.played, tally.completed, tally.faulted) == ("failed", 4, 2, 2)
    assert {event.key: event.ok for event in heard} == {key: row.ok for key, row in found.items()}
    assert sorted(asked) == sorted(found)
    good = found["ada/bob #1"]
    assert [(seat.name, seat.player_id, seat.image) for seat in good.slots] == [
        ("First", "first", "counting-player"),
        ("Second", "second", "counting-player"),
    ]
    assert [seat.player_id for seat in found["bob-ada"].slots] == ["second", "first"]
    assert (good.ok, good.scores, good.variant) == (True, (1.0, 2.5), "default")
    assert "play" in [phase.phase for phase in good.phases]
    record = read_record(tmp_path / "many" / good.workspace)
    assert (record.run_id, record.seconds) == (good.run_id, good.seconds)
    # What one plan has wrong is its own affair
    assert (found["wrong"].party, found["wrong"].error_type) == ("operator", "config_error")
    assert (found["nobody"].party, found["nobody"].error_type) == ("operator", "image_unreachable")
    assert [row.workspace for row in found.values()].count("bob-ada") == 1


async def test_error_common_to_all_episodes_is_raised_once(tmp_path: Path) -> None:
    async with world() as small:
        nobody = plan_episode(small.package, variant="default", players=["counting-nobody:1"])
        with pytest.raises(ImageError) as raised:
            await run_batch(nobody, episodes=3, backend=small.backend, workspace=tmp_path / "many")
    assert "'counting-nobody:1'" in raised.value.message
    assert getattr(raised.value, "__notes__", []) == []


async def test_episode_with_a_row_is_not_repeated(tmp_path: Path) -> None:
    keys = [f"k{index}" for index in range(6)]
    async with world() as small:

        async def play(count: int, *, resume: bool, stop_after: int | None = None) -> Any:
            with anyio.CancelScope() as scope:

                def stop(event: Any) -> None:
                    if isinstance(event, BatchProgressed) and event.done == stop_after:
                        scope.cancel()

                return await run_many(
                    ((key, plan(small)) for key in keys[:count]),
                    backend=small.backend,
                    workspace=tmp_path / "many",
                    parallel=2,
                    resume=resume,
                    listeners=(stop,),
                )

        assert await play(6, resume=False, stop_after=2) is None
        first = rows(tmp_path / "many")
        assert 2 <= len(first) < 6
        # A runner that was killed in the middle of a line, and of an episode
        file = tmp_path / "many" / "episodes.jsonl"
        whole = file.read_bytes()
        file.write_bytes(whole + b'{"key": "k5", "run_id"')
        begun = tmp_path / "many" / "k5"
        (begun / "logs").mkdir(parents=True, exist_ok=True)
        if not (begun / "events.ndjson").exists():
            (begun / "events.ndjson").write_text(
                RunStarted(what="episode", seq=1, run_id="r5", workspace=str(begun)).model_dump_json() + "\n"
            )
        (begun / ".replay.0123456789ab.part").write_text("half of something")
        with (tmp_path / "many" / "events.ndjson").open("a") as log:
            log.write('{"seq": 7, "ki')
        # Somebody's own
        copytree(tmp_path / "many" / next(iter(first)), tmp_path / "many" / "copied")
        (tmp_path / "many" / "notes").mkdir()
        (tmp_path / "many" / "notes" / "first.txt").write_text("It went well.")
        (tmp_path / "many" / "analysis" / "logs").mkdir(parents=True)
        (tmp_path / "many" / "analysis" / "logs" / "monday.txt").write_text("mine")
        tally = await play(6, resume=True)
        assert (tally.status, tally.kept, tally.kept + tally.played) == ("completed", len(first), 6)
        assert file.read_bytes().startswith(whole)
        after = rows(tmp_path / "many")
        assert list(after)[: len(first)] == list(first)
        assert sorted(after) == keys
        assert not (begun / ".replay.0123456789ab.part").exists()
        assert (tmp_path / "many" / "notes" / "first.txt").exists()
        assert (tmp_path / "many" / "copied" / "episode.json").exists()
        assert (tmp_path / "many" / "analysis" / "logs" / "monday.txt").exists()
        # All there: nothing is played
        tally = await play(6, resume=True)
        assert (tally.kept, tally.played, tally.status) == (6, 0, "completed")
        assert len([event for event in read_events(tmp_path / "many") if isinstance(event, RunFinished)]) == 3
        # And without the word for it, nothing of an earlier run is touched
        with pytest.raises(WorkspaceError, match="not empty"):
            await play(6, resume=False)


async def test_an_episode_whose_game_was_over_when_it_was_interrupted_is_not_repeated(tmp_path: Path) -> None:
    async with world() as small:

        async def play(scope: anyio.CancelScope, *, resume: bool = False) -> Any:
            def stop(event: Any) -> None:
                if isinstance(event, PhaseStarted) and event.phase == "finish":
                    scope.cancel()

            with scope:
                return await run_many(
                    [("k", plan(small))],
                    backend=small.backend,
                    workspace=tmp_path / "many",
                    resume=resume,
                    episode_listeners=lambda _: (stop,),
                )

        assert await play(anyio.CancelScope()) is None
        (row,) = rows(tmp_path / "many").values()
        assert (row.key, row.ok, row.scores) == ("k", True, (1.0, 2.5))
        tally = await play(anyio.CancelScope(), resume=True)
        assert (tally.kept, tally.played, tally.status) == (1, 0, "completed")


async def test_a_run_that_cannot_go_on_has_its_last_event(tmp_path: Path) -> None:
    """An evaluation reads its rows first, for instance, and these may be broken."""
    async with world() as small:
        options = RunOptions(backend=small.backend, workspace=tmp_path / "many")
        with pytest.raises(UsageError):
            async with open_keyed_run(options, "", RunStarted(what="batch")):
                raise UsageError("The rows are broken.")
    first, last = read_events(tmp_path / "many")
    assert isinstance(first, RunStarted)
    assert (first.backend, first.workspace) == (small.backend.name, str(tmp_path / "many"))
    assert isinstance(last, RunFinished)
    assert (last.status, last.ok) == ("interrupted", False)


async def test_a_key_is_one_episode_for_good(tmp_path: Path) -> None:
    async with world() as small:
        plans = [("a", plan(small, "first", "second"))]

        async def play(plans: Any, **more: Any) -> None:
            await run_many(plans, backend=small.backend, workspace=tmp_path / "many", **more)

        with pytest.raises(UsageError, match="'a' occurs twice"):
            await play(plans * 2)
        (tmp_path / "many").rename(tmp_path / "first")
        await play(plans)
        with pytest.raises(UsageError, match="other players") as other:
            await play([("a", plan(small, "second", "first"))], resume=True)
        assert other.value.code == "key_of_another_plan"
    assert list(rows(tmp_path / "many")) == ["a"]


async def test_crash_of_an_episode_is_recorded_in_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world() as small:
        ensure = small.backend.ensure_image
        monkeypatch.setattr(small.backend, "ensure_image", crashing := Crashing(ensure, times=1))
        plans = [(key, plan(small)) for key in "abc"]
        tally = await run_many(plans, backend=small.backend, workspace=tmp_path / "many")
    assert crashing.left == 0
    assert (tally.status, tally.completed, tally.faulted) == ("failed", 2, 1)
    found = rows(tmp_path / "many")
    assert {key: (row.ok, row.party, row.error_type) for key, row in found.items()} == {
        "a": (False, "platform", "crash"),
        "b": (True, None, None),
        "c": (True, None, None),
    }


async def test_what_the_platform_lost_is_played_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[BatchProgressed] = []

    def listen(event: BaseEvent) -> None:
        if isinstance(event, BatchProgressed):
            heard.append(event)

    async with world() as small:
        ensure = small.backend.ensure_image

        async def play(*, times: int, **more: Any) -> Any:
            monkeypatch.setattr(small.backend, "ensure_image", Crashing(ensure, times=times))
            how: Any = {"backend": small.backend, "workspace": tmp_path / "run", "config": {"ticks": 1}, **more}
            heard.clear()
            how["listeners"] = (listen,)
            return await run_batch(small.package, variant="default", episodes=2, **how)

        first = await play(times=1)
        assert [row.party for row in first.episodes] == ["platform", None]
        second = await play(times=1, resume=True)
        assert [row.party for row in second.episodes] == ["platform", None]
        assert [event.key for event in heard] == ["episode-0001"]
        third = await play(times=1, resume=True, retry={"platform": 1})
        assert (third.ok, [row.workspace for row in third.episodes]) == (True, ["episode-0001.4", "episode-0002"])
        assert [event.key for event in heard] == ["episode-0001"]
        # What was lost keeps its row, and its directory
        attempts = [row for row in read_rows(tmp_path / "run") if row.key == "episode-0001"]
        assert [(row.earlier, row.ok) for row in attempts] == [(0, False), (1, False), (2, False), (3, True)]
        assert find_episode(tmp_path / "run" / "episode-0001").name == "episode-0001"
        assert find_episode(tmp_path / "run" / "1").name == "episode-0001.4"
        # Players' and the game's own faults are results
        kept = await play(times=0, resume=True)
        assert (kept.ok, heard) == (True, [])
        down = await play(times=100, workspace=tmp_path / "other", retry={"platform": 1})
        assert [(row.party, row.earlier) for row in down.episodes] == [("platform", 1)] * 2
        with pytest.raises(UsageError, match="retry has player=1"):
            await play(times=0, workspace=tmp_path / "third", retry={"player": 1})


class Crashing:
    """A call that is not up to something a few times."""

    def __init__(self, call: Any, *, times: int) -> None:
        self.call, self.left = call, times

    async def __call__(self, *args: Any, **more: Any) -> Any:
        if self.left:
            self.left -= 1
            raise RuntimeError("too many open files")
        return await self.call(*args, **more)


async def test_width_below_one_is_refused(tmp_path: Path) -> None:
    async with world() as small:
        with pytest.raises(UsageError):
            await run_many([("a", plan(small))], backend=small.backend, workspace=tmp_path / "many", parallel=0)
    assert not (tmp_path / "many").exists()


@pytest.mark.parametrize(("most", "together"), [(1, 1), (5, 1), (6, 2), (None, 3)])
async def test_programs_are_bounded_in_all_episodes_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int | None, together: int
) -> None:
    """An episode of two seats is three programs; one that is larger than the bound plays alone."""
    begun = [0, 0]

    async def counted(*args: Any, **more: Any) -> Any:
        begun[0] += 1
        begun[1] = max(begun)
        try:
            return await run_episode(*args, **more)
        finally:
            begun[0] -= 1

    monkeypatch.setattr("coworld_runner.episode.program_venue.run_episode", counted)
    async with world() as small:
        plans = [(key, plan(small)) for key in "abcd"]
        how: Any = {"backend": small.backend, "workspace": tmp_path / "many", "parallel": 3, "max_programs": most}
        tally = await run_many(plans, **how)
    assert tally.completed == 4
    assert begun[1] == together


async def test_a_bound_that_means_nothing_is_refused(tmp_path: Path) -> None:
    async with world() as small:
        with pytest.raises(UsageError):
            await run_many([("a", plan(small))], backend=small.backend, workspace=tmp_path / "many", max_programs=0)
    nim = Path(__file__).parents[2] / "examples" / "nim"
    with pytest.raises(CapabilityError, match="starts no programs"):
        await scrimmage(nim, "counter", episodes=2, workspace=tmp_path / "nim", max_programs=5)


async def test_two_runs_do_not_write_to_one_file(tmp_path: Path) -> None:
    async with world() as small, anyio.create_task_group() as group:
        begun = anyio.Event()
        group.start_soon(
            lambda: run_many(
                [("a", plan(small, ticks=1000))],
                backend=small.backend,
                workspace=tmp_path / "many",
                episode_listeners=lambda _: (lambda _: begun.set(),),
            )
        )
        await begun.wait()
        with pytest.raises(WorkspaceError, match="Another run is writing"):
            await run_many([], backend=small.backend, workspace=tmp_path / "many", resume=True)
        group.cancel_scope.cancel()


async def test_a_full_disk_ends_it_and_keeps_whole_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    write = os.write

    def full(file: int, data: Any) -> int:
        if bytes(data).startswith(b'{"index":2,'):
            write(file, bytes(data)[:20])
            raise OSError(28, "No space left on device")
        return write(file, data)

    async with world() as small:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(EnvironmentFault, match="No space left"):
            await run_many([(key, plan(small)) for key in "abc"], backend=small.backend, workspace=tmp_path / "many")
        monkeypatch.undo()
        assert list(rows(tmp_path / "many")) == ["a"]
        await run_many(
            [(key, plan(small)) for key in "abc"], backend=small.backend, workspace=tmp_path / "many", resume=True
        )
    lines = (tmp_path / "many" / "episodes.jsonl").read_text().splitlines()
    assert [json.loads(line)["key"] for line in lines] == ["a", "b", "c"]


CROWD = """
import resource, sys
from pathlib import Path
import anyio
from support.misfit_kit import PACKAGE, misfit_plan
from coworld_core.episode.events import Notice
from coworld_runner.backends import ProcessBackend
from coworld_runner.episode.many import run_many

PLAYER = ("python3", "-c", "import player, resource as r; print(r.getrlimit(r.RLIMIT_NOFILE)[0]); player.play()")

async def main(workspace):
    told = []
    async with ProcessBackend(default_context=PACKAGE) as backend:
        tally = await run_many(
            [(str(number), misfit_plan("well", PLAYER)) for number in range(8)],
            backend=backend, workspace=Path(workspace), parallel=8,
            listeners=(lambda event: told.append(event.message) if isinstance(event, Notice) else None,),
        )
    print(tally.completed, resource.getrlimit(resource.RLIMIT_NOFILE)[0], *told, sep="\\n")

anyio.run(main, sys.argv[1])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hard", "told"),
    [
        (4096, []),
        (130, ["Fewer than 8 episodes at a time: this process may have no more than 130 files open (ulimit -Hn)."]),
    ],
)
async def test_more_at_a_time_than_files_may_be_open(hard: int, told: list[str], tmp_path: Path) -> None:
    command = ["bash", "-c", f'ulimit -Sn 100; ulimit -Hn {hard}; exec "$@"', "-", sys.executable, "-c", CROWD]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = await anyio.run_process([*command, str(tmp_path / "many")], env=environment, stderr=None)
    completed, limit, *words = done.stdout.decode().splitlines()
    assert (completed, limit, words) == ("8", str(hard), told)
    # Its programs have what they would have had from a shell
    logs = [path.read_text() for path in (tmp_path / "many").glob("*/logs/policy_agent_*.log")]
    assert len(logs) == 8
    assert set(logs) == {"100\n"}
