"""Believes everybody, and takes whatever is offered."""

import re

GOODS = ("Wheat", "Wood", "Sheep", "Brick", "Ore")


def act(observation, legal, rng):
    """Say yes."""
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
    """Whether the talk of this round of the dilemma is over."""
    return view.rpartition("[GAME] ")[2].startswith("Conversation finished")


def bid(view):
    """The bid that stands in a round of Liar's Dice: how many, of which face; none of ones where there is none."""
    found = re.findall(r"bids (\d+) of face (\d)", view.rpartition("New round")[2])
    return tuple(map(int, found[-1])) if found else (0, 1)


def dice_left(view):
    """How many dice each seat has."""
    return [int(count) for count in re.findall(r"Player \d+: (\d+)", view.rpartition("Remaining dice:")[2])]
