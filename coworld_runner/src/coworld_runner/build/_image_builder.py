"""Builds the images of services in the order of their dependencies, and names them by content."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import anyio

from coworld_core.docker_address import EngineGone, EngineRefused
from coworld_core.episode.events import ImageReady
from coworld_core.errors import ImageError, UsageError
from coworld_core.images import ImageRef, Platform, content_tag
from coworld_core.text.phrases import listed

from ..backend import Publish
from ..backends.docker._build import build_image
from ..backends.docker._engine import Engine, path_segment
from ..backends.docker._image_pulls import Images
from ..backends.docker._registry_logins import registry_headers
from ..errors import BuildError
from ..images.compose import Build, Service
from ._build_plan import BuildPlan, canonical, dockerfile_for

__all__ = ["Builder", "BuiltImage", "check_platform", "jobs_of"]


@dataclass(frozen=True, kw_only=True)
class BuiltImage:
    """The result for one image of the manifest."""

    image: str
    """Its name in the compose file or the template."""
    reference: str
    """Its name in the manifest: by content tag or digest."""
    digest: str
    """The engine's id for it; empty for an image that the template already names by digest."""
    platform: str
    """os/architecture; empty if `digest` is empty."""
    service: str | None = None
    """The service it was built for; None if it was not built but found or pulled."""
    seconds: float = 0.0
    """How long the build took."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One image to build or find; services that build the same image share a job."""

    service: Service
    build: Build | None
    args: Mapping[str, str] = field(repr=False)
    platform: str | None
    aliases: tuple[str, ...]
    """Other names for the same image."""
    bases: tuple[str, ...]
    """External images that it is built from."""
    after: tuple[str, ...]
    """Services that must be built first."""
    buildkit: str = ""


def jobs_of(services: tuple[Service, ...], args: Mapping[str, str], platform: str | None) -> tuple[Job, ...]:
    by_image = {canonical(service.image): service.name for service in services}
    jobs: dict[object, Job] = {}
    leader: dict[str, str] = {}
    for service in services:
        build = service.build
        wanted = platform or service.platform
        if build is None:
            jobs[service.name] = Job(
                service=service, build=None, args={}, platform=wanted, aliases=(), bases=(), after=()
            )
            leader[service.name] = service.name
            continue
        read = dockerfile_for(service, build, args)
        every = {**build.args, **args}
        after = {by_image[key] for image in read.images if (key := canonical(image)) in by_image} - {service.name}
        same = (build.context, build.dockerfile, build.dockerfile_inline, build.target, build.platforms, wanted)
        key = (*same, tuple(sorted(every.items())))
        if key in jobs:
            first = jobs[key]
            leader[service.name] = first.service.name
            jobs[key] = replace(first, aliases=(*first.aliases, service.image))
            continue
        leader[service.name] = service.name
        jobs[key] = Job(
            service=service,
            build=build,
            args=every,
            platform=wanted,
            aliases=(),
            bases=tuple(image for image in read.images if canonical(image) not in by_image),
            after=tuple(sorted(after)),
            buildkit=read.buildkit,
        )
    found = tuple(replace(job, after=tuple(sorted({leader[name] for name in job.after}))) for job in jobs.values())
    _refuse_cycles(found)
    return found


def _refuse_cycles(jobs: tuple[Job, ...]) -> None:
    done: set[str] = set()
    left = {job.service.name: set(job.after) for job in jobs}
    while ready := [name for name, after in left.items() if after <= done]:
        done.update(ready)
        for name in ready:
            del left[name]
    if left:
        raise BuildError(
            f"The images of the services {listed(map(repr, sorted(left)))} are built from each other.",
            code="build_cycle",
            hint="One of them must start from something else.",
        )


def check_platform(text: str) -> None:
    try:
        Platform.parse(text)
    except ValueError as error:
        raise UsageError(f"The platform {error}.", code="bad_platform") from None


