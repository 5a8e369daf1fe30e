"""Recorded samples as a dataset that Minari reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

minari = pytest.importorskip("minari")

from support.nim_episode import NIM  # noqa: E402
from support.served_game import Sticks, Talk  # noqa: E402

from coworld_core import iter_samples  # noqa: E402
from coworld_core.errors import UsageError  # noqa: E402
from coworld_core.records.samples import SAMPLES_FORMAT  # noqa: E402
from coworld_core.rules import Play, load_rules  # noqa: E402
from coworld_runner import EpisodeOptions, run_episode  # noqa: E402
from coworld_runner.kit.rollout import as_gym_env, to_minari  # noqa: E402


@pytest.fixture(autouse=True)
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    return tmp_path / "datasets"


def leave_samples(place: Path, *, sticks: int = 6, whole: bool = True) -> Path:
    """Write the samples of a game in which each seat takes one stick."""
    lines: list[Mapping[str, Any]] = [{"format": SAMPLES_FORMAT, "episode": place.name, "names": ["a", "b"]}]
    for tick in range(sticks):
        legal = [{"take": number} for number in range(1, min(3, sticks - tick) + 1)]
        seen = {"left": sticks - tick}
        turn = {"tick": tick, "time": 1.0, "seat": tick % 2, "observation": seen, "legal": legal}
        lines.append({**turn, "action": {"take": 1}, "acted": True})
    if whole:
        lines += [{"final": True, "tick": sticks, "seat": seat, "observation": {"left": 0}} for seat in (0, 1)]
        lines.append({"end": "over", "complete": True, "scores": [0.0, 1.0]})
    place.mkdir()
    (place / "samples.ndjson").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return place


async def test_a_recorded_game_of_nim_is_read_by_minari(tmp_path: Path) -> None:
    record = await run_episode(
        NIM,
        players=["counter", "random"],
        seed=3,
        backend="process",
        workspace=tmp_path / "out",
        options=EpisodeOptions(record="samples"),
    )
    nim = load_rules(f"{NIM / 'nim.py'}:Nim")
    done = to_minari("nim/recorded-v0", [record], nim, seat=0)
    assert (done.episodes, done.skipped) == (1, 0)
    dataset = minari.load_dataset("nim/recorded-v0")
    assert (dataset.total_episodes, dataset.total_steps) == (1, done.steps)
    samples = [one for one in iter_samples(record) if one.seat == 0]
    (episode,) = dataset.iterate_episodes()
    # An environment of the same game has the same spaces, and sees and does the same
    environment = as_gym_env(nim, opponents="random", mask="info")
    assert dataset.action_space == environment.action_space
    actions = [{"take": 1}, {"take": 2}, {"take": 3}]
    assert [actions[number] for number in episode.actions] == [one.action for one in samples]
    assert list(episode.rewards) == [*[0.0] * (len(samples) - 1), record.scores[0]]
    assert list(episode.terminations) == [one.done for one in samples]
    assert len(episode.observations) == len(samples) + 1
    assert all(dataset.observation_space.contains(seen) for seen in episode.observations)
    masks = episode.infos["action_mask"]
    assert [int(mask.sum()) for mask in masks] == [*[len(one.legal or ()) for one in samples], 0]
    (told,) = dataset.storage.get_episode_metadata([0])
    assert told["options"] == {"episode": record.run_id, "seat": 0, "name": record.slots[0].name}


def test_episodes_that_were_cut_short_are_left_out(tmp_path: Path) -> None:
    whole, cut = leave_samples(tmp_path / "whole"), leave_samples(tmp_path / "cut", whole=False)
    done = to_minari("sticks-v0", [cut, whole], Sticks)
    assert (done.episodes, done.steps, done.skipped) == (2, 6, 2)
    with pytest.raises(UsageError) as caught:
        to_minari("none-v0", [cut], Sticks)
    assert caught.value.code == "no_samples"
    assert "2 were cut short" in caught.value.message


def test_what_fits_no_dataset_is_refused_and_leaves_nothing(
    tmp_path: Path, datasets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = leave_samples(tmp_path / "whole")
    with pytest.raises(UsageError) as caught:
        to_minari("talk-v0", [whole], Talk)
    assert caught.value.code == "no_space"
    with pytest.raises(UsageError) as caught:
        to_minari("no name", [whole], Sticks)
    assert caught.value.code == "bad_name"
    with monkeypatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", "datasets")
        patch.chdir(tmp_path)
        with pytest.raises(UsageError) as caught:
            to_minari("sticks-v0", [whole], Sticks)
    assert caught.value.code == "bad_path"
    large = leave_samples(tmp_path / "large", sticks=9)
    spoilt = (large / "samples.ndjson").read_text().replace('"take": 1}, "acted"', '"take": 7}, "acted"')
    (large / "samples.ndjson").write_text(spoilt)
    with pytest.raises(UsageError) as caught:
        to_minari("sticks-v0", [whole, large], Sticks)
    assert caught.value.code == "no_space"
    assert not (datasets / "sticks-v0").exists()
    assert to_minari("sticks-v0", [whole], Sticks).directory == datasets / "sticks-v0"
    with pytest.raises(UsageError) as caught:
        to_minari("sticks-v0", [whole], Sticks)
    assert caught.value.code == "dataset_exists"
    assert minari.load_dataset("sticks-v0").total_episodes == 2
    assert Play(Sticks).seats == 2
