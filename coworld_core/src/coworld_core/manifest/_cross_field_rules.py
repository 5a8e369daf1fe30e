"""Rules of a manifest that span several fields: references, duplicates, reserved names, schemas and configs.

They look at plain JSON, so that they also apply when another part of the document has the wrong shape. A rule skips
whatever does not have the shape it needs, because that has already been reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from ..documents.findings import Finding, Findings, Path, did_you_mean, dotted, quoted
from ..ids import id_problem
from ..images import BUILD_FIRST, FILE_PLAYER_SCHEME, ImageRef, image_problem
from ..ports import EXTRA_PORTS_ENV, extra_ports_problems
from ..reserved_env import AUTHOR_ENV, RESERVED_ENV_PREFIXES, is_reserved_env
from ..role_kinds import ROLE_SECTIONS
from ..text.phrases import listed
from ._generations import is_placeholder
from .game_config import config_findings, config_schema_findings
from .game_results import results_schema_findings

__all__ = ["manifest_rules", "request_player_rules"]


def manifest_rules(document: Mapping[str, Any], *, strict: bool, template: bool) -> Findings:
    """Check a document of the current generation.

    Args:
        document: Plain JSON.
        strict: Whether to apply the strict rules, which turn some warnings into errors.
        template: Whether placeholders are allowed for images.
    """
    findings = Findings()
    game = _object(document.get("game"))
    if not template:
        findings.extend(_placeholders(document))
    for path, runnable in _runnables(document):
        findings.extend(_runnable(path, runnable, strict=strict))
    findings.extend(_sections(document))
    findings.extend(_hosted_by(document, game, strict=strict))
    findings.extend(_duplicates("variants", document.get("variants"), ("variants",)))
    findings.extend(_pages(game))
    tokens_told = False
    for name in ("config_schema", "results_schema"):
        if isinstance(schema := game.get(name), dict):
            rules = cast("dict[str, Any]", schema)
            results = name == "results_schema"
            found = results_schema_findings(rules, strict=strict) if results else config_schema_findings(rules)
            tokens_told = tokens_told or any(finding.code == "bad_tokens_schema" for finding in found)
            findings.extend(_named(found, ("game", name)), below=("game", name))
    for finding in _configs(document, game):
        if finding.code == "bad_tokens_schema":
            # All configs share the same tokens.
            if not tokens_told:
                findings.extend([replace(finding, path=("game", "config_schema", "properties", "tokens"))])
            tokens_told = True
        else:
            findings.extend([finding])
    findings.extend(_certification_players(document))
    return findings


def request_player_rules(players: object, *, strict: bool, template: bool) -> Findings:
    """Check the players of an episode request; paths begin with `players`.

    Args:
        players: Plain JSON.
        strict: Whether to apply the strict rules, which turn some warnings into errors.
        template: Whether placeholders are allowed for images.
    """
    findings = Findings()
    for index, player in _objects(players):
        path: Path = ("players", index)
        findings.extend(_runnable(path, player, strict=strict))
        if not template and is_placeholder(image := player.get("image")):
            message = f"players[{index}].image is {quoted(image)}, a placeholder from a template."
            findings.add("template_not_built", (*path, "image"), message, "Name an image.")
        if isinstance(kind := player.get("type"), str) and kind != "player":
            message = f"players.{index}.type must be 'player', not {quoted(kind)}."
            findings.add("wrong_section_type", (*path, "type"), message)
    return findings


def _named(findings: list[Finding], path: Path) -> Iterator[Finding]:
    """Findings whose messages include their location, for readers who see only the first of them."""
    for finding in findings:
        told = str(path[-1]) in finding.message
        yield finding if told else replace(finding, message=f"In {dotted(path)}: {finding.message}")


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _objects(value: object) -> Iterator[tuple[int, dict[str, Any]]]:
    for index, entry in enumerate(cast("list[Any]", value) if isinstance(value, list) else []):
        if isinstance(entry, dict):
            yield index, cast("dict[str, Any]", entry)


def _runnables(document: Mapping[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The game's program and every entry of every role section, with their paths."""
    yield ("game", "runnable"), _object(_object(document.get("game")).get("runnable"))
    for section in ROLE_SECTIONS:
        for index, entry in _objects(document.get(section)):
            yield (section, index), entry


