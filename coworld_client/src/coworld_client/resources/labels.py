"""Labels of what is yours on a platform: changed here, and found by in the lists of each noun."""

from __future__ import annotations

from collections.abc import Mapping

from coworld_core.api import PolicyRef, TagChangesBody, Tagged, check_id, id_kind
from coworld_core.errors import UsageError
from coworld_core.records.labels import check_changes

from ..errors import ApiStatusError
from ..transport._connection import path
from ..transport._replies import read
from ._base import Resource

__all__ = ["Labels"]

_PLACES = {
    "episode request": "/v2/episode-requests/{}/tags",
    "experience request": "/v2/experience-requests/{}/tags",
    "coworld": "/v2/coworlds/{}/tags",
}

_NO_ROUTE = ("Not Found", "There is no such path.")
"""What a server says of a path that it does not have, and not of a thing."""


class Labels(Resource):
    """Labels of your episodes, experience requests, policies and Coworlds."""

    async def change(
        self, thing: str | PolicyRef, changes: Mapping[str, str | None], *, timeout: float | None = None
    ) -> Tagged:
        """Change labels; those that are not named stay.

        Args:
            thing: `ereq_…`, `xreq_…` (its episodes have its labels, too), `cow_…`, or a policy: `NAME` for its newest
                version, `NAME:v3`, or the UUID of a version.
            changes: New values by name; None takes a label away.
            timeout: Seconds for each attempt.

        Returns:
            Its id, and all labels that it has now.

        Raises:
            UsageError: One of them is no label (`bad_label`), nothing of this kind has labels (`not_labelled`), or the
                platform keeps no labels that can be changed (`no_labels`).
            NotFound: There is no such thing of yours.
            Forbidden: It belongs to somebody else.
        """
        body = TagChangesBody.of(tags=check_changes(changes))
        target = await self._place(thing, timeout)
        try:
            reply = await self._connection.call("PATCH", target, json=body.to_wire(), key=True, timeout=timeout)
        except ApiStatusError as error:
            # A platform without such a route does not say what is missing
            if error.status != 405 and not (
                error.status == 404 and error.detail in ("Not Found", "There is no such path.")
            ):
                raise
            raise UsageError(
                f"{self._client.server} keeps no labels that can be changed.",
                code="no_labels",
                hint="Labels given with an upload or a request may be kept nevertheless.",
                context={"server": self._client.server},
            ) from error
        return read(Tagged, reply)

    async def _place(self, thing: str | PolicyRef, timeout: float | None) -> str:
        kind = id_kind(thing) if isinstance(thing, str) else None
        if isinstance(thing, str) and kind is not None:
            if kind not in _PLACES:
                raise UsageError(
                    f"{thing} is the id of a {kind}, which has no labels.",
                    code="not_labelled",
                    hint="Label an episode, an experience request, a policy or a Coworld.",
                )
            return path(_PLACES[kind], check_id(thing, kind))
        version = await self._client.policies.version_id(thing, timeout=timeout)
        return path("/v2/policy-versions/{}/tags", version)
