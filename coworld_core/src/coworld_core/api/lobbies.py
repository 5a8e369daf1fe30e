"""Lobbies: drafts of a game in a league that people and policies play together."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, cast

from pydantic import Field, model_validator

from ..errors import UsageError
from ._open_enums import LobbyStatus
from ._wire_models import Body, Text, Time, Wire, newer, part, required
from .experience import MAX_ROSTER
from .tags import LabelTags

__all__ = [
    "Lobby",
    "LobbyBody",
    "LobbyPermissions",
    "LobbySeat",
    "LobbySeatBody",
    "LobbySeatChangeBody",
    "LobbyStartBody",
    "SeatKind",
]

SeatKind: TypeAlias = Literal["human_open", "league_player", "random", "closed"]
"""What a host can make of a seat: a person's, the champion of a player, any champion, or none."""


class _SeatChoice(Body):
    kind: SeatKind = Field(description="Who is to sit here.")
    player_id: Text | None = Field(
        default=None,
        description="For `league_player`, the player whose champion sits here, or an account without a player.",
    )

    @model_validator(mode="after")
    def _player_where_needed(self) -> _SeatChoice:
        if (self.kind == "league_player") != (self.player_id is not None):
            raise ValueError("league_player needs a player_id, and no other kind takes one")
        return self


class LobbySeatBody(_SeatChoice):
    """A seat of a new lobby."""

    position: int = Field(ge=0, lt=MAX_ROSTER, description="Its position, from 0.")

    @classmethod
    def parse(cls, text: str) -> LobbySeatBody:
        """Read `POSITION:KIND`, or `POSITION:league_player:PLAYER_ID`.

        Raises:
            UsageError: Code `bad_seat`.
        """
        position, _, choice = text.partition(":")
        kind, _, player = choice.partition(":")
        try:
            return cls(position=int(position), kind=cast("SeatKind", kind), player_id=player or None)
        except ValueError:
            raise UsageError(
                f"{text!r} is not a seat.",
                code="bad_seat",
                hint="Write POSITION:human_open, POSITION:random, POSITION:closed or POSITION:league_player:PLAYER_ID.",
            ) from None


class LobbySeatChangeBody(_SeatChoice):
    """Change a seat."""

    expected_revision: int = Field(ge=0, description="The revision that you have seen; 409 if it is another by now.")


class LobbyBody(Body):
    """Draft a lobby."""

    idempotency_key: Text = Field(min_length=1, description="The same key gets the same lobby.")
    variant_id: Text | None = Field(default=None, description="The variant to play; by default the league's.")
    game_config_overrides: dict[str, Any] | None = Field(default=None, description="Replaces keys of the game config.")
    num_players: int | None = Field(
        default=None, ge=1, le=MAX_ROSTER, description="Number of seats that are not closed."
    )
    seats: tuple[LobbySeatBody, ...] | None = Field(
        default=None, max_length=MAX_ROSTER, description="Seats that differ from the default."
    )
    tags: LabelTags | None = Field(default=None, description="Labels of its game and of the episode it becomes.")

    @model_validator(mode="after")
    def _each_once(self) -> LobbyBody:
        positions = [seat.position for seat in self.seats or ()]
        if len(set(positions)) < len(positions):
            raise ValueError("a position is given twice")
        return self


class LobbyStartBody(Body):
    """Start a lobby's game."""

    idempotency_key: Text = Field(min_length=1, description="The same key starts it only once.")
    expected_revision: int = Field(ge=0, description="The revision that you have seen; 409 if it is another by now.")


class LobbySeat(Wire):
    """A seat of a lobby."""

    position: int = required("Its position, from 0.", -1)
    kind: str = required("human, human_open, league_player, random or closed.")
    player_id: str | None = Field(
        default=None, description="The player whose champion sits here, or the person's; of a random seat once started."
    )
    player_name: str | None = Field(default=None, description="The name of that player.")
    is_me: bool = required("Whether it is your seat.", default=False)
    claimant_label: str | None = Field(default=None, description="The name of the person who sits here.")
    can_claim: bool = required("Whether you can take it.", default=False)
    can_remove: bool = required("Whether you can remove the person who sits here.", default=False)


class LobbyPermissions(Wire):
    """What you can do with a lobby now."""

    can_start: bool = required("Whether you can start it.", default=False)
    can_edit: bool = required("Whether you can change its seats.", default=False)
    can_remove_player: bool = required("Whether you can remove people from it.", default=False)
    can_end_game: bool = required("Whether you can end its game.", default=False)


class Lobby(Wire):
    """A game of a league that people and policies play together, from its draft to its end."""

    id: str = required("`lby_<uuid>`.")
    league_id: str = required("The league.")
    coworld_id: str = required("The Coworld that is played.")
    coworld_name: str = required("Its name.")
    coworld_version: str = required("Its version.")
    coworld_manifest_hash: str = required("Hash of its manifest.")
    host_user_id: str | None = Field(default=None, description="The account that drafted it.")
    host_name: str | None = newer("The name of that account, or of its player.")
    variant_id: str | None = Field(default=None, description="The variant.")
    min_players: int = required("The fewest seats that the game can be played with.", 0)
    max_players: int = required("The most seats.", 0)
    status: LobbyStatus = required("Its state.", LobbyStatus())
    revision: int = required("Grows with each change.", 0)
    session_id: str | None = newer("Its game, once started: a play session, in which your seat waits for you.")
    page_url: str | None = newer("Its page.")
    error: str | None = newer("Why its game failed.")
    episode_request_id: str | None = Field(default=None, description="The episode, once played.")
    episode_id: str | None = Field(default=None, description="UUID of the episode, once played.")
    replay_url: str | None = Field(default=None, description="Link to its replay, if you may see it.")
    created_at: Time | None = required("When it was drafted.", None)
    started_at: Time | None = Field(default=None, description="When it was started.")
    ended_at: Time | None = Field(default=None, description="When it ended.")
    expires_at: Time | None = required("When the draft expires, unless it is started.", None)
    seats: tuple[LobbySeat, ...] = required("Its seats, by position.", ())
    tags: dict[str, str] | None = newer("Labels of its game and episode, told to its host; null if none are kept.")
    can_manage: bool = required("Whether it is yours.", default=False)
    permissions: LobbyPermissions = part(LobbyPermissions, "What you can do now.")
