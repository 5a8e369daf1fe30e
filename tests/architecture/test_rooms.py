"""Which rooms of a package a room may import: rooms.toml, beside this file, against the source."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from support.import_graph import DISTRIBUTIONS, EXAMPLES, Graph, import_graph

# One worker parses the sources for all tests that read them
pytestmark = pytest.mark.xdist_group("sources")

TABLE = Path(__file__).with_name("rooms.toml")


@dataclass(frozen=True)
class Table:
    """The rows of a package.

    Attributes:
        rows: The rooms from the bottom up, each with the rooms of earlier rows that it may import.
        upward: By room, the rooms of later rows that it imports nevertheless.
    """

    rows: Mapping[str, tuple[str, ...]]
    upward: Mapping[str, tuple[str, ...]]


def read_tables() -> dict[str, Table]:
    """All tables, by package."""
    found = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    upward = found.pop("upward", {})
    assert upward.keys() <= found.keys(), f"{TABLE.name} has arrows upward in a package that has no rows"
    assert found.keys() == {*DISTRIBUTIONS, *(Path(member).name for member in EXAMPLES)}, f"packages of {TABLE.name}"
    return {package: Table(_split(rows), _split(upward.get(package, {}))) for package, rows in found.items()}


def _split(rows: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    return {room: tuple(names.split()) for room, names in rows.items()}


def graph_of(package: str) -> Graph:
    """The imports of a package's modules from each other."""
    graph = import_graph(*DISTRIBUTIONS) if package in DISTRIBUTIONS else import_graph(f"examples/{package}")
    return {
        name: frozenset(target for target in targets if _package(target) == package)
        for name, targets in graph.items()
        if _package(name) == package
    }


def faults(package: str, graph: Graph, table: Table) -> list[str]:
    """Where a package's imports and its table differ, in words that say what to do."""
    arrows = _arrows(graph)
    upward, allowed = set(_pairs(table.upward)), set(_pairs(table.rows))
    place = {room: number for number, room in enumerate(table.rows)}

    def row(room: str) -> str:
        names = sorted(other for one, other in arrows if one == room and (one, other) not in upward)
        return f'`{room} = "{" ".join(names)}"`'

    found: list[str] = []
    rooms = {_room(name) for name in graph}
    for room in sorted(rooms - place.keys()):
        found.append(f"{package}.{room} has no row: write {row(room)} into [{package}], after the rows of these rooms")
    for room in sorted({*place, *table.upward} - rooms):
        found.append(f"{package}.{room} does not exist: remove its row from [{package}]")
    for arrow, imports in sorted(arrows.items()):
        room, other = arrow
        if room in place and arrow not in allowed | upward:
            found.append(
                f"{'; '.join(imports)}, but {room} may not import {other}: "
                f"remove the import, or write {row(room)} into [{package}]"
            )
    for room, other in sorted(allowed | upward):
        if room in rooms and (room, other) not in arrows:
            found.append(f"{package}.{room} does not import {other} any more: remove {other} from its row")
    for room, other in sorted(allowed & arrows.keys()):
        if room in place and other in place and place[other] > place[room]:
            found.append(f"{package}.{room} imports {other}, whose row comes later: move one of the two rows")
    for room, other in sorted(upward & arrows.keys()):
        if room in place and other in place and place[other] < place[room]:
            found.append(
                f"{package}.{room} imports {other}, whose row comes earlier: write it in [{package}], not in [upward]"
            )
    return found


