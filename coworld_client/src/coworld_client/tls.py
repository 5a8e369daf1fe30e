"""Whom to trust when a connection is encrypted, and in words why one was not made."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from coworld_core.errors import UsageError
from coworld_core.hints import Hint
from coworld_core.rules.seat_wire import CA_ENV, CLIENT_CERT_ENV

if TYPE_CHECKING:
    import ssl

__all__ = ["SHOW_CERTIFICATE", "tls_context", "tls_problem"]

SHOW_CERTIFICATE = Hint(
    "show_certificate",
    "If it asks for a certificate of yours, show it: ssl=tls_context(certificate=FILE, key=FILE), or "
    "COWORLD_CLIENT_CERT=FILE with both in it.",
)
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
"""What OpenSSL calls an answer that is not TLS, by version."""


def tls_context(
    *,
    ca: str | os.PathLike[str] | None = None,
    certificate: str | os.PathLike[str] | None = None,
    key: str | os.PathLike[str] | None = None,
) -> ssl.SSLContext:
    """Return what a client needs for TLS: this machine's authorities, one of its own, and its own certificate.

    This machine's authorities are those of the system, or those that `SSL_CERT_FILE` and `SSL_CERT_DIR` name.

    Args:
        ca: A file with certificates of further authorities, as PEM. None: the one that `COWORLD_CA_FILE` names, if any.
        certificate: A file with a certificate to show to servers that ask for one, as PEM. None: the one that
            `COWORLD_CLIENT_CERT` names, if any.
        key: A file with its private key as PEM; None: it is in the certificate's file.

    Raises:
        UsageError: A file cannot be used (`bad_certificate`).
    """
    import ssl

    context = ssl.create_default_context()
    authority = ca or os.environ.get(CA_ENV)
    if authority:
        try:
            context.load_verify_locations(authority)
        except (OSError, ValueError) as error:
            raise _unusable(error, f"certificate of an authority in {os.fspath(authority)}") from error
    if key is not None and certificate is None:
        raise UsageError("A private key needs its certificate.", code="bad_certificate")
    if certificate := certificate or os.environ.get(CLIENT_CERT_ENV):
        try:
            # Without a password of our own, an encrypted key would ask for one at the terminal
            context.load_cert_chain(certificate, key, b"")
        except (OSError, ValueError) as error:
            raise _unusable(error, f"certificate and key in {os.fspath(certificate)}") from error
    return context


def _unusable(error: Exception, what: str) -> UsageError:
    import ssl

    why = "it is not PEM, or has a password" if isinstance(error, ssl.SSLError) else getattr(error, "strerror", None)
    return UsageError(f"There is no {what}: {why or error}.", code="bad_certificate")


def tls_problem(error: BaseException | None) -> tuple[str, str] | None:
    """Return why TLS has failed, as a clause, and what to do; None if the error is not one of TLS."""
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        return _distrust(error)
    if not isinstance(error, ssl.SSLError):
        return None
    reason = error.reason or str(error)
    if reason in _NO_TLS:
        return "it does not speak TLS", "Is it http:// or ws:// instead?"
    if "CERTIFICATE_REQUIRED" in reason or "UNKNOWN_CA" in reason or "BAD_CERTIFICATE" in reason:
        return "it asks for a certificate of yours, and accepts none that was shown", SHOW_CERTIFICATE
    return reason.replace("_", " ").lower(), "Do both ends have a recent version of TLS?"


def _distrust(error: ssl.SSLCertVerificationError) -> tuple[str, str]:
    # Numbers of OpenSSL
    match error.verify_code:
        case 10:
            return "its certificate has expired", "Whoever runs it has to renew it. Is this machine's clock right?"
        case 9:
            return "its certificate is not valid yet", "Is this machine's clock right?"
        case 62 | 64:
            return (
                "its certificate is for another name",
                "Use a name that the certificate has, or have whoever runs it announce that name.",
            )
        case _:
            return (
                "its certificate is from no authority that this machine trusts",
                Hint(
                    "trust_authority",
                    "If you trust that authority, name the file with its certificate in COWORLD_CA_FILE, or in "
                    "ssl=tls_context(ca=FILE).",
                ),
            )
