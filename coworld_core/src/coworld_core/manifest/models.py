"""The manifest of a Coworld, as frozen models: what a game is, who can play it, and in which variants.

The models are the strict form, which is also the written one: everything that the newest published generation knows,
without unknown keys or legacy shapes. `coworld_core.manifest.manifest_file` converts older documents to it and holds
the rules that span several fields. Fields newer than 0.1.26 are written only if they were given, so that 0.1.26 still
accepts a manifest that does not use them.
"""

# No annotations from __future__: pydantic would compile each of them, which takes time whenever a game starts

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    StrictInt,
    StringConstraints,
    Tag,
    model_serializer,
    model_validator,
)

from ..documents.findings import Path, quoted
from ..images import FILE_PLAYER_SCHEME
from ..issues import absent
from ..role_kinds import ROLE_SECTIONS, RoleType, RunnableType
from ..text.tables import TableRow, html_table
from ._model_base import (
    Env,
    Image,
    JsonObject,
    Model,
    NonEmpty,
    Place,
    Run,
    SafeId,
    fitting,
    glimpse,
    quantity,
    refuse,
)
from .features import (
    Achievement,
    GameLog,
    Memory,
    Promo,
    ReplayViewer,
    ReporterReference,
    Startup,
    Tags,
    WasmReporter,
)

__all__ = [
    "CertificationFixture",
    "CertificationPlayer",
    "Doc",
    "DocPage",
    "Docs",
    "GameManifest",
    "JsonObject",
    "Manifest",
    "ProtocolDocs",
    "Reporter",
    "ResourceLimits",
    "ResourceRequests",
    "Resources",
    "RoleRunnable",
    "Runnable",
    "TextDoc",
    "UriDoc",
    "Variant",
    "reporter_kind",
]

_INSTANCE_TYPE = r"[a-z][a-z0-9-]*\.[a-z0-9-]+"


def _check_version(value: str) -> str:
    from packaging.version import InvalidVersion, Version

    try:
        Version(value)
    except InvalidVersion:
        raise refuse(
            "bad_version",
            f"{quoted(value)} is not a PEP 440 version.",
            "Write something like 1.0.0, 0.3.1 or 2.0.0rc1.",
        ) from None
    return value


def _without_line_end(value: object) -> object:
    return value.rstrip("\r\n") if isinstance(value, str) else value


class TextDoc(Model):
    """A document inside the manifest itself."""

    type: Literal["text"] = Field(description="Always `text`.")
    value: NonEmpty = Field(description="The text, usually Markdown.")

    def __repr__(self) -> str:
        return f"<TextDoc {glimpse(self.value)}>"


class UriDoc(Model):
    """A document at a public URL."""

    type: Literal["uri"] = Field(description="Always `uri`.")
    value: Annotated[str, StringConstraints(min_length=1, pattern=r"^https?://")] = Field(
        description="Public http or https URL."
    )

    def __repr__(self) -> str:
        return f"<UriDoc {self.value}>"


Doc: TypeAlias = Annotated[TextDoc | UriDoc, Field(discriminator="type")]
"""A document: inline text, or a public URL."""


class ProtocolDocs(Model):
    """The protocols of the game's two websockets."""

    player: Doc = Field(description="The protocol of `/player`: what a player receives and sends.")
    global_: Doc = Field(alias="global", description="The protocol of `/global`: what a viewer receives.")
    engine_runtime: Literal["mettagrid", "cogweb", "bitworld", "nimgrid"] | None = Field(
        default=None, exclude_if=absent, description="Label of the engine that the game is made with."
    )


class DocPage(Model):
    """One page of the game's documentation."""

    id: Annotated[NonEmpty, BeforeValidator(_without_line_end)] = Field(
        description="Name of the page, e.g. `rules.md`."
    )
    title: NonEmpty = Field(description="Title for menus.")
    content: Doc = Field(description="The page itself.")

    def __repr__(self) -> str:
        return f"<DocPage {self.id!r}: {glimpse(self.title)}>"


class Docs(Model):
    """The game's documentation."""

    readme: Doc = Field(description="The first page to read.")
    pages: tuple[DocPage, ...] = Field(default=(), description="Further pages.")


