"""Policies: your players, by name and version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from coworld_core.api import PlayerFiles, PolicyRef, PolicyVersionCreated, PolicyVersionRow
from coworld_core.errors import UsageError

from ..errors import NotFound
from ..pages import AsyncPager
from ._base import Resource

if TYPE_CHECKING:
    from ..uploads import OnImage

__all__ = ["Policies"]


class Policies(Resource):
    """Policies you have uploaded."""

    def list(
        self,
        *,
        name: str | None = None,
        version: int | None = None,
        limit: int | None = None,
        offset: int = 0,
        timeout: float | None = None,
    ) -> AsyncPager[PolicyVersionRow]:
        """Versions of your policies, newest first.

        Args:
            name: Only those of this policy.
            version: Only this version.
            limit: Maximum number of rows.
            offset: Number of rows to skip.
            timeout: Seconds for each attempt.
        """
        params = {"mine": True, "name_exact": name, "version": version}
        return self._list(
            PolicyVersionRow, "/stats/policy-versions", params, limit=limit, offset=offset, timeout=timeout
        )

    async def lookup(self, policy: str | PolicyRef, *, timeout: float | None = None) -> PolicyVersionRow:
        """The version of one of your policies that a name means: the one given, or the newest.

        Args:
            policy: ``NAME``, ``NAME:3`` or ``NAME:v3``.
            timeout: Seconds for each attempt.

        Raises:
            UsageError: If it is not a valid name.
            NotFound: You have no such policy, or it has no such version.
        """
        ref = PolicyRef.parse(policy, kind="name") if isinstance(policy, str) else policy
        if ref.name is None:
            raise UsageError("A lookup takes a name.", code="bad_policy", hint="A version's UUID needs no lookup.")
        page = await self.list(name=ref.name, version=ref.version, limit=100, timeout=timeout)
        # a server that takes no notice of a parameter must not hand out another policy
        found = [row for row in page.items if row.name == ref.name and ref.version in (None, row.version)]
        if not found:
            raise NotFound(
                f"You have no policy {str(ref)!r}.",
                status=404,
                hint="Check the name, and as whom you act: `coworld whoami`.",
                context={"server": self._client.server},
            )
        return max(found, key=lambda row: row.version)

    async def upload(
        self,
        image: str,
        *,
        name: str,
        run: Sequence[str] = (),
        secret_env: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
        on_progress: OnImage | None = None,
    ) -> PolicyVersionCreated:
        """Create the next version of a policy from an image.

        Args:
            image: An image of the local Docker engine, which is uploaded first, or an ``img_`` id.
            name: Name of the policy.
            run: Command instead of the image's own: program first.
            secret_env: Environment variables that only this version's player gets.
            tags: Free labels.
            timeout: Seconds for each attempt of a call to the API.
            idempotency_key: Of an upload that is repeated: it then makes no second version. A failure after which
                that makes sense has the one that was used in ``context["idempotency_key"]``.
            on_progress: Called with the progress of the image's upload.

        Raises:
            UsageError: The name, the command or a variable cannot be one.
            ImageError: The engine has no such image, or it is for another platform.
            BackendError: There is no engine, or it failed.
            RegistryError: The registry refused.
        """
        from ..uploads import upload_policy

        return await upload_policy(
            self._client,
            image,
            name=name,
            run=tuple(run),
            secret_env=secret_env,
            tags=tags,
            timeout=timeout,
            idempotency_key=idempotency_key,
            on_progress=on_progress,
        )

    async def upload_player(
        self,
        player: PlayerFiles,
        *,
        name: str,
        secret_env: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> PolicyVersionCreated:
        """Create the next version of a policy from a player's own files, on platforms that support this.

        They run in the game's own player image.

        Args:
            player: The files, and how they are run (``coworld_runner.own_players.wire.to_wire`` makes them of a path).
            name: Name of the policy.
            secret_env: Environment variables that only this version's player gets.
            tags: Free labels.
            timeout: Seconds for each attempt of a call to the API.
            idempotency_key: As for ``upload``.

        Raises:
            UsageError: The name or a variable cannot be one, or the platform takes images only (``images_only``).
        """
        from ..uploads import upload_player

        return await upload_player(
            self._client,
            player,
            name=name,
            secret_env=secret_env,
            tags=tags,
            timeout=timeout,
            idempotency_key=idempotency_key,
        )
