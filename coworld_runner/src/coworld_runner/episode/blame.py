"""Assigns blame, with a table and one pure function that reads it.

The function takes an observation and the facts known at that moment, and returns a fault, a warning or nothing. It does
no I/O and never waits: callers wait until an observation is conclusive before they pass it in.

A player that ends badly when the game fails or is stopped is not blamed but reported as a warning, because the cause
cannot be determined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from coworld_core.episode.outcome import ErrorType, Exit, FaultParty
from coworld_core.episode.verdict import blame_for
from coworld_core.errors import CoworldError, TransferError

from ..backend import Component
from ..errors import PLATFORM_ENDS

__all__ = ["TABLE", "Circumstances", "Observation", "ObservationKind", "Row", "Ruling", "rule"]

ObservationKind = Literal[
    "not_started",
    "not_ready",
    "violation",
    "ended",
    "never_connected",
    "left_early",
    "abandoned",
    "still_running",
    "deadline",
    "results_malformed",
    "results_missing",
    "not_collected",
    "not_kept",
    "failed",
    "interrupted",
    "crashed",
]
"""Kinds of observation.

`not_started` a unit could not be started; `not_ready` the game ended or stayed silent before it was ready;
`violation` the game breaks the runtime contract; `ended` a unit ended, in any way; `never_connected` a player did not
connect in time, or ended with 0 without having connected; `left_early` a player ended with 0 long before the game
did, which may have dismissed it; `abandoned` one did, or all did, that the game would have let back in;
`still_running` a player ran for too long after the game was over; `deadline` the game was not over at the deadline;
`results_malformed` and `results_missing`; `not_collected` a file could not be collected, `not_kept` an optional file
of the game could not;
`failed` a `CoworldError` ended the episode, `crashed` any other error did, `interrupted` the user did.
"""

_BEFORE_PLAY = {
    "prepare": "Images were still being fetched",
    "start_game": "The game was still being started",
    "start_players": "Players were still being started",
}
"""Phases that the platform is responsible for, with words for messages."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """One observation."""

    what: ObservationKind
    component: Component | None = None
    """The unit observed, if any."""
    slot: int | None = None
    """That unit's slot, if it is a player."""
    exit: Exit | None = None
    """How the unit ended, if it has."""
    ended: float | None = None
    """Seconds into the episode when the unit ended."""
    details: str = ""
    """Details for the message."""
    hint: str | None = None
    """Hint that replaces the table's, if there is a better one."""
    unlike: str = ""
    """How the unit's surroundings differ from its image, if that may be why."""
    error: CoworldError | None = None
    """The error that led to the observation, if any."""


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """Facts known at the time of an observation."""

    stage: str = "play"
    """The phase of the episode; collecting does not count as one."""
    trouble: str = ""
    """Why the platform does not answer, in words; empty if it does."""
    game_exit: Exit | None = None
    game_age: float | None = None
    """Seconds since the game was started."""
    stopped_at: float | None = None
    """Seconds into the episode when we began to stop the game."""
    disturbed_at: float | None = None
    """Seconds into the episode when we first took a failed player's seat, to check that the game admits it."""
    blamed: frozenset[int] = field(default_factory=frozenset[int])
    """Slots of the players already blamed."""
    within_reach: bool = False
    """Whether players run as local processes, to which any program of the same user can send signals."""
    game_failed: bool = False
    """Whether something went wrong that is no player's fault."""


Condition = Callable[[Observation, Circumstances], bool]


