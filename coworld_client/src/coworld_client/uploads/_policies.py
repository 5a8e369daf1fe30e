"""A version of a policy, made of an image."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from coworld_core.api import PolicySecretEnvBody, PolicySecretEnvCreated, PolicyVersionBody, PolicyVersionCreated
from coworld_core.environment import is_reserved_env
from coworld_core.errors import CoworldError, UsageError

from ..errors import ApiError
from ..transport._auth import mint_key
from ..transport._replies import read
from ._images import MAKE_SECONDS, OnImage, uploaded_id

if TYPE_CHECKING:
    from ..client import CoworldClient
    from ..transport._connection import Connection

__all__ = ["upload_policy"]


async def upload_policy(
    client: CoworldClient,
    image: str,
    *,
    name: str,
    run: tuple[str, ...] = (),
    secret_env: Mapping[str, str] | None = None,
    tags: Mapping[str, str] | None = None,
    timeout: float | None = None,
    idempotency_key: str | None = None,
    on_progress: OnImage | None = None,
) -> PolicyVersionCreated:
    """Make the next version of a policy out of an image.

    Args:
        client: The platform.
        image: An image of the local engine, or an ``img_`` id.
        name: Name of the policy.
        run: Command instead of the image's own: program first.
        secret_env: Environment variables that only this version's player gets.
        tags: Free labels.
        timeout: Seconds for each attempt of a call to the API.
        idempotency_key: Of an upload that is repeated: it then makes no second version. A failure after which that
            makes sense has the one that was used in ``context["idempotency_key"]``.
        on_progress: Told how far the image's upload is.

    Raises:
        UsageError: The name is empty, or a variable cannot be one.
        ImageError, BackendError, RegistryError, ApiError, ApiConnectionError: As for ``upload_image``.
    """
    _check_policy(name, run, secret_env or {}, tags or {})
    key = idempotency_key or mint_key()
    connection = client.connection
    secret_id: str | None = None
    try:
        image_id, _ = await uploaded_id(client, image, on_progress)
        if secret_env:
            reply = await connection.call(
                "POST",
                "/stats/policy-secret-envs",
                json=PolicySecretEnvBody.of(policy_secret_env=dict(secret_env)).to_wire(),
                timeout=timeout,
                key=f"{key}-env",
            )
            secret_id = read(PolicySecretEnvCreated, reply).id
        body = PolicyVersionBody.of(
            name=name,
            container_image_id=image_id,
            run=run or None,
            policy_secret_env_id=secret_id,
            tags=dict(tags) if tags else None,
        )
        reply = await connection.call(
            "POST", "/stats/policies/docker-img/complete", json=body.to_wire(), timeout=timeout or MAKE_SECONDS, key=key
        )
    except CoworldError as error:
        if secret_id is not None and idempotency_key is None and isinstance(error, ApiError):
            # it was refused: no version has them, and no repetition will come for them
            await _drop_secret_env(connection, secret_id)
        else:
            error.context["idempotency_key"] = key
        raise
    return read(PolicyVersionCreated, reply)


def _check_policy(name: str, run: tuple[str, ...], secret_env: Mapping[str, str], tags: Mapping[str, str]) -> None:
    if not name.strip() or name != name.strip() or not name.isprintable() or ":" in name or "/" in name:
        raise UsageError(
            f"{name[:80]!r} cannot be the name of a policy.",
            code="bad_policy",
            hint="Use letters, digits, hyphens and underscores; the version is given by the platform.",
        )
    if run and (not run[0].strip() or any(character.isspace() for character in run[0])):
        raise UsageError(
            f"The command begins with {run[0][:80]!r}, which is no program.",
            code="bad_run",
            hint="Give each word by itself: python, -m, player.",
        )
    for variable, value in secret_env.items():
        if not variable.isidentifier() or not variable.isascii() or "\0" in value:
            raise UsageError(f"{variable[:80]!r} cannot be an environment variable.", code="bad_env_name")
        if is_reserved_env(variable):
            raise UsageError(f"{variable} is set by the platform itself.", code="reserved_env_name")
    if not all(key.strip() for key in tags):
        raise UsageError("A tag has no name.", code="bad_tag", hint="Write KEY=VALUE.")


async def _drop_secret_env(connection: Connection, secret_id: str) -> None:
    """Take back secrets that no version got. Not every platform can; those keep them unused."""
    from ..transport._connection import path

    with suppress(CoworldError):
        await connection.call("DELETE", path("/stats/policy-secret-envs/{}", secret_id), max_retries=0)
