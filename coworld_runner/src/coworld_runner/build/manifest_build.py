"""Builds a manifest from a compose file and a template; its images exist and are named by content.

Everything that can be checked beforehand is checked before the first image is built; the manifest is checked again
before it is written, atomically. Images are built through the engine's own API: no compose plugin and no docker command
is needed. A base image that the engine already has is never looked up in a registry.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import anyio.to_thread

from coworld_core.docker_address import resolve_address
from coworld_core.episode.events import Notice, PhaseFinished, PhaseStarted, RunFinished, RunStarted
from coworld_core.errors import ImageError, UsageError, WorkspaceError
from coworld_core.hints import Hint
from coworld_core.images import HOSTED_PLATFORM, Platform
from coworld_core.issues import Issue, Report
from coworld_core.manifest.manifest_file import dump_manifest
from coworld_core.manifest.manifest_fixes import manifest_for
from coworld_core.manifest.models import Manifest
from coworld_core.text.phrases import listed
from coworld_core.versions import Published

from ..backend import Publish, to_nobody
from ..backends.docker._engine import Engine
from ..errors import BuildError, unwrapped
from ..runs.processors import usable_processors
from ..runs.workspace import atomic_write
from ._build_plan import BuildPlan, plan_build
from ._image_builder import Builder, BuiltImage, check_platform, jobs_of
from ._pinned_sources import pinned
from ._player_files import check_player_files, copy_player_files
from ._viewer_build import build_viewer, plan_viewer

__all__ = ["BuildError", "BuildPlan", "BuildResult", "BuiltImage", "build_coworld", "plan_build"]


@dataclass(frozen=True, kw_only=True)
class BuildResult:
    """A finished build."""

    manifest_path: Path
    manifest: Manifest
    version: str
    images: Mapping[str, BuiltImage]
    """The result for each image, by its name in the compose file or the template."""
    report: Report
    """Warnings and remarks; no errors."""
    seconds: float


async def build_coworld(
    project: Path | None = None,
    *,
    compose: Path | None = None,
    template: Path | None = None,
    version: str | None = None,
    output: Path | None = None,
    service: str | None = None,
    resolve_mutable: bool = False,
    platform: str | None = None,
    build_args: Mapping[str, str] | None = None,
    no_cache: bool = False,
    parallel: int | None = None,
    host: str | None = None,
    publish: Publish | None = None,
    published: Published | None = None,
) -> BuildResult:
    """Build a package's images and write its manifest.

    Only the images that the manifest names and the images they are built from are built; independent images are built
    concurrently. Services without `build` and images without a service are used as they are, and pulled if absent.
    Images named by digest keep their names; all others get a content tag `NAME:coworld-<12 hex of the image id>`.
    Links to sources in the package's own repository are pinned to the commit that is built, if it is pushed. If the
    manifest names a directory for a replay viewer, `tools/build_replay_viewer.sh` beside the template builds it; the
    script runs in the template's directory, with the directory to write to as its only argument.

    Args:
        project: See `plan_build`, like `compose`, `template`, `version`, `output` and `service`.
        compose: The compose file.
        template: The template.
        version: The version.
        output: The manifest to write.
        service: The one service to build.
        resolve_mutable: Pin registry images that are not built here to the digest that the registry has now.
        platform: os/architecture to build for; None: as each service says, else the engine's own.
        build_args: Build arguments, which override those of the compose file.
        no_cache: Run every step again.
        parallel: How many images to build at once; None: one for each processor, at most four.
        host: Address of the engine; None: as the docker command finds it.
        publish: Receives events.
        published: A published version that is to read the manifest: fields that it refuses and does not need are left
            out.

    Returns:
        The finished build. If anything fails, an older output is left untouched.

    Raises:
        UsageError: See `plan_build`.
        ManifestError: See `plan_build`; or `published` refuses more.
        WorkspaceError: The output cannot be written.
        BuildError: An image could not be built (the message names service and step), or the replay viewer could not.
        BackendUnavailable: No engine responds.
        ImageError: An image is absent and cannot be pulled, or is for another platform.
        EnvironmentFault: There is no disk space left.
    """
    begun = time.monotonic()
    publish = publish or to_nobody
    if platform is not None:
        check_platform(platform)
    if parallel is not None and parallel < 1:
        raise UsageError("At least one image must be built at a time.", code="bad_parallel")

    def plan() -> BuildPlan:
        return plan_build(project, compose=compose, template=template, version=version, output=output, service=service)

    with _Phase("check", publish):
        planned = await anyio.to_thread.run_sync(plan)
        left_out: tuple[Issue, ...] = ()
        if published is not None:
            read, left_out = manifest_for(planned.manifest, published)
            planned = replace(planned, manifest=read)
        manifest, unpinned = await anyio.to_thread.run_sync(pinned, planned.manifest, planned.template.parent)
        viewer = await anyio.to_thread.run_sync(plan_viewer, planned)
        await anyio.to_thread.run_sync(check_player_files, planned)
        jobs = await anyio.to_thread.run_sync(jobs_of, planned.services, build_args or {}, platform)
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
        async with Engine.connect(resolve_address(host)) as engine:
            builder = Builder(engine, publish, no_cache=no_cache, platform=platform)
            with _Phase("build", publish), unwrapped():
                await builder.build(jobs, parallel or min(4, usable_processors()))
            with _Phase("tag", publish), unwrapped():
                images = await builder.references(planned, resolve_mutable=resolve_mutable)
        if viewer is not None:
            with _Phase("viewer", publish):
                await build_viewer(viewer, publish)
        with _Phase("write", publish):
            manifest = manifest.with_images({name: image.reference for name, image in images.items()})
            await anyio.to_thread.run_sync(copy_player_files, planned)
            await anyio.to_thread.run_sync(_write, planned.output, dump_manifest(manifest))
        finished = finished.model_copy(update={"status": "completed", "ok": True})
    except anyio.get_cancelled_exc_class():
        finished = finished.model_copy(update={"status": "interrupted"})
        raise
    except (BuildError, ImageError) as error:
        # What is not read of the compose file may be what the build lacked
        unread = [issue.message for issue in planned.report.warnings if issue.code == "key_not_read"]
        error.message = " ".join((error.message, *unread))
        raise
    finally:
        publish(finished.model_copy(update={"seconds": time.monotonic() - begun}))
    return BuildResult(
        manifest_path=planned.output,
        manifest=manifest,
        version=planned.version,
        images=images,
        report=planned.report.extended((*left_out, *unpinned, *_platform_remarks(images.values()))),
        seconds=time.monotonic() - begun,
    )


class _Phase:
    def __init__(self, name: str, publish: Publish) -> None:
        self._name = name
        self._publish = publish

    def __enter__(self) -> None:
        self._begun = time.monotonic()
        self._publish(PhaseStarted(phase=self._name))

    def __exit__(self, *exc: object) -> None:
        self._publish(PhaseFinished(phase=self._name, seconds=time.monotonic() - self._begun))


def _write(output: Path, text: str) -> None:
    # Write to the target of a symbolic link, so that the link stays
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
    message = f"{listed(other)}: not built for {HOSTED_PLATFORM}, which uploads require."
    hint = Hint("build_hosted", "Build with platform={platform!r} before you upload.", platform=str(HOSTED_PLATFORM))
    return (Issue(code="platform_not_hosted", severity="info", message=message, hint=hint),)
