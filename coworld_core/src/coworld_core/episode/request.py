"""The episode request: a manifest, a game config and the player in each slot.

Source of the rules: manifest contract, "Episode request / job spec".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field

from ..documents.findings import Finding, Findings, quoted, type_word
from ..documents.json_text import JsonDocument, Source, json_report
from ..documents.shapes import parse_shape
from ..errors import ManifestError, UsageError
from ..images import ImageRef, image_problem
from ..issues import Report
from ..manifest._cross_field_rules import request_player_rules
from ..manifest.game_config import config_findings, game_config_for, slot_count, slots_finding, token_bounds
from ..manifest.manifest_file import Mode, examine_manifest, manifest_sha256, read_document
from ..manifest.models import JsonObject, Manifest, Runnable

__all__ = ["JobSpec", "LoadedRequest", "build_request", "check_request", "load_request", "with_image"]


class JobSpec(BaseModel):
    """One episode to play. The game config has no tokens; the runner adds them."""

    # Built on first use: a nested model is then built with its parent, and not a second time by itself
    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_alias=True, validate_by_name=True, defer_build=True
    )

    schema_uri: str | None = Field(default=None, alias="$schema", description="Hint for editors; never fetched.")
    manifest: Manifest = Field(description="The Coworld to play.")
    game_config: JsonObject = Field(description="A config that satisfies `game.config_schema`, without `tokens`.")
    players: tuple[Runnable, ...] = Field(description="The players, by slot; each of type `player`.")
    episode_tags: Mapping[str, str] = Field(default_factory=dict, description="Free labels of the episode.")

    def __repr__(self) -> str:
        game = self.manifest.game
        count = len(self.players)
        return f"<JobSpec {game.name} {game.version}: {count} player{'s' if count != 1 else ''}>"

    def __str__(self) -> str:
        return repr(self)


@dataclass(frozen=True, eq=False)
class LoadedRequest:
    """An episode request that was read, with the findings about it."""

    request: JobSpec
    """The request in its current form."""

    policy_names: tuple[str, ...]
    """`policy_names` of an older request, one per player, for games that read `COGAMES_POLICY_NAMES`; or empty."""

    document: JsonDocument = field(repr=False)
    """The text it was read from."""

    findings: tuple[Finding, ...] = field(repr=False)
    """The findings; `report` has them with lines and columns."""

    @cached_property
    def report(self) -> Report:
        """Warnings and remarks with line and column. It contains no errors."""
        return json_report(self.document, self.findings)


def build_request(
    manifest: Manifest,
    variant: str | None = None,
    *,
    images: Sequence[str] = (),
    run: Sequence[str] = (),
    slots: int | None = None,
    episode_tags: Mapping[str, str] | None = None,
    config: Mapping[str, Any] | None = None,
) -> JobSpec:
    """Build a request to play a variant or the certification fixture, with bundled players or with your own images.

    Bundled players are seated as in the certification fixture, repeating from the first if there are more slots.

    Args:
        manifest: The manifest.
        variant: A variant's id, or None for the certification fixture.
        images: One image for all slots, or one per slot; empty for the bundled players' own. Without `run`, another
            build of a bundled player's image keeps that player's command and environment, and any other image runs its
            own command (see `with_image`).
        run: Command for those images, program first; needs at least one image.
        slots: Number of slots, if the config does not determine it.
        episode_tags: Labels of the episode.
        config: Changes to the game config, as for `merge_config`.

    Raises:
        UsageError: Codes `unknown_variant`, `wrong_image_count`, `run_without_image`,
            `slots_unknown`, `slots_out_of_bounds`, `bad_image`, and those of `merge_config`.
    """
    merged = game_config_for(manifest, variant, changes=config)
    count = _slots(manifest, merged, variant, slots)
    if run and not images:
        raise UsageError(
            "A command was given for player images, but no image.",
            code="run_without_image",
            hint="Name an image, or leave the command out.",
        )
    if len(images) not in (0, 1, count):
        noun = f"{count} player slot{'s' if count != 1 else ''}"
        raise UsageError(
            f"expected 1 or {count} player images for {noun}, got {len(images)}.",
            code="wrong_image_count",
            hint="Give one image for all slots, or exactly one for each.",
            context={"images": list(images), "slots": count},
        )
    bundled = {player.id: player for player in manifest.player}
    seats = [bundled[seat.player_id] for seat in manifest.certification.players]
    players = [seats[slot % len(seats)].as_runnable() for slot in range(count)]
    if images:
        players = [with_image(usual, images[slot % len(images)], run) for slot, usual in enumerate(players)]
    return JobSpec(manifest=manifest, game_config=merged, players=tuple(players), episode_tags=dict(episode_tags or {}))


def _slots(manifest: Manifest, config: Mapping[str, Any], variant: str | None, wanted: int | None) -> int:
    players = config.get("players")
    if isinstance(players, list):
        count = len(cast("list[Any]", players))
    elif wanted is not None:
        count = wanted
    elif variant is None:
        count = len(manifest.certification.players)
    else:
        count = slot_count(manifest, config)
    if wanted is not None and wanted != count:
        raise UsageError(
            f"The game config seats {count} players, not {wanted}.",
            code="slots_out_of_bounds",
            hint="Change `players` in the game config, or leave the number out.",
        )
    if finding := slots_finding(count, *token_bounds(manifest)):
        raise UsageError(finding.message, code=finding.code, hint=finding.hint)
    return count


def with_image(usual: Runnable, image: str, run: Sequence[str] = ()) -> Runnable:
    """The player of another image in the place of a bundled player.

    Args:
        usual: The bundled player. Its resources are kept; its command and environment only without `run`, and only if
            its image has the same repository: another tag or digest is another build of the same program.
        image: The image.
        run: The image's command, program first; empty for that of another repository's image: its own entry point.

    Raises:
        UsageError: Code `bad_image`.
    """
    if problem := image_problem(image):
        raise UsageError(
            f"The image {quoted(image)} {problem}.",
            code="bad_image",
            hint="Write [registry/]name[:tag] or name@sha256:digest.",
        )
    # With a command of its own, or another name, the image is another program: the bundled player's are not for it.
    name = ImageRef.parse(usual.image).name
    rebuilt = not run and (image == usual.image or (name != "" and ImageRef.parse(image).name == name))
    return Runnable(
        type="player",
        image=image,
        run=usual.run if rebuilt else tuple(run),
        env=usual.env if rebuilt else {},
        resources=usual.resources,
    )


def load_request(
    source: Source, *, manifest: Manifest | None = None, mode: Mode = "read", template: bool = False
) -> LoadedRequest:
    """Read an episode request.

    Args:
        source: The file, its content as bytes, or the JSON as a Python value.
        manifest: The manifest that it must contain, if any.
        mode: `read` (lenient) or `strict`.
        template: Allow placeholders for images, and a template as the manifest.

    Raises:
        ManifestError: With a report of all issues, if any of them is an error (`request_invalid`).
        UsageError: The path itself is wrong.
    """
    request, names, document, findings = _examine(source, manifest, mode, template=template)
    if request is None:
        raise ManifestError(json_report(document, findings.items, dropped=findings.dropped), code="request_invalid")
    return LoadedRequest(request, names, document, tuple(findings.items))


def check_request(
    source: Source, *, manifest: Manifest | None = None, mode: Mode = "read", template: bool = False
) -> Report:
    """Like `load_request`, but returns only the report. Invalid content never raises.

    Raises:
        UsageError: The path itself is wrong.
    """
    _, _, document, findings = _examine(source, manifest, mode, template=template)
    return json_report(document, findings.items, dropped=findings.dropped)


def _examine(
    source: Source, expected: Manifest | None, mode: Mode, *, template: bool
) -> tuple[JobSpec | None, tuple[str, ...], JsonDocument, Findings]:
    document = read_document(source)
    findings = Findings(list(document.findings))
    if not document.usable:
        return None, (), document, findings
    if not isinstance(document.value, dict):
        findings.add("not_an_object", (), f"An episode request is a JSON object, not {type_word(document.value)}.")
        return None, (), document, findings
    body = dict(cast("dict[str, Any]", document.value))
    names = _policy_names(body, findings, mode)
    # The manifest is read by its own rules first; the request is then checked against the result.
    manifest: Manifest | None = None
    if "manifest" in body:
        inner = Findings()
        manifest = examine_manifest(body["manifest"], inner, mode=mode, template=template)
        findings.extend(inner.items, below=("manifest",))
        if inner.failed:
            manifest = None
    shaped = {**body, "manifest": manifest} if manifest is not None else body
    request, shape = parse_shape(JobSpec, shaped, strict=mode == "strict", top="the episode request")
    # Findings inside the manifest were reported above.
    findings.extend(finding for finding in shape if finding.path[:1] != ("manifest",))
    rules = request_player_rules(body.get("players"), strict=mode == "strict", template=template)
    findings.extend(rules.items)
    if manifest is not None:
        findings.extend(_config(body, manifest))
        if expected is not None and manifest_sha256(expected) != manifest_sha256(manifest):
            findings.add(
                "manifest_mismatch",
                ("manifest",),
                "episode request manifest does not match the manifest it is used with.",
                "Write the request for this manifest again.",
            )
    return (None if findings.failed else request), names, document, findings


def _policy_names(body: dict[str, Any], findings: Findings, mode: Mode) -> tuple[str, ...]:
    if "policy_names" not in body or mode == "strict":
        return ()
    names, players = body.pop("policy_names"), body.get("players")
    severity: Literal["info", "warning"] = "info"
    message = "policy_names is from an older generation of requests; it is kept for games that read it"
    count = len(cast("list[Any]", players)) if isinstance(players, list) else 0
    usable: tuple[str, ...] = ()
    if isinstance(names, list) and all(isinstance(name, str) for name in cast("list[Any]", names)):
        usable = tuple(cast("list[str]", names))
    if names is not None and len(usable) != count:
        severity = "warning"
        message = "policy_names is from an older generation of requests; ignored, because it is not one name per player"
        usable = ()
    findings.add("lifted_policy_names", ("policy_names",), f"{message}.", severity=severity, at_key=True)
    return usable


def _config(body: Mapping[str, Any], manifest: Manifest) -> list[Finding]:
    config, players = body.get("game_config"), body.get("players")
    if not isinstance(config, dict):
        return []
    slots = len(cast("list[Any]", players)) if isinstance(players, list) and players else None
    findings = Findings()
    for finding in config_findings(manifest.game.config_schema, cast("dict[str, Any]", config), slots=slots):
        if finding.code in ("slots_out_of_bounds", "players_mismatch") and slots is not None:
            findings.add(finding.code, ("players",), finding.message, finding.hint)
        else:
            findings.extend([finding], below=("game_config",))
    return findings.items
