"""The HTTPS hosts that players of pods may reach, through the proxy's own pod."""

from __future__ import annotations

import dataclasses

import pytest
from support.arena import Arena
from support.kube import backend_for

from coworld_core.errors import CapabilityError
from coworld_runner.episode.running import EpisodeOptions

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]

INSIDE = "kubernetes.default.svc.cluster.local"
"""Where the cluster's own API listens for HTTPS: named, resolved, and no address of the internet."""
_CALLS = """
import os, urllib.request
for url in os.environ["URLS"].split():
    try:
        urllib.request.urlopen(url, timeout=20)
        print("CALLED", url, flush=True)
    except OSError as error:
        print("FAILED", url, error, flush=True)
os.execvp("python3", ["python3", "player.py", "well"])
"""


async def test_pods_call_out_through_the_proxy_alone(arena: Arena, namespace: str) -> None:
    options = EpisodeOptions(timeout_seconds=240, player_https=(INSIDE,))
    urls = {f"https://{INSIDE}/": "leads to 10.", "https://other.example.com/": "is not one of the hosts"}
    plan = arena.plan("well", ["python3", "-c", _CALLS], "well", secret_env={"URLS": " ".join(urls)})
    with pytest.raises(CapabilityError, match="network policies"):
        # this cluster has nothing that enforces them, and says so unless it is told otherwise
        await arena.play(plan, options)
    async with backend_for(namespace, network_policy=True) as backend:
        found = await dataclasses.replace(arena, backend=backend).play(plan, options)
    assert found.record.ok
    lines = found.player_log(0).splitlines()[:2]
    assert all(line.startswith(f"FAILED {url}") and "403" in line for line, url in zip(lines, urls, strict=True)), lines
    warned = [event.message for event in found.of_kind("notice") if event.level == "warning"]
    assert [any(why in words for words in warned) for why in urls.values()] == [True, True], warned
