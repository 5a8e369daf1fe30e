"""When something is tried again: by which statuses, after how long, and how often."""

from __future__ import annotations

import itertools
import math
import random
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coworld_core.retries import Backoff, Tries, retry_after, says_later

NOW = datetime(2001, 1, 1, tzinfo=UTC)
YEAR = 366 * 86400.0


@pytest.mark.parametrize(
    ("statuses", "repeatable", "otherwise"),
    [
        ((408, 425, 429, 502, 503, 504), True, True),
        ((500, 507, 520, 529), True, False),
        ((501, 505, 511), False, False),
        ((200, 304, 400, 401, 403, 404, 409, 410, 412, 416, 422), False, False),
    ],
)
def test_statuses_that_mean_later(statuses: tuple[int, ...], repeatable: bool, otherwise: bool) -> None:
    for status in statuses:
        assert says_later(status) is repeatable, status
        assert says_later(status, repeatable=False) is otherwise, status


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("", None),
        ("3", 3.0),
        (" 3 ", 3.0),
        ("0.5", 0.5),
        ("-2", 0.0),
        ("9" * 400, YEAR),
        ("soon", None),
        ("nan", None),
        ("Mon, 99 Foo", None),
        (format_datetime(NOW + timedelta(seconds=7), usegmt=True), 7.0),
        (format_datetime(NOW - timedelta(seconds=7), usegmt=True), 0.0),
        ("Mon, 01 Jan 2001 01:00:05 +0100", 5.0),
        ("Mon, 01 Jan 2001 00:00:05 -0000", 5.0),
    ],
)
def test_retry_after(value: str, seconds: float | None) -> None:
    assert retry_after({"retry-after": value}, NOW) == seconds


def test_a_date_counts_by_the_servers_clock_where_it_tells_the_time() -> None:
    until = format_datetime(NOW + timedelta(seconds=7), usegmt=True)
    elsewhere = NOW - timedelta(days=3)
    assert retry_after({"retry-after": until, "date": format_datetime(NOW, usegmt=True)}, elsewhere) == 7.0
    assert retry_after({"retry-after": until, "date": "today"}, NOW) == 7.0
    assert retry_after({"retry-after": until}) == 0.0


@given(st.text(alphabet=st.characters(codec="latin-1")) | st.from_regex(r"\w{3}, [-0-9 ]{1,9}\w{3} [-0-9: +]{1,30}"))
def test_no_header_is_more_than_a_year_or_an_error(value: str) -> None:
    seconds = retry_after({"retry-after": value, "date": value[::-1]}, NOW)
    assert seconds is None or 0.0 <= seconds <= YEAR


backoffs = st.builds(
    Backoff,
    base=st.floats(0, 10),
    cap=st.floats(0, 100),
    longest_wait=st.floats(0, 100),
    draw=st.integers().map(lambda seed: random.Random(seed).random),
)


@given(backoffs, st.integers(0, 10_000))
def test_a_pause_is_below_a_bound_that_doubles_and_above_half_of_it(backoff: Backoff, attempt: int) -> None:
    pause = backoff.pause(attempt)
    bound = min(backoff.cap, backoff.base * 2.0 ** min(attempt, 100))
    assert pause is not None
    assert pause <= bound
    # Beyond that a base is doubled no more, which only matters to one that is next to nothing
    assert attempt > 30 or bound / 2 <= pause


@given(backoffs, st.integers(0, 10_000), st.floats(0, 200))
def test_the_server_decides_how_long_up_to_a_bound(backoff: Backoff, attempt: int, asked: float) -> None:
    pause = backoff.pause(attempt, asked)
    if asked > backoff.longest_wait:
        assert pause is None
    else:
        assert pause is not None
        assert asked <= pause <= asked + 0.25


def test_pauses_differ_and_are_the_same_from_the_same_source() -> None:
    def some(seed: int) -> list[float]:
        return list(itertools.islice(Backoff(draw=random.Random(seed).random).pauses(), 9))

    assert some(1) == some(1)
    assert not set(some(1)) & set(some(2))
    assert [Backoff(draw=random.Random(1).random).pause(0)] == some(1)[:1]
    assert Backoff().pause(0) != Backoff().pause(0)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@given(backoffs, st.integers(1, 20))
def test_as_many_tries_as_there_may_be(backoff: Backoff, most: int) -> None:
    tries = Tries(backoff, most=most)
    pauses = [tries.again() for _ in range(most)]
    assert None not in pauses[:-1]
    assert pauses[-1] is None
    assert tries.failures == most


@given(backoffs.filter(lambda backoff: min(backoff.base, backoff.cap) > 0.01), st.floats(0, 60), st.floats(0, 5))
def test_with_patience_the_last_try_is_made_when_it_ends(backoff: Backoff, retry_timeout: float, took: float) -> None:
    clock = Clock()
    tries = Tries(backoff, retry_timeout=retry_timeout, clock=clock)
    began = clock.now
    clock.now += took
    ended = clock.now
    while (pause := tries.again()) is not None:
        assert pause >= 0
        ended = clock.now = clock.now + pause
    assert ended == pytest.approx(began + max(retry_timeout, took))


def test_a_server_that_asks_for_more_than_is_left_is_not_asked_again() -> None:
    clock = Clock()
    tries = Tries(Backoff(longest_wait=math.inf, draw=lambda: 1.0), retry_timeout=10, clock=clock)
    assert tries.again(9.9) == 10.0
    clock.now += 5
    assert tries.again(6.0) is None
    assert tries.again(5.0) == 5.0


def test_one_that_got_further_has_all_tries_and_all_patience_again() -> None:
    clock = Clock()
    tries = Tries(Backoff(draw=lambda: 1.0), most=3, retry_timeout=10, clock=clock)
    first = tries.again()
    assert tries.again() != first
    clock.now += 10
    tries.got_further()
    assert tries.again() == first
    assert tries.failures == 1
    clock.now += 10
    assert tries.again() is None
