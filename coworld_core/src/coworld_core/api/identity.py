"""Users, and the players they own."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from ._open_enums import OpenText
from ._wire_models import Body, LongText, Time, Wire, newer, required

__all__ = [
    "AccountDeletion",
    "NewToken",
    "OwnToken",
    "OwnedPlayer",
    "Player",
    "PlayerBody",
    "PlayerLogin",
    "SignInCodeBody",
    "SubjectType",
    "TokenBody",
    "Whoami",
]


class SubjectType(OpenText):
    """The account type of a token: `user`, `player`, or `anonymous` if the token is invalid."""

    __slots__ = ()

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """`user`, `player` and `anonymous`."""
        return ("user", "player", "anonymous")

    @property
    def is_anonymous(self) -> bool:
        """Whether the token belongs to no account."""
        return str(self) == "anonymous"


class Player(Wire):
    """A player as shown with its policies."""

    id: str = required("`ply_<uuid>`.")
    name: str | None = Field(default=None, description="Displayed name.")
    avatar_url: str | None = Field(default=None, description="Its picture.")


class OwnedPlayer(Wire):
    """A player as its owner sees it."""

    id: str = required("`ply_<uuid>`.")
    name: str = required("Displayed name.")
    is_default: bool = Field(default=False, description="Whether new policies of the owner belong to it by default.")
    avatar_url: str | None = Field(default=None, description="Its picture.")
    created_at: Time | None = required("When it was created.", None)
    disabled_at: Time | None = Field(default=None, description="When it was disabled, if it was.")
    user_id: str | None = Field(default=None, description="Its owner.")


PlayerName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=64)]
"""Which characters a name may have is the platform's rule, and its refusal says which one is wrong."""


class SignInCodeBody(Body):
    """Exchange a sign-in code for a token."""

    code: LongText = Field(description="The code that the browser received.", repr=False)


class PlayerBody(Body):
    """Create a player."""

    name: PlayerName = Field(
        description="Displayed name, unique among the owner's players: 1 to 64 printable characters."
    )


class PlayerLogin(Wire):
    """A temporary token to act as a player."""

    player_id: str = required("`ply_<uuid>`.")
    token: str = Field(
        default="",
        description="The token; it begins with `ply_`.",
        repr=False,
        json_schema_extra={"x-required": True},
    )
    expires_at: Time | None = required("When it expires.", None)


class OwnToken(Wire):
    """A valid token of yours, without its text, which is not stored."""

    id: str = required("24 hexadecimal digits; they are also in the token's text.")
    name: str | None = Field(default=None, description="What it is for, in its owner's words.")
    kind: str = required("`user`, `player` (a player's session) or `web` (a browser that is signed in).")
    player_id: str | None = Field(default=None, description="The player, for a player's session.")
    created_at: Time | None = required("When it was made.", None)
    expires_at: Time | None = Field(default=None, description="When it expires; null: it is valid until revoked.")
    is_current: bool = Field(default=False, description="Whether this request was made with it.")


class TokenBody(Body):
    """Make another token for your account."""

    name: PlayerName = Field(description="What it is for: 1 to 64 printable characters.")
    days: int | None = Field(default=None, ge=1, le=3650, description="Days that it is valid; null: until revoked.")


class NewToken(OwnToken):
    """A new token, with its text, which is shown only once."""

    token: str = Field(default="", description="The token.", repr=False, json_schema_extra={"x-required": True})


class AccountDeletion(Wire):
    """What the deletion of an account does, or has done."""

    name: str = required("The account's name until then.")
    neutral_name: str = required("What stands in its place.")
    episodes: int | None = required("Episodes that stay.", None)
    requests: int | None = required("Waiting episodes that are cancelled.", None)
    memberships: int | None = required("Policies that are taken out of leagues.", None)
    unused: int | None = required("Policy versions that go, since they never played.", None)
    tokens: int | None = required("Tokens and sessions that end.", None)
    goes: str = required("What goes, in words.")
    stays: str = required("What stays, in words.")


class Whoami(Wire):
    """The account that a token belongs to; `anonymous` for an invalid token."""

    user_email: str | None = Field(default=None, description="The user's address, or `unknown`.")
    name: str | None = Field(default=None, description="The user's name.")
    is_softmax_team_member: bool = Field(default=False, description="Whether the user may request team rights.")
    is_softmax_admin: bool = Field(default=False, description="Whether the user administers the platform.")
    subject_type: SubjectType = Field(
        default=SubjectType("anonymous"),
        description="user, player or anonymous.",
        json_schema_extra={"x-required": True},
    )
    subject_id: str | None = Field(default=None, description="Id of the user or of the player.")
    owner_user_id: str | None = Field(default=None, description="For a player: its owner.")
    owner_name: str | None = newer("The owner's name.")
    scopes: tuple[str, ...] = Field(default=(), description="What the token permits, if the server limits it.")
