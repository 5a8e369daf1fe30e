"""Plays with the network that `train.py` has trained, whose weights lie beside this file; it needs only Python."""

import json
import math
from pathlib import Path

WEIGHTS = Path(__file__).parent / "weights.json"
NETWORK = json.loads(WEIGHTS.read_text()) if WEIGHTS.is_file() else None

SHARPNESS = 3.0
"""How far it prefers its best actions: 1 plays as it did in training, which tried things out."""


def features(seen, name=""):
    """The numbers that an observation consists of, by name: `{"left": 3}` has `/left` and, as it is whole, `/left=3`.

    This is what the network learns from: change it to what matters in your game, and train again.
    """
    if isinstance(seen, dict):
        parts = seen.items()
    elif isinstance(seen, list) or (isinstance(seen, str) and len(seen) != 1):
        parts = enumerate(seen)
    elif isinstance(seen, float):
        return {name: seen}
    else:
        return {f"{name}={seen}": 1.0, **({name: float(seen)} if isinstance(seen, int) else {})}
    return {key: number for part, inner in parts for key, number in features(inner, f"{name}/{part}").items()}


def encode(seen, inputs):
    """What the network is given: the number of each input, divided by its scale; 0 where the observation has none."""
    found = features(seen)
    return [found.get(name, 0.0) / scale for name, scale in inputs.items()]


def evaluate(values, layers):
    """The output of a network whose layers are pairs of weights, one row for each neuron, and biases."""
    for number, (weights, biases) in enumerate(layers):
        if number:
            values = [math.tanh(value) for value in values]
        values = [bias + sum(map(float.__mul__, row, values)) for row, bias in zip(weights, biases, strict=True)]
    return values


def act(observation, legal, rng):
    """Choose one of the legal actions; any of them, or none where none are listed, as long as nothing is learnt."""
    if NETWORK is None:
        return rng.choice(legal) if legal else None
    actions = NETWORK["actions"]
    worth = evaluate(encode(observation, NETWORK["inputs"]), NETWORK["layers"])
    possible = [number for number, action in enumerate(actions) if legal is None or action in legal]
    best = max(worth[number] for number in possible)
    chances = [math.exp(SHARPNESS * (worth[number] - best)) for number in possible]
    return actions[rng.choices(possible, chances)[0]]
