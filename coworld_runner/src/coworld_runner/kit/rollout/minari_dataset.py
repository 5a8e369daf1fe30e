"""Writes recorded samples as a dataset of Minari, for offline reinforcement learning."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from coworld_core.episode.record import EpisodeRecord
from coworld_core.errors import UsageError
from coworld_core.records.samples import RecordedSample, iter_samples
from coworld_core.rules import Play, Rules, RulesConfig, action_schema, rules_config
from coworld_core.rules.rules_schemas import observation_schema

from ...errors import extra_missing
from .seat_spaces import Observe, SeatEncoding

try:
    import minari
    import numpy as np
    from gymnasium import Space, spaces
    from minari.data_collector import EpisodeBuffer
    from minari.dataset.minari_dataset import parse_dataset_id
    from minari.storage import get_dataset_path
except ModuleNotFoundError as error:
    raise extra_missing("Datasets need", str(error.name), extra="minari", code="minari_missing") from error

__all__ = ["MinariDataset", "to_minari"]

_STORED = (spaces.Discrete, spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary)
"""Spaces of actions that every reader of such a dataset knows."""


@dataclass(frozen=True, kw_only=True)
class MinariDataset:
    """What was written; `minari.load_dataset(name)` reads it."""

    name: str
    directory: Path
    episodes: int
    """Number of episodes in it: one for each seat of each recorded one."""
    steps: int
    skipped: int
    """Number of them that were left out, because they were cut short."""


def to_minari(
    name: str,
    recorded: Iterable[str | os.PathLike[str] | EpisodeRecord],
    rules: type[Rules],
    *,
    seat: int | None = None,
    config: RulesConfig | Mapping[str, Any] | None = None,
    seats: int | None = None,
    actions: Sequence[Any] | None = None,
    observe: Observe | None = None,
    space: Space[Any] | None = None,
) -> MinariDataset:
    """Write samples as a dataset of Minari: an episode for each seat of each recorded episode.

    Observations are one vector each, as in `as_vector_env`, and actions have the numbers that they have there; masks of
    legal actions are `infos["action_mask"]`. A reward that is not known before the end of a game is 0, because Minari
    knows no other. Episodes that were cut short are left out. Memory does not grow with their number.

    Args:
        name: Id of the dataset, such as `nim/counter-v0`. It is written where Minari looks for datasets
            (`MINARI_DATASETS_PATH`).
        recorded: Workspaces, records or files of episodes with samples.
        rules: The game.
        seat: The only seat to write; None: all.
        config: The config that the spaces are made for.
        seats: The number of seats that they are made for.
        actions: All actions, if their type does not bound them, as for `as_gym_env`.
        observe: As for `as_gym_env`.
        space: As for `as_gym_env`.

    Raises:
        UsageError: There is a dataset of that name (`dataset_exists`), it is no name for one (`bad_name`), the place
            for datasets is relative (`bad_path`), there is no complete episode (`no_samples`), or the spaces cannot be
            determined or stored (`no_space`). Then nothing is left of it.
    """
    encoding = _encoding(rules, config, seats, actions, observe, space)
    directory = _place(name)
    told = _Counts()
    buffers = _buffers(recorded, encoding, seat, told)
    first = next(buffers, None)
    if first is None:
        why = f": {told.skipped} were cut short" if told.skipped else ""
        raise UsageError(f"There is no complete episode with samples{why}.", code="no_samples")
    try:
        with warnings.catch_warnings():
            # It would like to know who made it, and from which code
            warnings.simplefilter("ignore", UserWarning)
            minari.create_dataset_from_buffers(
                name,
                chain([first], buffers),  # pyright: ignore[reportArgumentType] - it goes through them once
                observation_space=encoding.observations.space,
                action_space=encoding.actions.space,
                algorithm_name="coworld",
                description=f"Recorded episodes of {rules.__name__} {rules.version}.",
                data_format="arrow",
            )
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    return MinariDataset(name=name, directory=directory, episodes=told.episodes, steps=told.steps, skipped=told.skipped)


@dataclass
class _Counts:
    episodes: int = 0
    steps: int = 0
    skipped: int = 0


def _encoding(
    rules: type[Rules],
    config: RulesConfig | Mapping[str, Any] | None,
    seats: int | None,
    actions: Sequence[Any] | None,
    observe: Observe | None,
    space: Space[Any] | None,
) -> SeatEncoding:
    play = Play(rules, config=rules_config(rules, config), seats=seats)
    encoding = SeatEncoding.of(
        action_schema(rules),
        observation_schema(rules),
        lambda: play.observation(0),
        name=rules.__name__,
        actions=actions,
        observe=observe,
        space=space,
        mask="info",
        flat=True,
    )
    if not isinstance(encoding.actions.space, _STORED):
        kind = type(encoding.actions.space).__name__
        raise UsageError(
            f"An action of {rules.__name__} is no number and no array of numbers, but {kind}.",
            code="no_space",
            hint="Give actions=[…] with all actions.",
        )
    return encoding


def _place(name: str) -> Path:
    """Where a dataset of that name is written."""
    try:
        parse_dataset_id(name)
    except ValueError as error:
        raise UsageError(
            f"{name!r} is no name of a dataset: {error}.", code="bad_name", hint="Name it like nim/counter-v0."
        ) from None
    place = Path(get_dataset_path(name))
    if not place.is_absolute():
        raise UsageError(
            f"Minari's datasets are at {place.parent}, and it needs an absolute path.",
            code="bad_path",
            hint="Set MINARI_DATASETS_PATH to an absolute path.",
        )
    if place.exists():
        raise UsageError(
            f"There is a dataset {name} in {place}.",
            code="dataset_exists",
            hint="Raise the number at the end of its name, or remove it with minari.delete_dataset.",
        )
    return place


def _buffers(
    recorded: Iterable[str | os.PathLike[str] | EpisodeRecord], encoding: SeatEncoding, seat: int | None, told: _Counts
) -> Iterator[EpisodeBuffer]:
    for source in recorded:
        turns: dict[int, list[RecordedSample]] = {}
        for sample in iter_samples(source):
            if seat in (None, sample.seat):
                turns.setdefault(sample.seat, []).append(sample)
        for samples in turns.values():
            if not samples[-1].done or samples[-1].next_observation is None:
                told.skipped += 1
                continue
            yield _buffer(samples, encoding)
            told.episodes += 1
            told.steps += len(samples)


def _buffer(samples: Sequence[RecordedSample], encoding: SeatEncoding) -> EpisodeBuffer:
    last = samples[-1]
    seen = [*(sample.observation for sample in samples), last.next_observation]
    try:
        observations = np.stack([encoding.observations.encode(one) for one in seen])
        actions = np.stack([encoding.actions.encode(sample.action) for sample in samples])
    except (LookupError, TypeError, ValueError) as error:
        raise UsageError(
            f"Episode {last.episode}: a value does not fit the spaces: {error}.",
            code="no_space",
            hint="Give the config and the number of seats that it was played with, or observe= and space=.",
        ) from None
    infos: dict[str, Any] = {}
    if encoding.actions.masks:
        masks = [encoding.actions.mask(sample.legal) for sample in samples]
        infos["action_mask"] = np.stack([*masks, np.zeros_like(masks[-1])])
    return EpisodeBuffer(
        options={"episode": last.episode, "seat": last.seat, "name": last.name},
        observations=observations,  # pyright: ignore[reportArgumentType] - an array is as good as a list
        actions=actions,  # pyright: ignore[reportArgumentType]
        rewards=[sample.reward or 0.0 for sample in samples],
        terminations=[sample.done for sample in samples],
        truncations=[False] * len(samples),
        infos=infos,
    )
