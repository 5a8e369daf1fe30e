"""Resolves a MANIFEST argument to a package: a checked manifest, its origin, and the related files on this machine."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import anyio.to_thread

from coworld_core.errors import ManifestError, RemoteError, UsageError
from coworld_core.hints import Hint
from coworld_core.images import DOWNLOADED_TAG, ImageRef
from coworld_core.issues import Issue
from coworld_core.manifest.manifest_file import (
    MANIFEST_NAME,
    LoadedManifest,
    Mode,
    Preference,
    find_manifest,
    load_manifest,
    manifest_sha256,
    read_document,
)
from coworld_core.reserved_env import is_reserved_env
from coworld_core.text.tables import TableRow, html_table, one_line
from coworld_core.text.urls import shown_url
from coworld_core.versions import Published

from ..images.compose import Contexts, contexts_for
from .locations import FETCH_SECONDS, Location, expand, fetch, missing, read_location

if TYPE_CHECKING:
    from coworld_core.controller import HostedGame, HostedPolicy

__all__ = [
    "DOWNLOADS",
    "MANIFEST_LIMIT",
    "Package",
    "PackageSource",
    "coworld_id",
    "default_results_dir",
    "names_game",
    "resolve_package",
]

DOWNLOADS = Path("coworld")
"""The directory of downloaded packages, each in a subdirectory named by its id."""
MANIFEST_LIMIT = 16 << 20
"""The most bytes a manifest may have."""

_COW_ID = re.compile(r"cow_[A-Za-z0-9_-]{1,120}")
_API_PATH = re.compile(r"/v2/coworlds/(?P<id>[A-Za-z0-9_-][A-Za-z0-9._-]{0,127})/?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_IMAGES_NAME = "coworld_images.json"
"""A file beside the manifest of a downloaded package."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Package(LoadedManifest):
    """A Coworld that was found: its manifest, its origin, and the related files on this machine."""

    fetched: bool = False
    """Whether it came from elsewhere. The user did not write its code or check it out, so it never runs without
    containers unless that is asked for by name."""
    as_files: bool = False
    """Whether it was downloaded as files, from which its images have to be built here."""
    coworld_id: str | None = None
    """Its id on the platform, if the argument was an id."""
    policies: Mapping[str, HostedPolicy] | None = None
    """Who may play it, by the words that name them, if a platform is to play it; None: it is played here."""
    contexts: Mapping[str, Path] = field(default_factory=Contexts)
    """The directory each image is built from, by image or placeholder; empty for a fetched package with images."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variables for its game and its players, in addition to those of the manifest."""

    def with_environment(self, variables: Mapping[str, str]) -> Package:
        """Return the package with environment variables for its game and players, which override the manifest's.

        Raises:
            UsageError: The runner sets one of them itself, or a name or value is invalid.
        """
        for name, value in variables.items():
            if not _VARIABLE.fullmatch(name) or "\0" in value:
                raise UsageError(f"{name!r} cannot be set as an environment variable.", code="bad_env")
            if is_reserved_env(name):
                raise UsageError(
                    f"{name} is set by the runner itself and cannot be overridden.",
                    code="reserved_env_name",
                    context={"name": name},
                )
        runnable = self.manifest.game.runnable
        runnable = runnable.model_copy(update={"env": {**runnable.env, **variables}})
        game = self.manifest.game.model_copy(update={"runnable": runnable})
        manifest = self.manifest.model_copy(update={"game": game})
        return replace(self, manifest=manifest, environment={**self.environment, **variables})

    @property
    def directory(self) -> Path | None:
        """The directory of the manifest's file; None if it was fetched and not stored."""
        return self.path.parent if self.path is not None else None

    @property
    def needs_build(self) -> bool:
        """Whether it was downloaded as files, and its images were not built yet."""
        image = self.manifest.game.runnable.image
        return self.as_files and image in self.contexts and ImageRef.parse(image).kind != "content"

    @property
    def unpinned(self) -> frozenset[str]:
        """Images of a package from elsewhere under names that any other image may have on this machine."""
        if not (self.fetched or self.as_files):
            return frozenset()
        references = map(ImageRef.parse, self.manifest.images())
        return frozenset(
            image.text for image in references if image.kind in ("local", "registry") and image.tag != DOWNLOADED_TAG
        )

    @property
    def is_template(self) -> bool:
        """Whether any image is still a placeholder."""
        return self.manifest.is_template

    @property
    def sha256(self) -> str:
        """SHA-256 digest of the manifest's content."""
        return manifest_sha256(self.manifest)

    def to_records(self) -> list[TableRow]:
        """Return its programs as flat rows, for a data frame.

        Returns:
            Rows with the keys `coworld`, `version`, `role` (`game`, `player`, `grader`, …), `id`,
            `name`, `description`, `image`, `run` (the command, quoted for a shell; empty for the image's own)
            and `context` (the directory that the image is built from, or None); the game first, under its own name.
        """
        game = self.manifest.game
        entries = self.manifest.roles()
        names = [
            ("game", game.name, game.name, game.description),
            *((entry.type, entry.id, entry.name, entry.description) for entry in entries),
        ]
        return [
            {
                "coworld": game.name,
                "version": game.version,
                "role": role,
                "id": identifier,
                "name": name,
                "description": description,
                "image": runnable.image,
                "run": shlex.join(runnable.run),
                "context": str(self.contexts[runnable.image]) if runnable.image in self.contexts else None,
            }
            for (role, identifier, name, description), runnable in zip(names, [game.runnable, *entries], strict=True)
        ]

    def __str__(self) -> str:
        game = self.manifest.game
        template = ", a template" if self.is_template else ""
        return one_line(f"{game.name} {game.version} from {self.source}{template}")

    def __repr__(self) -> str:
        return f"<Package {self}>"

    def _repr_html_(self) -> str:
        shown = ("role", "id", "name", "image", "run")
        rows: list[TableRow] = [{key: row[key] for key in shown} for row in self.to_records()]
        variants = ", ".join(variant.id for variant in self.manifest.variants)
        return html_table(str(self), rows, notes=[f"Variants: {variants}", *map(str, self.report.issues)])

    def default_results_dir(self) -> Path:
        """Return the default directory for results.

        It is `results/` beside the manifest; without a file, it is in the current directory: `coworld/<id>/results`
        for an id, `coworld-results` for an address.
        """
        if self.directory is not None:
            return self.directory / "results"
        if self.coworld_id is not None:
            return Path.cwd() / "coworld" / self.coworld_id / "results"
        return Path.cwd() / "coworld-results"


