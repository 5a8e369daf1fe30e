"""Every issue code: a document that gets it, at its pointer, on its line, and nothing else."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.hostile_reports import HOSTILE

from coworld_core import Report, check_manifest, check_request, check_results, load_manifest
from coworld_core.errors import ManifestError
from coworld_core.issue_codes import ISSUE_CODES
from coworld_core.manifest.template import hydrate

Document = dict[str, Any]
Change = Callable[[Document], object]


@dataclass(frozen=True)
class Case:
    """A change to the right manifest, and the one issue that comes of it."""

    code: str
    change: Change
    pointer: str
    at: str
    """The text that begins at the line and column of the issue; a quoted last part of the pointer means the key."""
    says: str
    """Part of the message or the hint."""
    severity: str = "error"
    mode: str = "read"
    template: bool = False
    published: str | None = None
    also: frozenset[str] = field(default_factory=frozenset)
    """Other codes that the same change rightly gets."""


def put(*path: str | int, value: object) -> Change:
    def change(document: Document) -> None:
        place: Any = document
        for part in path[:-1]:
            place = place[part]
        if isinstance(place, list) and path[-1] == len(place):
            place.append(value)
        else:
            place[path[-1]] = value

    return change


def drop(*path: str | int) -> Change:
    def change(document: Document) -> None:
        place: Any = document
        for part in path[:-1]:
            place = place[part]
        del place[path[-1]]

    return change


def rename(*path: str, to: str) -> Change:
    """Rename a key where it stands."""

    def change(document: Document) -> None:
        place: Any = document
        for part in path[:-1]:
            place = place[part]
        items = [(to if key == path[-1] else key, value) for key, value in place.items()]
        place.clear()
        place.update(items)

    return change


def both(*changes: Change) -> Change:
    def change(document: Document) -> None:
        for one in changes:
            one(document)

    return change


CONFIG = ("game", "config_schema")
RESULTS = ("game", "results_schema")
ENV = ("game", "runnable", "env")

CASES = [
    # Fields
    Case("missing_field", drop("game", "name"), "/game", "{", 'game lacks "name"'),
    Case("missing_field", drop("game", "version"), "/game", "{", 'Add "version": PEP 440'),
    Case("missing_field", drop("certification"), "", "{", 'The manifest lacks "certification"'),
    Case("missing_field", drop("game", "protocols", "global"), "/game/protocols", "{", 'lacks "global"'),
    Case("missing_field", drop("game", "docs", "readme", "type"), "/game/docs/readme", "{", 'lacks "type"'),
    Case("missing_field", drop("game", "docs", "readme", "value"), "/game/docs/readme", "{", 'lacks "value"'),
    Case("misspelt_field", rename("game", to="gmae"), "/gmae", '"gmae"', 'Did you mean "game"?'),
    Case("misspelt_field", rename("game", "version", to="verison"), "/game/verison", '"verison"', '"version"'),
    Case("misspelt_field", rename("game", "docs", to="doc"), "/game/doc", '"doc"', '"docs"'),
    Case("misspelt_field", rename("game", "runnable", "type", to="tpye"), "/game/runnable/tpye", '"tpye"', '"type"'),
    Case(
        "misspelt_field", rename("game", "docs", "readme", "type", to="typ"), "/game/docs/readme/typ", '"typ"', '"type"'
    ),
    Case(
        "misspelt_field",
        rename("game", "config_schema", to="configSchema"),
        "/game/configSchema",
        '"configSchema"',
        '"config_schema"',
    ),
    Case("unknown_field", put("colour", value="red"), "/colour", '"colour"', "it is ignored", "warning"),
    Case("unknown_field", put("colour", value="red"), "/colour", '"colour"', "not a field", mode="strict"),
    Case(
        "unknown_field",
        put("player", 0, "sourceurl", value="x"),
        "/player/0/sourceurl",
        '"sourceurl"',
        'Did you mean "source_url"?',
        "warning",
    ),
    Case("wrong_type", put("game", "name", value=7), "/game/name", "7", "game.name must be text, not a number"),
    Case("wrong_type", put("player", value={}), "/player", "{", "player must be a list, not an object"),
    Case("wrong_type", put("game", "runnable", "run", value="tug"), "/game/runnable/run", '"tug"', "must be a list"),
    Case("wrong_type", put("players_per_user", value="3"), "/players_per_user", '"3"', "a whole number, not text"),
    Case("wrong_type", put("players_per_user", value=True), "/players_per_user", "true", "not true or false"),
    Case("wrong_type", put("players_per_user", value=1.5), "/players_per_user", "1.5", "a whole number, not 1.5"),
    Case("wrong_type", put("reporter", value=None), "/reporter", "null", "must be a list, not null"),
    Case("wrong_type", put("game", value=[]), "/game", "[]", "game must be an object, not a list"),
    Case("wrong_type", put("game", "docs", "readme", value=3), "/game/docs/readme", "3", "must be a document"),
    Case("wrong_type", put(*ENV, "TUG_MODE", value=3), "/game/runnable/env/TUG_MODE", "3", "must be text"),
    Case("empty_value", put("game", "owner", value=""), "/game/owner", '""', "must not be empty"),
    Case("not_allowed", put("player", 1, "type", value="playr"), "/player/1/type", '"playr"', 'Did you mean "player"?'),
    Case(
        "not_allowed",
        put("game", "docs", "readme", "type", value="markdown"),
        "/game/docs/readme/type",
        '"markdown"',
        "allowed: text or uri",
    ),
    Case("out_of_range", put("players_per_user", value=0), "/players_per_user", "0", "at least 1"),
    Case("wrong_section_type", put("player", 0, "type", value="grader"), "/player/0/type", '"grader"', "must be"),
    Case(
        "wrong_section_type",
        put("game", "runnable", "type", value="player"),
        "/game/runnable/type",
        '"player"',
        "game.runnable.type must be 'game'",
    ),
    # Values
    Case("bad_version", put("game", "version", value="one"), "/game/version", '"one"', "PEP 440"),
    Case(
        "bad_uri",
        put("game", "protocols", "global", "value", value="ftp://x"),
        "/game/protocols/global/value",
        '"ftp://x"',
        "http",
    ),
    Case("empty_image", put("player", 0, "image", value=""), "/player/0/image", '""', "is empty"),
    Case("empty_image", put("player", 0, "image", value="  "), "/player/0/image", '"  "', "is empty"),
    Case("bad_image", put("player", 0, "image", value="--privileged"), "/player/0/image", '"--priv', "hyphen"),
    Case("bad_image", put("player", 0, "image", value="a b"), "/player/0/image", '"a b"', "white space"),
    Case("bad_image", put("player", 0, "image", value="Tug:1"), "/player/0/image", '"Tug:1"', "uppercase"),
    Case("bad_image", put("player", 0, "image", value="https://x/y"), "/player/0/image", '"https://x/y"', "URL"),
    Case("bad_image", put("player", 0, "image", value="file:///bin/sh"), "/player/0/image", '"file:///', "reference"),
    Case("bad_image", put("player", 0, "image", value="a:{{B_IMAGE}}"), "/player/0/image", '"a:{{B', "placeholder"),
    Case(
        "image_unpublished",
        put("player", 0, "image", value="img_01234567-89ab-cdef-0123-456789abcdef"),
        "/player/0/image",
        '"img_0',
        "not published yet",
        "warning",
    ),
    Case("bad_run", put("player", 0, "run", value=["", "x"]), "/player/0/run", "[", "empty element"),
    Case("bad_run", put("player", 0, "run", value=["a\0b"]), "/player/0/run", "[", "NUL"),
    Case(
        "run_with_spaces",
        put("player", 0, "run", value=["python -m tug"]),
        "/player/0/run/0",
        '"python -m tug"',
        '"python", "-m", "tug"',
        "warning",
    ),
    Case("bad_env_name", put(*ENV, "A=B", value="1"), "/game/runnable/env/A=B", '"A=B"', "letters"),
    Case("bad_env_name", put(*ENV, "A B", value="1"), "/game/runnable/env/A B", '"A B"', "letters"),
    Case("bad_env_name", put(*ENV, "", value="1"), "/game/runnable/env/", '""', "is empty"),
    Case("bad_env_name", put(*ENV, "1A", value="1"), "/game/runnable/env/1A", '"1A"', "begins with"),
    Case("bad_env_name", put(*ENV, "A\nB", value="1"), "/game/runnable/env/A\nB", '"A\\nB"', "letters"),
    Case("bad_env_value", put(*ENV, "A", value="a\0"), "/game/runnable/env/A", '"a\\u0000"', "NUL"),
    Case(
        "reserved_env",
        put(*ENV, "COGAME_PORT", value="1"),
        "/game/runnable/env/COGAME_PORT",
        '"COGAME_PORT"',
        "runner sets",
    ),
    Case(
        "reserved_env",
        put(*ENV, "COWORLD_LOCAL_PORT_9", value="1"),
        "/game/runnable/env/COWORLD_LOCAL_PORT_9",
        '"COWORLD_LOCAL_PORT_9"',
        "runner",
    ),
    Case(
        "reserved_env",
        put("player", 0, "env", "COWORLD_PLAYER_WS_URL", value="ws://x"),
        "/player/0/env/COWORLD_PLAYER_WS_URL",
        '"COWORLD_PLAYER_WS_URL"',
        "another name",
    ),
    Case(
        "reserved_env",
        put("player", 0, "env", "COWORLD_LOCAL_EXTRA_PORTS", value="1"),
        "/player/0/env/COWORLD_LOCAL_EXTRA_PORTS",
        '"COWORLD_LOCAL_EXTRA_PORTS": "1"',
        "only a game's author",
    ),
    Case(
        "reserved_env_prefix",
        put(*ENV, "COGAME_DIFFICULTY", value="1"),
        "/game/runnable/env/COGAME_DIFFICULTY",
        '"COGAME_DIFFICULTY"',
        "reserved for runners",
        "warning",
    ),
    Case(
        "reserved_env_prefix",
        put(*ENV, "COGAME_DIFFICULTY", value="1"),
        "/game/runnable/env/COGAME_DIFFICULTY",
        '"COGAME_DIFFICULTY"',
        "reserved for runners",
        mode="strict",
    ),
    Case(
        "bad_extra_ports",
        put(*ENV, "COWORLD_LOCAL_EXTRA_PORTS", value="8085:"),
        "/game/runnable/env/COWORLD_LOCAL_EXTRA_PORTS",
        '"8085:"',
        "nothing after the colon",
    ),
    Case(
        "bad_quantity",
        put("game", "runnable", "resources", "requests", "memory", value="256m"),
        "/game/runnable/resources/requests/memory",
        '"256m"',
        "256Mi",
    ),
    Case(
        "bad_quantity",
        put("game", "runnable", "resources", "requests", "cpu", value="0"),
        "/game/runnable/resources/requests/cpu",
        '"0"',
        "more than zero",
    ),
    Case(
        "bad_quantity",
        put("game", "runnable", "resources", "requests", "ephemeral-storage", value="lots"),
        "/game/runnable/resources/requests/ephemeral-storage",
        '"lots"',
        "not a Kubernetes quantity",
    ),
    Case("unsafe_id", put("reporter", 0, "id", value="../../etc"), "/reporter/0/id", '"../../etc"', "slash"),
    Case("unsafe_id", put("variants", 1, "id", value=".."), "/variants/1/id", '".."', "dot"),
    Case("unsafe_id", put("variants", 1, "id", value="a\\b"), "/variants/1/id", '"a\\\\b"', "backslash"),
    Case("unsafe_id", put("variants", 1, "id", value="-rf"), "/variants/1/id", '"-rf"', "hyphen"),
    Case("unsafe_id", put("variants", 1, "id", value="x" * 129), "/variants/1/id", '"xxx', "longer"),
    Case(
        "unwise_page_id",
        put("game", "docs", "pages", 0, "id", value="a/b"),
        "/game/docs/pages/0/id",
        '"a/b"',
        "slash",
        "warning",
    ),
    Case(
        "duplicate_id",
        put("player", 1, "id", value="puller"),
        "/player/1/id",
        '"puller",\n      "name": "Waiter"',
        "duplicate player id",
        also=frozenset({"unknown_player_id"}),
    ),
    Case(
        "duplicate_id",
        put("variants", 1, "id", value="default"),
        "/variants/1/id",
        '"default",\n      "name": "Long"',
        "duplicate variant id",
    ),
    Case(
        "duplicate_id",
        lambda document: document["reporter"].append(copy.deepcopy(document["reporter"][0])),
        "/reporter/1/id",
        "",
        "duplicate reporter id",
    ),
    Case(
        "duplicate_page_id",
        lambda document: document["game"]["docs"]["pages"].append(copy.deepcopy(document["game"]["docs"]["pages"][0])),
        "/game/docs/pages/1/id",
        "",
        "rules.md",
        "warning",
    ),
    Case(
        "unknown_player_id",
        put("certification", "players", 1, "player_id", value="pullr"),
        "/certification/players/1/player_id",
        '"pullr"',
        'Did you mean "puller"?',
    ),
    # Schemas
    Case(
        "schema_invalid",
        put(*CONFIG, "properties", "ticks", "type", value="itneger"),
        "/game/config_schema/properties/ticks/type",
        '"itneger"',
        'Did you mean "integer"?',
    ),
    Case(
        "schema_invalid",
        put(*CONFIG, "properties", "ticks", "minimum", value="1"),
        "/game/config_schema/properties/ticks/minimum",
        '"1"',
        "must be a number",
    ),
    Case(
        "schema_invalid",
        put(*RESULTS, "properties", "winner", "type", value="banana"),
        "/game/results_schema/properties/winner/type",
        '"banana"',
        "not a type",
    ),
    Case(
        "remote_reference",
        put(*CONFIG, "properties", "mood", value={"$ref": "https://example.org/mood.json"}),
        "/game/config_schema/properties/mood/$ref",
        '"https://example.org/mood.json"',
        "nothing is fetched",
    ),
    Case(
        "remote_reference",
        put(*RESULTS, "$ref", value="results.json#/x"),
        "/game/results_schema/$ref",
        '"results.json#/x"',
        "nothing is fetched",
    ),
    Case(
        "unresolved_reference",
        put(*CONFIG, "properties", "mood", value={"$ref": "#/$defs/mood"}),
        "/game/config_schema/properties/mood/$ref",
        '"#/$defs/mood"',
        "does not exist in this schema",
    ),
    Case(
        "schema_dialect",
        put(*CONFIG, "$schema", value="http://json-schema.org/draft-07/schema#"),
        "/game/config_schema/$schema",
        '"http://json-schema.org',
        "2020-12",
        "warning",
    ),
    Case(
        "schema_dialect",
        put(*CONFIG, "properties", "mood", value={"$schema": "http://json-schema.org/draft-07/schema#"}),
        "/game/config_schema/properties/mood/$schema",
        '"http://json-schema.org',
        "Remove it",
    ),
    Case(
        "unknown_schema_keyword",
        put(*CONFIG, "properties", "ticks", "maximun", value=3),
        "/game/config_schema/properties/ticks/maximun",
        '"maximun"',
        'Did you mean "maximum"?',
        "warning",
    ),
    Case(
        "bad_pattern",
        put(*CONFIG, "properties", "mood", value={"pattern": "("}),
        "/game/config_schema/properties/mood/pattern",
        '"("',
        "unclosed group",
    ),
    Case(
        "bad_pattern",
        put(*CONFIG, "properties", "mood", value={"pattern": "^(?!no)[a-z]+$"}),
        "/game/config_schema/properties/mood/pattern",
        '"^(?!no)',
        "look-around",
    ),
    Case(
        "bad_pattern",
        put(*CONFIG, "properties", "mood", value={"patternProperties": {r"^(\w)\1$": {}}}),
        r"/game/config_schema/properties/mood/patternProperties/^(\w)\1$",
        r'"^(\\w)\\1$"',
        "backreferences",
    ),
    Case(
        "bad_pattern",
        put(*CONFIG, "properties", "mood", value={"pattern": "a{50}{50}{50}"}),
        "/game/config_schema/properties/mood/pattern",
        '"a{50}',
        "too long",
    ),
    Case(
        "bad_pattern",
        put(*CONFIG, "properties", "mood", value={"pattern": "((a{1,50}){50}-){50}"}),
        "/game/config_schema/properties/mood/pattern",
        '"((a{1,50}',
        "too long",
    ),
    Case(
        "bad_pattern",
        put(
            *CONFIG, "properties", "mood", value={"unevaluatedProperties": False, "patternProperties": {"^(a*)*b": {}}}
        ),
        "/game/config_schema/properties/mood/patternProperties/^(a*)*b",
        '"^(a*)*b"',
        "unevaluatedProperties",
    ),
    Case(
        "tokens_not_required", put(*CONFIG, "required", value=["ticks"]), "/game/config_schema/required", "[", "tokens"
    ),
    Case("tokens_not_required", drop(*CONFIG, "required"), "/game/config_schema", "{", "tokens"),
    Case(
        "bad_tokens_schema",
        put(*CONFIG, "properties", "tokens", "$ref", value="#/$defs/player"),
        "/game/config_schema/properties/tokens/$ref",
        '"#/$defs/player"',
        "in place",
    ),
    Case(
        "bad_tokens_schema",
        put(*CONFIG, "properties", "tokens", "items", value={}),
        "/game/config_schema/properties/tokens/items",
        "{}",
        "string",
    ),
    Case(
        "bad_tokens_schema",
        drop(*CONFIG, "properties", "tokens", "minItems"),
        "/game/config_schema/properties/tokens/minItems",
        "{",
        "minItems",
    ),
    Case(
        "bad_tokens_schema",
        put(*CONFIG, "properties", "tokens", "minItems", value=5),
        "/game/config_schema/properties/tokens/minItems",
        "5",
        "above",
    ),
    Case(
        "bad_tokens_schema",
        put(
            *CONFIG,
            "properties",
            "tokens",
            value={"type": "array", "items": {"type": "string"}, "minItems": 10**9, "maxItems": 10**9},
        ),
        "/game/config_schema/properties/tokens/minItems",
        "1000000000",
        "at most",
    ),
    Case(
        "bad_tokens_schema",
        put(*CONFIG, "properties", "tokens", "items", "maxLength", value=8),
        "/game/config_schema/properties/tokens",
        "{",
        "22 characters",
    ),
    Case(
        "player_names_in_schema",
        put(*CONFIG, "properties", "player_names", value={}),
        "/game/config_schema/properties/player_names",
        '"player_names"',
        "players[].name",
    ),
    Case(
        "slot_names_in_schema",
        put(*CONFIG, "properties", "slots", value={"items": {"properties": {"name": {}}}}),
        "/game/config_schema/properties/slots",
        '"slots"',
        "players[].name",
    ),
    Case(
        "scores_not_required",
        drop(*RESULTS, "required"),
        "/game/results_schema",
        "{",
        "one number per slot",
        mode="strict",
    ),
    Case("scores_not_required", drop(*RESULTS, "required"), "/game/results_schema", "{", "one number", "warning"),
    # No published version has this rule
    Case(
        "scores_not_required",
        drop(*RESULTS, "required"),
        "/game/results_schema",
        "{",
        "one number",
        "warning",
        mode="strict",
        published="0.1.26",
    ),
    Case(
        "scores_not_required",
        put(*RESULTS, "required", value=["winner"]),
        "/game/results_schema/required",
        "[",
        "one number per slot",
        "warning",
    ),
    Case(
        "scores_not_numbers",
        put(*RESULTS, "properties", "scores", value={"type": "object"}),
        "/game/results_schema/properties/scores",
        "{",
        "not a list",
    ),
    Case(
        "scores_not_numbers",
        put(*RESULTS, "properties", "scores", "items", value={"type": "string"}),
        "/game/results_schema/properties/scores/items",
        "{",
        "list of numbers",
    ),
    Case("scores_not_numbers", put(*RESULTS, "type", value="array"), "/game/results_schema/type", '"array"', "object"),
    Case(
        "scores_undeclared",
        drop(*RESULTS, "properties", "scores"),
        "/game/results_schema/properties",
        "{",
        "does not say",
        "warning",
    ),
    Case(
        "scores_undeclared",
        put(*RESULTS, "properties", "scores", value={}),
        "/game/results_schema/properties/scores",
        "{}",
        "does not say",
        "warning",
    ),
    # Game configs
    Case(
        "bad_game_config",
        put("variants", 0, "game_config", "ticks", value="ten"),
        "/variants/0/game_config/ticks",
        '"ten"',
        "a whole number, not text",
    ),
    Case(
        "bad_game_config",
        put("variants", 0, "game_config", "ticks", value=0),
        "/variants/0/game_config/ticks",
        "0",
        "at least 1",
    ),
    Case(
        "bad_game_config",
        put("variants", 0, "game_config", "mood", value="wld"),
        "/variants/0/game_config/mood",
        '"wld"',
        'Did you mean "wild"?',
    ),
    Case(
        "bad_game_config",
        put("certification", "game_config", "colour", value=1),
        "/certification/game_config/colour",
        '"colour"',
        "not known",
    ),
    Case(
        "bad_game_config",
        drop("certification", "game_config", "ticks"),
        "/certification/game_config",
        "{",
        '"ticks" is missing',
    ),
    Case(
        "misspelt_field",
        rename("certification", "game_config", "ticks", to="tikcs"),
        "/certification/game_config/tikcs",
        '"tikcs"',
        'Did you mean "ticks"?',
    ),
    Case(
        "runner_managed_tokens",
        put("variants", 0, "game_config", "tokens", value=["a", "b"]),
        "/variants/0/game_config/tokens",
        '"tokens": [\n          "a"',
        "runner-managed",
    ),
    Case(
        "player_names_in_config",
        put("variants", 0, "game_config", "player_names", value=["a", "b"]),
        "/variants/0/game_config/player_names",
        '"player_names"',
        "players[].name",
    ),
    Case(
        "players_mismatch",
        lambda document: document["certification"]["players"].pop(),
        "/certification/players",
        '[\n      {\n        "player_id"',
        "must match",
    ),
    Case(
        "slots_out_of_bounds",
        put("variants", 0, "game_config", "players", value=[{"name": "solo"}]),
        "/variants/0/game_config/players",
        '[\n          {\n            "name": "solo"',
        "2 to 4",
    ),
    # Templates and other generations
    Case(
        "template_not_built",
        both(put("game", "runnable", "image", value="{{TUG_IMAGE}}"), drop("game", "version")),
        "/game/runnable/image",
        '"{{TUG_IMAGE}}"',
        "build_coworld",
    ),
    Case(
        "template_not_built",
        both(put("player", 0, "image", value="{{TUG_IMAGE}}"), put("player", 1, "image", value="{{WAITER_IMAGE}}")),
        "/player/0/image",
        '"{{TUG_IMAGE}}"',
        "2 programs",
    ),
    Case(
        "lifted_version",
        both(put("game", "runnable", "image", value="{{TUG_IMAGE}}"), drop("game", "version")),
        "/game",
        "{",
        "0.0.0.dev0",
        "info",
        template=True,
    ),
    Case("lifted_version", drop("game", "version"), "/game", "{", "do not play it", "warning", template=True),
    Case("lifted_game_type", drop("game", "runnable", "type"), "/game/runnable", "{", '"game"', "info"),
    Case("lifted_role_type", drop("player", 0, "type"), "/player/0", "{", '"player"', "info"),
    Case("lifted_docs", drop("game", "docs"), "/game", "{", "description", "info"),
    Case("lifted_readme", drop("game", "docs", "readme"), "/game/docs", "{", "description", "info"),
    Case(
        "lifted_protocol_doc",
        put("game", "protocols", "player", value="Pull."),
        "/game/protocols/player",
        '"Pull."',
        "bare text",
        "info",
    ),
    Case(
        "lifted_parent_id",
        put("variants", 1, "parent_id", value="default"),
        "/variants/1/parent_id",
        '"parent_id"',
        "no effect",
        "info",
    ),
    Case(
        "lifted_parent_id",
        put("variants", 1, "parent_id", value="nobody"),
        "/variants/1/parent_id",
        '"parent_id"',
        "nobody",
        "warning",
    ),
    Case(
        "api_version",
        put("apiVersion", value="coworld.softmax.com/v0"),
        "/apiVersion",
        '"apiVersion"',
        "Remove it",
        "warning",
    ),
    Case(
        "unknown_api_version",
        put("apiVersion", value="coworld.softmax.com/v7"),
        "/apiVersion",
        '"coworld.softmax.com/v7"',
        "Did you mean",
    ),
    Case("unknown_api_version", put("apiVersion", value=1), "/apiVersion", "1", "does not know"),
    Case("lifted_image_uri", rename("player", 1, "image", to="image_uri"), "/player/1/image_uri", '"', "image", "info"),
    Case(
        "lifted_runnable",
        both(drop("player", 1, "image"), put("player", 1, "runnable", value={"image": "a:1", "type": "player"})),
        "/player/1/runnable",
        "{",
        "beside id and name",
        "info",
    ),
    Case(
        "lifted_variant_id",
        both(drop("certification", "game_config"), put("certification", "variant_id", value="default")),
        "/certification/variant_id",
        '"default"',
        "config of the variant",
        "info",
    ),
    Case(
        "unclear_form",
        put("certification", "variant_id", value="long"),
        "/certification/variant_id",
        '"variant_id"',
        "differs from certification.game_config",
        "warning",
    ),
    Case(
        "unclear_form",
        put("certification", "variant_id", value="nobody"),
        "/certification/variant_id",
        '"variant_id"',
        "is not the id of a variant",
        "warning",
    ),
    Case(
        "unclear_form",
        put("player", 0, "image_uri", value="other:1"),
        "/player/0/image_uri",
        '"image_uri"',
        "a different image_uri",
        "warning",
    ),
    Case(
        "unclear_form",
        put("player", 0, "runnable", value={"image": "other:1"}),
        "/player/0/runnable",
        "{",
        "contradicts",
        also=frozenset({"unknown_field"}),
    ),
    Case("newer_field", put("tags", value=["a", "b", "c"]), "/tags", '"tags"', "has no effect", "info"),
    Case("newer_field", put("tags", value=["a", "b", "c"]), "/tags", '"tags"', "kept unchanged", "info", mode="strict"),
    Case(
        "too_few_tags",
        put("tags", value=["a"]),
        "/tags",
        "[",
        "at least three",
        mode="strict",
        also=frozenset({"newer_field"}),
    ),
    Case(
        "bad_place",
        put("game", "replay_viewer", value={"bundle": "a/../b"}),
        "/game/replay_viewer/bundle",
        '"a/../b"',
        "inside the package",
        mode="strict",
        also=frozenset({"newer_field"}),
    ),
    Case(
        "player_file",
        both(drop("player", 0, "image"), put("player", 0, "file", value="bot.py")),
        "/player/0/file",
        '"file"',
        "hosts its players",
        "warning",
    ),
    Case(
        "other_runtime",
        put("game", "player_runtime", value="game-hosted"),
        "/player/0/image",
        '"image"',
        "is an image",
        mode="strict",
    ),
    Case(
        "image_and_file",
        put("player", 0, "file", value="bot.py"),
        "/player/0/file",
        '"file"',
        "both",
        also=frozenset({"player_file"}),
    ),
    Case(
        "not_yet_published",
        put("tags", value=["a", "b", "c"]),
        "/tags",
        '"tags"',
        "0.1.32",
        published="0.1.26",
        also=frozenset({"newer_field"}),
    ),
    Case(
        "no_longer_published",
        put("tags", value=["a", "b", "c"]),
        "/reporter/0",
        "{",
        "up to 0.1.29",
        published="0.1.64",
        also=frozenset({"newer_field"}),
    ),
    Case("tags_missing", drop("reporter"), "", "{", "certify", "warning", published="0.1.64"),
]


def cases() -> list[Any]:
    seen: dict[str, int] = {}
    result: list[Any] = []
    for case in CASES:
        seen[case.code] = seen.get(case.code, 0) + 1
        result.append(pytest.param(case, id=f"{case.code}-{seen[case.code]}"))
    return result


def place_of(document: Document, pointer: str, *, key: bool) -> tuple[int, int]:
    """Line and column of a place, found by writing the document again with a mark there."""
    mark = "\N{SNOWMAN}"
    marked: Any = {"": copy.deepcopy(document)}
    place, last = marked, ""
    for raw in pointer.split("/")[1:]:
        part: Any = raw.replace("~1", "/").replace("~0", "~")
        below = place[last]
        if isinstance(below, list):
            part = int(part)
        elif part not in below:
            break
        place, last = below, part
    if key:
        items = [(mark if name == last else name, value) for name, value in place.items()]
        place.clear()
        place.update(items)
    else:
        place[last] = mark
    text = json.dumps(marked[""], indent=2, ensure_ascii=False)
    offset = text.index(f'"{mark}"')
    return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1


def text_at(text: str, line: int, column: int) -> str:
    return "\n".join(text.split("\n")[line - 1 :])[column - 1 :]


@pytest.mark.parametrize("case", cases())
def test_each_code(case: Case, document: Document) -> None:
    case.change(document)
    text = json.dumps(document, indent=2)
    rules: Any = {"mode": case.mode, "template": case.template, "published": case.published}
    report = check_manifest(text.encode(), **rules)
    found = [issue for issue in report.issues if issue.code == case.code]
    assert found, str(report)
    issue = found[0]
    assert {other.code for other in report.issues} - case.also == {case.code}, str(report)
    assert issue.pointer == case.pointer
    assert issue.severity == case.severity
    assert case.says in f"{issue.message} {issue.hint}"
    last = case.pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
    at_key = case.at != "" and case.at.startswith(json.dumps(last))
    line, column = place_of(document, case.pointer, key=at_key)
    assert (issue.line, issue.column) == (line, column)
    assert text_at(text, line, column).startswith(case.at)
    assert len(issue.message) < 300
    if case.severity == "error":
        with pytest.raises(ManifestError) as raised:
            load_manifest(text.encode(), **rules)
        assert raised.value.report == report
    else:
        loaded = load_manifest(text.encode(), **rules)
        assert loaded.report == report


TEXTS: list[tuple[str, bytes, str, tuple[int, int] | None]] = [
    ("empty_document", b"", "", None),
    ("empty_document", b" \n", "", None),
    ("not_utf8", b'{"a": "\xff"}', "", None),
    ("not_json", b'{"game": {},}', "", (1, 13)),
    ("not_json", b"{'game': 1}", "", (1, 2)),
    ("not_json", b'{\n  "game": 1\n  "player": 2\n}', "", (3, 3)),
    ("not_json", b'{"game": 1', "", (1, 11)),
    ("not_json", b'{"game": True}', "", (1, 10)),
    ("not_json", b'{"game": {{GAME}}}', "", (1, 11)),
    ("not_json", b'// a comment\n{"game": 1}', "", (1, 1)),
    ("not_json", b'{"game": 1} {"game": 2}', "", (1, 13)),
    ("not_json", b'{"game" 1}', "", (1, 9)),
    ("not_json", b"{game: 1}", "", (1, 2)),
    ("not_json", b'{"game": "a\nb"}', "", (1, 12)),
    ("not_json", b'{"game": "a}', "", (1, 10)),
    ("not_json", b'{"game": "\\q"}', "", (1, 11)),
    ("not_json", b"game: tug", "", (1, 1)),
    ("not_an_object", b"[1, 2]", "", (1, 1)),
    ("not_an_object", b'\n  "game"', "", (2, 3)),
    ("duplicate_key", b'{"game": {"name": "a",\n "name": "b"}}', "/game/name", (2, 2)),
    ("non_finite_number", b'{"game": [1, NaN]}', "/game/1", (1, 14)),
    ("non_finite_number", b'{"game": -Infinity}', "/game", (1, 10)),
    ("non_finite_number", b'{"game": 1e999}', "/game", (1, 10)),
    ("non_finite_number", b'{"game": ' + b"9" * 5000 + b"}", "/game", (1, 10)),
    ("bad_text", b'{"game": "\\ud800"}', "/game", (1, 10)),
    ("bad_text", b'{"game": {"\\udc00": 1}}', "/game", (1, 11)),
    ("too_deep", b"[" * 70 + b"]" * 70, "/0" * 64, (1, 65)),
    ("too_deep", b"[" * 200_000, "/0" * 64, (1, 65)),
    ("too_large", b" " * (4 * 1024 * 1024 + 1), "", None),
]


@pytest.mark.parametrize(("code", "text", "pointer", "place"), TEXTS, ids=[f"{t[0]}-{i}" for i, t in enumerate(TEXTS)])
def test_each_code_of_text(code: str, text: bytes, pointer: str, place: tuple[int, int] | None) -> None:
    report = check_manifest(text)
    issue = next(issue for issue in report.issues if issue.code == code)
    assert issue.pointer == pointer
    assert (issue.line, issue.column) == (place or (None, None))
    assert issue.severity == "error"
    assert len(str(issue)) < 600


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("not_json_value", {"game": {1, 2}}),
        ("not_json_value", {"game": {7: "seven"}}),
        ("not_json_value", {"game": b"bytes"}),
        ("non_finite_number", {"game": math.nan}),
        ("non_finite_number", {"game": 10**5000}),
        ("bad_text", {"game": "\ud800"}),
        ("bad_text", {"\ud800": 1}),
    ],
)
def test_each_code_of_values(code: str, value: dict[str, Any]) -> None:
    assert code in {issue.code for issue in check_manifest(value).errors}


def test_a_value_that_contains_itself() -> None:
    value: dict[str, Any] = {}
    value["game"] = value
    assert {issue.code for issue in check_manifest(value).errors} == {"too_deep"}


def test_too_many_issues(document: Document) -> None:
    document["game"]["runnable"]["env"] = {f"BAD NAME {number}": "x" for number in range(500)}
    report = check_manifest(document)
    assert len(report.errors) == 200
    assert report.issues[-1].code == "too_many_issues"
    assert "300" in report.issues[-1].message


MOOD = "/game/config_schema/properties/mood"
HERE = {"$ref": "#/properties/mood"}
LOOPS: list[tuple[dict[str, Any], str]] = [
    (HERE, MOOD),
    ({"not": HERE}, MOOD),
    ({"allOf": [HERE]}, MOOD),
    ({"anyOf": [{"type": "null"}, HERE]}, MOOD),
    ({"oneOf": [HERE, {"type": "null"}]}, MOOD),
    ({"if": HERE}, MOOD),
    ({"if": {"type": "string"}, "then": HERE, "else": {}}, MOOD),
    ({"if": {"type": "null"}, "then": {}, "else": HERE}, MOOD),
    ({"dependentSchemas": {"a": HERE}}, MOOD),
    ({"$dynamicAnchor": "mood", "not": {"$dynamicRef": "#mood"}}, MOOD),
    ({"not": {"$ref": "#"}, "$id": "https://example.org/mood"}, MOOD),
    ({"$ref": "#/$defs/again"}, "/game/config_schema/$defs/again"),
    ({"$ref": "#/$defs/one"}, "/game/config_schema/$defs/one"),
]
DEFINED: dict[str, dict[str, Any]] = {
    "again": {"again": {"not": {"$ref": "#/$defs/again"}}},
    "one": {"one": {"$ref": "#/$defs/two"}, "two": {"not": {"$ref": "#/$defs/one"}}},
}


@pytest.mark.parametrize(("loop", "pointer"), LOOPS, ids=lambda value: json.dumps(value)[:40])
def test_schemas_that_refer_to_themselves_in_place(document: Document, loop: dict[str, Any], pointer: str) -> None:
    schema = document["game"]["config_schema"]
    schema["properties"]["mood"] = loop
    schema["$defs"] |= DEFINED.get(pointer.rpartition("/")[2], {})
    report = check_manifest(document)
    assert [(issue.code, issue.pointer) for issue in report.errors] == [("schema_too_costly", pointer)]


@pytest.mark.parametrize("keyword", ["not", "allOf", "anyOf", "oneOf", "if", "$ref"])
def test_a_whole_schema_that_refers_to_itself_in_place(keyword: str) -> None:
    root = {"$ref": "#"}
    loop = root if keyword == "$ref" else {keyword: [root] if keyword.endswith("Of") else root}
    _, report = check_results(b'{"scores": [1, 2]}', {"required": ["scores"], **loop}, 2)
    assert [issue.code for issue in report.errors] == ["results_schema_invalid"]


def chain(length: int) -> dict[str, Any]:
    return {f"link{number}": {"allOf": [{"$ref": f"#/$defs/link{number + 1}"}] * 2} for number in range(length)}


def test_a_long_way_in_place(document: Document) -> None:
    """Forty schemas that each ask for the next twice."""
    schema = document["game"]["config_schema"]
    schema["$defs"] |= {**chain(40), "link40": {}}
    report = check_manifest(document)
    assert {issue.code for issue in report.errors} == {"schema_too_costly"}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


TREE: list[dict[str, Any]] = [
    {"items": {"$ref": "#/$defs/tree"}},
    {"anyOf": [{"type": "number"}, {"items": {"$ref": "#/$defs/tree"}}]},
    {"properties": {"x": {"$ref": "#/$defs/tree"}}, "items": {"$ref": "#/$defs/tree"}},
]


@pytest.mark.parametrize("tree", TREE)
def test_a_schema_may_refer_to_itself_for_what_is_inside(tree: dict[str, Any]) -> None:
    schema = {"required": ["scores"], "properties": {"tree": {"$ref": "#/$defs/tree"}}, "$defs": {"tree": tree}}
    results = {"scores": [1, 2], "tree": nested(60)}
    assert check_results(json.dumps(results).encode(), schema, 2)[1].ok


HEAVY: list[dict[str, Any]] = [
    # Twice as much at each level of the value.
    {"$defs": {"tree": {"allOf": [{"items": {"$ref": "#/$defs/tree"}}] * 2}}, "$ref": "#/$defs/tree"},
    # So deep in place at each level of the value that the stack would not be enough.
    {"$defs": {**chain(12), "link12": {"items": {"$ref": "#/$defs/link0"}}}, "$ref": "#/$defs/link0"},
]


@pytest.fixture
def small_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the steps, for what takes seconds to spend them; the keywords' test below spends them all."""
    monkeypatch.setattr("coworld_core.documents.json_schema._validator._MAX_STEPS", 100_000)


