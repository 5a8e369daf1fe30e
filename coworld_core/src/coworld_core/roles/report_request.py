"""What a reporter is asked for, and what it says on its socket `/reporter`.

A local reporter finds the request in its environment. A hosted one serves a socket, one request for each connection: it
says `reporter_ready`, gets the request, says `report_started` and perhaps `report_progress`, writes its zip to the
request's `report_uri`, and ends with `report_finished` or `report_failed`.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeAlias, cast, get_args

from pydantic import Field, JsonValue

from ..documents.findings import Finding, did_you_mean, quoted
from ..documents.json_text import JsonDocument, Source, json_report, parse_json
from ..documents.records import OpenEnum, Record, open_record, read_as
from ..errors import RecordError
from ..issues import absent
from .bundle import BundleManifest, BundleStatus

__all__ = [
    "REPORTER_PROTOCOL",
    "ArtifactRef",
    "EpisodeErrorInfo",
    "InlineJson",
    "ReportArtifacts",
    "ReportEpisode",
    "ReportFailed",
    "ReportFinished",
    "ReportProgress",
    "ReportRequest",
    "ReportStarted",
    "ReporterMessage",
    "ReporterReady",
    "read_report_request",
    "read_reporter_message",
]

REPORTER_PROTOCOL = "coworld-reporter/v1"
"""The protocol of the socket."""

_MAX_MESSAGE = 1 << 20


class _Sent(Record):
    """What is sent as JSON."""

    def to_json(self) -> bytes:
        """The value as JSON, in one line."""
        return json.dumps(self.model_dump(mode="json"), separators=(",", ":"), allow_nan=False).encode()


class ArtifactRef(Record):
    """Where a reporter finds a file."""

    uri: str = Field(description="A file, http or https URI.")
    media_type: str = Field(description="Its media type once it is decoded.")
    encoding: Annotated[Literal["identity", "zlib"], OpenEnum] = Field(
        default="identity", description="zlib: the file is compressed."
    )


class ReportArtifacts(Record):
    """The files of an episode that a reporter may read."""

    results: ArtifactRef | None = Field(default=None, exclude_if=absent, description="`results.json`.")
    replay: ArtifactRef | None = Field(default=None, exclude_if=absent, description="The replay.")
    game_logs: dict[str, ArtifactRef] = Field(
        default_factory=dict[str, ArtifactRef], description="The game's logs: `stdout` and `stderr`, or `combined`."
    )
    player_logs: dict[str, ArtifactRef] = Field(
        default_factory=dict[str, ArtifactRef], description="The players' logs, by slot."
    )
    player_artifact: dict[str, ArtifactRef] = Field(
        default_factory=dict[str, ArtifactRef], description="What the players have left, by slot."
    )


class EpisodeErrorInfo(Record):
    """Why an episode failed."""

    error_type: str | None = Field(default=None, description="The kind of error.")
    error: str | None = Field(default=None, description="The message.")
    failed_policy_index: int | None = Field(
        default=None, exclude_if=absent, description="The slot of the player at fault, if one is."
    )
    failed_agent_index: int | None = Field(default=None, exclude_if=absent, description="The same, under another name.")


class InlineJson(Record):
    """Small documents that are in the request itself."""

    error_info: EpisodeErrorInfo | None = Field(
        default=None, exclude_if=absent, description="Why the episode failed, if it did."
    )


class ReportEpisode(Record):
    """An episode to report on."""

    episode_request_id: str = Field(description="The episode.")
    status: BundleStatus = Field(description="Whether it counts.")
    manifest: BundleManifest = Field(
        description="The manifest of its bundle: which files there are. Published reporters do not know `metadata`."
    )
    artifacts: ReportArtifacts = Field(default=ReportArtifacts(), description="Where its files are.")
    inline_json: InlineJson = Field(default=InlineJson(), description="Documents that are in the request.")


class ReportRequest(_Sent):
    """What a reporter is asked for."""

    type: Literal["report_request"] = Field(default="report_request", description="Always report_request.")
    request_id: str = Field(description="Identifies the request in all that is said about it.")
    report_uri: str = Field(description="Where the report's zip is written: a file URI, or a URL to PUT it to.")
    episodes: tuple[ReportEpisode, ...] = Field(description="The episodes.")


class ReporterReady(_Sent):
    """The reporter is ready for its request."""

    type: Literal["reporter_ready"] = "reporter_ready"
    protocol_version: Annotated[Literal["coworld-reporter/v1"], OpenEnum] = Field(
        default=REPORTER_PROTOCOL, description="The protocol that it speaks."
    )


class ReportStarted(_Sent):
    """The reporter has begun."""

    type: Literal["report_started"] = "report_started"
    request_id: str = Field(description="The request.")
    episode_count: int = Field(ge=0, description="How many episodes it has.")


class ReportProgress(_Sent):
    """How far the reporter is."""

    type: Literal["report_progress"] = "report_progress"
    request_id: str = Field(description="The request.")
    stage: str = Field(description="What it is doing.")
    completed: int = Field(ge=0, description="How much of it is done.")
    total: int = Field(ge=0, description="How much there is.")


class ReportFinished(_Sent):
    """The report is written."""

    type: Literal["report_finished"] = "report_finished"
    request_id: str = Field(description="The request.")
    report_uri: str = Field(description="Where the report is.")
    episode_count: int = Field(ge=0, description="How many episodes it is about.")
    players: JsonValue = Field(
        default=None, exclude_if=absent, description="Its players: their number, or what the reporter tells of them."
    )


class ReportFailed(_Sent):
    """There will be no report."""

    type: Literal["report_failed"] = "report_failed"
    request_id: str = Field(description="The request.")
    stage: str = Field(description="What the reporter was doing.")
    error: str = Field(description="What went wrong.")


ReporterMessage: TypeAlias = ReporterReady | ReportStarted | ReportProgress | ReportFinished | ReportFailed
"""What a reporter says on its socket."""

_MESSAGES = {str(model.model_fields["type"].default): model for model in get_args(ReporterMessage)}


def read_report_request(source: Source) -> ReportRequest:
    """Read a request, on the reporter's side.

    Args:
        source: Its file, or its content as bytes or as a Python value.

    Raises:
        UsageError: The file does not exist (`record_not_found`) or cannot be read (`record_unreadable`).
        RecordError: It is not a request for a report.
    """
    document = open_record(source, what="report request", name="report_request.json")
    return read_as(ReportRequest, document, what="report request")


def read_reporter_message(text: str | bytes) -> ReporterMessage:
    """Read what a reporter says, on the host's side.

    Raises:
        RecordError: It is not a message of a reporter; the error says why.
    """
    document = parse_json(text, source="message of the reporter", max_bytes=_MAX_MESSAGE)
    value: object = document.value
    said: object = cast("dict[str, Any]", value).get("type") if isinstance(value, dict) else None
    model = _MESSAGES.get(said) if isinstance(said, str) else None
    if model is None and isinstance(value, dict) and not document.findings:
        raise _unknown(document, said)
    return cast(
        "ReporterMessage", read_as(model or ReporterReady, document, what=f"message {said}" if model else "message")
    )


def _unknown(document: JsonDocument, value: object) -> RecordError:
    message = "It has no type." if value is None else f"Its type is {quoted(value)}, which a reporter does not say."
    finding = Finding(code="not_allowed", path=("type",) if value is not None else (), message=message)
    hint = did_you_mean(value, tuple(_MESSAGES)) if isinstance(value, str) else None
    return RecordError(json_report(document, [finding]), hint=hint)
