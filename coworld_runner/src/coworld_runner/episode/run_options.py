"""How a run plays: the keyword arguments of everything that plays episodes, and the one value they become."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, cast

from coworld_core.episode.outcome import LOST
from coworld_core.errors import UsageError
from coworld_core.records.labels import check_labels

from ..backend import Backend
from ..runs.event_bus import Listener
from .episode_options import EpisodeOptions
from .parallelism import Parallel, require_parallel

if TYPE_CHECKING:
    from .plan_hooks import EpisodeHook, Hook
    from .venue import EpisodeListeners, Venue

__all__ = ["BatchArguments", "EpisodeArguments", "RunArguments", "RunOptions"]


class RunArguments(TypedDict, total=False):
    """Where a run takes place, where it leaves its evidence, and who reads its events."""

    backend: Backend | str
    """An entered backend, or the name of one that is opened for this run; `auto` by default. Plans need an entered
    one, since they do not say where their images are built."""
    install: bool
    """Whether a package that runs as local processes gets an environment of Python of its own, with what its Dockerfile
    installs by pip; the same for players that are directories. It is made once for each content; needs `backend` as a
    name."""
    workspace: str | os.PathLike[str] | None
    """The directory for the evidence: new or empty, unless an earlier run is resumed in it. None: a fresh one below
    `results` beside the manifest, where `latest` points at it."""
    overwrite: bool
    """Whether what an earlier run has left in the workspace is removed first; refused if anything else is in it."""
    listeners: tuple[Listener, ...]
    """Readers of the run's own events. In a run of many episodes, there is one event for each that ended."""
    latest: bool
    """Whether to point `latest` beside a named workspace at it, once there is a replay."""
    run_id: str | None
    """The run's label; a new one by default. Each of many episodes has a label of its own."""
    labels: Mapping[str, str]
    """Names and values by which the run is found again: `{"exp": "a"}`. They are added to those of a run that is
    resumed, and are among the tags in the record of each episode."""


class EpisodeArguments(RunArguments, total=False):
    """Where and how to play an episode."""

    options: EpisodeOptions | None
    """How to run each episode."""
    hooks: Sequence[Hook | EpisodeHook | str | os.PathLike[str]]
    """Functions from plan to plan, sync or async, that each episode's plan goes through in this order before it starts:
    as they are, as `FILE.py:NAME`, or by the name of an installed one (`find_hooks`)."""


class BatchArguments(EpisodeArguments, total=False):
    """Where and how to play many episodes."""

    venue: Venue | None
    """Where episodes are played, entered, in place of a backend."""
    parallel: Parallel | None
    """Number of episodes at a time, at least 1, or `auto` for as many as this machine can take. By default one if they
    are programs, and one for each processor in worker processes. Fewer run at a time if this process cannot open enough
    files, even after raising its limit."""
    max_programs: int | None
    """Number of programs at a time, games and players together: an episode of 100 seats is 101 of them. None: as many
    as there is memory for, on this machine. Another episode begins once it fits; one that never does plays alone."""
    episode_listeners: EpisodeListeners | None
    """Readers of one episode's events, by the episode's key."""


_Arguments = TypeVar("_Arguments", bound=RunArguments)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a run plays: `BatchArguments` with their defaults.

    Raises:
        UsageError: `parallel` or `max_programs` is below 1, one of the labels is none (`bad_label`), `retry` is wrong
            (`bad_retry`), or there are both a venue and a backend.
    """

    backend: Backend | str = "auto"
    venue: Venue | None = None
    install: bool = False
    workspace: str | os.PathLike[str] | None = None
    overwrite: bool = False
    resume: bool = False
    """Whether to continue the run in the workspace: episodes that have a row are left alone, and the leftovers of
    others are removed."""
    listeners: tuple[Listener, ...] = ()
    latest: bool = False
    run_id: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    options: EpisodeOptions | None = None
    hooks: tuple[EpisodeHook, ...] = ()
    parallel: Parallel | None = None
    max_programs: int | None = None
    episode_listeners: EpisodeListeners | None = None
    retry: Mapping[str, int] = field(default_factory=dict[str, int])
    """How often an episode is played again that failed through the fault of somebody, by whose it was."""

    def __post_init__(self) -> None:
        if self.parallel is not None:
            require_parallel(self.parallel)
        if self.max_programs is not None and self.max_programs < 1:
            raise UsageError("The number of programs at a time must be at least 1.", code="bad_count")
        if self.venue is not None and (self.backend != "auto" or self.install):
            raise UsageError(
                "A venue stands in place of a backend.", code="venue_excludes_backend", hint="Give one of the two."
            )
        check_labels(self.labels)
        for party, count in self.retry.items():
            if party not in LOST or count < 0:
                raise UsageError(
                    f"retry has {party}={count}, and names a number of attempts for {' or '.join(LOST)}.",
                    code="bad_retry",
                )

    @classmethod
    def of(
        cls,
        kind: type[_Arguments],
        arguments: _Arguments,
        *,
        resume: bool = False,
        retry: Mapping[str, int] | None = None,
        without: Collection[str] = (),
    ) -> RunOptions:
        """Return the options that a function was given as keyword arguments.

        Args:
            kind: The keyword arguments that it takes.
            arguments: Those that it was given.
            resume: Whether to continue the run in the workspace.
            retry: How often to play lost episodes again; None: not at all.
            without: Keyword arguments that it does not take after all.

        Raises:
            TypeError: It does not take one of them.
            UsageError: `parallel` is below 1, one of the labels is none, or a hook cannot be found.
        """
        for name in arguments:
            if name not in kind.__optional_keys__ or name in without:
                raise TypeError(f"Unexpected keyword argument {name!r}.")
        values: dict[str, Any] = {**arguments, "hooks": ()}
        if hooks := cast("EpisodeArguments", arguments).get("hooks"):
            from .plan_hooks import find_hooks

            values["hooks"] = find_hooks(hooks)
        return cls(resume=resume, retry=retry or {}, **values)
