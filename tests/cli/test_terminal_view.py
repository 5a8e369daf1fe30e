"""Boards at the terminal: drawn in place, cut to its size, plain elsewhere; and replays in it."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.talking import TalkingSticks

from coworld_cli.render.board_screen import BoardScreen, board_lines, legal_lines
from coworld_core.errors import EpisodeError
from coworld_core.rules import Play, ReplayHeader, ReplayWriter
from coworld_core.rules.board_text import Board, board_of
from coworld_runner.replay.replay_frames import read_frames


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make standard output a terminal of 8 lines with 20 columns. Not a fixture: pytest sets its own for the call."""
    made = Terminal()
    monkeypatch.setattr("sys.stdout", made)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((20, 8)))
    monkeypatch.setenv("TERM", "xterm")
    return made


def test_the_next_board_leaves_alone_what_is_being_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    screen = BoardScreen()
    screen.show(["one"], prompt="> ")
    assert terminal.getvalue().endswith("\n\n> ")
    terminal.truncate(0)
    screen.show(["two"], prompt="> ")
    assert terminal.getvalue().lstrip("\0") == "\x1b7\x1b[Htwo\x1b[K\n\x1b8"
    size = len(terminal.getvalue())
    screen.show(["two"], prompt="> ")
    assert len(terminal.getvalue()) == size


def test_boards_are_cut_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    BoardScreen().show([f"\x1b[1m{'x' * 30}\x1b[0m", "字" * 15, *map(str, range(20))])
    lines = terminal.getvalue().split("\x1b[K\n")
    assert lines[0].endswith("x" * 18 + "…")
    assert "\x1b[1m" not in lines[0]
    assert lines[1] == "字" * 9 + "…"
    assert lines[5].startswith("… 17 more lines")


def test_without_a_terminal_boards_are_plain(capsys: pytest.CaptureFixture[str]) -> None:
    screen = BoardScreen()
    for tick in (1, 1, 2):
        screen.show(board_lines("Nim", Board(lines=("||",), tick=tick), names=["Ann", "Bob"], scores=[1, 0], you=1))
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert said.count("tick 1") == 1
    assert said.endswith("Nim · tick 2\n\n  ||\n\n  0  Ann  1\n  1  Bob (you)  0\n\n")


def test_a_board_that_is_a_picture_or_missing_is_said() -> None:
    assert "as a picture only" in "\n".join(board_lines("X", Board(picture=True)))
    assert "ticks and scores" in "\n".join(board_lines("X", Board(tick=1)))


def test_what_seats_say_is_below_the_board(tmp_path: Path) -> None:
    play = Play(TalkingSticks)
    writer = ReplayWriter(
        ReplayHeader(rules="TalkingSticks", version="0", config={}, seed=0, seats=2, names=["A", "B"])
    )
    writer.add(play.frame())
    assert play.talk is not None
    for text in ("good\n luck", "\x1b[31mred"):
        play.talk.say(0, text, 1 if play.tick else "all", tick=play.tick)
        done = play.step({play.tick % 2: play.read(play.tick % 2, {"take": 1})})
        writer.add(play.frame(), done)
    (tmp_path / "replay").write_bytes(writer.finish(reason="stopped"))
    frames = read_frames(tmp_path / "replay").frames
    assert board_lines("X", board_of(frames[0]), names=["A", "B"])[-1] == "  1  B"
    assert board_lines("X", board_of(frames[2]), names=["A", "B"])[-4:] == [
        '  B did {"take":1}',
        "",
        "  A: good luck",
        "  A to B: red",
    ]
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    acted = board_of({"actions": {"0": "\x1b[31m" + "x" * 999, "9" * 5000: 1, "x": 1, 1: deep, 7: None}})
    assert board_lines("X", acted, names=["A"])[-2:] == [f'  A did "\\u001b[31m{"x" * 183}', "  7 did null"]
    hostile = board_of({"said": [3, {"seat": "0", "text": "x", "to": "all"}, {"seat": 9, "text": "y", "to": 9}]})
    assert board_lines("X", hostile, names=["A"])[-1] == "  9 to 9: y"


def test_legal_actions_are_numbered_and_wrapped() -> None:
    assert legal_lines(["left", "right"], 80) == ["1 left   2 right"]
    assert legal_lines(["left", "right"], 10) == ["1 left", "2 right"]
    assert legal_lines(["3", "1"], 80, places=False) == ["3   1"]
    assert legal_lines([], 80) == []


def test_replays_of_other_games_have_frames_or_are_opaque(tmp_path: Path) -> None:
    own = tmp_path / "replay"
    own.write_text(json.dumps({"player_names": ["A"], "frames": [{"tick": 1}], "results": {"scores": [2]}}))
    found = read_frames(own)
    assert (found.names, list(found.frames), found.scores) == (("A",), [{"tick": 1}], (2.0,))
    for content in (b"\x00\x01", b"[1]", b'{"frames": [3]}'):
        own.write_bytes(content)
        with pytest.raises(EpisodeError) as refused:
            read_frames(own)
        assert refused.value.code == "replay_opaque"
