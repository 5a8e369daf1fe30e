"""A game that shows a replay is a stranger's program like one that plays: nothing leads from it to the outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.docker_subject import engine_call
from support.images import BASE_IMAGE
from support.observatory_kit import QUICK

from coworld_core.manifest.manifest_file import load_manifest
from coworld_runner.backends.docker.docker_backend import DockerBackend
from coworld_runner.replay.replay_session import open_replay_mode

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

GAME = (QUICK.directory / "game.py").read_text()


async def test_replay_viewer_container_has_no_network(tmp_path: Path) -> None:
    replay = tmp_path / "replay"
    replay.write_text("a replay\n")
    document = json.loads((QUICK.directory / "coworld_manifest_template.json").read_text())
    document["game"]["runnable"] |= {"image": BASE_IMAGE, "run": ["python3", "-c", GAME]}
    manifest = load_manifest(document, template=True).manifest
    async with (
        DockerBackend() as backend,
        open_replay_mode(manifest, replay, backend=backend, publish=lambda _: None) as shown,
    ):
        # It is reached by who may look
        assert shown.link.startswith("http://127.0.0.1:")
        described = await engine_call("GET", f"/containers/{shown.unit.id}/json")
        # Nobody is asked for names outside, and nothing is translated on the way there
        assert described["HostConfig"]["Dns"] == ["127.0.0.1"]
        (joined,) = described["NetworkSettings"]["Networks"].values()
        network = await engine_call("GET", f"/networks/{joined['NetworkID']}")
        assert network["Options"]["com.docker.network.bridge.enable_ip_masquerade"] == "false"
