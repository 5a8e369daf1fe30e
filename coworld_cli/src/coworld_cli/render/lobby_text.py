"""A lobby for people: its state, its seats, and the next step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .results import labelled
from .rows import Column, cell, rows_table, status_word, when
from .text import command_line, labels_line

if TYPE_CHECKING:
    from coworld_core.api import Lobby, LobbySeat

__all__ = ["lobby_details"]

_SEATS: tuple[Column[LobbySeat], ...] = (
    Column("Seat", lambda seat: seat.position, right=True),
    Column("For", lambda seat: seat.kind),
    Column("Name", lambda seat: seat.claimant_label or seat.player_name or seat.player_id),
    Column("", lambda seat: "you" if seat.is_me else "open" if seat.can_claim else ""),
)


def lobby_details(lobby: Lobby) -> str:
    """A lobby with its seats."""
    game = None if lobby.status.is_terminal else lobby.session_id
    lines = [
        ("Lobby", lobby.id),
        ("Status", status_word(lobby.status)),
        ("Revision", lobby.revision),
        ("Host", lobby.host_name or lobby.host_user_id),
        ("League", lobby.league_id),
        ("Coworld", f"{lobby.coworld_name} {lobby.coworld_version}"),
        ("Variant", lobby.variant_id),
        ("Expires", when(lobby.expires_at) if lobby.status == "draft" else None),
        ("Error", lobby.error),
        ("Episode", lobby.episode_request_id),
        ("Take your seat", command_line("hosted-game", "join", game) if game else None),
        ("Labels", labels_line(lobby.tags)),
        ("Page", lobby.page_url),
    ]
    shown = labelled([(label, text) for label, value in lines if (text := cell(value)) != "-"], indent="")
    return f"{shown}\n\n{rows_table(_SEATS, lobby.seats)}"
