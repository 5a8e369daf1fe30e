"""Rollouts and episodes as tasks of Ray, as the page shows them, on a real cluster of one machine."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import ray
from support.page_files import write_file_of

from coworld_core.rules import load_rules
from coworld_core.scopes import load_file
from coworld_runner import rollouts

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cluster() -> Generator[None]:
    """A cluster whose workers run in the repository, with the packages of this interpreter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        # Workers would make an environment each, as `uv run` is how this one was made
        patch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
        with ray.init(num_cpus=2, include_dashboard=False, configure_logging=False):
            yield


def page(name: str, directory: Path) -> Any:
    return load_file(write_file_of("ray.md", name, directory))


def test_tasks_play_the_same_games_as_this_process(cluster: None, tmp_path: Path) -> None:
    shown = page("ray_rollouts.py", tmp_path)
    scores = shown.main(tasks=3, episodes=5)
    players = [shown.COUNTER, "random"]
    assert scores == [done.scores for done in rollouts(load_rules(shown.GAME), players, episodes=15, seed=0)]


def test_an_episode_is_a_task_whose_record_comes_back(cluster: None, tmp_path: Path) -> None:
    records = page("ray_episodes.py", tmp_path).main(str(tmp_path / "played"), episodes=2)
    assert [(record.ok, record.seed) for record in records] == [(True, 0), (True, 1)]
    assert all((record.layout.replay).is_file() for record in records)
