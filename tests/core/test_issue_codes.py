"""Every issue code: the smallest document that gets it, where it points, and a word of what it says."""

from __future__ import annotations

import json
import math
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from coworld_core import Report, check_manifest, check_request, check_results, load_manifest
from coworld_core.errors import ManifestError
from coworld_core.issue_codes import ISSUE_CODES
from coworld_core.manifest.template import hydrate
from coworld_core.roles.report_check import check_report

Document = dict[str, Any]
GONE = object()
HERE = "\N{SNOWMAN}"
NOWHERE = "nowhere"


@dataclass(frozen=True)
class Named:
    """The value that was there, under this key."""

    key: str


@dataclass(frozen=True)
class Row:
    """A document that is broken in one way, and the one issue that it gets."""

    code: str
    broken: Any
    """Changes by pointer to a document that is right; or a text, with a snowman where the issue points; or a path."""
    says: str
    """Part of the message or the hint."""
    severity: str = "error"
    of: str = "manifest"
    at: str = ""
    """A pointer, with `#` at its end for a key; without one, the place of the last change."""
    also: str = ""
    """Another code that the same change rightly gets."""
    rules: Document = field(default_factory=dict[str, Any])
    """How it is checked."""


CONFIG = "/game/config_schema/properties"
MOOD = CONFIG + "/mood"
TOKENS = CONFIG + "/tokens"
RESULTS = "/game/results_schema"
PAGES = "/game/docs/pages"
CERTIFIED = "/certification"
ENV = "/game/runnable/env"
STRICT = {"mode": "strict"}
TEMPLATE = {"template": True}
EARLY, LATE = {"published": "0.1.26"}, {"published": "0.1.64"}
BANANAS = {"results_schema": {"type": "banana"}}
TAGS = ["a", "b", "c"]
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
LONG_LIST = {"type": "array", "items": {"type": "string"}, "minItems": 10**9, "maxItems": 10**9}
CLOSED = {"properties": {"scores": {"items": {"type": "number"}}}, "additionalProperties": False}
NUMBERS = {"results_schema": {"required": ["scores"], **CLOSED}}
UNBUILT = {"/game/version": GONE, "/game/runnable/image": "{{TUG_IMAGE}}"}
LACKING = "missing_field lifted_docs unknown_field"
UNEVALUATED = {MOOD + "/unevaluatedProperties": False, MOOD + "/patternProperties/^(a*)*b": {}}
NESTED = {"/player/1/image": GONE, "/player/1/runnable": {"image": "a:1", "type": "player"}}
MANY = {f"{ENV}/BAD NAME {number}": "x" for number in range(500)}
SLOTS = {"items": {"properties": {"name": {}}}}

