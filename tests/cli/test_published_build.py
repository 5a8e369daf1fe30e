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
from support.images import drop_image
from support.published_client import install

ROOT = Path(__file__).parents[2]
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
    assert docker is not None, "the published package runs the docker command, which comes with an engine"
    (place / "docker").write_text(COMPOSE.format(docker=docker))
    (place / "docker").chmod(0o755)
    config = os.environ.get("DOCKER_CONFIG", str(Path.home() / ".docker"))
    path = os.pathsep.join([str(place), str(python.parent), os.environ["PATH"]])
    env = environment({"HOME": str(place), "DOCKER_CONFIG": config, "PATH": path, "TERM": "dumb", "COLUMNS": "200"})
    command = [str(python.parent / "coworld"), *map(str, words)]
    done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_our_build_is_certified_by_the_published_package(python: Path, project: Path, tmp_path: Path) -> None:
    built = coworld("build", project, "--version", "1.2.3", "--json")
    assert built.status == 0, built.stderr
    asked = coworld("validate", built.json["manifest"], "--for", NEWEST)
    assert asked.status == 0, asked.stdout
    said = published(python, tmp_path / "home", "certify", built.json["manifest"], "--no-open-report")
    assert "(10 steps passed)" in said


@pytest.mark.git
def test_published_build_is_certified_by_us(python: Path, project: Path, tmp_path: Path) -> None:
    written = project / "dist" / "coworld_manifest.json"
    # It builds nothing outside a clone
    for words in ("init -q", "add .", f"{WHO} commit -qm first", "remote add origin https://github.com/me/world"):
        subprocess.run(["git", "-C", project, *words.split()], check=True)
    published(python, tmp_path / "home", "build", "--version", "1.2.3", "--project", project)
    done = coworld("certify", written, "--backend", "docker", "--json", "-o", tmp_path / "out")
    assert done.status == 0, done.stdout
    assert {step["status"] for step in done.json["steps"]} <= {"pass", "skip"}


@pytest.mark.wheels
def test_a_game_of_the_kit_is_certified_by_both(python: Path, tmp_path: Path) -> None:
    """Nothing is added to what `init` writes."""
    wheels = ROOT / "examples/paintarena/wheels"
    assert coworld("init", "game", "fresh", cwd=tmp_path).status == 0
    shutil.copytree(wheels, tmp_path / "fresh" / "wheels")
    # The wheels are in place of an index
    env = {"PIP_NO_INDEX": "1", "BASE_IMAGE": os.environ.get("BASE_IMAGE", "python:3.11-slim")}
    built = coworld("build", "fresh", "--version", "1.2.3", "--json", cwd=tmp_path, env=env, timeout=300)
    assert built.status == 0, built.stderr
    manifest = Path(built.json["manifest"])
    try:
        ours = coworld("certify", manifest, "--backend", "docker", "--json", "-o", tmp_path / "out")
        assert ours.status == 0, ours.stdout
        said = published(python, tmp_path / "home", "certify", manifest, "--no-open-report")
        assert "(10 steps passed)" in said
    finally:
        for image in ("fresh:latest", json.loads(manifest.read_text())["game"]["runnable"]["image"]):
            drop_image(image)
