"""Making a Coworld happen: backends behind one contract, and what runs on them.

Names are imported when they are first used, so ``import coworld_runner`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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
    from .batch import run_batch
    from .build import BuildResult, build_coworld
    from .certify import Certification, CertifyOptions
    from .episode import EpisodeOptions, run_episode
    from .events import EventBus, EventLog
    from .links import PlayLinks
    from .packages import Package, resolve_package
    from .plan import EpisodePlan, Seat, plan_episode, plan_for_people
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
    "selection": (
        "BackendChoice",
        "choose_backend",
        "make_backend",
        "open_backend",
    ),
}
"""Where each public name lives."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Backend",
    "BackendChoice",
    "BuildResult",
    "Capabilities",
    "Certification",
    "CertifyOptions",
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
    "Reaped",
    "ReplayOptions",
    "ReplaySession",
    "Seat",
    "Sweep",
    "Unit",
    "UnitSpec",
    "build_coworld",
    "choose_backend",
    "make_backend",
    "open_backend",
    "open_replay",
    "plan_episode",
    "plan_for_people",
    "resolve_package",
    "resolve_replay",
    "run_batch",
    "run_episode",
    "sweep",
    "verify_replay",
]


def __getattr__(name: str) -> object:
    if (home := _HOME_OF.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
