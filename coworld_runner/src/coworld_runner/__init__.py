"""Making a Coworld happen: backends behind one contract, and what runs on them.

Names are imported when they are first used, so ``import coworld_runner`` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .backend import (
        Backend,
        Capabilities,
        Endpoint,
        Found,
        HttpProbe,
        ImageInfo,
        Limits,
        Placement,
        Port,
        Reaped,
        Unit,
        UnitSpec,
    )
    from .backends.registry import BackendOptions, ClusterOptions, backend_names
    from .batch import run_batch
    from .build import BuildResult, build_coworld
    from .certify import Certification, CertifyOptions
    from .episode import EpisodeOptions, run_episode
    from .events import EventBus, EventLog
    from .links import PlayLinks
    from .many import Tally, run_many
    from .packages import Package, resolve_package
    from .plan import EpisodePlan, Seat, plan_episode, plan_for_people
    from .program import Program, ProgramOptions, ProgramOutcome, RunningProgram, open_program, run_program
    from .reaper import Sweep, sweep
    from .replay import ReplayOptions, ReplaySession, open_replay, verify_replay
    from .replays import resolve_replay
    from .selection import BackendChoice, choose_backend, make_backend, open_backend

_HOMES = {
    "backend": (
        "Backend",
        "Capabilities",
        "Endpoint",
        "Found",
        "HttpProbe",
        "ImageInfo",
        "Limits",
        "Placement",
        "Port",
        "Reaped",
        "Unit",
        "UnitSpec",
    ),
    "batch": ("run_batch",),
    "build": (
        "BuildResult",
        "build_coworld",
    ),
    "certify": (
        "Certification",
        "CertifyOptions",
    ),
    "episode": (
        "EpisodeOptions",
        "run_episode",
    ),
    "events": (
        "EventBus",
        "EventLog",
    ),
    "links": ("PlayLinks",),
    "many": ("Tally", "run_many"),
    "packages": (
        "Package",
        "resolve_package",
    ),
    "plan": (
        "EpisodePlan",
        "Seat",
        "plan_episode",
        "plan_for_people",
    ),
    "program": (
        "Program",
        "ProgramOptions",
        "ProgramOutcome",
        "RunningProgram",
        "open_program",
        "run_program",
    ),
    "reaper": (
        "Sweep",
        "sweep",
    ),
    "replay": (
        "ReplayOptions",
        "ReplaySession",
        "open_replay",
        "verify_replay",
    ),
    "replays": ("resolve_replay",),
    "backends.registry": (
        "BackendOptions",
        "ClusterOptions",
        "backend_names",
    ),
    "selection": (
        "BackendChoice",
        "choose_backend",
        "make_backend",
        "open_backend",
    ),
}
"""Where each public name lives."""

__all__ = [
    "Backend",
    "BackendChoice",
    "BackendOptions",
    "BuildResult",
    "Capabilities",
    "Certification",
    "CertifyOptions",
    "ClusterOptions",
    "Endpoint",
    "EpisodeOptions",
    "EpisodePlan",
    "EventBus",
    "EventLog",
    "Found",
    "HttpProbe",
    "ImageInfo",
    "Limits",
    "Package",
    "Placement",
    "PlayLinks",
    "Port",
    "Program",
    "ProgramOptions",
    "ProgramOutcome",
    "Reaped",
    "ReplayOptions",
    "ReplaySession",
    "RunningProgram",
    "Seat",
    "Sweep",
    "Tally",
    "Unit",
    "UnitSpec",
    "backend_names",
    "build_coworld",
    "choose_backend",
    "make_backend",
    "open_backend",
    "open_program",
    "open_replay",
    "plan_episode",
    "plan_for_people",
    "resolve_package",
    "resolve_replay",
    "run_batch",
    "run_episode",
    "run_many",
    "run_program",
    "sweep",
    "verify_replay",
]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
