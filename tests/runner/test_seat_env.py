"""A seat of a Coworld as an environment of Gymnasium, with the game and the others as local processes."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from websockets.asyncio.server import ServerConnection, serve

from coworld_core.errors import CoworldError, EnvironmentFault, EpisodeError, UsageError
from coworld_core.rules.seat_wire import MAX_MESSAGE
from coworld_runner.kit.rollout import SeatEnv, seat_env

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
ACT = "def act(observation, legal, rng):\n    return legal[0]\n"


@pytest.fixture(scope="module")
def opponent(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("opponent") / "first.py"
    path.write_text(ACT)
    return str(path)


@pytest.fixture
def env(opponent: str) -> Generator[SeatEnv]:
    with SeatEnv(EXAMPLES / "nim", 0, [opponent], backend="process", render_mode="ansi") as made:
        yield made


def test_episodes_of_a_game_of_the_kit(env: SeatEnv) -> None:
    seen, info = env.reset(seed=3)
    assert (seen["observation"]["left"], seen["action_mask"].tolist(), info["tick"]) == (21, [1, 1, 1], 0)
    assert 0 < (env.time_left or 0) <= 60
    assert str(env.render()).startswith("|||||")
    over, ticks = False, 0
    while not over:
        seen, reward, over, truncated, info = env.step(0)
        ticks += 1
    assert (reward, truncated, info["results"]) == (1.0, False, {"scores": [1.0, 0.0], "ticks": 21})
    assert seen["action_mask"].tolist() == [0, 0, 0]
    assert env.record is not None
    assert env.record.scores == (1.0, 0.0)
    with pytest.raises(UsageError, match="reset first"):
        env.step(0)
    # One that goes on is stopped by the next
    for _ in range(2):
        env.reset()
        env.step(2)
    assert env.action_space == spaces.Discrete(3)
    # A copy knows the spaces, and has no episode
    copy = pickle.loads(pickle.dumps(env))
    assert copy.action_space == env.action_space
    with pytest.raises(UsageError, match="reset first"):
        copy.step(0)


@pytest.mark.filterwarnings("ignore:.*render.*:UserWarning")
def test_the_librarys_own_test_passes() -> None:
    # The opponent draws from its `rng`, which the seed of `reset` decides
    with SeatEnv(EXAMPLES / "nim", 0, ["random-taker"], backend="process", render_mode="ansi") as env:
        check_env(env, skip_render_check=True)
        # Which compares what it is told for the same seed and actions, so nothing in it may come from a clock
        assert {name for _ in range(2) for name in env.reset(seed=1)[1]} == {"tick", "text"}


def test_what_is_refused_may_be_tried_again(env: SeatEnv) -> None:
    env.reset()
    for _ in range(9):
        env.step(0)
    before = env.step(0)[0]["observation"]
    assert before["left"] == 1
    after, reward, over, _, info = env.step(2)
    assert (after["observation"]["left"], reward, over) == (1, 0.0, False)
    assert info["refused"] == 'not legal now (sent was {"take":3}; legal is for example {"take":1})'
    assert env.step(0)[1:3] == (1.0, True)


def test_a_game_with_a_protocol_of_its_own(tmp_path: Path) -> None:
    moves = ["up", "down", "left", "right"]

    def encode(message: Any) -> Any:
        seen = isinstance(message, dict) and message.get("type") == "observation"
        return np.array(message["positions"][message["slot"]], np.int64) if seen else None

    env = SeatEnv(
        EXAMPLES / "paintarena",
        1,
        variant="quick",
        backend="process",
        workspace=tmp_path,
        encode=encode,
        decode=lambda action, last=moves: {"move": last[int(action)]},
        space=spaces.Box(0, 1000, (2,), np.int64),
        action_space=spaces.Discrete(4),
    )
    with env:
        seen, _ = env.reset(seed=1)
        over = False
        while not over:
            assert env.observation_space.contains(seen)
            seen, reward, over, _, _ = env.step(3)
    assert env.record is not None
    assert reward == env.record.scores[1]
    assert (tmp_path / "1" / "episode.json").exists()


async def test_a_message_that_is_too_long_is_an_error() -> None:
    async def endless(connection: ServerConnection) -> None:
        await connection.send(" " * (MAX_MESSAGE + 1))
        await connection.wait_closed()

    async with serve(endless, "127.0.0.1", 0) as server:
        socket = await seat_env._connected(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/player")  # pyright: ignore
        with pytest.raises(EnvironmentFault, match="more than 16 MiB") as failed:
            await seat_env._received(socket)  # pyright: ignore[reportPrivateUsage]
        assert failed.value.code == "message_too_long"


def test_invalid_seat_env_arguments_are_refused(opponent: str) -> None:
    with pytest.raises(UsageError, match="belong together"):
        SeatEnv(EXAMPLES / "nim", encode=lambda message: message)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"seat": 2}, "There is no seat 2"),
        ({"opponents": [opponent] * 3}, "There are 1 other seats, and 3 opponents"),
        ({"opponents": ["nobody"]}, "no player 'nobody'"),
    ]
    for arguments, says in wrong:
        with SeatEnv(EXAMPLES / "nim", backend="process", **arguments) as env, pytest.raises(CoworldError, match=says):
            env.reset()
    with (
        SeatEnv(EXAMPLES / "paintarena", backend="process") as env,
        pytest.raises(UsageError, match=r"does not speak coworld\.seat/1\. Give encode="),
    ):
        env.reset()


def test_failing_opponent_is_reported(tmp_path: Path) -> None:
    (tmp_path / "clumsy.py").write_text("def act(observation, legal, rng):\n    raise RuntimeError('clumsy')\n")
    with SeatEnv(EXAMPLES / "nim", 0, [str(tmp_path / "clumsy.py")], backend="process") as env:
        env.reset()
        with pytest.raises(EpisodeError, match=r"Player 1 \(clumsy\) exited with status 1") as failed:
            env.step(0)
    assert failed.value.__notes__ == ["No files of the episode are kept: give workspace= to keep its logs."]


def test_seat_env_leaves_nothing_at_interpreter_exit(opponent: str) -> None:
    script = (
        "import psutil\nfrom coworld_runner.kit.rollout import SeatEnv\n"
        f"env = SeatEnv({str(EXAMPLES / 'nim')!r}, 0, [{opponent!r}], backend='process')\n"
        "env.reset()\nprint(*(child.pid for child in psutil.Process().children(recursive=True)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) >= 2
    assert [pid for pid in pids if psutil.pid_exists(pid)] == []
    assert done.stderr == ""
