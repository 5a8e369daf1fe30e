"""A proxy that lets players reach named HTTPS hosts and nothing else, and the syntax of host names.

An episode whose players may reach other hosts runs this beside them; their networks are closed, so the proxy is their
only way out. It answers `CONNECT HOST:443` for the hosts that its arguments name and forwards the bytes unchanged: TLS
stays between the player and the host.

The proxy resolves names itself and connects to the addresses that it has checked, so no name can lead into a private
network. It writes each refusal to standard output once, as a line of JSON.
"""

from __future__ import annotations

import ipaddress
import json
import re
import select
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler

from .limited_server import LimitedServer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["HTTPS", "LISTENS", "Proxy", "host_problem", "is_named", "is_public", "main"]

HTTPS = 443
LISTENS = 3128
"""The proxy's own port."""

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_UNICAST = ipaddress.ip_network("2000::/3")
"""The allocated IPv6 unicast range; other addresses may stand for different ones, such as IPv4 addresses."""
_CONNECT_SECONDS = 20.0
_IDLE_SECONDS = 900.0
"""A model may think for minutes without sending a byte."""
_MOST_LOGGED = 100
_MOST_EACH = 32
"""Maximum connections of one client at a time, so that no player can block the others."""
_CHUNK = 1 << 16


# --- how hosts are named ----------------------------------------------------------------------------------------


def host_problem(host: str) -> str:
    """Return why a text does not name an HTTPS host, and how to correct it; empty if it does.

    Args:
        host: The text, in lower case: `api.example.com`, or `*.example.com` for every name below that.
    """
    if "://" in host or "/" in host:
        return "is a URL: give the host's name alone, as in api.example.com."
    if ":" in host and not _is_address(host):
        return f"has a port: give the name alone; the port is always {HTTPS}."
    if _is_address(host):
        return "is an address: give a name, as in api.example.com."
    labels = host.split(".")
    if labels[0] == "*":
        labels = labels[1:]
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        return "is not a host name: give one as in api.example.com, or *.example.com for all below it."
    if len(labels) < 2:
        return "is too short: name a host with its domain, as in api.example.com."
    return ""


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        # IPv4 addresses have other notations, too: 127.1, 0x7f.1
        return bool(re.fullmatch(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*", text))
    return True


def is_named(host: str, hosts: Iterable[str]) -> bool:
    """Return whether a list of hosts names this one."""
    name = host.lower()
    name = name[:-1] if name.endswith(".") else name
    return any(name == entry or (entry.startswith("*.") and name.endswith(entry[1:])) for entry in hosts)


def is_public(address: str) -> bool:
    """Return whether an IP address is public: not private, loopback or link-local, and not standing for another one."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address) and (ip not in _UNICAST or ip.sixtofour or ip.teredo):
        return False
    return ip.is_global and not ip.is_multicast


# --- the proxy --------------------------------------------------------------------------------------------------


class _Refused(Exception):
    """A host that may not be reached; the message says why."""


class Proxy(LimitedServer):
    """The proxy's server.

    Args:
        address: The address to listen on.
        hosts: The hosts that may be reached.
    """

    def __init__(self, address: tuple[str, int], hosts: Sequence[str]) -> None:
        super().__init__(address, _Handler, _MOST_EACH)
        self.hosts = tuple(hosts)
        self._logged: set[tuple[str, str]] = set()
        self._telling = threading.Lock()

    def tell_too_many(self, most: int) -> None:
        """Report that a client has opened too many connections."""
        self.tell(f"more than {most} connections at a time", "are not allowed for one player")

    def tell(self, target: str, why: str) -> None:
        """Report a refusal, once."""
        target = re.sub(r"[^ -~]", "?", target)[:300]
        with self._telling:
            if (target, why) not in self._logged and len(self._logged) < _MOST_LOGGED:
                self._logged.add((target, why))
                sys.stdout.write(json.dumps({"refused": target, "why": why}) + "\n")
                sys.stdout.flush()


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    # A client may send more than the request at once: what follows it must stay in the socket
    rbufsize = 0
    timeout = _IDLE_SECONDS

    @property
    def _proxy(self) -> Proxy:
        assert isinstance(self.server, Proxy)
        return self.server

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: standard output is for refusals only."""

    def do_GET(self) -> None:
        """Answer the health check; refuse every other plain request."""
        if self.path == "/healthz":
            self._answer(200, "ready")
        else:
            self._refuse(self.path, "is not HTTPS, and only HTTPS is allowed")

    def do_CONNECT(self) -> None:
        """Open a tunnel to a named host."""
        try:
            upstream = self._reach()
        except _Refused as error:
            self._refuse(self.path, str(error))
            return
        except OSError as error:
            self._answer(502, f"{self.path} cannot be reached: {error}")
            return
        self.close_connection = True
        with upstream:
            self.send_response(200, "Connection established")
            self.end_headers()
            _pass_on(self.connection, upstream)

    def _reach(self) -> socket.socket:
        host, _, port = self.path.rpartition(":")
        if not is_named(host, self._proxy.hosts):
            raise _Refused("is not one of the hosts that players may reach")
        if port != str(HTTPS):
            raise _Refused(f"is not port {HTTPS}, and only that one is open")
        try:
            found = socket.getaddrinfo(host, HTTPS, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise OSError(f"its name cannot be resolved ({error})") from error
        addresses = [str(entry[4][0]) for entry in found]
        public = [address for address in addresses if is_public(address)]
        if not public:
            raise _Refused(f"leads to {addresses[0]}, which is not a public address")
        for address in public[:-1]:
            try:
                return socket.create_connection((address, HTTPS), timeout=_CONNECT_SECONDS)
            except OSError:
                continue
        return socket.create_connection((public[-1], HTTPS), timeout=_CONNECT_SECONDS)

    def _refuse(self, target: str, why: str) -> None:
        self._proxy.tell(target, why)
        self._answer(403, f"{target} {why}.")

    def _answer(self, status: int, message: str) -> None:
        body = f"{message}\n".encode()
        self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    """Forward bytes in both directions until both sides have ended, one breaks, or both are idle for too long."""
    for end in (one, other):
        end.settimeout(_IDLE_SECONDS)
    target = {one: other, other: one}
    reading = [one, other]
    while reading:
        ready, _, _ = select.select(reading, [], [], _IDLE_SECONDS)
        if not ready:
            return
        for source in ready:
            try:
                data = source.recv(_CHUNK)
                if data:
                    target[source].sendall(data)
                else:
                    reading.remove(source)
                    target[source].shutdown(socket.SHUT_WR)
            except OSError:
                return


def main() -> None:
    """Serve the hosts that the arguments name, until killed."""
    Proxy(("", LISTENS), sys.argv[1:]).serve_forever()
