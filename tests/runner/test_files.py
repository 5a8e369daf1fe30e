"""Files that units write: watched, fetched, capped, measured."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import anyio
import pytest

from coworld_core.errors import TransferError
from coworld_runner.runs import _unit_files
from coworld_runner.runs._unit_files import CappedLog, fetch_file, list_files, log_tail, watch_directory

DEADLINE = 20


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir())) if sys.platform == "linux" else 0


@pytest.fixture(params=["inotify", "poll"])
def watcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of watching."""

    def none(_directory: Path) -> None:
        return None

    if request.param == "poll":
        monkeypatch.setattr(_unit_files, "_inotify_open", none)
    elif not hasattr(os, "eventfd"):
        pytest.skip("inotify is Linux only")
    return str(request.param)


async def test_a_file_is_reported_when_closed_not_before(tmp_path: Path, watcher: str) -> None:
    with anyio.fail_after(DEADLINE):
        async with watch_directory(tmp_path) as names:
            with (tmp_path / "slow").open("w") as file:
                file.write("half")
                file.flush()
                if watcher == "inotify":
                    # Another file, closed at once, must overtake it
                    (tmp_path / "quick").write_text("x")
                    assert await names.receive() == "quick"
                file.write("whole")
            assert await names.receive() == "slow"
            assert (tmp_path / "slow").read_text() == "halfwhole"


