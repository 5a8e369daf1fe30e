"""Checks of the backend contract: logs and readiness."""

# Checks have no docstrings: their names say what they check

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread
import pytest

from coworld_core.episode.events import LogTruncated, UnitReady
from coworld_core.episode.outcome import Exit
from coworld_core.errors import NotReadyError

from ..backend import HttpProbe, Limits
from ._conformance_arena import HTTP, Arena, Suite, does_not_apply, until

__all__ = ["OutputChecks"]

_INTERVAL = 0.2
"""Seconds between readiness probes; shorter intervals would add nothing to the checks."""


class OutputChecks(Suite):
    """Checks that logs are complete and limited, and that readiness is detected."""

    # ------------------------------------------------------------------ logs

    async def test_logs_are_written_while_it_runs(self, arena: Arena) -> None:
        async with (
            arena.open() as backend,
            backend.units([arena.spec("subject", "print:hello", "hang")], publish=arena.publish) as (unit,),
        ):
            await arena.until_written("subject", "hello\n")
            assert unit.exit is None
            assert "hello" in await unit.log_tail()

    async def test_logs_are_complete_when_wait_has_returned(self, arena: Arena) -> None:
        count = 3_000_000
        async with (
            arena.open() as backend,
            backend.units([arena.spec("subject", f"flood:{count}", "print:last")], publish=arena.publish) as (unit,),
        ):
            assert (await unit.wait()).ok
            assert arena.log("subject").stat().st_size == count + len("last\n")
            assert (await unit.log_tail()).endswith("last\n")
            assert not unit.log_truncated
            assert arena.of(LogTruncated) == []

    async def test_both_streams_go_where_the_spec_says(self, arena: Arena) -> None:
        steps = ("print:out", "error:err")
        apart = arena.scratch.path / "apart.err"
        async with arena.open() as backend:
            can = backend.capabilities.separate_streams
            await arena.run(backend, arena.spec("together", *steps))
            await arena.run(backend, arena.spec("apart", *steps, stderr=apart))
            async with backend.units([arena.spec("none", *steps, stdout=None)], publish=arena.publish) as (unit,):
                assert (await unit.wait()).ok
                assert await unit.log_tail() == ""
        assert sorted(arena.text("together").split()) == ["err", "out"]
        if can:
            assert arena.text("apart") == "out\n"
            assert apart.read_text() == "err\n"
        else:
            assert sorted(arena.text("apart").split()) == ["err", "out"]
            assert not apart.exists()
        assert not arena.log("none").exists()

    async def test_a_log_keeps_to_its_limit_and_its_unit_runs_on(self, arena: Arena) -> None:
        limit = 10_000
        spec = arena.spec("subject", "flood:2000000", "exit:5", limits=Limits(log_bytes=limit), slot=2)
        async with (
            arena.open() as backend,
            backend.units([spec], publish=arena.publish) as (unit,),
        ):
            exit = await unit.wait()
            assert (exit.reason, exit.code) == ("exited", 5)
            assert unit.log_truncated
        size = arena.log("subject").stat().st_size
        assert limit // 2 <= size <= limit + 200
        assert "truncated" in arena.text("subject")[-200:]
        assert [(event.unit, event.slot, event.limit_bytes) for event in arena.of(LogTruncated)] == [
            ("subject", 2, limit)
        ]

    async def test_the_tail_is_short_clean_text(self, arena: Arena) -> None:
        raw = b"\x1b[31mred\x1b[0m \x1b]0;title\x07\xff\x00end\n"
        spec = arena.spec("subject", "flood:100000", f"bytes:{raw.hex()}")
        async with (
            arena.open() as backend,
            backend.units([spec], publish=arena.publish) as (unit,),
        ):
            await unit.wait()
            tail = await unit.log_tail(500)
        assert len(tail) <= 500
        assert tail.endswith("red \ufffdend\n")

    # ------------------------------------------------------------------ readiness

    async def test_a_unit_that_answers_is_ready(self, arena: Arena) -> None:
        spec = arena.spec("subject", "serve:200:go", "hang", ports=HTTP, slot=1)
        async with (
            arena.open() as backend,
            backend.units([spec], publish=arena.publish) as (unit,),
            anyio.create_task_group() as tasks,
        ):
            seconds: list[float] = []

            async def ready() -> None:
                seconds.append(await unit.wait_ready(HttpProbe(timeout=self.deadline, interval=_INTERVAL)))

            tasks.start_soon(ready)
            with pytest.raises(NotReadyError):
                await unit.wait_ready(HttpProbe(timeout=self.ready_timeout, interval=_INTERVAL))
            assert seconds == []
            (arena.inside("subject") / "go").touch()
            await until(lambda: bool(seconds))
            assert seconds[0] > 0
            assert [(event.unit, event.slot, event.seconds) for event in arena.of(UnitReady)] == [
                ("subject", 1, seconds[0])
            ]

    async def test_a_unit_that_ends_first_is_not_ready_and_says_why(self, arena: Arena) -> None:
        spec = arena.spec("subject", "print:no config", "exit:4", ports=HTTP)
        async with (
            arena.open() as backend,
            backend.units([spec], publish=arena.publish) as (unit,),
        ):
            with pytest.raises(NotReadyError) as caught:
                await unit.wait_ready(HttpProbe(timeout=self.deadline * 2))
        assert isinstance(caught.value, TimeoutError)
        exit = Exit.model_validate(caught.value.context["exit"])
        assert (exit.reason, exit.code) == ("exited", 4)
        assert "no config" in str(caught.value.context["log_tail"])
        assert arena.of(UnitReady) == []

    @pytest.mark.parametrize(
        ("steps", "last"), [(("hang",), ""), (("serve:503", "hang"), "503"), (("mute", "hang"), "")]
    )
    async def test_a_unit_that_never_answers_is_told_by_what_was_seen(
        self, arena: Arena, steps: tuple[str, ...], last: str
    ) -> None:
        spec = arena.spec("subject", *steps, ports=HTTP)
        async with (
            arena.open() as backend,
            backend.units([spec], publish=arena.publish) as (unit,),
        ):
            with pytest.raises(NotReadyError) as caught:
                await unit.wait_ready(HttpProbe(timeout=self.ready_timeout, interval=_INTERVAL))
            assert unit.exit is None
        assert caught.value.context["exit"] is None
        assert caught.value.context["last"]
        assert last in str(caught.value.context["last"])
        assert caught.value.hint

    async def test_a_unit_that_does_not_answer_is_reached_all_the_same(self, arena: Arena) -> None:
        spec = arena.spec("subject", "mute", "print:up", "hang", ports=HTTP)
        async with (
            arena.open() as backend,
            backend.units([spec], publish=arena.publish) as (unit,),
        ):
            await arena.until_written("subject", "up")
            # The path to the unit works: it is the unit itself that does not answer
            await unit.reach()
            assert unit.exit is None
            await unit.stop(0)
            await unit.reach()

    async def test_a_stranger_on_the_port_does_not_count(self, arena: Arena) -> None:
        if self.make_backend().capabilities.images:
            does_not_apply("the engine listens on the port itself")
        spec = arena.spec("subject", "hang", ports=HTTP)
        async with (
            arena.open() as backend,
            backend.units([spec], publish=arena.publish, start=False) as (unit,),
        ):
            port = int(unit.endpoint().here.rpartition(":")[2])
            async with _stranger(port):
                await unit.start()
                with pytest.raises(NotReadyError) as caught:
                    await unit.wait_ready(HttpProbe(timeout=self.ready_timeout, interval=_INTERVAL))
        assert "stranger" in str(caught.value.context["last"])


_STRANGER = """
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("up", flush=True)
while True:
    connection, _ = listener.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\nok")
"""


@asynccontextmanager
async def _stranger(port: int) -> AsyncGenerator[None, None]:
    """A process that is not a unit and answers every request on a port with 200."""
    with subprocess.Popen(  # noqa: ASYNC220 - killed below, whatever happens
        [sys.executable, "-c", _STRANGER, str(port)], stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert await anyio.to_thread.run_sync(process.stdout.readline) == b"up\n"
            yield
        finally:
            process.kill()
