"""A game as a task of Inspect, as the page shows it, with Inspect's own stand-in for a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import eval_async
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from support.page_files import write_file_of

from coworld_core.scopes import load_file

pytestmark = pytest.mark.slow


def winning(question: str) -> str:
    return '{"take": %d}' % (question.split("\n")[0].count("|") % 4)  # noqa: UP031 - braces


async def evaluated(directory: Path, answer: Callable[[str], str], **more: Any) -> Any:
    def said(messages: Any, *_: Any) -> ModelOutput:
        # The first answer of each game is none
        output = ModelOutput.from_content("mockllm", "Hm." if len(messages) == 2 else answer(messages[-1].text))
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    page = load_file(write_file_of("models-and-environments.md", "nim_task.py", directory))
    model = get_model("mockllm/model", custom_outputs=said, memoize=False)
    logs = await eval_async(page.nim(), model=model, log_dir=str(directory / "logs"), limit=2, **more)
    return logs[0]


async def test_a_model_plays_and_its_score_is_in_the_log(tmp_path: Path) -> None:
    log = await evaluated(tmp_path, winning)
    assert (log.status, log.eval.task, log.eval.dataset.samples) == ("success", "coworld_Nim", 20)
    scores = [sample.scores["coworld_score"] for sample in log.samples]
    assert [(score.value, score.metadata["refused"]) for score in scores] == [(1.0, 1), (1.0, 1)]
    assert log.results.scores[0].metrics["mean"].value == 1.0
    messages = [message.text for message in log.samples[0].messages]
    assert messages[0].startswith("Two players take one to three sticks")
    assert "Your last answer was refused" in messages[3]


async def test_a_model_that_a_limit_stops_misses_its_turns(tmp_path: Path) -> None:
    log = await evaluated(tmp_path, winning, message_limit=6)
    assert [sample.limit.type for sample in log.samples] == ["message", "message"]
    assert [sample.scores["coworld_score"].value for sample in log.samples] == [0.0, 0.0]
