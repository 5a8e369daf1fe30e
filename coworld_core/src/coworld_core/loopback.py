"""Whether a host is this machine alone."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address

__all__ = ["is_loopback"]


def is_loopback(host: str, *, subdomains: bool = False) -> bool:
    """Whether only this machine is reached at a host; nothing is resolved.

    Args:
        host: An address, also of IPv6 in brackets, or a name. Only `localhost` is a name of this machine.
        subdomains: Whether `*.localhost` counts too. Not every resolver keeps such names here, so they may be what is
            refused, not what is trusted.
    """
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        name = host.lower().removesuffix(".")
        return name == "localhost" or (subdomains and name.endswith(".localhost"))
    inner = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (inner or address).is_loopback
