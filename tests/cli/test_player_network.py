"""Players that are to call a service are let out, or it is said that they are not."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from coworld_cli.options.playing import PlayOptions
from coworld_cli.options.values import HttpsHosts
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
        ({"secret_env": ("OPENAI_API_KEY",)}, "game-only", "--player-https api.openai.com opens that alone"),
        ({"secret_env": ("OPENAI_API_KEY",), "player_network": "open"}, "open", ""),
        (
            {"use_bedrock": True, "player_https": ("b.example",)},
            "game-only",
            "Players reach the game and b.example",
        ),
    ],
)
def test_what_is_said_of_the_network(given: dict[str, Any], network: str, words: str) -> None:
    options = PlayOptions(manifest="world", server="", **given)
    assert options.episode(watch=False).player_network == network
    with CliRunner().isolation() as (_, error, _):
        tell_network(options, Output())
        said = error.getvalue().decode()
    assert (words in said) if words else not said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("https://api.example.com", "is a URL: give the host's name alone"),
        ("api.example.com:8443", "has a port"),
        ("10.0.0.1", "is an address"),
        ("[::1]", "is an address"),
        ("127.1", "is an address"),
        ("localhost", "is too short"),
        ("*.com", "is too short"),
        ("api.*.com", "is no host name"),
        ("*", "is too short"),
        ("a.example,,b.example", "'' is no host name"),
        ("api_1.example.com", "is no host name"),
    ],
)
def test_what_names_no_https_host_is_told_what_would(text: str, words: str) -> None:
    with pytest.raises(click.BadParameter) as caught:
        HttpsHosts().convert(text, None, None)
    assert words in caught.value.message


def test_hosts_are_read_as_they_are_compared() -> None:
    read = HttpsHosts().convert("API.Example.com, *.example.org,api.example.com", None, None)
    assert read == ("api.example.com", "*.example.org")
