"""Checks of the backend contract: stopping, concurrent runs, and leftovers of a killed runner."""

# Checks have no docstrings: their names say what they check

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys

import anyio
import pytest

from coworld_core.episode.events import LeakFound, UnitExited
from coworld_core.episode.outcome import Exit
from coworld_core.ids import new_run_id

from ..backend import HttpProbe, Unit
from ..runs.scratch import open_scratch, remove_run, scratch_root
from ._conformance_arena import HTTP, Arena, Suite, does_not_apply, locked, subject_environment, units_of, until

__all__ = ["StoppingChecks"]


class StoppingChecks(Suite):
    """Checks that nothing is left, however a run ends."""

    # ------------------------------------------------------------------ stopping

    async def test_stop_asks_first(self, arena: Arena) -> None:
        async with (
            arena.open() as backend,
            backend.units([arena.spec("subject", "polite:7", "print:up", "hang")], publish=arena.publish) as (unit,),
        ):
            await arena.until_written("subject", "up")
            exit = await unit.stop(self.deadline)
            assert (exit.reason, exit.code) == ("stopped", 7)
            assert arena.text("subject") == "up\ngoodbye\n"

    async def test_stop_kills_what_does_not_listen(self, arena: Arena) -> None:
        spec = arena.spec("subject", "stubborn", "print:up", "hang")
        async with arena.open() as backend:
            async with backend.units([spec], publish=arena.publish) as (unit,):
                await arena.until_written("subject", "up")
                exit = await unit.stop(0.3)
                assert exit.reason == "stopped"
                assert not exit.ok
            await arena.nothing_left(backend)

    async def test_stop_takes_the_whole_tree(self, arena: Arena) -> None:
        spec = arena.spec("subject", "child:child", "daemon:daemon", "print:up", "hang")
        async with arena.open() as backend:
            async with backend.units([spec], publish=arena.publish) as (unit,):
                await arena.until_written("subject", "up")
                await arena.locked("subject", "child")
                await arena.locked("subject", "daemon")
                await unit.stop(0.5)
                assert not arena.is_locked("subject", "child")
                assert not arena.is_locked("subject", "daemon")
            await arena.nothing_left(backend)

    async def test_what_a_unit_leaves_behind_ends_with_it(self, arena: Arena) -> None:
        spec = arena.spec("subject", "daemon:daemon", "wait:go", "exit:3")
        async with (
            arena.open() as backend,
            backend.units([spec], publish=arena.publish) as (unit,),
        ):
            await arena.locked("subject", "daemon")
            (arena.inside("subject") / "go").touch()
            # The daemon still has the log open, which must not delay the unit's end
            exit = await unit.wait()
            assert (exit.reason, exit.code) == ("exited", 3)
            assert not arena.is_locked("subject", "daemon")

    async def test_stopping_again_changes_nothing(self, arena: Arena) -> None:
        specs = [arena.spec("ended", "exit:6"), arena.spec("running", "hang")]
        async with (
            arena.open() as backend,
            backend.units(specs, publish=arena.publish) as (ended, running),
        ):
            await ended.wait()
            assert (await ended.stop()).code == 6
            exits: list[Exit] = []

            async def stop(grace: float) -> None:
                exits.append(await running.stop(grace))

            async with anyio.create_task_group() as tasks:
                for grace in (5.0, 0.0, 1.0, 5.0):
                    tasks.start_soon(stop, grace)
            assert len(exits) == 4
            assert len(set(map(repr, exits))) == 1
            assert exits[0].reason == "stopped"
            assert await running.stop() == exits[0]
            assert len(arena.of(UnitExited, "running")) == 1

    async def test_leaving_stops_all_at_once(self, arena: Arena) -> None:
        # Each ends only once all have been asked to: stopped one by one, the first would have to be killed
        names = ["one", "two", "three"]
        units: tuple[Unit, ...] = ()
        async with arena.open() as backend:
            async with anyio.create_task_group() as tasks:

                async def release() -> None:
                    for name in names:
                        await arena.until_written(name, "goodbye")
                    for name in names:
                        (arena.inside(name) / "go").touch()

                specs = [arena.spec(name, "linger:go", "print:up", "hang") for name in names]
                async with backend.units(specs, publish=arena.publish, grace=self.deadline / 4) as units:
                    for name in names:
                        await arena.until_written(name, "up")
                    tasks.start_soon(release)
            assert [(unit.exit.reason, unit.exit.code) for unit in units if unit.exit is not None] == [
                ("stopped", 0)
            ] * len(names)
            await arena.nothing_left(backend)

    async def test_leaving_stops_and_removes_everything(self, arena: Arena) -> None:
        specs = [arena.spec("tree", "daemon:alive", "hang"), arena.spec("stubborn", "stubborn", "hang")]
        async with arena.open() as backend:
            async with backend.units(specs, publish=arena.publish, grace=0.5) as units:
                await arena.locked("tree", "alive")
            assert all(unit.exit is not None and unit.exit.reason == "stopped" for unit in units)
            assert len(arena.of(UnitExited)) == 2
            assert arena.of(LeakFound) == []
            assert not arena.is_locked("tree", "alive")
            await arena.nothing_left(backend)

    async def test_in_a_hurry_nobody_waits_for_the_grace(self, arena: Arena) -> None:
        specs = [arena.spec(name, "stubborn", "print:up", "hang") for name in ("one", "two")]
        long = self.deadline * 2
        async with arena.open() as backend:
            async with backend.units(specs, publish=arena.publish, grace=long) as (one, _):
                await arena.until_written("one", "up")
                await arena.until_written("two", "up")
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(one.stop, long)
                    await anyio.wait_all_tasks_blocked()
                    assert one.exit is None
                    # The second unit's grace is still to come
                    backend.end_waits()
            assert [event.exit.reason for event in arena.of(UnitExited)] == ["stopped", "stopped"]
            await arena.nothing_left(backend)

    async def test_cancelling_the_body_stops_everything(self, arena: Arena) -> None:
        units: tuple[Unit, ...] = ()
        specs = [arena.spec("tree", "daemon:alive", "print:kept", "hang"), arena.spec("stubborn", "stubborn", "hang")]
        async with arena.open() as backend:
            with anyio.CancelScope() as scope:
                async with backend.units(specs, publish=arena.publish, grace=0.5) as units:
                    await arena.locked("tree", "alive")
                    await arena.until_written("tree", "kept")
                    scope.cancel()
                    await anyio.sleep_forever()
            assert scope.cancelled_caught
            assert [unit.exit.reason for unit in units if unit.exit is not None] == ["stopped", "stopped"]
            assert not arena.is_locked("tree", "alive")
            await arena.nothing_left(backend)

    async def test_an_error_in_the_body_comes_out_as_it_is(self, arena: Arena) -> None:
        error = RuntimeError("the body's own")
        async with arena.open() as backend:
            with pytest.raises(RuntimeError) as caught:
                async with backend.units([arena.spec("subject", "hang")], publish=arena.publish):
                    raise error
            assert caught.value is error
            await arena.nothing_left(backend)

    # ------------------------------------------------------------------ many

    async def test_runs_at_the_same_time_do_not_clash(self, arena: Arena) -> None:
        async with open_scratch() as scratch:
            other = Arena(self, scratch)
            async with arena.open() as backend:
                specs = [a.spec("game", "serve:200", "hang", ports=HTTP) for a in (arena, other)]
                async with (
                    backend.units(specs[:1], publish=arena.publish) as (first,),
                    backend.units(specs[1:], publish=other.publish) as (second,),
                ):
                    await first.wait_ready(HttpProbe())
                    await second.wait_ready(HttpProbe())
                    assert first.endpoint().here != second.endpoint().here
                    mine = {item.id for item in await backend.find(arena.run_id)}
                    theirs = {item.id for item in await backend.find(other.run_id)}
                    assert mine
                    assert theirs
                    assert not mine & theirs
                await other.nothing_left(backend)

    async def test_ten_at_once(self, arena: Arena) -> None:
        addresses: set[str] = set()
        async with arena.open() as backend, anyio.create_task_group() as tasks:

            async def play(index: int) -> None:
                async with open_scratch() as scratch:
                    mine = Arena(self, scratch)
                    specs = [
                        mine.spec("game", "serve:200", "hang", ports=HTTP, clients=("player-0",)),
                        mine.spec("player-0", "hang", slot=0, connects_to="game"),
                    ]
                    async with backend.units(specs, publish=mine.publish) as (game, _):
                        await game.wait_ready(HttpProbe())
                        addresses.add(game.endpoint().here)
                    assert mine.of(LeakFound) == []
                    await mine.nothing_left(backend)

            for index in range(10):
                tasks.start_soon(play, index)
        assert len(addresses) == 10

    # ------------------------------------------------------------------ finding and reaping

    async def test_reaping_leaves_the_living_alone_unless_told_otherwise(self, arena: Arena) -> None:
        async with (
            arena.open() as backend,
            backend.units([arena.spec("subject", "daemon:alive", "hang")], publish=arena.publish) as (unit,),
        ):
            await arena.locked("subject", "alive")
            found = await backend.find(arena.run_id)
            reaped = await backend.reap(found)
            assert [item.found for item in reaped] == list(found)
            assert not any(item.removed for item in reaped)
            assert all(item.reason for item in reaped)
            assert unit.exit is None
            assert arena.is_locked("subject", "alive")

            reaped = await backend.reap(units_of(found), force=True)
            assert all(item.removed for item in reaped), reaped
            assert not (await unit.wait()).ok
            assert not arena.is_locked("subject", "alive")
            await arena.nothing_left(backend)

    async def test_what_a_dead_run_left_is_found_and_removed(self, arena: Arena) -> None:
        dead = scratch_root() / new_run_id()
        (dead / "game").mkdir(parents=True)
        (dead / "owner.lock").touch()
        (dead / "game" / "config.json").write_text("{}")
        try:
            async with arena.open() as backend:
                found = await backend.find(dead.name)
                assert [(item.kind, item.id, item.alive) for item in found] == [("directory", str(dead), False)]
                reaped = await backend.reap(found)
                assert [item.removed for item in reaped] == [True]
                assert not dead.exists()
                assert await backend.find(dead.name) == ()
                assert arena.scratch.path.exists()
        finally:
            remove_run(dead)

    async def test_a_killed_runner_leaves_nothing_that_reap_does_not_remove(self, arena: Arena) -> None:
        run_id = new_run_id()
        spec = dataclasses.replace(
            self.subject_spec(run_id, "orphan", "daemon:alive", "hang"), environment=subject_environment
        )
        try:
            data = pickle.dumps((self.make_backend(), spec))
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            does_not_apply(f"the backend cannot be handed to another process: {error}")

        def is_alive() -> bool:
            directory = self.inside(run_id, "orphan", scratch_root() / run_id / "orphan")
            return locked(directory / "alive")

        async with arena.open() as backend:
            with subprocess.Popen(  # noqa: ASYNC220 - must outlive every cancellation here
                [sys.executable, "-m", "coworld_runner.testing.orphan_runner"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            ) as runner:
                assert runner.stdin is not None
                try:
                    runner.stdin.write(data)
                    runner.stdin.close()
                    await until(is_alive)
                    alive = await backend.find(run_id)
                    assert units_of(alive)
                    assert all(item.alive for item in alive), alive
                finally:
                    runner.kill()
            try:
                found = await backend.find(run_id)
                assert found
                assert not any(item.alive for item in found), found
                reaped = await backend.reap(found)
                assert all(item.removed for item in reaped), reaped
                assert await backend.find(run_id) == ()
                assert not is_alive()
            finally:
                remove_run(scratch_root() / run_id)