PackageSource: TypeAlias = "Package | HostedGame | str | os.PathLike[str]"
"""What `resolve_package` takes: a package, a game of a platform, or where a manifest is."""

_Load = Callable[..., LoadedManifest]
"""`load_manifest` with the rules by which a manifest is checked."""


def coworld_id(argument: str) -> str | None:
    """Return the id in an argument that names a Coworld on a platform, `cow_…` or `/v2/coworlds/<id>`, or None."""
    text = argument.strip()
    if match := _API_PATH.fullmatch(text):
        return match["id"]
    return text if _COW_ID.fullmatch(text) else None


def names_game(argument: str) -> bool:
    """Whether this names a game, as `resolve_package` takes it: by address, id, or a file on this machine."""
    if coworld_id(argument) is not None or "://" in argument:
        return True
    path = expand(argument)
    try:
        return path.suffix == ".json" if path.is_file() else path.is_dir() and bool(find_manifest(path))
    except (UsageError, OSError, ValueError):
        return False


def default_results_dir(argument: str) -> Path:
    """Return the default directory for results if the argument could not be read as a package.

    It follows `Package.default_results_dir`.
    """
    given = Path(argument).expanduser().absolute()
    beside = given if given.is_dir() else given.parent if given.is_file() else None
    return beside / "results" if beside is not None else Path.cwd() / "coworld-results"


