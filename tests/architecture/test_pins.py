"""A clone installs the versions that were tested."""

from __future__ import annotations

import tomllib
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


def test_installed_tools_are_pinned() -> None:
    """Red after somebody has let versions move on, or added a library: the message says what to write."""
    workspace = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["uv"]
    pins = {canonicalize_name(pin.name): pin for pin in map(Requirement, workspace["constraint-dependencies"])}
    assert all(str(pin.specifier).startswith("==") for pin in pins.values())
    own = {
        canonicalize_name(tomllib.loads((ROOT / member / "pyproject.toml").read_text())["project"]["name"])
        for member in workspace["workspace"]["members"]
    }
    installed = {canonicalize_name(found.metadata["Name"]): found.version for found in distributions()}
    wrong = [
        f"{name}=={version}"
        for name, version in sorted(installed.items())
        if name not in own and (name not in pins or not pins[name].specifier.contains(version, prereleases=True))
    ]
    assert wrong == [], "to be written into constraint-dependencies of pyproject.toml"
