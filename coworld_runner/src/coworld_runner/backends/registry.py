"""Finds backends: installed distributions name them in the entry point group `coworld.backends`.

`coworld-runner` declares its own backends in its metadata, as any other distribution does::

    [project.entry-points."coworld.backends"]
    mine = "my_package.my_module:make_backend"

where `make_backend` is a :data:`BackendFactory`. Names are read without importing any backend, and a broken backend
does not affect the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coworld_core.errors import BackendUnavailable, CoworldError

from ..backend import Backend
from ._plugins import entry_points_of, find_entry_point, source_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUP", "BackendFactory", "BackendOptions", "ClusterOptions", "backend_names", "find_backend"]

GROUP = "coworld.backends"
"""The entry point group."""


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Which cluster to use and how to create pods there; `KubernetesBackend` documents what None stands for."""

    context: str | None = None
    namespace: str | None = None
    kubeconfig: Path | None = None
    collector_image: str | None = None
    network_policy: bool | None = None
    pull_secrets: tuple[str, ...] = ()
    pods: Path | Mapping[str, Any] | None = None
    """What else is to be said of pods: `PodOverlay.read` has the content."""
    allow_privileged: bool = False
    """Whether `pods` may ask for what lets a program out of its pod."""


@dataclass(frozen=True, kw_only=True)
class BackendOptions:
    """Options for creating a backend; each backend uses those that concern it and ignores the rest."""

    contexts: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Build contexts by image reference, from the package's compose file. The mapping may also resolve tags
    that it does not list."""
    cluster: ClusterOptions = ClusterOptions()
    """Options for a cluster."""
    install: bool = False
    """Whether a package gets an environment with what its Dockerfile installs, where it runs outside its image."""


BackendFactory = Callable[[BackendOptions], Backend]
"""The target of an entry point: creates a backend without entering it. It opens nothing, so it is quick."""


def backend_names() -> tuple[str, ...]:
    """Names of the installed backends, in alphabetical order."""
    return tuple(_entry_points())


def find_backend(name: str) -> BackendFactory:
    """Return the factory of a backend; its module is imported only when the factory is called.

    Raises:
        UsageError: No backend has that name, or two distributions have one.
    """
    first = find_entry_point(name, _entry_points(), noun="backend")

    def make(options: BackendOptions) -> Backend:
        try:
            made = first.load()(options)
        except CoworldError:
            raise
        except (Exception, SystemExit) as error:
            raise _broken(first, f"it cannot be created: {type(error).__name__}: {error}") from error
        if not isinstance(made, Backend):
            raise _broken(first, f"its factory returned a {type(made).__name__}, not a coworld_runner.Backend")
        return made

    return make


def _entry_points() -> Mapping[str, list[EntryPoint]]:
    found = entry_points_of(GROUP)
    # "auto" is reserved: it selects one of the others
    found.pop("auto", None)
    return found


def _broken(entry: EntryPoint, why: str) -> BackendUnavailable:
    return BackendUnavailable(
        f"The backend {entry.name!r} of {source_of(entry)} cannot be used: {why}.",
        code="backend_broken",
        hint=f"Update or uninstall {source_of(entry)}; its entry point is {entry.name} = {entry.value!r}.",
        context={"backend": entry.name, "distribution": source_of(entry), "entry_point": entry.value},
    )
