"""The data model of a Coworld: manifest, episode, results, events and errors, as typed values and rules.

Nothing here opens a socket. Names are imported on first use, so ``import coworld_core`` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import lazy_names

if TYPE_CHECKING:
    from ._version import __version__ as __version__
    from .environment import is_reserved_env as is_reserved_env
    from .episode.artifacts import EpisodeLayout as EpisodeLayout
    from .episode.events import Event as Event
    from .episode.events import UnknownEvent as UnknownEvent
    from .episode.events import parse_event as parse_event
    from .episode.events import read_events as read_events
    from .episode.outcome import Exit as Exit
    from .episode.outcome import Fault as Fault
    from .episode.record import ArtifactRecord as ArtifactRecord
    from .episode.record import BatchSummary as BatchSummary
    from .episode.record import EpisodeRecord as EpisodeRecord
    from .episode.record import EpisodeRow as EpisodeRow
    from .episode.record import ImageRecord as ImageRecord
    from .episode.record import PhaseTiming as PhaseTiming
    from .episode.record import SlotRecord as SlotRecord
    from .episode.record import UnitRecord as UnitRecord
    from .episode.record import read_record as read_record
    from .episode.record import read_rows as read_rows
    from .episode.record import read_summary as read_summary
    from .episode.request import JobSpec as JobSpec
    from .episode.request import LoadedRequest as LoadedRequest
    from .episode.request import build_request as build_request
    from .episode.request import check_request as check_request
    from .episode.request import load_request as load_request
    from .errors import BackendError as BackendError
    from .errors import BackendUnavailable as BackendUnavailable
    from .errors import CapabilityError as CapabilityError
    from .errors import CertificationError as CertificationError
    from .errors import CommissionerError as CommissionerError
    from .errors import CoworldError as CoworldError
    from .errors import DocumentError as DocumentError
    from .errors import EnvironmentFault as EnvironmentFault
    from .errors import EpisodeError as EpisodeError
    from .errors import ImageError as ImageError
    from .errors import ManifestError as ManifestError
    from .errors import NotReadyError as NotReadyError
    from .errors import RecordError as RecordError
    from .errors import RemoteError as RemoteError
    from .errors import StartError as StartError
    from .errors import TransferError as TransferError
    from .errors import UsageError as UsageError
    from .errors import WorkspaceError as WorkspaceError
    from .ids import generate_tokens as generate_tokens
    from .ids import is_safe_id as is_safe_id
    from .ids import new_run_id as new_run_id
    from .images import ImageRef as ImageRef
    from .images import Platform as Platform
    from .images import content_tag as content_tag
    from .images import host_platform as host_platform
    from .issues import Issue as Issue
    from .issues import Report as Report
    from .jsontext import JsonDocument as JsonDocument
    from .jsontext import parse_json as parse_json
    from .manifest.gameconfig import declares_named_players as declares_named_players
    from .manifest.gameconfig import find_variant as find_variant
    from .manifest.gameconfig import game_config_for as game_config_for
    from .manifest.gameconfig import named_players as named_players
    from .manifest.gameconfig import overwritten_named_players as overwritten_named_players
    from .manifest.gameconfig import slot_count as slot_count
    from .manifest.gameconfig import token_bounds as token_bounds
    from .manifest.gameconfig import validate_game_config as validate_game_config
    from .manifest.gameconfig import with_tokens as with_tokens
    from .manifest.loading import LoadedManifest as LoadedManifest
    from .manifest.loading import check_manifest as check_manifest
    from .manifest.loading import dump_manifest as dump_manifest
    from .manifest.loading import find_manifest as find_manifest
    from .manifest.loading import load_manifest as load_manifest
    from .manifest.loading import manifest_sha256 as manifest_sha256
    from .manifest.models import CertificationFixture as CertificationFixture
    from .manifest.models import CertificationPlayer as CertificationPlayer
    from .manifest.models import DocPage as DocPage
    from .manifest.models import Docs as Docs
    from .manifest.models import GameManifest as GameManifest
    from .manifest.models import Manifest as Manifest
    from .manifest.models import ProtocolDocs as ProtocolDocs
    from .manifest.models import ResourceRequests as ResourceRequests
    from .manifest.models import Resources as Resources
    from .manifest.models import RoleRunnable as RoleRunnable
    from .manifest.models import Runnable as Runnable
    from .manifest.models import TextDoc as TextDoc
    from .manifest.models import UriDoc as UriDoc
    from .manifest.models import Variant as Variant
    from .manifest.published import accepted_by as accepted_by
    from .manifest.results import Results as Results
    from .manifest.results import check_results as check_results
    from .manifest.results import read_results as read_results
    from .manifest.template import hydrate as hydrate
    from .manifest.template import placeholder as placeholder
    from .manifest.template import placeholders as placeholders
    from .ports import ExtraPort as ExtraPort
    from .ports import parse_extra_ports as parse_extra_ports
    from .quantities import parse_quantity as parse_quantity
    from .schemas import episode_request_schema as episode_request_schema
    from .schemas import manifest_schema as manifest_schema
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "._version": ("__version__",),
            ".environment": ("is_reserved_env",),
            ".episode.artifacts": ("EpisodeLayout",),
            ".episode.events": ("Event", "UnknownEvent", "parse_event", "read_events"),
            ".episode.outcome": ("Exit", "Fault"),
            ".episode.record": (
                "ArtifactRecord",
                "BatchSummary",
                "EpisodeRecord",
                "EpisodeRow",
                "ImageRecord",
                "PhaseTiming",
                "SlotRecord",
                "UnitRecord",
                "read_record",
                "read_rows",
                "read_summary",
            ),
            ".episode.request": ("JobSpec", "LoadedRequest", "build_request", "check_request", "load_request"),
            ".errors": (
                "BackendError",
                "BackendUnavailable",
                "CapabilityError",
                "CertificationError",
                "CommissionerError",
                "CoworldError",
                "DocumentError",
                "EnvironmentFault",
                "EpisodeError",
                "ImageError",
                "ManifestError",
                "NotReadyError",
                "RecordError",
                "RemoteError",
                "StartError",
                "TransferError",
                "UsageError",
                "WorkspaceError",
            ),
            ".ids": ("generate_tokens", "is_safe_id", "new_run_id"),
            ".images": ("ImageRef", "Platform", "content_tag", "host_platform"),
            ".issues": ("Issue", "Report"),
            ".jsontext": ("JsonDocument", "parse_json"),
            ".manifest.gameconfig": (
                "declares_named_players",
                "find_variant",
                "game_config_for",
                "named_players",
                "overwritten_named_players",
                "slot_count",
                "token_bounds",
                "validate_game_config",
                "with_tokens",
            ),
            ".manifest.loading": (
                "LoadedManifest",
                "check_manifest",
                "dump_manifest",
                "find_manifest",
                "load_manifest",
                "manifest_sha256",
            ),
            ".manifest.models": (
                "CertificationFixture",
                "CertificationPlayer",
                "DocPage",
                "Docs",
                "GameManifest",
                "Manifest",
                "ProtocolDocs",
                "ResourceRequests",
                "Resources",
                "RoleRunnable",
                "Runnable",
                "TextDoc",
                "UriDoc",
                "Variant",
            ),
            ".manifest.published": ("accepted_by",),
            ".manifest.results": ("Results", "check_results", "read_results"),
            ".manifest.template": ("hydrate", "placeholder", "placeholders"),
            ".ports": ("ExtraPort", "parse_extra_ports"),
            ".quantities": ("parse_quantity",),
            ".schemas": ("episode_request_schema", "manifest_schema"),
        },
    )
