"""Following many episodes at once: rows in short, changes since a cursor, and what there is to download."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ._values import ExperienceStatus, RequestStatus
from ._wire import Time, Wire, required
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
"""How much of an episode is told: where it stands, or with scores, participants and replay."""

DownloadCategory = Literal["results", "replay", "events", "error_info", "game_logs", "player_logs", "player_artifact"]
"""What there is to download of an episode."""

DOWNLOAD_CATEGORIES: tuple[DownloadCategory, ...] = (
    "results",
    "replay",
    "events",
    "error_info",
    "game_logs",
    "player_logs",
    "player_artifact",
)
"""All of them."""


class EpisodeProgress(Wire):
    """An episode in short."""

    id: str = required("``ereq_<uuid>``.")
    experience_request_id: str | None = Field(default=None, description="The experience request it belongs to.")
    created_at: Time | None = required("When it was asked for.", None)
    status: RequestStatus = required("Where it stands.", RequestStatus(""))
    error_type: EpisodeErrorType | None = Field(default=None, description="Why it failed.")
    evidence_state: str | None = Field(default=None, description="pending, or sealed when nothing will be added.")
    scores: tuple[EpisodeScore, ...] | None = Field(default=None, description="Scores; with view results.")
    participants: tuple[Participant, ...] | None = Field(default=None, description="Who sat where; with view results.")
    replay_url: str | None = Field(default=None, description="Where its replay is; with view results.")
    error: str | None = Field(default=None, description="Why it failed, in words; with view results.")


class ProgressPage(Wire):
    """A page of episodes in short."""

    entries: tuple[EpisodeProgress, ...] = Field(default=(), description="The episodes.")
    unavailable_ids: tuple[str, ...] = Field(default=(), description="What is not there, or not yours to see.")
    next_cursor: str | None = Field(default=None, description="Where the next page begins.")
    observed_at: Time | None = Field(default=None, description="When this was true.")


class BatchState(Wire):
    """Where one of the things watched stands."""

    id: str = required("``xreq_<uuid>`` or ``ereq_<uuid>``.")
    status: ExperienceStatus = required("Where it stands.", ExperienceStatus(""))
    episode_count: int = required("How many episodes it has.", 0)


class ChangeEntry(Wire):
    """One episode that is new, has changed or has gone."""

    id: str = required("``ereq_<uuid>``.")
    experience_request_id: str | None = Field(default=None, description="The experience request it belongs to.")
    revision: int = required("Grows with every change of the episode.", 0)
    removed: bool = Field(default=False, description="Whether it has gone.")
    episode: EpisodeProgress | None = Field(default=None, description="How it is now.")


class ChangePage(Wire):
    """What has changed since a cursor: first everything (``snapshot``), then what happens (``changes``)."""

    batches: tuple[BatchState, ...] = Field(default=(), description="Where the things watched stand.")
    phase: str = required("snapshot or changes.")
    entries: tuple[ChangeEntry, ...] = Field(default=(), description="What has changed, oldest first.")
    next_cursor: str = required("Where to go on.")
    has_more: bool = Field(default=False, description="Whether there is more at once.")
    poll_after_seconds: float | None = Field(default=None, description="How long to wait before the next call.")
    expires_at: Time | None = Field(default=None, description="Until when the cursor is good.")


class DownloadEntry(Wire):
    """One thing to download."""

    episode_request_id: str = required("``ereq_<uuid>``.")
    category: str = required("One of the download categories.")
    position: int | None = Field(default=None, description="The slot, for what is a player's.")
    artifact_id: str = required("What it is known by.")
    version: str | None = Field(default=None, description="Which state of it.")
    filename: str = required("What the server calls it; never the name of a file of ours.")
    state: str = required("pending, ready, not_produced or unavailable.")
    media_type: str | None = Field(default=None, description="What it is.")
    encoding: str | None = Field(default=None, description="identity, zlib or gzip.")
    size: int | None = Field(default=None, ge=0, description="Bytes.")
    etag: str | None = Field(default=None, description="To be sent as If-Match.")
    url: str | None = Field(default=None, description="Where it is, for a while.", repr=False)
    expires_at: Time | None = Field(default=None, description="Until when the URL is good.")
    inline_json: Any = Field(default=None, description="The thing itself, when it is small.")


class DownloadPage(Wire):
    """A page of things to download."""

    entries: tuple[DownloadEntry, ...] = Field(default=(), description="The things.")
    unavailable_ids: tuple[str, ...] = Field(default=(), description="What is not there, or not yours to see.")
    next_cursor: str | None = Field(default=None, description="Where the next page begins.")
