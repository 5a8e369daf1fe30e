"""``coworld upload-coworld``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from coworld_core import durations

from ..options import Seconds, backend_options
from ..output import Output, output_options
from ..platform_options import Connection, connection_options, id_type, key_values

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]


@click.command("upload-coworld")
@click.argument("manifest", required=False)
@click.option(
    "--from-coworld",
    type=id_type("coworld", names=True),
    metavar="COWORLD_ID | NAME",
    help="Change one that the platform has, rather than upload MANIFEST.",
)
@click.option("--version", metavar="VERSION", help="With --from-coworld: the new version.")
@click.option(
    "--patch", metavar="JSON | FILE", help="With --from-coworld: a JSON merge patch of the manifest; null deletes."
)
@click.option(
    "--image",
    "images",
    multiple=True,
    metavar="TARGET=IMAGE",
    help="With --from-coworld: another image for game, or for player, player.ID or player[N] (reporter, commissioner, "
    "grader, diagnoser, optimizer likewise); repeatable.",
)
@click.option(
    "--timeout-seconds",
    type=Seconds(least=1),
    default=durations.SMOKE_EPISODE,
    help=f"Deadline of the certification's episode.  [default: {durations.SMOKE_EPISODE:g}]",
)
@click.option(
    "--skip-certification", metavar="REASON", help="Upload it as it is, and say why. The platform may refuse it."
)
@click.option(
    "--wait-hosted-smoke/--no-wait-hosted-smoke",
    default=True,
    help="Wait for the platform's first episodes of it.  [default: wait]",
)
@click.option(
    "--hosted-smoke-timeout-seconds",
    type=Seconds(),
    default=durations.HOSTED_SMOKE,
    help=f"How long to wait.  [default: {durations.HOSTED_SMOKE:g}]",
)
@backend_options
@connection_options
@output_options
def command(
    out: Output,
    connection: Connection,
    manifest: str | None,
    from_coworld: str | None,
    version: str | None,
    patch: str | None,
    images: tuple[str, ...],
    **options: Any,
) -> int:
    """Certify and upload a Coworld, or a change to one.

    MANIFEST is the file that `coworld build` wrote, or the directory it is in. It is certified here first, and not
    uploaded if it fails. A version that the platform has already is said to be there.

    The exit status is 1 when it is not certified, or when one of the platform's first episodes failed.

    \b
    Examples:
      coworld upload-coworld examples/paintarena
      coworld upload-coworld --from-coworld paint-arena --image game=paintarena:new --version 1.2.1
    """  # noqa: D301 (click reads the backspace)
    if from_coworld is None:
        if manifest is None:
            raise click.UsageError("Missing argument 'MANIFEST'.", click.get_current_context())
        for name, value in (("--version", version), ("--patch", patch), ("--image", images)):
            if value:
                raise click.UsageError(f"{name} needs --from-coworld.")
    elif manifest is not None:
        raise click.UsageError("MANIFEST and --from-coworld exclude each other.")
    elif not (version or patch or images):
        raise click.UsageError("--from-coworld needs at least one of --version, --patch and --image.")
    skip: str | None = options["skip_certification"]
    if skip is not None and not skip.strip():
        raise click.UsageError("--skip-certification needs a reason.")
    edits = key_values("--image", images)

    from ..platform_input import read_patch

    merge = read_patch(patch) if patch is not None else None

    from ..platform_run import run_api
    from ..platform_uploads import CoworldUpload, upload_coworld

    upload = CoworldUpload(
        manifest=manifest or "",
        backend=options["backend"],
        platform=options["platform"],
        server=connection.server,
        source=from_coworld,
        version=version,
        patch=merge,
        images=edits,
        skip_certification=skip,
        timeout=options["timeout_seconds"],
        wait=options["hosted_smoke_timeout_seconds"] if options["wait_hosted_smoke"] else None,
    )

    async def body(api: CoworldClient, running: Running) -> int:
        return await upload_coworld(api, upload, running)

    return run_api(out, connection, body, changes=True)
