"""Credentials for Bedrock, from a stand-in for the AWS command line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from coworld_core.errors import EnvironmentFault
from coworld_runner.episode.bedrock import bedrock_environment

SECRET = "do-not-show"
KEYS = {"AccessKeyId": "AK", "SecretAccessKey": SECRET}
Aws = Callable[..., Path]


@pytest.fixture
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Aws:
    """Write an `aws` that answers as told, and put it first on the path; returns the log of its calls."""

    def write(*, credentials: str = json.dumps(KEYS), region: str = "", status: int = 0, error: str = "") -> Path:
        for name, text in {"credentials": credentials, "region": region, "error": error}.items():
            (tmp_path / name).write_text(text)
        program = tmp_path / "aws"
        program.write_text(
            f'#!/bin/sh\ncd "{tmp_path}"\necho "$*" >> calls\ncat error >&2\n'
            f'case "$2" in get) cat region; test -s region; exit;; esac\ncat credentials\nexit {status}\n'
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        return tmp_path / "calls"

    return write


async def test_credentials_and_region_from_the_profile(aws: Aws) -> None:
    calls = aws(credentials=json.dumps({**KEYS, "SessionToken": "T"}), region="eu-north-1\n")
    assert await bedrock_environment(environment={}, profile="dev") == {
        "USE_BEDROCK": "true",
        "AWS_ACCESS_KEY_ID": "AK",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SESSION_TOKEN": "T",
        "AWS_REGION": "eu-north-1",
        "AWS_DEFAULT_REGION": "eu-north-1",
    }
    assert calls.read_text().splitlines() == [
        "configure export-credentials --format process --profile dev",
        "configure get region --profile dev",
    ]


@pytest.mark.parametrize(
    ("given", "environment", "region"),
    [
        ("a", {"AWS_REGION": "b", "AWS_DEFAULT_REGION": "c"}, "a"),
        (None, {"AWS_REGION": "b", "AWS_DEFAULT_REGION": "c"}, "b"),
        (None, {"AWS_DEFAULT_REGION": "c"}, "c"),
    ],
)
async def test_bedrock_region_precedence(given: str | None, environment: dict[str, str], region: str, aws: Aws) -> None:
    calls = aws(region="d")
    found = await bedrock_environment(environment=environment, region=given)
    assert found["AWS_REGION"] == found["AWS_DEFAULT_REGION"] == region
    assert "AWS_SESSION_TOKEN" not in found
    assert calls.read_text().count("\n") == 1


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ({"credentials": "{}"}, "aws_credentials_missing"),
        ({"credentials": f"[{json.dumps(SECRET)}]"}, "aws_credentials_missing"),
        ({"credentials": SECRET}, "aws_credentials_missing"),
        ({"status": 255, "error": "\nThe SSO session has expired.\n"}, "aws_credentials_missing"),
        ({"region": ""}, "aws_region_missing"),
    ],
)
async def test_missing_aws_setup_is_an_environment_fault(answers: dict[str, object], code: str, aws: Aws) -> None:
    aws(**answers)
    with pytest.raises(EnvironmentFault) as caught:
        await bedrock_environment(environment={})
    assert caught.value.code == code
    assert caught.value.hint
    assert SECRET not in str(caught.value.to_dict())
    if "error" in answers:
        assert "The SSO session has expired." in caught.value.message


async def test_missing_aws_command_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault) as caught:
        await bedrock_environment(environment={})
    assert caught.value.code == "aws_missing"
