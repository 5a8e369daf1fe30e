"""Runs Coworlds: backends behind one contract, and everything that runs on them.

Names are imported when they are first used, so ``import coworld_runner`` costs almost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from ._version import __version__ as __version__
    from .backend import Backend as Backend
    from .backend import Capabilities as Capabilities
    from .backend import Found as Found
    from .backend import ImageInfo as ImageInfo
    from .backend import Publish as Publish
    from .backend import Reaped as Reaped
    from .backend import UnitSpec as UnitSpec
    from .backends.base import BaseBackend as BaseBackend
    from .backends.base import BaseUnit as BaseUnit
    from .backends.registry import BackendOptions as BackendOptions
    from .batch import run_batch as run_batch
    from .build.building import build_coworld as build_coworld
    from .certification import Certification as Certification
    from .certification import CertifyOptions as CertifyOptions
    from .certification import certify as certify
    from .episode.links import PlayLinks as PlayLinks
    from .episode.running import EpisodeOptions as EpisodeOptions
    from .episode.running import run_episode as run_episode
    from .evaluation.comparing import compare as compare
    from .evaluation.diagnosing import diagnose as diagnose
    from .evaluation.mixing import mix as mix
    from .evaluation.picking import pickup as pickup
    from .evaluation.ranking import rank as rank
    from .evaluation.rules import EvaluationRules as EvaluationRules
    from .evaluation.scrimmaging import scrimmage as scrimmage
    from .many import run_many as run_many
    from .package.resolving import Package as Package
    from .package.resolving import resolve_package as resolve_package
    from .plan import EpisodePlan as EpisodePlan
    from .plan import plan_episode as plan_episode
    from .program import Program as Program
    from .program import ProgramOptions as ProgramOptions
    from .program import ProgramOutcome as ProgramOutcome
    from .program import open_program as open_program
    from .program import run_program as run_program
    from .replay.alone import replay_page as replay_page
    from .replay.showing import open_replay as open_replay
    from .rollout.batch import rollouts as rollouts
    from .runs.events import Listener as Listener
    from .selection import make_backend as make_backend
    from .selection import open_backend as open_backend
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "._version": ("__version__",),
            ".backend": (
                "Backend",
                "Capabilities",
                "Found",
                "ImageInfo",
                "Publish",
                "Reaped",
                "UnitSpec",
            ),
            ".backends.base": ("BaseBackend", "BaseUnit"),
            ".backends.registry": ("BackendOptions",),
            ".batch": ("run_batch",),
            ".build.building": ("build_coworld",),
            ".certification": (
                "Certification",
                "CertifyOptions",
                "certify",
            ),
            ".episode.links": ("PlayLinks",),
            ".episode.running": (
                "EpisodeOptions",
                "run_episode",
            ),
            ".evaluation.comparing": ("compare",),
            ".evaluation.diagnosing": ("diagnose",),
            ".evaluation.mixing": ("mix",),
            ".evaluation.picking": ("pickup",),
            ".evaluation.ranking": ("rank",),
            ".evaluation.rules": ("EvaluationRules",),
            ".evaluation.scrimmaging": ("scrimmage",),
            ".many": ("run_many",),
            ".package.resolving": (
                "Package",
                "resolve_package",
            ),
            ".plan": (
                "EpisodePlan",
                "plan_episode",
            ),
            ".program": (
                "Program",
                "ProgramOptions",
                "ProgramOutcome",
                "open_program",
                "run_program",
            ),
            ".replay.alone": ("replay_page",),
            ".replay.showing": ("open_replay",),
            ".rollout.batch": ("rollouts",),
            ".runs.events": ("Listener",),
            ".selection": (
                "make_backend",
                "open_backend",
            ),
        },
    )
