"""Leaves a multiple of four if it can, and so never loses from a good start."""


def act(observation, legal, rng):
    """Take the remainder of a division by four; without a remainder, any move is as bad as another."""
    spare = observation["left"] % 4
    return {"take": spare} if spare else rng.choice(legal)
