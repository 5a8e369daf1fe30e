"""A platform's policies as a registry of players: the same calls as for a directory of this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import anyio

from coworld_core.api import PlayerFiles, PolicyVersionRow
from coworld_core.errors import UsageError
from coworld_core.player_registry import (
    ANY_VERSION,
    PlayerVersion,
    VersionRef,
    choose_version,
    no_such_player,
)

from ..watch import next_pause
from ._base import Resource

__all__ = ["PolicyRegistry"]


class PolicyRegistry(Resource):
    """Your policies as a `coworld_core.PlayerRegistry`. A platform numbers versions, and has no tags that move."""

    async def publish(
        self,
        name: str,
        player: PlayerFiles | Path | str,
        *,
        run: Sequence[str] = (),
        metadata: Mapping[str, str] | None = None,
        tags: Sequence[str] = (),
    ) -> PlayerVersion:
        """Upload the next version of a policy.

        Args:
            name: Name of the policy.
            player: The player's files, the path of its one file of Python, or an image of the local Docker engine.
            run: Command of an image, instead of its own.
            metadata: What to say about it: the labels of the upload.
            tags: None: a platform has no tags.

        Raises:
            UsageError: The name or the player is invalid, tags were given (`tags_unsupported`), or the platform takes
                only images (`images_only`).
        """
        if tags:
            self._no_tags()
        policies = self._client.policies
        made = await policies.upload(player, name=name, run=run, labels=metadata)
        version = _version(await policies.lookup(made.label))
        return version.model_copy(update={"run": tuple(run), "metadata": dict(metadata or {})})

    async def names(self) -> tuple[str, ...]:
        """The names of your policies, sorted."""
        return tuple(sorted({row.name async for row in self._client.policies.list()}))

    async def versions(self, name: str) -> tuple[PlayerVersion, ...]:
        """The versions of a policy, newest first.

        Raises:
            UsageError: You have no such policy (`unknown_player`).
        """
        rows = await self._rows(name)
        if not rows:
            raise no_such_player(name, await self.names(), self._client.server)
        return tuple(map(_version, rows))

    async def get(self, ref: str) -> PlayerVersion:
        """A version: `name:v3`, `name:latest`, or `name` for the newest.

        Raises:
            UsageError: You have no such policy (`unknown_player`), or it has no such version (`unknown_version`).
        """
        parsed = VersionRef.parse(ref)
        return choose_version(parsed, await self.versions(parsed.name))

    async def tag(
        self, name: str, version: int | None, tag: str, *, expected: int | None = ANY_VERSION
    ) -> PlayerVersion | None:
        """Refuse: a platform has no tags that move.

        Raises:
            UsageError: Always (`tags_unsupported`).
        """
        self._no_tags()

    async def updates(self, name: str, *, after: int | None = None) -> AsyncIterator[PlayerVersion]:
        """Wait for versions, and yield each of them once, oldest first, until cancelled.

        The platform is asked again and again, less often while nothing is uploaded.

        Args:
            name: Name of the policy; it may have no version yet.
            after: Number of the last version that is known, to go on after it; 0: all of them. None: only those that
                are uploaded after the iteration has begun.
        """
        pause, changed = 0.0, True
        while True:
            rows = await self._rows(name)
            after = max((row.version for row in rows), default=0) if after is None else after
            for row in reversed(rows):
                if row.version > after:
                    after, changed = row.version, True
                    yield _version(row)
            pause = next_pause(pause, changed=changed)
            await anyio.sleep(pause)
            changed = False

    async def fetch(self, version: PlayerVersion | str, directory: Path) -> Path:
        """Download the files of a version into a directory, as `Policies.download` does.

        Returns:
            The player's file or directory.

        Raises:
            UsageError: There is no such version, it has no files, or one of them exists in the directory.
            NotOffered: The platform gives no files out.
            TransferRefused: What arrived is not what was uploaded.
        """
        found = await self.get(version) if isinstance(version, str) else version
        return await self._client.policies.download(found.label, directory)

    async def _rows(self, name: str) -> list[PolicyVersionRow]:
        # A server that ignores a parameter must not make us return another policy
        rows = [row async for row in self._client.policies.list(name=name) if row.name == name]
        return sorted(rows, key=lambda row: row.version, reverse=True)

    def _no_tags(self) -> NoReturn:
        raise UsageError(
            f"{self._client.server} has no tags that stand for versions of policies.",
            code="tags_unsupported",
            hint="Name a version by its number, or keep tags in a registry on your machine.",
        )


def _version(row: PolicyVersionRow) -> PlayerVersion:
    return PlayerVersion(
        name=row.name,
        version=row.version,
        kind="files" if row.kind == "files" else "image" if row.kind == "image" else "unknown",
        digest=row.digest or "",
        source=row.source or "",
        created=row.created_at,
        metadata={key: str(value) for key, value in (row.tags or {}).items()},
    )
