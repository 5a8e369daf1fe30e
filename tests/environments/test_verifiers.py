"""A game as an environment of verifiers, as the page shows it, with a model that a server of ours plays."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import verifiers.v1 as vf
from support.fake_server import Ask, Say, Site, site_in_thread
from support.page_files import write_file_of

pytestmark = pytest.mark.slow


@contextmanager
def winning() -> Generator[tuple[Site, Any]]:
    """A language model whose first answer is none, and which plays well then: its server, and how verifiers ask it."""

    def completion(ask: Ask) -> Say:
        messages = ask.json["messages"]
        sticks = messages[-1]["content"].split("\n")[0].count("|")
        said = "Hm." if len(messages) == 2 else json.dumps({"take": sticks % 4})
        choices: list[Any] = [
            [{"index": 0, "delta": {"role": "assistant", "content": said}, "finish_reason": None}],
            [{"index": 0, "delta": {}, "finish_reason": "stop"}],
        ]
        head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "tiny"}
        lines = [f"data: {json.dumps({**head, 'choices': one})}\n\n" for one in choices]
        return Say(200, "".join([*lines, "data: [DONE]\n\n"]).encode(), {"content-type": "text/event-stream"})

    site = Site()
    site.on("POST", "/v1/chat/completions", completion)
    with site_in_thread(site) as served:
        client = vf.EvalClientConfig(base_url=f"{served.url}/v1", api_key_var="NO_KEY_OF_THIS_NAME")
        yield served, vf.ModelContext(model="tiny", client=client)


async def test_a_model_plays_and_what_it_scores_is_its_reward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = write_file_of("models-and-environments.md", "nim_env.py", tmp_path)
    module.write_text(module.read_text().replace('counter.py")', 'counter.py", config={"sticks": 5})'))
    monkeypatch.syspath_prepend(tmp_path)

    async def episode(task: int, **player: Any) -> tuple[Any, Any]:
        known = {"taskset": {"id": "nim_env"}, "player": {"network_notice": False, **player}}
        env = vf.load_environment(vf.resolve_env_config(known))
        with winning() as (site, model):
            async with env.serving():
                played = await env.run_episode(list(env.taskset.take(2))[task], model)
        assert (played.ok, played.errors, len(played.traces)) == (True, [], 1)
        return played.traces[0], site

    won, site = await episode(0)
    assert (won.task.data.name, won.reward, won.num_turns) == ("Nim#0", 1.0, 3)
    assert won.metrics == {"refused": 1, "ticks": 3}
    system, _, _, last = site.asked[1].json["messages"]
    assert system["content"].startswith("Two players take one to three sticks")
    assert "Your last answer was refused" in last["content"]

    stopped, _ = await episode(1, max_turns=1)
    assert (stopped.task.data.name, stopped.is_truncated, stopped.rewards["score"].value) == ("Nim#1", True, 0.0)


async def test_graders_are_rewards_beside_the_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_file_of("models-and-environments.md", "graded_env.py", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    env = vf.load_environment(
        vf.resolve_env_config({"taskset": {"id": "graded_env"}, "player": {"network_notice": False}})
    )
    with winning() as (_, model):
        async with env.serving():
            played = await env.run_episode(next(iter(env.taskset.take(1))), model)
    assert (played.ok, played.errors) == (True, [])
    (trace,) = played.traces
    given = {name: (reward.score, reward.weight) for name, reward in trace.rewards.items()}
    assert given == {"score": (1.0, 1.0), "kept": (1.0, 0.5), "short": (-trace.metrics["ticks"], 0.0)}
    assert trace.reward == 1.5
