"""Uploads to an Observatory: small images pushed to its registry, and manifests that name them."""

from __future__ import annotations

import copy
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from .observatory import Inside

__all__ = ["Blob", "image_parts", "manifest_for", "push", "upload_coworld", "upload_image", "upload_policy"]

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"

_TEMPLATE = Path(__file__).parents[2] / "examples" / "paintarena" / "coworld_manifest_template.json"


class Blob:
    """Some bytes and their digest."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.digest = f"sha256:{hashlib.sha256(content).hexdigest()}"


def image_parts(layer: bytes | None = None) -> tuple[Blob, Blob, Blob]:
    """Layer, config and manifest of an image for linux/amd64."""
    packed = Blob(layer if layer is not None else os.urandom(100))
    config = Blob(
        json.dumps(
            {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [packed.digest]}}
        ).encode()
    )
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": _described("application/vnd.oci.image.config.v1+json", config),
        "layers": [_described("application/vnd.oci.image.layer.v1.tar", packed)],
    }
    return packed, config, Blob(json.dumps(manifest).encode())


def _described(kind: str, blob: Blob) -> dict[str, Any]:
    return {"mediaType": kind, "digest": blob.digest, "size": len(blob.content)}


async def push(platform: Inside, grant: dict[str, Any], parts: tuple[Blob, Blob, Blob]) -> None:
    """Push an image with the access granted for it, as the published client does: POST, PUT, manifest."""
    headers = {"Authorization": f"Basic {grant['authorization_token']}"}
    base = f"/v2/{grant['repository']}"
    for blob in parts[:2]:
        begun = await platform.http.post(f"{base}/blobs/uploads/", headers=headers)
        assert begun.status_code == 202, begun.text
        put = await platform.http.put(
            begun.headers["location"], params={"digest": blob.digest}, content=blob.content, headers=headers
        )
        assert put.status_code == 201, put.text
    done = await platform.http.put(
        f"{base}/manifests/{grant['tag']}",
        content=parts[2].content,
        headers={**headers, "Content-Type": MANIFEST_TYPE},
    )
    assert done.status_code == 201, done.text


async def upload_image(
    platform: Inside, token: str, name: str = "paintarena", parts: tuple[Blob, Blob, Blob] | None = None
) -> dict[str, Any]:
    """Upload an image, and return it as the API does."""
    parts = parts or image_parts()
    begun = await platform.post("/v2/container_images/upload", token, {"name": name, "client_hash": parts[2].digest})
    if (grant := begun["pre_signed_info"]) is None:
        return begun["image"]
    await push(platform, grant, parts)
    return await platform.post("/v2/container_images/upload/complete", token, {"id": begun["image"]["id"]})


def manifest_for(image: str, *, name: str = "paint_arena", version: str = "1.0.0", **changes: Any) -> dict[str, Any]:
    """The sample world's manifest with the same image everywhere."""
    manifest = copy.deepcopy(json.loads(_TEMPLATE.read_text()))
    manifest["game"]["name"], manifest["game"]["version"] = name, version
    manifest["game"]["runnable"]["image"] = image
    for section in ("player", "reporter", "commissioner", "grader", "diagnoser", "optimizer"):
        for entry in manifest.get(section, ()):
            entry["image"] = image
    return {**manifest, **changes}


async def upload_coworld(platform: Inside, token: str, **changes: Any) -> dict[str, Any]:
    """Upload the sample world with a new image, and return it as the API does."""
    image = await upload_image(platform, token)
    return await platform.post("/v2/coworlds/upload", token, {"manifest": manifest_for(image["id"], **changes)})


async def upload_policy(platform: Inside, token: str, name: str = "racer", **body: Any) -> dict[str, Any]:
    """Upload a policy version with a new image, and return it as the API does."""
    image = await upload_image(platform, token, name)
    return await platform.post(
        "/stats/policies/docker-img/complete", token, {"name": name, "container_image_id": image["id"], **body}
    )