@pytest.mark.slow
@pytest.mark.usefixtures("small_budget")
@pytest.mark.parametrize("heavy", HEAVY, ids=["wide", "deep"])
def test_schemas_that_are_too_much_for_one_value(heavy: dict[str, Any]) -> None:
    schema = {"required": ["scores"], "$defs": heavy["$defs"], "properties": {"tree": {"$ref": heavy["$ref"]}}}
    results = {"scores": [1, 2], "tree": nested(60)}
    _, report = check_results(json.dumps(results).encode(), schema, 2)
    assert [issue.code for issue in report.errors] == ["schema_too_costly"]


@pytest.mark.parametrize(
    ("keywords", "value"),
    [
        ({"items": {"enum": list(range(5_000))}}, [4_999] * 5_000),
        ({"anyOf": [{"type": "string"}] * 1_500}, ["x" * 100_000]),
        ({"contains": True, "unevaluatedItems": False}, [0] * 50_000),
        ({"items": {"pattern": "^(a?b?){100}$"}}, ["a" * 300_000] * 100),
    ],
    ids=["enum", "words", "unevaluated", "pattern"],
)
def test_keywords_that_cost_more_than_others(keywords: dict[str, Any], value: list[Any]) -> None:
    schema = {"required": ["scores"], "properties": {"list": keywords}}
    text = json.dumps({"scores": [1, 2], "list": value}).encode()
    _, report = check_results(text, schema, 2, max_bytes=len(text))
    assert [issue.code for issue in report.errors] == ["schema_too_costly"]


