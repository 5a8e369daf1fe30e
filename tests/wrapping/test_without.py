"""What is said where a library is missing, or named wrongly, and a player that practises on any rules."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from support.games import kit_examples

from coworld_core.errors import UsageError
from coworld_core.rules import Play, Rules
from coworld_runner.kit.rollout import rollout, rollouts
from coworld_runner.kit.wrappers import OpenSpiel, Practised, list_wrappable, wrap_game
from coworld_runner.kit.wrappers.card import measure_card

NIM = Path(__file__).parents[2] / "examples" / "nim"


def test_a_missing_library_is_named_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    with pytest.raises(UsageError) as refused:
        wrap_game("openspiel:hanabi", directory=tmp_path / "hanabi")
    assert refused.value.code == "library_missing"
    assert "pip install open_spiel" in str(refused.value.hint)
    assert not (tmp_path / "hanabi").exists()
    # A directory that cannot be is said at once
    (tmp_path / "taken").write_text("Mine.")
    for place, code in (("taken", "path_taken"), ("taken/game", "path_unwritable"), ("sys", "bad_name")):
        with pytest.raises(UsageError) as refused:
            wrap_game("openspiel:hanabi", directory=tmp_path / place)
        assert refused.value.code == code
    with pytest.raises(UsageError):
        list_wrappable("openspiel")
    # Where the package is but not the library, loading the rules says so.
    with pytest.raises(UsageError):
        type("Hanabi", (OpenSpiel,), {})


@pytest.mark.parametrize("source", ["", "hanabi", "chessbase:chess"])
def test_unknown_library_lists_the_supported_ones(source: str) -> None:
    with pytest.raises(UsageError, match="not a library") as refused:
        wrap_game(source)
    assert "openspiel" in str(refused.value.hint)


def test_practised_player_wins() -> None:
    nim = next(rules for rules in kit_examples() if rules.__name__ == "Nim")
    player = Practised(nim, moves=10_000, seconds=60)
    won = sum(done.scores[0] for done in rollouts(nim, [player.act, "random"], episodes=100))
    assert won > 75


class _Looked(Sequence[str]):
    def __init__(self) -> None:
        self.looks = 0

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: Any) -> Any:
        self.looks += 1
        return ("a", "b", "c")[index]


class Short(Rules):
    """Says one of three letters, three times over."""

    seats = 1
    looked: ClassVar[list[_Looked]] = []

    def start(self) -> None:
        self.said: list[str] = []

    def to_act(self) -> list[int]:
        return [0] if len(self.said) < 3 else []

    def legal(self, seat: int) -> _Looked:
        self.looked.append(_Looked())
        return self.looked[-1]

    def observe(self, seat: int) -> list[str]:
        return self.said

    def step(self, actions: Any) -> None:
        self.said.append(actions[0])

    def scores(self) -> list[float]:
        return [1.0]


def test_legal_actions_are_made_lazily() -> None:
    Short.looked.clear()
    rollout(Short, "random")
    assert [one.looks for one in Short.looked] == [1, 1, 1]

    def act(observation: Any, legal: Any, rng: random.Random) -> Any:
        assert legal == ["a", "b", "c"]
        return legal[1]

    done = rollout(Short, act, record=True)
    assert done.refused == (0,)
    play = Play(Short)
    assert play.legal(0) == ['"a"', '"b"', '"c"']
    assert play.read(0, "c") == "c"


@pytest.mark.slow
def test_a_card_of_any_rules() -> None:
    card = measure_card("nim:Nim", directory=NIM, seats=2, policy="players/counter.py")
    assert card.findings == ()
    assert card.steps_per_second > 0
    assert card.margin is not None
    assert card.margin.low is not None
    assert card.margin.low > 0
    assert "| Deterministic | yes |" in card.markdown()
