"""The files of a deployment, used as docs/deployment.md says."""

from __future__ import annotations

import re
import secrets
import shutil
import ssl
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from support.deployment_images import DEPLOY, ROOT, caddy_image, observatory_image, postgres_image
from support.needs import IN_CI
from support.waiting import until

from coworld_runner.backends.base import choose_port

PAGE = ROOT / "docs/deployment.md"


def lines_of(heading: str) -> list[str]:
    """The commands of a section of the page."""
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    fences: list[str] = re.findall(r"^```text\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return [line for fence in fences for line in fence.splitlines()]


@contextmanager
def deployment(place: Path) -> Generator[str]:
    """A copy of the directory, whose commands act on a project of its own; yields the URL that it will have."""
    shutil.copytree(DEPLOY, place)
    project = f"coworld-deploy-{secrets.token_hex(4)}"
    port = choose_port()
    url = f"https://localhost:{port.number}"
    port.close()
    with (
        observatory_image(f"{project}-observatory") as ours,
        postgres_image(f"{project}-postgres") as postgres,
        caddy_image(f"{project}-caddy") as caddy,
    ):
        images = {"OBSERVATORY_IMAGE": ours, "POSTGRES_IMAGE": postgres, "CADDY_IMAGE": caddy}
        said = {"COMPOSE_PROJECT_NAME": project, "HTTPS_PORT": url.rpartition(":")[2], "URL": url, **images}
        (place / ".env").write_text("".join(f"{name}={value}\n" for name, value in said.items()))
        try:
            yield url
        finally:
            compose(place, "docker compose down -v -t 5")


def compose(place: Path, line: str) -> str:
    """Run a line of the page, with the older command that Debian has."""
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


async def played(http: httpx2.AsyncClient) -> int:
    """How many rounds the board has seen, all players together; 0 while there is nobody to ask."""
    try:
        divisions = (await http.get("/observatory/v2/divisions")).raise_for_status().json()
        path = f"/observatory/v2/divisions/{divisions[0]['id']}/leaderboard"
        board: list[dict[str, int]] = (await http.get(path)).raise_for_status().json() or []
    except (httpx2.HTTPError, OSError):
        return 0
    return sum(line["rounds_played"] for line in board)


@pytest.mark.docker
@pytest.mark.postgresql
@pytest.mark.slow
@pytest.mark.timeout(900)
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

            async def beyond(rounds: int) -> int:
                async def moved() -> int:
                    found = await played(http)
                    return found if found > rounds else 0

                return await until(moved, seconds=180, what=f"more than {rounds} rounds", every=0.5)

            first = await beyond(0)
            assert (await http.get("/readyz")).json() == {"status": "ok"}
            # Metrics stay behind the proxy, and no program is root
            assert (await http.get("/metrics")).status_code == 404
            assert compose(place, "docker compose exec -T worker id -u").strip() == "65534"
            backup, *restore = lines_of("Backup and restore")
            compose(place, backup)
            kept = await played(http)
            more = await beyond(kept)
            for line in restore[:-1]:
                compose(place, line)
            compose(place, restore[-1])
            assert first <= kept < more
            await beyond(kept)
            for line in lines_of("Upgrade")[1:]:
                compose(place, line)
            await beyond(kept)


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
