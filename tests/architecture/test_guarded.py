"""What decides whether a group of long tests is run: any change of what its tests run with, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support import guarded
from support.reached import Tree

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.git

CONFTEST = """
from support import guarded

def pytest_configure(config):
    config.pluginmanager.register(guarded.Groups(config))
"""
TESTS = """
import pytest
import helper

@pytest.mark.{mark}("one")
@pytest.mark.parametrize("number", [1, 2])
def test_guarded(number):
    if number == 2:
        {second}

def test_any(): ...
"""
WORKSPACE = """
[tool.uv]
constraint-dependencies = ["six==1.0"]
"""

Run = Callable[..., str]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the tests of a repository with a group of two tests; returns how many passed, by outcome."""
    monkeypatch.setattr(guarded, "ROOT", pytester.path)
    monkeypatch.setattr(guarded, "PASSED", pytester.path / "tests/passed.json")
    monkeypatch.setattr(guarded, "FULL", False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.syspath_prepend(pytester.path / "tests")
    pytester.makeini("[pytest]\ntestpaths = tests\npythonpath = tests\nmarkers = guarded(group)")
    (pytester.path / "pyproject.toml").write_text(WORKSPACE)
    tests = pytester.mkdir("tests")
    (tests / "conftest.py").write_text(CONFTEST)
    (tests / "helper.py").write_text("")
    (tests / "test_it.py").write_text(TESTS.format(mark="guarded", second="pass"))
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "first")):
        subprocess.run(["git", *words], cwd=pytester.path, check=True)

    def go(*words: str, code: int = 0) -> str:
        done = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "xdist.plugin", *words)
        assert done.ret == code
        go.said = done.stdout.str()  # type: ignore[attr-defined]
        return " ".join(f"{count} {name}" for name, count in sorted(done.parseoutcomes().items()))

    return go


@pytest.mark.slow
def test_every_group_reaches_what_its_tests_run() -> None:
    tree = Tree(guarded.ROOT)
    assert guarded.members(tree).keys() == {"alone", "cluster", "docker", "published"}
    reached = tree.reached(["tests/conformance/test_docker.py"])
    assert {
        "coworld_core/src/coworld_core/docker_address.py",
        "coworld_core/src/coworld_core/errors.py",
        "coworld_core/src/coworld_core/images.py",
        "coworld_runner/src/coworld_runner/backends/docker/_units.py",
        "coworld_runner/src/coworld_runner/backends/process/_shim.py",
        "coworld_runner/src/coworld_runner/testing/subject.py",
    } <= reached
    assert "coworld_core/src/coworld_core/api/leagues.py" not in reached


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("tests/helper.py", "changed = True\n"),
        ("pyproject.toml", WORKSPACE.replace("six==1.0", "six==1.1")),
        ("tests/test_it.py", TESTS.format(mark="guarded", second="assert True")),
    ],
    ids=["import", "version", "test"],
)
def test_group_is_left_out_until_something_changes(
    run: Run, pytester: pytest.Pytester, workers: str, file: str, content: str
) -> None:
    assert run("-n", workers) == "3 passed"
    noted = json.loads(guarded.PASSED.read_text())
    assert noted.keys() == {"one"}
    assert run("-n", workers) == ("2 deselected 1 passed" if workers == "0" else "1 passed")
    assert f"one (passed at {noted['one']['commit']})" in run.said  # type: ignore[attr-defined]
    (pytester.path / "tests/other.py").write_text("nothing imports this")
    assert "1 passed" in run("-n", workers)
    (pytester.path / file).write_text(content)
    assert run() == "3 passed"
    assert guarded.PASSED.read_text() != noted


def test_commit_of_a_changed_tree_has_a_mark(run: Run, pytester: pytest.Pytester) -> None:
    (pytester.path / "tests/helper.py").write_text("changed = True\n")
    run()
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=pytester.path, check=True, capture_output=True, text=True)
    assert json.loads(guarded.PASSED.read_text())["one"]["commit"] == head.stdout[:10] + "+"


