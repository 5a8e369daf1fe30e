"""What an episode plays, from a package and what was asked for."""

from __future__ import annotations

import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from coworld_core.documents.json_text import wrap_json
from coworld_core.episode.request import LoadedRequest, build_request, load_request
from coworld_core.errors import ManifestError, UsageError
from coworld_core.manifest.features import Startup
from coworld_core.manifest.manifest_file import load_manifest
from coworld_runner.package.plan import EpisodePlan, Seat, plan_episode, plan_for_people
from coworld_runner.package.resolver import Package, resolve_package
from coworld_runner.package.variant_plans import plan_variants

TEMPLATE = Path(__file__).parents[2] / "examples" / "paintarena" / "coworld_manifest_template.json"


async def package(tmp_path: Path, *, seeded: str = "", **changes: Any) -> Package:
    document = json.loads(TEMPLATE.read_text())
    if seeded:
        document["game"]["config_schema"]["properties"][seeded] = {"type": "integer"}
    document["game"]["version"] = "1.0"
    roles = [
        entry for name in ("player", "commissioner", "grader", "diagnoser", "optimizer") for entry in document[name]
    ]
    for section in (document["game"]["runnable"], *roles):
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


@pytest.mark.parametrize(("image", "kept"), [("paintarena:2", True), ("others:1", False)])
async def test_placeholder_of_a_template_stands_for_the_image_of_its_service(image: str, kept: bool) -> None:
    found = await resolve_package(TEMPLATE.parent)
    runnable = plan_episode(found, players=[image]).seats[0].runnable
    assert runnable is not None
    assert runnable.run == (found.manifest.player[0].run if kept else ())


async def test_single_player_fills_every_seat(tmp_path: Path) -> None:
    plan = plan_episode(await package(tmp_path), players=["mine:2"], run=["python", "me.py"])
    assert [seat.runnable.image for seat in plan.seats if seat.runnable] == ["mine:2", "mine:2"]
    assert all(seat.runnable.run == ("python", "me.py") for seat in plan.seats if seat.runnable)


async def test_additional_variables_reach_game_and_players(tmp_path: Path) -> None:
    (tmp_path / "bot.py").write_text("print()\n")
    found = (await package(tmp_path)).with_environment({"DEBUG": "1"}).with_environment({"LEVEL": "a=b"})
    plan = plan_episode(found, players=["sweep-painter", str(tmp_path / "bot.py")])
    runnables = [plan.manifest.game.runnable, *(seat.runnable for seat in plan.seats)]
    more = {"DEBUG": "1", "LEVEL": "a=b"}
    game = {"COWORLD_SERVES": "many", **more}
    assert [dict(runnable.env) for runnable in runnables if runnable] == [game, more, more]
    # The players of the manifest are still known as such
    assert plan.seats[0].player_id == "sweep-painter"
    for name, code in {
        "COGAME_PORT": "reserved_env_name",
        "COWORLD_PLAYER_WS_URL": "reserved_env_name",
        "A B": "bad_env",
    }.items():
        with pytest.raises(UsageError) as refused:
            found.with_environment({name: "1"})
        assert refused.value.code == code


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
async def test_invalid_plan_arguments_are_refused(tmp_path: Path, asked: dict[str, Any], code: str) -> None:
    with pytest.raises(UsageError) as refused:
        plan_episode(await package(tmp_path), **asked)
    assert refused.value.code == code


async def test_the_config_is_changed_and_checked(tmp_path: Path) -> None:
    found = await package(tmp_path)
    plan = plan_episode(found, variant="qui*", config={"max_ticks": 7, "players": {"1": {"name": "Ann"}}})
    assert (plan.variant, plan.game_config["max_ticks"], plan.seats[1].name) == ("quick", 7, "Ann")
    assert plan.config_changes == {"max_ticks": 7, "players": {"1": {"name": "Ann"}}}
    assert [one.variant for one in plan_variants(found, variant="*", config={"width": 4})] == ["default", "quick"]
    with pytest.raises(ManifestError) as refused:
        plan_episode(found, config={"max_ticks": 0})
    assert refused.value.code == "config_invalid"


async def test_variants_that_are_played_together_have_as_many_seats() -> None:
    with pytest.raises(UsageError, match=r"hanabi \(3\)") as refused:
        plan_variants(await resolve_package(TEMPLATE.parents[1] / "board"), variant="*")
    assert refused.value.code == "variants_differ"


