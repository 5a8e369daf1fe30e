"""An HTTPS server in a container, at an address that is neither private nor an address of this machine."""

from __future__ import annotations

import secrets
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .certificates import self_signed
from .images import docker_client

__all__ = ["HttpsServer", "https_server"]

_SERVES = """
import os, socket, ssl, tempfile
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
with tempfile.NamedTemporaryFile("w") as file:
    file.write(os.environ["PEM"])
    file.flush()
    context.load_cert_chain(file.name)
names = {}
context.sni_callback = lambda connection, name, _: names.update({connection: name})
listener = socket.create_server(("", 443))
plain = socket.create_server(("", 80))
while True:
    connection, _ = listener.accept()
    try:
        with context.wrap_socket(connection, server_side=True) as tls:
            tls.recv(4096)
            body = f"hello {names.get(tls)}".encode()
            tls.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
    except OSError as error:
        print(error, flush=True)
"""


@dataclass(frozen=True)
class HttpsServer:
    """A running server."""

    address: str
    """Its IP address, which is not an address of this machine."""
    certificate: str
    """Its self-signed certificate, as PEM."""
    inside: str
    """One of its names, which resolves to an address of a private network after `join`."""
    network: Any
    container: Any

    def join(self, run_id: str) -> None:
        """Let the proxy of a run find the server: by its public address, and by `inside` in the run's network."""
        client = docker_client()
        self.network.connect(f"coworld-{run_id}-https-proxy")
        client.networks.get(f"coworld-{run_id}-open").connect(self.container, aliases=[self.inside])


@contextmanager
def https_server(image: str, *names: str, inside: str) -> Generator[HttpsServer]:
    """Run a server with these names in its network; each answer contains the name that the client asked for.

    Args:
        image: Any image with Python.
        names: The server's names.
        inside: A further name, for `HttpsServer.join`.
    """
    from docker.types import IPAMConfig, IPAMPool

    client = docker_client()
    certificate, key = self_signed(*names, inside)
    name = f"coworld-test-{secrets.token_hex(4)}"
    # Public addresses are harmless here: the network is internal, and is removed after the test.
    subnet = f"11.{secrets.randbelow(256)}.{secrets.randbelow(256)}.0/29"
    network = client.networks.create(name, internal=True, ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=subnet)]))
    container = None
    try:
        container = client.containers.create(
            image,
            ["python3", "-u", "-c", _SERVES],
            name=name,
            entrypoint=[],
            user="0",
            environment={"PEM": (certificate + key).decode()},
            network=name,
            networking_config={name: client.api.create_endpoint_config(aliases=list(names))},
        )
        container.start()
        container.reload()
        address = container.attrs["NetworkSettings"]["Networks"][name]["IPAddress"]
        yield HttpsServer(address, certificate.decode(), inside, network, container)
    finally:
        if container is not None:
            container.remove(force=True)
        network.remove()
