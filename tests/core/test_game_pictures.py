"""Blocks of pictures: they are well-formed whatever they are given, and name what a click does."""

from __future__ import annotations

import json
from collections.abc import Callable
from xml.etree import ElementTree

import pytest
from pydantic import BaseModel

from coworld_core.rules.pictures import (
    arrow,
    bars,
    board,
    card,
    grid,
    hand,
    hex_grid,
    pick,
    seat_row,
    token,
)
from coworld_core.text.svg_names import INLINE_SVG

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = """</text><script>alert(1)</script>"'&]]> <![CDATA[ \x00\x0b\ud800\ufffe 🂡"""

Block = Callable[[str, object], str]

BLOCKS: dict[str, Block] = {
    "grid": lambda text, does: grid([[text]], {}, action=lambda *_: does, title=lambda *_: text),
    "a coloured grid": lambda text, does: grid([["x"]], {"x": text}, action=lambda *_: does, title=text),
    "hex_grid": lambda text, does: hex_grid([[text], "x"], {"x": text}, action=lambda *_: does, title=lambda *_: text),
    "token": lambda text, does: token(5, 5, text, colour=text, action=does, title=text),
    "arrow": lambda text, does: arrow(1, 1, 9, 9, colour=text, action=does, title=text),
    "card": lambda text, does: card(text, colour=text, action=does, title=text),
    "hand": lambda text, does: hand([text], 1, colour=text, action=lambda _: does, title=lambda _: text),
    "seat_row": lambda text, does: seat_row([text], marks={0: text}, action=lambda _: does, title=lambda _: text),
    "bars": lambda text, does: bars([1], [text], colours=[text], action=lambda _: does, title=lambda _: text),
    "nothing": lambda text, does: board(9, 9, action=does, title=text),
}


class Move(BaseModel):
    say: str


def parsed(drawing: str) -> ElementTree.Element:
    return ElementTree.fromstring(drawing)


@pytest.mark.parametrize("block", BLOCKS.values(), ids=list(BLOCKS))
def test_hostile_labels_stay_labels(block: Block) -> None:
    root = parsed(board(100, 100, block(HOSTILE, Move(say="\"'<&>"))))
    allowed = INLINE_SVG["elements"]
    assert {node.tag.removeprefix(SVG) for node in root.iter()} <= allowed
    names = INLINE_SVG["attributes"] | INLINE_SVG["styles"]
    assert {name for node in root.iter() for name in node.attrib} <= names, "and pages show all of it"
    assert any("alert(1)" in (node.text or "") for node in root.iter())
    (does, *_) = [node for node in root.iter() if "data-action" in node.attrib]
    assert json.loads(does.attrib["data-action"]) == {"say": "\"'<&>"}


@pytest.mark.parametrize("block", BLOCKS.values(), ids=list(BLOCKS))
def test_without_an_action_nothing_is_a_button_and_with_false_it_is(block: Block) -> None:
    assert "data-" not in board(9, 9, block("x", None))
    assert 'data-action="false"' in board(9, 9, block("x", False))
    assert 'data-field="from to" data-value="&quot;e4&quot;"' in board(9, 9, block("x", pick("e4", "from", "to")))


def test_parts_are_known_by_their_place() -> None:
    drawn = grid(["ab", "c"], {}, action=lambda column, row: [column, row], title=lambda column, row: f"{column}/{row}")
    root = parsed(board(20, 20, drawn))
    cells = [node for node in root.iter() if "data-action" in node.attrib]
    assert [json.loads(cell.attrib["data-action"]) for cell in cells] == [[0, 0], [1, 0], [0, 1]]
    assert [cell.findtext(f"{SVG}title") for cell in cells] == ["0/0", "1/0", "0/1"]
    assert [cell.findtext(f"{SVG}text") for cell in cells] == ["a", "b", "c"]


def test_what_is_hidden_is_not_in_the_picture() -> None:
    assert "7" not in card("QQ7", face=False).replace("17.2", "").replace("#7f92d4", "")
    drawn = parsed(board(60, 30, hand(["A♠"], hidden=2, action=lambda n: n if n == 0 else None)))
    assert [text.text for text in drawn.iter(f"{SVG}text")] == ["A♠"]
    assert len([node for node in drawn.iter() if "data-action" in node.attrib]) == 1


def test_seats_are_numbered_and_who_is_out_is_struck_out() -> None:
    root = parsed(board(80, 10, seat_row(["Ada", "A very long name indeed"], out=[0], marks={0: 3})))
    texts = [(text.text, text.get("text-decoration")) for text in root.iter(f"{SVG}text")]
    assert texts == [("0", None), ("Ada 3", "line-through"), ("1", None), ("A very long na…", None)]
    assert [title.text for title in root.iter(f"{SVG}title")] == ["0: Ada, out", "1: A very long name indeed"]


def test_bars_have_lengths_that_fit() -> None:
    root = parsed(board(80, 24, bars([0, 5, 20], most=10)))
    assert [bar.get("width") for bar in root.iter(f"{SVG}rect") if bar.get("height") == "6"] == ["0", "35", "70"]
    assert bars([]) == "<g></g>"
    assert 'width="0"' in bars([-1, 0])


def test_mistakes_are_named() -> None:
    for width, height in ((0, 5), (5, -1), (float("nan"), 5)):
        with pytest.raises(ValueError, match="a board has a width and a height"):
            board(width, height)
    for fields in ((), ("",), ("from to",)):
        with pytest.raises(ValueError, match="fields are names without spaces"):
            pick(1, *fields)
    with pytest.raises(ValueError, match=r"an action of a picture is a JSON value, not \{1\}"):
        token(1, 1, action={1})
    assert 'points="3,3' in arrow(3, 3, 3, 3)
