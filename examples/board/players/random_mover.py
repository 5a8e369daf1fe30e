"""Makes any legal move: the first opponent."""


def act(observation, legal, rng):
    """Make any legal move."""
    return rng.choice(legal)
