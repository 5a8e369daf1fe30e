"""Believes everyone and accepts every offer."""

import re

GOODS = ("Wheat", "Wood", "Sheep", "Brick", "Ore")


def act(observation, legal, rng):
    """Cooperate, accept, or raise the bid by one."""
    game, view = observation["game"], observation["view"]
    if game.startswith("IteratedPrisonersDilemma"):
        return "[Cooperate]" if decides(view) else "Let us both cooperate, this time and every time."
    if game.startswith("SimpleNegotiation"):
        give, take = rng.sample(GOODS, 2)
        return f"Gladly! [Accept] And how about this? [Offer: 1 {give} -> 1 {take}]"
    count, face = bid(view)
    if count >= sum(dice_left(view)):
        return "That cannot be. [Call]"
    return f"At least one more. [Bid: {count + 1}, {face}]"


def decides(view):
    """Tell whether the talk of this round of the dilemma is over."""
    return view.rpartition("[GAME] ")[2].startswith("Conversation finished")


def bid(view):
    """Return the current bid in a round of Liar's Dice as count and face; without a bid, no dice of face 1."""
    found = re.findall(r"bids (\d+) of face (\d)", view.rpartition("New round")[2])
    return tuple(map(int, found[-1])) if found else (0, 1)


def dice_left(view):
    """Return how many dice each seat has."""
    return [int(count) for count in re.findall(r"Player \d+: (\d+)", view.rpartition("Remaining dice:")[2])]
