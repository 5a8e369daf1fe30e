"""A small manifest that is right, to be broken by the tests."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

GENERATIONS = Path(__file__).parent / "generations"

MANIFEST: dict[str, Any] = {
    "$schema": "https://example.org/coworld_manifest.schema.json",
    "game": {
        "name": "tug",
        "version": "1.2.0",
        "description": "Two players pull at one rope.",
        "owner": "someone@example.org",
        "config_schema": {
            "type": "object",
            "additionalProperties": False,
            "required": ["tokens", "players", "ticks"],
            "properties": {
                "tokens": {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 2, "maxItems": 4},
                "players": {"type": "array", "items": {"$ref": "#/$defs/player"}, "minItems": 2, "maxItems": 4},
                "ticks": {"type": "integer", "minimum": 1, "maximum": 1000},
                "seed": {"type": ["integer", "null"], "default": None},
                "mood": {"enum": ["calm", "wild"]},
            },
            "$defs": {
                "player": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["name"],
                    "properties": {"name": {"type": "string", "minLength": 1}, "weight": {"type": "number"}},
                }
            },
        },
        "results_schema": {
            "type": "object",
            "required": ["scores"],
            "properties": {
                "scores": {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": 4},
                "winner": {"type": ["integer", "null"]},
            },
        },
        "runnable": {
            "type": "game",
            "image": "registry.example.org/tug:1.2.0",
            "run": ["tug-game", "--quiet"],
            "env": {"TUG_MODE": "fair", "COWORLD_LOCAL_EXTRA_PORTS": "9000"},
            "source_url": "https://github.com/example/tug",
            "resources": {"requests": {"cpu": "500m", "memory": "256Mi", "ephemeral-storage": "1Gi"}},
        },
        "protocols": {
            "player": {"type": "text", "value": "# Player protocol"},
            "global": {"type": "uri", "value": "https://example.org/global.md"},
        },
        "docs": {
            "readme": {"type": "text", "value": "# Tug"},
            "pages": [{"id": "rules.md", "title": "Rules", "content": {"type": "text", "value": "Pull."}}],
        },
    },
    "player": [
        {
            "id": "puller",
            "name": "Puller",
            "type": "player",
            "description": "Always pulls.",
            "image": "registry.example.org/tug:1.2.0",
            "run": ["tug-player"],
            "env": {"STRENGTH": "3"},
            "repository_url": "https://github.com/example/puller",
        },
        {
            "id": "waiter",
            "name": "Waiter",
            "type": "player",
            "description": "Waits.",
            "image": "tug-waiter:latest",
        },
    ],
    "reporter": [
        {
            "id": "summary",
            "name": "Summary",
            "type": "reporter",
            "description": "Says who won.",
            "image": "tug-reporter:1",
        }
    ],
    "variants": [
        {
            "id": "default",
            "name": "Default",
            "game_config": {"players": [{"name": "Left"}, {"name": "Right"}], "ticks": 10, "seed": None},
            "description": "Short.",
        },
        {
            "id": "long",
            "name": "Long",
            "game_config": {"players": [{"name": "A"}, {"name": "B"}, {"name": "C"}], "ticks": 100},
            "description": "Longer, for three.",
        },
    ],
    "certification": {
        "game_config": {"players": [{"name": "Left"}, {"name": "Right"}], "ticks": 5},
        "players": [{"player_id": "puller"}, {"player_id": "waiter"}],
    },
    "players_per_user": 2,
}


@pytest.fixture
def document() -> dict[str, Any]:
    """A manifest that is right, as JSON to be changed at will."""
    return copy.deepcopy(MANIFEST)


@pytest.fixture
def generation() -> Callable[[str], dict[str, Any]]:
    """Manifests in the shape of each published generation, by its version."""

    def read(version: str) -> dict[str, Any]:
        value: dict[str, Any] = json.loads((GENERATIONS / f"{version}.json").read_text(encoding="utf-8"))
        return value

    return read
