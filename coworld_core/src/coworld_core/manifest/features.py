"""Manifest features added since 0.1.26, one model each. Most are for platforms that host Coworlds.

Source: "Current generation" of the contract.
"""

# No annotations from __future__: pydantic would compile each of them, which takes time whenever a game starts

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, PlainValidator, StrictInt, StringConstraints

from ..documents.findings import quoted, type_word
from ..issues import absent
from ._model_base import JsonObject, Model, NonEmpty, Place, fitting, refuse

__all__ = [
    "Achievement",
    "GameLog",
    "LogPanel",
    "Memory",
    "Promo",
    "ReplayViewer",
    "ReporterReference",
    "Startup",
    "Tags",
    "WasmReporter",
]

_REPORTER = r"[a-z0-9]+/[a-z0-9][a-z0-9_.-]*@[1-9][0-9]*"
_WebAddress: TypeAlias = Annotated[str, StringConstraints(min_length=1, pattern=r"^https?://")]


def _check_tags(value: tuple[str, ...]) -> tuple[str, ...]:
    if len(value) < 3:
        raise refuse(
            "too_few_tags", f"has {len(value)}; at least three are required.", "Add some, or remove the field."
        )
    return value


def _check_points(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refuse("wrong_type", f"must be a number, not {type_word(value)}.")
    if not value > 0:
        raise refuse("out_of_range", f"is {quoted(value)}; it must be more than 0.")
    return value


Tags: TypeAlias = Annotated[tuple[NonEmpty, ...], AfterValidator(_check_tags), Field(json_schema_extra={"minItems": 3})]
"""Words to find a Coworld by."""


class Promo(Model):
    """What a platform shows people who have not played the game yet."""

    video_url: _WebAddress = Field(description="Video of the game: a public http or https URL.")


class ReplayViewer(Model):
    """A page that shows replays without running the game's program."""

    bundle: Place = Field(description="Directory in the package with an index.html, or the digest of an upload.")
    replay_compression: Literal["identity", "gzip"] | None = Field(
        default=None, exclude_if=absent, description="How replays are compressed for the page; null: not at all."
    )
    format_identity: NonEmpty | None = Field(
        default=None, exclude_if=absent, description="Name of the replay format that the page reads."
    )


class Achievement(Model):
    """Something a player can earn; the game's results say who earned it."""

    id: Annotated[
        str, fitting("[a-z0-9_-]{1,100}", "only lowercase letters, digits, _ and - are allowed, at most 100 characters")
    ] = Field(description="Id, unique among the achievements.", json_schema_extra={"pattern": "^[a-z0-9_-]{1,100}$"})
    name: NonEmpty = Field(description="Display name.")
    description: NonEmpty = Field(description="What a player has to do to earn it.")
    points: Annotated[float, PlainValidator(_check_points, json_schema_input_type=float)] = Field(
        description="What it is worth, more than 0.", json_schema_extra={"exclusiveMinimum": 0}
    )


class LogPanel(Model):
    """A panel that shows events of certain kinds together."""

    title: NonEmpty = Field(description="Heading of the panel.")
    kinds: Annotated[tuple[NonEmpty, ...], Field(min_length=1)] = Field(description="The kinds of events.")


class GameLog(Model):
    """How a page shows the events of an episode."""

    agent_label_field: NonEmpty | None = Field(
        default=None, exclude_if=absent, description="Field of an event that names the player."
    )
    team_field: NonEmpty | None = Field(
        default=None, exclude_if=absent, description="Field of an event that names the team."
    )
    objective: NonEmpty | None = Field(default=None, exclude_if=absent, description="What players try to achieve.")
    panels: tuple[LogPanel, ...] | None = Field(default=None, exclude_if=absent, description="Panels of events.")


class Memory(Model):
    """What a game keeps from one episode to the next, on platforms that support it."""

    protocol: Literal["append-v1"] = Field(description="How it is kept.")


class Startup(Model):
    """How a player that needs time before it can connect reports that it is ready, on a port of its own."""

    port: Annotated[StrictInt, Field(ge=1024, le=65535)] = Field(description="Port it answers on when asked.")
    path: Annotated[str, fitting("/.*", "it must begin with /")] | None = Field(
        default=None, exclude_if=absent, description="Path that answers 200 once the player is ready; null: `/healthz`."
    )
    timeout_seconds: Annotated[StrictInt, Field(ge=1, le=1200)] | None = Field(
        default=None, exclude_if=absent, description="Seconds it may take; null: 1200."
    )


class ReporterReference(Model):
    """A reference to a reporter published on a platform."""

    reporter: Annotated[str, fitting(_REPORTER, "it must be owner/name@version", hint="Write me/summary@1.")] = Field(
        description="Owner, name and version: `me/summary@1`.", json_schema_extra={"pattern": f"^{_REPORTER}$"}
    )


class WasmReporter(Model):
    """A reporter inside the package, as a WebAssembly component."""

    wasm: NonEmpty = Field(description="The component: a path inside the package, or its digest.")
    id: NonEmpty = Field(description="Id, unique among the reporters.")
    attributes: JsonObject = Field(description="Its purpose, world and outputs.")
    display_name: Annotated[str, StringConstraints(max_length=200)] | None = Field(
        default=None, exclude_if=absent, description="Display name, at most 200 characters."
    )
    description: Annotated[str, StringConstraints(max_length=2000)] | None = Field(
        default=None, exclude_if=absent, description="What it reports, at most 2000 characters."
    )