class Builder:
    def __init__(self, engine: Engine, publish: Publish, *, no_cache: bool, platform: str | None) -> None:
        self._engine = engine
        self._images = Images(engine, pull="missing")
        self._publish = publish
        self._no_cache = no_cache
        self._platform = platform
        self._built: dict[str, BuiltImage] = {}
        """Images that were built or found, by canonical name."""

    async def build(self, jobs: Iterable[Job], parallel: int) -> None:
        """Build or find the images of all jobs; images that others are built from come first."""
        limiter = anyio.CapacityLimiter(parallel)
        done = {job.service.name: anyio.Event() for job in jobs}

        async def run(job: Job) -> None:
            for name in job.after:
                await done[name].wait()
            async with limiter:
                await self._have(job)
            done[job.service.name].set()

        async with anyio.create_task_group() as tasks:
            for job in jobs:
                tasks.start_soon(run, job)

    async def _have(self, job: Job) -> None:
        service, build = job.service, job.build
        if build is None:
            await self._found(service.image, job.platform)
            return
        begun = time.monotonic()
        platform = job.platform or self._choice(build.platforms)
        for base in job.bases:
            await self._base(service, base, platform)
        digest = await build_image(
            self._engine,
            service=service.name,
            build=build,
            image=service.image,
            args=job.args,
            platform=platform,
            no_cache=self._no_cache,
            buildkit=job.buildkit,
            publish=self._publish,
        )
        for alias in job.aliases:
            await self._tag(digest, alias)
        # By id: someone else may meanwhile build an image with the same name
        info = await self._images.ensure(digest, platform=None, publish=None)
        self._publish(ImageReady(image=service.image, digest=digest, platform=info.platform))
        for image in (service.image, *job.aliases):
            self._built[canonical(image)] = BuiltImage(
                image=image,
                reference=content_tag(image, digest),
                digest=digest,
                platform=info.platform,
                service=service.name,
                seconds=time.monotonic() - begun,
            )

    def _choice(self, platforms: tuple[str, ...]) -> str | None:
        """Choose one of the platforms that a compose file lists: the engine's own, else the first."""
        own = Platform.parse(self._engine.platform)
        return next((text for text in platforms if Platform.parse(text) == own), platforms[0] if platforms else None)

    async def _base(self, service: Service, base: str, platform: str | None) -> None:
        """Make sure that the engine has a base image: one that is present is used as it is, others are pulled."""
        try:
            ImageRef.parse(base)
        except ImageError:
            # The build will report an invalid reference
            return
        try:
            await self._images.ensure(base, platform=platform, publish=self._publish)
        except ImageError as error:
            raise ImageError(
                f"The service {service.name!r} is built from {base!r}. {error.message}",
                code=error.code if error.code != "image_unreachable" else "base_image_unreachable",
                hint="If its Dockerfile takes the base as a build argument, name one that is here.",
                context={**error.context, "service": service.name},
            ) from error

    async def _found(self, image: str, platform: str | None) -> BuiltImage:
        """Return an image that is not built here, pulling it if it is absent."""
        key = canonical(image)
        if key in self._built:
            return self._built[key]
        info = await self._images.ensure(image, platform=platform, publish=self._publish)
        self._publish(ImageReady(image=image, digest=info.digest, platform=info.platform))
        self._built[key] = BuiltImage(
            image=image, reference=content_tag(image, info.digest), digest=info.digest, platform=info.platform
        )
        return self._built[key]

    async def _tag(self, digest: str, reference: str) -> None:
        parsed = ImageRef.parse(reference)
        try:
            await self._engine.call(
                "POST",
                f"/images/{path_segment(digest)}/tag",
                query={"repo": parsed.name, "tag": parsed.tag or "latest"},
            )
        except (EngineRefused, EngineGone) as error:
            raise ImageError(
                f"The image {reference!r} could not be tagged: {error.server_message}.", context={"image": reference}
            ) from error

    # --- names in the manifest

    async def references(self, plan: BuildPlan, *, resolve_mutable: bool) -> dict[str, BuiltImage]:
        """Create the content tags, and return the result for each image of the manifest."""
        images: dict[str, BuiltImage] = {}

        async def settle(image: str) -> None:
            images[image] = await self._settled(image, resolve_mutable=resolve_mutable)

        async with anyio.create_task_group() as tasks:
            for image in plan.manifest.images():
                tasks.start_soon(settle, image)
        return {image: images[image] for image in plan.manifest.images()}

    async def _settled(self, image: str, *, resolve_mutable: bool) -> BuiltImage:
        reference = ImageRef.parse(image)
        if reference.kind == "digest":
            return BuiltImage(image=image, reference=image, digest="", platform="")
        here = self._built.get(canonical(image))
        if reference.kind == "registry" and resolve_mutable and (here is None or here.service is None):
            return await self._resolved(reference)
        found = here or await self._found(image, self._platform)
        # Use the manifest's spelling of the name, which may differ from the service's
        tag = content_tag(image, found.digest)
        await self._tag(found.digest, tag)
        return replace(found, image=image, reference=tag)

    async def _resolved(self, reference: ImageRef) -> BuiltImage:
        """Pin a tag to the digest that its registry has now, and make sure that the engine has that image."""
        headers = await registry_headers(reference.name)
        tagged = f"{reference.name}:{reference.tag or 'latest'}"
        try:
            found = await self._engine.call("GET", f"/distribution/{path_segment(tagged)}/json", headers=headers)
            digest = found["Descriptor"]["digest"]
        except (EngineRefused, EngineGone) as error:
            raise ImageError(
                f"The digest of {tagged!r} could not be read from its registry: {error.server_message}.",
                code="image_unresolved",
                hint="Is it pushed? Does its registry want a login? Use: docker login.",
                context={"image": reference.text},
            ) from error
        except (KeyError, TypeError):
            digest = ""
        if not isinstance(digest, str) or not digest.startswith("sha256:"):
            raise ImageError(
                f"The engine gave no digest for {tagged!r}.", code="image_unresolved", context={"image": reference.text}
            )
        pinned = f"{reference.name}@{digest}"
        info = await self._images.ensure(pinned, platform=self._platform, publish=self._publish)
        self._publish(ImageReady(image=pinned, digest=info.digest, platform=info.platform))
        return BuiltImage(image=reference.text, reference=pinned, digest=info.digest, platform=info.platform)
