"""Finds secrets of one seat in what another one sees: another secret in their place must change nothing for it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, cast

from .game import Rules, draw_for, draws_seats
from .plain_values import to_json
from .spectator_views import Open

__all__ = ["leaks", "view_difference"]

_OTHERS: Final = 3
"""Maximum number of other values that are tried in place of a secret."""


def view_difference(one: Rules, other: Rules, *, seat: int | None) -> str | None:
    """Compare what a seat sees of two states of a game, for example of two that differ only in another seat's hand.

    Args:
        one: A state.
        other: Another one, such as a `copy.deepcopy` of it in which a secret has been replaced.
        seat: The seat; None for spectators.

    Returns:
        The first method whose answer differs, with both answers; None if the seat cannot tell the states apart.
    """
    return _difference(_views(one, seat), _views(other, seat))


def _difference(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str | None:
    for name, seen in ours.items():
        if seen != theirs[name]:
            return f"{name} gave {seen} and {theirs[name]}"
    return None


def _views(rules: Rules, seat: int | None) -> dict[str, str]:
    if seat is None:
        return {"draw": rules.draw(None) if draws_seats(type(rules)) else rules.draw()}
    acts = seat in rules.to_act()
    legal: Sequence[Any] | None = rules.legal(seat) if acts else ()
    return {
        "observe": to_json(rules.observe(seat)),
        "text": to_json(rules.text(seat)),
        "draw": draw_for(rules, seat),
        "to_act": "its turn" if acts else "not its turn",
        "legal": to_json(None if legal is None else [rules.name_action(seat, action) for action in legal]),
    }


def leaks(states: Sequence[Rules], *, late: Callable[[], bool]) -> Generator[tuple[str, str]]:
    """Find secrets that those see who must not.

    Args:
        states: Copies of states of a game, of one or more episodes, each before its end. Values of one are tried in
            place of those of another.
        late: Returns whether to stop.

    Yields:
        The attribute, and what is wrong with it, once for an attribute and seats, and once for it and spectators.
    """
    known: dict[tuple[str, str], dict[str, Any]] = {}
    for state in states:
        for name, _, value in _secrets(state):
            values = known.setdefault((name, _shape(value)), {})
            values.setdefault(repr(value), value)
            if isinstance(value, list | tuple):
                turned = cast("Sequence[Any]", value)[::-1]
                values.setdefault(repr(turned), turned)
    told: set[tuple[str, bool]] = set()
    for state in states:
        seen: dict[int | None, dict[str, str]] = {}
        for name, owner, value in _secrets(state):
            others = [one for text, one in known[name, _shape(value)].items() if text != repr(value)]
            for other in others[:_OTHERS]:
                if late():
                    return
                changed = _replaced(state, name, owner, other)
                for viewer in _strangers(state, owner):
                    if (name, viewer is None) in told:
                        continue
                    if viewer not in seen:
                        seen[viewer] = _views(copy.deepcopy(state), viewer)
                    difference = None
                    # Anything may be raised where this value cannot stand, beside the rest of the state.
                    with suppress(Exception):
                        difference = _difference(seen[viewer], _views(changed, viewer))
                    if difference is not None:
                        told.add((name, viewer is None))
                        who = "spectators, and so every seat, see" if viewer is None else f"seat {viewer} sees"
                        whose = f"{name}" if owner is None else f"{name} of seat {owner}"
                        yield name, f"{who} {whose}: with {value!r} and with {other!r} there, {difference}"


def _strangers(state: Rules, owner: Any) -> list[int | None]:
    """Those who must not see a secret."""
    seats: list[int | None] = [seat for seat in range(state.seats) if seat != owner]
    return [*seats, None] if isinstance(state.spectators, Open) else seats


def _secrets(state: Rules) -> Generator[tuple[str, Any, Any]]:
    """The secrets of a state: attribute, the seat that may see it, if any, and value."""
    for name in state.secret_attributes():
        value: Any = getattr(state, name)
        if isinstance(value, Mapping) and set(cast("Mapping[Any, Any]", value)) <= set(range(state.seats)):
            yield from ((name, seat, item) for seat, item in cast("Mapping[Any, Any]", value).items())
        elif isinstance(value, list | tuple) and len(cast("Sequence[Any]", value)) == state.seats:
            yield from ((name, seat, item) for seat, item in enumerate(cast("Sequence[Any]", value)))
        else:
            yield name, None, value


def _replaced(state: Rules, name: str, owner: Any, other: Any) -> Rules:
    """A copy of a state with another value in place of a secret."""
    changed = copy.deepcopy(state)
    value: Any = getattr(changed, name)
    other = copy.deepcopy(other)
    if owner is None:
        setattr(changed, name, other)
    elif isinstance(value, tuple):
        items = cast("tuple[Any, ...]", value)
        setattr(changed, name, (*items[:owner], other, *items[owner + 1 :]))
    else:
        value[owner] = other
    return changed


def _shape(value: Any) -> str:
    """What all may know of a secret: its type, its length, and the same of what is in it."""
    kind = type(value).__name__
    if isinstance(value, str | bytes | set | frozenset):
        return f"{kind}{len(cast('str', value))}"
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value)
        return f"{kind}{ {repr(key): _shape(item) for key, item in items.items()} }"
    if isinstance(value, list | tuple):
        return f"{kind}[{','.join(map(_shape, cast('Sequence[Any]', value)))}]"
    return kind
