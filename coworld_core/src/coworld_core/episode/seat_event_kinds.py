"""Kinds of events that describe what a seat did (`seat_behaviour`), apart: a game that writes them needs no more."""

from __future__ import annotations

__all__ = ["ACTED", "IDLE", "REFUSED", "REWARD"]

ACTED, IDLE, REFUSED, REWARD = "acted", "idle", "refused", "reward"
