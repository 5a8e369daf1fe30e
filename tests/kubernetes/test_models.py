"""Models for the programs of pods: by a pod of their own, the only one that the others reach besides the game."""

from __future__ import annotations

import dataclasses
import socket

import pytest
from support.arena import Arena
from support.fake_provider import KEY, fake_provider
from support.kube import backend_for

from coworld_runner.episode import EpisodeOptions, ModelAccess, ModelBudget, ModelProvider

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]

_ASKS = """
import json, os, urllib.request
for address in (os.environ["OPENAI_BASE_URL"] + "/chat/completions", os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"):
    question = {"model": "tiny", "messages": [{"role": "user", "content": "How many?"}]}
    request = urllib.request.Request(address, json.dumps(question).encode(), {"Content-Type": "application/json"})
    try:
        print("ASKED", "Take two" in urllib.request.urlopen(request, timeout=20).read().decode(), flush=True)
    except OSError as error:
        print("FAILED", error, flush=True)
print(*os.environ.values(), flush=True)
os.execvp("python3", ["python3", "player.py", "well"])
"""


def _address_of_this_machine() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        # Sends nothing
        asking.connect(("203.0.113.1", 9))
        return str(asking.getsockname()[0])


async def test_pods_ask_models_and_see_no_key(arena: Arena, namespace: str) -> None:
    with fake_provider("Take two.", "0.0.0.0") as provider:
        there = ModelProvider(address=f"http://{_address_of_this_machine()}:{provider.server_port}/v1", key=KEY)
        models = ModelAccess(
            providers={"openai": there, "anthropic": there},
            names=("tiny",),
            prices={"tiny": (2.0, 8.0)},
            seat=ModelBudget(calls=2),
            record=True,
        )
        plan = arena.plan("well", ["python3", "-c", _ASKS], "well", secret_env={"OPENAI_API_KEY": KEY})
        async with backend_for(namespace, network_policy=True) as backend:
            options = EpisodeOptions(timeout_seconds=240, models=models)
            found = await dataclasses.replace(arena, backend=backend).play(plan, options)
    assert found.record.ok, found.record.faults
    assert found.player_log(0).splitlines()[:2] == ["ASKED True", "ASKED True"]
    used = found.record.slots[0].model_use
    assert used is not None
    assert [used.prompt_tokens, used.completion_tokens] == provider.tokens
    for path in found.layout.workspace.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
    assert found.layout.models.read_text("utf-8").count('"question"') == 2
