"""What a distribution may import, and what no library does: rules over source files, each shown to find its breach."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from support.docs_pages import PAGES, ROOT, blocks
from support.import_graph import DISTRIBUTIONS, EXAMPLES, Import, imports, imports_below, nodes, sources

# One worker parses the sources for all tests that read them
pytestmark = pytest.mark.xdist_group("sources")

Modules = Mapping[str, Path]
"""Source files, by module name."""
Rule = Callable[[Modules], list[str]]
"""What breaks a rule in some modules, each as `MODULE does WHAT`."""

MAY_IMPORT = {
    "coworld_core": set[str](),
    "coworld_runner": {"coworld_core"},
    "coworld_client": {"coworld_core"},
    "coworld_cli": {"coworld_core", "coworld_runner", "coworld_client"},
}
WORLDS = {Path(member).name for member in EXAMPLES}
CORE_LIBRARIES = {
    *("filelock", "jsonschema", "jsonschema_specifications", "lazy_loader", "packaging", "pydantic", "pydantic_core"),
    "referencing",
}
NETWORKED = (
    *("_socket", "_ssl", "asyncio", "ftplib", "http", "imaplib", "multiprocessing", "poplib", "smtplib", "socket"),
    *("socketserver", "ssl", "urllib.request", "urllib.robotparser", "wsgiref", "xmlrpc"),
)
"""Modules of the standard library that open connections."""
SDKS = {"docker": "coworld_client.uploads.docker_engine", "kubernetes_asyncio": "coworld_runner.backends.kubernetes"}
"""Libraries of extras, and the modules or packages that may import them when they are loaded."""
CONSOLE = "coworld_cli.console."
"""What command lines of examples share with `coworld`."""
EXITS = {"SystemExit", "sys.exit", "os._exit", "exit", "quit"}
UNSTOPPABLE = {"coworld_runner.episode.plan_hooks"}
"""Modules that call a user's function in this process. It may never end and cannot be stopped: the process must end
without it."""
PROGRAMS = {
    "coworld_runner.backends.process._shim",
    "coworld_runner.backends.collector.collector_start",
    "coworld_runner.kit.rollout.bot_process",
    "coworld_runner.kit.rollout.match_program",
    "coworld_runner.kit.rollout.rollout_worker",
    "coworld_runner.kit.server.many_games",
    "coworld_runner.kit.server.server_process",
    "coworld_runner.testing.subject",
}
"""Modules of libraries that are processes of their own, as every `__main__` is: they may end themselves, and may
leave threads to end with them."""


def arrows_between_distributions(modules: Modules) -> list[str]:
    """Runner and client stand on core, the command line on all three, and nothing on an example."""
    return [
        f"{module} imports {name}"
        for module, name, _ in _imported(modules)
        if (_top(name).startswith("coworld_") or _top(name) in WORLDS)
        and _top(name) not in {_top(module), *MAY_IMPORT[_top(module)]}
    ]


def private_names_stay_in_their_distribution(modules: Modules) -> list[str]:
    """A module or a name with an underscore is imported only by its own distribution."""
    return [
        f"{module} imports {name}"
        for module, name, _ in _imported(modules)
        if _top(name) in DISTRIBUTIONS and _top(name) != _top(module) and "._" in name
    ]


def examples_use_public_doors(modules: Modules) -> list[str]:
    """An example imports no private module or name of a distribution, and of the command line only `console`."""
    return [
        f"{module} imports {name}"
        for module, name, _ in _imported(modules)
        if _top(module) in WORLDS
        and _top(name) in DISTRIBUTIONS
        and ("._" in name or (_top(name) == "coworld_cli" and not f"{name}.".startswith(CONSOLE)))
    ]


def _is_on_a_door(found: Import) -> bool:
    """Whether a library shows a name: its stub lists it, or its room is one file or a package that defines it."""
    libraries = sources("coworld_core", "coworld_runner", "coworld_client")
    home, name = found.home or found.name, found.name.rpartition(".")[2]
    path = libraries.get(home)
    if path is None:
        return False
    if path.name != "__init__.py":
        return home.count(".") < 2
    if not path.with_suffix(".pyi").exists():
        return any(isinstance(node, ast.Constant) and node.value == name for node in nodes(path))
    listed = {each.name.rpartition(".")[2] for each in imports(home, path) if each.checked}
    return name in listed or (f"{home}.{name}" in libraries and home.count(".") < 1)


def commands_and_examples_use_doors(modules: Modules) -> list[str]:
    """The command line and the examples take from the libraries what stubs list, and rooms that are one file."""
    return [
        f"{module} imports {found.name}"
        for module, path in modules.items()
        if _top(module) in ("coworld_cli", *WORLDS)
        for found in imports(module, path)
        if _top(found.name) in ("coworld_core", "coworld_runner", "coworld_client") and not _is_on_a_door(found)
    ]


def core_stands_on_few_libraries(modules: Modules) -> list[str]:
    """Core imports the standard library and what its metadata names."""
    return [
        f"{module} imports {name}"
        for module, name, _ in _imported(modules, "coworld_core")
        if _top(name) not in {"coworld_core", *CORE_LIBRARIES, *sys.stdlib_module_names}
    ]


def core_opens_no_socket(modules: Modules) -> list[str]:
    """Core imports nothing that opens connections."""
    return [
        f"{module} imports {name}"
        for module, name, _ in _imported(modules, "coworld_core")
        if f"{name}.".startswith(tuple(f"{banned}." for banned in NETWORKED))
    ]


def sdks_are_imported_lazily_and_by_one_distribution(modules: Modules) -> list[str]:
    """Only an SDK's own module imports it when it is loaded; the rest of that distribution does so in functions."""
    return [
        f"{module} imports {name}"
        for module, name, loaded in _imported(modules)
        if (home := SDKS.get(_top(name))) is not None
        and (_top(module) != _top(home) or (loaded and not f"{module}.".startswith(f"{home}.")))
    ]


