"""The pages for people: leagues, standings, episodes and their replays, in any browser and without a build step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps

from fastapi import APIRouter, Request, Response

from ..errors import Refusal
from ..identity.auth import ANONYMOUS, SESSION_COOKIE
from . import (
    account,
    entries,
    leagues,
    lobbies,
    mine,
    officers,
    oidc,
    operator,
    pages,
    play_session,
    roles,
    static,
    teams,
)
from .visit import trouble

__all__ = ["router"]


def _shown(handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Render refusals as pages; sign a browser out if its account is disabled."""

    @wraps(handler)
    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except Refusal as refusal:
            said = trouble(request, ANONYMOUS, refusal.status, "Access denied", refusal.message)
            if refusal.code == "account_disabled":
                said.delete_cookie(SESSION_COOKIE)
            return said

    return answer


router = APIRouter(include_in_schema=False)
for _path, _page in {
    "/": pages.home,
    "/account": account.account,
    "/account/delete": account.deletion,
    "/invitations/{code}": account.invitation,
    "/teams/join/{code}": teams.invitation,
    "/leagues/{league_id}": leagues.league,
    "/leagues/{league_id}/entries/{entry_id}": entries.entry,
    "/leagues/{league_id}/rounds/{round_id}": leagues.league_round,
    "/episodes": pages.episodes,
    "/episodes/{episode_id}": pages.episode,
    "/episodes/{episode_id}/bundle": pages.bundle,
    "/episodes/{episode_id}/files/{kind}": pages.file,
    "/episodes/{episode_id}/files/{kind}/{position:int}": pages.file,
    "/episodes/{episode_id}/roles/{run_id}": roles.role_run,
    "/episodes/{episode_id}/roles/{run_id}/output": roles.output,
    "/reports/{ticket}/{run_id}/{entry:path}": roles.report_file,
    "/policies/versions/{version_id}": pages.policy_version,
    "/observatory/v2": pages.deep_link,
    "/live": pages.live,
    "/lobbies/{lobby_id}": lobbies.lobby_page,
    "/mine": mine.mine,
    "/operator": operator.operator,
    "/operator/{what}": operator.operator_list,
    "/play/{session_id}": play_session.lobby,
    "/sign-in": account.sign_in_page,
    "/sign-in/oidc": oidc.begin,
    "/sign-in/oidc/callback": oidc.finish,
    "/static/{name}": static.asset,
    "/favicon.ico": static.icon,
}.items():
    router.add_api_route(_path, _shown(_page), methods=["GET", "HEAD"])
for _path, _form in {
    "/account/delete": account.delete,
    "/account/teams": teams.change,
    "/account/tokens": account.revoke,
    "/invitations/{code}": account.accept,
    "/teams/join/{code}": teams.join,
    "/episodes/{episode_id}/replay": pages.start_replay,
    "/episodes/{episode_id}/roles": roles.ask,
    "/leagues/{league_id}/lobbies": lobbies.draft_lobby,
    "/leagues/{league_id}/officers": officers.change,
    "/lobbies/{lobby_id}/{action}": lobbies.change_lobby,
    "/play/{session_id}": play_session.take_seat,
    "/sign-in": account.sign_in,
    "/sign-out": account.sign_out,
    "/operator/{kind}/{action}": operator.act,
}.items():
    router.add_api_route(_path, _shown(_form), methods=["POST"])