def _placeholders(document: Mapping[str, Any]) -> Iterator[Finding]:
    found = [(path, entry["image"]) for path, entry in _runnables(document) if is_placeholder(entry.get("image"))]
    if found:
        names = list(dict.fromkeys(image for _, image in found))
        what = "the image of one program is" if len(found) == 1 else f"the images of {len(found)} programs are"
        yield Finding(
            code="template_not_built",
            path=(*found[0][0], "image"),
            message=f"This is a template: {what} not filled in yet ({listed(names, limit=4)}).",
            hint=BUILD_FIRST,
        )


def _runnable(path: Path, runnable: Mapping[str, Any], *, strict: bool) -> Iterator[Finding]:
    image = runnable.get("image")
    where = f"{path[0]}[{path[1]}]" if path[0] != "game" else "game.runnable"
    if isinstance(image, str) and image.startswith(FILE_PLAYER_SCHEME):
        hint = "Write [registry/]name[:tag] or name@sha256:digest, e.g. ghcr.io/me/game:1.0."
        message = f"{where}.image {quoted(image)} is not a Docker image reference."
        yield Finding(code="bad_image", path=(*path, "image"), message=message, hint=hint)
    elif isinstance(image, str) and not image_problem(image) and ImageRef.parse(image).kind == "unpublished":
        message = f"{where}.image is {image}, an image the platform has not published yet; it cannot be run."
        hint = "Download the Coworld again once its images are published."
        yield Finding(code="image_unpublished", path=(*path, "image"), message=message, hint=hint, severity="warning")
    run = runnable.get("run")
    first = cast("list[Any]", run)[0] if isinstance(run, list) and run else None
    if isinstance(first, str) and len(first.split()) > 1:
        words = first.split()[:8]
        yield Finding(
            code="run_with_spaces",
            path=(*path, "run", 0),
            message=f"{where}.run begins with {quoted(first)}, which is taken as the name of a single program.",
            hint=f"Write each word as an element of the list: {', '.join(quoted(word) for word in words)}.",
            severity="warning",
        )
    env = _object(runnable.get("env"))
    yield from _environment((*path, "env"), where, env, game=path[0] == "game", strict=strict)
    ports = env.get(EXTRA_PORTS_ENV)
    if path[0] == "game" and isinstance(ports, str):
        for problem in extra_ports_problems(ports):
            yield Finding(
                code="bad_extra_ports",
                path=(*path, "env", EXTRA_PORTS_ENV),
                message=f"{EXTRA_PORTS_ENV}: {problem}.",
                hint="Write container_port[:host_port][/tcp], separated by commas, e.g. 8085 or 8085:18085/tcp.",
            )


def _environment(path: Path, where: str, env: Mapping[str, Any], *, game: bool, strict: bool) -> Iterator[Finding]:
    for name in env:
        if is_reserved_env(name, game=game):
            owner = "only a game's author sets" if name in AUTHOR_ENV else "a runner sets"
            yield Finding(
                code="reserved_env",
                path=(*path, name),
                message=f"{where}.env sets {quoted(name)}, a variable that {owner}.",
                hint="Remove it, or use another name.",
                at_key=True,
            )
        elif name.startswith(RESERVED_ENV_PREFIXES) and name not in AUTHOR_ENV:
            yield Finding(
                code="reserved_env_prefix",
                path=(*path, name),
                message=f"{where}.env sets {quoted(name)}; names with this prefix are reserved for runners.",
                hint="Use another name.",
                severity="error" if strict else "warning",
                at_key=True,
            )


def _sections(document: Mapping[str, Any]) -> Iterator[Finding]:
    runnable = _object(_object(document.get("game")).get("runnable"))
    if isinstance(kind := runnable.get("type"), str) and kind in ROLE_SECTIONS:
        message = f"game.runnable.type must be 'game', not '{kind}'."
        yield Finding(code="wrong_section_type", path=("game", "runnable", "type"), message=message)
    for section in ROLE_SECTIONS:
        for index, entry in _objects(document.get(section)):
            if (kind := entry.get("type")) != section and kind in ROLE_SECTIONS:
                message = f"{section}.{index}.type must be '{section}', not '{kind}'."
                hint = f"Entries of type '{kind}' belong in the section of that name."
                yield Finding(code="wrong_section_type", path=(section, index, "type"), message=message, hint=hint)
        yield from _duplicates(section, document.get(section), (section,))
    yield from _duplicates(
        "game.achievements", _object(document.get("game")).get("achievements"), ("game", "achievements")
    )


