"""Local packages: building, validating and certifying them, and the schemas of their documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from coworld_core import time_limits
from coworld_core.text import plural
from coworld_core.versions import Generation, Published

from .. import exitcodes
from .._group import NounGroup
from ..event_loop import Running, run_async
from ..manifest_fixes import fix_manifest, yes_option
from ..options.common import overwrite_option, seconds_option
from ..options.declarations import refuse_options, takes
from ..options.platform import server_for
from ..options.play_options import PackageOptions, manifest_argument, package_server_option
from ..options.values import DIRECTORY, FILE, PathType, key_values
from ..output import Output, output_options, to_json
from ..render.text import clean, command_line, shown_path
from ..terminal import echo

if TYPE_CHECKING:
    from coworld_core.issues import Report
    from coworld_core.manifest import Accepted
    from coworld_runner.build import BuildResult
    from coworld_runner.certification import Certification, CertifyOptions, DocumentName

__all__ = ["certify_here", "commands"]

commands = NounGroup()

_PATH = PathType()

_NAMES: tuple[DocumentName, ...] = (
    "manifest",
    "episode-request",
    "episode",
    "summary",
    "certification",
    "certificate",
    "event",
)


@commands.command("build")
@click.argument("where", nargs=-1, metavar="[DIR | COMPOSE TEMPLATE VERSION OUTPUT]")
@click.option(
    "--version", metavar="VERSION", help="PEP 440 version. Default: the version of the previous build, or 0.1.0."
)
@click.option("--project", type=_PATH, metavar="DIR", help="The package's directory, as DIR.  [default: .]")
@click.option("--compose", type=_PATH, metavar="FILE", help="The compose file. Default: the one in DIR or above it.")
@click.option(
    "--template",
    type=_PATH,
    metavar="FILE",
    help="Default: coworld_manifest_template.json in DIR, else the one JSON file there with placeholders.",
)
@click.option(
    "--service",
    metavar="NAME",
    help="Build only this service. Without a compose file, the name of the Dockerfile's image in placeholders. "
    "Default: the template's only placeholder.",
)
@click.option(
    "--output",
    "-o",
    type=_PATH,
    metavar="FILE",
    help="The manifest to write. Default: coworld_manifest.json in DIR; dist/coworld_manifest.json when --version is "
    "given without DIR.",
)
@click.option(
    "--for",
    "published",
    type=click.Choice(get_args(Published)),
    help="Write a manifest that this published version reads: without what it refuses and does not need.",
)
@click.option("--resolve-mutable-images", is_flag=True, help="Pin images of a registry to their digest.")
@click.option("--platform", metavar="OS/ARCH", help="Platform to build for. Default: the compose file's.")
@click.option("--build-arg", "build_args", multiple=True, metavar="NAME=VALUE", help="Build argument; repeatable.")
@click.option("--no-cache", is_flag=True, help="Repeat every build step.")
@click.option("--parallel", type=click.IntRange(min=1), metavar="K", help="Number of images to build at a time.")
@output_options
def build(
    out: Output,
    where: tuple[str, ...],
    version: str | None,
    project: Path | None,
    compose: Path | None,
    template: Path | None,
    service: str | None,
    output: Path | None,
    published: Published | None,
    resolve_mutable_images: bool,
    platform: str | None,
    build_args: tuple[str, ...],
    no_cache: bool,
    parallel: int | None,
) -> int:
    """Build a Coworld's images and write its manifest.

    DIR contains a compose file or a Dockerfile, and a template whose {{SERVICE_IMAGE}} placeholders are replaced by the
    images of the services, each named by its content. DIR may also be the template itself. The engine does the build;
    no compose plugin is needed, and base images on this machine are not looked up in a registry.
    """
    ctx = click.get_current_context()
    if len(where) == 4:
        named = {"--version": version, "--project": project, "--compose": compose}
        named.update({"--template": template, "--output": output})
        if twice := [name for name, value in named.items() if value is not None]:
            raise click.UsageError(f"{twice[0]} does not go with COMPOSE TEMPLATE VERSION OUTPUT.", ctx)
        compose, template, version, output = Path(where[0]), Path(where[1]), where[2], Path(where[3])
    elif len(where) == 1:
        if project is not None:
            raise click.UsageError("DIR and --project mean the same; give one of them.", ctx)
        project = Path(where[0])
    elif not where:
        if version is not None and output is None:
            output = (project or Path()) / "dist" / "coworld_manifest.json"
        project = project or Path()
    else:
        raise click.UsageError(f"Give DIR, or all of COMPOSE TEMPLATE VERSION OUTPUT, not {len(where)} of them.", ctx)
    arguments = key_values("--build-arg", build_args, form="NAME=VALUE")

    async def work(running: Running) -> int:
        from coworld_runner.build import build_coworld

        from ..render.issues import render_issue
        from ..render.progress import show_progress
        from ..render.results import build_result

        with show_progress(running, "build") as progress:
            result = await build_coworld(
                project,
                compose=compose,
                template=template,
                version=version,
                output=output,
                service=service,
                resolve_mutable=resolve_mutable_images,
                platform=platform,
                build_args=arguments,
                no_cache=no_cache,
                parallel=parallel,
                publish=progress,
                published=published,
            )
        for issue in result.report.issues:
            out.note(render_issue(result.report.source, issue))
        out.answer(_build_answer(result))
        path = shown_path(result.manifest_path)
        follow_ups = (
            command_line("run", path, "--backend", "docker"),
            command_line("certify", path),
        )
        out.say(build_result(result, follow_ups=follow_ups))
        return exitcodes.OK

    return run_async(out, work)


def _build_answer(result: BuildResult) -> dict[str, object]:
    from coworld_core.manifest import accepted_by

    return {
        "ok": True,
        "manifest": str(result.manifest_path),
        "coworld": result.manifest.game.name,
        "version": result.version,
        "accepted_by": str(accepted_by(result.manifest)),
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


@commands.command("validate")
@manifest_argument
@click.option(
    "--strict", is_flag=True, help="Accept only what `coworld build` writes: no older forms, no unknown keys."
)
@click.option(
    "--for",
    "published",
    type=click.Choice(get_args(Published)),
    help="Report as errors whatever this published version refuses.",
)
@click.option(
    "--output",
    "-o",
    type=FILE,
    metavar="FILE",
    help="With --fix: write a new file, and leave MANIFEST as it is. It is then also without what the "
    "version of --for refuses and does not need.",
)
@overwrite_option
@click.option("--fix", is_flag=True, help="Fix whatever has exactly one right answer, after showing it.")
@yes_option
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="error",
    show_default=True,
    help="Lowest severity for which the check fails.",
)
@package_server_option
@output_options
def validate(
    out: Output,
    manifest: str,
    strict: bool,
    published: Published | None,
    output: Path | None,
    overwrite: bool,
    fix: bool,
    yes: bool,
    fail_on: str,
    server: str | None,
) -> int:
    """Check a manifest and list everything that is wrong with it.

    MANIFEST is a file, a directory that holds one, a file:// or http(s):// address, or a cow_… id. Templates are
    checked, too, and their placeholders are accepted.

    Every issue is written as file:line:column: severity[code] message (pointer). The exit status is 1 if there are
    errors.

    --fix converts older forms and corrects misspelt keys; order, spaces and line endings stay as they are. Anything
    that would lose a value is left to you, and listed.
    """
    if fix:
        refuse_options({"server"}, "does not go with --fix, which changes a file of this machine.")
        warnings = fail_on == "warning"
        return fix_manifest(
            out, Path(manifest), yes=yes, to=output, overwrite=overwrite, published=published, warnings=warnings
        )
    refuse_options({"yes", "output", "overwrite"}, "goes with --fix.")
    from coworld_core.errors import ManifestError
    from coworld_core.manifest import accepted_by
    from coworld_runner.package import resolve_package

    from ..render.issues import render_report

    about = ""
    accepted: Accepted | None = None

    async def check(_: Running) -> Report:
        nonlocal about, accepted
        try:
            package = await resolve_package(
                manifest,
                mode="strict" if strict or published else "read",
                server=_api_address(server_for(manifest, server)),
                published=published,
            )
        except ManifestError as error:
            return error.report
        game = package.manifest.game
        parts = [
            plural(len(package.manifest.player), "player"),
            plural(len(package.manifest.variants), "variant"),
            "a template" if package.is_template else "",
        ]
        accepted = accepted_by(package.manifest)
        about = clean(f"{game.name} {game.version}: {', '.join(filter(None, parts))}", one_line=True)
        about += f"; for coworld {accepted}"
        return package.report

    report = run_async(out, check)
    ok = report.ok and not (fail_on == "warning" and report.warnings)
    out.answer(
        {
            "ok": ok,
            "errors": len(report.errors),
            "warnings": len(report.warnings),
            "accepted_by": str(accepted) if accepted is not None else None,
            **report.model_dump(mode="json"),
        }
    )
    if report.issues:
        out.say(render_report(report))
    if ok and not out.json:
        word = click.style("ok:", fg="green", bold=True)
        echo(f"{word} {shown_path(report.source)} ({about})" if about else f"{word} {shown_path(report.source)}")
    return exitcodes.OK if ok else exitcodes.ANSWER_IS_NO


def _api_address(server: str | None) -> str | None:
    """The base address of a server's API, for requests without the client."""
    if server is None:
        return None
    bare = server.rstrip("/")
    return bare if bare.endswith(("/api", "/observatory")) else f"{bare}/observatory"


