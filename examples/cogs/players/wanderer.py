"""Walks anywhere: the first opponent."""


def act(observation, legal, rng):
    """Make any move."""
    return rng.choice(legal)
