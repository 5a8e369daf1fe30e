"""Checks that every bundled player really played (step `players-run`)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from coworld_core.episode.outcome import Fault
from coworld_core.episode.record import EpisodeRecord, SlotRecord
from coworld_core.manifest.models import GAME_HOSTED, Manifest

from .certification_record import Evidence
from .contract_checks import LEAVE_SECONDS, SeatState
from .step_answers import StepAnswer, about_results, failed_on, fault_evidence, missing, note, passed, required

__all__ = ["check_attendance"]

_SHARE_OF_OTHERS = 0.1
"""A player has left early if another stayed longer by more than this share of the time since its start."""

_SHARE_OF_GAME = 0.5
"""A player has also left early if the game went on for more than this share of the time from its start to the end of
the game. The share is larger because games write results and replay after they tell players that the game is over."""

_STOPPED = "player_stopped"


def check_attendance(
    manifest: Manifest,
    record: EpisodeRecord | None,
    seats: Mapping[int, SeatState],
    *,
    directory: str,
    further: Mapping[str, EpisodeRecord] = MappingProxyType({}),
) -> StepAnswer:
    """Compare the starts and ends of the smoke episode's players with the game's.

    A player that ends by itself before the game is over has left early if the game would have let it reconnect. If the
    game had closed its seat, the player was dismissed (eliminated, say) and was right to end.

    Args:
        manifest: The manifest.
        record: The episode, if there was one.
        seats: By slot, whether a player that had left could have reconnected.
        directory: The episode's directory relative to the certification's, to name logs.
        further: Further episodes, for players without a slot in the fixture, by their directories.
    """
    seated = [entry.player_id for entry in manifest.certification.players]
    shown = {*seated, *(slot.player_id for other in further.values() for slot in other.slots)}
    evidence = [
        required(
            "player_without_slot",
            ok=False,
            message=f"Player {player.id!r} has no slot in the fixture, so nothing shows that it runs.",
            hint="Give every bundled player a slot in certification.players.",
        )
        for player in manifest.player
        if player.id not in shown
    ]
    blamed = record is not None and any(fault.party == "player" for fault in record.faults)
    if record is not None and manifest.game.player_runtime == GAME_HOSTED:
        evidence += [_hosted(slot, seated[slot.slot % len(seated)], directory) for slot in record.slots]
    elif record is not None and (blamed or any(slot.started_seconds is not None for slot in record.slots)):
        for slot in record.slots:
            evidence.append(_attended(slot, seated[slot.slot % len(seated)], record, seats, directory))
    elif not evidence:
        return missing("smoke-episode", "no player was started in it")
    for place, other in further.items():
        evidence += [fault_evidence(fault, place) for fault in other.faults if fault.party == "game"]
        for slot in other.slots:
            if (name := slot.player_id or "") not in seated:
                hosted = manifest.game.player_runtime == GAME_HOSTED
                evidence.append(_hosted(slot, name, place) if hosted else _attended(slot, name, other, {}, place))
    broken = [item for item in evidence if item.broken]
    if broken:
        absent = broken[0].code in ("player_without_slot", "player_never_started")
        return failed_on("players_missing" if absent else broken[0].code, evidence)
    if any(item.code == _STOPPED for item in evidence):
        return missing("smoke-episode", "players were stopped before the game was over", evidence)
    count = len(manifest.player)
    who = "The one bundled player was" if count == 1 else f"All {count} bundled players were"
    return passed(f"{who} there, and ended well.", evidence)


def _attended(
    slot: SlotRecord, player: str, record: EpisodeRecord, seats: Mapping[int, SeatState], directory: str
) -> Evidence:
    who = f"Player {player!r} in slot {slot.slot}"
    log = f"{directory}/{slot.logs[0]}" if slot.logs else None
    own = [fault for fault in record.faults if fault.party == "player" and fault.slot == slot.slot]
    others = any(fault not in own and not about_results(fault) for fault in record.faults)
    if own:
        return _blamed(own[0], slot, log)
    if slot.started_seconds is None:
        if others:
            return note(_STOPPED, f"{who} had not been started when the episode failed.", slot=slot.slot)
        hint = "Check the player's image and `run`."
        message = f"{who} was never started."
        return required("player_never_started", ok=False, message=message, hint=hint, slot=slot.slot)
    if slot.exit is None or slot.exit.reason == "stopped":
        return note(_STOPPED, f"{who} was stopped when the episode failed.", slot=slot.slot)
    if not slot.exit.ok:
        if others:
            return note(_STOPPED, f"{who} {slot.exit} once the episode had failed.", slot=slot.slot)
        hint = "End with status 0 when the game is over."
        message = f"{who} {slot.exit}."
        return required("player_error", ok=False, message=message, hint=hint, slot=slot.slot, artifact=log)
    return _stayed(slot, who, record, seats.get(slot.slot), log)


def _hosted(slot: SlotRecord, player: str, directory: str) -> Evidence:
    """Judge a player that the game runs: only its log shows that it ran."""
    who = f"Player {player!r} in slot {slot.slot}"
    if slot.logs:
        message = f"{who} was run by the game, which wrote its log."
        return required("player_ran", ok=True, message=message, slot=slot.slot, artifact=f"{directory}/{slot.logs[0]}")
    return required(
        "player_never_started",
        ok=False,
        message=f"{who} has no log, so nothing shows that the game ran it.",
        hint="Write what each player says to its log_uri, before the results.",
        slot=slot.slot,
    )


def _blamed(fault: Fault, slot: SlotRecord, log: str | None) -> Evidence:
    code = fault.error_type
    return required(code, ok=False, message=fault.message, hint=fault.hint, slot=slot.slot, artifact=log)


def _stayed(slot: SlotRecord, who: str, record: EpisodeRecord, seat: SeatState | None, log: str | None) -> Evidence:
    over, ended, started = record.over_seconds, slot.ended_seconds, slot.started_seconds
    if over is None or ended is None or started is None:
        return required("player_ran", ok=True, message=f"{who} ran and ended with status 0.", slot=slot.slot)
    last = max((other.ended_seconds or 0.0 for other in record.slots), default=ended)
    behind_others, behind_game = min(last, over) - ended, over - ended
    if behind_others <= max(LEAVE_SECONDS, _SHARE_OF_OTHERS * (last - started)) and behind_game <= max(
        LEAVE_SECONDS, _SHARE_OF_GAME * (over - started)
    ):
        message = f"{who} stayed until the game was over, and ended with status 0."
        return required("player_ran", ok=True, message=message, slot=slot.slot)
    when = f"{who} ended by itself {behind_game:.1f} s before the game was over"
    if seat == "closed":
        return note("player_dismissed", f"{when}; the game had closed its seat.", slot=slot.slot)
    hint = "Stay connected until the game closes the connection, then end with status 0."
    still = ", and its seat was still open" if seat == "open" else ""
    return required(
        "player_left_early",
        ok=False,
        level="required" if seat == "open" else "advice",
        message=f"{when}{still}.",
        hint=hint,
        slot=slot.slot,
        artifact=log,
    )
