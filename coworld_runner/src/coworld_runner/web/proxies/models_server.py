"""The server that programs of an episode ask in place of a provider of models."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import Any, cast
from urllib.parse import urlsplit

from .accounts import Accounts, Refused
from .exchanges import Exchanges, body_fields, body_of
from .limited_server import LimitedServer
from .provider import ClientLeft, Provider, ProviderFailed
from .usage import Usage, words_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .accounts import Call

__all__ = ["MODELS_PORT", "ModelsServer", "main"]

MODELS_PORT = 3129
"""Port inside a container."""
GAME = "game"
"""Who spends what the game asks for itself."""
_CALLS = {"chat/completions": "openai", "responses": "openai", "messages": "anthropic"}
"""The dialect of each call."""
_KEY_HEADERS = {"openai": "authorization", "anthropic": "x-api-key"}
_PASSED_ON = ("anthropic-version", "anthropic-beta")
_MOST_QUESTION = 32 << 20
_MOST_EACH = 256
_ADDRESS = re.compile(r"[0-9.]+(:[0-9]+)?|\[.*")
_LEFT = "whoever asked has left"
_PATIENCE = 900.0
"""Seconds that a connection may be idle."""


class ModelsServer(LimitedServer):
    """The server, as its settings say.

    Args:
        address: Where to listen.
        settings: `tokens` (spender by token), `seats` (their number), `models` (the names that may be asked for; none:
            any), `providers` (address and key by dialect), `prices`, `seat` and `episode` (limits), `record`.
        recording: The file to answer from; None: ask the providers.
    """

    def __init__(self, address: tuple[str, int], settings: dict[str, Any], recording: str | None = None) -> None:
        super().__init__(address, _Handler, _MOST_EACH)
        self.tokens: dict[str, str] = settings["tokens"]
        self.seats = int(settings["seats"])
        self.models: list[str] = settings["models"]
        self.accounts = Accounts(settings["seat"], settings["episode"], settings["prices"])
        self.records = bool(settings["record"])
        self.exchanges = Exchanges(recording) if recording else None
        self.providers = {
            dialect: Provider(base, key, _KEY_HEADERS[dialect])
            for dialect, (base, key) in settings["providers"].items()
        }
        self._telling = threading.Lock()

    def tell(self, line: dict[str, Any]) -> None:
        """Write a line about a call."""
        with self._telling:
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()


class _Handler(BaseHTTPRequestHandler):
    """One connection of a program."""

    protocol_version = "HTTP/1.1"
    # Each event of a stream is sent when it comes
    disable_nagle_algorithm = True
    timeout = _PATIENCE

    @property
    def _models(self) -> ModelsServer:
        assert isinstance(self.server, ModelsServer)
        return self.server

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: standard output is for calls only."""

    # --- what is asked for

    def do_GET(self) -> None:
        """Answer the health check, and what a seat may ask without a model."""
        if self.path == "/healthz":
            self._answer(200, b"ready\n", {"content-type": "text/plain"})
            return
        try:
            spender, call = self._who()
            if call == "models":
                there = [{"id": name, "object": "model", "owned_by": "coworld"} for name in self._models.models]
                said: Any = {"object": "list", "data": there}
            elif call == "spend":
                said = self._models.accounts.spent(spender)
            else:
                raise Refused(404, f"there is nothing at {call}")
        except Refused as error:
            self._refuse(error)
        else:
            self._answer(200, json.dumps(said).encode())

    def do_POST(self) -> None:
        """Pass a question on, and its answer back."""
        began = time.monotonic()
        line: dict[str, Any] = {}
        try:
            spender, name = self._who()
            line = {"spender": spender, "call": name}
            question = self._question(name)
            line["model"] = question["model"]
            asked = words_in(question)
            call = self._models.accounts.begin(spender, question["model"], asked=asked, most=_most(question))
        except Refused as error:
            if line:
                self._models.tell({**line, "refused": str(error)})
            self._refuse(error)
            return
        line["number"] = call.number
        usage = Usage(asked)
        try:
            if self._models.exchanges is not None:
                self._repeat(line, question, usage)
            else:
                self._pass_on(line, question, usage)
        except ProviderFailed as error:
            line["problem"] = str(error)
            if "status" not in line:
                self._answer(502, _error("provider_failed", f"The provider cannot be asked: {error}."))
            self.close_connection = True
        except (ClientLeft, OSError):
            line["problem"] = _LEFT
            self.close_connection = True
        self._settle(call, line, question, usage, began)

    def _settle(self, call: Call, line: dict[str, Any], question: Any, usage: Usage, began: float) -> None:
        answered = usage.is_answer and line.get("status", 0) < 400
        # What nobody waits for any more has its price as well
        into, out, estimated = usage.tokens() if answered or line.get("problem") == _LEFT else (0, 0, False)
        cost = self._models.accounts.end(call, into, out, is_free=self._models.exchanges is not None)
        line.update(prompt_tokens=into, completion_tokens=out, cost=cost, estimated=estimated)
        line["seconds"] = round(time.monotonic() - began, 3)
        body = line.pop("body", None)
        if self._models.records and body is not None:
            line.update(question=question, **body_fields(body))
        self._models.tell(line)

    def _who(self) -> tuple[str, str]:
        """Who asks, by the token in the path, and for what.

        Raises:
            Refused: It is nobody of this episode, a page of a browser, or a seat that there is not.
        """
        if self.headers.get("origin") is not None or not _is_place(self.headers.get("host", "")):
            raise Refused(403, "pages of browsers are not answered")
        token, _, call = urlsplit(self.path).path.lstrip("/").partition("/")
        spender = self._models.tokens.get(token)
        if spender is None:
            raise Refused(401, "the address has no token of this episode")
        slot = self.headers.get("x-coworld-player-slot")
        if slot is not None and spender == GAME:
            if not (slot.isascii() and slot.isdigit() and int(slot[:9]) < self._models.seats):
                raise Refused(400, "X-Coworld-Player-Slot names no seat")
            spender = str(int(slot[:9]))
        return spender, call[3:] if call.startswith("v1/") else call

    def _question(self, call: str) -> dict[str, Any]:
        """The question.

        Raises:
            Refused: It is none, or one for another model or provider.
        """
        length = self.headers.get("content-length", "")
        if not length.isdigit():
            raise Refused(411, "a question needs a Content-Length")
        if int(length[:12]) > _MOST_QUESTION:
            self.close_connection = True
            raise Refused(413, f"a question has at most {_MOST_QUESTION >> 20} MiB")
        body = self.rfile.read(int(length))
        dialect = _CALLS.get(call)
        if dialect is None:
            raise Refused(404, f"the calls are {', '.join(_CALLS)}, and not {call[:100]}")
        if self._models.exchanges is None and dialect not in self._models.providers:
            raise Refused(404, f"no provider was named that speaks as {dialect} does")
        try:
            said: Any = json.loads(body)
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            raise Refused(400, "the question is not a JSON object")
        question = cast("dict[str, Any]", said)
        names = self._models.models
        if question.get("model") is None and names:
            question["model"] = names[0]
        model = question.get("model")
        if not isinstance(model, str) or (names and model not in names):
            raise Refused(404, f"this episode's models are {', '.join(names)}" if names else "no model is named")
        return question

    # --- what is answered

    def _repeat(self, line: dict[str, Any], question: Any, usage: Usage) -> None:
        """Answer from the recording."""
        assert self._models.exchanges is not None
        kept = self._models.exchanges.take(line["spender"], line["call"], question)
        if kept is None:
            line["problem"] = "it was not asked in the recording"
            said = "This was not asked when the episode was recorded, so there is no answer to it."
            self._answer(409, _error("not_recorded", said))
            return
        line["replayed"] = True
        line["status"], content_type = int(kept["status"]), str(kept["type"])
        line["body"], line["type"] = body_of(kept), content_type
        usage.repeat(kept["prompt_tokens"], kept["completion_tokens"], is_estimated=kept["estimated"])
        self._answer(line["status"], line["body"], {"content-type": content_type})

    def _pass_on(self, line: dict[str, Any], question: dict[str, Any], usage: Usage) -> None:
        """Ask the provider."""
        is_added = False
        if line["call"] == "chat/completions" and question.get("stream") is True:
            # Without it, the stream does not say what it has used
            options: Any = question.get("stream_options")
            known = cast("dict[str, Any]", options) if isinstance(options, dict) else {}
            is_added = not known.get("include_usage")
            asked = {**question, "stream_options": {**known, "include_usage": True}}
        else:
            asked = question
        provider = self._models.providers[_CALLS[line["call"]]]
        headers = {name: value for name in _PASSED_ON if (value := self.headers.get(name)) is not None}
        if line["call"] == "messages":
            headers.setdefault("anthropic-version", "2023-06-01")
        with provider.asked(line["call"], json.dumps(asked).encode(), headers, self.connection) as answer:
            line["type"] = answer.headers.get("content-type", "application/json")
            if answer.is_stream and answer.status < 400:
                line["status"] = answer.status
                self._begin(answer.status, {**answer.headers, "transfer-encoding": "chunked"})
                line["body"] = self._stream(answer.lines(), usage, without_usage=is_added)
                return
            body = answer.whole()
            if usage.read(body) is None and answer.status < 400:
                line["problem"] = "the answer is not JSON"
            if 300 <= answer.status < 400:
                raise ProviderFailed(f"it answered with status {answer.status}, and is not followed elsewhere")
            line["status"], line["body"] = answer.status, body
            self._answer(answer.status, body, answer.headers)

    def _stream(self, lines: Iterator[bytes], usage: Usage, *, without_usage: bool) -> bytes:
        """Pass events on as they come, without one that nobody asked for, and return all of them."""
        kept, event, is_wanted = bytearray(), bytearray(), True
        for text in lines:
            message = _read_event(text, usage)
            if without_usage and isinstance(message, dict) and message.get("choices") == [] and "usage" in message:
                is_wanted = False
            event += text
            if not text.strip():
                if is_wanted:
                    kept += event
                    self._chunk(bytes(event))
                event, is_wanted = bytearray(), True
        kept += event
        self._chunk(bytes(event))
        self.wfile.write(b"0\r\n\r\n")
        return bytes(kept)

    def _chunk(self, content: bytes) -> None:
        if content:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(content), content))
            self.wfile.flush()

    def _refuse(self, error: Refused) -> None:
        self.close_connection = True
        self._answer(error.status, _error("refused", f"Refused: {error}."))

    def _answer(self, status: int, body: bytes, headers: Any = None) -> None:
        self._begin(status, {"content-type": "application/json", **(headers or {}), "content-length": str(len(body))})
        self.wfile.write(body)

    def _begin(self, status: int, headers: dict[str, str]) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("connection", "close")
        self.end_headers()


def _is_place(host: str) -> bool:
    """Whether a program names the server so: by its address or the name of its unit, and not by one of the internet."""
    return "." not in host or _ADDRESS.fullmatch(host) is not None


def _read_event(line: bytes, usage: Usage) -> Any:
    """What a line of a stream says, if it is data; else None."""
    return usage.read(line[5:].strip()) if line.startswith(b"data:") else None


def _most(question: dict[str, Any]) -> int | None:
    """Tokens that the answer may have, by the question."""
    named = (question.get(name) for name in ("max_completion_tokens", "max_tokens", "max_output_tokens"))
    return next((count for count in named if isinstance(count, int) and 0 <= count < 10**9), None)


def _error(kind: str, message: str) -> bytes:
    """An error in the form that both dialects know."""
    return json.dumps({"type": "error", "error": {"type": kind, "code": kind, "message": message}}).encode()


def main() -> None:
    """Answer as the environment says, until killed."""
    settings = json.loads(os.environ.pop("COWORLD_MODELS_SETTINGS"))
    place = os.environ["COWORLD_MODELS_HOST"], int(os.environ["COWORLD_MODELS_PORT"])
    ModelsServer(place, settings, os.environ.get("COWORLD_MODELS_RECORDING")).serve_forever()
