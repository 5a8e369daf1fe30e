"""``coworld upload-policy``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import exitcodes
from ..options import check_run
from ..output import Output, output_options
from ..platform_options import Connection, connection_options, key_values

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]


@click.command("upload-policy")
@click.argument("image")
@click.option("--name", "-n", required=True, metavar="NAME", help="What the policy is called.")
@click.option(
    "--run",
    multiple=True,
    metavar="TOKEN",
    help="Command of the image, one token each: --run python --run -m --run my_player.",
)
@click.option(
    "--secret-env",
    multiple=True,
    metavar="NAME",
    help="Give the policy this variable of your environment as a secret; repeatable.",
)
@click.option(
    "--secret-env-file",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    multiple=True,
    metavar="FILE",
    help="Give it the variables of a file (- for standard input) with a NAME=VALUE a line; repeatable.",
)
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="A tag of this version; repeatable.")
@click.option("--use-bedrock", is_flag=True, help="Let the policy use Bedrock on the platform.")
@click.option("--bedrock-model", metavar="MODEL", help="Which model; needs --use-bedrock.")
@connection_options
@output_options
def command(
    out: Output,
    connection: Connection,
    image: str,
    name: str,
    run: tuple[str, ...],
    secret_env: tuple[str, ...],
    secret_env_file: tuple[Path, ...],
    tags: tuple[str, ...],
    use_bedrock: bool,
    bedrock_model: str | None,
) -> int:
    """Upload a player image as a version of a policy.

    IMAGE is one that the Docker engine here has. What the platform has already is not sent again.

    \b
    Example:
      coworld upload-policy my-player:latest --name my-player --run python --run my_player.py
    """  # noqa: D301 (click reads the backspace)
    if bedrock_model and not use_bedrock:
        raise click.UsageError("--bedrock-model needs --use-bedrock.")
    check_run(run)
    labels = key_values("--tag", tags)

    from coworld_runner.secret_env import read_secret_env

    from ..platform_input import secret_files
    from ..platform_run import run_api
    from ..platform_uploads import PolicyUpload, upload_policy

    secrets = read_secret_env(secret_env, files=secret_files(secret_env_file), environment=os.environ)
    if secrets.exposed:
        out.warn(
            f"the value of {', '.join(secrets.exposed)} stood on the command line, where process lists and "
            "shell history show it. Use --secret-env NAME, or --secret-env-file."
        )
    bedrock = {"USE_BEDROCK": "true", **({"BEDROCK_MODEL": bedrock_model} if bedrock_model else {})}
    upload = PolicyUpload(
        image=image,
        name=name,
        run=run,
        secret_env={**(bedrock if use_bedrock else {}), **secrets.values},
        tags=labels,
    )

    async def body(api: CoworldClient, running: Running) -> int:
        await upload_policy(api, upload, running)
        return exitcodes.OK

    return run_api(out, connection, body, changes=True)
