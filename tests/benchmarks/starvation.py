"""How well the flag `starved` identifies episodes whose result was changed by a busy machine.

A game with a known correct result runs beside programs that keep the processors busy, all the time or in bursts. With
ticks, a late answer loses a point; with moves, it loses nothing. Each episode shows whether its result was correct and
whether it was flagged; the figures are the flagged shares of changed and of unchanged results.

    python tests/benchmarks/starvation.py --backend process docker --episodes 100
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from _measure import HERE, finish, machine, python, show

sys.path.insert(0, str(HERE.parent))
from support.images import ensure_python_image

from coworld_core.manifest.loading import load_manifest
from coworld_core.manifest.models import Manifest, Runnable
from coworld_runner.backend import Backend
from coworld_runner.backends.docker.backend import DockerBackend
from coworld_runner.backends.process.backend import ProcessBackend
from coworld_runner.episode.running import EpisodeOptions, run_episode
from coworld_runner.plan import EpisodePlan, Seat

GAME = HERE / "keepup"
IMAGE = "keepup:latest"
DOCKERFILE = """
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
ENV PYTHONPATH=/opt/site PYTHONUNBUFFERED=1
COPY site /opt/site
WORKDIR /opt/keepup
COPY game.py player.py ./
RUN python3 -c "import game, player"
ENV PYTHONDONTWRITEBYTECODE=1
"""
STEADY = "while True: pass"
BURSTS = """
import random, time
while True:
    end = time.monotonic() + random.uniform(0.05, 0.4)
    while time.monotonic() < end: pass
    time.sleep(random.uniform(0.3, 2.0))
