"""Policies: what players are uploaded as, by name and version."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    Base64Bytes,
    Field,
    StringConstraints,
    computed_field,
    model_validator,
)

from ..errors import UsageError
from ._wire import Body, Text, Time, Wire, part, required
from .ids import is_uuid

__all__ = [
    "MOST_PLAYER_BYTES",
    "PlayerFiles",
    "Policy",
    "PolicyFilesBody",
    "PolicyRef",
    "PolicySecretEnvBody",
    "PolicySecretEnvCreated",
    "PolicyVersion",
    "PolicyVersionBody",
    "PolicyVersionCreated",
    "PolicyVersionRow",
    "SelectionAccess",
    "SelectionAccessBody",
]


class Policy(Wire):
    """A policy: a name under which versions are uploaded."""

    id: str = required("UUID.")
    name: str = required("Name, unique among its owner's policies.")


class PolicyVersion(Wire):
    """One version of a policy."""

    id: str = required("UUID.")
    policy: Policy = part(Policy, "What it is a version of.")
    version: int = required("Number, from 1.", 0)
    player_id: str | None = Field(default=None, description="The player it is assigned to, ``ply_<uuid>``.")

    @computed_field
    @property
    def label(self) -> str:
        """How people name it: ``name:v3``."""
        return label_of(self.policy.name, self.version)


class PolicyVersionRow(Wire):
    """One version of a policy as a lookup by name gives it."""

    id: str = Field(
        default="",
        description="UUID of the version.",
        validation_alias=AliasChoices("id", "policy_version_id"),
        json_schema_extra={"x-required": True},
    )
    name: str = Field(
        default="",
        description="Name of the policy.",
        validation_alias=AliasChoices("name", "policy_name"),
        json_schema_extra={"x-required": True},
    )
    version: int = required("Number, from 1.", 0)
    player_id: str | None = Field(default=None, description="The player it is assigned to.")
    disabled_at: Time | None = Field(default=None, description="When an operator disabled it: it is not scheduled.")
    disabled_reason: str | None = Field(default=None, description="What the operator says about that.")

    @computed_field
    @property
    def label(self) -> str:
        """How people name it: ``name:v3``."""
        return label_of(self.name, self.version)


class PolicyVersionCreated(Wire):
    """What an upload of a policy gives."""

    id: str = required("UUID of the new version.")
    name: str = required("Name of the policy.")
    version: int = required("Number of the new version, from 1.", 0)
    pools: tuple[str, ...] | None = Field(default=None, description="Pools it was entered into, on older servers.")
    submit_error: str | None = Field(default=None, description="Why it could not be entered, on older servers.")

    @computed_field
    @property
    def label(self) -> str:
        """How people name it: ``name:v3``."""
        return label_of(self.name, self.version)


EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=200)]
EnvValue = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$", max_length=32_768)]
PolicyName = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f:/\\]+$", min_length=1, max_length=100)]
"""No colon: it stands before the version; no slash: it becomes part of names and paths."""


class PolicySecretEnvBody(Body):
    """Environment variables that only a policy version's own player gets."""

    policy_secret_env: dict[EnvName, EnvValue] = Field(
        min_length=1, max_length=100, description="Value by name.", repr=False
    )


class PolicyVersionBody(Body):
    """Make the next version of a policy."""

    name: PolicyName = Field(description="Name of the policy; a name that is there gets its next version.")
    container_image_id: Text = Field(description="The image it runs from, ``img_<uuid>``.")
    run: tuple[EnvValue, ...] | None = Field(
        default=None, max_length=100, description="Command instead of the image's own."
    )
    policy_secret_env_id: Text | None = Field(default=None, description="Its secret environment variables.")
    tags: dict[Text, Text] | None = Field(default=None, max_length=100, description="Free labels.")


MOST_PLAYER_BYTES = 4 << 20
"""Most that a player's own files may have for a platform to take them."""


def _file_name(name: str) -> str:
    """A path below a directory that no reading of it leads out of."""
    parts = name.split("/")
    if not all(part not in ("", ".", "..") and len(part.encode("utf-8", "replace")) <= 200 for part in parts):
        raise ValueError("not a path below a directory")
    return name


FileName = Annotated[
    str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f\\]+$", max_length=1000), AfterValidator(_file_name)
]


