"""The pages for people: leagues, standings, episodes and their replays, in any browser and without a build step."""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

from . import account, lobby, pages, static

__all__ = ["routes"]

routes: list[BaseRoute] = [
    Route("/", pages.home),
    Route("/leagues/{league_id}", pages.league),
    Route("/episodes", pages.episodes),
    Route("/episodes/{episode_id}", pages.episode),
    Route("/episodes/{episode_id}/files/{kind}", pages.file),
    Route("/episodes/{episode_id}/files/{kind}/{position:int}", pages.file),
    Route("/episodes/{episode_id}/replay", pages.start_replay, methods=["POST"]),
    Route("/policies/versions/{version_id}", pages.policy_version),
    Route("/observatory/v2", pages.deep_link),
    Route("/live", pages.live),
    Route("/play/{session_id}", lobby.lobby),
    Route("/play/{session_id}", lobby.take_seat, methods=["POST"]),
    Route("/sign-in", account.sign_in_page),
    Route("/sign-in", account.sign_in, methods=["POST"]),
    Route("/sign-out", account.sign_out, methods=["POST"]),
    Route("/static/{name}", static.asset),
    Route("/favicon.ico", static.icon),
]
