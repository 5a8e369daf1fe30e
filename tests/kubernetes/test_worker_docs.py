"""The commands of docs/worker.md, on a real cluster, as an operator would go through them."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.images import BASE_IMAGE
from support.worker_image import ensure_worker_image

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "worker.md"
BLOCK = re.compile(r"^```(console|kubectl)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.kubernetes
@pytest.mark.docker
@pytest.mark.timeout(1800)
def test_the_page(tmp_path: Path) -> None:
    skip = shutil.ignore_patterns("results", "__pycache__", "coworld_manifest.json")
    shutil.copytree(ROOT / "examples" / "paintarena", tmp_path / "examples" / "paintarena", ignore=skip)
    shutil.copytree(ROOT / "docs" / "kubernetes", tmp_path / "docs" / "kubernetes")
    namespace = f"coworld-docs-{secrets.token_hex(4)}"
    script = "".join(text for _, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")))
    assert script.count("kubectl") >= 5
    # A namespace of its own, the image under the name it has here, and little to ask of a small node
    script = script.replace("namespace arena\n", f"namespace {namespace}\n").replace("-n arena", f"-n {namespace}")
    small = "--player-cpu 10m --player-memory 32Mi --pull-policy IfNotPresent"
    script = script.replace("--job-id first", f"--job-id first --worker-image {ensure_worker_image()} {small}")
    script = script.replace(
        "> job.yaml\n", "> job.yaml\nsed -i 's/cpu: .1.$/cpu: 10m/; s/cpu: 250m/cpu: 10m/' job.yaml\n"
    )
    try:
        done = subprocess.run(
            ["bash", "-euxo", "pipefail", "-c", script],
            cwd=tmp_path,
            env={
                **os.environ,
                "BASE_IMAGE": BASE_IMAGE,
                "PIP_NO_INDEX": "1",
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        subprocess.run(["kubectl", "delete", "namespace", namespace, "--wait=false"], check=False, capture_output=True)
