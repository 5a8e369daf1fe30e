"""Coworlds of a platform on this machine."""

from __future__ import annotations

from pathlib import Path

from coworld_client import CoworldClient

from .platform_files import shown_progress
from .running import Running
from .text import clean, command_line, plural, shown_path

__all__ = ["download_coworld", "have_coworld"]


async def download_coworld(
    api: CoworldClient, name_or_id: str, directory: Path, *, refresh: bool, images: bool, running: Running
) -> None:
    """Download a Coworld, and say where it is and what to do with it."""
    out = running.out
    running.so_far = "Images that were pulled are kept."
    running.to_go_on = "The same command goes on from there."
    with shown_progress(out, "images") as tell:
        found = await api.coworlds.download(
            name_or_id,
            directory,
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
            "images": [
                {"public_image_uri": image.public_image_uri, "local_image": image.local_image} for image in found.images
            ],
        }
    )
    was = "is here already" if found.cached else "downloaded"
    have = f", {plural(len(found.images), 'image')} pulled" if found.pulled and not found.cached else ""
    name = clean(f"{found.name} {found.version}", one_line=True)
    out.say(f"{name} {was}: {shown_path(found.directory)}{have}")
    out.say(f"Play it:  {command_line('run-episode', shown_path(found.manifest))}")


async def have_coworld(api: CoworldClient, coworld_id: str, *, directory: Path = Path("coworld")) -> Path:
    """The manifest of a Coworld on this machine, fetched if it is not here. Whoever runs it pulls its images."""
    found = await api.coworlds.download(coworld_id, directory)
    return found.manifest
