"""What all tests share: nothing is left behind, and in CI nothing is skipped."""

from __future__ import annotations

import functools
import gc
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

if sys.dont_write_bytecode:
    # Thousands of interpreters are started here, and each would compile all that it imports. Who wants no bytecode
    # in the tree gets none: it goes to the test run's own cache.
    sys.dont_write_bytecode = False
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(Path(__file__).parents[1] / ".pytest_cache/bytecode")
    del os.environ["PYTHONDONTWRITEBYTECODE"]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what is to run in the background so. Programs of the tests would inherit it, and hear no Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)

from coworld_runner.testing.leaks import leak_check, private_scratch

# what the tests share asserts too, and should say as much when it fails
pytest.register_assert_rewrite("support")

IN_CI = os.environ.get("CI") == "true"


@pytest.fixture(scope="session", autouse=True)
def own_scratch(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Temporary files of this session, apart from those of any other on the machine."""
    with private_scratch(tmp_path_factory.mktemp("scratch")):
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_commands(own_scratch: None) -> Generator[None]:
    """Commands of the tests start at once; of the session, so that what starts them is no leak of a test."""
    from support import cli_kit

    with cli_kit.quick_commands("coworld", "observatory"):
        yield


@pytest.fixture(scope="session", autouse=True)
def authorities_once() -> Generator[None]:
    """Read the authorities of HTTPS once: each of thousands of HTTP clients would for itself, and take 25 ms for it."""
    import httpcore2

    read = httpcore2.default_ssl_context
    with pytest.MonkeyPatch.context() as patch:
        # told apart by what says where they are
        kept = functools.cache(lambda _env, **options: read(**options))
        named = ("SSL_CERT_FILE", "SSL_CERT_DIR")
        patch.setattr(
            httpcore2, "default_ssl_context", lambda **options: kept(tuple(map(os.environ.get, named)), **options)
        )
        yield


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    """One browser for the tests of a module, as it takes longer to start than most of them."""
    from support.browser import browsing

    with browsing() as started:
        yield started


@pytest.fixture(autouse=True)
def no_leaks(request: pytest.FixtureRequest) -> Generator[None]:
    """Fail a test that leaves a process, a thread, a port, a directory or a container behind."""
    # a browser is shared by the tests of a module, and starts and ends processes of its own as it pleases
    browser = (
        ("chromium", "chromium-headless-shell", "chrome", "chrome_crashpad_handler", "node")
        if _marks(request.node, "browser")
        else ()
    )
    with leak_check(containers=_marks(request.node, "docker"), ignore=browser):
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
    outcome = yield
    report = outcome.get_result()
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, and in CI nothing is: {report.longrepr}"


# --- who runs what --------------------------------------------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    """Long tests are left out while nothing has changed that they guard."""
    from support.guarded import Groups

    config.pluginmanager.register(Groups(config))


SPREAD = (
    "tests/benchmarks/",
    "tests/chaos/",
    "tests/cli/test_episodes.py",
    "tests/conformance/test_broken_backends.py",
    "tests/conformance/test_docker.py",
    "tests/conformance/test_kubernetes.py",
    "tests/docs/test_pages.py",
    "tests/docs/test_platform_pages.py",
    "tests/faults/test_matrix.py",
    "tests/faults/test_runs.py",
    "tests/kubernetes/",
    "tests/runner/test_certify_backends.py",
    "tests/runner/test_certify_steps.py",
    "tests/runner/test_kube_backend.py",
)
"""Where tests need nothing of each other and take their time: each goes to whichever worker is free.

The tests of any other file are run by one worker, so that what they share is made once."""


SOURCES = (
    "tests/architecture/test_layering.py",
    "tests/architecture/test_circles.py",
    "tests/architecture/test_sizes.py",
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """More than two processors, since much of the suite waits: for real programs, or for a deadline.

    Each worker imports and collects everything, six seconds of a processor. What is quick waits less.
    """
    return 4 if config.option.markexpr == "not slow" else 6


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Hand out files, and the tests of those that are spread one by one, in the order of the collection."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(SPREAD):
                return nodeid
            # these read all sources, which one worker parses once for all of them
            return "sources" if nodeid.startswith(SOURCES) else nodeid.partition("::")[0]

    return ByFile(config, log)


SLOW = (
    "tests/architecture/test_distributions.py",
    "tests/benchmarks/",
    "tests/chaos/",
    "tests/cli/test_build_certify.py",
    "tests/cli/test_documents.py",
    "tests/cli/test_episodes.py",
    "tests/cli/test_evaluations.py::test_ctrl_c_keeps_what_was_played",
    "tests/cli/test_evaluations.py::test_what_is_wrong_with_a_player",
    "tests/cli/test_kube_commands.py",
    "tests/cli/test_play_replay.py",
    "tests/cli/test_progress.py",
    "tests/cli/test_signals.py",
    "tests/client/test_login.py::test_the_whole_way_at_an_observatory",
    "tests/client/test_observatory.py",
    "tests/client/test_uploads.py",
    "tests/conformance/test_broken_backends.py",
    "tests/conformance/test_process.py",
    "tests/core/test_any_actions.py",
    "tests/core/test_issue_codes.py::test_schemas_that_are_too_",
    "tests/core/test_properties.py::test_what_loads_is_written_whole",
    "tests/docs/test_pages.py",
    "tests/docs/test_platform_pages.py",
    "tests/e2e/",
    "tests/faults/",
    "tests/observatory/test_annotations.py",
    "tests/observatory/test_backup.py",
    "tests/observatory/test_bounds.py::test_a_client_that_does_not_read_is_dropped",
    "tests/observatory/test_cli.py",
    "tests/observatory/test_commissioned.py",
    "tests/observatory/test_demo.py",
    "tests/observatory/test_episodes.py",
    "tests/observatory/test_experience.py",
    "tests/observatory/test_hosted.py",
    "tests/observatory/test_operating.py",
    "tests/observatory/test_leagues.py",
    "tests/observatory/test_lobbies.py",
    "tests/observatory/test_openapi.py",
    "tests/observatory/test_published_client.py",
    "tests/observatory/test_rounds.py",
    "tests/observatory/test_seasons.py",
    "tests/observatory/test_secret_references.py",
    "tests/observatory/test_server.py::test_starts_knows_its_callers_and_stops",
    "tests/observatory/test_uploads.py",
    "tests/observatory/test_web.py",
    "tests/observatory/test_worker.py",
    "tests/paintarena/test_players.py",
    "tests/paintarena/test_replay_mode.py",
    "tests/paintarena/test_server.py",
    "tests/paintarena/test_shutdown.py",
    "tests/runner/test_certify_backends.py",
    "tests/runner/test_certify_page.py::test_a_real_page_is_self_contained_and_tells_everything",
    "tests/runner/test_certify_steps.py",
    "tests/runner/test_commissioner.py",
    "tests/runner/test_evaluation.py",
    "tests/runner/test_file_players.py",
    "tests/runner/test_kube_collector.py::test_what_is_brought_is_whole_before_the_unit_may_start",
    "tests/runner/test_kube_logs.py::test_a_log_that_a_node_never_has_is_not_whole",
    "tests/runner/test_many.py::test_more_at_a_time_than_files_may_be_open",
    "tests/runner/test_process_death.py",
    "tests/runner/test_process_units.py::test_what_was_seen_last_is_told_apart",
    "tests/runner/test_seat_env.py",
    "tests/runner/test_serving.py::test_a_long_game_takes_no_more_memory_than_a_short_one",
    "tests/runner/test_serving.py::test_a_player_that_floods_pays_for_it_alone",
    "tests/runner/test_serving_program.py",
    "tests/runner/test_slow_moves.py",
    "tests/runner/test_tournament.py",
    "tests/runner/test_trees.py::test_depth_and_length_do_not_matter",
    "tests/runner/test_verification.py",
    "tests/runner/test_worker_init.py",
    "tests/runner/test_worker_transfer.py::test_time_is_up",
    "tests/runner/test_workspace.py::test_overwrite_empties_whatever_a_program_has_left",
    "tests/security/",
)
"""Where programs are played, platforms served and pages opened: not what one waits for at each change."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where nothing slow is wanted, what holds nothing else is not even imported."""
    path = collection_path.relative_to(config.rootpath).as_posix() + "/" * collection_path.is_dir()
    return True if config.option.markexpr == "not slow" and path in SLOW else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow for what it needs or where it stands; and slow files come first, so that none is left over."""
    for item in items:
        if item.nodeid.startswith(SLOW) or any(_marks(item, name) for name in ("browser", "docker", "kubernetes")):
            item.add_marker("slow")
    # whoever has asked for more time than others needs it
    long = {item.nodeid.partition("::")[0] for item in items if _marks(item, "timeout")}
    items.sort(key=lambda item: (not _marks(item, "slow"), item.nodeid.partition("::")[0] not in long))


def _marks(item: pytest.Item, name: str) -> bool:
    return item.get_closest_marker(name) is not None


def pytest_make_parametrize_id(val: object) -> str | None:
    """Bytes are named by their length: packed ones hold the time, and every worker must collect the same names."""
    return f"{len(val)}-bytes" if isinstance(val, bytes) else None
