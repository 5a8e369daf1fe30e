"""Routes of the hosted platform that an Observatory does not offer; they return a clear message instead of 404."""

from __future__ import annotations

from typing import Annotated

from ..errors import Refusal
from .routing import ApiRouter, Call, Json, SignedIn, gate, refusals

__all__ = ["router"]

router = ApiRouter(tags=["Not offered"])


@router.get("/usage/me/credits", responses=refusals(501))
async def get_credits(call: SignedIn) -> Json:
    """Your credits: not used on this platform."""
    raise _not_offered("This platform has no credits: episodes are free.")


@router.post("/v2/divisions/{division_id}/power-analysis", responses=refusals(501))
async def analyse_power(call: Annotated[Call, gate("known", held=False)], division_id: str) -> Json:
    """Power analysis of a division: not offered here."""
    raise _not_offered(
        "This platform offers no power analysis: its leaderboards are mean scores, without a model of strength. "
        "To analyse scores yourself, get them from /v2/episode-requests."
    )


@router.post("/v2/counterfactual-evals", responses=refusals(501))
async def create_counterfactual(call: Annotated[Call, gate("known", held=False)]) -> Json:
    """Counterfactual evaluation of a policy in a league: not offered here."""
    raise _no_counterfactuals()


@router.get("/v2/counterfactual-evals/{evaluation_id}", responses=refusals(501))
async def get_counterfactual(call: SignedIn, evaluation_id: str) -> Json:
    """A counterfactual evaluation: not offered here."""
    raise _no_counterfactuals()


@router.get("/v2/leagues/{league_id}/campaign", responses=refusals(501))
async def get_campaign(call: SignedIn, league_id: str) -> Json:
    """A league's campaign: not offered here."""
    raise _no_campaigns()


@router.get("/v2/leagues/{league_id}/campaign/{part}", responses=refusals(501))
async def get_campaign_part(call: SignedIn, league_id: str, part: str) -> Json:
    """A part of a league's campaign: not offered here."""
    raise _no_campaigns()


@router.post("/v2/leagues/{league_id}/campaign/{part}", responses=refusals(501))
async def change_campaign(call: Annotated[Call, gate("known", held=False)], league_id: str, part: str) -> Json:
    """Orders in a league's campaign: not offered here."""
    raise _no_campaigns()


def _no_campaigns() -> Refusal:
    return _not_offered(
        "This platform has no campaigns: a league here is its divisions and their standings, at "
        "/v2/divisions/{division_id}/leaderboard."
    )


def _no_counterfactuals() -> Refusal:
    return _not_offered(
        "This platform runs no counterfactual evaluations. To compare two policies, request episodes of both with the "
        "same `seed` in `game_config_overrides`: POST /v2/experience-requests."
    )


def _not_offered(detail: str) -> Refusal:
    return Refusal(501, detail, code="not_offered")
