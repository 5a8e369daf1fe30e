"""AWS credentials for players that call models on Bedrock, as the published runner passes them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence

import anyio

from coworld_core.errors import EnvironmentFault
from coworld_core.hints import Hint

__all__ = ["bedrock_environment"]

_TIMEOUT = 60.0
"""Seconds to wait for the AWS command line; a profile may have to query a sign-in service."""

_SIGN_IN = Hint("aws_sign_in", "Sign in first (aws sso login), or pass another profile.")


async def bedrock_environment(
    *, environment: Mapping[str, str], profile: str | None = None, region: str | None = None
) -> dict[str, str]:
    """Get the variables that a player needs for Bedrock from the AWS command line.

    Args:
        environment: The variables to look up `AWS_REGION` and `AWS_DEFAULT_REGION` in.
        profile: A profile of the AWS configuration; None: the default.
        region: The region; None: from the environment, otherwise from the AWS configuration.

    Returns:
        `USE_BEDROCK`, the credentials and the region, all of which are secret.

    Raises:
        EnvironmentFault: The AWS command line is not installed, has no credentials, or there is no region.
    """
    chosen = ["--profile", profile] if profile else []
    answer = await _aws(["configure", "export-credentials", "--format", "process", *chosen])
    try:
        data = json.loads(answer)
        keys = {"AWS_ACCESS_KEY_ID": data["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": data["SecretAccessKey"]}
        token = data.get("SessionToken")
    except (ValueError, KeyError, TypeError, AttributeError):
        # The answer may contain secrets, so it is not shown, and the cause is not chained
        raise EnvironmentFault(
            "The AWS command line returned no credentials (AccessKeyId and SecretAccessKey).",
            code="aws_credentials_missing",
            hint=_SIGN_IN,
        ) from None
    region = region or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if not region:
        try:
            region = (await _aws(["configure", "get", "region", *chosen])).strip()
        except EnvironmentFault:
            region = ""
    if not region:
        raise EnvironmentFault(
            "No AWS region is known.",
            code="aws_region_missing",
            hint=Hint("aws_region", "Pass region, or set AWS_REGION."),
        )
    return {
        "USE_BEDROCK": "true",
        **{name: str(value) for name, value in keys.items()},
        **({"AWS_SESSION_TOKEN": str(token)} if token else {}),
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
    }


async def _aws(arguments: Sequence[str]) -> str:
    try:
        with anyio.fail_after(_TIMEOUT):
            done = await anyio.run_process(["aws", *arguments], stdin=subprocess.DEVNULL, check=False)
    except FileNotFoundError as error:
        raise EnvironmentFault(
            "The AWS command line (aws) is not installed, and credentials for Bedrock come from it.",
            code="aws_missing",
            hint=Hint("aws_variables", "Install it, or pass the variables as secret_env."),
        ) from error
    except TimeoutError as error:
        raise EnvironmentFault(
            f"`aws {' '.join(arguments[:2])}` did not answer within {_TIMEOUT:g} s.", code="aws_failed"
        ) from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise EnvironmentFault(
            f"`aws {' '.join(arguments[:2])}` failed: {said[-1] if said else f'exit status {done.returncode}'}",
            code="aws_credentials_missing",
            hint=_SIGN_IN,
        )
    return done.stdout.decode("utf-8", "replace")
