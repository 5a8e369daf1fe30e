"""What all tests share: nothing is left behind, and in CI nothing is skipped."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

if sys.dont_write_bytecode:
    # Thousands of interpreters are started here, and each would compile all that it imports. Who wants no bytecode
    # in the tree gets none: it goes to the test run's own cache.
    sys.dont_write_bytecode = False
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(Path(__file__).parents[1] / ".pytest_cache/bytecode")
    del os.environ["PYTHONDONTWRITEBYTECODE"]

if os.environ.get("SSL_CERT_DIR"):
    # A directory of authorities is looked up when needed; a file is read as a whole by each of thousands of clients.
    os.environ.pop("SSL_CERT_FILE", None)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what is to run in the background so. Programs of the tests would inherit it, and hear no Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)

from coworld_runner.testing.leaks import leak_check, private_scratch

# What the tests share asserts too, and should say as much when it fails
pytest.register_assert_rewrite("support")


@pytest.fixture(scope="session", autouse=True)
def own_scratch(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Temporary files of this session, apart from those of any other on the machine."""
    with private_scratch(tmp_path_factory.mktemp("scratch")), pytest.MonkeyPatch.context() as patch:
        # Where runs were left is noted there, and those of tests are soon gone
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        # A player is named by any word, and must not be one that somebody has published
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_commands(own_scratch: None) -> Generator[None]:
    """Commands of the tests start at once; of the session, so that what starts them is no leak of a test."""
    from support import cli_kit

    with cli_kit.quick_commands("coworld", "observatory"):
        yield


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    """One browser for the tests of a module, as it takes longer to start than most of them."""
    from support.browser import browsing

    with browsing() as started:
        yield started


@pytest.fixture(autouse=True)
def no_browser_unasked(request: pytest.FixtureRequest) -> Generator[None]:
    """Certifications look at pages only in tests that are about that."""
    # Not the fixture of that name, which would undo what a test has patched only after the check for leaks
    with pytest.MonkeyPatch.context() as patch:
        if not request.node.get_closest_marker("browser"):
            patch.setenv("COWORLD_BROWSER", "none")
        yield


@pytest.fixture(autouse=True)
def no_leaks(request: pytest.FixtureRequest) -> Generator[None]:
    """Fail a test that leaves a process, a thread, a port, a directory or a container behind."""
    # A browser is shared by the tests of a module, and starts and ends processes of its own as it pleases
    browser = (
        ("chromium", "chromium-headless-shell", "chrome", "chrome_crashpad_handler", "node")
        if request.node.get_closest_marker("browser")
        else ()
    )
    with leak_check(containers=request.node.get_closest_marker("docker") is not None, ignore=browser):
        yield


def pytest_collection_finish() -> None:
    """Tests stay until the end: garbage collection need not go through thousands of them again and again.

    Nor so often: thousands of programs' worth of objects come and go, and few of them in cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.CallInfo[None]]:
    """In CI, what a test lacks is a failure: a green run has run everything."""
    from support.needs import IN_CI

    outcome = yield
    report = outcome.get_result()
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, and in CI nothing is: {report.longrepr}"


def pytest_configure(config: pytest.Config) -> None:
    """Say what is left out, and search for examples as long as the run may take."""
    from support.needs import LeftOut, selects_slow

    config.pluginmanager.register(LeftOut())
    # Examples of a property take longer on a busy machine, which says nothing of it
    settings.register_profile("quick", deadline=None, max_examples=20)
    settings.register_profile("thorough", deadline=None)
    settings.load_profile("thorough" if selects_slow(config) else "quick")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """A few more than there are processors: slow tests wait, but many of them wait for each other until they fail."""
    from support.needs import selects_slow

    from coworld_runner.runs.processors import usable_processors

    return usable_processors() + (3 if selects_slow(config) else 1)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Not one file is imported for nothing: each worker of each run would do so."""
    from support.needs import may_select

    is_test = collection_path.name.startswith("test_") and collection_path.is_file()
    return True if is_test and not may_select(config, collection_path) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What needs more than Python has the mark `more`, and is slow: it waits for containers, pages or servers.

    What needs a cluster runs only where that is asked for: pods and local programs would take each other's time.
    """
    from support.needs import MARKS, needs_of, possible_marks

    for item in items:
        if strange := MARKS.intersection(mark.name for mark in item.iter_markers()) - possible_marks(item.path):
            raise pytest.UsageError(f"{item.nodeid} has marks that its file does not name: {sorted(strange)}")
        if needs_of(item):
            item.add_marker("more")
            item.add_marker("slow")
    if not re.search("kubernetes|alone", config.option.markexpr):
        apart = [item for item in items if item.get_closest_marker("kubernetes")]
        items[:] = [item for item in items if not item.get_closest_marker("kubernetes")]
        if apart:
            config.hook.pytest_deselected(items=apart)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Bytes are named by their length: packed ones hold the time, and every worker must collect the same names."""
    return f"{len(val)}-bytes" if isinstance(val, bytes) else None
