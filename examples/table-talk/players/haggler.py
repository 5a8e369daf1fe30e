"""A player that calculates: plays tit for tat, trades at a profit, and calls unlikely bids."""

import re
from math import comb

OFFER = re.compile(r"Player (\d) made the following offer .*Offered items: (.*) -> Requested items: (.*)")


def act(observation, legal, rng):
    """Play whichever game it is."""
    game, view = observation["game"], observation["view"]
    if game.startswith("IteratedPrisonersDilemma"):
        return dilemma(view)
    return negotiate(view, rng) if game.startswith("SimpleNegotiation") else bluff(view)


def dilemma(view):
    """Copy the other player's last move, but defect in the last round."""
    if not view.rpartition("[GAME] ")[2].startswith("Conversation finished"):
        return "I shall do to you as you have done to me."
    me = int(re.search(r"You are Player (\d)", view)[1])
    rounds, done = int(re.search(r"spanning (\d+) rounds", view)[1]), len(re.findall(r"Round \d+ results", view))
    last = view.rpartition("results:")[2]
    betrayed = done > 0 and ("Both players defected" in last or f"Player {1 - me} defected" in last)
    return "[Defect]" if betrayed or done == rounds - 1 else "[Cooperate]"


def negotiate(view, rng):
    """Accept a profitable offer, then offer a less valuable good for the most valuable one."""
    me = int(re.search(r"You are Player (\d)", view)[1])
    found = re.findall(r"\[(\w+)\]\s+Qty:\s*(\d+)\s+Value:\s*(\d+)", view)
    stock, value = {name: int(n) for name, n, _ in found}, {name: int(worth) for name, _, worth in found}
    standing = None
    for line in view.splitlines():
        if made := OFFER.search(line):
            gives, takes = (goods(made[2]), goods(made[3])) if int(made[1]) == me else (goods(made[3]), goods(made[2]))
            standing = (gives, takes, int(made[1]))
        elif standing and "accepted the trade" in line:
            for name in stock:
                stock[name] += standing[1].get(name, 0) - standing[0].get(name, 0)
            standing = None
    gives, takes, whose = standing or ({}, {}, me)
    words = ""
    if whose != me:
        gain = sum(value[name] * n for name, n in takes.items()) - sum(value[name] * n for name, n in gives.items())
        if gain > 0 and all(stock[name] >= n for name, n in gives.items()):
            words = "That suits me. [Accept] "
            for name in stock:
                stock[name] += takes.get(name, 0) - gives.get(name, 0)
    dear = max(value, key=lambda name: value[name])
    cheap = rng.choice([name for name in value if name != dear and stock[name]])
    least = value[dear] // (2 * value[cheap]) + 1
    return f"{words}This is fair to both of us. [Offer: {min(stock[cheap], least)} {cheap} -> 1 {dear}]"


def goods(text):
    """Parse `2 Wood, 1 Ore` into a count for each name."""
    return {name: int(n) for n, name in re.findall(r"(\d+) (\w+)", text)}


def bluff(view):
    """Call if the bid is less likely than not; otherwise make the most likely higher bid."""
    this = view.rpartition("Remaining dice:")[2]
    left = sum(int(count) for count in re.findall(r"Player \d+: (\d+)", this))
    own = [int(face) for face in re.search(r"current Dice are: ([\d, ]+)", this)[1].split(",")]
    found = re.findall(r"bids (\d+) of face (\d)", this)
    count, face = map(int, found[-1]) if found else (0, 1)
    if count and chance(count - own.count(face), left - len(own)) < 0.5:
        return "I doubt it. [Call]"
    bids = [(n, f) for f in range(face, 7) for n in (count, count + 1) if n and (n, f) != (count, face)]
    n, f = max(bids, key=lambda one: (chance(one[0] - own.count(one[1]), left - len(own)), -one[0], -one[1]))
    return f"I have seen worse. [Bid: {n}, {f}]"


def chance(needed, dice):
    """Return the probability that at least `needed` of `dice` unseen dice show a given face."""
    return sum(comb(dice, n) * 5 ** (dice - n) for n in range(max(0, needed), dice + 1)) / 6**dice
