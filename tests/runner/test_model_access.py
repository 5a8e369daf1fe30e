"""Which models programs may use: as a user's words and variables say it, and refused before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coworld_core.errors import UsageError
from coworld_runner.episode import (
    ModelAccess,
    ModelBudget,
    ModelProvider,
    find_providers,
    read_model_access,
    run_episode,
)

NIM = Path(__file__).parents[2] / "examples/nim"
KEYED = {"OPENAI_API_KEY": "sk-of-this-test"}


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, {}),
        ({"OPENAI_API_KEY": ""}, {}),
        (KEYED, {"openai": "https://api.openai.com/v1"}),
        ({"OPENAI_BASE_URL": "http://here:1/v1/"}, {"openai": "http://here:1/v1"}),
        ({"ANTHROPIC_BASE_URL": "http://here:1"}, {"anthropic": "http://here:1/v1"}),
        ({"ANTHROPIC_API_KEY": "a"}, {"anthropic": "https://api.anthropic.com/v1"}),
        ({"OPENROUTER_API_KEY": "r"}, dict.fromkeys(("openai", "anthropic"), "https://openrouter.ai/api/v1")),
        ({"COWORLD_LLM_ENDPOINT": "http://here:1"}, dict.fromkeys(("openai", "anthropic"), "http://here:1/v1")),
        (
            {"COWORLD_LLM_ENDPOINT": "http://here:1/v1", "ANTHROPIC_API_KEY": "a"},
            {"openai": "http://here:1/v1", "anthropic": "https://api.anthropic.com/v1"},
        ),
    ],
)
def test_variables_name_a_provider_for_each_dialect(environment: dict[str, str], found: dict[str, str]) -> None:
    providers = find_providers(environment)
    assert {dialect: provider.address for dialect, provider in providers.items()} == found
    assert not any(
        key in repr(providers) for key in environment.values() if key and not key.startswith("http") and len(key) > 3
    )


def test_words_say_what_may_be_used() -> None:
    access = read_model_access(
        KEYED, models=("tiny=0.15,0.6", "large=1,2"), budget="calls=100,tokens=1e6,usd=0.5", episode_budget="usd=2"
    )
    assert access.names == ("tiny", "large")
    assert access.prices == {"tiny": (0.15, 0.6), "large": (1.0, 2.0)}
    assert access.seat == ModelBudget(calls=100, tokens=1_000_000, usd=0.5)
    assert access.episode == ModelBudget(usd=2.0)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ({"models": ("=1,2",)}, "bad_llm"),
        ({"models": ("tiny=1",)}, "bad_llm"),
        ({"models": ("tiny=1,nan",)}, "bad_llm"),
        ({"models": ("tiny=-1,2",)}, "bad_llm"),
        ({"budget": "calls"}, "bad_budget"),
        ({"budget": "rounds=3"}, "bad_budget"),
        ({"budget": "calls=inf"}, "bad_budget"),
        ({"budget": "tokens=-1"}, "bad_budget"),
        ({"budget": "usd=nan", "models": ("tiny=1,2",)}, "bad_budget"),
        ({"budget": "usd=1"}, "price_unknown"),
        ({"episode_budget": "usd=1", "models": ("tiny=1,2", "large")}, "price_unknown"),
        ({"replay": "nowhere"}, "no_recorded_models"),
    ],
)
def test_words_that_cannot_be_are_refused(words: dict[str, Any], code: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_model_access(KEYED, **words)
    assert refused.value.code == code


def test_calls_that_were_only_counted_answer_nothing(tmp_path: Path) -> None:
    (tmp_path / "models.ndjson").write_text('{"spender": "0", "call": "messages", "status": 200}\n')
    with pytest.raises(UsageError, match="no recording"):
        ModelAccess(replay=tmp_path)


async def test_a_model_needs_a_key_unless_there_is_a_way_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError) as refused:
        await run_episode(NIM, players=["llm:tiny", "random"], backend="process", workspace=tmp_path / "run")
    assert refused.value.code == "llm_without_key"
    assert not (tmp_path / "run").exists()
    assert ModelProvider(address="http://here:1").key == ""
