"""The files of a deployment, used as docs/deployment.md says."""

from __future__ import annotations

import re
import secrets
import shutil
import ssl
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx2
import pytest
from support.deployed import PAGE, beyond, lines_of, played
from support.deployment_images import DEPLOY, ROOT, caddy_image, observatory_image, postgres_image
from support.needs import IN_CI
from support.waiting import until

from coworld_runner.backends.base import choose_port


@contextmanager
def deployment(place: Path) -> Generator[str]:
    """A copy of the directory, whose commands act on a project of its own; yields the URL that it will have."""
    shutil.copytree(DEPLOY, place)
    project = f"coworld-deploy-{secrets.token_hex(4)}"
    port = choose_port()
    url = f"https://localhost:{port.number}"
    port.close()
    with (
        observatory_image(f"{project}-observatory", tags=("1", "2")) as ours,
        postgres_image(f"{project}-postgres") as postgres,
        caddy_image(f"{project}-caddy") as caddy,
    ):
        images = {"OBSERVATORY_IMAGE": f"{ours}:1", "POSTGRES_IMAGE": postgres, "CADDY_IMAGE": caddy}
        said = {"COMPOSE_PROJECT_NAME": project, "HTTPS_PORT": url.rpartition(":")[2], "URL": url, **images}
        (place / ".env").write_text("".join(f"{name}={value}\n" for name, value in said.items()))
        try:
            yield url
        finally:
            compose(place, "docker compose down -v -t 5")


def compose(place: Path, line: str) -> str:
    """Run a line of the page, with the older command that Debian has."""
    env_file = place / ".env"
    if line.startswith("echo "):
        setting, _, where = line.removeprefix("echo ").partition(" >> ")
        (project,) = re.findall(r"^COMPOSE_PROJECT_NAME=(.+)$", env_file.read_text(), re.MULTILINE)
        assert where == ".env"
        env_file.write_text(f"{env_file.read_text()}{setting.replace('=', f'={project}-', 1)}\n")
        return ""
    assert line.startswith("docker compose "), line
    words = line.replace("docker compose", "docker-compose", 1).split()
    if words[1] == "cp":
        container = subprocess.run(
            ["docker-compose", "ps", "-q", words[2].partition(":")[0]], cwd=place, capture_output=True, text=True
        ).stdout.strip()
        words = ["docker", "cp", f"{container}:{words[2].partition(':')[2]}", words[3]]
    done = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def images_of(place: Path, *services: str) -> list[str]:
    """What the containers of these services are run from."""
    ids = compose(place, f"docker compose ps -q {' '.join(services)}").split()
    line = ["docker", "inspect", "--format", "{{.Config.Image}}", *ids]
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout.split()


async def under_way(http: httpx2.AsyncClient) -> list[str]:
    """The episodes that are waiting or being played."""
    listed = (await http.get("/observatory/v2/episode-requests")).raise_for_status().json()["entries"]
    return [row["id"] for row in listed if row["status"] in ("pending", "dispatched", "running")]


async def have_ended(http: httpx2.AsyncClient, ids: list[str]) -> bool:
    """Whether all of these episodes were completed; False while there is nobody to ask."""
    try:
        rows = [(await http.get(f"/observatory/v2/episode-requests/{one}")).raise_for_status().json() for one in ids]
    except (httpx2.HTTPError, OSError):
        return False
    return {row["status"] for row in rows} == {"completed"}


@pytest.mark.docker
@pytest.mark.postgresql
@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_compose_leads_from_nothing_to_a_moving_board(tmp_path: Path) -> None:
    if not IN_CI and not (shutil.which("docker-compose") and shutil.which("caddy")):
        pytest.skip("docker-compose and caddy: sudo apt-get install docker-compose caddy")
    place = tmp_path / "deploy"
    with deployment(place) as url:
        _, up, copy = lines_of("With Compose")
        compose(place, up)
        compose(place, copy)
        trusted = ssl.create_default_context(cafile=str(place / "caddy.crt"))
        async with httpx2.AsyncClient(base_url=url, verify=trusted, timeout=30) as http:
            first = await beyond(http, 0)
            assert (await http.get("/readyz")).json() == {"status": "ok"}
            # Metrics stay behind the proxy, and no program is root
            assert (await http.get("/metrics")).status_code == 404
            assert compose(place, "docker compose exec -T worker id -u").strip() == "65534"
            backup, *restore = lines_of("Backup and restore")
            compose(place, backup)
            kept = await played(http)
            more = await beyond(http, kept)
            for line in restore[:-1]:
                compose(place, line)
            compose(place, restore[-1])
            assert first <= kept < more
            await beyond(http, kept)
            _, *upgrade = lines_of("Upgrade")
            for lines, tag in ((upgrade, 2), (lines_of("Roll back"), 1)):
                begun = await until(partial(under_way, http), seconds=400, what="episodes that are played", every=0.05)
                for line in lines:
                    compose(place, line)
                assert {image[-2:] for image in images_of(place, "server", "worker")} == {f":{tag}"}
                # What was under way is played, by whomever
                await until(partial(have_ended, http, begun), seconds=400, what=f"the end of {begun}", every=0.5)
                assert await played(http) >= kept
                await beyond(http, await played(http))


def test_the_image_and_compose_name_what_there_is() -> None:
    text = (ROOT / "examples/observatory/Dockerfile").read_text()
    for source in re.findall(r"^COPY (?!--)(\S+) ", text, re.MULTILINE):
        assert (ROOT / source).is_dir()
    said = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text()))
    page = PAGE.read_text()
    assert {name for name in said if f"`{name}`" not in page} == {"BASE_IMAGE"}


def test_the_service_is_one_of_systemd(tmp_path: Path) -> None:
    text = (DEPLOY / "observatory.service").read_text()
    (command,) = re.findall(r"^ExecStart=(\S+) serve \$OPTIONS$", text, re.MULTILINE)
    if (analyze := shutil.which("systemd-analyze")) is None:
        return
    unit = tmp_path / "observatory.service"
    unit.write_text(text.replace(command, "/bin/true"))
    done = subprocess.run([analyze, "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
