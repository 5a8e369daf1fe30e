"""Options for games that others reach: from which machines, by which address, and with which certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .declarations import Options, option
from .values import FILE, HostAndPort

if TYPE_CHECKING:
    from pathlib import Path

    from coworld_runner.web import PublicAddress

__all__ = ["ServingOptions"]

_SECTION = "Players on other machines"
_HERE = "127.0.0.1"


class ServingOptions(Options):
    """Where a game is served."""

    host: str = option(
        "--host",
        section=_SECTION,
        default=_HERE,
        show_default=True,
        metavar="ADDRESS",
        help="Address of this machine to listen on; 0.0.0.0: all of them.",
    )
    port: int = option(
        "--port",
        section=_SECTION,
        default=0,
        type=click.IntRange(0, 65535),
        metavar="N",
        help="Port to listen on.  [default: any]",
    )
    announce: str | None = option(
        "--announce",
        section=_SECTION,
        metavar="URL|NAME",
        help="Address in the links: wss://NAME:PORT, or a name or address with the port that is listened on.  "
        "[default: that of --host]",
    )
    tls_cert: Path | None = option(
        "--tls-cert",
        section=_SECTION,
        type=FILE,
        metavar="FILE",
        help="Certificate for that address, as PEM, followed by those that lead to its authority.",
    )
    tls_key: Path | None = option(
        "--tls-key",
        section=_SECTION,
        type=FILE,
        metavar="FILE",
        help="Its private key, as PEM.  [default: in the certificate's file]",
    )
    no_tls: bool = option(
        "--no-tls",
        section=_SECTION,
        is_flag=True,
        default=False,
        help="Let the seats' tokens travel unencrypted, in a network that you trust.",
    )
    metrics: tuple[str, int] | None = option(
        "--metrics",
        section=_SECTION,
        type=HostAndPort(),
        metavar="[HOST:]PORT",
        help="Show metrics for Prometheus at /metrics and the state at /healthz, to whoever reaches this address.",
    )

    def check(self) -> None:
        """Check that the options fit together."""
        if self.no_tls and self.tls_cert is not None:
            raise click.UsageError("--no-tls and --tls-cert exclude each other.", click.get_current_context())

    def at_least_here(self) -> PublicAddress:
        """Where the game is reached, on this machine if nowhere else."""
        from coworld_runner.web import PublicAddress

        return self.public or PublicAddress(host=_HERE, port=self.port)

    @property
    def public(self) -> PublicAddress | None:
        """Where the game is reached by others, or measured; None if neither is asked for.

        Raises:
            UsageError: There is no such address, or tokens would travel without TLS.
        """
        if self.host == _HERE and not (self.announce or self.tls_cert or self.tls_key or self.metrics):
            return None
        from coworld_runner.web import PublicAddress

        return PublicAddress(
            host=self.host,
            port=self.port,
            announced=self.announce,
            certificate=self.tls_cert,
            key=self.tls_key,
            plain=self.no_tls,
        )
