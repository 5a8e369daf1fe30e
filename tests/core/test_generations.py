"""Manifests of every published generation load, and what was changed about them is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from coworld_core import ImageRef, build_request, dump_manifest, load_manifest
from coworld_core.errors import ImageError, ManifestError

Generation = Callable[[str], dict[str, Any]]

SAID = {
    "0.1.0": {
        ("lifted_docs", "/game"),
        ("lifted_game_type", "/game/runnable"),
        ("lifted_protocol_doc", "/game/protocols/player"),
        ("lifted_protocol_doc", "/game/protocols/global"),
        ("lifted_parent_id", "/variants/1/parent_id"),
        ("unknown_field", "/game/runnable/healthcheck"),
        ("unknown_field", "/player/0/cpu"),
    },
    "0.1.7": {
        ("lifted_game_type", "/game/runnable"),
        ("lifted_readme", "/game/docs"),
        ("lifted_parent_id", "/variants/1/parent_id"),
        ("lifted_parent_id", "/variants/2/parent_id"),
    },
    "0.1.26": set[tuple[str, str]](),
    "0.1.64": {
        ("api_version", "/apiVersion"),
        ("newer_field", "/tags"),
        ("newer_field", "/episode_timeout_minutes"),
        ("newer_field", "/game/player_runtime"),
        ("newer_field", "/game/promo"),
        ("newer_field", "/game/replay_viewer"),
        ("newer_field", "/game/achievements"),
        ("newer_field", "/game/log"),
        ("newer_field", "/game/memory"),
        ("newer_field", "/game/task_environments"),
        ("newer_field", "/game/protocols/engine_runtime"),
        ("newer_field", "/game/runnable/resources/limits"),
        ("newer_field", "/game/runnable/resources/requests/gpu"),
        ("newer_field", "/player/0/resources/instance-type"),
        ("newer_field", "/player/0/startup"),
        ("player_file", "/player/2/file"),
        ("reporter_reference", "/reporter/0"),
        ("reporter_reference", "/reporter/1"),
    },
}


@pytest.mark.parametrize("version", SAID)
def test_reads_and_says(version: str, generation: Generation) -> None:
    loaded = load_manifest(json.dumps(generation(version), indent=2).encode())
    assert {(issue.code, issue.pointer) for issue in loaded.report.issues} == SAID[version]
    assert all(issue.line is not None and issue.column is not None for issue in loaded.report.issues)
    assert loaded.report.ok
    assert loaded.manifest.game.version == version
    assert loaded.raw == generation(version)


@pytest.mark.parametrize("version", SAID)
def test_can_be_played(version: str, generation: Generation) -> None:
    manifest = load_manifest(generation(version)).manifest
    for variant in (None, *(variant.id for variant in manifest.variants)):
        request = build_request(manifest, variant)
        assert len(request.players) == (3 if variant == "long" and version in ("0.1.26", "0.1.64") else 2)


@pytest.mark.parametrize("version", ["0.1.0", "0.1.7", "0.1.26"])
def test_can_be_written_again(version: str, generation: Generation) -> None:
    manifest = load_manifest(generation(version)).manifest
    assert load_manifest(dump_manifest(manifest).encode(), mode="strict").manifest == manifest


@pytest.mark.parametrize("version", ["0.1.0", "0.1.7", "0.1.64"])
def test_is_refused_when_read_strictly(version: str, generation: Generation) -> None:
    with pytest.raises(ManifestError) as raised:
        load_manifest(generation(version), mode="strict")
    assert len(raised.value.report.errors) >= 4


def test_the_published_target_is_strict_already(generation: Generation) -> None:
    assert load_manifest(generation("0.1.26"), mode="strict").report.issues == ()


def test_what_was_lifted(generation: Generation) -> None:
    oldest = load_manifest(generation("0.1.0")).manifest
    assert oldest.game.runnable.type == "game"
    assert repr(oldest.game.docs.readme) == "<TextDoc 'Two players pull at one rope.'>"
    assert repr(oldest.game.protocols.player) == "<TextDoc 'Send {\"pull\": 1}.'>"
    newest = load_manifest(generation("0.1.64")).manifest
    assert [entry.id for entry in newest.reporter] == ["summary"]
    assert newest.player[0].resources is None
    resources = newest.game.runnable.resources
    assert resources is not None
    assert resources.requests.cpu == "500m"


def test_a_file_player_is_refused_where_it_would_run(generation: Generation) -> None:
    manifest = load_manifest(generation("0.1.64")).manifest
    image = ImageRef.parse(manifest.player[2].image)
    assert image.kind == "file"
    with pytest.raises(ImageError, match="file player") as raised:
        image.require_runnable("players[0].image")
    assert raised.value.code == "player_file_unsupported"


def test_a_reporter_behind_references_keeps_its_place(generation: Generation) -> None:
    document = generation("0.1.64")
    document["reporter"][2]["id"] = "../x"
    with pytest.raises(ManifestError) as raised:
        load_manifest(document)
    assert [issue.pointer for issue in raised.value.report.errors] == ["/reporter/2/id"]


def test_a_misspelt_key_is_not_taken_for_an_old_manifest(document: dict[str, Any]) -> None:
    for path, key, wrong in (
        (("game",), "docs", "dcos"),
        (("game", "runnable"), "type", "tyep"),
        (("game", "docs"), "readme", "reamde"),
        (("player", 0), "type", "typ"),
    ):
        broken = json.loads(json.dumps(document))
        place = broken
        for part in path:
            place = place[part]
        place[wrong] = place.pop(key)
        with pytest.raises(ManifestError) as raised:
            load_manifest(broken)
        assert [issue.code for issue in raised.value.report.issues] == ["misspelt_field"]
