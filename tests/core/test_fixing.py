"""What has one right answer is put right in the text; the rest of it stays as it was, and nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coworld_core import check_manifest, load_manifest
from coworld_core.documents.json_edit import Edit, edited
from coworld_core.errors import ManifestError
from coworld_core.manifest.manifest_fixes import FixedManifest, fixed_manifest, manifest_for

TEXT = """{
  "a": [1, 2],   "b": {"c": 1, "d": {}},
  "e": "x"
}
"""


@pytest.mark.parametrize(
    ("edit", "old", "new"),
    [
        (Edit("rename", ("b", "c"), "z"), '"c": 1', '"z": 1'),
        (Edit("set", ("b", "c"), 2), '"c": 1', '"c": 2'),
        (Edit("set", ("b", "d", "f"), [1]), '"d": {}', '"d": {"f": [1]}'),
        (Edit("set", ("g",), {"h": [1]}), '"x"', '"x",\n  "g": {\n    "h": [\n      1\n    ]\n  }'),
        (Edit("remove", ("b", "c")), '"c": 1, ', ""),
        (Edit("remove", ("e",)), ',\n  "e": "x"', ""),
        (Edit("remove", ("a", 0, "b")), "", ""),
        (Edit("rename", ("nothing",), "b"), "", ""),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_an_edit_leaves_all_else(edit: Edit, old: str, new: str, line_end: str) -> None:
    text = TEXT.replace("\n", line_end)
    after = edited(text, [edit])
    assert after == text.replace(old.replace("\n", line_end), new.replace("\n", line_end))
    json.loads(after)


def old_forms(document: dict[str, Any]) -> None:
    game, player = document["game"], document["player"]
    del game["runnable"]["type"]
    game["protocols"]["player"] = "# Player protocol"
    game["results_schema"]["required"] = []
    player[0]["runnable"] = {key: player[0].pop(key) for key in ("image", "run", "env")}
    player[1]["image_uri"] = player[1].pop("image")
    player[1]["descrption"] = player[1].pop("description")
    document["certification"]["variant_id"] = "default"
    document["certification"]["game_config"] = document["variants"][0]["game_config"]
    document["apiVersion"] = "coworld.softmax.com/v0"


def fixed(tmp_path: Path, document: dict[str, Any], line_end: str = "\n") -> FixedManifest:
    path = tmp_path / "coworld_manifest.json"
    path.write_bytes((json.dumps(document, indent=4) + "\n").replace("\n", line_end).encode())
    return fixed_manifest(path)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_old_forms_become_todays(document: dict[str, Any], tmp_path: Path, line_end: str) -> None:
    right = load_manifest(document).manifest
    right = right.model_copy(
        update={"certification": right.certification.model_copy(update={"game_config": right.variants[0].game_config})}
    )
    old_forms(document)
    result = fixed(tmp_path, document, line_end)
    assert {issue.code for issue in result.done} == {
        "api_version",
        "lifted_game_type",
        "lifted_image_uri",
        "lifted_protocol_doc",
        "lifted_runnable",
        "lifted_variant_id",
        "misspelt_field",
        "scores_not_required",
    }
    assert result.path.read_bytes().decode() == result.before
    assert result.left.issues == ()
    result.write()
    written = result.path.read_bytes()
    assert written.count(b"\r") == (written.count(b"\n") if line_end == "\r\n" else 0)
    assert load_manifest(result.path, mode="strict").manifest == right
    assert list(json.loads(written)["game"]) == list(document["game"])
    assert fixed_manifest(result.path).after == result.after


def test_fix_that_would_lose_a_value_is_not_made(document: dict[str, Any], tmp_path: Path) -> None:
    document["colour"] = "red"
    document["variants"][1]["parent_id"] = "default"
    document["certification"]["variant_id"] = "long"
    document["variants"][0]["game_config"]["tokens"] = ["a"]
    document["player"][0]["image_uri"] = "other:1"
    result = fixed(tmp_path, document)
    assert (result.after, result.done) == (result.before, ())
    assert {issue.code for issue in result.left.errors} == {"unknown_field", "runner_managed_tokens"}


def test_file_that_is_not_json_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "coworld_manifest.json"
    path.write_text('{"a": 1, "a": 2}')
    with pytest.raises(ManifestError):
        fixed_manifest(path)


def test_scores_that_nothing_requires_stop_no_game(document: dict[str, Any]) -> None:
    document["game"]["results_schema"]["required"] = []
    assert {issue.code for issue in check_manifest(document).warnings} == {"scores_not_required"}
    assert {issue.code for issue in check_manifest(document, mode="strict").errors} == {"scores_not_required"}


@pytest.mark.parametrize("version", ["0.1.0", "0.1.7", "0.1.26", "0.1.64"])
def test_fixing_loses_nothing(version: str, generation: Callable[[str], dict[str, Any]], tmp_path: Path) -> None:
    before = generation(version)
    result = fixed(tmp_path, before)
    again = load_manifest(result.after.encode())
    assert again.manifest == load_manifest(before).manifest


def test_a_manifest_for_a_published_version_has_everything_that_it_needs(document: dict[str, Any]) -> None:
    document["tags"] = ["a", "b", "c"]
    document["game"]["achievements"] = []
    document.pop("reporter")
    manifest = load_manifest(document).manifest
    found, left_out = manifest_for(manifest, "0.1.26")
    assert (found.tags, manifest.tags) == (None, ("a", "b", "c"))
    assert [issue.pointer for issue in left_out] == ["/game/achievements", "/tags"]
    assert manifest_for(manifest, "0.1.64") == (manifest, ())
    document["player"][0]["startup"] = {"timeout_seconds": 5}
    with pytest.raises(ManifestError) as caught:
        manifest_for(load_manifest(document).manifest, "0.1.26")
    assert [issue.pointer for issue in caught.value.report.errors] == ["/player/0/startup"]
