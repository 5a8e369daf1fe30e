"""Coworlds, images and secrets on a platform."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ._open_enums import ImageStatus
from ._wire_models import Body, Text, Time, Wire, newer, required
from .tags import Tags

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

    id: str = required("`cow_<uuid>`, one for each name and version.")
    name: str = required("Name, from the manifest.")
    version: str = required("Version, from the manifest.")
    manifest: dict[str, Any] = required("The manifest; its images can be pulled.", {})
    manifest_hash: str = required("Hash of the manifest.")
    size_bytes: int = required("Size of the manifest.", 0)
    canonical: bool = Field(default=False, description="Whether the name alone means this version.")
    created_at: Time | None = newer("When it was uploaded.")
    visibility: str | None = newer("public or private.")
    tags: dict[str, str] | None = newer("Its labels, on platforms that keep any.")
    forum_markdown_url: str | None = newer("URL of its forum.")
    wiki_markdown_url: str | None = newer("URL of its wiki.")
    documentation_url: str | None = newer("URL of its documentation.")
    certification_status_url: str | None = newer("URL of its certification status.")
    certification_transcript_url: str | None = newer("URL of its certification transcript.")
    package_url: str | None = newer("URL of its files as a zip, if it has no images to pull.")
    package_directory: str | None = newer("Where these files are, told to callers on the same machine.")


class CoworldSummary(Wire):
    """Summary of a version of a Coworld, on newer servers."""

    id: str = required("`cow_<uuid>`.")
    name: str = required("Name, from the manifest.")
    version: str = required("Version, from the manifest.")
    manifest_summary: dict[str, Any] = Field(
        default_factory=dict, description="description, owner, variants and role_counts of the manifest."
    )
    manifest_hash: str | None = Field(default=None, description="Hash of the manifest.")
    size_bytes: int | None = Field(default=None, description="Size of the manifest.")
    canonical: bool = Field(default=False, description="Whether the name alone means this version.")
    created_at: Time | None = Field(default=None, description="When it was uploaded.")
    visibility: str | None = newer("public or private.")
    tags: dict[str, str] | None = newer("Its labels, on platforms that keep any.")


Visibility = Literal["public", "private"]
"""Whether everyone may see a Coworld, or only its owner."""


class CoworldUploadBody(Body):
    """Upload a manifest whose images have been uploaded."""

    manifest: dict[str, Any] = Field(description="The manifest, images as `img_` ids or pinned by digest.")
    visibility: Visibility | None = Field(default=None, description="Who may see it; the platform's default if absent.")
    certification: dict[str, Any] | None = Field(
        default=None, description="What the uploader says about its certification; stored and shown."
    )
    tags: Tags | None = Field(default=None, description="Labels.")


class PatchCommissionerBody(Body):
    """Create a version of a Coworld with a different commissioner."""

    coworld_name: Text = Field(min_length=1, description="Name of the Coworld.")
    container_image_id: Text = Field(description="The commissioner's new image, `img_<uuid>`.")
    runnable_id: Text | None = Field(default=None, description="Id of the commissioner, if there are several.")
    version: Text | None = Field(default=None, description="The new version; the next one by default.")


class VisibilityBody(Body):
    """Change who may see a Coworld."""

    visibility: Visibility = Field(description="public or private.")


class CoworldVisibility(Wire):
    """Who may see a Coworld, and which parts stay private even if it is public."""

    name: str = required("Its name.")
    visibility: str = required("public or private.")
    changed: bool = Field(default=False, description="Whether this request changed it.")
    versions: tuple[dict[str, Any], ...] = Field(default=(), description="Its versions: id, version and canonical.")
    private_league_ids: tuple[str, ...] = Field(default=(), description="Its private leagues.")
    private_seed_ids: tuple[str, ...] = Field(default=(), description="The seeds of those leagues.")


class ImageUploadBody(Body):
    """Request permission to push an image."""

    name: Text = Field(min_length=1, description="Last part of its reference, without tag and digest.")
    client_hash: Text = Field(min_length=1, description="Hash by which the uploader identifies its content.")


class ImageCompleteBody(Body):
    """Report that an image has been pushed."""

    id: Text = Field(description="`img_<uuid>`.")


class CertificationFailure(Wire):
    """Why a platform's certification failed."""

    kind: str | None = Field(default=None, description="Kind of failure.")
    detail: str | None = Field(default=None, description="What happened.")
    remediation: str | None = Field(default=None, description="What to do.")
    retryable: bool | None = Field(default=None, description="Whether trying again may help.")
    documentation_url: str | None = Field(default=None, description="URL of an explanation.")


class CertificationState(Wire):
    """Status of a platform's certification of a Coworld."""

    coworld_id: str = required("`cow_<uuid>`.")
    state: str = required("never_run, queued, certifying, certified or failed.")
    certified: bool = Field(default=False, description="Whether it has passed.")
    contract_version: str | None = Field(default=None, description="Version of the rules it was certified by.")
    certification_job_id: str | None = Field(default=None, description="UUID of the job.")
    failed_step: str | None = Field(default=None, description="The step that failed.")
    failure: CertificationFailure | None = Field(default=None, description="Why it failed.")
    transcript_summary: tuple[dict[str, Any], ...] = Field(default=(), description="Steps: id and status.")
    completed_at: Time | None = Field(default=None, description="When it ended.")


class Image(Wire):
    """An uploaded container image."""

    id: str = required("`img_<uuid>`.")
    name: str = required("Name, the last part of the reference it was uploaded from.")
    version: int = required("Number among the images of that name, from 1.", 0)
    client_hash: str | None = Field(default=None, description="Hash by which the uploader identifies its content.")
    status: ImageStatus = required("pending, then ready.", ImageStatus(""))
    image_uri: str | None = Field(default=None, description="Reference of the platform's own copy.")
    image_digest: str | None = Field(default=None, description="Digest of its manifest.")
    public_image_uri: str | None = Field(default=None, description="Reference that anyone can pull.")


class PushGrant(Wire):
    """Temporary permission to push to a registry."""

    kind: str = required("Kind of registry: ecr.")
    region: str | None = Field(default=None, description="Region of the registry.")
    registry: str = required("Host, and port if any, of the registry.")
    repository: str = required("Path of the repository.")
    tag: str = required("Tag to push.")
    image_uri: str = required("Reference to pull it by.")
    endpoint_url: str | None = Field(default=None, description="Its address, if that is not https://registry.")
    authorization_token: str = Field(
        default="",
        description="`user:password` in base64, as for HTTP Basic.",
        repr=False,
        json_schema_extra={"x-required": True},
    )
    expires_at: Time | None = Field(default=None, description="When the permission expires.")


class ImageUpload(Wire):
    """Where to push an image; there is no grant if the platform already has it."""

    image: Image = Field(default_factory=Image.blank, description="The image.", json_schema_extra={"x-required": True})
    pre_signed_info: PushGrant | None = Field(
        default=None, description="Permission to push; null if the image is already there."
    )


class Secret(Wire):
    """A secret of a Coworld, without its value."""

    coworld_id: str | None = Field(default=None, description="`cow_<uuid>`.")
    coworld_name: str = required("Name of the Coworld.")
    owner_user_id: str | None = Field(default=None, description="The user who set it.")
    owner_name: str | None = newer("That user's name.")
    secret_name: str = required("Its name.")
    size_bytes: int = required("Size of its value.", 0)
    updated_at: Time | None = Field(default=None, description="When it was last written.")
