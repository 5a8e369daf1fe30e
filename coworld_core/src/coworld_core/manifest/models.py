"""The manifest of a Coworld, as frozen models: what a game is, who can play it, and in which variants.

The models are the strict form, the one that is written: no unknown keys, no legacy shapes. Older and newer documents
are brought into it by ``coworld_core.manifest.loading``, which also holds the rules that span several fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, StringConstraints
from pydantic_core import PydanticCustomError

from .._findings import quoted
from ..ids import MAX_ID_LENGTH, SAFE_ID_PATTERN, id_problem
from ..images import image_problem
from ..quantities import quantity_problem
from ..tables import TableRow, html_table

__all__ = [
    "ROLE_SECTIONS",
    "CertificationFixture",
    "CertificationPlayer",
    "Doc",
    "DocPage",
    "Docs",
    "GameManifest",
    "JsonObject",
    "Manifest",
    "ProtocolDocs",
    "ResourceRequests",
    "Resources",
    "RoleRunnable",
    "RoleSection",
    "RoleType",
    "Runnable",
    "RunnableType",
    "TextDoc",
    "UriDoc",
    "Variant",
]

JsonObject: TypeAlias = Mapping[str, Any]
"""Anyone's JSON object: a game config, a JSON Schema, results."""

RunnableType = Literal["game", "player", "reporter", "commissioner", "grader", "diagnoser", "optimizer"]
"""What a runnable is in a Coworld."""

RoleType = Literal["player", "reporter", "commissioner", "grader", "diagnoser", "optimizer"]
"""What an entry of a role section is: anything but the game."""

RoleSection = RoleType
"""Name of a role section; each holds entries of the type of the same name."""

ROLE_SECTIONS: tuple[RoleSection, ...] = ("player", "reporter", "commissioner", "grader", "diagnoser", "optimizer")
"""The role sections in the order used everywhere."""


def _refuse(code: str, message: str, hint: str | None = None) -> PydanticCustomError:
    # Messages go on where the name of the field ended: "player[0].id", and "contains a slash". The text goes through
    # the context, because a message template would interpret its braces.
    context: dict[str, Any] = {"text": message}
    if hint:
        context["hint"] = hint
    return PydanticCustomError(code, "{text}", context)  # pyright: ignore[reportArgumentType]


def _check_id(value: str) -> str:
    problem = id_problem(value)
    if problem is None:
        return value
    hint = "Use letters, digits, hyphens and underscores; ids become directory names and labels."
    raise _refuse(
        "empty_value" if not value else "unsafe_id", f"{quoted(value)} {problem}." if value else "is empty.", hint
    )


def _check_image(value: str) -> str:
    problem = None if value.startswith("file://") else image_problem(value)
    if problem is None:
        return value
    code = "empty_image" if problem == "is empty" else "bad_image"
    hint = "Write [registry/]name[:tag] or name@sha256:digest, e.g. ghcr.io/me/game:1.0."
    raise _refuse(code, f"{quoted(value, 80)} {problem}." if value else "is empty.", hint)


def _check_version(value: str) -> str:
    from packaging.version import InvalidVersion, Version

    try:
        Version(value)
    except InvalidVersion:
        raise _refuse(
            "bad_version",
            f"{quoted(value)} is not a PEP 440 version.",
            "Write something like 1.0.0, 0.3.1 or 2.0.0rc1.",
        ) from None
    return value


def _check_env_name(value: str) -> str:
    if value.isascii() and value.replace("_", "a").replace(".", "a").replace("-", "a").isalnum():
        if value[0].isalpha() or value[0] == "_":
            return value
        problem = "begins with neither a letter nor an underscore"
    elif not value:
        problem = "is empty"
    else:
        problem = "contains something other than letters, digits, underscores, dots and hyphens"
    raise _refuse(
        "bad_env_name",
        f"has the name {quoted(value)}, which {problem}.",
        "Write it like MY_SETTING.",
    )


def _check_text(value: str) -> str:
    if "\0" in value:
        raise _refuse("bad_env_value", "contains a NUL character, which no process can be given.")
    return value


def _check_run(value: tuple[str, ...]) -> tuple[str, ...]:
    if any("\0" in part for part in value):
        raise _refuse("bad_run", "contains a NUL character, which no process can be given.")
    if value and not value[0].strip():
        raise _refuse(
            "bad_run",
            "begins with an empty element.",
            "Name the program first, then its arguments; leave the list empty for the image's own command.",
        )
    return value


def _quantity(resource: str) -> AfterValidator:
    def check(value: str) -> str:
        problem = quantity_problem(resource, value)
        if problem is None:
            return value
        raise _refuse("bad_quantity", f"{quoted(value, 40)} {problem[0]}.", problem[1])

    return AfterValidator(check)


