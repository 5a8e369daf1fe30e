"""Converts manifests of other generations to the current one.

Fields that 0.1.0 and 0.1.7 left out are filled in, older forms are replaced by today's, and every change is reported.
Source: manifest contract, "Backward compatibility table".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, cast

from ..documents.findings import Findings, Path, did_you_mean, dotted, quoted
from ..documents.json_edit import Edit
from ..documents.shapes import field_names
from ..role_kinds import ROLE_SECTIONS
from ..text.phrases import closest, listed
from .models import GAME_HOSTED, GameManifest, RoleRunnable, Runnable, Variant, reporter_kind
from .published_versions import newer_fields

__all__ = ["API_VERSIONS", "TEMPLATE_VERSION", "ConvertedManifest", "is_placeholder", "lift", "optional_field"]

API_VERSIONS = ("coworld.softmax.com/v0", "coworld.softmax.com/v1")
"""Known values of `apiVersion`; a manifest without one is v0."""

TEMPLATE_VERSION = "0.0.0.dev0"
"""The version given to a template, which has none of its own."""

_FOR_PLATFORMS: tuple[Path, ...] = (
    ("tags",),
    ("episode_timeout_minutes",),
    *(("game", name) for name in ("promo", "achievements", "log", "memory", "task_environments")),
    ("game", "protocols", "engine_runtime"),
)
_FOR_PLATFORMS_IN_RUNNABLES: tuple[Path, ...] = (
    ("startup",),
    ("resources", "limits"),
    ("resources", "requests", "gpu"),
    ("resources", "requests", "instance-type"),
)
"""Fields that may be wrong without stopping a game, as paths in the document and in each of its programs."""
_HEEDED: tuple[Path, ...] = (("startup",), ("resources", "limits"), ("resources", "requests", "gpu"))
"""Those of them that have an effect on this machine, as paths in programs."""


@dataclass
class ConvertedManifest:
    """A document converted to the current generation."""

    document: dict[str, Any]
    findings: Findings = field(default_factory=Findings)
    kept: list[tuple[Path, Any]] = field(default_factory=list[tuple[Path, Any]])
    """Parts of the document that this generation does not know, by path; they are written back unchanged."""


def is_placeholder(image: object) -> bool:
    """Whether a value is a placeholder for an image that `coworld build` fills in."""
    return isinstance(image, str) and image.startswith("{{") and image.endswith("}}")


def lift(raw: Mapping[str, Any], *, strict: bool, template: bool) -> ConvertedManifest:
    """Convert a document to the current generation.

    Args:
        raw: Plain JSON; it is not modified.
        strict: Treat anything from another generation as an error, and fill nothing in.
        template: Accept a template as it is.
    """
    lifted = ConvertedManifest(dict(raw))
    document = lifted.document
    game = _copied(document, "game")
    runnable = _copied(game, "runnable")
    protocols = _copied(game, "protocols")
    docs = _copied(game, "docs")
    for section in ROLE_SECTIONS:
        if isinstance(entries := document.get(section), list):
            document[section] = [_copy(entry) for entry in cast("list[Any]", entries)]
    _api_version(lifted)
    _resources(lifted)
    _without_effect(lifted)
    _file_players(lifted)
    if game:
        _template_version(lifted, game, template=template)
    if strict:
        return lifted
    _nested_runnables(lifted)
    _image_uris(lifted)
    _fixture_variant(lifted)
    if game:
        if runnable and _left_out(runnable, "type", field_names(Runnable)):
            runnable["type"] = "game"
            message = '"type" is left out of game.runnable; it is "game".'
            edit = Edit("set", ("game", "runnable", "type"), "game")
            _note_change(lifted, "lifted_game_type", ("game", "runnable"), message, edit)
        _docs(lifted, game, docs)
        for name in ("player", "global"):
            if isinstance(text := protocols.get(name), str) and text:
                protocols[name] = {"type": "text", "value": text}
                path = ("game", "protocols", name)
                message = f"game.protocols.{name} is bare text, read as a document."
                _note_change(lifted, "lifted_protocol_doc", path, message, Edit("set", path, protocols[name]))
    for section, index, entry in _entries(document):
        container = section != "reporter" or reporter_kind(entry) == "container"
        if container and _left_out(entry, "type", field_names(RoleRunnable)):
            entry["type"] = section
            message = f'"type" is left out of {section}[{index}]; it is {quoted(section)}.'
            _note_change(
                lifted, "lifted_role_type", (section, index), message, Edit("set", (section, index, "type"), section)
            )
    _parent_ids(lifted)
    return lifted


def _note_change(lifted: ConvertedManifest, code: str, path: Path, message: str, *edits: Edit) -> None:
    lifted.findings.add(code, path, message, severity="info", edits=edits)


def _copy(value: Any) -> Any:
    return dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else value


def _copied(parent: dict[str, Any], key: str) -> dict[str, Any]:
    """Replace a nested object by a copy and return the copy; an empty object if the value is not one."""
    value = parent.get(key)
    if not isinstance(value, dict):
        return {}
    parent[key] = copied = dict(cast("dict[str, Any]", value))
    return copied


def _entries(document: Mapping[str, Any]) -> Iterable[tuple[str, int, dict[str, Any]]]:
    for section in ROLE_SECTIONS:
        if isinstance(entries := document.get(section), list):
            for index, entry in enumerate(cast("list[Any]", entries)):
                if isinstance(entry, dict):
                    yield section, index, cast("dict[str, Any]", entry)


def _left_out(entry: Mapping[str, Any], name: str, known: tuple[str, ...]) -> bool:
    """Whether a key is missing rather than misspelt."""
    strangers = islice((key for key in entry if key not in known), 100)
    return name not in entry and not any(closest(key, [name], cutoff=0.7) for key in strangers)


def _api_version(lifted: ConvertedManifest) -> None:
    version = lifted.document.get("apiVersion")
    path = ("apiVersion",)
    if version == API_VERSIONS[0]:
        message = f"{version} is the default apiVersion; published versions refuse a manifest that states it."
        lifted.findings.add(
            "api_version",
            path,
            message,
            "Remove it.",
            severity="warning",
            at_key=True,
            edits=[Edit("remove", path)],
        )
    elif version not in (None, *API_VERSIONS):
        lifted.document.pop("apiVersion")
        hint = did_you_mean(version, API_VERSIONS) if isinstance(version, str) else f"Known: {API_VERSIONS[-1]}."
        message = f"apiVersion is {quoted(version)}, which this version does not know."
        lifted.findings.add("unknown_api_version", path, message, hint)


def _resources(lifted: ConvertedManifest) -> None:
    """Rename a resource request that has always been accepted under a second name."""
    game = lifted.document.get("game")
    runnables = [entry for _, _, entry in _entries(lifted.document)]
    if isinstance(game, dict) and isinstance(runnable := cast("dict[str, Any]", game).get("runnable"), dict):
        runnables.append(cast("dict[str, Any]", runnable))
    for runnable in runnables:
        requests = _copied(_copied(runnable, "resources"), "requests")
        if "ephemeral_storage" in requests and "ephemeral-storage" not in requests:
            requests["ephemeral-storage"] = requests.pop("ephemeral_storage")


def optional_field(path: Path) -> Path | None:
    """The field without effect on this machine that contains a path, if there is one."""
    # The path of a program has two parts, be it game.runnable or player[0]
    for start, fields in ((0, _FOR_PLATFORMS), (2, _FOR_PLATFORMS_IN_RUNNABLES)):
        for place in fields:
            if path[start : start + len(place)] == place and (start == 0 or path[0] in ("game", *ROLE_SECTIONS)):
                return path[: start + len(place)]
    return None


def _without_effect(lifted: ConvertedManifest) -> None:
    """Report all fields that only hosting platforms read, in a single finding."""
    newer = [path for path, _ in newer_fields(lifted.document) if optional_field(path) == path]
    found = [path for path in newer if path[2:] not in _HEEDED]
    found = [path for path in found if _value(lifted.document, path) not in (None, {}, [])]
    if found:
        have = "has" if len(found) == 1 else "have"
        message = f"{listed(map(dotted, found), limit=8)} {have} no effect on this machine."
        hint = (
            "Platforms read it; it is kept unchanged."
            if len(found) == 1
            else ("Platforms read them; they are kept unchanged.")
        )
        lifted.findings.add("newer_field", found[0], message, hint, severity="info", at_key=True)


def _value(document: Any, path: Path) -> Any:
    for part in path:
        document = document[part]
    return document


def _file_players(lifted: ConvertedManifest) -> None:
    found = [index for section, index, entry in _entries(lifted.document) if section == "player" and "file" in entry]
    game = lifted.document.get("game")
    hosted = isinstance(game, dict) and cast("dict[str, Any]", game).get("player_runtime") == GAME_HOSTED
    if found and not hosted:
        places = listed((f"player[{index}]" for index in found), limit=4)
        what = "is a file instead of an image" if len(found) == 1 else "are files instead of images"
        lifted.findings.add(
            "player_file",
            ("player", found[0], "file"),
            f"{places} {what}, but the game does not declare that it hosts its players.",
            'Set "player_runtime": "game-hosted" in game if it runs them itself; otherwise name images.',
            severity="warning",
            at_key=True,
        )


def _template_version(lifted: ConvertedManifest, game: dict[str, Any], *, template: bool) -> None:
    if not _left_out(game, "version", field_names(GameManifest)):
        return
    runnable = game.get("runnable")
    images = [cast("dict[str, Any]", runnable).get("image")] if isinstance(runnable, dict) else []
    images += [entry.get("image") for _, _, entry in _entries(lifted.document)]
    unfilled = any(is_placeholder(image) for image in images)
    if not template and not unfilled:
        return
    # If a template must not be read as a manifest, that one finding covers the version too.
    game["version"] = TEMPLATE_VERSION
    if template and unfilled:
        message = f"game.version is left out, as in a template; it is {TEMPLATE_VERSION}."
        _note_change(lifted, "lifted_version", ("game",), message)
    elif template:
        lifted.findings.add(
            "lifted_version",
            ("game",),
            "game.version is left out, and no image is a placeholder: this can be built, but published versions of "
            "coworld do not play it.",
            "Add the version, unless this is a template.",
            severity="warning",
        )


def _docs(lifted: ConvertedManifest, game: dict[str, Any], docs: dict[str, Any]) -> None:
    description = game.get("description")
    readme = {"type": "text", "value": description if isinstance(description, str) and description else "No readme."}
    if game.get("docs") is None and _left_out(
        {k: v for k, v in game.items() if k != "docs"}, "docs", field_names(GameManifest)
    ):
        game["docs"] = {"readme": readme, "pages": []}
        message = "game.docs is left out; the description stands in as the readme."
        _note_change(lifted, "lifted_docs", ("game",), message, Edit("set", ("game", "docs"), game["docs"]))
    elif isinstance(game.get("docs"), dict) and docs.get("readme") is None:
        rest = {key: value for key, value in docs.items() if key != "readme"}
        if _left_out(rest, "readme", ("pages",)):
            docs["readme"] = readme
            path = ("game", "docs")
            message = "game.docs.readme is left out; the description stands in for it."
            _note_change(lifted, "lifted_readme", path, message, Edit("set", (*path, "readme"), readme))


def _nested_runnables(lifted: ConvertedManifest) -> None:
    """Flatten a role's program that is a nested object, as in some early manifests."""
    for section, index, entry in _entries(lifted.document):
        nested = entry.get("runnable")
        if not isinstance(nested, dict):
            continue
        inner = cast("dict[str, Any]", nested)
        path: Path = (section, index, "runnable")
        strangers = [name for name in inner if name not in (*field_names(Runnable), "image_uri")]
        twice = [name for name, value in inner.items() if name in entry and entry[name] != value]
        if strangers or twice:
            names = listed(strangers or twice, limit=4)
            also = f"contradicts the entry's {names}" if twice else f"has {names}, which is not a field of a program"
            message = f"{dotted(path)} is where early manifests had a player's program; it {also}."
            lifted.findings.add("unclear_form", path, message, "Write the program's fields beside id and name.")
            continue
        entry.pop("runnable")
        entry.update(inner)
        message = f"The fields of {dotted(path)} are read as if they stood beside id and name."
        # The first field replaces the object, which keeps the order
        edits = [Edit("set", (section, index, name), value) for name, value in inner.items()]
        _note_change(lifted, "lifted_runnable", path, message, *edits, Edit("remove", path))


