"""No module needs, by way of others, itself."""

from __future__ import annotations

import pytest
from support.import_graph import DISTRIBUTIONS, EXAMPLES, circles, import_graph

ALLOWED = {
    "a client hands itself to its nouns, which reach each other by it; only for types, or when a noun is first used": {
        *("coworld_client.client", "coworld_client.uploads"),
        *("coworld_client.watching", "coworld_client.resources"),
    },
    "a server's handlers know, for types, the collector that has started it": {
        *("coworld_runner.collector.serving", "coworld_runner.collector.start"),
    },
    "a run and its pods know each other, for types": {
        *("coworld_runner.backends.kubernetes._runs", "coworld_runner.backends.kubernetes._units"),
    },
}
"""What goes in circles once imports of functions and for type checkers are counted: modules, or the packages they are
in. Nothing is to be added; what is in no circle any more is to be taken out."""


@pytest.mark.parametrize("members", [DISTRIBUTIONS, *((member,) for member in EXAMPLES)], ids=lambda found: found[0])
def test_loading_a_module_never_comes_back_to_it(members: tuple[str, ...]) -> None:
    assert circles(import_graph(*members, loaded=True)) == []


def test_no_other_imports_go_in_circles() -> None:
    rest = dict(ALLOWED)
    for circle in circles(import_graph(*DISTRIBUTIONS)):
        why = next((why for why, allowed in rest.items() if any(_within(name, allowed) for name in circle)), None)
        assert why is not None, f"these import each other: {sorted(circle)}"
        allowed = rest.pop(why)
        assert {name for name in circle if not _within(name, allowed)} == set(), f"the circle has grown: {why}"
        gone = {entry for entry in allowed if not any(_within(name, {entry}) for name in circle)}
        assert gone == set(), "in no circle any more, so it is to be taken out of the list"
    assert rest == {}, "in no circle any more, so it is to be taken out of the list"


def test_no_packages_go_in_circles() -> None:
    """The same for the folders of a distribution, each as one: what is shared lies below both."""
    folders: dict[str, set[str]] = {}
    for name, targets in import_graph(*DISTRIBUTIONS, loaded=True).items():
        own = folders.setdefault(_folder(name), set())
        own.update({_folder(target) for target in targets} - {_folder(name)})
    graph = {name: frozenset(targets & folders.keys()) for name, targets in folders.items()}
    assert circles(graph) == []


def test_a_circle_is_seen() -> None:
    graph = {name: frozenset(targets) for name, targets in {"a": "b", "b": "c", "c": "a", "d": "a", "e": "e"}.items()}
    assert circles(graph) == [{"a", "b", "c"}, {"e"}]


def _within(name: str, entries: set[str]) -> bool:
    return any(f"{name}.".startswith(f"{entry}.") for entry in entries)


def _folder(name: str) -> str:
    return ".".join(name.split(".")[:2])
