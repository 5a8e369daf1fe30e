"""The catalogue of Coworlds: uploads, versions, canonical versions, and the hosted check."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, cast

import anyio.to_thread
import sqlalchemy as sa
from fastapi import Query, Response
from packaging.version import Version
from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core import api
from coworld_core.errors import ImageError, ManifestError
from coworld_core.images import ImageRef
from coworld_core.loopback import is_loopback
from coworld_core.manifest import Manifest, dump_manifest, load_manifest, manifest_sha256
from coworld_core.role_kinds import ROLE_SECTIONS
from coworld_core.versions import next_version

from ..errors import Refusal, conflict, forbidden, invalid, not_found
from ..identity.auth import Caller
from ..identity.limits import require_stored
from ..names import NameRefused, name_key, new_name, require_distinct
from ..store.audit import audit
from ..store.columns import JsonObject
from ..store.kept_labels import change_labels, labelled, labels_of
from ..store.models import Coworld, CoworldName, Game, Image, League, LeagueSeed, RegistryManifest, User
from ..work.smoke import check_state, order_check
from .images import find_image, image_at, public_uri
from .leagues import slug
from .package_zip import zip_package
from .pagination import LabelledQuery, paginate
from .routing import Anyone, ApiRouter, Call, Json, SignedIn, binary, refusals

__all__ = ["add_coworld", "find_coworld", "router"]

router = ApiRouter(tags=["Coworlds"])


class CoworldQuery(LabelledQuery):
    """Which Coworlds."""

    limit: int = Field(default=200, ge=1, le=1000, description="Maximum number of rows in the page.")
    name: api.Text | None = Field(default=None, description="Only versions of the Coworld with this name.")
    canonical: bool = Field(
        default=False, description="Only canonical versions, those that a name without a version refers to."
    )


@router.get("/v2/coworlds", response_model=list[api.Coworld])
async def list_coworlds(call: Anyone, query: Annotated[CoworldQuery, Query()]) -> Json:
    """All Coworlds with their manifests, newest first."""
    page = await paginate(call.db, _chosen(call, query), query, moment=Coworld.created_at, key=Coworld.id)
    shown = await _shown(call, page.rows)
    return page.bare(lambda row: shown[row.id])


@router.get("/v2/coworlds/summaries", response_model=list[api.CoworldSummary])
async def list_summaries(call: Anyone, query: Annotated[CoworldQuery, Query()]) -> Json:
    """All Coworlds in short, newest first."""
    page = await paginate(call.db, _chosen(call, query), query, moment=Coworld.created_at, key=Coworld.id)
    tags = await labels_of(call.db, [row.id for row in page.rows])
    return page.bare(lambda row: _summary_json(row, tags[row.id]))


@router.get("/v2/coworlds/{coworld_id}", response_model=api.Coworld)
async def get_coworld(call: Anyone, coworld_id: str) -> Json:
    """One Coworld, with its images as references for pulling."""
    coworld = await find_coworld(call.db, call.caller, coworld_id)
    package = await _package_of(call, coworld, await _images_of(call.db, [coworld]))
    address = f"{call.base_url}/observatory/v2/coworlds/{coworld.id}/package" if package is not None else None
    # Of use only to programs of the same machine, and nobody else's business
    here = package is not None and call.request.client is not None and is_loopback(call.request.client.host)
    place = str(package.directory.absolute()) if package is not None and here else None
    shown = (await _shown(call, [coworld]))[coworld.id]
    return Json({**shown, "package_url": address, "package_directory": place})


@router.get("/v2/coworlds/{coworld_id}/package", response_class=binary("application/zip"), responses=refusals(404, 409))
async def get_package(call: Anyone, coworld_id: str) -> Response:
    """The files of a Coworld without images: one that is played from a directory of the platform's operator."""
    coworld = await find_coworld(call.db, call.caller, coworld_id)
    images = await _images_of(call.db, [coworld])
    package = await _package_of(call, coworld, images)
    if package is None:
        raise conflict(f"{coworld.name} {coworld.version} is played from its images. Pull those.", code="has_images")
    manifest = cast("JsonObject", json.loads(json.dumps(coworld.manifest)))
    for entry in _image_entries(manifest):
        entry["image"] = package.names.get(entry["image"], entry["image"])
    content = await anyio.to_thread.run_sync(zip_package, package.directory, manifest)
    return Response(content, media_type="application/zip")


