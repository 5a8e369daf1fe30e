"""Fixtures of the command line's tests; what they stand on is in `support.cli_kit`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.cli_kit import Started, Terminal, write_world
from support.fake_platform import FakePlatform
from support.fake_server import site_in_thread

from coworld_cli.main import cli
from coworld_client.transport import _connection
from coworld_core.retries import Backoff


@pytest.fixture
def start(no_leaks: None) -> Iterator[Callable[..., Started]]:
    """Start a command; what still runs at the end is killed."""
    started: list[Started] = []

    def begin(*args: str | Path, env: Mapping[str, str | None] | None = None, cwd: Path | None = None) -> Started:
        started.append(Started(args, env, cwd))
        return started[-1]

    yield begin
    for one in started:
        one.close()


@pytest.fixture
def terminal(no_leaks: None) -> Iterator[Callable[..., Terminal]]:
    """Start a command on a terminal; what still runs at the end is killed."""
    started: list[Terminal] = []

    def begin(*args: str | Path, env: Mapping[str, str | None] | None = None, columns: int = 100) -> Terminal:
        started.append(Terminal(args, env, columns))
        return started[-1]

    yield begin
    for one in started:
        one.close()


@pytest.fixture
def world(tmp_path: Path) -> Callable[..., Path]:
    """Write a small Coworld below the test's directory (see `support.cli_kit.write_world`)."""

    def write(game: str = "", *players: str, directory: str = "world", **config: Any) -> Path:
        return write_world(tmp_path / directory, game, *players, **config)

    return write


@pytest.fixture
def told(no_leaks: None) -> Iterator[FakePlatform]:
    """A platform that answers as the test tells it."""
    with site_in_thread(FakePlatform()) as told:
        yield told


@pytest.fixture
def run(told: FakePlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Result]]:
    """Run a command in this process, signed in to that platform, in the test's directory; it tries again at once."""
    monkeypatch.setattr(_connection, "Backoff", lambda: Backoff(base=0.0))
    monkeypatch.setenv("SOFTMAX_CONFIG_DIR", str(tmp_path / ".config"))
    monkeypatch.setenv("COWORLD_SERVER", told.url)
    monkeypatch.setenv("COWORLD_TOKEN", "token-of-ada")
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.chdir(tmp_path)
    time.tzset()

    def run(*words: str, input: str | None = None) -> Result:
        result = CliRunner().invoke(cli, words, input=input)
        assert "Traceback" not in result.output
        return result

    yield run
    monkeypatch.undo()
    time.tzset()
