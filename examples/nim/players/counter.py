"""Leaves a multiple of four, if it can: never loses from a good start."""


def act(observation, legal, rng):
    """Takes what is more than a multiple of four; where nothing is, it is lost anyway."""
    spare = observation["left"] % 4
    return {"take": spare} if spare else rng.choice(legal)
