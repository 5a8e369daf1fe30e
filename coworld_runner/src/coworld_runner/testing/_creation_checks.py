"""Checks of the backend contract: entering, capabilities, creating units, and how they end."""

# Checks have no docstrings: their names say what they check

from __future__ import annotations

import dataclasses
import signal
import socket
from typing import Any

import anyio
import pytest

from coworld_core.episode.events import UnitCreated, UnitExited, UnitStarted
from coworld_core.episode.outcome import Exit
from coworld_core.errors import BackendError, CapabilityError, ImageError, StartError
from coworld_core.issues import Issue

from ..backend import Limits, Port
from ._conformance_arena import Arena, Suite, units_of, until

__all__ = ["MakingChecks"]


class MakingChecks(Suite):
    """Checks from entering a backend to units that have ended by themselves."""

    # ------------------------------------------------------------------ opening

    async def test_entering_opens_connections_and_nothing_else(self, arena: Arena) -> None:
        import psutil

        me = psutil.Process()
        before = {child.pid for child in me.children(recursive=True)}
        async with arena.open() as backend:
            assert {child.pid for child in me.children(recursive=True)} <= before
            assert units_of(await backend.find(arena.run_id)) == []
            assert backend.name
            assert isinstance(backend.engine_version(), str)

    async def test_check_may_be_called_unentered_and_changes_nothing(self, arena: Arena) -> None:
        with anyio.fail_after(self.deadline):
            issues = await self.make_backend().check()
        assert isinstance(issues, tuple)
        for issue in issues:
            assert isinstance(issue, Issue)
            assert issue.hint, f"{issue.code} does not say what to do"
            assert issue.severity != "error", f"this backend cannot be tested here: {issue}"

    async def test_ensure_image_is_shared_by_all_who_ask(self, arena: Arena) -> None:
        image = arena.spec("subject").image
        async with arena.open() as backend:
            infos: list[object] = []

            async def ask() -> None:
                infos.append(await backend.ensure_image(image, publish=arena.publish))

            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(ask)
            assert len(infos) == 5
            assert len({repr(info) for info in infos}) == 1

    @pytest.mark.parametrize(
        "image", ["coworld.invalid/no-such-image:never", f"img_{'0' * 8}-0000-4000-8000-{'0' * 12}"]
    )
    async def test_an_image_that_is_not_to_be_had_is_refused_with_a_hint(self, arena: Arena, image: str) -> None:
        async with arena.open() as backend:
            with pytest.raises(ImageError) as caught:
                await backend.ensure_image(image)
        assert image in caught.value.message
        assert caught.value.hint

    async def test_an_image_is_here_once_a_unit_has_run_from_it(self, arena: Arena) -> None:
        spec = arena.spec("subject", "exit:0")
        async with arena.open() as backend:
            assert not await backend.has_image("coworld.invalid/no-such-image:never")
            assert (await arena.run(backend, spec)).ok
            if not backend.capabilities.images:
                assert not await backend.has_image(spec.image)
                return
            while not await backend.has_image(spec.image):  # noqa: ASYNC110 - nodes list their images with a delay
                await anyio.sleep(0.1)

    async def test_no_trouble_is_told_of_while_there_is_none(self, arena: Arena) -> None:
        async with arena.open() as backend:
            assert backend.trouble() == ""
            async with backend.units(
                [arena.spec("one", "exit:1"), arena.spec("other", "hang")], publish=arena.publish
            ) as (
                one,
                _,
            ):
                # A unit that fails is no trouble of the platform
                assert not (await one.wait()).ok
                assert backend.trouble() == ""
            assert backend.trouble() == ""

    # ------------------------------------------------------------------ capabilities

    async def test_what_it_cannot_enforce_it_refuses_before_anything_is_made(self, arena: Arena) -> None:
        can = self.make_backend().capabilities
        asked: list[tuple[bool, dict[str, Any]]] = [
            (can.network_isolation, {"network": "none"}),
            (can.network_isolation, {"network": "game-only", "connects_to": "game"}),
            (can.memory_limit, {"limits": Limits(memory_bytes=1 << 30)}),
            (can.cpu_limit, {"limits": Limits(cpus=1.0)}),
            (can.pids_limit, {"limits": Limits(pids=100)}),
            (can.disk_limit, {"limits": Limits(disk_bytes=1 << 30)}),
            (can.proxies, {"proxies": ("proxy",)}),
        ]
        async with arena.open() as backend:
            for possible, changes in asked:
                if possible:
                    continue
                specs = [arena.spec("first", "hang"), arena.spec("second", "hang", **changes)]
                with pytest.raises(CapabilityError) as caught:
                    async with backend.units(specs, publish=arena.publish):
                        pytest.fail(f"{changes} was not refused")
                assert "second" in caught.value.message
                assert arena.events == []
                await arena.nothing_left(backend)

    async def test_what_it_claims_to_enforce_it_accepts(self, arena: Arena) -> None:
        can = self.make_backend().capabilities
        limits = Limits(
            memory_bytes=1 << 30 if can.memory_limit else None,
            cpus=1.0 if can.cpu_limit else None,
            pids=100 if can.pids_limit else None,
            disk_bytes=1 << 30 if can.disk_limit else None,
        )
        async with arena.open() as backend:
            assert (await arena.run(backend, arena.spec("subject", "exit:0", limits=limits))).ok

    # ------------------------------------------------------------------ making

    async def test_units_come_in_the_order_of_their_specs(self, arena: Arena) -> None:
        names = [f"unit-{index}" for index in range(4)]
        async with (
            arena.open() as backend,
            backend.units([arena.spec(name, "hang", slot=3) for name in names], publish=arena.publish) as units,
        ):
            assert [unit.name for unit in units] == names
            assert len({unit.id for unit in units}) == len(names)
            assert all(unit.id for unit in units)
            for name in names:
                kinds = [type(event) for event in arena.events if getattr(event, "unit", "") == name]
                assert kinds == [UnitCreated, UnitStarted]
            # Events identify their unit by component and slot, so that nothing needs to parse its name
            told = {(event.component, event.slot) for event in arena.events if isinstance(event, UnitStarted)}
            assert told == {(units[0].spec.component, 3)}

    async def test_a_unit_made_without_start_waits_for_it(self, arena: Arena) -> None:
        specs = [arena.spec("one", "print:here", "hang"), arena.spec("never", "print:here", "hang")]
        async with arena.open() as backend:
            async with backend.units(specs, publish=arena.publish, start=False) as (one, never):
                assert arena.of(UnitStarted) == []
                assert len(arena.of(UnitCreated)) == 2
                assert one.exit is None
                assert arena.text("one") == ""
                await one.start()
                await arena.until_written("one", "here")
                await one.start()
                assert len(arena.of(UnitStarted)) == 1
                assert arena.text("never") == ""
            assert arena.text("one") == "here\n"
            assert arena.text("never") == ""
            assert arena.of(UnitExited, "never") == []
            assert never.exit is not None
            assert never.exit.reason == "stopped"
            await arena.nothing_left(backend)

    async def test_a_start_that_fails_half_way_leaves_nothing(self, arena: Arena) -> None:
        bad = dataclasses.replace(arena.spec("bad"), argv=("coworld-no-such-program",))
        specs = [arena.spec("good", "daemon:alive", "hang"), bad, arena.spec("other", "hang")]
        async with arena.open() as backend:
            with pytest.raises(BackendError) as caught:
                async with backend.units(specs, publish=arena.publish):
                    pytest.fail("a program that does not exist was started")
            assert isinstance(caught.value, StartError)
            assert "coworld-no-such-program" in f"{caught.value.message} {caught.value.hint}"
            await arena.nothing_left(backend)
            assert not arena.is_locked("good", "alive")

    async def test_units_are_found_by_label_as_long_as_they_exist(self, arena: Arena) -> None:
        async with arena.open() as backend:
            for start in (True, False):
                async with backend.units([arena.spec("subject", "hang")], publish=arena.publish, start=start):
                    found = units_of(await backend.find(arena.run_id))
                    assert any("subject" in item.name for item in found), found
                    assert all(item.alive and item.run_id == arena.run_id for item in found)
                    assert {item.id for item in found} <= {item.id for item in await backend.find()}
                await arena.nothing_left(backend)

    async def test_endpoints_are_on_loopback_and_known_by_name(self, arena: Arena) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            wanted = free.getsockname()[1]
        ports = (Port(name="http"), Port(name="extra", number=9001, host_port=wanted))
        async with (
            arena.open() as backend,
            backend.units([arena.spec("subject", "serve:200", "hang", ports=ports)], publish=arena.publish) as (unit,),
        ):
            host, _, port = unit.endpoint().here.rpartition(":")
            assert host in {"127.0.0.1", "[::1]", "localhost"}
            assert int(port) > 0
            assert unit.endpoint("extra").here == f"127.0.0.1:{wanted}"
            with pytest.raises(KeyError):
                unit.endpoint("none")

    # ------------------------------------------------------------------ ends

    @pytest.mark.parametrize("status", [0, 1, 37])
    async def test_an_exit_status_is_a_value(self, arena: Arena, status: int) -> None:
        async with arena.open() as backend:
            exit = await arena.run(backend, arena.spec("subject", f"exit:{status}"))
        assert (exit.reason, exit.code, exit.signal) == ("exited", status, None)
        assert exit.ok == (status == 0)

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
    async def test_an_end_by_a_signal_is_told_from_a_status(self, arena: Arena, number: signal.Signals) -> None:
        async with arena.open() as backend:
            exit = await arena.run(backend, arena.spec("subject", f"die:{int(number)}"))
        assert (exit.reason, exit.signal) == ("signal", int(number))
        assert not exit.ok

    async def test_an_end_is_noticed_when_it_happens_by_all_who_wait(self, arena: Arena) -> None:
        specs = [arena.spec("one", "wait:go", "exit:3"), arena.spec("other", "hang")]
        seen: list[Exit] = []
        async with (
            arena.open() as backend,
            backend.units(specs, publish=arena.publish) as (one, other),
            anyio.create_task_group() as tasks,
        ):

            async def wait() -> None:
                seen.append(await one.wait())

            for _ in range(3):
                tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert seen == []
            assert one.exit is None
            (arena.inside("one") / "go").touch()
            await until(lambda: len(seen) == 3)
            assert {exit.code for exit in seen} == {3}
            assert one.exit == seen[0] == await one.wait()
            assert other.exit is None
            assert [event.exit for event in arena.of(UnitExited)] == [one.exit]

    async def test_too_much_memory_is_an_end_of_its_own(self, arena: Arena) -> None:
        self.needs(self.make_backend().capabilities.memory_limit, "a memory limit")
        limits = Limits(memory_bytes=64 << 20)
        async with arena.open() as backend:
            within = await arena.run(backend, arena.spec("small", "print:fine", limits=limits))
            exit = await arena.run(backend, arena.spec("large", f"memory:{256 << 20}", limits=limits))
        assert within.ok
        assert exit.reason == "oom", exit
        assert not exit.ok

    async def test_too_many_processes_are_held(self, arena: Arena) -> None:
        self.needs(self.make_backend().capabilities.pids_limit, "a process limit")
        async with arena.open() as backend:
            exit = await arena.run(backend, arena.spec("subject", "processes:60", limits=Limits(pids=30)))
            await arena.nothing_left(backend)
        # Over the limit, the platform either ends the unit or refuses further processes
        assert exit.reason == "pids" or exit.code == 1, exit

    async def test_too_much_on_disk_is_an_end_of_its_own(self, arena: Arena) -> None:
        self.needs(self.make_backend().capabilities.disk_limit, "a disk limit")
        limits = Limits(disk_bytes=4 << 20)
        async with arena.open() as backend:
            within = await arena.run(backend, arena.spec("small", f"size:a:{1 << 20}", limits=limits))
            exit = await arena.run(backend, arena.spec("large", f"size:a:{64 << 20}", "hang", limits=limits))
            many = [f"size:{index}:{1 << 20}" for index in range(16)]
            sum_of_many = await arena.run(backend, arena.spec("many", *many, "hang", limits=limits))
        assert within.ok
        assert exit.reason == "disk", exit
        assert sum_of_many.reason == "disk", sum_of_many
