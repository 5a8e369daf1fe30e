"""Pictures of games, made of blocks: each function returns SVG text in which names and labels are escaped.

A drawing is one `board`, and what stands on it are texts that the other functions return:

    board(30, 10, grid([["x", None, "o"]], {"x": "#c33", "o": "#36c"}), title="Three cells in a row")

Lengths are in units of the picture, in which a cell of a grid is `CELL` wide; the page scales the whole. `x` and `y`
are the left upper corner of a block, and the middle of a token. A colour is one of CSS; `INK` is the colour of the
page's text, light or dark.

Every block takes an `action`, which makes it a button for the seat that may do just this, and a `title`, which tells of
it to those who point at it or cannot see it. For blocks of many parts, both are functions of the part: its column and
row, or its number. Either returns None for a part without. An `action` is any value that is legal, or, where two clicks
make a move, what `pick` returns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import hypot
from typing import Any, Final

from ..plain_values import to_json

__all__ = [
    "CELL",
    "INK",
    "SEATS",
    "Pick",
    "arrow",
    "bars",
    "board",
    "card",
    "grid",
    "hand",
    "hex_grid",
    "pick",
    "seat_row",
    "token",
]

CELL: Final = 10.0
"""Width of a cell, and about that of a token."""

INK: Final = "currentColor"
"""The colour of the page's text."""

SEATS: Final = ("#d1495b", "#2e86c1", "#3a9d5d", "#c98b1b", "#8e5bb5", "#2aa198", "#c2629a", "#7f8c8d")
"""Colours of seats, each of which can be told from a light and a dark page and bears a white label."""

Cells = Sequence[Sequence[Any] | str]
"""Rows of values, from the top; a row of characters may be a text."""

_NOT_XML: Final = re.compile("[\x00-\x1f\x7f\ud800-\udfff\ufffe\uffff]")

_ROW: Final = CELL * 0.866
"""Distance of the rows of a hexagonal grid."""


@dataclass(frozen=True)
class Pick:
    """A part of an action, as `pick` returns it."""

    value: Any
    fields: tuple[str, ...]


def pick(value: Any, *fields: str) -> Pick:
    """The choice of a value for one field of an action, of which further shapes or buttons choose the others.

    Args:
        value: The value.
        fields: The field; or several, such as `"from", "to"`, of which it is the first that has not been chosen.

    Raises:
        ValueError: No field is named, or one that is empty or has a space in it.
    """
    if not fields or any(field.split() != [field] for field in fields):
        raise ValueError(f"fields are names without spaces, not {fields!r}")
    return Pick(value, fields)


def board(width: float, height: float, *shapes: str, action: Any = None, title: str | None = None) -> str:
    """The whole picture: `width` by `height` units with shapes on it, the last one on top.

    Raises:
        ValueError: The width or height is not positive, or `action` or that of a shape has no JSON form.
    """
    if not (width > 0 and height > 0):
        raise ValueError(f"a board has a width and a height, not {width!r} by {height!r}")
    inner = _part(*shapes, action=action) if action is not None else "".join(shapes)
    box = f"0 0 {_n(width)} {_n(height)}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" font-family="sans-serif">{_title(title)}{inner}</svg>'
    )


def grid(
    cells: Cells,
    colours: Mapping[Any, str],
    *,
    x: float = 0,
    y: float = 0,
    size: float = CELL,
    action: Callable[[int, int], Any] | None = None,
    title: Callable[[int, int], str | None] | str | None = None,
) -> str:
    """A grid of squares, each in the colour of its value; a value without a colour is written into its square.

    Args:
        cells: Rows of values, from the top. None and `" "` are empty.
        colours: The colour of each value.
        x: The left end.
        y: The upper end.
        size: The width of a cell.
        action: What a click does, by column and row.
        title: What a cell is, by column and row; or what the whole is.
    """
    square = f'width="{_n(size * 0.96)}" height="{_n(size * 0.96)}" rx="{_n(size * 0.08)}"'

    def shape(column: int, row: int, value: Any) -> str:
        left, top = x + column * size, y + row * size
        cell = f'<rect x="{_n(left + size * 0.02)}" y="{_n(top + size * 0.02)}" {square} {_fill(value, colours)}/>'
        return cell + _written(value, colours, left + size / 2, top + size / 2, size)

    return _cells(cells, shape, action, title)


