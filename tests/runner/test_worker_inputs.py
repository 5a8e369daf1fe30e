"""What the hosted worker reads from its environment."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coworld_core.errors import UsageError
from coworld_runner.worker.worker_settings import read_outputs, read_secrets, read_settings

NEEDED = {
    "JOB_SPEC_URI": "https://store/spec.json?signature=abc",
    "JOB_ID": "job-1",
    "JOB_NAMESPACE": "arena",
    "COWORLD_SERVICE_NAME": "game-1",
    "POD_NAME": "game-1-xyz",
    "POD_UID": "0b8c",
}


def test_defaults_are_the_published_ones() -> None:
    settings = read_settings(dict(NEEDED))
    assert str(settings.workdir) == "/coworld"
    assert settings.state_dir == settings.workdir
    assert (settings.game_port, settings.health_port, settings.timeout) == (8080, 9090, 3600)
    assert (settings.players.cpu_request, settings.players.memory_request) == ("2", "2Gi")
    assert settings.players.pull_policy is None
    assert settings.artifact_window == 30
    assert settings.on_player_failure == "stop"
    assert settings.secrets_uri is None
    assert read_outputs(NEEDED).results is None


def test_all_variables_are_read() -> None:
    environ = {
        **NEEDED,
        "JOB_NAME": "coworld-1",
        "COWORLD_WORKDIR": "/episode",
        "COWORLD_STATE_DIR": "/private",
        "COGAME_PORT": "9000",
        "COWORLD_WORKER_HEALTH_PORT": "9191",
        "COWORLD_TIMEOUT_SECONDS": "1200",
        "COWORLD_WORKLOAD_TYPE": "games",
        "COWORLD_CAPACITY_TYPE": "spot",
        "COWORLD_PLAYER_CPU_REQUEST": "250m",
        "COWORLD_PLAYER_MEMORY_REQUEST": "256Mi",
        "COWORLD_PLAYER_CPU_LIMIT": "1",
        "COWORLD_PLAYER_MEMORY_LIMIT": "1Gi",
        "COWORLD_PLAYER_IMAGE_PULL_POLICY": "Never",
        "POLICY_SECRETS_URI": "https://store/secrets",
        "PLAYER_ARTIFACT_UPLOAD_URLS": '{"0": "https://store/a0", "11": "https://store/a11"}',
        "POLICY_LOG_URLS": '{"3": "https://store/l3"}',
        "COWORLD_BEDROCK_REGION": "us-east-1",
        "BEDROCK_REQUEST_METADATA": '{"a": 1}',
        "RESULTS_URI": "https://store/r",
        "REPLAY_URI": "https://store/z",
        "DEBUG_URI": "https://store/d",
        "ERROR_INFO_URI": "https://store/e",
        "WORKER_TIMINGS_URI": "https://store/t",
        "EPISODE_RECORD_URI": "https://store/j",
    }
    settings, outputs = read_settings(environ), read_outputs(environ)
    assert settings.job_name == "coworld-1"
    assert str(settings.state_dir) == "/private"
    assert settings.game_port == 9000
    assert settings.health_port == 9191
    assert settings.timeout == 1200
    assert settings.players.workload_type == "games"
    assert settings.players.capacity_type == "spot"
    assert settings.players.cpu_limit == "1"
    assert settings.players.pull_policy == "Never"
    assert settings.players.bedrock_metadata == {"a": 1}
    assert settings.secrets_uri == "https://store/secrets"
    assert settings.artifact_urls == {0: "https://store/a0", 11: "https://store/a11"}
    assert outputs.policy_logs == {3: "https://store/l3"}
    assert (outputs.results, outputs.replay, outputs.debug) == ("https://store/r", "https://store/z", "https://store/d")
    assert (outputs.error_info, outputs.timings, outputs.record) == (
        "https://store/e",
        "https://store/t",
        "https://store/j",
    )
    # Nothing that is started later inherits it
    assert "POLICY_SECRETS_URI" not in environ
    # Addresses carry signatures
    assert "store" not in repr(settings)
    assert "store" not in repr(outputs)


def test_pods_of_players_are_overlaid() -> None:
    template = {"spec": {"hostNetwork": True}}
    told = {**NEEDED, "COWORLD_PLAYER_PODS": json.dumps(template), "COWORLD_PRIVILEGED_PODS": "1"}
    assert read_settings(told).players.overlay.template("player") == template
    with pytest.raises(UsageError, match=r"COWORLD_PLAYER_PODS cannot be laid over pods: .*its host's network"):
        read_settings({**told, "COWORLD_PRIVILEGED_PODS": "0"})


def test_all_missing_variables_are_named_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        read_settings({"JOB_ID": "x", "POD_NAME": "y"})
    assert caught.value.code == "environment_incomplete"
    assert caught.value.context["missing"] == ["JOB_SPEC_URI", "JOB_NAMESPACE", "COWORLD_SERVICE_NAME", "POD_UID"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("JOB_ID", "not a label"),
        ("JOB_ID", "x" * 64),
        ("JOB_NAMESPACE", "Arena"),
        ("COWORLD_SERVICE_NAME", "1st"),
        ("COWORLD_SERVICE_NAME", "a.b"),
        ("COGAME_PORT", "0"),
        ("COGAME_PORT", "http"),
        ("COWORLD_WORKER_HEALTH_PORT", "65536"),
        ("COWORLD_TIMEOUT_SECONDS", "soon"),
        ("COWORLD_TIMEOUT_SECONDS", "0"),
        ("COWORLD_TIMEOUT_SECONDS", "nan"),
        ("COWORLD_PLAYER_CPU_REQUEST", "much"),
        ("COWORLD_PLAYER_MEMORY_REQUEST", "1m"),
        ("COWORLD_PLAYER_IMAGE_PULL_POLICY", "Sometimes"),
        ("COWORLD_ON_PLAYER_FAILURE", "cry"),
        ("PLAYER_ARTIFACT_UPLOAD_URLS", "[]"),
        ("PLAYER_ARTIFACT_UPLOAD_URLS", '{"one": "https://store"}'),
        ("POLICY_LOG_URLS", '{"0": 1}'),
        ("POLICY_LOG_URLS", "{"),
        ("BEDROCK_REQUEST_METADATA", '"x"'),
        ("COWORLD_PLAYER_PODS", "[]"),
        ("COWORLD_PLAYER_PODS", '{"spec": {"nodeSelektor": {}}}'),
        ("COWORLD_PLAYER_PODS", '{"spec": {"hostNetwork": true}}'),
        ("COWORLD_PRIVILEGED_PODS", "yes"),
    ],
)
def test_invalid_variable_is_refused(name: str, value: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_settings({**NEEDED, name: value})
    assert caught.value.code == "environment_invalid"
    assert caught.value.context["variable"] == name
    assert caught.value.message.startswith(name)


def test_error_destination_is_read_despite_other_errors() -> None:
    assert read_outputs({"POLICY_LOG_URLS": "nonsense", "ERROR_INFO_URI": "/tmp/e"}).error_info == "/tmp/e"


def test_secrets() -> None:
    document = {"policies": {"1": {"KEY": "a b$c"}, "0": {}}}
    assert read_secrets(json.dumps(document).encode(), 2) == {0: {}, 1: {"KEY": "a b$c"}}


@pytest.mark.parametrize(
    "document",
    [
        b"hunter2",
        b"[]",
        b"{}",
        b'{"policies": []}',
        b'{"policies": {"x": {}}}',
        b'{"policies": {"2": {"KEY": "hunter2"}}}',
        b'{"policies": {"0": {"hunter2 ": "hunter2"}}}',
        b'{"policies": {"0": {"COWORLD_PLAYER_WS_URL": "hunter2"}}}',
        b'{"policies": {"0": {"KEY": 1}}}',
        b'{"policies": {"0": {"KEY": "hunter2\\u0000"}}}',
        b'{"policies": {"0": "hunter2"}}',
    ],
)
def test_malformed_secrets_are_refused_and_never_shown(document: bytes) -> None:
    with pytest.raises(UsageError) as caught:
        read_secrets(document, 2)
    assert caught.value.code == "secrets_invalid"
    shown: list[Any] = [caught.value.message, caught.value.hint, caught.value.context, caught.value.__cause__]
    assert "hunter2" not in repr(shown)