@commands.command("certify")
@manifest_argument
@click.option(
    "--output-dir",
    "-o",
    type=DIRECTORY,
    metavar="DIR",
    help="New or empty directory for the evidence. Default: a fresh one under results/certification/.",
)
@click.option("--overwrite", is_flag=True, help="Remove what an earlier run left in the output directory first.")
@takes("options", PackageOptions, without=("manifest",))
@seconds_option("--timeout-seconds", time_limits.SMOKE_EPISODE, "Deadline of the smoke episode.", least=1)
@click.option("--offline", is_flag=True, help="Do not ask GitHub whether sources exist.")
@click.option(
    "--for",
    "published",
    type=click.Choice(get_args(Generation)),
    help="Certify by the rules of this published version: which manifests it takes, and how it hands games a replay.",
)
@click.option(
    "--browser/--no-browser",
    "browser",
    default=True,
    help="Look at the pages in a headless browser, if one is installed.  [default: browser]",
)
@click.option("--sign-with", type=FILE, metavar="FILE", help="Sign the certificate with this private key.")
@click.option(
    "--authority", default="", metavar="NAME", help="Who certifies, in the certificate. Default: your account's name."
)
@click.option(
    "--open-report/--no-open-report",
    "open_browser",
    default=None,
    help="Open the report in a browser. Default: only from a terminal with a desktop.",
)
@output_options
def certify(
    out: Output,
    options: PackageOptions,
    manifest: str,
    output_dir: Path | None,
    overwrite: bool,
    timeout_seconds: float,
    offline: bool,
    published: Generation | None,
    sign_with: Path | None,
    authority: str,
    browser: bool,
    open_browser: bool | None,
) -> int:
    """Check step by step that a Coworld follows the runtime contract.

    MANIFEST is a file, a directory that holds one, a file:// or http(s):// address, or a cow_… id.

    For a game made with the kit, its rules are audited in a further step.

    A failed step does not end the certification: whatever can still be checked is checked. The result is written as
    certification.json and, for people, as certification.html; certificate.json says what was certified and by whom
    (`coworld certificate verify`). The exit status is 1 if the Coworld is not certified.
    """
    from coworld_runner.certification import CertifyOptions, read_signing_key

    subject = options.but(manifest=manifest)
    how = CertifyOptions.within(
        timeout_seconds,
        offline=offline,
        platform=options.platform,
        published=published,
        authority=authority,
        # Before anything runs: a wrong key is said at once
        signer=read_signing_key(sign_with.expanduser()) if sign_with is not None else None,
        browser=browser,
    )
    place = output_dir.expanduser().absolute() if output_dir is not None else None

    async def work(running: Running) -> int:
        from ..browser import open_page, wants_browser
        from ..render.certification import verdict_text

        certification = await certify_here(subject, running, how, workspace=place, overwrite=overwrite)
        paths = certification.paths
        out.answer(
            {
                "workspace": str(certification.workspace),
                "paths": {name: str(path) if path is not None else None for name, path in paths.items()},
                "ok": certification.ok,
                **certification.model_dump(mode="json", by_alias=True),
            }
        )
        out.say(verdict_text(certification, manifest=manifest, backend=subject.backend_options()))
        if wants_browser(open_browser) and paths["report"] is not None:
            await open_page(paths["report"].as_uri(), out)
        return exitcodes.OK if certification.ok else exitcodes.ANSWER_IS_NO

    return run_async(out, work)


