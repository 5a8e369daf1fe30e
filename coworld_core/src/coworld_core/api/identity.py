"""Users, and the players they own."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from ._values import OpenText
from ._wire import Body, LongText, Time, Wire, required

__all__ = [
    "OwnedPlayer",
    "Player",
    "PlayerBody",
    "PlayerLogin",
    "SignInCodeBody",
    "SubjectType",
    "Whoami",
]


class SubjectType(OpenText):
    """What a token stands for: ``user``, ``player``, or ``anonymous`` when it is not valid."""

    __slots__ = ()

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """``user``, ``player`` and ``anonymous``."""
        return ("user", "player", "anonymous")

    @property
    def is_anonymous(self) -> bool:
        """Whether the token belongs to no account."""
        return str(self) == "anonymous"


class Player(Wire):
    """A player as it appears beside its policies."""

    id: str = required("``ply_<uuid>``.")
    name: str | None = Field(default=None, description="Name it shows.")
    avatar_url: str | None = Field(default=None, description="Its picture.")


class OwnedPlayer(Wire):
    """A player as its owner sees it."""

    id: str = required("``ply_<uuid>``.")
    name: str = required("Name it shows.")
    is_default: bool = Field(default=False, description="Whether the owner's policies are its own when none is named.")
    avatar_url: str | None = Field(default=None, description="Its picture.")
    created_at: Time | None = required("When it was made.", None)
    disabled_at: Time | None = Field(default=None, description="When it was shut, if it was.")
    user_id: str | None = Field(default=None, description="Its owner.")


def _printable(name: str) -> str:
    if not name.isprintable():
        raise ValueError("has characters that cannot be printed")
    return name


PlayerName = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=64), AfterValidator(_printable)
]
"""As it stands in tables and logs: nothing in it breaks a line or moves a cursor."""


class SignInCodeBody(Body):
    """Trade a sign-in code for a token."""

    code: LongText = Field(description="As the browser got it.", repr=False)


class PlayerBody(Body):
    """Make a player."""

    name: PlayerName = Field(description="Name it shows, unique among one's own: 1 to 64 printable characters.")


class PlayerLogin(Wire):
    """A token to act as a player for a while."""

    player_id: str = required("``ply_<uuid>``.")
    token: str = Field(
        default="",
        description="The token; it begins with ``ply_``.",
        repr=False,
        json_schema_extra={"x-required": True},
    )
    expires_at: Time | None = required("When it ends.", None)


class Whoami(Wire):
    """The account that a token belongs to; ``anonymous`` for an invalid token."""

    user_email: str | None = Field(default=None, description="The user's address, or ``unknown``.")
    name: str | None = Field(default=None, description="The user's name.")
    is_softmax_team_member: bool = Field(default=False, description="Whether team rights may be asked for.")
    is_softmax_admin: bool = Field(default=False, description="Whether the user runs the platform.")
    subject_type: SubjectType = Field(
        default=SubjectType("anonymous"),
        description="user, player or anonymous.",
        json_schema_extra={"x-required": True},
    )
    subject_id: str | None = Field(default=None, description="Id of the user or of the player.")
    owner_user_id: str | None = Field(default=None, description="For a player: its owner.")
    scopes: tuple[str, ...] = Field(default=(), description="What the token may do, where the server limits it.")