ROWS = [
    # The document as JSON; the snowman stands where the issue points
    Row("empty_document", "", "is empty", at=NOWHERE),
    Row("empty_document", " \n", "is empty", at=NOWHERE),
    Row("not_utf8", b'{"a": "\xff"}', "at byte 7", at=NOWHERE),
    Row("not_json", '{"game": {},☃}', "no comma after the last"),
    Row("not_json", "{☃'game': 1}", "double quotes"),
    Row("not_json", '{\n  "game": 1\n  ☃"player": 2\n}', "comma or a closing bracket"),
    Row("not_json", '{"game": 1☃', "ends too early"),
    Row("not_json", '{"game": ☃True}', "Write true"),
    Row("not_json", '{"game": {☃{GAME}}}', "placeholder"),
    Row("not_json", '☃// a comment\n{"game": 1}', "comment"),
    Row("not_json", '{"game": 1} ☃{"game": 2}', "follows the end"),
    Row("not_json", '{"game" ☃1}', "colon"),
    Row("not_json", "{☃game: 1}", "key in double quotes"),
    Row("not_json", '{"game": "a☃\nb"}', "line break"),
    Row("not_json", '{"game": ☃"a}', "not closed"),
    Row("not_json", '{"game": "☃\\q"}', "escape sequence"),
    Row("not_json", "☃game: tug", "must be JSON"),
    Row("not_an_object", "☃[1, 2]", "not a list"),
    Row("not_an_object", '\n  ☃"game"', "not text"),
    Row("duplicate_key", '{"game": {"a": 1,\n ☃"a": 2}}', "one", at="/game/a", also=LACKING),
    Row("non_finite_number", '{"game": [1, ☃NaN]}', "finite", at="/game/1"),
    Row("non_finite_number", '{"game": ☃-Infinity}', "-Infinity", at="/game"),
    Row("non_finite_number", '{"game": ☃1e999}', "1e999", at="/game"),
    Row("non_finite_number", '{"game": ☃' + "9" * 5000 + "}", "999", at="/game"),
    Row("bad_text", '{"game": ☃"\\ud800"}', "surrogate", at="/game"),
    Row("bad_text", '{"game": {☃"\\udc00": 1}}', "A key", at="/game"),
    Row("too_deep", "[" * 64 + "☃" + "[" * 6 + "]" * 70, "64 levels", at="/0" * 64),
    Row("too_deep", "[" * 64 + "☃" + "[" * 200_000, "64 levels", at="/0" * 64),
    Row("too_large", " " * (4 * 1024 * 1024 + 1), "at most 4194304", at=NOWHERE),
    Row("not_json_value", {"/game": {1, 2}}, "set", of="value"),
    Row("not_json_value", {"/game": {7: "seven"}}, "key is text", of="value"),
    Row("not_json_value", {"/game": b"bytes"}, "bytes", of="value"),
    Row("non_finite_number", {"/game": math.nan}, "or null", of="value"),
    Row("non_finite_number", {"/game": 10**5000}, "smaller", of="value"),
    Row("bad_text", {"/game": "\ud800"}, "The text", of="value"),
    Row("bad_text", {"/\ud800": 1}, "A key", of="value", at=NOWHERE),
    # Fields
    Row("missing_field", {"/game/name": GONE}, 'game lacks "name"'),
    Row("missing_field", {"/game/version": GONE}, 'Add "version": PEP 440'),
    Row("missing_field", {"/certification": GONE}, 'The manifest lacks "certification"'),
    Row("missing_field", {"/game/docs/readme/value": GONE}, 'lacks "value"'),
    Row("misspelt_field", {"/game": Named("gmae")}, 'Did you mean "game"?'),
    Row("misspelt_field", {"/game/runnable/type": Named("tpye")}, '"type"'),
    Row("misspelt_field", {"/game/docs/readme/type": Named("typ")}, '"type"'),
    Row("misspelt_field", {"/game/config_schema": Named("configSchema")}, '"config_schema"'),
    Row("unknown_field", {"/colour": "red"}, "it is ignored", "warning", at="#"),
    Row("unknown_field", {"/colour": "red"}, "not a field", at="#", rules=STRICT),
    Row("unknown_field", {"/player/0/sourceurl": "x"}, 'Did you mean "source_url"?', "warning", at="#"),
    Row("wrong_type", {"/game/name": 7}, "game.name must be text, not a number"),
    Row("wrong_type", {"/player": {}}, "player must be a list, not an object"),
    Row("wrong_type", {"/game/runnable/run": "tug"}, "must be a list"),
    Row("wrong_type", {"/players_per_user": "3"}, "a whole number, not text"),
    Row("wrong_type", {"/players_per_user": True}, "not true or false"),
    Row("wrong_type", {"/players_per_user": 1.5}, "a whole number, not 1.5"),
    Row("wrong_type", {"/reporter": None}, "must be a list, not null"),
    Row("wrong_type", {"/game": []}, "game must be an object, not a list"),
    Row("wrong_type", {"/game/docs/readme": 3}, "must be a document"),
    Row("wrong_type", {ENV + "/TUG_MODE": 3}, "must be text"),
    Row("empty_value", {"/game/owner": ""}, "must not be empty"),
    Row("not_allowed", {"/player/1/type": "playr"}, 'Did you mean "player"?'),
    Row("not_allowed", {"/game/docs/readme/type": "markdown"}, "allowed: text or uri"),
    Row("out_of_range", {"/players_per_user": 0}, "at least 1"),
    Row("wrong_section_type", {"/player/0/type": "grader"}, "must be"),
    Row("wrong_section_type", {"/game/runnable/type": "player"}, "game.runnable.type must be 'game'"),
    # Values
    Row("bad_version", {"/game/version": "one"}, "PEP 440"),
    Row("bad_uri", {"/game/protocols/global/value": "ftp://x"}, "http"),
    Row("empty_image", {"/player/0/image": "  "}, "is empty"),
    Row("empty_image", {"/player/0/image": ""}, "is empty"),
    Row("bad_image", {"/player/0/image": "--privileged"}, "hyphen"),
    Row("bad_image", {"/player/0/image": "a b"}, "white space"),
    Row("bad_image", {"/player/0/image": "Tug:1"}, "uppercase"),
    Row("bad_image", {"/player/0/image": "https://x/y"}, "URL"),
    Row("bad_image", {"/player/0/image": "file:///bin/sh"}, "reference"),
    Row("bad_image", {"/player/0/image": "a:{{B_IMAGE}}"}, "placeholder"),
    Row("image_unpublished", {"/player/0/image": "img_01234567-89ab-cdef-0123-456789abcdef"}, "not publ", "warning"),
    Row("bad_run", {"/player/0/run": ["", "x"]}, "empty element"),
    Row("bad_run", {"/player/0/run": ["a\x00b"]}, "NUL"),
    Row("run_with_spaces", {"/player/0/run": ["python -m tug"]}, '"python", "-m"', "warning", at="/player/0/run/0"),
    Row("bad_env_name", {ENV + "/A B": "1"}, "letters", at="#"),
    Row("bad_env_name", {ENV + "/": "1"}, "is empty", at="#"),
    Row("bad_env_name", {ENV + "/1A": "1"}, "begins with", at="#"),
    Row("bad_env_name", {ENV + "/A\nB": "1"}, "letters", at="#"),
    Row("bad_env_value", {ENV + "/A": "a\x00"}, "NUL"),
    Row("reserved_env", {ENV + "/COGAME_PORT": "1"}, "runner sets", at="#"),
    Row("reserved_env", {ENV + "/COWORLD_LOCAL_PORT_9": "1"}, "runner", at="#"),
    Row("reserved_env", {"/player/0/env/COWORLD_PLAYER_WS_URL": "ws://x"}, "another name", at="#"),
    Row("reserved_env", {"/player/0/env/COWORLD_LOCAL_EXTRA_PORTS": "1"}, "only a game's author", at="#"),
    Row("reserved_env_prefix", {ENV + "/COGAME_DIFFICULTY": "1"}, "reserved for runners", "warning", at="#"),
    Row("reserved_env_prefix", {ENV + "/COGAME_DIFFICULTY": "1"}, "reserved for runners", at="#", rules=STRICT),
    Row("bad_extra_ports", {ENV + "/COWORLD_LOCAL_EXTRA_PORTS": "8085:"}, "nothing after the colon"),
    Row("bad_quantity", {"/game/runnable/resources/requests/memory": "256m"}, "256Mi"),
    Row("bad_quantity", {"/game/runnable/resources/requests/cpu": "0"}, "more than zero"),
    Row("bad_quantity", {"/game/runnable/resources/requests/ephemeral-storage": "lots"}, "not a Kubernetes quantity"),
    Row("unsafe_id", {"/reporter/0/id": "../../etc"}, "slash"),
    Row("unsafe_id", {"/variants/1/id": ".."}, "dot"),
    Row("unsafe_id", {"/variants/1/id": "a\\b"}, "backslash"),
    Row("unsafe_id", {"/variants/1/id": "-rf"}, "hyphen"),
    Row("unsafe_id", {"/variants/1/id": "x" * 129}, "longer"),
    Row("unwise_page_id", {"/game/docs/pages/0/id": "a/b"}, "slash", "warning"),
    Row("duplicate_id", {"/player/1/id": "puller"}, "duplicate player id", also="unknown_player_id"),
    Row("duplicate_id", {"/variants/1/id": "default"}, "duplicate variant id"),
    Row("duplicate_id", {"/reporter": lambda roles: roles * 2}, "duplicate reporter id", at="/reporter/1/id"),
    Row("duplicate_page_id", {PAGES: lambda pages: pages * 2}, "rules.md", "warning", at=PAGES + "/1/id"),
    Row("unknown_player_id", {"/certification/players/1/player_id": "pullr"}, 'Did you mean "puller"?'),
    # Schemas
    Row("schema_invalid", {CONFIG + "/ticks/type": "itneger"}, 'Did you mean "integer"?'),
    Row("schema_invalid", {CONFIG + "/ticks/minimum": "1"}, "must be a number"),
    Row("schema_invalid", {RESULTS + "/properties/winner/type": "banana"}, "not a type"),
    Row("remote_reference", {MOOD + "/$ref": "https://example.org/mood.json"}, "nothing is fetched"),
    Row("remote_reference", {RESULTS + "/$ref": "results.json#/x"}, "nothing is fetched"),
    Row("unresolved_reference", {MOOD + "/$ref": "#/$defs/mood"}, "does not exist in this schema"),
    Row("unresolved_reference", {CERTIFIED + "/game_config/mood": 1, MOOD + "/$ref": "#/required"}, "not a schema"),
    Row("unresolved_reference", {MOOD + "/$ref": "#/properties/tokens/minItems"}, "not a schema"),
    Row("schema_dialect", {"/game/config_schema/$schema": DRAFT_7}, "2020-12", "warning"),
    Row("schema_dialect", {MOOD + "/$schema": DRAFT_7}, "Remove it"),
    Row("unknown_schema_keyword", {CONFIG + "/ticks/maximun": 3}, 'Did you mean "maximum"?', "warning", at="#"),
    Row("bad_pattern", {MOOD + "/pattern": "("}, "unclosed group"),
    Row("bad_pattern", {MOOD + "/pattern": "^(?!no)[a-z]+$"}, "look-around"),
    Row("bad_pattern", {MOOD + r"/patternProperties/^(\w)\1$": {}}, "backreferences", at="#"),
    Row("bad_pattern", {MOOD + "/pattern": "a{50}{50}{50}"}, "too long"),
    Row("bad_pattern", {MOOD + "/pattern": "((a{1,50}){50}-){50}"}, "too long"),
    Row("bad_pattern", UNEVALUATED, "unevaluatedProperties", at="#"),
    Row("tokens_not_required", {"/game/config_schema/required": ["ticks"]}, "tokens"),
    Row("tokens_not_required", {"/game/config_schema/required": GONE}, "tokens"),
    Row("bad_tokens_schema", {TOKENS + "/$ref": "#/$defs/player"}, "in place"),
    Row("bad_tokens_schema", {TOKENS + "/items": {}}, "string"),
    Row("bad_tokens_schema", {TOKENS + "/minItems": GONE}, "minItems", at=TOKENS + "/minItems"),
    Row("bad_tokens_schema", {TOKENS + "/minItems": 5}, "above"),
    Row("bad_tokens_schema", {TOKENS: LONG_LIST}, "at most", at=TOKENS + "/minItems"),
    Row("bad_tokens_schema", {TOKENS + "/items/maxLength": 8}, "22 characters", at=TOKENS),
    Row("player_names_in_schema", {CONFIG + "/player_names": {}}, "players[].name", at="#"),
    Row("slot_names_in_schema", {CONFIG + "/slots": SLOTS}, "players[].name", at="#"),
    Row("scores_not_required", {RESULTS + "/required": GONE}, "one number per slot", rules=STRICT),
    Row("scores_not_required", {RESULTS + "/required": GONE}, "one number", "warning"),
    Row("scores_not_required", {RESULTS + "/required": GONE}, "one number", "warning", rules=STRICT | EARLY),
    Row("scores_not_required", {RESULTS + "/required": ["winner"]}, "one number per slot", "warning"),
    Row("scores_not_numbers", {RESULTS + "/properties/scores": {"type": "object"}}, "not a list"),
    Row("scores_not_numbers", {RESULTS + "/properties/scores/items": {"type": "string"}}, "list of numbers"),
    Row("scores_not_numbers", {RESULTS + "/type": "array"}, "object"),
    Row("scores_undeclared", {RESULTS + "/properties/scores": GONE}, "does not say", "warning"),
    Row("scores_undeclared", {RESULTS + "/properties/scores": {}}, "does not say", "warning"),
    # Game configs
    Row("bad_game_config", {"/variants/0/game_config/ticks": "ten"}, "a whole number, not text"),
    Row("bad_game_config", {"/variants/0/game_config/ticks": 0}, "at least 1"),
    Row("bad_game_config", {"/variants/0/game_config/mood": "wld"}, 'Did you mean "wild"?'),
    Row("bad_game_config", {"/certification/game_config/colour": 1}, "not known", at="#"),
    Row("bad_game_config", {"/certification/game_config/ticks": GONE}, '"ticks" is missing'),
    Row("misspelt_field", {"/certification/game_config/ticks": Named("tikcs")}, 'Did you mean "ticks"?'),
    Row("runner_managed_tokens", {"/variants/0/game_config/tokens": ["a", "b"]}, "runner-managed", at="#"),
    Row("player_names_in_config", {"/variants/0/game_config/player_names": ["a", "b"]}, "players[].name", at="#"),
    Row("players_mismatch", {"/certification/players/1": GONE}, "must match"),
    Row("slots_out_of_bounds", {"/variants/0/game_config/players": [{"name": "solo"}]}, "2 to 4"),
    # Templates and other generations
    Row("template_not_built", UNBUILT, "build_coworld"),
    Row("template_not_built", {"/player/1/image": "{{A_IMAGE}}", "/player/0/image": "{{B_IMAGE}}"}, "2 programs"),
    Row("lifted_version", UNBUILT, "0.0.0.dev0", "info", at="/game", rules=TEMPLATE),
    Row("lifted_version", {"/game/version": GONE}, "do not play it", "warning", rules=TEMPLATE),
    Row("lifted_game_type", {"/game/runnable/type": GONE}, '"game"', "info"),
    Row("lifted_role_type", {"/player/0/type": GONE}, '"player"', "info"),
    Row("lifted_docs", {"/game/docs": GONE}, "description", "info"),
    Row("lifted_readme", {"/game/docs/readme": GONE}, "description", "info"),
    Row("lifted_protocol_doc", {"/game/protocols/player": "Pull."}, "bare text", "info"),
    Row("lifted_parent_id", {"/variants/1/parent_id": "default"}, "no effect", "info", at="#"),
    Row("lifted_parent_id", {"/variants/1/parent_id": "nobody"}, "nobody", "warning", at="#"),
    Row("api_version", {"/apiVersion": "coworld.softmax.com/v0"}, "Remove it", "warning", at="#"),
    Row("unknown_api_version", {"/apiVersion": "coworld.softmax.com/v7"}, "Did you mean"),
    Row("unknown_api_version", {"/apiVersion": 1}, "does not know"),
    Row("lifted_image_uri", {"/player/1/image": Named("image_uri")}, "image", "info", at="/player/1/image_uri"),
    Row("lifted_runnable", NESTED, "beside id and name", "info"),
    Row("lifted_variant_id", {CERTIFIED + "/game_config": GONE, CERTIFIED + "/variant_id": "default"}, "conf", "info"),
    Row("unclear_form", {CERTIFIED + "/variant_id": "long"}, "differs from certification", "warning", at="#"),
    Row("unclear_form", {CERTIFIED + "/variant_id": "nobody"}, "is not the id of a variant", "warning", at="#"),
    Row("unclear_form", {"/player/0/image_uri": "other:1"}, "a different image_uri", "warning", at="#"),
    Row("unclear_form", {"/player/0/runnable": {"image": "other:1"}}, "contradicts", also="unknown_field"),
    Row("newer_field", {"/tags": TAGS}, "has no effect", "info", at="#"),
    Row("newer_field", {"/tags": TAGS}, "kept unchanged", "info", at="#", rules=STRICT),
    Row("too_few_tags", {"/tags": ["a"]}, "at least three", also="newer_field", rules=STRICT),
    Row("bad_place", {"/game/replay_viewer/bundle": "a/../b"}, "inside the package", also="newer_field", rules=STRICT),
    Row("player_file", {"/player/0/image": GONE, "/player/0/file": "bot.py"}, "hosts its players", "warning", at="#"),
    Row("other_runtime", {"/game/player_runtime": "game-hosted"}, "is an image", at="/player/0/image#", rules=STRICT),
    Row("image_and_file", {"/player/0/file": "bot.py"}, "both", at="#", also="player_file"),
    Row("not_yet_published", {"/tags": TAGS}, "0.1.32", at="#", also="newer_field", rules=EARLY),
    Row("no_longer_published", {"/tags": TAGS}, "up to 0.1.29", at="/reporter/0", also="newer_field", rules=LATE),
    Row("tags_missing", {"/reporter": GONE}, "certify", "warning", rules=LATE),
    Row("too_many_issues", MANY, "300 more", "info", at=NOWHERE, also="bad_env_name"),
    Row("schema_too_costly", {MOOD + "/not/$ref": "#/properties/mood"}, "refers to itself", at=MOOD),
    # Requests
    Row("not_an_object", "☃[]", "not a list", of="request"),
    Row("missing_field", {"/game_config": GONE}, "satisfies `game.config_schema`", of="request"),
    Row("misspelt_field", {"/players": Named("player")}, 'Did you mean "players"?', of="request"),
    Row("unknown_field", {"/colour": 1}, "Known: $schema, manifest", "warning", of="request", at="#"),
    Row("wrong_type", {"/episode_tags/round": 1}, "must be text", of="request"),
    Row("wrong_section_type", {"/players/1/type": "grader"}, "must be 'player'", of="request"),
    Row("empty_image", {"/players/1/image": ""}, "is empty", of="request"),
    Row("bad_image", {"/players/0/image": "file://x.py"}, "reference", of="request"),
    Row("template_not_built", {"/players/0/image": "{{X_IMAGE}}"}, "Name an image", of="request"),
    Row("reserved_env", {"/players/0/env/COGAME_PORT": "1"}, "another name", of="request", at="#"),
    Row("missing_field", {"/manifest/game/name": GONE}, 'lacks "name"', of="request", also="manifest_mismatch"),
    Row("unsafe_id", {"/manifest/reporter/0/id": "../x"}, "slash", of="request", also="manifest_mismatch"),
    Row("bad_game_config", {"/game_config/ticks": 0}, "at least 1", of="request"),
    Row("runner_managed_tokens", {"/game_config/tokens": []}, "makes its own", of="request", at="#"),
    Row("players_mismatch", {"/players/1": GONE}, "the same number", of="request"),
    Row("lifted_policy_names", {"/policy_names": ["a", "b"]}, "kept for games", "info", of="request", at="#"),
    Row("lifted_policy_names", {"/policy_names": ["a"]}, "one name per player", "warning", of="request", at="#"),
    Row("manifest_mismatch", {"/manifest/game/owner": "else"}, "for this manifest again", of="request", at="/manifest"),
    # Results
    Row("not_utf8", b"\xff", "at byte 0", of="results", at=NOWHERE),
    Row("empty_document", "", "is empty", of="results", at=NOWHERE),
    Row("not_json", '{"scores": [1, 2☃', "Close every quote", of="results"),
    Row("non_finite_number", '{"scores": [1, ☃NaN]}', "finite", of="results", at="/scores/1"),
    Row("duplicate_key", '{"scores": [1, 2], ☃"scores": [2, 1]}', "twice", of="results", at="/scores"),
    Row("not_an_object", "☃[1, 2]", "not a list", of="results"),
    Row("too_large", '{"scores": [1, 2]}', "at most 4", of="results", at=NOWHERE, rules={"max_bytes": 4}),
    Row("results_break_schema", {"/scores": ["2", 1]}, "a number", of="results", at="/scores/0", rules=NUMBERS),
    Row("results_break_schema", {"/scores": GONE}, '"scores" is missing', of="results"),
    Row("misspelt_field", {"/scores": Named("score")}, 'Did you mean "scores"?', of="results", rules=NUMBERS),
    Row("scores_length", {"/scores": [1, 2, 3]}, "3 entries for 2 slots", of="results"),
    Row("scores_malformed", {"/scores/1": True}, "number", of="results"),
    Row("scores_malformed", {"/scores/1": 10**400}, "number", of="results"),
    Row("scores_malformed", {"/scores": None}, "a list, not null", of="results"),
    Row("results_schema_invalid", '☃{"scores": [1, 2]}', "banana", of="results", rules=BANANAS),
    Row("results_missing", Path("none.json"), "wrote no results", of="results"),
    Row("results_unreadable", Path(), "a directory", of="results"),
    # Templates
    Row("unknown_placeholder", {"/player/0/image": "{{TUGG_IMAGE}}"}, "Did you mean", of="template"),
    Row("unknown_placeholder", {"/player/0/image": "tug:{{TUG_IMAGE}}"}, "whole reference", of="template"),
    Row("version_in_template", {"/game/version": "1.0"}, "given to the build", of="template"),
    Row("not_an_object", {"/game": 1}, "an object `game`", of="template", at=NOWHERE),
    # Reports
    Row("unsafe_address", {"/report.html": '<img src="http://elsewhere.invalid/x">'}, "src of <img>", of="report"),
    Row("unsafe_attribute", {"/report.html": "<p onclick=x>"}, "run a script", of="report"),
    Row("unsafe_element", {"/report.html": "<iframe></iframe>"}, "<iframe>", of="report"),
    Row("unsafe_markup", {"/report.html": "<p>\0</p>"}, "a NUL", of="report"),
    Row("unsafe_style", {"/report.html": "<style>@import 'x.css'</style>"}, "@import", of="report"),
    Row("will_not_run", {"/a": "x", "/report.html": "<script src=a></script>"}, "do not run", "info", of="report"),
    Row("wrong_extension", {"/manifest.json/trace": "report.html"}, ".jsonl", of="report", at="/manifest.json"),
    Row("entry_missing", {"/manifest.json/render": "gone.md"}, "gone.md", of="report", at="/manifest.json"),
    Row("event_log_unreadable", {"/manifest.json/event_log": "a.parquet", "/a.parquet": "P"}, "Parquet", of="report"),
    Row("zip_unsafe", {"/..~1a.md": "x"}, "leads out", of="report"),
]