"""
SECONDS = 2.5
"""Duration of a game on a quiet machine."""
TICKS = [(rate, work) for rate in (5, 10, 20, 50) for work in (0.0, 0.1, 0.3)]
"""Ticks per second, and the share of each tick during which a player works."""
MOVES = [0.0, 0.01, 0.05]
"""Seconds for which a player works on each move."""


@dataclass(frozen=True)
class Played:
    """One episode."""

    backend: str
    game: str
    load: int
    bursts: bool
    lost: int
    """Lost points."""
    starved: bool | None
    share: float | None
    unit: str | None
    faults: int


def manifest(image: str) -> Manifest:
    """The game and its player."""
    number, text = {"type": "number"}, {"type": "text", "value": "See game.py."}
    names = {"players": [{"name": "a"}, {"name": "b"}]}
    config = {"rounds": 1, "work": 0, **names}
    keys = {"rounds": {"type": "integer"}, "work": number, "tick_rate": number, "seconds_per_move": number}
    people = {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}}
    tokens = {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}
    shape = {"type": "object", "required": ["tokens"], "properties": {"tokens": tokens, "players": people, **keys}}
    scores = {"type": "object", "required": ["scores"], "properties": {"scores": {"type": "array", "items": number}}}
    schemas = {"config_schema": shape, "results_schema": scores}
    entry = {"name": "keepup", "description": "Answers in time count.", "owner": "tests@example.org", **schemas}
    runs = {"type": "game", "image": image, "run": ["python3", "game.py"]}
    told = {"protocols": {"player": text, "global": text}, "docs": {"readme": text}}
    player = {"id": "echo", "name": "Echo", "type": "player", "description": "Answers.", "image": image}
    document = {
        "game": {**entry, "runnable": runs, **told},
        "player": [{**player, "run": ["python3", "player.py"]}],
        "variants": [{"id": "default", "name": "Default", "description": "One round.", "game_config": config}],
        "certification": {"game_config": config, "players": [{"player_id": "echo"}] * 2},
    }
    return load_manifest(document, template=True).manifest


def plan(image: str, config: dict[str, Any]) -> EpisodePlan:
    """An episode with two players, who work on each answer as long as the config says."""
    runs = Runnable(type="player", image=image, run=("python3", "player.py"))
    return EpisodePlan(
        manifest=manifest(image),
        game_config={**config, "players": [{"name": "a"}, {"name": "b"}]},
        seats=tuple(Seat(name=name, runnable=runs, secret_env={}) for name in "ab"),
        variant="benchmark",
        source=str(GAME),
    )


@contextmanager
def busy(load: int, *, bursts: bool) -> Generator[None]:
    """Keep ``load`` processors busy."""
    programs = [subprocess.Popen([python(), "-c", BURSTS if bursts else STEADY]) for _ in range(load)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


async def played(backend: Backend, image: str, chance: random.Random, loads: list[int], where: Path) -> Played:
    """Play one episode of a random game under a random load."""
    load, bursts = chance.choice(loads), chance.random() < 0.3
    if chance.random() < 0.3:
        work = chance.choice(MOVES)
        name, config = f"moves, {work:g} s each", {"rounds": 40, "seconds_per_move": 30, "work": work}
    else:
        rate, share = chance.choice(TICKS)
        name = f"{rate} ticks/s, {share:.0%} work"
        config = {"rounds": max(15, round(SECONDS * rate)), "tick_rate": rate, "work": share / rate}
    with busy(load, bursts=bursts):
        options = EpisodeOptions(timeout_seconds=300)
        record = await run_episode(plan(image, config), backend=backend, workspace=where, options=options)
    seen = record.starvation
    return Played(
        backend=backend.name,
        game=name,
        load=load,
        bursts=bursts,
        lost=int(2 * config["rounds"] - sum(record.scores)),
        starved=seen.starved if seen is not None else None,
        share=seen.waited_share if seen is not None else None,
        unit=seen.unit if seen is not None else None,
        faults=len(record.faults),
    )


async def all_played(name: str, episodes: int, loads: list[int], seed: int, *, aloud: bool) -> list[Played]:
    """Play a number of episodes on a backend; returns those without faults."""
    found: list[Played] = []
    chance = random.Random(seed)
    async with AsyncExitStack() as stack:
        where = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        image, backend = IMAGE, await stack.enter_async_context(ProcessBackend(contexts={IMAGE: GAME}))
        if name == "docker":
            files = {file: GAME / file for file in ("game.py", "player.py")}
            image = ensure_python_image("coworld-benchmark-keepup", DOCKERFILE, files, ["websockets"])
            backend = await stack.enter_async_context(DockerBackend())
        for number in range(episodes):
            found.append(await played(backend, image, chance, loads, where / str(number)))
            if aloud:
                print(json.dumps(asdict(found[-1])), flush=True)
    return [one for one in found if not one.faults]


def share(found: list[Played]) -> str:
    """The number and share of flagged episodes, as text."""
    flagged, unknown = sum(one.starved is True for one in found), sum(one.starved is None for one in found)
    rate = f"{flagged / len(found):.0%}" if found else "–"
    return f"{flagged} of {len(found)} ({rate})" + (f", {unknown} unknown" if unknown else "")


def tell(found: list[Played]) -> None:
    """Print the tables."""
    by_load: dict[tuple[str, int], list[Played]] = defaultdict(list)
    by_kind: dict[tuple[str, bool], list[Played]] = defaultdict(list)
    for one in found:
        by_load[one.backend, one.load].append(one)
        by_kind[one.backend, "moves" in one.game].append(one)
    for title, groups in (
        ("by load", {f"{backend}, {load} beside it": ones for (backend, load), ones in sorted(by_load.items())}),
        ("by kind", {f"{name}, {'moves' if moves else 'ticks'}": ones for (name, moves), ones in by_kind.items()}),
    ):
        rows = [
            [label, len(ones), share([one for one in ones if one.lost]), share([one for one in ones if not one.lost])]
            for label, ones in groups.items()
        ]
        show(title, ["", "episodes", "changed, flagged", "unchanged, flagged"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=["process", "docker"], nargs="+", default=["process"])
    parser.add_argument("--episodes", type=int, default=100, help="on each backend")
    parser.add_argument("--loads", type=int, nargs="+", default=[0, 2, 4, 8, 16], help="programs beside the episode")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--aloud", action="store_true", help="print each episode")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: list[Played] = []
    for backend in options.backend:
        play = partial(all_played, backend, options.episodes, options.loads, options.seed, aloud=options.aloud)
        found += anyio.run(play)
    tell(found)
    figures = {"benchmark": "starvation", "machine": machine(), "episodes": [asdict(one) for one in found]}
    finish(figures, as_json=options.json)


if __name__ == "__main__":
    main()
