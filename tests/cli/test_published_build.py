"""The newest published package and ours certify what the other's `build` has written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.cli_kit import coworld, environment
from support.published_client import install

NEWEST = "0.1.64"
WHO = "-c user.name=me -c user.email=me@example.org"
World = Callable[..., Path]

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(900)]

COMPOSE = """#!/bin/sh
# Stands in for Docker's compose plugin, for images that are there already: nothing is to be pulled or built.
case "$1 $4" in
  "compose config") exec cat "$3" ;;
  "compose pull" | "compose build") exit 0 ;;
  *) exec {docker} "$@" ;;
esac
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of the newest published package."""
    return install(tmp_path_factory.mktemp("newest") / "venv", NEWEST)


@pytest.fixture
def project(world: World) -> Path:
    """A project of an image that is there already, with the tags that newer certifiers ask for."""
    from support.misfit_kit import ensure_image

    directory = world("well")
    template = directory / "coworld_manifest_template.json"
    manifest: dict[str, Any] = json.loads(template.read_text())
    manifest["tags"] = ["small", "quick", "test"]
    manifest["game"].pop("version", None)
    template.write_text(json.dumps(manifest))
    (directory / "compose.yaml").write_text(json.dumps({"services": {"misfits": {"image": ensure_image()}}}))
    return directory


def published(python: Path, place: Path, *words: str | Path) -> str:
    """Run the published command in a directory, and return what it says."""
    place.mkdir(exist_ok=True)
    docker = shutil.which("docker")
    if docker is None:
        pytest.skip("the published package needs the docker command")
    (place / "docker").write_text(COMPOSE.format(docker=docker))
    (place / "docker").chmod(0o755)
    config = os.environ.get("DOCKER_CONFIG", str(Path.home() / ".docker"))
    path = os.pathsep.join([str(place), str(python.parent), os.environ["PATH"]])
    env = environment({"HOME": str(place), "DOCKER_CONFIG": config, "PATH": path, "TERM": "dumb", "COLUMNS": "200"})
    command = [str(python.parent / "coworld"), *map(str, words)]
    done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_what_we_build_is_certified_by_the_published_package(python: Path, project: Path, tmp_path: Path) -> None:
    built = coworld("build", project, "--version", "1.2.3", "--json")
    assert built.status == 0, built.stderr
    asked = coworld("validate", built.json["manifest"], "--for", NEWEST)
    assert asked.status == 0, asked.stdout
    said = published(python, tmp_path / "home", "certify", built.json["manifest"], "--no-open-report")
    assert "(10 steps passed)" in said


def test_what_the_published_package_builds_is_certified_by_us(python: Path, project: Path, tmp_path: Path) -> None:
    written = project / "dist" / "coworld_manifest.json"
    # it builds nothing outside a clone
    for words in ("init -q", "add .", f"{WHO} commit -qm first", "remote add origin https://github.com/me/world"):
        subprocess.run(["git", "-C", project, *words.split()], check=True)
    published(python, tmp_path / "home", "build", "--version", "1.2.3", "--project", project)
    done = coworld("certify", written, "--backend", "docker", "--json", "-o", tmp_path / "out")
    assert done.status == 0, done.stdout
    assert {step["status"] for step in done.json["steps"]} <= {"pass", "skip"}