def tasks_and_threads_are_structured(modules: Modules) -> list[str]:
    """Everything that lives is inside a task group: nothing starts a task or a daemon thread by itself."""
    banned = ("create_task", "ensure_future", "gather")
    found: list[str] = []
    for module, path in modules.items():
        for node in nodes(path):
            name = node.attr if isinstance(node, ast.Attribute) else node.name if isinstance(node, ast.alias) else ""
            if name in banned:
                found.append(f"{module} uses {name}")
            apart = _is_program(module) or module in UNSTOPPABLE
            if isinstance(node, ast.keyword) and node.arg == "daemon" and not apart:
                found.append(f"{module} uses daemon")
    return found


def libraries_never_exit(modules: Modules) -> list[str]:
    """A library ends no process, except in a program of its own."""
    found: list[str] = []
    for module, path in modules.items():
        if _top(module) == "coworld_cli" or _is_program(module):
            continue
        found += [f"{module} imports {name.name}" for name in imports(module, path) if name.name in EXITS]
        main = [node for node in nodes(path) if isinstance(node, ast.If) and _asks_for_main(node.test)]
        allowed = {id(node) for block in main for node in ast.walk(block)}
        for node in nodes(path):
            ends = _words(
                node.func if isinstance(node, ast.Call) else node.exc if isinstance(node, ast.Raise) else None
            )
            if ends in EXITS and id(node) not in allowed:
                found.append(f"{module} uses {ends}")
    return found


