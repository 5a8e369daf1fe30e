"""Following many episodes at once: short rows, changes since a cursor, and files to download."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ._open_enums import ExperienceStatus, RequestStatus
from ._wire_models import Time, Wire, required
from .episodes import EpisodeErrorType, EpisodeScore, Participant

__all__ = [
    "DOWNLOAD_CATEGORIES",
    "BatchState",
    "ChangeEntry",
    "ChangePage",
    "DownloadCategory",
    "DownloadEntry",
    "DownloadPage",
    "EpisodeProgress",
    "EpisodeView",
    "ProgressPage",
]

EpisodeView = Literal["progress", "results"]
"""How much of an episode is sent: its status only, or also scores, participants and replay."""

DownloadCategory = Literal["results", "replay", "events", "error_info", "game_logs", "player_logs", "player_artifact"]
"""The kinds of files that an episode may offer for download."""

DOWNLOAD_CATEGORIES: tuple[DownloadCategory, ...] = (
    "results",
    "replay",
    "events",
    "error_info",
    "game_logs",
    "player_logs",
    "player_artifact",
)
"""All download categories."""


class EpisodeProgress(Wire):
    """A short form of an episode."""

    id: str = required("`ereq_<uuid>`.")
    experience_request_id: str | None = Field(default=None, description="The experience request it belongs to.")
    created_at: Time | None = required("When it was requested.", None)
    status: RequestStatus = required("Its status.", RequestStatus(""))
    error_type: EpisodeErrorType | None = Field(default=None, description="Why it failed.")
    evidence_state: str | None = Field(default=None, description="pending, or sealed when nothing will be added.")
    scores: tuple[EpisodeScore, ...] | None = Field(default=None, description="Scores; with view results.")
    participants: tuple[Participant, ...] | None = Field(
        default=None, description="The occupant of each slot; with view results."
    )
    replay_url: str | None = Field(default=None, description="URL of its replay; with view results.")
    error: str | None = Field(default=None, description="Why it failed, in words; with view results.")


class ProgressPage(Wire):
    """A page of episodes in short form."""

    entries: tuple[EpisodeProgress, ...] = Field(default=(), description="The episodes.")
    unavailable_ids: tuple[str, ...] = Field(default=(), description="Ids that do not exist or are hidden from you.")
    next_cursor: str | None = Field(default=None, description="Where the next page begins.")
    observed_at: Time | None = Field(default=None, description="When the server observed this state.")


class BatchState(Wire):
    """Status of one of the watched requests."""

    id: str = required("`xreq_<uuid>` or `ereq_<uuid>`.")
    status: ExperienceStatus = required("Its status.", ExperienceStatus(""))
    episode_count: int = required("Number of its episodes.", 0)


class ChangeEntry(Wire):
    """One episode that was added, changed or removed."""

    id: str = required("`ereq_<uuid>`.")
    experience_request_id: str | None = Field(default=None, description="The experience request it belongs to.")
    revision: int = required("Increases with every change of the episode.", 0)
    removed: bool = Field(default=False, description="Whether it was removed.")
    episode: EpisodeProgress | None = Field(default=None, description="Its current state.")


class ChangePage(Wire):
    """Changes since a cursor: first everything (`snapshot`), then later changes (`changes`)."""

    batches: tuple[BatchState, ...] = Field(default=(), description="Status of the watched requests.")
    phase: str = required("snapshot or changes.")
    entries: tuple[ChangeEntry, ...] = Field(default=(), description="Changes, oldest first.")
    next_cursor: str = required("Cursor for the next call.")
    has_more: bool = Field(default=False, description="Whether more is available immediately.")
    poll_after_seconds: float | None = Field(default=None, description="Seconds to wait before the next call.")
    expires_at: Time | None = Field(default=None, description="When the cursor expires.")


class DownloadEntry(Wire):
    """One file to download."""

    episode_request_id: str = required("`ereq_<uuid>`.")
    category: str = required("One of the download categories.")
    position: int | None = Field(default=None, description="The slot, for files of a player.")
    artifact_id: str = required("Id of the artifact.")
    version: str | None = Field(default=None, description="Version of its content.")
    filename: str = required("Name on the server; never used as a local file name.")
    state: str = required("pending, ready, not_produced or unavailable.")
    media_type: str | None = Field(default=None, description="Media type.")
    encoding: str | None = Field(default=None, description="identity, zlib or gzip.")
    size: int | None = Field(default=None, ge=0, description="Size in bytes.")
    etag: str | None = Field(default=None, description="Value to send as If-Match.")
    url: str | None = Field(default=None, description="Temporary URL to download it from.", repr=False)
    expires_at: Time | None = Field(default=None, description="When the URL expires.")
    inline_json: Any = Field(default=None, description="The content itself, if it is small.")


class DownloadPage(Wire):
    """A page of files to download."""

    entries: tuple[DownloadEntry, ...] = Field(default=(), description="The files.")
    unavailable_ids: tuple[str, ...] = Field(default=(), description="Ids that do not exist or are hidden from you.")
    next_cursor: str | None = Field(default=None, description="Where the next page begins.")
