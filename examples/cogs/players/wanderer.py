"""Walks at random: an easy first opponent."""


def act(observation, legal, rng):
    """Make any move."""
    return rng.choice(legal)