class ResourceRequests(Model):
    """Resources that a runnable requests, as Kubernetes quantities; anything left out takes the role's default."""

    cpu: Annotated[str, quantity("cpu")] | None = Field(default=None, description="Processors, e.g. `500m` or `2`.")
    memory: Annotated[str, quantity("memory")] | None = Field(default=None, description="Bytes, e.g. `256Mi`.")
    ephemeral_storage: Annotated[str, quantity("ephemeral-storage")] | None = Field(
        default=None, alias="ephemeral-storage", description="Bytes of disk, e.g. `1Gi`."
    )
    gpu: Literal[1] | None = Field(default=None, exclude_if=absent, description="One graphics processor.")
    instance_type: (
        Annotated[
            str,
            fitting(_INSTANCE_TYPE, "it must be a kind of machine", hint="Write it like m5.large."),
            Field(json_schema_extra={"pattern": f"^{_INSTANCE_TYPE}$"}),
        ]
        | None
    ) = Field(default=None, alias="instance-type", exclude_if=absent, description="Type of machine to host it on.")


class ResourceLimits(Model):
    """Upper limits on the resources of a runnable, as Kubernetes quantities."""

    cpu: Annotated[str, quantity("cpu")] | None = Field(
        default=None, exclude_if=absent, description="Processors, e.g. `500m` or `2`."
    )
    memory: Annotated[str, quantity("memory")] | None = Field(
        default=None, exclude_if=absent, description="Bytes, e.g. `256Mi`."
    )


class Resources(Model):
    """Resources of a runnable. The runner derives limits that are not given."""

    requests: ResourceRequests | None = Field(default=None, exclude_if=absent, description="Requested resources.")
    limits: ResourceLimits | None = Field(default=None, exclude_if=absent, description="Upper limits.")


class Runnable(Model):
    """A program that can be started: an image, a command and an environment."""

    type: RunnableType = Field(description="Its role in the Coworld.")
    image: Image
    run: Run = ()
    env: Env = Field(default_factory=dict)
    source_url: str | None = Field(default=None, description="URL of its source code, for people.")
    resources: Resources | None = Field(default=None, description="Its resources; null: the role's defaults.")

    def __repr__(self) -> str:
        return f"<Runnable {self.type}: {self.image}>"


