"""What the signed-in person and its teams have: submissions with what became of them, and policies."""

from __future__ import annotations

import sqlalchemy as sa
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ..api.leagues import visible_leagues
from ..api.memberships import own_rows
from ..api.policies import own_versions
from ..operations.moderation import disabled_since
from ..operations.submission_states import submission_states
from ..store.columns import JsonObject
from ..store.models import League, PolicyVersion, Submission
from .visit import PAGE_ROWS, open_visit, page, read_number

__all__ = ["mine"]


async def mine(request: Request) -> Response:
    """Submissions with their states and reasons, and policies; both newest first."""
    async with open_visit(request) as visit:
        caller = visit.caller
        if caller.user is None:
            return RedirectResponse("/sign-in?next=/mine", status_code=303)
        at, of_policies = (read_number(request.query_params, name) for name in ("offset", "policies"))
        seen = visible_leagues(caller).with_only_columns(League.id)
        rows = await visit.db.scalars(
            sa.select(Submission)
            .where(own_rows(caller, Submission), Submission.league_id.in_(seen))
            .order_by(Submission.created_at.desc(), Submission.id)
            .offset(at)
            .limit(PAGE_ROWS + 1)
        )
        submissions = rows.unique().all()
        rows = await visit.db.scalars(
            sa.select(PolicyVersion)
            .where(own_versions(caller))
            .order_by(PolicyVersion.created_at.desc(), PolicyVersion.id)
            .offset(of_policies)
            .limit(PAGE_ROWS + 1)
        )
        versions = rows.unique().all()
        server = visit.services.settings.url
        return page(
            request,
            "mine.html",
            caller,
            here="mine",
            submissions=[
                {
                    **_version(one.submission.policy_version, caller.user.id),
                    "league": one.submission.league,
                    "at": one.submission.created_at,
                    "state": one.state,
                    "reason": one.reason,
                    "next": one.next,
                    "command": one.command,
                    "check": one.check,
                    "entry": one.entry_id,
                }
                for one in await submission_states(visit.db, submissions[:PAGE_ROWS], server=server)
            ],
            versions=[
                {**_version(one, caller.user.id), "at": one.created_at, "disabled": disabled_since(one)}
                for one in versions[:PAGE_ROWS]
            ],
            at=at,
            more=len(submissions) > PAGE_ROWS,
            of_policies=of_policies,
            more_policies=len(versions) > PAGE_ROWS,
            per_page=PAGE_ROWS,
        )


def _version(version: PolicyVersion, user_id: str) -> JsonObject:
    """A policy version, with its team or the player that it belongs to."""
    owner = version.user.name if version.user_id != user_id else version.player.name if version.player else None
    return {"id": version.id, "label": f"{version.policy.name}:v{version.version}", "owner": owner}
