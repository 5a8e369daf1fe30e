"""Tokens, counts and names of players; and the words for what is wrong with a config."""

from __future__ import annotations

from typing import Any

import pytest

from coworld_core import Manifest, generate_tokens, load_manifest, with_tokens
from coworld_core.errors import ManifestError, UsageError
from coworld_core.manifest.gameconfig import (
    declares_named_players,
    find_variant,
    game_config_for,
    named_players,
    overwritten_named_players,
    slot_count,
    token_bounds,
    validate_game_config,
    with_input_controls,
)


@pytest.fixture
def manifest(document: dict[str, Any]) -> Manifest:
    return load_manifest(document).manifest


@pytest.fixture
def nameless(document: dict[str, Any]) -> Manifest:
    """A game whose config has no players, for two."""
    schema = document["game"]["config_schema"]
    schema["required"] = ["tokens"]
    del schema["properties"]["players"]
    schema["properties"]["tokens"]["maxItems"] = 2
    for holder in (*document["variants"], document["certification"]):
        del holder["game_config"]["players"]
    return load_manifest(document).manifest


def test_config_for(manifest: Manifest) -> None:
    config = game_config_for(manifest, "long")
    assert config["ticks"] == 100
    config["players"].append({"name": "X"})
    assert len(game_config_for(manifest, "long")["players"]) == 3
    assert game_config_for(manifest)["ticks"] == 5


def test_unknown_variant_lists_the_known(manifest: Manifest) -> None:
    with pytest.raises(UsageError, match=r"no variant \"defalt\"; it has default and long") as raised:
        find_variant(manifest, "defalt")
    assert raised.value.code == "unknown_variant"
    assert raised.value.hint == 'Did you mean "default"?'


def test_with_tokens(manifest: Manifest) -> None:
    config = game_config_for(manifest)
    tokens = generate_tokens(2)
    concrete = with_tokens(config, tokens)
    assert concrete["tokens"] == list(tokens)
    assert "tokens" not in config
    concrete["players"][0]["name"] = "changed"
    assert config["players"][0]["name"] == "Left"
    with pytest.raises(UsageError, match="runner-managed tokens"):
        with_tokens(concrete, tokens)


def test_slot_count_of_a_config_with_players(manifest: Manifest) -> None:
    assert token_bounds(manifest) == (2, 4)
    assert slot_count(manifest, game_config_for(manifest, "long")) == 3
    with pytest.raises(UsageError, match="5 players, but tug allows 2 to 4"):
        slot_count(manifest, {"players": [{}] * 5})
    with pytest.raises(UsageError) as raised:
        slot_count(manifest, {})
    assert raised.value.code == "slots_unknown"


def test_slot_count_of_a_config_without_players(nameless: Manifest) -> None:
    assert slot_count(nameless, {"ticks": 3}) == 2
    # A list called players that the schema does not know says nothing about the number of slots.
    assert slot_count(nameless, {"players": [{}] * 9}) == 2


def test_named_players(manifest: Manifest) -> None:
    assert declares_named_players(manifest.game.config_schema)
    config = named_players(manifest, {"ticks": 1, "players": [{"weight": 2}, {}]}, ["A", "B"])
    assert config == {"ticks": 1, "players": [{"weight": 2, "name": "A"}, {"name": "B"}]}
    assert named_players(manifest, {}, ["A", "B"]) == {"players": [{"name": "A"}, {"name": "B"}]}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["X", "X", "X"], ["X", "X (2)", "X (3)"]),
        (["X", "X", "X (2)"], ["X", "X (3)", "X (2)"]),
        (["X (2)", "X", "X"], ["X (2)", "X", "X (3)"]),
        (["", ""], ["", " (2)"]),
    ],
)
def test_equal_names_are_numbered(manifest: Manifest, names: list[str], expected: list[str]) -> None:
    config = named_players(manifest, {}, names)
    assert [player["name"] for player in config["players"]] == expected


def test_named_players_refuses(manifest: Manifest) -> None:
    for config, code in (
        ({"player_names": ["A", "B"]}, "player_names_in_config"),
        ({"players": "AB"}, "wrong_type"),
        ({"players": [{}, "B"]}, "wrong_type"),
        ({"players": [{}]}, "players_mismatch"),
    ):
        with pytest.raises(ManifestError) as raised:
            named_players(manifest, config, ["A", "B"])
        assert raised.value.code == code


