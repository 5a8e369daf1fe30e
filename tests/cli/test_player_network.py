"""Players that are to call a service are let out, or it is said that they are not."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from coworld_cli.options.playing import PlayOptions
from coworld_cli.output import Output
from coworld_cli.preparing import tell_network


@pytest.mark.parametrize(
    ("given", "network", "words"),
    [
        ({}, "game-only", ""),
        ({"use_bedrock": True}, "open", "Players reach the internet and each other"),
        (
            {"use_bedrock": True, "player_network": "game-only"},
            "game-only",
            "warning: players are handed credentials for Bedrock, and reach no service",
        ),
        ({"secret_env": ("OPENAI_API_KEY", "MODE=1")}, "game-only", "handed OPENAI_API_KEY, and reach no service"),
        ({"secret_env": ("OPENAI_API_KEY",), "player_network": "open"}, "open", ""),
    ],
)
def test_what_is_said_of_the_network(given: dict[str, Any], network: str, words: str) -> None:
    options = PlayOptions(manifest="world", server="", **given)
    assert options.episode(watch=False).player_network == network
    with CliRunner().isolation() as (_, error, _):
        tell_network(options, Output())
        said = error.getvalue().decode()
    assert (words in said) if words else not said
