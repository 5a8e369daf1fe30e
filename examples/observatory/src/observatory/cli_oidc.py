"""Options of signing in by an OpenID Connect provider."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from coworld_core.errors import UsageError

from .settings import OidcProvider

__all__ = ["signs_in"]

_SECRET = "OBSERVATORY_OIDC_SECRET"  # noqa: S105 - the variable's name


def signs_in(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a provider to a command, which takes `oidc`, None without one."""

    def option(name: str, *more_names: str, **more: Any) -> Callable[..., Any]:
        variable = f"OBSERVATORY_{name[2:].upper().replace('-', '_')}"
        return click.option(name, *more_names, envvar=variable, show_envvar=True, **more)

    @option("--oidc-issuer", metavar="URL", help="Let people sign in by this OpenID Connect provider.")
    @option("--oidc-client-id", metavar="ID", help="What the provider calls this server.")
    @option(
        "--oidc-secret-file",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help=f"The secret that the provider gave this server; or in the variable {_SECRET}.  [default: none, PKCE "
        "alone]",
    )
    @option("--oidc-name", metavar="NAME", help="What people call the provider.  [default: its host]")
    @option(
        "--oidc-domain",
        "oidc_domains",
        multiple=True,
        metavar="DOMAIN",
        help="Only verified e-mail addresses of this domain sign in. May be repeated.  [default: all]",
    )
    @option(
        "--oidc-register",
        is_flag=True,
        help="Give an account to everybody of the provider, not only to those whose e-mail an account has.",
    )
    @functools.wraps(function)
    def wrapped(
        *args: Any,
        oidc_issuer: str | None,
        oidc_client_id: str | None,
        oidc_secret_file: Path | None,
        oidc_name: str | None,
        oidc_domains: tuple[str, ...],
        oidc_register: bool,
        **kwargs: Any,
    ) -> Any:
        if oidc_issuer is None:
            if oidc_client_id or oidc_secret_file or oidc_name or oidc_domains or oidc_register:
                raise click.UsageError("The options --oidc-… go with --oidc-issuer, which names the provider.")
            return function(*args, oidc=None, **kwargs)
        if oidc_client_id is None:
            raise click.UsageError("--oidc-issuer needs --oidc-client-id: what the provider calls this server.")
        oidc = OidcProvider(
            issuer=oidc_issuer,
            client_id=oidc_client_id,
            client_secret=_secret(oidc_secret_file),
            name=oidc_name or urlsplit(oidc_issuer).hostname or oidc_issuer,
            domains=oidc_domains,
            register=oidc_register,
        )
        return function(*args, oidc=oidc, **kwargs)

    return wrapped


def _secret(file: Path | None) -> str | None:
    """The secret in a file or the environment.

    Raises:
        UsageError: The file cannot be read, or has none (code `bad_file`).
    """
    if file is None:
        return os.environ.get(_SECRET) or None
    try:
        secret = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UsageError(f"{file} cannot be read: {said}.", code="bad_file") from error
    if not secret:
        raise UsageError(f"{file} is empty.", code="bad_file", hint="Write the provider's client secret into it.")
    return secret
