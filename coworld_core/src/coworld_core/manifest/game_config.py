"""Rules of game configs: the tokens that a runner adds, the number of players and their names.

A *game config* is what the game reads when it starts. Authors write it without `tokens`; a runner adds one secret per
slot, so the number of tokens is the number of slots. Source of the rules: manifest contract, "Game-config rules".
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, cast

from ..documents.findings import Finding, Findings, Path, did_you_mean, quoted, type_word
from ..documents.json_schema._schema_check import CheckedSchema, check_schema, follow
from ..documents.json_text import json_report, wrap_json
from ..errors import ManifestError, UsageError
from ..issues import Report
from ..secret_seeds import MAX_SEED
from ..text.phrases import listed
from .config_changes import merge_config
from .models import JsonObject, Manifest, Variant

__all__ = [
    "MAX_SLOTS",
    "declares_named_players",
    "distinct_names",
    "find_variant",
    "game_config_for",
    "is_variant_pattern",
    "matching_variants",
    "named_players",
    "only_variant",
    "overwritten_named_players",
    "require_game_config",
    "seed_range",
    "slot_count",
    "token_bounds",
    "validate_game_config",
    "with_input_controls",
    "with_tokens",
]

MAX_SLOTS = 4096
"""More slots than any machine can run; a guard against a config that asks for a billion."""
_WIDEST = (MAX_SEED, 2**53 - 1, 2**31 - 1)
"""Largest seeds to try, in order: a schema may limit the seed by other rules than `maximum`."""


def find_variant(manifest: Manifest, variant_id: str) -> Variant:
    """The variant with the given id.

    Raises:
        UsageError: Code `unknown_variant`; the message lists the known ones.
    """
    known = [variant.id for variant in manifest.variants]
    for variant in manifest.variants:
        if variant.id == variant_id:
            return variant
    raise UsageError(
        f"{manifest.game.name} has no variant {quoted(variant_id)}; it has {listed(known)}.",
        code="unknown_variant",
        hint=did_you_mean(variant_id, known),
        context={"variant": variant_id, "known": known},
    )


def is_variant_pattern(word: str) -> bool:
    """Whether a word for variants is a pattern (`small-*`) or a list (`small,large`), and not only an id."""
    return any(character in word for character in "*?[,")


def matching_variants(manifest: Manifest, word: str) -> list[Variant]:
    """The variants that a person's word means: one by its id, those that match a pattern (`small-*`), or several.

    Several words are divided by commas; their variants come in the order of the words, each once.

    Raises:
        UsageError: Code `unknown_variant`; the message lists the known ones.
    """
    if any(variant.id == word for variant in manifest.variants):
        return [find_variant(manifest, word)]
    if "," in word:
        named = [variant for part in word.split(",") for variant in matching_variants(manifest, part.strip())]
        return list({variant.id: variant for variant in named}.values())
    if is_variant_pattern(word):
        found = [variant for variant in manifest.variants if fnmatchcase(variant.id, word)]
        if found:
            return found
        known = [variant.id for variant in manifest.variants]
        raise UsageError(
            f"No variant of {manifest.game.name} matches {quoted(word)}; it has {listed(known)}.",
            code="unknown_variant",
            context={"variant": word, "known": known},
        )
    return [find_variant(manifest, word)]


def only_variant(manifest: Manifest, word: str) -> Variant:
    """The only variant that a person's word means, as for `matching_variants`.

    Raises:
        UsageError: Code `unknown_variant`; or `several_variants`, with those that match.
    """
    found = matching_variants(manifest, word)
    if len(found) > 1:
        ids = [variant.id for variant in found]
        raise UsageError(
            f"{quoted(word)} matches {len(ids)} variants of {manifest.game.name}, and one is needed: {listed(ids)}.",
            code="several_variants",
            hint="Name one of them.",
            context={"variant": word, "matches": ids},
        )
    return found[0]


def game_config_for(
    manifest: Manifest, variant: str | None = None, *, changes: JsonObject | None = None
) -> dict[str, Any]:
    """A modifiable copy of the game config of a variant, or of the certification fixture.

    Args:
        manifest: The manifest.
        variant: A variant's id, or None for the certification fixture.
        changes: Changes to it, as for `merge_config`.

    Raises:
        UsageError: If there is no such variant, or as `merge_config`.
    """
    config = manifest.certification.game_config if variant is None else find_variant(manifest, variant).game_config
    return merge_config(manifest, config, changes or {})


def token_bounds(manifest: Manifest) -> tuple[int, int]:
    """The minimum and maximum number of slots: `minItems` and `maxItems` of `tokens`."""
    bounds = _bounds(manifest.game.config_schema)
    assert bounds is not None, "a manifest that was loaded has bounds"
    return bounds


def slot_count(manifest: Manifest, config: JsonObject) -> int:
    """The number of slots in an episode with this config.

    This is the length of `players` in the config, if it is a list and the schema declares one. Otherwise it is the
    only number that the bounds of `tokens` allow.

    Raises:
        UsageError: Code `slots_unknown` if neither determines it, `slots_out_of_bounds` if they contradict each
            other.
    """
    least, most = token_bounds(manifest)
    players = config.get("players")
    if isinstance(players, list) and _declares_players(manifest.game.config_schema):
        count = len(cast("list[Any]", players))
        if not least <= count <= most:
            raise UsageError(
                f"The game config has {count} players, but {manifest.game.name} allows {_range(least, most)}.",
                code="slots_out_of_bounds",
            )
        return count
    if least == most:
        return least
    raise UsageError(
        f"How many players? {manifest.game.name} allows {_range(least, most)}, and the game config does not say.",
        code="slots_unknown",
        hint="Give `players` in the game config, or say how many.",
    )


def with_tokens(config: JsonObject, tokens: Sequence[str]) -> dict[str, Any]:
    """A copy of a config with the slots' tokens added. Only the game may read it.

    Raises:
        UsageError: Code `runner_managed_tokens` if the config already has tokens.
    """
    if "tokens" in config:
        raise UsageError("game_config must not include runner-managed tokens.", code="runner_managed_tokens")
    return {**copy.deepcopy(dict(config)), "tokens": list(tokens)}


def validate_game_config(
    manifest: Manifest, config: JsonObject, *, slots: int | None = None, source: str = "game config"
) -> Report:
    """Check an authored config (without tokens) against the game's rules.

    Args:
        manifest: The manifest.
        config: The config.
        slots: Number of players; by default the length of `players` in the config, or else the minimum.
        source: The name for the report.
    """
    document = wrap_json(config, source=source)
    findings = Findings(list(document.findings))
    if document.usable:
        findings.extend(config_findings(manifest.game.config_schema, document.value, slots=slots))
    return json_report(document, findings.items, dropped=findings.dropped)


def require_game_config(manifest: Manifest, config: JsonObject, *, slots: int) -> None:
    """Refuse an authored config (without tokens) that `validate_game_config` finds errors in.

    Raises:
        ManifestError: Code `config_invalid`.
    """
    report = validate_game_config(manifest, config, slots=slots)
    if not report.ok:
        raise ManifestError(report, code="config_invalid")


def seed_range(
    manifest: Manifest, config: JsonObject, *, slots: int, unlimited: int = MAX_SEED, undeclared: bool = False
) -> tuple[int, int] | None:
    """The smallest and the largest `seed` that a game's config accepts; None if it takes none.

    Args:
        manifest: The Coworld.
        config: A config without tokens.
        slots: The number of slots.
        unlimited: The largest seed of a game whose schema names no maximum.
        undeclared: Whether a game takes a seed that neither its schema nor the config names, if the schema allows it.
    """
    said = _object(manifest.game.config_schema.get("properties")).get("seed")
    if said is None and not isinstance(config.get("seed"), int) and not undeclared:
        return None
    least, maximum = _object(said).get("minimum"), _object(said).get("maximum")
    least = int(least) if isinstance(least, int | float) and not isinstance(least, bool) else 0
    limit = int(maximum) if isinstance(maximum, int | float) and not isinstance(maximum, bool) else unlimited
    for most in dict.fromkeys(min(limit, widest) for widest in _WIDEST):
        if most >= least and all(
            validate_game_config(manifest, {**config, "seed": end}, slots=slots).ok for end in (least, most)
        ):
            return least, most
    return None


def declares_named_players(config_schema: JsonObject) -> bool:
    """Whether a config schema declares an object with a string `name` for every player, following local `$ref`."""
    players = _property(config_schema, config_schema, "players")
    if not _has_type(players, "array"):
        return False
    items = follow(config_schema, cast("dict[str, Any]", players).get("items"))
    return _has_type(items, "object") and _has_type(_property(config_schema, items, "name"), "string")


def named_players(manifest: Manifest, config: JsonObject, names: Sequence[str]) -> dict[str, Any]:
    """A copy of a config in which player `i` is named `names[i]`; a plain copy if the game does not name players.

    A missing `players` becomes one object per name. The same name twice becomes `X` and `X (2)`.

    Raises:
        ManifestError: If the config has `player_names`, if `players` is not a list of objects, or if its length
            differs from that of `names`.
    """
    result = _nameable(config)
    if not declares_named_players(manifest.game.config_schema):
        return result
    players = _player_objects(result, len(names))
    if len(players) != len(names):
        raise _name_error(
            "players_mismatch",
            ("players",),
            f"game_config.players must match the resolved player count: {len(players)} players, {len(names)} names.",
        )
    result["players"] = [{**player, "name": name} for player, name in zip(players, distinct_names(names), strict=True)]
    return result


def overwritten_named_players(manifest: Manifest, config: JsonObject, names: Sequence[str]) -> dict[str, Any]:
    """Like `named_players`, but the number of names decides: the config's players are repeated or cut to fit.

    Raises:
        ManifestError: If the config has `player_names` or `players` is not a list of objects.
    """
    result = _nameable(config)
    if not declares_named_players(manifest.game.config_schema):
        return result
    players = _player_objects(result, len(names)) or [{}]
    result["players"] = [
        {**copy.deepcopy(players[index % len(players)]), "name": name}
        for index, name in enumerate(distinct_names(names))
    ]
    return result


def with_input_controls(manifest: Manifest, config: JsonObject, slots: Iterable[int]) -> dict[str, Any]:
    """A copy of a config whose `slots` give some seats to people, for games that play seats themselves otherwise.

    It sets `slots[i].control` to `input` if the schema's enumeration for that field has `input` and `play`; a
    plain copy for any other game.

    Args:
        manifest: The manifest.
        config: The config.
        slots: The seats of people.
    """
    result = copy.deepcopy(dict(config))
    schema = manifest.game.config_schema
    seats = _property(schema, schema, "slots")
    items = follow(schema, _object(seats).get("items")) if _has_type(seats, "array") else None
    allowed = _object(_property(schema, items, "control")).get("enum") if _has_type(items, "object") else None
    given = result.get("slots", [])
    if not isinstance(allowed, list) or not {"input", "play"} <= {str(value) for value in cast("list[Any]", allowed)}:
        return result
    people = set(slots)
    if not isinstance(given, list) or not people:
        return result
    known = dict(enumerate(cast("list[Any]", given)))
    count = max(len(known), max(people) + 1)
    result["slots"] = [
        {**_object(known.get(slot)), "control": "input"} if slot in people else known.get(slot, {})
        for slot in range(count)
    ]
    return result


def _nameable(config: JsonObject) -> dict[str, Any]:
    if "player_names" in config:
        raise _name_error("player_names_in_config", ("player_names",), _PLAYER_NAMES, _PLAYER_NAMES_HINT)
    return copy.deepcopy(dict(config))


def _player_objects(config: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    if "players" not in config:
        return [{} for _ in range(count)]
    players = config["players"]
    if not isinstance(players, list):
        raise _name_error("wrong_type", ("players",), f"game_config.players must be a list, not {type_word(players)}.")
    for index, player in enumerate(cast("list[Any]", players)):
        if not isinstance(player, dict):
            message = f"game_config.players[{index}] must be an object, not {type_word(player)}."
            raise _name_error("wrong_type", ("players", index), message)
    return cast("list[dict[str, Any]]", players)


def _name_error(code: str, path: Path, message: str, hint: str | None = None) -> ManifestError:
    finding = Finding(code=code, path=path, message=message, hint=hint)
    return ManifestError(json_report(wrap_json({}, source="game config"), [finding]), code=code, hint=hint)


def distinct_names(names: Iterable[str]) -> list[str]:
    """The names in order, made distinct: the same name twice becomes `X` and `X (2)`."""
    wanted = list(names)
    taken: set[str] = set()
    result: list[str] = []
    for name in wanted:
        candidate, number = name, 1
        while candidate in taken or (number > 1 and candidate in wanted):
            number += 1
            candidate = f"{name} ({number})"
        taken.add(candidate)
        result.append(candidate)
    return result


_PLAYER_NAMES = "`player_names` does not belong in a game config."
_PLAYER_NAMES_HINT = "Name players with players[].name."


def config_schema_findings(schema: Mapping[str, Any]) -> list[Finding]:
    """Findings about a config schema, with paths relative to it."""
    checked = check_schema(schema)
    findings = Findings(list(checked.findings))
    required = schema.get("required")
    if not (isinstance(required, list) and "tokens" in required):
        findings.add(
            "tokens_not_required",
            ("required",) if isinstance(required, list) else (),
            "config_schema must list `tokens` in `required`: a runner gives every slot a token.",
            'Write "required": ["tokens", ...].',
        )
    findings.extend(_tokens_findings(schema))
    properties = _object(schema.get("properties"))
    if "player_names" in properties:
        findings.add(
            "player_names_in_schema",
            ("properties", "player_names"),
            "config_schema must not define `player_names`.",
            _PLAYER_NAMES_HINT,
            at_key=True,
        )
    slots = follow(schema, properties.get("slots"))
    items = follow(schema, _object(slots).get("items"))
    if "name" in _object(_object(items).get("properties")):
        findings.add(
            "slot_names_in_schema",
            ("properties", "slots"),
            "config_schema must not define a name in slots.",
            _PLAYER_NAMES_HINT,
            at_key=True,
        )
    return findings.items


def _tokens_findings(schema: Mapping[str, Any]) -> list[Finding]:
    findings = Findings()
    path: Path = ("properties", "tokens")
    hint = 'Write {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2} with your bounds.'
    tokens = _object(schema.get("properties")).get("tokens")
    if not isinstance(tokens, dict):
        findings.add("bad_tokens_schema", path, "config_schema must define `properties.tokens`.", hint)
        return findings.items
    rule = cast("dict[str, Any]", tokens)
    if "$ref" in rule:
        message = "`tokens` must be defined in place, not behind a $ref."
        findings.add("bad_tokens_schema", (*path, "$ref"), message, hint)
        return findings.items
    if rule.get("type") != "array":
        findings.add("bad_tokens_schema", (*path, "type"), '`tokens` must have "type": "array".', hint)
    if _object(rule.get("items")).get("type") != "string":
        findings.add("bad_tokens_schema", (*path, "items"), '`tokens` must have "items": {"type": "string"}.', hint)
    bounds: list[int] = []
    for name in ("minItems", "maxItems"):
        value = rule.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            bounds.append(value)
        else:
            message = f"`tokens` must have a whole number `{name}`: how many players there can be."
            findings.add("bad_tokens_schema", (*path, name), message, hint)
    if len(bounds) == 2 and bounds[0] > bounds[1]:
        message = f"`tokens` has minItems {bounds[0]} above maxItems {bounds[1]}."
        findings.add("bad_tokens_schema", (*path, "minItems"), message, hint)
    if bounds and bounds[0] > MAX_SLOTS:
        message = f"`tokens` asks for at least {bounds[0]} players; at most {MAX_SLOTS} are supported."
        findings.add("bad_tokens_schema", (*path, "minItems"), message, hint)
    return findings.items


def config_findings(schema: Mapping[str, Any], config: Mapping[str, Any], *, slots: int | None = None) -> list[Finding]:
    """Findings about an authored config, with paths relative to it; the schema itself is not checked."""
    findings = Findings()
    if "tokens" in config:
        findings.add(
            "runner_managed_tokens",
            ("tokens",),
            "game_config must not include runner-managed tokens.",
            "Remove `tokens`; every run makes its own.",
            at_key=True,
        )
    if "player_names" in config:
        findings.add("player_names_in_config", ("player_names",), _PLAYER_NAMES, _PLAYER_NAMES_HINT, at_key=True)
    bounds = _bounds(schema)
    checked = check_schema(schema)
    if bounds is None or not checked.ok:
        return findings.items
    least, most = bounds
    players = config.get("players")
    seated = len(cast("list[Any]", players)) if isinstance(players, list) else None
    count = slots if slots is not None else seated if seated is not None else least
    where: Path = ("players",) if seated is not None else ()
    if slots is not None and seated is not None and slots != seated:
        message = f"game_config.players has {seated} entries for {slots} {'slot' if slots == 1 else 'slots'}."
        findings.add("players_mismatch", where, message, "Make them the same number.")
        return findings.items
    if finding := slots_finding(count, least, most, where):
        return [*findings.items, finding]
    return [*findings.items, *_checked_config(checked, config, count)]


def slots_finding(count: int, least: int, most: int, path: Path = ()) -> Finding | None:
    """The finding about a number of slots outside the bounds of `tokens`; None if it is within them."""
    if least <= count <= most:
        return None
    there = "There is 1 player" if count == 1 else f"There are {count} players"
    return Finding(
        code="slots_out_of_bounds",
        path=path,
        message=f"{there} here, but `tokens` of config_schema allows {_range(least, most)}.",
        hint="Change the number of players, or the bounds.",
    )


def _checked_config(checked: CheckedSchema, config: Mapping[str, Any], count: int) -> list[Finding]:
    # As long as real tokens, so that a schema that would refuse real ones fails here.
    placeholders = [f"token-{index}".ljust(22, "x") for index in range(count)]
    authored = {key: value for key, value in config.items() if key not in ("tokens", "player_names")}
    findings: list[Finding] = []
    told = False
    for finding in checked.check({**authored, "tokens": placeholders}, code="bad_game_config", secret=_is_token):
        if not _is_token(finding.path):
            findings.append(finding)
        elif not told:
            told = True
            message = f"config_schema refuses a runner's tokens (22 characters of URL-safe base64): {finding.message}"
            hint = "Loosen properties.tokens of config_schema."
            findings.append(Finding(code="bad_tokens_schema", path=(), message=message, hint=hint))
    return findings


def _is_token(path: Path) -> bool:
    return path[:1] == ("tokens",)


def _bounds(schema: Mapping[str, Any]) -> tuple[int, int] | None:
    rule = _object(_object(schema.get("properties")).get("tokens"))
    least, most = rule.get("minItems"), rule.get("maxItems")
    if type(least) is int and type(most) is int and 0 <= least <= most and least <= MAX_SLOTS:
        return least, min(most, MAX_SLOTS)
    return None


def _declares_players(schema: Mapping[str, Any]) -> bool:
    return _has_type(_property(schema, schema, "players"), "array")


def _property(root: Mapping[str, Any], schema: object, name: str) -> object:
    return follow(root, _object(_object(schema).get("properties")).get(name))


def _has_type(schema: object, name: str) -> bool:
    return _object(schema).get("type") == name


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _range(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} to {most}"