def _without_line_end(value: object) -> object:
    return value.rstrip("\r\n") if isinstance(value, str) else value


NonEmpty: TypeAlias = Annotated[str, StringConstraints(min_length=1)]
SafeId: TypeAlias = Annotated[
    str,
    AfterValidator(_check_id),
    Field(json_schema_extra={"minLength": 1, "maxLength": MAX_ID_LENGTH, "pattern": SAFE_ID_PATTERN}),
]
_Image: TypeAlias = Annotated[
    str,
    AfterValidator(_check_image),
    Field(
        description="Docker image reference, or an `img_<uuid>` id in a manifest downloaded before publication.",
        json_schema_extra={"minLength": 1, "pattern": r"^[^\s\-]\S*$"},
    ),
]
_Run: TypeAlias = Annotated[
    tuple[str, ...],
    AfterValidator(_check_run),
    Field(description="Command: program first, then arguments. Empty: the image's own entrypoint and command."),
]
_EnvName: TypeAlias = Annotated[str, AfterValidator(_check_env_name)]
_Env: TypeAlias = Annotated[
    Mapping[_EnvName, Annotated[str, AfterValidator(_check_text)]],
    Field(
        description="Public environment variables. Never secrets: everyone who can read the manifest reads them.",
        json_schema_extra={"propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_.-]*$"}},
    ),
]


class _Model(BaseModel):
    # built on first use: a nested model is then built with its parent, and not a second time by itself
    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_alias=True, validate_by_name=True, defer_build=True
    )

    def __str__(self) -> str:
        return repr(self)


def _glimpse(text: str) -> str:
    return repr(text) if len(text) <= 40 else f"{text[:39]!r}… ({len(text)} characters)"


class TextDoc(_Model):
    """A document written into the manifest itself."""

    type: Literal["text"] = Field(description="Always `text`.")
    value: NonEmpty = Field(description="The text, usually Markdown.")

    def __repr__(self) -> str:
        return f"<TextDoc {_glimpse(self.value)}>"


class UriDoc(_Model):
    """A document that stands somewhere public."""

    type: Literal["uri"] = Field(description="Always `uri`.")
    value: Annotated[str, StringConstraints(min_length=1, pattern=r"^https?://")] = Field(
        description="Public http or https URL."
    )

    def __repr__(self) -> str:
        return f"<UriDoc {self.value}>"


Doc: TypeAlias = Annotated[TextDoc | UriDoc, Field(discriminator="type")]
"""A document: inline text, or a public URL."""


class ProtocolDocs(_Model):
    """What goes over the game's two websockets."""

    player: Doc = Field(description="The protocol of `/player`: what a player receives and sends.")
    global_: Doc = Field(alias="global", description="The protocol of `/global`: what a viewer receives.")


class DocPage(_Model):
    """One page of the game's documentation."""

    id: Annotated[NonEmpty, BeforeValidator(_without_line_end)] = Field(
        description="Name of the page, e.g. `rules.md`."
    )
    title: NonEmpty = Field(description="Title for menus.")
    content: Doc = Field(description="The page itself.")

    def __repr__(self) -> str:
        return f"<DocPage {self.id!r}: {_glimpse(self.title)}>"


class Docs(_Model):
    """The game's documentation."""

    readme: Doc = Field(description="What a person reads first.")
    pages: tuple[DocPage, ...] = Field(default=(), description="Further pages.")


class ResourceRequests(_Model):
    """What a runnable asks for, as Kubernetes quantities; what is left out takes the role's default."""

    cpu: Annotated[str, _quantity("cpu")] | None = Field(default=None, description="Processors, e.g. `500m` or `2`.")
    memory: Annotated[str, _quantity("memory")] | None = Field(default=None, description="Bytes, e.g. `256Mi`.")
    ephemeral_storage: Annotated[str, _quantity("ephemeral-storage")] | None = Field(
        default=None, alias="ephemeral-storage", description="Bytes of disk, e.g. `1Gi`."
    )


class Resources(_Model):
    """Resources of a runnable. Limits are derived by whoever runs it."""

    requests: ResourceRequests = Field(description="What it asks for.")


class Runnable(_Model):
    """Something that can be started: an image, a command, an environment."""

    type: RunnableType = Field(description="What it is in the Coworld.")
    image: _Image
    run: _Run = ()
    env: _Env = Field(default_factory=dict)
    source_url: str | None = Field(default=None, description="Where a person finds its source.")
    resources: Resources | None = Field(default=None, description="What it asks for; null: the role's defaults.")

    def __repr__(self) -> str:
        return f"<Runnable {self.type}: {self.image}>"