@router.post("/v2/coworlds/upload", response_model=api.Coworld, responses=refusals(409))
async def upload_coworld(call: SignedIn, body: api.CoworldUploadBody) -> Json:
    """Add a version of a Coworld; an identical upload is reported as existing."""
    manifest = await _checked(body.manifest)
    manifest = await _by_ids(call.db, call.services.settings.registry, manifest)
    coworld = await add_coworld(
        call.db, call.caller, manifest, visibility=body.visibility or "public", certification=body.certification
    )
    if body.tags:
        await change_labels(call.db, coworld.id, body.tags)
    await require_stored(call.db, call.caller.require(), call.services.settings.quotas)
    return Json((await _shown(call, [coworld]))[coworld.id])


@router.post("/v2/coworlds/patch-commissioner", response_model=api.Coworld, responses=refusals(409))
async def patch_commissioner(call: SignedIn, body: api.PatchCommissionerBody) -> Json:
    """Add a version of a Coworld with another image for its commissioner."""
    present = await call.db.scalar(
        sa.select(Coworld).where(Coworld.name_key == name_key(body.coworld_name), Coworld.canonical)
    )
    if present is None or not _visible_to(present, call.caller):
        raise not_found("Coworld", body.coworld_name)
    manifest = cast("JsonObject", json.loads(json.dumps(present.manifest)))
    entries: list[JsonObject] = manifest.get("commissioner") or []
    chosen = [entry for entry in entries if body.runnable_id in (None, entry.get("id"))]
    if len(chosen) != 1:
        said = "several commissioners: choose one with `runnable_id`" if len(chosen) > 1 else "no such commissioner"
        raise invalid(f"{present.name} has {said}.", at=("body", "runnable_id"))
    chosen[0]["image"] = body.container_image_id
    manifest["game"]["version"] = body.version or next_version(present.version)
    coworld = await add_coworld(call.db, call.caller, await _checked(manifest), visibility=present.visibility)
    await require_stored(call.db, call.caller.require(), call.services.settings.quotas)
    return Json((await _shown(call, [coworld]))[coworld.id])


@router.post("/v2/coworlds/{name}/visibility", response_model=api.CoworldVisibility)
async def set_visibility(call: SignedIn, name: str, body: api.VisibilityBody) -> Json:
    """Make all versions of a Coworld public, or visible only to its owner."""
    owner = await call.db.get(CoworldName, name_key(name))
    if owner is None:
        raise not_found("Coworld", name)
    if not call.caller.owns(owner.user_id):
        raise forbidden(f"{owner.name} belongs to another account.")
    rows = (await call.db.scalars(sa.select(Coworld).where(Coworld.name_key == owner.key))).all()
    changed = any(row.visibility != body.visibility for row in rows)
    for row in rows:
        row.visibility = body.visibility
    if changed:
        audit(call.db, "coworld.shown", user_id=owner.user_id, subject=owner.name, visibility=body.visibility)
    await call.db.flush()
    await _publish_images(call.db, rows)
    hidden = sa.select(League.id).join(Game).where(Game.name_key == owner.key, League.public.is_(False))
    seeds = sa.select(LeagueSeed.id).where(LeagueSeed.league_id.in_(hidden))
    return Json(
        {
            "name": owner.name,
            "visibility": body.visibility,
            "changed": changed,
            "versions": [
                {"id": row.id, "version": row.version, "canonical": row.canonical}
                for row in sorted(rows, key=lambda row: Version(row.version))
            ],
            "private_league_ids": (await call.db.scalars(hidden.order_by(League.id))).all(),
            "private_seed_ids": (await call.db.scalars(seeds.order_by(LeagueSeed.id))).all(),
        }
    )


@router.get("/v2/coworlds/{coworld_id}/certification", response_model=api.CertificationState)
async def get_certification(call: Anyone, coworld_id: str) -> Json:
    """The state of a Coworld's hosted check: an episode of its own players, played after the upload."""
    coworld = await find_coworld(call.db, call.caller, coworld_id)
    return Json(await check_state(call.db, coworld))


