"""What becomes of episodes in worker processes when something there hangs, dies, lies or leaves processes behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.waiting import wait_until

from coworld_core.episode.outcome import Exit
from coworld_core.episode.record import read_record, read_rows
from coworld_runner.backends.process.child_environment import child_environment
from coworld_runner.backends.process.child_process import ChildProcess
from coworld_runner.evaluation import EvaluationRules, compare
from coworld_runner.evaluation.worker_venue import WorkerVenue
from coworld_runner.kit.rollout.bot_links import BotLink, BotProgram, PlayerHost
from coworld_runner.kit.rollout.bot_messages import ACT, NEW, framed
from coworld_runner.kit.rollout.match_process import MatchProcess
from coworld_runner.kit.rollout.match_worker import Chunk, SeatedGame
from coworld_runner.package.resolver import resolve_package
from coworld_runner.runs.scratch import find_scratch, reap_scratch

NIM = Path(__file__).parents[2] / "examples" / "nim"
RANDOM = {0: BotProgram(name="")}
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps what has left its session together")


def config(sticks: int) -> dict[str, Any]:
    return {"sticks": sticks, "seconds_per_move": 10, "tokens": ["a", "b"], "players": [{"name": "0"}, {"name": "1"}]}


def hanging_nim(directory: Path) -> Path:
    """The game, whose rules loop for ever if there are nine sticks at the start, and say so first."""
    shutil.copytree(NIM, directory)
    rules = directory / "nim.py"
    loop = (
        "        import pathlib\n"
        "        if self.config.sticks == 9:\n"
        f"            pathlib.Path({str(directory / 'hangs')!r}).touch()\n"
        "            while True:\n                pass\n"
    )
    head, step, rest = rules.read_text().partition('takes one."""\n')
    assert step
    rules.write_text(head + step + loop + rest)
    return directory


@contextmanager
def worker(directory: Path, **more: Any) -> Generator[MatchProcess]:
    with closing(MatchProcess("nim:Nim", directory=directory, env=child_environment(directory), **more)) as process:
        assert process.problem() == ""
        yield process


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


# --- rules ----------------------------------------------------------------------------------------------------------


def test_rules_that_hang_are_blamed_and_the_rest_is_played_again(tmp_path: Path) -> None:
    games = [SeatedGame(number=number, config=number % 2, seed=1, players=(0, 0)) for number in (2, 3, 4)]
    chunk = Chunk(games=games, configs={0: config(5), 1: config(9)}, players=RANDOM)
    with worker(hanging_nim(tmp_path / "nim"), timeout=0.5) as process:
        (hangs,) = process.play(chunk)
        assert (hangs.number, hangs.problem) == (3, "the rules have not answered for 0.5 s")
        assert (hangs.results, hangs.status) == (None, -signal.SIGKILL)
        (ended,) = process.play(Chunk(games=[games[2]], alone=True))
        assert ended.results is not None
        (alone,) = process.play(Chunk(games=[games[1]], alone=True))
        assert alone == hangs


@pytest.mark.slow
async def test_game_whose_rules_hang_has_rows_and_records_that_say_so(tmp_path: Path) -> None:
    package = await resolve_package(hanging_nim(tmp_path / "nim"))
    rules = EvaluationRules(max_blocks=1, config={"sticks": 9}, seed=1)
    async with WorkerVenue(package, workers=1, timeout=0.5) as venue:
        await compare(package, "counter", "random-taker", rules=rules, workspace=tmp_path / "run", venue=venue)
    row = next(read_rows(tmp_path / "run"))
    assert (row.party, row.status) == ("game", "failed")
    assert f"the rules have not answered for 0.5 s in episode {row.key}" in str(row.message)
    record = read_record(tmp_path / "run" / row.workspace)
    assert record.game is not None
    assert record.game.exit == record.faults[0].exit == Exit(reason="signal", signal=signal.SIGKILL)