class RoleRunnable(_Model):
    """An entry of a role section: a runnable with a name."""

    id: SafeId = Field(description="Id, unique in its section; becomes a directory name and a label.")
    name: NonEmpty = Field(description="Display name.")
    type: RoleType = Field(description="What it is; the name of its section.")
    description: NonEmpty = Field(description="What it does, for people choosing one.")
    image: _Image
    run: _Run = ()
    env: _Env = Field(default_factory=dict)
    source_url: str | None = Field(default=None, description="Where a person finds its source.")
    repository_url: str | None = Field(default=None, description="Git repository for `coworld optimize`.")
    resources: Resources | None = Field(default=None, description="What it asks for; null: the role's defaults.")

    def as_runnable(self) -> Runnable:
        """The same without id, name, description and repository."""
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


class GameManifest(_Model):
    """The game: its names, its rules for configs and results, and its program."""

    name: NonEmpty = Field(description="The game's name; the first authenticated upload claims it.")
    version: Annotated[NonEmpty, AfterValidator(_check_version)] = Field(description="PEP 440 version.")
    description: NonEmpty = Field(description="What the game is, in a sentence or two.")
    owner: NonEmpty = Field(description="Who answers for it: an e-mail address or a handle.")
    config_schema: JsonObject = Field(description="JSON Schema (2020-12) of a game config, with required `tokens`.")
    results_schema: JsonObject = Field(description="JSON Schema (2020-12) of the results, with required `scores`.")
    runnable: Runnable = Field(description="The game server; its type is `game`.")
    protocols: ProtocolDocs = Field(description="What goes over its websockets.")
    docs: Docs = Field(description="Its documentation.")

    def __repr__(self) -> str:
        return f"<GameManifest {self.name} {self.version}>"


class Variant(_Model):
    """A named game config."""

    id: SafeId = Field(description="Id, unique among the variants.")
    name: NonEmpty = Field(description="Display name.")
    game_config: JsonObject = Field(description="A config that satisfies `game.config_schema`, without `tokens`.")
    description: NonEmpty = Field(description="What is different in it.")

    def __repr__(self) -> str:
        return f"<Variant {self.id!r}: {self.name}>"


class CertificationPlayer(_Model):
    """The player in one slot of the certification episode."""

    player_id: NonEmpty = Field(description="Id of an entry of `player`.")


class CertificationFixture(_Model):
    """The episode a Coworld is certified with."""

    game_config: JsonObject = Field(description="A config that satisfies `game.config_schema`, without `tokens`.")
    players: Annotated[tuple[CertificationPlayer, ...], Field(min_length=1)] = Field(
        description="Who plays, one entry per slot."
    )

    def __repr__(self) -> str:
        return f"<CertificationFixture {', '.join(player.player_id for player in self.players)}>"


_Optional: TypeAlias = tuple[RoleRunnable, ...]


class Manifest(_Model):
    """A Coworld: one game, its players and other roles, its variants, and the episode it is certified with."""

    schema_uri: str | None = Field(default=None, alias="$schema", description="Hint for editors; never fetched.")
    game: GameManifest = Field(description="The game.")
    player: Annotated[tuple[RoleRunnable, ...], Field(min_length=1)] = Field(description="Bundled players.")
    reporter: _Optional = Field(default=(), description="Programs that turn finished episodes into a report.")
    commissioner: _Optional = Field(default=(), description="Services that decide the rounds of a league.")
    grader: _Optional = Field(default=(), description="Programs that grade an episode.")
    diagnoser: _Optional = Field(default=(), description="Programs that diagnose a player from an episode.")
    optimizer: _Optional = Field(default=(), description="Programs that help to improve a player.")
    variants: Annotated[tuple[Variant, ...], Field(min_length=1)] = Field(description="Named game configs.")
    certification: CertificationFixture = Field(description="The episode it is certified with.")
    players_per_user: Annotated[StrictInt, Field(ge=1)] | None = Field(
        default=None, description="Most active players one user may have in this Coworld's league; null: the default."
    )

    def section(self, name: RoleSection) -> tuple[RoleRunnable, ...]:
        """The entries of a role section by its name."""
        entries: tuple[RoleRunnable, ...] = getattr(self, name)
        return entries

    def roles(self) -> tuple[RoleRunnable, ...]:
        """All entries of all role sections, in the order of ``ROLE_SECTIONS``."""
        return tuple(entry for name in ROLE_SECTIONS for entry in self.section(name))

    def images(self) -> tuple[str, ...]:
        """Every image the manifest names, once each: the game's first, then in the order of the sections."""
        return tuple(dict.fromkeys([self.game.runnable.image, *(entry.image for entry in self.roles())]))

    @property
    def is_template(self) -> bool:
        """Whether any image is still a placeholder such as ``{{GAME_IMAGE}}``."""
        return any("{{" in image for image in self.images())

    def __repr__(self) -> str:
        sections = [("player", "players"), ("variants", "variants")]
        sections += [(name, f"{name}s") for name in ROLE_SECTIONS[1:] if self.section(name)]
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