def _hosted_by(document: Mapping[str, Any], game: Mapping[str, Any], *, strict: bool) -> Iterator[Finding]:
    """Check that players hosted by the game have files, and all others have images."""
    hosted = game.get("player_runtime") == "game-hosted"
    for section in ROLE_SECTIONS:
        for index, entry in _objects(document.get(section)):
            where = f"{section}[{index}]"
            for name in ("file", "startup"):
                if section != "player" and entry.get(name) is not None:
                    message = f"{where} has {quoted(name)}, which only players have."
                    yield Finding(code="not_allowed", path=(section, index, name), message=message, at_key=True)
            if section != "player":
                continue
            if "image" in entry and entry.get("file") is not None:
                message = f"{where} has both an image and a file."
                yield Finding(code="image_and_file", path=(section, index, "file"), message=message, at_key=True)
            elif strict and hosted != ("file" in entry) and ("file" in entry or "image" in entry):
                name = "file" if "file" in entry else "image"
                message = f"{where} is a{'n' if name == 'image' else ''} {name}, but game.player_runtime is "
                message += '"game-hosted".' if hosted else 'not "game-hosted".'
                hint = "Players hosted by the game are files; all other players have images."
                place: Path = (section, index, name)
                yield Finding(code="other_runtime", path=place, message=message, hint=hint, at_key=True)


def _duplicates(what: str, entries: object, path: Path) -> Iterator[Finding]:
    first: dict[str, int] = {}
    noun = {"variants": "variant", "game.docs.pages": "page", "game.achievements": "achievement"}.get(what, what)
    for index, entry in _objects(entries):
        name = entry.get("id")
        if not isinstance(name, str):
            continue
        if name in first:
            yield Finding(
                code="duplicate_id",
                path=(*path, index, "id"),
                message=f"duplicate {noun} id: {quoted(name)} is also the id of {what}[{first[name]}].",
                hint="Give every entry its own id.",
            )
        first.setdefault(name, index)


def _pages(game: Mapping[str, Any]) -> Iterator[Finding]:
    path: Path = ("game", "docs", "pages")
    pages = _object(game.get("docs")).get("pages")
    for finding in _duplicates("game.docs.pages", pages, path):
        # The contract allows it, but it is of no use to readers.
        yield Finding(
            code="duplicate_page_id", path=finding.path, message=finding.message, hint=finding.hint, severity="warning"
        )
    for index, page in _objects(pages):
        name = page.get("id")
        if isinstance(name, str) and (problem := id_problem(name.rstrip("\r\n"))):
            yield Finding(
                code="unwise_page_id",
                path=(*path, index, "id"),
                message=f"The page id {quoted(name)} {problem}.",
                hint="Tools that write pages to files would leave this one out.",
                severity="warning",
            )


def _configs(document: Mapping[str, Any], game: Mapping[str, Any]) -> Iterator[Finding]:
    schema = _object(game.get("config_schema"))
    for index, variant in _objects(document.get("variants")):
        if isinstance(config := variant.get("game_config"), dict):
            found = config_findings(schema, cast("dict[str, Any]", config))
            place: Path = ("variants", index, "game_config")
            yield from _below(_named(found, place), place)
    fixture = _object(document.get("certification"))
    players = fixture.get("players")
    if isinstance(config := fixture.get("game_config"), dict):
        slots = len(cast("list[Any]", players)) if isinstance(players, list) and players else None
        findings = config_findings(schema, cast("dict[str, Any]", config), slots=slots)
        for finding in findings:
            if finding.code == "slots_out_of_bounds" and not finding.path:
                yield Finding(
                    code=finding.code, path=("certification", "players"), message=finding.message, hint=finding.hint
                )
            elif finding.code == "players_mismatch":
                yield Finding(
                    code=finding.code,
                    path=("certification", "players"),
                    message="certification.players must match certification game_config.players length: "
                    f"{slots} and {len(cast('dict[str, Any]', config)['players'])}.",
                    hint="Name one player for each entry of game_config.players.",
                )
            else:
                place = ("certification", "game_config")
                yield from _below(_named([finding], place), place)


def _below(findings: Iterable[Finding], path: Path) -> Iterator[Finding]:
    collected = Findings()
    collected.extend(findings, below=path)
    yield from collected.items


def _certification_players(document: Mapping[str, Any]) -> Iterator[Finding]:
    ids = [entry["id"] for _, entry in _objects(document.get("player")) if isinstance(entry.get("id"), str)]
    for slot, seat in _objects(_object(document.get("certification")).get("players")):
        name = seat.get("player_id")
        if isinstance(name, str) and name and ids and name not in ids:
            yield Finding(
                code="unknown_player_id",
                path=("certification", "players", slot, "player_id"),
                message=f"unknown certification player_id for slot {slot}: {quoted(name)}.",
                hint=did_you_mean(name, list(dict.fromkeys(ids))),
            )