@router.post(
    "/v2/coworlds/{coworld_id}/certification/retry", response_model=api.CertificationState, responses=refusals(409)
)
async def retry_certification(call: SignedIn, coworld_id: str) -> Json:
    """Order the hosted check again."""
    coworld = await find_coworld(call.db, call.caller, coworld_id)
    if not call.caller.owns(coworld.user_id):
        raise forbidden(f"{coworld.name} belongs to another account.")
    state = await check_state(call.db, coworld)
    if state["state"] in ("queued", "certifying"):
        raise conflict("A certification of this Coworld is already in progress.", code="check_on_its_way")
    await order_check(call.db, coworld, call.caller.require().id)
    return Json(await check_state(call.db, coworld))


@router.get("/v2/coworlds/{name}/feed-posts/check")
async def check_feed(call: SignedIn, name: str) -> Json:
    """Rounds to report on, which newer clients request after a submission: none on this platform."""
    return Json({"human_name": call.caller.require().name, "rounds": [], "sensei_due": None})


async def find_coworld(session: AsyncSession, caller: Caller, coworld_id: str) -> Coworld:
    """Find a Coworld that the caller may see.

    Raises:
        Refusal: 404 if there is none.
    """
    coworld = await session.get(Coworld, coworld_id)
    if coworld is None or not _visible_to(coworld, caller):
        raise not_found("Coworld", coworld_id)
    return coworld


async def add_coworld(
    session: AsyncSession,
    caller: Caller,
    manifest: Manifest,
    *,
    visibility: str = "public",
    certification: JsonObject | None = None,
) -> Coworld:
    """Add a version of a Coworld, in the caller's name.

    Args:
        session: A writing session.
        caller: The uploader; the first to use a name owns it.
        manifest: The manifest, already checked.
        visibility: `public` or `private`.
        certification: The certification result given by the uploader.

    Raises:
        Refusal: 403 if another account owns the name, 409 if the version exists with other content, 422 for images that
            were not uploaded here.
        NameRefused: A new name cannot be used, or can be taken for one that another account owns.
    """
    user = caller.require()
    key, version = name_key(manifest.game.name), manifest.game.version
    owner = await session.get(CoworldName, key)
    if owner is not None and owner.user_id != user.id and not caller.elevated:
        raise forbidden(f"The name {owner.name!r} belongs to somebody else.", code="name_taken")
    images = await _checked_images(session, caller, manifest)
    text, digest = dump_manifest(manifest), manifest_sha256(manifest)
    there = await session.scalar(sa.select(Coworld).where(Coworld.name_key == key, Coworld.version == version))
    if there is not None:
        if there.manifest_hash == digest:
            return there
        raise conflict(
            f"{there.name} {version} already exists with different content. Choose another version.",
            code="version_taken",
        )
    if owner is None:
        await _check_new(session, user, manifest.game.name)
        session.add(CoworldName(key=key, name=manifest.game.name, user_id=user.id))
        await session.flush()
    coworld = Coworld(
        name_key=key,
        name=manifest.game.name,
        version=version,
        manifest=json.loads(text),
        manifest_hash=digest,
        size_bytes=len(text.encode()),
        user_id=user.id,
        visibility=visibility,
        certification=certification,
    )
    session.add(coworld)
    await session.flush()
    audit(session, "coworld.uploaded", user_id=user.id, subject=f"{coworld.name} {version}", visibility=visibility)
    if visibility == "public":
        for image in images:
            image.public = True
    await _choose_canonical(session, coworld, manifest)
    await order_check(session, coworld, user.id)
    return coworld


async def _check_new(session: AsyncSession, user: User, text: str) -> None:
    name = new_name(text)
    if name != text:
        # The manifest is kept as it was uploaded, so its name cannot be changed here
        raise NameRefused(f"The name {text!a} is not in its normal form.", hint=f"Write it as {name!r}.")
    others = await session.scalars(sa.select(CoworldName.name).where(CoworldName.user_id != user.id))
    require_distinct(name, others, "{!r}, a Coworld of somebody else")