def _always(_: Observation, __: Circumstances) -> bool:
    return True


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table."""

    seen: str
    """Description of the observation, for people."""
    what: ObservationKind
    component: Component | None = None
    """The unit observed; None matches any unit, or none."""
    when: Condition = _always
    error_type: ErrorType | None = None
    party: FaultParty | None = None
    """The party to blame, if any."""
    says: str = "{words}"
    """Template of the message, with the fields `words`, `who` (the unit), `exit`, `trouble`, `unlike`, `stage` and
    `age` (the game's). If it is empty and no party is to blame, nothing is reported."""
    hint: str | None = None
    """Template of the hint; `{log}` is the unit's log."""
    with_log: bool = True
    """Whether the unit's log says more about the observation."""


def _of_the_host(seen: Observation, _: Circumstances) -> bool:
    return seen.exit is not None and seen.exit.reason in PLATFORM_ENDS


def _unlike_its_image(seen: Observation, _: Circumstances) -> bool:
    return bool(seen.unlike)


def _in_good_order(seen: Observation, _: Circumstances) -> bool:
    return seen.exit is not None and (seen.exit.ok or seen.exit.reason == "stopped")


def _by_anyones_signal(seen: Observation, known: Circumstances) -> bool:
    return known.within_reach and seen.exit is not None and seen.exit.reason in ("signal", "lost")


def _comes_to(error_type: ErrorType) -> Condition:
    return lambda seen, _: seen.error is not None and blame_for(seen.error)[1] == error_type


def _has_code(*codes: str) -> Condition:
    return lambda seen, _: seen.error is not None and seen.error.code in codes


def _by_the_platform(seen: Observation, _: Circumstances) -> bool:
    return isinstance(seen.error, TransferError) and seen.error.party == "platform"


def _is_blamed(seen: Observation, known: Circumstances) -> bool:
    return seen.slot in known.blamed


def _after_the_game_failed(_: Observation, known: Circumstances) -> bool:
    return known.game_failed


def _is_explained(seen: Observation, known: Circumstances) -> bool:
    return _is_blamed(seen, known) or _after_the_game_failed(seen, known)


def _as_the_game_was_stopped(seen: Observation, known: Circumstances) -> bool:
    return known.stopped_at is not None and seen.ended is not None and seen.ended >= known.stopped_at


def _as_a_seat_was_tried(seen: Observation, known: Circumstances) -> bool:
    return known.disturbed_at is not None and seen.ended is not None and seen.ended >= known.disturbed_at


def _cut_off_by_a_player(_: Observation, known: Circumstances) -> bool:
    return bool(known.blamed) and known.game_exit is not None and known.game_exit.reason == "stopped"


def _without_results(_: Observation, known: Circumstances) -> bool:
    """Whether the reason for the missing results is already known."""
    if known.game_exit is None or known.game_failed:
        return True
    return bool(known.blamed) and not known.game_exit.ok


_LIKE_ITS_IMAGE = "Install that version here, or use the docker backend. Read {log}."

TABLE: tuple[Row, ...] = (
    Row(
        seen="a port that the game must have is taken on this machine",
        what="not_started",
        component="game",
        when=_has_code("port_taken"),
        error_type="game_unhealthy",
        party="operator",
    ),
    Row(
        seen="a registry does not have the game's image, as its pod is started",
        what="not_started",
        component="game",
        when=_comes_to("image_unreachable"),
        error_type="image_unreachable",
        party="game",
    ),
    Row(
        seen="the game cannot be started",
        what="not_started",
        component="game",
        error_type="game_unhealthy",
        party="game",
    ),
    Row(
        seen="a registry does not have a player's image, as its pod is started",
        what="not_started",
        component="player",
        when=_comes_to("image_unreachable"),
        error_type="image_unreachable",
        party="player",
    ),
    Row(
        seen="a player cannot be started",
        what="not_started",
        component="player",
        error_type="player_never_started",
        party="player",
    ),
    Row(
        seen="the host removes or loses the game before it is ready",
        what="not_ready",
        when=_of_the_host,
        error_type="platform_error",
        party="platform",
    ),
    Row(
        seen="the game ends before it is ready, and its image has a newer interpreter than this machine",
        what="not_ready",
        when=_unlike_its_image,
        error_type="game_unhealthy",
        party="operator",
        says="{words} Note that {unlike}.",
        hint=_LIKE_ITS_IMAGE,
    ),
    Row(
        seen="the game ends, or stays silent, before it is ready",
        what="not_ready",
        error_type="game_unhealthy",
        party="game",
        hint="Read the game's log. It must listen on COGAME_HOST and COGAME_PORT, and answer GET /healthz with 200.",
    ),
    Row(
        seen="a page is missing, a wrong token is let in or a right one refused, the viewer hears nothing",
        what="violation",
        error_type="game_contract_violation",
        party="game",
        says="The game breaks the runtime contract: {words}.",
        hint="See the runtime contract's routes and token rules.",
    ),
    Row(
        seen="the game ends with 0, or is stopped",
        what="ended",
        component="game",
        when=_in_good_order,
        says="",
    ),
    Row(
        seen="the host removes or loses the game",
        what="ended",
        component="game",
        when=_of_the_host,
        error_type="platform_error",
        party="platform",
        says="{who} {exit}.",
    ),
    Row(
        seen="the game ends other than with 0, and its image has a newer interpreter than this machine",
        what="ended",
        component="game",
        when=_unlike_its_image,
        error_type="game_unhealthy",
        party="operator",
        says="{who} {exit}{words}; {unlike}.",
        hint=_LIKE_ITS_IMAGE,
    ),
    Row(
        seen="the game ends other than with 0, or is killed for its memory",
        what="ended",
        component="game",
        error_type="game_unhealthy",
        party="game",
        says="{who} {exit}{words}.",
        hint="Read {log}.",
    ),
    Row(
        seen="a player ends that is blamed already",
        what="ended",
        component="player",
        when=_is_blamed,
        says="",
    ),
    Row(
        seen="a player ends with 0, or is stopped",
        what="ended",
        component="player",
        when=_in_good_order,
        says="",
    ),
    Row(
        seen="a player ends badly after something went wrong that is no player's fault",
        what="ended",
        component="player",
        when=_after_the_game_failed,
        says="{who} {exit} as the game failed; it is not blamed for that.",
    ),
    Row(
        seen="a player ends badly when the game has been stopped",
        what="ended",
        component="player",
        when=_as_the_game_was_stopped,
        says="{who} {exit} when the game was stopped; it is not blamed for that.",
    ),
    Row(
        # The game may have mistaken our connection for that player's, and played on
        seen="a player ends badly after the seat of another that had failed was tried",
        what="ended",
        component="player",
        when=_as_a_seat_was_tried,
        says="{who} {exit} after the seat of a player that had failed was tried; it is not blamed for that.",
    ),
    Row(
        # The kernel does not say who has sent it. The episode counts all the same: otherwise, a player that is losing
        # would kill itself, or what supervises it.
        seen="a player is killed, or what supervises it, as a local process, which other programs can reach",
        what="ended",
        component="player",
        when=_by_anyones_signal,
        error_type="player_error",
        party="player",
        says="{who} {exit}: by itself, or by another program of this machine's user, which cannot be told apart.",
        hint="Read {log}. The other program may be another player: with the docker backend, none can reach another.",
    ),
    Row(
        seen="the host removes or loses a player",
        what="ended",
        component="player",
        when=_of_the_host,
        error_type="platform_error",
        party="platform",
        says="{who} {exit}.",
    ),
    Row(
        seen="a player ends other than with 0, and its image has a newer interpreter than this machine",
        what="ended",
        component="player",
        when=_unlike_its_image,
        error_type="player_error",
        party="operator",
        says="{who} {exit}; {unlike}.",
        hint=_LIKE_ITS_IMAGE,
    ),
    Row(
        seen="a player ends other than with 0, while the game goes on or after it went well",
        what="ended",
        component="player",
        error_type="player_error",
        party="player",
        says="{who} {exit}.",
        hint="Read {log}.",
    ),
    Row(
        seen="a player has not connected that is blamed already, or whose game failed",
        what="never_connected",
        when=_is_explained,
        says="",
    ),
    Row(
        seen="a player ends with 0 without having connected",
        what="never_connected",
        when=lambda seen, _: seen.exit is not None and seen.exit.ok,
        error_type="player_left_early",
        party="player",
        hint="A player connects to the address in COWORLD_PLAYER_WS_URL, and stays until the game closes its "
        "connection; read {log} for what it did instead.",
    ),
    Row(
        seen="a player has not connected when its time for that is up",
        what="never_connected",
        error_type="player_timeout",
        party="player",
        hint="A player connects to the address in COWORLD_PLAYER_WS_URL; read {log} for what it did instead.",
    ),
    Row(
        seen="a player has left early that is blamed already",
        what="left_early",
        when=_is_blamed,
        says="",
    ),
    Row(
        seen="a player ends with 0 long before the game is over",
        what="left_early",
    ),
    Row(
        seen="a player has left that is blamed already, or whose game failed",
        what="abandoned",
        when=_is_explained,
        says="",
    ),
    Row(
        seen="a player ends with 0 long before the game is over, which would have let it back in",
        what="abandoned",
        error_type="player_left_early",
        party="player",
        hint="A player stays until the game closes its connection or says that it is over. If the game did, it is the "
        "game that hangs.",
    ),
    Row(
        seen="a player that is blamed already, or whose game failed, still runs when the game is over",
        what="still_running",
        when=_is_explained,
        says="",
    ),
    Row(
        seen="a player still runs too long after the game is over",
        what="still_running",
        error_type="player_timeout",
        party="player",
        hint="A player must end, with status 0, when its connection is closed or the game is over.",
    ),
    Row(
        seen="nothing can be seen at the deadline",
        what="deadline",
        when=lambda _, known: bool(known.trouble),
        error_type="platform_error",
        party="platform",
        says="Nothing could be seen at {words}: {trouble}.",
        with_log=False,
    ),
    Row(
        seen="images, or starting what runs, took all the time there was",
        what="deadline",
        when=lambda _, known: known.stage in _BEFORE_PLAY,
        error_type="episode_timeout",
        party="platform",
        says="{stage} at {words}.",
        with_log=False,
    ),
    Row(
        seen="the game is not ready at the deadline",
        what="deadline",
        when=lambda _, known: known.stage == "ready",
        error_type="episode_timeout",
        party="game",
        says="The game was not ready at {words}{age}.",
    ),
    Row(
        seen="the game is not over at the deadline",
        what="deadline",
        error_type="episode_timeout",
        party="game",
        says="The game was not over at {words}{age}.",
    ),
    Row(
        seen="a game that was stopped for a player's failure leaves wrong results",
        what="results_malformed",
        when=_cut_off_by_a_player,
        says="The results of a game that was stopped for a player's failure are not valid: {words}",
    ),
    Row(
        seen="the results are wrong",
        what="results_malformed",
        error_type="results_malformed",
        party="game",
        says="The game's results are not valid: {words}",
        hint="The results must be a JSON object that satisfies game.results_schema, with one score a slot.",
    ),
    Row(
        seen="there are no results, for a reason that is known",
        what="results_missing",
        when=_without_results,
        says="",
    ),
    Row(
        seen="the game ends without results",
        what="results_missing",
        error_type="results_missing",
        party="game",
        says="The game {exit} without writing results.",
        hint="Write the results to COGAME_RESULTS_URI before ending.",
    ),
    Row(
        seen="the platform or this machine cannot bring in a file",
        what="not_collected",
        when=_by_the_platform,
        error_type="artifact_transport_error",
        party="platform",
    ),
    Row(
        # The episode is still good without it
        seen="what a player wants to keep cannot be kept",
        what="not_collected",
        component="player",
        says="{who} left no artifact that can be kept: {words}",
    ),
    Row(
        # The episode is still good without it, too
        seen="what a game may leave besides its results cannot be kept",
        what="not_kept",
        says="The game left a file that cannot be kept: {words}",
    ),
    Row(
        seen="results or replay are no regular file, or too large",
        what="not_collected",
        error_type="artifact_transport_error",
        party="game",
    ),
    Row(
        seen="a registry cannot be reached, fails or is too busy",
        what="failed",
        when=_has_code("registry_unavailable"),
        error_type="image_unreachable",
        party="platform",
    ),
    Row(
        seen="a registry does not have the game's image",
        what="failed",
        component="game",
        when=_has_code("image_absent"),
        error_type="image_unreachable",
        party="game",
    ),
    Row(
        seen="a registry does not have a player's image",
        what="failed",
        component="player",
        when=_has_code("image_absent"),
        error_type="image_unreachable",
        party="player",
    ),
    Row(
        seen="an image is not available, because of a missing login say",
        what="failed",
        when=_comes_to("image_unreachable"),
        error_type="image_unreachable",
        party="operator",
    ),
    Row(
        seen="the config, the options or the manifest do not fit",
        what="failed",
        when=_comes_to("config_error"),
        error_type="config_error",
        party="operator",
    ),
    Row(
        seen="the engine fails",
        what="failed",
        error_type="platform_error",
        party="platform",
    ),
    Row(
        seen="you interrupt it before its game is over",
        what="interrupted",
        error_type="interrupted",
        party="operator",
        says="The episode was interrupted before it was over.",
    ),
    Row(
        seen="the runner itself fails",
        what="crashed",
        error_type="crash",
        party="platform",
        says="The runner failed: {words}",
    ),
)
"""Read from top to bottom; the first matching row applies."""


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """Judgement on an observation."""

    row: Row
    message: str
    """Empty if there is nothing to report."""
    hint: str | None = None


def rule(seen: Observation, known: Circumstances, *, who: str = "The game", log: str = "its log") -> Ruling:
    """Find the matching row, and fill in its message and hint.

    Args:
        seen: The observation.
        known: The facts known at that moment.
        who: The unit's name, for people.
        log: The location of its log.
    """
    row = next(row for row in TABLE if _fits(row, seen, known))
    words: Mapping[str, str] = {
        "who": who,
        "exit": str(seen.exit),
        "words": seen.details,
        "trouble": known.trouble,
        "unlike": seen.unlike,
        "stage": _BEFORE_PLAY.get(known.stage, ""),
        "age": f", {known.game_age:.1f} s after its start" if known.game_age is not None else "",
        "log": log,
    }
    hint = seen.hint or (row.hint and row.hint.format_map(words))
    return Ruling(row=row, message=row.says.format_map(words), hint=hint)


def _fits(row: Row, seen: Observation, known: Circumstances) -> bool:
    return row.what == seen.what and row.component in {None, seen.component} and row.when(seen, known)
