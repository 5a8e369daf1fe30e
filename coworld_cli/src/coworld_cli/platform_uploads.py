"""Uploads of policies and Coworlds, from options to what the platform has now."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import click

from coworld_client import CoworldClient
from coworld_client.uploads import Certified, ImageProgress, OnImage, Uncertified, UploadedCoworld
from coworld_core.errors import UsageError

from . import exitcodes
from .output import Output
from .platform_files import shown_progress
from .platform_render import dump
from .platform_smoke import smoke_answer, smoke_text, wait_smoke
from .platform_tables import coworld_details
from .running import Running
from .text import clean, command_line, shown_path, size

__all__ = ["CoworldUpload", "PolicyUpload", "patch_commissioner", "upload_coworld", "upload_policy"]


@dataclass(frozen=True, kw_only=True)
class PolicyUpload:
    """A policy version that is to be made."""

    image: str
    name: str
    run: tuple[str, ...]
    secret_env: Mapping[str, str] = field(repr=False)
    tags: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class CoworldUpload:
    """A Coworld version that is to be made: from a manifest, or as a change to one that is there."""

    manifest: str
    backend: str
    platform: str | None
    server: str
    source: str | None
    version: str | None
    patch: Mapping[str, Any] | None
    images: Mapping[str, str]
    skip_certification: str | None
    timeout: float
    wait: float | None
    """Seconds to wait for the hosted episodes; None: not at all."""


@contextmanager
def _watched(out: Output) -> Generator[OnImage]:
    """Show how far an image is, and say once for each stage that it has begun."""
    begun: set[tuple[str, str]] = set()
    words = {"reading": "reading", "packing": "packing", "pushing": "sending"}
    with shown_progress(out, "image") as tell:

        def told(progress: ImageProgress) -> None:
            stage = progress.image, progress.stage
            if stage not in begun:
                begun.add(stage)
                total = f", {size(progress.total)}" if progress.total else ""
                out.note(f"{clean(progress.image, one_line=True)}: {words[progress.stage]}{total}")
            tell(progress.done, progress.total)

        yield told


async def upload_policy(api: CoworldClient, upload: PolicyUpload, running: Running) -> None:
    """Upload a player image as the next version of a policy."""
    out = running.out
    running.to_go_on = "Layers that were sent are not sent again."
    with _watched(out) as told:
        made = await api.policies.upload(
            upload.image,
            name=upload.name,
            run=upload.run,
            secret_env=upload.secret_env or None,
            tags=upload.tags or None,
            on_progress=told,
        )
    out.answer(dump(made))
    out.say(f"Upload complete: {clean(made.label, one_line=True)}")
    out.say(f"Version id: {clean(made.id, one_line=True)}")
    out.say(f"Submit it:  {command_line('submit', made.label, '--league', 'LEAGUE_ID')}")
    if made.submit_error:
        out.warn(clean(made.submit_error, one_line=True))


async def upload_coworld(api: CoworldClient, upload: CoworldUpload, running: Running) -> int:
    """Certify a Coworld, upload it, and wait for the platform's own episodes of it."""
    out = running.out
    if upload.source is not None:
        done = await _update(api, upload, upload.source, out)
    else:
        done = await _upload(api, upload, running)
        if done is None:
            return exitcodes.ANSWER_IS_NO
    coworld = done.coworld
    out.say(coworld_details(coworld))
    out.say("The platform had this version already." if done.already else "Uploaded.")
    answer = {**dump(coworld), "already": done.already, "images": [dump(image.image) for image in done.images]}
    if upload.wait is None:
        out.answer(answer)
        return exitcodes.OK
    out.note(f"Waiting for the platform's own episodes of {clean(coworld.id)}; Ctrl-C leaves them going.")
    status = await wait_smoke(api, coworld.id, upload.wait, running)
    out.answer({**answer, **smoke_answer(status)})
    out.say(smoke_text(status))
    return exitcodes.ANSWER_IS_NO if status.verdict in ("failed", "pending") else exitcodes.OK


async def _upload(api: CoworldClient, upload: CoworldUpload, running: Running) -> UploadedCoworld | None:
    """Upload a manifest of this machine, once it is certified; None when it is not."""
    from coworld_runner.packages import resolve_package

    out = running.out
    package = await resolve_package(upload.manifest, mode="strict", prefer="manifest", template=False)
    if package.path is None:
        raise UsageError(
            f"{package.source} is not a file of this machine, so it cannot be uploaded.",
            code="manifest_not_local",
            hint="Download it first, or change a Coworld of the platform with --from-coworld.",
        )
    certification: Certified | Uncertified
    if upload.skip_certification is not None:
        out.warn(f"not certified: {clean(upload.skip_certification, one_line=True)}")
        certification = Uncertified(reason=upload.skip_certification)
    else:
        record = await _certify(upload, str(package.path), running)
        if record is None:
            return None
        certification = Certified.from_record(record)
    with _watched(out) as told:
        return await api.coworlds.upload(package.path, certification=certification, on_progress=told)


async def _certify(upload: CoworldUpload, manifest: str, running: Running) -> Mapping[str, Any] | None:
    """The record of a certification that was passed; one that was not is shown."""
    from .certifying import CertifyFlags, certify_here, verdict_text

    out = running.out
    flags = CertifyFlags(
        manifest=manifest,
        backend=upload.backend,
        platform=upload.platform,
        server=upload.server,
        timeout_seconds=upload.timeout,
        open_browser=False,
    )
    certification, workspace = await certify_here(flags, running)
    record = certification.model_dump(mode="json", by_alias=True)
    if certification.ok:
        out.note(f"Certified: {certification.verdict}. The evidence is in {shown_path(workspace)}.")
        return record
    out.answer({"ok": False, "uploaded": False, "workspace": str(workspace), "certification": record})
    out.say(verdict_text(certification, workspace, flags))
    out.say(click.style("Not uploaded.", fg="red", bold=True))
    return None


async def _update(api: CoworldClient, upload: CoworldUpload, source: str, out: Output) -> UploadedCoworld:
    """Upload a change to a Coworld of the platform, whose other images are not on this machine."""
    reason = upload.skip_certification
    if reason is None:
        reason = f"changed from {source} on the platform, without its images here"
    out.warn(f"not certified on this machine: {clean(reason, one_line=True)}")
    with _watched(out) as told:
        return await api.coworlds.update(
            source,
            certification=Uncertified(reason=reason),
            version=upload.version,
            patch=upload.patch,
            images=upload.images or None,
            on_progress=told,
        )


async def patch_commissioner(
    api: CoworldClient, name: str, image: str, *, runnable: str | None, version: str | None, running: Running
) -> None:
    """Give a Coworld another commissioner."""
    out = running.out
    with _watched(out) as told:
        coworld = await api.coworlds.patch_commissioner(
            name, image, runnable_id=runnable, version=version, on_progress=told
        )
    out.answer(dump(coworld))
    out.say(coworld_details(coworld))
