"""Where an image lies on its way: gone with its owner, at the latest when the next one comes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import Process

from coworld_client.uploads._spool import spool_directory
from coworld_core.errors import EnvironmentFault

_OWNER = """
import anyio
from coworld_client.uploads._spool import spool_directory

async def main():
    async with spool_directory() as directory:
        (directory / "file-0").write_bytes(b"a layer")
        print(directory, flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


def inside(directory: Path) -> list[Path]:
    return sorted(directory.iterdir())


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr("tempfile.tempdir", None)
    return place


@asynccontextmanager
async def owner() -> AsyncGenerator[tuple[Process, Path]]:
    """Another process with a directory of its own, killed at the end if it is not yet."""
    process = await anyio.open_process([sys.executable, "-c", _OWNER], stdin=subprocess.DEVNULL)
    async with process:
        try:
            assert process.stdout is not None
            line = b""
            with anyio.fail_after(60):
                while not line.endswith(b"\n"):
                    line += await process.stdout.receive()
            yield process, Path(line.decode().strip())
        finally:
            if process.returncode is None:
                process.kill()
            with anyio.CancelScope(shield=True):
                await process.wait()


async def test_spool_of_a_dead_process_is_removed(own_place: Path) -> None:
    async with owner() as (doomed, left), owner() as (_, held):
        doomed.kill()
        await doomed.wait()
        assert inside(own_place) == sorted([left, held])
        async with spool_directory() as mine:
            assert inside(own_place) == sorted([held, mine])
            assert inside(mine) == []
            assert mine.stat().st_mode & 0o077 == 0
            async with spool_directory() as another:
                assert mine.is_dir()
                assert another != mine
        assert inside(own_place) == [held]
        assert (held / "file-0").read_bytes() == b"a layer"


async def test_spool_is_removed_on_failure_and_cancellation(own_place: Path) -> None:
    async def fail() -> None:
        async with spool_directory() as directory:
            (directory / "file-0").write_bytes(b"x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    with anyio.CancelScope() as scope:
        async with spool_directory() as directory:
            (directory / "deep").mkdir()
            scope.cancel()
            await anyio.sleep_forever()
    assert inside(own_place) == []


async def test_similarly_named_files_are_kept(own_place: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    (own_place / "coworld-transfer-link").symlink_to(elsewhere)
    (own_place / "coworld-transfer-file").touch()
    (own_place / "other").mkdir()
    async with spool_directory():
        pass
    assert (elsewhere / "precious").exists()
    assert len(inside(own_place)) == 3


async def test_concurrent_spools_do_not_interfere(own_place: Path) -> None:
    async def one() -> None:
        async with spool_directory() as directory:
            (directory / "file-0").write_bytes(b"x")
            await anyio.lowlevel.checkpoint()
            assert (directory / "file-0").read_bytes() == b"x"

    async with anyio.create_task_group() as group:
        for _ in range(30):
            group.start_soon(one)
    assert inside(own_place) == []


async def test_unwritable_temporary_directory_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/proc/self/fd")
    with pytest.raises(EnvironmentFault) as caught:
        async with spool_directory():
            pytest.fail("there was a place")
    assert caught.value.code == "spool_unwritable"