def hex_grid(
    cells: Cells,
    colours: Mapping[Any, str],
    *,
    x: float = 0,
    y: float = 0,
    size: float = CELL,
    action: Callable[[int, int], Any] | None = None,
    title: Callable[[int, int], str | None] | str | None = None,
) -> str:
    """A grid of hexagons with points at the top, in which every second row lies half a cell further right.

    It is `size` times the longest row, and half a cell more, wide; each row adds `0.866 * size` to its height, and the
    last one 0.29 more. Arguments are those of `grid`.
    """
    radius = size / 3**0.5
    corners = [(0, -1), (0.866, -0.5), (0.866, 0.5), (0, 1), (-0.866, 0.5), (-0.866, -0.5)]

    def shape(column: int, row: int, value: Any) -> str:
        mid_x, mid_y = x + (column + 0.5 + row % 2 / 2) * size, y + radius + row * size * _ROW / CELL
        points = " ".join(f"{_n(mid_x + 0.95 * radius * dx)},{_n(mid_y + 0.95 * radius * dy)}" for dx, dy in corners)
        return f'<polygon points="{points}" {_fill(value, colours)}/>{_written(value, colours, mid_x, mid_y, size)}'

    return _cells(cells, shape, action, title)


def token(
    x: float,
    y: float,
    label: object = "",
    *,
    colour: str = SEATS[0],
    radius: float = CELL * 0.4,
    action: Any = None,
    title: str | None = None,
) -> str:
    """A round piece around `x` and `y`, with a label of a letter or two; without action or title, clicks go through."""
    disc = f'<circle cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}" fill="{_plain(colour)}"/>'
    return _piece(disc, _text(label, x, y, radius, "#fff"), action=action, title=title)


def arrow(
    x1: float,
    y1: float,
    x2: float,
    y2: float,
    *,
    colour: str = INK,
    width: float = CELL * 0.1,
    action: Any = None,
    title: str | None = None,
) -> str:
    """An arrow from one place to another; a point, if they are the same."""
    long = hypot(x2 - x1, y2 - y1) or 1.0
    dx, dy = (x2 - x1) / long, (y2 - y1) / long
    head = min(4 * width, long)
    back_x, back_y = x2 - head * dx, y2 - head * dy
    corners = [(x2, y2), *((back_x - side * dy, back_y + side * dx) for side in (head / 2, -head / 2))]
    points = " ".join(f"{_n(left)},{_n(top)}" for left, top in corners)
    shaft = f'x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(back_x)}" y2="{_n(back_y)}" stroke-width="{_n(width)}"'
    ink = _plain(colour)
    line = f'<line {shaft} stroke="{ink}" stroke-linecap="round"/><polygon points="{points}" fill="{ink}"/>'
    return _piece(line, action=action, title=title)


def card(
    label: object = "",
    *,
    x: float = 0,
    y: float = 0,
    face: bool = True,
    colour: str = "#1d2330",
    action: Any = None,
    title: str | None = None,
) -> str:
    """A card of 16 by 22 units; its label, in `colour`, is not in the picture if it lies face down."""
    shown = (
        _text(label, x + 8, y + 11, 16 / max(len(str(label)), 2), _plain(colour))
        if face
        else f'<rect x="{_n(x + 2.4)}" y="{_n(y + 2.4)}" width="11.2" height="17.2" rx="0.8" fill="#7f92d4"/>'
    )
    paper = f'fill="{"#fff" if face else "#4a5fa5"}" stroke="#8a8f9c" stroke-width="0.5"'
    sheet = f'<rect x="{_n(x + 0.4)}" y="{_n(y + 0.4)}" width="15.2" height="21.2" rx="1.6" {paper}/>'
    return _part(sheet, shown, action=action, title=title)


