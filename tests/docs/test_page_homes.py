"""Each page is executed as a person of its own, with the tools of this machine."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from support.docs_pages import ROOT, become_somebody

from coworld_client import CredentialStore
from coworld_runner.package.player_registry.registry_folder import default_registry
from coworld_runner.records.known_places import default_index, known_places, remember_directory


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.stem)
def test_a_page_that_needs_the_examples_says_so(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if any("examples/" in block for block in re.findall(r"^```\w+\n(.*?)^```", text, re.MULTILINE | re.DOTALL)):
        assert "a clone" in text.split("\n## ")[0]


def cache_of_uv() -> str:
    return subprocess.run(["uv", "cache", "dir"], capture_output=True, text=True, check=True).stdout


def test_what_one_page_leaves_is_not_there_on_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = cache_of_uv()
    for name in ("first", "second"):
        with monkeypatch.context() as patch:
            become_somebody(tmp_path / name, patch)
            places = (default_registry(), default_index(), CredentialStore.from_environment().path, Path.home())
            assert all(place.is_relative_to(tmp_path / name) for place in places)
            assert known_places() == []
            remember_directory(tmp_path)
            assert known_places() == [tmp_path]
            assert cache_of_uv() == cache
