"""What an import or a help text may load."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

LOADED = "import sys, json, atexit; atexit.register(lambda: sys.stderr.write('\\n' + json.dumps(sorted(sys.modules))))"


def modules_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{LOADED}\n{code}"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stderr.splitlines()[-1]))
    return loaded | {name.split(".")[0] for name in loaded}


@pytest.mark.parametrize(
    "arguments", [["--help"], ["run-episode", "--help"], ["certify", "--help"], ["build", "--help"]]
)
def test_help_is_light(arguments: list[str]) -> None:
    loaded = modules_after(
        f"import sys; sys.argv = ['coworld', *{arguments!r}]\n"
        "from coworld_cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
    )
    heavy = {
        "docker",
        "kubernetes_asyncio",
        "httpx",
        "httpx2",
        "httpcore2",
        "websockets",
        "jsonschema",
        "rich",
        "jinja2",
        "filelock",
    }
    assert not loaded & heavy


def test_core_loads_no_network_library() -> None:
    loaded = modules_after("import coworld_core")
    assert not loaded & {
        "httpx",
        "httpx2",
        "httpcore2",
        "docker",
        "websockets",
        "anyio",
        "asyncio",
        "ssl",
        "yaml",
        "kubernetes_asyncio",
    }


def test_an_episode_loads_no_sdk_and_no_server() -> None:
    parts = "episode.single", "package.resolver", "package.plan", "episode.backend_choice"
    loaded = modules_after("import coworld_runner, " + ", ".join(f"coworld_runner.{part}" for part in parts))
    assert not loaded & {"docker", "kubernetes_asyncio", "httpx", "httpx2", "httpcore2", "requests", "http"}
    # What an episode of bundled players does not use: half of all that it would import.
    assert not loaded & {"coworld_core.evaluation", "coworld_core.tournament", "coworld_core.api"}
    assert not loaded & {"coworld_core.controller", "coworld_core.player_registry", "coworld_core.scopes"}
