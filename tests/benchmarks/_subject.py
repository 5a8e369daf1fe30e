"""The subject of a benchmark: a package, its players, and their processes or images."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.images import docker_client  # noqa: E402
from support.paintarena_image import paintarena_image  # noqa: E402

BackendName = Literal["process", "docker"]

NETWORK = f"coworld-benchmark-floor-{os.getpid()}"


@dataclass(frozen=True)
class Subject:
    """A package that can be run with and without coworld."""

    name: str
    directory: Path
    backend: BackendName
    variant: str
    config: dict[str, Any]
    game: dict[str, Any]
    players: list[dict[str, Any]]
    manifest: Path
    """For docker, a manifest with real images; for processes, the template."""

    def floor_spec(self) -> str:
        """The argument of `_floor.py`."""
        return json.dumps(
            {
                "backend": self.backend,
                "network": NETWORK,
                "config": self.config,
                "game": self.game,
                "players": self.players,
            }
        )


def subject(package: str, backend: BackendName, scratch: Path, *, seconds: float = 1.0) -> Subject:
    """Prepare a package: its image if one is needed, and a manifest whose `quick` variant takes `seconds`.

    Args:
        package: `paintarena` or `misfits`.
        backend: The backend to run it on.
        scratch: A directory for the manifest.
        seconds: The duration of the game itself.
    """
    if package == "paintarena":
        directory = ROOT / "examples/paintarena"
        config: dict[str, Any] = {"width": 12, "height": 8, "max_ticks": max(1, round(20 * seconds)), "tick_rate": 20}
        image = paintarena_image() if backend == "docker" else "{{PAINTARENA_IMAGE}}"
    elif package == "misfits":
        from support.misfit_kit import PACKAGE, ensure_image

        directory = PACKAGE
        config = {"play_seconds": seconds}
        image = ensure_image() if backend == "docker" else "{{MISFITS_IMAGE}}"
    else:
        raise SystemExit(f"no such package: {package}")
    manifest = json.loads((directory / "coworld_manifest_template.json").read_text())
    placeholder = manifest["game"]["runnable"]["image"]
    bundled = {player["id"]: player for player in manifest["player"]}
    ids = [entry["player_id"] for entry in manifest["certification"]["players"]]
    config["players"] = [{"name": f"player {slot}"} for slot in range(len(ids))]
    manifest["variants"] = [{"id": "quick", "name": "Quick", "description": "For benchmarks.", "game_config": config}]
    manifest["certification"]["game_config"] = config
    manifest["game"].setdefault("version", "0.0.1")
    text = json.dumps(manifest, indent=2)
    # Local processes run in the directory that the compose file beside the manifest names.
    path = scratch / f"{package}-{backend}" / "coworld_manifest.json"
    path.parent.mkdir(parents=True)
    path.write_text(text.replace(placeholder, image))
    if backend == "process":
        service = placeholder.strip("{}").removesuffix("_IMAGE").lower()
        compose = f"services:\n  {service}:\n    image: {service}\n    build: {json.dumps(str(directory))}\n"
        (path.parent / "compose.yaml").write_text(compose)
        path = path.rename(path.with_name("coworld_manifest_template.json"))
    units = [
        {"run": unit["run"], "image": image, "context": str(directory)}
        for unit in (manifest["game"]["runnable"], *(bundled[name] for name in ids))
    ]
    return Subject(package, directory, backend, "quick", config, units[0], units[1:], path)


class FloorNetwork:
    """The network of the floor's containers, created once, as a person would."""

    def __init__(self, needed: bool) -> None:
        self._needed = needed

    def __enter__(self) -> None:
        if self._needed:
            client = docker_client()
            client.networks.create(NETWORK, labels={NETWORK: ""}, check_duplicate=True)
            client.close()

    def __exit__(self, *_: object) -> None:
        if self._needed:
            client = docker_client()
            for network in client.networks.list(names=[NETWORK]):
                network.remove()
            client.close()