def hand(
    cards: Sequence[object],
    hidden: int = 0,
    *,
    x: float = 0,
    y: float = 0,
    colour: str = "#1d2330",
    action: Callable[[int], Any] | None = None,
    title: Callable[[int], str | None] | str | None = None,
) -> str:
    """Cards side by side, 17 units each: those whose labels are given, then `hidden` ones that lie face down.

    `action` and the function `title` take the number of a card, from 0.
    """
    row = [
        card(
            cards[n] if n < len(cards) else "",
            x=x + 17 * n,
            y=y,
            face=n < len(cards),
            colour=colour,
            action=action(n) if action else None,
            title=title(n) if callable(title) else None,
        )
        for n in range(len(cards) + hidden)
    ]
    return _part(*row, title=None if callable(title) else title)


def seat_row(
    players: Sequence[str],
    out: Collection[int] = (),
    *,
    x: float = 0,
    y: float = 0,
    width: float = 4 * CELL,
    marks: Mapping[int, object] | None = None,
    action: Callable[[int], Any] | None = None,
    title: Callable[[int], str | None] | str | None = None,
) -> str:
    """The seats side by side, `width` by 10 units each: number, name, and what is said of them; `out` is struck out.

    Args:
        players: Their names, such as `self.names`.
        out: The seats that are out of the game.
        x: The left end.
        y: The upper end.
        width: The width of a seat; longer names are shortened.
        marks: A word about some seats, such as a score.
        action: What a click does, by seat.
        title: What a seat is, by seat; or what the whole is.
    """
    row: list[str] = []
    most = max(int((width - CELL) / 2), 1)
    for seat, name in enumerate(players):
        left, gone = x + seat * width, seat in out
        mark = (marks or {}).get(seat)
        says = name if mark is None else f"{name} {mark}"
        says = says if len(says) <= most else f"{says[: most - 1]}…"
        style = 'text-decoration="line-through" opacity="0.5" ' * gone + f'font-size="3.6" fill="{INK}"'
        row.append(
            _part(
                f'<rect x="{_n(left + 0.5)}" y="{_n(y + 0.5)}" width="{_n(width - 1)}" height="9" rx="2" fill="none" '
                f'stroke="{INK}" stroke-opacity="0.35" stroke-width="0.4" pointer-events="all"/>',
                token(left + 5, y + 5, seat, colour="#7f8c8d" if gone else SEATS[seat % len(SEATS)], radius=3),
                f'<text x="{_n(left + 9.5)}" y="{_n(y + 6.3)}" {style}>{_plain(says)}</text>',
                action=action(seat) if action else None,
                title=title(seat) if callable(title) else f"{seat}: {name}{', out' * gone}",
            )
        )
    return _part(*row, title=None if callable(title) else title)