def test_unlike_elements_are_many_at_little_cost() -> None:
    schema = {"required": ["scores"], "properties": {"list": {"uniqueItems": True}}}
    results = {"scores": [1, 2], "list": [{"at": number} for number in range(50_000)]}
    assert check_results(json.dumps(results).encode(), schema, 2)[1].ok


@pytest.mark.slow
@pytest.mark.usefixtures("small_budget")
def test_schemas_that_are_too_large(document: Document) -> None:
    document["game"]["config_schema"]["properties"]["mood"] = {"allOf": [True] * 3_000}
    report = check_manifest(document)
    assert [(issue.code, issue.pointer) for issue in report.errors] == [("schema_too_costly", "/game/config_schema")]


@pytest.mark.parametrize(
    "ref", ["#/required", "#/properties", "#/properties/ticks/type", "#/properties/tokens/minItems"]
)
def test_reference_to_a_non_schema_is_reported(document: Document, ref: str) -> None:
    document["game"]["config_schema"]["properties"]["mood"] = {"$ref": ref}
    document["certification"]["game_config"]["mood"] = 1
    report = check_manifest(document)
    assert [issue.code for issue in report.errors] == ["unresolved_reference"]
    assert "not a schema" in report.errors[0].message


def test_more_unknown_keys_than_are_put_into_words(document: Document) -> None:
    document["game"] |= {f"key {number}": 1 for number in range(3_000)}
    report = check_manifest(document)
    assert report.ok
    assert load_manifest(document).manifest.game.name == "tug"
    document["game"]["name"] = 7
    assert {issue.code for issue in check_manifest(document).errors} == {"wrong_type"}


