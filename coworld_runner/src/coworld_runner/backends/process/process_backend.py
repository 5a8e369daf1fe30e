"""The process backend: units are local processes, for code you trust.

There is no daemon and no image: a unit runs the `run` of its manifest entry, or its Dockerfile's command, in the
build context of its image, laid out as the Dockerfile copies it, with the interpreter that runs coworld. Each unit
lives under a shim (`_shim`) that dies with the runner and kills the unit's whole process tree.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import AsyncGenerator, Callable, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from coworld_core.episode.events import ImageProgressed, ImageReady
from coworld_core.errors import BackendUnavailable, ImageError, StartError
from coworld_core.issues import Issue
from coworld_core.operating_system import require_posix

from ...backend import Capabilities, Found, ImageInfo, Placement, Publish, Reaped, UnitSpec
from ...images.compose import Build, Contexts
from ...runs.scratch import REMOVE_SECONDS, make_scratch
from ..base import BaseBackend, BaseUnit, find_processes, process_labels, reap_processes
from ..registry import BackendOptions
from ._image_interpreter import image_interpreter
from ._image_layout import ImageLayout, Layout, layout_of
from ._pip_requirements import PACKAGE_FILES, requirements_of
from ._process_unit import ProcessUnit, run_by
from ._program_ahead import CAN_FORK, ProgramAhead, ProgramsAhead
from .child_environment import child_environment, python_path

if TYPE_CHECKING:
    from ._python_environment import PythonEnvironment

__all__ = ["ProcessBackend"]


def _with_local_paths(spec: UnitSpec, layout: ImageLayout) -> UnitSpec:
    """Replace paths in the image, in a unit's command and variables, with the paths of those files here."""

    def environment(placement: Placement) -> Mapping[str, str]:
        given = {name: layout.here(value) for name, value in spec.environment(placement).items()}
        own = layout.env.get("PYTHONPATH")
        together = {"PYTHONPATH": os.pathsep.join(filter(None, (own, python_path())))} if own else {}
        return {**layout.env, **together, **given}

    return replace(spec, argv=layout.argv(spec.argv), environment=environment)


def _with_command(spec: UnitSpec, layout: Layout | None) -> UnitSpec:
    """Add the command of its image to a unit that names none."""
    argv = spec.argv or (layout.command if layout is not None else ())
    if not argv:
        raise StartError(
            f"{spec.name} names no command, and a local process has no image to take one from.",
            code="no_command",
            hint="Give the runnable a `run` in the manifest, a CMD to its Dockerfile, or use the docker backend.",
            context={"unit": spec.name, "image": spec.image},
        )
    return replace(spec, argv=argv)


def _laid_out(
    spec: UnitSpec, layout: Layout | None, context: Path, laid: ImageLayout | None = None
) -> tuple[UnitSpec, Path, ImageLayout | None]:
    """Lay the files of a unit's image out beside its directory, unless that has been done.

    Returns:
        The unit with the paths there, where it runs, and the files; None if it runs in the build context.
    """
    if layout is None or not layout.read.copies or spec.directory is None:
        return spec, context, None
    # Beside the unit's own directory: removed with the run, but not counted against the unit
    if unmade := layout.unmade(spec.argv):
        raise _not_made(spec, *unmade)
    laid = laid or layout.put(spec.directory.with_name(f"{spec.directory.name}-image"), program=spec.argv[0])
    return _with_local_paths(spec, laid), laid.workdir or context, laid


def _made(environment: PythonEnvironment | None) -> PythonEnvironment | None:
    return environment if environment is not None and environment.made else None


def _ahead_alone(spec: UnitSpec) -> Callable[[Placement], Mapping[str, str]]:
    def environment(_: Placement) -> Mapping[str, str]:
        return spec.ahead or {}

    return environment


def _program(spec: UnitSpec) -> Hashable:
    """Which program a unit runs that can be started ahead."""
    return spec.image, spec.argv, tuple(sorted((spec.ahead or {}).items()))


def _not_made(spec: UnitSpec, word: str, place: Path) -> StartError:
    return StartError(
        f"{spec.name} cannot be started: its Dockerfile copies {word} from {place}, which is not there.",
        code="program_missing",
        hint="If a build step makes it, build it there, or use the docker backend, which runs all build steps.",
        context={"unit": spec.name, "program": word, "path": str(place)},
    )


