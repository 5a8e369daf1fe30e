"""Coworlds, images and secrets as a platform keeps them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ._values import ImageStatus
from ._wire import Body, Text, Time, Wire, newer, required

__all__ = [
    "CertificationFailure",
    "CertificationState",
    "Coworld",
    "CoworldSummary",
    "CoworldUploadBody",
    "CoworldVisibility",
    "Image",
    "ImageCompleteBody",
    "ImageUpload",
    "ImageUploadBody",
    "PatchCommissionerBody",
    "PushGrant",
    "Secret",
    "Visibility",
    "VisibilityBody",
]


class Coworld(Wire):
    """A version of a Coworld on a platform."""

    id: str = required("``cow_<uuid>``, one for each name and version.")
    name: str = required("Name, from the manifest.")
    version: str = required("Version, from the manifest.")
    manifest: dict[str, Any] = required("The manifest; its images are ones that can be pulled.", {})
    manifest_hash: str = required("What the manifest is known by.")
    size_bytes: int = required("Size of the manifest.", 0)
    canonical: bool = Field(default=False, description="Whether the name alone means this version.")
    created_at: Time | None = newer("When it was uploaded.")
    visibility: str | None = newer("public or private.")
    forum_markdown_url: str | None = newer("Where it is talked about.")
    wiki_markdown_url: str | None = newer("What is known about it.")
    documentation_url: str | None = newer("Its documentation.")
    certification_status_url: str | None = newer("Where its certification stands.")
    certification_transcript_url: str | None = newer("What its certification did.")


class CoworldSummary(Wire):
    """A version of a Coworld in short, on newer servers."""

    id: str = required("``cow_<uuid>``.")
    name: str = required("Name, from the manifest.")
    version: str = required("Version, from the manifest.")
    manifest_summary: dict[str, Any] = Field(
        default_factory=dict, description="description, owner, variants and role_counts of the manifest."
    )
    manifest_hash: str | None = Field(default=None, description="What the manifest is known by.")
    size_bytes: int | None = Field(default=None, description="Size of the manifest.")
    canonical: bool = Field(default=False, description="Whether the name alone means this version.")
    created_at: Time | None = Field(default=None, description="When it was uploaded.")
    visibility: str | None = newer("public or private.")


Visibility = Literal["public", "private"]
"""Whether everybody may see a Coworld, or its owner alone."""


class CoworldUploadBody(Body):
    """Upload a manifest whose images have been uploaded."""

    manifest: dict[str, Any] = Field(description="The manifest, images as ``img_`` ids or pinned by digest.")
    visibility: Visibility | None = Field(default=None, description="Who may see it; the platform's default if absent.")
    certification: dict[str, Any] | None = Field(
        default=None, description="What the uploader says about its certification; kept, and shown."
    )


class PatchCommissionerBody(Body):
    """Make a version of a Coworld with another commissioner."""

    coworld_name: Text = Field(min_length=1, description="Which Coworld.")
    container_image_id: Text = Field(description="The commissioner's new image, ``img_<uuid>``.")
    runnable_id: Text | None = Field(default=None, description="Which commissioner, when there are several.")
    version: Text | None = Field(default=None, description="The new version; the next one by default.")


class VisibilityBody(Body):
    """Say who may see a Coworld from now on."""

    visibility: Visibility = Field(description="public or private.")


class CoworldVisibility(Wire):
    """Who may see a Coworld, and what of it stays private when the rest is public."""

    name: str = required("Its name.")
    visibility: str = required("public or private.")
    changed: bool = Field(default=False, description="Whether it was otherwise before.")
    versions: tuple[dict[str, Any], ...] = Field(default=(), description="Its versions: id, version and canonical.")
    private_league_ids: tuple[str, ...] = Field(default=(), description="Its leagues that not everybody sees.")
    private_seed_ids: tuple[str, ...] = Field(default=(), description="The standing orders of those leagues.")


class ImageUploadBody(Body):
    """Ask for leave to push an image."""

    name: Text = Field(min_length=1, description="Last part of its reference, without tag and digest.")
    client_hash: Text = Field(min_length=1, description="What its uploader knows its content by.")


class ImageCompleteBody(Body):
    """Say that an image has been pushed."""

    id: Text = Field(description="``img_<uuid>``.")


class CertificationFailure(Wire):
    """Why a platform's certification failed."""

    kind: str | None = Field(default=None, description="What kind of failure.")
    detail: str | None = Field(default=None, description="What happened.")
    remediation: str | None = Field(default=None, description="What to do.")
    retryable: bool | None = Field(default=None, description="Whether trying again may help.")
    documentation_url: str | None = Field(default=None, description="Where it is explained.")


class CertificationState(Wire):
    """Where a platform's certification of a Coworld stands."""

    coworld_id: str = required("``cow_<uuid>``.")
    state: str = required("never_run, queued, certifying, certified or failed.")
    certified: bool = Field(default=False, description="Whether it has passed.")
    contract_version: str | None = Field(default=None, description="By which rules.")
    certification_job_id: str | None = Field(default=None, description="UUID of the job.")
    failed_step: str | None = Field(default=None, description="Where it failed.")
    failure: CertificationFailure | None = Field(default=None, description="Why it failed.")
    transcript_summary: tuple[dict[str, Any], ...] = Field(default=(), description="Steps: id and status.")
    completed_at: Time | None = Field(default=None, description="When it ended.")


class Image(Wire):
    """An uploaded container image."""

    id: str = required("``img_<uuid>``.")
    name: str = required("Name, the last part of the reference it was uploaded from.")
    version: int = required("Number among the images of that name, from 1.", 0)
    client_hash: str | None = Field(default=None, description="What the uploader knows its content by.")
    status: ImageStatus = required("pending, then ready.", ImageStatus(""))
    image_uri: str | None = Field(default=None, description="Where the platform keeps it.")
    image_digest: str | None = Field(default=None, description="Digest of its manifest.")
    public_image_uri: str | None = Field(default=None, description="Where anyone can pull it.")


class PushGrant(Wire):
    """Leave to push to a registry for a while."""

    kind: str = required("Kind of registry: ecr.")
    region: str | None = Field(default=None, description="Where it is.")
    registry: str = required("Host, and port if any, of the registry.")
    repository: str = required("Path of the repository.")
    tag: str = required("Tag to push.")
    image_uri: str = required("What it will be pulled as.")
    endpoint_url: str | None = Field(default=None, description="Its address when that is not https://registry.")
    authorization_token: str = Field(
        default="",
        description="``user:password`` in base64, as for HTTP Basic.",
        repr=False,
        json_schema_extra={"x-required": True},
    )
    expires_at: Time | None = Field(default=None, description="Until when it is good.")


class ImageUpload(Wire):
    """Where to push an image to; without a grant, it is there already."""

    image: Image = Field(default_factory=Image.blank, description="The image.", json_schema_extra={"x-required": True})
    pre_signed_info: PushGrant | None = Field(default=None, description="Leave to push; null when it is there.")


class Secret(Wire):
    """A secret of a Coworld: that it is there, never what it is."""

    coworld_id: str | None = Field(default=None, description="``cow_<uuid>``.")
    coworld_name: str = required("Which Coworld.")
    owner_user_id: str | None = Field(default=None, description="Who keeps it.")
    secret_name: str = required("Its name.")
    size_bytes: int = required("How long it is.", 0)
    updated_at: Time | None = Field(default=None, description="When it was last written.")
