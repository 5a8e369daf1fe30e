"""Certificates: checking one, and making the keys that sign them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import exitcodes
from .._group import NounGroup
from ..event_loop import Running, run_async
from ..options.declarations import takes
from ..options.play_options import PackageOptions
from ..options.values import FILE, PathType
from ..output import Output, output_options
from ..render.results import labelled, next_commands
from ..render.text import command_line, shown_path

if TYPE_CHECKING:
    from coworld_runner.certification import CheckedCertificate

__all__ = ["commands"]

commands = NounGroup()


@commands.group("certificate", cls=NounGroup)
def certificate() -> None:
    """Verify certificates, and make keys that sign them.

    `coworld certify` leaves a certificate.json: what was certified, by digest, with which outcome, when and by whom.
    """


@certificate.command("verify")
@click.argument("path", type=PathType(), metavar="CERTIFICATE")
@click.argument("manifest", required=False, metavar="[PACKAGE]")
@click.option(
    "--key",
    "keys",
    type=PathType(),
    multiple=True,
    metavar="FILE",
    help="A public key that you trust, or a directory of them; repeatable. Then the certificate must be signed by one.",
)
@takes("options", PackageOptions, without=("manifest", "env", "build", "install"))
@output_options
def verify(out: Output, options: PackageOptions, path: Path, manifest: str | None, keys: tuple[Path, ...]) -> int:
    """Check that a certificate holds.

    CERTIFICATE is a certificate.json, or the directory of a certification. Checked are its own digests, its signature,
    and the certification.json beside it.

    With PACKAGE, it is also compared with that Coworld as it is now: every file, image and value of the manifest that
    has changed is named. Images are looked up where they were certified, unless --backend says otherwise.

    The exit status is 1 if anything does not hold, or if no degree was conferred.
    """

    async def work(running: Running) -> int:
        from anyio import to_thread

        from coworld_runner.certification import check_certificate, find_certificate, needs_images, read_public_keys

        from ..render.certification import certificate_text
        from ..run_preparation import find_package, opened_backend

        found = [await to_thread.run_sync(read_public_keys, key) for key in keys]
        trusted = [key for several in found for key in several] if keys else None
        if manifest is None:
            checked = await check_certificate(path, trusted=trusted)
        else:
            subject = options.but(manifest=manifest)
            package = await find_package(subject, running)
            _, about, _ = await to_thread.run_sync(find_certificate, path)
            if needs_images(about):
                if subject.backend == "auto":
                    subject = subject.but(backend=about.backend)
                async with opened_backend(subject, package, running) as backend:
                    checked = await check_certificate(path, package, backend=backend, trusted=trusted)
            else:
                checked = await check_certificate(path, package, trusted=trusted)
        out.answer(_answer(checked))
        out.say(certificate_text(checked))
        return exitcodes.OK if checked.ok else exitcodes.ANSWER_IS_NO

    return run_async(out, work)


def _answer(checked: CheckedCertificate) -> dict[str, object]:
    return {
        "ok": checked.ok,
        "errors": len(checked.report.errors),
        "warnings": len(checked.report.warnings),
        **checked.report.model_dump(mode="json"),
        "certificate": checked.certificate.model_dump(mode="json"),
    }


@certificate.command("keygen")
@click.argument("path", type=FILE, metavar="FILE")
@output_options
def keygen(out: Output, path: Path) -> int:
    """Make a pair of keys for signing certificates.

    FILE gets the private key, which only you can read; keep it to yourself. FILE.pub gets the public key, for everyone
    who is to check your certificates. Existing files are never replaced.
    """
    path = path.expanduser()
    whole = str(path.absolute())

    async def work(_: Running) -> int:
        from anyio import to_thread

        from coworld_runner.certification import make_key, public_path

        key = await to_thread.run_sync(make_key, path)
        public = public_path(path)
        out.answer({"private": whole, "public": f"{whole}{public.suffix}", "key_id": key.key_id})
        rows = [
            ("Private key", f"{shown_path(path)} (keep it to yourself)"),
            ("Public key", shown_path(public)),
            ("Key id", key.key_id),
        ]
        follow_up = f"{command_line('certify')} PACKAGE --sign-with {shown_path(path)}"
        out.say(f"{labelled(rows, indent='')}\n\n{next_commands([follow_up])}")
        return exitcodes.OK

    return run_async(out, work)
