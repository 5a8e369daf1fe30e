"""What an episode plays, from a package and what was asked for."""

from __future__ import annotations

import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from coworld_core.errors import ManifestError, UsageError
from coworld_core.request import load_request
from coworld_runner.packages import Package, resolve_package
from coworld_runner.plan import plan_episode, plan_for_people

TEMPLATE = Path(__file__).parents[2] / "examples" / "paintarena" / "coworld_manifest_template.json"


async def package(tmp_path: Path, **changes: Any) -> Package:
    document = json.loads(TEMPLATE.read_text())
    document["game"]["version"] = "1.0"
    for section in (document["game"]["runnable"], *document["player"]):
        section["image"] = "paintarena:1"
    for config in (document["certification"]["game_config"], document["variants"][0]["game_config"]):
        config |= changes
    path = tmp_path / "coworld_manifest.json"
    path.write_text(json.dumps(document))
    return await resolve_package(path)


async def test_the_certification_fixture_is_the_default(tmp_path: Path) -> None:
    plan = plan_episode(await package(tmp_path))
    assert plan.variant == "certification"
    assert [seat.player_id for seat in plan.seats] == ["sweep-painter", "frontier-painter"]
    assert "tokens" not in plan.game_config


async def test_players_are_ids_or_images(tmp_path: Path) -> None:
    plan = plan_episode(await package(tmp_path), variant="quick", players=["frontier-painter", "mine:2"])
    first, second = plan.seats
    assert first.player_id == "frontier-painter"
    assert first.runnable is not None
    assert first.runnable.run[-1].endswith("frontier")
    assert second.player_id is None
    assert second.runnable is not None
    assert second.runnable.image == "mine:2"


async def test_one_player_sits_in_every_seat(tmp_path: Path) -> None:
    plan = plan_episode(await package(tmp_path), players=["mine:2"], run=["python", "me.py"])
    assert [seat.runnable.image for seat in plan.seats if seat.runnable] == ["mine:2", "mine:2"]
    assert all(seat.runnable.run == ("python", "me.py") for seat in plan.seats if seat.runnable)


async def test_seats_are_left_to_people_without_secrets(tmp_path: Path) -> None:
    plan = plan_episode(await package(tmp_path), humans=[1], secret_env={"KEY": "hunter2"})
    assert plan.seats[1].runnable is None
    assert plan.seats[1].secret_env == {}
    assert plan.seats[0].secret_env == {"KEY": "hunter2"}
    assert "hunter2" not in repr(plan)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"variant": "defualt"}, "unknown_variant"),
        ({"players": ["a:1", "b:1", "c:1"]}, "wrong_image_count"),
        ({"run": ["python"]}, "run_without_image"),
        ({"humans": [2]}, "unknown_seat"),
    ],
)
async def test_what_cannot_be_meant_is_refused(tmp_path: Path, asked: dict[str, Any], code: str) -> None:
    with pytest.raises(UsageError) as refused:
        plan_episode(await package(tmp_path), **asked)
    assert refused.value.code == code


async def test_an_unknown_variant_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        plan_episode(await package(tmp_path), variant="defualt")
    assert "default" in f"{refused.value} {refused.value.hint}"
    assert "quick" in f"{refused.value} {refused.value.hint}"


async def test_a_request_says_it_all(tmp_path: Path) -> None:
    found = await package(tmp_path)
    base = plan_episode(found)
    body = {
        "manifest": json.loads((tmp_path / "coworld_manifest.json").read_text()),
        "game_config": {**base.game_config, "max_ticks": 3},
        "players": [{"type": "player", "image": "a:1"}, {"type": "player", "image": "b:1"}],
        "episode_tags": {"why": "test"},
    }
    request = load_request(body, manifest=found.manifest)
    plan = plan_episode(found, request=request)
    assert plan.variant == "episode-request"
    assert plan.game_config["max_ticks"] == 3
    assert plan.episode_tags == {"why": "test"}
    with pytest.raises(UsageError):
        plan_episode(found, request=request, variant="quick")


async def test_tokens_are_new_and_never_in_the_plan(tmp_path: Path) -> None:
    plan = plan_episode(await package(tmp_path))
    first, second = plan.new_tokens(), plan.new_tokens()
    assert len(first) == 2
    assert set(first).isdisjoint(second)
    config = plan.config_with_tokens(first)
    assert config["tokens"] == list(first)
    assert "tokens" not in plan.game_config


async def test_a_config_that_breaks_the_schema_is_caught_before_anything_starts(tmp_path: Path) -> None:
    plan = plan_episode(await package(tmp_path), seed=7)
    # this game's schema knows no seed and allows nothing unknown
    with pytest.raises(ManifestError) as refused:
        plan.config_with_tokens(plan.new_tokens())
    assert "seed" in str(refused.value)


async def test_seeds_grow_by_the_index(tmp_path: Path) -> None:
    plan = plan_episode(await package(tmp_path), seed=7)
    assert [plan.for_episode(index).seed for index in range(3)] == [7, 8, 9]
    assert plan_episode(await package(tmp_path)).for_episode(2).seed is None


async def test_people_are_waited_for(tmp_path: Path) -> None:
    plan = plan_episode(await package(tmp_path, player_connect_timeout_seconds=3))
    patient = plan_for_people(plan)
    assert patient.game_config["player_connect_timeout_seconds"] > 60
    patient.config_with_tokens(patient.new_tokens())


async def test_people_do_not_go_by_the_names_of_bots(tmp_path: Path) -> None:
    found = await package(tmp_path)
    plan = plan_for_people(plan_episode(found, humans=[1]))
    assert [seat.name for seat in plan.seats] == ["Sweep Painter", "Person"]
    assert [player["name"] for player in plan.game_config["players"]] == ["Sweep Painter", "Person"]
    plan.config_with_tokens(plan.new_tokens())
    both = plan_for_people(plan_episode(found, humans=[0, 1]))
    assert [seat.name for seat in both.seats] == ["Person", "Person (2)"]


async def test_people_keep_a_name_of_their_own(tmp_path: Path) -> None:
    names = [{"name": "Ada"}, {"name": "Sweep Painter"}]
    plan = plan_for_people(plan_episode(await package(tmp_path, players=names), humans=[0, 1]))
    assert [seat.name for seat in plan.seats] == ["Ada", "Person"]


async def test_a_name_that_the_game_would_refuse_is_not_given(tmp_path: Path) -> None:
    found = await package(tmp_path)
    schema = copy.deepcopy(dict(found.manifest.game.config_schema))
    schema["properties"]["players"]["items"]["properties"]["name"]["pattern"] = "Painter$"
    game = found.manifest.game.model_copy(update={"config_schema": schema})
    plan = plan_episode(found, humans=[0])
    plan = dataclasses.replace(plan, manifest=plan.manifest.model_copy(update={"game": game}))
    assert [seat.name for seat in plan_for_people(plan).seats] == ["Sweep Painter", "Frontier Painter"]


async def test_people_get_the_first_variant_unless_they_say_otherwise(tmp_path: Path) -> None:
    found = await package(tmp_path)
    assert plan_episode(found, humans=[0]).variant == "default"
    assert plan_episode(found, humans=[0], variant="quick").variant == "quick"
