"""The kustomization of a deployment, used as docs/deployment.md says, from nothing to a board that moves."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import httpx2
import pytest
import yaml
from support.cli_kit import coworld
from support.deployed import PAGE, beyond, lines_of, played
from support.deployment_images import DEPLOY, ROOT, observatory_image, postgres_image
from support.images import untag
from support.needs import BASE_IMAGE
from support.paintarena_image import paintarena_image
from support.waiting import until

pytestmark = [
    *(pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.postgresql, pytest.mark.slow, pytest.mark.timeout(1500)),
]


def namespaces() -> set[str]:
    """The kustomization's namespaces that are there."""
    line = ["kubectl", "get", "namespaces", "-o", "jsonpath={.items[*].metadata.name}"]
    found = subprocess.run(line, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    return {"observatory", "observatory-games"}.intersection(found)


def sh(place: Path, line: str, **more: Any) -> str:
    """Run a line in a shell, from beside `examples`."""
    words = ["bash", "-eo", "pipefail", "-c", line]
    done = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False, timeout=400, **more)
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def volumes(place: Path) -> list[dict[str, Any]]:
    """A volume for each claim: directories of the node, which is this machine."""
    made: list[dict[str, Any]] = []
    for claim in ("observatory", "data-database-0"):
        directory = place / "volumes" / claim
        directory.mkdir(parents=True)
        directory.chmod(0o777)
        spec = {
            "capacity": {"storage": "20Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": "observatory", "name": claim},
            "hostPath": {"path": str(directory)},
        }
        metadata = {"name": f"coworld-test-{claim}"}
        made.append({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec})
    return made