def test_overwritten_named_players_resizes(manifest: Manifest) -> None:
    config = {"players": [{"name": "L", "weight": 1}, {"name": "R", "weight": 2}]}
    resized = overwritten_named_players(manifest, config, ["A", "B", "A"])
    assert resized["players"] == [
        {"name": "A", "weight": 1},
        {"name": "B", "weight": 2},
        {"name": "A (2)", "weight": 1},
    ]
    assert overwritten_named_players(manifest, config, ["A"])["players"] == [{"name": "A", "weight": 1}]
    assert config["players"][0]["name"] == "L"


def controlled(document: dict[str, Any], allowed: list[str]) -> Manifest:
    """A game whose config says of each slot who controls it."""
    slot = {"type": "object", "properties": {"control": {"type": "string", "enum": allowed}, "colour": {}}}
    document["game"]["config_schema"]["properties"]["slots"] = {"type": "array", "items": slot}
    return load_manifest(document).manifest


def test_seats_of_people_are_controlled_by_their_input(document: dict[str, Any]) -> None:
    manifest = controlled(document, ["play", "input", "idle"])
    assert with_input_controls(manifest, {}, [1])["slots"] == [{}, {"control": "input"}]
    given = {"slots": [{"colour": 1}, {"control": "idle"}, {"colour": 2, "control": "play"}]}
    changed = with_input_controls(manifest, given, [0, 2])
    assert changed["slots"] == [
        {"colour": 1, "control": "input"},
        {"control": "idle"},
        {"colour": 2, "control": "input"},
    ]
    assert given["slots"][0] == {"colour": 1}
    assert with_input_controls(manifest, {}, []) == {}
    assert with_input_controls(manifest, {"slots": "none"}, [0]) == {"slots": "none"}


def test_games_that_name_no_controllers_keep_their_config(manifest: Manifest, document: dict[str, Any]) -> None:
    assert with_input_controls(manifest, {"a": [1]}, [0]) == {"a": [1]}
    assert with_input_controls(controlled(document, ["input", "idle"]), {}, [0]) == {}


