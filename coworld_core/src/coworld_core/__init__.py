"""What a Coworld is: manifest, episode, results, events and errors, as typed values and rules.

Nothing here opens a socket. Names are imported when they are first used, so ``import coworld_core`` costs next to
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import lazy_names

if TYPE_CHECKING:
    from .artifacts import EpisodeLayout
    from .environment import is_reserved_env
    from .episode import ArtifactRecord, BatchSummary, EpisodeRecord, ImageRecord, PhaseTiming, SlotRecord, UnitRecord
    from .errors import (
        BackendError,
        BackendUnavailable,
        CapabilityError,
        CertificationError,
        CoworldError,
        EnvironmentFault,
        EpisodeError,
        ImageError,
        ManifestError,
        NotReadyError,
        RemoteError,
        StartError,
        TransferError,
        UsageError,
        WorkspaceError,
    )
    from .events import Event, parse_event
    from .gameconfig import (
        declares_named_players,
        find_variant,
        game_config_for,
        named_players,
        overwritten_named_players,
        slot_count,
        token_bounds,
        validate_game_config,
        with_tokens,
    )
    from .ids import generate_tokens, is_safe_id, new_run_id
    from .images import ImageRef, Platform, content_tag, host_platform
    from .issues import Issue, Report
    from .jsontext import JsonDocument, parse_json
    from .loading import (
        LoadedManifest,
        check_manifest,
        dump_manifest,
        find_manifest,
        load_manifest,
        manifest_sha256,
    )
    from .manifest import (
        CertificationFixture,
        CertificationPlayer,
        DocPage,
        Docs,
        Game,
        Manifest,
        ProtocolDocs,
        ResourceRequests,
        Resources,
        RoleRunnable,
        Runnable,
        TextDoc,
        UriDoc,
        Variant,
    )
    from .outcome import Exit, Fault
    from .ports import ExtraPort, parse_extra_ports
    from .quantities import parse_quantity
    from .request import EpisodeRequest, LoadedRequest, build_request, check_request, load_request
    from .results import Results, check_results, read_results
    from .schemas import episode_request_schema, manifest_schema
    from .template import hydrate, placeholder, placeholders

_HOMES = {
    "artifacts": ("EpisodeLayout",),
    "environment": ("is_reserved_env",),
    "episode": (
        "ArtifactRecord",
        "BatchSummary",
        "EpisodeRecord",
        "ImageRecord",
        "PhaseTiming",
        "SlotRecord",
        "UnitRecord",
    ),
    "errors": (
        "BackendError",
        "BackendUnavailable",
        "CapabilityError",
        "CertificationError",
        "CoworldError",
        "EnvironmentFault",
        "EpisodeError",
        "ImageError",
        "ManifestError",
        "NotReadyError",
        "RemoteError",
        "StartError",
        "TransferError",
        "UsageError",
        "WorkspaceError",
    ),
    "events": ("Event", "parse_event"),
    "gameconfig": (
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
    "ids": ("generate_tokens", "is_safe_id", "new_run_id"),
    "images": ("ImageRef", "Platform", "content_tag", "host_platform"),
    "issues": ("Issue", "Report"),
    "jsontext": ("JsonDocument", "parse_json"),
    "loading": (
        "LoadedManifest",
        "check_manifest",
        "dump_manifest",
        "find_manifest",
        "load_manifest",
        "manifest_sha256",
    ),
    "manifest": (
        "CertificationFixture",
        "CertificationPlayer",
        "DocPage",
        "Docs",
        "Game",
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
    "outcome": ("Exit", "Fault"),
    "ports": ("ExtraPort", "parse_extra_ports"),
    "quantities": ("parse_quantity",),
    "request": ("EpisodeRequest", "LoadedRequest", "build_request", "check_request", "load_request"),
    "results": ("Results", "check_results", "read_results"),
    "schemas": ("episode_request_schema", "manifest_schema"),
    "template": ("hydrate", "placeholder", "placeholders"),
}
"""Where each public name lives."""

__all__ = [
    "ArtifactRecord",
    "BackendError",
    "BackendUnavailable",
    "BatchSummary",
    "CapabilityError",
    "CertificationError",
    "CertificationFixture",
    "CertificationPlayer",
    "CoworldError",
    "DocPage",
    "Docs",
    "EnvironmentFault",
    "EpisodeError",
    "EpisodeLayout",
    "EpisodeRecord",
    "EpisodeRequest",
    "Event",
    "Exit",
    "ExtraPort",
    "Fault",
    "Game",
    "ImageError",
    "ImageRecord",
    "ImageRef",
    "Issue",
    "JsonDocument",
    "LoadedManifest",
    "LoadedRequest",
    "Manifest",
    "ManifestError",
    "NotReadyError",
    "PhaseTiming",
    "Platform",
    "ProtocolDocs",
    "RemoteError",
    "Report",
    "ResourceRequests",
    "Resources",
    "Results",
    "RoleRunnable",
    "Runnable",
    "SlotRecord",
    "StartError",
    "TextDoc",
    "TransferError",
    "UnitRecord",
    "UriDoc",
    "UsageError",
    "Variant",
    "WorkspaceError",
    "build_request",
    "check_manifest",
    "check_request",
    "check_results",
    "content_tag",
    "declares_named_players",
    "dump_manifest",
    "episode_request_schema",
    "find_manifest",
    "find_variant",
    "game_config_for",
    "generate_tokens",
    "host_platform",
    "hydrate",
    "is_reserved_env",
    "is_safe_id",
    "load_manifest",
    "load_request",
    "manifest_schema",
    "manifest_sha256",
    "named_players",
    "new_run_id",
    "overwritten_named_players",
    "parse_event",
    "parse_extra_ports",
    "parse_json",
    "parse_quantity",
    "placeholder",
    "placeholders",
    "read_results",
    "slot_count",
    "token_bounds",
    "validate_game_config",
    "with_tokens",
]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
