"""One trace from a program that asks for episodes, through the platform, to the worker that plays them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind
from support.observatory_kit import open_platform, roster, seed

from coworld_client import CoworldClient, NotFound
from coworld_runner.telemetry.trace_context import current_traceparent
from observatory.operations.traces import PlatformTraces


class Kept:
    """Spans of one end."""

    def __init__(self) -> None:
        self.provider, self._kept = TracerProvider(shutdown_on_exit=False), InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))

    def spans(self) -> Mapping[str, ReadableSpan]:
        """The last one of each name."""
        return {span.name: span for span in self._kept.get_finished_spans()}


def below(span: ReadableSpan) -> tuple[int, int]:
    """The trace of a span, and the span that it is below."""
    assert span.parent is not None
    assert span.context is not None
    return span.context.trace_id, span.parent.span_id


def itself(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


@pytest.mark.slow
async def test_an_episode_is_below_the_request_that_asked_for_it(tmp_path: Path) -> None:
    mine, theirs = Kept(), Kept()
    async with open_platform(tmp_path, traces=PlatformTraces(theirs.provider)) as platform:
        ada = await platform.account("ada")
        world = await seed(platform.services, ada.id)
        await platform.policy(ada, "a")
        server = platform.services.settings.url
        async with CoworldClient(server, token=ada.token, tracer_provider=mine.provider) as api:
            body = {"coworld_id": world.id, "roster": roster("a", "a"), "num_episodes": 1}
            with mine.provider.get_tracer("test").start_as_current_span("nightly"):
                reply = await api.connection.call("POST", "/v2/experience-requests", json=body, key=True)
            with pytest.raises(NotFound):
                await api.connection.call("GET", "/v2/episode-requests/ereq_none")
            await api.experience.wait(reply.json()["id"], timeout=300)
    asked = mine.spans()["coworld.request POST"]
    answered = theirs.spans()["POST /observatory/v2/experience-requests"]
    played = theirs.spans()["coworld.episode"]
    assert below(asked) == itself(mine.spans()["nightly"])
    assert below(answered) == itself(asked)
    assert below(played) == itself(answered)
    assert (asked.kind, answered.kind) == (SpanKind.CLIENT, SpanKind.SERVER)
    assert below(theirs.spans()["play"]) == itself(played)
    # Neither ids, of which there are as many as there are requests, nor tokens
    assert not any("ereq_" in str(span.to_json()) for span in (*mine.spans().values(), answered))
    assert "GET /observatory/v2/episode-requests/{ereq}" in theirs.spans()


async def test_without_tracing_nothing_is_kept(tmp_path: Path) -> None:
    mine = Kept()
    async with open_platform(tmp_path, backend="none") as platform:
        ada = await platform.account("ada")
        async with CoworldClient(platform.services.settings.url, token=ada.token, tracer_provider=mine.provider) as api:
            await api.whoami()
            assert current_traceparent() is None
    assert set(mine.spans()) == {"coworld.request GET"}