def test_names_without_named_players(nameless: Manifest) -> None:
    assert not declares_named_players(nameless.game.config_schema)
    config = {"ticks": 3}
    named = named_players(nameless, config, ["A", "B"])
    assert named == config
    assert named is not config
    assert overwritten_named_players(nameless, config, ["A"]) == config


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"ticks": 5}, [("bad_game_config", "")]),
        ({"ticks": 5, "players": [{"name": "A"}, {"nmae": "B"}]}, [("misspelt_field", "/players/1/nmae")]),
        ({"ticks": 5, "players": [{"name": "A"}]}, [("slots_out_of_bounds", "/players")]),
        (
            {"ticks": 5.5, "players": [{"name": "A"}, {"name": ""}]},
            [("bad_game_config", "/players/1/name"), ("bad_game_config", "/ticks")],
        ),
        ({"ticks": float("nan"), "players": []}, [("non_finite_number", "/ticks")]),
    ],
)
def test_validate_game_config(manifest: Manifest, config: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    report = validate_game_config(manifest, config)
    assert [(issue.code, issue.pointer) for issue in report.errors] == expected


def test_a_whole_float_is_a_whole_number(manifest: Manifest) -> None:
    assert validate_game_config(manifest, {"ticks": 5.0, "players": [{"name": "A"}, {"name": "B"}]}).ok


def test_given_slots_must_fit(manifest: Manifest) -> None:
    config = game_config_for(manifest)
    assert validate_game_config(manifest, config, slots=2).ok
    assert [issue.code for issue in validate_game_config(manifest, config, slots=3).errors] == ["players_mismatch"]


def test_no_token_is_ever_quoted(document: dict[str, Any]) -> None:
    document["game"]["config_schema"]["properties"]["tokens"]["items"]["pattern"] = "^never$"
    with pytest.raises(ManifestError) as raised:
        load_manifest(document)
    assert "token-0" not in str(raised.value.report)


class TestPatternsAreCheap:
    """Patterns that take exponential time in an engine that backtracks."""

    @pytest.mark.parametrize("pattern", [r"^(a+)+$", r"^(a|aa)+$", r"(x*)*y", r"^(\w+\s?)*$"])
    def test_evil_patterns_are_matched_at_once(self, document: dict[str, Any], pattern: str) -> None:
        document["game"]["config_schema"]["properties"]["word"] = {"type": "string", "pattern": pattern}
        document["certification"]["game_config"]["word"] = "a" * 50_000 + "!"
        with pytest.raises(ManifestError) as raised:
            load_manifest(document)
        assert [issue.pointer for issue in raised.value.report.errors] == ["/certification/game_config/word"]
        assert len(raised.value.report.errors[0].message) < 300

    @pytest.mark.parametrize(
        ("pattern", "good", "bad"),
        [
            (r"^[a-z]+(-[a-z]+)*$", "left-right", "Left"),
            (r"^\p{Lu}\w*$", "Zoë", "zoë"),
            (r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", "01234567-89ab-cdef-0123-456789abcdef", "0123"),
            (r"^[\s\S]{1,5000}$", "a line\nand another", ""),
            (r"\d", "a1", "a"),
            (r"", "", None),
        ],
    )
    def test_ordinary_patterns_work(self, document: dict[str, Any], pattern: str, good: str, bad: str | None) -> None:
        document["game"]["config_schema"]["properties"]["word"] = {"type": "string", "pattern": pattern}
        document["certification"]["game_config"]["word"] = good
        manifest = load_manifest(document).manifest
        if bad is not None:
            config = {**game_config_for(manifest), "word": bad}
            assert [issue.pointer for issue in validate_game_config(manifest, config).errors] == ["/word"]


class TestWords:
    """How the errors of a schema are put: one per cause, the value short, the likely branch of a choice."""

    def check(self, document: dict[str, Any], schema: dict[str, Any], value: Any) -> list[str]:
        document["game"]["config_schema"]["properties"]["thing"] = schema
        manifest = load_manifest(document).manifest
        report = validate_game_config(manifest, {**game_config_for(manifest), "thing": value})
        assert all(issue.code in ("bad_game_config", "misspelt_field") for issue in report.issues)
        return [f"{issue.pointer}: {issue.message}" for issue in report.issues]

    @pytest.mark.parametrize(
        ("schema", "value", "message"),
        [
            ({"type": "string"}, None, '"thing" must be text, not null.'),
            ({"type": ["string", "null"]}, 1, '"thing" must be text or null, not a number.'),
            ({"type": "integer"}, 1.5, '"thing" must be a whole number, not 1.5.'),
            ({"const": 3}, 4, '"thing" is 4; it must be 3.'),
            ({"enum": ["a", "b"]}, "c", '"thing" is "c"; allowed: "a", "b".'),
            ({"minimum": 3}, 2, '"thing" is 2; it must be at least 3.'),
            ({"exclusiveMaximum": 3}, 3, '"thing" is 3; it must be less than 3.'),
            ({"multipleOf": 2}, 3, '"thing" is 3; it must be a multiple of 2.'),
            ({"minLength": 3}, "ab", '"thing" has 2 characters; it must have at least 3.'),
            ({"maxItems": 1}, [1, 2], '"thing" has 2 elements; it must have at most 1.'),
            ({"uniqueItems": True}, [1, 1], '"thing" has the same element twice.'),
            ({"uniqueItems": True}, [{"a": [1]}, {"a": [1.0]}], '"thing" has the same element twice.'),
            ({"items": {"type": "integer"}}, [1, 2.0, True], "Element 2 must be a whole number, not true or false."),
            ({"items": {"type": "number"}}, [1, 2.5, True], "Element 2 must be a number, not true or false."),
            ({"items": {"type": "null"}}, [None, 0], "Element 1 must be null, not a number."),
            ({"prefixItems": [{"type": "string"}], "items": False}, ["a", 1], '"thing" has an element too many.'),
            ({"prefixItems": [{}], "items": {"type": "string"}}, [1, 1], "Element 1 must be text, not a number."),
            ({"pattern": "^x$"}, "y" * 500, None),
            ({"format": "date"}, "2024-13-01", '"thing" is "2024-13-01"; it must be a valid "date".'),
            ({"not": {"type": "string"}}, "a", '"thing" is what its schema excludes.'),
            (False, 1, '"thing" is not allowed here.'),
            ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1, '"thing" must be null or text, not a number.'),
            ({"oneOf": [{"const": "a"}, {"enum": ["b", "c"]}]}, "d", '"thing" is "d"; allowed: "a", "b", "c".'),
            ({"oneOf": [{"type": "integer"}, {"minimum": 1}]}, 2, '"thing" fits more than one of the shapes'),
        ],
    )
    def test_sentences(self, document: dict[str, Any], schema: Any, value: Any, message: str | None) -> None:
        messages = self.check(document, schema, value)
        assert len(messages) == 1
        pointer, _, said = messages[0].partition(": ")
        assert pointer.startswith("/thing")
        assert said.startswith(message or "")
        assert len(messages[0]) < 200

    def test_the_branch_that_was_meant(self, document: dict[str, Any]) -> None:
        shapes = {
            "oneOf": [
                {
                    "type": "object",
                    "required": ["kind", "radius"],
                    "properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}},
                },
                {
                    "type": "object",
                    "required": ["kind", "side", "angle"],
                    "properties": {"kind": {"const": "square"}, "side": {"type": "number"}},
                },
            ]
        }
        assert self.check(document, shapes, {"kind": "square", "side": "x", "angle": 0}) == [
            '/thing/side: "side" must be a number, not text.'
        ]
        assert self.check(document, shapes, {"kind": "circle"}) == ['/thing: "radius" is missing.']
        assert self.check(document, shapes, {"kind": "blob"}) == [
            '/thing/kind: "kind" is "blob"; allowed: "circle", "square".'
        ]

    @pytest.mark.parametrize("values", [[1, True], [0, False, ""], [[1], [True]], [{"a": 1}, {"a": True}], [None, 0]])
    def test_distinct_values_are_unique_items(self, document: dict[str, Any], values: list[Any]) -> None:
        assert self.check(document, {"uniqueItems": True}, values) == []

    def test_unevaluated_properties(self, document: dict[str, Any]) -> None:
        schema = {"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}
        assert self.check(document, schema, {"a": 1, "b": 2}) == ['/thing/b: The key "b" is not known here.']

    def test_additional_properties_and_patterns(self, document: dict[str, Any]) -> None:
        schema = {"patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": {"type": "string"}}
        assert self.check(document, schema, {"x-a": "1", "b": 2, "c": "ok", "x-d": 1}) == [
            '/thing/x-a: "x-a" must be a whole number, not text.',
            '/thing/b: "b" must be text, not a number.',
        ]

    @pytest.mark.parametrize(
        ("name", "good", "bad"),
        [
            ("date-time", "2024-02-29T12:00:00.123456789Z", "2024-02-30T12:00:00Z"),
            ("time", "23:59:59+02:00", "24:00:00Z"),
            ("email", "a@b", "a b@c"),
            ("hostname", "a-b.example", "-a.example"),
            ("ipv4", "127.0.0.1", "127.0.0.256"),
            ("ipv6", "::1", "::g"),
            ("uuid", "01234567-89ab-cdef-0123-456789abcdef", "0123456789abcdef0123456789abcdef"),
            ("uri", "https://example.org/a%20b?c#d", "/relative"),
            ("uri-reference", "/relative", "a b"),
            ("regex", "^a+$", "("),
            ("json-pointer", "/a~1b/0", "a"),
        ],
    )
    def test_formats(self, document: dict[str, Any], name: str, good: str, bad: str) -> None:
        assert self.check(document, {"format": name}, good) == []
        assert self.check(document, {"format": name}, 7) == []
        assert len(self.check(document, {"format": name}, bad)) == 1


def test_references_inside_a_schema(document: dict[str, Any]) -> None:
    schema = document["game"]["config_schema"]
    schema["$id"] = "https://example.org/config"
    schema["$defs"]["anchored"] = {"$anchor": "level", "type": "integer"}
    schema["$defs"]["embedded"] = {
        "$id": "https://example.org/embedded",
        "$defs": {"x": {"type": "string"}},
        "$ref": "#/$defs/x",
    }
    schema["properties"]["a"] = {"$ref": "#level"}
    schema["properties"]["b"] = {"$ref": "https://example.org/embedded"}
    schema["properties"]["c"] = {"$ref": "config#/$defs/player"}
    schema["properties"]["d"] = {"$ref": "https://json-schema.org/draft/2020-12/schema"}
    document["certification"]["game_config"] |= {"a": 1, "b": "x", "c": {"name": "n"}, "d": {"type": "banana"}}
    with pytest.raises(ManifestError) as raised:
        load_manifest(document)
    assert [issue.pointer for issue in raised.value.report.errors] == ["/certification/game_config/d/type"]
