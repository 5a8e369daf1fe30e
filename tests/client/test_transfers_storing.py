"""Storing while more arrives: in order, bounded, whole whatever happens, and with the failure that counts."""

from __future__ import annotations

import anyio
import pytest
from anyio.lowlevel import checkpoint

from coworld_client.transfers._write_behind import write_behind
from coworld_core.errors import EnvironmentFault

MIB = 1 << 20


class Disk:
    def __init__(self, *, failing_at: int | None = None, gate: anyio.Event | None = None) -> None:
        self.content = bytearray()
        self.calls: list[int] = []
        self.failing_at = failing_at
        self.gate = gate

    async def store(self, pieces: list[bytes]) -> None:
        size = sum(map(len, pieces))
        if self.gate is not None:
            await self.gate.wait()
        if len(self.calls) == self.failing_at:
            try:
                raise OSError(28, "No space left on device")
            except OSError as error:
                raise EnvironmentFault("full", code="disk_full") from error
        self.calls.append(size)
        for piece in pieces:
            self.content += piece


def piece(number: int, size: int = MIB // 2) -> bytes:
    return number.to_bytes(2, "big") * (size // 2)


async def test_everything_is_stored_in_order() -> None:
    disk = Disk()
    async with write_behind(disk.store) as behind:
        for number in range(15):
            await behind.put(piece(number))
    assert disk.content == b"".join(piece(number) for number in range(15))
    assert disk.calls == [2 * MIB, 2 * MIB, 2 * MIB, 3 * MIB // 2]


async def test_empty_download_stores_nothing() -> None:
    disk = Disk()
    async with write_behind(disk.store):
        pass
    assert disk.calls == []


async def test_small_chunks_are_batched() -> None:
    disk = Disk()
    async with write_behind(disk.store) as behind:
        for _ in range(2000):
            await behind.put(b"x")
    assert max(disk.calls) <= 512
    assert len(disk.content) == 2000


@pytest.mark.parametrize("open_first", [False, True])
async def test_a_slow_disk_holds_the_reader_back(open_first: bool) -> None:
    gate = anyio.Event()
    disk = Disk(gate=gate)
    put = 0

    async def reader(scope: anyio.CancelScope) -> None:
        nonlocal put
        with scope:
            async with write_behind(disk.store) as behind:
                while True:
                    put += 1
                    await behind.put(piece(put))

    scope = anyio.CancelScope()
    async with anyio.create_task_group() as group:
        group.start_soon(reader, scope)
        await anyio.wait_all_tasks_blocked()
        # one batch being stored, one waiting, one full
        assert put * (MIB // 2) == 6 * MIB
        # cancelled while it waits, and in the moment in which it need not wait any longer
        for act in (gate.set, scope.cancel) if open_first else (scope.cancel, gate.set):
            act()
    # what had been taken is there nevertheless, each piece once
    assert disk.content == b"".join(piece(number) for number in range(1, put + 1))


async def test_a_sender_cancelled_while_its_batch_goes_through() -> None:
    disk = Disk()
    for steps in range(12):
        disk.content.clear()
        scope = anyio.CancelScope()

        async def reader(scope: anyio.CancelScope) -> None:
            with scope:
                async with write_behind(disk.store) as behind:
                    for number in range(100):
                        await behind.put(piece(number, 2 * MIB))

        async with anyio.create_task_group() as group:
            group.start_soon(reader, scope)
            for _ in range(steps):
                await checkpoint()
            scope.cancel()
        taken = len(disk.content) // (2 * MIB)
        assert disk.content == b"".join(piece(number, 2 * MIB) for number in range(taken))


async def test_chunks_before_a_failure_are_stored() -> None:
    disk = Disk()

    async def fail() -> None:
        async with write_behind(disk.store) as behind:
            await behind.put(b"before")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    with anyio.CancelScope() as scope:
        async with write_behind(disk.store) as behind:
            await behind.put(b" and before")
            scope.cancel()
            await anyio.sleep_forever()
    assert disk.content == b"before and before"


async def test_a_disk_that_is_full_stops_the_reader() -> None:
    disk = Disk(failing_at=1)

    async def endless() -> None:
        async with write_behind(disk.store) as behind:
            while True:
                await behind.put(piece(1))

    with pytest.raises(EnvironmentFault) as caught:
        await endless()
    assert isinstance(caught.value.__cause__, OSError)
    assert disk.calls == [2 * MIB]


async def test_a_disk_that_is_full_counts_for_more_than_a_broken_connection() -> None:
    disk = Disk(failing_at=0)

    async def broken() -> None:
        async with write_behind(disk.store) as behind:
            await behind.put(b"x")
            raise ConnectionResetError

    with pytest.raises(EnvironmentFault):
        await broken()


async def test_a_failure_of_the_block_keeps_its_cause() -> None:
    async def broken() -> None:
        async with write_behind(Disk().store):
            raise RuntimeError("read") from ConnectionResetError(104, "Connection reset by peer")

    with pytest.raises(RuntimeError) as caught:
        await broken()
    assert isinstance(caught.value.__cause__, ConnectionResetError)
