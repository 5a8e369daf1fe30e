"""Policies: the uploads of players, by name and version."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
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
from ..files.new_files import write_new_files
from ._wire_models import Body, Text, Time, Wire, newer, part, required
from .platform_ids import is_uuid
from .tags import LabelTags

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
    policy: Policy = part(Policy, "The policy it is a version of.")
    version: int = required("Number, from 1.", 0)
    player_id: str | None = Field(default=None, description="The player it is assigned to, `ply_<uuid>`.")

    @computed_field
    @property
    def label(self) -> str:
        """A label for display: `name:v3`."""
        return label_of(self.policy.name, self.version)


class PolicyVersionRow(Wire):
    """One version of a policy as returned by a lookup by name."""

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
    disabled_at: Time | None = Field(
        default=None, description="When an operator disabled it, so that it is not scheduled."
    )
    disabled_reason: str | None = Field(default=None, description="The operator's reason.")
    tags: dict[str, str] | None = newer("Its labels, on platforms that tell them.")
    created_at: Time | None = newer("When it was uploaded.")
    kind: str | None = newer("What was uploaded: `files` or `image`; null if the server does not tell.")
    source: str | None = newer("Name of its file, directory or image, if the server tells.")
    digest: str | None = newer("Digest of what was uploaded; of files, of what the download of them returns.")

    @computed_field
    @property
    def label(self) -> str:
        """A label for display: `name:v3`."""
        return label_of(self.name, self.version)


class PolicyVersionCreated(Wire):
    """The answer to an upload of a policy."""

    id: str = required("UUID of the new version.")
    name: str = required("Name of the policy.")
    version: int = required("Number of the new version, from 1.", 0)
    pools: tuple[str, ...] | None = Field(default=None, description="Pools it was entered into, on older servers.")
    submit_error: str | None = Field(default=None, description="Why it could not be entered, on older servers.")

    @computed_field
    @property
    def label(self) -> str:
        """A label for display: `name:v3`."""
        return label_of(self.name, self.version)


EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=200)]
EnvValue = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$", max_length=32_768)]
PolicyName = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f:/\\]+$", min_length=1, max_length=100)]
"""No colon, which separates name and version; no slash, because the name becomes part of other names and paths."""


class PolicySecretEnvBody(Body):
    """Environment variables that only the policy version's own player receives."""

    policy_secret_env: dict[EnvName, EnvValue] = Field(
        min_length=1, max_length=100, description="Values by name.", repr=False
    )


class PolicyVersionBody(Body):
    """Create the next version of a policy."""

    name: PolicyName = Field(description="Name of the policy; an existing one gets its next version.")
    container_image_id: Text = Field(description="The image it runs from, `img_<uuid>`.")
    run: tuple[EnvValue, ...] | None = Field(
        default=None, max_length=100, description="Command to run instead of the image's own."
    )
    policy_secret_env_id: Text | None = Field(default=None, description="Its secret environment variables.")
    tags: LabelTags | None = Field(default=None, description="Labels.")


MOST_PLAYER_BYTES = 4 << 20
"""Maximum total size in bytes of a player's own files on a platform."""


def _file_name(name: str) -> str:
    """Check that a path stays below its directory, however it is interpreted."""
    parts = name.split("/")
    if not all(part not in ("", ".", "..") and len(part.encode("utf-8", "replace")) <= 200 for part in parts):
        raise ValueError("not a path below a directory")
    return name


FileName = Annotated[
    str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f\\]+$", max_length=1000), AfterValidator(_file_name)
]


class PlayerFiles(Body):
    """A player that is a file or a directory and runs in the game's own player image."""

    file: FileName = Field(description="Name of its file or directory.")
    files: dict[FileName, Base64Bytes] = Field(
        min_length=1,
        max_length=1000,
        description="Contents of its files in Base64, by path relative to its directory.",
        repr=False,
    )
    command: tuple[EnvValue, ...] = Field(
        min_length=1, max_length=100, description="Command to run it; `{}` stands for the directory with its files."
    )
    runnable: tuple[FileName, ...] = Field(default=(), max_length=1000, description="Its files that are executable.")
    needs_client: bool = Field(default=False, description="Whether it is played through `coworld_client.seat`.")
    needs: str = Field(
        default="", max_length=100, description="os/architecture of its machine code, if it contains any."
    )

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if sum(map(len, self.files.values())) > MOST_PLAYER_BYTES:
            raise ValueError(f"the files are larger than {MOST_PLAYER_BYTES >> 20} MiB; build an image from them")
        for name in self.files:
            if any(parent.as_posix() in self.files for parent in PurePosixPath(name).parents):
                raise ValueError(f"{name} is below another file")
        return self

    def write(self, directory: Path) -> Path:
        """Write the files into a directory, where none of them exists yet.

        Returns:
            The player's file or directory.

        Raises:
            UsageError: One of them exists (`file_exists`).
            OSError: One cannot be written.
        """
        target = directory / PurePosixPath(self.file).name
        place = directory if self.file in self.files else target
        write_new_files(place, self.files, executable=self.runnable)
        return target

    @classmethod
    def of_bytes(cls, files: Mapping[str, bytes], **values: Any) -> PlayerFiles:
        """Build a body from the contents of files.

        Raises:
            UsageError: Code `bad_body` if no platform would accept them.
        """
        return cls.of(files={name: base64.b64encode(content) for name, content in files.items()}, **values)


class PolicyFilesBody(Body):
    """Create the next version of a policy from a player's own files."""

    name: PolicyName = Field(description="Name of the policy; an existing one gets its next version.")
    player: PlayerFiles = Field(description="The player's files.")
    policy_secret_env_id: Text | None = Field(default=None, description="Its secret environment variables.")
    tags: LabelTags | None = Field(default=None, description="Labels.")


class SelectionAccessBody(Body):
    """Set who may select a policy for their own episodes."""

    selection_scope: Literal["any_request", "owner_visible"] = Field(description="Anyone, or only its owner.")


class PolicySecretEnvCreated(Wire):
    """The id of stored secret environment variables, never their values."""

    id: str = required("Id to give when uploading the policy version.")


class SelectionAccess(Wire):
    """Who may select a policy for their own episodes."""

    selection_scope: str = required("`any_request` or `owner_visible`.")


def label_of(name: str, version: int) -> str:
    """`name:v3`, or only the name if the version is not known."""
    return f"{name}:v{version}" if version else name


_VERSION = re.compile(r"v?([0-9]{1,9})")


@dataclass(frozen=True, kw_only=True)
class PolicyRef:
    """A reference to a policy or to one of its versions."""

    name: str | None = None
    """Name of the policy; None if the version is given by its id."""
    version: int | None = None
    """Number of the version; None for any or the newest."""
    id: str | None = None
    """UUID of the version."""

    @classmethod
    def parse(cls, text: str, *, kind: Literal["any", "name"] = "any") -> PolicyRef:
        """Parse `NAME`, `NAME:3`, `NAME:v3` or the UUID of a policy version. The last colon is the separator.

        Args:
            text: The reference.
            kind: `name` to refuse a UUID.

        Raises:
            UsageError: Code `bad_policy`; the message says what is wrong with it.
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
            raise _refused(text, f"has {tail!r} after its colon, which is not a version" if tail else "ends in a colon")
        if int(number[1]) < 1:
            raise _refused(text, "has version 0; versions begin with 1")
        return cls(name=name, version=int(number[1]))

    def matches(self, version: Any) -> bool:
        """Whether the reference includes a policy version.

        Args:
            version: A `PolicyVersion`, `PolicyVersionRow`, or a participant of an episode.
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
