"""Frozen dataclasses of our own making, compared with those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import FrozenInstanceError, field
from typing import Any

import pytest

from coworld_core.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Ours:
    name: str
    many: tuple[int, ...] = ()
    secret: str = field(default="", repr=False)
    aside: list[int] = field(default_factory=list[int], compare=False)

    @property
    def loud(self) -> str:
        return self.name.upper()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Theirs:
    name: str
    many: tuple[int, ...] = ()
    secret: str = field(default="", repr=False)
    aside: list[int] = field(default_factory=list[int], compare=False)


@dataclass(frozen=True)
class Worded:
    word: str

    def __repr__(self) -> str:
        return f"<{self.word}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Worded) and self.word[0] == other.word[0]

    def __hash__(self) -> int:
        return hash(self.word[0])


@dataclass(frozen=True, eq=False)
class Alone:
    word: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wider(Ours):
    more: int = 0


@pytest.mark.parametrize("kind", [Ours, Theirs])
def test_values_are_compared_shown_copied_and_frozen(kind: Any) -> None:
    one = kind(name="a", many=(1, 2), secret="s", aside=[1])
    assert one == kind(name="a", many=(1, 2), secret="s", aside=[2])
    assert one != kind(name="a", many=(1, 2))
    assert len({one, kind(name="a", many=(1, 2), secret="s")}) == 1
    assert repr(one) == f"{kind.__name__}(name='a', many=(1, 2), aside=[1])"
    assert dataclasses.replace(one, name="b") == kind(name="b", many=(1, 2), secret="s")
    assert dataclasses.asdict(one) == {"name": "a", "many": (1, 2), "secret": "s", "aside": [1]}
    assert pickle.loads(pickle.dumps(one)) == copy.copy(one) == copy.deepcopy(one) == one
    for change in (lambda: setattr(one, "name", "b"), lambda: setattr(one, "x", 1), lambda: delattr(one, "name")):
        with pytest.raises(FrozenInstanceError):
            change()
    assert vars(one) == {"name": "a", "many": (1, 2), "secret": "s", "aside": [1]}
    with pytest.raises(TypeError, match="name"):
        kind()
    with pytest.raises(TypeError, match="positional"):
        kind("a")
    assert one != Alone("a")


def test_a_class_keeps_what_it_defines_itself() -> None:
    assert Ours(name="a").loud == "A"
    assert repr(Worded("word")) == "<word>"
    assert Worded("word") == Worded("wide")
    assert len({Worded("word"), Worded("wide")}) == 1
    assert Alone("a") != Alone("a")
    assert len({Alone("a"), Alone("a")}) == 2


def test_one_that_contains_itself_is_shown() -> None:
    one = Ours(name="a")
    one.aside.append(one)  # type: ignore[arg-type]
    assert repr(one) == "Ours(name='a', many=(), aside=[...])"


def test_a_frozen_dataclass_may_have_more_fields() -> None:
    wider = Wider(name="a", more=3)
    assert (wider.name, wider.more) == ("a", 3)
    assert wider != Wider(name="a")
    with pytest.raises(FrozenInstanceError):
        wider.more = 4  # type: ignore[misc]