def test_a_schema_as_deep_as_a_document_may_be(document: Document) -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(28):
        deep = {"properties": {"x": deep}}
    document["game"]["config_schema"]["properties"]["mood"] = deep
    assert check_manifest(document).ok


REQUESTS: list[tuple[str, Change, str, str]] = [
    ("missing_field", drop("game_config"), "", "error"),
    ("misspelt_field", rename("players", to="player"), "/player", "error"),
    ("unknown_field", put("colour", value=1), "/colour", "warning"),
    ("wrong_type", put("episode_tags", "round", value=1), "/episode_tags/round", "error"),
    ("wrong_section_type", put("players", 1, "type", value="grader"), "/players/1/type", "error"),
    ("empty_image", put("players", 1, "image", value=""), "/players/1/image", "error"),
    ("bad_image", put("players", 0, "image", value="file://x.py"), "/players/0/image", "error"),
    ("template_not_built", put("players", 0, "image", value="{{X_IMAGE}}"), "/players/0/image", "error"),
    ("reserved_env", put("players", 0, "env", value={"COGAME_PORT": "1"}), "/players/0/env/COGAME_PORT", "error"),
    ("missing_field", drop("manifest", "game", "name"), "/manifest/game", "error"),
    ("unsafe_id", put("manifest", "reporter", 0, "id", value="../x"), "/manifest/reporter/0/id", "error"),
    ("bad_game_config", put("game_config", "ticks", value=0), "/game_config/ticks", "error"),
    ("runner_managed_tokens", put("game_config", "tokens", value=[]), "/game_config/tokens", "error"),
    ("players_mismatch", lambda request: request["players"].pop(), "/players", "error"),
    ("lifted_policy_names", put("policy_names", value=["a", "b"]), "/policy_names", "info"),
    ("lifted_policy_names", put("policy_names", value=["a"]), "/policy_names", "warning"),
    ("manifest_mismatch", put("manifest", "game", "owner", value="else"), "/manifest", "error"),
]


