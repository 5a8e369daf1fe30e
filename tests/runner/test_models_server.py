"""The way to models beside an episode: what it passes on, counts and refuses, whatever its provider does."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.fake_provider import BIG, KEY, FakeProvider, fake_provider

CODE = "import sys; sys.path.insert(0, {!r}); from proxies.models_server import main; main()"
PROGRAM = Path(__file__).parents[2] / "coworld_runner/src/coworld_runner/web"
TOKENS = {"token-game": "game", "token-0": "0", "token-1": "1"}
PRICE = (2.0, 8.0)
CALLS = {"openai": "chat/completions", "anthropic": "messages"}


class Models:
    """The running program, as the seats of an episode see it."""

    def __init__(self, client: httpx2.Client, port: int, log: Path) -> None:
        self.client = client
        self.address = f"http://127.0.0.1:{port}"
        self.log = log

    def ask(self, words: str, who: str = "token-0", dialect: str = "openai", **more: Any) -> httpx2.Response:
        """Ask as a client of a dialect does."""
        headers = more.pop("headers", {})
        question = {"model": "tiny", "messages": [{"role": "user", "content": words}], **more}
        url = f"{self.address}/{who}/v1/{CALLS[dialect]}"
        return self.client.post(url, json=question, headers=headers)

    def lines(self, count: int) -> list[dict[str, Any]]:
        """Its ledger, once it has that many lines; calls end a moment after their answers."""
        deadline = time.monotonic() + 20
        while len(found := self.log.read_text("utf-8").splitlines()) < count and time.monotonic() < deadline:
            time.sleep(0.02)
        return [json.loads(line) for line in found]


@pytest.fixture
def provider() -> Generator[FakeProvider]:
    """A provider."""
    with fake_provider("Take two of them, I would say.") as serving:
        yield serving


@pytest.fixture
def serve(provider: FakeProvider, tmp_path: Path) -> Generator[Callable[..., Models]]:
    """Run the program, with other settings if need be."""
    with ExitStack() as running:
        limits = httpx2.Limits(max_connections=None)
        client = running.enter_context(httpx2.Client(timeout=30, trust_env=False, limits=limits))

        def run(recording: Path | None = None, **settings: Any) -> Models:
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            known = {name: [provider.address, KEY] for name in CALLS}
            usual = {"tokens": TOKENS, "seats": 2, "models": ["tiny"], "providers": known, "prices": {"tiny": PRICE}}
            said = {**usual, "seat": {}, "episode": {}, "record": False, **settings}
            variables = {
                "COWORLD_MODELS_SETTINGS": json.dumps(said),
                "COWORLD_MODELS_HOST": "127.0.0.1",
                "COWORLD_MODELS_PORT": str(port),
                **({} if recording is None else {"COWORLD_MODELS_RECORDING": str(recording)}),
            }
            log = tmp_path / f"{port}.ndjson"
            program = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", CODE.format(str(PROGRAM))],
                env={**os.environ, **variables},
                stdout=running.enter_context(log.open("wb")),
            )
            running.callback(program.wait)
            running.callback(program.kill)
            while True:
                try:
                    if client.get(f"http://127.0.0.1:{port}/healthz").status_code == 200:
                        return Models(client, port, log)
                except httpx2.ConnectError:
                    assert program.poll() is None
                    time.sleep(0.02)

        yield run


def _text(answer: httpx2.Response, dialect: str) -> str:
    said = answer.json()
    return str(said["choices"][0]["message"]["content"] if dialect == "openai" else said["content"][0]["text"])


def _streamed(answer: httpx2.Response, dialect: str) -> str:
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    if dialect == "openai":
        # A client that has not asked for usage may look into the choices of each event
        return "".join(event["choices"][0]["delta"]["content"] for event in events)
    return "".join(event["delta"]["text"] for event in events if event["type"] == "content_block_delta")


@pytest.mark.parametrize("dialect", list(CALLS))
def test_both_dialects_and_their_streams_add_up_to_what_the_provider_counts(
    serve: Callable[..., Models], provider: FakeProvider, dialect: str
) -> None:
    models = serve()
    assert _text(models.ask("How many?", dialect=dialect), dialect) == provider.answer
    streamed = models.ask("How many?", "token-1", dialect, stream=True, headers={"Authorization": "Bearer none"})
    assert _streamed(streamed, dialect) == provider.answer
    one, other = models.lines(2)
    assert (one["spender"], other["spender"]) == ("0", "1")
    used = [one[name] + other[name] for name in ("prompt_tokens", "completion_tokens")]
    assert used == provider.tokens
    assert one["cost"] == pytest.approx((one["prompt_tokens"] * PRICE[0] + one["completion_tokens"] * PRICE[1]) / 1e6)
    assert KEY not in models.log.read_text("utf-8")
    assert not any("none" in value for _, headers, _ in provider.calls for value in headers.values())


def test_a_stream_says_its_usage_to_whoever_asks_for_it(serve: Callable[..., Models]) -> None:
    streamed = serve().ask("How many?", stream=True, stream_options={"include_usage": True})
    assert '"usage"' in streamed.text


def test_fifty_streams_at_a_time(serve: Callable[..., Models], provider: FakeProvider) -> None:
    models = serve()
    with ThreadPoolExecutor(50) as pool:
        asked = [pool.submit(models.ask, f"Question {n}", f"token-{n % 2}", stream=True) for n in range(200)]
        assert {_streamed(one.result(), "openai") for one in asked} == {provider.answer}
    lines = models.lines(200)
    assert [sum(line[name] for line in lines) for name in ("prompt_tokens", "completion_tokens")] == provider.tokens
    assert sorted(line["number"] for line in lines) == list(range(1, 201))


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        ("HTTP 429", 429, {}),
        ("HTTP 500", 500, {}),
        ("garbage", 200, {"problem": "the answer is not JSON"}),
        ("no HTTP", 502, {"problem": "the connection to it failed (BadStatusLine)"}),
        ("redirect", 502, {"problem": "it answered with status 302, and is not followed elsewhere"}),
    ],
)
def test_a_provider_that_fails(serve: Callable[..., Models], words: str, status: int, told: dict[str, str]) -> None:
    models = serve()
    answer = models.ask(words)
    assert answer.status_code == status
    assert answer.headers.get("retry-after") == ("7" if words.startswith("HTTP") else None)
    (line,) = models.lines(1)
    assert {"problem": line.get("problem")} == {"problem": told.get("problem")}
    assert line["cost"] == 0
    # It goes on
    assert models.ask("How many?").status_code == 200


def test_an_answer_of_ten_mebibytes(serve: Callable[..., Models]) -> None:
    models = serve()
    assert len(_text(models.ask("big"), "openai")) == BIG
    (line,) = models.lines(1)
    assert not line["estimated"]


def test_a_provider_that_stalls_is_hung_up_on_when_its_client_hangs_up(
    serve: Callable[..., Models], provider: FakeProvider
) -> None:
    models = serve()
    with pytest.raises(httpx2.ReadTimeout):
        models.client.post(
            f"{models.address}/token-0/v1/chat/completions",
            json={"model": "tiny", "messages": [{"role": "user", "content": "stall"}]},
            timeout=0.3,
        )
    assert provider.left.wait(20)
    (line,) = models.lines(1)
    assert line["problem"] == "whoever asked has left"
    assert (line["estimated"], line["prompt_tokens"]) == (True, 2)


def test_a_stream_that_breaks_off_does_not_seem_whole(serve: Callable[..., Models]) -> None:
    models = serve(record=True)
    with pytest.raises(httpx2.RemoteProtocolError):
        models.ask("break", stream=True)
    (line,) = models.lines(1)
    assert "connection to it failed" in line["problem"]
    # Half an answer is not what a replay may repeat
    assert "answer" not in line


@pytest.mark.parametrize("told", ["[-5, 3]", "[1e3, 3]", "[true, 3]", '["9", 3]', "[9e999, 3]", "[0, 0]", "[]"])
def test_a_provider_that_lies_about_its_usage_saves_nothing(serve: Callable[..., Models], told: str) -> None:
    models = serve()
    models.ask(f"lie {told}")
    (line,) = models.lines(1)
    assert line["estimated"]
    assert line["prompt_tokens"] == len(f"lie {told}") // 4 + 1
    assert line["completion_tokens"] == len("Take two of them, I would say.") // 4 + 1


def test_a_picture_is_no_text(serve: Callable[..., Models]) -> None:
    models = serve()
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'A' * 200_000}"}}
    content = [{"type": "text", "text": "What is this?"}, picture]
    # What it says of its usage is far less than its characters, and true
    models.ask("", messages=[{"role": "user", "content": content}, {"role": "user", "content": "lie [900, 20]"}])
    (line,) = models.lines(1)
    assert (line["prompt_tokens"], line["estimated"]) == (900, False)


def test_the_key_reaches_nobody(serve: Callable[..., Models], provider: FakeProvider) -> None:
    models = serve(record=True)
    for stream in (False, True):
        answer = models.ask("show the key", stream=stream)
        assert KEY not in answer.text
    lines = models.lines(2)
    assert KEY not in json.dumps(lines)
    assert all(headers["authorization"] == f"Bearer {KEY}" for _, headers, _ in provider.calls)


@pytest.mark.parametrize(
    ("how", "status", "why"),
    [
        ({"who": "token-2"}, 401, "no token"),
        ({"who": ""}, 401, "no token"),
        ({"model": "huge"}, 404, "models are tiny"),
        ({"model": ["tiny"]}, 404, "models are tiny"),
        ({"headers": {"Origin": "http://127.0.0.1"}}, 403, "pages of browsers"),
        ({"headers": {"Host": "evil.example"}}, 403, "pages of browsers"),
        ({"who": "token-game", "headers": {"X-Coworld-Player-Slot": "2"}}, 400, "names no seat"),
        ({"who": "token-game", "headers": {"X-Coworld-Player-Slot": "-1"}}, 400, "names no seat"),
    ],
)
def test_what_is_not_this_seats_is_refused(
    serve: Callable[..., Models], provider: FakeProvider, how: dict[str, Any], status: int, why: str
) -> None:
    refused = serve().ask("How many?", **how)
    assert (refused.status_code, why in refused.json()["error"]["message"]) == (status, True), refused.text
    assert provider.calls == []


def test_only_the_game_asks_for_a_seat(serve: Callable[..., Models]) -> None:
    models = serve(seat={"calls": 1})
    for who, slot in (("token-game", "1"), ("token-0", "1")):
        assert models.ask("How many?", who, headers={"X-Coworld-Player-Slot": slot}).status_code == 200
    assert [line["spender"] for line in models.lines(2)] == ["1", "0"]
    assert models.ask("How many?", "token-1").status_code == 402


@pytest.mark.parametrize(
    "request_",
    [
        b"POST /token-0/v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /token-0/../admin HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
        b"POST http://evil.example/token-0/v1/keys HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /token-0/v1/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /token-0/v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n",
        b"POST /token-0/v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n[",
        b"POST /token-0/v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n[]",
        b"GET /token-0/v1/keys HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    ],
)
def test_other_hosts_and_calls_are_refused(
    serve: Callable[..., Models], provider: FakeProvider, request_: bytes
) -> None:
    port = int(serve().address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(request_)
        status = int(connection.recv(4096).split()[1])
    assert status in (400, 403, 404, 411, 413, 501), status
    assert provider.calls == []


@pytest.mark.parametrize(
    ("limits", "answered"),
    [({"seat": {"calls": 3}}, (3, 3)), ({"episode": {"calls": 4}}, (3, 1)), ({"seat": {"tokens": 30}}, (2, 2))],
)
def test_budgets(serve: Callable[..., Models], limits: dict[str, Any], answered: tuple[int, int]) -> None:
    models = serve(**limits)
    found = [0, 0]
    for who in (0, 0, 0, 0, 1, 1, 1, 1) if "seat" in limits else (0, 0, 0, 1, 1, 0):
        answer = models.ask("How many?", f"token-{who}")
        found[who] += answer.status_code == 200
        assert answer.status_code == 200 or "is spent" in answer.json()["error"]["message"]
    assert tuple(found) == answered


def test_what_is_under_way_counts_for_a_budget_of_money(serve: Callable[..., Models]) -> None:
    # One answer that may have a thousand tokens is expected to cost 0.008
    models = serve(seat={"usd": 0.02})
    with ThreadPoolExecutor(20) as pool:
        asked = [pool.submit(models.ask, "How many?", max_tokens=1000) for _ in range(20)]
        statuses = [one.result().status_code for one in asked]
    assert set(statuses) <= {200, 402}
    spent = models.client.get(f"{models.address}/token-0/spend").json()
    assert spent["calls"] == statuses.count(200)
    assert spent["usd"] == pytest.approx(sum(line.get("cost", 0) for line in models.lines(20)))
    assert spent["limits"] == {"usd": 0.02}


def test_a_recording_answers_in_place_of_a_provider(serve: Callable[..., Models], provider: FakeProvider) -> None:
    models = serve(record=True)
    first = [models.ask("How many?", stream=stream).text for stream in (False, True, False)]
    failed = models.ask("HTTP 500")
    models.lines(4)
    again = serve(recording=models.log, providers={})
    asked = len(provider.calls)
    # The same question gets its answers in their order; other seats and questions get none
    assert [again.ask("How many?", stream=stream).text for stream in (True, False, False)] == [
        first[n] for n in (1, 0, 2)
    ]
    assert (again.ask("HTTP 500").status_code, again.ask("HTTP 500").status_code) == (failed.status_code, 409)
    assert [again.ask("How many?", who).status_code for who in ("token-0", "token-1")] == [409, 409]
    assert len(provider.calls) == asked
    before, after = models.lines(4), again.lines(7)
    tokens = ("prompt_tokens", "completion_tokens")
    assert [[line[name] for name in tokens] for line in after[:3]] == [
        [line[name] for name in tokens] for line in before[:3]
    ]
    assert sum(line["cost"] for line in after) == 0
