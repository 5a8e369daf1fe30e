"""``coworld validate``."""

from __future__ import annotations

import click

from .. import exitcodes
from ..options import manifest_argument, server_option
from ..output import Output, output_options
from ..platform_options import api_address

__all__ = ["command"]


@click.command("validate")
@manifest_argument
@click.option("--strict", is_flag=True, help="Allow only what `coworld build` writes: nothing old, nothing unknown.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="error",
    show_default=True,
    help="From which severity on the answer is no.",
)
@server_option
@output_options
def command(out: Output, manifest: str, strict: bool, fail_on: str, server: str) -> int:
    """Check a manifest and list everything that is wrong with it.

    MANIFEST is a file, a directory that holds one, a file:// or http(s):// address, or a cow_… id. A template is
    checked too, its placeholders left as they are.

    Every issue is written as file:line:column: severity[code] message (pointer). The exit status is 1 when there are
    errors.
    """
    from coworld_core.errors import ManifestError
    from coworld_core.issues import Report
    from coworld_runner.packages import resolve_package

    from ..issues import render_report
    from ..running import Running, run_async
    from ..terminal import echo
    from ..text import clean, plural, shown_path

    about = ""

    async def check(_: Running) -> Report:
        nonlocal about
        try:
            package = await resolve_package(manifest, mode="strict" if strict else "read", server=api_address(server))
        except ManifestError as error:
            return error.report
        game = package.manifest.game
        parts = [
            plural(len(package.manifest.player), "player"),
            plural(len(package.manifest.variants), "variant"),
            "a template" if package.is_template else "",
        ]
        about = clean(f"{game.name} {game.version}: {', '.join(filter(None, parts))}", one_line=True)
        return package.report

    report = run_async(out, check)
    ok = report.ok and not (fail_on == "warning" and report.warnings)
    out.answer(
        {
            "ok": ok,
            "errors": len(report.errors),
            "warnings": len(report.warnings),
            **report.model_dump(mode="json"),
        }
    )
    if report.issues:
        out.say(render_report(report))
    if ok and not out.json:
        word = click.style("ok:", fg="green", bold=True)
        echo(f"{word} {shown_path(report.source)} ({about})" if about else f"{word} {shown_path(report.source)}")
    return exitcodes.OK if ok else exitcodes.ANSWER_IS_NO
