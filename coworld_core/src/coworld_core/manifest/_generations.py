"""Manifests of other generations, brought into the shape of this one.

What 0.1.0 and 0.1.7 left out is filled in; what 0.1.64 added is recognised and left out; every change is said.
Source: manifest contract, "Backward compatibility table".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, cast

from .._findings import Findings, Path, did_you_mean, dotted, meant, quoted
from .._shape import field_names
from ..images import FILE_PLAYER_SCHEME
from .models import ROLE_SECTIONS, GameManifest, RoleRunnable, Runnable, Variant

__all__ = ["API_VERSIONS", "TEMPLATE_VERSION", "Lifted", "is_placeholder", "lift"]

API_VERSIONS = ("coworld.softmax.com/v0", "coworld.softmax.com/v1")
"""Values of ``apiVersion`` that exist; a manifest without one is v0."""

TEMPLATE_VERSION = "0.0.0.dev0"
"""Version of a template, which has none of its own."""

_NEWER: tuple[tuple[Path, tuple[str, ...]], ...] = (
    ((), ("tags", "episode_timeout_minutes")),
    (
        ("game",),
        (
            "player_runtime",
            "promo",
            "replay_viewer",
            "achievements",
            "log",
            "memory",
            "task_environments",
        ),
    ),
    (("game", "protocols"), ("engine_runtime",)),
)
_NEWER_ROLE = ("startup",)
_NEWER_RESOURCES = ("limits", "gpu", "instance-type")
_NEWER_REQUESTS = ("gpu", "instance-type")


@dataclass
class Lifted:
    """A document in the shape of this generation."""

    document: dict[str, Any]
    findings: Findings = field(default_factory=Findings)
    file_players: set[Path] = field(default_factory=set[Path])
    """Places of players that are files and got a stand-in for an image."""
    reporters: list[int] | None = None
    """Where the reporters that are left stood, when some were left out."""

    def original(self, path: Path) -> Path:
        """A path in the lifted document as one in the document that was read."""
        if self.reporters is None or path[:1] != ("reporter",) or len(path) < 2 or not isinstance(path[1], int):
            return path
        return ("reporter", self.reporters[path[1]], *path[2:])


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
    _api_version(lifted, strict=strict)
    _newer_fields(lifted, strict=strict)
    _reporter_references(lifted, strict=strict)
    _file_players(lifted, strict=strict)
    if game:
        _template_version(lifted, game, template=template)
    if strict:
        return lifted
    if game:
        if runnable and _left_out(runnable, "type", field_names(Runnable)):
            runnable["type"] = "game"
            _said(
                lifted, "lifted_game_type", ("game", "runnable"), '"type" is left out of game.runnable; it is "game".'
            )
        _docs(lifted, game, docs)
        for name in ("player", "global"):
            if isinstance(text := protocols.get(name), str) and text:
                protocols[name] = {"type": "text", "value": text}
                path = ("game", "protocols", name)
                _said(lifted, "lifted_protocol_doc", path, f"game.protocols.{name} is bare text, read as a document.")
    for section, index, entry in _entries(document):
        if _left_out(entry, "type", field_names(RoleRunnable)):
            entry["type"] = section
            message = f'"type" is left out of {section}[{index}]; it is {quoted(section)}.'
            _said(lifted, "lifted_role_type", (section, index), message)
    _parent_ids(lifted)
    return lifted


def _said(lifted: Lifted, code: str, path: Path, message: str) -> None:
    lifted.findings.add(code, lifted.original(path), message, severity="info")


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


def _api_version(lifted: Lifted, *, strict: bool) -> None:
    document = lifted.document
    if "apiVersion" not in document:
        return
    version = document.pop("apiVersion")
    path = ("apiVersion",)
    if version not in API_VERSIONS:
        hint = did_you_mean(version, API_VERSIONS) if isinstance(version, str) else f"Known: {API_VERSIONS[-1]}."
        message = f"apiVersion is {quoted(version)}, which this version does not know."
        lifted.findings.add("unknown_api_version", path, message, hint)
    elif strict:
        message = "apiVersion belongs to a newer generation of manifests than the one written here."
        lifted.findings.add("newer_field", path, message, "Remove it.", at_key=True)
    elif version != API_VERSIONS[0]:
        message = f"apiVersion is {version}; the manifest is read as {API_VERSIONS[0]}."
        lifted.findings.add("api_version", path, message, severity="warning")


def _newer_fields(lifted: Lifted, *, strict: bool) -> None:
    document = lifted.document
    for path, names in _NEWER:
        place: dict[str, Any] | None = document
        for part in path:
            below = place.get(str(part)) if place is not None else None
            place = cast("dict[str, Any]", below) if isinstance(below, dict) else None
        if place is not None:
            _leave_out(lifted, path, place, names, strict=strict)
    game = document.get("game")
    runnables: list[tuple[Path, Any]] = []
    if isinstance(game, dict):
        runnables.append((("game", "runnable"), cast("dict[str, Any]", game).get("runnable")))
    runnables += [((section, index), entry) for section, index, entry in _entries(document)]
    for path, entry in runnables:
        if not isinstance(entry, dict):
            continue
        runnable = cast("dict[str, Any]", entry)
        if path[0] == "player":
            _leave_out(lifted, path, runnable, _NEWER_ROLE, strict=strict)
        resources = _copied(runnable, "resources")
        left_out = _leave_out(lifted, (*path, "resources"), resources, _NEWER_RESOURCES, strict=strict)
        if left_out and not resources:
            runnable.pop("resources")
        requests = _copied(resources, "requests")
        _leave_out(lifted, (*path, "resources", "requests"), requests, _NEWER_REQUESTS, strict=strict)
        if "ephemeral_storage" in requests and "ephemeral-storage" not in requests:
            requests["ephemeral-storage"] = requests.pop("ephemeral_storage")


def _leave_out(lifted: Lifted, path: Path, place: dict[str, Any], names: tuple[str, ...], *, strict: bool) -> bool:
    present = [name for name in names if name in place]
    for name in present:
        value = place.pop(name)
        at = (*path, name)
        message = f"{dotted(at)} belongs to a newer generation of manifests"
        if strict:
            lifted.findings.add("newer_field", at, f"{message} than the one written here.", "Remove it.", at_key=True)
            continue
        hint = None
        if name == "player_runtime" and value == "game-hosted":
            hint = "This game expects to host its players itself; here they are started beside it as always."
        message = f"{message}; it has no effect here."
        lifted.findings.add("newer_field", at, message, hint, severity="warning", at_key=True)
    return bool(present)


def _reporter_references(lifted: Lifted, *, strict: bool) -> None:
    entries = lifted.document.get("reporter")
    if not isinstance(entries, list):
        return
    kept: list[Any] = []
    places: list[int] = []
    known = field_names(RoleRunnable)
    for index, entry in enumerate(cast("list[Any]", entries)):
        reference = isinstance(entry, str)
        if isinstance(entry, dict):
            fields = cast("dict[str, Any]", entry)
            reference = _left_out(fields, "image", known) and not {"run", "env", "type"} & set(fields)
        if not reference:
            kept.append(entry)
            places.append(index)
            continue
        message = f"reporter[{index}] is a reference to a reporter elsewhere, as newer manifests have them"
        lifted.findings.add(
            "reporter_reference",
            ("reporter", index),
            f"{message}, not a container." if strict else f"{message}; it is left out here.",
            "Give it id, name, type, description and image to run it as a container.",
            severity="error" if strict else "warning",
        )
    if len(kept) != len(cast("list[Any]", entries)):
        lifted.document["reporter"] = kept
        lifted.reporters = places


def _file_players(lifted: Lifted, *, strict: bool) -> None:
    players = lifted.document.get("player")
    for index, entry in enumerate(cast("list[Any]", players) if isinstance(players, list) else []):
        if not isinstance(entry, dict) or "file" not in entry or "image" in entry:
            continue
        player = cast("dict[str, Any]", entry)
        file = player.pop("file")
        path: Path = ("player", index)
        name = file if isinstance(file, str) else player.get("id")
        visible = "".join(character for character in str(name) if character.isprintable() and not character.isspace())
        player["image"] = f"{FILE_PLAYER_SCHEME}{visible[:200]}"
        lifted.file_players.add(path)
        lifted.findings.add(
            "player_file",
            (*path, "file"),
            f"player[{index}] is a file instead of an image, as newer manifests allow; it cannot be run here.",
            "The Coworld loads; name an image for the slots this player would take.",
            severity="error" if strict else "warning",
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
        _said(lifted, "lifted_docs", ("game",), "game.docs is left out; the description stands in as the readme.")
    elif isinstance(game.get("docs"), dict) and docs.get("readme") is None:
        rest = {key: value for key, value in docs.items() if key != "readme"}
        if _left_out(rest, "readme", ("pages",)):
            docs["readme"] = readme
            path = ("game", "docs")
            _said(lifted, "lifted_readme", path, "game.docs.readme is left out; the description stands in for it.")


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
        message = "parent_id is from an older generation of manifests and has no effect"
        if parent is None or (parent in ids and parent != variant.get("id")):
            lifted.findings.add("lifted_parent_id", path, f"{message}.", severity="info", at_key=True)
        else:
            message = f"{message}; {quoted(parent)} is no other variant anyway."
            lifted.findings.add("lifted_parent_id", path, message, severity="warning", at_key=True)
