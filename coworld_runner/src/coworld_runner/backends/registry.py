"""Which backends there are: what the installed distributions name under the entry point group ``coworld.backends``.

Ours stand in the metadata of ``coworld-runner`` like anybody's in theirs::

    [project.entry-points."coworld.backends"]
    mine = "my_package.my_module:make_backend"

where ``make_backend`` is a :data:`BackendFactory`. Names are read without importing anything of a backend, and what is
wrong with one is no trouble of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from coworld_core.errors import BackendUnavailable, CoworldError

from .._plugins import entry_points_of, find_entry_point, source_of
from ..backend import Backend

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUP", "BackendFactory", "BackendOptions", "ClusterOptions", "backend_names", "find_backend"]

GROUP = "coworld.backends"
"""The entry point group."""


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Which cluster, and how pods are made there; what is None is found out, as ``KubernetesBackend`` says."""

    context: str | None = None
    namespace: str | None = None
    kubeconfig: Path | None = None
    collector_image: str | None = None
    network_policy: bool | None = None
    pull_secrets: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class BackendOptions:
    """What a backend may want to know when it is made; each takes what concerns it, and leaves the rest."""

    contexts: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """The directory that each image of the package is built from, by image reference: what the package's compose file
    says. A mapping may know an image under another tag than it lists."""
    cluster: ClusterOptions = ClusterOptions()
    """What was said about a cluster."""


BackendFactory = Callable[[BackendOptions], Backend]
"""What an entry point refers to: makes a backend, not yet entered. It opens nothing, so that it is quick."""


def backend_names() -> tuple[str, ...]:
    """Names of the backends that are installed, in the order of the alphabet."""
    return tuple(_entry_points())


def find_backend(name: str) -> BackendFactory:
    """What makes the backend of that name; its module is imported only when that is called.

    Raises:
        UsageError: There is none of that name, or two distributions have one.
    """
    first = find_entry_point(name, _entry_points(), noun="backend")

    def make(options: BackendOptions) -> Backend:
        try:
            made = first.load()(options)
        except CoworldError:
            raise
        except (Exception, SystemExit) as error:
            raise _broken(first, f"it cannot be made: {type(error).__name__}: {error}") from error
        if not isinstance(made, Backend):
            raise _broken(first, f"what was made is a {type(made).__name__}, and no coworld_runner.Backend")
        return made

    return make


def _entry_points() -> Mapping[str, list[EntryPoint]]:
    found = entry_points_of(GROUP)
    # which stands for one of the others
    found.pop("auto", None)
    return found


def _broken(entry: EntryPoint, why: str) -> BackendUnavailable:
    return BackendUnavailable(
        f"The backend {entry.name!r} of {source_of(entry)} is of no use: {why}.",
        code="backend_broken",
        hint=f"Update or uninstall {source_of(entry)}; its entry point is {entry.name} = {entry.value!r}.",
        context={"backend": entry.name, "distribution": source_of(entry), "entry_point": entry.value},
    )
