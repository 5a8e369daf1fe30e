"""Players by name and version: publish them, look at them, tag them, wait for new ones, and get their files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .. import exitcodes
from .._group import NounGroup
from ..event_loop import Running, run_async
from ..options.declarations import Options, SectionCommand, option, takes
from ..options.values import DIRECTORY, VersionNumber, check_run, key_values
from ..output import Output, output_options

if TYPE_CHECKING:
    from coworld_core.player_registry import PlayerVersion
    from coworld_runner import LocalRegistry

__all__ = ["commands"]

commands = NounGroup()


class RegistryOptions(Options):
    """Which registry is meant."""

    registry: Path | None = option(
        "--registry",
        section="Where it runs",
        type=DIRECTORY,
        metavar="DIR",
        help="The registry.  [default: COWORLD_REGISTRY, or ~/.local/share/coworld/players]",
    )

    def opened(self) -> LocalRegistry:
        """The registry."""
        from coworld_runner import LocalRegistry

        return LocalRegistry(self.registry)


@commands.group("registry", cls=NounGroup)
def registry() -> None:
    """Publish players under names, in numbered versions.

    A version is never changed. It plays wherever a player is named: NAME:v3, NAME:TAG, NAME (the newest), or
    NAME:latest, which is the newest of each episode. `registry:NAME:v3` is never taken for an image.
    """


_version = click.argument("version", metavar="NAME[:vN | :TAG]")


@registry.command("publish", cls=SectionCommand)
@click.argument("name")
@click.argument("player", metavar="FILE | IMAGE")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="A tag that stands for it from now on; repeatable.")
@click.option("--meta", multiple=True, metavar="KEY=VALUE", help="What to say about it; repeatable.")
@click.option("--run", multiple=True, metavar="WORD", help="A word of an image's command; repeatable.")
@takes("options", RegistryOptions)
@output_options
def publish(
    out: Output,
    options: RegistryOptions,
    name: str,
    player: str,
    tags: tuple[str, ...],
    meta: tuple[str, ...],
    run: tuple[str, ...],
) -> int:
    """Publish the next version of a player.

    FILE is a file with the modules beside it that it imports, a directory, or a training run, of which the newest
    checkpoint is published. IMAGE is an image of the local Docker engine, of which the digest is kept.
    """
    from ..render.registry_tables import version_line

    check_run(run)
    metadata = key_values("--meta", meta)

    async def body(_: Running) -> int:
        from coworld_runner import make_backend
        from coworld_runner.package import find_publishable

        opened, what = options.opened(), find_publishable(player, name=name)
        if isinstance(what, str):
            async with make_backend("docker") as backend:
                made = await opened.publish(name, what, run=run, metadata=metadata, tags=tags, backend=backend)
        else:
            made = await opened.publish(name, what, run=run, metadata=metadata, tags=tags)
        out.answer(_shown(made))
        out.say(version_line(made))
        return exitcodes.OK

    return run_async(out, body)


@registry.command("list", cls=SectionCommand)
@click.argument("name", required=False)
@takes("options", RegistryOptions)
@output_options
def list_(out: Output, options: RegistryOptions, name: str | None) -> int:
    """List names with their newest versions, or the versions of a name."""
    from ..render.registry_tables import versions_text

    async def body(_: Running) -> int:
        opened = options.opened()
        if name is not None:
            found, damaged = list(await opened.versions(name)), {}
        else:
            found = [(await opened.versions(one))[0] for one in await opened.names()]
            damaged = {one: error.message for one, error in (await opened.damaged()).items()}
        for one, why in damaged.items():
            out.warn(f"{one} is left out, because its log cannot be read: {why}")
        out.answer({"registry": str(opened.directory), "versions": [_shown(one) for one in found], "damaged": damaged})
        out.say(versions_text(found, str(opened.directory)))
        return exitcodes.OK

    return run_async(out, body)


@registry.command("show", cls=SectionCommand)
@_version
@takes("options", RegistryOptions)
@output_options
def show(out: Output, options: RegistryOptions, version: str) -> int:
    """Show a version, after checking that its files are what was published."""
    from ..render.registry_tables import version_text

    async def body(_: Running) -> int:
        opened = options.opened()
        found = await opened.get(version)
        path = await opened.path(found)
        out.answer({**_shown(found), "path": str(path) if path is not None else None})
        out.say(version_text(found, path=path))
        return exitcodes.OK

    return run_async(out, body)


@registry.command("tag", cls=SectionCommand)
@_version
@click.argument("tag")
@click.option(
    "--expected",
    type=VersionNumber(),
    metavar="vN | none",
    help="Only if the tag stands for this version until now; none: for no version.",
)
@click.option("--remove", is_flag=True, help="Remove the tag from NAME.")
@takes("options", RegistryOptions)
@output_options
def tag(out: Output, options: RegistryOptions, version: str, tag: str, expected: int | None, remove: bool) -> int:
    """Let a tag stand for a version.

    With --expected, a tag that another program has moved meanwhile stays where it is, and the command exits with 1.
    """
    from ..render.text import clean

    async def body(_: Running) -> int:
        from coworld_core.player_registry import ANY_VERSION, VersionRef

        opened, ref = options.opened(), VersionRef.parse(version)
        at = None if remove else (await opened.get(version)).version
        before = ANY_VERSION if expected is None else expected or None
        moved = await opened.tag(ref.name, at, tag, expected=before)
        out.answer({"name": ref.name, "tag": tag, "version": at})
        label = moved.label if moved is not None else f"no version of {ref.name}"
        out.say(clean(f"{tag} stands for {label}.", one_line=True))
        return exitcodes.OK

    return run_async(out, body)


@registry.command("updates", cls=SectionCommand)
@click.argument("name")
@click.option("--after", type=VersionNumber(), metavar="vN", help="Begin with the version after this one; 0: with all.")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="End after this many versions.")
@takes("options", RegistryOptions)
@output_options
def updates(out: Output, options: RegistryOptions, name: str, after: int | None, count: int | None) -> int:
    """Wait for new versions of a name, and print each of them; with --json, one on a line."""
    from ..render.registry_tables import version_line

    async def body(running: Running) -> int:
        running.to_go_on = "Give the last version that was printed with --after to go on."
        told = 0
        async for version in options.opened().updates(name, after=after):
            if out.json:
                out.line(_shown(version))
            out.say(version_line(version))
            told += 1
            if told == count:
                break
        return exitcodes.OK

    return run_async(out, body)


@registry.command("fetch", cls=SectionCommand)
@_version
@click.option("--output", "-o", type=DIRECTORY, required=True, metavar="DIR", help="Where to put its files.")
@takes("options", RegistryOptions)
@output_options
def fetch(out: Output, options: RegistryOptions, version: str, output: Path) -> int:
    """Copy the files of a version into a directory, where nothing is overwritten."""
    from ..render.text import shown_path

    async def body(_: Running) -> int:
        opened = options.opened()
        found = await opened.get(version)
        path = await opened.fetch(found, output)
        out.answer({**_shown(found), "path": str(path)})
        out.say(f"{found.label}: {shown_path(path)}")
        return exitcodes.OK

    return run_async(out, body)


@registry.command("remove", cls=SectionCommand)
@click.argument("version", metavar="NAME[:vN]")
@takes("options", RegistryOptions)
@output_options
def remove(out: Output, options: RegistryOptions, version: str) -> int:
    """Remove a version, or a name with all its versions. Numbers are not given again."""

    async def body(_: Running) -> int:
        gone = await options.opened().remove(version)
        out.answer({"removed": [one.label for one in gone]})
        for one in gone:
            out.say(f"Removed: {one.label}")
        return exitcodes.OK

    return run_async(out, body)


def _shown(version: PlayerVersion) -> dict[str, Any]:
    """A version as JSON."""
    return {"label": version.label, **version.model_dump(mode="json")}
