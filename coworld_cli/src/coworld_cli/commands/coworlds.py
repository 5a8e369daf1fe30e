"""Coworlds on a platform, with their images, secrets and hosted games."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coworld_core import time_limits
from coworld_core.text import plural, shown_size

from .. import exitcodes
from .._group import NounGroup
from ..event_loop import Running, run_api, run_async
from ..options.common import seconds_option
from ..options.declarations import refuse_options
from ..options.platform import Connection, Listing, label_filter, label_option, listing_options, platform_options
from ..options.values import DIRECTORY, INPUT_FILE, IdType
from ..output import Output
from ..render import tables
from ..render.rows import dump, show_list, show_one, show_rows
from ..render.text import clean, command_line, shown_path
from ..render.transfers import shown_progress
from .labels import warn_unlabelled

if TYPE_CHECKING:
    from coworld_client import CoworldClient
    from coworld_client.uploads import CoworldStatus

__all__ = ["commands", "wait_smoke"]

commands = NounGroup()

_START_TIMEOUT = 30.0
"""Seconds within which a platform that plays a Coworld's first episodes has created one."""


@commands.command("list")
@label_filter
@listing_options(200, offset=True, noun="Coworlds")
@platform_options
def list_(out: Output, connection: Connection, listing: Listing, labels: dict[str, str]) -> int:
    """List Coworlds."""

    async def body(api: CoworldClient, _: Running) -> int:
        pager = api.coworlds.list(labels=labels, limit=listing.limit, offset=listing.offset, cursor=listing.cursor)
        return await show_list(out, pager, tables.COWORLDS, listing, noun="Coworld")

    return run_api(out, connection, body)


@commands.command("show")
@click.argument("coworld", metavar="COWORLD")
@click.option("--doc", metavar="NAME", help="Show this document of the package: `readme`, a page, a protocol.")
@platform_options
def show(out: Output, connection: Connection, coworld: str, doc: str | None) -> int:
    """Show what a Coworld has.

    COWORLD is a manifest's file, a directory that holds one, or a file:// or http(s):// address: its seats, variants,
    players, roles and documents are shown. Of a cow_… id the platform's row is shown. This needs no login. The name of
    a platform's Coworld does, and stands for its canonical version.
    """
    from coworld_core.api import check_id, id_kind

    async def on_platform(api: CoworldClient, _: Running) -> int:
        return await show_one(out, api.coworlds.find(coworld), tables.coworld_details)

    if doc is None and id_kind(coworld) is not None:
        coworld = check_id(coworld, ("coworld",))
        return run_api(out, connection, on_platform, anonymous=True)
    if doc is None and re.fullmatch(r"[\w-]+", coworld) and not Path(coworld).exists():
        from coworld_client.errors import NotLoggedIn

        # Without a login it can only have been a path
        with suppress(NotLoggedIn):
            return run_api(out, connection, on_platform)
    return run_async(out, lambda _: _show_package(out, coworld, doc, connection.server))


async def _show_package(out: Output, named: str, doc: str | None, server: str | None) -> int:
    """Show a package, or one of its documents."""
    from coworld_runner.package import resolve_package

    from ..render.markdown import show_markdown
    from ..render.package_contents import document_answer, find_document, package_answer, package_text

    package = await resolve_package(named, server=server)
    if doc is None:
        out.answer(package_answer(package))
        out.say(package_text(package, named=named))
        return exitcodes.OK
    name, title, found = find_document(package.manifest, doc)
    out.answer(document_answer(name, title, found))
    show_markdown(clean(found.value), out)
    return exitcodes.OK


@commands.command("status")
@click.argument("coworld", type=IdType("coworld", names=True), metavar="COWORLD_ID | NAME")
@click.option(
    "--wait-hosted-smoke/--no-wait-hosted-smoke", default=False, help="Wait for the first hosted episodes to end."
)
@seconds_option("--hosted-smoke-timeout-seconds", time_limits.HOSTED_SMOKE, "Maximum time to wait.")
@platform_options
def status(
    out: Output, connection: Connection, coworld: str, wait_hosted_smoke: bool, hosted_smoke_timeout_seconds: float
) -> int:
    """Show a Coworld and how its hosted episodes went.

    A NAME stands for the canonical version. The exit status is 1 if one of them failed, or if they did not end in time.
    """
    if not wait_hosted_smoke:
        refuse_options({"hosted_smoke_timeout_seconds"}, "goes with --wait-hosted-smoke.")

    async def body(api: CoworldClient, running: Running) -> int:
        if wait_hosted_smoke:
            status = await wait_smoke(api, coworld, hosted_smoke_timeout_seconds, running)
        else:
            status = await api.coworlds.status(coworld)
        out.answer({"coworld": dump(status.coworld), **tables.smoke_answer(status)})
        out.say(tables.coworld_details(status.coworld))
        out.say(tables.smoke_text(status))
        failed = status.verdict == "failed" or (wait_hosted_smoke and status.verdict == "pending")
        return exitcodes.ANSWER_IS_NO if failed else exitcodes.OK

    return run_api(out, connection, body)


