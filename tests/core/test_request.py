"""Episode requests: built from a manifest, read from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coworld_core import Manifest, build_request, check_request, load_manifest, load_request
from coworld_core.episode import JobSpec
from coworld_core.errors import ManifestError, UsageError
from coworld_core.images import ImageRef


@pytest.fixture
def manifest(document: dict[str, Any]) -> Manifest:
    return load_manifest(document).manifest


def test_certification_fixture(manifest: Manifest) -> None:
    request = build_request(manifest)
    assert [player.image for player in request.players] == ["registry.example.org/tug:1.2.0", "tug-waiter:latest"]
    assert request.players[0].run == ("tug-player",)
    assert request.game_config == manifest.certification.game_config
    assert request.manifest is manifest
    assert repr(request) == "<JobSpec tug 1.2.0: 2 players>"


def test_bundled_players_are_cycled(manifest: Manifest) -> None:
    request = build_request(manifest, "long", episode_tags={"round": "1"})
    images = [player.image for player in request.players]
    assert images == ["registry.example.org/tug:1.2.0", "tug-waiter:latest", "registry.example.org/tug:1.2.0"]
    assert request.episode_tags == {"round": "1"}


def test_one_image_for_all(manifest: Manifest) -> None:
    request = build_request(manifest, "long", images=["mine:1"])
    assert [player.image for player in request.players] == ["mine:1"] * 3
    assert [(player.run, player.env, player.source_url) for player in request.players] == [((), {}, None)] * 3


@pytest.mark.parametrize(
    ("image", "kept"),
    [("{name}:another", True), ("{name}@sha256:" + "0" * 64, True), ("{name}", True), ("other/{name}:1", False)],
)
def test_another_build_of_a_bundled_players_image_keeps_its_command(manifest: Manifest, image: str, kept: bool) -> None:
    name = ImageRef.parse(manifest.player[0].image).name
    player = build_request(manifest, images=[image.format(name=name)]).players[0]
    assert (player.run, player.env) == ((("tug-player",), {"STRENGTH": "3"}) if kept else ((), {}))


def test_an_image_for_each_with_a_command(manifest: Manifest) -> None:
    request = build_request(manifest, images=["mine:1", "mine:2"], run=["python", "-m", "mine"])
    assert [player.image for player in request.players] == ["mine:1", "mine:2"]
    assert [player.run for player in request.players] == [("python", "-m", "mine")] * 2
    assert request.players[0].env == {}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ({"variant": "lnog"}, "unknown_variant", "default and long"),
        ({"images": ["a", "b", "c"]}, "wrong_image_count", "expected 1 or 2 player images for 2 player slots"),
        ({"run": ["x"]}, "run_without_image", "no image"),
        ({"images": ["-v"]}, "bad_image", "hyphen"),
        ({"images": [""]}, "bad_image", "is empty"),
        ({"slots": 3}, "slots_out_of_bounds", "seats 2 players, not 3"),
    ],
)
def test_invalid_request_arguments_are_refused(
    manifest: Manifest, arguments: dict[str, Any], code: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        build_request(manifest, **arguments)
    assert raised.value.code == code


def test_slots_where_the_config_leaves_them_open(document: dict[str, Any]) -> None:
    schema = document["game"]["config_schema"]
    schema["required"] = ["tokens"]
    for variant in document["variants"]:
        del variant["game_config"]["players"]
    manifest = load_manifest(document).manifest
    assert len(build_request(manifest, "default", slots=4).players) == 4
    with pytest.raises(UsageError) as raised:
        build_request(manifest, "default")
    assert raised.value.code == "slots_unknown"
    with pytest.raises(UsageError) as raised:
        build_request(manifest, "default", slots=5)
    assert raised.value.code == "slots_out_of_bounds"
    del document["certification"]["game_config"]["players"]
    assert len(build_request(load_manifest(document).manifest).players) == 2


def test_round_trip(manifest: Manifest, tmp_path: Path) -> None:
    request = build_request(manifest, "long", episode_tags={"a": "b"})
    path = tmp_path / "request.json"
    path.write_text(request.model_dump_json(by_alias=True), encoding="utf-8")
    loaded = load_request(path, manifest=manifest, mode="strict")
    assert loaded.request == request
    assert loaded.report.issues == ()
    assert loaded.policy_names == ()


def test_policy_names_of_an_older_request(manifest: Manifest) -> None:
    body: dict[str, Any] = json.loads(build_request(manifest).model_dump_json(by_alias=True))
    body["policy_names"] = ["left", "right"]
    loaded = load_request(body)
    assert loaded.policy_names == ("left", "right")
    assert [issue.code for issue in loaded.report.issues] == ["lifted_policy_names"]
    assert not check_request(body, mode="strict").ok


def test_an_older_manifest_inside(manifest: Manifest, document: dict[str, Any]) -> None:
    body: dict[str, Any] = json.loads(build_request(manifest).model_dump_json(by_alias=True))
    del body["manifest"]["game"]["runnable"]["type"]
    loaded = load_request(json.dumps(body).encode(), manifest=manifest)
    assert loaded.request.manifest == manifest
    assert [(issue.code, issue.pointer) for issue in loaded.report.issues] == [
        ("lifted_game_type", "/manifest/game/runnable")
    ]


def test_a_template_inside(document: dict[str, Any]) -> None:
    del document["game"]["version"]
    document["game"]["runnable"]["image"] = "{{TUG_IMAGE}}"
    player = {"type": "player", "image": "{{TUG_IMAGE}}"}
    config = document["certification"]["game_config"]
    body = {"manifest": document, "game_config": config, "players": [player, player]}
    request = load_request(body, template=True).request
    assert request.manifest.is_template
    assert {issue.code for issue in check_request(body).errors} == {"template_not_built"}


def test_no_players_is_allowed(manifest: Manifest) -> None:
    body: dict[str, Any] = json.loads(build_request(manifest).model_dump_json(by_alias=True))
    body["players"] = []
    assert load_request(body).request.players == ()


def test_errors_are_all_listed(manifest: Manifest) -> None:
    body: dict[str, Any] = json.loads(build_request(manifest).model_dump_json(by_alias=True))
    body["manifest"]["game"].pop("name")
    body["game_config"]["ticks"] = 0
    body["players"][0]["type"] = "game"
    with pytest.raises(ManifestError) as raised:
        load_request(body)
    assert {issue.pointer for issue in raised.value.report.errors} == {"/manifest/game", "/players/0/type"}
    assert raised.value.code == "request_invalid"


def test_models_by_hand(manifest: Manifest) -> None:
    request = JobSpec(manifest=manifest, game_config={}, players=())
    assert request.episode_tags == {}
