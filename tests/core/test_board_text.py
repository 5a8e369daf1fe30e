"""Boards in text, of whatever a game sends."""

from __future__ import annotations

from typing import Any

import pytest

from coworld_core.rules.board_text import board_of

GRID = {"width": 3, "height": 2, "tile_owners": [-1, 0, 1, -1, -1, 1], "positions": [[1, 1], [2, 0]], "tick": 4}


def test_text_comes_before_drawing_before_grid() -> None:
    assert board_of({**GRID, "text": "a\tb\n", "drawing": "c"}).lines == ("a       b",)
    assert board_of({**GRID, "drawing": "c\nd"}).lines == ("c", "d")
    board = board_of({**GRID, "scores": [1, 2.5], "max_ticks": 9, "player_names": ["Ann", "Bob"]})
    assert board.lines == ("· a B", "· A b")
    assert (board.grid, board.tick, board.max_ticks, board.scores) == (True, 4, 9, (1.0, 2.5))
    assert board.names == ("Ann", "Bob")


def test_pictures_are_no_text() -> None:
    board = board_of({"drawing": "<svg></svg>", "tick": 1, "to_act": [1], "scores": [None, 3]})
    assert (board.lines, board.picture, board.to_act, board.scores) == ((), True, (1,), (None, 3.0))
    titled = "<svg viewBox='0 0 9 9'><title>4 sticks &lt;left&gt;</title><g><title>one</title></g></svg>"
    assert board_of({"drawing": titled}).lines == ("4 sticks <left>",)
    assert board_of({"drawing": "<svg><g><title>one</title></g></svg>"}).lines == ()


@pytest.mark.parametrize(
    "message",
    [
        {},
        {**GRID, "width": 10**9, "height": 10**9},
        {**GRID, "width": "3"},
        {**GRID, "tile_owners": [0.5] * 6},
        {**GRID, "tile_owners": [True] * 6},
        {"text": 3, "drawing": None, "tick": -1, "scores": "many", "to_act": 5, "player_names": {}},
    ],
)
def test_hostile_messages_have_no_board(message: dict[str, Any]) -> None:
    board = board_of(message)
    assert (board.lines, board.picture) == ((), False)


def test_places_outside_the_grid_are_not_marked() -> None:
    assert board_of({**GRID, "positions": [[9, 9], [-1, 0], "x", [0]]}).lines == ("· a b", "· · b")