def _image_uris(lifted: ConvertedManifest) -> None:
    """Rename `image_uri`, the name that platforms use when they list images."""
    game = lifted.document.get("game")
    runnable = cast("dict[str, Any]", game).get("runnable") if isinstance(game, dict) else None
    places: list[tuple[Path, dict[str, Any]]] = [
        ((section, index), entry) for section, index, entry in _entries(lifted.document)
    ]
    if isinstance(runnable, dict):
        places.append((("game", "runnable"), cast("dict[str, Any]", runnable)))
    for place, entry in places:
        if not isinstance(uri := entry.get("image_uri"), str):
            continue
        path = (*place, "image_uri")
        if "image" not in entry:
            entry["image"] = entry.pop("image_uri")
            edit = Edit("rename", path, "image")
        elif entry["image"] == uri:
            entry.pop("image_uri")
            edit = Edit("remove", path)
        else:
            message = f"{dotted(place)} has both an image and a different image_uri; image is used."
            hint = "Set image to the intended one, and remove image_uri."
            lifted.findings.add("unclear_form", path, message, hint, severity="warning", at_key=True)
            lifted.kept.append((path, entry.pop("image_uri")))
            continue
        _note_change(lifted, "lifted_image_uri", path, f"{dotted(path)} is read as the image.", edit)


