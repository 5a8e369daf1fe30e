"""Certificates: self-signed ones, and those of an authority of one's own."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
import tempfile
from pathlib import Path
from typing import Any

__all__ = ["Authority", "self_signed", "untrusted_server"]


def untrusted_server() -> ssl.SSLContext:
    """What a server at 127.0.0.1 needs to serve https with a certificate that nobody vouches for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(b"".join(self_signed()))
        file.flush()
        context.load_cert_chain(file.name)
    return context


def self_signed(*names: str) -> tuple[bytes, bytes]:
    """Create a certificate for 127.0.0.1 and further names; returns it and its private key as PEM."""
    key = _new_key()
    return _issued("127.0.0.1", ("127.0.0.1", *names), key, None, days=1), _pem(key)


class Authority:
    """An authority of one's own.

    Args:
        directory: Where its files are written.

    Attributes:
        file: Its certificate, which whoever trusts it needs.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = _new_key()
        certificate = _issued("A test's authority", (), self._key, None, days=1, vouches=True)
        self.file = directory / "authority.pem"
        self.file.write_bytes(certificate)

    def issue(self, *names: str, days: int = 1) -> Path:
        """Write a certificate for names and addresses, followed by its private key.

        Args:
            names: What it is for.
            days: For how long it is valid; a negative number: for how long it has not been.
        """
        key = _new_key()
        path = self._directory / f"{names[0]}{days}.pem"
        issued = _issued(names[0], names, key, (self._key, "A test's authority"), days=days)
        path.write_bytes(issued + _pem(key))
        return path

    def server(self, *names: str, days: int = 1) -> ssl.SSLContext:
        """What a server with such a certificate needs."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.issue(*names, days=days))
        return context


def _new_key() -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _issued(
    subject: str,
    names: tuple[str, ...],
    key: Any,
    by: tuple[Any, str] | None,
    *,
    days: int,
    vouches: bool = False,
) -> bytes:
    """A certificate as PEM, signed by another key in another's name, or by its own."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization

    signer, issuer = by or (key, subject)
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=10))
        .not_valid_after(now + dt.timedelta(days=days))
    )
    if vouches:
        # Python 3.13 and later insist on all of these
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            **dict.fromkeys(
                (
                    *("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
                    *("encipher_only", "decipher_only"),
                ),
                False,
            ),
        )
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), True).add_extension(usage, True)
    if by is not None or vouches:
        made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False).add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False
        )
    if names:
        made = made.add_extension(x509.SubjectAlternativeName([_name(name) for name in names]), False)
    return made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _name(text: str) -> Any:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _pem(key: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