async def resolve_package(
    argument: PackageSource,
    *,
    mode: Mode = "read",
    prefer: Preference = "newer",
    template: bool = True,
    server: str | None = None,
    token: str | None = None,
    cache: Path | None = None,
    timeout: float = FETCH_SECONDS,
    published: Published | None = None,
) -> Package:
    """Find and read the package that an argument names.

    Args:
        argument: The path of a manifest or of a directory that contains one (`~` is expanded), `file://…`,
            `http(s)://…` (a manifest, or an object of the API with one under `manifest`), `/v2/coworlds/<id>`, or
            a bare `cow_…` id. A package is returned as it is, and a game of a platform as one that is played there.
        mode: How strictly the manifest is checked.
        prefer: Which file to use if a directory contains both a manifest and a template.
        template: Whether a template is accepted.
        server: Base address of the API; needed for ids that are not in `cache`.
        token: Bearer token, sent to the server of an id or an address, never along a redirect to another origin.
        cache: The directory with downloaded packages, each in a subdirectory named by its id; None: `coworld` in the
            current directory.
        timeout: Seconds for the whole download.
        published: A published version of the software; anything that it refuses is an error, too.

    Raises:
        UsageError: The path is wrong, or a server is needed and was not given.
        ManifestError: The manifest has errors; the report lists all of them.
        RemoteError: The host cannot be reached, refused, or sent something else; the message names it.
    """
    if isinstance(argument, Package):
        return argument
    if not isinstance(argument, str | os.PathLike):
        game = argument
        return Package(
            manifest=game.manifest, report=game.report, fetched=True, coworld_id=game.id, policies=game.policies
        )
    load = partial(load_manifest, mode=mode, published=published)
    text = None if isinstance(argument, os.PathLike) else argument.strip()
    if text is not None:
        if (identifier := coworld_id(text)) is not None:
            kept = (cache or DOWNLOADS).absolute() / identifier / MANIFEST_NAME
            if await anyio.to_thread.run_sync(kept.is_file):
                return await anyio.to_thread.run_sync(_read, kept, load, identifier)
            url = f"{_api_base(server, identifier)}/v2/coworlds/{identifier}"
            return await _fetched(url, load, token, timeout, identifier)
        if text.startswith("/v2/coworlds/"):
            raise UsageError(
                f"{text!r} does not name a Coworld.",
                code="bad_coworld_id",
                hint="Write /v2/coworlds/<id>, or the id alone.",
            )
    source = read_location(argument, what="manifest")
    if source.kind == "http":
        return await _fetched(source.url, load, token, timeout, None)
    if source.kind == "s3":
        raise UsageError(
            f"{shown_url(source.url)} is an s3 address, and manifests cannot be read from s3.",
            code="bad_scheme",
            hint="Use the https address of the object, which may be presigned, or fetch it first.",
        )
    return await anyio.to_thread.run_sync(_local, source, partial(load, prefer=prefer, template=template))


# --- on this machine ---------------------------------------------------------------------------------------------


def _local(source: Location, load: _Load) -> Package:
    path = cast("Path", source.path)
    try:
        if not path.exists():
            raise missing(path, what="manifest")
        if not (path.is_file() or path.is_dir()):
            raise UsageError(f"{path} is not a regular file, so it is not a manifest.", code="bad_path")
        return _read(path, load)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}.",
            code="path_unreadable",
            hint="Check the path, and that you may read it.",
            context={"path": str(path)},
        ) from error


def _read(path: Path, load: _Load, identifier: str | None = None) -> Package:
    loaded = load(path)
    path = loaded.path or path
    downloaded = _download(path.parent)
    as_files = downloaded.get("has_files") is True
    fetched = (identifier is not None or _was_downloaded(path.parent)) and downloaded.get("own") is not True
    contexts, report = Contexts(), loaded.report
    if not fetched or as_files:
        try:
            contexts = contexts_for(path, loaded.manifest.images())
        except (ManifestError, UsageError) as error:
            report = report.extended(_compose_trouble(error))
    return Package(
        manifest=loaded.manifest,
        report=report,
        path=path,
        fetched=fetched,
        as_files=as_files,
        coworld_id=identifier,
        contexts=contexts,
    )


