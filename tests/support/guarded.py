"""Files that groups of long tests guard, and whether any of them has changed since the group last passed.

A group consists of all tests marked with its name, `@pytest.mark.guarded("cluster")`. As long as none of its files has
changed since the whole group passed, a run leaves the group out and says so. With `FULL=1`, or if the run names files,
no group is left out. A run in which a whole group passes records that in `tests/passed.json`, which is committed
together with the tested change.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from .full import FULL

__all__ = ["GROUPS", "Groups", "digests", "unchanged", "write_down"]

ROOT = Path(__file__).parents[2]
PASSED = ROOT / "tests/passed.json"

CLUSTER = (
    # the code that differs on a cluster, and the code that runs an episode there
    "coworld_runner/src/coworld_runner/backend.py",
    "coworld_runner/src/coworld_runner/backends/*.py",
    "coworld_runner/src/coworld_runner/backends/kubernetes/*.py",
    "coworld_runner/src/coworld_runner/commissioner/*.py",
    "coworld_runner/src/coworld_runner/collector/*.py",
    "coworld_runner/src/coworld_runner/runs/*.py",
    "coworld_runner/src/coworld_runner/episode/*.py",
    "coworld_runner/src/coworld_runner/plan.py",
    "coworld_runner/src/coworld_runner/testing/orphan.py",
    "coworld_runner/src/coworld_runner/worker/*.py",
    "docs/kubernetes.md",
    "docs/kubernetes/*",
    "docs/worker.md",
    "examples/observatory/src/observatory/work/*.py",
    # the tests and their support code
    "tests/chaos/_victim.py",
    "tests/chaos/test_kube_sigkill.py",
    "tests/faults/test_matrix.py",
    "tests/kubernetes/*.py",
    "tests/runner/test_kube_backend.py",
    "tests/runner/test_tournament_backends.py",
    "tests/support/*kube*.py",
    "tests/support/*worker*.py",
    "tests/support/arena.py",
    "tests/support/misfit_kit.py",
    "tests/support/misfits/*",
    "tests/support/packages/hosted/*.*",
    "tests/support/waiting.py",
)

DOCKER = (
    # the engine, and the code that uses it for episodes, builds and programs
    "coworld_core/src/coworld_core/docker_engine.py",
    "coworld_runner/src/coworld_runner/*.py",
    "coworld_runner/src/coworld_runner/backends/*.py",
    "coworld_runner/src/coworld_runner/backends/docker/*.py",
    "coworld_runner/src/coworld_runner/backends/process/_shim.py",
    "coworld_runner/src/coworld_runner/build/*.py",
    "coworld_runner/src/coworld_runner/collector/*.py",
    "coworld_runner/src/coworld_runner/episode/*.py",
    "coworld_runner/src/coworld_runner/images/*.py",
    "coworld_runner/src/coworld_runner/own_players/*.py",
    "coworld_runner/src/coworld_runner/package/*.py",
    "coworld_runner/src/coworld_runner/runs/*.py",
    "coworld_runner/src/coworld_runner/testing/*.py",
    "examples/paintarena/Dockerfile",
    "examples/paintarena/compose.yaml",
    "tests/conformance/test_docker.py",
    "tests/conformance/test_docker_cli.py",
    "tests/faults/test_isolation.py",
    "tests/faults/test_own_players.py",
    "tests/runner/test_build_engine.py",
    "tests/runner/test_docker_units.py",
    "tests/runner/test_program_apart.py",
    "tests/support/arena.py",
    "tests/support/*docker*.py",
    "tests/support/images.py",
    "tests/support/misfit_kit.py",
    "tests/support/misfits/*",
    "tests/support/plugin.py",
    "tests/support/registry.py",
    "tests/support/waiting.py",
)

PUBLISHED = (
    # the code that answers the published clients, and the one that talks to published commissioners
    "coworld_core/src/coworld_core/api/*.py",
    "coworld_core/src/coworld_core/commissioner/*.py",
    "coworld_core/src/coworld_core/tournament/*.py",
    "coworld_runner/src/coworld_runner/commissioner/*.py",
    "coworld_runner/src/coworld_runner/tournament/*.py",
    "examples/observatory/src/observatory/**/*.py",
    "tests/observatory/test_published_*.py",
    "tests/runner/test_published_*.py",
    "tests/support/launcher.py",
    "tests/support/observatory*.py",
    "tests/support/published_*.py",
)

GROUPS = {
    "docker": DOCKER,
    "published": PUBLISHED,
    "cluster": CLUSTER,
    # tests that need the cluster to themselves
    "alone": CLUSTER,
}


def digests() -> dict[str, str]:
    """A digest for each group, of the names and contents of its files."""
    return {group: _digest(patterns) for group, patterns in GROUPS.items()}


def unchanged(now: Mapping[str, str]) -> frozenset[str]:
    """The groups that have passed with exactly these files."""
    return frozenset(group for group, digest in _passed().items() if now.get(group) == digest)


def write_down(passed: Mapping[str, str]) -> None:
    """Record groups that have just passed, with the digests of their files."""
    whole = {group: digest for group, digest in {**_passed(), **passed}.items() if group in GROUPS}
    PASSED.write_text(json.dumps(whole, indent=2, sort_keys=True) + "\n")


def _passed() -> dict[str, str]:
    return json.loads(PASSED.read_text()) if PASSED.exists() else {}


def _digest(patterns: Iterable[str]) -> str:
    whole = hashlib.sha256()
    for pattern in patterns:
        found = sorted(path for path in ROOT.glob(pattern) if path.is_file())
        assert found, f"{pattern} names no file any more"
        for path in found:
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            whole.update(f"{path.relative_to(ROOT)} {content}\n".encode())
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
        self._now = digests()
        if told is not None:
            self._left_out = frozenset[str](told["left_out"])
        else:
            self._left_out = frozenset[str]() if FULL or self._chosen else unchanged(self._now)
        # The number of tests of each group that is run as a whole, and those that have passed.
        self._whole = dict[str, int]()
        self._passed = set[tuple[str, str]]()

    def pytest_report_header(self) -> str | None:
        names = ", ".join(sorted(self._left_out))
        return f"left out, as nothing has changed that they guard: {names} (FULL=1 runs all)" if names else None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
        members = Counter(map(_group, items))
        left = [item for item in items if _group(item) in self._left_out]
        if left:
            items[:] = [item for item in items if _group(item) not in self._left_out]
            config.hook.pytest_deselected(items=left)
        yield
        chosen = Counter(map(_group, items))
        self._whole = {group: count for group, count in members.items() if group and chosen[group] == count}
        for item in items:
            if group := _group(item):
                item.user_properties.append(("guarded", group))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["left_out"] = sorted(self._left_out)

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
        passed = Counter(group for group, _ in self._passed)
        whole = [group for group, count in self._whole.items() if passed[group] == count]
        if exitstatus == pytest.ExitCode.OK and whole and not self._chosen:
            write_down({group: self._now[group] for group in whole})
            where = PASSED.relative_to(ROOT)
            terminalreporter.write_line(f"passed, and noted in {where}: {', '.join(sorted(whole))}; commit it")
