"""What a Coworld is: manifest, episode, results, events and errors, as typed values and rules.

Nothing here opens a socket (``docker_engine``, a module apart, does). Names are imported when they are first used, so
``import coworld_core`` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import lazy_names

if TYPE_CHECKING:
    from .artifacts import EpisodeLayout as EpisodeLayout
    from .environment import is_reserved_env as is_reserved_env
    from .episode import ArtifactRecord as ArtifactRecord
    from .episode import BatchSummary as BatchSummary
    from .episode import EpisodeRecord as EpisodeRecord
    from .episode import EpisodeRow as EpisodeRow
    from .episode import ImageRecord as ImageRecord
    from .episode import PhaseTiming as PhaseTiming
    from .episode import SlotRecord as SlotRecord
    from .episode import UnitRecord as UnitRecord
    from .episode import read_record as read_record
    from .episode import read_rows as read_rows
    from .episode import read_summary as read_summary
    from .errors import BackendError as BackendError
    from .errors import BackendUnavailable as BackendUnavailable
    from .errors import CapabilityError as CapabilityError
    from .errors import CertificationError as CertificationError
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
    from .events import Event as Event
    from .events import UnknownEvent as UnknownEvent
    from .events import parse_event as parse_event
    from .events import read_events as read_events
    from .gameconfig import declares_named_players as declares_named_players
    from .gameconfig import find_variant as find_variant
    from .gameconfig import game_config_for as game_config_for
    from .gameconfig import named_players as named_players
    from .gameconfig import overwritten_named_players as overwritten_named_players
    from .gameconfig import slot_count as slot_count
    from .gameconfig import token_bounds as token_bounds
    from .gameconfig import validate_game_config as validate_game_config
    from .gameconfig import with_tokens as with_tokens
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
    from .loading import LoadedManifest as LoadedManifest
    from .loading import check_manifest as check_manifest
    from .loading import dump_manifest as dump_manifest
    from .loading import find_manifest as find_manifest
    from .loading import load_manifest as load_manifest
    from .loading import manifest_sha256 as manifest_sha256
    from .manifest import CertificationFixture as CertificationFixture
    from .manifest import CertificationPlayer as CertificationPlayer
    from .manifest import DocPage as DocPage
    from .manifest import Docs as Docs
    from .manifest import GameManifest as GameManifest
    from .manifest import Manifest as Manifest
    from .manifest import ProtocolDocs as ProtocolDocs
    from .manifest import ResourceRequests as ResourceRequests
    from .manifest import Resources as Resources
    from .manifest import RoleRunnable as RoleRunnable
    from .manifest import Runnable as Runnable
    from .manifest import TextDoc as TextDoc
    from .manifest import UriDoc as UriDoc
    from .manifest import Variant as Variant
    from .outcome import Exit as Exit
    from .outcome import Fault as Fault
    from .ports import ExtraPort as ExtraPort
    from .ports import parse_extra_ports as parse_extra_ports
    from .quantities import parse_quantity as parse_quantity
    from .request import JobSpec as JobSpec
    from .request import LoadedRequest as LoadedRequest
    from .request import build_request as build_request
    from .request import check_request as check_request
    from .request import load_request as load_request
    from .results import Results as Results
    from .results import check_results as check_results
    from .results import read_results as read_results
    from .schemas import episode_request_schema as episode_request_schema
    from .schemas import manifest_schema as manifest_schema
    from .template import hydrate as hydrate
    from .template import placeholder as placeholder
    from .template import placeholders as placeholders


__getattr__, __dir__ = lazy_names(__name__)