def bars(
    values: Sequence[float],
    labels: Sequence[object] = (),
    *,
    most: float | None = None,
    x: float = 0,
    y: float = 0,
    width: float = 8 * CELL,
    colours: Sequence[str] = SEATS,
    action: Callable[[int], Any] | None = None,
    title: Callable[[int], str | None] | str | None = None,
) -> str:
    """Bars one below the other, each 8 units high, with their labels before and their values after them.

    Args:
        values: How long they are; what is below 0 has no bar.
        labels: Their labels, as far as there are any.
        most: The value of a bar of full length; by default the largest.
        x: The left end.
        y: The upper end.
        width: The width of everything, of which labels take a quarter and values an eighth.
        colours: Their colours, by turns.
        action: What a click does, by number.
        title: What a bar is, by number; or what the whole is.
    """
    full = max(values, default=0) if most is None else most
    before, long = (width / 4 if labels else 0), width * (5 / 8 if labels else 7 / 8)
    rows: list[str] = []
    for n, value in enumerate(values):
        top, part = y + 8 * n, long * min(max(value / full, 0), 1) if full > 0 else 0
        ends = (
            f'<rect x="{_n(x)}" y="{_n(top)}" width="{_n(width)}" height="8" fill="none" pointer-events="all"/>',
            f'<rect x="{_n(x + before)}" y="{_n(top + 1)}" width="{_n(part)}" height="6" rx="1" '
            f'fill="{_plain(colours[n % len(colours)])}"/>',
            f'<text x="{_n(x + before + part + 1)}" y="{_n(top + 5.4)}" font-size="4" fill="{INK}">{_n(value)}</text>',
        )
        label = _plain(str(labels[n])) if n < len(labels) else ""
        named = f'<text x="{_n(x)}" y="{_n(top + 5.4)}" font-size="4" fill="{INK}">{label}</text>' if label else ""
        told = title(n) if callable(title) else None
        rows.append(_part(*ends, named, action=action(n) if action else None, title=told))
    return _part(*rows, title=None if callable(title) else title)


def _part(*inner: str, action: Any = None, title: str | None = None) -> str:
    """A group of shapes; the button that they are, if they do something."""
    match action:
        case None:
            does = ""
        case Pick(value, fields):
            does = f' data-field="{_plain(" ".join(fields))}" data-value="{_json(value)}"'
        case _:
            does = f' data-action="{_json(action)}"'
    return f"<g{does}>{_title(title)}{''.join(inner)}</g>"


def _piece(*inner: str, action: Any, title: str | None) -> str:
    """The same for what lies on something else, which a click on it then reaches."""
    if action is None and title is None:
        return f'<g pointer-events="none">{"".join(inner)}</g>'
    return _part(*inner, action=action, title=title)


def _json(value: Any) -> str:
    try:
        return _plain(to_json(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"an action of a picture is a JSON value, not {value!r}: {error}") from error


def _title(title: str | None) -> str:
    return "" if title is None else f"<title>{_plain(title)}</title>"


def _cells(
    cells: Cells,
    shape: Callable[[int, int, Any], str],
    action: Callable[[int, int], Any] | None,
    title: Callable[[int, int], str | None] | str | None,
) -> str:
    def parts() -> Iterator[str]:
        for row, values in enumerate(cells):
            for column, value in enumerate(values):
                does = action(column, row) if action else None
                told = title(column, row) if callable(title) else None
                yield _part(shape(column, row, value), action=does, title=told)

    return _part(*parts(), title=None if callable(title) else title)


def _fill(value: Any, colours: Mapping[Any, str]) -> str:
    if value in colours:
        return f'fill="{_plain(colours[value])}"'
    return f'fill="{INK}" fill-opacity="0.08"'


def _written(value: Any, colours: Mapping[Any, str], x: float, y: float, size: float) -> str:
    return "" if value in colours or value in (None, " ") else _text(value, x, y, size * 0.5, INK)


def _text(label: object, x: float, y: float, size: float, fill: str) -> str:
    """A label around a place; empty if there is none."""
    if str(label) == "":
        return ""
    # Not `dominant-baseline`, which browsers and programs that convert pictures do not agree on
    place = f'x="{_n(x)}" y="{_n(y + size * 0.35)}" font-size="{_n(size)}"'
    return f'<text {place} text-anchor="middle" fill="{fill}">{_plain(str(label))}</text>'


def _plain(text: str) -> str:
    """Text as XML, with a space for each character that XML cannot have."""
    return escape(_NOT_XML.sub(" ", text))


def _n(number: float) -> str:
    """A number as short as it is exact enough."""
    return f"{number:.2f}".rstrip("0").rstrip(".")