def test_worker_is_ended_while_it_is_waited_for(tmp_path: Path) -> None:
    game = hanging_nim(tmp_path / "nim")
    chunk = Chunk(
        games=[SeatedGame(number=1, config=0, seed=1, players=(0, 0))], configs={0: config(9)}, players=RANDOM
    )
    with worker(game) as process:
        waiting = threading.Thread(target=process.play, args=(chunk,))
        waiting.start()
        wait_until((game / "hangs").exists)
    waiting.join(30)
    assert not waiting.is_alive()


RUNNER = """
import anyio, sys
from coworld_runner.evaluation import EvaluationRules, compare
rules = EvaluationRules(max_blocks=1, config={"sticks": 9})
anyio.run(lambda: compare(sys.argv[1], "counter", "random-taker", rules=rules, workspace=sys.argv[2]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_outlives_a_comparison_whose_rules_hang(tmp_path: Path, number: signal.Signals) -> None:
    game = hanging_nim(tmp_path / "nim")
    command = [sys.executable, "-c", RUNNER, str(game), str(tmp_path / "run")]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as running:
        wait_until((game / "hangs").exists, seconds=60)
        started = psutil.Process(running.pid).children(recursive=True)
        assert any("match_program" in " ".join(one.cmdline()) for one in started)
        running.send_signal(number)
        running.wait(30)
    _, alive = psutil.wait_procs(started, timeout=20)
    assert alive == []
    # Only the files of its players, if it had no time to remove them; clean finds these
    left = reap_scratch(find_scratch())
    assert [item.removed for item in left] == ([True] if number == signal.SIGKILL else [])


# --- players --------------------------------------------------------------------------------------------------------

KILLERS = {
    # Before it can answer: an answer that has arrived may be the last of its game
    "kills its parent": "os.kill(os.getppid(), 9); time.sleep(60)",
    "kills its referee": ("os.kill(int(open(f'/proc/{os.getppid()}/stat').read().rpartition(')')[2].split()[1]), 9)"),
    "stops its referee": ("os.kill(int(open(f'/proc/{os.getppid()}/stat').read().rpartition(')')[2].split()[1]), 19)"),
    "closes its files": "os.closerange(0, 256); time.sleep(60)",
    "writes garbage": "[os.write(file, b'\\x04\\0\\0\\0[[[[') for file in range(3, 64) if is_socket(file)]",
}
KILLER = """
import os, stat, time
def is_socket(file):
    try:
        return stat.S_ISSOCK(os.fstat(file).st_mode)
    except OSError:
        return False
def act(observation, legal, rng):
    if observation["left"] in (4, 8):
        {how}
    return rng.choice(legal)
"""


@linux_only
@pytest.mark.slow
@pytest.mark.parametrize("how", KILLERS)
async def test_player_that_prevents_the_verdict_loses(tmp_path: Path, how: str) -> None:
    (tmp_path / "bot.py").write_text(KILLER.format(how=KILLERS[how]))
    # Some of its games come to where it does that
    rules = EvaluationRules(max_blocks=3, count_starved=True, seed=1)
    report = await compare(NIM, str(tmp_path / "bot.py"), "random-taker", rules=rules, workspace=tmp_path / "run")
    assert (report.blocks, report.won) == (3, 0)
    rows = list(read_rows(tmp_path / "run"))
    assert len(rows) == 6
    failed = [row for row in rows if not row.ok]
    assert failed
    for row in failed:
        assert (row.party, row.error_type) == ("player", "player_error")
        assert row.fault_slot is not None
        seat = row.slots[row.fault_slot]
        assert seat.name == "bot"
        assert seat.digest


KILLS_ITS_OPPONENT = """
import os
def act(observation, legal, rng):
    if observation["left"] <= 12:
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{process}/cmdline", "rb") as file:
                    words = file.read().split(b"\\0")
            except OSError:
                continue
            if b"-m" in words and any(MARK in word for word in words):
                os.kill(int(process), 9)
    return legal[0]
