"""Certification where Coworlds really run: local processes, and containers."""

import dataclasses
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from support.misfit_kit import PACKAGE, PLACEHOLDER, ensure_image

from coworld_core.episode.record import read_record
from coworld_core.manifest.models import Manifest
from coworld_runner.certification import Certification, CertifyOptions, SourceOptions, certify
from coworld_runner.episode.backend_choice import make_backend
from coworld_runner.episode.single import EpisodeOptions
from coworld_runner.package.resolver import Package, resolve_package

pytestmark = pytest.mark.slow

Kind = Literal["process", "docker"]


async def misfits(kind: Kind, behaviour: str, *players: str, run: tuple[str, ...] = (), **config: Any) -> Package:
    """The misfits Coworld with a game that behaves as told; players by their behaviours, one a slot."""
    package = await resolve_package(PACKAGE)
    document = package.manifest.model_dump(mode="json", by_alias=True, exclude_none=True)
    image = ensure_image() if kind == "docker" else PLACEHOLDER
    document["game"]["version"] = "1.0.0"
    document["game"]["runnable"]["image"] = image
    model = document["player"][0]
    names = players or ("well", "well")
    document["player"] = [
        {**model, "id": name, "name": name, "image": image, "run": [*(run or ("python3", "player.py")), name]}
        for name in dict.fromkeys(names)
    ]
    document["certification"] = {
        "game_config": {"players": [{"name": name} for name in names], "behaviour": behaviour, **config},
        "players": [{"player_id": name} for name in names],
    }
    manifest = Manifest.model_validate(document)
    # What is certified is what was built: no file stands behind it
    return dataclasses.replace(package, manifest=manifest, path=None)


def options(**episode: Any) -> CertifyOptions:
    return CertifyOptions(
        episode=EpisodeOptions(
            **{"timeout_seconds": 60.0, "ready_timeout_seconds": 30.0, "player_exit_timeout_seconds": 5.0, **episode}
        ),
        sources=SourceOptions(offline=True),
    )


@asynccontextmanager
async def certified(
    kind: Kind, package: Package, workspace: Path, **episode: Any
) -> AsyncGenerator[Certification, None]:
    """A certification, after which nothing of it may be left."""
    async with make_backend(kind, package) as backend:
        found = await certify(package, backend=backend, workspace=workspace, options=options(**episode))
        yield found
        if found.episode is not None:
            record = read_record(workspace / found.episode)
            assert await backend.find(record.run_id) == ()


def failures(certification: Certification) -> dict[str, str | None]:
    return {step.id: step.failure_reason for step in certification.failed}


@pytest.mark.parametrize("kind", ["process", pytest.param("docker", marks=pytest.mark.docker)])
async def test_a_good_coworld_is_executable(tmp_path: Path, kind: Kind) -> None:
    async with certified(kind, await misfits(kind, "well", play_seconds=4.0), tmp_path / "out") as found:
        assert (failures(found), found.verdict, found.backend) == ({}, "Executable", kind)
    step = found.step("images-reachable")
    if kind == "docker":
        assert step.status == "pass"
        (image,) = found.images
        assert image.digest.startswith("sha256:")
        assert image.platform == "linux/amd64"
        # In these tests no browser looks at pages
        assert [one for one in found.caveats if "COWORLD_BROWSER" not in one] == []
    else:
        assert (step.status, step.skip_reason) == ("skip", "not_applicable")
        assert found.images == ()
    codes = {item.code for item in found.step("smoke-episode").evidence if item.ok}
    assert codes >= {"refuses_other_slots_token", "refuses_slot_not_a_number", "viewer", "late_viewer"}
    codes = {item.code for item in found.step("clients-handled").evidence if item.ok and item.level == "required"}
    assert codes >= {"survives_oversized", "finishes", "reconnects", "reconnects_before_start"}
    if kind == "process":
        # Its seats send again what was recorded, and the same game comes out
        assert "verifiable" in {item.code for item in found.step("seed-repeats").evidence}
        assert json.loads((tmp_path / "out/certificate.json").read_bytes())["verifiable"] == "frames"
    for name in ("replay-zlib", "replay-gzip", "replay-plain"):
        assert (tmp_path / "out/logs" / name / "replay.stdout.log").read_text().startswith("misfits")


async def test_a_player_whose_command_is_missing_is_named(tmp_path: Path) -> None:
    package = await misfits("process", "well", "well", run=(str(tmp_path / "gone"),))
    async with certified("process", package, tmp_path / "out", failure_grace_seconds=0.1) as found:
        assert failures(found) == {"smoke-episode": "player_never_started", "players-run": "players_missing"}


@pytest.mark.docker
async def test_a_missing_image_is_named_and_nothing_is_started(tmp_path: Path) -> None:
    package = await misfits("docker", "well")
    manifest = package.manifest
    lost = manifest.player[0].model_copy(update={"image": "localhost:1/nowhere/lost:1"})
    package = dataclasses.replace(package, manifest=manifest.model_copy(update={"player": (lost,)}))
    async with certified("docker", package, tmp_path / "out") as found:
        assert failures(found) == {"images-reachable": "image_unreachable"}
    (item,) = found.step("images-reachable").broken
    assert "localhost:1/nowhere/lost:1" in item.message
    assert found.step("smoke-episode").skip_reason == "premise_failed"
    assert not (tmp_path / "out/episode").exists()


async def test_a_package_without_a_directory_to_run_in_fails_before_anything_starts(tmp_path: Path) -> None:
    package = await misfits("process", "well")
    package = dataclasses.replace(package, contexts={})
    async with certified("process", package, tmp_path / "out") as found:
        assert "images-reachable" in failures(found)
    assert not (tmp_path / "out/episode").exists()
