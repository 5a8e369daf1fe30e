from __future__ import annotations

import pytest

from coworld_core.text.terminal import strip_controls, writable


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]unfinished\nnext", "\nnext"),
        ("\x1bPq#0\x1b\\x", "x"),
        ("\x9b31mred\x9d0;t\x9cx", "redx"),
        ("a\x07\x08\x00\x7fb", "ab"),
        ("10%\r20%\r\ndone", "10%\n20%\ndone"),
        ("\x1b(Bx\x1b7y\x1bcz", "xyz"),
        ("cut \x1b[3", "cut "),
        ("cut \x1b", "cut "),
        ("[bold]markup[/bold] stays", "[bold]markup[/bold] stays"),
        ("abc\u202edcba\u2066", "abcdcba"),
        ("ünïcödé 日本 🎲", "ünïcödé 日本 🎲"),
    ],
)
def test_controls_are_stripped(raw: str, clean: str) -> None:
    assert strip_controls(raw) == clean


@pytest.mark.parametrize(
    ("text", "written"),
    [("plain", "plain"), ("é", "é"), ("caf\udce9", "caf\ufffd"), ("caf\udcc3\udca9", "café"), ("\ud800é", "?é")],
)
def test_text_that_cannot_be_written_is_shown_as_far_as_it_can_be_read(text: str, written: str) -> None:
    assert writable(text) == written