def _fixture_variant(lifted: ConvertedManifest) -> None:
    """Replace a certification's variant id by the config of that variant."""
    fixture = _copied(lifted.document, "certification")
    if "variant_id" not in fixture:
        return
    path: Path = ("certification", "variant_id")
    name = fixture.pop("variant_id")
    lifted.kept.append((path, name))
    configs = [
        cast("dict[str, Any]", variant).get("game_config")
        for variant in cast("list[Any]", lifted.document.get("variants") or [])
        if isinstance(variant, dict) and cast("dict[str, Any]", variant).get("id") == name
    ]
    if len(configs) == 1 and isinstance(configs[0], dict) and fixture.get("game_config", configs[0]) == configs[0]:
        edits = [] if "game_config" in fixture else [Edit("set", ("certification", "game_config"), configs[0])]
        fixture["game_config"] = configs[0]
        message = f"certification.variant_id is read as the config of the variant {quoted(name)}."
        _note_change(lifted, "lifted_variant_id", path, message, *edits, Edit("remove", path))
        return
    told = "is not the id of a variant" if not configs else "differs from certification.game_config"
    message = f"certification.variant_id {quoted(name)} {told}; it has no effect."
    hint = "Write the intended config as certification.game_config, and remove variant_id."
    lifted.findings.add("unclear_form", path, message, hint, severity="warning", at_key=True)


def _parent_ids(lifted: ConvertedManifest) -> None:
    variants = lifted.document.get("variants")
    if not isinstance(variants, list):
        return
    copies: list[Any] = [_copy(variant) for variant in cast("list[Any]", variants)]
    lifted.document["variants"] = copies
    objects = [cast("dict[str, Any]", variant) if isinstance(variant, dict) else {} for variant in copies]
    ids = [variant.get("id") for variant in objects]
    known = field_names(Variant)
    for index, variant in enumerate(objects):
        if "parent_id" not in variant or "parent_id" in known:
            continue
        parent = variant.pop("parent_id")
        path: Path = ("variants", index, "parent_id")
        lifted.kept.append((path, parent))
        message = "parent_id is from an older generation of manifests and has no effect"
        if parent is None or (parent in ids and parent != variant.get("id")):
            edits = [Edit("remove", path)] if parent is None else []
            lifted.findings.add("lifted_parent_id", path, f"{message}.", severity="info", at_key=True, edits=edits)
        else:
            message = f"{message}; {quoted(parent)} is not another variant either."
            lifted.findings.add("lifted_parent_id", path, message, severity="warning", at_key=True)