@contextmanager
def site(place: Path, store: dict[str, str]) -> Generator[str]:
    """A directory as the page's reader has it, with images of this machine; yields the URL that it will have."""
    shutil.copytree(DEPLOY, place / DEPLOY.relative_to(ROOT))
    shutil.copytree(ROOT / "docs/kubernetes", place / "docs/kubernetes")
    (text,) = re.findall(r"<!-- file: arena/kustomization.yaml -->\n```yaml\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    port = random.randrange(30000, 32768)
    url = f"http://127.0.0.1:{port}"
    name = f"coworld-kustomize-{port}"
    requests = "/spec/template/spec/containers/0/resources/requests"
    little = {"op": "replace", "path": requests, "value": {"cpu": "10m", "memory": "64Mi"}}
    with (
        observatory_image(f"{name}-observatory", tags=("1", "2")) as ours,
        postgres_image(f"{name}-postgres") as postgres,
    ):
        mine = yaml.safe_load(text)
        mine["images"][0]["newName"] = ours
        mine["images"].append({"name": "postgres", "newName": postgres, "newTag": "latest"})
        mine["patches"] = [
            *({"target": {"kind": kind}, "patch": json.dumps([little])} for kind in ("Deployment", "StatefulSet")),
            {
                "target": {"kind": "Service", "name": "server"},
                "patch": json.dumps(
                    [
                        {"op": "add", "path": "/spec/type", "value": "NodePort"},
                        {"op": "add", "path": "/spec/ports/0/nodePort", "value": port},
                    ]
                ),
            },
        ]
        (place / "arena").mkdir()
        (place / "arena/kustomization.yaml").write_text(yaml.safe_dump(mine))
        examples = place / "examples/observatory/deploy/kubernetes"
        for file, values in (
            ("site.env", {"URL": url, "COWORLD_COLLECTOR_IMAGE": BASE_IMAGE, **store}),
            ("secrets.env", {"POSTGRES_PASSWORD": "hunter2", **store}),
        ):
            lines = [line.partition("=") for line in (examples / file).read_text().splitlines()]
            kept = {key: values.get(key, value) for key, _, value in lines}
            if file == "site.env":
                kept["COWORLD_COLLECTOR_IMAGE"] = BASE_IMAGE
            (examples / file).write_text("".join(f"{key}={value}\n" for key, value in kept.items()))
        try:
            sh(
                place,
                "kubectl create -f -",
                input=json.dumps({"apiVersion": "v1", "kind": "List", "items": volumes(place)}),
            )
            yield url
        finally:
            # The page's last word: all of it goes, and the volumes are this machine's own
            sh(place, "kubectl delete -k arena --ignore-not-found --timeout=4m")
            sh(place, "kubectl delete pv coworld-test-observatory coworld-test-data-database-0 --ignore-not-found")
            untag(lambda image: image.startswith(f"{url.removeprefix('http://')}/"))


async def test_kustomization_leads_from_nothing_to_a_moving_board(tmp_path: Path, store: dict[str, str]) -> None:
    assert not namespaces(), "somebody has an Observatory on this cluster"
    with site(tmp_path, store) as url:
        run = partial(anyio.to_thread.run_sync, partial(sh, tmp_path))
        observatory = "kubectl exec -n observatory deployment/server -- observatory"

        async def ask(*words: str | Path, **more: str) -> str:
            home = {"SOFTMAX_CONFIG_DIR": str(tmp_path / more.pop("who", "ada")), "COWORLD_SERVER": url}
            done = await anyio.to_thread.run_sync(partial(coworld, *words, env=home, timeout=400, **more))
            assert done.status == 0, done.stderr + done.stdout
            return done.stdout

        *begin, add_ada = lines_of("On a cluster", "kubectl")
        for line in begin:
            await run(line)
        tokens = {"ada": await run(f"{add_ada} --json"), "ben": await run(f"{observatory} user add ben --json")}
        for who, said in tokens.items():
            await ask("set-token", who=who, stdin=json.loads(said)["token"])
        template = (ROOT / "examples/paintarena/coworld_manifest_template.json").read_text()
        manifest = json.loads(template.replace("{{PAINTARENA_IMAGE}}", paintarena_image()))
        manifest["game"]["version"] = "1.0.0"
        (tmp_path / "coworld_manifest.json").write_text(json.dumps(manifest))
        await ask("upload-coworld", tmp_path / "coworld_manifest.json", "--skip-certification", "tried elsewhere")
        await run(f"{observatory} league add open --coworld paintarena --variant quick --every 1")
        shutil.copy2(ROOT / "examples/observatory/src/observatory/demo_bot.py", tmp_path / "bot.py")
        for who in tokens:
            await ask("upload-policy", tmp_path / "bot.py", "-n", f"{who}s", "--league", "open", who=who)
        async with httpx2.AsyncClient(base_url=url, timeout=30) as http:
            first = await beyond(http, 0)
            # The server is lost: the worker goes on, and another server shows it
            await run("kubectl delete pod -n observatory -l app=server --wait=false")
            await beyond(http, await beyond(http, first))
            assert (await http.get("/readyz")).json() == {"status": "ok"}
            assert (await http.get("/metrics")).status_code == 404
            assert (await run("kubectl exec -n observatory deployment/worker -- id -u")).strip() == "65534"

            backup, *restore = lines_of("Backup and restore", "kubectl")
            await run(backup)
            kept = await played(http)
            await beyond(http, kept)
            for line in restore:
                await run(line)
            await beyond(http, kept)

            mine = tmp_path / "arena/kustomization.yaml"
            *stop, apply, ready = lines_of("Upgrade", "kubectl")
            for line in stop:
                await run(line)
            mine.write_text(mine.read_text().replace("newTag: '1'", "newTag: '2'"))
            await run(apply)
            await run(ready)
            assert ":2" in await run("kubectl get pods -n observatory -l app=worker -o 'jsonpath={..image}'")
            await beyond(http, kept)

            # The new image has changed the tables, and the old one gets its own back
            for line in stop[1:]:
                await run(line)
            newer = "UPDATE alembic_version SET version_num = '9999'"
            password = "PGPASSWORD=hunter2 psql -h 127.0.0.1 -U observatory -c"
            await run(f'kubectl exec -n observatory database-0 -- sh -c "{password} \\"{newer}\\""')
            mine.write_text(mine.read_text().replace("newTag: '2'", "newTag: '1'"))
            await run(apply)

            async def refuses() -> bool:
                logs = await run("kubectl logs -n observatory -l app=server || true")
                return "made by another version" in logs

            await until(refuses, seconds=200, what="a server that refuses newer tables", every=1)
            for line in restore:
                await run(line)
            await beyond(http, kept)
    assert not namespaces()
