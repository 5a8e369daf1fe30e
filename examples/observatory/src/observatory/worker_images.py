"""What an uploaded image is called where episodes run.

A manifest and a policy name images by the platform's ids. Where containers run, an id becomes a digest in our own
registry. Local processes have no images: there an id becomes the name it was built under, which one of the trusted
packages must know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core.errors import ImageError
from coworld_core.images import ImageRef
from coworld_runner.compose import contexts_for

from .models import Image

__all__ = ["ImageNames", "PackageContexts"]


class PackageContexts(Mapping[str, Path]):
    """The build contexts of trusted packages, by the last part of an image's name.

    Args:
        packages: Their directories, each with a compose file.

    Raises:
        ManifestError: A compose file has errors.
    """

    def __init__(self, packages: tuple[Path, ...] = ()) -> None:
        self._contexts: dict[str, Path] = {}
        for package in packages:
            for image, context in contexts_for(package).items():
                if not image.startswith("{{"):
                    self._contexts[_last_part(image)] = context

    def __getitem__(self, image: str) -> Path:
        return self._contexts[_last_part(image)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._contexts)

    def __len__(self) -> int:
        return len(self._contexts)


@dataclass(frozen=True, kw_only=True)
class ImageNames:
    """How images are named on one kind of backend."""

    registry: str | None
    """Host and port of our registry as the backend reaches it; None: there are no images, but ``contexts``."""
    contexts: PackageContexts = field(default_factory=PackageContexts)

    async def resolve(self, session: AsyncSession, image: str) -> str:
        """What an image is called there.

        Raises:
            ImageError: It was never completed, or no trusted package was built into it.
        """
        row = None
        if image.startswith("img_"):
            row = await session.scalar(sa.select(Image).where(Image.id == image))
        if row is None:
            return image if self.registry is not None else self._trusted(image, image)
        if row.status != "ready" or row.digest is None:
            raise ImageError(
                f"The image {row.name!r} ({row.id}) was not uploaded completely.",
                hint="Upload it again.",
                context={"image": row.id},
            )
        if self.registry is None:
            return self._trusted(row.name, row.id)
        return f"{self.registry}/{row.repository}@{row.digest}"

    def _trusted(self, name: str, image: str) -> str:
        if name not in self.contexts:
            raise ImageError(
                f"The image {name!r} comes from none of the packages that may run as local processes here.",
                code="context_unknown",
                hint="Name its package with --package DIRECTORY if you trust it, or run a worker with Docker.",
                context={"image": image},
            )
        return name


def _last_part(image: str) -> str:
    try:
        return ImageRef.parse(image).name.rpartition("/")[2] or image
    except ImageError:
        return image