def request_of(document: Document) -> Document:
    player = {"type": "player", "image": "tug:1"}
    return {
        "manifest": copy.deepcopy(document),
        "game_config": copy.deepcopy(document["certification"]["game_config"]),
        "players": [copy.deepcopy(player), copy.deepcopy(player)],
        "episode_tags": {"round": "1"},
    }


@pytest.mark.parametrize(
    ("code", "change", "pointer", "severity"), REQUESTS, ids=[f"{r[0]}-{i}" for i, r in enumerate(REQUESTS)]
)
def test_each_code_of_requests(code: str, change: Change, pointer: str, severity: str, document: Document) -> None:
    manifest = load_manifest(document).manifest
    request = request_of(document)
    change(request)
    report = check_request(json.dumps(request, indent=2).encode(), manifest=manifest)
    by_code = {issue.code: issue for issue in report.issues}
    assert set(by_code) - {"manifest_mismatch"} <= {code}, str(report)
    assert by_code[code].pointer == pointer
    assert by_code[code].severity == severity
    assert by_code[code].line is not None


RESULTS_TEXTS: list[tuple[str, bytes, str]] = [
    ("not_utf8", b"\xff", ""),
    ("empty_document", b"", ""),
    ("not_json", b'{"scores": [1, 2', ""),
    ("non_finite_number", b'{"scores": [1, NaN]}', "/scores/1"),
    ("duplicate_key", b'{"scores": [1, 2], "scores": [2, 1]}', "/scores"),
    ("not_an_object", b"[1, 2]", ""),
    ("results_break_schema", b'{"scores": [1, "2"]}', "/scores/1"),
    ("results_break_schema", b'{"scores": [1, 2], "winner": "me"}', "/winner"),
    ("results_break_schema", b"{}", ""),
    ("misspelt_field", b'{"score": [1, 2]}', "/score"),
    ("scores_length", b'{"scores": [1, 2, 3]}', "/scores"),
]


