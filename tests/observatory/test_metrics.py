"""Metrics and the state of a platform, at an address of their own."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import anyio
import httpx2
import pytest
import sqlalchemy as sa
import yaml
from support.observatory import inside, run_server
from support.observatory_kit import open_platform, roster, seed

import observatory.operations.metrics
from coworld_runner.telemetry.gateway_metrics import GatewayMetrics
from coworld_runner.telemetry.metrics_server import open_metrics
from coworld_runner.web.gateway import Gateway
from coworld_runner.web.http_server import listen
from coworld_runner.web.public_address import PublicAddress
from observatory.operations.metrics import PlatformMetrics, platform_trouble
from observatory.server import address_of
from observatory.services import Services
from observatory.work.queue import Queue

DASHBOARD = Path(__file__).parents[2] / "docs" / "metrics" / "grafana-dashboard.json"
ALERTS = DASHBOARD.with_name("alerts.yaml")


async def scraped(services: Services, path: str = "/metrics") -> httpx2.Response:
    listener = listen("127.0.0.1", 0)
    base = address_of(listener)
    metrics = services.runtime.metrics
    assert metrics is not None
    async with (
        open_metrics(listener, read=metrics.read, trouble=lambda: platform_trouble(services)),
        httpx2.AsyncClient(base_url=base) as http,
    ):
        return await http.get(path)


async def test_requests_and_the_queue_are_shown(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        services = platform.services
        ada = await platform.account("ada")
        world = await seed(services, ada.id)
        await platform.policy(ada, "a")
        services.runtime.metrics = PlatformMetrics(services)
        async with platform.client(ada) as client:
            body = {"coworld_id": world.id, "roster": roster("a", "a"), "num_episodes": 3}
            assert (await client.post("/v2/experience-requests", json=body)).status_code == 200
            for episode in ("a", "b"):
                assert (await client.get(f"/v2/episode-requests/ereq_{episode}")).status_code == 404
        assert await Queue(services.database, owner="w").claim() is not None
        text = (await scraped(services)).text
    # The pattern of the path, so that no visitor can make as many rows as there are paths
    (line,) = [line for line in text.splitlines() if "episode-requests/{" in line and "seconds_count" in line]
    assert line.endswith('status="4xx"} 2.0')
    assert "ereq_a" not in text
    assert 'observatory_queue{status="pending",what="episodes"} 2.0' in text
    assert 'observatory_queue{status="running",what="episodes"} 1.0' in text


async def test_the_state_is_that_of_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with inside(tmp_path) as platform:
        assert (await platform.http.get("/healthz")).json() == {"status": "ok"}
        # Metrics are not shown to visitors
        assert (await platform.http.get("/metrics")).status_code == 404
        platform.services.runtime.metrics = PlatformMetrics(platform.services)

        def gone() -> None:
            raise OSError("no such server")

        monkeypatch.setattr(platform.services.database, "reading", gone)
        for answer in (await platform.http.get("/healthz"), await scraped(platform.services, "/healthz")):
            assert (answer.status_code, answer.json()["status"]) == (503, "unavailable")
        assert (await scraped(platform.services)).status_code == 503


async def test_alive_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observatory.operations.metrics, "_STORE_SECONDS", -1.0)
    async with inside(tmp_path) as platform:
        services, http = platform.services, platform.http
        for path in ("/livez", "/readyz"):
            assert ((await http.get(path)).json(), (await http.head(path)).status_code) == ({"status": "ok"}, 200)

        async def unready() -> str:
            # A lost database or store is no reason to restart the server
            assert (await http.get("/livez")).status_code == 200
            answer = await http.get("/readyz")
            assert answer.status_code == 503
            return str(answer.json()["detail"])

        with monkeypatch.context() as gone:
            gone.setattr(services.artifacts, "_root", str(tmp_path / "log/nowhere"))
            (tmp_path / "log").write_text("a file")
            assert "store" in await unready()
        async with services.database.writing() as session:
            await session.execute(sa.text("UPDATE alembic_version SET version_num = '0000'"))
        assert "revision 0000" in await unready()
        assert (await http.get("/healthz")).status_code == 200
        await services.database.empty()
        assert "revision none" in await unready()


@pytest.mark.slow
async def test_a_server_shows_them_when_it_is_asked_to(tmp_path: Path) -> None:
    command = ["serve", "--port", "0", "--json", "--backend", "none", "--data", str(tmp_path / "data")]
    async with (
        run_server([*command, "--metrics", "0"], log=tmp_path / "log") as (_, said),
        httpx2.AsyncClient() as http,
    ):
        assert "observatory_workers" in (await http.get(said["metrics"])).text


async def test_the_dashboard_and_the_alerts_ask_for_what_there_is(tmp_path: Path) -> None:
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    assert all(rule["annotations"].keys() == {"summary", "description"} for rule in rules)
    expressions = " ".join([DASHBOARD.read_text(), *(rule["expr"] for rule in rules)])
    asked = set(re.findall(r"\b(?:coworld|observatory)_[a-z_]+", expressions))
    # Prometheus reads them in the same way
    if promtool := shutil.which("promtool"):
        await anyio.run_process([promtool, "check", "rules", str(ALERTS)])
    assert json.loads(DASHBOARD.read_text())["panels"]
    async with inside(tmp_path) as platform:
        platform.services.runtime.metrics = metrics = PlatformMetrics(platform.services)
        there, families = set[str](), set[str]()
        for family in metrics.runs.registry.collect():
            kinds = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
            families.add(family.name)
            there |= {f"{family.name}{suffix}" for suffix in kinds}
    assert asked <= there
    # The page lists them all, and those of a game that is served
    gateway = GatewayMetrics(Gateway(PublicAddress(host="127.0.0.1"), 1))
    families |= {family.name for family in gateway.registry.collect()}
    page = (DASHBOARD.parents[1] / "metrics.md").read_text()
    ours = {family for family in families if family.startswith(("coworld_", "observatory_"))}
    assert ours == set(re.findall(r"^\| `([a-z_]+)`", page, re.M))
