"""An Observatory whose worker plays on a cluster: its nodes pull what was uploaded, with a login of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from support.cli_kit import Done, coworld
from support.images import untag
from support.kube import kubeconfig_with, until_empty
from support.misfit_kit import PACKAGE, PLACEHOLDER, ensure_image
from support.observatory import running_observatory

pytestmark = [
    *(pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.timeout(600)),
]

POLICIES = ["plain", "telling"]


def in_namespace(content: Any, namespace: str) -> None:
    """Have a kubeconfig's contexts name this namespace."""
    for entry in content["contexts"]:
        entry["context"]["namespace"] = namespace


async def test_uploaded_policies_are_played_on_the_cluster(
    namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    image = ensure_image()
    kubeconfig = kubeconfig_with(tmp_path, lambda content: in_namespace(content, namespace))
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    manifest = tmp_path / "coworld_manifest.json"
    template = json.loads((PACKAGE / "coworld_manifest_template.json").read_text().replace(PLACEHOLDER, image))
    template["game"]["version"] = "0.1.0"
    manifest.write_text(json.dumps(template))
    me = {"SOFTMAX_CONFIG_DIR": str(tmp_path / "config"), "MY_KEY": "s3cret"}

    async with running_observatory(
        tmp_path, backend="kubernetes", arguments=("--pull-secret", "observatory", "--parallel", "2")
    ) as served:
        registry = served.server.removeprefix("http://")
        request.addfinalizer(lambda: untag(lambda name: name.startswith(f"{registry}/")))

        def ask(*words: str | Path, stdin: str | None = None) -> Done:
            done = coworld(*words, env={**me, "COWORLD_SERVER": served.server}, stdin=stdin, timeout=300)
            assert done.status == 0, done.stderr + done.stdout + served.log.read_text()
            return done

        def play() -> tuple[dict[str, Any], dict[str, Any]]:
            make = [sys.executable, "-m", "observatory", "pull-secret", "--data", str(served.settings.data)]
            make += ["--url", served.server, "--name", "observatory"]
            secret = subprocess.run(make, capture_output=True, check=True, timeout=60).stdout
            subprocess.run(
                ["kubectl", "apply", "-n", namespace, "-f", "-"],
                input=secret,
                capture_output=True,
                check=True,
                timeout=60,
            )
            ask("set-token", stdin=served.admin_token)
            # The platform's first episodes of it are waited for, and an exit of 0 says that they went well
            made = ask("upload-coworld", manifest, "--skip-certification", "tried elsewhere", "--json").json
            run = ["--run", "python3", "--run", "player.py"]
            ask("upload-policy", image, "-n", "plain", *run)
            ask("upload-policy", image, "-n", "telling", *run, "--run", "tells", "--secret-env", "MY_KEY")
            seats = [{"player": {"policy_ref": f"{name}:v1"}, "slot": slot} for slot, name in enumerate(POLICIES)]
            body = {"coworld_id": made["id"], "num_episodes": 2, "roster": seats}
            asked = ask("xp-request", "create", "-", "--wait", "--json", stdin=json.dumps(body)).json
            return made, asked

        made, asked = await anyio.to_thread.run_sync(play)
        assert made["hosted_smoke"] == "passed", made
        assert [episode["status"] for episode in asked["episodes"]] == ["completed"] * 2
        assert "fault" not in served.log.read_text()
    await anyio.to_thread.run_sync(until_empty, namespace)
