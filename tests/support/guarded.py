"""Groups of long tests, and whether anything that they run with has changed since the group last passed.

A group consists of all tests marked with its name, `@pytest.mark.guarded("cluster")`. As long as the files that its
tests reach (`support.reached`), the versions of libraries and the version of Python are those with which the whole
group passed, a run leaves the group out and says at which commit it passed. With `FULL=1`, or if the run names files,
no group is left out. A run in which a whole group passes records that in `tests/passed.json`, which is committed
together with the tested change.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Generator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from .full import FULL
from .reached import Tree

__all__ = ["Groups", "digests", "members", "passed_at", "write_down"]

ROOT = Path(__file__).parents[2]
PASSED = ROOT / "tests/passed.json"

_MARK = re.compile(r"""\bguarded\(["'](\w+)["']\)""")


def digests(cache: Path | None = None) -> dict[str, str]:
    """A digest for each group of everything that its tests run with; none without git, which knows the files."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        return {}
    tree = Tree(ROOT, cache=cache)
    return {group: _digest(tree.reached(names)) for group, names in members(tree).items()}


def members(tree: Tree) -> dict[str, set[str]]:
    """The test files of each group."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name in tree.files:
        if name.startswith("tests/") and PurePosixPath(name).match("test_*.py"):
            for group in _MARK.findall((ROOT / name).read_text(encoding="utf-8")):
                found[group].add(name)
    return found


def passed_at(now: Mapping[str, str]) -> dict[str, str]:
    """The groups that have passed with exactly this, and the commit at which each did."""
    return {group: str(record["commit"]) for group, record in _passed().items() if now.get(group) == record["digest"]}


def write_down(passed: Mapping[str, str], known: Mapping[str, str]) -> None:
    """Record groups that have just passed, by their digests; what is no group any more is dropped."""
    commit = _commit()
    now = {group: {"digest": digest, "commit": commit} for group, digest in passed.items()}
    whole = {group: record for group, record in {**_passed(), **now}.items() if group in known}
    PASSED.write_text(json.dumps(whole, indent=2, sort_keys=True) + "\n")


def _passed() -> dict[str, dict[str, str]]:
    return json.loads(PASSED.read_text()) if PASSED.exists() else {}


def _commit() -> str:
    """The checked-out commit, with a plus sign if anything but the record differs from it."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()

    record = PASSED.relative_to(ROOT).as_posix()
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", f":!{record}")
    return git("rev-parse", "--short=10", "HEAD") + "+" * bool(changed)


def _digest(names: frozenset[str]) -> str:
    whole = hashlib.sha256(f"Python {sys.version_info.major}.{sys.version_info.minor}\n".encode())
    for name in sorted(names - {PASSED.relative_to(ROOT).as_posix()}):
        whole.update(f"{name} {hashlib.sha256((ROOT / name).read_bytes()).hexdigest()}\n".encode())
    for member in sorted({*ROOT.glob("*/pyproject.toml"), *ROOT.glob("examples/*/pyproject.toml")}):
        project = tomllib.loads(member.read_text(encoding="utf-8")).get("project", {})
        asked = {
            key: project.get(key) for key in ("requires-python", "dependencies", "optional-dependencies", "scripts")
        }
        whole.update(f"{member.relative_to(ROOT)} {json.dumps(asked, sort_keys=True)}\n".encode())
    workspace = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    # A test holds the installed versions to these.
    whole.update("\n".join(workspace["tool"]["uv"]["constraint-dependencies"]).encode())
    return whole.hexdigest()


def _group(item: pytest.Item) -> str | None:
    mark = item.get_closest_marker("guarded")
    return mark.args[0] if mark else None


class Groups:
    """A pytest plugin, for the main process and each of its workers."""

    def __init__(self, config: pytest.Config) -> None:
        told: dict[str, Any] | None = getattr(config, "workerinput", None)
        # A run of chosen files leaves nothing out, and does not record that a whole group has passed.
        self._chosen = config.args_source is not pytest.Config.ArgsSource.TESTPATHS
        self._now = dict[str, str]()
        self._left_out = dict[str, str]()
        if told is not None:
            self._left_out = dict[str, str](told["left_out"])
        elif not self._chosen:
            cache = getattr(config, "cache", None)
            self._now = digests(cache.mkdir("reached") / "sources.json" if cache else None)
            self._left_out = {} if FULL else passed_at(self._now)
        # The number of tests of each group that is run as a whole, and those that have passed.
        self._whole = dict[str, int]()
        self._passed = set[tuple[str, str]]()

    def pytest_report_header(self) -> list[str]:
        return [self._told()] if self._left_out else []

    def _told(self) -> str:
        names = ", ".join(f"{group} (passed at {commit})" for group, commit in sorted(self._left_out.items()))
        return f"left out, as nothing that they run with has changed: {names}; FULL=1 runs them"

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
        count_of = Counter(map(_group, items))
        left = [item for item in items if _group(item) in self._left_out]
        if left:
            items[:] = [item for item in items if _group(item) not in self._left_out]
            config.hook.pytest_deselected(items=left)
        yield
        chosen = Counter(map(_group, items))
        self._whole = {group: count for group, count in count_of.items() if group and chosen[group] == count}
        for item in items:
            if group := _group(item):
                item.user_properties.append(("guarded", group))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["left_out"] = self._left_out

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._whole.update(getattr(node, "workeroutput", {}).get("whole", {}))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and (report.passed or hasattr(report, "wasxfail")):
            self._passed.update(
                (str(group), report.nodeid) for name, group in report.user_properties if name == "guarded"
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if (told := getattr(session.config, "workeroutput", None)) is not None:
            told["whole"] = self._whole
        elif exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self._left_out:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: Any, exitstatus: int) -> None:
        if self._left_out:
            terminalreporter.write_line(self._told())
        passed = Counter(group for group, _ in self._passed)
        whole = [group for group, count in self._whole.items() if passed[group] == count and group in self._now]
        if exitstatus == pytest.ExitCode.OK and whole and not self._chosen:
            write_down({group: self._now[group] for group in whole}, self._now)
            where = PASSED.relative_to(ROOT)
            terminalreporter.write_line(f"passed, and noted in {where}: {', '.join(sorted(whole))}; commit it")
