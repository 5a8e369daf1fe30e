"""Runs Coworlds: backends behind one contract, and everything that runs on them.

Names are imported when they are first used, so `import coworld_runner` costs almost nothing.
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
    from .build.manifest_build import build_coworld as build_coworld
    from .certification import Certification as Certification
    from .certification import CertifyOptions as CertifyOptions
    from .certification import certify as certify
    from .control.local_controller import LocalController as LocalController
    from .episode.backend_choice import make_backend as make_backend
    from .episode.backend_choice import open_backend as open_backend
    from .episode.batch import run_batch as run_batch
    from .episode.many import run_many as run_many
    from .episode.play_links import PlayLinks as PlayLinks
    from .episode.program import Program as Program
    from .episode.program import ProgramOptions as ProgramOptions
    from .episode.program import ProgramOutcome as ProgramOutcome
    from .episode.program import open_program as open_program
    from .episode.program import run_program as run_program
    from .episode.single import EpisodeOptions as EpisodeOptions
    from .episode.single import run_episode as run_episode
    from .evaluation.comparison import compare as compare
    from .evaluation.diagnosis import diagnose as diagnose
    from .evaluation.evaluation_rules import EvaluationRules as EvaluationRules
    from .evaluation.mixture import mix as mix
    from .evaluation.pickup_value import pickup as pickup
    from .evaluation.ranking import rank as rank
    from .evaluation.self_play import scrimmage as scrimmage
    from .kit.rollout.episode_rollout import rollout as rollout
    from .kit.rollout.rollout_batch import rollouts as rollouts
    from .package.plan import EpisodePlan as EpisodePlan
    from .package.plan import plan_episode as plan_episode
    from .package.player_registry.local_registry import LocalRegistry as LocalRegistry
    from .package.resolver import Package as Package
    from .package.resolver import resolve_package as resolve_package
    from .records.local_runs import LocalRuns as LocalRuns
    from .records.local_store import LocalStore as LocalStore
    from .replay.shown_replay import open_replay as open_replay
    from .replay.shown_replay import replay_page as replay_page
    from .roles.after_episode import diagnose_episode as diagnose_episode
    from .roles.after_episode import grade_episode as grade_episode
    from .roles.after_episode import report_episodes as report_episodes
    from .runs.event_bus import Listener as Listener
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
            ".episode.batch": ("run_batch",),
            ".build.manifest_build": ("build_coworld",),
            ".certification": (
                "Certification",
                "CertifyOptions",
                "certify",
            ),
            ".control.local_controller": ("LocalController",),
            ".episode.play_links": ("PlayLinks",),
            ".episode.single": (
                "EpisodeOptions",
                "run_episode",
            ),
            ".evaluation.comparison": ("compare",),
            ".evaluation.diagnosis": ("diagnose",),
            ".evaluation.mixture": ("mix",),
            ".evaluation.pickup_value": ("pickup",),
            ".evaluation.ranking": ("rank",),
            ".evaluation.evaluation_rules": ("EvaluationRules",),
            ".evaluation.self_play": ("scrimmage",),
            ".episode.many": ("run_many",),
            ".package.player_registry.local_registry": ("LocalRegistry",),
            ".package.resolver": (
                "Package",
                "resolve_package",
            ),
            ".package.plan": (
                "EpisodePlan",
                "plan_episode",
            ),
            ".episode.program": (
                "Program",
                "ProgramOptions",
                "ProgramOutcome",
                "open_program",
                "run_program",
            ),
            ".records.local_runs": ("LocalRuns",),
            ".records.local_store": ("LocalStore",),
            ".replay.shown_replay": ("open_replay", "replay_page"),
            ".kit.rollout.episode_rollout": ("rollout",),
            ".kit.rollout.rollout_batch": ("rollouts",),
            ".roles.after_episode": ("diagnose_episode", "grade_episode", "report_episodes"),
            ".runs.event_bus": ("Listener",),
            ".episode.backend_choice": (
                "make_backend",
                "open_backend",
            ),
        },
    )
