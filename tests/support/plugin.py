"""Installs distributions with backends or hooks into a separate directory, as a package manager would."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["MOON", "install"]

MOON = """
import dataclasses
import os
from pathlib import Path

from coworld_runner.backends.process.process_backend import ProcessBackend

if "MOON_IMPORTED" in os.environ:
    Path(os.environ["MOON_IMPORTED"]).touch()


class Moon(ProcessBackend):
    name = "moon"

    def unit(self, spec, *, publish, tasks):
        spec = dataclasses.replace(spec, argv=("env", "ON=moon", *spec.argv))
        return super().unit(spec, publish=publish, tasks=tasks)


def make_backend(options):
    return Moon(contexts=options.contexts)
"""
"""A module with a working backend: local processes, started by `env`."""


def install(
    site: Path,
    *,
    distribution: str = "coworld-moon",
    backends: Mapping[str, str] | None = None,
    hooks: Mapping[str, str] | None = None,
    modules: Mapping[str, str],
) -> Path:
    """Install a distribution.

    Args:
        site: A directory for `PYTHONPATH`; created if missing.
        distribution: The name of the distribution.
        backends: Its entry points `coworld.backends`: names of backends and their targets.
        hooks: Its entry points `coworld.hooks`, likewise.
        modules: Source text of its modules, by name.

    Returns:
        `site`.
    """
    info = site / f"{distribution.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    groups = {"coworld.backends": backends or {}, "coworld.hooks": hooks or {}}
    sections = (
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in groups.items()
        if entries
    )
    (info / "entry_points.txt").write_text("".join(sections))
    for name, source in modules.items():
        (site / f"{name}.py").write_text(source)
    return site
