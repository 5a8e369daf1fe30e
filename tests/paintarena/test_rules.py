"""The rules, against a slow and obvious second telling of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paintarena.match import Lateness
from paintarena.rules import MOVES, NOBODY, Action, Board, action_from

ACTIONS: list[Action] = list(MOVES)


def retell(width: int, height: int, slots: int, ticks: list[list[Action]]) -> tuple[list[list[int]], list[int]]:
    """Play a game the long way: no held state, no running scores."""
    corners = [[0, 0], [width - 1, height - 1], [0, height - 1], [width - 1, 0]]
    places = [list(corners[slot % 4]) for slot in range(slots)]
    owners = [NOBODY] * (width * height)
    for actions in ticks:
        for slot, action in enumerate(actions):
            dx, dy = MOVES[action]
            if 0 <= places[slot][0] + dx < width:
                places[slot][0] += dx
            if 0 <= places[slot][1] + dy < height:
                places[slot][1] += dy
        for slot, (x, y) in enumerate(places):
            owners[y * width + x] = slot
    return places, owners


@given(data=st.data(), width=st.integers(1, 9), height=st.integers(1, 9), slots=st.integers(1, 5))
def test_a_game_ends_as_the_rules_say(data: st.DataObject, width: int, height: int, slots: int) -> None:
    one_tick = st.lists(st.sampled_from(ACTIONS), min_size=slots, max_size=slots)
    ticks = data.draw(st.lists(one_tick, max_size=30))
    board = Board(width, height, slots=slots)
    for actions in ticks:
        for slot, action in enumerate(actions):
            board.hold(slot, action)
        board.step()
    places, owners = retell(width, height, slots, ticks)
    state = board.state()
    assert state["positions"] == places
    assert state["tile_owners"] == owners
    assert state["scores"] == [owners.count(slot) for slot in range(slots)] == list(board.scores)
    assert state["tick"] == board.tick == len(ticks)


def test_slots_start_in_corners_and_nothing_is_painted() -> None:
    state = Board(7, 5, slots=5).state()
    assert state["positions"] == [[0, 0], [6, 4], [0, 4], [6, 0], [0, 0]]
    assert set(state["tile_owners"]) == {NOBODY}
    assert state["scores"] == [0] * 5


def test_an_action_is_held_until_changed() -> None:
    board = Board(9, 4, slots=1)
    assert board.held(0) == "stay"
    board.hold(0, "right")
    for _ in range(3):
        board.step()
    board.hold(0, "stay")
    board.step()
    assert board.state()["positions"] == [[3, 0]]
    assert board.scores == (3,), "the start tile is painted only by standing on it at the end of a tick"


def test_the_higher_slot_owns_a_shared_tile() -> None:
    board = Board(4, 4, slots=5)  # Slots 0 and 4 share a corner
    board.step()
    assert board.state()["tile_owners"][0] == 4
    assert board.scores == (0, 1, 1, 1, 1)


def test_a_state_is_a_copy() -> None:
    board = Board(4, 4, slots=2)
    before = board.state()
    board.hold(0, "right")
    board.step()
    assert before["positions"][0] == [0, 0]
    assert set(before["tile_owners"]) == {NOBODY}


@pytest.mark.parametrize("word", ["jump", "", "UP", "up ", "stay"])
def test_an_unknown_word_means_stay(word: str) -> None:
    assert action_from(word) == "stay"


@pytest.mark.parametrize("action", ACTIONS)
def test_every_action_has_its_word(action: Action) -> None:
    assert action_from(action) == action


@pytest.mark.parametrize(("width", "height", "slots"), [(0, 4, 2), (4, 0, 2), (4, 4, 0)])
def test_an_empty_board_is_refused(width: int, height: int, slots: int) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        Board(width, height, slots=slots)


@pytest.mark.parametrize(("delay", "late"), [(-1.0, False), (0.0, False), (0.1, False), (0.11, True)])
def test_a_tick_is_late_after_a_whole_period(delay: float, late: bool) -> None:
    lateness = Lateness()
    assert lateness.note(delay, period=0.1) is late
    assert lateness.ticks == int(late)
    assert lateness.worst == (delay if late else 0)
