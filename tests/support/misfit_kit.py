"""The misfits package for tests: plans with misbehaving programs, its Docker image, and a search for leftovers.

Everything that a plan starts has the plan's mark in its environment, so that leftovers can be found without the labels
of the code under test.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import secrets
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from coworld_core.episode.events import BaseEvent, read_events
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.record import EpisodeRecord, read_record
from coworld_core.manifest.manifest_file import load_manifest
from coworld_core.manifest.models import Manifest, Runnable
from coworld_runner.package.plan import EpisodePlan, Seat
from coworld_runner.runs.scratch import scratch_root

from .images import docker_client, ensure_python_image

__all__ = [
    "MARK",
    "NOTHING_MORE",
    "PACKAGE",
    "PLACEHOLDER",
    "Evidence",
    "docker_leftovers",
    "ensure_image",
    "evidence",
    "leftovers",
    "marked_processes",
    "misfit_plan",
    "new_mark",
    "with_seats",
]

PACKAGE = Path(__file__).parent / "misfits"
"""The Coworld's directory; also the build context of its image, and the working directory of local processes."""
PLACEHOLDER = "{{MISFITS_IMAGE}}"
NOTHING_MORE = "and now nothing more"
"""The line that a misfit prints before it stops doing anything."""
MARK = "MISFITS_MARK"
"""The environment variable with the mark, in all units of a plan."""

Player = str | Sequence[str]
"""A behaviour of `player.py` with its arguments, as one string; or a whole command."""


@lru_cache
def _manifest(image: str) -> Manifest:
    template = json.loads((PACKAGE / "coworld_manifest_template.json").read_text().replace(PLACEHOLDER, image))
    return load_manifest(template, template=True).manifest


def new_mark() -> str:
    """A new unique mark."""
    return secrets.token_hex(8)


def misfit_plan(
    game: str = "well",
    *players: Player,
    image: str = PLACEHOLDER,
    mark: str = "",
    run: Sequence[str] = ("python3", "game.py"),
    secret_env: dict[str, str] | None = None,
    **config: Any,
) -> EpisodePlan:
    """A plan in which the game and the players have given behaviours.

    Args:
        game: A behaviour of `game.py`.
        players: The player in each seat; by default, two well-behaved players.
        image: The image of the game and the players.
        mark: The mark in their environment.
        run: The game's command.
        secret_env: Secrets of every player.
        config: Further keys of the game config.
    """
    commands = [
        ["python3", "player.py", *who.split()] if isinstance(who, str) else list(who)
        for who in players or ("well", "well")
    ]
    env = {MARK: mark} if mark else {}
    manifest = _manifest(image)
    runnable = Runnable(type="game", image=image, run=tuple(run), env=env)
    manifest = manifest.model_copy(update={"game": manifest.game.model_copy(update={"runnable": runnable})})
    seats = tuple(
        Seat(
            name=f"{' '.join(command[2:]) or command[0]}"[:40],
            runnable=Runnable(type="player", image=image, run=tuple(command), env=env),
            secret_env=secret_env or {},
        )
        for command in commands
    )
    names = [{"name": f"player {slot}"} for slot in range(len(seats))]
    return EpisodePlan(
        manifest=manifest,
        game_config={"players": names, "behaviour": game, **config},
        seats=seats,
        variant="misfit",
        source=str(PACKAGE),
    )


def with_seats(plan: EpisodePlan, seats: Sequence[Seat]) -> EpisodePlan:
    """A copy of a plan with other seats; the number of seats must be the same."""
    return dataclasses.replace(plan, seats=tuple(seats))


# --- evidence -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Evidence:
    """The evidence that a run left in its workspace, read from the files."""

    layout: EpisodeLayout
    record: EpisodeRecord
    events: tuple[BaseEvent, ...]

    def log(self, name: str) -> str:
        """A log by its path relative to the workspace."""
        return (self.layout.workspace / name).read_text(errors="replace")

    def player_log(self, slot: int) -> str:
        """A player's log."""
        return self.layout.player_log(slot).read_text(errors="replace")

    def of_kind(self, kind: str) -> list[Any]:
        """The events of one kind, in order."""
        return [event for event in self.events if getattr(event, "kind", "") == kind]

    def position(self, kind: str, **fields: object) -> int:
        """The number of the first event of a kind with these fields; 0 if there is none."""
        for event in self.of_kind(kind):
            if all(getattr(event, name) == value for name, value in fields.items()):
                return int(event.seq)
        return 0


def evidence(workspace: Path) -> Evidence:
    """Read a workspace, and check what must hold however the run ended."""
    layout = EpisodeLayout(workspace)
    record = read_record(workspace)
    events = read_events(workspace)
    assert [event.seq for event in events] == list(range(1, len(events) + 1)), "event numbers have gaps"
    assert all(event.run_id == record.run_id for event in events)
    assert events[0].kind == "run_started"  # type: ignore[attr-defined]
    assert events[-1].kind == "run_finished"  # type: ignore[attr-defined]
    found = Evidence(layout, record, events)
    assert [event.fault for event in found.of_kind("fault_seen")] == list(record.faults)
    begun, ended = ([event.phase for event in found.of_kind(kind)] for kind in ("phase_started", "phase_finished"))
    assert begun == ended, "a phase was not ended"
    assert record.leaks == (), record.leaks
    for artifact in record.artifacts:
        path = workspace / artifact.path
        assert path.stat().st_size == artifact.size
        assert hashlib.sha256(path.read_bytes()).hexdigest() == artifact.sha256
    hidden = [path.name for path in workspace.rglob(".*")]
    assert hidden == [], "temporary files were left in the workspace"
    assert "tokens" not in json.loads(layout.config.read_text()) if layout.config.exists() else True
    return found


# --- leftovers ----------------------------------------------------------------------------------------------------


def marked_processes(mark: str) -> list[int]:
    """Processes of this machine with a mark, including those in containers, but without zombies.

    Processes that dropped their environment have the mark in their arguments.
    """
    needle = f"{MARK}={mark}".encode()
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environment = (entry / "environ").read_bytes()
                arguments = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if needle in environment.split(b"\0") or mark.encode() in arguments:
                found.append(int(entry.name))
    return found


def leftovers(*, mark: str = "", run_ids: Sequence[str] = (), docker: bool = False) -> list[str]:
    """Descriptions of everything that runs have left behind on this machine."""
    left = [f"process {pid}: {_command(pid)}" for pid in marked_processes(mark)] if mark else []
    left += [f"directory {scratch_root() / run}" for run in run_ids if (scratch_root() / run).exists()]
    if docker:
        left += docker_leftovers(run_ids)
    return left


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return "gone by now"


def docker_leftovers(run_ids: Sequence[str]) -> list[str]:
    """Containers, networks and volumes whose name or labels belong to these runs."""
    client = docker_client()
    try:
        things: list[tuple[str, str, str]] = []
        for container in client.api.containers(all=True):
            things.append(("container", str(container["Names"]), json.dumps(container)))
        for network in client.api.networks():
            things.append(("network", network["Name"], json.dumps(network)))
        for volume in client.api.volumes()["Volumes"] or ():
            things.append(("volume", volume["Name"], json.dumps(volume)))
    finally:
        client.close()
    return [f"{kind} {name}" for kind, name, text in things if any(run in text for run in run_ids)]


@lru_cache
def ensure_image() -> str:
    """Build the package's image, unless one with the same content exists, and return its name."""
    files = {name: PACKAGE / name for name in ("game.py", "player.py")}
    return ensure_python_image("coworld-misfits", (PACKAGE / "Dockerfile").read_text(), files, [])
