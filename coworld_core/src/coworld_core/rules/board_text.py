"""What a terminal shows of a game: a board in text, made of a message to spectators or a seat, or of a replay's frame.

The board is, of what a message has, the first of

- `text`, as games of the kit send it to seats;
- `drawing` or `picture`, or the title of one that is an `<svg>` element;
- a grid: `width`, `height`, and a list of `width × height` owners, row by row: a seat's number, or a negative one for
  nobody. `positions`, a list of `[x, y]` by seat, are marked on it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

from .game import is_picture
from .plain_values import action_text
from .rules_errors import ActionRefused

__all__ = ["Board", "Spoken", "board_of", "seat_letter"]

_MAX_CELLS: Final = 40_000
_NOBODY: Final = "·"
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


class Spoken(NamedTuple):
    """What a seat has said to others: to `all`, to its `team`, or to a seat."""

    seat: int
    text: str
    to: str | int


@dataclass(frozen=True, kw_only=True)
class Board:
    """What a message tells of the present state."""

    lines: tuple[str, ...] = ()
    """The board, or what a picture of it says of itself; empty if the message has neither."""
    picture: bool = False
    """Whether it has a board only as a picture."""
    grid: bool = False
    """Whether the board is a grid, on which seats are letters."""
    tick: int | None = None
    max_ticks: int | None = None
    scores: tuple[float | None, ...] = ()
    to_act: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    """The names of the seats, if the message has them."""
    messages: tuple[Spoken, ...] = ()
    """What seats have said to each other of late: what spectators read of it, what a seat hears now, or has heard
    and said before."""
    actions: tuple[tuple[int, str], ...] = ()
    """What seats have done last, as JSON: in replays."""


def board_of(message: Mapping[str, Any]) -> Board:
    """Return what a message of a game, which is untrusted, tells of the present state."""
    drawn = next((text for key in ("text", "drawing", "picture") if (text := _text(message.get(key)))), "")
    pictured = not drawn and any(is_picture(str(message.get(key) or "")) for key in ("drawing", "picture"))
    if pictured:
        drawn = _title(next(text for key in ("drawing", "picture") if is_picture(text := str(message.get(key) or ""))))
    grid = () if drawn or pictured else _grid(message)
    names = _list(message.get("player_names") or message.get("names"))
    return Board(
        lines=tuple(drawn.expandtabs().rstrip().splitlines()) if drawn else grid,
        picture=pictured,
        grid=bool(grid),
        tick=_count(message.get("tick")),
        max_ticks=_count(message.get("max_ticks")),
        scores=tuple(float(score) if _is_number(score) else None for score in _list(message.get("scores"))),
        to_act=tuple(seat for seat in _list(message.get("to_act")) if isinstance(seat, int)),
        names=tuple(str(name) for name in names),
        messages=tuple(_spoken(_list(message.get("said") or message.get("heard") or message.get("talked")))),
        actions=tuple(_done(message.get("actions"))),
    )


def seat_letter(seat: int) -> str:
    """The letter of a seat on a grid: small where it owns a cell, and a capital where it is."""
    return _LETTERS[seat] if seat < len(_LETTERS) else "?"


def _spoken(messages: Sequence[Any]) -> Iterator[Spoken]:
    for one in messages:
        if isinstance(one, dict):
            told = cast("dict[str, Any]", one)
            seat, text, to = told.get("seat"), told.get("text"), told.get("to")
            if _count(seat) is not None and isinstance(text, str) and isinstance(to, str | int):
                yield Spoken(cast("int", seat), text, to)


def _done(actions: object) -> Iterator[tuple[int, str]]:
    if isinstance(actions, dict):
        for seat, action in cast("dict[Any, Any]", actions).items():
            if str(seat).isdecimal() and len(str(seat)) < 10:
                with suppress(ActionRefused):
                    yield int(seat), action_text(action)


def _text(value: object) -> str:
    return value if isinstance(value, str) and value.strip() and not is_picture(value) else ""


def _title(picture: str) -> str:
    """What a picture says of itself, if it begins with that."""
    found = re.match(r"\s*<svg[^<>]*>\s*<title>([^<]*)</title>", picture)
    return html.unescape(found[1]) if found else ""


def _grid(message: Mapping[str, Any]) -> tuple[str, ...]:
    width, height = _count(message.get("width")), _count(message.get("height"))
    if not width or not height or width * height > _MAX_CELLS:
        return ()
    known = (_list(value) for value in message.values())
    owners = next((cells for cells in known if len(cells) == width * height and all(map(_is_owner, cells))), None)
    if owners is None:
        return ()
    cells = [seat_letter(owner) if owner >= 0 else _NOBODY for owner in owners]
    for seat, place in enumerate(_list(message.get("positions"))):
        at = _list(place)
        if len(at) == 2 and all(map(_is_owner, at)) and 0 <= at[0] < width and 0 <= at[1] < height:
            cells[at[1] * width + at[0]] = seat_letter(seat).upper()
    return tuple(" ".join(cells[row * width : (row + 1) * width]) for row in range(height))


def _is_owner(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else None


def _list(value: object) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else ()
