"""Whether what was played is what its record says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .. import exitcodes
from .._group import NounGroup
from ..event_loop import Running, run_async
from ..options.platform import server_option
from ..options.values import PathType
from ..output import Output, output_options

if TYPE_CHECKING:
    from coworld_runner.certification.verification import Verification, VerificationSummary

__all__ = ["commands", "key_option", "show_summary", "told", "trusted_keys"]

commands = NounGroup()

key_option = click.option(
    "--key",
    "keys",
    type=PathType(),
    multiple=True,
    metavar="FILE",
    help="A public key that you trust, or a directory of them; repeatable. Then each record must be signed by one.",
)


@commands.command("verify")
@click.argument("run", metavar="RUN")
@click.argument("package", required=False, metavar="[PACKAGE]")
@key_option
@server_option
@output_options
def verify(out: Output, run: str, package: str | None, keys: tuple[Path, ...], server: str | None) -> int:
    """Verify that a run is what its record says.

    Its files are compared with the digests in its record, and its game is played again from the replay: every tick,
    and the results. The answer is: the same; the first different tick; or that it cannot be played again, and why.

    RUN is the directory of an episode, of a run of many or of a certification; RUN/N, latest, a bundle, or an ereq_…
    id, whose bundle is downloaded. What comes with a run is never executed: the rules are those of PACKAGE or, without
    it, of the game that the record names elsewhere on this machine, if its manifest is still the same. A bundle names
    no game. Games that are not of the kit are played again by seats that send what was recorded (run --record frames).

    The exit status is 0 if it is the same, 1 if anything differs, and 4 if it cannot be played again, which elsewhere
    means that a server or what it serves is out of reach.
    """

    async def work(running: Running) -> int:
        from coworld_runner.certification.verification import holds_many, verify_many, verify_run

        from ..render.verifications import verification_text
        from .roles import fetched_bundles

        (place,), _ = await fetched_bundles([run], running, server=server, with_game=False)
        trusted = await trusted_keys(keys)
        if holds_many(place):
            return show_summary(out, await verify_many(place, game=package, trusted=trusted, tell=told(out)))
        found = await verify_run(place, game=package, trusted=trusted)
        out.answer(found.model_dump(mode="json"))
        out.say(verification_text(found))
        return exitcodes.for_verdict(found.verdict)

    return run_async(out, work)


async def trusted_keys(keys: tuple[Path, ...]) -> list[bytes] | None:
    """The public keys that are trusted; None: none was named."""
    if not keys:
        return None
    from anyio import to_thread

    from coworld_runner.certification import read_public_keys

    found = [await to_thread.run_sync(read_public_keys, key) for key in keys]
    return [key for several in found for key in several]


def told(out: Output) -> Any:
    """Narrate each verification that is not the same, and the count now and then."""
    from coworld_runner.certification.verification import ONLY_ROW

    from ..render.text import clean

    count = out.counted("episodes verified")

    def tell(found: Verification, done: int) -> None:
        if not found.ok and found.code != ONLY_ROW:
            out.note(clean(f"{found.run}: {found.reason}", one_line=True))
        count(done)

    return tell


def show_summary(out: Output, summary: VerificationSummary) -> int:
    """Show what came of many, and return the exit status."""
    from ..render.verifications import summary_text

    out.answer({"verdict": summary.verdict, **summary.model_dump(mode="json")})
    out.say(summary_text(summary))
    return exitcodes.for_verdict(summary.verdict)
