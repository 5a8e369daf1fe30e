"""Runs Coworlds: backends behind one contract, and everything that runs on them.

Names are imported when they are first used, so ``import coworld_runner`` costs almost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from coworld_core.episode.events import ArtifactCollected as ArtifactCollected
    from coworld_core.episode.events import BaseEvent as BaseEvent
    from coworld_core.episode.events import BatchProgressed as BatchProgressed
    from coworld_core.episode.events import FaultSeen as FaultSeen
    from coworld_core.episode.events import GameProgressed as GameProgressed
    from coworld_core.episode.events import ImageProgressed as ImageProgressed
    from coworld_core.episode.events import ImageReady as ImageReady
    from coworld_core.episode.events import LeakFound as LeakFound
    from coworld_core.episode.events import LogTruncated as LogTruncated
    from coworld_core.episode.events import Notice as Notice
    from coworld_core.episode.events import PhaseFinished as PhaseFinished
    from coworld_core.episode.events import PhaseStarted as PhaseStarted
    from coworld_core.episode.events import ProbeFinished as ProbeFinished
    from coworld_core.episode.events import RunFinished as RunFinished
    from coworld_core.episode.events import RunStarted as RunStarted
    from coworld_core.episode.events import StepFinished as StepFinished
    from coworld_core.episode.events import StepStarted as StepStarted
    from coworld_core.episode.events import UnitCreated as UnitCreated
    from coworld_core.episode.events import UnitExited as UnitExited
    from coworld_core.episode.events import UnitReady as UnitReady
    from coworld_core.episode.events import UnitStarted as UnitStarted

    from ._version import __version__ as __version__
    from .backend import Backend as Backend
    from .backend import Capabilities as Capabilities
    from .backend import Endpoint as Endpoint
    from .backend import Found as Found
    from .backend import HttpProbe as HttpProbe
    from .backend import ImageInfo as ImageInfo
    from .backend import Limits as Limits
    from .backend import Placement as Placement
    from .backend import Port as Port
    from .backend import Publish as Publish
    from .backend import Reaped as Reaped
    from .backend import Unit as Unit
    from .backend import UnitSpec as UnitSpec
    from .backends.base import BaseBackend as BaseBackend
    from .backends.base import BaseUnit as BaseUnit
    from .backends.registry import BackendOptions as BackendOptions
    from .backends.registry import ClusterOptions as ClusterOptions
    from .backends.registry import backend_names as backend_names
    from .batch import run_batch as run_batch
    from .build.building import BuildResult as BuildResult
    from .build.building import build_coworld as build_coworld
    from .certification import Certification as Certification
    from .certification import CertifyOptions as CertifyOptions
    from .certification import certify as certify
    from .episode.links import PlayLinks as PlayLinks
    from .episode.running import EpisodeOptions as EpisodeOptions
    from .episode.running import run_episode as run_episode
    from .many import Tally as Tally
    from .many import run_many as run_many
    from .package.resolving import Package as Package
    from .package.resolving import resolve_package as resolve_package
    from .plan import EpisodePlan as EpisodePlan
    from .plan import Seat as Seat
    from .plan import plan_episode as plan_episode
    from .plan import plan_for_people as plan_for_people
    from .program import Program as Program
    from .program import ProgramOptions as ProgramOptions
    from .program import ProgramOutcome as ProgramOutcome
    from .program import RunningProgram as RunningProgram
    from .program import open_program as open_program
    from .program import run_program as run_program
    from .replay.alone import ReplayPage as ReplayPage
    from .replay.alone import replay_page as replay_page
    from .replay.finding import resolve_replay as resolve_replay
    from .replay.showing import ReplayOptions as ReplayOptions
    from .replay.showing import ReplaySession as ReplaySession
    from .replay.showing import open_replay as open_replay
    from .replay.showing import verify_replay as verify_replay
    from .runs.events import EventBus as EventBus
    from .runs.events import EventLog as EventLog
    from .runs.events import Listener as Listener
    from .runs.reaper import Sweep as Sweep
    from .runs.reaper import sweep as sweep
    from .selection import BackendChoice as BackendChoice
    from .selection import choose_backend as choose_backend
    from .selection import make_backend as make_backend
    from .selection import open_backend as open_backend
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "coworld_core.episode.events": (
                "ArtifactCollected",
                "BaseEvent",
                "BatchProgressed",
                "FaultSeen",
                "GameProgressed",
                "ImageProgressed",
                "ImageReady",
                "LeakFound",
                "LogTruncated",
                "Notice",
                "PhaseFinished",
                "PhaseStarted",
                "ProbeFinished",
                "RunFinished",
                "RunStarted",
                "StepFinished",
                "StepStarted",
                "UnitCreated",
                "UnitExited",
                "UnitReady",
                "UnitStarted",
            ),
            "._version": ("__version__",),
            ".backend": (
                "Backend",
                "Capabilities",
                "Endpoint",
                "Found",
                "HttpProbe",
                "ImageInfo",
                "Limits",
                "Placement",
                "Port",
                "Publish",
                "Reaped",
                "Unit",
                "UnitSpec",
            ),
            ".backends.base": ("BaseBackend", "BaseUnit"),
            ".backends.registry": ("BackendOptions", "ClusterOptions", "backend_names"),
            ".batch": ("run_batch",),
            ".build.building": ("BuildResult", "build_coworld"),
            ".certification": ("Certification", "CertifyOptions", "certify"),
            ".episode.links": ("PlayLinks",),
            ".episode.running": ("EpisodeOptions", "run_episode"),
            ".many": ("Tally", "run_many"),
            ".package.resolving": ("Package", "resolve_package"),
            ".plan": ("EpisodePlan", "Seat", "plan_episode", "plan_for_people"),
            ".program": (
                "Program",
                "ProgramOptions",
                "ProgramOutcome",
                "RunningProgram",
                "open_program",
                "run_program",
            ),
            ".replay.alone": ("ReplayPage", "replay_page"),
            ".replay.finding": ("resolve_replay",),
            ".replay.showing": ("ReplayOptions", "ReplaySession", "open_replay", "verify_replay"),
            ".runs.events": ("EventBus", "EventLog", "Listener"),
            ".runs.reaper": ("Sweep", "sweep"),
            ".selection": ("BackendChoice", "choose_backend", "make_backend", "open_backend"),
        },
    )
