"""A provider of language models that speaks both dialects, streams, counts, and misbehaves as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["BIG", "KEY", "FakeProvider", "fake_provider"]

KEY = "sk-fake-0123456789abcdef"
BIG = 10 << 20
"""Bytes of a large answer."""
_ASKED = {"openai": ("prompt_tokens", "completion_tokens"), "anthropic": ("input_tokens", "output_tokens")}


class FakeProvider(ThreadingHTTPServer):
    """The provider. What a question's last message says decides what it does: `stall`, `HTTP 429`, `garbage`, `big`,
    `break`, `lie …`, `redirect`, `show the key`; anything else is answered by the words that it was given.

    Attributes:
        tokens: Tokens of all answers, in and out.
        calls: The questions, with their headers.
        left: Set once a client hangs up while it waits.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, answer: str, host: str = "127.0.0.1") -> None:
        super().__init__((host, 0), _Handler)
        self.answer = answer
        self.tokens = [0, 0]
        self.calls: list[tuple[str, dict[str, str], Any]] = []
        self.left = threading.Event()
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        """Its address, as programs of this machine reach it."""
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def do_POST(self) -> None:
        """Answer one question."""
        provider = self.server
        assert isinstance(provider, FakeProvider)
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        with provider.lock:
            provider.calls.append((self.path, headers, question))
        words = str(question["messages"][-1]["content"])
        dialect = "anthropic" if self.path.endswith("/messages") else "openai"
        if headers.get("x-api-key" if dialect == "anthropic" else "authorization", "").removeprefix("Bearer ") != KEY:
            self._send(401, b'{"error": "no key"}')
        elif words == "stall":
            # Until whoever asks hangs up
            if not self.connection.recv(1):
                provider.left.set()
            self.close_connection = True
        elif words.startswith("HTTP "):
            self._send(int(words[5:]), b'{"error": {"message": "as you wish"}}', {"Retry-After": "7"})
        elif words == "garbage":
            self._send(200, b"\xff\x00<html>")
        elif words == "no HTTP":
            self.wfile.write(b"what do you want?\r\n")
            self.close_connection = True
        elif words == "redirect":
            self._send(302, b"", {"Location": "http://127.0.0.1:9/"})
        else:
            said = {"big": "word " * (BIG // 5), "show the key": f"It is {KEY}."}.get(words, provider.answer)
            self._answer(provider, dialect, question, words, said)

    def _answer(self, provider: FakeProvider, dialect: str, question: Any, words: str, said: str) -> None:
        spent = len(json.dumps(question["messages"])) // 4 + 7, len(said) // 4 + 3
        told: Any = spent
        if words.startswith("lie "):
            told = json.loads(words[4:])
        else:
            with provider.lock:
                provider.tokens = [count + more for count, more in zip(provider.tokens, spent, strict=True)]
        usage = dict(zip(_ASKED[dialect], told, strict=True)) if told else None
        if not question.get("stream"):
            message = {"role": "assistant", "content": said}
            answer = {"choices": [{"message": message}]} if dialect == "openai" else {"content": [{"text": said}]}
            self._send(200, json.dumps({**answer, "usage": usage}).encode())
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        events = list((_openai if dialect == "openai" else _anthropic)(question, said, usage))
        for event in events[: len(events) // 2] if words == "break" else events:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
            self.wfile.flush()
        if words == "break":
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _pieces(said: str) -> Iterator[str]:
    return (said[start : start + 5] for start in range(0, len(said), 5))


def _openai(question: Any, said: str, usage: Any) -> Iterator[bytes]:
    for piece in _pieces(said):
        yield f"data: {json.dumps({'choices': [{'delta': {'content': piece}}]})}\n\n".encode()
    if (question.get("stream_options") or {}).get("include_usage"):
        yield f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n".encode()
    yield b"data: [DONE]\n\n"


def _anthropic(question: Any, said: str, usage: Any) -> Iterator[bytes]:
    def event(kind: str, **fields: Any) -> bytes:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()

    yield event("message_start", message={"usage": {**usage, "output_tokens": 1}})
    for piece in _pieces(said):
        yield event("content_block_delta", delta={"type": "text_delta", "text": piece})
    yield event("message_delta", usage={"output_tokens": usage["output_tokens"]})
    yield event("message_stop")


@contextmanager
def fake_provider(answer: str = "Hello.", host: str = "127.0.0.1") -> Generator[FakeProvider]:
    """Serve a provider.

    Args:
        answer: What it answers.
        host: Where it listens.
    """
    with FakeProvider(answer, host) as provider:
        thread = threading.Thread(target=provider.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield provider
        finally:
            provider.shutdown()
            thread.join()