async def certify_here(
    options: PackageOptions,
    running: Running,
    how: CertifyOptions,
    *,
    workspace: Path | None = None,
    overwrite: bool = False,
) -> Certification:
    """Certify a Coworld, and show the progress.

    Args:
        options: Which Coworld, and where it runs.
        running: The command.
        how: How to certify it.
        workspace: Directory for the evidence; None: a fresh one among the package's results.
        overwrite: Whether to empty the directory first.
    """
    from coworld_core.errors import ManifestError
    from coworld_runner.certification import certify, certify_refused

    from ..render.progress import show_progress
    from ..run_preparation import find_package, opened_backend

    try:
        package = await find_package(options, running)
    except ManifestError as error:
        with show_progress(running, options.manifest) as progress:
            return await certify_refused(error, workspace=workspace, overwrite=overwrite, listeners=(progress,))
    async with opened_backend(options, package, running) as backend:
        with show_progress(running, package.manifest.game.name) as progress:
            return await certify(
                package,
                backend=backend,
                options=how,
                workspace=workspace,
                overwrite=overwrite,
                listeners=(progress,),
                episode_listeners=(progress,),
            )


@commands.command("schema")
@click.argument("name", type=click.Choice(_NAMES), metavar="NAME")
@click.option("--output", "-o", type=FILE, metavar="FILE", help="Write it to this file instead of printing it.")
@output_options
def schema(out: Output, name: DocumentName, output: Path | None) -> int:
    """Print the JSON Schema of a document.

    NAME is one of:

    \b
    manifest         coworld_manifest.json
    episode-request  the file that `coworld run` accepts instead of players
    episode          episode.json, the record of an episode
    summary          summary.json, several episodes
    certification    certification.json
    certificate      certificate.json
    event            one line of events.ndjson
    """  # noqa: D301 (click reads the backspace)
    from coworld_runner.certification import document_schema

    document = document_schema(name)
    if output is None:
        # A schema is JSON whether --json was given or not
        echo(to_json(document), nl=False)
        return exitcodes.OK
    from coworld_core.errors import UsageError

    try:
        output.write_text(to_json(document), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}.", code="path_unwritable") from error
    out.answer({"schema": name, "path": str(output.absolute())})
    out.say(f"Wrote {shown_path(output)}.")
    return exitcodes.OK
