"""Which programs may run here, and with which image. Every program passes this check before it starts.

Manifests and policies come over the wire, from any account. On backends with containers, the images that they name
become digests in our own registry. Local processes are not isolated: there a manifest or a policy can only choose among
programs that the operator's own packages on this machine declare, unless the operator trusts players' files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core.errors import CapabilityError, ImageError, UsageError
from coworld_core.images import ImageRef
from coworld_core.manifest import JsonObject, Manifest, Runnable, load_manifest
from coworld_runner.images import find_compose, load_compose
from coworld_runner.package import OwnPlayer, manifest_host, seat_files

from ..store.models import Image

__all__ = ["Admission", "Admitted", "OwnPackages"]


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """A program that may run, in the form that the backend takes."""

    runnable: Runnable
    config_schema: JsonObject | None = None
    """The schema for a game's config that replaces the one of the uploaded manifest; None: no replacement."""


class OwnPackages(Mapping[str, Path]):
    """The operator's packages, whose programs may run as local processes.

    As a mapping: from the last part of an image's name to the directory in which its programs run.

    Args:
        packages: Their directories, each with a manifest or a template. Programs of the images that its compose file
            builds may run.

    Raises:
        ManifestError: A manifest or a compose file has errors.
        UsageError: A directory has no manifest, or two packages build images of one name (code `package_conflict`).
    """

    def __init__(self, packages: tuple[Path, ...] = ()) -> None:
        self._contexts: dict[str, Path] = {}
        self._programs: dict[str, list[Admitted]] = {}
        self._origins: dict[str, tuple[Path, str]] = {}
        for package in packages:
            self._add(package)

    def programs(self, image: str) -> list[Admitted]:
        """The game, the players and the other roles that the packages declare for an image."""
        return self._programs.get(_last_part(image), [])

    def origin(self, image: str) -> tuple[Path, str] | None:
        """The directory of the package that builds an image, and the image's name there; None if none does."""
        return self._origins.get(_last_part(image))

    def _add(self, package: Path) -> None:
        manifest = load_manifest(package, template=True).manifest
        path = find_compose(package.absolute())
        names: dict[str, str] = {}
        for service in load_compose(path).services if path is not None else ():
            if service.build is None:
                continue
            names[service.placeholder] = name = _last_part(service.image)
            self._origins[name] = package, service.image
            if self._contexts.setdefault(name, service.build.context) != service.build.context:
                raise UsageError(
                    f"{package} builds an image called {name!r}, and so does another of the given packages.",
                    code="package_conflict",
                    hint="Name only one of the two.",
                )
        game = manifest.game
        others = (entry.as_runnable() for entry in manifest.roles())
        for runnable in (game.runnable, *others):
            name = names.get(runnable.image) or _last_part(runnable.image)
            schema = game.config_schema if runnable.type == "game" else None
            self._programs.setdefault(name, []).append(Admitted(runnable=runnable, config_schema=schema))

    def __getitem__(self, image: str) -> Path:
        return self._contexts[_last_part(image)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._contexts)

    def __len__(self) -> int:
        return len(self._contexts)


