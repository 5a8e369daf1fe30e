"""Checks that the fixture and every variant are configs the game accepts (step `fixture-conforms`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coworld_core.errors import UsageError
from coworld_core.issues import Issue
from coworld_core.manifest.game_config import slot_count, validate_game_config
from coworld_core.manifest.models import JsonObject, Manifest
from coworld_core.text.phrases import listed

from .certification_record import Evidence
from .step_answers import StepAnswer, advice, failed_on, issue_evidence, missing, passed, required

__all__ = ["Configs", "check_configs", "configs_of_refused"]


@dataclass(frozen=True, kw_only=True)
class Configs:
    """The step's answer, and whether the fixture can be played."""

    answer: StepAnswer
    fixture_ok: bool


def check_configs(manifest: Manifest, issues: Sequence[Issue]) -> Configs:
    """Check the fixture and every variant.

    Args:
        manifest: The manifest.
        issues: Issues of the whole document; they provide lines and columns.
    """
    known = [player.id for player in manifest.player]
    fixture = [
        Evidence(
            code="unknown_player",
            level="required",
            ok=False,
            message=f"Slot {slot} of the fixture is for {entry.player_id!r}, which is not in `player`.",
            hint=f"Known: {listed(known, limit=6)}.",
            pointer=f"/certification/players/{slot}/player_id",
            slot=slot,
        )
        for slot, entry in enumerate(manifest.certification.players)
        if entry.player_id not in known
    ]
    count = len(manifest.certification.players)
    config = manifest.certification.game_config
    fixture += _checked(manifest, config, "/certification/game_config", "The fixture", count, issues)
    evidence = list(fixture)
    for index, variant in enumerate(manifest.variants):
        place = f"/variants/{index}/game_config"
        evidence += _checked(manifest, variant.game_config, place, f"Variant {variant.id!r}", None, issues)
    return Configs(answer=_answer(evidence), fixture_ok=not any(item.broken for item in fixture))


def configs_of_refused(issues: Sequence[Issue]) -> StepAnswer:
    """Answer the step for a manifest that could not be read, from its issues about configs."""
    evidence = [issue_evidence(issue) for issue in issues if issue.severity == "error" and _about_configs(issue)]
    return _answer(evidence) if evidence else missing("matriculate", "the manifest cannot be read")


def _answer(evidence: list[Evidence]) -> StepAnswer:
    if any(item.broken for item in evidence):
        return failed_on("fixture_invalid", evidence)
    right = sum(item.ok and item.level == "required" for item in evidence)
    return passed(f"{right} {'config conforms' if right == 1 else 'configs conform'}.", evidence)


def _checked(
    manifest: Manifest, config: JsonObject, place: str, who: str, slots: int | None, issues: Sequence[Issue]
) -> list[Evidence]:
    report = validate_game_config(manifest, config, slots=slots, source=who)
    places = {(issue.code, issue.pointer): issue for issue in issues}
    found: list[Evidence] = []
    for issue in report.issues:
        pointer = f"{place}{issue.pointer}"
        at = places.get((issue.code, pointer))
        update = {
            "pointer": pointer,
            "message": f"{who}: {issue.message}",
            "line": at.line if at else None,
            "column": at.column if at else None,
        }
        found.append(issue_evidence(issue.model_copy(update=update)))
    if not report.ok:
        return found
    try:
        count = slots if slots is not None else slot_count(manifest, config)
    except UsageError as error:
        found.append(required("config_conforms", ok=True, message=f"{who} is a config for the game."))
        found.append(advice(error.code, f"{who}: {error.message}", hint=error.hint))
        return found
    seats = f"{count} {'slot' if count == 1 else 'slots'}"
    found.append(required("config_conforms", ok=True, message=f"{who} is a config for {seats}."))
    return found


def _about_configs(issue: Issue) -> bool:
    parts = issue.pointer.split("/")
    return parts[:2] == ["", "certification"] or (parts[:2] == ["", "variants"] and parts[3:4] == ["game_config"])