def _asks_for_main(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and ast.unparse(test) == "__name__ == '__main__'"


def _words(node: ast.AST | None) -> str:
    """A name, or an attribute of a name, as it is written; nothing for anything else."""
    if isinstance(node, ast.Attribute):
        return f"{_words(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _imported(modules: Modules, within: str = "") -> Iterator[tuple[str, str, bool]]:
    """Importing modules, what they import, and whether they do when they are loaded."""
    for module, path in modules.items():
        if within in ("", _top(module)):
            for found in imports(module, path):
                yield module, found.name, found.loaded


def _is_program(module: str) -> bool:
    return module in PROGRAMS or module.endswith(".__main__")


def _top(name: str) -> str:
    return name.partition(".")[0]


BREACHES: Mapping[Rule, tuple[tuple[str, str, str], ...]] = {
    arrows_between_distributions: (
        (
            "coworld_core.planted",
            "from coworld_runner.package.plan import plan",
            "imports coworld_runner.package.plan.plan",
        ),
        ("coworld_runner.planted", "import coworld_client", "imports coworld_client"),
        (
            "coworld_client.planted",
            "def late():\n    import coworld_runner.package.plan",
            "imports coworld_runner.package.plan",
        ),
        ("coworld_client.planted", "if TYPE_CHECKING:\n    import coworld_cli", "imports coworld_cli"),
        ("coworld_cli.planted", "from observatory.store import tables", "imports observatory.store.tables"),
    ),
    private_names_stay_in_their_distribution: (
        ("coworld_cli.planted", "import coworld_runner.runs._append_log", "imports coworld_runner.runs._append_log"),
        ("coworld_cli.planted", "from coworld_core.ids import _checked", "imports coworld_core.ids._checked"),
    ),
    examples_use_public_doors: (
        (
            "observatory.planted",
            "from coworld_runner.runs._append_log import AppendedFile",
            "imports coworld_runner.runs._append_log.AppendedFile",
        ),
        ("observatory.planted", "from coworld_cli.output import Output", "imports coworld_cli.output.Output"),
    ),
    commands_and_examples_use_doors: (
        (
            "coworld_cli.planted",
            "def late():\n    from coworld_runner.package.plan import plan_episode",
            "imports coworld_runner.package.plan.plan_episode",
        ),
        ("observatory.planted", "import coworld_core.api.episodes", "imports coworld_core.api.episodes"),
        ("observatory.planted", "from coworld_core.files import atomic", "imports coworld_core.files.atomic"),
        (
            "coworld_cli.planted",
            "from coworld_runner.backends.docker.docker_backend import DockerBackend",
            "imports coworld_runner.backends.docker.docker_backend.DockerBackend",
        ),
    ),
    core_stands_on_few_libraries: (
        ("coworld_core.planted", "import yaml", "imports yaml"),
        ("coworld_core.planted", "def late():\n    from httpcore2 import Request", "imports httpcore2.Request"),
    ),
    core_opens_no_socket: (
        ("coworld_core.planted", "import socket", "imports socket"),
        (
            "coworld_core.planted",
            "def late():\n    from http.client import HTTPSConnection",
            "imports http.client.HTTPSConnection",
        ),
        ("coworld_core.planted", "from urllib import request", "imports urllib.request"),
    ),
    sdks_are_imported_lazily_and_by_one_distribution: tuple(
        breach
        for (sdk, home), other in zip(SDKS.items(), reversed(SDKS.values()), strict=True)
        for breach in (
            ("coworld_cli.planted", f"def late():\n    import {sdk}", f"imports {sdk}"),
            ("coworld_core.planted", f"import {sdk}.errors", f"imports {sdk}.errors"),
            ("coworld_runner.backends", f"import {sdk}", f"imports {sdk}"),
            (f"{other}.planted", f"from {sdk} import client", f"imports {sdk}.client"),
            (f"{_top(home)}.planted", f"try:\n    import {sdk}\nexcept ImportError: ...", f"imports {sdk}"),
        )
    ),
    tasks_and_threads_are_structured: (
        ("coworld_runner.planted", "async def go():\n    asyncio.create_task(one())", "uses create_task"),
        ("coworld_runner.planted", "from asyncio import gather as all_of", "uses gather"),
        ("coworld_cli.planted", "asyncio.ensure_future(one())", "uses ensure_future"),
        ("coworld_client.planted", "threading.Thread(target=one, daemon=True).start()", "uses daemon"),
    ),
    libraries_never_exit: (
        ("coworld_core.planted", "raise SystemExit", "uses SystemExit"),
        ("coworld_client.planted", "def stop():\n    raise SystemExit(1)", "uses SystemExit"),
        ("coworld_runner.planted", "def stop():\n    sys.exit(1)", "uses sys.exit"),
        ("coworld_runner.planted", "os._exit(1)", "uses os._exit"),
        ("coworld_runner.planted", "from os import _exit as end", "imports os._exit"),
        ("coworld_runner.planted", "if __name__ != '__main__':\n    quit()", "uses quit"),
    ),
}
"""What breaks each rule: a module, its source, and what is reported of it."""

OBSERVED: Mapping[Rule, tuple[tuple[str, str], ...]] = {
    arrows_between_distributions: (("coworld_cli.planted", "import coworld_client, coworld_core, coworld_runner"),),
    private_names_stay_in_their_distribution: (("coworld_core.planted", "from ._findings import finding"),),
    examples_use_public_doors: (("observatory.planted", "from coworld_cli.console import Output"),),
    commands_and_examples_use_doors: (
        ("coworld_cli.planted", "from coworld_runner.backend import Backend"),
        ("coworld_cli.planted", "from coworld_core import api, time_limits"),
        ("observatory.planted", "from coworld_runner.package import plan_episode"),
        ("coworld_client.planted", "from coworld_core.files.atomic import write_whole"),
    ),
    core_stands_on_few_libraries: (("coworld_runner.planted", "import yaml"),),
    core_opens_no_socket: (("coworld_core.planted", "from urllib.parse import quote"),),
    sdks_are_imported_lazily_and_by_one_distribution: tuple(
        observed
        for sdk, home in SDKS.items()
        for observed in (
            (f"{home}.planted", f"import {sdk}"),
            (f"{_top(home)}.planted", f"def late():\n    import {sdk}"),
            ("coworld_cli.planted", f"import coworld_core.{sdk}_engine"),
        )
    ),
    tasks_and_threads_are_structured: (
        ("coworld_runner.backends.collector.collector_start", "threading.Thread(target=one, daemon=True)"),
        ("coworld_runner.episode.plan_hooks", "threading.Thread(target=one, daemon=True)"),
    ),
    libraries_never_exit: (
        ("coworld_cli.planted", "sys.exit(1)"),
        ("coworld_runner.planted.__main__", "sys.exit(main())"),
        ("coworld_runner.planted", "if __name__ == '__main__':\n    sys.exit(main())"),
        ("coworld_runner.planted", "try:\n    main()\nexcept SystemExit:\n    pass"),
    ),
}
"""What comes close to a breach of each rule, and is none: a module and its source."""


MEMBERS: Mapping[Rule, tuple[str, ...]] = {
    examples_use_public_doors: EXAMPLES,
    commands_and_examples_use_doors: ("coworld_cli", *EXAMPLES),
}
"""The members of the workspace that a rule is for, if these are not the distributions."""


def _cases(planted: Mapping[Rule, tuple[tuple[str, ...], ...]]) -> list[object]:
    return [
        pytest.param(rule, *case, id=f"{rule.__name__}-{number}")
        for rule, cases in planted.items()
        for number, case in enumerate(cases)
    ]


@pytest.mark.parametrize("rule", BREACHES, ids=lambda rule: rule.__name__)
def test_the_distributions_keep_the_rule(rule: Rule) -> None:
    assert rule(sources(*MEMBERS.get(rule, DISTRIBUTIONS))) == []


def _shown_code() -> Iterator[tuple[str, str]]:
    """Python that people read and copy: blocks of pages, files of examples, and what scaffolds write."""
    for page in PAGES:
        for block in blocks(page):
            if block.language == "python":
                yield f"{page.relative_to(ROOT)}:{block.line}", block.text
    for folder in ("examples", "coworld_runner/src/coworld_runner/kit"):
        for path in (ROOT / folder).rglob("*.py"):
            if folder == "examples" or "templates" in path.parts:
                yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def _past_doors(code: str) -> list[str]:
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return []  # Part of a function, or a template's
    libraries = ("coworld_core", "coworld_runner", "coworld_client")
    found = imports_below(tree, "")
    return [each.name for each in found if _top(each.name) in libraries and not _is_on_a_door(each)]


def test_what_people_copy_uses_doors() -> None:
    assert [f"{where} imports {name}" for where, code in _shown_code() for name in _past_doors(code)] == []
    planted = "async def main():\n    from coworld_core.roles.grade import Grade"
    assert _past_doors(planted) == ["coworld_core.roles.grade.Grade"]


@pytest.mark.parametrize(("rule", "module", "code", "reported"), _cases(BREACHES))
def test_a_breach_is_found(rule: Rule, module: str, code: str, reported: str, tmp_path: Path) -> None:
    assert rule({module: _written(tmp_path, code)}) == [f"{module} {reported}"]


@pytest.mark.parametrize(("rule", "module", "code"), _cases(OBSERVED))
def test_allowed_import_is_no_breach(rule: Rule, module: str, code: str, tmp_path: Path) -> None:
    assert rule({module: _written(tmp_path, code)}) == []


def _written(directory: Path, code: str) -> Path:
    path = directory / "planted.py"
    path.write_text(code, encoding="utf-8")
    return path


def test_allowances_are_in_use() -> None:
    modules = sources(*DISTRIBUTIONS)
    arrows = {(_top(module), _top(name)) for module, name, _ in _imported(modules)}
    assert {(one, other) for one, others in MAY_IMPORT.items() for other in others} <= arrows
    assert {name for module, name in arrows if module == "coworld_core"} >= CORE_LIBRARIES
    assert {_top(name) for _, name, _ in _imported(modules)} >= SDKS.keys()
    assert modules.keys() >= PROGRAMS
    for program in PROGRAMS:
        # Under another name it is no program any more
        as_library = {f"{_top(program)}.planted": modules[program]}
        assert libraries_never_exit(as_library) + tasks_and_threads_are_structured(as_library), (
            f"{program} exits nowhere"
        )
