"""What a player can find out about others, and reach: on Docker nothing that is not its own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from support.arena import Arena
from support.https_container import https_server
from support.misfit_kit import Evidence

from coworld_core.errors import CapabilityError, UsageError
from coworld_runner.episode.single import EpisodeOptions

pytestmark = pytest.mark.slow

DOCKER = [pytest.param("docker", marks=pytest.mark.docker)]


def token_of(found: Evidence, slot: int) -> str:
    """A player's token, from what it printed of its environment."""
    match = re.search(r"COWORLD_PLAYER_WS_URL=\S*token=(\S+)", found.player_log(slot))
    assert match is not None
    return match[1]


async def test_secrets_reach_their_player_and_nothing_else(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLERS_OWN_SECRET", "not for players")
    secret = "s3cr3t-value-of-a-test"
    commands: list[str] = []

    def listen(event: Any) -> None:
        if event.kind == "unit_started" and event.slot is not None:
            commands.extend(command_lines())

    plan = arena.plan("well", "tells", "tells", secret_env={"MY_SECRET": secret})
    found = await arena.play(plan, listeners=(listen,))
    assert found.record.ok
    assert f"MY_SECRET={secret}" in found.player_log(0)
    assert found.record.slots[0].secret_env == ("MY_SECRET",)

    tokens = [token_of(found, slot) for slot in (0, 1)]
    assert len(set(tokens)) == 2
    assert tokens[1] not in found.player_log(0)
    assert tokens[0] not in found.player_log(1)
    assert "not for players" not in found.player_log(0)
    for path in found.layout.workspace.rglob("*"):
        if path.is_file() and not path.name.startswith("policy_agent"):
            text = path.read_text(errors="replace")
            assert secret not in text
            assert not any(token in text for token in tokens)
    assert commands
    for command in commands:
        assert secret not in command
        assert not any(token in command for token in tokens)


def command_lines() -> list[str]:
    """The argument list of everything that runs on this machine."""
    lines: list[str] = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(entry.read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return lines


@pytest.mark.parametrize("backend_name", DOCKER)
async def test_a_player_finds_nothing_to_steal(arena: Arena) -> None:
    # What is required and there is in nobody's way
    wanted = ("network_isolation", "file_isolation", "memory_limit", "pids_limit")
    options = EpisodeOptions(timeout_seconds=90, required_capabilities=wanted)
    found = await arena.play(arena.plan("well", "tells", "steals"), options)
    assert found.record.ok
    log = found.player_log(1)
    assert "LOOKED" in log
    assert "STOLEN" not in log
    assert "WRITTEN" not in log
    assert token_of(found, 0) not in log


async def test_the_thief_knows_its_trade(arena: Arena) -> None:
    """Local processes are kept from nothing, which shows that the thief would find something."""
    found = await arena.play(arena.plan("well", "well", "steals"))
    assert "STOLEN" in found.player_log(1)


# --- hosts that players may reach --------------------------------------------------------------------------------

_CALLS = """
import os, socket, ssl, urllib.request
trusted = ssl.create_default_context(cadata=os.environ["AUTHORITY"])
for url in os.environ["URLS"].split():
    try:
        print("CALLED", url, urllib.request.urlopen(url, timeout=20, context=trusted).read().decode(), flush=True)
    except OSError as error:
        print("FAILED", url, error, flush=True)
try:
    socket.create_connection((os.environ["ADDRESS"], 443), timeout=5)
    print("WENT OUT", flush=True)
except OSError as error:
    print("STAYED", error, flush=True)
os.execvp("python3", ["python3", "player.py", "well"])
"""


@pytest.mark.parametrize("backend_name", DOCKER)
async def test_players_reach_only_named_https_hosts(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a server at an address of the internet, as far as this machine is concerned."""
    monkeypatch.setenv("COWORLD_COLLECTOR_IMAGE", arena.image)
    where, wild, other, inside = (f"{name}.coworld-test.example" for name in ("api", "a.wild", "other", "inside"))
    with https_server(arena.image, where, wild, other, inside=inside) as server:
        urls = [f"https://{host}/" for host in (where, wild, other, inside, server.address)] + [f"https://{where}:80/"]
        secrets = {"AUTHORITY": server.certificate, "URLS": " ".join(urls), "ADDRESS": server.address}
        plan = arena.plan("well", ["python3", "-c", _CALLS], "well", secret_env=secrets)
        options = EpisodeOptions(timeout_seconds=90, player_https=(where, "*.wild.coworld-test.example", inside))
        # Once the game is ready, before any player starts
        found = await arena.play(plan, options, on_ready=lambda _: server.join(arena.run_ids[-1]))
    assert found.record.ok
    lines = found.player_log(0).splitlines()[:7]
    assert [line.split()[0] for line in lines] == ["CALLED"] * 2 + ["FAILED"] * 4 + ["STAYED"], lines
    # TLS is the server's own: the name in its certificate has been looked at
    assert lines[0] == f"CALLED {urls[0]} hello {where}"
    assert [line for line in lines if "FAILED" in line and "403" not in line] == []
    warned = [event.message for event in found.of_kind("notice") if event.level == "warning"]
    for target, why in (
        (f"{other}:443", "is not one of the hosts"),
        (f"{server.address}:443", "is not one of the hosts"),
        (f"{where}:80", "is not port 443"),
        (f"{inside}:443", "leads to 1"),
    ):
        assert any(f"asked for {target}, which {why}" in words for words in warned), warned
    assert len(warned) == 4


async def test_hosts_are_refused_where_players_cannot_be_held_to_them(arena: Arena) -> None:
    refused = [
        (
            EpisodeOptions(player_https=("api.example.com",)),
            CapabilityError,
            "cannot restrict players to named HTTPS hosts",
        ),
        (EpisodeOptions(player_https=("10.0.0.1",)), UsageError, "is an address"),
        (EpisodeOptions(player_https=("a.example.com",), player_network="open"), UsageError, "their network is open"),
    ]
    for options, error, words in refused:
        with pytest.raises(error, match=words):
            await arena.play(arena.plan(), options)
    assert list(arena.directory.iterdir()) == []


async def test_a_capability_that_is_missing_is_named(arena: Arena) -> None:
    with pytest.raises(CapabilityError, match="network isolation"):
        await arena.play(arena.plan(), EpisodeOptions(required_capabilities=("network_isolation",)))
    assert list(arena.directory.iterdir()) == []