@pytest.mark.parametrize(("code", "text", "pointer"), RESULTS_TEXTS, ids=lambda value: str(value)[:20])
def test_each_code_of_results(code: str, text: bytes, pointer: str, document: Document) -> None:
    schema = document["game"]["results_schema"]
    if code == "misspelt_field":
        schema["additionalProperties"] = False
    results, report = check_results(text, schema, 2)
    assert results is None
    assert [(issue.code, issue.pointer) for issue in report.errors] == [(code, pointer)], str(report)


def test_results_against_useless_schemas(tmp_path: Path) -> None:
    loose = {"required": ["scores"]}
    assert codes(check_results(b'{"scores": [1, true]}', loose, 2)[1]) == {"scores_malformed"}
    assert codes(check_results(b'{"scores": [1, ' + b"9" * 400 + b"]}", loose, 2)[1]) == {"scores_malformed"}
    assert codes(check_results(b'{"scores": null}', loose, 2)[1]) == {"scores_malformed"}
    assert codes(check_results(b'{"scores": [1, 2]}', {"type": "banana"}, 2)[1]) == {"results_schema_invalid"}
    assert codes(check_results(tmp_path / "none.json", loose, 2)[1]) == {"results_missing"}
    assert codes(check_results(tmp_path, loose, 2)[1]) == {"results_unreadable"}
    assert codes(check_results(b'{"scores": [1, 2]}', loose, 2, max_bytes=4)[1]) == {"too_large"}


