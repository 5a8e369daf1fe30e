"""Spans of requests, and the header by which a platform goes on with them."""

from __future__ import annotations

import sys

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, format_span_id, format_trace_id
from support.fake_server import Ask, Say, json_say, serve

from coworld_client import Backoff, CoworldClient, NotFound
from coworld_core.errors import UsageError


@pytest.fixture
def kept() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(kept: InMemorySpanExporter) -> TracerProvider:
    made = TracerProvider(shutdown_on_exit=False)
    made.add_span_processor(SimpleSpanProcessor(kept))
    return made


async def test_each_attempt_is_a_span_that_the_platform_is_told_of(
    provider: TracerProvider, kept: InMemorySpanExporter
) -> None:
    heard: list[str | None] = []

    async def handler(ask: Ask) -> Say:
        heard.append(ask.headers.get("traceparent"))
        return Say(503) if len(heard) == 1 else json_say({}, 404 if ask.path.endswith("gone") else 200)

    async with (
        serve(handler) as server,
        serve(handler) as storage,
        CoworldClient(server.url, tracer_provider=provider, backoff=Backoff(base=0.0), max_retries=1) as api,
    ):
        await api.connection.call("GET", "/secret-id")
        with pytest.raises(NotFound):
            await api.connection.call("GET", "/gone")
        # Storage that a platform points to is not told of anything
        await api.connection.call("GET", f"{storage.url}/link")
    spans = kept.get_finished_spans()
    assert [span.status.status_code for span in spans] == [StatusCode.ERROR, StatusCode.UNSET, StatusCode.ERROR]
    assert [dict(span.attributes or {}).get("error.type") for span in spans] == ["503", None, "404"]
    named = [
        f"00-{format_trace_id(span.context.trace_id)}-{format_span_id(span.context.span_id)}"
        for span in spans
        if span.context is not None
    ]
    # Flags follow, of which a version may have more
    assert [header and header.rpartition("-")[0] for header in heard] == [*named, None]
    assert not any("secret-id" in span.to_json() for span in spans)


async def test_a_span_of_ones_own_is_named_without_any_of_ours(
    provider: TracerProvider, kept: InMemorySpanExporter
) -> None:
    heard: list[str | None] = []

    async def handler(ask: Ask) -> Say:
        heard.append(ask.headers.get("traceparent"))
        return json_say({})

    async with serve(handler) as server, CoworldClient(server.url) as api:
        await api.connection.call("GET", "/a")
        with provider.get_tracer("mine").start_as_current_span("nightly") as span:
            await api.connection.call("GET", "/b")
    assert heard[0] is None
    assert heard[1] is not None
    assert format_span_id(span.get_span_context().span_id) in heard[1]
    assert [done.name for done in kept.get_finished_spans()] == ["nightly"]


def test_a_missing_library_is_named(provider: TracerProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(UsageError, match="opentelemetry-api") as missing:
        CoworldClient(tracer_provider=provider)
    assert missing.value.code == "traces_missing"