async def test_renamed_into_place_is_reported(tmp_path: Path, watcher: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    with anyio.fail_after(DEADLINE):
        async with watch_directory(tmp_path / "in") as names:
            (tmp_path / "out" / "part").write_text("{}")
            (tmp_path / "out" / "part").rename(tmp_path / "in" / "results.json")
            assert await names.receive() == "results.json"


async def test_existing_regular_files_are_reported_first(tmp_path: Path, watcher: str) -> None:
    (tmp_path / "b").write_text("1")
    (tmp_path / "a").write_text("1")
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to("a")
    os.mkfifo(tmp_path / "fifo")
    with anyio.fail_after(DEADLINE):
        async with watch_directory(tmp_path) as names:
            assert [await names.receive(), await names.receive()] == ["a", "b"]
            (tmp_path / "c").write_text("1")
            assert await names.receive() == "c"


async def test_the_stream_ends_when_told_with_what_was_written_last(tmp_path: Path, watcher: str) -> None:
    ended = anyio.Event()
    with anyio.fail_after(DEADLINE):
        async with watch_directory(tmp_path, until=ended.wait) as names:
            (tmp_path / "last").write_text("1")
            ended.set()
            assert [name async for name in names] == ["last"]


async def test_an_overflow_of_the_kernels_queue_loses_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    descriptor = _unit_files._inotify_open(tmp_path)  # pyright: ignore[reportPrivateUsage]
    if descriptor is None:
        pytest.skip("inotify is Linux only")
    os.close(descriptor)
    real = _unit_files._inotify_read  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(_unit_files, "_inotify_read", lambda fd: ([], bool(real(fd)[0])))  # pyright: ignore
    with anyio.fail_after(DEADLINE):
        async with watch_directory(tmp_path) as names:
            (tmp_path / "a").write_text("1")
            assert await names.receive() == "a"


async def test_watching_hands_the_bodys_error_on_as_it_is(tmp_path: Path) -> None:
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as caught:
        async with watch_directory(tmp_path):
            raise error
    assert caught.value is error


async def test_watching_leaves_no_descriptor(tmp_path: Path) -> None:
    before = _open_files()
    for _ in range(5):
        async with watch_directory(tmp_path):
            pass
    assert _open_files() == before


async def test_watching_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        async with watch_directory(tmp_path / "none"):
            pass


async def test_fetch_copies_whole_and_replaces(tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    (tmp_path / "replay").write_bytes(data)
    (tmp_path / "replay").chmod(0o6777)
    target = tmp_path / "out" / "replay"
    target.parent.mkdir()
    target.write_text("old")
    assert await fetch_file(tmp_path, "replay", target, limit=len(data)) == len(data)
    assert target.read_bytes() == data
    assert target.stat().st_mode & 0o6000 == 0
    assert _names(target.parent) == ["replay"]


async def test_sparse_file_stays_sparse_when_copied(tmp_path: Path) -> None:
    size = 256 << 20
    with (tmp_path / "replay").open("wb") as file:
        file.truncate(size)
        for at in (100_000_000, 200_000_000):
            file.seek(at)
            file.write(b"data")
    target = tmp_path / "copy"
    assert await fetch_file(tmp_path, "replay", target, limit=size) == size
    assert target.stat().st_size == size
    assert target.stat().st_blocks * 512 < 1 << 20
    with target.open("rb") as copy:
        for at in (100_000_000, 200_000_000):
            copy.seek(at)
            assert copy.read(5) == b"data\0"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", "/etc/passwd", "a\0b", "a\\b"])
async def test_fetch_takes_plain_names_only(tmp_path: Path, name: str) -> None:
    with pytest.raises(TransferError) as caught:
        await fetch_file(tmp_path, name, tmp_path / "target")
    assert caught.value.code == "file_name"


async def test_logs_below_are_fetched_and_no_link_there_is_followed(tmp_path: Path) -> None:
    own, secret = tmp_path / "own", tmp_path / "secret"
    (own / "logs" / "deeper").mkdir(parents=True)
    (own / "other").mkdir()
    secret.mkdir()
    for place in (own, own / "logs", own / "logs" / "deeper", own / "other", secret):
        (place / "a").write_text(place.name)
    (own / "logs" / "link").symlink_to(secret / "a")
    assert list_files(own) == ["a", "logs/a"]
    assert await fetch_file(own, "logs/a", tmp_path / "got") == len("logs")
    for name in ("logs/link", "logs/deeper", "logs/../a", "logs/deeper/a", "other/a", "logs/"):
        with pytest.raises(TransferError):
            await fetch_file(own, name, tmp_path / "no")
    (own / "logs").rename(tmp_path / "away")
    (own / "logs").symlink_to(secret, target_is_directory=True)
    assert list_files(own) == ["a"]
    with pytest.raises(TransferError, match="not a regular file"):
        await fetch_file(own, "logs/a", tmp_path / "no")
    assert not (tmp_path / "no").exists()


async def test_fetch_takes_regular_files_only(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("secret")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dir").mkdir()
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        with anyio.fail_after(DEADLINE):
            for name in ("link", "dir", "fifo", "socket"):
                with pytest.raises(TransferError) as caught:
                    await fetch_file(tmp_path, name, tmp_path / "target")
                assert caught.value.code == "not_regular", name
    assert not (tmp_path / "target").exists()


async def test_fetch_of_nothing_and_of_too_much(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await fetch_file(tmp_path, "none", tmp_path / "target")
    (tmp_path / "big").write_bytes(b"x" * 11)
    with pytest.raises(TransferError) as caught:
        await fetch_file(tmp_path, "big", tmp_path / "target", limit=10)
    assert caught.value.code == "file_too_large"
    assert _names(tmp_path) == ["big"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
async def test_fetch_onto_a_full_disk_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_bytes(b"x" * 10)
    real = os.open

    def full(path: object, flags: int, *args: int, **more: int | None) -> int:
        return real("/dev/full", os.O_WRONLY) if flags & os.O_EXCL else real(path, flags, *args, **more)  # type: ignore

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(TransferError) as caught:
        await fetch_file(tmp_path, "f", tmp_path / "target")
    assert caught.value.code == "disk_full"
    assert caught.value.hint


async def test_failed_copy_is_not_blamed_on_the_unit(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    with pytest.raises(TransferError) as caught:
        await fetch_file(tmp_path, "f", tmp_path / "no such directory" / "target")
    assert (caught.value.code, caught.value.party) == ("not_writable", "platform")


async def test_a_cancelled_fetch_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_bytes(b"x" * 1000)
    monkeypatch.setattr(_unit_files, "_CHUNK", 1)
    real = os.read
    copying = anyio.Event()

    def slow(descriptor: int, count: int) -> bytes:
        if count == 1:
            anyio.from_thread.run_sync(copying.set)
        return real(descriptor, count)

    monkeypatch.setattr(os, "read", slow)
    with anyio.fail_after(DEADLINE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fetch_file, tmp_path, "f", tmp_path / "target")
            await copying.wait()
            tasks.cancel_scope.cancel()
    assert _names(tmp_path) == ["f"]


def test_truncated_log_has_one_notice(tmp_path: Path) -> None:
    told: list[int] = []
    log = CappedLog(tmp_path / "log", 1000, lambda: told.append(1))
    for _ in range(500):
        log.write(b"0123456789\n")
    log.close()
    data = (tmp_path / "log").read_bytes()
    assert len(data) == 1000
    assert data.endswith(b"\n[log truncated at 1000 bytes]\n")
    assert data.startswith(b"0123456789\n" * 80)
    assert told == [1]
    assert log.truncated
    assert log.written == 5500


def test_a_log_of_exactly_its_limit_is_whole(tmp_path: Path) -> None:
    log = CappedLog(tmp_path / "log", 10, lambda: pytest.fail("not truncated"))
    log.write(b"0123456789")
    log.close()
    assert (tmp_path / "log").read_bytes() == b"0123456789"
    assert not log.truncated


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_log_on_a_full_disk_never_fails_its_writer() -> None:
    log = CappedLog(Path("/dev/full"), 1000, lambda: None)
    log.write(b"x" * 10)
    log.write(b"x" * 2000)
    log.close()
    log.write(b"late")
    assert log.error is not None
    assert log.error.strerror == os.strerror(28)


def test_the_tail_is_the_end_as_text(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"a" * 100_000 + "\nlast \u00e9 \x1b[31mred\x1b[0m\xff\n".encode("latin-1"))
    tail = log_tail([tmp_path / "out", tmp_path / "none"], 300)
    assert tail.endswith("\nlast \ufffd red\ufffd\n")
    assert len(tail) <= 300


def test_the_tail_shares_its_room(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("o" * 1000)
    (tmp_path / "err").write_text("e" * 10)
    tail = log_tail([tmp_path / "out", tmp_path / "err", tmp_path / "err"], 100)
    assert tail == "o" * 90 + "\n" + "e" * 10
