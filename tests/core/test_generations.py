"""Manifests of every published generation load, and what was changed about them is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from support.manifests import lost

from coworld_core import build_request, check_manifest, dump_manifest, load_manifest
from coworld_core.episode.request import load_request
from coworld_core.errors import ImageError, ManifestError
from coworld_core.images import ImageRef
from coworld_core.manifest.published_versions import accepted_by

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
        ("newer_field", "/tags"),
    },
}


@pytest.mark.parametrize("version", SAID)
def test_reads_and_says(version: str, generation: Generation) -> None:
    loaded = load_manifest(json.dumps(generation(version), indent=2).encode())
    assert {(issue.code, issue.pointer) for issue in loaded.report.issues} == SAID[version]
    assert all(issue.line is not None and issue.column is not None for issue in loaded.report.issues)
    assert loaded.report.ok
    assert loaded.manifest.game.version == version


@pytest.mark.parametrize("version", SAID)
def test_can_be_played(version: str, generation: Generation) -> None:
    manifest = load_manifest(generation(version)).manifest
    for variant in (None, *(variant.id for variant in manifest.variants)):
        request = build_request(manifest, variant)
        assert len(request.players) == (3 if variant == "long" and version in ("0.1.26", "0.1.64") else 2)


@pytest.mark.parametrize("version", SAID)
def test_can_be_written_again(version: str, generation: Generation) -> None:
    loaded = load_manifest(generation(version))
    text = dump_manifest(loaded.manifest, mode="read")
    assert load_manifest(text.encode()).manifest == loaded.manifest
    assert lost(generation(version), json.loads(text)) == set()


@pytest.mark.parametrize("version", ["0.1.26", "0.1.64"])
def test_current_manifest_round_trips(version: str, generation: Generation) -> None:
    loaded = load_manifest(generation(version), mode="strict")
    written = json.loads(dump_manifest(loaded.manifest))
    read = generation(version)
    assert (lost(read, written), lost(written, read)) == (set(), set())


def test_ignored_fields_are_reported(generation: Generation) -> None:
    manifest = load_manifest(generation("0.1.0")).manifest
    assert {place for place, _ in manifest.kept} == {
        ("game", "runnable", "healthcheck"),
        ("player", 0, "cpu"),
        ("variants", 1, "parent_id"),
    }
    with pytest.raises(ManifestError) as raised:
        dump_manifest(manifest)
    assert {issue.code for issue in raised.value.report.errors} == {"unknown_field"}


@pytest.mark.parametrize("version", ["0.1.0", "0.1.7"])
def test_is_refused_when_read_strictly(version: str, generation: Generation) -> None:
    with pytest.raises(ManifestError) as raised:
        load_manifest(generation(version), mode="strict")
    assert len(raised.value.report.errors) >= 4


def test_the_published_target_is_strict_already(generation: Generation) -> None:
    assert load_manifest(generation("0.1.26"), mode="strict").report.issues == ()


def test_older_forms_are_lifted_to_current_fields(generation: Generation) -> None:
    oldest = load_manifest(generation("0.1.0")).manifest
    assert oldest.game.runnable.type == "game"
    assert repr(oldest.game.docs.readme) == "<TextDoc 'Two players pull at one rope.'>"
    assert repr(oldest.game.protocols.player) == "<TextDoc 'Send {\"pull\": 1}.'>"
    newest = load_manifest(generation("0.1.64")).manifest
    assert newest.section("reporter") == ()
    assert [type(entry).__name__ for entry in newest.reporter] == ["ReporterReference", "WasmReporter"]
    resources = newest.game.runnable.resources
    assert resources is not None
    assert resources.requests is not None
    assert resources.requests.cpu == "500m"
    assert resources.limits is not None
    assert resources.limits.memory == "1Gi"


def test_file_player_is_not_an_image(generation: Generation) -> None:
    document = file_players(generation("0.1.64"))
    loaded = load_manifest(document, mode="strict")
    written = json.loads(dump_manifest(loaded.manifest))
    assert (lost(document, written), lost(written, document)) == (set(), set())
    assert loaded.report.warnings == ()
    assert not any(image.startswith("file:") for image in loaded.manifest.images())
    image = ImageRef.parse(loaded.manifest.player[0].image)
    assert image.kind == "file"
    with pytest.raises(ImageError, match="file player") as raised:
        image.require_runnable("players[0].image")
    assert raised.value.code == "player_file_unsupported"
    request = json.loads(build_request(loaded.manifest).model_dump_json(by_alias=True))
    assert "image" not in request["manifest"]["player"][0]
    assert load_request({**request, "players": []}).request.manifest == loaded.manifest


def test_wrong_platform_field_is_a_warning(generation: Generation) -> None:
    document = generation("0.1.64")
    document["game"]["promo"] = {"video": "ftp://example.org"}
    document["game"]["protocols"]["engine_runtime"] = "tomorrow"
    document["player"][0]["startup"]["port"] = 80
    loaded = load_manifest(document)
    assert {issue.pointer for issue in loaded.report.warnings} >= {
        "/game/protocols/engine_runtime",
        "/player/0/startup/port",
    }
    assert lost(document, json.loads(dump_manifest(loaded.manifest, mode="read"))) == set()
    with pytest.raises(ManifestError) as raised:
        load_manifest(document, mode="strict")
    assert len(raised.value.report.errors) >= 3


def containers(document: dict[str, Any]) -> dict[str, Any]:
    document["reporter"] = [{"id": "r", "name": "R", "type": "reporter", "description": "R.", "image": "r:1"}]
    return document


def file_players(document: dict[str, Any]) -> dict[str, Any]:
    document["game"]["player_runtime"] = "game-hosted"
    for index, file in enumerate(("players/puller.py", f"sha256:{'0' * 64}")):
        player = document["player"][index]
        document["player"][index] = {key: player[key] for key in ("id", "name", "type", "description")} | {"file": file}
    return document


def small(document: dict[str, Any]) -> dict[str, Any]:
    document["game"]["runnable"].pop("resources")
    return {key: document[key] for key in ("game", "player", "variants", "certification")}


@pytest.mark.parametrize(
    ("version", "change", "accepted", "old", "new"),
    [
        ("0.1.26", small, "0.1.26 and newer", set(), {"tags_missing"}),
        ("0.1.26", containers, "0.1.26 to 0.1.29", set(), {"no_longer_published", "tags_missing"}),
        ("0.1.64", dict, "0.1.63 and newer", {"not_yet_published"}, set()),
        ("0.1.64", file_players, "0.1.63 and newer", {"not_yet_published"}, set()),
        ("0.1.64", containers, "(no published version)", {"not_yet_published"}, {"no_longer_published"}),
        (
            "0.1.26",
            lambda document: {"apiVersion": "coworld.softmax.com/v0", **small(document)},
            "(no published version)",
            {"not_yet_published", "no_longer_published"},
            {"no_longer_published", "tags_missing"},
        ),
    ],
)
def test_accepting_versions_are_found(
    version: str,
    change: Callable[[dict[str, Any]], dict[str, Any]],
    accepted: str,
    old: set[str],
    new: set[str],
    generation: Generation,
) -> None:
    document = change(generation(version))
    assert str(accepted_by(load_manifest(document).manifest)) == accepted
    mine = {issue.code for issue in check_manifest(document).issues}
    for published, codes in (("0.1.26", old), ("0.1.64", new)):
        report = check_manifest(document, published=published)  # pyright: ignore[reportArgumentType]
        assert {issue.code for issue in report.issues} - mine == codes


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