def codes(report: Report) -> set[str]:
    return {issue.code for issue in report.issues}


TEMPLATES: list[tuple[str, Change, str]] = [
    ("unknown_placeholder", put("player", 0, "image", value="{{TUGG_IMAGE}}"), "/player/0/image"),
    ("unknown_placeholder", put("player", 0, "image", value="tug:{{TUG_IMAGE}}"), "/player/0/image"),
    ("version_in_template", put("game", "version", value="1.0"), "/game/version"),
    ("not_an_object", put("game", value=1), ""),
]


@pytest.mark.parametrize(("code", "change", "pointer"), TEMPLATES, ids=[f"{t[0]}-{i}" for i, t in enumerate(TEMPLATES)])
def test_each_code_of_templates(code: str, change: Change, pointer: str, document: Document) -> None:
    del document["game"]["version"]
    change(document)
    with pytest.raises(ManifestError) as raised:
        hydrate(document, images={"tug": "tug:1"}, version="1.0")
    assert [(issue.code, issue.pointer) for issue in raised.value.report.errors] == [(code, pointer)]


def test_every_code_has_a_case() -> None:
    """The set of codes is closed: no test makes one that is not in it, and each in it is made by a test above."""
    made = {case.code for case in CASES} | {entry[0] for entry in (*TEXTS, *REQUESTS, *RESULTS_TEXTS, *TEMPLATES)}
    made |= {"not_json_value", "too_many_issues", "schema_too_costly", "scores_malformed", "results_schema_invalid"}
    made |= {"results_missing", "results_unreadable", "too_large"}
    made |= {hostile.code for hostile in HOSTILE.values()}
    made |= {"event_log_unreadable", "will_not_run", "wrong_extension", "zip_unsafe"}
    assert made == set(ISSUE_CODES)
