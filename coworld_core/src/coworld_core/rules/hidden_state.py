"""Finds secrets of one seat in what another one sees: another secret in their place must change nothing for it."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable, Collection, Generator, Mapping, Sequence, Set, Sized
from itertools import islice
from typing import Any, Final, cast

from .game import Rules, draw_for, draws_seats
from .plain_values import to_json
from .play import public_value
from .spectator_views import Delayed, Open

__all__ = ["leaks", "view_difference"]

_EVERYBODY: Final = -1
"""Stands for those who know only what is public, among the seats that look."""

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
    public = {name: to_json(public_value(rules, name)) for name in rules.public}
    if seat == _EVERYBODY:
        return public
    if seat is None:
        told = public | {"draw": rules.draw(None) if draws_seats(type(rules)) else rules.draw()}
        told |= {"to_act": to_json(rules.to_act()), "eliminated": to_json(rules.eliminated())}
        return told | ({"scores": to_json(rules.scores())} if rules.live_scores else {})
    acts = seat in rules.to_act()
    legal: Sequence[Any] | None = rules.legal(seat) if acts else ()
    return {
        "observe": to_json(rules.observe(seat)),
        "text": to_json(rules.text(seat)),
        "draw": draw_for(rules, seat),
        "to_act": "its turn" if acts else "not its turn",
        "legal": to_json(None if legal is None else [rules.name_action(seat, action) for action in legal]),
    }


def leaks(
    moments: Sequence[tuple[Rules, Rules | None]], *, late: Callable[[], bool]
) -> Generator[tuple[str, str, str]]:
    """Find secrets that those see who must not.

    Args:
        moments: Copies of states of a game, of one or more episodes, each before its end, and each with the state in
            which spectators see it if that is a later one. Values of one are tried in place of those of another.
        late: Returns whether to stop.

    Yields:
        `rules_leak_secret` with the attribute and what is wrong with it, once for an attribute and seats, and once for
        it and spectators; then `rules_secret_untried` for each attribute of which nothing else can be said.
    """
    known: dict[tuple[str, bool], dict[str, Any]] = {}
    untried: dict[tuple[str, bool], str | None] = {}
    """Why a secret could not be tried for seats, or for spectators; None if it was."""
    for state, later in moments:
        for name, owner, value, _, viewers in _secrets(state, later):
            values = known.setdefault((name, owner is None), {})
            values.setdefault(_text(value), value)
            if isinstance(value, list | tuple):
                turned = cast("Sequence[Any]", value)[::-1]
                values.setdefault(_text(turned), turned)
            untried |= {(name, viewer is None): _NO_OTHER for viewer in viewers}
    told: set[tuple[str, bool]] = set()
    seen: dict[tuple[int, int | None], dict[str, str]] = {}
    for number, state, name, owner, value, other, viewers in _trials(moments, known):
        if late():
            untried = {one: why and "there was no time to try it" for one, why in untried.items()}
            break
        changed = _replaced(state, name, owner, other)
        for viewer in viewers:
            what = (name, viewer is None)
            if what in told:
                continue
            if (number, viewer) not in seen:
                seen[number, viewer] = _views(copy.deepcopy(state), viewer)
            try:
                difference = _difference(seen[number, viewer], _views(changed, viewer))
            except Exception as error:  # noqa: BLE001
                # Anything may be raised where this value cannot stand, beside the rest of the state.
                untried[what] = untried[what] and f"with {other!r} there, {type(error).__name__} is raised: {error}"
                continue
            untried[what] = None
            if difference is not None:
                told.add(what)
                delayed = f" {state.spectators.ticks} ticks later" if isinstance(state.spectators, Delayed) else ""
                who = f"spectators, and so every seat, see{delayed}" if viewer is None else f"seat {viewer} sees"
                who = "everybody sees (public)" if viewer == _EVERYBODY else who
                whose = f"{name}" if owner is None else f"{name} of seat {owner}"
                problem = f"{who} {whose}: with {value!r} and with {other!r} there, {difference}"
                yield "rules_leak_secret", name, problem
    for (name, spectators), why in untried.items():
        if why is not None:
            who = "spectators" if spectators else "other seats"
            yield "rules_secret_untried", name, f"whether {who} see {name} is not known: {why}"


_NO_OTHER: Final = "there was no other value to put in its place"


def _trials(
    moments: Sequence[tuple[Rules, Rules | None]], known: Mapping[tuple[str, bool], Mapping[str, Any]]
) -> Generator[tuple[int, Rules, str, Any, Any, Any, Collection[int | None]]]:
    """What is tried: number of the moment, state, attribute, owner, its value, another one, and who must not see it."""
    choose = random.Random(0)
    for number, (state, later) in enumerate(moments):
        for name, owner, value, now, viewers in _secrets(state, later):
            for other in _others(value, now, known[name, owner is None], choose):
                yield number, state, name, owner, value, other, viewers


def _secrets(state: Rules, later: Rules | None) -> Generator[tuple[str, Any, Any, Any, Collection[int | None]]]:
    """The secrets of a state: attribute, owner if any, value, its value when it is seen, and who must not see it."""
    everybody = [None] if isinstance(state.spectators, Open) else [_EVERYBODY] if state.public else []
    for name in state.secret_attributes():
        for owner, value in _parts(state, name).items():
            yield name, owner, value, value, [*(seat for seat in range(state.seats) if seat != owner), *everybody]
    for name in later.secret_attributes() if later else ():
        if later and hasattr(state, name):
            now = _parts(later, name)
            yield from ((name, *part, now[part[0]], [None]) for part in _parts(state, name).items() if part[0] in now)


def _parts(state: Rules, name: str) -> dict[Any, Any]:
    """The value of an attribute by seats that may see it, or the whole for None."""
    value: Any = getattr(state, name)
    if value and isinstance(value, Mapping) and set(cast("Mapping[Any, Any]", value)) <= set(range(state.seats)):
        return dict(cast("Mapping[Any, Any]", value))
    if isinstance(value, list | tuple) and len(cast("Sequence[Any]", value)) == state.seats:
        return dict(enumerate(cast("Sequence[Any]", value)))
    return {None: value}


def _others(value: Any, now: Any, known: Mapping[str, Any], choose: random.Random) -> Generator[Any]:
    """Some of the known values that can stand in place of what is still a secret of a value."""
    own = _text(value)
    fitting = (other for text, other in choose.sample(list(known.items()), len(known)) if text != own)
    partly = (_exchanged(value, now, other) for other in fitting if _fits(value, other))
    yield from islice((other for other in partly if _text(other) != own), _OTHERS)


def _exchanged(value: Any, now: Any, other: Any) -> Any:
    """A value in which another one stands in place of what has stayed the same."""
    if _text(value) == _text(now):
        return other
    if isinstance(value, list | tuple) and isinstance(now, list | tuple):
        left = Counter(map(_text, cast("Sequence[Any]", now)))
        items: list[Any] = []
        for mine, its in zip(cast("Sequence[Any]", value), other, strict=True):
            left[text := _text(mine)] -= 1
            items.append(its if left[text] >= 0 else mine)
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, Mapping) and isinstance(now, Mapping):
        one, two = cast("Mapping[Any, Any]", value), cast("Mapping[Any, Any]", now)
        kept = {key for key, item in one.items() if key in two and key in other and _text(item) == _text(two[key])}
        return {key: other[key] if key in kept else item for key, item in one.items()}
    return cast("Any", value)


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


def _fits(value: Any, other: Any) -> bool:
    """Whether two values have what all may know of a secret in common: how many items they consist of."""
    if isinstance(value, str | bytes) or not isinstance(value, Sized):
        return isinstance(other, str | bytes) or not isinstance(other, Sized)
    if isinstance(other, str | bytes) or not isinstance(other, Sized) or len(value) != len(other):
        return False
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        one, two = cast("Mapping[Any, Any]", value), cast("Mapping[Any, Any]", other)
        items = zip(one.values(), (two[key] for key in one) if one.keys() == two.keys() else two.values(), strict=True)
        return all(_fits(*pair) for pair in items)
    if isinstance(value, list | tuple) and isinstance(other, list | tuple):
        return all(map(_fits, cast("Sequence[Any]", value), cast("Sequence[Any]", other)))
    return type(cast("object", value)) is type(cast("object", other))


def _text(value: Any, depth: int = 8) -> str:
    """A text that equal values have in common, also sets, and objects that do not say what they are."""
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
    if not depth:
        return kind.__name__
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return f"{kind.__name__}{sorted((_text(key, depth - 1), _text(item, depth - 1)) for key, item in items)}"
    if isinstance(value, Set):
        return f"{kind.__name__}{sorted(_text(item, depth - 1) for item in cast('Set[Any]', value))}"
    if isinstance(value, list | tuple):
        return f"{kind.__name__}{[_text(item, depth - 1) for item in cast('Sequence[Any]', value)]}"
    if kind.__repr__ is object.__repr__ and hasattr(value, "__dict__"):
        return f"{kind.__name__}{_text(vars(value), depth - 1)}"
    return repr(value)
