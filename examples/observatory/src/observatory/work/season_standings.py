"""A division's season (`coworld_core.tournament.seasons`) and its standings as the database stores them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from coworld_core.documents import READING
from coworld_core.evaluation import IntervalRecord, Lineup
from coworld_core.tournament import (
    PairingRule,
    PlayedEpisode,
    PlayedRound,
    RoundPlace,
    ScheduledBlock,
    Tournament,
    TournamentRules,
    TournamentState,
    continue_season,
)

from ..store.columns import JsonObject
from .game_setup import GameSetup
from .league_settings import LeagueSettings

__all__ = ["SeasonStandings", "compute_standings", "played_round", "report_of", "season_rules", "stored_state"]

_NO_END = 10**9
"""More rounds and blocks than any season has."""
_REMARKS = {"game_faults": "game_faults", "spoiled": "spoiled_blocks"}
"""The tournament remark that explains a stop, by reason."""


@dataclass(frozen=True, kw_only=True)
class SeasonStandings:
    """A division's standings, and its next round."""

    report: JsonObject
    """`standings`, best first (`subject`, `place`, `rating`, `low`, `high`, `won`, `played`,
    `rounds`; also `rank` and `points`, given by a commissioner if there is one), `pairs`, `over` (why no round
    follows; empty if one does, or if there are too few members), `why` in words if the season cannot continue, and of a
    Swiss tournament `buchholz`, which parts equal points, by subject."""
    state: JsonObject | None
    """What the next table continues from (`coworld_core.tournament.standings.TournamentState`); None if the pairing
    needs all earlier rounds."""
    config: JsonObject | None = None
    """The next round's `Round.round_config`."""
    lineups: tuple[tuple[int, Lineup], ...] = ()
    """The next round's episodes in order: the number of the block in the season, and the lineup."""


def season_rules(terms: LeagueSettings, setup: GameSetup) -> TournamentRules:
    """The rules of a season.

    Args:
        terms: The league's terms.
        setup: The game.
    """
    return TournamentRules(
        coworld=setup.coworld.name,
        version=setup.coworld.version,
        variant=setup.variant,
        slot_count=setup.seats,
        seed=0,
        seeded=True,
        max_blocks=_NO_END,
        pairing=terms.pairing,
        rounds=terms.rounds or _NO_END,
        blocks=terms.blocks,
        rating="bradley-terry",
    )


def stored_state(stored: JsonObject | None, rules: TournamentRules) -> TournamentState | None:
    """The stored state of a table, if a table with these rules can continue from it.

    Args:
        stored: `Round.state`.
        rules: The season's current rules.
    """
    if stored is None:
        return None
    try:
        state = TournamentState.model_validate(stored, context=READING)
    except ValidationError:
        # Written by another version of this program. The rounds hold the same information.
        return None
    return state if state.fits(rules) else None


def played_round(config: JsonObject, episodes: Sequence[PlayedEpisode], rules: TournamentRules) -> PlayedRound | None:
    """A finished round of the season.

    None for a round stored by older versions without its blocks, and for one of a game with another number of seats.

    Args:
        config: `Round.round_config`.
        episodes: The episodes of the round.
        rules: The season's current rules.
    """
    if not config.get("blocks") or config.get("seats", rules.slot_count) != rules.slot_count:
        return None
    return PlayedRound(
        entrants=config["entrants"],
        blocks=tuple(ScheduledBlock.model_validate(block) for block in config["blocks"]),
        byes=tuple(config["byes"]),
        episodes=episodes,
    )


def compute_standings(
    rounds: Iterable[PlayedRound],
    entrants: Sequence[str],
    *,
    rules: TournamentRules,
    pairing: PairingRule,
    state: TournamentState | None = None,
    owners: Mapping[str, str] | None = None,
) -> SeasonStandings:
    """A division's standings and its next round; the arguments are those of `continue_season`."""
    season, stored, scheduled = continue_season(
        rounds, entrants, rules=rules, pairing=pairing, state=state, owners=owners
    )
    over = season.stopped if scheduled is None and len(set((owners or {}).values()) or entrants) > 1 else ""
    report, stored = report_of(season, over=over), stored.model_dump(mode="json") if stored is not None else None
    if scheduled is None:
        return SeasonStandings(report=report, state=stored)
    return SeasonStandings(
        report=report,
        state=stored,
        config={
            "variant_id": rules.variant,
            "pairing": rules.pairing,
            "seats": rules.slot_count,
            "entrants": list(entrants),
            "blocks": [block.model_dump(mode="json", exclude_defaults=True) for block in scheduled.blocks],
            "byes": list(scheduled.byes),
        },
        lineups=tuple((block.block, lineup) for block in scheduled.blocks for lineup in season.lineups(block.block)),
    )


def report_of(tournament: Tournament, *, over: str = "", among: Collection[str] | None = None) -> JsonObject:
    """A tournament's standings, as `Round.report`.

    Args:
        tournament: The tournament.
        over: Why no round follows.
        among: The entrants to include; by default all.
    """
    standings = tuple(tournament.standings())
    shown = {one.name for one in standings} if among is None else set(among)
    rounds = tournament.field().rounds_entered()
    remarks = tournament.report().remarks if over in _REMARKS else ()
    # Without a commissioner there are none, and nothing is stored for them.
    given = tournament.league.last_places() if tournament.league.decided else None
    swiss = given is None and tournament.rules.pairing == "swiss"
    return {
        **({"buchholz": tournament.field().buchholz()} if swiss else {}),
        "over": over,
        "why": next((one.message for one in remarks if one.code == _REMARKS.get(over)), None),
        "standings": [
            {
                "subject": one.name,
                "place": one.rank,
                "rating": one.rating,
                **_ends(one.interval),
                "won": one.won,
                "played": one.played,
                "rounds": rounds[one.name],
                **_given(given, tournament.league.membership(one.name).division, one.name),
            }
            for one in standings
            if one.played and one.name in shown
        ],
        "pairs": [
            {
                "first": pair.first,
                "second": pair.second,
                "won": pair.won,
                "lost": pair.lost,
                "drawn": pair.drawn,
                "apart": pair.apart,
                "difference": pair.difference,
                **_ends(pair.interval),
            }
            for pair in tournament.pairs()
            if shown.issuperset((pair.first, pair.second))
        ],
    }


def _given(places: Mapping[tuple[str, str], RoundPlace] | None, division: str, name: str) -> JsonObject:
    if places is None:
        return {}
    place = places.get((division, name))
    return {"rank": place.rank if place else None, "points": place.score if place else None}


def _ends(interval: IntervalRecord | None) -> JsonObject:
    return {"low": interval.low if interval else None, "high": interval.high if interval else None}
