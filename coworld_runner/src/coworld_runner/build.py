"""From a compose file and a template to a manifest whose images exist and are named by their content.

Everything that can be known beforehand is checked before the first image is built; the manifest is checked again
before it is written, and written whole or not at all. Images are built through the engine's own API: no compose
plugin and no docker command is needed. A base image that is on this machine is never asked of a registry.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import anyio.to_thread

from coworld_core.errors import ImageError, ManifestError, UsageError, WorkspaceError
from coworld_core.events import BaseEvent, ImageReady, Notice, PhaseFinished, PhaseStarted, RunFinished, RunStarted
from coworld_core.images import HOSTED_PLATFORM, ImageRef, Platform, content_tag
from coworld_core.issues import Issue, Report
from coworld_core.loading import (
    MANIFEST_NAME,
    TEMPLATE_NAME,
    check_manifest,
    dump_manifest,
    load_manifest,
    read_document,
)
from coworld_core.manifest import ROLE_SECTIONS, Manifest
from coworld_core.template import hydrate, placeholders

from ._context import ContextError, dockerfile_of, ignore_of
from ._dockerfile import Dockerfile, read_dockerfile
from ._hints import did_you_mean, listed
from ._image_build import BuildError, build_image
from ._sources import missing
from .backend import Publish
from .backends._docker_engine import Engine, EngineGone, EngineRefused, path_segment, resolve_address
from .backends._docker_images import Images
from .backends._docker_login import registry_headers
from .compose import COMPOSE_NAMES, Build, ComposeFile, Service, find_compose, load_compose
from .errors import unwrapped
from .workspace import atomic_write

__all__ = ["BuildError", "BuildPlan", "BuildResult", "BuiltImage", "build_coworld", "plan_build"]

DEFAULT_VERSION = "0.1.0"
"""Version of the first manifest of a package when none is given."""


@dataclass(frozen=True, kw_only=True)
class BuildPlan:
    """What a build reads and writes, checked; nothing has been built."""

    compose: ComposeFile
    template: Path
    output: Path
    version: str
    manifest: Manifest
    """The manifest with the images as the compose file names them; valid but for their content."""
    services: tuple[Service, ...]
    """The services whose images the manifest needs, and those they are built from."""
    skipped: tuple[str, ...]
    """Names of the other services that could be built."""
    report: Report
    """What is worth saying about compose file and template; no errors."""


@dataclass(frozen=True, kw_only=True)
class BuiltImage:
    """What became of one image of the manifest."""

    image: str
    """Its name in the compose file or the template."""
    reference: str
    """Its name in the manifest: by content tag or digest."""
    digest: str
    """The engine's id of it; empty for one that was named by digest already and is not here."""
    platform: str
    """os/architecture; empty where the id is."""
    service: str | None = None
    """The service it was built for; None when it was only found or fetched."""
    seconds: float = 0.0
    """How long building it took."""


@dataclass(frozen=True, kw_only=True)
class BuildResult:
    """A finished build."""

    manifest_path: Path
    manifest: Manifest
    version: str
    images: Mapping[str, BuiltImage]
    """What became of each image, by its name in the compose file or the template."""
    report: Report
    """What is worth saying; no errors."""
    seconds: float


