"""`coworld-worker init-config`, the health port, and the program around them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.fake_server import serve_site
from support.misfit_kit import misfit_plan
from support.put_server import PutServer

from coworld_core.episode.request import JobSpec
from coworld_core.errors import EnvironmentFault, ManifestError, UsageError
from coworld_runner.worker import init_config
from coworld_runner.worker.episode_setup import read_tokens
from coworld_runner.worker.health_port import health_port


def spec(game: str = "well", **config: Any) -> dict[str, Any]:
    """A job spec for two players."""
    plan = misfit_plan(game, image="misfits:1", **config)
    players = tuple(seat.runnable for seat in plan.seats if seat.runnable is not None)
    request = JobSpec(manifest=plan.manifest, game_config=dict(plan.game_config), players=players)
    return request.model_dump(mode="json", by_alias=True, exclude_none=True)


def environment(directory: Path, document: Any = None) -> dict[str, str]:
    path = directory / "spec.json"
    path.write_text(json.dumps(spec() if document is None else document))
    return {
        "JOB_SPEC_URI": path.as_uri(),
        "COWORLD_WORKDIR": str(directory / "work"),
        "COGAME_CONFIG_URI": (directory / "work" / "config.json").as_uri(),
    }


async def test_config_and_tokens(tmp_path: Path) -> None:
    await init_config(environment(tmp_path))
    text = (tmp_path / "work" / "config.json").read_text()
    config = json.loads(text)
    assert config["behaviour"] == "well"
    assert text == json.dumps(config, indent=2) + "\n"
    state = json.loads((tmp_path / "work" / "state.json").read_text())
    assert state == {"tokens": config["tokens"]}
    assert len(set(state["tokens"])) == 2
    assert all(len(token) == 22 for token in state["tokens"])
    # Once more in the same pod: a game that has read its config goes on with it
    await init_config(environment(tmp_path))
    assert json.loads((tmp_path / "work" / "config.json").read_text()) == config


async def test_the_tokens_may_be_kept_apart_from_the_game(tmp_path: Path) -> None:
    await init_config({**environment(tmp_path), "COWORLD_STATE_DIR": str(tmp_path / "private")})
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == ["config.json"]
    assert len(read_tokens(tmp_path / "private" / "state.json", 2)) == 2


async def test_the_config_may_go_to_a_server(tmp_path: Path) -> None:
    async with serve_site(PutServer()) as server:
        await init_config({**environment(tmp_path), "COGAME_CONFIG_URI": f"{server.url}/config"})
        [done] = server.puts
    assert done.content_type == "application/json"
    assert json.loads(done.body)["behaviour"] == "well"


@pytest.mark.parametrize("missing", ["JOB_SPEC_URI", "COGAME_CONFIG_URI"])
async def test_missing_variables_are_named(tmp_path: Path, missing: str) -> None:
    environ = environment(tmp_path)
    del environ[missing]
    with pytest.raises(UsageError, match=missing):
        await init_config(environ)


async def test_a_config_that_breaks_the_schema(tmp_path: Path) -> None:
    with pytest.raises(ManifestError):
        await init_config(environment(tmp_path, {**spec(), "game_config": {"players": 7}}))
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"tokens": "ab"}', '{"tokens": ["a"]}', '{"tokens": ["a", ""]}', '{"tokens": [1, 2]}'],
)
def test_malformed_state_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(UsageError) as caught:
        read_tokens(tmp_path / "state.json", 2)
    assert caught.value.code == "state_invalid"


def test_missing_state_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read_tokens(tmp_path / "state.json", 2)
    assert caught.value.code == "state_missing"


# --- the health port ------------------------------------------------------------------------------------------------


async def test_the_health_port_is_open_as_long_as_it_is_held() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        number = probe.getsockname()[1]
    async with health_port(number):
        for _ in range(20):
            async with await anyio.connect_tcp("127.0.0.1", number) as stream:
                with pytest.raises(anyio.EndOfStream):
                    await stream.receive()
        with pytest.raises(EnvironmentFault) as caught:
            async with health_port(number):
                pass
        assert caught.value.code == "health_port_taken"
    with pytest.raises(OSError, match="connect"):
        await anyio.connect_tcp("127.0.0.1", number)


# --- the program ----------------------------------------------------------------------------------------------------


def worker(*arguments: str, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the worker as a program, with this environment alone."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-m", "coworld_runner.worker", *arguments],
        env={**kept, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def test_the_program_prepares(tmp_path: Path) -> None:
    done = worker("init-config", environ=environment(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert (tmp_path / "work" / "state.json").exists()


def test_the_program_says_what_went_wrong_where_it_was_told_to(tmp_path: Path) -> None:
    error = tmp_path / "error.json"
    done = worker("init-config", environ={**environment(tmp_path, {"manifest": {}}), "ERROR_INFO_URI": str(error)})
    assert done.returncode == 1
    assert json.loads(error.read_text())["error_type"] == "crash"
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_run_reports_errors_as_init_config_does(tmp_path: Path) -> None:
    error = tmp_path / "error.json"
    done = worker("run", environ={"ERROR_INFO_URI": error.as_uri(), "JOB_ID": "x"})
    assert done.returncode == 1
    document = json.loads(error.read_text())
    assert document["error_type"] == "crash"
    assert "JOB_SPEC_URI" in document["message"]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [(), ("fly",), ("run", "away")])
def test_a_wrong_command_line(arguments: tuple[str, ...]) -> None:
    assert worker(*arguments, environ={}).returncode == 2