class ProcessBackend(BaseBackend):
    """Runs units as local processes, for code you trust: only the caller's environment is hidden from them.

    Limits are watched rather than enforced by the kernel: a few times a second the backend sums up the memory of a
    unit's whole tree (shared memory counts once), its processes and threads, and the bytes in its own directory, its
    home and its temporary files. Units over a limit are killed. No single file grows beyond the disk limit.

    Args:
        contexts: Directory to run in, by image reference (the build contexts of the package's compose file).
        default_context: Directory for images that `contexts` does not name; None refuses them.
        install: Whether a package gets an environment of Python of its own, with what its Dockerfile installs by pip.
    """

    name = "process"

    def __init__(
        self,
        *,
        contexts: Mapping[str, Path] | None = None,
        default_context: Path | None = None,
        install: bool = False,
    ) -> None:
        self._install = install
        self._ahead = ProgramsAhead()
        self._installing: dict[Path, anyio.Lock] = {}
        # Not copied: the mapping may resolve tags that it does not list
        self._contexts: Mapping[str, Path] = contexts or {}
        self._default_context = default_context

    @classmethod
    def of(cls, options: BackendOptions) -> Self:
        """Create the backend for a package; the entry point in `coworld.backends`."""
        return cls(contexts=options.contexts, install=options.install)

    @property
    def capabilities(self) -> Capabilities:
        """Memory and process limits are watched on Linux, disk limits everywhere; nothing is isolated."""
        listed = sys.platform == "linux"
        return Capabilities(
            images=False,
            network_isolation=False,
            file_isolation=False,
            memory_limit=listed,
            cpu_limit=False,
            pids_limit=listed,
            disk_limit=True,
            remote=False,
        )

    async def __aenter__(self) -> Self:
        require_posix()
        if not sys.executable:
            raise BackendUnavailable(
                "The process backend cannot tell which Python interpreter runs it.",
                hint="Run coworld from an ordinary Python installation.",
            )
        return self

    async def __aexit__(self, *exc: object) -> None:
        """End the programs that were started ahead."""
        await self._ahead.close()

    async def check(self) -> tuple[Issue, ...]:
        """Report what this backend does not support here, and which build contexts are missing."""
        issues = [
            Issue(
                code="trusted_code_only",
                severity="info",
                message="Local processes can read and change whatever you can: run only packages you trust.",
                hint="Use the docker backend for all others.",
            )
        ]
        if sys.platform != "linux":
            issues.append(
                Issue(
                    code="limits_unsupported",
                    severity="info",
                    message="Memory and process limits need Linux, as does ending children that left their session.",
                    hint="Use the docker backend where that matters.",
                )
            )
        issues.extend(
            Issue(
                code="context_missing",
                message=f"The build context of {image!r} is not a directory: {context}.",
                hint="Correct the image's build context in the package's compose.yaml.",
            )
            for image, context in self._contexts.items()
            if not context.is_dir()
        )
        issues.extend(
            Issue(
                code="dockerfile_invalid",
                severity="warning",
                message=f"{trouble} So commands run in {context} itself.",
                hint="Correct that line, or name the command and its variables in the manifest as they are there.",
            )
            for context, trouble in dict.fromkeys(
                (context, layout_of(self._build(image, context))[1]) for image, context in self._contexts.items()
            )
            if trouble
        )
        return tuple(issues)

    def _build(self, image: str, context: Path) -> Build:
        """How an image is built; by default from the Dockerfile of its context."""
        known = self._contexts.build(image) if isinstance(self._contexts, Contexts) else None
        return known or Build(context=context)

    def _context(self, image: str) -> Path:
        context = self._contexts.get(image, self._default_context)
        if context is None:
            unpublished = re.fullmatch(r"img_[0-9a-f-]{36}", image) is not None
            raise ImageError(
                f"{image!r} has no directory to run in on the process backend.",
                code="image_unreachable" if unpublished else "context_unknown",
                hint="It is the id of an unpublished image and stands for nothing here; name the image instead."
                if unpublished
                else "Name the image with a build context in the package's compose.yaml, or use the docker backend.",
                context={"image": image},
            )
        if not context.is_dir():
            raise ImageError(
                f"The directory that {image!r} runs in does not exist: {context}.",
                code="context_missing",
                hint="Correct the image's build context in the package's compose.yaml.",
                context={"image": image, "directory": str(context)},
            )
        return context

    async def ensure_image(
        self, image: str, *, platform: str | None = None, publish: Publish | None = None
    ) -> ImageInfo:
        """Find the directory that an image's command runs in, and install what its Dockerfile installs, if asked to.

        Raises:
            ImageError: The image has no directory, or it does not exist.
            BuildError: Something cannot be installed (code `install_failed`).
        """
        context = self._context(image)
        await self._ensure_packages(image, self._build(image, context), publish)
        here = f"{sys.platform}/{os.uname().machine}"
        if publish is not None:
            publish(ImageReady(image=image, platform=here))
        return ImageInfo(image=image, platform=here, context=context)

    async def ensure_packages(self, name: str, directory: Path, *, publish: Publish | None = None) -> None:
        """Install what the files of a player ask for, if this backend installs."""
        await self._ensure_packages(name, Build(context=directory), publish)

    async def _ensure_packages(self, name: str, build: Build, publish: Publish | None) -> None:
        def find() -> PythonEnvironment | None:
            return self._environment(name, build.context, layout_of(build)[0])

        environment = await anyio.to_thread.run_sync(find)

        def tell(words: str) -> None:
            if publish is not None:
                publish(ImageProgressed(image=name, status=words))

        if environment is not None:
            async with self._installing.setdefault(environment.place, anyio.Lock()):
                await environment.ensure(tell)

    def _environment(self, name: str, context: Path, layout: Layout | None) -> PythonEnvironment | None:
        """Return the environment of a package; None if it needs none, or if this backend does not install."""
        needed = requirements_of(name, context, layout) if self._install else None
        if needed is None or not needed.steps:
            return None
        from ._python_environment import PythonEnvironment

        return PythonEnvironment(needed)

    @asynccontextmanager
    async def group(
        self, specs: Sequence[UnitSpec], *, publish: Publish, tasks: TaskGroup
    ) -> AsyncGenerator[Sequence[BaseUnit], None]:
        """Yield units; programs of which there are several may be started ahead for them."""
        for spec in specs:
            if spec.ahead is not None and CAN_FORK:
                await self._ahead.meet(_program(spec), self._context(spec.image), partial(self._begin_ahead, spec))
        async with super().group(specs, publish=publish, tasks=tasks) as units:
            yield units

    async def _begin_ahead(self, spec: UnitSpec) -> ProgramAhead:
        return await anyio.to_thread.run_sync(self._start_ahead, spec)

    def _start_ahead(self, spec: UnitSpec) -> ProgramAhead:
        """Start a unit's program ahead of others, with files and labels of its own."""
        scratch = make_scratch()
        try:
            context = self._context(spec.image)
            layout, _ = layout_of(self._build(spec.image, context))
            python = _made(self._environment(spec.image, context, layout))
            for name in ("home", "tmp", "program"):
                scratch.directory(name)
            own = replace(
                _with_command(spec, layout),
                run_id=scratch.run_id,
                name="ahead",
                directory=scratch.path / "program",
                environment=_ahead_alone(spec),
            )
            own, context, laid = _laid_out(own, layout, context)
            first, *rest = own.argv
            return ProgramAhead(
                [run_by(first, python), *rest],
                {
                    **process_labels(own),
                    **child_environment(scratch.path, python),
                    **own.environment(Placement(directory="", listen_host="", listen={}, endpoints={})),
                },
                directory=context,
                scratch=scratch,
                laid=laid,
            )
        except BaseException:
            scratch.remove(REMOVE_SECONDS)
            raise

    def unit(self, spec: UnitSpec, *, publish: Publish, tasks: TaskGroup) -> ProcessUnit:
        """Create a unit that runs as a local process.

        Raises:
            ImageError: The image has no directory to run in.
            StartError: The spec has no command.
        """
        context = self._context(spec.image)
        layout, _ = layout_of(self._build(spec.image, context))
        own = spec.inputs if spec.component == "player" and spec.inputs is not None else None
        own_layout = None
        if own is not None and any((own / name).is_file() for name in PACKAGE_FILES):
            own_layout, _ = layout_of(Build(context=own))
            environment = self._environment(spec.name, own, own_layout)
        else:
            environment = self._environment(spec.image, context, layout)
        ahead = self._ahead.find(_program(spec)) if spec.ahead is not None else None
        spec = _with_command(spec, layout)
        argv = spec.argv
        spec, context, _ = _laid_out(spec, layout, context, ahead.laid if ahead is not None else None)
        read = own_layout or layout
        named = [word for install in layout.read.installs for word in install.named] if layout is not None else []
        return ProcessUnit(
            spec,
            backend=self,
            context=context,
            installs=tuple(dict.fromkeys(named)),
            interpreter=image_interpreter(argv, read.read.images if read is not None else ()),
            environment=_made(environment),
            ahead=ahead,
            publish=publish,
            tasks=tasks,
        )

    async def find_units(self, run_id: str | None) -> Sequence[Found]:
        """Find this user's processes that belong to a run."""
        return await anyio.to_thread.run_sync(find_processes, run_id)

    async def reap_units(self, found: Sequence[Found], *, force: bool) -> Sequence[Reaped]:
        """Kill processes, but never this process or its ancestors."""
        return await reap_processes(found, force=force)
