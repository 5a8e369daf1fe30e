"""Comparisons of language models that are played: the ledger is the provider's, and a budget ends them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.fake_server import Ask, Say, Site, json_say, site_in_thread

from coworld_core.episode.record import read_record, read_rows
from coworld_core.errors import UsageError
from coworld_core.rules.model_words import UNCLEAR
from coworld_runner.evaluation import EvaluationRules, compare

NIM = Path(__file__).parents[2] / "examples" / "nim"
USAGE = {"prompt_tokens": 100, "completion_tokens": 10}
EACH = 0.2
"""US dollars of a call."""


async def compared(workspace: Path, new: str, old: str, **terms: Any) -> Any:
    rules = EvaluationRules(config={"sticks": 4}, count_starved=True, max_blocks=4, **terms)
    return await compare(NIM, new, old, rules=rules, backend="process", workspace=workspace, parallel=1)


@pytest.mark.slow
async def test_a_budget_ends_a_comparison_once_and_more_of_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def completion(ask: Ask) -> Say:
        refused = UNCLEAR in ask.json["messages"][-1]["content"]
        content = '{"take": 3}' if refused else "Hm."
        return json_say({"choices": [{"message": {"content": content}}], "usage": USAGE})

    chat = Site()
    chat.on("POST", "/v1/chat/completions", completion)
    models = ("llm:tiny?price=1000,10000", "llm:large?price=1000,10000")
    with site_in_thread(chat):
        monkeypatch.setenv("OPENAI_BASE_URL", f"{chat.url}/v1")
        report = await compared(tmp_path / "run", *models, max_cost=EACH)
        assert (report.stopped, report.verdict, report.blocks) == ("max_cost", "undecided", 1)
        names = [ask.json["model"] for ask in chat.asked]
        assert [(one.model, one.calls) for one in report.models] == [
            (name, names.count(name)) for name in ("tiny", "large")
        ]
        assert report.cost == pytest.approx(len(names) * EACH)
        assert sum(one.prompt_tokens for one in report.models) == 100 * len(names)
        assert all(one.refused for one in report.models)
        record = read_record(tmp_path / "run" / "block-0001.1-1")
        kept = next(read_rows(tmp_path / "run"))
        assert [seat.model_use for seat in record.slots] == [seat.model_use for seat in kept.slots]

        # The same budget is used up; a larger one plays on, and what was played counts
        assert await compared(tmp_path / "run", *models, max_cost=EACH) == report
        assert len(chat.asked) == len(names)
        more = await compared(tmp_path / "run", *models, max_cost=EACH * (len(names) + 1))
        assert (more.stopped, more.blocks) == ("max_cost", 2)
        assert more.cost == pytest.approx(len(chat.asked) * EACH)


@pytest.mark.parametrize(
    ("new", "old", "code"),
    [("llm:tiny?price=1,2", "llm:tiny", "price_unknown"), ("counter", "random", "no_model")],
)
async def test_a_cost_that_nobody_knows_is_not_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new: str, old: str, code: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-this-test")
    with pytest.raises(UsageError) as refused:
        await compared(tmp_path / "run", new, old, max_cost=1.0)
    assert refused.value.code == code
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("most", [0.0, -1.0, float("nan"), float("inf")])
def test_a_budget_is_an_amount(most: float) -> None:
    with pytest.raises(UsageError) as refused:
        EvaluationRules(max_cost=most)
    assert refused.value.code == "bad_cost"
