"""Where others reach a game that is served here: the address to listen on, the one to announce, and its certificate."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from coworld_core.errors import UsageError
from coworld_core.hints import Hint
from coworld_core.loopback import is_loopback

__all__ = ["PublicAddress"]

_PAGES: Final = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
"""The scheme of pages, by the scheme of an announced address."""


@dataclass(frozen=True, kw_only=True)
class PublicAddress:
    """Where a game is served for other machines.

    Nothing is guessed: which of a machine's addresses others can reach is known to its operator only.

    Args:
        host: The address or name to listen on; `0.0.0.0` and `::` are all addresses of this machine.
        port: The port to listen on; 0: any free one.
        announced: What links begin with: a URL (`wss://games.example:8443`, `https://games.example/room`), or only a
            name or an address, with the port that is listened on. None: the host.
        certificate: A file with the certificate, and those that lead to its authority, as PEM. None: no TLS.
        key: A file with its private key as PEM; None: it is in the certificate's file.
        plain: Whether tokens may travel to other machines without TLS.

    Raises:
        UsageError: All addresses are listened on and none is announced (`announce_missing`), the announced one is none
            (`bad_announce`), tokens would travel without TLS (`tls_required`), or there is a key without a certificate.
    """

    host: str
    port: int = 0
    announced: str | None = None
    certificate: Path | None = None
    key: Path | None = None
    plain: bool = False

    def __post_init__(self) -> None:
        if self.key is not None and self.certificate is None:
            raise UsageError(
                "A private key needs its certificate.",
                code="certificate_missing",
                hint=Hint("give_certificate", "Give the certificate, too: PublicAddress(certificate=…)."),
            )
        if self.announced is None and _is_wildcard(self.host):
            raise UsageError(
                f"{self.host} stands for all addresses of this machine, and links need one that others reach.",
                code="announce_missing",
                hint=Hint("announce_address", "Name it: PublicAddress(announced='NAME'), or listen on that one only."),
            )
        base = urlsplit(self.base(1))
        here_only = is_loopback(self.host) and is_loopback(base.hostname or "")
        if not (here_only or base.scheme == "https" or self.plain):
            raise UsageError(
                "The tokens of the seats would travel to other machines without TLS, for all between to read.",
                code="tls_required",
                hint=Hint(
                    "serve_with_tls",
                    "Give a certificate and its key, announce the wss:// address of a proxy that has one, or allow it "
                    "with plain=True in a network that you trust.",
                ),
            )

    def base(self, port: int) -> str:
        """Return what links of pages begin with, without a slash at the end.

        Args:
            port: The port that is listened on.

        Raises:
            UsageError: What is announced is no address (`bad_announce`).
        """
        own = "https" if self.certificate is not None else "http"
        text = (self.announced or self.host).strip()
        try:
            if "://" not in text:
                host = text.strip("[]")
                if not host or any(character in host for character in "/?#@ ") or (":" in host and not _is_ip(host)):
                    raise ValueError
                return f"{own}://{f'[{host}]' if ':' in host else host}:{port}"
            url = urlsplit(text)
            # Reading the port checks it
            if url.scheme not in _PAGES or not url.hostname or url.query or url.fragment or url.port == 0:
                raise ValueError
            if url.username is not None or (own == "https" and _PAGES[url.scheme] == "http"):
                raise ValueError
        except ValueError:
            raise UsageError(
                f"{text!r} is no address to announce.",
                code="bad_announce",
                hint="It is the beginning of a link, such as wss://games.example:8443, or only a name or an address. "
                "With a certificate it is wss:// or https://.",
            ) from None
        return url._replace(scheme=_PAGES[url.scheme], path=url.path.rstrip("/")).geturl()

    def context(self) -> ssl.SSLContext | None:
        """Return what a server needs to speak TLS; None without a certificate.

        Raises:
            UsageError: The certificate or its key cannot be used (`bad_certificate`).
        """
        if self.certificate is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        # An encrypted key must not ask for its password at a terminal that perhaps nobody sees
        password = bytearray()

        def ask() -> bytes:
            password.append(1)
            return b""

        try:
            context.load_cert_chain(self.certificate, self.key, ask)
        except (OSError, ValueError) as error:
            # Before OSError, whose subclass it is
            if isinstance(error, ssl.SSLError):
                why = "they do not belong together" if error.reason == "KEY_VALUES_MISMATCH" else "they cannot be read"
                why = "the key has a password" if password else why
            else:
                why = getattr(error, "strerror", None) or str(error)
            named = " and ".join(str(path) for path in (self.certificate, self.key) if path is not None)
            raise UsageError(
                f"No certificate and key in {named}: {why}.",
                code="bad_certificate",
                hint="Both are PEM files; the key has no password. The certificate's file begins with the server's "
                "own, then come those that lead to its authority.",
            ) from error
        return context


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_wildcard(host: str) -> bool:
    return _is_ip(host) and ipaddress.ip_address(host).is_unspecified
