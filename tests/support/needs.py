"""What tests need of a machine beyond Python: one mark for each need, and the command that brings what is missing.

On a machine that lacks what a mark names, `@pytest.mark.docker` for example, the test is skipped before its fixtures
are set up, and counted in one line at the end of the run. With `CI=true` it fails.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.expression import Expression

from coworld_core.docker_address import EngineRefused, resolve_address
from coworld_core.errors import BackendUnavailable, CoworldError
from coworld_runner.backends.docker._engine import Engine, path_segment

from .elsewhere import in_thread

__all__ = [
    "BASE_IMAGE",
    "IN_CI",
    "MARKS",
    "NEEDS",
    "LeftOut",
    "Need",
    "find_browser",
    "find_postgres",
    "may_select",
    "needs_of",
    "possible_marks",
    "selects_slow",
]

IN_CI = os.environ.get("CI") == "true"

BASE_IMAGE = os.environ.get("BASE_IMAGE", "python-base:bookworm")
"""A small local image with Python 3.11 or later; tests never fetch images from a registry."""

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, kw_only=True)
class Need:
    """Something that a machine may lack."""

    trouble: Callable[[], str]
    """Says what is missing; empty if nothing is. Looked up once in a process."""
    bring: str
    """The command that brings it, on Debian."""


def find_browser() -> str | None:
    """The path of Debian's chromium; the headless shell takes a third of the time per page."""
    return shutil.which("chromium-headless-shell") or shutil.which("chromium")


def find_postgres() -> Path | None:
    """The directory of the newest installed PostgreSQL server's programs, or None."""
    home = Path(os.environ.get("POSTGRESQL_HOME", "/usr/lib/postgresql"))
    found = sorted(home.glob("*/bin/postgres"), key=lambda path: float(path.parts[-3]))
    return found[-1].parent if found else None


@cache
def _docker_trouble() -> str:
    async def look() -> str:
        try:
            async with Engine.connect(resolve_address()) as engine:
                await engine.call("GET", f"/images/{path_segment(BASE_IMAGE)}/json")
        except BackendUnavailable as error:
            return error.message
        except EngineRefused:
            return f"The Docker engine has no image {BASE_IMAGE!r}; BASE_IMAGE names one with Python."
        return ""

    return in_thread(look)


@cache
def _kubernetes_trouble() -> str:
    # The cluster's node is this machine, and runs images of its engine.
    if trouble := _docker_trouble():
        return trouble
    if not os.environ.get("KUBECONFIG"):
        return "KUBECONFIG is not set."
    # Only tests of a cluster import its client.
    from coworld_runner.backends.kubernetes._cluster import Cluster

    async def look() -> str:
        try:
            cluster = await Cluster.connect(namespace="default")
        except CoworldError as error:
            return error.message
        await cluster.close()
        return ""

    return in_thread(look)


def _wheels_trouble() -> str:
    wheels = ROOT / "examples/paintarena/wheels"
    return "" if list(wheels.glob("coworld_client-*.whl")) else "There are no wheels in examples/paintarena/wheels."


def _program_trouble(name: str) -> Callable[[], str]:
    return lambda: "" if shutil.which(name) else f"The command {name} is not on PATH."


@cache
def _network_trouble() -> str:
    # Only tests of two machines run programs on them
    from .two_machines import network_trouble

    return network_trouble()


NEEDS: Mapping[str, Need] = {
    "docker": Need(
        trouble=_docker_trouble,
        bring="sudo apt-get install docker.io && export BASE_IMAGE=python:3.12-slim && docker pull $BASE_IMAGE",
    ),
    "browser": Need(
        trouble=lambda: "" if find_browser() else "Chromium is not on PATH.", bring="sudo apt-get install chromium"
    ),
    "node": Need(trouble=_program_trouble("node"), bring="sudo apt-get install nodejs"),
    "curl": Need(trouble=_program_trouble("curl"), bring="sudo apt-get install curl"),
    "git": Need(trouble=_program_trouble("git"), bring="sudo apt-get install git"),
    "ffmpeg": Need(trouble=_program_trouble("ffmpeg"), bring="sudo apt-get install ffmpeg"),
    "skopeo": Need(trouble=_program_trouble("skopeo"), bring="sudo apt-get install skopeo"),
    "openssl": Need(trouble=_program_trouble("openssl"), bring="sudo apt-get install openssl"),
    "wheels": Need(trouble=_wheels_trouble, bring="the lines of .ci/run that fill examples/paintarena/wheels"),
    "postgresql": Need(
        trouble=lambda: (
            ""
            if os.environ.get("OBSERVATORY_TEST_POSTGRES") or find_postgres()
            else "There is no PostgreSQL server in /usr/lib/postgresql, and OBSERVATORY_TEST_POSTGRES is not set."
        ),
        bring="sudo apt-get install postgresql",
    ),
    "networks": Need(trouble=_network_trouble, bring="sudo apt-get install iproute2, and run the tests as root"),
    "kubernetes": Need(
        trouble=_kubernetes_trouble, bring="KUBECONFIG=FILE uv run --group test pytest -m kubernetes (README, Tests)"
    ),
}
"""By the name of the mark."""


