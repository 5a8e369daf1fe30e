"""What all tests share: nothing is left behind, and in CI nothing is skipped."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

from coworld_runner.testing.leaks import leak_check, private_scratch

# what the tests share asserts too, and should say as much when it fails
pytest.register_assert_rewrite("support")

IN_CI = os.environ.get("CI") == "true"


@pytest.fixture(scope="session", autouse=True)
def own_scratch(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Temporary files of this session, apart from those of any other on the machine."""
    with private_scratch(tmp_path_factory.mktemp("scratch")):
        yield


@pytest.fixture(autouse=True)
def no_leaks(request: pytest.FixtureRequest) -> Generator[None]:
    """Fail a test that leaves a process, a thread, a port, a directory or a container behind."""
    # a browser is shared by the tests of a module, and starts and ends processes of its own as it pleases
    browser = ("chromium", "chrome", "chrome_crashpad_handler", "node") if _marked(request, "browser") else ()
    with leak_check(containers=_marked(request, "docker"), ignore=browser):
        yield


def _marked(request: pytest.FixtureRequest, mark: str) -> bool:
    return request.node.get_closest_marker(mark) is not None


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.CallInfo[None]]:
    """In CI, what a test lacks is a failure: a green run has run everything."""
    outcome = yield
    report = outcome.get_result()
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, and in CI nothing is: {report.longrepr}"


def pytest_make_parametrize_id(val: object) -> str | None:
    """Bytes are named by their length: packed ones hold the time, and every worker must collect the same names."""
    return f"{len(val)}-bytes" if isinstance(val, bytes) else None
