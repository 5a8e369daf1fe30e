"""What the program of each role gets and leaves, as the published contract has it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import anyio.to_thread

from coworld_core.documents.records import open_record, read_as
from coworld_core.role_kinds import ROLES
from coworld_core.roles.bundle import BUNDLE_MANIFEST, BundleManifest
from coworld_core.roles.bundle_file import Bundle, extract_bundle
from coworld_core.roles.grade import Grade, read_grade
from coworld_core.roles.player_diagnosis import DiagnosisManifest
from coworld_core.roles.report import ReportManifest
from coworld_core.roles.report_check import read_diagnosis, read_report
from coworld_core.roles.report_request import (
    ArtifactRef,
    EpisodeErrorInfo,
    InlineJson,
    ReportArtifacts,
    ReportEpisode,
    ReportRequest,
)
from coworld_core.roles.role_record import DiagnosedPlayer

from ..backend import Placement
from .role_run import RoleWork

__all__ = ["diagnosis_work", "grade_work", "report_work"]

_REPORT, _GRADE, _DIAGNOSIS = (ROLES[role].output for role in ("reporter", "grader", "diagnoser"))
_BUNDLE = "episode.zip"
_TARGET = "player.json"
_REQUEST = "request.json"
_METADATA = "metadata.json"
"""A list with the metadata of each episode: the request itself has no place for them that published reporters know."""
_MANIFEST = "manifest of a bundle"
_MOST_IN_VARIABLE = 96 << 10
"""Bytes of a request that still goes into a variable; systems refuse single variables of 128 KiB."""
_MEDIA_TYPES = {
    "results": "application/json",
    "error_info": "application/json",
    "metadata": "application/json",
    "replay": "application/octet-stream",
    "player_artifact": "application/zip",
}


def grade_work(bundle: Path) -> RoleWork[Grade]:
    """The work of a grader: one bundle in, one JSON object with a `score` out."""

    def variables(placement: Placement) -> Mapping[str, str]:
        return {
            "COGAME_EPISODE_BUNDLE_URI": placement.input_uri(_BUNDLE),
            "COGAME_GRADE_URI": placement.uri(_GRADE),
        }

    return RoleWork(inputs={_BUNDLE: bundle}, variables=variables, output=_GRADE, read=read_grade)


def diagnosis_work(bundle: Path, player: DiagnosedPlayer) -> RoleWork[DiagnosisManifest]:
    """The work of a diagnoser: one bundle and one of its players in, a zip out."""

    def variables(placement: Placement) -> Mapping[str, str]:
        return {
            "COGAME_EPISODE_BUNDLE_URI": placement.input_uri(_BUNDLE),
            "COGAME_TARGET_POLICY_URI": placement.input_uri(_TARGET),
            "COGAME_TARGET_SLOT": str(player.slot),
            "COGAME_DIAGNOSIS_URI": placement.uri(_DIAGNOSIS),
        }

    return RoleWork(
        inputs={_BUNDLE: bundle},
        documents={_TARGET: lambda _: player.model_dump_json()},
        variables=variables,
        output=_DIAGNOSIS,
        read=lambda path: read_diagnosis(path)[0],
    )


async def report_work(
    bundles: Sequence[Path], scratch: Path, *, request_id: str, socket: bool = False
) -> RoleWork[ReportManifest]:
    """The work of a reporter: the files of episodes, and a request that says where they are, in; a zip out.

    Args:
        bundles: The episodes.
        scratch: A directory to extract them to, which must exist while the work is done.
        request_id: An id of the request.
        socket: Whether the reporter is asked on its socket.
    """
    extracted = [
        await anyio.to_thread.run_sync(extract_bundle, path, scratch / f"episode-{index}")
        for index, path in enumerate(bundles)
    ]

    def request(placement: Placement) -> str:
        episodes = tuple(_episode(bundle, f"episode-{index}", placement) for index, bundle in enumerate(extracted))
        asked = ReportRequest(request_id=request_id, report_uri=placement.uri(_REPORT), episodes=episodes)
        return asked.to_json().decode()

    def variables(placement: Placement) -> Mapping[str, str]:
        metadata = {"COWORLD_EPISODE_METADATA_URI": placement.input_uri(_METADATA)}
        if socket:
            # With a request in its environment, a program that can do both would not serve
            return metadata
        text = request(placement)
        return {
            **metadata,
            "COGAME_REPORT_REQUEST_URI": placement.input_uri(_REQUEST),
            **({"COGAME_REPORT_REQUEST": text} if len(text.encode()) <= _MOST_IN_VARIABLE else {}),
        }

    return RoleWork(
        inputs={f"episode-{index}": scratch / f"episode-{index}" for index in range(len(extracted))},
        documents={_REQUEST: request, _METADATA: lambda _: json.dumps([_metadata(bundle) for bundle in extracted])},
        variables=variables,
        request=request if socket else None,
        output=_REPORT,
        read=read_report,
    )


def _episode(bundle: Bundle, directory: str, placement: Placement) -> ReportEpisode:
    """An episode of a report request."""
    single: dict[str, ArtifactRef] = {}
    several: dict[str, dict[str, ArtifactRef]] = {}
    error = None
    manifest = read_as(
        BundleManifest, open_record(dict(bundle.manifest), what=_MANIFEST, name=BUNDLE_MANIFEST), what=_MANIFEST
    )
    known = {part: names for part, names in manifest.files.items() if part != "metadata"}
    for file in bundle.files:
        part = file.token
        if part == "error_info":
            error = _error(b"".join(bundle.pieces(file)))
        elif part in ReportArtifacts.model_fields:
            reference = ArtifactRef(
                uri=placement.input_uri(f"{directory}/{file.name}"), media_type=_MEDIA_TYPES.get(part, "text/plain")
            )
            if file.key is None:
                single[part] = reference
            else:
                several.setdefault(part, {})[file.key] = reference
    return ReportEpisode(
        episode_request_id=bundle.episode_id,
        status="success" if bundle.status == "success" else "failed",
        manifest=manifest.model_copy(update={"files": known, "include": tuple(known)}),
        artifacts=ReportArtifacts.model_validate({**single, **several}),
        inline_json=InlineJson(error_info=error),
    )


def _metadata(bundle: Bundle) -> Any:
    file = bundle.file("metadata")
    return {} if file is None else json.loads(b"".join(bundle.pieces(file)))


def _error(content: bytes) -> EpisodeErrorInfo:
    told = cast("dict[str, Any]", json.loads(content))
    slot = told.get("failed_policy_index")
    return EpisodeErrorInfo(
        error_type=told.get("error_type"), error=told.get("message"), failed_policy_index=slot, failed_agent_index=slot
    )
