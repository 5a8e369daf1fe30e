"""An episode of nim as a bundle, played and recorded in this process."""

from __future__ import annotations

import json
from pathlib import Path

from coworld_core.roles.report import zip_of
from coworld_core.rules import load_rules
from coworld_runner.kit.rollout import rollout

__all__ = ["NIM", "nim_bundle"]

NIM = Path(__file__).parents[2] / "examples" / "nim"


def nim_bundle(path: Path, *, seed: int = 3, player: str = "random_taker") -> Path:
    """Write the bundle of a game between two random players, or two of another name."""
    file = str(NIM / "players" / f"{player}.py")
    played = rollout(load_rules(f"{NIM / 'nim.py'}:Nim"), [file, file], seed=seed, record=True)
    assert played.replay is not None
    seats = [{"slot": slot, "policy_name": name} for slot, name in enumerate(("Ann", "Bob"))]
    files = {"results": "results.json", "replay": "replay", "metadata": "metadata.json", "player_logs": {"0": "0.log"}}
    manifest = {"ereq_id": "ereq_nim", "status": "success", "include": list(files), "files": files}
    contents = {
        "manifest.json": json.dumps(manifest).encode(),
        "results.json": json.dumps(played.results).encode(),
        "replay": played.replay,
        "metadata.json": json.dumps({"variant_id": "default", "players": seats}).encode(),
        "0.log": b"Error: no book of openings\n",
    }
    path.write_bytes(zip_of(contents))
    return path