def test_run_of_nothing_else_succeeds(run: Run) -> None:
    run()
    assert run("-k", "guarded") == "3 deselected"


@pytest.mark.parametrize("second", ["assert False", "pytest.skip()"])
def test_group_that_has_not_passed_is_run_again(run: Run, pytester: pytest.Pytester, second: str) -> None:
    (pytester.path / "tests/test_it.py").write_text(TESTS.format(mark="guarded", second=second))
    run(code="assert" in second)
    assert not guarded.PASSED.exists()


@pytest.mark.parametrize("words", [("-k", "1"), ("--collect-only",), ("tests/test_it.py",)])
def test_part_of_a_group_proves_nothing(run: Run, words: tuple[str, ...]) -> None:
    run(*words)
    assert not guarded.PASSED.exists()


def test_named_file_is_run_whole(run: Run) -> None:
    run()
    assert run("tests/test_it.py") == "3 passed"


def test_full_run_leaves_nothing_out(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run()
    monkeypatch.setattr(guarded, "FULL", True)
    assert run() == "3 passed"


PACKAGE = {
    "src/pack/__init__.py": """
from typing import TYPE_CHECKING
from .lazy import lazy_names
if TYPE_CHECKING:
    from .first import (
        One as One,
    )
    from .second import Two as Two
__getattr__, __dir__ = lazy_names(__name__)
""",
    "src/pack/lazy.py": "import importlib\ndef lazy_names(name):\n    importlib.import_module(name)\n",
    "src/pack/first.py": "One = 1\n",
    "src/pack/second.py": "Two = 2\n",
    "src/pack/started/__init__.py": "",
    "src/pack/started/__main__.py": "",
    "src/pack/open/__init__.py": "",
    "src/pack/open/chosen.py": "",
    "src/pack/open/choosing.py": "import importlib\ndef choose(name):\n    return importlib.import_module(name)\n",
    "src/pack/data/__init__.py": "",
    "src/pack/data/schema.json": "{}",
    "tests/conftest.py": "import pack.second\n\ndef fixture():\n    import pack.first\n",
    "tests/unused.py": "",
    "world/players/bot.py": "",
}


@pytest.mark.parametrize(
    ("test", "reached"),
    [
        ("from pack import One", "pack/first.py"),
        ("from pack import (\n    One,\n)", "pack/first.py"),
        ("def test():\n    from pack import One", "pack/first.py"),
        ("import pack", "pack/first.py"),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pack import One", None),
        ("words = ['python', '-m', 'pack.started']", "pack/started/__main__.py"),
        ("from pack.open import choosing", "pack/open/chosen.py"),
        ("import pack.data", "pack/data/schema.json"),
        ("where = ROOT / 'world/players'", "../world/players/bot.py"),
        ("where = ROOT / 'src/pack/first.py'", "pack/first.py"),
        ("where = ROOT / 'src/pack'", None),
        ("", None),
    ],
)
def test_reached_files_of_a_test_are_found(tmp_path: Path, test: str, reached: str | None) -> None:
    for name, content in {**PACKAGE, "tests/test_it.py": test}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    found = Tree(tmp_path, ("src", "tests"), cache=None).reached(["tests/test_it.py"])
    always = {"tests/test_it.py", "tests/conftest.py", "src/pack/second.py", "src/pack/__init__.py"}
    always |= {"src/pack/lazy.py"}
    if reached is None:
        assert found == always
    else:
        assert found >= always | {os.path.normpath(f"src/{reached}")}


def test_changed_source_is_read_again(tmp_path: Path) -> None:
    for name, content in {**PACKAGE, "tests/test_it.py": ""}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for content, expected in (("", False), ("import unused", True)):
        (tmp_path / "tests/test_it.py").write_text(content)
        found = Tree(tmp_path, ("src", "tests"), cache=tmp_path / ".git/kept").reached(["tests/test_it.py"])
        assert ("tests/unused.py" in found) is expected