@dataclass(frozen=True, kw_only=True)
class Admission:
    """Decides which programs may run on a backend."""

    registry: str | None
    """Host and port of our registry as the backend reaches it; None: no images, only `packages`."""
    packages: OwnPackages = field(default_factory=OwnPackages)
    trust_uploads: bool = False
    """Whether the operator lets uploaded players' files run as local processes."""

    async def admit_files(
        self, session: AsyncSession, own: OwnPlayer, manifest: Manifest, *, owner: str
    ) -> tuple[Runnable, OwnPlayer]:
        """The program for a player's uploaded files, which run in the game's own player image.

        Args:
            session: For reading.
            own: The files.
            manifest: The game's manifest, as uploaded.
            owner: The owner of the files, who must be allowed to see the image too.

        Raises:
            CapabilityError: They may not run here (`not_declared`).
            ImageError: They may not run in that image.
        """
        self.require_files(own.file)
        host = manifest_host(manifest)
        admitted = await self.admit(session, host, owner=owner)
        seat = admitted.runnable.model_copy(update={"type": "player"})
        return seat_files(own, seat, host)

    def require_files(self, name: str) -> None:
        """Refuse a player's uploaded files if none run here.

        Args:
            name: The file's name.

        Raises:
            CapabilityError: Uploaded files do not run as local processes here (`not_declared`).
        """
        if self.registry is None and not self.trust_uploads:
            raise CapabilityError(
                f"{name} is an uploaded file, and uploaded files do not run as local processes here.",
                code="not_declared",
                hint="A worker with containers runs it: one with the backend docker or kubernetes.",
                context={"file": name},
            )

    def require_image(self, name: str) -> None:
        """Refuse an image if none of that name runs here, whatever it is uploaded for.

        Args:
            name: The image's name, or a reference.

        Raises:
            CapabilityError: There are no containers here, and no package builds an image of that name (`not_declared`).
        """
        if self.registry is None and not self.packages.programs(name):
            raise self._undeclared(f"The image {name!r} is", name, player=True)

    async def admit(
        self, session: AsyncSession, runnable: Runnable, *, owner: str, secrets: Mapping[str, str] | None = None
    ) -> Admitted:
        """The program for a runnable that came over the wire. No program starts without this call.

        Args:
            session: For reading.
            runnable: The runnable of a manifest or a policy version.
            owner: The user who owns it.
            secrets: Further environment variables from the owner of a policy.

        Raises:
            CapabilityError: It may not run as a local process here (`not_declared`).
            ImageError: Its image was never completed, may not be used by this owner or is not in this registry
                (`foreign_image`).
        """
        image = runnable.image
        row = await session.scalar(sa.select(Image).where(Image.id == image)) if image.startswith("img_") else None
        if row is not None and (row.status != "ready" or row.digest is None):
            raise ImageError(
                f"The image {row.name!r} ({row.id}) was not uploaded completely.",
                hint="Upload it again.",
                context={"image": row.id},
            )
        if self.registry is None:
            return self._declared(runnable, row.name if row is not None else image, secrets or {})
        # Checked again after the upload: the Coworld that the image belongs to may have become private since.
        if row is None or not (row.public or row.user_id == owner):
            raise ImageError(
                f"The image {row.name if row is not None else image!r} was not uploaded by this user, and no "
                "public Coworld uses it.",
                code="foreign_image",
                hint="Upload it: images of this machine or of other registries are not used.",
                context={"image": image},
            )
        reference = f"{self.registry}/{row.repository}@{row.digest}"
        return Admitted(runnable=runnable.model_copy(update={"image": reference}))

    def _declared(self, asked: Runnable, image: str, secrets: Mapping[str, str]) -> Admitted:
        """Find the requested program in the operator's packages; it must match exactly.

        Environment variables are compared as well, since they can decide which code an interpreter loads. A variable
        that a package declares as empty may have any value.
        """
        environment = {**asked.env, **secrets}
        for own in self.packages.programs(image):
            declared = own.runnable
            if (declared.type, declared.run) != (asked.type, asked.run) or not asked.run:
                continue
            if all(declared.env.get(name) in ("", value) for name, value in environment.items()):
                # Its limits on this machine come from the operator's package as well.
                update = {"image": _last_part(image), "resources": declared.resources}
                return Admitted(runnable=asked.model_copy(update=update), config_schema=own.config_schema)
        command = f"the command {' '.join(asked.run)[:200]!r}" if asked.run else "its image's own command"
        words = f"The {asked.type} {image!r} with {command}"
        given = f" and the variables {', '.join(sorted(environment))[:200]}" if environment else ""
        raise self._undeclared(f"{words}{given} is", asked.image, player=asked.type == "player")

    def _undeclared(self, words: str, image: str, *, player: bool) -> CapabilityError:
        files = "Upload the player's file or directory instead of an image: it runs here. "
        return CapabilityError(
            f"{words} not declared by any package on this machine, and without containers only declared programs run "
            "here, no images.",
            code="not_declared",
            hint=f"{files if player and self.trust_uploads else ''}"
            "A worker with containers runs it: one with the backend docker or kubernetes. So does this one, if "
            "its operator names a package of this machine that declares it.",
            context={"image": image},
        )


def _last_part(image: str) -> str:
    try:
        return ImageRef.parse(image).name.rpartition("/")[2] or image
    except ImageError:
        return image
