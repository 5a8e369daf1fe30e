"""Builds the replay viewer of a package with the package's own hook, checks it, and puts it where the manifest says."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from coworld_core.episode.events import ImageProgressed
from coworld_core.errors import UsageError

from ..backend import Publish
from ..backends.helper_command import run_command
from ..errors import BuildError
from ..package.viewer_bundle import bundle_name, is_uploaded, read_bundle
from ._build_plan import BuildPlan

__all__ = ["ViewerPlan", "build_viewer", "plan_viewer"]

HOOK: Final = "tools/build_replay_viewer.sh"
"""The script that builds the viewer, relative to the template's directory."""


class ViewerPlan:
    """A viewer to build.

    Args:
        hook: The script that builds it.
        target: The directory to put it in.
        plan: The plan for building its package.
    """

    def __init__(self, hook: Path, target: Path, plan: BuildPlan) -> None:
        self.hook = hook
        self.target = target
        self.kept = tuple(path for path in (plan.template, plan.compose.path, plan.output, hook) if path.is_file())
        """Files that the hook must not change."""


def plan_viewer(plan: BuildPlan) -> ViewerPlan | None:
    """Return the plan for building a viewer, checked before anything is built; None if there is nothing to do.

    Raises:
        BuildError: There is neither a hook nor a viewer, the hook is not executable, or the viewer would replace
            something else.
    """
    viewer = plan.manifest.game.replay_viewer
    if viewer is None or is_uploaded(viewer.bundle):
        return None
    root, hook = plan.output.parent.resolve(), plan.template.parent.resolve() / HOOK
    try:
        target = root / bundle_name(viewer.bundle)
        if not hook.is_file():
            read_bundle(target)
            return None
    except UsageError as error:
        hint = error.hint if error.code == "viewer_place" else f"Make it with a script {hook}, or by hand beforehand."
        raise BuildError(error.message, code=error.code, hint=hint, context=error.context) from None
    if not os.access(hook, os.X_OK):
        raise BuildError(f"{hook} is not executable.", code="viewer_hook", hint=f"chmod +x {hook}")
    inside = any(path.resolve().is_relative_to(target.resolve()) for path in (plan.template, hook, plan.output))
    # An older viewer may be replaced; anything else may be somebody's work
    foreign = target.exists() and not (target / "index.html").is_file() and [*target.glob("*")] != []
    if inside or foreign or target.is_file() or not target.resolve().is_relative_to(root):
        raise BuildError(
            f"The replay viewer would take the place of {target}, which holds something else.",
            code="viewer_place",
            hint="Name a directory of its own in game.replay_viewer.bundle, such as build/viewer.",
            context={"bundle": viewer.bundle},
        )
    return ViewerPlan(hook, target, plan)


async def build_viewer(plan: ViewerPlan, publish: Publish) -> None:
    """Run the hook, and put the viewer in its place once it passes the checks; until then an older one stays.

    Raises:
        BuildError: The hook cannot be run or fails, changes files of the package, or does not produce a valid viewer.
    """
    before = {path: path.read_bytes() for path in plan.kept}
    staging = plan.target.parent / f".viewer-{secrets.token_hex(4)}"
    made = staging / plan.target.name
    try:
        await anyio.to_thread.run_sync(lambda: made.mkdir(parents=True))
        await _run(plan.hook, made, publish)
        changed = [path for path, content in before.items() if not path.is_file() or path.read_bytes() != content]
        for path in changed:
            path.write_bytes(before[path])
        if changed:
            raise BuildError(
                f"{plan.hook} changed {changed[0]}, which was put back.",
                code="viewer_hook",
                hint="It may write only to the directory given as its first argument.",
            )
        await anyio.to_thread.run_sync(read_bundle, made)
        await anyio.to_thread.run_sync(_put, made, plan.target, staging)
    except UsageError as error:
        message = error.message.replace(str(made), str(plan.target))
        hint = f"{plan.hook} must write the viewer to the directory given as its first argument."
        raise BuildError(message, code=error.code, hint=hint, context={"hook": str(plan.hook)}) from None
    except OSError as error:
        raise BuildError(
            f"The replay viewer cannot be put into {plan.target}: {error.strerror}.", code="viewer_unwritable"
        ) from error
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(lambda: shutil.rmtree(staging, ignore_errors=True))


def _put(made: Path, target: Path, staging: Path) -> None:
    if target.exists():
        target.rename(staging / "older")
    made.rename(target)


async def _run(hook: Path, made: Path, publish: Publish) -> None:
    def tell(line: str) -> None:
        publish(ImageProgressed(image="replay viewer", status=line))

    try:
        status, tail = await run_command([str(hook), str(made)], cwd=hook.parents[1], tell=tell)
    except OSError as error:
        raise BuildError(
            f"{hook} cannot be run: {error.strerror}.",
            code="viewer_hook",
            hint="Its first line must name an interpreter that exists, such as #!/bin/sh.",
        ) from error
    if status:
        raise BuildError(
            f"{hook} ended with status {status}; the replay viewer was not made.",
            code="viewer_hook",
            hint=tail.rpartition("\n")[2] or f"It printed nothing; run it by hand: {hook} /tmp/viewer",
            context={"log_tail": tail, "hook": str(hook)},
        )