def whole(of: str, document: Document) -> Document:
    """What each kind of document is before it is broken."""
    game = {name: value for name, value in document["game"].items() if name != "version"}
    request = {"manifest": document, "game_config": document["certification"]["game_config"], "episode_tags": {}}
    request["players"] = [{"type": "player", "image": "tug:1"}] * 2
    report = {"manifest.json": {"reporter_id": "r", "render": "report.html"}, "report.html": "<p>x</p>"}
    wholes = {"manifest": document, "request": request, "results": {"scores": [1, 2]}, "report": report, "value": {}}
    return json.loads(json.dumps({**wholes, "template": {**document, "game": game}}[of]))


def check(of: str, source: Any, document: Document, rules: Document) -> Report:
    match of:
        case "request":
            return check_request(source, manifest=load_manifest(document).manifest)
        case "results":
            got, report = check_results(source, **{"results_schema": {"required": ["scores"]}, "slots": 2, **rules})
            assert got is None
            return report
        case "template":
            with pytest.raises(ManifestError) as raised:
                hydrate(source, images={"tug": "tug:1"}, version="1.0")
            return raised.value.report
        case "report":
            with zipfile.ZipFile("report.zip", "w") as archive:
                for name, text in source.items():
                    archive.writestr(name, text if isinstance(text, str) else json.dumps(text))
            return check_report(Path("report.zip"))
        case _:
            report = check_manifest(source, **rules)
            if report.ok:
                assert load_manifest(source, **rules).report == report
            else:
                with pytest.raises(ManifestError) as raised:
                    load_manifest(source, **rules)
                assert raised.value.report == report or of == "value"
            return report


