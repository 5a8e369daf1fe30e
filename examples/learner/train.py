"""Learns a game of the kit by PPO, and leaves checkpoints, each of which is a player: `main.py` with weights beside it.

    python train.py --opponent random --steps 100000 --every 20000
    coworld compare ./run ./run@step-0 -m GAME

It needs PyTorch and `coworld-runner[env]`; the checkpoints need neither.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import time
from collections import Counter, deque
from functools import partial
from pathlib import Path

import main as player
import numpy as np
import torch
from gymnasium import spaces
from torch import nn
from torch.distributions import Categorical

from coworld_core.rules import load_rules
from coworld_runner import rollout
from coworld_runner.kit.rollout import as_vector_env

HERE = Path(__file__).resolve().parent
GAME = HERE.parent / "nim" / "nim.py"
CLASS = "Nim"
"""The file of the rules, and their class."""

STEPS, EPOCHS, PARTS = 32, 4, 4
"""Moves of each row before the network learns from them, how often it looks at them, and in how many parts."""
GAMMA, LAMBDA = 1.0, 0.95
CLIP, ENTROPY, VALUE, LONGEST = 0.2, 0.01, 0.5, 0.5
"""The limits of an update, and the weights of what it is to improve besides the choice of actions."""
MOST_INPUTS = 2000


class Network(nn.Module):
    """Two layers, from which both the choice of an action and the value of the position follow."""

    def __init__(self, inputs: int, actions: int, width: int = 64) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(inputs, width), nn.Linear(width, width)
        self.choice, self.value = nn.Linear(width, actions), nn.Linear(width, 1)
        for layer, gain in ((self.first, 1.4), (self.second, 1.4), (self.choice, 0.01), (self.value, 1.0)):
            nn.init.orthogonal_(layer.weight, gain)
            nn.init.zeros_(layer.bias)

    def forward(self, seen: torch.Tensor, mask: torch.Tensor) -> tuple[Categorical, torch.Tensor]:
        """Return the chances of the legal actions, and the score that is expected."""
        inner = torch.tanh(self.second(torch.tanh(self.first(seen))))
        worth = self.choice(inner).masked_fill(~mask, -1e9)
        return Categorical(logits=worth, validate_args=False), self.value(inner).squeeze(-1)

    def save(self, place: Path, inputs: dict[str, float], actions: list[object]) -> None:
        """Write a checkpoint, which is there only once it is whole."""
        layers = [
            [[[round(weight, 5) for weight in row] for row in layer.weight.tolist()], layer.bias.tolist()]
            for layer in (self.first, self.second, self.choice)
        ]
        half = place.with_name(f".{place.name}")
        half.mkdir(parents=True)
        shutil.copy(player.__file__, half / "main.py")
        (half / "weights.json").write_text(json.dumps({"inputs": inputs, "actions": actions, "layers": layers}))
        half.rename(place)


def watch(rules, games: int = 200) -> dict[str, float]:
    """Play random games, and return what there is to see in them, with the largest number of each."""
    times, scales = Counter[str](), dict[str, float]()

    def look(observation, legal, rng):
        for name, number in player.features(observation).items():
            times[name] += 1
            scales[name] = max(scales.get(name, 0.0), abs(number))
        return rng.choice(legal) if legal else None

    for seed in range(games):
        rollout(rules, look, seed=seed)
    return {name: scales[name] or 1.0 for name, _ in times.most_common(MOST_INPUTS)}


class Table:
    """Rows of games, as many for each seat, against opponents that are dealt out over them.

    Args:
        rules: The game.
        rows: How many games at a time.
        inputs: What the network is given.
        processes: How many processes play them; 1: this one.
    """

    def __init__(self, rules, rows: int, inputs: dict[str, float], processes: int) -> None:
        self.each = max(rows // rules.seats, 1)
        box = spaces.Box(-np.inf, np.inf, (len(inputs),), np.float32)
        how = {"observe": partial(player.encode, inputs=inputs), "space": box, "processes": processes}
        self.seats = [
            as_vector_env(rules, self.each, seat=seat, autoreset_mode="SameStep", **how) for seat in range(rules.seats)
        ]
        self.scores = deque[float](maxlen=500)
        self.rows = self.each * len(self.seats)

    def reset(self, opponents: list[str], seed: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Begin all games anew, against these opponents."""
        found = []
        for seat, games in enumerate(self.seats):
            if seed is not None:
                games.reset(seed=seed + seat * self.each)
            for number, opponent in enumerate(opponents):
                some = np.arange(self.each) % len(opponents) == number
                if some.any():
                    seen, _ = games.reset(options={"opponents": opponent, "reset_mask": some})
            found.append(seen)
        return self._seen(found)

    def step(self, actions: np.ndarray) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Move in all games; returns what is seen then, the masks, the rewards, and which games are over."""
        done = [games.step(own) for games, own in zip(self.seats, np.split(actions, len(self.seats)), strict=True)]
        for seat, (*_, infos) in enumerate(done):
            if ended := infos.get("final_info"):
                self.scores.extend(ended["scores"][ended["_scores"], seat])
        rewards = torch.from_numpy(np.concatenate([reward for _, reward, *_ in done])).float()
        over = torch.from_numpy(np.concatenate([ended | cut for _, _, ended, cut, _ in done]))
        return *self._seen([seen for seen, *_ in done]), rewards, over

    def _seen(self, found) -> tuple[torch.Tensor, torch.Tensor]:
        whole, mask = (np.concatenate([seen[key] for seen in found]) for key in ("observation", "action_mask"))
        return torch.from_numpy(whole), torch.from_numpy(mask).bool()


def learn(
    network: Network, optimizer: torch.optim.Optimizer, moves: dict[str, torch.Tensor], last: torch.Tensor
) -> float:
    """Improve a network by the moves of all rows; returns how undecided it still is.

    Args:
        network: The network.
        optimizer: What changes it.
        moves: By move and row: what was seen, the mask, the action and its chance, the value expected, the reward, and
            whether the game was over.
        last: The value expected after the last move.
    """
    gained, ahead = torch.zeros_like(moves["reward"]), torch.zeros_like(last)
    for move in reversed(range(STEPS)):
        goes_on = 1.0 - moves["over"][move].float()
        surprise = moves["reward"][move] + GAMMA * last * goes_on - moves["value"][move]
        gained[move] = ahead = surprise + GAMMA * LAMBDA * ahead * goes_on
        last = moves["value"][move]
    flat = {name: moved.flatten(0, 1) for name, moved in {**moves, "gained": gained}.items()}
    for _ in range(EPOCHS):
        for part in torch.randperm(len(flat["gained"])).chunk(PARTS):
            some = {name: moved[part] for name, moved in flat.items()}
            chances, value = network(some["seen"], some["mask"])
            ratio = (chances.log_prob(some["action"]) - some["chance"]).exp()
            gain = (some["gained"] - some["gained"].mean()) / (some["gained"].std() + 1e-8)
            better = torch.min(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain).mean()
            missed = (value - some["gained"] - some["value"]).square().mean()
            undecided = chances.entropy().mean()
            optimizer.zero_grad()
            (VALUE * missed - better - ENTROPY * undecided).backward()
            nn.utils.clip_grad_norm_(network.parameters(), LONGEST)
            optimizer.step()
    return undecided.item()


def dealt(named: list[str], checkpoints: list[Path], rng: random.Random) -> list[str]:
    """The opponents until the next checkpoint: those that were named, where `self` is two earlier checkpoints."""
    found: list[str] = []
    for name in named:
        found += [str(checkpoints[-1]), str(rng.choice(checkpoints))] if name == "self" else [name]
    return found


def train(options: argparse.Namespace) -> None:
    """Train until the number of steps is reached."""
    if options.run.exists():
        sys.exit(f"{options.run} is there already. Name another directory with --run, or remove it.")
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    rng, rules = random.Random(options.seed), load_rules(options.game)
    inputs = watch(rules)
    table = Table(rules, options.rows, inputs, options.processes)
    encoding = table.seats[0].encoding
    actions = [encoding.action(number, None) for number in range(table.seats[0].single_action_space.n)]
    network = Network(len(inputs), len(actions))
    optimizer = torch.optim.Adam(network.parameters(), lr=options.rate, eps=1e-5)
    checkpoints: list[Path] = []
    step, due, undecided, began = 0, 0, float("nan"), time.perf_counter()
    seen, mask = torch.empty(0), torch.empty(0)
    while True:
        if step >= due or step >= options.steps:
            checkpoints.append(options.run / f"step-{step}")
            network.save(checkpoints[-1], inputs, actions)
            score = f"score {np.mean(table.scores):.2f}" if table.scores else "untrained"
            speed = step / (time.perf_counter() - began)
            print(f"{checkpoints[-1]}  {score}  entropy {undecided:.2f}  {speed:,.0f} steps/s", flush=True)
            if step >= options.steps:
                break
            due += options.every
            opponents = dealt(options.opponent or ["random"], checkpoints, rng)
            seen, mask = table.reset(opponents, options.seed if step == 0 else None)
            table.scores.clear()
        kept: dict[str, list[torch.Tensor]] = {}
        with torch.no_grad():
            for _ in range(STEPS):
                chances, value = network(seen, mask)
                action = chances.sample()
                now = {"seen": seen, "mask": mask, "action": action, "chance": chances.log_prob(action), "value": value}
                seen, mask, now["reward"], now["over"] = table.step(action.numpy())
                for name, moved in now.items():
                    kept.setdefault(name, []).append(moved)
            last = network(seen, mask)[1]
        undecided = learn(network, optimizer, {name: torch.stack(moved) for name, moved in kept.items()}, last)
        step += STEPS * table.rows
        optimizer.param_groups[0]["lr"] = options.rate * max(1 - step / options.steps, 0.05)


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--game", default=f"{GAME}:{CLASS}", metavar="FILE:CLASS", help="the rules to learn")
    parser.add_argument(
        "--opponent",
        action="append",
        metavar="PLAYER",
        help="random, the file of a player, or self: earlier checkpoints of this run; repeatable [default: random]",
    )
    parser.add_argument("--steps", type=int, default=100_000, help="how many moves to learn from")
    parser.add_argument("--every", type=int, default=20_000, help="moves between checkpoints")
    parser.add_argument("--run", type=Path, default=HERE / "run", help="where checkpoints go: a new directory")
    parser.add_argument("--rows", type=int, default=64, help="games at a time")
    parser.add_argument("--processes", type=int, default=1, help="processes that play them")
    parser.add_argument("--rate", type=float, default=2e-3, help="learning rate")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    train(options())
