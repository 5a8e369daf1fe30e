"""What decides whether a group of long tests is run: every change of a file that it guards, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from support import guarded

pytest_plugins = ["pytester"]

CONFTEST = """
from support import guarded

def pytest_configure(config):
    config.pluginmanager.register(guarded.Groups(config))
"""
TESTS = """
import pytest

@pytest.mark.guarded("one")
@pytest.mark.parametrize("number", [1, 2])
def test_guarded(number):
    if number == 2:
        {second}

def test_any(): ...
"""

Run = Callable[..., str]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the tests of a tree in which a group guards one file; returns how many passed, by outcome."""
    monkeypatch.setattr(guarded, "ROOT", pytester.path)
    monkeypatch.setattr(guarded, "PASSED", pytester.path / "passed.json")
    monkeypatch.setattr(guarded, "GROUPS", {"one": ("some/*.py",)})
    monkeypatch.setattr(guarded, "FULL", False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini("[pytest]\ntestpaths = tests\nmarkers = guarded(group)")
    pytester.makeconftest(CONFTEST)
    pytester.mkdir("some").joinpath("module.py").write_text("one")
    pytester.mkdir("tests").joinpath("test_it.py").write_text(TESTS.format(second="pass"))

    def go(*words: str, code: int = 0) -> str:
        done = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "xdist.plugin", *words)
        assert done.ret == code
        return " ".join(f"{count} {name}" for name, count in sorted(done.parseoutcomes().items()))

    return go


def test_every_pattern_names_files() -> None:
    assert guarded.digests().keys() == guarded.GROUPS.keys()


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_group_is_left_out_until_something_changes(run: Run, pytester: pytest.Pytester, workers: str) -> None:
    assert run("-n", workers) == "3 passed"
    noted = guarded.PASSED.read_text()
    assert json.loads(noted).keys() == {"one"}
    assert run("-n", workers) == ("2 deselected 1 passed" if workers == "0" else "1 passed")
    (pytester.path / "some/module.py").write_text("two")
    assert run() == "3 passed"
    assert guarded.PASSED.read_text() != noted


def test_a_run_of_nothing_else_succeeds(run: Run) -> None:
    run()
    assert run("-k", "guarded") == "3 deselected"


@pytest.mark.parametrize("second", ["assert False", "pytest.skip()"])
def test_a_group_that_has_not_passed_is_run_again(run: Run, pytester: pytest.Pytester, second: str) -> None:
    (pytester.path / "tests/test_it.py").write_text(TESTS.format(second=second))
    run(code="assert" in second)
    assert not guarded.PASSED.exists()


@pytest.mark.parametrize("words", [("-k", "1"), ("--collect-only",), ("tests/test_it.py",)])
def test_a_part_speaks_for_nothing(run: Run, words: tuple[str, ...]) -> None:
    run(*words)
    assert not guarded.PASSED.exists()


def test_a_file_by_name_is_run_whole(run: Run) -> None:
    run()
    assert run("tests/test_it.py") == "3 passed"


def test_all_is_run_when_all_is_wanted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run()
    monkeypatch.setattr(guarded, "FULL", True)
    assert run() == "3 passed"
