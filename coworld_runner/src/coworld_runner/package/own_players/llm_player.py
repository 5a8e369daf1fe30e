"""`llm:MODEL[?prompt=FILE&budget=USD&price=IN,OUT]`: a language model in a seat."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from coworld_core.errors import UsageError
from coworld_core.text.phrases import listed

from .own_player import PYTHON, OwnPlayer

__all__ = ["LLM", "read_llm", "require_prices"]

LLM = "llm:"
VARIABLES = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
"""The environment variables passed to such a player, and to no other unit."""
_FORM = "Write llm:MODEL?prompt=FILE&budget=USD&price=IN,OUT; the part from the ? on is optional."


def read_llm(word: str, environment: Mapping[str, str]) -> OwnPlayer:
    """Read which model plays, and its settings.

    Args:
        word: As in the module's docstring. The prices are in US dollars per million input and output tokens, the budget
            is in US dollars per game.
        environment: Holds the key and the address.

    Raises:
        UsageError: The word is malformed, or the prompt file cannot be read.
    """
    model, _, said = word.removeprefix(LLM).partition("?")
    settings: dict[str, Any] = {"controller": "llm", "model": model}
    try:
        options = dict(parse_qsl(said, strict_parsing=bool(said), keep_blank_values=True))
        if not model or options.keys() - {"prompt", "budget", "price"}:
            raise ValueError
        if "price" in options:
            settings["price"] = [_amount(each) for each in options["price"].split(",")]
            if len(settings["price"]) != 2:
                raise ValueError
        if "budget" in options:
            settings["budget"] = _amount(options["budget"])
    except ValueError:
        raise UsageError(f"{word} names no model that can play.", code="bad_llm", hint=_FORM) from None
    if "budget" in settings and not any(settings.get("price", ())):
        raise UsageError(f"{word} has a budget and no price.", code="bad_llm", hint=_FORM)
    if "prompt" in options:
        settings["prompt"] = _prompt(Path(options["prompt"]).expanduser())
    secrets = {name: environment[name] for name in VARIABLES if environment.get(name)}
    return OwnPlayer(
        name=model.rpartition("/")[2],
        kind="llm",
        file=f"{LLM}{model}",
        path=Path(word),
        files={"llm.json": json.dumps(settings, sort_keys=True).encode()},
        command=(PYTHON, "-m", "coworld_client.seat", "{}/llm.json"),
        needs_client=True,
        secret_env=secrets,
    )


def require_prices(players: Iterable[OwnPlayer], *, gives_models: bool = False) -> None:
    """Refuse to limit a cost that nobody will know.

    Args:
        players: The user's own players.
        gives_models: Whether other programs get a way to models, which counts.

    Raises:
        UsageError: A language model among these players has no price (`price_unknown`), or none of them is one
            (`no_model`).
    """
    models = [(one.name, json.loads(one.files["llm.json"])) for one in players if one.kind == "llm"]
    if not models and not gives_models:
        raise UsageError("No player is a language model (llm:MODEL), so there is no cost to limit.", code="no_model")
    if unknown := [name for name, settings in models if "price" not in settings]:
        raise UsageError(
            f"The price of {listed(unknown)} is not known, so what it costs cannot be limited.",
            code="price_unknown",
            hint="Write llm:MODEL?price=IN,OUT, in US dollars per million tokens; price=0,0 if it costs nothing.",
        )


def _amount(text: str) -> float:
    amount = float(text)
    if not math.isfinite(amount) or amount < 0:
        raise ValueError
    return amount


def _prompt(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(
            f"The prompt {path} cannot be read: {said}.",
            code="no_prompt",
            hint="Paths are relative to the current directory.",
        ) from None
