"""``coworld build``."""

from __future__ import annotations

from pathlib import Path

import click

from .. import exitcodes
from ..output import Output, output_options

__all__ = ["command"]

_FILE = click.Path(path_type=Path)


@click.command("build")
@click.argument("where", nargs=-1, metavar="[DIR | COMPOSE TEMPLATE VERSION OUTPUT]")
@click.option(
    "--version", metavar="VERSION", help="PEP 440 version. Default: that of the manifest built before, or 0.1.0."
)
@click.option("--project", type=_FILE, metavar="DIR", help="The package's directory, as DIR.  [default: .]")
@click.option("--compose", type=_FILE, metavar="FILE", help="The compose file. Default: the one in DIR or above it.")
@click.option("--template", type=_FILE, metavar="FILE", help="Default: coworld_manifest_template.json in DIR.")
@click.option(
    "--output",
    "-o",
    type=_FILE,
    metavar="FILE",
    help="The manifest to write. Default: coworld_manifest.json in DIR; dist/coworld_manifest.json when --version is "
    "given without DIR.",
)
@click.option("--resolve-mutable-images", is_flag=True, help="Pin images of a registry to their digest.")
@click.option("--platform", metavar="OS/ARCH", help="Platform to build for. Default: as the compose file says.")
@click.option("--build-arg", "build_args", multiple=True, metavar="NAME=VALUE", help="Build argument; repeatable.")
@click.option("--no-cache", is_flag=True, help="Do every build step again.")
@click.option("--parallel", type=click.IntRange(min=1), metavar="K", help="How many images at a time.")
@output_options
def command(
    out: Output,
    where: tuple[str, ...],
    version: str | None,
    project: Path | None,
    compose: Path | None,
    template: Path | None,
    output: Path | None,
    resolve_mutable_images: bool,
    platform: str | None,
    build_args: tuple[str, ...],
    no_cache: bool,
    parallel: int | None,
) -> int:
    """Build a Coworld's images and write its manifest.

    DIR holds a compose file and a template, whose {{SERVICE_IMAGE}} placeholders become the images of the services,
    each named by its content. The engine builds; no compose plugin is needed, and a base image that is on this machine
    is never asked of a registry.

    \b
    Examples:
      coworld build examples/paintarena
      coworld build examples/paintarena --version 1.2.0 --platform linux/amd64
      coworld build compose.yaml coworld_manifest_template.json 1.2.0 coworld_manifest.json
    """  # noqa: D301 (click reads the backspace)
    ctx = click.get_current_context()
    if len(where) == 4:
        named = {"--version": version, "--project": project, "--compose": compose}
        named.update({"--template": template, "--output": output})
        if twice := [name for name, value in named.items() if value is not None]:
            raise click.UsageError(f"With COMPOSE TEMPLATE VERSION OUTPUT there is nothing left for {twice[0]}.", ctx)
        compose, template, version, output = Path(where[0]), Path(where[1]), where[2], Path(where[3])
    elif len(where) == 1:
        if project is not None:
            raise click.UsageError("DIR and --project are the same; give one of them.", ctx)
        project = Path(where[0])
    elif not where:
        if version is not None and output is None:
            output = (project or Path()) / "dist" / "coworld_manifest.json"
        project = project or Path()
    else:
        raise click.UsageError(f"Give DIR, or all of COMPOSE TEMPLATE VERSION OUTPUT, not {len(where)} of them.", ctx)
    if bad := [item for item in build_args if not item.partition("=")[0] or "=" not in item]:
        raise click.UsageError(f"--build-arg {bad[0]!r} is not NAME=VALUE.", ctx)
    arguments = {name: value for name, _, value in (item.partition("=") for item in build_args)}

    from coworld_runner.build import build_coworld

    from ..issues import render_issue
    from ..progress import show_progress
    from ..render import build_result
    from ..running import Running, run_async
    from ..text import command_line, shown_path

    async def build(running: Running) -> int:
        with show_progress(running, "build") as progress:
            result = await build_coworld(
                project,
                compose=compose,
                template=template,
                version=version,
                output=output,
                resolve_mutable=resolve_mutable_images,
                platform=platform,
                build_args=arguments,
                no_cache=no_cache,
                parallel=parallel,
                publish=progress,
            )
        for issue in result.report.issues:
            out.note(render_issue(result.report.source, issue))
        out.answer(
            {
                "ok": True,
                "manifest": str(result.manifest_path),
                "coworld": result.manifest.game.name,
                "version": result.version,
                "seconds": round(result.seconds, 3),
                "images": [
                    {
                        "image": image.image,
                        "reference": image.reference,
                        "digest": image.digest,
                        "platform": image.platform,
                        "service": image.service,
                        "seconds": round(image.seconds, 3),
                    }
                    for image in result.images.values()
                ],
                "report": result.report.model_dump(mode="json"),
            }
        )
        path = shown_path(result.manifest_path)
        follow_ups = (
            command_line("run-episode", path, "--backend", "docker"),
            command_line("certify", path),
        )
        out.say(build_result(result, follow_ups=follow_ups))
        return exitcodes.OK

    return run_async(out, build)
