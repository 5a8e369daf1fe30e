"""Proxies that an image or a user names: a player's game is in the network of the run, of which no proxy knows."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from support.arena import Arena
from support.images import docker_client, drop_image

pytestmark = pytest.mark.slow

EVERYWHERE = ["process", pytest.param("docker", marks=pytest.mark.docker)]
PROXY = "http://192.0.2.9:3128"
"""An address for documentation, at which nothing answers."""

_ASKS = """
import json, os, sys, urllib.parse, urllib.request
game = urllib.parse.urlsplit(os.environ["COWORLD_PLAYER_WS_URL"])
print(json.dumps([game.hostname, os.environ["NO_PROXY"], os.environ["no_proxy"]]), flush=True)
with urllib.request.urlopen(f"http://{game.netloc}/healthz", timeout=20) as answer:
    print(answer.status, flush=True)
os.execvp("python3", ["python3", "player.py", "well"])
"""
_ASKS_ANYWAY = """
import os, sys
del os.environ["NO_PROXY"], os.environ["no_proxy"]
sys.exit("Connect call failed ('192.0.2.9', 3128)")
"""
OURS = ["localhost", "127.0.0.1", "::1"]


def read_log(log: str) -> tuple[str, list[list[str]], str]:
    """The game's host, what the two lists name, and the status of the game's answer."""
    first, second = log.splitlines()[:2]
    host, *lists = json.loads(first)
    return host, [named.split(",") for named in lists], second


@pytest.mark.parametrize("backend_name", EVERYWHERE)
async def test_a_users_proxy_is_not_asked_for_the_game(arena: Arena) -> None:
    named = {"http_proxy": PROXY, "HTTP_PROXY": PROXY, "NO_PROXY": "intern.example, game"}
    plan = arena.plan("well", ["python3", "-c", _ASKS], "well", secret_env=named)
    found = await arena.play(plan)
    assert found.record.ok
    host, lists, answered = read_log(found.player_log(0))
    assert answered == "200"
    wanted = list(dict.fromkeys(["intern.example", "game", host, *OURS]))
    assert [list(dict.fromkeys(hosts)) for hosts in lists] == [wanted, wanted]


@pytest.mark.parametrize("backend_name", EVERYWHERE)
async def test_a_proxy_that_is_asked_all_the_same_is_named(arena: Arena) -> None:
    plan = arena.plan("well", ["python3", "-c", _ASKS_ANYWAY], "well", secret_env={"https_proxy": PROXY})
    found = await arena.play(plan)
    (fault,) = found.record.faults
    assert (fault.party, fault.slot) == ("player", 0)
    assert isinstance(fault.hint, str)
    assert "the proxy that https_proxy names (192.0.2.9)" in fault.hint


@pytest.fixture
def behind_proxy(arena: Arena) -> Iterator[str]:
    """An image that names a proxy, as base images of companies do."""
    name = f"coworld-test-proxy:{arena.mark}"
    client = docker_client()
    made = client.containers.create(arena.image)
    changes = [f"ENV http_proxy={PROXY}", f"ENV HTTP_PROXY={PROXY}", "ENV no_proxy=.intern.example"]
    client.api.commit(made.id, *name.split(":"), changes="\n".join(changes))
    made.remove()
    client.close()
    try:
        yield name
    finally:
        drop_image(name)


@pytest.mark.docker
@pytest.mark.parametrize("backend_name", ["docker"])
async def test_an_images_proxy_is_not_asked_for_the_game(arena: Arena, behind_proxy: str) -> None:
    arena.image = behind_proxy
    found = await arena.play(arena.plan("well", ["python3", "-c", _ASKS], "well"))
    assert found.record.ok
    _, lists, answered = read_log(found.player_log(0))
    assert answered == "200"
    assert lists == [[".intern.example", "game", *OURS]] * 2
