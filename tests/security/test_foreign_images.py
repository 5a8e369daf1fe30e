"""Whatever a request calls an image: only what was uploaded here runs, for who may use it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.observatory import Inside, inside
from support.uploads import MANIFEST_TYPE, Blob, image_parts, manifest_for, upload_image

from coworld_core.errors import ImageError
from coworld_core.manifest.models import Runnable
from observatory.work.admission import Admission

pytestmark = pytest.mark.slow

DIGEST = f"sha256:{'a' * 64}"
ELSEWHERE = (
    "python:3.12",
    "python",
    f"python@{DIGEST}",
    "coworld-worker:coworld-0123456789abcdef",
    "ghcr.io/eve/game:1.0",
    f"ghcr.io/eve/game@{DIGEST}",
    f"169.254.169.254/latest@{DIGEST}",
    f"127.0.0.1:8787/nobody/nothing@{DIGEST}",
)


async def admitted(platform: Inside, owner: str, image: str) -> str:
    """What an engine would be asked for, in somebody's name."""
    admission = Admission(registry=platform.services.settings.registry)
    async with platform.services.database.reading() as session:
        runnable = Runnable(type="player", image=image, run=("play",))
        return (await admission.admit(session, runnable, owner=owner)).runnable.image


async def who(platform: Inside, token: str) -> str:
    return str((await platform.get("/whoami", token))["owner_user_id"])


@pytest.mark.parametrize("image", ELSEWHERE)
async def test_image_that_was_not_uploaded_is_refused(image: str, tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        admin = await platform.add_user("admin", team=True)
        # the team's word is no image either
        body = {"manifest": manifest_for(image)}
        refused = await platform.ask("POST", "/v2/coworlds/upload", admin, json=body, expect=422)
        assert refused.json()["detail"][0]["type"] in ("foreign_image", "mutable_image")
        made = {"name": "x", "container_image_id": image}
        await platform.ask("POST", "/stats/policies/docker-img/complete", admin, json=made, expect=404)
        # and one that got here all the same stops here
        with pytest.raises(ImageError) as error:
            await admitted(platform, await who(platform, admin), image)
        assert error.value.code == "foreign_image"


async def test_images_are_private_unless_a_public_coworld_uses_them(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann, eve = await platform.add_user("ann"), await platform.add_user("eve")
        her, his = await who(platform, ann), await who(platform, eve)
        image = await upload_image(platform, ann)
        repository = image["image_uri"].partition("/")[2].rpartition(":")[0]
        reference = f"{platform.services.settings.registry}/{repository}@{image['image_digest']}"
        stolen = ({"name": "x", "container_image_id": name} for name in (image["id"], reference))
        for body in stolen:
            await platform.ask("POST", "/stats/policies/docker-img/complete", eve, json=body, expect=404)
        for name in (image["id"], reference):
            body = {"manifest": manifest_for(name, name="theirs")}
            await platform.ask("POST", "/v2/coworlds/upload", eve, json=body, expect=422)
        with pytest.raises(ImageError):
            await admitted(platform, his, image["id"])
        assert await admitted(platform, her, image["id"]) == reference
        # the owner may name it as it is given out: it is the same Coworld, and the same image
        made = await platform.post("/v2/coworlds/upload", ann, {"manifest": manifest_for(reference)})
        again = await platform.post("/v2/coworlds/upload", ann, {"manifest": manifest_for(image["id"])})
        assert made["id"] == again["id"]
        # a public Coworld has it now, and then no more: who built on it is refused from then on
        assert await admitted(platform, his, image["id"]) == reference
        await platform.post(
            "/stats/policies/docker-img/complete", eve, {"name": "x", "container_image_id": image["id"]}
        )
        await platform.post("/v2/coworlds/paint_arena/visibility", ann, {"visibility": "private"})
        with pytest.raises(ImageError) as error:
            await admitted(platform, his, image["id"])
        assert error.value.code == "foreign_image"
        assert await admitted(platform, her, image["id"]) == reference


async def test_foreign_layers_are_refused(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        eve = await platform.add_user("eve")
        layer, config, manifest = image_parts()
        begun = await platform.post("/v2/container_images/upload", eve, {"name": "x", "client_hash": manifest.digest})
        grant = begun["pre_signed_info"]
        headers = {"Authorization": f"Basic {grant['authorization_token']}"}
        base = f"/v2/{grant['repository']}"
        for blob in (layer, config):
            started = await platform.http.post(f"{base}/blobs/uploads/", headers=headers)
            place = started.headers["location"]
            await platform.http.put(place, params={"digest": blob.digest}, content=blob.content, headers=headers)
        document = json.loads(manifest.content)
        document["layers"][0]["urls"] = ["http://169.254.169.254/latest/meta-data/"]
        refused = await platform.http.put(
            f"{base}/manifests/{grant['tag']}",
            content=Blob(json.dumps(document).encode()).content,
            headers={**headers, "Content-Type": MANIFEST_TYPE},
        )
        assert (refused.status_code, refused.json()["errors"][0]["code"]) == (400, "MANIFEST_BLOB_UNKNOWN")
