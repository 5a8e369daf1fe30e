"""Which backend runs a package, and that it is never the code of yesterday without a word."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.small_world import MANIFEST

from coworld_core.errors import CoworldError, UsageError
from coworld_runner import open_package
from coworld_runner.build.rebuild import build_again
from coworld_runner.episode.backend_choice import choose_backend
from coworld_runner.images.compose import Contexts
from coworld_runner.package.resolver import resolve_package


def built(root: Path, *, image: str = "counting:coworld-0123456789ab", run: bool = True) -> Path:
    """A package that was built a minute ago."""
    document = json.loads(json.dumps(MANIFEST))
    for runnable in (document["game"]["runnable"], *document["player"]):
        runnable["image"] = image
        if not run:
            runnable["run"] = []
    for name, text in {
        "compose.yaml": "services:\n  counting:\n    image: counting\n    build: .\n",
        "Dockerfile": "FROM scratch\n",
        "game.py": "print()\n",
        ".dockerignore": "notes\n",
        "coworld_manifest.json": json.dumps(document),
    }.items():
        (root / name).write_text(text)
    for path in root.iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return root


async def test_changed_sources_run_as_processes(tmp_path: Path) -> None:
    built(tmp_path)
    (tmp_path / "game.py").write_text("print(2)\n")
    package = await resolve_package(tmp_path)
    choice = await choose_backend("auto", package)
    assert choice.name == "process"
    assert choice.reason.startswith("game.py has changed since the images were built")
    asked = await choose_backend("docker", package)
    assert (asked.name, asked.reason[:44]) == ("docker", "as asked, but game.py has changed since the i"[:44])
    assert (await choose_backend("process", package)).reason == "as asked"


async def test_stale_image_is_reported_when_images_are_required(tmp_path: Path) -> None:
    built(tmp_path, run=False)
    (tmp_path / "game.py").write_text("print(2)\n")
    choice = await choose_backend("auto", await resolve_package(tmp_path))
    assert choice.name in ("docker", "process")
    assert "game.py has changed" in choice.reason


async def test_downloaded_package_is_not_rebuilt(tmp_path: Path) -> None:
    built(tmp_path)
    package = dataclasses.replace(await resolve_package(tmp_path), fetched=True, contexts=Contexts())
    with pytest.raises(UsageError) as refused:
        await build_again(package)
    assert refused.value.code == "nothing_to_build"


async def test_a_package_is_opened_with_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asked: list[str] = []

    async def download(identifier: str, directory: Path) -> None:
        asked.append(identifier)
        place = directory / identifier
        place.mkdir(parents=True)
        built(place)

    for _ in range(2):
        package = await open_package("cow_1", download=download, environment={"HASTE": "1"})
        assert package.path is not None
        assert (package.coworld_id, package.path.parent) == ("cow_1", tmp_path / "coworld" / "cow_1")
        assert package.manifest.game.runnable.env["HASTE"] == "1"
    assert asked == ["cow_1"], "it is downloaded once"
    with pytest.raises(UsageError) as refused:
        await open_package("cow_2")
    assert refused.value.code == "server_missing"


async def test_nothing_is_built_for_local_processes(tmp_path: Path) -> None:
    built(tmp_path)
    with pytest.raises(UsageError) as refused:
        await open_package(tmp_path, build=True, backend="process")
    assert refused.value.code == "build_without_images"


async def test_images_are_built_before_a_package_is_opened(tmp_path: Path) -> None:
    built(tmp_path)
    (tmp_path / "compose.yaml").unlink()
    (tmp_path / "Dockerfile").unlink()
    reasons: list[str] = []

    @contextmanager
    def building(why: str) -> Generator[None]:
        reasons.append(why)
        yield

    with pytest.raises(CoworldError):
        await open_package(tmp_path, build=True, building=building)
    assert reasons == [""]


@pytest.mark.parametrize("name", ["notes", "results/1/replay", "build/viewer/index.html", "__pycache__/game.pyc"])
async def test_files_outside_image_sources_do_not_make_images_stale(tmp_path: Path, name: str) -> None:
    built(tmp_path)
    document = json.loads((tmp_path / "coworld_manifest.json").read_text())
    document["game"]["replay_viewer"] = {"bundle": "build/viewer"}
    (tmp_path / "coworld_manifest.json").write_text(json.dumps(document))
    os.utime(tmp_path / "coworld_manifest.json", (1_700_000_000, 1_700_000_000))
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("new")
    assert (await choose_backend("docker", await resolve_package(tmp_path))).reason == "as asked"


async def test_foreign_image_is_never_stale(tmp_path: Path) -> None:
    built(tmp_path, image="counting:1")
    (tmp_path / "game.py").write_text("print(2)\n")
    assert (await choose_backend("docker", await resolve_package(tmp_path))).reason == "as asked"
