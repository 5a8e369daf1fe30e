"""Templates: a manifest without a version and with placeholders for images, which `coworld build` fills in.

A placeholder stands for the image of a Compose service: `{{PAINT_ARENA_IMAGE}}` for the service `paint-arena`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any, cast

from ..documents.findings import Finding, Findings, Path, did_you_mean, quoted
from ..documents.json_text import JsonDocument, json_report, wrap_json
from ..errors import ManifestError, UsageError
from ..role_kinds import ROLE_SECTIONS

__all__ = ["hydrate", "image_names", "placeholder", "placeholders"]

_PLACEHOLDER = re.compile(r"\{\{[^{}]*\}\}")


def placeholder(service: str) -> str:
    """The placeholder for a Compose service: its name in capitals, hyphens as underscores, and `_IMAGE`."""
    return f"{{{{{service.upper().replace('-', '_')}_IMAGE}}}}"


def placeholders(template: Mapping[str, Any]) -> tuple[str, ...]:
    """Every placeholder that stands for an image, once each, in the order of the document."""
    return tuple(image for image in image_names(template) if "{{" in image or "}}" in image)


def image_names(document: object) -> tuple[str, ...]:
    """Every image that a manifest or a template names, once each, in the order of the document."""
    found = _images(cast("dict[str, Any]", document)) if isinstance(document, dict) else ()
    return tuple(dict.fromkeys(image for _, image in found))


def hydrate(
    template: Mapping[str, Any] | JsonDocument,
    *,
    images: Mapping[str, str],
    version: str,
    file: PurePath | str | None = None,
) -> dict[str, Any]:
    """Fill in a template: the version, and the images of Compose services.

    Args:
        template: The template, as a mapping or as a parsed document (whose issues have line numbers).
        images: Image by Compose service.
        version: The version, PEP 440.
        file: The template's file; only one named `coworld_manifest.json` may already have a version.

    Returns:
        A manifest as JSON, not yet checked.

    Raises:
        ManifestError: With issues such as `version_in_template`, `unknown_placeholder` or `not_an_object`.
        UsageError: `version` is not a PEP 440 version (`bad_version`).
    """
    from packaging.version import InvalidVersion, Version

    try:
        Version(version)
    except InvalidVersion:
        raise UsageError(
            f"{quoted(version)} is not a PEP 440 version.", code="bad_version", hint="Write something like 1.0.0."
        ) from None
    document = template if isinstance(template, JsonDocument) else wrap_json(template, source=str(file or "template"))
    findings = Findings(list(document.findings))
    if document.usable and not (isinstance(document.value, dict) and isinstance(document.value.get("game"), dict)):
        findings.add("not_an_object", (), "A template is a JSON object with an object `game`.")
    if findings.failed or not document.usable:
        raise ManifestError(json_report(document, findings.items))
    manifest = copy.deepcopy(cast("dict[str, Any]", document.value))
    game = cast("dict[str, Any]", manifest["game"])
    if "version" in game and (file is None or PurePath(file).name != "coworld_manifest.json"):
        message = "templates must not set game.version; it is given to the build."
        findings.add("version_in_template", ("game", "version"), message, "Remove it.", at_key=True)
    known = {placeholder(service): image for service, image in images.items()}
    findings.extend(_unknown(_images(manifest), known, images))
    if findings.failed:
        raise ManifestError(json_report(document, findings.items))
    for _, runnable in _runnables(manifest):
        if (image := runnable.get("image")) in known:
            runnable["image"] = known[cast("str", image)]
    # Rebuild the object, so that the version follows the name.
    manifest["game"] = {
        **{key: value for key, value in game.items() if key == "name"},
        "version": version,
        **{key: value for key, value in game.items() if key not in ("name", "version")},
    }
    return manifest


def _unknown(
    found: Iterable[tuple[Path, str]], known: Mapping[str, str], images: Mapping[str, str]
) -> Iterator[Finding]:
    for path, image in found:
        if image in known or not ("{{" in image or "}}" in image):
            continue
        services = ", ".join(quoted(name, 40) for name in images) or "none"
        if _PLACEHOLDER.fullmatch(image):
            message = f"The placeholder {quoted(image)} does not match a Compose service; there are: {services}."
            hint = did_you_mean(image, list(known))
        else:
            message = f"The image {quoted(image)} mixes a placeholder with other text."
            hint = "A placeholder stands for the whole reference."
        yield Finding(code="unknown_placeholder", path=path, message=message, hint=hint)


def _images(document: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    for path, runnable in _runnables(document):
        if isinstance(image := runnable.get("image"), str):
            yield (*path, "image"), image


def _runnables(document: Mapping[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    game = document.get("game")
    runnable = cast("dict[str, Any]", game).get("runnable") if isinstance(game, dict) else None
    if isinstance(runnable, dict):
        yield ("game", "runnable"), cast("dict[str, Any]", runnable)
    for section in ROLE_SECTIONS:
        entries = document.get(section)
        for index, entry in enumerate(cast("list[Any]", entries) if isinstance(entries, list) else []):
            if isinstance(entry, dict):
                yield (section, index), cast("dict[str, Any]", entry)