async def test_an_unknown_variant_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        plan_episode(await package(tmp_path), variant="defualt")
    assert "default" in f"{refused.value} {refused.value.hint}"
    assert "quick" in f"{refused.value} {refused.value.hint}"


async def test_episode_request_defines_the_whole_plan(tmp_path: Path) -> None:
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
    plan = plan_episode(await package(tmp_path))
    plan = dataclasses.replace(plan, game_config={**plan.game_config, "width": -1})
    with pytest.raises(ManifestError) as refused:
        plan.config_with_tokens(plan.new_tokens())
    assert "width" in str(refused.value)


async def test_a_seed_for_a_game_without_one_says_what_would_work(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        plan_episode(await package(tmp_path), seed=7)
    assert refused.value.code == "seed_unknown"
    assert "Leave the seed out" in str(refused.value.hint)
    assert "max_ticks" in str(refused.value.hint)
    with pytest.raises(UsageError) as refused:
        plan_episode(await package(tmp_path, seeded="random_seed"), seed=7)
    assert "'random_seed'" in str(refused.value.hint)


async def test_seed_increases_with_the_index(tmp_path: Path) -> None:
    plan = plan_episode(await package(tmp_path, seeded="seed"), seed=7)
    assert [plan.for_episode(index).seed for index in range(3)] == [7, 8, 9]
    assert plan_episode(await package(tmp_path)).for_episode(2).seed is None


async def test_connect_timeout_is_extended_for_people(tmp_path: Path) -> None:
    plan = plan_episode(await package(tmp_path, player_connect_timeout_seconds=3))
    patient = plan_for_people(plan)
    assert patient.game_config["player_connect_timeout_seconds"] > 60
    patient.config_with_tokens(patient.new_tokens())


@pytest.mark.parametrize(
    ("said", "rule", "startup", "limit", "waits"),
    [
        (180, {}, None, 30.0, 30),
        (None, {}, None, 30.0, 30),
        (10, {}, None, 30.0, 10),
        (180, {"minimum": 60}, None, 30.0, 60),
        (None, {"maximum": 20}, None, 30.0, 20),
        (None, None, None, 30.0, None),
        (180, {}, 90, 30.0, 90),
        (180, {}, 90, 0.5, 90),
        (180, {}, None, 0.5, 0.5),
    ],
)
async def test_a_game_waits_no_longer_for_its_players_than_the_limit(
    said: float | None,
    rule: dict[str, Any] | None,
    startup: int | None,
    limit: float,
    waits: float | None,
    tmp_path: Path,
) -> None:
    plan = plan_episode(await package(tmp_path))
    game, players = plan.manifest.game, list(plan.manifest.player)
    schema = copy.deepcopy(game.config_schema)
    del schema["properties"]["player_connect_timeout_seconds"]
    if rule is not None:
        schema["properties"]["player_connect_timeout_seconds"] = {"type": "number", **rule}
    if startup is not None:
        served = Startup(port=9000, timeout_seconds=startup)
        players[1] = players[1].model_copy(update={"startup": served})
    changed = {"game": game.model_copy(update={"config_schema": schema}), "player": tuple(players)}
    config = {key: value for key, value in plan.game_config.items() if key != "player_connect_timeout_seconds"}
    config |= {"player_connect_timeout_seconds": said} if said is not None else {}
    plan = dataclasses.replace(plan, manifest=plan.manifest.model_copy(update=changed), game_config=config)
    hurried = plan.limit_connecting(limit)
    assert hurried.game_config.get("player_connect_timeout_seconds") == waits
    assert hurried.check_config().ok


# --- names ----------------------------------------------------------------------------------------------------------

DIGEST = f"sha256:{'0123456789abcdef' * 4}"


def names(plan: EpisodePlan) -> list[str]:
    """What seats are called, by the game as by everybody else."""
    told = [player["name"] for player in plan.game_config["players"]]
    assert [seat.name for seat in plan.seats] == told
    plan.config_with_tokens(plan.new_tokens())
    return told


def under(found: Package, rule: dict[str, Any]) -> Package:
    """The package with another rule for players' names."""
    schema = copy.deepcopy(dict(found.manifest.game.config_schema))
    schema["properties"]["players"]["items"]["properties"]["name"] = rule
    game = found.manifest.game.model_copy(update={"config_schema": schema})
    return dataclasses.replace(found, manifest=found.manifest.model_copy(update={"game": game}))


async def nameless(tmp_path: Path, rule: dict[str, Any] | None = None) -> Package:
    """The package of a game whose configs have no names: it takes none, or none that breaks a rule."""
    found = await package(tmp_path)
    document = json.loads((tmp_path / "coworld_manifest.json").read_text())
    schema = document["game"]["config_schema"]
    schema["required"].remove("players")
    if rule is None:
        del schema["properties"]["players"]
    else:
        schema["properties"]["players"]["items"]["properties"]["name"] = rule
    for config in (document["certification"]["game_config"], *(each["game_config"] for each in document["variants"])):
        del config["players"]
    return dataclasses.replace(found, manifest=load_manifest(document).manifest)


@pytest.mark.parametrize(
    ("players", "expected"),
    [
        (["frontier-painter", "sweep-painter"], ["Frontier Painter", "Sweep Painter"]),
        (["sweep-painter", "frontier-painter"], ["Sweep Painter", "Frontier Painter"]),
        (["sweep-painter"], ["Sweep Painter", "Sweep Painter (2)"]),
        (["ghcr.io/me/mine:latest", "frontier-painter"], ["mine", "Frontier Painter"]),
        (["ghcr.io/me/mine:2", "ghcr.io/me/mine:3"], ["mine:2", "mine:3"]),
        (["ghcr.io/me/mine:2", "ghcr.io/you/mine:2"], ["ghcr.io/me/mine:2", "ghcr.io/you/mine:2"]),
        ([f"mine@{DIGEST}"], ["mine@0123456789ab", "mine@0123456789ab (2)"]),
    ],
)
async def test_seat_is_named_after_its_player(tmp_path: Path, players: list[str], expected: list[str]) -> None:
    authored = [{"name": "Red"}, {"name": "Blue"}]
    assert names(plan_episode(await package(tmp_path, players=authored), players=players)) == expected


async def test_bundled_players_keep_the_authors_names(tmp_path: Path) -> None:
    authored = [{"name": "Red"}, {"name": "Red"}]
    found = await package(tmp_path, players=authored)
    assert names(plan_episode(found)) == ["Red", "Red"]
    assert names(plan_episode(found, players=["sweep-painter"])) == ["Sweep Painter", "Sweep Painter (2)"]


async def test_player_names_of_a_request_are_kept(tmp_path: Path) -> None:
    found = await package(tmp_path, players=[{"name": "Red"}, {"name": "Blue"}])
    body = {
        "manifest": json.loads((tmp_path / "coworld_manifest.json").read_text()),
        "game_config": dict(plan_episode(found).game_config),
        "players": [{"type": "player", "image": "a:1"}, {"type": "player", "image": "b:1"}],
    }
    assert names(plan_episode(found, request=load_request(body, manifest=found.manifest))) == ["Red", "Blue"]


async def test_an_older_request_names_players_beside_the_config(tmp_path: Path) -> None:
    found = await nameless(tmp_path)
    request = build_request(found.manifest, images=["a:1"])
    plan = plan_episode(found, request=LoadedRequest(request, ("Ada", "Bob"), wrap_json({}, source="x"), ()))
    assert plan.policy_names == ("Ada", "Bob")
    assert [seat.name for seat in plan.seats] == ["Ada", "Bob"]


async def test_bundled_players_with_the_same_command_are_distinguished_by_name(tmp_path: Path) -> None:
    found = await package(tmp_path)
    first, second = found.manifest.player
    twin = second.model_copy(update={"run": first.run, "env": first.env})
    manifest = found.manifest.model_copy(update={"player": (first, twin)})
    found = dataclasses.replace(found, manifest=manifest)

    def ids(*called: str) -> list[str | None]:
        config = {**manifest.certification.game_config, "players": [{"name": name} for name in called]}
        request = build_request(manifest).model_copy(
            update={"players": (first.as_runnable(), twin.as_runnable()), "game_config": config}
        )
        asked = LoadedRequest(request, (), wrap_json({}, source="x"), ())
        return [seat.player_id for seat in plan_episode(found, request=asked).seats]

    assert ids(second.name, first.id) == [second.id, first.id]
    assert ids(f"{second.name} (2)", "Red") == [second.id, None]


@pytest.mark.parametrize(
    "rule",
    [
        {"type": "string", "maxLength": 14},
        {"type": "string", "pattern": "^[A-Z][a-z]+$"},
        {"type": "string", "enum": ["Red", "Blue"]},
        {"enum": ["Red", "Blue"]},
    ],
)
async def test_name_refused_by_the_schema_is_not_used(tmp_path: Path, rule: dict[str, Any]) -> None:
    found = under(await package(tmp_path, players=[{"name": "Red"}, {"name": "Blue"}]), rule)
    plan = plan_episode(found, players=["frontier-painter", "sweep-painter"])
    assert names(plan) == ["Red", "Blue"]
    assert [(seat.player_name, seat.player_id) for seat in plan.seats] == [
        ("Frontier Painter", "frontier-painter"),
        ("Sweep Painter", "sweep-painter"),
    ]


async def test_config_without_names_stays_without_names(tmp_path: Path) -> None:
    plan = plan_episode(await nameless(tmp_path), players=["sweep-painter"])
    assert "players" not in plan.game_config
    assert [seat.name for seat in plan.seats] == ["Sweep Painter", "Sweep Painter (2)"]


async def test_people_do_not_get_bundled_names(tmp_path: Path) -> None:
    found = await package(tmp_path)
    plan = plan_episode(found, humans=[1])
    assert names(plan) == ["Sweep Painter", "Person"]
    assert names(plan_for_people(plan)) == ["Sweep Painter", "Person"]
    assert names(plan_episode(found, humans=[0, 1])) == ["Person", "Person (2)"]
    # Nobody sits at the table under the number of somebody who does not
    assert names(plan_episode(found, humans=[0], players=["frontier-painter", "sweep-painter"])) == [
        "Person",
        "Sweep Painter",
    ]


@pytest.mark.parametrize("rule", [None, {"type": "string", "enum": ["Red", "Blue"]}])
async def test_people_are_labelled_where_the_game_has_no_names(tmp_path: Path, rule: dict[str, Any] | None) -> None:
    plan = plan_for_people(plan_episode(await nameless(tmp_path, rule), humans=[0]))
    assert "players" not in plan.game_config
    assert [seat.name for seat in plan.seats] == ["Person", "Frontier Painter"]


async def test_names_come_into_a_config_without_any(tmp_path: Path) -> None:
    found = await nameless(tmp_path, {"type": "string"})
    assert names(plan_episode(found, players=["sweep-painter"])) == ["Sweep Painter", "Sweep Painter (2)"]
    assert "players" not in plan_episode(found).game_config


async def test_people_keep_a_name_of_their_own(tmp_path: Path) -> None:
    authored = [{"name": "Ada"}, {"name": "Sweep Painter"}]
    found = await package(tmp_path, players=authored)
    assert names(plan_episode(found, humans=[0, 1])) == ["Ada", "Person"]
    seats = tuple(Seat(name=f"player {slot}", runnable=None) for slot in range(2))
    plan = dataclasses.replace(plan_episode(found), seats=seats)
    assert names(plan_for_people(plan)) == ["Ada", "Person"]


async def test_people_go_by_the_names_of_bots_where_the_game_knows_no_others(tmp_path: Path) -> None:
    found = under(await package(tmp_path), {"type": "string", "pattern": "Painter$"})
    assert names(plan_for_people(plan_episode(found, humans=[0]))) == ["Sweep Painter", "Frontier Painter"]


async def test_player_opposite_a_person_has_its_short_name(tmp_path: Path) -> None:
    players = ["ghcr.io/me/mine:2", "ghcr.io/you/mine:2"]
    assert names(plan_episode(await package(tmp_path), humans=[0], players=players)) == ["Person", "mine:2"]


async def test_human_alone_takes_every_seat_of_a_larger_variant(tmp_path: Path) -> None:
    found = await package(tmp_path)
    document = json.loads((tmp_path / "coworld_manifest.json").read_text())
    document["game"]["config_schema"]["properties"]["tokens"]["maxItems"] = 3
    document["game"]["config_schema"]["properties"]["players"]["maxItems"] = 3
    document["variants"][0]["game_config"]["players"] = [{"name": name} for name in ("Red", "Green", "Blue")]
    found = dataclasses.replace(found, manifest=load_manifest(document).manifest)
    assert [seat.controller for seat in plan_episode(found, players=["human"]).seats] == ["human"] * 3


async def test_people_get_the_first_variant_unless_they_say_otherwise(tmp_path: Path) -> None:
    found = await package(tmp_path)
    assert plan_episode(found, humans=[0]).variant == "default"
    assert plan_episode(found, humans=[0], variant="quick").variant == "quick"
