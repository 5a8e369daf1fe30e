"""Games and replays hosted on the platform, to play and watch in a browser."""

from __future__ import annotations

from typing import Literal

from pydantic import AliasChoices, Field

from ._open_enums import PlaySessionStatus
from ._wire_models import Body, LongText, Text, Time, Wire, newer, required
from .tags import LabelTags

__all__ = [
    "HostedReplaySession",
    "JoinedSession",
    "PlayConfigBody",
    "PlaySession",
    "PlaySessionBody",
    "ReplaySessionBody",
    "SessionPlayer",
]


class PlaySessionBody(Body):
    """Start a game."""

    coworld_id: Text = Field(description="`cow_<uuid>`.")
    variant_id: Text | None = Field(default=None, description="The variant to play; the first one by default.")
    allow_spectators: bool = Field(default=True, description="Whether anyone with the link may watch.")
    tags: LabelTags | None = Field(default=None, description="Labels of the episode that it becomes.")


class PlayConfigBody(Body):
    """Change a game before anyone has joined it."""

    kind: Literal["variant", "spectators"] = Field(description="What to change.")
    variant_id: Text | None = Field(default=None, description="For `variant`: the variant to play.")
    allow_spectators: bool | None = Field(default=None, description="For `spectators`: whether anyone may watch.")


class SessionPlayer(Wire):
    """The occupant of a slot."""

    slot: int = required("The slot, from 0.", -1)
    label: str | None = Field(default=None, description="Displayed name.")
    user_id: str | None = Field(default=None, description="The user.")
    player_id: str | None = Field(default=None, description="The player.")
    player_name: str | None = Field(default=None, description="The player's name.")
    joined_at: Time | None = Field(default=None, description="When they joined.")


class PlaySession(Wire):
    """A game for people. Anyone who has one of its links can enter."""

    session_id: str = required("Opaque id.")
    join_url: str | None = Field(default=None, description="Link for players to join.", repr=False)
    lobby_url: str | None = Field(default=None, description="Link to the lobby.", repr=False)
    player_count: int = required("Number of slots.", 0)
    global_url: str | None = Field(default=None, description="Link to watch.", repr=False)
    tags: dict[str, str] | None = newer("Labels of the episode that it becomes, on platforms that keep any.")
    status: PlaySessionStatus | None = newer("Its state.")
    coworld_id: str | None = newer("The Coworld that is played.")
    variant_id: str | None = newer("The variant.")
    players: tuple[SessionPlayer, ...] | None = newer("Who sits in it, people and policies; not everybody is told.")
    episode_request_id: str | None = newer("The episode that it has become, once played.")
    error: str | None = newer("Why it failed.")
    created_at: Time | None = newer("When it was started.")
    ended_at: Time | None = newer("When it ended.")


class JoinedSession(Wire):
    """A seat in a game, and the link to it."""

    player_url: str | None = Field(
        default=None,
        description="Link to play; anyone who has it can enter.",
        validation_alias=AliasChoices("player_url", "target_url"),
        repr=False,
    )
    slot: int | None = Field(default=None, description="Your slot, from 0.")
    player: SessionPlayer | None = Field(default=None, description="You.")
    entrant_kind: str | None = newer("player or spectator.")


class ReplaySessionBody(Body):
    """Start a replay viewer. Some platforms need only the episode or only the URI to find the replay."""

    coworld_id: Text = Field(description="The Coworld that played it, `cow_<uuid>`.")
    episode_id: Text | None = Field(default=None, description="UUID of the episode, or the episode request.")
    replay_uri: LongText | None = Field(default=None, description="URI of the replay, as in the episode request.")


class HostedReplaySession(Wire):
    """A replay viewer."""

    viewer_url: str = required("URL of the viewer.")
    ready: bool | None = newer("Whether it can be opened now.")
