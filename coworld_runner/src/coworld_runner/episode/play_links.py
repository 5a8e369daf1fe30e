"""A game's entry points: its extra ports, and the links that a browser opens."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from coworld_core.ports import ExtraPort

from ..backend import Placement, Port, Unit
from . import contract_probes

__all__ = ["PlayLinks", "extra_port_environment", "extra_unit_ports", "play_links"]


@dataclass(frozen=True, kw_only=True)
class PlayLinks:
    """The links of a running game. Player links hold tokens: show them, never log them."""

    players: Mapping[int, str] = field(repr=False)
    """The page of each slot."""
    viewer: str
    """The public live page."""
    admin: str | None = None
    """The admin page, if it was requested."""
    local_ports: Mapping[int, str] = field(default_factory=dict[int, str])
    """`host:port` of each extra port, by its number in the game."""

    @property
    def address(self) -> str:
        """The game's `host:port`."""
        return urlsplit(self.viewer).netloc

    def at(self, base: str) -> PlayLinks:
        """Return the links by which others reach the game through a gateway.

        Args:
            base: What they begin with (`Gateway.base`). The admin page and extra ports are for this machine only.
        """

        def moved(link: str) -> str:
            return base + link.removeprefix(f"http://{self.address}")

        players = {slot: moved(link) for slot, link in self.players.items()}
        return replace(self, players=players, viewer=moved(self.viewer))


def extra_unit_ports(extra: Sequence[ExtraPort]) -> tuple[Port, ...]:
    """Return a unit's ports for the extra ports a game declares; their numbers in the game are fixed."""
    return tuple(
        Port(name=_name(port.container), number=port.container, host_port=port.host or 0, fixed=True) for port in extra
    )


def extra_port_environment(placement: Placement, extra: Sequence[ExtraPort]) -> dict[str, str]:
    """Return `COWORLD_LOCAL_PORT_<n>` for each extra port and `COWORLD_LOCAL_PORTS_JSON` for all of them."""
    if not extra:
        return {}
    here = {port.container: placement.endpoints[_name(port.container)].here for port in extra}
    listing = {
        str(number): {"host": address.rpartition(":")[0], "port": int(address.rpartition(":")[2])}
        for number, address in here.items()
    }
    return {
        **{f"COWORLD_LOCAL_PORT_{number}": address for number, address in here.items()},
        "COWORLD_LOCAL_PORTS_JSON": json.dumps(listing, sort_keys=True, separators=(",", ":")),
    }


def play_links(
    game: Unit,
    dialect: contract_probes.Dialect,
    tokens: Sequence[str],
    *,
    admin: bool,
    extra: Sequence[ExtraPort],
    door: Unit | None = None,
) -> PlayLinks:
    """Build the links of a running game.

    Args:
        game: The game.
        dialect: Its routes.
        tokens: The token of each seat.
        admin: Whether its admin page was requested.
        extra: Its extra ports.
        door: The unit that players connect to; None: the game.
    """
    base, players = f"http://{game.endpoint().here}", f"http://{(door or game).endpoint().here}"
    return PlayLinks(
        players={
            slot: players + dialect.page("player", contract_probes.seat_query(slot, token))
            for slot, token in enumerate(tokens)
        },
        viewer=base + dialect.page("global"),
        admin=base + dialect.page("admin") if admin else None,
        local_ports={port.container: game.endpoint(_name(port.container)).here for port in extra},
    )


def _name(number: int) -> str:
    return f"port-{number}"