"""


@linux_only
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["auto", "process"])
async def test_player_that_another_kills_loses_and_the_message_says_that_it_may_have_been(
    tmp_path: Path, backend: str
) -> None:
    mark = f"victim{os.getpid()}x{tmp_path.name}".replace("_", "").replace("-", "")
    (tmp_path / "killer.py").write_text(KILLS_ITS_OPPONENT.replace("MARK", repr(mark.encode())))
    (tmp_path / f"{mark}.py").write_text("import os\ndef act(observation, legal, rng):\n    return legal[0]\n")
    rules = EvaluationRules(max_blocks=1, count_starved=True, seed=1)
    players = str(tmp_path / "killer.py"), str(tmp_path / f"{mark}.py")
    await compare(NIM, *players, rules=rules, workspace=tmp_path / "run", backend=backend)
    rows = list(read_rows(tmp_path / "run"))
    assert len(rows) == 2
    for row in rows:
        assert (row.party, row.error_type) == ("player", "player_error")
        assert row.fault_slot is not None
        assert row.slots[row.fault_slot].name == mark
        assert "by itself, or by another program of this machine's user" in str(row.message)


def acting(host: PlayerHost) -> BotLink:
    """A player that is asked in an episode."""
    link = host.link()
    link.ask((NEW, 1, 7, None), NEW)
    link.ask((ACT, 1, {"left": 3}, None), ACT)
    assert link.send()
    return link


@contextmanager
def host(directory: Path, source: str, **more: Any) -> Generator[PlayerHost]:
    (directory / "bot.py").write_text(source)
    program = BotProgram(name=str(directory / "bot.py"), directory=directory, env=child_environment(directory))
    with closing(PlayerHost(program, **more)) as loaded:
        assert loaded.description["plain"] is False
        yield loaded


def test_host_that_was_killed_is_replaced(tmp_path: Path) -> None:
    source = "import os\ndef act(observation, legal, rng):\n    os.kill(os.getppid(), 9)\n    return 1\n"
    with host(tmp_path, source) as loaded, closing(acting(loaded)) as link:
        wait_until(lambda: link.receive() is None)
        assert loaded.exit_status(link) is None
        assert loaded.exit_code == -signal.SIGKILL
        with closing(loaded.link()) as other:
            assert other.process > 0


@linux_only
def test_host_that_was_stopped_is_replaced(tmp_path: Path) -> None:
    source = "import os\ndef act(observation, legal, rng):\n    os.kill(os.getppid(), 19)\n    return 1\n"
    with host(tmp_path, source) as loaded, closing(acting(loaded)) as link:
        assert link.receive()
        with closing(loaded.link()) as other:
            assert other.process > 0


def test_player_that_is_killed_has_not_left(tmp_path: Path) -> None:
    with host(tmp_path, "import os\ndef act(observation, legal, rng):\n    return 1\n") as loaded:
        ends: set[int | None] = set()
        for _ in range(100):
            link = loaded.link()
            link.ask((NEW, 1, 7, None), NEW)
            assert link.send()
            wait_until(lambda link=link: bool(link.receive()))
            link.kill()
            ends.add(loaded.exit_status(link))
    assert ends == {-signal.SIGKILL}


def test_player_that_ends_as_soon_as_it_is_loaded_again_has_a_closed_connection(tmp_path: Path) -> None:
    source = (
        "import os, pathlib\nseen = pathlib.Path('seen')\nif seen.exists():\n    os._exit(3)\nseen.touch()\n"
        "def act(observation, legal, rng):\n    os.kill(os.getppid(), 9)\n    return 1\n"
    )
    with host(tmp_path, source) as loaded, closing(acting(loaded)) as link:
        wait_until(lambda: link.receive() is None)
        with closing(loaded.link()) as other:
            assert (other.process, other.receive()) == (0, None)
            assert loaded.exit_status(other) is None
            assert loaded.exit_code == 3


HELPERS = """
import os, pathlib, time
def act(observation, legal, rng):
    for leaves in (False, True):
        if not os.fork():
            if leaves:
                os.setsid()
                if os.fork():
                    os._exit(0)
            pathlib.Path(f"helper-{os.getppid()}-{os.getpid()}").touch()
            time.sleep(600)
    return 1
