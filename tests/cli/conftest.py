"""Fixtures of the command line's tests; what they stand on is in ``support.cli_kit``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.cli_kit import Started, Terminal, write_world


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
    """Write a small Coworld below the test's directory (see ``support.cli_kit.write_world``)."""

    def write(game: str = "well", *players: str, directory: str = "world", **config: Any) -> Path:
        return write_world(tmp_path / directory, game, *players, **config)

    return write
