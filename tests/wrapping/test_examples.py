"""Every example of the kit whose library is here: its manifest says what its rules say, and they keep their promise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.games import kit_examples

from coworld_core.rules import Rules, action_schema, audit_rules, read_config
from coworld_runner.kit.server.manifest import brought_up_to_date
from coworld_runner.package.random_player import sample

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("rules", kit_examples(), ids=lambda rules: rules.__name__)
def test_an_example_says_what_its_rules_say_and_they_keep_their_promise(rules: type[Rules]) -> None:
    directory = EXAMPLES / rules.__module__.replace("_", "-")
    manifest: dict[str, Any] = json.loads((directory / "coworld_manifest_template.json").read_text(encoding="utf-8"))
    assert brought_up_to_date(manifest, rules) == manifest
    schema = action_schema(rules)
    for variant in manifest["variants"]:
        names = variant["game_config"].get("players", [{}] * rules.seats)
        config = read_config(rules, {**variant["game_config"], "tokens": ["t"] * len(names)})
        found = audit_rules(
            rules, config=config.rules, seats=config.seats, ticks=30, sample=lambda rng: sample(schema, rng)
        )
        assert found.issues == (), variant["id"]
