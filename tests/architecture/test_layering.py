"""Who may import whom, read from the source."""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

import pytest
from support.import_graph import DISTRIBUTIONS, ROOT, import_graph, nodes

MAY_IMPORT = {
    "coworld_core": set(),
    "coworld_runner": {"coworld_core"},
    "coworld_client": {"coworld_core"},
    "coworld_cli": {"coworld_core", "coworld_runner", "coworld_client"},
}
CORE_LIBRARIES = {
    "pydantic",
    "pydantic_core",
    "jsonschema",
    "referencing",
    "packaging",
    "rpds",
    "jsonschema_specifications",
}
ENGINE = "docker_engine.py"
"""The one module of core that opens connections, for those who install the extra that is named like it."""


def sources(distribution: str) -> list[Path]:
    found = sorted((ROOT / distribution / "src" / distribution).rglob("*.py"))
    assert found, f"{distribution} has no source files"
    return found


@cache
def imported(path: Path) -> tuple[tuple[str, bool], ...]:
    """Top-level names a file imports, and whether at import time of the module."""
    names: list[tuple[str, bool]] = []
    lazy = {
        id(node)
        for function in nodes(path)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
    }
    for node in nodes(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names.append((alias.name.split(".")[0], id(node) not in lazy))
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.append((node.module.split(".")[0], id(node) not in lazy))
    return tuple(names)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_arrows_between_distributions(distribution: str) -> None:
    allowed = MAY_IMPORT[distribution] | {distribution}
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources(distribution)
        for name, _ in imported(path)
        if name.startswith("coworld_") and name not in allowed
    ]
    assert not wrong


RUNS = ("episode", "program", "many", "batch", "replay", "certification", "evaluation")
"""What plays on a backend."""
HOSTS = ("worker", "doctor", "documents", "testing", "local")
"""What stands on top, and nothing else of the runner stands on."""
ROOMS = {
    # the contract is what everything else stands on
    "coworld_runner.backend": ("",),
    # a backend knows units, and not what they are for
    "coworld_runner.backends": (*RUNS, *HOSTS, "package", "plan", "selection", "build", "_stage"),
    # one image is built below all that needs it
    "coworld_runner.images": (*RUNS, *HOSTS, "backends", "package", "plan", "selection", "build", "_stage"),
    # a package and a plan are values
    "coworld_runner.package": (*RUNS, *HOSTS, "backend", "backends", "selection"),
    "coworld_runner.plan": (*RUNS, *HOSTS, "backend", "backends", "selection"),
    # the three primitives are the same over every backend, and know nothing of what is made of them
    "coworld_runner.episode": (*RUNS[1:], *HOSTS, "backends", "selection"),
    "coworld_runner.program": ("episode", *RUNS[2:], *HOSTS, "backends", "selection", "plan", "package"),
    "coworld_runner.many": (*RUNS[3:], *HOSTS, "program", "backends", "selection"),
    "coworld_runner.certification": (*HOSTS, "backends", "many", "batch"),
    "coworld_runner.build": (*RUNS, *HOSTS),
    # what is shown is not what is done
    "coworld_cli.render": ("commands", "preparing"),
    "coworld_cli.options": ("commands", "render", "running", "preparing"),
    "coworld_cli.output": ("commands", "render", "running", "preparing", "options"),
}
"""Rooms of a distribution, by module or package, and what of the same distribution they must not know."""


@pytest.mark.parametrize("room", ROOMS)
def test_rooms(room: str) -> None:
    distribution = room.partition(".")[0]
    graph = import_graph(*DISTRIBUTIONS)
    inside = {name: targets for name, targets in graph.items() if f"{name}.".startswith(f"{room}.")}
    assert inside, f"there is no {room}"
    forbidden = tuple(f"{distribution}.{name}." if name else f"{distribution}." for name in ROOMS[room])
    wrong = [
        f"{name} imports {target}"
        for name, targets in inside.items()
        for target in targets
        if f"{target}.".startswith(forbidden) and target not in inside
    ]
    assert wrong == []


def test_what_is_private_to_a_distribution_stays_there() -> None:
    wrong = [
        f"{name} imports {target}"
        for name, targets in import_graph(*DISTRIBUTIONS).items()
        for target in targets
        if target.partition(".")[0] != name.partition(".")[0] and "._" in target
    ]
    assert wrong == []


def test_core_stands_on_four_libraries() -> None:
    allowed = CORE_LIBRARIES | {"coworld_core"} | set(sys.stdlib_module_names)
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources("coworld_core")
        for name, _ in imported(path)
        if name not in (allowed | {"anyio", "httpcore2"} if path.name == ENGINE else allowed)
    ]
    assert not wrong


def test_core_opens_no_socket() -> None:
    networked = {"socket", "ssl", "http", "asyncio", "ftplib", "smtplib"}
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources("coworld_core")
        if path.name != ENGINE
        for name, _ in imported(path)
        if name in networked or "urllib.request" in path.read_text(encoding="utf-8")
    ]
    assert not wrong


def test_what_opens_connections_is_used_by_nothing_else_of_core() -> None:
    module = ENGINE.removesuffix(".py")
    users = [
        path.name
        for path in sources("coworld_core")
        for node in nodes(path)
        if (isinstance(node, ast.ImportFrom) and module in (node.module or "").split("."))
        or (isinstance(node, ast.alias) and module in node.name.split("."))
    ]
    assert users == []


@pytest.mark.parametrize("sdk", ["docker", "kubernetes_asyncio"])
def test_sdks_are_imported_lazily_and_only_by_the_runner(sdk: str) -> None:
    wrong: list[str] = []
    for distribution in DISTRIBUTIONS:
        for path in sources(distribution):
            inside_backend = distribution == "coworld_runner" and path.parent.name == "backends" and sdk in path.stem
            for name, eager in imported(path):
                if name == sdk and (distribution != "coworld_runner" or (eager and not inside_backend)):
                    wrong.append(str(path.relative_to(ROOT)))
    assert not wrong


def test_no_unstructured_tasks() -> None:
    """Everything that lives is inside a task group: nothing starts a task or a daemon thread by itself."""
    forbidden = ("create_task", "ensure_future", "gather")
    wrong: list[str] = []
    for distribution in DISTRIBUTIONS:
        for path in sources(distribution):
            for node in nodes(path):
                if isinstance(node, ast.Attribute) and node.attr in forbidden:
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} uses {node.attr}")
    assert not wrong


def test_libraries_never_exit() -> None:
    wrong: list[str] = []
    for distribution in DISTRIBUTIONS[:3]:
        for path in sources(distribution):
            # a program of its own may end itself: the process shim and the conformance suite's subject are such
            if path.name in ("_shim.py", "subject.py"):
                continue
            for node in nodes(path):
                name = getattr(getattr(node, "exc", None), "func", getattr(node, "exc", None))
                if isinstance(node, ast.Raise) and isinstance(name, ast.Name) and name.id == "SystemExit":
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not wrong
