"""Files of samples and frames: whole, cut short anywhere, and damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coworld_core import iter_frames, iter_samples
from coworld_core.errors import UsageError
from coworld_core.records.samples import FRAMES_FORMAT, SAMPLES_FORMAT, RecordingEnd, recording_end

HEAD = {"format": SAMPLES_FORMAT, "episode": "e1", "names": ["Ann", "Bob"]}


def turn(tick: int, seat: int, **more: Any) -> dict[str, Any]:
    return {
        "tick": tick,
        "time": 1000.5 + tick,
        "seat": seat,
        "observation": {"left": 9 - tick},
        "legal": [1, 2],
        "action": 1,
        "acted": True,
        **more,
    }


END = {"end": "over", "complete": True, "count": 3, "last_tick": 2, "scores": [1.0, 0.5], "out_of_sync": [1]}
LINES = [
    HEAD,
    turn(0, 0),
    turn(1, 1, acted=False, by="human"),
    turn(2, 0, legal=None),
    {"final": True, "tick": 3, "seat": 0, "observation": "won"},
    END,
]


def written(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def test_samples_have_what_followed_and_what_is_not_known_is_none(tmp_path: Path) -> None:
    path = written(tmp_path / "samples.ndjson", LINES)
    first, last, bobs = list(iter_samples(tmp_path))
    assert (first.episode, first.tick, first.time, first.seat, first.name) == ("e1", 0, 1000.5, 0, "Ann")
    assert (first.observation, first.legal, first.action, first.acted, first.by) == ({"left": 9}, [1, 2], 1, True, None)
    # Only final scores are told: nothing is known of what the first turn has gained
    assert (first.score, first.reward, first.done, first.next_observation) == (None, None, False, {"left": 7})
    assert (last.tick, last.legal, last.reward, last.done, last.next_observation) == (2, None, 1.0, True, "won")
    assert (bobs.name, bobs.acted, bobs.by, bobs.reward, bobs.next_observation) == ("Bob", False, "human", 0.5, None)
    assert recording_end(path) == RecordingEnd(reason="over", complete=True, count=3, last_tick=2, out_of_sync=(1,))


def test_rewards_are_what_live_scores_gain(tmp_path: Path) -> None:
    lines = [HEAD, turn(0, 0, score=0.0), turn(1, 0, score=2.0), turn(2, 0, score=1.5)]
    found = list(iter_samples(written(tmp_path / "a", [*lines, {**END, "scores": [4.0, 0.0]}])))
    assert [(one.score, one.reward, one.done) for one in found] == [
        (0.0, 2.0, False),
        (2.0, -0.5, False),
        (1.5, 2.5, True),
    ]


def test_rewards_that_a_game_gives_are_summed_until_the_next_turn(tmp_path: Path) -> None:
    given = [[0.5, None], [0.25, -1.0], [None, 2.0]]
    lines = [HEAD, turn(0, 0, score=0.0), turn(0, 1), turn(1, 1), turn(2, 0, score=9.0)]
    for after, (tick, rewards) in zip((3, 5, 7), enumerate(given), strict=True):
        lines.insert(after, {"rewards": rewards, "tick": tick})
    found = list(iter_samples(written(tmp_path / "a", [*lines, END])))
    assert [(one.tick, one.seat, one.reward) for one in found] == [
        (0, 1, None),
        (0, 0, 0.75),
        (2, 0, None),
        (1, 1, 1.0),
    ]


def test_a_game_that_was_cut_short_is_not_done(tmp_path: Path) -> None:
    end = {**END, "end": "failed", "complete": False, "scores": None}
    found = list(iter_samples(written(tmp_path / "a", [*LINES[:4], end])))
    assert [(one.reward, one.done) for one in found] == [(None, False)] * 3


def test_a_file_can_be_read_wherever_its_writer_was_killed(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole", LINES).read_bytes()
    path = tmp_path / "cut"
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        turns = [json.loads(line) for line in whole[:size].split(b"\n")[1:-1]]
        assert len(list(iter_samples(path))) == sum("time" in line for line in turns)
        assert recording_end(path) is None
    path.write_bytes(whole)
    assert recording_end(path) is not None


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{}\n", "line 1: its format is None"),
        (b'{"format": "coworld.frames/1"}\n', "its format is 'coworld.frames/1'"),
        (json.dumps(HEAD).encode() + b"\nnonsense\n", "line 2: it is not a JSON object"),
        (json.dumps(HEAD).encode() + b'\n{"tick": 1}\n', "line 2: it is no sample"),
        (json.dumps(HEAD).encode() + b"\n" + b"[" * 100_000 + b"\n", "line 2: it is not a JSON object"),
    ],
)
def test_what_is_no_file_of_samples_is_refused_with_its_line(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "samples.ndjson").write_bytes(content)
    with pytest.raises(UsageError) as caught:
        list(iter_samples(tmp_path))
    assert caught.value.code == "recording_invalid"
    assert says in caught.value.message


def test_an_episode_that_was_not_recorded_says_how_one_is(tmp_path: Path) -> None:
    for read in (iter_samples, iter_frames):
        with pytest.raises(UsageError) as caught:
            next(iter(read(tmp_path)))  # type: ignore[arg-type]
        assert caught.value.code == "record_not_found"
        assert "record=" in str(caught.value.hint)


def test_frames_are_text_or_bytes_or_too_long(tmp_path: Path) -> None:
    common = {"time": 5.0, "seat": 1}
    written(
        tmp_path / "frames.ndjson",
        [
            {"format": FRAMES_FORMAT, "episode": "e1"},
            {"tick": 3, **common, "direction": "to_player", "text": '{"tick":3}'},
            {"tick": None, **common, "direction": "to_game", "base64": "AP8="},
            {"tick": None, **common, "direction": "to_game", "size": 99_000_000},
        ],
    )
    found = [(one.tick, one.direction, one.text, one.data) for one in iter_frames(tmp_path)]
    assert found == [
        (3, "to_player", '{"tick":3}', None),
        (None, "to_game", None, b"\0\xff"),
        (None, "to_game", None, None),
    ]
