"""Infers the services that players call from the names of their secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from ..web.proxies.https_proxy import HTTPS, host_problem

__all__ = ["CalledServices", "find_called_services"]

_ACCESS = re.compile(r"_(KEY|TOKEN)(_BEDROCK)?$")
"""Suffixes of variables that give a program access to a service."""
_ADDRESS = re.compile(r"_(BASE_URL|API_BASE)$")
"""Suffixes of variables that contain a service's address."""
_HOSTS = {
    "ANTHROPIC": "api.anthropic.com",
    "DEEPSEEK": "api.deepseek.com",
    "GEMINI": "generativelanguage.googleapis.com",
    "GROQ": "api.groq.com",
    "MISTRAL": "api.mistral.ai",
    "OPENAI": "api.openai.com",
    "OPENROUTER": "openrouter.ai",
}
"""Hosts of services, by a word in the names of their variables."""
_BEDROCK = "USE_BEDROCK"


@dataclass(frozen=True, kw_only=True)
class CalledServices:
    """The services that players can call, and their addresses."""

    secrets: tuple[str, ...] = ()
    """The secrets that give access to services, in words; empty: there are none."""
    hosts: tuple[str, ...] = ()
    """Hosts that are reached by HTTPS."""
    unlisted: tuple[str, ...] = ()
    """Addresses that a list of HTTPS hosts cannot contain: another port, another protocol, or no public name."""
    unknown: bool = False
    """Whether the address of some service is unknown."""


def find_called_services(secrets: Mapping[str, str]) -> CalledServices:
    """Infer the services that players can call.

    Args:
        secrets: Their secrets. Only the values of addresses, regions and `USE_BEDROCK` are read.
    """
    names = {name.upper(): value for name, value in secrets.items()}
    addresses = {_ADDRESS.sub("", name): url for name, url in names.items() if _ADDRESS.search(name)}
    bedrock = names.get(_BEDROCK, "").lower() == "true"
    told: dict[str, None] = {}
    hosts: dict[str, None] = {}
    unlisted: dict[str, None] = {}
    unknown = False
    for name in names:
        if not _ACCESS.search(name) and not _ADDRESS.search(name):
            continue
        of_aws = bedrock and name.startswith("AWS_")
        told["credentials for Bedrock" if of_aws else name] = None
        prefix = next((known for known in addresses if name.startswith(f"{known}_")), None)
        if prefix is not None:
            host, listed = _host(addresses[prefix])
            (hosts if listed else unlisted)[host] = None
        elif of_aws or "BEDROCK" in name:
            region = names.get("AWS_REGION") or names.get("AWS_DEFAULT_REGION") or "REGION"
            hosts[f"bedrock-runtime.{region}.amazonaws.com"] = None
        elif found := [host for word, host in _HOSTS.items() if word in name]:
            hosts[found[0]] = None
        else:
            unknown = True
    return CalledServices(secrets=tuple(told), hosts=tuple(hosts), unlisted=tuple(unlisted), unknown=unknown)


def _host(url: str) -> tuple[str, bool]:
    """Return a service's host, or its address if that is not HTTPS; and whether a list of hosts can contain it."""
    try:
        parts = urlsplit(url if "://" in url else f"https://{url}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "an address that is not a URL", False
    if parts.scheme == "https" and port in (None, HTTPS) and not host_problem(host):
        return host, True
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}", False
