"""Notes of a policy during an episode: the file ``annotations.jsonl`` in its player's artifact, for its owner.

A player's artifact is its only way to hand over files, so notes are a file in it. Its content is not trusted: it is
read up to a limit, and only valid JSON lines are returned as such.
"""

from __future__ import annotations

import json

from starlette.responses import Response

from ..episodes.access import find_episode, own_slots
from ..errors import Refusal, conflict, forbidden
from ..store.artifacts import MemberTooLarge, NoMember
from ..store.models import Artifact
from .episodes import refuse_unfinished
from .routing import ApiRouter, Call, SignedIn, binary, refusals

__all__ = ["router"]

router = ApiRouter(tags=["Artifacts"])

FILE = "annotations.jsonl"
LIMIT = 8 * 1024 * 1024
"""Largest file that is returned, in uncompressed bytes."""


@router.get(
    "/v2/episode-requests/{ereq}/{version_id}/annotations",
    response_class=binary("application/x-ndjson"),
    responses=refusals(409),
)
async def get_annotations(call: SignedIn, ereq: str, version_id: str) -> Response:
    """Notes of your own policy: `annotations.jsonl` of its players' artifacts, seat by seat."""
    row = await find_episode(call.db, call.services, call.caller, ereq)
    seats = [seat.position for seat in row.participants if seat.policy_version_id == version_id]
    if not seats:
        raise Refusal(404, f"The policy version {version_id!r} has no slot in this episode.", code="not_found")
    slots = own_slots(call.caller, row)
    if slots is not None and not slots.issuperset(seats):
        raise forbidden("Only the owner of a policy may see its annotations.", code="not_yours")
    refuse_unfinished(row)
    kept = {item.position: item for item in row.artifacts if item.kind == "player_artifact"}
    found = [await _notes(call, kept[position]) for position in seats if position in kept]
    lines = [line for notes in found if notes is not None for line in notes]
    if all(notes is None for notes in found):
        raise Refusal(404, f"The policy's artifact has no {FILE}.", code="not_found")
    return Response(b"".join(line + b"\n" for line in lines), media_type="application/x-ndjson")


async def _notes(call: Call, artifact: Artifact) -> list[bytes] | None:
    try:
        content = await call.services.artifacts.member(artifact.key, FILE, limit=LIMIT)
    except NoMember:
        return None
    except MemberTooLarge as error:
        raise conflict(
            f"{FILE} of slot {artifact.position} is larger than {LIMIT} bytes: fetch the artifact instead.",
            code="too_large",
        ) from error
    lines = [line for line in content.splitlines() if line.strip()]
    for number, line in enumerate(lines, 1):
        try:
            json.loads(line)
        except (ValueError, RecursionError) as error:
            raise conflict(
                f"A line of {FILE} of slot {artifact.position} is not JSON, the {number}. that is not empty: fetch the "
                "artifact instead.",
                code="malformed",
            ) from error
    return lines
