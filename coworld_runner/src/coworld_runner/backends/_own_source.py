"""The source of our modules that run in another Python than this one: in the helper containers of pods and proxies."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from coworld_core.errors import EnvironmentFault

__all__ = ["own_sources"]


def _own_source(path: str) -> bytes:
    """Return the source of one module of this package.

    Args:
        path: Its file below the package, such as `web/proxies/https_proxy.py`.

    Raises:
        EnvironmentFault: This installation has compiled files alone.
    """
    file = files("coworld_runner").joinpath(path)
    if file.is_file():
        return file.read_bytes()
    raise EnvironmentFault(
        f"This installation of coworld-runner lacks the source of {path}, which runs in a container.",
        code="source_missing",
        hint="Install coworld-runner from its wheel.",
    )


def own_sources(package: str) -> Mapping[str, bytes]:
    """Return the source of each module of a package in this one, by file name.

    Args:
        package: Its folder.

    Raises:
        EnvironmentFault: This installation has compiled files alone.
    """
    there = {item.name for item in files("coworld_runner").joinpath(package).iterdir()}
    names = sorted(name for name in {"__init__.py", *there} if name.endswith(".py"))
    return {name: _own_source(f"{package}/{name}") for name in names}
