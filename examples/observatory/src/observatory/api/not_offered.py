"""Routes of the hosted platform that an Observatory does not offer; they return a clear message instead of 404."""

from __future__ import annotations

import re
from inspect import Parameter, Signature
from typing import Annotated, Any, NoReturn

from ..errors import Refusal
from .routing import ApiRouter, Call, Json, SignedIn, gate, refusals

__all__ = ["NOT_OFFERED", "router"]

router = ApiRouter(tags=["Not offered"])

_CAMPAIGNS = (
    "This platform has no campaigns: a league here is its divisions and their standings, at "
    "/v2/divisions/{division_id}/leaderboard."
)
_COUNTERFACTUALS = (
    "This platform runs no counterfactual evaluations. To compare two policies, request episodes of both with the "
    "same `seed` in `game_config_overrides`: POST /v2/experience-requests."
)
_FILES = "This platform takes a policy's files in one request, not by a separate address: POST /stats/policies/files."
_SETTINGS = "The settings of a league are the operator's here, who changes them with `observatory league`."
_REPORTERS = (
    "This platform takes no reporters by themselves: those that a Coworld's manifest declares as images run on its "
    "episodes, POST /v2/episode-requests/{ereq}/role-runs."
)
_VIEWERS = "This platform keeps no replay viewers: the game's own page shows a replay."
_FEED = "This platform has no feed. What happened in competitions is at /v2/competition-events."

NOT_OFFERED: tuple[tuple[str, str, str, str], ...] = (
    ("GET", "/usage/me/credits", "Your credits", "This platform has no credits: episodes are free."),
    (
        *("POST", "/v2/divisions/{division_id}/power-analysis", "Power analysis of a division"),
        "This platform offers no power analysis: its leaderboards are mean scores, without a model of strength. "
        "To analyse scores yourself, get them from /v2/episode-requests.",
    ),
    ("POST", "/v2/counterfactual-evals", "Counterfactual evaluation of a policy in a league", _COUNTERFACTUALS),
    ("GET", "/v2/counterfactual-evals/{evaluation_id}", "A counterfactual evaluation", _COUNTERFACTUALS),
    ("GET", "/v2/leagues/{league_id}/campaign", "A league's campaign", _CAMPAIGNS),
    ("GET", "/v2/leagues/{league_id}/campaign/{part}", "A part of a league's campaign", _CAMPAIGNS),
    ("POST", "/v2/leagues/{league_id}/campaign/{part}", "Orders in a league's campaign", _CAMPAIGNS),
    ("GET", "/v2/leagues/{league_id}/setup", "The settings of a league, to approve", _SETTINGS),
    ("POST", "/v2/leagues/{league_id}/setup", "Approve the settings of a league", _SETTINGS),
    ("GET", "/v2/leagues/{league_id}/locks", "What is locked in a league", _SETTINGS),
    ("POST", "/v2/leagues/{league_id}/locks", "Lock or unlock parts of a league", _SETTINGS),
    ("POST", "/v2/coworld-league-seeds/rebind", "Give leagues another Coworld", _SETTINGS),
    ("POST", "/v2/coworlds/{name}/feed-posts", "Post to the feed", _FEED),
    ("PUT", "/v2/feed-instructions/{hat}", "Set a prompt for the feed", _FEED),
    ("DELETE", "/v2/feed-instructions/{hat}", "Clear a prompt for the feed", _FEED),
    ("POST", "/v2/reporters/register", "Register a reporter", _REPORTERS),
    ("POST", "/v2/reporters/upload", "Upload a reporter", _REPORTERS),
    ("POST", "/v2/reporters/upload/complete", "Complete the upload of a reporter", _REPORTERS),
    ("POST", "/v2/coworlds/replay-viewer-bundles/upload", "Upload a replay viewer", _VIEWERS),
    ("POST", "/v2/coworlds/player-files/upload", "Upload a bundled player's file", _FILES),
    ("POST", "/stats/policies/files/upload", "Upload a policy's files at an address", _FILES),
)
"""Methods, paths, what they would do, and what to do instead."""


def _add(method: str, path: str, what: str, detail: str) -> None:
    async def refuse(**_: Any) -> NoReturn:
        # A status that names no mistake of the caller's, and for which no client advises to try again
        raise Refusal(405, detail, code="not_offered", headers={"Allow": ""})

    access = SignedIn if method == "GET" else Annotated[Call, gate("known", held=False)]
    given = {"call": access} | dict.fromkeys(re.findall(r"{(\w+)}", path), str)
    refuse.__doc__ = f"{what}: not offered here."
    refuse.__name__ = re.sub(r"\W+", "_", f"{method}{path}".lower()).strip("_")
    refuse.__dict__["__signature__"] = Signature(
        [Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind) for name, kind in given.items()]
    )
    router.add_api_route(path, refuse, methods=[method], responses=refusals(405), response_model=None)


for _row in NOT_OFFERED:
    _add(*_row)


@router.get("/v2/feed-instructions")
async def get_feed_instructions(call: SignedIn) -> Json:
    """Prompts for posts to the feed: none on this platform."""
    return Json({"sensei": None, "roger": None})
