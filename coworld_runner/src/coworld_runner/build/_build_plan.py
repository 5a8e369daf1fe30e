"""Finds and checks everything that a build reads and writes, before anything is built."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from coworld_core.errors import ImageError, ManifestError, UsageError, WorkspaceError
from coworld_core.hints import Hint
from coworld_core.images import ImageRef
from coworld_core.issues import Issue, Report
from coworld_core.manifest.manifest_file import (
    MANIFEST_NAME,
    TEMPLATE_NAME,
    check_manifest,
    load_manifest,
    read_document,
)
from coworld_core.manifest.models import Manifest
from coworld_core.manifest.template import hydrate, image_names, placeholders
from coworld_core.text.phrases import closest, listed

from ..errors import BuildError
from ..images.build_context import ContextError, dockerfile_of, ignore_of
from ..images.compose import (
    COMPOSE_NAMES,
    Build,
    ComposeFile,
    Service,
    find_compose,
    find_dockerfile,
    find_parts,
    load_compose,
    parts_without_compose,
    without_compose,
)
from ..images.dockerfile import Dockerfile, read_dockerfile
from ..package.locations import missing

__all__ = ["DEFAULT_VERSION", "BuildPlan", "canonical", "dockerfile_for", "plan_build"]


DEFAULT_VERSION = "0.1.0"
"""Version of a package's first manifest, if none is given."""


@dataclass(frozen=True, kw_only=True)
class BuildPlan:
    """The checked inputs and outputs of a build; nothing has been built yet."""

    compose: ComposeFile
    template: Path
    output: Path
    version: str
    manifest: Manifest
    """The manifest with the compose file's names for images, which are not content tags yet; otherwise valid."""
    services: tuple[Service, ...]
    """The services whose images the manifest needs, and the services those are built from."""
    skipped: tuple[str, ...]
    """Names of the other services that could be built."""
    report: Report
    """Warnings and remarks about the compose file and the template; no errors."""