async def wait_smoke(api: CoworldClient, coworld: str, seconds: float, running: Running) -> CoworldStatus:
    """Wait until the platform's own episodes have ended, and report changes; give up if none is created."""
    running.so_far = f"The Coworld is on the platform as {coworld}."
    running.to_go_on = f"`coworld status {coworld} --wait-hosted-smoke` continues to wait."
    said = ""

    def tell(status: CoworldStatus) -> None:
        nonlocal said
        ended = sum(row.status.is_terminal for row in status.episodes)
        text = f"Hosted episodes: {ended} of {len(status.episodes)} ended." if status.episodes else ""
        if text and text != said:
            running.out.note(text)
            said = text

    return await api.coworlds.wait_for_smoke(
        coworld, wait_timeout=seconds, start_timeout=_START_TIMEOUT, on_change=tell
    )


@commands.command("next-version")
@click.argument("name")
@platform_options
def next_version(out: Output, connection: Connection, name: str) -> int:
    """Print the version that comes next.

    It is the highest version of the Coworld on the platform with its last number increased by one. A name that the
    platform does not know is an error.
    """

    async def body(api: CoworldClient, _: Running) -> int:
        version = await api.coworlds.next_version(name)
        out.answer({"name": name, "next_version": version})
        out.say(clean(version, one_line=True))
        return exitcodes.OK

    return run_api(out, connection, body)


@commands.command("download")
@click.argument("coworld", type=IdType("coworld", names=True), metavar="COWORLD_ID | NAME")
@click.option(
    "--output-dir",
    "--directory",
    "-o",
    type=DIRECTORY,
    default=Path("coworld"),
    metavar="DIR",
    help="Parent of the Coworld's directory.  [default: ./coworld]",
)
@click.option("--refresh", is_flag=True, help="Ask the platform again, even if it was downloaded before.")
@click.option("--images/--no-images", default=True, help="Pull its images, too.  [default: --images]")
@platform_options
def download(out: Output, connection: Connection, coworld: str, output_dir: Path, refresh: bool, images: bool) -> int:
    """Download a Coworld, to play it here.

    This writes coworld_manifest.json, coworld_images.json and AGENTS.md into DIR/COWORLD_ID. An id needs no login; a
    name, which stands for the canonical version, does. If the platform plays it from a directory and so has no images,
    the files of its package are downloaded instead.
    """

    async def body(api: CoworldClient, running: Running) -> int:
        running.so_far = "Images already pulled are kept."
        running.to_go_on = "Repeat the command to continue."
        with shown_progress(out, "images") as tell:
            found = await api.coworlds.download(
                coworld,
                output_dir,
                refresh=refresh,
                pull=images,
                on_pull=lambda _, done, total: tell(done, total or None),
            )
        out.answer(
            {
                "coworld_id": found.id,
                "name": found.name,
                "version": found.version,
                "directory": str(found.directory),
                "manifest": str(found.manifest),
                "cached": found.cached,
                "pulled": found.pulled,
                "has_files": found.has_files,
                "images": [
                    {"public_image_uri": image.public_image_uri, "local_image": image.local_image}
                    for image in found.images
                ],
            }
        )
        was = "was downloaded before" if found.cached else "downloaded"
        have = f", {plural(len(found.images), 'image')} pulled" if found.pulled and not found.cached else ""
        have = ", its files: the platform has no images of it" if found.has_files else have
        name = clean(f"{found.name} {found.version}", one_line=True)
        out.say(f"{name} {was}: {shown_path(found.directory)}{have}")
        out.say(f"Play it:  {command_line('run', shown_path(found.manifest))}")
        return exitcodes.OK

    return run_api(out, connection, body, anonymous=coworld.startswith("cow_"))


