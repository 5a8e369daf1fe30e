"""Turns the credentials stored by `docker login` into the header that the engine expects for a pull.

The package `docker` could read them too. It waits for a credential helper without a deadline in a thread that cannot be
cancelled, and whoever pulls an image would need it.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Mapping
from typing import Any, cast

import anyio

from coworld_core.docker_address import docker_config

__all__ = ["registry_headers"]

_HELPER_SECONDS = 30.0

_HUB = "https://index.docker.io/v1/"
"""The public registry's name in the docker command's configuration."""


async def registry_headers(name: str, logins: Mapping[str, tuple[str, str]] | None = None) -> dict[str, str]:
    """Headers for pulling an image.

    Args:
        name: The image's name without tag: `registry/path`, or a path in the public registry.
        logins: User and password by registry, instead of the stored ones.

    Returns:
        `X-Registry-Auth`, or nothing without a stored login.
    """
    first, slash, _ = name.partition("/")
    registry = first if slash and ("." in first or ":" in first or first == "localhost") else _HUB
    if logins is not None and registry in logins:
        user, password = logins[registry]
        return _header({"username": user, "password": password}, registry)
    _, config = docker_config()
    login: dict[str, str] | None = None
    if helper := _mapping(config.get("credHelpers")).get(registry) or config.get("credsStore"):
        login = await _ask_helper(str(helper), registry)
    if login is None:
        login = _kept(_mapping(config.get("auths")), registry)
    return _header(login, registry) if login is not None else {}


def _header(login: dict[str, str], registry: str) -> dict[str, str]:
    content = json.dumps({**login, "serveraddress": registry}).encode()
    return {"X-Registry-Auth": base64.urlsafe_b64encode(content).decode()}


def _kept(entries: dict[str, Any], registry: str) -> dict[str, str] | None:
    entry = _mapping(entries.get(registry) or entries.get(f"https://{registry}"))
    try:
        user, colon, password = base64.b64decode(str(entry.get("auth") or "")).decode().partition(":")
    except ValueError:
        return None
    return {"username": user, "password": password.rstrip("\0")} if colon else None


async def _ask_helper(helper: str, registry: str) -> dict[str, str] | None:
    try:
        with anyio.fail_after(_HELPER_SECONDS):
            done = await anyio.run_process(
                [f"docker-credential-{helper}", "get"],
                input=registry.encode(),
                stderr=subprocess.DEVNULL,
                check=False,
            )
        kept = _mapping(json.loads(done.stdout)) if done.returncode == 0 else {}
    except (OSError, TimeoutError, ValueError):
        return None
    if not kept.get("Secret"):
        return None
    if kept.get("Username") == "<token>":
        return {"identitytoken": str(kept["Secret"])}
    return {"username": str(kept.get("Username") or ""), "password": str(kept["Secret"])}


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