async def _choose_canonical(session: AsyncSession, added: Coworld, manifest: Manifest) -> None:
    """Make the highest version the canonical one; among equal versions, the newest."""
    others = await session.execute(
        sa.select(Coworld.id, Coworld.version, Coworld.canonical).where(
            Coworld.name_key == added.name_key, Coworld.id != added.id
        )
    )
    if any(Version(other) > Version(added.version) for _, other, canonical in others if canonical):
        return
    await session.execute(
        sa.update(Coworld).where(Coworld.name_key == added.name_key, Coworld.id != added.id).values(canonical=False)
    )
    added.canonical = True
    game = await session.scalar(sa.select(Game).where(Game.name_key == added.name_key))
    if game is None:
        game = Game(name=added.name, slug=slug(added.name), name_key=added.name_key)
        session.add(game)
    game.coworld_id, game.description = added.id, manifest.game.description
    await session.flush()


async def _checked(document: JsonObject) -> Manifest:
    """Check a manifest by the strict rules.

    Raises:
        Refusal: 422 with all issues.
    """
    try:
        loaded = await anyio.to_thread.run_sync(lambda: load_manifest(document, mode="strict"))
    except ManifestError as error:
        issues: list[dict[str, object]] = [
            {
                "type": issue.code,
                "loc": ["body", "manifest", *issue.pointer.split("/")[1:]],
                "msg": issue.message,
                "hint": issue.hint,
            }
            for issue in error.report.errors
        ]
        raise Refusal(422, issues, code="manifest_invalid") from error
    return loaded.manifest


async def _by_ids(session: AsyncSession, registry: str, manifest: Manifest) -> Manifest:
    """The manifest with references to our own registry replaced by image ids."""
    ids: dict[str, str] = {}
    for text in manifest.images():
        if (image := await image_at(session, registry, text)) is not None:
            ids[text] = image.id
    if not ids:
        return manifest
    document = cast("JsonObject", json.loads(dump_manifest(manifest)))
    for entry in _image_entries(document):
        entry["image"] = ids.get(entry["image"], entry["image"])
    return await _checked(document)


async def _checked_images(session: AsyncSession, caller: Caller, manifest: Manifest) -> list[Image]:
    """The uploaded images of a manifest, after checking that the caller may use each of them.

    Any other reference is refused: an engine would look for it on its own machine, or at an address taken from the
    request.

    Raises:
        Refusal: 422 for an image that does not exist, is not complete, or was not uploaded here.
    """
    found: list[Image] = []
    for text in manifest.images():
        place = ("body", "manifest")
        try:
            reference = ImageRef.parse(text)
        except ImageError as error:
            raise invalid(error.message, at=place) from error
        if reference.kind == "unpublished":
            try:
                image = await find_image(session, caller, text)
            except Refusal as error:
                raise invalid(f"{error.message} Upload it first.", at=place, code="image_unknown") from error
            if image.status != "ready":
                detail = f"The upload of the image {image.name} ({text}) is not complete. Push it first."
                raise invalid(detail, at=place, code="image_pending")
            found.append(image)
        elif reference.kind in ("digest", "content"):
            detail = f"The image {text!r} is not on this platform. Upload it first."
            raise invalid(detail, at=place, code="foreign_image")
        else:
            raise invalid(
                f"The image {text!r} is not pinned to a digest, so it could change. Upload it first.",
                at=place,
                code="mutable_image",
            )
    return found


async def _publish_images(session: AsyncSession, changed: Sequence[Coworld]) -> None:
    """Make images of public Coworlds public, and images of private ones private."""
    public = (await session.scalars(sa.select(Coworld).where(Coworld.visibility == "public"))).all()
    named = {text for row in public for text in _image_fields(row.manifest)}
    for image in (await _images_of(session, changed)).values():
        image.public = image.id in named


def _chosen(call: Call, query: CoworldQuery) -> sa.Select[Coworld]:
    statement = sa.select(Coworld).where(labelled(Coworld.id, query.labels))
    if not call.caller.elevated:
        statement = statement.where(sa.or_(Coworld.visibility == "public", Coworld.user_id.in_(call.caller.accounts)))
    if query.name is not None:
        statement = statement.where(Coworld.name_key == name_key(query.name))
    return statement.where(Coworld.canonical) if query.canonical else statement


