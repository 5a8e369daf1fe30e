"""The image registry: the OCI distribution protocol at `/v2/`, for container engines and our own client.

A push needs the token of an upload (HTTP Basic, or a Bearer token from `/v2/token`), which is valid for one
repository. A pull needs a token of the owner, or none for images of public Coworlds.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

import anyio
import sqlalchemy as sa
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy.ext.asyncio import AsyncSession

from ..episodes.downloads import send_stored
from ..errors import Refusal
from ..identity.auth import Caller, basic_password
from ..identity.limits import QUOTA_CODES, quotas_of, require_stored, room_of, too_much_stored
from ..identity.worker_login import is_worker
from ..quotas import Quotas
from ..services import Services
from ..store.artifacts import StoredObject
from ..store.blobs import DigestMismatch, NoRoom, TooLarge, Upload, is_digest
from ..store.columns import now
from ..store.models import Image, RegistryBlob, RegistryManifest, RegistryTag, Token, User

__all__ = ["router"]

MAX_MANIFEST = 4 * 1024 * 1024
"""Longest image manifest, in bytes."""

MAX_LAYERS = 127
"""Most layers of an image, or images of an index; engines cannot mount more layers."""

Action = Literal["pull", "push"]

_NAME = re.compile(r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*)*", re.ASCII)
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", re.ASCII)
_RANGE = re.compile(r"(?:bytes[ =])?(\d{1,15})-(\d{1,15})", re.ASCII)
_NOBODY = "anonymous"


class _Refused(Exception):
    """A refusal in the protocol's own form."""

    def __init__(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.response = JSONResponse(
            {"errors": [{"code": code, "message": message}]}, status_code=status, headers=headers
        )


@dataclass(frozen=True)
class _Bearer:
    """The caller of the registry, with its token."""

    caller: Caller
    token: Token | None = None
    worker: bool = False
    """Whether the caller is one of our own workers."""

    @property
    def known(self) -> bool:
        """Whether the caller is authenticated."""
        return self.worker or self.token is not None

    def allows(self, action: Action, repository: str) -> bool:
        """Whether the token itself allows an action; only a registry token does."""
        if self.worker:
            return action == "pull"
        return (
            self.token is not None
            and self.token.kind == "registry"
            and action in (self.token.actions or "").split(",")
            and self.token.repository in (None, repository)
        )


@dataclass(frozen=True)
class _Visit:
    """An admitted request."""

    request: Request
    services: Services
    repository: str
    bearer: _Bearer

    @property
    def ref(self) -> str:
        return str(self.request.path_params["ref"])


_Handler = Callable[[_Visit], Awaitable[Response]]


async def _ping(request: Request) -> Response:
    """Tell an engine how to sign in."""
    services = _services(request)
    async with services.database.reading() as session:
        bearer = await _bearer(request, services, session)
    if bearer is None or (not bearer.known and "authorization" not in request.headers):
        return _unauthorized(services, None, "Authentication is required.").response
    return JSONResponse({}, headers=_VERSION)


async def _token(request: Request) -> Response:
    """A Bearer token for a user name and a token, or for anonymous pulls."""
    services = _services(request)
    text = basic_password(request.headers.get("authorization", ""))
    if text is not None and not is_worker(services.vault, text):
        async with services.database.reading() as session:
            found = await services.tokens.find(session, text)
        if found is None or found[0].kind == "web":
            return _unauthorized(services, None, "The token is invalid or expired.").response
    value = text or _NOBODY
    return JSONResponse({"token": value, "access_token": value, "expires_in": 3600}, headers=_VERSION)


async def _start(visit: _Visit) -> Response:
    query = visit.request.query_params
    blobs = visit.services.blobs
    if (digest := query.get("mount")) is not None and await _mounted(visit, digest, query.get("from", "")):
        return _created(visit.repository, digest)
    try:
        upload = await blobs.start(visit.repository)
    except NoRoom:
        said = "You are uploading more layers at once than the registry takes. Try again in a moment."
        raise _Refused(429, "TOOMANYREQUESTS", said, {**_VERSION, "Retry-After": "10"}) from None
    if (digest := query.get("digest")) is not None:
        return await _completed(visit, upload, digest)
    return _continue(202, upload)


async def _progress(visit: _Visit) -> Response:
    return _continue(204, _upload(visit))


async def _chunk(visit: _Visit) -> Response:
    upload = _upload(visit)
    async with upload.lock:
        _check_range(visit.request, upload)
        await _append(visit, upload)
    return _continue(202, upload)


async def _finish(visit: _Visit) -> Response:
    return await _completed(visit, _upload(visit), visit.request.query_params.get("digest", ""))


async def _abandon(visit: _Visit) -> Response:
    upload = _upload(visit)
    async with upload.lock:
        await visit.services.blobs.cancel(upload)
    return Response(status_code=204, headers=_VERSION)


async def _completed(visit: _Visit, upload: Upload, digest: str) -> Response:
    if not is_digest(digest):
        raise _Refused(400, "DIGEST_INVALID", f"{digest[:80]!r} is not a sha256 digest.")
    async with upload.lock:
        _check_range(visit.request, upload)
        await _append(visit, upload)
        most = _quotas(visit).image
        try:
            size = await visit.services.blobs.finish(upload, digest, most=most)
        except TooLarge:
            raise _too_large(most or 0) from None
        except DigestMismatch as error:
            raise _Refused(
                400, "DIGEST_INVALID", f"The content does not match the digest {digest}: {error}."
            ) from error
        except FileNotFoundError as error:
            raise _unknown_upload() from error
    await _own_blob(visit, digest, size)
    return _created(visit.repository, digest)


async def _blob(visit: _Visit) -> Response:
    if not is_digest(visit.ref):
        raise _Refused(400, "DIGEST_INVALID", f"{visit.ref[:80]!r} is not a sha256 digest.")
    async with visit.services.database.reading() as session:
        owned = await session.get(RegistryBlob, (visit.repository, visit.ref))
        if owned is not None:
            await _may_pull(visit, session)
    size = await visit.services.blobs.size(visit.ref) if owned is not None else None
    if size is None:
        raise _Refused(404, "BLOB_UNKNOWN", f"There is no blob {visit.ref} in {visit.repository}.")
    headers = {
        **_VERSION,
        "Docker-Content-Digest": visit.ref,
        "Cache-Control": "private, max-age=31536000, immutable",
    }
    blob = StoredObject(visit.services.blobs.key(visit.ref), size, visit.ref)
    return send_stored(
        visit.services.artifacts, visit.request, blob, headers=headers, media_type="application/octet-stream"
    )


async def _manifest(visit: _Visit) -> Response:
    async with visit.services.database.reading() as session:
        digest = visit.ref
        if not is_digest(digest):
            tag = await session.get(RegistryTag, (visit.repository, visit.ref))
            digest = tag.digest if tag else ""
        row = await session.get(RegistryManifest, (visit.repository, digest)) if digest else None
        if row is not None:
            await _may_pull(visit, session, reference=visit.ref)
    if row is None:
        await _refuse_strangers(visit)
        raise _Refused(404, "MANIFEST_UNKNOWN", f"There is no {visit.repository}:{visit.ref}.")
    headers = {**_VERSION, "Docker-Content-Digest": row.digest, "ETag": f'"{row.digest}"'}
    if visit.request.method == "HEAD":
        return Response(headers={**headers, "Content-Length": str(row.size)}, media_type=row.media_type)
    return Response(await visit.services.blobs.read(row.digest), headers=headers, media_type=row.media_type)


async def _put_manifest(visit: _Visit) -> Response:
    content = await _small_body(visit.request)
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    by_digest = is_digest(visit.ref)
    if not by_digest and not _TAG.fullmatch(visit.ref):
        raise _Refused(400, "TAG_INVALID", f"{visit.ref[:140]!r} is not a valid tag.")
    if by_digest and visit.ref != digest:
        raise _Refused(400, "DIGEST_INVALID", f"The manifest's digest is {digest}, not {visit.ref}.")
    manifest = _parsed(content)
    media_type = visit.request.headers.get("content-type") or str(manifest.get("mediaType", ""))
    if not media_type or len(media_type) > 200 or not media_type.isprintable():
        raise _Refused(400, "MANIFEST_INVALID", "A manifest needs a Content-Type.")
    sizes = await _sizes(visit, manifest)
    async with visit.services.database.writing() as session:
        await _check_parts(session, visit, manifest, sizes)
        if not by_digest:
            await _check_tag(session, visit.repository, visit.ref, digest)
        if await session.get(RegistryManifest, (visit.repository, digest)) is None:
            session.add(
                RegistryManifest(repository=visit.repository, digest=digest, media_type=media_type, size=len(content))
            )
            await session.flush()
            if visit.bearer.caller.user is not None:
                await require_stored(session, visit.bearer.caller.user, visit.services.settings.quotas)
            await visit.services.blobs.put(content)
        if not by_digest:
            tag = RegistryTag(repository=visit.repository, tag=visit.ref, digest=digest, updated_at=now())
            await session.merge(tag)
    headers = {
        **_VERSION,
        "Location": f"/v2/{visit.repository}/manifests/{digest}",
        "Docker-Content-Digest": digest,
    }
    return Response(status_code=201, headers=headers)


async def _tags(visit: _Visit) -> Response:
    async with visit.services.database.reading() as session:
        tags = await session.scalars(
            sa.select(RegistryTag.tag).where(RegistryTag.repository == visit.repository).order_by(RegistryTag.tag)
        )
        await _may_pull(visit, session, reference="")
        return JSONResponse({"name": visit.repository, "tags": list(tags)}, headers=_VERSION)


def _visited(action: Action, handler: _Handler) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        services = _services(request)
        repository = str(request.path_params["name"])
        bearer = None
        try:
            if len(repository) > 200 or not _NAME.fullmatch(repository):
                raise _Refused(404, "NAME_INVALID", "There is no repository with this name.")
            if "\0" in str(request.path_params.get("ref", "")):
                raise _Refused(404, "NAME_UNKNOWN", "There is nothing with this name.")
            async with services.database.reading() as session:
                bearer = await _bearer(request, services, session)
            if bearer is None:
                raise _unauthorized(services, f"repository:{repository}:{action}", "The token is invalid.")
            visit = _Visit(request, services, repository, bearer)
            if action == "push" and not bearer.allows("push", repository):
                raise _denied(visit, "push", "Pushing requires the token of an upload.")
            return await handler(visit)
        except _Refused as refused:
            return refused.response
        except Refusal as refusal:
            user = bearer.caller.user if bearer is not None else None
            if user is not None and refusal.code in QUOTA_CODES:
                await services.refused.write(services.database, user.id, refusal.code, refusal.message)
            return _Refused(refusal.status, "DENIED", refusal.message, refusal.headers).response

    return endpoint


router = APIRouter(prefix="/v2", include_in_schema=False)
router.add_api_route("/", _ping, methods=["GET", "HEAD"])
router.add_api_route("/token", _token, methods=["GET", "HEAD"])
_ROUTES: tuple[tuple[str, list[str], Action, _Handler], ...] = (
    ("/{name:path}/tags/list", ["GET", "HEAD"], "pull", _tags),
    ("/{name:path}/blobs/uploads/{ref}", ["GET", "HEAD"], "push", _progress),
    ("/{name:path}/blobs/uploads/{ref}", ["PATCH"], "push", _chunk),
    ("/{name:path}/blobs/uploads/{ref}", ["PUT"], "push", _finish),
    ("/{name:path}/blobs/uploads/{ref}", ["DELETE"], "push", _abandon),
    ("/{name:path}/blobs/uploads/", ["POST"], "push", _start),
    ("/{name:path}/blobs/{ref}", ["GET", "HEAD"], "pull", _blob),
    ("/{name:path}/manifests/{ref}", ["GET", "HEAD"], "pull", _manifest),
    ("/{name:path}/manifests/{ref}", ["PUT"], "push", _put_manifest),
)
for _path, _methods, _action, _handler in _ROUTES:
    router.add_api_route(_path, _visited(_action, _handler), methods=_methods)

_VERSION = {"Docker-Distribution-Api-Version": "registry/2.0"}


def _services(request: Request) -> Services:
    return cast("Services", request.app.state.services)


async def _bearer(request: Request, services: Services, session: AsyncSession) -> _Bearer | None:
    """Identify the caller; None for an invalid token."""
    authorization = request.headers.get("authorization", "")
    scheme, _, rest = authorization.partition(" ")
    text = rest.strip() if scheme.lower() == "bearer" else basic_password(authorization)
    if not authorization or text == _NOBODY:
        return _Bearer(Caller("anonymous"))
    if text and is_worker(services.vault, text):
        return _Bearer(Caller("anonymous"), worker=True)
    found = await services.tokens.find(session, text) if text else None
    if found is None or found[0].kind == "web":
        return None
    token, user, player = found
    return _Bearer(Caller("player" if player else "user", user=user, player=player, token_id=token.id), token)


async def _may_pull(visit: _Visit, session: AsyncSession, *, reference: str | None = None) -> None:
    """Refuse callers that may not read; the owner, a token for the repository, and anyone for a public image may.

    A blob (no reference) is public if any image of its repository is: only a manifest that one has read names its
    digest.
    """
    if visit.bearer.allows("pull", visit.repository):
        return
    own_token = visit.bearer.token is not None and visit.bearer.token.kind in ("user", "player")
    images = await session.scalars(sa.select(Image).where(Image.repository == visit.repository))
    for image in images:
        if own_token and image.user_id == visit.bearer.caller.user_id:
            return
        named = reference is None or is_digest(reference) or reference == image.tag
        if image.public and named:
            return
    if reference == "":
        raise _denied(visit, "pull", "Only its owner may list the tags of a repository.")
    raise _denied(visit, "pull", f"You may not pull from {visit.repository}.")


async def _refuse_strangers(visit: _Visit) -> None:
    """Ask anonymous callers to sign in, before telling them that something does not exist."""
    if not visit.bearer.known:
        raise _denied(visit, "pull", "Authentication is required.")


def _denied(visit: _Visit, action: Action, message: str) -> _Refused:
    if not visit.bearer.known:
        return _unauthorized(visit.services, f"repository:{visit.repository}:{_asked(action)}", message)
    return _Refused(403, "DENIED", message)


def _asked(action: Action) -> str:
    return "pull,push" if action == "push" else "pull"


def _unauthorized(services: Services, scope: str | None, message: str) -> _Refused:
    challenge = f'Bearer realm="{services.settings.url}/v2/token",service="{services.settings.registry}"'
    challenge += f',scope="{scope}"' if scope else ""
    return _Refused(401, "UNAUTHORIZED", message, {**_VERSION, "WWW-Authenticate": challenge})


def _upload(visit: _Visit) -> Upload:
    upload = visit.services.blobs.find(visit.ref, visit.repository)
    if upload is None:
        raise _unknown_upload()
    return upload


def _unknown_upload() -> _Refused:
    return _Refused(404, "BLOB_UPLOAD_UNKNOWN", "There is no such upload. Start again.")


def _check_range(request: Request, upload: Upload) -> None:
    """Refuse a chunk whose declared position is not the end of the upload."""
    given = request.headers.get("content-range")
    if given is None:
        return
    match = _RANGE.fullmatch(given.partition("/")[0].strip())
    if match is None or int(match[1]) != upload.size:
        raise _Refused(
            416,
            "RANGE_INVALID",
            f"The range must start at byte {upload.size}.",
            {"Range": _range(upload), "Location": _at(upload)},
        )


def _continue(status: int, upload: Upload) -> Response:
    headers = {
        **_VERSION,
        "Location": _at(upload),
        "Range": _range(upload),
        "Docker-Upload-UUID": upload.id,
    }
    return Response(status_code=status, headers=headers)


def _range(upload: Upload) -> str:
    return f"0-{max(upload.size - 1, 0)}"


def _at(upload: Upload) -> str:
    return f"/v2/{upload.repository}/blobs/uploads/{upload.id}"


def _created(repository: str, digest: str) -> Response:
    headers = {**_VERSION, "Location": f"/v2/{repository}/blobs/{digest}", "Docker-Content-Digest": digest}
    return Response(status_code=201, headers=headers)


async def _own_blob(visit: _Visit, digest: str, size: int) -> None:
    async with visit.services.database.writing() as session:
        if await visit.services.blobs.size(digest) is None:
            # Removed as unused just before it was stored again
            raise _unknown_upload()
        await session.merge(RegistryBlob(repository=visit.repository, digest=digest, size=size))


async def _append(visit: _Visit, upload: Upload) -> None:
    """Append the request's body to an upload, within the owner's quota."""
    quotas = _quotas(visit)
    async with visit.services.database.reading() as session:
        room = await room_of(session, _owner(visit), visit.services.settings.quotas)
    try:
        await visit.services.blobs.append(upload, _stream(visit.request), room=room, most=quotas.image)
    except NoRoom:
        most = quotas.stored or 0
        raise too_much_stored(most + 1, most) from None
    except TooLarge:
        raise _too_large(quotas.image or 0) from None
    except FileNotFoundError:
        # It was discarded while this waited.
        raise _unknown_upload() from None


def _owner(visit: _Visit) -> User:
    user = visit.bearer.caller.user
    assert user is not None, "pushing requires the token of an upload"
    return user


def _quotas(visit: _Visit) -> Quotas:
    return quotas_of(_owner(visit), visit.services.settings.quotas)


def _too_large(most: int) -> _Refused:
    message = f"An image may have {most} bytes once it is unpacked, and this one has more. Make it smaller, or ask an "
    return _Refused(413, "SIZE_INVALID", f"{message}operator for a larger quota.")


async def _mounted(visit: _Visit, digest: str, source: str) -> bool:
    """Mount a blob of another repository into this one; returns whether that worked."""
    database = visit.services.database
    async with database.reading() as session:
        if await _mountable(visit, session, digest, source) is None or await visit.services.blobs.size(digest) is None:
            return False
    async with database.writing() as session:
        # As long as it is in its repository, it stays
        if (size := await _mountable(visit, session, digest, source)) is None:
            return False
        await session.merge(RegistryBlob(repository=visit.repository, digest=digest, size=size))
    return True


async def _mountable(visit: _Visit, session: AsyncSession, digest: str, source: str) -> int | None:
    """The counted size of a blob in a repository of the caller's; None if there is none."""
    blob = await session.get(RegistryBlob, (source, digest)) if is_digest(digest) else None
    owner = await session.scalar(sa.select(Image.user_id).where(Image.repository == source).limit(1))
    return blob.size if blob is not None and owner == visit.bearer.caller.user_id else None


async def _sizes(visit: _Visit, manifest: dict[str, Any]) -> dict[str, int | None]:
    """Bytes of the blobs that a manifest names, None for missing ones; a store is too slow for a transaction."""
    sizes: dict[str, int | None] = {}

    async def look(digest: str) -> None:
        sizes[digest] = await visit.services.blobs.size(digest)

    digests = {_digest_of(part) for part in (manifest.get("config"), *_listed(manifest, "layers"))}
    async with anyio.create_task_group() as tasks:
        for digest in digests:
            if digest is not None:
                tasks.start_soon(look, digest)
    return sizes


async def _check_parts(
    session: AsyncSession, visit: _Visit, manifest: dict[str, Any], sizes: dict[str, int | None]
) -> None:
    """Require that all parts of a manifest have been uploaded, are as long as it says, and are not too much."""
    repository, most, total = visit.repository, _quotas(visit).image, 0
    blobs = [part for part in (manifest.get("config"), *_listed(manifest, "layers")) if part is not None]
    for part in blobs:
        digest = _digest_of(part)
        if digest is None:
            raise _Refused(400, "MANIFEST_INVALID", "A descriptor in the manifest has no sha256 digest.")
        # Parts with `urls` are refused too: an engine would fetch them from there.
        blob = None if part.get("urls") else await session.get(RegistryBlob, (repository, digest))
        size = sizes[digest]
        if blob is None or size is None:
            raise _Refused(400, "MANIFEST_BLOB_UNKNOWN", f"{digest} has not been pushed to {repository}.")
        _check_size(part, digest, size)
        # A layer that is named twice is unpacked twice.
        total += blob.size
    if most is not None and total > most:
        raise _too_large(most)
    for part in _listed(manifest, "manifests"):
        digest = _digest_of(part)
        row = None if digest is None else await session.get(RegistryManifest, (repository, digest))
        if row is None:
            raise _Refused(400, "MANIFEST_BLOB_UNKNOWN", f"{digest} has not been pushed to {repository}.")
        _check_size(part, row.digest, row.size)
    if not blobs and not _listed(manifest, "manifests"):
        raise _Refused(400, "MANIFEST_INVALID", "The manifest names no config, layers or manifests.")


async def _check_tag(session: AsyncSession, repository: str, tag: str, digest: str) -> None:
    """Refuse to move a tag of a complete image."""
    fixed = await session.scalar(
        sa.select(Image.digest).where(Image.repository == repository, Image.tag == tag, Image.status == "ready")
    )
    if fixed is not None and fixed != digest:
        raise _Refused(403, "DENIED", f"{repository}:{tag} is complete and cannot be changed.")


def _listed(manifest: dict[str, Any], key: str) -> list[dict[str, Any]]:
    value: object = manifest.get(key) or []
    if not isinstance(value, list) or not all(isinstance(part, dict) for part in cast("list[object]", value)):
        raise _Refused(400, "MANIFEST_INVALID", f"`{key}` is not a list of objects.")
    parts = cast("list[dict[str, Any]]", value)
    if len(parts) > MAX_LAYERS:
        raise _Refused(400, "MANIFEST_INVALID", f"The manifest has {len(parts)} {key}, and {MAX_LAYERS} are the most.")
    return parts


def _check_size(part: dict[str, Any], digest: str, size: int) -> None:
    given: object = part.get("size")
    if type(given) is not int or given != size:
        raise _Refused(400, "MANIFEST_INVALID", f"{digest} has {size} bytes, and the manifest says otherwise.")


def _digest_of(part: object) -> str | None:
    digest = cast("dict[str, object]", part).get("digest") if isinstance(part, dict) else None
    return digest if isinstance(digest, str) and is_digest(digest) else None


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _Refused(400, "MANIFEST_INVALID", "The manifest is not JSON.") from error
    if not isinstance(value, dict):
        raise _Refused(400, "MANIFEST_INVALID", "The manifest is not a JSON object.")
    return cast("dict[str, Any]", value)


async def _small_body(request: Request) -> bytes:
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > MAX_MANIFEST:
            raise _Refused(413, "MANIFEST_INVALID", f"The manifest is larger than {MAX_MANIFEST} bytes.")
    return bytes(content)


async def _stream(request: Request) -> AsyncIterator[bytes]:
    async for chunk in request.stream():
        yield chunk