class RoleRunnable(Model):
    """An entry of a role section: a runnable with a name."""

    id: SafeId = Field(description="Id, unique in its section; becomes a directory name and a label.")
    name: NonEmpty = Field(description="Display name.")
    type: RoleType = Field(description="Its role; the same as the name of its section.")
    description: NonEmpty = Field(description="What it does, for people who choose one.")
    image: Image
    run: Run = ()
    env: Env = Field(default_factory=dict)
    source_url: str | None = Field(default=None, description="URL of its source code, for people.")
    repository_url: str | None = Field(default=None, description="Git repository, for optimizers.")
    resources: Resources | None = Field(default=None, description="Its resources; null: the role's defaults.")
    file: Place | None = Field(
        default=None,
        exclude_if=absent,
        description="For a player that its game hosts: a file or directory in the package, or its digest, instead of "
        "an image.",
    )
    startup: Startup | None = Field(
        default=None, exclude_if=absent, description="For a player: what it serves once it is ready to connect."
    )

    @model_validator(mode="before")
    @classmethod
    def _stand_in(cls, value: object) -> object:
        """Give a file player a placeholder image that no engine has, so that using it fails with a clear error."""
        if not isinstance(value, dict) or "image" in value or value.get("file") is None:  # pyright: ignore[reportUnknownMemberType]
            return cast("object", value)
        entry = cast("dict[str, Any]", value)
        name = entry["file"] if isinstance(entry["file"], str) else entry.get("id")
        visible = "".join(character for character in str(name) if character.isprintable() and not character.isspace())
        return {**entry, "image": f"{FILE_PLAYER_SCHEME}{visible[:200]}"}

    @model_serializer(mode="wrap")
    def _without_stand_in(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        entry = handler(self)
        if self.file is not None and self.image.startswith(FILE_PLAYER_SCHEME):
            entry.pop("image", None)
        return entry

    def as_runnable(self) -> Runnable:
        """The runnable, without id, name, description, repository, file and startup."""
        return Runnable(
            type=self.type,
            image=self.image,
            run=self.run,
            env=self.env,
            source_url=self.source_url,
            resources=self.resources,
        )

    def __repr__(self) -> str:
        return f"<RoleRunnable {self.type} {self.id!r}: {self.image}>"


GAME_HOSTED: Literal["game-hosted"] = "game-hosted"
"""Value of `player_runtime` for a game that runs its players itself, from files."""


class GameManifest(Model):
    """The game: its names, its rules for configs and results, and its program."""

    name: NonEmpty = Field(description="The game's name; the first authenticated upload claims it.")
    version: Annotated[NonEmpty, AfterValidator(_check_version)] = Field(description="PEP 440 version.")
    description: NonEmpty = Field(description="What the game is, in a sentence or two.")
    owner: NonEmpty = Field(description="Who is responsible for it: an e-mail address or a handle.")
    config_schema: JsonObject = Field(description="JSON Schema (2020-12) of a game config, with required `tokens`.")
    results_schema: JsonObject = Field(description="JSON Schema (2020-12) of the results, with required `scores`.")
    runnable: Runnable = Field(description="The game server, of type `game`.")
    protocols: ProtocolDocs = Field(description="The protocols of its websockets.")
    docs: Docs = Field(description="Its documentation.")
    player_runtime: Literal["platform-hosted", "game-hosted"] | None = Field(
        default=None, exclude_if=absent, description="Who runs the players: the runner (null), or the game itself."
    )
    promo: Promo | None = Field(default=None, exclude_if=absent, description="What platforms show to advertise it.")
    replay_viewer: ReplayViewer | None = Field(
        default=None, exclude_if=absent, description="A page that shows its replays without running the game."
    )
    achievements: tuple[Achievement, ...] | None = Field(
        default=None, exclude_if=absent, description="What players can earn."
    )
    log: GameLog | None = Field(default=None, exclude_if=absent, description="How its events are shown.")
    memory: Memory | None = Field(default=None, exclude_if=absent, description="What it keeps between episodes.")
    task_environments: Mapping[str, JsonObject] | None = Field(
        default=None, exclude_if=absent, description="Environments in which it has tasks carried out, by name."
    )

    def __repr__(self) -> str:
        return f"<GameManifest {self.name} {self.version}>"


class Variant(Model):
    """A named game config."""

    id: SafeId = Field(description="Id, unique among the variants.")
    name: NonEmpty = Field(description="Display name.")
    game_config: JsonObject = Field(description="A config that satisfies `game.config_schema`, without `tokens`.")
    description: NonEmpty = Field(description="How it differs from the others.")

    def __repr__(self) -> str:
        return f"<Variant {self.id!r}: {self.name}>"


class CertificationPlayer(Model):
    """The player in one slot of the certification episode."""

    player_id: NonEmpty = Field(description="Id of an entry of `player`.")


class CertificationFixture(Model):
    """The episode a Coworld is certified with."""

    game_config: JsonObject = Field(description="A config that satisfies `game.config_schema`, without `tokens`.")
    players: Annotated[tuple[CertificationPlayer, ...], Field(min_length=1)] = Field(
        description="The players, one entry per slot."
    )

    def __repr__(self) -> str:
        return f"<CertificationFixture {', '.join(player.player_id for player in self.players)}>"


_Optional: TypeAlias = tuple[RoleRunnable, ...]


def reporter_kind(value: object) -> str:
    """Which form of reporter a value has."""
    if isinstance(value, ReporterReference | WasmReporter):
        return "reference" if isinstance(value, ReporterReference) else "component"
    if not isinstance(value, dict) or "image" in value:
        return "container"
    return "reference" if "reporter" in value else "component" if "wasm" in value else "container"


Reporter: TypeAlias = Annotated[
    Annotated[RoleRunnable, Tag("container")]
    | Annotated[ReporterReference, Tag("reference")]
    | Annotated[WasmReporter, Tag("component")],
    Discriminator(reporter_kind),
]
"""A reporter: a container, as up to 0.1.29, or one of the forms that have replaced it."""


class Manifest(Model):
    """A Coworld: one game, its players and other roles, its variants, and the episode it is certified with."""

    schema_uri: str | None = Field(default=None, alias="$schema", description="Hint for editors; never fetched.")
    api_version: Literal["coworld.softmax.com/v0", "coworld.softmax.com/v1"] | None = Field(
        default=None, alias="apiVersion", exclude_if=absent, description="Generation of the manifest; null: v0."
    )
    game: GameManifest = Field(description="The game.")
    player: Annotated[tuple[RoleRunnable, ...], Field(min_length=1)] = Field(description="Bundled players.")
    reporter: tuple[Reporter, ...] = Field(
        default=(), description="Programs that turn finished episodes into a report, or references to published ones."
    )
    commissioner: _Optional = Field(default=(), description="Services that decide the rounds of a league.")
    grader: _Optional = Field(default=(), description="Programs that grade an episode.")
    diagnoser: _Optional = Field(default=(), description="Programs that diagnose a player from an episode.")
    optimizer: _Optional = Field(default=(), description="Programs that help to improve a player.")
    variants: Annotated[tuple[Variant, ...], Field(min_length=1)] = Field(description="Named game configs.")
    certification: CertificationFixture = Field(description="The episode it is certified with.")
    players_per_user: Annotated[StrictInt, Field(ge=1)] | None = Field(
        default=None,
        description="Maximum number of active players per user in this Coworld's league; null: the default.",
    )
    tags: Tags | None = Field(default=None, exclude_if=absent, description="Words to find it by, at least three.")
    episode_timeout_minutes: Annotated[StrictInt, Field(ge=1, le=1440)] | None = Field(
        default=None, exclude_if=absent, description="Minutes an episode may take on a platform; null: 20."
    )
    _kept: tuple[tuple[Path, Any], ...] = PrivateAttr(default=())

    @property
    def kept(self) -> tuple[tuple[Path, Any], ...]:
        """Unknown parts of the document, each with its path: not used, but written back."""
        return self._kept

    def keeping(self, kept: Iterable[tuple[Path, Any]]) -> "Manifest":
        """A copy that keeps unknown parts of its document."""
        manifest = self.model_copy()
        manifest._kept = tuple(kept)
        return manifest

    def section(self, name: RoleType) -> tuple[RoleRunnable, ...]:
        """The entries of the named role section; for reporters, only containers."""
        entries: tuple[object, ...] = getattr(self, name)
        return tuple(entry for entry in entries if isinstance(entry, RoleRunnable))

    def with_images(self, images: Mapping[str, str]) -> "Manifest":
        """A copy with images renamed; an image that is not in `images` keeps its name."""

        def renamed(entry: Any) -> Any:
            image: str = getattr(entry, "image", "")
            return entry.model_copy(update={"image": images[image]}) if image in images else entry

        game = self.game.model_copy(update={"runnable": renamed(self.game.runnable)})
        sections = {name: tuple(map(renamed, getattr(self, name))) for name in ROLE_SECTIONS}
        return self.model_copy(update={"game": game, **sections})

    def roles(self) -> tuple[RoleRunnable, ...]:
        """All entries of all role sections, in the order of `ROLE_SECTIONS`."""
        return tuple(entry for name in ROLE_SECTIONS for entry in self.section(name))

    def images(self) -> tuple[str, ...]:
        """Every image the manifest names, once each: the game's first, then in the order of the sections."""
        named = [self.game.runnable.image, *(entry.image for entry in self.roles() if entry.file is None)]
        return tuple(dict.fromkeys(named))

    @property
    def is_template(self) -> bool:
        """Whether any image is still a placeholder such as `{{GAME_IMAGE}}`."""
        return any("{{" in image for image in self.images())

    def __repr__(self) -> str:
        sections = [("player", "players"), ("variants", "variants")]
        sections += [(name, f"{name}s") for name in ROLE_SECTIONS[1:] if getattr(self, name)]
        counts = [(len(getattr(self, name)), plural) for name, plural in sections]
        parts = ", ".join(f"{count} {plural if count != 1 else plural[:-1]}" for count, plural in counts)
        return f"<Manifest {self.game.name} {self.game.version}: {parts}>"

    def _repr_html_(self) -> str:
        game = self.game
        entries: list[tuple[str, str | None, str]] = [("game", game.runnable.image, game.description)]
        entries += [(f"{role.type} {role.id}", role.image, role.description) for role in self.roles()]
        entries += [(f"variant {item.id}", None, f"{item.name}: {item.description}") for item in self.variants]
        rows: list[TableRow] = [
            {"entry": entry, "image": image, "description": description} for entry, image, description in entries
        ]
        return html_table(f"{game.name} {game.version}", rows)
