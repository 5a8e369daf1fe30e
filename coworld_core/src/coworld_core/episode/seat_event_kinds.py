"""Kinds of events that describe what a seat did (`seat_behaviour`), apart: a game that writes them needs no more."""

from __future__ import annotations

__all__ = ["ACTED", "IDLE", "REFUSED", "REWARD", "SAID"]

ACTED, IDLE, REFUSED, REWARD, SAID = "acted", "idle", "refused", "reward", "said"
