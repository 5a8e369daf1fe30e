"""The config reader, the published schemas and the manifest template say the same."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import paintarena
from paintarena.config import CONFIG_SCHEMA, RESULTS_SCHEMA, ConfigError, is_tick_rate, parse_config
from paintarena.testing import small_config

EXAMPLE = Path(paintarena.__file__).parents[2]
NAN, INFINITY = float("nan"), float("inf")


def template() -> dict[str, Any]:
    return json.loads((EXAMPLE / "coworld_manifest_template.json").read_text())


def test_a_good_config_is_read() -> None:
    config = parse_config(json.dumps(small_config(tick_rate=5)))
    assert (config.width, config.height, config.max_ticks) == (8, 6, 20)
    assert config.tick_rate == 5.0
    assert isinstance(config.tick_rate, float), "snapshots show the rate as a float"
    assert config.names == ("Ada", "Bob")


def test_the_timeout_has_a_default() -> None:
    raw = small_config()
    del raw["player_connect_timeout_seconds"]
    assert parse_config(json.dumps(raw)).connect_timeout == 180.0


def test_tokens_stay_out_of_sight() -> None:
    raw = small_config()
    config = parse_config(json.dumps(raw))
    assert "tokens" not in config.public
    assert "secret" not in repr(config)
    assert config.public == {key: value for key, value in raw.items() if key != "tokens"}


BAD: dict[str, dict[str, Any]] = {
    "no tokens": {"tokens": None},
    "empty token": {"tokens": ["", "b"]},
    "number token": {"tokens": [1, 2]},
    "too many tokens": {"tokens": ["t"] * 5, "players": [{"name": "n"}] * 5},
    "fewer names": {"players": [{"name": "Ada"}]},
    "empty name": {"players": [{"name": ""}, {"name": "Bob"}]},
    "extra in player": {"players": [{"name": "Ada", "age": 3}, {"name": "Bob"}]},
    "names not objects": {"players": ["Ada", "Bob"]},
    "narrow": {"width": 3},
    "tall": {"height": 41},
    "fraction": {"width": 8.5},
    "true is no number": {"width": True},
    "no ticks": {"max_ticks": 0},
    "rate zero": {"tick_rate": 0},
    "rate negative": {"tick_rate": -1},
    "rate too fast": {"tick_rate": 60.5},
    "rate NaN": {"tick_rate": NAN},
    "rate infinite": {"tick_rate": INFINITY},
    "timeout negative": {"player_connect_timeout_seconds": -1},
    "timeout NaN": {"player_connect_timeout_seconds": NAN},
    "unknown": {"colour": "blue"},
}


@pytest.mark.parametrize("changes", BAD.values(), ids=BAD)
def test_a_bad_config_is_refused_without_showing_tokens(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(json.dumps(small_config(**changes)))
    assert "secret" not in str(caught.value)
    assert next(iter(changes)).removesuffix("s") in str(caught.value), "the message names the value"


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000])
def test_config_that_is_not_an_object_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="JSON"):
        parse_config(text)


def test_schema_and_reader_agree() -> None:
    """What the reader refuses the schema refuses too, but for what JSON cannot say (NaN) and 3 or 4 players."""
    validator = jsonschema.Draft202012Validator(CONFIG_SCHEMA)
    assert validator.is_valid(small_config())
    for name, changes in BAD.items():
        if not any(value != value or value == INFINITY for value in changes.values()):
            assert not validator.is_valid(small_config(**changes)), name


@pytest.mark.parametrize("rate", [0.1, 1, 60, 60.0])
def test_good_rates(rate: float) -> None:
    assert is_tick_rate(rate)


@pytest.mark.parametrize("rate", [0, -1, 60.01, NAN, INFINITY, True, "5", None, [5]])
def test_bad_rates(rate: object) -> None:
    assert not is_tick_rate(rate)


def test_the_template_publishes_these_schemas() -> None:
    game = template()["game"]
    assert game["config_schema"] == CONFIG_SCHEMA
    assert game["results_schema"] == RESULTS_SCHEMA
    assert "version" not in game, "the version is given when building"


def test_every_authored_config_can_be_played() -> None:
    manifest = template()
    configs = [variant["game_config"] for variant in manifest["variants"]] + [manifest["certification"]["game_config"]]
    for config in configs:
        assert "tokens" not in config
        parse_config(json.dumps({**config, "tokens": ["a", "b"]}))


def test_every_declared_program_exists() -> None:
    manifest = template()
    runs = [manifest["game"]["runnable"]["run"], *(player["run"] for player in manifest["player"])]
    for run in runs:
        assert run[:2] == ["python", "-m"]
        module = EXAMPLE / "src" / Path(*run[2].split(".")).with_suffix(".py")
        assert module.is_file()
        assert '__name__ == "__main__"' in module.read_text()


def test_certification_seats_every_declared_player() -> None:
    manifest = template()
    seated = [seat["player_id"] for seat in manifest["certification"]["players"]]
    assert sorted(seated) == sorted(player["id"] for player in manifest["player"])
    assert seated[0] == "sweep-painter"
