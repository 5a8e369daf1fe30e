"""Manifests of other generations, brought into the shape of this one.

What 0.1.0 and 0.1.7 left out is filled in; what had another form is given today's; every change is said.
Source: manifest contract, "Backward compatibility table".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, cast

from .._findings import Findings, Path, did_you_mean, dotted, listed, meant, quoted
from .._shape import field_names
from ..jsonedit import Edit
from .models import GAME_HOSTED, ROLE_SECTIONS, GameManifest, RoleRunnable, Runnable, Variant, reporter_kind
from .published import newer_fields

__all__ = ["API_VERSIONS", "TEMPLATE_VERSION", "Lifted", "is_placeholder", "lift", "optional_field"]

API_VERSIONS = ("coworld.softmax.com/v0", "coworld.softmax.com/v1")
"""Values of ``apiVersion`` that exist; a manifest without one is v0."""

TEMPLATE_VERSION = "0.0.0.dev0"
"""Version of a template, which has none of its own."""

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
"""Fields that may be wrong without stopping a game, as places in the document and in each of its programs."""
_HEEDED: tuple[Path, ...] = (("startup",), ("resources", "limits"), ("resources", "requests", "gpu"))
"""Those of them that have an effect here, as places in programs."""


@dataclass
class Lifted:
    """A document in the shape of this generation."""

    document: dict[str, Any]
    findings: Findings = field(default_factory=Findings)
    kept: list[tuple[Path, Any]] = field(default_factory=list[tuple[Path, Any]])
    """What the document says beyond this generation, by its place; it is written again with it."""


def is_placeholder(image: object) -> bool:
    """Whether a value stands for an image that ``coworld build`` puts in."""
    return isinstance(image, str) and image.startswith("{{") and image.endswith("}}")


def lift(raw: Mapping[str, Any], *, strict: bool, template: bool) -> Lifted:
    """Bring a document into the shape of this generation.

    Args:
        raw: Plain JSON; it is not changed.
        strict: Whether what belongs to another generation is an error; then nothing is filled in.
        template: Whether a template may be read as it is.
    """
    lifted = Lifted(dict(raw))
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
            _said(lifted, "lifted_game_type", ("game", "runnable"), message, edit)
        _docs(lifted, game, docs)
        for name in ("player", "global"):
            if isinstance(text := protocols.get(name), str) and text:
                protocols[name] = {"type": "text", "value": text}
                path = ("game", "protocols", name)
                message = f"game.protocols.{name} is bare text, read as a document."
                _said(lifted, "lifted_protocol_doc", path, message, Edit("set", path, protocols[name]))
    for section, index, entry in _entries(document):
        container = section != "reporter" or reporter_kind(entry) == "container"
        if container and _left_out(entry, "type", field_names(RoleRunnable)):
            entry["type"] = section
            message = f'"type" is left out of {section}[{index}]; it is {quoted(section)}.'
            _said(lifted, "lifted_role_type", (section, index), message, Edit("set", (section, index, "type"), section))
    _parent_ids(lifted)
    return lifted


def _said(lifted: Lifted, code: str, path: Path, message: str, *edits: Edit) -> None:
    lifted.findings.add(code, path, message, severity="info", edits=edits)


def _copy(value: Any) -> Any:
    return dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else value


def _copied(parent: dict[str, Any], key: str) -> dict[str, Any]:
    """A copy of an object inside, put in its place; an empty one when it is none."""
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
    """Whether a key is missing, and not merely misspelt."""
    strangers = islice((key for key in entry if key not in known), 100)
    return name not in entry and not any(meant(key, [name]) for key in strangers)


def _api_version(lifted: Lifted) -> None:
    version = lifted.document.get("apiVersion")
    path = ("apiVersion",)
    if version == API_VERSIONS[0]:
        message = f"{version} is what a manifest without apiVersion is; published versions refuse it spelled out."
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


def _resources(lifted: Lifted) -> None:
    """The other name of one request, which was always accepted, as the one that is written."""
    game = lifted.document.get("game")
    runnables = [entry for _, _, entry in _entries(lifted.document)]
    if isinstance(game, dict) and isinstance(runnable := cast("dict[str, Any]", game).get("runnable"), dict):
        runnables.append(cast("dict[str, Any]", runnable))
    for runnable in runnables:
        requests = _copied(_copied(runnable, "resources"), "requests")
        if "ephemeral_storage" in requests and "ephemeral-storage" not in requests:
            requests["ephemeral-storage"] = requests.pop("ephemeral_storage")


def optional_field(path: Path) -> Path | None:
    """The field without effect here that a place is in, if it is in one."""
    # the game's program is at game.runnable, others at player[0]: two parts either way
    for start, fields in ((0, _FOR_PLATFORMS), (2, _FOR_PLATFORMS_IN_RUNNABLES)):
        for place in fields:
            if path[start : start + len(place)] == place and (start == 0 or path[0] in ("game", *ROLE_SECTIONS)):
                return path[: start + len(place)]
    return None


def _without_effect(lifted: Lifted) -> None:
    """One remark on all that is for whoever hosts the Coworld."""
    newer = [path for path, _ in newer_fields(lifted.document) if optional_field(path) == path]
    found = [path for path in newer if path[2:] not in _HEEDED]
    found = [path for path in found if _value(lifted.document, path) not in (None, {}, [])]
    if found:
        have = "has" if len(found) == 1 else "have"
        message = f"{listed(map(dotted, found), limit=8, word='and')} {have} no effect on this machine."
        hint = (
            "Platforms read it; it is written again as it is."
            if len(found) == 1
            else ("Platforms read them; they are written again as they are.")
        )
        lifted.findings.add("newer_field", found[0], message, hint, severity="info", at_key=True)


def _value(document: Any, path: Path) -> Any:
    for part in path:
        document = document[part]
    return document


def _file_players(lifted: Lifted) -> None:
    found = [index for section, index, entry in _entries(lifted.document) if section == "player" and "file" in entry]
    game = lifted.document.get("game")
    hosted = isinstance(game, dict) and cast("dict[str, Any]", game).get("player_runtime") == GAME_HOSTED
    if found and not hosted:
        places = listed((f"player[{index}]" for index in found), limit=4, word="and")
        what = "is a file instead of an image" if len(found) == 1 else "are files instead of images"
        lifted.findings.add(
            "player_file",
            ("player", found[0], "file"),
            f"{places} {what}, and the game does not say that it hosts its players.",
            'Say "player_runtime": "game-hosted" in game if it runs them itself; else name images.',
            severity="warning",
            at_key=True,
        )


def _template_version(lifted: Lifted, game: dict[str, Any], *, template: bool) -> None:
    if not _left_out(game, "version", field_names(GameManifest)):
        return
    runnable = game.get("runnable")
    images = [cast("dict[str, Any]", runnable).get("image")] if isinstance(runnable, dict) else []
    images += [entry.get("image") for _, _, entry in _entries(lifted.document)]
    if not template and not any(is_placeholder(image) for image in images):
        return
    # If a template must not be read as a manifest, that one finding covers the version too.
    game["version"] = TEMPLATE_VERSION
    if template:
        _said(
            lifted,
            "lifted_version",
            ("game",),
            f"game.version is left out, as in a template; it is {TEMPLATE_VERSION}.",
        )


def _docs(lifted: Lifted, game: dict[str, Any], docs: dict[str, Any]) -> None:
    description = game.get("description")
    readme = {"type": "text", "value": description if isinstance(description, str) and description else "No readme."}
    if game.get("docs") is None and _left_out(
        {k: v for k, v in game.items() if k != "docs"}, "docs", field_names(GameManifest)
    ):
        game["docs"] = {"readme": readme, "pages": []}
        message = "game.docs is left out; the description stands in as the readme."
        _said(lifted, "lifted_docs", ("game",), message, Edit("set", ("game", "docs"), game["docs"]))
    elif isinstance(game.get("docs"), dict) and docs.get("readme") is None:
        rest = {key: value for key, value in docs.items() if key != "readme"}
        if _left_out(rest, "readme", ("pages",)):
            docs["readme"] = readme
            path = ("game", "docs")
            message = "game.docs.readme is left out; the description stands in for it."
            _said(lifted, "lifted_readme", path, message, Edit("set", (*path, "readme"), readme))


def _nested_runnables(lifted: Lifted) -> None:
    """A role's program in an object of its own, as some early manifests had it."""
    for section, index, entry in _entries(lifted.document):
        nested = entry.get("runnable")
        if not isinstance(nested, dict):
            continue
        inner = cast("dict[str, Any]", nested)
        path: Path = (section, index, "runnable")
        strangers = [name for name in inner if name not in (*field_names(Runnable), "image_uri")]
        twice = [name for name, value in inner.items() if name in entry and entry[name] != value]
        if strangers or twice:
            names = listed(strangers or twice, limit=4, word="and")
            also = f"also says {names}, otherwise" if twice else f"has {names}, which no program has"
            message = f"{dotted(path)} is where early manifests had a player's program; it {also}."
            lifted.findings.add("unclear_form", path, message, "Write the program's fields beside id and name.")
            continue
        entry.pop("runnable")
        entry.update(inner)
        message = f"The fields of {dotted(path)} are read as if they stood beside id and name."
        # the first takes the place of the object, and the order stays
        edits = [Edit("set", (section, index, name), value) for name, value in inner.items()]
        _said(lifted, "lifted_runnable", path, message, *edits, Edit("remove", path))


def _image_uris(lifted: Lifted) -> None:
    """An image under the name that it has where platforms list images."""
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
            message = f"{dotted(place)} has both an image and another image_uri; the image is taken."
            hint = "Name the one that is meant as image, and leave image_uri out."
            lifted.findings.add("unclear_form", path, message, hint, severity="warning", at_key=True)
            lifted.kept.append((path, entry.pop("image_uri")))
            continue
        _said(lifted, "lifted_image_uri", path, f"{dotted(path)} is read as the image.", edit)


def _fixture_variant(lifted: Lifted) -> None:
    """A certification that says whose config it takes instead of the config."""
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
        _said(lifted, "lifted_variant_id", path, message, *edits, Edit("remove", path))
        return
    told = "names no variant" if not configs else "is not the config that certification.game_config has"
    message = f"certification.variant_id {quoted(name)} {told}; it has no effect."
    hint = "Write the config that is meant as certification.game_config, and leave variant_id out."
    lifted.findings.add("unclear_form", path, message, hint, severity="warning", at_key=True)


def _parent_ids(lifted: Lifted) -> None:
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
            message = f"{message}; {quoted(parent)} is no other variant anyway."
            lifted.findings.add("lifted_parent_id", path, message, severity="warning", at_key=True)
