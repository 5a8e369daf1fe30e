"""Seasons of a league whose log is not kept."""

from __future__ import annotations

from coworld_core.tournament.seasons import risers


def test_promotion_and_relegation_between_divisions() -> None:
    def moved(*ladder: str, moves: int = 1, size: int = 8) -> set[tuple[str, int, int]]:
        return {(one.subject, one.frm, one.to) for one in risers(ladder, moves=moves, size=size)}

    assert moved("", "abcd") == {("a", 1, 0), ("b", 1, 0)}
    assert moved("ab", "cd") == {("b", 0, 1), ("c", 1, 0)}
    assert moved("abc", "de", "fg", size=3) == {("c", 0, 1), ("d", 1, 0), ("e", 1, 2), ("f", 2, 1)}
    assert moved("abcd", "ef", size=2) == {("b", 0, 1), ("c", 0, 1), ("d", 0, 1), ("e", 1, 0)}
    assert moved("ab", "cd", moves=0) == set() == moved("", "a")
