"""Where episodes run as local processes, no command that came over the wire is run: who tries is told, and no more."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from support.observatory import run_server
from support.observatory_kit import (
    MISFITS,
    QUICK,
    Account,
    Platform,
    World,
    checked,
    declaring,
    open_platform,
    roster,
    seed,
    until_over,
)

from coworld_core.errors import CoworldError
from observatory.cli import main
from observatory.hosted import sessions as hosted_sessions
from observatory.store.models import Coworld, PolicyVersion
from observatory.work.admission import OwnPackages
from observatory.work.executor import PROCESS_NOTICE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PLAYS = ["python3", "-S", "-E", "player.py"]
SERVES = ["python3", "-S", "-E", "game.py"]
Document = dict[str, Any]


def shell(marker: Path) -> list[str]:
    """A command that leaves a mark, and would read the key as well."""
    return ["sh", "-c", f"touch {shlex.quote(str(marker))}; exec {shlex.join(PLAYS)}"]


def library(place: Path) -> Path:
    """A directory with a module in it that every Python interpreter imports which is led there."""
    place.mkdir()
    (place / "sitecustomize.py").write_text(f"open({str(place.parent / 'marker')!r}, 'w')\n")
    return place


async def image_of(platform: Platform, world: World) -> str:
    """The id of an image that was uploaded under the name of a package of this machine, and is for everybody."""
    async with platform.client() as anybody:
        manifest = (await anybody.get(f"/v2/coworlds/{world.id}")).json()["manifest"]
    assert "coworld-quick@" in manifest["game"]["runnable"]["image"]
    async with platform.services.database.reading() as session:
        return str((await session.get_one(Coworld, world.id)).manifest["game"]["runnable"]["image"])


async def upload_policy(platform: Platform, owner: Account, image: str, **body: Any) -> httpx2.Response:
    async with platform.client(owner) as client:
        if secrets := body.pop("secrets", None):
            made = await client.post("/stats/policy-secret-envs", json={"policy_secret_env": secrets})
            body["policy_secret_env_id"] = made.json()["id"]
        return await client.post("/stats/policies/docker-img/complete", json={"container_image_id": image, **body})


async def smuggle(platform: Platform, owner: Account, name: str, body: Document) -> None:
    """A policy version that is there all the same: uploaded while another worker ran images, say."""
    found = await platform.policy(owner, name, secrets=body.get("secrets"))
    async with platform.services.database.writing() as session:
        (await session.get_one(PolicyVersion, found)).run = body["run"]


async def test_local_policy_runs_only_declared_commands(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    async with open_platform(tmp_path) as platform:
        ann, eve = await platform.account("ann"), await platform.account("eve")
        world = await seed(platform.services, ann.id)
        image = await image_of(platform, world)
        library(tmp_path / "library")
        attempts: dict[str, Document] = {
            "shell": {"run": shell(marker)},
            "an argument more": {"run": [*PLAYS, "x"]},
            "an argument less": {"run": PLAYS[:-1]},
            "arguments run together": {"run": [" ".join(PLAYS)]},
            "the game's own": {"run": SERVES},
            "none": {"run": None},
            "python path": {"run": PLAYS, "secrets": {"PYTHONPATH": str(tmp_path / "library")}},
            "preload": {"run": PLAYS, "secrets": {"LD_PRELOAD": str(tmp_path / "library.so"), "QUICK_SECRET": "x"}},
        }
        async with platform.client(eve) as client:
            asked: dict[str, str] = {}
            for name, body in attempts.items():
                uploaded = await upload_policy(platform, eve, image, name=name, **body)
                if "secrets" not in body:
                    assert (uploaded.status_code, uploaded.json()["type"]) == (409, "not_declared"), name
                    assert "is not declared by any package on this machine" in uploaded.json()["detail"], name
                    await smuggle(platform, eve, name, body)
                made = await client.post(
                    "/v2/experience-requests", json={"coworld_id": world.id, "roster": roster(name, name)}
                )
                assert made.status_code == 200, made.text
                asked[name] = made.json()["id"]
            for name, request in asked.items():
                (episode,) = (await until_over(client, request))["episodes"]
                assert episode["status"] == "failed", name
                assert "is not declared by any package on this machine" in episode["error"], name
                assert "A worker with containers" in episode["error"], name
                # Nothing was even started
                assert (await platform.episode(episode["id"])).record is None, name
            # What a package leaves open is for a policy to fill
            fair = await upload_policy(platform, eve, image, name="fair", run=PLAYS, secrets={"QUICK_SECRET": "x"})
            assert fair.status_code == 200, fair.text
            body = {"coworld_id": world.id, "roster": roster("fair", "fair")}
            made = await client.post("/v2/experience-requests", json=body)
            assert (await until_over(client, made.json()["id"]))["status"] == "completed"
    assert not marker.exists()


def changed(manifest: Document, name: str, change: Callable[[Document], object]) -> Document:
    """A manifest of another game, and different."""
    copy: Document = json.loads(json.dumps(manifest))
    copy["game"]["name"] = name
    change(copy)
    return copy


def attempts_of(marker: Path, modules: Path) -> dict[str, Callable[[Document], object]]:
    """What somebody may upload, by name."""
    path = {"PYTHONPATH": str(modules)}
    return {
        "game-shell": lambda manifest: manifest["game"]["runnable"].update(run=shell(marker)),
        "game-more": lambda manifest: manifest["game"]["runnable"].update(run=[*SERVES, "--debug"]),
        "game-is-player": lambda manifest: manifest["game"]["runnable"].update(run=PLAYS),
        "game-path": lambda manifest: manifest["game"]["runnable"].update(env=path),
        "player-shell": lambda manifest: manifest["player"][0].update(run=shell(marker)),
        "player-path": lambda manifest: manifest["player"][0].update(env=path),
    }


async def test_certification_of_an_upload_runs_only_declared_commands(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    async with open_platform(tmp_path) as platform:
        ann, eve = await platform.account("ann"), await platform.account("eve")
        image = await image_of(platform, await seed(platform.services, ann.id))
        template = json.loads((QUICK.directory / "coworld_manifest_template.json").read_text())
        manifest = json.loads(json.dumps(template).replace(QUICK.placeholder, image))
        attempts = attempts_of(marker, library(tmp_path / "library"))
        async with platform.client(eve) as client:
            made: dict[str, str] = {}
            for name, change in attempts.items():
                answer = await client.post("/v2/coworlds/upload", json={"manifest": changed(manifest, name, change)})
                assert answer.status_code == 200, answer.text
                made[name] = answer.json()["id"]
            fair = await client.post("/v2/coworlds/upload", json={"manifest": changed(manifest, "fair", len)})
            for name, coworld in made.items():
                state = await checked(client, coworld)
                assert state["state"] == "failed", name
                assert "A worker with containers" in state["failure"]["detail"], name
            assert (await checked(client, fair.json()["id"]))["state"] == "certified"
    assert not marker.exists()


async def test_hosted_games_run_only_declared_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosted_sessions, "START_SECONDS", 300)
    marker = tmp_path / "marker"
    async with open_platform(tmp_path) as platform:
        ann, eve = await platform.account("ann"), await platform.account("eve")
        image = await image_of(platform, await seed(platform.services, ann.id))
        text = (QUICK.directory / "coworld_manifest_template.json").read_text().replace(QUICK.placeholder, image)
        attempt = attempts_of(marker, tmp_path)["game-shell"]
        async with platform.client(eve) as client:
            body = {"manifest": changed(json.loads(text), "shell", attempt)}
            coworld = (await client.post("/v2/coworlds/upload", json=body)).json()["id"]
            answer = await client.post("/v2/coworlds/play/session", json={"coworld_id": coworld})
            assert answer.status_code == 502
            assert "is not declared by any package" in answer.json()["detail"]
    assert not marker.exists()


async def test_config_must_satisfy_the_local_packages_schema(tmp_path: Path) -> None:
    """Whoever uploads a game anew may say that it takes anything; the game on this machine does not."""
    async with open_platform(tmp_path) as platform:
        eve = await platform.account("eve")
        world = await seed(platform.services, eve.id)
        async with platform.services.database.writing() as session:
            row = await session.get_one(Coworld, world.id)
            opened = json.loads(json.dumps(row.manifest))
            opened["game"]["config_schema"]["additionalProperties"] = True
            row.manifest = opened
        await platform.policy(eve, "fair")
        async with platform.client(eve) as client:
            body = {"coworld_id": world.id, "roster": roster("fair", "fair")}
            made = await client.post("/v2/experience-requests", json={**body, "game_config_overrides": {"plugin": "x"}})
            (episode,) = (await until_over(client, made.json()["id"]))["episodes"]
            assert episode["status"] == "failed"
            assert "plugin" in episode["error"]
            assert (await platform.episode(episode["id"])).record is None


def test_packages_cannot_impersonate_each_other(tmp_path: Path) -> None:
    own = OwnPackages((QUICK.directory, QUICK.directory, MISFITS.directory))
    assert set(own) == {"coworld-quick", "coworld-misfits"}
    assert {program.runnable.type for program in own.programs("coworld-quick")} == {"game", "player", "commissioner"}
    with pytest.raises(CoworldError) as error:
        OwnPackages((QUICK.directory, declaring(tmp_path)))
    assert error.value.code == "package_conflict"


async def test_local_processes_are_announced_to_operator_and_visitors(tmp_path: Path) -> None:
    where = ["--data", str(tmp_path / "o"), "--json", "--backend", "process", "--package", str(QUICK.directory)]
    log = tmp_path / "log"
    async with run_server(["serve", "--port", "0", *where], log=log) as (_, said):
        assert said["url"].startswith("http://127.0.0.1:")
        async with httpx2.AsyncClient(base_url=said["url"]) as browser:
            assert PROCESS_NOTICE.replace("'", "&#39;") in (await browser.get("/")).text
    assert PROCESS_NOTICE in await anyio.Path(log).read_text()
    log = tmp_path / "worker.log"
    async with run_server(["worker", *where], log=log):
        pass
    assert PROCESS_NOTICE in await anyio.Path(log).read_text()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.org", "192.0.2.1"])
def test_local_processes_are_served_on_loopback_only(
    host: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--data", str(tmp_path), "--json", "--host", host, "--port", "0"]
    for backend in ("process", "auto"):
        with pytest.raises(SystemExit) as left:
            main(["serve", *where, "--backend", backend, "--package", str(QUICK.directory)])
        assert (left.value.code, json.loads(capsys.readouterr().out)["error"]["code"]) == (2, "not_loopback")
