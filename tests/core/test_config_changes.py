"""Changes to a game config: how they are read, merged and refused, and which variants a word means."""

from __future__ import annotations

from typing import Any

import pytest

from coworld_core import Manifest, load_manifest
from coworld_core.episode.config_text import variant_text
from coworld_core.errors import UsageError
from coworld_core.manifest.config_changes import read_changes, steps_field
from coworld_core.manifest.game_config import game_config_for, matching_variants, only_variant


@pytest.fixture
def manifest(document: dict[str, Any]) -> Manifest:
    fields = document["game"]["config_schema"]["properties"]
    fields["map"] = {"type": "string"}
    fields["level"] = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    fields["rules"] = {"type": "object", "properties": {"speed": {"type": "number"}, "fog": {"type": "boolean"}}}
    return load_manifest(document).manifest


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("ticks", "7", 7),
        ("map", "7", "7"),
        ("map", "islands", "islands"),
        ("map", '"7"', "7"),
        ("map", "null", "null"),
        ("level", "7", 7),
        ("level", "hard", "hard"),
        ("mood", "wild", "wild"),
        ("seed", "null", None),
        ("rules.fog", "true", True),
        ("rules.speed", "NaN", "NaN"),
        ("players", '[{"name": "A"}, {"name": "B"}]', [{"name": "A"}, {"name": "B"}]),
        ("ticks", "many", "many"),
    ],
)
def test_values_are_json_or_text_by_the_type_of_the_field(manifest: Manifest, key: str, text: str, value: Any) -> None:
    changes: Any = read_changes(manifest, assignments={key: text})
    for name in key.split("."):
        changes = changes[name]
    assert changes == value
    assert type(changes) is type(value)


def test_changes_are_merged_and_the_manifest_stays_as_it_is(manifest: Manifest) -> None:
    assignments = {"players.1.name": "Ann", "players.2.name": "Bob", "rules.fog": "false"}
    changes = read_changes(manifest, config={"ticks": 3, "rules": {"fog": True, "speed": 2}}, assignments=assignments)
    config = game_config_for(manifest, "default", changes=changes)
    assert [player["name"] for player in config["players"]] == ["Left", "Ann", "Bob"]
    assert (config["ticks"], config["rules"]) == (3, {"fog": False, "speed": 2})
    assert game_config_for(manifest, "default")["ticks"] != 3
    assert variant_text("default", changes) == (
        "default with ticks=3, rules.fog=false, rules.speed=2, players.1.name=Ann and players.2.name=Bob"
    )


def test_steps_are_the_field_that_limits_an_episode(manifest: Manifest, document: dict[str, Any]) -> None:
    assert read_changes(manifest, assignments={"ticks": "3"}, steps=9) == {"ticks": 9}
    document["game"]["config_schema"]["properties"]["max_ticks"] = {"type": "string"}
    assert steps_field(load_manifest(document).manifest) == "ticks"
    del document["game"]["config_schema"]["properties"]["ticks"]
    document["game"]["config_schema"]["required"].remove("ticks")
    for holder in (*document["variants"], document["certification"]):
        del holder["game_config"]["ticks"]
    with pytest.raises(UsageError, match="tug has no limit of steps") as refused:
        read_changes(load_manifest(document).manifest, steps=9)
    assert (refused.value.code, "mood" in str(refused.value.hint)) == ("steps_unknown", True)


@pytest.mark.parametrize(
    ("assignments", "code", "hint"),
    [
        ({"tick": "3"}, "config_key_unknown", 'Did you mean "ticks"?'),
        ({"zzz": "3"}, "config_key_unknown", "Known: players, ticks, seed, mood"),
        # Below rules, other fields are allowed, but this is a misspelt one
        ({"rules.sped": "3"}, "config_key_unknown", 'Did you mean "speed"?'),
        ({"players.0.nmae": "X"}, "config_key_unknown", 'Did you mean "name"?'),
        ({"players.7.name": "X"}, "config_index", "counted from 0"),
        ({"players..name": "X"}, "config_key_empty", "a dot between them"),
    ],
)
def test_unknown_fields_are_refused(manifest: Manifest, assignments: dict[str, str], code: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        game_config_for(manifest, changes=read_changes(manifest, assignments=assignments))
    assert refused.value.code == code
    assert hint in str(refused.value.hint)


def test_fields_of_a_lenient_schema_are_accepted(manifest: Manifest) -> None:
    assert game_config_for(manifest, changes={"rules": {"gravity": 9.8}})["rules"] == {"gravity": 9.8}


def test_patterns_match_variants(document: dict[str, Any]) -> None:
    document["variants"].append({**document["variants"][0], "id": "long-*"})
    manifest = load_manifest(document).manifest
    assert [one.id for one in matching_variants(manifest, "long, d*,long")] == ["long", "default"]
    assert [one.id for one in matching_variants(manifest, "*")] == ["default", "long", "long-*"]
    assert only_variant(manifest, "def*").id == "default"
    # An id is meant as such
    assert only_variant(manifest, "long-*").id == "long-*"
    with pytest.raises(UsageError, match=r"matches 2 variants of tug, and one is needed: long and long-\*") as refused:
        only_variant(manifest, "l*")
    assert refused.value.code == "several_variants"
    with pytest.raises(UsageError, match=r"No variant of tug matches \"x\*\"; it has default, long and"):
        matching_variants(manifest, "x*")
