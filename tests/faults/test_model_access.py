"""Models for the programs of an episode: asked, counted, and answered again, with the key nowhere to be found."""

from __future__ import annotations

import os
import sys
from ipaddress import ip_network
from pathlib import Path

import pytest
from support.arena import Arena
from support.fake_provider import KEY, FakeProvider, fake_provider
from support.images import docker_client

from coworld_core.errors import UsageError
from coworld_runner.episode import EpisodeOptions, ModelAccess, ModelBudget, ModelProvider

DOCKER = [pytest.param("docker", marks=pytest.mark.docker)]
_ASKS = """
import json, os, sys, urllib.request
who = sys.argv[1]

def ask(name, address, **headers):
    question = {"model": "tiny", "max_tokens": 9, "messages": [{"role": "user", "content": f"{who} by {name}"}]}
    headers["Content-Type"] = "application/json"
    try:
        request = urllib.request.Request(address, json.dumps(question).encode(), headers)
        answer = urllib.request.urlopen(request, timeout=20).read().decode()
        print("ASKED", name, "Take two" in answer, flush=True)
    except OSError as error:
        print("FAILED", name, getattr(error, "code", error), flush=True)

key, slot = os.environ["OPENAI_API_KEY"], {"X-Coworld-Player-Slot": "1"} if who == "game" else {}
ask("openai", os.environ["OPENAI_BASE_URL"] + "/chat/completions", Authorization="Bearer " + key)
ask("anthropic", os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages")
ask("published", os.environ["COWORLD_LLM_ENDPOINT"] + "/v1/chat/completions", **slot)
outside = os.environ.get("OUTSIDE")
if outside:
    ask("directly", outside + "/chat/completions")
print("ENVIRONMENT", *os.environ.values(), flush=True)
os.execvp("python3", ["python3", *sys.argv[2:]])
"""
PRICE = (2.0, 8.0)


def access(provider: FakeProvider, address: str, **more: object) -> ModelAccess:
    there = ModelProvider(address=address, key=KEY)
    return ModelAccess(
        providers={"openai": there, "anthropic": there},
        names=("tiny",),
        prices={"tiny": PRICE},
        **more,  # type: ignore[arg-type]
    )


def host_of(backend_name: str) -> str:
    """An address of this machine that units of a backend reach."""
    if backend_name == "process":
        return "127.0.0.1"
    config = docker_client().networks.get("bridge").attrs["IPAM"]["Config"][0]
    return str(next(ip_network(config["Subnet"]).hosts()))


@pytest.mark.parametrize("backend_name", ["process", *DOCKER])
async def test_the_game_and_its_players_ask_models(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COWORLD_COLLECTOR_IMAGE", arena.image)
    host = host_of(arena.name)
    with fake_provider("Take two.", "0.0.0.0") as provider:
        address = f"http://{host}:{provider.server_port}/v1"
        secrets = {"OPENAI_API_KEY": KEY, "OUTSIDE": address if arena.name == "docker" else ""}
        player = ["python3", "-c", _ASKS, "player", "player.py", "well"]
        run = ["python3", "-c", _ASKS, "game", "game.py"]
        plan = arena.plan("well", player, "well", run=run, secret_env=secrets)
        models = access(provider, address, record=True, seat=ModelBudget(calls=3))
        found = await arena.play(plan, EpisodeOptions(timeout_seconds=90, models=models))
    assert found.record.ok, found.record.faults
    log, game_log = found.player_log(0), found.layout.game_stdout.read_text("utf-8")
    for said in (log, game_log):
        assert [line for line in said.splitlines() if line.startswith(("ASKED", "FAILED op"))] == [
            f"ASKED {name} True" for name in ("openai", "anthropic", "published")
        ]
    # The only way out is the one that counts
    assert ("FAILED directly" in log) == (arena.name == "docker")
    game, player_0, player_1 = found.record.game, *found.record.slots
    assert game is not None
    used = [unit.model_use for unit in (game, player_0, player_1)]
    assert [use.calls if use is not None else 0 for use in used] == [2, 3, 1]
    known = [use for use in used if use is not None]
    assert found.record.model_use is not None
    assert found.record.model_use.calls == 6
    asked = [sum(use.prompt_tokens for use in known), sum(use.completion_tokens for use in known)]
    assert asked == provider.tokens
    cost = sum(use.cost or 0 for use in known)
    assert cost == pytest.approx((asked[0] * PRICE[0] + asked[1] * PRICE[1]) / 1e6)
    for path in found.layout.workspace.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path

    # Again without the provider, and so without a network
    again = await arena.play(
        plan, EpisodeOptions(timeout_seconds=90, models=ModelAccess(replay=found.layout.workspace))
    )
    assert again.player_log(0).splitlines()[:3] == log.splitlines()[:3]
    again_used = again.record.slots[0].model_use
    assert again_used is not None
    assert player_0.model_use is not None
    assert (again_used.prompt_tokens, again_used.cost) == (player_0.model_use.prompt_tokens, 0)


async def test_what_a_budget_or_a_provider_refuses_is_told(arena: Arena) -> None:
    with fake_provider("Take two.") as provider:
        player = [sys.executable, "-c", _ASKS, "player", "player.py", "well"]
        models = access(provider, provider.address, seat=ModelBudget(calls=1))
        options = EpisodeOptions(timeout_seconds=90, models=models)
        found = await arena.play(arena.plan("well", player, "well"), options)
    assert found.record.ok
    assert [line.rpartition(" ")[2] for line in found.player_log(0).splitlines()[1:3]] == ["402", "402"]
    assert [words for words in found.record.warnings if "model" in words] == [
        "2 calls of a model failed: the budget of this seat, 1 calls, is spent."
    ]


async def test_models_that_cannot_be_had_are_refused_before_the_start(
    arena: Arena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="No provider"):
        ModelAccess()
    here = {"openai": ModelProvider(address="http://127.0.0.1:1/v1")}
    with pytest.raises(UsageError, match=r"The price of tiny is not known"):
        ModelAccess(providers=here, names=("tiny",), seat=ModelBudget(usd=1.0))
    with pytest.raises(UsageError, match="a number from 0"):
        ModelAccess(providers=here, seat=ModelBudget(calls=-1))
    with pytest.raises(UsageError, match="no recording"):
        ModelAccess(replay=tmp_path)
    assert list(arena.directory.iterdir()) == []
    assert os.environ.get("OPENAI_API_KEY") != KEY


@pytest.mark.parametrize("backend_name", DOCKER)
async def test_this_machine_is_not_that_of_a_container(arena: Arena) -> None:
    models = ModelAccess(providers={"openai": ModelProvider(address="http://localhost:11434/v1")})
    with pytest.raises(UsageError, match="in a container localhost is the container"):
        await arena.play(arena.plan(), EpisodeOptions(models=models))