@commands.command("images")
@click.argument("image", required=False, type=IdType("image"), metavar="[IMAGE_ID]")
@listing_options(200, offset=True, noun="images")
@platform_options
def images(out: Output, connection: Connection, listing: Listing, image: str | None) -> int:
    """List container images, or show one."""

    async def body(api: CoworldClient, _: Running) -> int:
        if image is not None:
            return await show_one(out, api.images.get(image), tables.image_details)
        pager = api.images.list(limit=listing.limit, offset=listing.offset, cursor=listing.cursor)
        return await show_list(out, pager, tables.IMAGES, listing, noun="image")

    return run_api(out, connection, body)


# --- secrets ------------------------------------------------------------------------------------------------------


@commands.group("secret", cls=NounGroup)
def secret() -> None:
    """Store, list and delete the secrets of a Coworld.

    A manifest refers to one as secret://coworld/NAME/SECRET in an environment. Nobody can read its value back.
    """


@secret.command("put")
@click.argument("coworld", metavar="NAME")
@click.argument("secret")
@click.argument("file", type=INPUT_FILE, metavar="FILE")
@platform_options
def put(out: Output, connection: Connection, coworld: str, secret: str, file: Path) -> int:
    """Store the content of FILE (- for standard input) as a secret, replacing its old value."""
    from ..files import read_bytes

    content = read_bytes(file)

    async def body(api: CoworldClient, _: Running) -> int:
        kept = await api.secrets.put(coworld, secret, content)
        out.answer(dump(kept))
        size = shown_size(kept.size_bytes or 0)
        out.say(clean(f"Stored {kept.secret_name} of {kept.coworld_name}, {size}.", one_line=True))
        return exitcodes.OK

    return run_api(out, connection, body, changes=True)


@secret.command("list")
@click.argument("coworld", metavar="NAME")
@platform_options
def list_secrets(out: Output, connection: Connection, coworld: str) -> int:
    """List the secrets of a Coworld: names, sizes and owners, never values."""

    async def body(api: CoworldClient, _: Running) -> int:
        return await show_rows(out, api.secrets.list(coworld), tables.SECRETS, none="There are no secrets.")

    return run_api(out, connection, body)


@secret.command("delete")
@click.argument("coworld", metavar="NAME")
@click.argument("secret")
@platform_options
def delete(out: Output, connection: Connection, coworld: str, secret: str) -> int:
    """Delete a secret of a Coworld."""

    async def body(api: CoworldClient, _: Running) -> int:
        gone = await api.secrets.delete(coworld, secret)
        out.answer(dump(gone))
        out.say(clean(f"Deleted {gone.secret_name} of {gone.coworld_name}.", one_line=True))
        return exitcodes.OK

    return run_api(out, connection, body, changes=True)


# --- games on the platform ----------------------------------------------------------------------------------------


@commands.group("hosted-game", cls=NounGroup)
def hosted_game() -> None:
    """Play a Coworld on the platform, with people."""


@hosted_game.command("create")
@click.argument("coworld", type=IdType("coworld", names=True), metavar="COWORLD_ID | NAME")
@click.option(
    "--variant", metavar="ID", help="Variant to play, or a pattern that matches only one. Default: the Coworld's own."
)
@click.option("--spectators/--no-spectators", default=True, show_default=True, help="Whether others may watch.")
@label_option("Label the episode that the game becomes")
@platform_options
def create(
    out: Output,
    connection: Connection,
    coworld: str,
    variant: str | None,
    spectators: bool,
    labels: dict[str, str],
) -> int:
    """Start a game that people join.

    A NAME stands for the canonical version. The links contain the game's tokens: anyone who has one can use it.
    """

    async def body(api: CoworldClient, _: Running) -> int:
        made = await api.hosted.create(coworld, variant=variant, spectators=spectators, labels=labels)
        warn_unlabelled(api, out, labels, made.tags)
        out.answer(dump(made))
        out.say(tables.play_session_details(made))
        return exitcodes.OK

    return run_api(out, connection, body, changes=True)


@hosted_game.command("join")
@click.argument("session", metavar="SESSION_ID")
@platform_options
def join(out: Output, connection: Connection, session: str) -> int:
    """Take a seat in a game."""

    async def body(api: CoworldClient, _: Running) -> int:
        return await show_one(out, api.hosted.join(session), tables.seat_details)

    return run_api(out, connection, body, changes=True)
