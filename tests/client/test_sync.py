"""The client for code that is not async: the same calls, errors and rows, without anything left behind."""

from __future__ import annotations

import ast
import inspect
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from functools import cached_property
from pathlib import Path

import anyio
import pytest
from client.sync_stub import STUB, meaning, stub
from support.fake_platform import FakePlatform, uid
from support.fake_server import Ask, Say, nobody_there, serve_in_thread, site_in_thread

from coworld_client import ApiConnectionError, CoworldClient, CredentialStore, NotFound, NotLoggedIn, SyncClient
from coworld_client.resources._base import Resource
from coworld_client.sign_in.login import use_player
from coworld_core.errors import UsageError

XREQ = f"xreq_{uid(15)}"


@pytest.fixture
def platform() -> Generator[FakePlatform]:
    with site_in_thread(FakePlatform(canned=True)) as site:
        yield site


@pytest.fixture
def api(platform: FakePlatform) -> Generator[SyncClient]:
    with SyncClient(platform.url) as client:
        yield client


def nouns() -> list[str]:
    return [name for name, value in vars(CoworldClient).items() if isinstance(value, cached_property)]


def public(kind: type) -> list[str]:
    return [name for name, value in inspect.getmembers(kind, inspect.isroutine) if not name.startswith("_")]


def test_a_call_returns_what_awaiting_it_returns(api: SyncClient, platform: FakePlatform) -> None:
    async def awaited() -> object:
        async with CoworldClient(platform.url) as other:
            return await other.leagues.get(f"league_{uid(2)}")

    assert api.leagues.get(f"league_{uid(2)}") == anyio.run(awaited)
    assert (api.server, api.acting_as, api.web_url("/x")) == (platform.url, "anonymous", f"{platform.url}/x")


def test_a_list_is_iterated_over_and_has_pages(api: SyncClient) -> None:
    policies = api.policies.list()
    assert [row.name for row in policies] == [row.name for row in policies] == ["painter"]
    assert [len(page) for page in policies.pages()] == [1]


def test_what_is_watched_is_entered_and_iterated_over(api: SyncClient) -> None:
    with api.watch(XREQ) as changes:
        first = next(iter(changes))
        assert changes.cursor == first.cursor is not None
    assert api.experience.wait(XREQ).status.is_success


def test_an_async_function_is_called_with_the_async_client(api: SyncClient, tmp_path: Path) -> None:
    store = CredentialStore(tmp_path / "credentials.yaml")
    with pytest.raises(UsageError) as raised:
        api.run(use_player, "ply_nobody", store)
    assert raised.value.code == "player_unknown"


@pytest.mark.parametrize("noun", nouns())
def test_every_public_method_is_reachable_and_typed(noun: str, api: SyncClient) -> None:
    resource = type(getattr(CoworldClient("http://127.0.0.1:1"), noun))
    assert issubclass(resource, Resource)
    methods = public(resource)
    assert methods
    typed = {node.name: node for node in ast.parse(STUB.read_text()).body if isinstance(node, ast.ClassDef)}
    of_noun = typed[f"_{resource.__name__}"]
    assert sorted(node.name for node in of_noun.body if isinstance(node, ast.FunctionDef)) == methods
    for name in methods:
        method = getattr(getattr(api, noun), name)
        assert not inspect.iscoroutinefunction(method)
        assert method.__doc__ == getattr(resource, name).__doc__
    assert set(public(resource)) <= set(dir(getattr(api, noun)))


def test_the_client_has_all_that_the_async_one_has() -> None:
    client = next(n for n in ast.parse(STUB.read_text()).body if isinstance(n, ast.ClassDef) and n.name == "SyncClient")
    typed = {node.name for node in client.body if isinstance(node, ast.FunctionDef)}
    wanted = {name for name in dir(CoworldClient) if not name.startswith("_")}
    assert {name for name in typed if not name.startswith("_")} == wanted | {"run"}


def test_the_types_are_those_of_the_async_client() -> None:
    assert meaning(STUB.read_text()) == meaning(stub()), "python tests/client/sync_stub.py writes them"


