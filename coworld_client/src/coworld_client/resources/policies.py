"""Policies: your players, by name and version."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
from pydantic import ValidationError

from coworld_core.api import (
    MOST_PLAYER_BYTES,
    Body,
    PlayerFiles,
    PolicyFilesBody,
    PolicyRef,
    PolicySecretEnvBody,
    PolicySecretEnvCreated,
    PolicyVersionBody,
    PolicyVersionCreated,
    PolicyVersionRow,
)
from coworld_core.errors import CoworldError, EnvironmentFault, UsageError
from coworld_core.hints import Hint
from coworld_core.records.labels import check_labels
from coworld_core.reserved_env import is_reserved_env

from ..errors import ApiStatusError, NotOffered
from ..pages import AsyncPager
from ..transport._auth import mint_key
from ..transport._connection import Connection, path
from ..transport._replies import read
from ..uploads._images import MAKE_SECONDS, OnImage, uploaded_id
from ..uploads.player_file import read_player
from ._base import Resource, has_labels, label_query
from ._names import no_such

if TYPE_CHECKING:
    from ..transfers.files import OnProgress

__all__ = ["Policies", "check_policy", "model_environment"]

_OF_IMAGE, _OF_FILES = "/stats/policies/docker-img/complete", "/stats/policies/files"


class Policies(Resource):
    """Policies you have uploaded."""

    def list(
        self,
        *,
        name: str | None = None,
        version: int | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
        offset: int = 0,
        timeout: float | None = None,
    ) -> AsyncPager[PolicyVersionRow]:
        """Versions of your policies, newest first.

        Args:
            name: Only those of this policy.
            version: Only this version.
            labels: Only those with these labels; `*`, `?` and `[…]` are wildcards in their values.
            limit: Maximum number of rows.
            offset: Number of rows to skip.
            timeout: Seconds for each attempt.

        Raises:
            UsageError: The server does not tell labels (`no_labels`).
        """

        async def prepare() -> Callable[[PolicyVersionRow], bool]:
            return lambda row: has_labels(row.tags, labels, self._client.server)

        return self._list(
            PolicyVersionRow,
            "/stats/policy-versions",
            {"mine": True, "name_exact": name, "version": version, "tags": label_query(labels)},
            limit=limit,
            offset=offset,
            keep=prepare if labels else None,
            timeout=timeout,
        )

    async def lookup(self, policy: str | PolicyRef, *, timeout: float | None = None) -> PolicyVersionRow:
        """Find a version of one of your policies by name: the given version, or the newest.

        Args:
            policy: `NAME`, `NAME:3` or `NAME:v3`.
            timeout: Seconds for each attempt.

        Raises:
            UsageError: If it is not a valid name.
            NotFound: You have no such policy, or it has no such version.
        """
        ref = PolicyRef.parse(policy, kind="name") if isinstance(policy, str) else policy
        if ref.name is None:
            raise UsageError("A lookup takes a name.", code="bad_policy", hint="A version's UUID needs no lookup.")
        rows = await self.list(name=ref.name, version=ref.version, limit=100, timeout=timeout)
        # A server that ignores a parameter must not make us return another policy
        found = [row for row in rows if row.name == ref.name and ref.version in (None, row.version)]
        if not found:
            others = await self.list(limit=200, timeout=timeout)
            labels = [row.label for row in others if row.name == ref.name]
            raise no_such(self._client, str(ref), "policy", labels or (row.name for row in others), yours=True)
        return max(found, key=lambda row: row.version)

    async def version_id(self, policy: str | PolicyRef, *, timeout: float | None = None) -> str:
        """The id of a version: of one of your policies by its name, as for `lookup`, or as it is given.

        Raises:
            UsageError: It is neither a valid name nor the UUID of a version.
            NotFound: You have no such policy, or it has no such version.
        """
        ref = PolicyRef.parse(policy) if isinstance(policy, str) else policy
        return ref.id or (await self.lookup(ref, timeout=timeout)).id

    async def upload(
        self,
        player: str | Path | PlayerFiles,
        *,
        name: str | None = None,
        run: Sequence[str] = (),
        secret_env: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
        on_progress: OnImage | None = None,
    ) -> PolicyVersionCreated:
        """Create the next version of a policy from an image, or from a player's own files, on platforms that take them.

        Files run in the game's own player image.

        Args:
            player: An image of the local Docker engine, which is uploaded first, or an `img_` id; or the path of one
                file of Python, or of a directory with it alone; or files, and how they are run (from
                `coworld_runner.package`: `uploaded_player` and `to_wire`).
            name: Name of the policy; by default that of the file or directory. An image needs one.
            run: Command that replaces an image's own, program first; files have theirs.
            secret_env: Environment variables that only this version's player gets.
            labels: Labels of the version.
            timeout: Seconds for each attempt of a call to the API.
            idempotency_key: The key of an earlier call, to repeat it without creating a second version. Errors after
                which that makes sense have the key in `context["idempotency_key"]`.
            on_progress: Called with the progress of the image's upload.

        Raises:
            UsageError: The name, the command, a variable or a label is invalid, the file is no player
                (`player_without_act`, `player_not_file`, `player_not_runnable`, `player_syntax`), or the platform takes
                only images (`images_only`).
            ImageError: The engine has no such image, or it is for another platform.
            BackendError: There is no engine, or it failed.
            RegistryError: The registry refused.
        """
        if name is None and isinstance(player, str):
            raise UsageError("A policy of an image needs a name.", code="bad_policy", hint="Give one: name=…")
        if isinstance(player, Path):
            name = name or player.stem
            player = await anyio.to_thread.run_sync(read_player, player)
        files = player if isinstance(player, PlayerFiles) else None
        name = name or Path(files.file if files is not None else "").stem
        command = tuple(run) if files is None else ()
        check_policy(name, command, secret_env or {}, labels or {})
        key = idempotency_key or mint_key()
        image_id = ""
        if isinstance(player, str):
            try:
                image_id, _ = await uploaded_id(self._client, player, on_progress)
            except CoworldError as error:
                error.context["idempotency_key"] = key
                raise
        tags = dict(labels) if labels else None

        def body(secret_id: str | None) -> Body:
            if files is not None:
                return PolicyFilesBody.of(name=name, player=files, policy_secret_env_id=secret_id, tags=tags)
            return PolicyVersionBody.of(
                name=name,
                container_image_id=image_id,
                run=command or None,
                policy_secret_env_id=secret_id,
                tags=tags,
            )

        target = _OF_IMAGE if files is None else _OF_FILES
        try:
            return await self._made(
                target, body, secret_env, key=key, repeated=idempotency_key is not None, timeout=timeout
            )
        except ApiStatusError as error:
            if files is None or error.status not in (404, 405):
                raise
            raise UsageError(
                f"{self._client.server} takes images, and {files.file} is a file.",
                code="images_only",
                hint=Hint(
                    "upload_image", "Build an image of it, for linux/amd64, and upload that: api.policies.upload."
                ),
            ) from error

    async def download(
        self,
        policy: str | PolicyRef | PolicyVersionRow,
        directory: Path,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Path:
        """Download the files of a version of one of your policies, on platforms that support this.

        They are streamed to disk, checked against the digest that the platform lists, and only then put in place.

        Args:
            policy: `NAME` for its newest version, `NAME:3`, `NAME:v3`, or a row of `list`.
            directory: Where to put them; nothing is overwritten.
            timeout: Seconds for each attempt of a call; without data after which the connection counts as lost.
            on_progress: Called with the progress.

        Returns:
            The player's file or directory.

        Raises:
            NotFound: You have no such policy, or it has no such version.
            UsageError: The version is an image (`version_without_files`), or one of the files exists (`file_exists`).
            NotOffered: The platform gives no files out.
            TransferRefused: What arrived is not what was uploaded.
            EnvironmentFault: The files cannot be stored.
        """
        row = policy if isinstance(policy, PolicyVersionRow) else await self.lookup(policy, timeout=timeout)
        if row.kind == "image":
            raise UsageError(
                f"{row.label} is an image, and has no files.",
                code="version_without_files",
                hint="Its image is where it was built and pushed from.",
            )
        files = await self._files(row, timeout, on_progress)
        try:
            return await anyio.to_thread.run_sync(files.write, directory)
        except OSError as error:
            raise EnvironmentFault(
                f"The files of {row.label} cannot be written to {directory}: {error.strerror or error}.",
                code="file_unwritable",
                hint="Name a directory that you may write to, on a disk with room.",
            ) from error

    async def _files(self, row: PolicyVersionRow, timeout: float | None, on_progress: OnProgress | None) -> PlayerFiles:
        from ..transfers.files import TransferRefused, download
        from ..uploads._spool import spool_directory

        async with spool_directory() as scratch:
            packed = scratch / "player.json"
            try:
                await download(
                    self._connection,
                    path("/stats/policy-versions/{}/files", row.id),
                    packed,
                    sha256=row.digest,
                    limit=2 * MOST_PLAYER_BYTES,
                    what="player",
                    timeout=timeout,
                    on_progress=on_progress,
                )
            except ApiStatusError as error:
                # The version was just listed as one of the caller's
                if error.status not in (404, 405):
                    raise
                raise NotOffered(
                    f"{self._client.server} does not give out the files of policies.",
                    status=error.status,
                    hint="Only some platforms do. A registry on your machine keeps what you publish there.",
                    context={"server": self._client.server, "policy_version": row.id},
                ) from error
            content = await anyio.to_thread.run_sync(packed.read_bytes)
        try:
            return PlayerFiles.model_validate_json(content)
        except ValidationError as error:
            raise TransferRefused(
                f"What {self._client.server} gave out for {row.label} is not a player's files.",
                hint="Upload it again.",
            ) from error

    async def _made(
        self,
        target: str,
        body: Callable[[str | None], Body],
        secret_env: Mapping[str, str] | None,
        *,
        key: str,
        repeated: bool,
        timeout: float | None,
    ) -> PolicyVersionCreated:
        """Create the secrets, then the next version; delete the secrets again if it is refused."""
        connection = self._connection
        secret_id: str | None = None
        try:
            if secret_env:
                secrets = PolicySecretEnvBody.of(policy_secret_env=dict(secret_env))
                made = await self._post(
                    PolicySecretEnvCreated,
                    "/stats/policy-secret-envs",
                    secrets,
                    timeout=timeout,
                    idempotency_key=f"{key}-env",
                )
                secret_id = made.id
            whole = body(secret_id).to_wire()
            reply = await connection.call("POST", target, json=whole, timeout=timeout or MAKE_SECONDS, key=key)
        except CoworldError as error:
            if secret_id is not None and not repeated and isinstance(error, ApiStatusError):
                # The call was refused: no version has the secrets, and no repeated call will use them
                await _drop_secret_env(connection, secret_id)
            else:
                error.context["idempotency_key"] = key
            raise
        return read(PolicyVersionCreated, reply)


def check_policy(name: str, run: tuple[str, ...], secret_env: Mapping[str, str], labels: Mapping[str, str]) -> None:
    """Check what an upload says about a policy; nothing is sent.

    Args:
        name: Its name.
        run: The command of an image; empty for the image's own, and for files.
        secret_env: Its secret variables.
        labels: Its labels.

    Raises:
        UsageError: The name, the command, a variable or a label is invalid.
    """
    if not name.strip() or name != name.strip() or not name.isprintable() or ":" in name or "/" in name:
        raise UsageError(
            f"{name[:80]!r} cannot be the name of a policy.",
            code="bad_policy",
            hint="Use letters, digits, hyphens and underscores; the version is given by the platform.",
        )
    if run and (not run[0].strip() or any(character.isspace() for character in run[0])):
        raise UsageError(
            f"The command begins with {run[0][:80]!r}, which is not a program.",
            code="bad_run",
            hint="Give each word by itself: python, -m, player.",
        )
    for variable, value in secret_env.items():
        if not variable.isidentifier() or not variable.isascii() or "\0" in value:
            raise UsageError(f"{variable[:80]!r} cannot be an environment variable.", code="bad_env_name")
        if is_reserved_env(variable):
            raise UsageError(f"{variable} is set by the platform itself.", code="reserved_env_name")
    check_labels(labels)


def model_environment(*, bedrock: str | bool = False, llm: str | bool = False) -> dict[str, str]:
    """The variables that give a policy language models of its platform, for `secret_env`.

    Args:
        bedrock: Whether it may use Bedrock, or which model there.
        llm: Whether it may use the platform's language model, or which.
    """
    given = (("USE_BEDROCK", "BEDROCK_MODEL", bedrock), ("COWORLD_LLM_ENABLED", "COWORLD_LLM_MODEL", llm))
    found = {switch: "true" for switch, _, asked in given if asked}
    return found | {name: asked for _, name, asked in given if isinstance(asked, str) and asked}


async def _drop_secret_env(connection: Connection, secret_id: str) -> None:
    """Delete secrets that no version uses. Platforms that cannot do this keep them unused."""
    with suppress(CoworldError):
        await connection.call("DELETE", path("/stats/policy-secret-envs/{}", secret_id), max_retries=0)