def parts_of(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def rename(place: Document, key: str, to: str) -> None:
    """Rename a key where it stands."""
    renamed = [(to if name == key else name, value) for name, value in place.items()]
    place.clear()
    place.update(renamed)


def change(document: Document, changes: Document) -> None:
    """Put, drop, rename or change values by their pointers."""
    for pointer, new in changes.items():
        place: Any = document
        *above, last = parts_of(pointer)
        for part in above:
            place = place[int(part)] if isinstance(place, list) else place.setdefault(part, {})
        key: Any = int(last) if isinstance(place, list) else last
        if new is GONE:
            del place[key]
        elif isinstance(new, Named):
            rename(place, key, new.key)
        else:
            place[key] = new(place[key]) if callable(new) else new


def expected(row: Row) -> tuple[str, bool]:
    """The pointer of the row's issue, and whether a key is meant."""
    if row.at not in {"", "#"} or not isinstance(row.broken, dict):
        return row.at.replace(NOWHERE, "").removesuffix("#"), row.at.endswith("#")
    pointer, new = list(row.broken.items())[-1]
    above = pointer.rpartition("/")[0]
    if isinstance(new, Named):
        return f"{above}/{new.key}", True
    return above if new is GONE else pointer, row.at == "#"


def place_in(text: str) -> tuple[int, int]:
    """Line and column of the mark, from 1."""
    before = text[: text.index(HERE)]
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def place_of(document: Document, pointer: str, *, key: bool) -> tuple[int, int]:
    """Line and column of a place, found by writing the document again with a mark there."""
    marked: Any = {"": json.loads(json.dumps(document))}
    place, last = marked, ""
    for raw in parts_of(pointer):
        below = place[last]
        part: Any = int(raw) if isinstance(below, list) else raw
        if isinstance(below, dict) and part not in below:
            break
        place, last = below, part
    if key:
        rename(place, last, HERE)
    else:
        place[last] = HERE
    return place_in(json.dumps(marked[""], indent=2, ensure_ascii=False).replace(f'"{HERE}"', HERE))


def named(rows: list[Row]) -> list[Any]:
    codes: list[str] = [row.code for row in rows]
    return [pytest.param(row, id=f"{row.code}-{codes[:at].count(row.code)}") for at, row in enumerate(rows)]


@pytest.mark.parametrize("row", named(ROWS))
def test_each_code(row: Row, document: Document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pointer, at_key = expected(row)
    source, place = row.broken, (None, None)
    if isinstance(source, dict):
        source = whole(row.of, document)
        change(source, row.broken)
        if row.of in {"manifest", "request", "results"}:
            place = place if row.at == NOWHERE else place_of(source, pointer, key=at_key)
            source = json.dumps(source, indent=2).encode()
    elif isinstance(source, str):
        place = place_in(source) if HERE in source else place
        source = source.replace(HERE, "").encode()
    report = check(row.of, source, document, row.rules)
    issue = next((issue for issue in report.issues if issue.code == row.code), None)
    assert issue is not None, str(report)
    assert {other.code for other in report.issues} - set(row.also.split()) == {row.code}, str(report)
    assert (issue.pointer, issue.severity) == (pointer, row.severity)
    assert row.says in f"{issue.message} {issue.hint}"
    assert (issue.line, issue.column) == place or row.of == "report"
    assert len(issue.message) < 300


def test_every_code_has_a_row() -> None:
    """Also the other way about: a row's issue has no code that is not in the list."""
    assert {row.code for row in ROWS} == set(ISSUE_CODES)
