"""Players that are to call a service are let out, or it is said that they are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from coworld_cli.options.play_options import PlayOptions
from coworld_cli.options.values import HttpsHosts
from coworld_cli.output import Output
from coworld_cli.run_preparation import tell_network, tell_players
from coworld_runner.backends.docker.docker_backend import DockerBackend
from coworld_runner.backends.process.process_backend import ProcessBackend
from coworld_runner.package.own_players.own_player import OwnPlayer
from coworld_runner.package.resolver import resolve_package

BEDROCK = {"USE_BEDROCK": "true", "AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "eu-west-1"}
OPENAI = {"OPENAI_API_KEY": "sk"}


@pytest.mark.parametrize(
    ("given", "secrets", "words"),
    [
        ({}, {}, ""),
        ({"use_bedrock": True}, BEDROCK, "--player-https bedrock-runtime.eu-west-1.amazonaws.com lets them reach that"),
        (
            {"use_bedrock": True, "player_network": "game-only"},
            BEDROCK,
            "warning: players are handed credentials for Bedrock, and reach no service with it: their network is "
            "closed. --player-https bedrock-runtime.eu-west-1.amazonaws.com opens that alone",
        ),
        ({}, OPENAI | {"MODE": "1"}, "handed OPENAI_API_KEY, and reach no service"),
        ({}, OPENAI, "--player-https api.openai.com opens that alone, --player-network open everything.\n"),
        ({}, OPENAI | {"MY_API_KEY": "k"}, "--player-https api.openai.com,HOST opens"),
        ({}, OPENAI | {"OPENAI_BASE_URL": "https://u:p@models.example.org/v1"}, "--player-https models.example.org o"),
        ({}, {"OPENAI_BASE_URL": "http://127.0.0.1:11434/v1"}, "do not reach http://127.0.0.1:11434: their network"),
        ({}, {"OPENAI_BASE_URL": "http://127.0.0.1:11434/v1"}, "--backend process plays with this machine's network"),
        ({"player_network": "open"}, OPENAI, ""),
        ({"player_https": ("*.openai.com",)}, OPENAI, "Players reach the game and *.openai.com, by HTTPS.\n"),
        ({"player_https": ("b.example",)}, OPENAI, "and --player-https does not name api.openai.com.\n"),
    ],
)
def test_player_network_is_announced(given: dict[str, Any], secrets: dict[str, str], words: str) -> None:
    options = PlayOptions(manifest="world", server="", **given)
    with CliRunner().isolation() as (_, error, _):
        tell_network(options, secrets, Output())
        said = error.getvalue().decode()
    assert (words in said) if words else not said
    assert "sk" not in said.split()


async def test_llm_player_network_access_is_reported(world: Callable[..., Path]) -> None:
    """Its key is its own, and no option names it; only the backends that close networks have something to say."""
    package = await resolve_package(world())
    model = OwnPlayer(
        name="m", kind="llm", file="llm:m", path=Path("llm:m"), files={}, command=("python",), secret_env=OPENAI
    )
    for backend, told in ((DockerBackend(), True), (ProcessBackend(), False)):
        with CliRunner().isolation() as (_, error, _):
            tell_players(PlayOptions(manifest="world", server=""), [model, None], {}, package, backend, Output())
            assert ("--player-https api.openai.com opens that alone" in error.getvalue().decode()) == told


@pytest.mark.parametrize(
    ("given", "network"),
    [
        ({}, None),
        ({"use_bedrock": True}, "open"),
        ({"use_bedrock": True, "player_network": "game-only"}, "game-only"),
        ({"use_bedrock": True, "player_https": ("b.example",)}, None),
        ({"player_network": "open"}, "open"),
    ],
)
def test_which_network_players_have(given: dict[str, Any], network: str | None) -> None:
    assert PlayOptions(manifest="world", server="", **given).episode(watch=False).player_network == network


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
        ("api.*.com", "is not a host name"),
        ("*", "is too short"),
        ("a.example,,b.example", "'' is not a host name"),
        ("api_1.example.com", "is not a host name"),
    ],
)
def test_invalid_https_host_gets_a_hint(text: str, words: str) -> None:
    with pytest.raises(click.BadParameter) as caught:
        HttpsHosts().convert(text, None, None)
    assert words in caught.value.message


def test_hosts_are_read_as_they_are_compared() -> None:
    read = HttpsHosts().convert("API.Example.com, *.example.org,api.example.com", None, None)
    assert read == ("api.example.com", "*.example.org")