def plan_build(
    project: Path | None = None,
    *,
    compose: Path | None = None,
    template: Path | None = None,
    version: str | None = None,
    output: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> BuildPlan:
    """Find and check everything a build needs, without an engine.

    Args:
        project: The package's directory; where what is not named otherwise is looked for.
        compose: The compose file; by default the one in the project, or in the directory above it.
        template: The template (or a manifest); by default ``coworld_manifest_template.json`` in the project.
        version: PEP 440 version; by default that of the manifest built before, else 0.1.0.
        output: The manifest to write; by default ``coworld_manifest.json`` in the project.
        environment: What variables of the compose file stand for; None: this process's environment.

    Raises:
        UsageError: Something named is not there, or something needed is neither named nor found.
        ManifestError: The compose file or the template has errors, or they do not fit; all are listed.
        WorkspaceError: The output cannot be written.
        BuildError: A build context or a Dockerfile is missing or unreadable.
    """
    project = _directory(project) if project is not None else None
    compose_path = _compose_path(project, compose)
    template_path = _template_path(project, template)
    if output is None:
        if project is None:
            raise UsageError("A build needs an output.", code="output_missing", hint="Name the manifest to write.")
        output = project / MANIFEST_NAME
    output = output.expanduser().absolute()
    read = load_compose(compose_path, environment=environment)
    said: list[Issue] = []
    if version is None:
        version = _default_version(output, template_path, said)
    manifest, report = _checked_template(template_path, read, version)
    _check_output(output, template_path, compose_path)
    services, skipped = _needed(read, manifest)
    compose_name = compose_path.name
    said += [
        issue.model_copy(update={"message": f"{compose_name}{f':{issue.line}' if issue.line else ''}: {issue.message}"})
        for issue in read.report.issues
    ]
    return BuildPlan(
        compose=read,
        template=template_path,
        output=output,
        version=version,
        manifest=manifest,
        services=services,
        skipped=skipped,
        report=report.extended(said),
    )


async def build_coworld(
    project: Path | None = None,
    *,
    compose: Path | None = None,
    template: Path | None = None,
    version: str | None = None,
    output: Path | None = None,
    resolve_mutable: bool = False,
    platform: str | None = None,
    build_args: Mapping[str, str] | None = None,
    no_cache: bool = False,
    parallel: int | None = None,
    host: str | None = None,
    publish: Publish | None = None,
) -> BuildResult:
    """Build a package's images and write its manifest.

    Only images that the manifest names are built, and those that they are built from; independent ones at once.
    Services without ``build`` and images that no service has are used as they are, and pulled when absent. Images
    named by digest stay; all others get a content tag ``NAME:coworld-<12 hex of the image id>``.

    Args:
        project: See ``plan_build``, like ``compose``, ``template``, ``version`` and ``output``.
        compose: The compose file.
        template: The template.
        version: The version.
        output: The manifest to write.
        resolve_mutable: Pin images of a registry that are not built here to the digest they have there now.
        platform: os/architecture to build for; None: as each service says, else the engine's own.
        build_args: Build arguments that go before those of the compose file.
        no_cache: Do every step again.
        parallel: How many images are built at once; None: one for each processor, four at most.
        host: Address of the engine; None: as the docker command finds it.
        publish: Where events go.

    Returns:
        What was built. Until then an older output is untouched, whatever fails.

    Raises:
        UsageError: See ``plan_build``.
        ManifestError: See ``plan_build``.
        WorkspaceError: The output cannot be written.
        BuildError: An image could not be built; the message names service and step.
        BackendUnavailable: No engine answers.
        ImageError: An image is not here and cannot be pulled, or is for another platform.
        EnvironmentFault: There is no room.
    """
    begun = time.monotonic()
    publish = publish or _ignored
    if platform is not None:
        _check_platform(platform)
    if parallel is not None and parallel < 1:
        raise UsageError("At least one image must be built at a time.", code="bad_parallel")

    def plan() -> BuildPlan:
        return plan_build(project, compose=compose, template=template, version=version, output=output)

    with _Phase("check", publish):
        planned = await anyio.to_thread.run_sync(plan)
        jobs = await anyio.to_thread.run_sync(_jobs, planned.services, build_args or {}, platform)
    game = planned.manifest.game
    publish(
        RunStarted(
            what="build", coworld=game.name, version=game.version, backend="docker", workspace=str(planned.output)
        )
    )
    finished = RunFinished(status="failed", ok=False, seconds=0)
    try:
        if planned.skipped:
            publish(Notice(message=f"The manifest does not need {listed(planned.skipped)}, so it is not built."))
        engine = await Engine.connect(resolve_address(host))
        builder = _Builder(engine, publish, no_cache=no_cache, platform=platform)
        with _Phase("build", publish), unwrapped():
            await builder.build(jobs, parallel or min(4, os.cpu_count() or 1))
        with _Phase("tag", publish), unwrapped():
            images = await builder.references(planned, resolve_mutable=resolve_mutable)
        with _Phase("write", publish):
            manifest = _with_images(planned.manifest, {name: image.reference for name, image in images.items()})
            await anyio.to_thread.run_sync(_write, planned.output, dump_manifest(manifest))
        finished = finished.model_copy(update={"status": "completed", "ok": True})
    except anyio.get_cancelled_exc_class():
        finished = finished.model_copy(update={"status": "interrupted"})
        raise
    finally:
        publish(finished.model_copy(update={"seconds": time.monotonic() - begun}))
    return BuildResult(
        manifest_path=planned.output,
        manifest=manifest,
        version=planned.version,
        images=images,
        report=planned.report.extended(_platform_remarks(images.values())),
        seconds=time.monotonic() - begun,
    )


def _ignored(_: BaseEvent) -> None:
    pass


class _Phase:
    def __init__(self, name: str, publish: Publish) -> None:
        self._name = name
        self._publish = publish

    def __enter__(self) -> None:
        self._begun = time.monotonic()
        self._publish(PhaseStarted(phase=self._name))

    def __exit__(self, *exc: object) -> None:
        self._publish(PhaseFinished(phase=self._name, seconds=time.monotonic() - self._begun))


# --- planning ----------------------------------------------------------------------------------------------------


def _directory(path: Path) -> Path:
    path = path.expanduser().absolute()
    if not path.exists():
        raise missing(path, what="package")
    if not path.is_dir():
        raise UsageError(
            f"{path} is not a directory.",
            code="bad_path",
            hint="Name the package's directory, or compose file, template, version and output one by one.",
        )
    return path


def _compose_path(project: Path | None, compose: Path | None) -> Path:
    if compose is not None:
        path = compose.expanduser().absolute()
        if not path.is_dir():
            return path
        project = path
    if project is None:
        raise UsageError("A build needs a compose file.", code="compose_missing", hint="Name it, or the package.")
    found = find_compose(project)
    if found is None:
        raise UsageError(
            f"{project} holds no compose file.",
            code="compose_missing",
            hint=f"Looked for {listed(COMPOSE_NAMES, word='or')}, there and in the directory above.",
            context={"path": str(project)},
        )
    return found


def _template_path(project: Path | None, template: Path | None) -> Path:
    if template is None:
        if project is None:
            raise UsageError("A build needs a template.", code="template_missing", hint="Name it, or the package.")
        path = project / TEMPLATE_NAME
        if not path.is_file():
            built = (project / MANIFEST_NAME).is_file()
            raise UsageError(
                f"{project} holds no {TEMPLATE_NAME}.",
                code="template_missing",
                hint=f"Name the template; {MANIFEST_NAME} will do if it is one." if built else "Name the template.",
                context={"path": str(project)},
            )
        return path
    path = template.expanduser().absolute()
    if path.is_dir():
        return _template_path(path, None)
    if not path.exists():
        raise missing(path, what="template")
    return path


def _default_version(output: Path, template: Path, said: list[Issue]) -> str:
    """The version of the manifest that was built before, or the first one."""
    for path in dict.fromkeys((output, template) if template.name == MANIFEST_NAME else (output,)):
        try:
            version = json.loads(path.read_bytes())["game"]["version"]
        except FileNotFoundError:
            continue
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            version = None
        if isinstance(version, str) and version:
            return version
        message = f"{path.name} has no version that could be kept, so this build is {DEFAULT_VERSION}."
        said.append(Issue(code="version_not_kept", severity="info", message=message, hint="Name the version."))
    return DEFAULT_VERSION


def _checked_template(path: Path, compose: ComposeFile, version: str) -> tuple[Manifest, Report]:
    """The manifest as it will be, apart from what images are called; all that is wrong with either is said at once."""
    report = check_manifest(path, mode="strict", template=True)
    # that a template has no version is no news here
    report = report.model_copy(update={"issues": tuple(i for i in report.issues if i.code != "lifted_version")})
    document, _ = read_document(path)
    named = {service.name: service.image for service in compose.services}
    try:
        filled = hydrate(document, images=named, version=version, file=path)
    except ManifestError as error:
        known = set(report.issues)
        report = report.extended(issue for issue in error.report.issues if issue not in known)
        raise ManifestError(report, hint=error.hint) from None
    if not report.ok:
        raise ManifestError(report)
    # nothing new can be wrong with it now but the names of images
    manifest = load_manifest(filled, mode="strict").manifest
    issues = report.issues
    used = placeholders(document.value)
    unused = [service for service in compose.services if service.placeholder not in used]
    for image in manifest.images():
        reference = ImageRef.parse(image).require_runnable(f"the image {image!r}")
        near = did_you_mean(reference.name, (ImageRef.parse(service.image).name for service in unused))
        if near is not None and near != reference.name and reference.kind == "local":
            message = f"The manifest names the image {image!r}, which no service builds."
            hint = f"Did you mean {near!r}?"
            issues += (Issue(code="image_not_built", severity="warning", message=message, hint=hint),)
    return manifest, report.model_copy(update={"issues": issues})


def _check_output(output: Path, template: Path, compose: Path) -> None:
    if output.is_dir():
        raise WorkspaceError(
            f"{output} is a directory, not a manifest to write.",
            code="output_is_directory",
            hint=f"Write {output / MANIFEST_NAME}.",
        )
    if output.exists():
        if output.samefile(compose):
            raise WorkspaceError("The output is the compose file.", code="output_is_input", hint="Name another file.")
        if output.samefile(template) and placeholders(read_document(template)[0].value):
            raise WorkspaceError(
                f"The output {output} is the template itself, whose placeholders would be lost.",
                code="output_is_input",
                hint="Name another file.",
            )
    parent = output.parent
    while not parent.exists() and parent != parent.parent:
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        problem = "is not writable" if parent.is_dir() else "is not a directory"
        raise WorkspaceError(
            f"The manifest cannot be written to {output}: {parent} {problem}.",
            code="output_unwritable",
            hint="Name another output.",
            context={"path": str(output)},
        )


def _needed(compose: ComposeFile, manifest: Manifest) -> tuple[tuple[Service, ...], tuple[str, ...]]:
    """The services whose images the manifest names, with those that these are built from; and the rest."""
    by_image: dict[str, Service] = {}
    for service in compose.services:
        # a service that only uses an image stands back behind the one that builds it
        key = _canonical(service.image)
        if key not in by_image or (by_image[key].build is None and service.build is not None):
            by_image[key] = service
    wanted = {_canonical(image) for image in manifest.images()}
    needed: dict[str, Service] = {}
    waiting = [service for key, service in by_image.items() if key in wanted]
    while waiting:
        service = waiting.pop()
        if service.name in needed:
            continue
        needed[service.name] = service
        if service.build is not None:
            for image in _dockerfile(service, service.build, {}).images:
                base = by_image.get(_canonical(image))
                if base is not None:
                    waiting.append(base)
    taken = {_canonical(service.image) for service in needed.values()}
    skipped = tuple(
        service.name
        for service in compose.services
        if service.build is not None and service.name not in needed and _canonical(service.image) not in taken
    )
    _refuse_clashes(compose, needed)
    return tuple(service for service in compose.services if service.name in needed), skipped


def _refuse_clashes(compose: ComposeFile, needed: Mapping[str, Service]) -> None:
    clashes = [
        Issue(
            code="image_clash",
            line=other.line,
            pointer=f"/services/{other.name}/image",
            message=f"The services {service.name!r} and {other.name!r} build the image {other.image!r} differently.",
            hint="Give each an image of its own.",
        )
        for service in needed.values()
        for other in compose.services
        if other.name != service.name
        and other.build is not None
        and _canonical(other.image) == _canonical(service.image)
        and (other.build, other.platform) != (service.build, service.platform)
    ]
    if clashes:
        raise ManifestError(Report(source=str(compose.path), issues=tuple(clashes)), code="compose_invalid")


def _canonical(image: str) -> str:
    """A reference such that the same image has the same one: without the public registry's host, with a tag."""
    try:
        reference = ImageRef.parse(image)
    except ImageError:
        return image
    name = reference.name
    for host in ("docker.io/", "index.docker.io/"):
        name = name.removeprefix(host)
    name = name.removeprefix("library/")
    return f"{name}@{reference.digest}" if reference.digest else f"{name}:{reference.tag or 'latest'}"


def _dockerfile(service: Service, build: Build, args: Mapping[str, str]) -> Dockerfile:
    try:
        text, _, path = dockerfile_of(build)
        # looked at now, so that a malformed pattern does not wait behind the build of another image
        ignore_of(build, path)
    except ContextError as error:
        raise BuildError(
            f"The service {service.name!r} {error}.", code="build_context", context={"service": service.name}
        ) from None
    read = read_dockerfile(text, args={**build.args, **args}, target=build.target)
    if not read.stages and "FROM" not in text.upper():
        raise BuildError(
            f"The Dockerfile of service {service.name!r} has no FROM.",
            code="dockerfile_invalid",
            hint="A Dockerfile begins with the image it starts from.",
            context={"service": service.name},
        )
    every = read_dockerfile(text).stages
    target = build.target
    if target is not None and not target.isdigit() and target.lower() not in {stage.lower() for stage in every}:
        near = did_you_mean(target, filter(None, every))
        raise BuildError(
            f"The Dockerfile of service {service.name!r} has no stage {target!r}.",
            code="target_missing",
            hint=f"Did you mean {near!r}?"
            if near
            else f"Its stages: {listed(filter(None, every)) or 'none is named'}.",
            context={"service": service.name},
        )
    return read


@dataclass(frozen=True, kw_only=True)
class _Job:
    """One image to have: built once, however many services ask for the same."""

    service: Service
    build: Build | None
    args: Mapping[str, str] = field(repr=False)
    platform: str | None
    aliases: tuple[str, ...]
    """Other names for the same image."""
    bases: tuple[str, ...]
    """Images from elsewhere that it is built from."""
    after: tuple[str, ...]
    """Services that must be built before."""
    buildkit: str = ""


def _jobs(services: tuple[Service, ...], args: Mapping[str, str], platform: str | None) -> tuple[_Job, ...]:
    by_image = {_canonical(service.image): service.name for service in services}
    jobs: dict[object, _Job] = {}
    leader: dict[str, str] = {}
    for service in services:
        build = service.build
        wanted = platform or service.platform
        if build is None:
            jobs[service.name] = _Job(
                service=service, build=None, args={}, platform=wanted, aliases=(), bases=(), after=()
            )
            leader[service.name] = service.name
            continue
        read = _dockerfile(service, build, args)
        every = {**build.args, **args}
        after = {by_image[key] for image in read.images if (key := _canonical(image)) in by_image} - {service.name}
        same = (build.context, build.dockerfile, build.dockerfile_inline, build.target, build.platforms, wanted)
        key = (*same, tuple(sorted(every.items())))
        if key in jobs:
            first = jobs[key]
            leader[service.name] = first.service.name
            jobs[key] = replace(first, aliases=(*first.aliases, service.image))
            continue
        leader[service.name] = service.name
        jobs[key] = _Job(
            service=service,
            build=build,
            args=every,
            platform=wanted,
            aliases=(),
            bases=tuple(image for image in read.images if _canonical(image) not in by_image),
            after=tuple(sorted(after)),
            buildkit=read.buildkit,
        )
    found = tuple(replace(job, after=tuple(sorted({leader[name] for name in job.after}))) for job in jobs.values())
    _refuse_cycles(found)
    return found


def _refuse_cycles(jobs: tuple[_Job, ...]) -> None:
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


def _check_platform(text: str) -> None:
    try:
        Platform.parse(text)
    except ValueError as error:
        raise UsageError(f"The platform {error}.", code="bad_platform") from None


# --- building ----------------------------------------------------------------------------------------------------


class _Builder:
    def __init__(self, engine: Engine, publish: Publish, *, no_cache: bool, platform: str | None) -> None:
        self._engine = engine
        self._images = Images(engine, pull="missing")
        self._publish = publish
        self._no_cache = no_cache
        self._platform = platform
        self._built: dict[str, BuiltImage] = {}
        """What was built or found for services, by canonical name."""

    async def build(self, jobs: Iterable[_Job], parallel: int) -> None:
        """Have the images of all jobs, those that others start from first."""
        limiter = anyio.CapacityLimiter(parallel)
        done = {job.service.name: anyio.Event() for job in jobs}

        async def run(job: _Job) -> None:
            for name in job.after:
                await done[name].wait()
            async with limiter:
                await self._have(job)
            done[job.service.name].set()

        async with anyio.create_task_group() as tasks:
            for job in jobs:
                tasks.start_soon(run, job)

    async def _have(self, job: _Job) -> None:
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
        # by its id: somebody else may meanwhile build an image of the same name
        info = await self._images.ensure(digest, platform=None, publish=None)
        self._publish(ImageReady(image=service.image, digest=digest, platform=info.platform))
        for image in (service.image, *job.aliases):
            self._built[_canonical(image)] = BuiltImage(
                image=image,
                reference=content_tag(image, digest),
                digest=digest,
                platform=info.platform,
                service=service.name,
                seconds=time.monotonic() - begun,
            )

    def _choice(self, platforms: tuple[str, ...]) -> str | None:
        """One of the platforms a compose file lists: the engine's own, else the first."""
        own = Platform.parse(self._engine.platform)
        return next((text for text in platforms if Platform.parse(text) == own), platforms[0] if platforms else None)

    async def _base(self, service: Service, base: str, platform: str | None) -> None:
        """Have what an image starts from: local ones as they are, others pulled."""
        try:
            ImageRef.parse(base)
        except ImageError:
            # what cannot be told here, the build will
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
        """An image that is not built here: as it is, or pulled when absent."""
        key = _canonical(image)
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
                f"The image {reference!r} could not be tagged: {error.words}.", context={"image": reference}
            ) from error

    # --- what the manifest calls them

    async def references(self, plan: BuildPlan, *, resolve_mutable: bool) -> dict[str, BuiltImage]:
        """What the manifest calls each of its images, content tags made."""
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
        here = self._built.get(_canonical(image))
        if reference.kind == "registry" and resolve_mutable and (here is None or here.service is None):
            return await self._resolved(reference)
        found = here or await self._found(image, self._platform)
        # under the name the manifest has, whose spelling may differ from the service's
        tag = content_tag(image, found.digest)
        await self._tag(found.digest, tag)
        return replace(found, image=image, reference=tag)

    async def _resolved(self, reference: ImageRef) -> BuiltImage:
        """The image a registry has under a tag now, by digest, and present here."""
        headers = await registry_headers(reference.name)
        tagged = f"{reference.name}:{reference.tag or 'latest'}"
        try:
            async with self._engine.stream("GET", f"/distribution/{path_segment(tagged)}/json", headers=headers) as got:
                content = await got.read()
            digest = json.loads(content)["Descriptor"]["digest"]
        except (EngineRefused, EngineGone) as error:
            raise ImageError(
                f"The digest of {tagged!r} could not be had from its registry: {error.words}.",
                code="image_unresolved",
                hint="Is it pushed? Does its registry want a login? Use: docker login.",
                context={"image": reference.text},
            ) from error
        except (ValueError, KeyError, TypeError):
            digest = ""
        if not isinstance(digest, str) or not digest.startswith("sha256:"):
            raise ImageError(
                f"The engine gave no digest for {tagged!r}.", code="image_unresolved", context={"image": reference.text}
            )
        pinned = f"{reference.name}@{digest}"
        info = await self._images.ensure(pinned, platform=self._platform, publish=self._publish)
        self._publish(ImageReady(image=pinned, digest=info.digest, platform=info.platform))
        return BuiltImage(image=reference.text, reference=pinned, digest=info.digest, platform=info.platform)


