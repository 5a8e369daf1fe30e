"""Games and replays that run on the platform, to be played and watched in a browser."""

from __future__ import annotations

from typing import Literal

from pydantic import AliasChoices, Field

from ._wire import Body, LongText, Text, Time, Wire, newer, required

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

    coworld_id: Text = Field(description="``cow_<uuid>``.")
    variant_id: Text | None = Field(default=None, description="In which variant; the first by default.")
    allow_spectators: bool = Field(default=True, description="Whether anyone with the link may watch.")


class PlayConfigBody(Body):
    """Change a game that nobody has joined yet."""

    kind: Literal["variant", "spectators"] = Field(description="What is changed.")
    variant_id: Text | None = Field(default=None, description="For ``variant``: which one is played.")
    allow_spectators: bool | None = Field(default=None, description="For ``spectators``: whether anyone may watch.")


class PlaySession(Wire):
    """A game that waits for its players. The links let in whoever has them."""

    session_id: str = required("Opaque.")
    join_url: str | None = Field(default=None, description="Where players join.", repr=False)
    lobby_url: str | None = Field(default=None, description="Where players meet.", repr=False)
    player_count: int = required("How many slots there are.", 0)
    global_url: str | None = Field(default=None, description="Where to watch.", repr=False)


class SessionPlayer(Wire):
    """The occupant of a slot."""

    slot: int = required("From 0.", -1)
    label: str | None = Field(default=None, description="Name it shows.")
    user_id: str | None = Field(default=None, description="The user.")
    player_id: str | None = Field(default=None, description="The player.")
    player_name: str | None = Field(default=None, description="The player's name.")
    joined_at: Time | None = Field(default=None, description="Since when.")


class JoinedSession(Wire):
    """A seat in a game, and the link to it."""

    player_url: str | None = Field(
        default=None,
        description="Where you play; it lets in whoever has it.",
        validation_alias=AliasChoices("player_url", "target_url"),
        repr=False,
    )
    slot: int | None = Field(default=None, description="Your slot, from 0.")
    player: SessionPlayer | None = Field(default=None, description="You.")
    entrant_kind: str | None = newer("player or spectator.")


class ReplaySessionBody(Body):
    """Start a replay viewer. Not every platform needs both to find the replay, so either alone may be given."""

    coworld_id: Text = Field(description="The Coworld that played it, ``cow_<uuid>``.")
    episode_id: Text | None = Field(default=None, description="UUID of the episode, or the episode request.")
    replay_uri: LongText | None = Field(default=None, description="The replay, as the episode request names it.")


class HostedReplaySession(Wire):
    """A replay viewer."""

    viewer_url: str = required("Where to look.")
    ready: bool | None = newer("Whether it can be opened at once.")
