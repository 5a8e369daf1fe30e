"""The login of the Observatory's own workers, which may pull any image of the registry and nothing else."""

from __future__ import annotations

import base64
import json
import re
import secrets
from typing import TYPE_CHECKING

from coworld_core.errors import UsageError

if TYPE_CHECKING:
    from ..store.vault import Vault

__all__ = ["PREFIX", "is_worker", "pull_secret", "worker_login"]

PREFIX = "obk_"
"""The prefix of the password."""

_OBJECT = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
_USER = "worker"


def worker_login(vault: Vault) -> tuple[str, str]:
    """User and password of the installation's workers."""
    return _USER, f"{PREFIX}{base64.urlsafe_b64encode(vault.key('registry-pull')).decode().rstrip('=')}"


def is_worker(vault: Vault, password: str) -> bool:
    """Whether a password is the workers' password."""
    return password.startswith(PREFIX) and secrets.compare_digest(worker_login(vault)[1].encode(), password.encode())


def pull_secret(name: str, registry: str, login: tuple[str, str]) -> dict[str, object]:
    """A Kubernetes Secret for pulling from the registry, in the form of the Kubernetes API.

    Args:
        name: The name of the Secret.
        registry: Host and port, as in the names of images.
        login: User and password.

    Raises:
        UsageError: The name is not valid in Kubernetes (code `bad_name`).
    """
    if not _OBJECT.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a Secret.",
            code="bad_name",
            hint="Use lower-case letters, digits, `-` and `.`, a letter or digit first and last.",
        )
    user, password = login
    entry = {
        "username": user,
        "password": password,
        "auth": base64.b64encode(f"{user}:{password}".encode()).decode(),
    }
    config = json.dumps({"auths": {registry: entry}})
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "observatory"}},
        "data": {".dockerconfigjson": base64.b64encode(config.encode()).decode()},
    }