def test_errors_come_out_as_they_are(platform: FakePlatform) -> None:
    with SyncClient(platform.url) as api, pytest.raises(NotFound) as refused:
        api.leagues.id_of("nothing of that name")
    assert refused.value.status == 404
    with nobody_there() as url, SyncClient(url, max_retries=0) as api, pytest.raises(ApiConnectionError):
        list(api.policies.list())


def test_a_mistake_is_found_before_a_thread_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTMAX_CONFIG_DIR", str(tmp_path))
    monkeypatch.delenv("COWORLD_TOKEN", raising=False)
    before = threading.active_count()
    with pytest.raises(NotLoggedIn):
        SyncClient.from_login("http://127.0.0.1:1")
    with pytest.raises(UsageError):
        SyncClient("not a server")
    assert SyncClient.anonymous("http://127.0.0.1:1").acting_as == "anonymous"
    assert threading.active_count() == before


def test_leaving_ends_the_thread_and_closes_the_client(platform: FakePlatform) -> None:
    before = threading.active_count()
    client = SyncClient(platform.url)
    with pytest.raises(UsageError, match="not open"):
        client.whoami()
    with client as api:
        assert threading.active_count() == before + 1
        rows = iter(api.policies.list())
        watched = api.watch(XREQ)
        policies = api.policies
    assert threading.active_count() == before
    for use in (client.whoami, lambda: next(rows), watched.__enter__, lambda: list(policies.list())):
        with pytest.raises(UsageError) as raised:
            use()
        assert raised.value.code == "client_closed"
    with client as again:
        assert again.whoami() is not None


def test_an_error_inside_ends_the_thread(platform: FakePlatform) -> None:
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError), SyncClient(platform.url) as api, api.watch(XREQ):
        raise ZeroDivisionError
    assert threading.active_count() == before


def test_it_is_opened_once_at_a_time(api: SyncClient) -> None:
    before = threading.active_count()
    with pytest.raises(UsageError) as raised, api:
        raise AssertionError
    assert raised.value.code == "client_open"
    assert threading.active_count() == before
    assert api.whoami() is not None


def test_threads_share_a_client(api: SyncClient) -> None:
    found: list[str] = []

    def look() -> None:
        found.extend(row.name for row in api.policies.list())

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["painter"] * 8


async def test_it_works_inside_a_running_event_loop(platform: FakePlatform) -> None:
    with SyncClient(platform.url) as api:
        assert [row.name for row in api.policies.list()] == ["painter"]


def test_a_callback_that_calls_the_client_is_refused(api: SyncClient) -> None:
    def calling_back(change: object) -> None:
        api.whoami()

    with pytest.raises(RuntimeError, match="event loop thread"):
        api.experience.wait(XREQ, on_change=calling_back)
    assert api.whoami() is not None


INTERRUPTED = """
import signal, sys, threading
from coworld_client import SyncClient

# A job in the background of a shell ignores it
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    with SyncClient(sys.argv[1], timeout=600) as api:
        try:
            api.whoami()
        except KeyboardInterrupt:
            print("stopped", flush=True)
        api.whoami()
except KeyboardInterrupt:
    print("left with", threading.active_count(), "thread")
"""


def test_ctrl_c_ends_a_call_and_then_the_program() -> None:
    asked = threading.Semaphore(0)

    async def never(ask: Ask) -> Say:
        asked.release()
        await anyio.sleep_forever()
        raise AssertionError

    with serve_in_thread(never) as server:
        command = [sys.executable, "-c", INTERRUPTED, server.url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            try:
                assert asked.acquire(timeout=60)
                program.send_signal(signal.SIGINT)
                assert program.stdout.readline() == "stopped\n"
                # the client goes on, with another call
                assert asked.acquire(timeout=60)
                program.send_signal(signal.SIGINT)
                assert program.stdout.read() == "left with 1 thread\n"
                assert program.wait(60) == 0
            finally:
                program.kill()


def test_a_list_left_early_leaves_nothing(platform: FakePlatform) -> None:
    with SyncClient(platform.url) as api:
        for _ in api.policies.list().pages():
            break
        for _ in api.policies.list():
            break
        assert api.whoami() is not None