def plan_build(
    project: Path | None = None,
    *,
    compose: Path | None = None,
    template: Path | None = None,
    version: str | None = None,
    output: Path | None = None,
    service: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> BuildPlan:
    """Find and check everything that a build needs, without an engine.

    Args:
        project: The package's directory, which is searched for the files not given; or the template's file.
        compose: The compose file; by default the one in the project, or in the directory above it. If there is none,
            the Dockerfile there is the only service; without that, each directory with a Dockerfile is a service.
        template: The template (or a manifest); by default `coworld_manifest_template.json` in the project, else the
            only JSON file there with placeholders for images.
        version: PEP 440 version; by default that of the manifest built before, else 0.1.0.
        output: The manifest to write; by default `coworld_manifest.json` in the project, or in `dist` there if
            that file is the template.
        service: The only service to build; the images of others are used as they are. Without a compose file, the name
            of the only service; by default it comes from the template's only placeholder or local image.
        environment: Values for variables of the compose file; None: this process's environment.

    Raises:
        UsageError: A file that was given does not exist, or a required one was neither given nor found.
        ManifestError: The compose file or the template has errors, or they do not match; all errors are listed.
        WorkspaceError: The output cannot be written.
        BuildError: A build context or a Dockerfile is missing or unreadable.
    """
    if project is not None and template is None and project.suffix == ".json" and project.is_file():
        project, template = project.absolute().parent, project
    project = _directory(project) if project is not None else None
    compose_path = _compose_path(project, compose)
    template_path = _template_path(project, template)
    if output is None:
        if project is None:
            raise UsageError("A build needs an output.", code="output_missing", hint="Name the manifest to write.")
        output = project / MANIFEST_NAME
        if output.exists() and output.samefile(template_path):
            output = project / "dist" / MANIFEST_NAME
    output = output.expanduser().absolute()
    if compose_path.is_dir():
        parts = parts_without_compose(compose_path, image_names(read_document(template_path).value))
        read = _with_one_built(parts, service)
    elif compose_path.name == "Dockerfile":
        read = _only_service(compose_path, template_path, service)
    else:
        told = compose is not None and not compose.is_dir()
        read = _with_one_built(load_compose(compose_path, environment=environment, overridden=not told), service)
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
    found = find_compose(project) or find_dockerfile(project)
    if found is None and find_parts(project):
        return project
    if found is None:
        raise UsageError(
            f"{project} holds neither a compose file nor a Dockerfile.",
            code="compose_missing",
            hint=f"Looked for {listed((*COMPOSE_NAMES, 'Dockerfile'), word='or')}, there and in the directory above, "
            "and for directories with a Dockerfile.",
            context={"path": str(project)},
        )
    return found


def _template_path(project: Path | None, template: Path | None) -> Path:
    if template is None:
        if project is None:
            raise UsageError("A build needs a template.", code="template_missing", hint="Name it, or the package.")
        path = project / TEMPLATE_NAME
        others = [] if path.is_file() else [other for other in sorted(project.glob("*.json")) if _is_template(other)]
        if len(others) == 1:
            return others[0]
        if len(others) > 1:
            raise UsageError(
                f"{project} holds several templates: {listed(other.name for other in others)}.",
                code="template_missing",
                hint=Hint("name_template", "Pass the one to build from as template."),
                context={"path": str(project)},
            )
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


def _is_template(path: Path) -> bool:
    """Whether a file is JSON with placeholders for images."""
    try:
        document: object = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and bool(placeholders(cast("dict[str, Any]", document)))


def _only_service(dockerfile: Path, template: Path, name: str | None) -> ComposeFile:
    """Return the only service of a package that has a Dockerfile and no compose file, as a compose file."""
    if name is not None:
        return without_compose(dockerfile, name)
    document = read_document(template)
    manifest = cast("dict[str, Any]", document.value) if isinstance(document.value, dict) else {}
    found = placeholders(manifest)
    if len(found) == 1:
        name = found[0].strip("{}").removesuffix("_IMAGE").lower().replace("_", "-")
        return without_compose(dockerfile, name)
    images = {image for image in image_names(manifest) if _may_be_built(image)} if not found else set[str]()
    if len(images) == 1:
        (image,) = images
        return without_compose(dockerfile, ImageRef.parse(image).name.rpartition("/")[2], image=image)
    what = f"the placeholders {listed(found)}" if found else "no placeholder"
    raise UsageError(
        f"{template.name} has {what}, and there is no compose file that says which image {dockerfile} is for.",
        code="service_missing",
        hint=Hint(
            "name_service",
            "Pass the service, and name the images of others in the template; or write a compose file.",
        ),
        context={"template": str(template), "placeholders": list(found)},
    )


def _may_be_built(image: str) -> bool:
    try:
        return ImageRef.parse(image).kind == "local"
    except ImageError:
        return False


def _with_one_built(read: ComposeFile, name: str | None) -> ComposeFile:
    """Return a compose file in which only the named service is built; unchanged if no name is given."""
    if name is None:
        return read
    if name not in (names := [service.name for service in read.services]):
        near = closest(name, names)
        raise UsageError(
            f"{read.path} has no service {name!r}.",
            code="unknown_service",
            hint=f"Did you mean {near!r}?" if near else f"There are: {listed(names)}.",
            context={"services": names},
        )
    services = tuple(service if service.name == name else replace(service, build=None) for service in read.services)
    return replace(read, services=services)


def _default_version(output: Path, template: Path, issues: list[Issue]) -> str:
    """Return the version of the manifest that was built before, or the default version."""
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
        issues.append(Issue(code="version_not_kept", severity="info", message=message, hint="Name the version."))
    return DEFAULT_VERSION


def _checked_template(path: Path, compose: ComposeFile, version: str) -> tuple[Manifest, Report]:
    """Return the manifest as it will be apart from the names of images; all errors are reported at once."""
    report = check_manifest(path, mode="strict", template=True)
    # A missing version in a template needs no remark here
    report = report.model_copy(update={"issues": tuple(i for i in report.issues if i.code != "lifted_version")})
    document = read_document(path)
    named = {service.name: service.image for service in compose.services}
    try:
        filled = hydrate(document, images=named, version=version, file=path)
    except ManifestError as error:
        known = set(report.issues)
        report = report.extended(issue for issue in error.report.issues if issue not in known)
        raise ManifestError(report, hint=error.hint) from None
    if not report.ok:
        raise ManifestError(report)
    # Only the names of images can still be wrong
    manifest = load_manifest(filled, mode="strict").manifest
    issues = report.issues
    used = placeholders(document.value)
    unused = [service for service in compose.services if service.placeholder not in used]
    for image in manifest.images():
        reference = ImageRef.parse(image).require_runnable(f"the image {image!r}")
        near = closest(reference.name, (ImageRef.parse(service.image).name for service in unused))
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
            raise WorkspaceError(f"The output is {compose} itself.", code="output_is_input", hint="Name another file.")
        if output.samefile(template):
            raise WorkspaceError(
                f"The output {output} is the template itself, whose names of images would be lost.",
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
    """Return the services whose images the manifest needs, bases included, and the names of the others with a build."""
    by_image: dict[str, Service] = {}
    for service in compose.services:
        # A service that builds an image takes precedence over one that only uses it
        key = canonical(service.image)
        if key not in by_image or (by_image[key].build is None and service.build is not None):
            by_image[key] = service
    wanted = {canonical(image) for image in manifest.images()}
    needed: dict[str, Service] = {}
    waiting = [service for key, service in by_image.items() if key in wanted]
    while waiting:
        service = waiting.pop()
        if service.name in needed:
            continue
        needed[service.name] = service
        if service.build is not None:
            for image in dockerfile_for(service, service.build, {}).images:
                base = by_image.get(canonical(image))
                if base is not None:
                    waiting.append(base)
    taken = {canonical(service.image) for service in needed.values()}
    skipped = tuple(
        service.name
        for service in compose.services
        if service.build is not None and service.name not in needed and canonical(service.image) not in taken
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
        and canonical(other.image) == canonical(service.image)
        and (other.build, other.platform) != (service.build, service.platform)
    ]
    if clashes:
        raise ManifestError(Report(source=str(compose.path), issues=tuple(clashes)), code="compose_invalid")


def canonical(image: str) -> str:
    """Return the same reference for all spellings of an image: without Docker Hub's host, with a tag or digest."""
    try:
        reference = ImageRef.parse(image)
    except ImageError:
        return image
    name = reference.name
    for host in ("docker.io/", "index.docker.io/"):
        name = name.removeprefix(host)
    name = name.removeprefix("library/")
    return f"{name}@{reference.digest}" if reference.digest else f"{name}:{reference.tag or 'latest'}"


def dockerfile_for(service: Service, build: Build, args: Mapping[str, str]) -> Dockerfile:
    try:
        text, _, path = dockerfile_of(build)
        # Read now, so that a malformed pattern is reported before any image is built
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
        near = closest(target, filter(None, every))
        raise BuildError(
            f"The Dockerfile of service {service.name!r} has no stage {target!r}.",
            code="target_missing",
            hint=f"Did you mean {near!r}?"
            if near
            else f"Its stages: {listed(filter(None, every)) or 'none is named'}.",
            context={"service": service.name},
        )
    return read
