"""No module needs, by way of others, itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from support.import_graph import DISTRIBUTIONS, EXAMPLES, Graph, circles, import_graph

# One worker parses the sources for all tests that read them
pytestmark = pytest.mark.xdist_group("sources")

MEMBERS = (DISTRIBUTIONS, *((member,) for member in EXAMPLES))

ALLOWED = {
    "a client hands itself to its nouns, which reach each other by it; only for types, or when a noun is first used": {
        *("coworld_client.client", "coworld_client.uploads"),
        *("coworld_client.watch", "coworld_client.resources"),
    },
    "a server's handlers know, for types, the collector that has started it": {
        *("coworld_runner.backends.collector.collector_server", "coworld_runner.backends.collector.collector_start"),
    },
    "a run and its pods know each other, for types": {
        *("coworld_runner.backends.kubernetes._run_job", "coworld_runner.backends.kubernetes._kubernetes_unit"),
    },
}
"""What goes in circles once imports of functions and for type checkers are counted: modules, or the packages they are
in. Nothing is to be added; what is in no circle any more is to be taken out."""


def beyond(graph: Graph, allowed: Mapping[str, set[str]]) -> list[str]:
    """Circles that are not allowed, and allowances that are in no circle, in words."""
    found: list[str] = []
    rest = dict(allowed)
    for circle in circles(graph):
        why = next((why for why, entries in rest.items() if any(_within(name, entries) for name in circle)), None)
        entries = rest.pop(why) if why is not None else set[str]()
        if grown := sorted(name for name in circle if not _within(name, entries)):
            found.append(f"{', '.join(grown)}: in a circle of imports: {', '.join(sorted(circle))}")
        for entry in sorted(entries):
            if not any(_within(name, {entry}) for name in circle):
                found.append(f"{entry}: in no circle any more, so it is to be taken out of the list")
    return [*found, *(f"{why}: not so any more, so it is to be taken out of the list" for why in rest)]


def folders(graph: Graph) -> Graph:
    """The imports of the rooms of distributions, each room as one."""
    found: dict[str, set[str]] = {}
    for name, targets in graph.items():
        found.setdefault(_folder(name), set()).update({_folder(target) for target in targets} - {_folder(name)})
    return {name: frozenset(targets & found.keys()) for name, targets in found.items()}


def _within(name: str, entries: set[str]) -> bool:
    return any(f"{name}.".startswith(f"{entry}.") for entry in entries)


def _folder(name: str) -> str:
    return ".".join(name.split(".")[:2])


@pytest.mark.slow
@pytest.mark.parametrize("members", MEMBERS, ids=lambda found: Path(found[0]).name)
def test_loading_a_module_never_comes_back_to_it(members: tuple[str, ...]) -> None:
    assert circles(import_graph(*members, loaded=True)) == []


def test_no_other_imports_go_in_circles() -> None:
    assert beyond(import_graph(*DISTRIBUTIONS), ALLOWED) == []


def test_no_packages_go_in_circles() -> None:
    """The same for the folders of a distribution, each as one: what is shared lies below both."""
    assert circles(folders(import_graph(*DISTRIBUTIONS, loaded=True))) == []


# --- each circle is found -------------------------------------------------------------------------------------------


def test_a_circle_is_seen() -> None:
    graph = {name: frozenset(targets) for name, targets in {"a": "b", "b": "c", "c": "a", "d": "a", "e": "e"}.items()}
    assert circles(graph) == [{"a", "b", "c"}, {"e"}]


def turned(graph: Graph) -> tuple[str, str, Graph]:
    """A module, one of another folder that it imports, and the graph in which that one imports it too."""
    name, target = next(
        (name, target)
        for name, targets in sorted(graph.items())
        for target in sorted(targets)
        if _folder(name) != _folder(target) and name not in graph[target]
    )
    return name, target, {**graph, target: graph[target] | {name}}


@pytest.mark.parametrize("members", MEMBERS, ids=lambda found: Path(found[0]).name)
def test_a_module_that_comes_back_to_itself_is_found(members: tuple[str, ...]) -> None:
    name, target, graph = turned(import_graph(*members, loaded=True))
    assert any({name, target} <= circle for circle in circles(graph))


def test_folders_that_import_each_other_are_found() -> None:
    name, target, graph = turned(import_graph(*DISTRIBUTIONS, loaded=True))
    assert any({_folder(name), _folder(target)} <= circle for circle in circles(folders(graph)))


def test_a_circle_that_is_not_allowed_is_found() -> None:
    name, target, graph = turned(import_graph(*DISTRIBUTIONS))
    (fault,) = beyond(graph, ALLOWED)
    assert name in fault
    assert target in fault


def test_a_circle_that_has_grown_is_found() -> None:
    graph = import_graph(*DISTRIBUTIONS)
    module = "coworld_client.transport._connection"
    assert "coworld_client.client" not in graph[module]
    (fault,) = beyond({**graph, module: graph[module] | {"coworld_client.client"}}, ALLOWED)
    assert module in fault.partition(":")[0]


@pytest.mark.parametrize("why", ALLOWED)
def test_an_allowed_circle_that_is_gone_is_found(why: str) -> None:
    graph = import_graph(*DISTRIBUTIONS)
    for entry in ALLOWED[why]:
        alone = {name: frozenset[str]() if _within(name, {entry}) else targets for name, targets in graph.items()}
        found = " ".join(beyond(alone, ALLOWED))
        assert f"{entry}: in no circle any more" in found or f"{why}: not so any more" in found
