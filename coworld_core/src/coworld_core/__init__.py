"""The data model of a Coworld: manifest, episode, results, events and errors, as typed values and rules.

Nothing here opens a socket. Names are imported on first use, so `import coworld_core` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import lazy_names

if TYPE_CHECKING:
    from ._version import __version__ as __version__
    from .controller import EpisodeController as EpisodeController
    from .controller import EpisodeSpec as EpisodeSpec
    from .controller import HostedGame as HostedGame
    from .episode.events import Event as Event
    from .episode.events import UnknownEvent as UnknownEvent
    from .episode.events import parse_event as parse_event
    from .episode.events import read_events as read_events
    from .episode.layout import EpisodeLayout as EpisodeLayout
    from .episode.outcome import Exit as Exit
    from .episode.outcome import Fault as Fault
    from .episode.record import BatchSummary as BatchSummary
    from .episode.record import EpisodeRecord as EpisodeRecord
    from .episode.record import EpisodeRow as EpisodeRow
    from .episode.record import read_record as read_record
    from .episode.record import read_rows as read_rows
    from .episode.record import read_summary as read_summary
    from .episode.request import JobSpec as JobSpec
    from .episode.request import build_request as build_request
    from .episode.request import check_request as check_request
    from .episode.request import load_request as load_request
    from .errors import CoworldError as CoworldError
    from .errors import EpisodeError as EpisodeError
    from .errors import ImageError as ImageError
    from .errors import ManifestError as ManifestError
    from .errors import StartError as StartError
    from .errors import UsageError as UsageError
    from .ids import generate_tokens as generate_tokens
    from .issues import Issue as Issue
    from .issues import Report as Report
    from .manifest.game_config import with_tokens as with_tokens
    from .manifest.game_results import Results as Results
    from .manifest.game_results import check_results as check_results
    from .manifest.game_results import read_results as read_results
    from .manifest.manifest_file import LoadedManifest as LoadedManifest
    from .manifest.manifest_file import check_manifest as check_manifest
    from .manifest.manifest_file import dump_manifest as dump_manifest
    from .manifest.manifest_file import load_manifest as load_manifest
    from .manifest.models import Manifest as Manifest
    from .player_registry import PlayerRegistry as PlayerRegistry
    from .player_registry import PlayerVersion as PlayerVersion
    from .records.episode_store import EpisodeStore as EpisodeStore
    from .records.run_filter import RunFilter as RunFilter
    from .records.samples import iter_frames as iter_frames
    from .records.samples import iter_samples as iter_samples
    from .rules.audit import audit_rules as audit_rules
    from .rules.game import Rules as Rules
    from .rules.game import RulesConfig as RulesConfig
    from .rules.pace import Ticks as Ticks
    from .rules.pace import Turns as Turns
    from .rules.play import Play as Play
    from .rules.replay import read_replay as read_replay
    from .rules.replay import trajectory as trajectory
    from .schemas import manifest_schema as manifest_schema
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "._version": ("__version__",),
            ".controller": (
                "EpisodeController",
                "EpisodeSpec",
                "HostedGame",
            ),
            ".episode.layout": ("EpisodeLayout",),
            ".episode.events": (
                "Event",
                "UnknownEvent",
                "parse_event",
                "read_events",
            ),
            ".episode.outcome": (
                "Exit",
                "Fault",
            ),
            ".episode.record": (
                "BatchSummary",
                "EpisodeRecord",
                "EpisodeRow",
                "read_record",
                "read_rows",
                "read_summary",
            ),
            ".episode.request": (
                "JobSpec",
                "build_request",
                "check_request",
                "load_request",
            ),
            ".errors": (
                "CoworldError",
                "EpisodeError",
                "ImageError",
                "ManifestError",
                "StartError",
                "UsageError",
            ),
            ".ids": ("generate_tokens",),
            ".issues": (
                "Issue",
                "Report",
            ),
            ".manifest.game_config": ("with_tokens",),
            ".manifest.manifest_file": (
                "LoadedManifest",
                "check_manifest",
                "dump_manifest",
                "load_manifest",
            ),
            ".manifest.models": ("Manifest",),
            ".manifest.game_results": (
                "Results",
                "check_results",
                "read_results",
            ),
            ".player_registry": (
                "PlayerRegistry",
                "PlayerVersion",
            ),
            ".records.episode_store": ("EpisodeStore",),
            ".records.run_filter": ("RunFilter",),
            ".records.samples": (
                "iter_frames",
                "iter_samples",
            ),
            ".rules.audit": ("audit_rules",),
            ".rules.game": (
                "Rules",
                "RulesConfig",
            ),
            ".rules.pace": (
                "Ticks",
                "Turns",
            ),
            ".rules.play": ("Play",),
            ".rules.replay": (
                "read_replay",
                "trajectory",
            ),
            ".schemas": ("manifest_schema",),
        },
    )
