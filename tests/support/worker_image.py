"""The worker's image, built by the line of its page with the packages of this environment and no package index."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable
from functools import lru_cache
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

from .images import BASE_IMAGE, docker_client

__all__ = ["build_worker_image", "ensure_worker_image", "pack_wheels"]

ROOT = Path(__file__).parents[2]
_SOURCES = ("coworld_core", "coworld_runner", "examples/learner")
_NEEDED = ("coworld-core", "coworld-runner[jobs]", "hatchling")


@lru_cache
def ensure_worker_image() -> str:
    """Build the image, unless one with the same content exists, and return its name."""
    digest = hashlib.sha256(BASE_IMAGE.encode())
    for source in _SOURCES:
        for path in sorted((ROOT / source).rglob("*")):
            if path.is_file() and path.suffix not in (".pyc", ".md") and "wheels" not in path.parts:
                digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    image = f"coworld-worker:test-{digest.hexdigest()[:12]}"
    client = docker_client()
    try:
        if any(image in (entry.tags or ()) for entry in client.images.list(name="coworld-worker")):
            return image
    finally:
        client.close()
    with tempfile.TemporaryDirectory() as directory:
        context = Path(directory)
        for source in _SOURCES:
            shutil.copytree(
                ROOT / source,
                context / source,
                symlinks=True,
                ignore=shutil.ignore_patterns("__pycache__", "wheels", "dist"),
            )
        build_worker_image(context, image)
    return image


def build_worker_image(checkout: Path, image: str) -> None:
    """Build the image as `docs/worker.md` says, but from wheels that are put into the checkout."""
    pack_wheels(_NEEDED, checkout / "coworld_runner" / "wheels")
    page = (ROOT / "docs/worker.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"`(docker build [^`]+)`", page)
    done = subprocess.run(
        [
            *shlex.split(line.replace("REGISTRY/coworld-worker:VERSION", image)),
            *("--build-arg", f"BASE_IMAGE={BASE_IMAGE}", "--build-arg", "PIP_NO_INDEX=1"),
        ],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def pack_wheels(needed: Iterable[str], target: Path) -> None:
    """Make a directory of wheels of installed distributions and of what they need, except our own."""
    target.mkdir()
    for found in _closure(needed):
        _pack(found, target)


def _closure(needed: Iterable[str]) -> list[Distribution]:
    found: dict[str, Distribution] = {}
    waiting = [Requirement(text) for text in needed]
    seen: set[str] = set()
    while waiting:
        requirement = waiting.pop()
        key = f"{requirement.name.lower()}[{','.join(sorted(requirement.extras))}]"
        if key in seen:
            continue
        seen.add(key)
        one = distribution(requirement.name)
        for text in one.requires or ():
            inner = Requirement(text)
            wanted = [{"extra": extra} for extra in requirement.extras] or [{"extra": ""}]
            if inner.marker is None or any(inner.marker.evaluate(extra) for extra in wanted):
                waiting.append(inner)
        if not one.name.startswith(("coworld", "observatory")):
            found[one.name] = one
    return [found[name] for name in sorted(found)]


def _pack(one: Distribution, target: Path) -> None:
    """Rebuild a wheel from an installed distribution."""
    metadata = (one.read_text("WHEEL") or "").splitlines()
    tags = [line.partition(": ")[2] for line in metadata if line.startswith("Tag: ")]
    python, abi, platform = (".".join(dict.fromkeys(tag.split("-")[part] for tag in tags)) for part in range(3))
    name = one.name.replace("-", "_").replace(".", "_")
    with zipfile.ZipFile(target / f"{name}-{one.version}-{python}-{abi}-{platform}.whl", "w") as wheel:
        for entry in one.files or ():
            # Scripts are recreated from the entry points, and compiled files belong to this interpreter.
            if entry.parts[0] != ".." and entry.suffix != ".pyc" and entry.name not in ("INSTALLER", "REQUESTED"):
                wheel.write(str(entry.locate()), str(entry))