class PlayerFiles(Body):
    """A player that is a file or a directory, which runs beside the game's own player image."""

    file: FileName = Field(description="Name of its file or directory.")
    files: dict[FileName, Base64Bytes] = Field(
        min_length=1,
        max_length=1000,
        description="What it holds, in Base64, by path relative to its directory.",
        repr=False,
    )
    command: tuple[EnvValue, ...] = Field(
        min_length=1, max_length=100, description="How it is run; ``{}`` stands for the directory with its files."
    )
    runnable: tuple[FileName, ...] = Field(
        default=(), max_length=1000, description="Those of its files that may be executed."
    )
    needs_client: bool = Field(default=False, description="Whether ``coworld_client.seat`` plays it.")
    needs: str = Field(default="", max_length=100, description="os/architecture of the machine code it is.")

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if sum(map(len, self.files.values())) > MOST_PLAYER_BYTES:
            raise ValueError(f"the files have more than {MOST_PLAYER_BYTES >> 20} MiB; build an image of them")
        for name in self.files:
            if any(parent.as_posix() in self.files for parent in PurePosixPath(name).parents):
                raise ValueError(f"{name} lies in what is a file")
        return self

    @classmethod
    def of_bytes(cls, files: Mapping[str, bytes], **values: Any) -> PlayerFiles:
        """Files as they are on the disk.

        Raises:
            UsageError: No platform takes them (code ``bad_body``).
        """
        return cls.of(files={name: base64.b64encode(content) for name, content in files.items()}, **values)


class PolicyFilesBody(Body):
    """Make the next version of a policy out of a player's own files."""

    name: PolicyName = Field(description="Name of the policy; a name that is there gets its next version.")
    player: PlayerFiles = Field(description="What plays.")
    policy_secret_env_id: Text | None = Field(default=None, description="Its secret environment variables.")
    tags: dict[Text, Text] | None = Field(default=None, max_length=100, description="Free labels.")


class SelectionAccessBody(Body):
    """Set who may use a policy in their own episodes."""

    selection_scope: Literal["any_request", "owner_visible"] = Field(description="Anybody, or its owner alone.")


class PolicySecretEnvCreated(Wire):
    """Where secret environment variables are kept: an id, never the values."""

    id: str = required("To be given with the upload of the policy version.")


class SelectionAccess(Wire):
    """Who may choose a policy for their episodes."""

    selection_scope: str = required("``any_request`` or ``owner_visible``.")


def label_of(name: str, version: int) -> str:
    """``name:v3``; the name alone where the version is not known."""
    return f"{name}:v{version}" if version else name


_VERSION = re.compile(r"v?([0-9]{1,9})")


@dataclass(frozen=True, kw_only=True)
class PolicyRef:
    """Which policy, or which version of it, somebody means."""

    name: str | None = None
    """Name of the policy; None when the version is given by its id."""
    version: int | None = None
    """Number of the version; None when any, or the newest, is meant."""
    id: str | None = None
    """UUID of the version."""

    @classmethod
    def parse(cls, text: str, *, kind: Literal["any", "name"] = "any") -> PolicyRef:
        """Read ``NAME``, ``NAME:3``, ``NAME:v3`` or the UUID of a policy version. The last colon counts.

        Args:
            text: What somebody wrote.
            kind: ``name`` where a UUID is not accepted.

        Raises:
            UsageError: Code ``bad_policy``; the message says what is wrong with it.
        """
        if is_uuid(text):
            if kind == "name":
                raise _refused(text, "is the id of a version, where a name is needed")
            return cls(id=text.lower())
        if not text or text != text.strip() or not text.isprintable():
            raise _refused(text, "is empty" if not text else "contains white space or unprintable characters at an end")
        name, colon, tail = text.rpartition(":")
        if not colon:
            return cls(name=text)
        number = _VERSION.fullmatch(tail)
        if not name:
            raise _refused(text, "lacks the name before the colon")
        if number is None:
            raise _refused(text, f"has {tail!r} after its colon, which is no version" if tail else "ends in a colon")
        if int(number[1]) < 1:
            raise _refused(text, "has version 0; versions begin with 1")
        return cls(name=name, version=int(number[1]))

    def matches(self, version: Any) -> bool:
        """Whether a policy version is (one of) the meant.

        Args:
            version: A ``PolicyVersion``, ``PolicyVersionRow``, or a participant of an episode.
        """
        if self.id is not None:
            return self.id == str(getattr(version, "policy_version_id", None) or version.id).lower()
        policy = getattr(version, "policy", None)
        name = policy.name if policy is not None else getattr(version, "policy_name", None) or version.name
        return name == self.name and self.version in (None, version.version)

    def __str__(self) -> str:
        return self.id or label_of(self.name or "", self.version or 0)


def _refused(text: str, why: str) -> UsageError:
    shown = repr(text if len(text) <= 80 else f"{text[:79]}…")
    return UsageError(f"{shown} {why}.", code="bad_policy", hint="Write NAME, NAME:3, NAME:v3 or a version's UUID.")
