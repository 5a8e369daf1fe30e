"""What a seat may leave: the end of its log, visibly cut, and an artifact of limited size, on its owner's account."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
import sqlalchemy as sa
from support.observatory_kit import open_platform, seed
from support.small_world import world

from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.record import read_record
from coworld_core.episode.verdict import judge
from coworld_runner import run_episode
from observatory.api.leagues import change_league_settings
from observatory.episodes.stats import SeatNames
from observatory.store.artifacts import artifact_store
from observatory.store.models import CHECK, EpisodeRequest, Participant
from observatory.store.usage import stored
from observatory.web import view_models
from observatory.work.outcome import POLICY, store_outcome
from observatory.work.seat_files import LEAST_LOG_BYTES, LINE_BYTES, LOG_LINES, SeatLimits, keep_log

MEBIBYTE = 1 << 20
SMALL = SeatLimits(log_bytes=LEAST_LOG_BYTES, artifact_bytes=100)
DOTS = "…".encode()


def kept(tmp_path: Path, log: bytes, limits: SeatLimits = SMALL, *, note: str = "") -> bytes:
    """What is kept of a log."""
    source, target = tmp_path / "source.log", tmp_path / "kept.log"
    source.write_bytes(log)
    target.unlink(missing_ok=True)
    keep_log(source, target, limits, note=note)
    return target.read_bytes()


def note_of(left_out: int, limits: SeatLimits = SMALL) -> bytes:
    """The line that says how much was left out."""
    limit = f"the last 10,000 lines, and {limits.log_bytes:,} bytes at most"
    return f"[observatory] Left out before this: {left_out:,} bytes. Of a log are kept: {limit}.\n".encode()


@pytest.mark.parametrize(
    "log",
    [
        b"",
        b"\n",
        b"one",
        b"one\ntwo\n",
        (b"x" * 1023 + b"\n") * (LEAST_LOG_BYTES // 1024),
        (b"x" * (LINE_BYTES - 1) + b"\n") * (LEAST_LOG_BYTES // LINE_BYTES),
        b"x" * LINE_BYTES,
        bytes(range(256)) * (LEAST_LOG_BYTES // 256),
    ],
)
def test_log_within_the_limits_is_kept_as_it_is(tmp_path: Path, log: bytes) -> None:
    assert kept(tmp_path, log) == log


def test_flood_keeps_its_last_lines_and_says_how_much_is_missing(tmp_path: Path) -> None:
    lines = b"".join(b"%07d\n" % number for number in range(1 << 17))
    left = kept(tmp_path, lines)
    rest = left.partition(b"\n")[2]
    assert left == note_of(len(lines) - len(rest)) + rest
    assert lines.endswith(b"\n" + rest)
    assert LEAST_LOG_BYTES - 512 < len(left) <= LEAST_LOG_BYTES
    # A byte too many, which costs the first line and the room for the note
    log = (b"x" * 1023 + b"\n") * 8 + b"\n"
    assert kept(tmp_path, log) == note_of(1024) + log[1024:]


def test_empty_lines_are_counted(tmp_path: Path) -> None:
    log = b"\n" * LOG_LINES
    assert kept(tmp_path, log, SeatLimits()) == log
    assert kept(tmp_path, b"\n" + log, SeatLimits()) == note_of(1, SeatLimits()) + log
    assert kept(tmp_path, b"x\n" + log + b"y", SeatLimits()) == note_of(3, SeatLimits()) + log[1:] + b"y"


@pytest.mark.parametrize("end", [b"", b"\n", b"\nlast\n"])
def test_endless_line_is_cut_and_takes_little_memory(tmp_path: Path, end: bytes) -> None:
    source = tmp_path / "source.log"
    with source.open("wb") as file:
        file.write(b"first\n")
        for _ in range(100):
            file.write(b"x" * MEBIBYTE)
        file.write(end)
    tracemalloc.start()
    try:
        keep_log(source, tmp_path / "kept.log", SMALL)
        assert tracemalloc.get_traced_memory()[1] < 4 * MEBIBYTE
    finally:
        tracemalloc.stop()
    shown, dots, more = (tmp_path / "kept.log").read_bytes().partition(DOTS)
    text = shown.removeprefix(b"first\n")
    assert text == b"x" * len(text)
    assert dots + more == f"… ({100 * MEBIBYTE - len(text)} more bytes)".encode() + end
    assert LINE_BYTES - 100 < len(shown + dots + more) - len(b"first\n") <= LINE_BYTES + len(end)


@pytest.mark.parametrize("before", range(3))
def test_cut_line_ends_in_a_whole_character(tmp_path: Path, before: int) -> None:
    line = b"x" * before + "€".encode() * LINE_BYTES
    shown, _, more = kept(tmp_path, line).decode().partition("…")
    assert line.startswith(shown.encode())
    assert len(shown.encode()) + int(more.split()[0][1:]) == len(line)


def test_cut_line_of_arbitrary_bytes_is_counted(tmp_path: Path) -> None:
    line = b"\xff\x80\xe2\0\r" * LINE_BYTES
    shown, _, more = kept(tmp_path, line).rpartition(DOTS)
    assert line.startswith(shown)
    assert len(shown) + int(more.split()[0][1:]) == len(line)


def test_flood_of_long_lines_with_a_note_stays_within_the_limit(tmp_path: Path) -> None:
    note = SMALL.note_on_artifact(10**15)
    assert note is not None
    line = b"x" * 100_000 + b"\n"
    left = kept(tmp_path, line * 50, note=note)
    assert len(left) <= LEAST_LOG_BYTES
    assert left.startswith(note_of(49 * len(line)) + note.encode() + b"x")


async def test_artifact_that_is_too_large_is_not_kept_and_the_log_says_so(tmp_path: Path) -> None:
    async with world() as made:
        await run_episode(made.package, backend=made.backend, workspace=tmp_path / "w")
    record, layout = read_record(tmp_path / "w"), EpisodeLayout(tmp_path / "w")
    layout.player_artifact(0).write_bytes(b"P" * 100)
    layout.player_artifact(1).write_bytes(b"P" * 101)
    layout.player_log(1).unlink(missing_ok=True)
    names = [SeatNames(policy_version_id=None, policy_name="x", policy_version=None)] * 2
    store = artifact_store(str(tmp_path / "store"))
    outcome = await store_outcome(record, layout, judge(record, POLICY), names, limits=SMALL, store=store, prefix="p")
    found = {(item.kind, item.position): item for item in outcome.artifacts}
    assert found["player_artifact", 0].size == 100
    assert ("player_artifact", 1) not in found
    said = "[observatory] The artifact of this seat is not kept: 101 bytes; the limit is 100.\n"
    assert (await store.get(found["player_logs", 1].key)).decode() == said
    assert b"[observatory]" not in await store.get(found["player_logs", 0].key)


async def test_players_files_in_a_league_are_on_the_account_of_the_policys_owner(
    tmp_path: Path, database: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_platform(tmp_path, parallel=1, database=database) as platform:
        ann, bob = await platform.account("ann"), await platform.account("bob")
        world = await seed(platform.services, ann.id)
        version = await platform.policy(bob, "b", secrets={"QUICK_SECRET": "s"})
        played = await platform.until_played(await platform.play_round(world, version, version))
        assert played.status == "completed", played.error

        async def charged(user: str) -> set[str]:
            """The kinds of an account's files, as all accounts are counted, and as one is."""
            async with platform.services.database.reading() as session:
                every, one = stored(), stored(user)
                rows = (await session.execute(sa.select(every).where(every.c.user_id == user))).all()
                assert sorted(rows) == sorted((await session.execute(sa.select(one))).all())
                return {row.kind for row in rows}

        async def change(**values: object) -> None:
            async with platform.services.database.writing() as session:
                await session.execute(sa.update(EpisodeRequest).values(values))

        mine, all_of_it = {"player_logs", "player_artifact"}, {item.kind for item in played.artifacts}
        assert mine < all_of_it
        assert await charged(bob.id) == mine
        assert await charged(ann.id) == {"coworlds"} | all_of_it - mine
        # So it is in its check, but not where somebody asked for the episode, even in the name of a league
        await change(round_id=None)
        assert await charged(bob.id) == set()
        assert await charged(ann.id) == {"coworlds"} | all_of_it
        await change(source=CHECK)
        assert await charged(bob.id) == mine
        # A seat of the game's own players has no other owner
        async with platform.services.database.writing() as session:
            await session.execute(sa.update(Participant).values(user_id=None))
        assert await charged(bob.id) == set()
        assert await charged(ann.id) == {"coworlds"} | all_of_it
        # The league sets what is kept, and the page says what is not, although it shows only the end of a log
        async with platform.services.database.writing() as session:
            await change_league_settings(session, world.league, terms={"artifact_bytes": 10})
        played = await platform.until_played(await platform.play_round(world, version, version))
        assert {item.kind for item in played.artifacts} == all_of_it - {"player_artifact"}
        monkeypatch.setattr(view_models, "LOG_BYTES", 8)
        log = next(item for item in played.artifacts if item.kind == "player_logs")
        shown = await view_models.read_log(platform.services, log, title="b", href="")
        assert shown.text.startswith("[observatory] The artifact of this seat is not kept: ")


async def test_bytes_of_one_account_are_found_by_indexes(tmp_path: Path) -> None:
    async with (
        open_platform(tmp_path, backend="none") as platform,
        platform.services.database.reading() as session,
    ):
        asked = sa.select(stored("user_x")).compile(session.bind, compile_kwargs={"literal_binds": True})
        plan = [row.detail for row in await session.execute(sa.text(f"EXPLAIN QUERY PLAN {asked}"))]
    tables = ("artifacts", "participants", "episode_requests")
    used = [line.split()[:2] for line in plan]
    assert {table for how, table in used if how == "SEARCH"} >= set(tables)
    assert not {table for how, table in used if how == "SCAN"} & set(tables)
