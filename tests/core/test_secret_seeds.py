"""Seeds that are fixed before a block, and shown to be so afterwards."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from coworld_core.manifest.game_config import game_config_for, seed_range
from coworld_core.manifest.manifest_file import load_manifest
from coworld_core.secret_seeds import key_commitment, seed_from_key, seed_key, verify_seed

SECRET = bytes(range(32))


def test_revealed_key_verifies_the_seed_and_nothing_else_does() -> None:
    key = seed_key(SECRET, "1:12")
    seed = seed_from_key(key, least=1, most=1000)
    said: dict[str, Any] = {"key": key.hex(), "commitment": key_commitment(key), "least": 1, "most": 1000}
    assert 1 <= seed <= 1000
    assert verify_seed(seed, **said)
    other = seed_key(SECRET, "1:13")
    wrong: list[dict[str, Any]] = [
        {"key": other.hex()},
        {"key": other.hex(), "commitment": key_commitment(other)},
        {"commitment": key_commitment(other)},
        {"key": "no key"},
        {"key": ""},
        {"most": 999},
    ]
    for one in wrong:
        assert not verify_seed(seed, **{**said, **one}), one
    assert not verify_seed(seed + 1, **said)


def test_seeds_of_blocks_have_nothing_in_common() -> None:
    seeds = {
        seed_from_key(seed_key(secret, f"{season}:{block}"))
        for secret in (SECRET, b"x" * 32)
        for season in range(10)
        for block in range(100)
    }
    assert len(seeds) == 2000
    assert min(seeds) >= 0
    assert {seed_from_key(seed_key(SECRET, str(block)), least=3, most=5) for block in range(100)} == {3, 4, 5}


def test_derivation_never_changes() -> None:
    """What was published must be checked for ever, by programs in other languages too."""
    key = seed_key(SECRET, "1:12")
    assert key.hex() == "45a57e9ee1faa911ecc7e77ff876264287d237eb81e37cb83ec96adb0e3e7e14"
    assert key_commitment(key) == "f8b0132215765057b6500c2606dd5057e2201fe902e6324ba3d2cefe7dcb7dbd"
    assert seed_from_key(key, most=2**31 - 1) == 2051029108


def _range(document: dict[str, Any], rule: object, seed: int | None = None, **how: Any) -> tuple[int, int] | None:
    properties = document["game"]["config_schema"]["properties"]
    properties.pop("seed")
    for part in (*document["variants"], document["certification"]):
        part["game_config"].pop("seed", None)
    if rule is not None:
        properties["seed"] = rule
    manifest = load_manifest(document, template=True).manifest
    return seed_range(manifest, game_config_for(manifest) | ({} if seed is None else {"seed": seed}), slots=2, **how)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"type": "integer"}, (0, 2**31 - 1)),
        ({"type": ["integer", "null"]}, (0, 2**31 - 1)),
        ({"type": "integer", "minimum": 1, "maximum": 9}, (1, 9)),
        ({"type": "integer", "maximum": 2**40}, (0, 2**40)),
        ({"type": "integer", "allOf": [{"maximum": 2**31}]}, (0, 2**31 - 1)),
        ({"type": "string"}, None),
        (None, None),
    ],
)
def test_range_is_that_of_the_schema(document: dict[str, Any], rule: object, expected: tuple[int, int] | None) -> None:
    assert _range(document, rule, unlimited=2**31 - 1) == expected


def test_seed_that_the_schema_does_not_name_is_taken_only_if_allowed(document: dict[str, Any]) -> None:
    assert _range(copy.deepcopy(document), None, undeclared=True) is None
    document["game"]["config_schema"]["additionalProperties"] = True
    assert _range(copy.deepcopy(document), None, undeclared=True) == (0, 2**63 - 1)
    assert _range(copy.deepcopy(document), None) is None
    assert _range(document, None, seed=3) == (0, 2**63 - 1)
