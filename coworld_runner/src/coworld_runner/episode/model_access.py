"""Which language models the programs of an episode may use, and how much."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coworld_core.episode.layout import EpisodeLayout
from coworld_core.errors import UsageError
from coworld_core.hints import Hint
from coworld_core.text.phrases import listed

__all__ = ["ModelAccess", "ModelBudget", "ModelProvider", "find_providers", "read_model_access"]


@dataclass(frozen=True, kw_only=True)
class ModelProvider:
    """A provider of models."""

    address: str
    """Its address, to which the name of a call is added: `https://api.openai.com/v1`."""
    key: str = field(default="", repr=False)
    """The key; empty: none is sent."""


@dataclass(frozen=True, kw_only=True)
class ModelBudget:
    """What may be used. None: no limit. An answer that has begun may exceed it."""

    calls: int | None = None
    tokens: int | None = None
    """Of questions and answers."""
    usd: float | None = None
    """US dollars."""

    def limits(self) -> dict[str, float]:
        """The limits that there are, by kind."""
        named = {"calls": self.calls, "tokens": self.tokens, "usd": self.usd}
        return {name: limit for name, limit in named.items() if limit is not None}


@dataclass(frozen=True, kw_only=True)
class ModelAccess:
    """Which language models the programs of an episode may use, and how much.

    They find them by `OPENAI_BASE_URL`, `ANTHROPIC_BASE_URL` and `COWORLD_LLM_ENDPOINT`, which lead to a program beside
    the episode; the key stays there.

    Raises:
        UsageError: A limit is below 0, money is limited and a model has no price (`price_unknown`), or no provider is
            named where nothing is replayed (`llm_without_key`).
    """

    providers: Mapping[str, ModelProvider] = field(default_factory=dict[str, ModelProvider])
    """By the dialect that they speak: `openai` (chat completions and responses), `anthropic` (messages)."""
    names: tuple[str, ...] = ()
    """The models that may be asked for, the usual one first. Empty: any."""
    prices: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """By model, US dollars per million tokens of questions and of answers."""
    seat: ModelBudget = field(default_factory=ModelBudget)
    """For each seat, and for the game itself."""
    episode: ModelBudget = field(default_factory=ModelBudget)
    """For all of them together."""
    record: bool = False
    """Whether to keep every question and answer (`models.ndjson`)."""
    replay: str | os.PathLike[str] | None = None
    """The directory of an episode that kept them, to answer from them; providers are not asked then."""

    def __post_init__(self) -> None:
        limits = [*self.seat.limits().values(), *self.episode.limits().values()]
        if any(not math.isfinite(limit) or limit < 0 for limit in limits):
            raise UsageError("A budget for models is a number from 0.", code="bad_budget")
        unpriced = [name for name in self.names if name not in self.prices]
        if (self.seat.usd, self.episode.usd) != (None, None) and (unpriced or not self.names):
            raise UsageError(
                f"The price of {listed(unpriced) or 'the models'} is not known, so what it costs cannot be limited.",
                code="price_unknown",
                hint=Hint("name_price", "Name each model with its price, in US dollars per million tokens in and out."),
            )
        if self.replay is None and not self.providers:
            raise UsageError(
                "No provider of models is named.",
                code="llm_without_key",
                hint="Set OPENAI_API_KEY, ANTHROPIC_API_KEY or OPENROUTER_API_KEY, or the address of your own server.",
            )
        if self.replay is not None and not _has_answers(EpisodeLayout(Path(self.replay)).models):
            raise UsageError(
                f"{os.fspath(self.replay)} has no recording of what models were asked.",
                code="no_recorded_models",
                hint=Hint("record_models", "Record an episode first: ModelAccess(record=True)."),
            )


def find_providers(environment: Mapping[str, str]) -> dict[str, ModelProvider]:
    """Find the providers that a user's variables name, by dialect.

    Args:
        environment: Has `OPENAI_API_KEY` and `OPENAI_BASE_URL`, the same of `ANTHROPIC_`, `OPENROUTER_API_KEY`, or
            `COWORLD_LLM_ENDPOINT` for a server that speaks both.
    """
    given = {name: value for name, value in environment.items() if value}
    found: dict[str, ModelProvider] = {}
    if (endpoint := given.get("COWORLD_LLM_ENDPOINT")) is not None:
        both = ModelProvider(address=f"{endpoint.rstrip('/').removesuffix('/v1')}/v1")
        found |= {"openai": both, "anthropic": both}
    if (key := given.get("OPENROUTER_API_KEY")) is not None:
        both = ModelProvider(address="https://openrouter.ai/api/v1", key=key)
        found |= {"openai": both, "anthropic": both}
    for dialect, usual in (("openai", "https://api.openai.com/v1"), ("anthropic", "https://api.anthropic.com")):
        key, address = given.get(f"{dialect.upper()}_API_KEY"), given.get(f"{dialect.upper()}_BASE_URL")
        if key or address:
            address = (address or usual).rstrip("/")
            # Anthropic's clients add the version themselves
            address += "/v1" if dialect == "anthropic" and not address.endswith("/v1") else ""
            found[dialect] = ModelProvider(address=address, key=key or "")
    return found


def read_model_access(
    environment: Mapping[str, str],
    *,
    models: Sequence[str] = (),
    budget: str = "",
    episode_budget: str = "",
    record: bool = False,
    replay: str | os.PathLike[str] | None = None,
) -> ModelAccess:
    """Read which models may be used from words, with the providers that a user's variables name.

    Args:
        environment: As for `find_providers`.
        models: The models: `NAME`, or `NAME=IN,OUT` with US dollars per million tokens.
        budget: For each seat: `calls=100,tokens=1e6,usd=0.5`; empty: no limit.
        episode_budget: The same for the episode.
        record: See `ModelAccess`.
        replay: See `ModelAccess`.

    Raises:
        UsageError: See `ModelAccess`; or one of the words is malformed (`bad_llm`, `bad_budget`).
    """
    names: dict[str, tuple[float, float] | None] = {}
    for word in models:
        name, _, price = word.partition("=")
        try:
            names[name] = None
            if price:
                into, out = map(float, price.split(","))
                names[name] = into, out
            if not name or not all(math.isfinite(each) and each >= 0 for each in names[name] or ()):
                raise ValueError
        except ValueError:
            raise UsageError(
                f"{word} names no model.",
                code="bad_llm",
                hint="Write MODEL, or MODEL=IN,OUT with US dollars per million tokens.",
            ) from None
    return ModelAccess(
        providers={} if replay is not None else find_providers(environment),
        names=tuple(names),
        prices={name: price for name, price in names.items() if price is not None},
        seat=_read_budget(budget),
        episode=_read_budget(episode_budget),
        record=record,
        replay=replay,
    )


def _has_answers(path: Path) -> bool:
    """Whether there is a recorded answer in a file of calls."""
    try:
        with path.open("rb") as file:
            return any(b'"question": ' in line for line in file)
    except OSError:
        return False


def _read_budget(text: str) -> ModelBudget:
    try:
        said = dict(entry.split("=", 1) for entry in text.split(",") if text)
        if said.keys() - {"calls", "tokens", "usd"}:
            raise ValueError
        counts = {name: int(float(said[name])) for name in ("calls", "tokens") if name in said}
        return ModelBudget(**counts, usd=float(said["usd"]) if "usd" in said else None)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is no budget.", code="bad_budget", hint="Write calls=100,tokens=1e6,usd=0.5, or some of these."
        ) from None