"""


@linux_only
def test_what_a_player_has_started_ends_with_its_episode_and_no_sooner(tmp_path: Path) -> None:
    def helpers() -> set[int]:
        return {int(path.name.rpartition("-")[2]) for path in tmp_path.glob("helper-*")}

    with host(tmp_path, HELPERS) as loaded, closing(acting(loaded)) as first:
        wait_until(lambda: len(helpers()) == 2)
        own = helpers()
        with closing(acting(loaded)):
            wait_until(lambda: len(helpers()) == 4)
            first.close()
            wait_until(lambda: all(map(is_gone, own)))
            others = helpers() - own
            assert not any(map(is_gone, others))
    wait_until(lambda: all(map(is_gone, others)))


ENGINE = """
import os, pathlib, subprocess
engine = subprocess.Popen(["sleep", "600"])
def act(observation, legal, rng):
    pathlib.Path(f"engine-{os.getpid()}-{engine.pid}").touch()
    return 1
"""


@linux_only
def test_engine_that_a_player_starts_when_it_is_loaded_is_of_one_episode(tmp_path: Path) -> None:
    def engines() -> set[int]:
        return {int(path.name.rpartition("-")[2]) for path in tmp_path.glob("engine-*")}

    with host(tmp_path, ENGINE) as loaded, closing(acting(loaded)) as first:
        wait_until(lambda: len(engines()) == 1)
        own = engines()
        with closing(acting(loaded)):
            wait_until(lambda: len(engines()) == 2)
            first.close()
            wait_until(lambda: all(map(is_gone, own)))
            others = engines() - own
            assert not any(map(is_gone, others))
    wait_until(lambda: all(map(is_gone, others)))


def test_pieces_of_an_answer_do_not_start_its_time_again() -> None:
    own, other = socket.socketpair()
    with other, closing(BotLink(own, os.getpid(), None, shared=True)) as link:  # pyright: ignore[reportArgumentType]
        link.ask((ACT, 1), ACT)
        link.send()
        began = time.monotonic() - link.passed
        other.send(framed(b"[1]")[:5])
        assert link.receive() == []
        assert time.monotonic() - link.passed == pytest.approx(began, abs=1e-3)
        other.send(framed(b"[1]")[5:])
        assert link.receive() == [1]


@pytest.mark.parametrize("garbage", [b"1", b"[[1]", b"\xff", b"[" * 50_000])
def test_garbage_is_no_answer(garbage: bytes) -> None:
    own, other = socket.socketpair()
    with other, closing(BotLink(own, os.getpid(), None, shared=True)) as link:  # pyright: ignore[reportArgumentType]
        other.send(framed(garbage))
        with pytest.raises(ValueError, match=r".+"):
            link.receive()


# --- processes ------------------------------------------------------------------------------------------------------


def test_process_gets_its_environment_and_reports_its_status() -> None:
    code = "import os, sys; sys.stdout.write(','.join(sorted(os.environ))); sys.stdout.flush(); os._exit(7)"
    with ChildProcess([sys.executable, "-c", code], env={"MINE": "1"}) as child:
        assert set(child.stdout.read().decode().split(",")) - {"LC_CTYPE"} == {"MINE"}
        assert child.wait() == 7
    with ChildProcess([sys.executable, "-c", "import os; os.abort()"], env={}) as child:
        assert child.wait() == -signal.SIGABRT
    with ChildProcess(["/nowhere"], env={}) as child:
        assert child.wait() == 127


@linux_only
def test_process_is_killed_with_what_has_left_its_session() -> None:
    code = "import os, time\nos.fork() or os.setsid() or os.fork()\nprint(os.getpid(), flush=True)\ntime.sleep(600)"
    with ChildProcess([sys.executable, "-c", code], env={}) as child:
        pids = [int(child.stdout.readline()) for _ in range(3)]
        assert not child.is_stopped
        os.kill(pids[0], signal.SIGSTOP)
        wait_until(lambda: any(psutil.Process(pid).status() == psutil.STATUS_STOPPED for pid in pids))
    wait_until(lambda: all(map(is_gone, pids)))
    assert child.wait() == -signal.SIGKILL