def needs_of(item: pytest.Item) -> list[str]:
    """The names of what a test needs."""
    return [name for name in NEEDS if item.get_closest_marker(name)]


def selects_slow(config: pytest.Config) -> bool:
    """Whether a run takes the tests marked `slow`; plainly called, it leaves them out (pyproject.toml)."""
    chosen = str(config.option.markexpr)
    return not chosen or Expression.compile(chosen).evaluate(partial(_is_among, ("slow",)))


MARKS = frozenset({*NEEDS, "alone", "more", "slow"})
"""The marks by which tests are selected."""


@cache
def possible_marks(place: Path) -> frozenset[str]:
    """The marks that tests of a file can have: those named in it, or in a `conftest.py` of its folders in `tests`."""
    if place == TESTS:
        return frozenset()
    file = place / "conftest.py" if place.is_dir() else place
    words = {*_WORD.findall(file.read_text(encoding="utf-8"))} if file.exists() else set[str]()
    if "needing" in words:
        words |= NEEDS.keys()
    if not words.isdisjoint(NEEDS):
        words |= {"more", "slow"}
    return possible_marks(place.parent) | words & MARKS


def may_select(config: pytest.Config, file: Path) -> bool:
    """Whether a run may take a test of this file; its text says it at once, while importing it takes time."""
    chosen = str(config.option.markexpr)
    if not chosen or not file.is_relative_to(TESTS):
        return True
    expression = Expression.compile(chosen)
    asked = sorted(possible_marks(file).intersection(_WORD.findall(chosen)))
    return any(
        expression.evaluate(partial(_is_among, marks))
        for count in range(len(asked) + 1)
        for marks in combinations(asked, count)
    )


def _is_among(names: Collection[str], name: str, /, **_: object) -> bool:
    return name in names


class LeftOut:
    """A pytest plugin that skips what a machine cannot run.

    The last line of a run says what was left out, by its marks, and what brings it.
    """

    def __init__(self) -> None:
        self._skipped = Counter[str]()
        self._deselected = Counter[str]()
        self._others = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        for name in needs_of(item):
            if trouble := NEEDS[name].trouble():
                item.user_properties.append(("lacks", name))
                pytest.skip(f"needs {name}: {trouble}")

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        # What was not asked for, by -k or by the number of a line, is not left out
        unasked = ["kubernetes"] if not items or selects_slow(items[0].config) else ["kubernetes", "slow"]
        for item in items:
            self._deselected.update([name for name in unasked if item.get_closest_marker(name)][:1])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            lacks = [str(name) for key, name in report.user_properties if key == "lacks"]
            self._skipped.update(lacks)
            self._others += not lacks

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if (told := getattr(session.config, "workeroutput", None)) is not None:
            told["deselected"] = dict(self._deselected)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        # Each worker has collected, and so deselected, the same tests.
        self._deselected |= Counter(getattr(node, "workeroutput", {}).get("deselected", {}))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        left = [
            f"{name} {count} ({NEEDS[name].bring})"
            for name in NEEDS
            if (count := self._skipped[name] + self._deselected[name])
        ]
        if slow := self._deselected["slow"]:
            left.insert(0, f'slow {slow} (uv run --group test pytest -m "slow or not slow")')
        if self._others:
            left.append(f"for other reasons {self._others} (-rs says which)")
        if left:
            terminalreporter.write_line(f"left out, with what brings them: {'; '.join(left)}")