def _arrows(graph: Graph) -> dict[tuple[str, str], list[str]]:
    """Which room imports which other, and the imports by which it does."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, targets in sorted(graph.items()):
        for target in sorted(targets):
            if _room(name) != _room(target):
                found.setdefault((_room(name), _room(target)), []).append(f"{name} imports {target}")
    return found


def _pairs(rows: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    return ((room, other) for room, others in rows.items() for other in others)


def _package(name: str) -> str:
    return name.partition(".")[0]


def _room(name: str) -> str:
    return name.split(".")[1] if "." in name else "__init__"


TABLES = read_tables()


@pytest.mark.parametrize("package", TABLES)
def test_rooms_import_what_their_rows_say(package: str) -> None:
    assert faults(package, graph_of(package), TABLES[package]) == [], f"{TABLE.name} says otherwise"


def floors(rows: Mapping[str, tuple[str, ...]]) -> int:
    """How many rooms stand above one another: the longest chain of rows, `__init__` apart, which is the way in."""
    level: dict[str, int] = {}
    for room, below in rows.items():
        level[room] = 1 + max((level[other] for other in below), default=0)
    return max(number for room, number in level.items() if room != "__init__")


def test_the_runner_stands_on_eight_floors() -> None:
    """The uppermost hands all others to agents. Those below it certify and improve, and stand on measuring."""
    rows = TABLES["coworld_runner"].rows
    assert floors(rows) <= 8
    assert floors({**rows, "planted": ("agent_tools",)}) == 9


# --- each fault is found --------------------------------------------------------------------------------------------


def new_faults(package: str, graph: Graph, table: Table) -> list[str]:
    """The faults that the real imports and the real table do not have."""
    real = faults(package, graph_of(package), TABLES[package])
    return [fault for fault in faults(package, graph, table) if fault not in real]


@pytest.mark.parametrize("package", TABLES)
def test_an_import_that_no_row_allows_is_found(package: str) -> None:
    graph, table = graph_of(package), TABLES[package]
    homes = {_room(name): name for name in sorted(graph)}
    for room, allowed in table.rows.items():
        forbidden = sorted(table.rows.keys() - {room, *allowed, *table.upward.get(room, ())})
        assert forbidden, f"{room} may import every other room"
        planted = {**graph, homes[room]: graph[homes[room]] | {homes[other] for other in forbidden}}
        assert [fault.partition(":")[0] for fault in new_faults(package, planted, table)] == [
            f"{homes[room]} imports {homes[other]}, but {room} may not import {other}" for other in forbidden
        ]


@pytest.mark.parametrize("package", TABLES)
def test_an_import_that_is_gone_is_found(package: str) -> None:
    graph, table = graph_of(package), TABLES[package]
    for room, other in (*_pairs(table.rows), *_pairs(table.upward)):
        left = {
            name: frozenset(target for target in targets if (_room(name), _room(target)) != (room, other))
            for name, targets in graph.items()
        }
        expected = f"{package}.{room} does not import {other} any more: remove {other} from its row"
        assert new_faults(package, left, table) == [expected]


@pytest.mark.parametrize("package", TABLES)
def test_a_room_without_a_row_is_found(package: str) -> None:
    graph, table = graph_of(package), TABLES[package]
    last = list(table.rows)[-1]
    planted = {**graph, f"{package}.planted.inside": frozenset(name for name in graph if _room(name) == last)}
    assert new_faults(package, planted, table) == [
        f'{package}.planted has no row: write `planted = "{last}"` into [{package}], after the rows of these rooms'
    ]


@pytest.mark.parametrize("package", TABLES)
def test_a_row_without_a_room_is_found(package: str) -> None:
    table = TABLES[package]
    row = {"planted": ("__init__",)}
    for planted in (replace(table, rows={**table.rows, **row}), replace(table, upward={**table.upward, **row})):
        assert new_faults(package, graph_of(package), planted) == [
            f"{package}.planted does not exist: remove its row from [{package}]"
        ]


@pytest.mark.parametrize("package", TABLES)
def test_a_row_that_names_a_room_of_a_later_row_is_found(package: str) -> None:
    table = TABLES[package]
    turned = replace(table, rows={room: table.rows[room] for room in reversed(list(table.rows))})
    expected = {
        f"{package}.{room} imports {other}, whose row comes later: move one of the two rows"
        for room, other in _pairs(table.rows)
    } | {
        f"{package}.{room} imports {other}, whose row comes earlier: write it in [{package}], not in [upward]"
        for room, other in _pairs(table.upward)
    }
    assert set(new_faults(package, graph_of(package), turned)) == expected
    assert expected


FORMS = {
    "import planted.low": "planted.low",
    "import planted.low as other": "planted.low",
    "from planted import low": "planted.low",
    "from planted.low import name": "planted.low",
    "from planted.low import *": "planted.low",
    "from . import beside": "planted.high.beside",
    "from .beside import name": "planted.high.beside",
    "from .. import low": "planted.low",
    "from .. import name": "planted",
    "from ..low import name": "planted.low",
    "def late():\n    from ..low import name": "planted.low",
    "class Holder:\n    async def late(self):\n        import planted.low": "planted.low",
    "if TYPE_CHECKING:\n    from ..low import name": "planted.low",
    "try:\n    pass\nexcept ImportError:\n    from ..low import name": "planted.low",
}


@pytest.mark.parametrize("code", FORMS)
def test_an_import_is_read_in_whatever_form(code: str, tmp_path: Path) -> None:
    files = {"__init__": "", "low": "", "high/__init__": "", "high/beside": "", "high/reading": code}
    for name, text in files.items():
        path = tmp_path / f"src/planted/{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert import_graph(str(tmp_path))["planted.high.reading"] == {FORMS[code]}
    loaded = import_graph(str(tmp_path), loaded=True)["planted.high.reading"]
    assert (FORMS[code] in loaded) == ("late" not in code and "TYPE_CHECKING" not in code)