def _was_downloaded(directory: Path) -> bool:
    return directory.name.startswith("cow_") and (
        directory.parent.name == "coworld" or (directory / _IMAGES_NAME).is_file()
    )


def _download(directory: Path) -> dict[str, object]:
    """What the download noted: `has_files` if it was of files in place of images, `own` if these are the user's own."""
    try:
        listed: object = json.loads((directory / _IMAGES_NAME).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return cast("dict[str, object]", listed) if isinstance(listed, dict) else {}


def _compose_trouble(error: ManifestError | UsageError) -> tuple[Issue, ...]:
    """Return the errors of a compose file as warnings: a built package runs on an engine without the file."""
    if isinstance(error, UsageError):
        return (Issue(code=error.code, severity="warning", message=error.message, hint=error.hint),)
    name = Path(error.report.source).name
    return tuple(
        Issue(
            code=issue.code,
            severity="warning",
            message=f"{name}{f':{issue.line}' if issue.line else ''}: {issue.message}",
            hint=issue.hint or "Until it is corrected, the directories that images are built from are unknown.",
        )
        for issue in error.report.errors
    )


# --- elsewhere ---------------------------------------------------------------------------------------------------


def _api_base(server: str | None, identifier: str) -> str:
    if not server:
        raise UsageError(
            f"{identifier} is not downloaded here, and no server was given to fetch it from.",
            code="server_missing",
            hint=Hint("name_server", "Pass the server, or name the manifest's own file."),
        )
    base = server.rstrip("/")
    if not re.match(r"https?://[^/]", base, re.IGNORECASE):
        raise UsageError(f"The server {server!r} is not an http(s) address.", code="bad_url")
    # The service for Coworlds is mounted one level below the API's base address
    return f"{base}/observatory" if base.endswith("/api") else base


async def _fetched(url: str, load: _Load, token: str | None, timeout: float, identifier: str | None) -> Package:
    body = io.BytesIO()
    answer = await fetch(
        url, body, what="manifest", limit=MANIFEST_LIMIT, timeout=timeout, total_timeout=timeout, token=token
    )
    shown = shown_url(url)
    host = re.sub(r"^https?://([^/]*).*", r"\1", shown_url(answer.url))
    if answer.encoding:
        raise RemoteError(
            f"{host} sent the manifest in the encoding {answer.encoding[:40]!r}, which was not asked for.",
            code="remote_encoding",
            context={"host": host, "url": shown},
        )
    loaded = await anyio.to_thread.run_sync(_parsed, body.getvalue(), load, host, shown)
    return Package(
        manifest=loaded.manifest,
        report=loaded.report.model_copy(update={"source": shown}),
        fetched=True,
        coworld_id=identifier,
    )


def _parsed(data: bytes, load: _Load, host: str, shown: str) -> LoadedManifest:
    document = read_document(data)
    content: bytes | Mapping[str, Any] = data
    value: object = document.value
    context = {"host": host, "url": shown}
    if not isinstance(value, dict):
        begins = data[:60].decode("utf-8", "replace").strip().splitlines()
        raise RemoteError(
            f"{host} answered something that is not a manifest: "
            + (f"it begins with {json.dumps(begins[0], ensure_ascii=False)}." if begins else "nothing at all."),
            code="remote_not_json",
            hint="Check the address; a page for people is not a manifest.",
            context=context,
        )
    fields = cast("dict[str, Any]", value)
    if "game" not in fields:
        inner = fields.get("manifest")
        if not isinstance(inner, dict) or not inner:
            raise RemoteError(
                f"{host} answered a JSON object with neither `game` nor a `manifest` in it.",
                code="remote_not_manifest",
                hint="Check the address.",
                context=context,
            )
        content = cast("dict[str, Any]", inner)
    try:
        return load(content)
    except ManifestError as error:
        # The text has no file name to show before the issues, so show the address
        raise ManifestError(
            error.report.model_copy(update={"source": shown}), code=error.code, hint=error.hint
        ) from None
