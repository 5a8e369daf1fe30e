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
    from .backends.base import LocalUnit as LocalUnit
    from .backends.registry import BackendOptions as BackendOptions
    from .backends.registry import ClusterOptions as ClusterOptions
    from .backends.registry import backend_names as backend_names
    from .build.manifest_build import BuildResult as BuildResult
    from .build.manifest_build import build_coworld as build_coworld
    from .certification import Certification as Certification
    from .certification import CertifyOptions as CertifyOptions
    from .certification import certify as certify
    from .episode.backend_choice import BackendChoice as BackendChoice
    from .episode.backend_choice import choose_backend as choose_backend
    from .episode.backend_choice import make_backend as make_backend
    from .episode.backend_choice import open_backend as open_backend
    from .episode.batch import run_batch as run_batch
    from .episode.many import RunCounts as RunCounts
    from .episode.many import run_many as run_many
    from .episode.play_links import PlayLinks as PlayLinks
    from .episode.program import Program as Program
    from .episode.program import ProgramOptions as ProgramOptions
    from .episode.program import ProgramOutcome as ProgramOutcome
    from .episode.program import RunningProgram as RunningProgram
    from .episode.program import open_program as open_program
    from .episode.program import run_program as run_program
    from .episode.single import EpisodeOptions as EpisodeOptions
    from .episode.single import run_episode as run_episode
    from .package.plan import EpisodePlan as EpisodePlan
    from .package.plan import Seat as Seat
    from .package.plan import plan_episode as plan_episode
    from .package.plan import plan_for_people as plan_for_people
    from .package.resolver import Package as Package
    from .package.resolver import resolve_package as resolve_package
    from .replay.recorded_page import ReplayPage as ReplayPage
    from .replay.recorded_page import replay_page as replay_page
    from .replay.replay_file import resolve_replay as resolve_replay
    from .replay.replay_session import ReplayOptions as ReplayOptions
    from .replay.replay_session import ReplaySession as ReplaySession
    from .replay.replay_session import open_replay as open_replay
    from .replay.replay_session import verify_replay as verify_replay
    from .runs.event_bus import EventBus as EventBus
    from .runs.event_bus import EventLog as EventLog
    from .runs.event_bus import Listener as Listener
    from .runs.reaper import Sweep as Sweep
    from .runs.reaper import sweep as sweep
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
            ".backends.base": ("BaseBackend", "BaseUnit", "LocalUnit"),
            ".backends.registry": ("BackendOptions", "ClusterOptions", "backend_names"),
            ".episode.batch": ("run_batch",),
            ".build.manifest_build": ("BuildResult", "build_coworld"),
            ".certification": ("Certification", "CertifyOptions", "certify"),
            ".episode.play_links": ("PlayLinks",),
            ".episode.single": ("EpisodeOptions", "run_episode"),
            ".episode.many": ("RunCounts", "run_many"),
            ".package.resolver": ("Package", "resolve_package"),
            ".package.plan": ("EpisodePlan", "Seat", "plan_episode", "plan_for_people"),
            ".episode.program": (
                "Program",
                "ProgramOptions",
                "ProgramOutcome",
                "RunningProgram",
                "open_program",
                "run_program",
            ),
            ".replay.recorded_page": ("ReplayPage", "replay_page"),
            ".replay.replay_file": ("resolve_replay",),
            ".replay.replay_session": ("ReplayOptions", "ReplaySession", "open_replay", "verify_replay"),
            ".runs.event_bus": ("EventBus", "EventLog", "Listener"),
            ".runs.reaper": ("Sweep", "sweep"),
            ".episode.backend_choice": ("BackendChoice", "choose_backend", "make_backend", "open_backend"),
        },
    )