# --- writing -----------------------------------------------------------------------------------------------------


def _with_images(manifest: Manifest, images: Mapping[str, str]) -> Manifest:
    """The manifest with its images under other names."""
    game = manifest.game
    runnable = game.runnable.model_copy(update={"image": images[game.runnable.image]})
    sections = {
        name: tuple(entry.model_copy(update={"image": images[entry.image]}) for entry in manifest.section(name))
        for name in ROLE_SECTIONS
    }
    return manifest.model_copy(update={"game": game.model_copy(update={"runnable": runnable}), **sections})


def _write(output: Path, text: str) -> None:
    # a link is written through, so that it stays one
    target = output.resolve() if output.is_symlink() else output
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WorkspaceError(
            f"The directory {target.parent} cannot be made: {error.strerror}.",
            code="output_unwritable",
            hint="Name another output.",
        ) from error
    atomic_write(target, text.encode())


def _platform_remarks(images: Iterable[BuiltImage]) -> tuple[Issue, ...]:
    other = sorted(
        {image.image for image in images if image.platform and Platform.parse(image.platform) != HOSTED_PLATFORM}
    )
    if not other:
        return ()
    message = f"{listed(other)}: not for {HOSTED_PLATFORM}, which uploads must be for."
    hint = f"Build with --platform {HOSTED_PLATFORM} before you upload."
    return (Issue(code="platform_not_hosted", severity="info", message=message, hint=hint),)
