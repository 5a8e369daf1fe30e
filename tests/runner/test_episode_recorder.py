"""Episodes that are recorded while they are played: what is kept, how it ends, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.nim_episode import NIM
from support.served_game import TOKENS, Sticks, Table, hear, serving, sit, tell
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from coworld_core import iter_frames, iter_samples, read_record, read_replay, trajectory
from coworld_core.episode.events import BaseEvent, UnitStarted
from coworld_core.episode.record import EpisodeRecord
from coworld_core.errors import CapabilityError, EnvironmentFault, UsageError
from coworld_core.records.samples import recording_end
from coworld_core.rules import Turns, load_rules
from coworld_runner import EpisodeOptions, plan_episode, resolve_package, run_episode
from coworld_runner.backend import Capabilities, Unit
from coworld_runner.backends.process.process_backend import ProcessBackend
from coworld_runner.episode.episode_options import Recorded
from coworld_runner.episode.episode_recorder import require_recording
from coworld_runner.evaluation.worker_venue import refused
from coworld_runner.kit.server.sample_stream import SampleStream

ARENA = NIM.parent / "paintarena"


async def play(workspace: Path, record: Recorded, *players: str, **more: Any) -> EpisodeRecord:
    return await run_episode(
        NIM,
        players=players or ["counter", "random"],
        seed=3,
        backend="process",
        workspace=workspace,
        options=EpisodeOptions(record=record),
        **more,
    )


async def test_samples_are_what_the_replay_gives_when_it_is_played_again(tmp_path: Path) -> None:
    record = await play(tmp_path / "out", "samples")
    assert record.ok, record.faults
    assert record.recording is not None
    samples = list(iter_samples(record))
    rules = load_rules(f"{NIM / 'nim.py'}:Nim")
    steps = trajectory(rules, read_replay(record.replay.read_bytes())).steps
    turns = {(step.tick, step.seat): step for step in steps if step.acts}
    assert {(one.tick, one.seat) for one in samples} == set(turns)
    for one in samples:
        step = turns[one.tick, one.seat]
        assert (one.name, one.observation, one.legal, one.action) == (
            step.name,
            step.observation,
            step.legal,
            step.action,
        )
        assert (one.acted, one.by, one.episode) == (True, None, record.run_id)
    assert {one.seat: one.reward for one in samples if one.done} == dict(enumerate(record.scores))
    told = record.recording
    assert (told.kind, told.path, told.complete, told.reason) == ("samples", "samples.ndjson", True, "")
    assert (told.count, told.last_tick, told.out_of_sync) == (len(samples), len(samples) - 1, ())
    end = recording_end(record.layout.samples)
    assert end is not None
    assert (end.complete, end.count, end.last_tick) == (True, told.count, told.last_tick)
    assert read_record(record.layout.record) == record
    # Nobody else learns the token, and the file is one of the run's
    assert "samples.ndjson" in {artifact.path for artifact in record.artifacts}
    again = await play(tmp_path / "out", "off", overwrite=True)
    assert again.recording is None
    assert not again.layout.samples.exists()


async def test_frames_are_what_was_said(tmp_path: Path) -> None:
    record = await play(tmp_path / "out", "frames")
    assert record.ok, record.faults
    assert record.recording is not None
    assert (record.recording.complete, record.recording.out_of_sync) == (True, ())
    # Players connect to the recorder, and are not taken for some who stay away; a look may come too late to see them
    assert False not in [seat.connected for seat in record.slots]
    said: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for frame in iter_frames(record):
        assert frame.text is not None
        message = json.loads(frame.text)
        assert frame.tick == message.get("tick")
        said.setdefault((frame.seat, frame.direction), []).append(message)
    ticks = record.results["ticks"] if record.results is not None else 0
    for seat in (0, 1):
        kinds = [message["type"] for message in said[seat, "to_player"]]
        assert (kinds[0], kinds[-1]) == ("hello", "over")
        acts = [message["tick"] for message in said[seat, "to_game"]]
        assert acts == list(range(seat, ticks, 2))
    assert record.recording.count == sum(map(len, said.values()))
    text = record.layout.frames.read_text()
    assert "token" not in text
    again = await play(tmp_path / "out", "off", overwrite=True)
    assert not again.layout.frames.exists()
    assert not (again.layout.logs / "recorder.log").exists()


@pytest.mark.slow
async def test_frames_of_a_game_with_a_protocol_of_its_own(tmp_path: Path) -> None:
    record = await run_episode(
        ARENA, backend="process", workspace=tmp_path / "out", options=EpisodeOptions(record="frames")
    )
    assert record.ok, record.faults
    frames = list(iter_frames(record))
    assert {frame.direction for frame in frames} == {"to_player", "to_game"}
    assert {frame.seat for frame in frames} == set(range(len(record.slots)))
    ticks = [frame.tick for frame in frames if frame.tick is not None]
    assert record.recording is not None
    assert record.recording.last_tick == max(ticks)


async def test_what_cannot_be_recorded_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        await run_episode(
            ARENA, backend="process", workspace=tmp_path / "out", options=EpisodeOptions(record="samples")
        )
    assert caught.value.code == "no_samples"
    assert not (tmp_path / "out").exists()

    class Elsewhere(ProcessBackend):
        name = "elsewhere"

        @property
        def capabilities(self) -> Capabilities:
            return replace(super().capabilities, images=True)

    plan = plan_episode(await resolve_package(NIM), players=["random", "random"])
    with pytest.raises(CapabilityError) as refused:
        require_recording(plan, Elsewhere(), EpisodeOptions(record="frames"))
    assert refused.value.context["capability"] == "record"
    require_recording(plan, Elsewhere(), EpisodeOptions(record="samples"))


async def test_what_is_recorded_is_played_by_programs() -> None:
    package = await resolve_package(NIM)
    assert refused(package, EpisodeOptions()) == ""
    assert refused(package, EpisodeOptions(record="samples")) == "what is played is to be recorded"


async def test_a_game_that_fails_leaves_what_was_played_until_then(tmp_path: Path) -> None:
    package = tmp_path / "nim"
    shutil.copytree(NIM, package, ignore=shutil.ignore_patterns("results", "__pycache__"))
    source = (package / "nim.py").read_text()
    (package / "nim.py").write_text(
        source.replace(
            "    def step(",
            "    def step(self, actions):\n        assert self.left > 12\n        self.play(actions)\n\n    def play(",
        )
    )
    record = await run_episode(
        package,
        players=["random", "random"],
        backend="process",
        workspace=tmp_path / "out",
        options=EpisodeOptions(record="samples"),
    )
    assert not record.ok
    told = record.recording
    assert told is not None
    assert (told.complete, told.reason) == (False, "failed")
    samples = list(iter_samples(record))
    assert len(samples) == told.count > 0
    assert all(one.observation["left"] > 12 for one in samples)
    assert not any(one.done or one.reward is not None for one in samples)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["samples", "frames"])
def test_an_episode_goes_on_when_there_is_no_room_for_its_recording(kind: Recorded, tmp_path: Path) -> None:
    """A limit on the size of files stands in for the end of the disk."""
    room = 40_000
    # Pictures of nine hundred sticks would make the replay larger than any recording
    plain = tmp_path / "plain"
    shutil.copytree(NIM, plain)
    rules = (NIM / "nim.py").read_text().replace("def draw(", "def draws_nothing(")
    (plain / "nim.py").write_text(rules)
    code = f"""if True:
        import resource, signal, sys
        import anyio
        from coworld_core.episode.events import PhaseStarted
        from coworld_runner import EpisodeOptions, run_episode

        def limit(event):
            if isinstance(event, PhaseStarted) and event.phase == "start_players":
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

        async def play():
            options = EpisodeOptions(record={kind!r})
            await run_episode({str(plain)!r}, players=["random", "random"], seed=1, config={{"sticks": 900}},
                backend="process", workspace=sys.argv[1], options=options, listeners=(limit,))

        anyio.run(play)
    """
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", code, str(tmp_path / "out")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    record = read_record(tmp_path / "out")
    assert record.status == "completed", done.stderr
    assert record.ok, record.faults
    told = record.recording
    assert told is not None
    assert not told.complete
    assert "cannot be written to: File too large" in told.reason
    assert any(f"They end at tick {told.last_tick}." in words for words in record.warnings), record.warnings
    assert 0 < (told.last_tick or 0) < (record.results or {})["ticks"] - 1
    read = list(iter_samples(record)) if kind == "samples" else list(iter_frames(record))
    assert len(read) == told.count
    assert max(one.tick for one in read if one.tick is not None) == told.last_tick
    path = record.layout.samples if kind == "samples" else record.layout.frames
    assert path.stat().st_size <= room
    assert path.read_bytes().endswith(b"\n")


async def test_a_recorder_that_is_killed_is_the_machines_fault(tmp_path: Path) -> None:
    package = await resolve_package(NIM)
    made: list[Unit] = []

    def kill(event: BaseEvent) -> None:
        if isinstance(event, UnitStarted) and event.unit == "player-0":
            (recorder,) = [unit for unit in made if unit.name == "recorder"]
            os.kill(int(recorder.id), signal.SIGKILL)

    class Watched(ProcessBackend):
        def unit(self, *args: Any, **more: Any) -> Any:
            made.append(super().unit(*args, **more))
            return made[-1]

    async with Watched(contexts=package.contexts) as backend:
        with pytest.raises(EnvironmentFault) as caught:
            await run_episode(
                package,
                players=["random", "random"],
                backend=backend,
                workspace=tmp_path / "out",
                options=EpisodeOptions(record="frames"),
                listeners=(kill,),
            )
    assert caught.value.code == "recorder_failed"
    record = read_record(tmp_path / "out")
    assert [fault.party for fault in record.faults] == ["platform"]
    assert record.recording is not None
    assert not record.recording.complete


# --- the game's own stream --------------------------------------------------------------------------------------


@asynccontextmanager
async def sampled(table: Table, token: str = "t") -> AsyncGenerator[list[dict[str, Any]]]:
    """Read the samples of a game; they are all there when the block ends."""
    lines: list[dict[str, Any]] = []
    address = f"ws://127.0.0.1:{table.port}/samples?token={token}"
    async with connect(address, proxy=None) as stream:
        yield lines
        async for message in stream:
            assert isinstance(message, str)
            lines += [json.loads(line) for line in message.splitlines()]


class Numbers(Sticks):
    """Without a list of legal actions, with live scores; whoever misses a turn takes one."""

    live_scores = True
    pace = Turns(per_move=0.3, bank=0)
    left: int

    def legal(self, seat: int) -> None:
        return None

    def scores(self) -> list[float]:
        return [float(self.left), -float(self.left)]

    def default(self, seat: int) -> Any:
        return self.Action(take=1)

    def step(self, actions: Mapping[int, Any]) -> None:
        self.left -= actions[self.turn].take
        self.turn = 1 - self.turn


async def test_a_missed_turn_has_what_was_played_for_it_and_live_scores_are_told() -> None:
    samples = SampleStream("t")
    async with serving(Numbers, samples=samples, sticks=4) as table:
        for token in ("", "wrong", TOKENS[0]):
            with pytest.raises(InvalidStatus) as refused:
                async with sampled(table, token):
                    pass
            assert refused.value.response.status_code == 403
        async with sampled(table) as lines, sit(table, 0) as first, sit(table, 1):
            while not (await hear(first)).get("your_turn"):
                pass
            await first.send(json.dumps({"type": "act", "tick": 0, "action": {"take": 2}, "by": "human"}))
            while (await hear(first)).get("tick") != 2:
                pass
            await tell(first, 2, {"take": 1})
            while (await hear(first))["type"] != "over":
                pass
    turns = [line for line in lines if "time" in line]
    assert [(line["tick"], line["seat"], line["acted"], line.get("by"), line["score"]) for line in turns] == [
        (0, 0, True, "human", 4.0),
        (1, 1, False, None, -2.0),
        (2, 0, True, None, 1.0),
    ]
    assert [line["action"] for line in turns] == [{"take": 2}, {"take": 1}, {"take": 1}]
    assert [line["legal"] for line in turns] == [None] * 3
    assert [line["observation"] for line in lines if line.get("final")] == [{"left": 0}] * 2
    assert lines[-1] == {"end": "over", "complete": True, "scores": [0.0, 0.0], "out_of_sync": []}


class Paid(Numbers):
    """The same, but what counts is how many were left to whom."""

    def rewards(self) -> dict[int, float]:
        return {self.turn: float(self.left)}


async def test_rewards_of_the_rules_are_told_after_the_turns_of_their_tick() -> None:
    served = serving(Paid, samples=SampleStream("t"), sticks=2)
    async with served as table, sampled(table) as lines, sit(table, 0), sit(table, 1):
        pass
    told = [(line["tick"], line.get("seat"), line.get("rewards")) for line in lines[:-3]]
    assert told == [(0, 0, None), (0, None, [None, 1.0]), (1, 1, None), (1, None, [0.0, None])]


async def test_a_seat_that_was_not_told_of_its_turn_is_out_of_sync() -> None:
    samples = SampleStream("t")
    async with serving(Numbers, samples=samples, sticks=3) as table, sampled(table) as lines, sit(table, 0) as first:
        async with sit(table, 1):
            pass
        while (await hear(first))["type"] != "over":
            pass
    assert lines[-1]["out_of_sync"] == [1]


async def test_samples_that_nobody_reads_are_cut_and_the_game_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coworld_runner.kit.table.sample_lines.MOST_KEPT", 200)
    samples = SampleStream("t")
    async with serving(samples=samples) as table, sit(table, 0) as first, sit(table, 1) as second:
        for tick in range(6):
            seat = (first, second)[tick % 2]
            while True:
                told = await hear(seat)
                if told.get("tick") == tick and told.get("your_turn"):
                    break
            await tell(seat, tick, {"take": 1})
        while (await hear(first))["type"] != "over":
            pass
        async with sampled(table) as lines:
            pass
    assert 0 < len([line for line in lines if "time" in line]) < 6
    assert (lines[-1]["end"], lines[-1]["complete"]) == ("too much waited to be written", False)
