"""Servers of the tests start at once: those of the command line's tests start real ones."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import IO

import pytest
from support.cli_kit import start_module
from support.launcher import Command

from paintarena import testing


@pytest.fixture(scope="session", autouse=True)
def quick_programs(quick_commands: None) -> Generator[None]:
    """Start Paint Arena's programs as forks of what has imported them."""

    def start(module: str, *, env: Mapping[str, str], output: IO[str], errors: IO[str]) -> Command:
        return start_module(module, env=env, out=output.fileno(), err=errors.fileno())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(testing, "start", start)
        yield
