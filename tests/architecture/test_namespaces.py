"""Packages whose names are imported on first use: the names are the type checkers', and no source text is needed."""

from __future__ import annotations

import ast
import compileall
import importlib
import json
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from support.import_graph import DISTRIBUTIONS, EXAMPLES, ROOT, sources


@cache
def lazy_packages() -> dict[str, Path]:
    """The stub of each package whose names are imported on first use, by the package's name."""
    stubs = {name: path.with_suffix(".pyi") for name, path in sources(*DISTRIBUTIONS, *EXAMPLES).items()}
    return {name: stub for name, stub in stubs.items() if stub.stem == "__init__" and stub.exists()}


def test_stubs_give_each_name_once_from_where_it_is() -> None:
    assert set(DISTRIBUTIONS) < set(lazy_packages())
    for stub in lazy_packages().values():
        tree = ast.parse(stub.read_text(encoding="utf-8"))
        names: list[str] = []
        for node in tree.body:
            # Type checkers take only a name that is imported as itself for a public one
            assert isinstance(node, ast.ImportFrom), f"{stub}: line {node.lineno} is not an import of names"
            assert [alias.asname for alias in node.names] == [alias.name for alias in node.names], (
                f"{stub}: {node.lineno}"
            )
            names += [alias.name for alias in node.names]
        assert [name for name, times in Counter(names).items() if times > 1] == [], stub
        # Whoever imports such a module first would find it in place of the name
        assert {path.stem for path in stub.parent.iterdir()} & set(names) == set(), stub


def test_namespace_is_all() -> None:
    for package in lazy_packages():
        module = importlib.import_module(package)
        public: list[str] = module.__all__
        assert public == sorted(set(public)), f"{package}.__all__ is not sorted"
        assert public or package == "coworld_cli"
        assert all(getattr(module, name) is not None for name in dir(module))
        assert set(public) == set(dir(module)) - {"__version__"}
        taken: dict[str, object] = {}
        exec(f"from {package} import *", taken)
        assert set(public) == set(taken) - {"__builtins__"}


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_version_is_the_projects(distribution: str) -> None:
    project = tomllib.loads((ROOT / distribution / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module = importlib.import_module(distribution)
    assert module.__version__ == project["version"]
    assert "__version__" in dir(module)


COMPILED = """
import importlib, json, sys
import coworld_cli, coworld_client, coworld_core, coworld_runner

assert "importlib.metadata" not in sys.modules
packages = json.loads(sys.argv[1])
for package in packages:
    module = importlib.import_module(package)
    assert all(getattr(module, name) is not None for name in {*module.__all__, *dir(module)})

from coworld_core.rules import Play, Rules, RulesError, audit_rules
from coworld_runner.kit.rollout import PolicyError, rollout

class Count(Rules):
    Action = int

    def start(self): self.left = 2
    def legal(self, seat): return [1]
    def observe(self, seat): return self.left
    def step(self, actions): self.left -= 1
    def to_act(self): return [0] if self.left else []
    def scores(self): return [0.0, 0.0]

class Broken(Count):
    def start(self): raise ZeroDivisionError

def act(observation, legal, rng): raise ZeroDivisionError

assert audit_rules(Count).issues == (), audit_rules(Count)
for wrong in (lambda: Play(Broken), lambda: rollout(Count, act)):
    try:
        wrong()
    except (RulesError, PolicyError) as error:
        assert len(error.lines) == 1 and ("in start" in error.lines[0] or "in act" in error.lines[0]), error.lines
    else:
        raise AssertionError

files = {name: module.__file__ for name, module in sys.modules.items() if name.partition(".")[0] in packages}
print(json.dumps(files))
"""


@pytest.mark.slow
def test_compiled_files_are_enough(tmp_path: Path) -> None:
    """The four packages without their sources, as compiled on another machine."""
    for distribution in DISTRIBUTIONS:
        # The sample is a package of its own, which is copied as it is.
        left = shutil.ignore_patterns("__pycache__", "sample")
        shutil.copytree(ROOT / distribution / "src" / distribution, tmp_path / distribution, ignore=left)
    assert compileall.compile_dir(tmp_path, ddir="/elsewhere", quiet=1, legacy=True)
    for path in tmp_path.rglob("*.py"):
        path.unlink()
    packages = [name for name in lazy_packages() if name.partition(".")[0] in DISTRIBUTIONS]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{COMPILED}", json.dumps(packages)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    files: dict[str, str] = json.loads(done.stdout)
    assert len(files) > 200
    assert {
        name for name, file in files.items() if Path(file).suffix != ".pyc" or not file.startswith(str(tmp_path))
    } == set()