def _visible_to(coworld: Coworld, caller: Caller) -> bool:
    return coworld.visibility == "public" or caller.owns(coworld.user_id)


async def _images_of(session: AsyncSession, coworlds: Sequence[Coworld]) -> dict[str, Image]:
    wanted = {text for row in coworlds for text in _image_fields(row.manifest) if text.startswith("img_")}
    if not wanted:
        return {}
    return {image.id: image for image in await session.scalars(sa.select(Image).where(Image.id.in_(wanted)))}


@dataclass(frozen=True)
class _OwnPackage:
    directory: Path
    names: dict[str, str]
    """The images by their ids, as the package's compose file calls them."""


async def _package_of(call: Call, coworld: Coworld, images: dict[str, Image]) -> _OwnPackage | None:
    """The operator's package from which a Coworld is played, if none of its images was ever pushed."""
    executor = call.services.runtime.executor
    if executor is None or executor.admission.registry is not None or not images:
        return None
    origins = {image.id: executor.admission.packages.origin(image.name) for image in images.values()}
    repositories = [image.repository for image in images.values()]
    pushed = await call.db.scalar(
        sa.select(RegistryManifest.digest).where(RegistryManifest.repository.in_(repositories)).limit(1)
    )
    game = origins.get(coworld.manifest["game"]["runnable"]["image"])
    if game is None or pushed is not None:
        return None
    return _OwnPackage(game[0], {id: origin[1] for id, origin in origins.items() if origin is not None})


def _image_entries(manifest: JsonObject) -> list[JsonObject]:
    entries = [manifest["game"]["runnable"], *(entry for name in ROLE_SECTIONS for entry in manifest.get(name) or ())]
    # Reporters run by the platform, and players that are files, have no image.
    return [entry for entry in entries if entry.get("image") is not None]


def _image_fields(manifest: JsonObject) -> list[str]:
    return [str(entry["image"]) for entry in _image_entries(manifest)]


async def _shown(call: Call, coworlds: Sequence[Coworld]) -> dict[str, JsonObject]:
    """Coworlds for the API, by id, with uploaded images as references for pulling."""
    images, tags = await _images_of(call.db, coworlds), await labels_of(call.db, [row.id for row in coworlds])
    return {row.id: _json(row, images, call) | {"tags": tags[row.id]} for row in coworlds}


def _json(coworld: Coworld, images: dict[str, Image], call: Call) -> JsonObject:
    manifest = cast("JsonObject", json.loads(json.dumps(coworld.manifest)))
    for entry in _image_entries(manifest):
        if (image := images.get(entry["image"])) is not None:
            entry["image"] = public_uri(image, call.services.settings.registry)
    here = f"{call.base_url}/observatory/v2/coworlds/{coworld.id}"
    return {
        "id": coworld.id,
        "name": coworld.name,
        "version": coworld.version,
        "manifest": manifest,
        "manifest_hash": coworld.manifest_hash,
        "size_bytes": coworld.size_bytes,
        "canonical": coworld.canonical,
        "created_at": coworld.created_at,
        "visibility": coworld.visibility,
        "certification": coworld.certification,
        # One document holds the uploader's result, another one the state of the check.
        **dict.fromkeys(("documentation_url", "forum_markdown_url", "wiki_markdown_url"), f"{here}/documentation"),
        **dict.fromkeys(("certification_status_url", "certification_transcript_url"), f"{here}/certification"),
    }


def _summary_json(coworld: Coworld, tags: dict[str, str]) -> JsonObject:
    manifest = coworld.manifest
    return {
        "id": coworld.id,
        "name": coworld.name,
        "version": coworld.version,
        "manifest_summary": {
            "description": manifest["game"].get("description") or "",
            "owner": manifest["game"].get("owner") or "",
            "variants": [
                {"id": row["id"], "name": row.get("name") or row["id"]} for row in manifest.get("variants") or ()
            ],
            "role_counts": {name: len(manifest.get(name) or ()) for name in ROLE_SECTIONS},
        },
        "manifest_hash": coworld.manifest_hash,
        "size_bytes": coworld.size_bytes,
        "canonical": coworld.canonical,
        "created_at": coworld.created_at,
        "visibility": coworld.visibility,
        "tags": tags,
    }
