"""A player that asks a language model, through any API that is compatible with OpenAI's."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import math
import sys
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from coworld_core.hints import Hint
from coworld_core.rules.model_words import NOTHING, UNCLEAR, default_action, instructions, question, spoken, understood

from .connection import SeatError

if TYPE_CHECKING:
    import httpx2

__all__ = ["LlmPlayer"]

USUAL_ADDRESS: Final = "https://api.openai.com/v1"
MOST_TRIES: Final = 3
"""How often the model is asked for one decision before the default action is played."""

MOST_TOKENS: Final = 10**9
"""What a provider says of more in one call is not believed."""

MOST_SECONDS: Final = 60.0
"""Upper bound for one decision; in a game with a clock, 90 % of the time left if that is less."""


class LlmPlayer:
    """A player that asks a language model, within a spending limit, and keeps every answer.

    Args:
        model: The model's name.
        prompt: The system prompt of every question; empty: the game's description, and that an action is wanted.
        budget: US dollars that it may spend in one game; None: no limit.
        price: US dollars per million tokens of questions, and of answers; None: not known.
        base_url: Address of the API, without `/chat/completions`; None: OpenAI's own.
        key: The API key, sent as bearer token; None: none is sent.
        artifact: The `file://` or `http(s)://` address to which the answers are written at the end.
        transport: Another HTTP transport, for tests.
    """

    controller = "llm"

    def __init__(
        self,
        *,
        model: str,
        prompt: str = "",
        budget: float | None = None,
        price: tuple[float, float] | None = None,
        base_url: str | None = None,
        key: str | None = None,
        artifact: str | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._model = model
        self._prompt = prompt
        self._budget = budget
        self._price = price
        self._url = (base_url or USUAL_ADDRESS).rstrip("/") + "/chat/completions"
        self._key = key
        self._artifact = artifact
        self._transport = transport
        self._http: httpx2.AsyncClient | None = None
        self._schema: Any = None
        self._talk: Any = None
        self._words: list[tuple[str, str | int]] = []
        self._seat = 0
        self._lines: list[dict[str, Any]] = []
        self._cost = 0.0
        self._answered = False
        self._asked_in: tuple[int, int] = (-1, 0)

    def start(self, hello: dict[str, Any]) -> None:
        """Remember the seat, the schema of its actions, and what it may say."""
        self._schema, self._seat, self._talk = hello.get("action_schema"), hello["seat"], hello.get("talk")
        self._prompt = self._prompt or instructions(hello.get("about"))

    async def decide(self, asked: dict[str, Any]) -> Any:
        """The model's action, or the default action if none of its answers can be used; None if there is none.

        Raises:
            SeatError: The API refuses the request, or cannot be reached and has never answered.
        """
        began, legal = time.monotonic(), asked.get("legal")
        tries: list[dict[str, Any]] = []
        # The game refused the answer before this one, which is in the line before
        refused = int(bool(asked.get("refused")))
        action: Any = NOTHING
        why = "no answer could be used"
        limit = min(MOST_SECONDS, asked.get("time_left", math.inf) * 0.9)
        try:
            async with asyncio.timeout(limit):
                # An action that the game refused counts as one of the tries for its tick.
                while action is NOTHING and self._may_try(asked["tick"]):
                    if self._budget is not None and self._cost >= self._budget:
                        why = f"the spending limit of ${self._budget:g} is reached"
                        break
                    tries.append({"answer": None})
                    answer, self._words = spoken(await self._ask(asked, tries[-1]), self._talk)
                    action = understood(answer, legal, self._schema)
                    if answer and action is NOTHING:
                        asked = {**asked, "refused": UNCLEAR}
                        refused += 1
        except TimeoutError:
            why = f"no answer within {limit:.1f} s"
        default = action is NOTHING
        if default:
            action = default_action(legal, self._schema)
            print(f"tick {asked['tick']}: {why}; playing the default", file=sys.stderr, flush=True)
        self._lines.append(
            {
                "slot": self._seat,
                "tick": asked["tick"],
                "action": None if action is NOTHING else action,
                "default": why if default else None,
                "refused": refused,
                "seconds": round(time.monotonic() - began, 3),
                "tries": tries,
                **({"words": self._words} if self._words else {}),
            }
        )
        return None if action is NOTHING else action

    def take_words(self) -> list[tuple[str, str | int]]:
        """What the model's last answer said to other seats, once."""
        words, self._words = self._words, []
        return words

    async def close(self) -> None:
        """Write the answers to the artifact, and print a summary of tokens, cost and time."""
        if self._http is not None:
            await self._http.aclose()
        tries = [one for line in self._lines for one in line["tries"]]
        uncounted = sum(one.get("estimated", False) for one in tries)
        price = self._price
        unknown = "no_price" if price is None else "uncounted" if uncounted and any(price) else ""
        told = {
            "model": self._model,
            "decisions": len(self._lines),
            "defaults": sum(line["default"] is not None for line in self._lines),
            "asked": len(tries),
            "refused": sum(line["refused"] for line in self._lines),
            "prompt_tokens": sum(one.get("prompt_tokens", 0) for one in tries),
            "completion_tokens": sum(one.get("completion_tokens", 0) for one in tries),
            "uncounted": uncounted,
            "unanswered": sum("prompt_tokens" not in one and "HTTP" not in one.get("problem", "") for one in tries),
            "cost": None if unknown else round(self._cost, 9),
            "unknown": unknown,
            "seconds": round(sum(line["seconds"] for line in self._lines), 3),
        }
        print(json.dumps(told), flush=True)
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("answers.jsonl", "".join(f"{json.dumps(line)}\n" for line in self._lines))
            archive.writestr("summary.json", json.dumps(told, indent=2))
        if self._artifact is not None:
            await self._leave(self._artifact, packed.getvalue())

    async def _leave(self, address: str, content: bytes) -> None:
        if (place := urlsplit(address)).scheme == "file":
            await asyncio.to_thread(Path(url2pathname(place.path)).write_bytes, content)
            return
        import httpx2

        try:
            async with httpx2.AsyncClient(timeout=20) as http:
                (await http.put(address, content=content)).raise_for_status()
        except httpx2.HTTPError as error:
            print(f"the answers could not be uploaded: {type(error).__name__}", file=sys.stderr, flush=True)

    def _may_try(self, tick: int) -> bool:
        last, count = self._asked_in
        self._asked_in = (tick, count + 1 if tick == last else 1)
        return self._asked_in[1] <= MOST_TRIES

    async def _ask(self, asked: dict[str, Any], tried: dict[str, Any]) -> str:
        """The model's answer, or an empty string; tokens, cost or the problem are recorded in `tried`."""
        import httpx2

        if self._http is None:
            headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
            self._http = httpx2.AsyncClient(headers=headers, transport=self._transport, timeout=MOST_SECONDS)
        words = question(asked, self._schema, self._talk)
        messages = [{"role": "system", "content": self._prompt}, {"role": "user", "content": words}]
        try:
            response = await self._http.post(self._url, json={"model": self._model, "messages": messages})
        except httpx2.HTTPError as error:
            if not self._answered:
                raise self._unreachable(type(error).__name__) from None
            tried["problem"] = type(error).__name__
            return ""
        status = response.status_code
        if status in (400, 401, 403, 404):
            raise SeatError(
                f"{self._place} refused to answer as {self._model} (HTTP {status}).",
                code="llm_refused",
                hint="OPENAI_BASE_URL, OPENAI_API_KEY or the model's name is wrong.",
            )
        if status != 200:
            tried["problem"] = f"HTTP {status}"
            with contextlib.suppress(ValueError):
                await asyncio.sleep(min(max(float(response.headers.get("retry-after", "0.2")), 0.0), 10.0))
            return ""
        self._answered = True
        said: Any = None
        answer = ""
        try:
            said = response.json()
            answer = str(said["choices"][0]["message"]["content"] or "")
        except (ValueError, LookupError, TypeError, RecursionError):
            tried["problem"] = "an answer of another form"
        # It may be charged for all the same
        self._count(said.get("usage") if isinstance(said, dict) else None, words, answer, tried)
        return answer

    def _count(self, usage: Any, words: str, answer: str, tried: dict[str, Any]) -> None:
        """Record an answer, its tokens and its cost; if the API counts no tokens, estimate one for four characters."""
        known: dict[str, Any] = usage if isinstance(usage, dict) else {}  # pyright: ignore[reportUnknownVariableType]
        spent = known.get("prompt_tokens"), known.get("completion_tokens")
        told = all(isinstance(count, int) and 0 <= count <= MOST_TOKENS for count in spent)
        if not told:
            spent = (len(self._prompt) + len(words)) // 4 + 1, len(answer) // 4 + 1
        cost = sum(int(count or 0) * price for count, price in zip(spent, self._price or (0, 0), strict=True)) / 1e6
        self._cost += cost
        tried |= {"answer": answer, "prompt_tokens": spent[0], "completion_tokens": spent[1], "cost": cost}
        if not told:
            tried["estimated"] = True

    @property
    def _place(self) -> str:
        """Scheme, host and port of the API, without parts that may be secret."""
        url = urlsplit(self._url)
        return f"{url.scheme}://{url.hostname}{f':{url.port}' if url.port else ''}"

    def _unreachable(self, problem: str) -> SeatError:
        return SeatError(
            f"Cannot reach {self._place}, where {self._model} is asked: {problem}.",
            code="llm_unreachable",
            hint=Hint(
                "allow_host", "In a container a player can reach only the game, unless player_https allows more."
            ),
        )
