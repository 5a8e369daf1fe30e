"""What a package has: its variants, players, other roles and documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from coworld_core.manifest import ReporterReference, TextDoc, WasmReporter, token_bounds
from coworld_core.text import closest, listed

from .roles import role_command
from .text import clean, command_line, shown_path, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from coworld_core.manifest import Doc, Manifest
    from coworld_runner.package import Package

__all__ = ["document_answer", "find_document", "package_answer", "package_text"]


def package_answer(package: Package) -> dict[str, Any]:
    """A package as JSON."""
    manifest = package.manifest
    game, (least, most) = manifest.game, token_bounds(manifest)
    rows = package.to_records()
    programs = [{key: value for key, value in row.items() if key not in ("coworld", "version")} for row in rows]
    programs += [
        {
            "role": "reporter",
            "id": entry.id,
            "name": entry.display_name or entry.id,
            "description": entry.description or "",
            "image": None,
            "component": entry.wasm,
        }
        for entry in _components_here(package)
    ]
    commands = _commands(package, package.source)
    for program in programs:
        if command := commands.get((str(program["role"]), str(program["id"]))):
            program["command"] = command
    return {
        "name": game.name,
        "version": game.version,
        "description": game.description,
        "owner": game.owner,
        "source": package.source,
        "template": package.is_template,
        "slots": {"min": least, "max": most},
        "variants": [variant.model_dump(mode="json") for variant in manifest.variants],
        "programs": programs,
        "reporters_elsewhere": [
            entry.model_dump(mode="json")
            for entry in manifest.reporter
            if isinstance(entry, ReporterReference | WasmReporter) and entry not in _components_here(package)
        ],
        "documents": [
            {"id": name, "title": title, "type": doc.type, "value": doc.value}
            for name, (title, doc) in _documents(manifest).items()
        ],
        "tags": list(manifest.tags or ()),
    }


def package_text(package: Package, *, named: str) -> str:
    """A package as text.

    Args:
        package: The package.
        named: The argument that it was named by, for the command to copy.
    """
    manifest = package.manifest
    game, (least, most) = manifest.game, token_bounds(manifest)
    seats = f"{least}" if least == most else f"{least} to {most}"
    head = [
        click.style(
            clean(game.name if package.is_template else f"{game.name} {game.version}", one_line=True), bold=True
        ),
        clean(game.description),
        "",
        table(
            [
                ("Seats", seats),
                ("Owner", clean(game.owner, one_line=True)),
                *([("Tags", clean(", ".join(manifest.tags), one_line=True))] if manifest.tags else []),
                ("From", clean(package.source, one_line=True)),
                *([("Images", "not built: this is a template")] if package.is_template else []),
            ]
        ),
    ]
    others = [(entry.type, entry.id, entry.description) for entry in manifest.roles() if entry.type != "player"]
    for entry in manifest.reporter:
        if isinstance(entry, ReporterReference):
            others.append(("reporter", entry.reporter, "A reporter of a platform; it does not run here."))
        elif isinstance(entry, WasmReporter):
            there = "" if entry in _components_here(package) else " It is not in the package, and does not run here."
            others.append(("reporter", entry.id, (entry.description or f"The component {entry.wasm}.") + there))
    documents = _documents(manifest)
    parts = [
        "\n".join(head),
        _section("Variants", ((item.id, item.description) for item in manifest.variants)),
        _section("Players", ((item.id, item.description) for item in manifest.player)),
        _section("Roles", others),
        _section("Running a role", [(command,) for command in _commands(package, named).values()]),
        _section("Documents", ((name, title) for name, (title, _) in documents.items())),
        f"{command_line('show', named, '--doc', next(iter(documents)))} shows a document.",
    ]
    return "\n\n".join(filter(None, parts))


def find_document(manifest: Manifest, name: str) -> tuple[str, str, Doc]:
    """The document with this name, which may lack its `.md`: its name, its title and itself.

    Raises:
        click.UsageError: There is none.
    """
    documents = _documents(manifest)
    for known, (title, doc) in documents.items():
        if name in (known, known.removesuffix(".md")):
            return known, title, doc
    meant = closest(name, documents, cutoff=0.5)
    question = f"Did you mean {meant!r}?" if meant else f"It has {listed(documents)}."
    raise click.UsageError(f"{manifest.game.name} has no document {name!r}. {question}")


def document_answer(name: str, title: str, doc: Doc) -> dict[str, Any]:
    """A document as JSON."""
    return {"id": name, "title": title, "type": doc.type, "value": doc.value}


def _commands(package: Package, named: str) -> dict[tuple[str, str], str]:
    """The command that runs each supporting role of a package, on its last episode where it needs one."""
    latest = shown_path(package.default_results_dir() / "latest")
    commands: dict[tuple[str, str], str] = {}
    for entry in package.manifest.roles():
        if entry.type == "commissioner":
            words = ["tournament", "init", "league", "-m", named, "--commissioner", entry.id]
        elif entry.type == "player":
            continue
        else:
            words = role_command(entry.type, named=entry.id, run=latest, game=named)
        commands[entry.type, entry.id] = command_line(*words)
    for component in _components_here(package):
        words = role_command("reporter", named=component.id, run=latest, game=named)
        commands["reporter", component.id] = command_line(*words)
    return commands


def _components_here(package: Package) -> list[WasmReporter]:
    """The WebAssembly components among a package's reporters that can run here."""
    from coworld_runner.roles import declared_ids

    here = declared_ids(package, "reporter")
    return [entry for entry in package.manifest.reporter if isinstance(entry, WasmReporter) and entry.id in here]


def _documents(manifest: Manifest) -> Mapping[str, tuple[str, Doc]]:
    """All documents of a package by name, each with its title: the readme, the pages, the protocols."""
    game = manifest.game
    return {
        "readme": (_heading(game.docs.readme) or game.name, game.docs.readme),
        **{page.id: (page.title, page.content) for page in game.docs.pages},
        "protocols.player": ("What a player receives and sends", game.protocols.player),
        "protocols.global": ("What a viewer receives", game.protocols.global_),
    }


def _heading(doc: Doc) -> str:
    first = doc.value.split("\n", 1)[0] if isinstance(doc, TextDoc) else ""
    return first.lstrip("# ").strip() if first.startswith("#") else ""


def _section(title: str, rows: Iterable[tuple[str, ...]]) -> str:
    lines = [[clean(cell, one_line=True) for cell in row] for row in rows]
    return f"{click.style(title, bold=True)}\n{table(lines, indent='  ')}" if lines else ""
