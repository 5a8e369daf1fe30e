"""How a cluster gets to the images: a Secret with the workers' login, and a backend that names it in its pods."""

from __future__ import annotations

import base64
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from support.observatory import Inside, inside, new_services
from support.uploads import upload_image

from coworld_runner.backends.kubernetes.kubernetes_backend import KubernetesBackend
from observatory.cli import main
from observatory.identity.worker_login import pull_secret, worker_login
from observatory.settings import Settings
from observatory.work.admission import OwnPackages
from observatory.work.executor import _make  # pyright: ignore[reportPrivateUsage]


def written(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as left:
        main(("pull-secret", *arguments))
    assert isinstance(left.value.code, int)
    return left.value.code, capsys.readouterr().out


def config_of(secret: dict[str, Any]) -> dict[str, Any]:
    assert (secret["kind"], secret["type"]) == ("Secret", "kubernetes.io/dockerconfigjson")
    return json.loads(base64.b64decode(secret["data"][".dockerconfigjson"]))["auths"]


async def uploaded(platform: Inside) -> dict[str, Any]:
    return await upload_image(platform, await platform.add_user("ann"))


async def test_pull_secret_can_pull_but_not_push(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        image = await uploaded(platform)
        _, _, name = image["image_uri"].partition("/")
        repository = name.partition(":")[0].partition("@")[0]
        place = f"/v2/{repository}/manifests/{image['image_digest']}"
        assert (await platform.http.get(place)).status_code == 401
        secret = pull_secret("pull", "registry.example:5000", worker_login(platform.services.vault))
        (entry,) = [config_of(secret)["registry.example:5000"]]
        shown = {"Authorization": f"Basic {entry['auth']}"}
        assert (await platform.http.get(place, headers=shown)).status_code == 200
        begun = await platform.http.post(f"/v2/{repository}/blobs/uploads/", headers=shown)
        assert begun.status_code in (401, 403)


def test_pull_secret_is_written_for_a_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--data", str(tmp_path / "o"))
    status, out = written(capsys, *where, "--url", "https://games.example:8443/", "--name", "mine")
    secret = json.loads(out)
    assert (status, secret["metadata"]["name"]) == (0, "mine")
    assert list(config_of(secret)) == ["games.example:8443"]
    # The same each time, so that applying it again changes nothing
    status, again = written(capsys, *where, "--url", "https://games.example:8443", "--name", "mine", "--json")
    assert (status, json.loads(again), again.count("\n")) == (0, secret, 1)
    status, out = written(capsys, *where, "--name", "Not_A_Name", "--json")
    assert (status, json.loads(out)["error"]["code"]) == (2, "bad_name")


@pytest.mark.parametrize("names", [(), ("mine", "other")])
async def test_pods_use_the_pull_secret(
    names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("COWORLD_COLLECTOR_IMAGE", "registry.example/python:3")
    file = tmp_path / "pods.yaml"
    file.write_text("player: {spec: {nodeSelector: {a: b}}}\n")
    settings = Settings(data=tmp_path / "o", backend="kubernetes", namespace="games", pull_secrets=names, pods=file)
    async with new_services(settings) as services:
        with caplog.at_level(logging.WARNING, "observatory"):
            backend = _make(services, "kubernetes", OwnPackages(), ("worker", "hunter2"))
    assert isinstance(backend, KubernetesBackend)
    assert backend._where[1] == "games"  # pyright: ignore[reportPrivateUsage]
    pods = backend._pods  # pyright: ignore[reportPrivateUsage]
    assert (pods.image_pull_secrets, pods.collector_image) == (names, "registry.example/python:3")
    assert pods.overlay.template("player") == {"spec": {"nodeSelector": {"a": "b"}}}
    assert ("--pull-secret" in caplog.text) == (not names)
    assert "hunter2" not in caplog.text
