"""The programs of a package that its manifest does not declare yet: players in `players/`, other roles in `roles/`."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coworld_core.documents.json_edit import Edit, edited
from coworld_core.errors import CoworldError, UsageError
from coworld_core.manifest.manifest_file import load_manifest
from coworld_core.manifest.published_versions import accepted_by
from coworld_core.role_kinds import ROLES

from ...images.build_context import ContextError, Ignore
from ...package.own_players.player_file import only_defines, read_file

__all__ = ["Declaration", "NewProgram", "declaration_of", "declarations", "new_programs", "rules_name"]

_SERVER = "coworld_runner.kit.server"
_HOST = ("-m", "coworld_runner.kit.roles")


@dataclass(frozen=True, kw_only=True)
class NewProgram:
    """A program that a manifest does not declare.

    Attributes:
        section: The section of the manifest: `player`, or a supporting role.
        entry: Its entry there.
        file: The file, relative to the package.
        refused: Why it cannot be declared; empty if it can.
        remark: What else its author should know; usually empty.
    """

    section: str
    entry: dict[str, Any]
    file: str
    refused: str = ""
    remark: str = ""


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """How a program is declared in a manifest template.

    Attributes:
        program: The program.
        before: The text of the template.
        after: Its text with the program's entry; the same if it cannot be declared.
    """

    program: NewProgram
    before: str
    after: str


def declaration_of(template: Path, file: Path) -> Declaration | None:
    """Find out how to declare a file in `players/` or `roles/` of a package.

    Args:
        template: The package's manifest template.
        file: The file.

    Returns:
        The change; None if the file is declared already, or if the game is not served by the kit, so that nothing
        tells how its image would run the file.

    Raises:
        OSError: The template cannot be read.
        ValueError: It is not JSON.
    """
    before = template.read_bytes().decode("utf-8")
    manifest: dict[str, Any] = json.loads(before)
    word = f"{file.parent.name}/{file.name}"
    found = [program for program in new_programs(manifest, template.parent) if program.file == word]
    if not found or not rules_name(manifest):
        return None
    after = edited(before, declarations(manifest, found))
    return Declaration(program=found[0], before=before, after=after)


def rules_name(manifest: Any) -> str:
    """The `MODULE:CLASS` of the rules that a game serves, by its manifest as JSON; empty for a game of another kind."""
    try:
        run: list[Any] = list(manifest["game"]["runnable"]["run"])
        return str(run[run.index(_SERVER) + 1])
    except (LookupError, TypeError, ValueError):
        return ""


def new_programs(manifest: Mapping[str, Any], directory: Path) -> list[NewProgram]:
    """Find the programs in Python that no entry of a manifest runs.

    Args:
        manifest: A manifest or manifest template, as JSON, of a game whose image also has its players and roles.
        directory: Its directory.
    """
    found: list[NewProgram] = []
    for path in sorted(directory.glob("players/*.py")):
        try:
            player = read_file(path, path.stat())
        except UsageError:
            continue  # A module that players import, or one that is not finished
        host = ("-m", "coworld_client.seat") if player.needs_client else ()
        found += _unless_declared(manifest, "player", path, host, about="Plays as")
    for path in sorted(directory.glob("roles/*.py")):
        try:
            defined = only_defines(path, path.read_bytes()) or frozenset()
        except UsageError:
            continue
        for role, kind in ROLES.items():
            if kind.function in defined:
                found += _unless_declared(manifest, role, path, _HOST, about=f"A {role}:")
    return found


def declarations(manifest: Mapping[str, Any], programs: Sequence[NewProgram]) -> list[Edit]:
    """The changes to a manifest that declare programs, those that cannot be declared left out."""
    added: dict[str, list[dict[str, Any]]] = {}
    for program in programs:
        if not program.refused:
            added.setdefault(program.section, []).append(program.entry)
    return [Edit("set", (section,), [*manifest.get(section, []), *entries]) for section, entries in added.items()]


def _unless_declared(
    manifest: Mapping[str, Any], section: str, path: Path, host: tuple[str, ...], *, about: str
) -> list[NewProgram]:
    """The entry of a program in a list, which is empty if an entry of its section runs it or has its name."""
    tree, word = ast.parse(path.read_bytes()), f"{path.parent.name}/{path.name}"
    identifier, entries = _constant(tree, "ID") or path.stem.replace("_", "-"), manifest.get(section, [])
    if any(word in entry.get("run", ()) or entry.get("id") == identifier for entry in entries):
        return []
    name = path.stem.replace("_", " ").title()
    entry = {
        "id": identifier,
        "name": name,
        "type": section,
        "description": (ast.get_docstring(tree) or f"{about} {name}.").splitlines()[0],
        "image": manifest["game"]["runnable"]["image"],
        "run": ["python", *host, word],
    }
    return [
        NewProgram(
            section=section,
            entry=entry,
            file=word,
            refused=_refused(manifest, section, entry),
            remark=_remark(path.parent.parent, word),
        )
    ]


def _constant(tree: ast.Module, name: str) -> str:
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=named)], value=ast.Constant(value=str(value))) if named == name:
                return value
            case _:
                pass
    return ""


def _refused(manifest: Mapping[str, Any], section: str, entry: dict[str, Any]) -> str:
    """Why an entry cannot be declared: with it, no published version would accept the manifest."""
    after = {**manifest, section: [*manifest.get(section, []), entry]}
    try:
        versions = [accepted_by(load_manifest(document, template=True).manifest) for document in (manifest, after)]
    except CoworldError:
        return ""  # Its errors are listed elsewhere
    now, then = versions
    if then or not now:
        return ""
    return f"published versions that accept the rest of the manifest ({now}) refuse a {section} that runs in an image"


def _remark(directory: Path, word: str) -> str:
    try:
        ignored = Ignore((directory / ".dockerignore").read_text(encoding="utf-8", errors="replace")).ignores(word)
    except (OSError, ContextError):
        return ""
    folder = word.partition("/")[0]
    return f".dockerignore leaves {word} out of the image: add the line !{folder}" if ignored else ""
